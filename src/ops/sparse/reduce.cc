// Reductions of sparse tensors over axes, with dense or sparse results.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using sparse::Entries;

Result<std::vector<bool>> ReducedAxes(const Tensor& axes, int rank) {
  if (axes.rank() > 1)
    return InvalidArgument(
        "reduction_axes: expected a scalar or a vector, got shape ",
        axes.shape().ToString());
  std::vector<bool> out(static_cast<size_t>(rank));
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const int axis,
                            CanonicalAxis(array::IntAt(axes, i), rank));
    out[static_cast<size_t>(axis)] = true;
  }
  return out;
}

// All four ops; dispatches on the element type last. 16-bit floats are summed
// in float.
class SparseReduceKernel {
 public:
  explicit SparseReduceKernel(const Node& n)
      : keep_(n.BoolAttr("keep_dims")),
        maximum_(n.op_name().find("Max") != std::string::npos),
        sparse_(n.num_outputs() == 3) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Entries e, sparse::InputAt(ctx, 0, "input_"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                            ReducedAxes(ctx.input(3), e.rank));
    SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
    // The position of each entry in the result, as an index.
    Dims shape;
    for (int d = 0; d < e.rank; ++d) {
      const auto at = static_cast<size_t>(d);
      if (!reduced[at] || keep_) shape.push_back(reduced[at] ? 1 : e.shape[at]);
    }
    const auto rank = static_cast<int>(shape.size());
    SLUICE_ASSIGN_OR_RETURN(
        Tensor kept, ctx.AllocateTemp(DType::kInt64, Shape({e.n, rank})));
    Entries places;
    places.n = e.n;
    places.rank = rank;
    places.indices = kept.raw<int64_t>();
    int64_t* to = kept.raw<int64_t>();
    for (int64_t i = 0; i < e.n; ++i)
      for (int d = 0; d < e.rank; ++d)
        if (!reduced[static_cast<size_t>(d)])
          *to++ = e.row(i)[d];
        else if (keep_)
          *to++ = 0;
    const std::vector<int64_t> order = sparse::Order(places);
    int64_t groups = 0;
    for (size_t i = 0; i < order.size(); ++i)
      groups += i == 0 || sparse::Compare(places.row(order[i - 1]),
                                          places.row(order[i]), rank) != 0;
    const DType type = e.values->dtype();
    if (sparse_) {
      SLUICE_RETURN_IF_ERROR(
          sparse::AllocateSparse(ctx, 0, groups, type, shape));
    } else {
      SLUICE_ASSIGN_OR_RETURN(const Shape dense, array::MakeShape(shape));
      SLUICE_ASSIGN_OR_RETURN(
          ctx.output(0), array::MakeZeros(type, dense, ctx.step().allocator));
    }
    const bool known = array::ByNumber(type, [&]<typename T>(array::Tag<T>) {
      Reduce<T>(ctx, *e.values, places, order, shape);
    });
    return known ? OkStatus() : NoKernelFor(ctx.node(), type);
  }

 private:
  template <typename T>
  void Reduce(KernelContext& ctx, const Tensor& values, const Entries& places,
              const std::vector<int64_t>& order, const Dims& shape) const {
    using C = ComputeType<T>;
    const int rank = places.rank;
    T* out = ctx.output(sparse_ ? 1 : 0).template raw<T>();
    int64_t* rows = sparse_ ? ctx.output(0).template raw<int64_t>() : nullptr;
    for (size_t i = 0; i < order.size();) {
      const int64_t* place = places.row(order[i]);
      C sum = static_cast<C>(values.raw<T>()[order[i]]);
      for (++i; i < order.size() &&
                sparse::Compare(place, places.row(order[i]), rank) == 0;
           ++i) {
        const C v = static_cast<C>(values.raw<T>()[order[i]]);
        if (!maximum_) {
          sum = array::WrapAdd(sum, v);
        } else if constexpr (!std::is_same_v<T, complex64> &&
                             !std::is_same_v<T, complex128>) {
          if (sum < v) sum = v;
        }
      }
      if (sparse_) {
        rows = std::copy_n(place, rank, rows);
        *out++ = T(sum);
      } else {
        int64_t at = 0;
        for (int d = 0; d < rank; ++d)
          at = at * shape[static_cast<size_t>(d)] + place[d];
        out[at] = T(sum);
      }
    }
  }

  const bool keep_, maximum_, sparse_;
};

