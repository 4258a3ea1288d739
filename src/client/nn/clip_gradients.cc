#include "client/nn/clip_gradients.h"

#include "absl/strings/str_cat.h"
#include "client/operators.h"
#include "client/reductions.h"
#include "client/tensorflow_names.h"
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

// `clipped`; an error if limits have made it larger than x.
Output InShapeOf(const Output& x, const Output& clipped) {
  if (!x.valid() || !clipped.valid() ||
      x.shape().MergeWith(clipped.shape()).ok())
    return clipped;
  return BuildError(InvalidArgument(
      "clip: expected limits that broadcast to the shape of the tensor, ",
      x.shape().ToString(), ", got a result of shape ",
      clipped.shape().ToString()));
}

// What builds within a scope, in TensorFlow's order, which decides the names.
struct Clipping {
  Clipping(const std::string& name, const char* usual, SourceLoc loc)
      : at(loc), scope(name.empty() ? usual : name) {}
  // The complete name of the scope, for its last node.
  std::string Whole() const { return scope.prefix() + "/"; }
  const AtLine at;
  const NameScope scope;
  const TensorFlowNames names;
};

}  // namespace

Output ClipByValue(const Output& x, const Operand& low, const Operand& high,
                   const std::string& name, SourceLoc loc) {
  const Clipping here(name, "clip_by_value", loc);
  const Output below = InShapeOf(x, ops::Minimum(x, high));
  return InShapeOf(x, ops::Maximum(below, low, {.name = here.Whole()}));
}

Gradient ClipByValue(const Gradient& g, const Operand& low, const Operand& high,
                     const std::string& name, SourceLoc loc) {
  return WithValues(
      g, [&](const Output& x) { return ClipByValue(x, low, high, name, loc); });
}

Output ClipByNorm(const Output& x, const Operand& clip, const Operand& axes,
                  const std::string& name, SourceLoc loc) {
  const Clipping here(name, "clip_by_norm", loc);
  const bool whole = !axes.output.valid() && !axes.literal.valid() &&
                     axes.literal_error.ok() && axes.output.error() < 0;
  const Output squared = x * x;
  const Output squares = ops::Sum(squared, whole ? Operand(AllAxes(x)) : axes,
                                  {.keep_dims = true});
  // The gradient of the root of zero would be NaN.
  const Output some = squares > 0.0;
  const Output safe =
      ops::Select(some, squares, ops::OnesLike(squares, {.name = "ones_like"}));
  const Output norm = ops::Select(some, ops::Sqrt(safe), squares);
  const Output scaled = InShapeOf(x, x * clip);
  const Output limit = ops::Maximum(norm, clip);
  return ops::Identity(scaled / limit, {.name = here.Whole()});
}

Gradient ClipByNorm(const Gradient& g, const Operand& clip, const Operand& axes,
                    const std::string& name, SourceLoc loc) {
  return WithValues(
      g, [&](const Output& x) { return ClipByNorm(x, clip, axes, name, loc); });
}

Output ClipByAverageNorm(const Output& x, const Operand& clip,
                         const std::string& name, SourceLoc loc) {
  const Clipping here(name, "clip_by_average_norm", loc);
  if (!x.valid()) return x * clip;  // The error.
  const DType t = RemoveRef(x.dtype());
  const Output count = ops::Cast(ops::Size(x), t);
  const Output squared = x * x;
  const Output inverse = ops::Rsqrt(ops::Sum(squared, AllAxes(x)));
  const Output limit = clip.Get(t);
  const Output scaled = InShapeOf(x, x * limit);
  const Output average = inverse * count;
  const Output factor = ops::Minimum(average, 1.0 / limit);
  return ops::Identity(scaled * factor, {.name = here.Whole()});
}

Gradient ClipByAverageNorm(const Gradient& g, const Operand& clip,
                           const std::string& name, SourceLoc loc) {
  return WithValues(g, [&](const Output& x) {
    return ClipByAverageNorm(x, clip, name, loc);
  });
}

Output GlobalNorm(const std::vector<Gradient>& gradients,
                  const std::string& name, SourceLoc loc) {
  const Clipping here(name, "global_norm", loc);
  std::vector<Output> halves;  // Of the squares of the norms.
  for (const Gradient& g : gradients)
    if (g) halves.push_back(ops::L2Loss(g.is_sparse() ? g.values : g.dense));
  if (halves.empty()) return {};
  const Output all = ops::Pack(halves, {.name = "stack"});
  return ops::Sqrt(ops::Sum(all, {0}) * 2.0, {.name = "global_norm"});
}

std::vector<Gradient> ClipByGlobalNorm(const std::vector<Gradient>& gradients,
                                       const Operand& clip, Output norm,
                                       const std::string& name, SourceLoc loc) {
  if (!norm.valid()) norm = GlobalNorm(gradients, name, loc);
  if (!norm.valid()) return gradients;  // There are none.
  const Clipping here(name, "clip_by_global_norm", loc);
  const DType t = RemoveRef(norm.dtype());
  const Output inverse = 1.0 / norm;
  const Output limit = clip.Get(t);
  const Output smaller = ops::Minimum(inverse, 1.0 / limit);
  const Output factor = limit * smaller;
  // norm - norm is 0 or, if the norm is infinite or NaN, NaN.
  const Output scale = factor + (norm - norm);
  std::vector<Gradient> clipped;
  for (size_t i = 0; i < gradients.size(); ++i)
    clipped.push_back(WithValues(gradients[i], [&](const Output& x) {
      const DType mine = RemoveRef(x.dtype());
      // (As in TensorFlow, the name repeats the scope's.)
      return ops::Identity(x * (mine == t ? scale : ops::Cast(scale, mine)),
                           {.name = absl::StrCat(here.Whole(), "_", i)});
    }));
  return clipped;
}

std::vector<GradAndVar> ClipByGlobalNorm(const std::vector<GradAndVar>& grads,
                                         const Operand& clip, Output norm,
                                         const std::string& name,
                                         SourceLoc loc) {
  std::vector<Gradient> gradients;
  for (const GradAndVar& g : grads) gradients.push_back(g.gradient);
  const std::vector<Gradient> clipped =
      ClipByGlobalNorm(gradients, clip, norm, name, loc);
  std::vector<GradAndVar> result = grads;
  for (size_t i = 0; i < result.size(); ++i) result[i].gradient = clipped[i];
  return result;
}

}  // namespace sluice
