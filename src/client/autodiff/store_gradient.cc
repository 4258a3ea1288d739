#include "client/autodiff/store_gradient.h"

#include <algorithm>
#include <utility>

#include "client/autodiff/function_gradients.h"
#include "client/autodiff/loop_family.h"
#include "graph/builder.h"
#include "graph/gradient_scope.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"

namespace sluice {

Result<StoreGradient::Dual*> StoreGradient::DualOf(const StoreIdentity& id,
                                                   const Output& handle,
                                                   bool several) {
  const auto it = duals_.find(id);
  if (it != duals_.end()) return &it->second;
  Dual dual;
  const auto of_caller = scope_.duals.find(id.root);
  if (of_caller != scope_.duals.end() && id.sources.empty()) {
    // (The caller's gradient begins when its calls are done.)
    if (outside_ == nullptr) {
      const ContextScope there(nullptr);
      const NoControlDependencies free;
      outside_ = BuildNode("ControlTrigger", {}, {}, "read");
      if (outside_ == nullptr) return Built(Output()).status();
      scope_.effects.push_back(outside_);
    }
    dual.trigger = outside_;
    dual.handle = of_caller->second;
    return &duals_.emplace(id, dual).first->second;
  }
  const Output maker = StoreMaker(handle);
  // The level of the loop in which the store is made.
  GradientLevel* home = levels_.front();
  if (!several) {
    WhileContext* const loop = InnermostWhile(ContextOf(maker));
    for (GradientLevel* level : levels_)
      if (level->member() != nullptr && level->loop() == loop) home = level;
  }
  ControlFlowContext* const place =
      home->Mirror(several ? home->loop() : ContextOf(maker));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  dual.home = home->member() == nullptr ? nullptr : home->loop();
  {
    const ContextScope there(place);
    const NoControlDependencies free;
    dual.trigger = BuildNode("ControlTrigger", {}, {}, "read");
    if (dual.trigger == nullptr) return Built(Output()).status();
    if (!several) {
      const ControlDependencies after({dual.trigger});
      dual.handle = StoreOfGradients(scope_, maker);
      SLUICE_RETURN_IF_ERROR(Built(dual.handle).status());
    }
  }
  return &duals_.emplace(id, dual).first->second;
}

Result<StoreGradient::Duals> StoreGradient::DualsOf(Node* node, int i) {
  const Output handle = node->input(i);
  const std::vector<StoreIdentity> ids = IdentitiesOfStore(handle);
  Duals duals;
  for (const StoreIdentity& id : ids) {
    SLUICE_ASSIGN_OR_RETURN(duals.emplace_back(),
                            DualOf(id, handle, ids.size() > 1));
  }
  return duals;
}

Result<Output> StoreGradient::HandleOf(const Duals& duals, Node* node, int i) {
  if (duals.size() == 1 && duals[0]->handle.valid()) return duals[0]->handle;
  // The one that belongs to the store that was chosen.
  std::vector<Node*> triggers;
  for (const Dual* dual : duals)
    if (dual->home == nullptr) triggers.push_back(dual->trigger);
  const ControlDependencies after(triggers);
  return Built(StoreOfGradients(scope_, node->input(i)));
}

Status StoreGradient::RunBefore(Node* node, const Duals& duals) {
  for (const Dual* dual : duals) SLUICE_RETURN_IF_ERROR(RunBefore(node, *dual));
  return OkStatus();
}

Status StoreGradient::RunBefore(Node* node, const Dual& dual) {
  Graph* const graph = paths_.graph();
  // Each loop around the node waits for the node, or for the loop within.
  Node* last = node;
  WhileContext* loop = InnermostWhile(ContextOf(node));
  for (; !IsInside(paths_.base(), loop) && loop != dual.home;
       loop = InnermostWhile(loop->outer())) {
    LoopMember* const member = LoopFamily::Of(loop);
    if (member == nullptr) return Built(Output()).status();
    member->WaitFor(last);
    last = member->Done();
    if (last == nullptr) return Built(Output()).status();
  }
  if (dual.home == nullptr) {
    graph->AddControlEdge(last, dual.trigger).IgnoreError();
  } else if (loop != dual.home) {
    return Unimplemented(
        "gradients: expected a TensorStore that is used within the loop that "
        "makes it, '",
        dual.home->name(), "', got a use outside; ", node->Describe());
  } else {
    // (The gradient's loop begins when the loop around has ended.)
    dual.home->member->WaitFor(last);
  }
  return errors_.First();
}

Result<Node*> StoreGradient::Announce(Node* read) {
  const ContextScope there(ContextOf(read));
  const NoControlDependencies free;
  const AtLine at(read->loc());
  const std::vector<StoreIdentity> ids = IdentitiesOfStore(read->input(0));
  const auto of_caller = ids.size() == 1 && ids[0].sources.empty()
                             ? scope_.duals.find(ids[0].root)
                             : scope_.duals.end();
  const Output dual = of_caller != scope_.duals.end()
                          ? of_caller->second
                          : StoreOfGradients(scope_, read->input(0));
  SLUICE_ASSIGN_OR_RETURN(
      const Output announced,
      Built(Build("TensorStoreExpect", {dual, read->input(1)}, {}, "", {})));
  return announced.node;
}

Status StoreGradient::OfRead(Node* node, const Output& dy,
                             GradientLevel& level) {
  SLUICE_ASSIGN_OR_RETURN(const Duals duals, DualsOf(node, 0));
  Node* counted = node;
  if (!scope_.duals.empty()) {
    // (The source is the caller's, known when it runs.)
    SLUICE_ASSIGN_OR_RETURN(counted, Announce(node));
  } else {
    Graph* const graph = paths_.graph();
    auto sources = node->AttrOr<AttrValue::Strings>(kStoreSourcesAttr, {});
    sources.push_back(CurrentGradientScope());
    graph->SetAttr(node, kStoreSourcesAttr, AttrValue(std::move(sources)));
  }
  SLUICE_RETURN_IF_ERROR(RunBefore(counted, duals));
  ControlFlowContext* const place = level.Mirror(ContextOf(node));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(place);
  SLUICE_ASSIGN_OR_RETURN(const Output handle, HandleOf(duals, node, 0));
  const bool many = TakesManyKeys(*node);
  const Output added = Build("TensorStoreAdd", {handle, node->input(1), dy},
                             {{"many", many}}, "", {});
  SLUICE_RETURN_IF_ERROR(Built(added).status());
  added_.push_back(added);
  return OkStatus();
}

Result<Output> StoreGradient::OfWrite(Node* node, GradientLevel& level) {
  SLUICE_ASSIGN_OR_RETURN(const Duals duals, DualsOf(node, 0));
  SLUICE_RETURN_IF_ERROR(RunBefore(node, duals));
  ControlFlowContext* const place = level.Mirror(ContextOf(node));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(place);
  SLUICE_ASSIGN_OR_RETURN(const Output handle, HandleOf(duals, node, 0));
  const Output value = node->input(2);
  const bool many = TakesManyKeys(*node);
  PartialShape element = value.shape();
  if (many && element.rank_known()) {
    element = PartialShape(std::span<const int64_t>(element.dims()).subspan(1));
  }
  const Output sum = Build(
      "TensorStoreSum", {handle, node->input(1)},
      {{"dtype", value.dtype()}, {"element_shape", element}, {"many", many}},
      "", {});
  return Built(sum);
}

Result<Output> StoreGradient::OfCall(Node* node, int i, GradientLevel& level) {
  SLUICE_ASSIGN_OR_RETURN(const Duals duals, DualsOf(node, i));
  SLUICE_RETURN_IF_ERROR(RunBefore(node, duals));
  ControlFlowContext* const place = level.Mirror(ContextOf(node));
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(place);
  return HandleOf(duals, node, i);
}

}  // namespace sluice
