// Gradients and loops, which the client library builds.
#include "client/autodiff/gradients.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <unordered_map>

#include "capi/handles.h"
#include "client/control/control_flow.h"
#include "graph/builder.h"
#include "graph/graphdef.h"

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

// The graph that this thread builds into, locked, until this is destroyed.
class BuildingIn {
 public:
  explicit BuildingIn(TF_Graph& g) : lock_(g.mutex()), use_(g), g_(g) {
    g.ForgetReaders();
  }
  // Builders record errors in the graph, where they would fail later steps.
  ~BuildingIn() { g_.ClearErrors(); }
  BuildingIn(const BuildingIn&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  WithGraph use_;
  TF_Graph& g_;
};

Result<std::vector<Output>> OutputsOf(const Graph& g, const TF_Output* list,
                                      int n, const char* what) {
  SLUICE_RETURN_IF_ERROR(GivenArray(list, n, what));
  std::vector<Output> all;
  for (int i = 0; i < n; ++i) {
    SLUICE_RETURN_IF_ERROR(
        CheckOutput(g, list[i], absl::StrCat(what, "[", i, "]").c_str()));
    all.push_back(capi::FromC(list[i]));
  }
  return all;
}

Status CheckPrefix(const Graph& g, const std::string& prefix) {
  for (const auto& n : g.nodes())
    if (n->name() == prefix || n->name().starts_with(prefix + "/"))
      return InvalidArgument("prefix: expected one that no node has, got '",
                             prefix, "', which ", n->Describe(), " has");
  return OkStatus();
}

// ---- Loops ------------------------------------------------------------------

}  // namespace

namespace sluice::capi {

// What TF_NewWhile keeps beside the params that it returns, which point into
// it: cond_inputs is its first member's data.
struct Loop {
  TF_Graph* graph = nullptr;
  std::vector<Output> init;
  std::vector<TF_Output> cond_inputs, body_inputs, body_outputs;
  TF_Graph* cond = nullptr;
  TF_Graph* body = nullptr;
  Loop() = default;
  Loop(const Loop&) = delete;
  ~Loop() {
    Unref(cond);
    Unref(body);
  }
};

// A loop that was built in a graph. Immutable, owned by the graph.
struct BuiltLoop {
  std::shared_ptr<const Loop> loop;
  std::string name;
  Output condition;          // In loop->cond.
  std::vector<Output> next;  // In loop->body.
  std::vector<Output> results;
  size_t first = 0, last = 0;  // Its nodes are these of the graph.
};

}  // namespace sluice::capi

namespace {

// Makes the inputs of one of a loop's graphs.
Status AddVariables(TF_Graph* g, const std::vector<Output>& init,
                    const char* name, TF_Output* inputs) {
  for (size_t i = 0; i < init.size(); ++i) {
    NodeSpec spec;
    spec.op = "Placeholder";
    spec.name = absl::StrCat(name, i);
    spec.attrs = {{"dtype", RemoveRef(init[i].dtype())},
                  {"shape", init[i].shape()}};
    SLUICE_ASSIGN_OR_RETURN(Node* const n, g->AddNode(std::move(spec)));
    inputs[i] = capi::ToC(Output(n));
  }
  return OkStatus();
}

// The loops that are being built, by their graphs of conditions.
struct Loops {
  std::mutex mu;
  std::map<const TF_Graph*, std::unique_ptr<Loop>> loops;
  static Loops& All() {
    static auto* all = new Loops;
    return *all;
  }
  std::unique_ptr<Loop> Take(const TF_WhileParams* params) {
    std::lock_guard<std::mutex> lock(mu);
    if (params == nullptr) return nullptr;
    const auto it = loops.find(params->cond_graph);
    if (it == loops.end()) return nullptr;
    std::unique_ptr<Loop> loop = std::move(it->second);
    loops.erase(it);
    return loop;
  }
};

Status BuildLoop(const BuiltLoop& l, const std::vector<Output>& init,
                 std::vector<Output>* results);

// Copies one of a loop's graphs to the ambient graph and context. What is
// copied as one is a unit: a node, or a loop in the graph, which is built anew.
class PartCopier {
 public:
  PartCopier(const TF_Graph& from, const std::vector<TF_Output>& inputs,
             const std::vector<Output>& values)
      : from_(from), unit_of_(from.nodes().size(), kGiven) {
    for (size_t l = 0; l < from.loops.size(); ++l)
      for (size_t i = from.loops[l]->first; i < from.loops[l]->last; ++i)
        unit_of_[i] = static_cast<int>(l);
    units_ = static_cast<int>(from.loops.size());
    std::vector<uint8_t> given(from.nodes().size(), 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Output in = capi::FromC(inputs[i]);
      copies_[in] = values[i];
      nodes_[in.node] = values[i].node;
      given[static_cast<size_t>(in.node->id())] = 1;
    }
    for (size_t i = 0; i < unit_of_.size(); ++i)
      if (unit_of_[i] == kGiven && given[i] == 0) unit_of_[i] = units_++;
  }

