#include "client/control/scheduled.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/body_in_progress.h"
#include "client/control/tensor_array.h"
#include "client/types_and_shapes.h"
#include "client/variables.h"
#include "graph/control_flow.h"
#include "graph/device_name.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"
#include "graph/parameter_behind.h"
#include "graph/repeated_names.h"

namespace sluice::internal {
namespace {

bool IsHandleType(DType t) { return IsRef(t) || t == DType::kResource; }

// Whether a node is placed with the state that it makes or reads.
bool TouchesState(const Node& n) {
  for (int i = 0; i < n.num_outputs(); ++i)
    if (IsHandleType(n.output_type(i))) return true;
  for (const Output& in : n.inputs())
    if (in.valid() && IsHandleType(in.dtype())) return true;
  return false;
}

// The device that a node would get in a scope of `device`.
Result<std::string> DeviceWithin(const std::string& device) {
  // (The scope would record an error without the line.)
  SLUICE_RETURN_IF_ERROR(DeviceName::Parse(device).status());
  const DeviceScope scope(device);
  return DeviceOfNewNode();
}

// The graphs to which code that is built in this one may add variables: itself,
// and if it is the body of a function, those around.
std::vector<const Graph*> GraphsWithVariables(const Graph& graph) {
  std::vector<const Graph*> all = {&graph};
  for (const BodyInProgress* b = CurrentBody(); b != nullptr; b = b->outer)
    if (b->body == all.back()) all.push_back(b->owner);
  return all;
}

// The first variable among the nodes since `first`, or null.
const Node* NewVariable(const Graph& graph, int first) {
  for (int id = first; id < graph.num_nodes(); ++id)
    if (const Node& n = *graph.nodes()[static_cast<size_t>(id)];
        n.kind() == OpKind::kVarHandle || n.kind() == OpKind::kRefVariable)
      return &n;
  return nullptr;
}

// One call of Scheduled, or one part of its inputs. Lives on one thread, which
// holds the graph's mutex.
class ScheduledBuilder {
 public:
  ScheduledBuilder(const std::vector<std::string>& devices,
                   const ScheduledFn& body, const ScheduledOptions& options,
                   bool is_part, SourceLoc loc)
      : graph_(CurrentGraph()),
        devices_(devices),
        body_(body),
        options_(options),
        is_part_(is_part),
        loc_(loc),
        scope_(options.name.empty() ? "scheduled" : options.name),
        what_(absl::StrCat("scheduled body '", scope_.prefix(), "'")),
        body_prefix_(NameScope("body").prefix()),
        bodies_before_(++bodies_) {}

  // One output per result; empty if an error was recorded.
  std::vector<Output> Run(const std::vector<Output>& inputs) {
    if (!Check() || !Decide(inputs)) return {};
    const std::vector<Operand> merged =
        Among(0, static_cast<int>(devices_.size()), inputs);
    std::vector<Output> results;
    for (const Operand& o : merged) {
      results.push_back(o.Get(DType::kInvalid));
      if (!results.back().valid()) return {};
    }
    if (results.empty()) {
      BuildError(InvalidArgument(what_, ": expected a result, got none"), loc_);
      return {};
    }
    AwaitCaptures();
    TellParameters();
    results.insert(results.begin(), Output(schedule_, 1));
    const ColocateWith decision(schedule_);
    const DeviceScope at_home(home_);
    Node* const done = BuildNode("ScheduleDone", results, {}, "done", loc_);
    if (done == nullptr) return {};
    if (is_part_) graph_.SetAttr(done, kResultsHaveRowsAttr, AttrValue(true));
    for (size_t i = 0; i + 1 < results.size(); ++i)
      results[i] = Output(done, static_cast<int>(i));
    results.pop_back();
    return results;
  }

 private:
  bool Fail(const Status& s) const {
    BuildError(s, loc_);
    return false;
  }

