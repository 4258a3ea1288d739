#include "client/autodiff/store_gradient.h"

#include <algorithm>
#include <utility>

#include "client/autodiff/loop_family.h"
#include "graph/builder.h"
#include "graph/gradient_scope.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"

namespace sluice {

Result<StoreGradient::Dual*> StoreGradient::DualOf(Node* node) {
  const std::vector<StoreIdentity> ids = IdentitiesOfStore(node->input(0));
  if (ids.size() != 1)
    return Unimplemented(
        "gradients: expected a handle of one TensorStore, got one that a "
        "conditional or a loop chooses among ",
        ids.size(), "; ", node->Describe());
  const StoreIdentity& id = ids[0];
  if (!id.local())
    return Unimplemented(
        "gradients: expected a TensorStore of one step, got one that steps "
        "share (shared_name), whose writes may be in other steps; ",
        node->Describe());
  const auto it = duals_.find(id);
  if (it != duals_.end()) return &it->second;
  const Output maker = StoreMaker(node->input(0));
  // The level of the loop in which the store is made.
  WhileContext* const loop = InnermostWhile(ContextOf(maker));
  GradientLevel* home = levels_.front();
  for (GradientLevel* level : levels_)
    if (level->member() != nullptr && level->loop() == loop) home = level;
  ControlFlowContext* const place = home->Mirror(ContextOf(maker));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  Dual dual;
  dual.home = home->member() == nullptr ? nullptr : home->loop();
  {
    const ContextScope there(place);
    const NoControlDependencies free;
    dual.trigger = BuildNode("ControlTrigger", {}, {}, "read");
    if (dual.trigger == nullptr) return Built(Output()).status();
    const ControlDependencies after({dual.trigger});
    dual.handle =
        Build("TensorStoreGrad", {maker}, {{"source", CurrentGradientScope()}});
    SLUICE_RETURN_IF_ERROR(Built(dual.handle).status());
  }
  return &duals_.emplace(id, dual).first->second;
}

Status StoreGradient::RunBefore(Node* node, const Dual& dual) {
  Graph* const graph = paths_.graph();
  // Each loop around the node waits for the node, or for the loop within.
  Node* last = node;
  for (WhileContext* loop = InnermostWhile(ContextOf(node));
       !IsInside(paths_.base(), loop) && loop != dual.home;
       loop = InnermostWhile(loop->outer())) {
    LoopMember* const member = LoopFamily::Of(loop);
    if (member == nullptr) return Built(Output()).status();
    member->WaitFor(last);
    last = member->Done();
    if (last == nullptr) return Built(Output()).status();
  }
  if (dual.home == nullptr) {
    graph->AddControlEdge(last, dual.trigger).IgnoreError();
  } else {
    // (The gradient's loop begins when the loop around has ended.)
    dual.home->member->WaitFor(last);
  }
  return errors_.First();
}

Status StoreGradient::OfRead(Node* node, const Output& dy,
                             GradientLevel& level) {
  SLUICE_ASSIGN_OR_RETURN(Dual* const dual, DualOf(node));
  SLUICE_RETURN_IF_ERROR(RunBefore(node, *dual));
  Graph* const graph = paths_.graph();
  auto sources = node->AttrOr<AttrValue::Strings>(kStoreSourcesAttr, {});
  sources.push_back(CurrentGradientScope());
  graph->SetAttr(node, kStoreSourcesAttr, AttrValue(std::move(sources)));
  ControlFlowContext* const place = level.Mirror(ContextOf(node));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(place);
  const bool many = TakesManyKeys(*node);
  const Output added = Build(
      "TensorStoreAdd", {dual->handle, node->input(1), dy}, {{"many", many}});
  SLUICE_RETURN_IF_ERROR(Built(added).status());
  added_.push_back(added);
  return OkStatus();
}

Result<Output> StoreGradient::OfWrite(Node* node, GradientLevel& level) {
  SLUICE_ASSIGN_OR_RETURN(Dual* const dual, DualOf(node));
  SLUICE_RETURN_IF_ERROR(RunBefore(node, *dual));
  ControlFlowContext* const place = level.Mirror(ContextOf(node));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(place);
  const Output value = node->input(2);
  const bool many = TakesManyKeys(*node);
  PartialShape element = value.shape();
  if (many && element.rank_known()) {
    element = PartialShape(std::span<const int64_t>(element.dims()).subspan(1));
  }
  const Output sum = Build(
      "TensorStoreSum", {dual->handle, node->input(1)},
      {{"dtype", value.dtype()}, {"element_shape", element}, {"many", many}});
  return Built(sum);
}

}  // namespace sluice