  Result<std::vector<Output>> Run(const std::vector<Output>& results) {
    CountSources();
    // (In the order in which they were made, as far as possible.)
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int u = 0; u < units_; ++u)
      if (waits_[static_cast<size_t>(u)] == 0) ready.push(u);
    int copied = 0;
    while (!ready.empty()) {
      const auto u = static_cast<size_t>(ready.top());
      ready.pop();
      ++copied;
      SLUICE_RETURN_IF_ERROR(u < from_.loops.size() ? CopyLoop(*from_.loops[u])
                                                    : CopyNode(*node_of_[u]));
      for (const int reader : readers_[u])
        if (--waits_[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
    if (copied != units_)
      return Unimplemented(
          "loop: expected no cycle inside but the loops of TF_NewWhile, got "
          "one");
    std::vector<Output> out;
    for (const Output& r : results) {
      SLUICE_ASSIGN_OR_RETURN(out.emplace_back(), CopyOf(r));
    }
    return out;
  }

 private:
  static constexpr int kGiven = -1;  // The unit of an input.

  void CountSources() {
    waits_.assign(static_cast<size_t>(units_), 0);
    readers_.resize(static_cast<size_t>(units_));
    node_of_.resize(static_cast<size_t>(units_), nullptr);
    for (const auto& n : from_.nodes()) {
      const int u = unit_of_[static_cast<size_t>(n->id())];
      if (u == kGiven) continue;
      node_of_[static_cast<size_t>(u)] = n.get();
      const auto after = [&](const Node* source) {
        const int s = unit_of_[static_cast<size_t>(source->id())];
        if (s == kGiven || s == u) return;
        ++waits_[static_cast<size_t>(u)];
        readers_[static_cast<size_t>(s)].push_back(u);
      };
      for (const Output& o : n->inputs())
        if (o.valid()) after(o.node);
      for (const Node* c : n->control_inputs()) after(c);
    }
  }

  Result<Output> CopyOf(const Output& o) const {
    const auto it = copies_.find(o);
    if (it != copies_.end()) return it->second;
    return Unimplemented(
        "loop: expected nodes that read the results of loops inside, got one "
        "that reads ",
        o.node == nullptr ? "an open edge" : o.node->Describe());
  }

  Status CopyLoop(const BuiltLoop& l) {
    std::vector<Output> init, results;
    for (const Output& o : l.loop->init) {
      SLUICE_ASSIGN_OR_RETURN(init.emplace_back(), CopyOf(o));
    }
    SLUICE_RETURN_IF_ERROR(BuildLoop(l, init, &results));
    for (size_t i = 0; i < results.size(); ++i) {
      copies_[l.results[i]] = results[i];
      nodes_[l.results[i].node] = results[i].node;
    }
    return OkStatus();
  }

  Status CopyNode(const Node& n) {
    std::vector<Output> in;
    for (const Output& o : n.inputs()) {
      SLUICE_ASSIGN_OR_RETURN(in.emplace_back(), CopyOf(o));
    }
    std::vector<Node*> controls;
    for (const Node* c : n.control_inputs()) {
      const auto it = nodes_.find(c);
      if (it == nodes_.end())
        return Unimplemented(
            "loop: expected no control edge from within a loop inside, got "
            "one; ",
            n.Describe());
      controls.push_back(it->second);
    }
    Graph& g = CurrentGraph();
    const ControlDependencies after(controls);
    Node* const copy =
        BuildNode(n.op_name(), std::move(in), n.attrs(), n.name(), n.loc());
    if (copy == nullptr) return g.status();
    if (!n.device().empty()) g.SetDevice(copy, n.device());
    nodes_[&n] = copy;
    for (int i = 0; i < copy->num_outputs(); ++i)
      copies_[Output(const_cast<Node*>(&n), i)] = Output(copy, i);
    return OkStatus();
  }

  const TF_Graph& from_;
  std::vector<int> unit_of_;  // By node; loops are first.
  int units_ = 0;
  std::vector<int> waits_;  // By unit: edges from units that are not copied.
  std::vector<std::vector<int>> readers_;  // By unit: one for each edge.
  std::vector<const Node*> node_of_;
  OutputMap<Output> copies_;
  std::unordered_map<const Node*, Node*> nodes_;
};

// Adds the nodes of one of a loop's graphs to the ambient graph and context,
// for these values of the variables.
Result<std::vector<Output>> Instantiate(const TF_Graph& from,
                                        const std::vector<TF_Output>& inputs,
                                        const std::vector<Output>& values,
                                        const std::vector<Output>& results) {
  return PartCopier(from, inputs, values).Run(results);
}

// Builds a loop in the ambient graph and context.
Status BuildLoop(const BuiltLoop& l, const std::vector<Output>& init,
                 std::vector<Output>* results) {
  Status failed;
  const auto part = [&failed](const char* scope, const TF_Graph& from,
                              const std::vector<TF_Output>& inputs,
                              const std::vector<Output>& ends) {
    return
        [&, scope](const std::vector<Output>& values) -> std::vector<Operand> {
          const NameScope within(scope);
          Result<std::vector<Output>> made =
              Instantiate(from, inputs, values, ends);
          if (!made.ok()) {
            if (failed.ok()) failed = made.status();
            return std::vector<Operand>(ends.size(), BuildError(made.status()));
          }
          return {made->begin(), made->end()};
        };
  };
  const std::vector<Output> condition = {l.condition};
  WhileOptions options;
  options.name = l.name;
  // (A variable's shape may vary where its next value's does.)
  for (size_t i = 0; i < l.next.size(); ++i)
    options.shape_invariants.push_back(
        init[i].shape().Union(l.next[i].shape()));
  *results = sluice::internal::BuildWhile(
      {init.begin(), init.end()},
      part("cond", *l.loop->cond, l.loop->cond_inputs, condition),
      part("body", *l.loop->body, l.loop->body_inputs, l.next), options,
      SourceLoc());
  SLUICE_RETURN_IF_ERROR(failed);
  return CurrentGraph().status();
}

// InvalidArgument if it is no output of this part of a loop, with TensorFlow's
// messages.
Status CheckPart(const TF_Graph& part, TF_Output o, const std::string& field) {
  if (o.oper == nullptr)
    return InvalidArgument("TF_WhileParams `", field, "` field isn't set");
  const Node* n = capi::FromC(o.oper);
  if (n->graph() != &part)
    return InvalidArgument("Requested return tensor '", n->name(), ":", o.index,
                           "' not found in graph def");
  if (o.index < 0 || o.index >= n->num_outputs())
    return InvalidArgument("Invalid return output ", o.index, " of node '",
                           n->name(), "', which has ", n->num_outputs(),
                           " output(s)");
  return OkStatus();
}

Status Finish(const TF_WhileParams& params,
              const std::shared_ptr<const Loop>& given, TF_Output* outputs) {
  const Loop& loop = *given;
  SLUICE_RETURN_IF_ERROR(
      GivenArray(outputs, params.ninputs, "room for the outputs"));
  if (params.name == nullptr)
    return InvalidArgument("TF_WhileParams `name` field is null");
  SLUICE_RETURN_IF_ERROR(
      CheckPart(*loop.cond, params.cond_output, "cond_output"));
  auto built = std::make_shared<BuiltLoop>();
  built->loop = given;
  built->name = params.name;
  built->condition = capi::FromC(params.cond_output);
  const DType holds = built->condition.dtype();
  if (RemoveRef(holds) != DType::kBool)
    return InvalidArgument(
        "BuildWhileLoop: 'cond' argument must return a boolean output, got ",
        DTypeName(holds));
  std::vector<Output>& next = built->next;
  for (size_t i = 0; i < loop.body_outputs.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(CheckPart(*loop.body, loop.body_outputs[i],
                                     absl::StrCat("body_outputs[", i, "]")));
    next.push_back(capi::FromC(loop.body_outputs[i]));
  }
  for (size_t i = 0; i < next.size(); ++i)
    if (RemoveRef(next[i].dtype()) != RemoveRef(loop.init[i].dtype()))
      return InvalidArgument("body_outputs[", i, "]: expected ",
                             DTypeName(loop.init[i].dtype()), ", got ",
                             DTypeName(next[i].dtype()));
  const BuildingIn here(*loop.graph);
  built->first = loop.graph->nodes().size();
  SLUICE_RETURN_IF_ERROR(BuildLoop(*built, loop.init, &built->results));
  built->last = loop.graph->nodes().size();
  for (size_t i = 0; i < built->results.size(); ++i)
    outputs[i] = capi::ToC(built->results[i]);
  if (loop.graph->part_of_loop) loop.graph->loops.push_back(std::move(built));
  return OkStatus();
}

}  // namespace

extern "C" {

void TF_AddGradientsWithPrefix(TF_Graph* g, const char* prefix, TF_Output* y,
                               int ny, TF_Output* x, int nx, TF_Output* dx,
                               TF_Status* status, TF_Output* dy) {
  Report(status, "gradients", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(g, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenArray(dy, nx, "room for the gradients"));
    const BuildingIn here(*g);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Output> ys,
                            OutputsOf(*g, y, ny, "y"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Output> xs,
                            OutputsOf(*g, x, nx, "x"));
    GradientOptions options;
    options.op_scopes = false;  // (As TensorFlow's C++ gradients are named.)
    options.integers = true;
    if (prefix != nullptr) {
      SLUICE_RETURN_IF_ERROR(CheckPrefix(*g, prefix));
      options.name = prefix;
    }
    if (dx != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Output> given,
                              OutputsOf(*g, dx, ny, "dx"));
      options.grad_ys.assign(given.begin(), given.end());
    }
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Gradient> made,
        Gradients(ys, {xs.begin(), xs.end()}, options, SourceLoc()));
    std::vector<Output> dense;
    for (size_t i = 0; i < made.size(); ++i)
      dense.push_back(Densify(made[i], xs[i]));
    SLUICE_RETURN_IF_ERROR(g->status());
    for (size_t i = 0; i < dense.size(); ++i) dy[i] = capi::ToC(dense[i]);
    return OkStatus();
  });
}