  bool Check() {
    if (devices_.empty())
      return Fail(
          InvalidArgument(what_, ": expected at least one device, got none"));
    for (const std::string& d : devices_) {
      const Result<std::string> name = DeviceWithin(d);
      if (!name.ok())
        return Fail(Status(name.status().code(),
                           absl::StrCat(what_, ": ", name.status().message())));
      names_.push_back(*name);
    }
    const Result<std::string> home = DeviceWithin(options_.home);
    if (!home.ok())
      return Fail(
          Status(home.status().code(),
                 absl::StrCat(what_, ": home: ", home.status().message())));
    home_ = *home;
    // (As the node's attributes have them.)
    const auto ns = static_cast<float>(options_.ns_per_row);
    const auto rate = static_cast<float>(options_.bytes_per_s);
    if (!std::isfinite(ns) || ns < 0 || !std::isfinite(rate) || rate <= 0)
      return Fail(InvalidArgument(
          what_, ": expected ns_per_row of at least 0 and a positive ",
          "bytes_per_s, as finite floats, got ", options_.ns_per_row, " and ",
          options_.bytes_per_s));
    return true;
  }

  bool Decide(const std::vector<Output>& inputs) {
    std::vector<Output> shapes;
    AttrValue::Ints bytes;
    for (const Output& x : inputs) {
      // (Shapes are read where the value is, and are on the host.)
      shapes.push_back(Build("Shape", {x}, {}, "shape", loc_));
      if (!shapes.back().valid()) return false;
      const DType t = RemoveRef(x.dtype());
      bytes.push_back(IsPlain(t) ? static_cast<int64_t>(DTypeSize(t)) : 8);
    }
    const DeviceScope at_home(options_.home);
    schedule_ =
        BuildNode("Schedule", shapes,
                  {{"N", static_cast<int64_t>(shapes.size())},
                   {"devices", AttrValue::Strings(names_)},
                   {"body", scope_.prefix()},
                   {"policy", options_.policy},
                   {"element_bytes", bytes},
                   {"ns_per_row", static_cast<float>(options_.ns_per_row)},
                   {"bytes_per_s", static_cast<float>(options_.bytes_per_s)}},
                  "schedule", loc_);
    return schedule_ != nullptr;
  }

  // The results of the body on the chosen one of devices [begin, end).
  std::vector<Operand> Among(int begin, int end,
                             const std::vector<Output>& inputs) {
    if (end - begin == 1) return On(begin, inputs);
    const int middle = begin + (end - begin) / 2;
    Output first;
    {
      const AtLine at(loc_);
      const ColocateWith decision(schedule_);
      const DeviceScope at_home(home_);
      first =
          Build("Less",
                {Output(schedule_), Constant(Tensor::Scalar<int32_t>(middle))},
                {}, absl::StrCat("before_", middle), loc_);
    }
    std::vector<Operand> merged;
    for (const Output& o : BuildCond(
             Operand(first, loc_.file, loc_.line),
             [&] { return Among(begin, middle, inputs); },
             [&] { return Among(middle, end, inputs); }, "on", loc_)) {
      if (o.valid())
        if (Conditional* const c =
                graph_.control_flow().ConditionalOf(o.node)) {
          KeepAtHome(c);
          PutAtHome(o.node);
        }
      merged.emplace_back(o, loc_.file, loc_.line);
    }
    return merged;
  }

  // Else placement would put a Merge on the device of one of its inputs, and
  // the Switches of values that are fed with their readers, so that these
  // values would be sent whether the replica there runs or not.
  void KeepAtHome(Conditional* c) {
    if (!c->device.empty()) return;
    c->device = home_;
    for (const auto& [value, node] : c->switches())
      if (!IsHandleType(value.dtype())) PutAtHome(node);
  }

  // Where the decision is made: home may name no task, and the others know
  // nothing of it.
  void PutAtHome(Node* n) {
    graph_.SetDevice(n, home_);
    graph_.SetAttr(n, kColocationAttr,
                   AttrValue(AttrValue::Strings{"loc:@" + schedule_->name()}));
  }

