#include "client/autodiff/while_gradient.h"

#include <algorithm>

#include "client/autodiff/gradients.h"
#include "client/autodiff/loop_family.h"
#include "client/autodiff/loop_sums.h"
#include "graph/builder.h"
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

Status WhileGradient::Of(WhileContext* loop, GradientLevel& outer) {
  bool any = HasGradientWithin(loop);
  for (const LoopVariable& v : loop->variables())
    any = any || (v.exit != nullptr && sums_.Has(Output(v.exit)));
  if (!any || !loop->back_prop) return OkStatus();
  for (const LoopVariable& v : loop->variables())
    if (v.next == nullptr || v.switch_node == nullptr)
      return InvalidArgument(
          "gradients: expected a loop that is complete, got "
          "'",
          loop->name(), "', whose variable '", v.name,
          "' has no value for the next iteration yet");
  ControlFlowContext* const around = outer.Mirror(loop->outer());
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const NameScope scope(loop->name() + "_grad");
  LoopMember* const forward = LoopFamily::Of(loop);
  if (forward == nullptr) return Built(Output()).status();
  LoopMember* const backward = LoopFamily::NewReverse(forward, around);
  if (backward == nullptr) return Built(Output()).status();
  GradientLevel inner(loop, backward);
  std::map<int, int> opened;  // New loop's variables, by this loop's.
  std::vector<LoopSum> sums;
  if (!array_uses_.has_value())
    array_uses_.emplace(paths_.graph(), static_cast<int>(paths_.num_nodes()));
  SLUICE_RETURN_IF_ERROR(OpenVariables(loop, outer, inner, &opened));
  SLUICE_RETURN_IF_ERROR(walk_(inner));
  SLUICE_RETURN_IF_ERROR(CloseVariables(loop, inner, opened, &sums));
  for (Node* const n : ConstantsOf(loop)) {
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, sums_.Total(Output(n), inner));
    if (g && paths_.Between(n->input(0).node)) sums.push_back({n->input(0), g});
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> totals,
                          BuildLoopSums(backward, sums, &*array_uses_));
  for (size_t i = 0; i < sums.size(); ++i) sums_.Add(sums[i].x, totals[i]);
  return OkStatus();
}

bool WhileGradient::HasGradientWithin(const WhileContext* loop) const {
  const std::vector<size_t>& units = units_.On(loop);
  return std::any_of(units.begin(), units.end(), [&](const size_t unit) {
    const Node* const n = units_.NodeOf(unit);
    return n != nullptr ? sums_.HasAny(n) || paths_.Writes(n)
                        : HasGradientWithin(units_.LoopOf(unit));
  });
}

std::vector<Node*> WhileGradient::ConstantsOf(const WhileContext* loop) const {
  std::vector<Node*> constants;
  const std::vector<size_t>& units = units_.On(loop);
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    Node* const n = units_.NodeOf(*unit);
    if (n != nullptr && IsConstantEnter(*n)) constants.push_back(n);
  }
  return constants;
}

int64_t WhileGradient::num_visits() const {
  return array_uses_.has_value() ? array_uses_->num_visits() : 0;
}

Status WhileGradient::OpenVariables(WhileContext* loop, GradientLevel& outer,
                                    GradientLevel& inner,
                                    std::map<int, int>* opened) {
  WhileContext* const back = inner.member()->loop();
  const ContextScope around(back->outer());
  for (size_t i = 0; i < loop->variables().size(); ++i) {
    const LoopVariable& v = loop->variables()[i];
    if (!paths_.Between(v.merge) ||
        !IsDifferentiable(v.merge->output_type(0)) || !IsCarried(v))
      continue;
    const AtLine at(v.merge->loc());
    if (v.exit == nullptr && !v.merge->output_shape(0).fully_known() &&
        loop->AddExit(static_cast<int>(i)) == nullptr)
      return Built(Output()).status();
    Output last;
    if (v.exit != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(const Gradient g,
                              sums_.Total(Output(v.exit), outer));
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
    sums_.Add(v.next->input(0), back->variable(mine).body_value);
  }
  return OkStatus();
}

Status WhileGradient::CloseVariables(WhileContext* loop, GradientLevel& inner,
                                     const std::map<int, int>& opened,
                                     std::vector<LoopSum>* sums) {
  WhileContext* const back = inner.member()->loop();
  for (size_t i = 0; i < loop->variables().size(); ++i) {
    const LoopVariable v = loop->variables()[i];
    if (!paths_.Between(v.merge)) continue;
    const Output value(v.switch_node, 1);
    const AtLine at(v.merge->loc());
    // Uses of the condition's nodes in the body read the value there.
    if (sums_.Has(Output(v.merge))) {
      SLUICE_ASSIGN_OR_RETURN(const Gradient there,
                              sums_.Total(Output(v.merge), inner));
      sums_.Add(value, there);
    }
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, sums_.Total(value, inner));
    const Output& begin = v.enter->input(0);
    if (!IsCarried(v)) {
      if (g && paths_.Between(begin.node)) sums->push_back({begin, g});
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
    if (paths_.Between(begin.node)) {
      const Output total(back->variable(mine).exit);
      SLUICE_RETURN_IF_ERROR(CheckGradient(*v.enter, begin, total));
      sums_.Add(begin, total);
    }
  }
  return OkStatus();
}

}  // namespace sluice
