#include "client/autodiff/gradients.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "client/autodiff/backprop.h"
#include "client/autodiff/function_gradients.h"
#include "client/autodiff/gradient_values.h"
#include "client/autodiff/outside_gradients.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// The first dimension of the tensor that a sparse gradient represents, as a
// scalar.
Output RowCount(const Gradient& g, Output like) {
  const auto from_shape = [](const PartialShape& s) {
    return s.rank() >= 1 && s.dim(0) >= 0
               ? Constant(Tensor::Scalar<int64_t>(s.dim(0)), "", {})
               : Output();
  };
  Output shape = g.dense_shape;
  if (shape.valid()) {
    const Result<PartialShape> known = ConstantAsShape(shape);
    if (known.ok())
      if (const Output rows = from_shape(*known); rows.valid()) return rows;
  }
  const bool resource =
      like.valid() && RemoveRef(like.dtype()) == DType::kResource;
  if (like.valid()) {
    const PartialShape known = resource ? VariableShapeOf(like) : like.shape();
    if (const Output rows = from_shape(known); rows.valid()) return rows;
    if (!shape.valid())
      shape = Build(resource ? "VariableShape" : "Shape", {like}, {}, "", {});
  }
  if (!shape.valid())
    return BuildError(InvalidArgument(
        "sparse gradient: expected a known shape to make it dense, got none"));
  return Build("StridedSlice",
               {shape, IntVector({0}), IntVector({1}), IntVector({1})},
               {{"shrink_axis_mask", 1}}, "", {});
}

}  // namespace

Output Densify(const Gradient& g, Output like) {
  if (!g.is_sparse()) return g.dense;
  return Build("UnsortedSegmentSum", {g.values, g.indices, RowCount(g, like)},
               {}, "", {});
}

Gradient SumGradients(const std::vector<Gradient>& gs, Output like) {
  std::vector<Gradient> some;
  for (const Gradient& g : gs)
    if (g) some.push_back(g);
  if (some.empty()) return Gradient();
  if (some.size() == 1) return some[0];
  const bool sparse =
      std::all_of(some.begin(), some.end(),
                  [](const Gradient& g) { return g.is_sparse(); });
  if (!sparse) {
    std::vector<Output> terms;
    for (const Gradient& g : some) terms.push_back(Densify(g, like));
    return Build("AddN", std::move(terms), {}, "", {});
  }
  // Indices of mixed types are joined as int64.
  const bool mixed =
      std::any_of(some.begin(), some.end(), [&some](const Gradient& g) {
        return g.indices.dtype() != some[0].indices.dtype();
      });
  Output shape;
  std::vector<Output> indices, values;
  for (const Gradient& g : some) {
    if (!shape.valid()) shape = g.dense_shape;
    values.push_back(g.values);
    indices.push_back(
        mixed && g.indices.dtype() != DType::kInt64
            ? Build("Cast", {g.indices}, {{"DstT", DType::kInt64}}, "", {})
            : g.indices);
  }
  const Output axis = ScalarOf(DType::kInt32, 0, {});
  values.push_back(axis);
  indices.push_back(axis);
  const Output all_values =
      Build("ConcatV2", std::move(values), {}, "values", {});
  const Output all_indices =
      Build("ConcatV2", std::move(indices), {}, "indices", {});
  if (!all_values.valid() || !all_indices.valid()) return Gradient();
  return Gradient::Slices(all_indices, all_values, shape);
}

Result<std::vector<Gradient>> Gradients(const std::vector<Output>& ys,
                                        const std::vector<GradTarget>& xs,
                                        const GradientOptions& options,
                                        SourceLoc loc) {
  Graph* const graph = GraphOfGradients(ys, options);
  std::optional<WithGraph> there;
  if (graph != &CurrentGraph()) there.emplace(*graph);
  std::lock_guard<std::recursive_mutex> lock(graph->mutex());
  std::vector<Output> y_outputs;
  for (const Output& y : ys)  // (In a body, outer ones are arguments.)
    y_outputs.push_back(y.valid() ? Operand(y).Get() : y);
  const auto is_integer = [](const Output& o) {
    return IsInteger(RemoveRef(o.dtype()));
  };
  const IntegerGradients integers(
      options.integers &&
      (std::any_of(ys.begin(), ys.end(), is_integer) ||
       std::any_of(xs.begin(), xs.end(),
                   [&](const GradTarget& x) { return is_integer(x.output); })));
  StoreScope stores;
  const Result<std::vector<Gradient>> grads =
      MayGoOutside(xs, options)
          ? GradientsFromBody(y_outputs, xs, options)
          : GradientsWithStores(y_outputs, xs, options, &stores);
  if (!grads.ok()) return WithLine(grads.status(), loc);
  return grads;
}

std::vector<Output> Grad(const std::vector<Output>& ys,
                         const std::vector<GradTarget>& xs,
                         const GradientOptions& options, SourceLoc loc) {
  const Result<std::vector<Gradient>> grads = Gradients(ys, xs, options, {});
  std::vector<Output> result(xs.size());
  if (!grads.ok()) {
    result.assign(xs.size(), BuildError(grads.status(), loc));
    return result;
  }
  for (size_t i = 0; i < xs.size(); ++i)
    result[i] = Densify((*grads)[i], xs[i].output);
  return result;
}

Output Grad(Output y, const GradTarget& x, const GradientOptions& options,
            SourceLoc loc) {
  return Grad(std::vector<Output>{y}, std::vector<GradTarget>{x}, options,
              loc)[0];
}

}  // namespace sluice