  // The replica on one device.
  std::vector<Operand> On(int device, const std::vector<Output>& inputs) {
    const int first = graph_.num_nodes();
    const ControlFlowContext* const here = CurrentContext();
    const std::string name = names_[static_cast<size_t>(device)];
    const std::vector<const Graph*> graphs = GraphsWithVariables(graph_);
    std::vector<int> nodes;
    for (const Graph* g : graphs) nodes.push_back(g->num_nodes());
    std::vector<Operand> results;
    {
      // (One scope for all, in which variables are named as in the first, so
      // that all find the same ones.)
      const NameScope body(body_prefix_ + "/");
      const RepeatedNames::Building building(&scopes_, &graph_);
      const DeviceFunctionScope on([&, here](const Node* n) -> std::string {
        const bool inside = !TouchesState(*n) &&
                            (here == nullptr || CurrentContext() != nullptr);
        const sluice::Result<DeviceName> ours =
            DeviceName::Parse(inside ? name : home_);
        const sluice::Result<DeviceName> asked = DeviceName::Parse(n->device());
        // (The placer reports an invalid name.)
        if (!ours.ok() || !asked.ok()) return n->device();
        return asked->WithDefaults(*ours).ToString();
      });
      results = body_(inputs);
      for (Operand& o : results) {
        // Made here, so that the number is where the body is.
        const Output value = o.Get(o.weak ? NaturalType(o) : DType::kInvalid);
        o = Operand(value, loc_.file, loc_.line);
      }
    }
    if (!IsLikeTheFirst(device, results))
      results.assign(types_.size(),
                     Operand(graph_.Failure(), loc_.file, loc_.line));
    if (device > 0)
      for (size_t i = 0; i < graphs.size(); ++i)
        if (const Node* v = NewVariable(*graphs[i], nodes[i])) {
          Fail(InvalidArgument(
              what_, ": expected the variables of the replica on '", names_[0],
              "', got a new one, '", v->name(), "' of ", v->loc().ToString(),
              ", for that on '", name,
              "'; hint: make it before, or with GetVariable or get_variable"));
          results.assign(results.size(),
                         Operand(graph_.Failure(), loc_.file, loc_.line));
          break;
        }
    if (here == nullptr) PlaceInitializers(first);
    for (int id = first; id < graph_.num_nodes(); ++id) {
      Node* const n = graph_.nodes()[static_cast<size_t>(id)].get();
      if (here != nullptr && !IsInside(ContextOf(n), here)) continue;
      graph_.SetAttr(n, kScheduledAttr, AttrValue(scope_.prefix()));
      if (here != nullptr) body_nodes_.push_back(n);
      for (const Output& in : n->inputs()) Note(in);
      may_wait_ = may_wait_ || n->op().facts.waits ||
                  n->op().role == OpRole::kFunctional ||
                  n->op().role == OpRole::kCall;
    }
    // (Outside of all constructs there is one replica. What initialises its
    // variables is among the nodes.)
    if (here == nullptr)
      for (const Operand& o : results)
        if (o.output.valid()) body_nodes_.push_back(o.output.node);
    return results;
  }

  // Whether a replica has results of the types that the first one had; else
  // records the error, unless one was recorded.
  bool IsLikeTheFirst(int device, const std::vector<Operand>& results) {
    std::vector<DType> types;
    for (const Operand& o : results) {
      if (!o.output.valid()) return true;
      types.push_back(RemoveRef(o.output.dtype()));
    }
    if (device == 0) types_ = types;
    if (types == types_ || types_.empty()) return true;
    const auto list = [](const std::vector<DType>& all) {
      return absl::StrCat("(",
                          absl::StrJoin(all, ", ",
                                        [](std::string* out, DType t) {
                                          absl::StrAppend(out, DTypeName(t));
                                        }),
                          ")");
    };
    return Fail(InvalidArgument(
        what_, ": expected results of types ", list(types_),
        " as from the replica on '", names_[0], "', got ", list(types),
        " from that on '", names_[static_cast<size_t>(device)], "'"));
  }

  // Outside of all constructs, what computes the initial values of the body's
  // variables cannot be told from the body when it is built.
  void PlaceInitializers(int first) {
    std::vector<Node*> left;
    for (int id = first; id < graph_.num_nodes(); ++id)
      if (Node* const n = graph_.nodes()[static_cast<size_t>(id)].get();
          n->kind() == OpKind::kAssign && n->device() == home_)
        left.push_back(n);
    std::vector<uint8_t> seen(static_cast<size_t>(graph_.num_nodes()));
    while (!left.empty()) {
      const Node* const n = left.back();
      left.pop_back();
      for (const Output& in : n->inputs()) {
        if (in.node->id() < first ||
            std::exchange(seen[static_cast<size_t>(in.node->id())], 1) != 0)
          continue;
        graph_.SetDevice(in.node, home_);
        left.push_back(in.node);
      }
    }
  }

  // Records the variable that a value of a body was read from, if it is one.
  void Note(Output value) {
    const Node* const variable = ParameterBehind(value);
    if (variable == nullptr) return;
    parameters_.try_emplace(variable->name(), [&] {
      const PartialShape shape =
          variable->AttrOr<PartialShape>("shape", PartialShape());
      const DType type = variable->AttrOr<DType>("dtype", DType::kFloat);
      if (!shape.fully_known() || !IsPlain(type)) return int64_t{0};
      int64_t bytes = static_cast<int64_t>(DTypeSize(type));
      for (const int64_t d : shape.dims()) bytes *= d;
      return bytes;
    }());
  }

