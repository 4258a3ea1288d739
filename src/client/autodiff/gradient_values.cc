#include "client/autodiff/gradient_values.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/shape_context.h"
#include "graph/tensor_array_info.h"

namespace sluice {

namespace {
thread_local bool integers_have_gradients = false;
}  // namespace

IntegerGradients::IntegerGradients(bool on)
    : before_(std::exchange(integers_have_gradients, on)) {}
IntegerGradients::~IntegerGradients() { integers_have_gradients = before_; }
bool IntegerGradients::On() { return integers_have_gradients; }

bool IsDifferentiable(DType t) {
  t = RemoveRef(t);
  if (integers_have_gradients && IsInteger(t)) return true;
  return IsFloating(t) || IsComplex(t) || t == DType::kResource ||
         t == DType::kVariant;
}

Result<Output> Built(Output o) {
  if (o.valid()) return o;
  const Graph& graph = CurrentGraph();
  const Status* const error =
      graph.ErrorOf(o.error() >= 0 ? o : graph.Failure());
  return error == nullptr ? Internal("gradients: a builder failed") : *error;
}

Output ZerosFor(const Output& x) {
  constexpr int64_t kSmall = 64;
  const bool resource = RemoveRef(x.dtype()) == DType::kResource;
  const DType type = resource ? VariableType(x) : RemoveRef(x.dtype());
  const PartialShape shape = resource ? VariableShapeOf(x) : x.shape();
  if (IsTensorArrayFlow(x)) return x;
  if (type == DType::kVariant) return Build("ZerosLike", {x}, {}, "zeros", {});
  if (!shape.fully_known())
    return resource ? Build("Fill",
                            {Build("VariableShape", {x}, {}, "", {}),
                             ScalarOf(type, 0, {})},
                            {}, "zeros", {})
                    : Build("ZerosLike", {x}, {}, "zeros", {});
  if (shape.num_elements() <= kSmall) {
    const Result<Shape> known = shape.ToShape();
    if (known.ok()) {
      Result<Tensor> zeros = Tensor::Zeros(type, *known);
      if (zeros.ok()) return Constant(*std::move(zeros), "zeros", {});
    }
  }
  const std::span<const int64_t> dims(shape.dims().begin(), shape.dims().end());
  return Build(
      "Fill",
      {Constant(Tensor::Vector<int64_t>(dims), "", {}), ScalarOf(type, 0, {})},
      {}, "zeros", {});
}

Result<Output> DenseShapeOf(const Output& x, const Gradient& part) {
  const bool resource = RemoveRef(x.dtype()) == DType::kResource;
  const PartialShape known = resource ? VariableShapeOf(x) : x.shape();
  const bool wide =
      (part.dense_shape.valid() && part.dense_shape.dtype() == DType::kInt64) ||
      std::any_of(known.dims().begin(), known.dims().end(),
                  [](int64_t d) { return d > INT32_MAX; });
  const auto constant = [&known]<typename T>(T) {
    return Constant(Tensor::Vector(std::vector<T>(known.dims().begin(),
                                                  known.dims().end())),
                    "dense_shape", {});
  };
  if (known.fully_known())
    return Built(wide ? constant(int64_t{}) : constant(int32_t{}));
  return Built(Build(resource ? "VariableShape" : "Shape", {x},
                     {{"out_type", wide ? DType::kInt64 : DType::kInt32}},
                     "dense_shape", {}));
}

Result<Gradient> NoSlices(const Output& like, DType indices) {
  const bool resource = RemoveRef(like.dtype()) == DType::kResource;
  const DType type = resource ? VariableType(like) : RemoveRef(like.dtype());
  const PartialShape known = resource ? VariableShapeOf(like) : like.shape();
  Result<Tensor> none = Tensor::Make(indices, Shape({0}));
  if (!none.ok()) return none.status();
  Output shape;
  bool rows_known = known.rank() >= 1;
  for (int i = 1; i < known.rank(); ++i)
    rows_known = rows_known && known.dim(i) >= 0;
  if (rows_known) {
    std::vector<int64_t> dims(known.dims().begin(), known.dims().end());
    dims[0] = 0;
    shape = Constant(Tensor::Vector<int64_t>(dims), "", {});
  } else {
    const Output all = resource ? Build("VariableShape", {like},
                                        {{"out_type", DType::kInt64}}, "", {})
                                : Build("Shape", {like},
                                        {{"out_type", DType::kInt64}}, "", {});
    const Output rest = Build(
        "StridedSlice", {all, IntVector({1}), IntVector({0}), IntVector({1})},
        {{"end_mask", 1}}, "", {});
    shape = Build("ConcatV2",
                  {Constant(Tensor::Vector<int64_t>({int64_t{0}}), "", {}),
                   rest, ScalarOf(DType::kInt32, 0, {})},
                  {}, "", {});
  }
  const Output values =
      Build("Fill", {shape, ScalarOf(type, 0, {})}, {}, "no_rows", {});
  const Output at = Constant(*std::move(none), "no_indices", {});
  SLUICE_RETURN_IF_ERROR(Built(values).status());
  SLUICE_RETURN_IF_ERROR(Built(at).status());
  return Gradient::Slices(at, values, Output());
}

namespace {

// A gradient function may return an output of another graph, or invalid slices.
Status CheckParts(const Node& node, const Output& in, const Gradient& g) {
  const auto fail = [&](const auto&... what) {
    return Internal("gradient of ", node.Describe(), ": expected ", what...);
  };
  for (const Output& part : {g.dense, g.indices, g.values, g.dense_shape}) {
    if (part.node == nullptr) continue;
    if (part.graph() != node.graph())
      return fail("an output of the same graph for input ", in.name(), ", got ",
                  part.node->Describe(), " of another");
    if (part.index < 0 || part.index >= part.node->num_outputs())
      return fail("one of ", part.node->num_outputs(), " outputs of ",
                  part.node->Describe(), " for input ", in.name(), ", got ",
                  part.index);
  }
  if (!g.is_sparse()) return OkStatus();
  const DType index = g.indices.dtype();
  if (index != DType::kInt32 && index != DType::kInt64)
    return fail("slices with indices of int32 or int64 for input ", in.name(),
                ", got ",
                g.indices.node == nullptr ? "none" : DTypeName(index));
  if (g.values.shape().rank() == 0)
    return fail("slices of rank 1 or more for input ", in.name(),
                ", got a scalar; ", g.values.node->Describe());
  return OkStatus();
}

}  // namespace

Status CheckGradient(const Node& node, const Output& in, const Gradient& g) {
  SLUICE_RETURN_IF_ERROR(CheckParts(node, in, g));
  const DType edge = RemoveRef(in.dtype());
  const DType want = edge == DType::kResource ? VariableType(in) : edge;
  const Output value = g.is_sparse() ? g.values : g.dense;
  if (want != DType::kInvalid && want != RemoveRef(value.dtype()) &&
      edge != DType::kVariant)
    return Internal("gradient of ", node.Describe(), ": expected ",
                    DTypeName(want), " for input ", in.name(), ", got ",
                    DTypeName(value.dtype()), "; ", value.node->Describe());
  if (g.is_sparse() || edge == DType::kResource || edge == DType::kVariant ||
      !in.shape().rank_known())
    return OkStatus();
  if (!value.shape().CompatibleWith(in.shape()))
    return Internal("gradient of ", node.Describe(), ": expected shape ",
                    in.shape().ToString(), " for input ", in.name(), ", got ",
                    value.shape().ToString(), "; ", value.node->Describe());
  return Annotate(
      node.graph()->SetShape(g.dense, in.shape()),
      absl::StrCat("gradient of ", node.Describe(), " for input ", in.name()));
}

}  // namespace sluice
