#include "client/autodiff/gradient_errors.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/autodiff/gradient_values.h"
#include "graph/hidden_attributes.h"
#include "graph/none_output.h"

namespace sluice {

namespace {

// Adds the nodes on the paths before the first one of the queue to it, with the
// node that each was found from.
void Expand(const GradientPaths& paths, std::deque<const Node*>* queue,
            std::unordered_map<const Node*, const Node*>* from) {
  const Node* n = queue->front();
  queue->pop_front();
  for (const Output& in : paths.InputsOf(n))
    if (in.valid() && paths.Between(in.node) &&
        from->emplace(in.node, n).second)
      queue->push_back(in.node);
}

}  // namespace

std::string PathThrough(const GradientPaths& paths, const Node* node) {
  std::unordered_map<const Node*, const Node*> below, above;  // Towards node.
  std::deque<const Node*> queue;
  for (const Output& y : paths.ys())
    if (paths.Between(y.node) && above.emplace(y.node, nullptr).second)
      queue.push_back(y.node);
  while (!queue.empty() && above.count(node) == 0)
    Expand(paths, &queue, &above);
  std::vector<std::string> names;
  for (const Node* n = node; n != nullptr;
       n = above.count(n) ? above[n] : nullptr)
    names.insert(names.begin(), n->name());
  queue = {node};
  below.emplace(node, nullptr);
  const Node* end = nullptr;
  while (!queue.empty() && end == nullptr) {
    for (const Output& x : paths.xs())
      if (x.node == queue.front() && x.node != node) end = x.node;
    if (end == nullptr) Expand(paths, &queue, &below);
  }
  const size_t at = names.size();
  for (const Node* n = end; n != nullptr && n != node; n = below[n])
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(at), n->name());
  constexpr size_t kMax = 12;
  if (names.size() > kMax) {
    // The ends are more informative than the middle, but `node` itself must be
    // shown.
    std::vector<std::string> cut(names.begin(), names.begin() + 4);
    cut.insert(cut.end(), {"...", node->name(), "..."});
    cut.insert(cut.end(), names.end() - 4, names.end());
    names = std::move(cut);
  }
  return absl::StrJoin(names, " <- ");
}

Status NoGradientFor(const GradientPaths& paths, const Node* node,
                     const Status& why) {
  return Status(why.code(),
                absl::StrCat("gradients: expected a gradient for every op on "
                             "the way, got none for ",
                             node->Describe(), ": ", why.message(),
                             "; path: ", PathThrough(paths, node),
                             "; hint: RegisterGradient, or stop_gradients"));
}

namespace {

// The reason why no gradient flows from the node to `in`, one of its inputs;
// empty if one does, or would if the node had a gradient.
std::string WhyBlocked(const GradientPaths& paths, const GradientSums& sums,
                       const Node* n, const Output& in) {
  if (paths.IsStop(n)) return "it is one of stop_gradients";
  if (paths.IsBaseMerge(n))
    return "it carries a variable of a loop around the ys";
  if (paths.StopsAt(n)) {
    const auto name = n->AttrOr<std::string>(kGradientOpTypeAttr, n->op_name());
    const OpDef* const op =
        name == n->op_name() ? &n->op() : OpRegistry::Global()->Find(name);
    return op == nullptr ? "it passes no gradients on" : op->no_grad_reason;
  }
  if (n->op().role == OpRole::kExit) {
    const WhileContext* const loop = InnermostWhile(ContextOf(n));
    if (loop != nullptr && !loop->back_prop)
      return absl::StrCat("loop '", loop->name(), "' has back_prop off");
  }
  if (!IsDifferentiable(in.dtype()))
    return absl::StrCat("its input '", in.name(), "' is ",
                        DTypeName(RemoveRef(in.dtype())),
                        ", and gradients are of floating types");
  // Ops that only move tokens pass every gradient on.
  const OpRole role = n->op().role;
  if (role != OpRole::kCompute && role != OpRole::kIdentity &&
      role != OpRole::kFunctional)
    return "";
  bool came = false;
  for (int i = 0; i < n->num_outputs(); ++i)
    came = came || sums.Has(Output(const_cast<Node*>(n), i));
  return came && paths.Between(in.node) && !sums.Has(in)
             ? absl::StrCat(
                   "its gradient function returns none for its input '",
                   in.name(), "'")
             : "";
}

}  // namespace

// Follows the paths of the gradients back from the ys. Where a path ends, the
// nodes behind it get that obstacle, unless they have a nearer one.
void ExplainNone(const GradientPaths& paths, const GradientSums& sums,
                 std::vector<Gradient>* grads) {
  if (std::all_of(grads->begin(), grads->end(),
                  [](const Gradient& g) { return static_cast<bool>(g); }))
    return;
  struct Obstacle {
    const Node* node;
    std::string why;
    bool op_declines;
  };
  std::vector<Obstacle> obstacles;
  constexpr int kNotSeen = -1;
  std::vector<int> behind(paths.num_nodes(), kNotSeen);
  std::vector<char> flows(paths.num_nodes());
  std::deque<const Node*> open, blocked;
  // (Nodes built since have no index there.)
  const auto is_old = [&](const Node* n) {
    return GradientPaths::Id(n) < paths.num_nodes();
  };
  const auto flow_to = [&](const Node* n) {
    if (is_old(n) && !std::exchange(flows[GradientPaths::Id(n)], 1))
      open.push_back(n);
  };
  const auto block = [&](const Node* n, int obstacle) {
    if (!is_old(n) || behind[GradientPaths::Id(n)] != kNotSeen) return;
    behind[GradientPaths::Id(n)] = obstacle;
    blocked.push_back(n);
  };
  for (const Output& y : paths.ys()) flow_to(y.node);
  while (!open.empty()) {
    const Node* const n = open.front();
    open.pop_front();
    for (const Output& in : paths.InputsOf(n)) {
      if (in.node == nullptr) continue;
      std::string why = WhyBlocked(paths, sums, n, in);
      if (why.empty()) {
        flow_to(in.node);
        continue;
      }
      obstacles.push_back({n, std::move(why), paths.StopsAt(n)});
      block(in.node, static_cast<int>(obstacles.size()) - 1);
    }
  }
  while (!blocked.empty()) {
    const Node* const n = blocked.front();
    blocked.pop_front();
    // An op's own reason is more specific than the type of its output.
    if (!obstacles[static_cast<size_t>(behind[GradientPaths::Id(n)])]
             .op_declines &&
        paths.StopsAt(n) && n->num_inputs() > 0) {
      behind[GradientPaths::Id(n)] = static_cast<int>(obstacles.size());
      obstacles.push_back({n, WhyBlocked(paths, sums, n, n->input(0)), true});
    }
    for (const Output& in : paths.InputsOf(n))
      if (in.node != nullptr) block(in.node, behind[GradientPaths::Id(n)]);
  }
  for (size_t i = 0; i < grads->size(); ++i) {
    if ((*grads)[i]) continue;
    const Output& x = paths.xs()[i];
    const int at =
        is_old(x.node) ? behind[GradientPaths::Id(x.node)] : kNotSeen;
    std::string why = absl::StrCat("no gradient flows to '", x.name(), "': ");
    if (at != kNotSeen) {
      const Obstacle& o = obstacles[static_cast<size_t>(at)];
      absl::StrAppend(&why, o.why, "; ", o.node->Describe());
    } else {
      absl::StrAppend(&why, "no y depends on it");
    }
    (*grads)[i] = Gradient(NoneBecause(std::move(why)));
  }
}

}  // namespace sluice