  // The nodes that the body's nodes wait for, directly or through others that
  // were added with it, in the order of their making.
  std::vector<Node*> Captures() {
    const int first = schedule_->id();
    std::vector<uint8_t> seen(static_cast<size_t>(graph_.num_nodes() - first));
    seen[0] = 1;
    std::vector<Node*> left = std::move(body_nodes_), captures;
    const auto visit = [&](Node* n) {
      if (n->id() < first) return captures.push_back(n);
      if (std::exchange(seen[static_cast<size_t>(n->id() - first)], 1) != 0)
        return;
      // (A handle is there from the start, and must not cross to another task.)
      if (n->op().role == OpRole::kEnter && IsHandleType(n->output_type(0)))
        return;
      (IsAddedCapture(n) ? captures : left).push_back(n);
    };
    while (!left.empty()) {
      const Node* const n = left.back();
      left.pop_back();
      for (const Output& in : n->inputs())
        if (in.node != nullptr) visit(in.node);
      for (Node* const c : n->control_inputs()) visit(c);
    }
    std::sort(captures.begin(), captures.end(),
              [](const Node* a, const Node* b) { return a->id() < b->id(); });
    captures.erase(std::unique(captures.begin(), captures.end()),
                   captures.end());
    return captures;
  }

  // Arguments of functions and loop constants are added when they are captured.
  static bool IsAddedCapture(Node* n) {
    if (n->op().role == OpRole::kArg) return true;
    if (n->op().role != OpRole::kEnter) return false;
    // (Else it is of a loop within the body.)
    const sluice::Result<Node*> here = CaptureControl(CurrentContext(), n);
    return here.ok() && *here == n;
  }

  // The decision waits for everything that the body uses, so that a body that
  // was given room on a device always ends.
  void AwaitCaptures() {
    for (Node* const n : Captures()) {
      const sluice::Result<Node*> here =
          CaptureControl(CurrentContext(), n, loc_);
      if (!here.ok() || (*here != n && (*here)->id() >= schedule_->id()) ||
          !graph_.AddControlEdge(*here, schedule_).ok())
        may_wait_ = true;
    }
    // (One that waits for others within may need them to be given room first;
    // one with a single device is behind no Switch that would hold it back.)
    if (may_wait_ || bodies_ != bodies_before_ || devices_.size() == 1)
      graph_.SetAttr(schedule_, "limited", AttrValue(false));
  }

  void TellParameters() {
    AttrValue::Strings names;
    int64_t bytes = 0;
    for (const auto& [name, size] : parameters_) {
      names.push_back(name);
      bytes += size;
    }
    graph_.SetAttr(schedule_, "parameters", AttrValue(std::move(names)));
    graph_.SetAttr(schedule_, "parameter_bytes", AttrValue(bytes));
  }

  Graph& graph_;
  const std::vector<std::string>& devices_;
  const ScheduledFn& body_;
  const ScheduledOptions& options_;
  const bool is_part_;
  const SourceLoc loc_;
  const NameScope scope_;
  const std::string what_;
  std::vector<std::string> names_;  // Of the devices, with the scopes around.
  std::string home_;
  const std::string body_prefix_;  // The name scope of the body.
  RepeatedNames scopes_;           // Within it.
  Node* schedule_ = nullptr;
  std::map<std::string, int64_t> parameters_;  // Bytes by variable.
  std::vector<Node*> body_nodes_;              // Of all replicas.
  std::vector<DType> types_;  // Of the first replica's results.
  bool may_wait_ = false;
  // How many were built so far on this thread, which tells those within.
  static inline thread_local int64_t bodies_ = 0;
  const int64_t bodies_before_;
};

// One call of Scheduled in parts: a loop over the parts, whose body is a call
// without parts. Lives on one thread, which holds the graph's mutex.
class PartsBuilder {
 public:
  PartsBuilder(const std::vector<std::string>& devices, const ScheduledFn& body,
               const ScheduledOptions& options, SourceLoc loc)
      : devices_(devices),
        body_(body),
        options_(options),
        loc_(loc),
        outside_(CurrentLine()),
        at_(loc),
        scope_(options.name.empty() ? "scheduled" : options.name),
        what_(absl::StrCat("scheduled body '", scope_.prefix(), "'")) {}