void TF_AddGradients(TF_Graph* g, TF_Output* y, int ny, TF_Output* x, int nx,
                     TF_Output* dx, TF_Status* status, TF_Output* dy) {
  TF_AddGradientsWithPrefix(g, nullptr, y, ny, x, nx, dx, status, dy);
}

TF_WhileParams TF_NewWhile(TF_Graph* g, TF_Output* inputs, int ninputs,
                           TF_Status* status) {
  auto loop = std::make_unique<Loop>();
  const bool ok = Report(status, "loop", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(g, "graph"));
    if (ninputs == 0)
      return InvalidArgument("loop: expected at least one variable, got none");
    std::lock_guard<std::recursive_mutex> lock(g->mutex());
    SLUICE_ASSIGN_OR_RETURN(loop->init,
                            OutputsOf(*g, inputs, ninputs, "inputs"));
    loop->graph = g;
    loop->cond = TF_NewGraph();
    loop->body = TF_NewGraph();
    // (Both may call the graph's functions.)
    loop->cond->part_of_loop = loop->body->part_of_loop = true;
    loop->cond->ShareLibrary(*g);
    loop->body->ShareLibrary(*g);
    const auto n = static_cast<size_t>(ninputs);
    loop->cond_inputs.resize(n);
    loop->body_inputs.resize(n);
    loop->body_outputs.assign(n, {nullptr, -1});
    SLUICE_RETURN_IF_ERROR(AddVariables(loop->cond, loop->init, "cond_input",
                                        loop->cond_inputs.data()));
    return AddVariables(loop->body, loop->init, "body_input",
                        loop->body_inputs.data());
  });
  if (!ok)
    return {0,       nullptr, nullptr, {nullptr, -1},
            nullptr, nullptr, nullptr, nullptr};
  const TF_WhileParams params = {ninputs,
                                 loop->cond,
                                 loop->cond_inputs.data(),
                                 {nullptr, -1},
                                 loop->body,
                                 loop->body_inputs.data(),
                                 loop->body_outputs.data(),
                                 nullptr};
  Loops& all = Loops::All();
  std::lock_guard<std::mutex> lock(all.mu);
  all.loops.emplace(params.cond_graph, std::move(loop));
  return params;
}

void TF_FinishWhile(const TF_WhileParams* params, TF_Status* status,
                    TF_Output* outputs) {
  const std::shared_ptr<const Loop> loop = Loops::All().Take(params);
  Report(status, "loop", [&]() -> Status {
    if (loop == nullptr)
      return InvalidArgument(
          "loop: expected one of TF_NewWhile, got another, "
          "or one that was finished");
    return Finish(*params, loop, outputs);
  });
}

void TF_AbortWhile(const TF_WhileParams* params) {
  (void)Loops::All().Take(params);
}

}  // extern "C"
