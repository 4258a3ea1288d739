#include "client/autodiff/backprop_paths.h"

#include <map>

#include "client/autodiff/gradient_values.h"
#include "client/autodiff/loop_family.h"
#include "graph/graph.h"
#include "graph/tensor_store_info.h"

namespace sluice {

Status GradientPaths::Find() {
  SLUICE_RETURN_IF_ERROR(FindBase());
  FindStacks();
  FindStores();
  FindBetween();
  return OkStatus();
}

// Gradients of values computed in a loop's body are computed in that body too.
Status GradientPaths::FindBase() {
  if (ys_.empty()) return OkStatus();
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
void GradientPaths::FindStacks() {
  for (const auto& n : graph_->nodes())
    if (n->kind() == OpKind::kStackPush)
      pushed_[MakerOf(n->input(0))].push_back(n->input(1));
}

namespace {

// Stands for a node that writes a store, as an input of those that read it.
Output WriteOf(Node* n) {
  for (int i = 0; i < n->num_outputs(); ++i)
    if (IsDifferentiable(n->output_type(i))) return Output(n, i);
  return Output(n);
}

}  // namespace

void GradientPaths::FindStores() {
  std::map<StoreIdentity, std::vector<Output>> writes;
  std::vector<std::pair<Node*, StoreIdentity>> reads;
  const auto add = [&](Node* n, const Output& handle, const StoreUse& use) {
    for (StoreIdentity& id : IdentitiesOfStore(handle)) {
      if (use.writes) {
        writers_.insert(n);
        writes[id].push_back(WriteOf(n));
        if (stores_ != nullptr && stores_->duals.count(id.root) != 0)
          write_outside_.push_back(n);
      }
      if (use.reads) reads.emplace_back(n, std::move(id));
    }
  };
  for (const auto& n : graph_->nodes()) {
    if (ReadsStore(*n)) {
      add(n.get(), n->input(0), {true, false});
    } else if (WritesStore(*n) && n->num_inputs() > 2) {  // (With a value.)
      add(n.get(), n->input(0), {false, true});
    } else if (n->op().role == OpRole::kFunctional) {
      const std::vector<int> handles = StoreInputs(*n);
      if (handles.empty()) continue;
      const StoreUse use = UseOfStores(*n);
      for (const int i : handles) add(n.get(), n->input(i), use);
    }
  }
  for (const auto& [n, id] : reads)
    if (const auto it = writes.find(id); it != writes.end()) {
      std::vector<Output>& all = written_[n];
      all.insert(all.end(), it->second.begin(), it->second.end());
    }
}

std::vector<Output> GradientPaths::InputsOf(const Node* n) const {
  ++num_visits_;
  std::vector<Output> inputs = n->inputs();
  if (!written_.empty())
    if (const auto it = written_.find(n); it != written_.end())
      inputs.insert(inputs.end(), it->second.begin(), it->second.end());
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

bool GradientPaths::IsLoopMover(const Node* n) const {
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

bool GradientPaths::IsBaseMerge(const Node* n) const {
  return n->op().role == OpRole::kMerge && IsLoopMover(n) &&
         IsInside(base_, InnermostWhile(ContextOf(n)));
}

bool GradientPaths::StopsAt(const Node* n) const {
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
  if (LoopFamily::SavedValueOf(n).valid() || IsPop(n) || ReadsStore(*n) ||
      Writes(n))
    return false;
  const Result<UserGradient> fn = FindGradient(*n);
  return fn.ok() && *fn == nullptr;
}

OutputSet GradientPaths::IntoStoppedVariables() const {
  OutputSet found;
  if (loops_.empty()) return found;
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
  for (const WhileContext* loop : loops_)
    for (const LoopVariable& v : loop->variables())
      if (v.merge != nullptr && found.count(Output(v.merge)) != 0)
        merges.push_back(v.merge);
  found.clear();
  for (const Node* merge : merges) read(merge);
  while (!open.empty())
    if (const Node* const n = next(); n != nullptr && !StopsAt(n)) read(n);
  return found;
}

void GradientPaths::FindBetween() {
  const auto nodes = static_cast<size_t>(graph_->num_nodes());
  stop_.assign(nodes, 0);
  for (const Output& s : stop_gradients_) stop_[Id(s.node)] = 1;
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
  for (Node* n : write_outside_) mark(needed, n);
  while (!open.empty()) {
    Node* n = next();
    if (StopsAt(n)) continue;
    if (n->op().role == OpRole::kExit)
      if (const WhileContext* const loop = InnermostWhile(ContextOf(n));
          loop != nullptr && loop->back_prop)
        loops_.push_back(loop);
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

}  // namespace sluice