  // As ScheduledBuilder.
  std::vector<Output> Run(const std::vector<Output>& inputs) {
    if (options_.rows_per_part < 0 || options_.rows_per_part > INT32_MAX) {
      BuildError(InvalidArgument(what_, ": expected rows_per_part from 0 to ",
                                 INT32_MAX, ", got ", options_.rows_per_part),
                 loc_);
      return {};
    }
    if (inputs.empty()) {
      BuildError(InvalidArgument(
                     what_, ": expected an input to cut into parts, got none"),
                 loc_);
      return {};
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (const PartialShape shape = inputs[i].shape();
          shape.rank_known() && shape.rank() == 0) {
        BuildError(InvalidArgument(what_, ": expected inputs with rows to cut ",
                                   "into parts, got a scalar, input ", i),
                   loc_);
        return {};
      }
    if (!Count(inputs)) return {};
    const std::vector<Output> out = BuildWhile(
        {Operand(Constant(Tensor::Scalar<int32_t>(0)))},
        [&](const std::vector<Output>& v) {
          const DeviceScope at_home(options_.home);
          return std::vector<Operand>{Operand(Build("Less", {v[0], parts_}))};
        },
        [&](const std::vector<Output>& v) {
          if (!Part(v[0], inputs))
            return std::vector<Operand>{Operand(CurrentGraph().Failure())};
          const DeviceScope at_home(options_.home);
          return std::vector<Operand>{Operand(Build("AddV2", {v[0], one_}))};
        },
        {.name = "parts"}, loc_);
    if (!out[0].valid()) return {};
    std::vector<Output> results;
    const DeviceScope at_home(options_.home);
    const PartialShape first = inputs[0].shape();
    const int64_t rows = first.rank_known() ? first.dim(0) : -1;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      results.push_back(arrays_[i].Concat(nullptr, loc_));
      if (!results.back().valid()) return {};
      PartialShape shape = shapes_[i];
      if (!shape.rank_known()) continue;
      shape.set_dim(0, rows);
      const Status s = CurrentGraph().SetShape(results.back(), shape);
      if (!s.ok()) {
        BuildError(s, loc_);
        return {};
      }
    }
    return results;
  }

 private:
  static Output AsVector(const Output& o) {
    return Build("Reshape", {o, IntVector({1})});
  }

  // The number of rows and of parts.
  bool Count(const std::vector<Output>& inputs) {
    std::vector<Output> shapes;
    for (const Output& x : inputs) shapes.push_back(Build("Shape", {x}));
    const DeviceScope at_home(options_.home);
    one_ = Constant(Tensor::Scalar<int32_t>(1));
    size_ =
        Constant(Tensor::Scalar(static_cast<int32_t>(options_.rows_per_part)));
    std::vector<Node*> checks;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Output& shape = shapes[i];
      std::vector<Node*> has_rows;
      if (!inputs[i].shape().rank_known()) {
        has_rows.push_back(
            Check(Build("Greater", {Build("Size", {shape}), Zero()}),
                  absl::StrCat(": expected inputs with rows, got a scalar, "
                               "input ",
                               i),
                  {}));
        if (has_rows.back() == nullptr) return false;
      }
      const ControlDependencies after(has_rows);
      const Output n =
          Build("StridedSlice",
                {shape, IntVector({0}), IntVector({1}), IntVector({1})},
                {{"shrink_axis_mask", int64_t{1}}}, "rows");
      if (!n.valid()) return false;
      if (!rows_.valid()) {
        rows_ = n;
        continue;
      }
      checks.push_back(
          Check(Build("Equal", {n, rows_}),
                absl::StrCat(": expected inputs of as many rows as the first, "
                             "got of the first and of input ",
                             i),
                {rows_, n}));
      if (checks.back() == nullptr) return false;
    }
    const ControlDependencies checked(checks);
    // (Without rows there is one part, which has none. No sum is larger than
    // the number of rows, so none overflows.)
    const Output last = Build("Sub", {rows_, one_});
    parts_ =
        Build("Maximum",
              {Build("AddV2", {Build("FloorDiv", {last, size_}), one_}), one_},
              {}, "parts");
    return parts_.valid();
  }

  static Output Zero() { return Constant(Tensor::Scalar<int32_t>(0)); }

