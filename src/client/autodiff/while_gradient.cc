// Gradients of loops: a loop over the same iterations in reverse order, whose
// variables are the gradients of the loop variables.
#include <algorithm>
#include <optional>

#include "client/autodiff/backprop.h"
#include "graph/frames.h"
#include "graph/tensor_array_info.h"

namespace sluice {
namespace {

// Gradients of resource variables have the type of their values, and are summed
// like those of constants.
bool IsCarried(const LoopVariable& v) {
  return RemoveRef(v.merge->output_type(0)) != DType::kResource;
}

}  // namespace

Status Backprop::VisitLoop(WhileContext* loop, Level& outer) {
  bool any = HasGradientWithin(loop);
  for (const LoopVariable& v : loop->variables())
    any = any || (v.exit != nullptr && HasGradient(Output(v.exit)));
  if (!any || !loop->back_prop) return OkStatus();
  crossed_.push_back(loop);
  for (const LoopVariable& v : loop->variables())
    if (v.next == nullptr || v.switch_node == nullptr)
      return InvalidArgument(
          "gradients: expected a loop that is complete, got "
          "'",
          loop->name(), "', whose variable '", v.name,
          "' has no value for the next iteration yet");
  ControlFlowContext* const around = Mirror(loop->outer(), outer);
  SLUICE_RETURN_IF_ERROR(BuildStatus());
  const NameScope scope(loop->name() + "_grad");
  LoopMember* const forward = LoopFamily::Of(loop);
  if (forward == nullptr) return Built(Output()).status();
  Level inner;
  inner.loop = loop;
  inner.member = LoopFamily::NewReverse(forward, around);
  if (inner.member == nullptr) return Built(Output()).status();
  std::map<int, int> opened;  // New loop's variables, by this loop's.
  std::vector<LoopSum> sums;
  SLUICE_RETURN_IF_ERROR(OpenVariables(loop, outer, inner, &opened));
  SLUICE_RETURN_IF_ERROR(Walk(inner));
  SLUICE_RETURN_IF_ERROR(CloseVariables(loop, inner, opened, &sums));
  for (Node* const n : ConstantsOf(loop)) {
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(Output(n), inner));
    if (g && Between(n->input(0).node)) sums.push_back({n->input(0), g});
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> totals,
                          BuildLoopSums(inner.member, sums, &*array_uses_));
  for (size_t i = 0; i < sums.size(); ++i) Add(sums[i].x, totals[i]);
  return OkStatus();
}

bool Backprop::HasGradientWithin(const WhileContext* loop) const {
  const auto it = units_on_.find(loop);
  if (it == units_on_.end()) return false;
  const std::vector<WhileContext*>& loops = graph_->control_flow().loops();
  return std::any_of(
      it->second.begin(), it->second.end(), [&](const size_t unit) {
        return unit < between_.size()
                   ? grads_.count(graph_->nodes()[unit].get()) != 0
                   : HasGradientWithin(loops[unit - between_.size()]);
      });
}

std::vector<Node*> Backprop::ConstantsOf(const WhileContext* loop) const {
  std::vector<Node*> constants;
  const auto it = units_on_.find(loop);
  if (it == units_on_.end()) return constants;
  for (auto unit = it->second.rbegin(); unit != it->second.rend(); ++unit) {
    if (*unit >= between_.size()) continue;
    Node* const n = graph_->nodes()[*unit].get();
    if (IsConstantEnter(*n)) constants.push_back(n);
  }
  return constants;
}

Status Backprop::OpenVariables(WhileContext* loop, Level& outer, Level& inner,
                               std::map<int, int>* opened) {
  WhileContext* const back = inner.member->loop();
  const ContextScope around(back->outer());
  for (size_t i = 0; i < loop->variables().size(); ++i) {
    const LoopVariable& v = loop->variables()[i];
    if (!Between(v.merge) || !IsDifferentiable(v.merge->output_type(0)) ||
        !IsCarried(v))
      continue;
    const AtLine at(v.merge->loc());
    if (v.exit == nullptr && !v.merge->output_shape(0).fully_known() &&
        loop->AddExit(static_cast<int>(i)) == nullptr)
      return Built(Output()).status();
    Output last;
    if (v.exit != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(Output(v.exit), outer));
      last = Densify(g, Output(v.exit));
      if (g && !last.valid()) return Built(last).status();
    }
    if (!last.valid()) {
      last = ZerosFor(Output(v.exit == nullptr ? v.merge : v.exit));
      SLUICE_RETURN_IF_ERROR(Built(last).status());
    }
    const int mine =
        back->OpenVariable(last, v.name + "_grad", v.merge->output_shape(0));
    if (mine < 0) return Built(Output()).status();
    (*opened)[static_cast<int>(i)] = mine;
    Add(v.next->input(0), back->variable(mine).body_value);
  }
  return OkStatus();
}

Status Backprop::CloseVariables(WhileContext* loop, Level& inner,
                                const std::map<int, int>& opened,
                                std::vector<LoopSum>* sums) {
  WhileContext* const back = inner.member->loop();
  for (size_t i = 0; i < loop->variables().size(); ++i) {
    const LoopVariable v = loop->variables()[i];
    if (!Between(v.merge)) continue;
    const Output value(v.switch_node, 1);
    const AtLine at(v.merge->loc());
    // Uses of the condition's nodes in the body read the value there.
    if (HasGradient(Output(v.merge))) {
      SLUICE_ASSIGN_OR_RETURN(const Gradient there,
                              Total(Output(v.merge), inner));
      Add(value, there);
    }
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(value, inner));
    const Output& begin = v.enter->input(0);
    if (!IsCarried(v)) {
      if (g && Between(begin.node)) sums->push_back({begin, g});
      continue;
    }
    const auto it = opened.find(static_cast<int>(i));
    if (it == opened.end()) continue;
    const int mine = it->second;
    Output next;
    {
      const ContextScope in_body(back);
      // (A flow without a gradient imposes no order that matters here.)
      next = g                          ? Densify(g, value)
             : IsTensorArrayFlow(value) ? back->variable(mine).body_value
                                        : ZerosFor(value);
    }
    SLUICE_RETURN_IF_ERROR(Built(next).status());
    if (!back->CloseVariable(mine, next)) return Built(Output()).status();
    if (Between(begin.node)) {
      const Output total(back->variable(mine).exit);
      SLUICE_RETURN_IF_ERROR(CheckGradient(*v.enter, begin, total));
      Add(begin, total);
    }
  }
  return OkStatus();
}

}  // namespace sluice
