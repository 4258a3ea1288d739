// Freezes variables into constants.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "deploy/quantize.h"
#include "graph/builder.h"
#include "graph/control_flow_recovery.h"
#include "graph/tensor_store_info.h"
#include "passes/lower_functional.h"

namespace sluice {
namespace {

bool IsHandle(const Node& n) { return n.kind() == OpKind::kVarHandle; }

bool IsReference(const Node& n) { return n.kind() == OpKind::kRefVariable; }

// A read of a variable whose handle is not passed through other nodes.
bool IsDirectRead(const Node& n) {
  return n.kind() == OpKind::kReadVariable && n.input(0).valid() &&
         IsHandle(*n.input(0).node);
}

bool IsFreeRead(const Node& n) {
  return IsDirectRead(n) && n.control_inputs().empty();
}

bool Forwards(const Node& n) {
  switch (n.op().role) {
    case OpRole::kIdentity:
    case OpRole::kEnter:
    case OpRole::kSwitch:
    case OpRole::kMerge:
    case OpRole::kNextIteration:
    case OpRole::kExit:
      return true;
    default:
      return n.kind() == OpKind::kIdentityN;
  }
}

// The input that a forwarding node passes to its output `index`; for a Merge,
// the first that does not come around a loop; or none.
Output ForwardedBy(const Node& n, int index) {
  if (n.kind() == OpKind::kIdentityN) return n.input(index);
  if (n.op().role != OpRole::kMerge) return n.input(0);
  for (const Output& in : n.inputs())
    if (in.valid() && in.node->op().role != OpRole::kNextIteration) return in;
  return Output();
}

// The VarHandleOp behind an output, traced through nodes that forward it; else
// null.
const Node* HandleBehind(Output o) {
  while (o.valid() && o.dtype() == DType::kResource) {
    if (IsHandle(*o.node)) return o.node;
    if (!Forwards(*o.node)) return nullptr;
    o = ForwardedBy(*o.node, o.index);
  }
  return nullptr;
}

// The nodes that the fetches need, by id, stopping at feeds; without the
// handles of variables that are only read directly, unless `with_handles`.
std::vector<uint8_t> Needed(const Graph& g, const std::set<const Node*>& fed,
                            const std::vector<Output>& fetches,
                            bool with_handles) {
  std::vector<uint8_t> needed(static_cast<size_t>(g.num_nodes()));
  std::vector<const Node*> left;
  const auto visit = [&](const Node* n) {
    uint8_t& mark = needed[static_cast<size_t>(n->id())];
    if (mark == 0) left.push_back(n);
    mark = 1;
  };
  for (const Output& f : fetches) visit(f.node);
  const auto follow = [&] {
    while (!left.empty()) {
      const Node* n = left.back();
      left.pop_back();
      if (fed.count(n) > 0 || (!with_handles && IsFreeRead(*n))) continue;
      for (const Output& in : n->inputs())
        if (in.valid()) visit(in.node);
      for (const Node* c : n->control_inputs()) visit(c);
    }
  };
  StoreWriters(g).Close(
      [&](const Node* n) { return needed[static_cast<size_t>(n->id())] != 0; },
      follow, visit);
  return needed;
}

using Copies = std::map<const Node*, Node*>;

// Copies nodes into a graph, each after its inputs except for back edges.
class Copier {
 public:
  Copier(const Graph& from, Graph* to) : to_(to) { to->ShareLibrary(from); }

  Copies& copies() { return copies_; }

  void Copy(const Node* n) {
    copies_[n] = to_->CopyNode(*n, Inputs(n), Controls(n));
  }
  // Another node under its name, on its device.
  Status Replace(const Node* n, const std::string& op, AttrMap attrs,
                 bool has_inputs) {
    NodeSpec spec;
    spec.op = op;
    spec.name = n->name();
    spec.device = n->device();
    spec.loc = n->loc();
    spec.attrs = std::move(attrs);
    if (has_inputs) {
      spec.inputs = Inputs(n);
      spec.control_inputs = Controls(n);
      const auto type = spec.attrs.find("T");
      if (n->op().role == OpRole::kMerge && type != spec.attrs.end())
        spec.pending_input_types.assign(spec.inputs.size(),
                                        *type->second.get<DType>());
    }
    SLUICE_ASSIGN_OR_RETURN(copies_[n], to_->AddNode(std::move(spec)));
    return OkStatus();
  }
  // A placeholder for a value that is fed.
  Status Feed(const Output& fed) {
    return Replace(fed.node, "Placeholder",
                   {{"dtype", RemoveRef(fed.dtype())}, {"shape", fed.shape()}},
                   false);
  }
  Status Constant(const Node* n, const Tensor& value) {
    return Replace(n, "Const", {{"dtype", value.dtype()}, {"value", value}},
                   false);
  }
  Status CloseLoops() {
    for (const Node* m : merges_)
      for (int i = 0; i < m->num_inputs(); ++i)
        if (!copies_[m]->input(i).valid())
          SLUICE_RETURN_IF_ERROR(to_->SetBackEdge(
              copies_[m], i,
              Output(copies_[m->input(i).node], m->input(i).index)));
    return OkStatus();
  }