  // Fails the step unless `condition` is true.
  Node* Check(const Output& condition, const std::string& rule,
              std::vector<Output> got) const {
    // (Quotes would be escaped.)
    std::vector<Output> in = {condition,
                              Constant(Tensor::Scalar<std::string>(absl::StrCat(
                                  "scheduled body ", scope_.prefix(), rule)))};
    in.insert(in.end(), got.begin(), got.end());
    return BuildNode("Assert", in);
  }

  // Places part i; writes its results to the arrays.
  bool Part(const Output& i, const std::vector<Output>& inputs) {
    WhileContext* const loop = CurrentContext()->AsWhile();
    Output begin, end;
    {
      const DeviceScope at_home(options_.home);
      begin = Build("Mul", {i, size_});
      const Output left = Build("Sub", {rows_, begin});
      end = Build("AddV2", {begin, Build("Minimum", {left, size_})});
    }
    std::vector<Output> rows;
    for (const Output& x : inputs)
      rows.push_back(Build("StridedSlice",
                           {x, AsVector(begin), AsVector(end), IntVector({1})},
                           {}, "part"));
    if (std::any_of(rows.begin(), rows.end(),
                    [](const Output& o) { return !o.valid(); }))
      return false;
    ScheduledOptions whole = options_;
    whole.name = "part";
    std::vector<Output> values;
    {
      const ExactLine callers(outside_);
      values = ScheduledBuilder(devices_, body_, whole, true, loc_).Run(rows);
    }
    if (values.empty()) return false;
    for (size_t i = 0; i < values.size(); ++i) {
      shapes_.push_back(values[i].shape());
      if (shapes_.back().rank_known() && shapes_.back().rank() == 0) {
        BuildError(InvalidArgument(what_, ": expected results with the rows ",
                                   "of the part, got a scalar, result ", i),
                   loc_);
        return false;
      }
    }
    const DeviceScope at_home(options_.home);
    for (const Output& value : values) {
      TensorArray array;
      {
        const ContextScope outside(loop->outer(), loop->in_outer_condition());
        array =
            TensorArray(value.dtype(), parts_, {.infer_shape = false}, loc_);
      }
      const int index = loop->OpenVariable(
          array.flow(), absl::StrCat("result ", arrays_.size()), std::nullopt,
          {}, loc_);
      if (index < 0) return false;
      const auto with = [&](Output flow) {
        const Output* next = &flow;
        return array.Unflatten(next);
      };
      const LoopVariable v = loop->variable(index);
      const TensorArray written = with(v.body_value).Write(i, value, loc_);
      if (!written || !loop->CloseVariable(index, written.flow(), loc_))
        return false;
      arrays_.push_back(with(Output(v.exit)));
    }
    return true;
  }

  const std::vector<std::string>& devices_;
  const ScheduledFn& body_;
  const ScheduledOptions& options_;
  const SourceLoc loc_, outside_;
  const AtLine at_;
  const NameScope scope_;
  const std::string what_;
  Output rows_, parts_, size_, one_;
  std::vector<TensorArray> arrays_;   // After the loop.
  std::vector<PartialShape> shapes_;  // Of each part's results.
};

}  // namespace

std::vector<Output> BuildScheduled(const std::vector<std::string>& devices,
                                   const std::vector<Operand>& inputs,
                                   const ScheduledFn& body,
                                   const ScheduledOptions& options,
                                   SourceLoc loc) {
  Graph& g = CurrentGraph();
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<Output> values;
  size_t results = 0;
  const ScheduledFn counted = [&](const std::vector<Output>& v) {
    std::vector<Operand> out = body(v);
    results = out.size();
    return out;
  };
  std::vector<Output> out;
  bool there = true;
  for (const Operand& x : inputs) {
    Output value = x.Get(x.weak ? NaturalType(x) : DType::kInvalid);
    // (A reference is read where the body is scheduled.)
    if (value.valid() && IsRef(value.dtype()))
      value = Build("Identity", {value}, {}, "", loc);
    there = there && value.valid();
    values.push_back(value);
  }
  if (there)
    out = options.rows_per_part == 0
              ? ScheduledBuilder(devices, counted, options, false, loc)
                    .Run(values)
              : PartsBuilder(devices, counted, options, loc).Run(values);
  if (out.empty()) out.assign(results, g.Failure());
  return out;
}

}  // namespace sluice::internal
