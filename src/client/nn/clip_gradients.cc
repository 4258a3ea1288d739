#include "client/nn/clip_gradients.h"

#include "client/operators.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// The same gradient with its values (of its rows) changed.
template <typename Fn>
Gradient WithValues(const Gradient& g, const Fn& change) {
  if (!g) return g;
  if (!g.is_sparse()) return Gradient(change(g.dense));
  return Gradient::Slices(g.indices, change(g.values), g.dense_shape);
}

// 0, 1, ..., rank - 1.
Output AllAxes(const Output& x) {
  const PartialShape shape = x.valid() ? x.shape() : PartialShape();
  if (!shape.rank_known()) return ops::Range(0, ops::Rank(x), 1);
  std::vector<int32_t> axes(static_cast<size_t>(shape.rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int32_t>(i);
  return IntVector(axes);
}

}  // namespace

Output ClipByValue(const Output& x, const Operand& low, const Operand& high,
                   SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("clip_by_value");
  return ops::Maximum(ops::Minimum(x, high), low);
}

Gradient ClipByValue(const Gradient& g, const Operand& low, const Operand& high,
                     SourceLoc loc) {
  return WithValues(
      g, [&](const Output& x) { return ClipByValue(x, low, high, loc); });
}

Output ClipByNorm(const Output& x, const Operand& clip,
                  const std::vector<int32_t>& axes, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("clip_by_norm");
  const Output squares = ops::Sum(
      x * x, axes.empty() ? AllAxes(x) : IntVector(axes), {.keep_dims = true});
  // The gradient of the root of zero would be NaN.
  const Output some = squares > 0;
  const Output safe = ops::SelectV2(some, squares, ops::OnesLike(squares));
  const Output norm = ops::SelectV2(some, ops::Sqrt(safe), squares);
  return x * clip / ops::Maximum(norm, clip);
}

Gradient ClipByNorm(const Gradient& g, const Operand& clip,
                    const std::vector<int32_t>& axes, SourceLoc loc) {
  return WithValues(
      g, [&](const Output& x) { return ClipByNorm(x, clip, axes, loc); });
}

Output ClipByAverageNorm(const Output& x, const Operand& clip, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("clip_by_average_norm");
  if (!x.valid()) return x * clip;  // The error.
  const DType t = RemoveRef(x.dtype());
  const Output limit = clip.Get(t);
  const Output count = ops::Cast(ops::Size(x), t);
  const Output inverse = ops::Rsqrt(ops::Sum(x * x, AllAxes(x)));
  return x * limit * ops::Minimum(inverse * count, 1 / limit);
}

Gradient ClipByAverageNorm(const Gradient& g, const Operand& clip,
                           SourceLoc loc) {
  return WithValues(
      g, [&](const Output& x) { return ClipByAverageNorm(x, clip, loc); });
}

Output GlobalNorm(const std::vector<Gradient>& gradients, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("global_norm");
  std::vector<Output> halves;  // Of the squares of the norms.
  for (const Gradient& g : gradients)
    if (g) halves.push_back(ops::L2Loss(g.is_sparse() ? g.values : g.dense));
  if (halves.empty()) return {};
  return ops::Sqrt(ops::Sum(ops::Pack(halves), 0) * 2);
}

std::vector<Gradient> ClipByGlobalNorm(const std::vector<Gradient>& gradients,
                                       const Operand& clip, Output norm,
                                       SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("clip_by_global_norm");
  if (!norm.valid()) norm = GlobalNorm(gradients, loc);
  if (!norm.valid()) return gradients;  // There are none.
  const DType t = RemoveRef(norm.dtype());
  const Output limit = clip.Get(t);
  // norm - norm is 0 or, if the norm is infinite or NaN, NaN.
  const Output scale =
      limit * ops::Minimum(1 / norm, 1 / limit) + (norm - norm);
  std::vector<Gradient> clipped;
  for (const Gradient& g : gradients)
    clipped.push_back(WithValues(g, [&](const Output& x) {
      const DType mine = RemoveRef(x.dtype());
      return x * (mine == t ? scale : ops::Cast(scale, mine));
    }));
  return clipped;
}

std::vector<GradAndVar> ClipByGlobalNorm(const std::vector<GradAndVar>& grads,
                                         const Operand& clip, Output norm,
                                         SourceLoc loc) {
  std::vector<Gradient> gradients;
  for (const GradAndVar& g : grads) gradients.push_back(g.gradient);
  const std::vector<Gradient> clipped =
      ClipByGlobalNorm(gradients, clip, norm, loc);
  std::vector<GradAndVar> result = grads;
  for (size_t i = 0; i < result.size(); ++i) result[i].gradient = clipped[i];
  return result;
}

}  // namespace sluice