 private:
  std::vector<Output> Inputs(const Node* n) {
    std::vector<Output> inputs;
    for (const Output& in : n->inputs()) {
      const auto it = copies_.find(in.node);
      if (it == copies_.end()) {  // The back edge of a loop.
        inputs.emplace_back();
        merges_.push_back(n);
      } else {
        inputs.emplace_back(it->second, in.index);
      }
    }
    return inputs;
  }
  std::vector<Node*> Controls(const Node* n) {
    std::vector<Node*> controls;
    for (const Node* c : n->control_inputs()) controls.push_back(copies_[c]);
    return controls;
  }

  Graph* const to_;
  Copies copies_;
  std::vector<const Node*> merges_;  // With back edges.
};

// Replaces functional nodes that get the handle of a variable by the bodies of
// their functions, in which its reads then are nodes of the graph.
Status InlineUsers(Graph* g) {
  const auto gets_handle = [](const Node& n) -> const Node* {
    if (n.op().role != OpRole::kFunctional) return nullptr;
    for (const Output& in : n.inputs())
      if (const Node* handle = HandleBehind(in)) return handle;
    return nullptr;
  };
  if (std::none_of(g->nodes().begin(), g->nodes().end(),
                   [&](const auto& n) { return gets_handle(*n) != nullptr; }))
    return OkStatus();
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(g));
  for (size_t i = 0; i < g->nodes().size(); ++i) {  // (More are added.)
    Node* const n = g->nodes()[i].get();
    const Node* const handle = gets_handle(*n);
    if (handle == nullptr) continue;
    if (!CanLowerInPlace(*n))
      return Unimplemented(
          "freeze: expected functions without recursion and without a gradient "
          "of their own to capture variables, got variable '",
          handle->name(), "'; ", n->Describe());
    SLUICE_RETURN_IF_ERROR(LowerInPlace(*g, n));
  }
  return OkStatus();
}

// A node of the session's graph that reads a variable at any time in a step,
// made if there is none.
Result<Output> ReadOf(Graph* g, Node* variable) {
  if (IsReference(*variable)) return Output(variable);
  for (const auto& n : g->nodes())
    if (IsFreeRead(*n) && n->input(0).node == variable) return Output(n.get());
  NodeSpec read;
  read.op = "ReadVariableOp";
  read.name = g->UniqueName(variable->name() + "/Read/ReadVariableOp");
  read.inputs = {Output(variable)};
  read.attrs = {{"dtype", variable->TypeAttr("dtype")}};
  read.device = variable->device();
  read.loc = variable->loc();
  SLUICE_ASSIGN_OR_RETURN(Node * added, g->AddNode(std::move(read)));
  return Output(added);
}

// Adds a node to the frozen graph: where it had the handle of a variable, the
// copy has its value.
Status CopyFrozen(const Node* n, const std::map<std::string, Tensor>& values,
                  Copier* copier) {
  if (IsHandle(*n) || IsReference(*n))
    return copier->Constant(n, values.at(n->name()));
  if (IsFreeRead(*n) && copier->copies().count(n->input(0).node) == 0)
    return copier->Constant(n, values.at(n->input(0).node->name()));
  const Node* handle = nullptr;
  for (const Output& in : n->inputs())
    if (handle == nullptr) handle = HandleBehind(in);
  if (handle == nullptr) {
    for (int i = 0; i < n->num_inputs(); ++i)
      if (IsRef(n->input_type(i)))
        return Unimplemented(
            "freeze: expected variables that are read and nothing else, got ",
            n->Describe());
    copier->Copy(n);
    return OkStatus();
  }
  const DType type = handle->TypeAttr("dtype");
  if (n->kind() == OpKind::kReadVariable)
    return copier->Replace(n, "Identity", {{"T", type}}, true);
  AttrMap attrs = n->attrs();
  attrs.erase("_output_shapes");  // (Of the handle.)
  if (n->kind() == OpKind::kIdentityN) {
    AttrValue::Types types = n->AttrOr<AttrValue::Types>("T", {});
    for (int i = 0; i < n->num_inputs(); ++i)
      if (const Node* h = HandleBehind(n->input(i)))
        types[static_cast<size_t>(i)] = h->TypeAttr("dtype");
    attrs["T"] = AttrValue(std::move(types));
  } else if (Forwards(*n)) {
    attrs["T"] = AttrValue(type);
  } else {
    return Unimplemented(
        "freeze: expected variables that are read and nothing else, got ",
        n->Describe(), ", which uses variable '", handle->name(), "'");
  }
  return copier->Replace(n, n->op_name(), std::move(attrs), true);
}

}  // namespace

