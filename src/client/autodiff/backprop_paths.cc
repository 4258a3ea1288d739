// Finds the nodes that gradients pass through, their levels and their order.
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/autodiff/backprop.h"
#include "graph/hidden_attributes.h"
#include "graph/none_output.h"

namespace sluice {

Status Backprop::Validate() {
  graph_ = &CurrentGraph();
  errors_before_ = graph_->errors().size();
  const auto check_one = [this](const Output& o, const char* what,
                                size_t i) -> Status {
    if (!o.valid()) {
      const Status* const error = graph_->ErrorOf(o);
      return error != nullptr
                 ? *error
                 : InvalidArgument("gradients: ", what, "[", i,
                                   "]: expected an output, got none",
                                   WhyNone(o));
    }
    if (o.graph() != graph_)
      return InvalidArgument("gradients: ", what, "[", i,
                             "]: expected an output of the current graph, "
                             "got ",
                             o.name(), " of another");
    if (o.index < 0 || o.index >= o.node->num_outputs())
      return InvalidArgument("gradients: ", what, "[", i, "]: expected one of ",
                             o.node->num_outputs(), " outputs, got '", o.name(),
                             "'; ", o.node->Describe());
    return OkStatus();
  };
  const auto check = [&](const std::vector<Output>& list, const char* what) {
    Status status = OkStatus();
    for (size_t i = 0; i < list.size() && status.ok(); ++i)
      status = check_one(list[i], what, i);
    return status;
  };
  SLUICE_RETURN_IF_ERROR(check(ys_, "ys"));
  SLUICE_RETURN_IF_ERROR(check(xs_, "xs"));
  for (size_t i = 0; i < options_.grad_ys.size(); ++i) {
    const Gradient& g = options_.grad_ys[i];
    for (const Output& part : {g.dense, g.indices, g.values, g.dense_shape})
      if (part.valid()) SLUICE_RETURN_IF_ERROR(check_one(part, "grad_ys", i));
    if (g.is_sparse() && !g.indices.valid())
      return InvalidArgument("gradients: grad_ys[", i,
                             "]: expected indices of the slices, got none");
  }
  SLUICE_RETURN_IF_ERROR(check(options_.stop_gradients, "stop_gradients"));
  if (options_.grad_ys.size() > ys_.size())
    return InvalidArgument("gradients: grad_ys: expected at most ", ys_.size(),
                           " as there are ys, got ", options_.grad_ys.size());
  return OkStatus();
}

// Gradients of values computed in a loop's body are computed in that body too.
Status Backprop::FindBase() {
  base_ = InnermostWhile(ContextOf(ys_[0]));
  for (const Output& y : ys_) {
    WhileContext* const loop = InnermostWhile(ContextOf(y));
    if (loop != base_)
      return InvalidArgument(
          "gradients: expected ys of one loop, or of none, got ", ys_[0].name(),
          base_ == nullptr ? " of none" : " of loop '",
          base_ == nullptr ? "" : base_->name() + "'", " and ", y.name(),
          loop == nullptr ? " of none" : " of loop '",
          loop == nullptr ? "" : loop->name() + "'");
  }
  return OkStatus();
}

namespace {

bool IsPop(const Node* n) { return n->kind() == OpKind::kStackPop; }

// The node that made a forwarded handle.
const Node* MakerOf(Output handle) {
  for (;;) {
    switch (handle.node->op().role) {
      case OpRole::kIdentity:
      case OpRole::kEnter:
      case OpRole::kSwitch:
      case OpRole::kMerge:
      case OpRole::kExit:
        handle = handle.node->input(0);
        continue;
      default:
        return handle.node;
    }
  }
}

}  // namespace

// TensorFlow's gradients of loops save values on stacks.
void Backprop::FindStacks() {
  for (const auto& n : graph_->nodes())
    if (n->kind() == OpKind::kStackPush)
      pushed_[MakerOf(n->input(0))].push_back(n->input(1));
}

// A node's inputs. For a read from an array these include the value of the
// other loop that was saved there.
std::vector<Output> Backprop::InputsOf(const Node* n) const {
  std::vector<Output> inputs = n->inputs();
  if (const Output saved = LoopFamily::SavedValueOf(n); saved.valid())
    inputs.push_back(saved);
  if (!pushed_.empty() && IsPop(n)) {
    const Node* stack = MakerOf(n->input(0));
    // A handle that was itself pushed: the stack of an inner loop.
    while (IsPop(stack)) {
      const auto of_handles = pushed_.find(MakerOf(stack->input(0)));
      if (of_handles == pushed_.end()) break;
      stack = MakerOf(of_handles->second[0]);
    }
    const auto it = pushed_.find(stack);
    if (it != pushed_.end())
      inputs.insert(inputs.end(), it->second.begin(), it->second.end());
  }
  return inputs;
}

bool Backprop::IsLoopMover(const Node* n) const {
  switch (n->op().role) {
    case OpRole::kMerge:
    case OpRole::kSwitch:
    case OpRole::kExit:
    case OpRole::kNextIteration:
      break;
    default:
      return false;
  }
  WhileContext* const loop = InnermostWhile(ContextOf(n));
  return loop != nullptr && loop->VariableOf(n) >= 0;
}

bool Backprop::IsBaseMerge(const Node* n) const {
  return n->op().role == OpRole::kMerge && IsLoopMover(n) &&
         IsInside(base_, InnermostWhile(ContextOf(n)));
}

// True if no gradient flows from the node to its inputs in any case.
bool Backprop::StopsAt(const Node* n) const {
  if (stop_[Id(n)] || IsBaseMerge(n)) return true;
  switch (n->op().role) {
    case OpRole::kSwitch:
    case OpRole::kMerge:
    case OpRole::kEnter:
    case OpRole::kExit:
    case OpRole::kNextIteration:
      return false;
    default:
      break;
  }
  if (LoopFamily::SavedValueOf(n).valid() || IsPop(n)) return false;
  const Result<UserGradient> fn = FindGradient(*n);
  return fn.ok() && *fn == nullptr;
}

OutputSet Backprop::IntoStoppedVariables() const {
  OutputSet found;
  if (crossed_.empty()) return found;
  std::vector<const Node*> open;
  const auto read = [&](const Node* n) {
    for (const Output& in : InputsOf(n))
      if (in.valid() && IsDifferentiable(in.dtype()) && found.insert(in).second)
        open.push_back(in.node);
  };
  // (Nodes created by the gradients since then are ignored.)
  const auto next = [&] {
    const Node* const n = open.back();
    open.pop_back();
    return Id(n) < stop_.size() ? n : nullptr;
  };
  for (const Output& y : ys_)
    if (found.insert(y).second) open.push_back(y.node);
  while (!open.empty())
    if (const Node* const n = next()) read(n);
  std::vector<const Node*> merges;
  for (const WhileContext* loop : crossed_)
    for (const LoopVariable& v : loop->variables())
      if (v.merge != nullptr && v.exit != nullptr &&
          found.count(Output(v.exit)) != 0)
        merges.push_back(v.merge);
  found.clear();
  for (const Node* merge : merges) read(merge);
  while (!open.empty())
    if (const Node* const n = next(); n != nullptr && !StopsAt(n)) read(n);
  return found;
}

void Backprop::FindBetween() {
  FindStacks();
  const auto nodes = static_cast<size_t>(graph_->num_nodes());
  stop_.assign(nodes, 0);
  for (const Output& s : options_.stop_gradients) stop_[Id(s.node)] = 1;
  std::vector<char> needed(nodes), reached(nodes);
  std::vector<std::vector<Node*>> consumers(nodes);
  std::vector<Node*> open;
  const auto mark = [&open](std::vector<char>& set, Node* n) {
    if (set[Id(n)]) return;
    set[Id(n)] = 1;
    open.push_back(n);
  };
  const auto next = [&open] {
    Node* n = open.back();
    open.pop_back();
    return n;
  };
  for (const Output& y : ys_) mark(needed, y.node);
  while (!open.empty()) {
    Node* n = next();
    if (StopsAt(n)) continue;
    for (const Output& in : InputsOf(n))
      if (in.valid() && IsDifferentiable(in.dtype())) {
        mark(needed, in.node);
        consumers[Id(in.node)].push_back(n);
      }
  }
  for (const Output& x : xs_) mark(reached, x.node);
  while (!open.empty())
    for (Node* consumer : consumers[Id(next())]) mark(reached, consumer);
  between_.assign(nodes, 0);
  for (size_t i = 0; i < nodes; ++i) between_[i] = needed[i] && reached[i];
}

// ---- Units ------------------------------------------------------------------

WhileContext* Backprop::LevelOf(const Node* n) const {
  WhileContext* const loop = InnermostWhile(ContextOf(n));
  return IsInside(base_, loop) ? base_ : loop;
}

WhileContext* Backprop::LevelAround(const WhileContext* loop) const {
  WhileContext* const outer = InnermostWhile(loop->outer());
  return IsInside(base_, outer) ? base_ : outer;
}

// Several Switches of the same value and predicate count as one.
Node* Backprop::Representative(Node* n) const {
  if (n->op().role != OpRole::kSwitch) return n;
  const Conditional* c = graph_->control_flow().ConditionalOf(n);
  if (c == nullptr) return n;
  const auto it = c->switches().find(n->input(0));
  return it == c->switches().end() ? n : it->second;
}

// The unit for the node on `level`, which is the node's level or one around it.
size_t Backprop::UnitOf(Node* n, WhileContext* level) const {
  const WhileContext* at = LevelOf(n);
  if (at == level) return Id(Representative(n));
  for (;;) {
    const WhileContext* const around = LevelAround(at);
    if (around == level) return unit_of_loop_.at(at);
    at = around;
  }
}

void Backprop::FindUnits() {
  const std::vector<WhileContext*>& loops = graph_->control_flow().loops();
  const size_t nodes = between_.size();
  indexed_ = nodes;
  for (size_t i = 0; i < loops.size(); ++i) unit_of_loop_[loops[i]] = nodes + i;
  sources_.resize(nodes + loops.size());
  pending_.assign(nodes + loops.size(), 0);
  std::vector<char> used(nodes + loops.size());
  for (size_t i = nodes; i-- > 0;) {
    if (!between_[i]) continue;
    Node* const n = graph_->nodes()[i].get();
    WhileContext* const level = LevelOf(n);
    // The node and the loops around it, each on its own level.
    WhileContext* at = level;
    for (size_t unit = UnitOf(n, level);;) {
      if (!used[unit]) {
        used[unit] = 1;
        units_on_[at].push_back(unit);
      }
      if (at == base_ || at == nullptr) break;
      unit = unit_of_loop_.at(at);
      at = LevelAround(at);
    }
    if (IsLoopMover(n) || StopsAt(n)) continue;
    for (const Output& in : InputsOf(n)) {
      if (!in.valid() || !Between(in.node) || !IsDifferentiable(in.dtype()))
        continue;
      // The innermost level around both.
      WhileContext* common = level;
      WhileContext* const home = LevelOf(in.node);
      while (common != base_ && !IsInside(home, common))
        common = LevelAround(common);
      const size_t from = UnitOf(in.node, common), to = UnitOf(n, common);
      if (from == to) continue;
      sources_[to].push_back(from);
      ++pending_[from];
    }
  }
}

// ---- Errors -----------------------------------------------------------------

Status Backprop::NoGradientFor(const Node* node, const Status& why) const {
  return Status(why.code(),
                absl::StrCat("gradients: expected a gradient for every op on "
                             "the way, got none for ",
                             node->Describe(), ": ", why.message(),
                             "; path: ", PathThrough(node),
                             "; hint: RegisterGradient, or stop_gradients"));
}

// The reason why no gradient flows from the node to `in`, one of its inputs;
// empty if one does, or would if the node had a gradient.
std::string Backprop::WhyBlocked(const Node* n, const Output& in) const {
  if (stop_[Id(n)]) return "it is one of stop_gradients";
  if (IsBaseMerge(n)) return "it carries a variable of a loop around the ys";
  if (StopsAt(n)) {
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
    came = came || HasGradient(Output(const_cast<Node*>(n), i));
  return came && Between(in.node) && !HasGradient(in)
             ? absl::StrCat(
                   "its gradient function returns none for its input '",
                   in.name(), "'")
             : "";
}

// Follows the paths of the gradients back from the ys. Where a path ends, the
// nodes behind it get that obstacle, unless they have a nearer one.
void Backprop::ExplainNone(std::vector<Gradient>* grads) const {
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
  std::vector<int> behind(between_.size(), kNotSeen);
  std::vector<char> flows(between_.size());
  std::deque<const Node*> open, blocked;
  // (Nodes built since have no index there.)
  const auto is_old = [&](const Node* n) { return Id(n) < between_.size(); };
  const auto flow_to = [&](const Node* n) {
    if (is_old(n) && !std::exchange(flows[Id(n)], 1)) open.push_back(n);
  };
  const auto block = [&](const Node* n, int obstacle) {
    if (!is_old(n) || behind[Id(n)] != kNotSeen) return;
    behind[Id(n)] = obstacle;
    blocked.push_back(n);
  };
  for (const Output& y : ys_) flow_to(y.node);
  while (!open.empty()) {
    const Node* const n = open.front();
    open.pop_front();
    for (const Output& in : InputsOf(n)) {
      if (in.node == nullptr) continue;
      std::string why = WhyBlocked(n, in);
      if (why.empty()) {
        flow_to(in.node);
        continue;
      }
      obstacles.push_back({n, std::move(why), StopsAt(n)});
      block(in.node, static_cast<int>(obstacles.size()) - 1);
    }
  }
  while (!blocked.empty()) {
    const Node* const n = blocked.front();
    blocked.pop_front();
    // An op's own reason is more specific than the type of its output.
    if (!obstacles[static_cast<size_t>(behind[Id(n)])].op_declines &&
        StopsAt(n) && n->num_inputs() > 0) {
      behind[Id(n)] = static_cast<int>(obstacles.size());
      obstacles.push_back({n, WhyBlocked(n, n->input(0)), true});
    }
    for (const Output& in : InputsOf(n))
      if (in.node != nullptr) block(in.node, behind[Id(n)]);
  }
  for (size_t i = 0; i < grads->size(); ++i) {
    if ((*grads)[i]) continue;
    const Output& x = xs_[i];
    const int at = is_old(x.node) ? behind[Id(x.node)] : kNotSeen;
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

// "loss <- node <- x": a shortest path from some y through `node` to some x.
std::string Backprop::PathThrough(const Node* node) const {
  std::unordered_map<const Node*, const Node*> below, above;  // Towards node.
  std::deque<const Node*> queue;
  for (const Output& y : ys_)
    if (Between(y.node) && above.emplace(y.node, nullptr).second)
      queue.push_back(y.node);
  while (!queue.empty() && above.count(node) == 0) Expand(&queue, &above);
  std::vector<std::string> names;
  for (const Node* n = node; n != nullptr;
       n = above.count(n) ? above[n] : nullptr)
    names.insert(names.begin(), n->name());
  queue = {node};
  below.emplace(node, nullptr);
  const Node* end = nullptr;
  while (!queue.empty() && end == nullptr) {
    for (const Output& x : xs_)
      if (x.node == queue.front() && x.node != node) end = x.node;
    if (end == nullptr) Expand(&queue, &below);
  }
  const size_t at = names.size();
  for (const Node* n = end; n != nullptr && n != node; n = below[n])
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(at), n->name());
  constexpr size_t kMost = 12;
  if (names.size() > kMost) {
    // The ends are more informative than the middle, but `node` itself must be
    // shown.
    std::vector<std::string> cut(names.begin(), names.begin() + 4);
    cut.insert(cut.end(), {"...", node->name(), "..."});
    cut.insert(cut.end(), names.end() - 4, names.end());
    names = std::move(cut);
  }
  return absl::StrJoin(names, " <- ");
}

void Backprop::Expand(
    std::deque<const Node*>* queue,
    std::unordered_map<const Node*, const Node*>* from) const {
  const Node* n = queue->front();
  queue->pop_front();
  for (const Output& in : InputsOf(n))
    if (in.valid() && Between(in.node) && from->emplace(in.node, n).second)
      queue->push_back(in.node);
}

}  // namespace sluice