Status SparseReduceShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t rank, sparse::CheckShapes(c, 0));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(3, 1).status());
  const bool keep = c.node().BoolAttr("keep_dims");
  const bool to_sparse = c.num_outputs() == 3;
  const Tensor* axes = c.constant(3);
  std::vector<bool> reduced;
  if (axes != nullptr && rank >= 0) {
    SLUICE_ASSIGN_OR_RETURN(reduced,
                            ReducedAxes(*axes, static_cast<int>(rank)));
  }
  if (to_sparse) {
    const int64_t left =
        rank < 0          ? -1
        : keep            ? rank
        : axes == nullptr ? -1
                          : std::count(reduced.begin(), reduced.end(), false);
    c.set_output(0, PartialShape({-1, left}));
    c.set_output(1, PartialShape({-1}));
    c.set_output(2, PartialShape({left}));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.InputAsShape(2));
  if (axes == nullptr || rank < 0 || rank > kMaxRank) return OkStatus();
  PartialShape out = PartialShape::Scalar();
  for (int d = 0; d < rank; ++d) {
    if (!reduced[static_cast<size_t>(d)])
      out.add_dim(shape.rank() == rank ? shape.dim(d) : -1);
    else if (keep)
      out.add_dim(1);
  }
  c.set_output(0, out);
  return OkStatus();
}

// Every entry gets the gradient of the sum that it is part of.
Status SparseReduceSumGrad(GradContext& c) {
  const Output indices = c.input(0), shape = c.input(2);
  // The result's shape with reduced dimensions of 1.
  const Output rank = grad::SizeOf(shape);
  const Output axes = Build(
      "FloorMod", {Build("Reshape", {c.input(3), IntVector({-1})}), rank});
  const Output kept = Build(
      "DynamicStitch",
      {Build("Range", {Constant<int32_t>(0), rank, Constant<int32_t>(1)}), axes,
       shape, Build("Fill", {grad::ShapeOf(axes), Constant<int64_t>(1)})},
      {{"N", 2}});
  const Output scale = Build(
      "FloorDiv", {shape, Build("Maximum", {kept, Constant<int64_t>(1)})});
  const Output at = Build(
      "FloorDiv", {indices, Build("Maximum", {scale, Constant<int64_t>(1)})});
  c.grads[1] = Build("GatherNd", {grad::ReshapeTo(c.dy[0], kept), at});
  return OkStatus();
}

const std::vector<SampleInput> kSparseReduceSample = {
    {.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
    {.shape = {3}},
    {.shape = {2}, .values = {2, 3}},
    {.shape = {1}, .values = {1}}};

SLUICE_OP(SparseReduceSum)
    .Input("input_indices: int64")
    .Input("input_values: T")
    .Input("input_shape: int64")
    .Input("reduction_axes: int32")
    .Output("output: T")
    .Attr("keep_dims: bool = false")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(SparseReduceShape)
    .Kernel(CpuState<SparseReduceKernel>())
    .Grad(SparseReduceSumGrad)
    .Sample(kSparseReduceSample)
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}},
             {.shape = {1}, .values = {-2}}},
            {{"keep_dims", true}})
    .Doc(
        "Sums the entries of a sparse tensor over some axes; the result is "
        "dense.");

SLUICE_OP(SparseReduceSumSparse)
    .Input("input_indices: int64")
    .Input("input_values: T")
    .Input("input_shape: int64")
    .Input("reduction_axes: int32")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Output("output_shape: int64")
    .Attr("keep_dims: bool = false")
    .Attr(kNumberTypes)
    .Family("sparse")
    .Shape(SparseReduceShape)
    .Kernel(CpuState<SparseReduceKernel>())
    .Grad(grad::Undefined)
    .Doc(
        "Sums the entries of a sparse tensor over some axes; the result is "
        "sparse.");

SLUICE_OP(SparseReduceMax)
    .Input("input_indices: int64")
    .Input("input_values: T")
    .Input("input_shape: int64")
    .Input("reduction_axes: int32")
    .Output("output: T")
    .Attr("keep_dims: bool = false")
    .Attr(kRealTypes)
    .Family("sparse")
    .Shape(SparseReduceShape)
    .Kernel(CpuState<SparseReduceKernel>())
    .Grad(grad::Undefined)
    .Doc(
        "The maximum of the entries of a sparse tensor over some axes; the "
        "result is dense, with zeros where there are no entries.");

SLUICE_OP(SparseReduceMaxSparse)
    .Input("input_indices: int64")
    .Input("input_values: T")
    .Input("input_shape: int64")
    .Input("reduction_axes: int32")
    .Output("output_indices: int64")
    .Output("output_values: T")
    .Output("output_shape: int64")
    .Attr("keep_dims: bool = false")
    .Attr(kRealTypes)
    .Family("sparse")
    .Shape(SparseReduceShape)
    .Kernel(CpuState<SparseReduceKernel>())
    .Grad(grad::Undefined)
    .Doc(
        "The maximum of the entries of a sparse tensor over some axes; the "
        "result is sparse.");

}  // namespace
}  // namespace sluice
