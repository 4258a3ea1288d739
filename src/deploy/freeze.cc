// Freezes variables into constants.
#include <map>
#include <mutex>
#include <set>

#include "graph/builder.h"
#include "deploy/quantize.h"

namespace sluice {
namespace {

// Nodes that produce a variable's value: a read of a resource, or a reference
// variable.
bool ReadsVariable(const Node& n) {
  return n.kind() == OpKind::kReadVariable || n.kind() == OpKind::kRefVariable;
}

// The nodes that the fetches need, by id, stopping at feeds and variables.
std::vector<uint8_t> Needed(const Graph& g, const std::set<const Node*>& fed,
                            const std::vector<Output>& fetches) {
  std::vector<uint8_t> needed(static_cast<size_t>(g.num_nodes()));
  std::vector<const Node*> left;
  const auto visit = [&](const Node* n) {
    uint8_t& mark = needed[static_cast<size_t>(n->id())];
    if (mark == 0) left.push_back(n);
    mark = 1;
  };
  for (const Output& f : fetches) visit(f.node);
  while (!left.empty()) {
    const Node* n = left.back();
    left.pop_back();
    if (fed.count(n) > 0 || ReadsVariable(*n)) continue;
    for (const Output& in : n->inputs())
      if (in.valid()) visit(in.node);
    for (const Node* c : n->control_inputs()) visit(c);
  }
  return needed;
}

// Unimplemented for nodes that need a variable itself and not its value: a
// frozen graph has no variables.
Status CheckNode(const Node& n) {
  if (ReadsVariable(n)) {
    if (n.control_inputs().empty()) return OkStatus();
    return Unimplemented(
        "freeze: expected reads of variables that wait for no other node, got ",
        n.Describe());
  }
  for (int i = 0; i < n.num_inputs(); ++i)
    if (n.input(i).valid() && (IsRef(n.input_type(i)) ||
                               n.input(i).node->kind() == OpKind::kVarHandle))
      return Unimplemented(
          "freeze: expected variables that are read and nothing else, got ",
          n.Describe());
  return OkStatus();
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
  const std::vector<uint8_t> needed = Needed(from, fed, fetches);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(from, &needed));

  std::vector<Output> variables;
  for (Node* n : order) {
    if (fed.count(n) > 0) continue;
    SLUICE_RETURN_IF_ERROR(CheckNode(*n));
    if (ReadsVariable(*n)) variables.emplace_back(n);
  }
  std::vector<Tensor> values;
  if (!variables.empty()) {
    lock.unlock();  // (Session::Run locks it, possibly on another thread.)
    SLUICE_ASSIGN_OR_RETURN(values, session.Run({}, variables));
    lock.lock();
  }

  InferenceGraph out;
  out.graph = std::make_unique<Graph>();
  out.graph->ShareLibrary(from);
  std::map<const Node*, Node*> copies;
  std::vector<const Node*> merges;
  size_t variable = 0;
  for (Node* n : order) {
    NodeSpec spec;
    spec.name = n->name();
    spec.device = n->device();
    spec.loc = n->loc();
    Node* copy = nullptr;
    if (fed.count(n) > 0) {
      spec.op = "Placeholder";
      spec.attrs = {{"dtype", RemoveRef(n->output_type(0))},
                    {"shape", n->output_shape(0)}};
      SLUICE_ASSIGN_OR_RETURN(copy, out.graph->AddNode(std::move(spec)));
    } else if (ReadsVariable(*n)) {
      const Tensor& value = values[variable++];
      spec.op = "Const";
      spec.attrs = {{"dtype", value.dtype()}, {"value", value}};
      SLUICE_ASSIGN_OR_RETURN(copy, out.graph->AddNode(std::move(spec)));
    } else {
      std::vector<Output> inputs;
      std::vector<Node*> controls;
      for (const Output& in : n->inputs()) {
        const auto it = copies.find(in.node);
        if (it == copies.end()) {  // The back edge of a loop.
          inputs.emplace_back();
          merges.push_back(n);
        } else {
          inputs.emplace_back(it->second, in.index);
        }
      }
      for (const Node* c : n->control_inputs()) controls.push_back(copies[c]);
      copy = out.graph->CopyNode(*n, std::move(inputs), std::move(controls));
    }
    copies[n] = copy;
  }
  for (const Node* m : merges)
    for (int i = 0; i < m->num_inputs(); ++i)
      if (!copies[m]->input(i).valid())
        SLUICE_RETURN_IF_ERROR(out.graph->SetBackEdge(
            copies[m], i, Output(copies[m->input(i).node], m->input(i).index)));
  for (const Output& f : feeds) {
    Node*& copy = copies[f.node];
    if (copy == nullptr) {  // An unused feed.
      NodeSpec spec;
      spec.op = "Placeholder";
      spec.name = f.node->name();
      spec.attrs = {{"dtype", RemoveRef(f.dtype())}, {"shape", f.shape()}};
      SLUICE_ASSIGN_OR_RETURN(copy, out.graph->AddNode(std::move(spec)));
    }
    out.feeds.emplace_back(copy);
  }
  for (const Output& f : fetches)
    out.fetches.emplace_back(copies[f.node], f.index);
  return out;
}

}  // namespace sluice
