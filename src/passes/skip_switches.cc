#include <algorithm>

#include "graph/liveness.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// Lets nodes of a branch read values that are held anyway past the Switch.
class SwitchSkipper {
 public:
  SwitchSkipper(Graph* graph, const Frames& frames, Liveness liveness)
      : graph_(graph), frames_(frames), liveness_(std::move(liveness)) {}

  Status Skip(const std::vector<Node*>& order) {
    FindUnchangedArguments(order);
    for (Node* n : order) {
      const OpRole role = n->op().role;
      if (role != OpRole::kMerge && n->kind() != OpKind::kControlTrigger)
        SLUICE_RETURN_IF_ERROR(SkipFor(n));
    }
    return OkStatus();
  }

 private:
  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }

  // Marks the arguments that each call of a function within itself passes on
  // as they are.
  void FindUnchangedArguments(const std::vector<Node*>& order) {
    unchanged_.resize(graph_->nodes().size());
    std::vector<bool> changed(unchanged_.size());
    for (const Node* call : order) {
      if (call->op().role != OpRole::kCall) continue;
      const int f = frames_.function_frame(FunctionOf(*call));
      int around = frames_.frame_of(call);
      while (frames_[around].is_loop()) around = frames_[around].parent;
      if (f < 0 || around != f) continue;
      for (const Node* arg : frames_[f].nodes) {
        if (arg->op().role != OpRole::kArg) continue;
        const auto index = static_cast<int>(arg->IntAttr("index"));
        if (index >= call->num_inputs()) continue;
        unchanged_[Id(arg)] = true;
        if (Origin(call->input(index)) != arg) changed[Id(arg)] = true;
      }
    }
    for (size_t i = 0; i < changed.size(); ++i)
      unchanged_[i] = unchanged_[i] && !changed[i];
  }

  // The node that made a value that was only passed on since.
  static const Node* Origin(Output o) {
    for (;;) {
      o = ResolveAlias(o);
      if (o.node->op().role != OpRole::kSwitch && !IsConstantEnter(*o.node))
        return o.node;
      o = o.node->input(0);
    }
  }

  // Whether the iteration or call holds the value to its end. So no kernel
  // would have had it for its own.
  bool IsHeld(const Output& data) const {
    const Node* const n = ResolveAlias(data).node;
    return IsConstantEnter(*n) ||
           (n->op().role == OpRole::kArg && unchanged_[Id(n)]);
  }

  // The Switch behind an input; null if it is not one of a held value.
  Node* SwitchOf(const Output& in, int* port) const {
    const Output from = ResolveAlias(in);
    *port = from.index;
    return from.node->op().role == OpRole::kSwitch && !IsRef(in.dtype()) &&
                   IsHeld(from.node->input(0))
               ? from.node
               : nullptr;
  }

  Status SkipFor(Node* n) {
    int port = 0;
    const auto skips = [&](const Output& in) {
      return SwitchOf(in, &port) != nullptr;
    };
    if (std::none_of(n->inputs().begin(), n->inputs().end(), skips))
      return OkStatus();
    Conditions& conditions = liveness_.conditions();
    int others = Conditions::kAlways;
    for (const Output& in : n->inputs())
      if (!skips(in)) others = conditions.And(others, liveness_.condition(in));
    for (const Node* c : n->control_inputs())
      others = conditions.And(others, liveness_.condition(c, -1));
    for (int i = 0; i < n->num_inputs(); ++i) {
      const Output in = n->input(i);
      Node* const branch = SwitchOf(in, &port);
      if (branch == nullptr) continue;
      const Literal taken =
          liveness_.PredicateLiteral(branch->input(1), port == 1);
      if (conditions.Has(others, taken))
        SLUICE_RETURN_IF_ERROR(graph_->ReplaceInput(n, i, branch->input(0)));
      else  // It tells that the branch is taken.
        others = conditions.And(others, liveness_.condition(in));
    }
    return OkStatus();
  }

  Graph* const graph_;
  const Frames& frames_;
  Liveness liveness_;
  std::vector<bool> unchanged_;  // By _Arg.
};

}  // namespace

Status SkipSwitches(Graph* graph) {
  const auto& nodes = graph->nodes();
  const auto may_be_skipped = [](const auto& n) {
    if (n->op().role != OpRole::kSwitch) return false;
    const Node& data = *ResolveAlias(n->input(0)).node;
    return IsConstantEnter(data) || data.op().role == OpRole::kArg;
  };
  if (std::none_of(nodes.begin(), nodes.end(), may_be_skipped))
    return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(*graph));
  SLUICE_ASSIGN_OR_RETURN(const Frames frames, Frames::Of(*graph, order));
  return SwitchSkipper(graph, frames, Liveness::Of(*graph, order, frames))
      .Skip(order);
}

}  // namespace sluice