int64_t InferenceGraph::constant_bytes() const {
  int64_t bytes = 0;
  if (graph == nullptr) return bytes;
  for (const auto& n : graph->nodes()) {
    if (n->op().role != OpRole::kConst) continue;
    bytes += static_cast<int64_t>(
        n->AttrOr<Tensor>("value", Tensor::Scalar<float>(0)).bytes());
  }
  return bytes;
}

Result<InferenceGraph> Freeze(Session& session,
                              const std::vector<Output>& feeds,
                              const std::vector<Output>& fetches) {
  Graph& from = session.graph();
  // (An output index that its node does not have has no type.)
  for (const Output& o : feeds)
    if (o.graph() != &from || o.node->num_outputs() != 1 ||
        o.dtype() == DType::kInvalid)
      return InvalidArgument(
          "feeds: expected the only outputs of nodes of the session's graph, "
          "got ",
          o.name());
  for (const Output& o : fetches)
    if (o.graph() != &from || o.dtype() == DType::kInvalid)
      return InvalidArgument(
          "fetches: expected outputs of the session's graph, got ", o.name());
  std::set<const Node*> fed;
  for (const Output& o : feeds) fed.insert(o.node);
  std::unique_lock<std::recursive_mutex> lock(from.mutex());
  SLUICE_RETURN_IF_ERROR(from.status());
  std::vector<uint8_t> needed = Needed(from, fed, fetches, true);
  SLUICE_ASSIGN_OR_RETURN(std::vector<Node*> order,
                          TopologicalOrder(from, &needed));

  // The part of the graph that is needed, where variables are still variables.
  Graph part;
  Copier copier(from, &part);
  for (Node* n : order) {
    if (fed.count(n) > 0) {
      SLUICE_RETURN_IF_ERROR(copier.Feed(Output(n)));
      continue;
    }
    if (IsDirectRead(*n) && !n->control_inputs().empty())
      return Unimplemented(
          "freeze: expected reads of variables that wait for no other node, "
          "got ",
          n->Describe());
    copier.Copy(n);
  }
  SLUICE_RETURN_IF_ERROR(copier.CloseLoops());
  for (const Output& f : feeds)
    if (copier.copies().count(f.node) == 0)  // An unused feed.
      SLUICE_RETURN_IF_ERROR(copier.Feed(f));
  SLUICE_RETURN_IF_ERROR(InlineUsers(&part));

  std::vector<Output> kept;
  for (const Output& f : fetches)
    kept.emplace_back(copier.copies()[f.node], f.index);
  needed = Needed(part, {}, kept, false);
  for (const Output& f : feeds)
    needed[static_cast<size_t>(copier.copies()[f.node]->id())] = 1;
  SLUICE_ASSIGN_OR_RETURN(order, TopologicalOrder(part, &needed));
  std::set<const Node*> variables;
  for (const Node* n : order) {
    if (IsFreeRead(*n)) variables.insert(n->input(0).node);
    if (IsHandle(*n) || IsReference(*n)) variables.insert(n);
  }
  std::vector<Output> reads;
  for (const Node* n : variables) {
    Node* const variable = from.FindNode(n->name());
    if (variable == nullptr || variable->kind() != n->kind())
      return Unimplemented(
          "freeze: expected variables of the session's graph, got one of a "
          "function; ",
          n->Describe());
    SLUICE_ASSIGN_OR_RETURN(reads.emplace_back(), ReadOf(&from, variable));
  }
  std::map<std::string, Tensor> values;
  if (!variables.empty()) {
    lock.unlock();  // (Session::Run locks it, possibly on another thread.)
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> read,
                            session.Run({}, reads));
    lock.lock();
    size_t i = 0;
    for (const Node* n : variables) values[n->name()] = read[i++];
  }

  InferenceGraph out;
  out.graph = std::make_unique<Graph>();
  Copier freezer(part, out.graph.get());
  for (const Node* n : order)
    SLUICE_RETURN_IF_ERROR(CopyFrozen(n, values, &freezer));
  SLUICE_RETURN_IF_ERROR(freezer.CloseLoops());
  for (const Output& f : feeds)
    out.feeds.emplace_back(freezer.copies()[copier.copies()[f.node]]);
  for (const Output& f : kept)
    out.fetches.emplace_back(freezer.copies()[f.node], f.index);
  return out;
}

}  // namespace sluice
