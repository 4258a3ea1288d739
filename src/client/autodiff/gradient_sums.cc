#include "client/autodiff/gradient_sums.h"

#include "client/autodiff/backprop_units.h"
#include "client/autodiff/gradient_values.h"
#include "graph/builder.h"

namespace sluice {

// ---- Contexts ---------------------------------------------------------------

ControlFlowContext* GradientLevel::Mirror(ControlFlowContext* c) {
  if (member_ != nullptr) return member_->Mirror(c);
  if (IsInside(loop_, c)) return loop_;
  if (IsInside(c, loop_) || c->AsCond() == nullptr) return c;
  Conditional* const here = Mirror(c->AsCond()->conditional());
  return here == nullptr ? nullptr : here->branch(c->AsCond()->branch());
}

// Within a loop's body, values around the loop are differentiated too: their
// conditionals take the same branches as in the forward pass.
Conditional* GradientLevel::Mirror(Conditional* c) {
  if (member_ != nullptr) return member_->Mirror(c);
  if (IsInside(c->outer(), loop_)) return c;
  Conditional*& here = mirrors_[c];
  if (here == nullptr) here = ConditionalLike(*c, Mirror(c->outer()));
  return here;
}

// ---- Sums -------------------------------------------------------------------

void GradientSums::Add(const Output& o, const Gradient& g) {
  std::vector<std::vector<Gradient>>& sums = sums_[Representative(o.node)];
  sums.resize(static_cast<size_t>(o.node->num_outputs()));
  sums[static_cast<size_t>(o.index)].push_back(g);
}

bool GradientSums::Has(const Output& o) const {
  const auto it = sums_.find(Representative(o.node));
  return it != sums_.end() && !it->second[static_cast<size_t>(o.index)].empty();
}

Result<Gradient> GradientSums::Total(const Output& o, GradientLevel& level) {
  if (!Has(o)) return Gradient();
  std::vector<Gradient>& sum =
      sums_[Representative(o.node)][static_cast<size_t>(o.index)];
  if (sum.size() > 1) {
    const ContextScope there(level.Mirror(ContextOf(o)));
    const AtLine at(o.node->loc());
    const Gradient total = SumGradients(sum, o);
    if (!total) return Built(Output()).status();
    sum = {total};
  }
  return sum[0];
}

Result<std::vector<Gradient>> GradientSums::Totals(Node* node,
                                                   GradientLevel& level) {
  std::vector<Gradient> totals;
  for (int i = 0; i < node->num_outputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(Output(node, i), level));
    totals.push_back(g);
  }
  return totals;
}

}  // namespace sluice
