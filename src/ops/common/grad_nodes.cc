#include "ops/common/grad_nodes.h"

#include <algorithm>
#include <optional>

#include "graph/shape_context.h"

namespace sluice::grad {

namespace {

// A constant vector of dimensions.
Output DimsConstant(const Dims& dims, DType out_type) {
  const Shape shape({static_cast<int64_t>(dims.size())});
  Tensor t(out_type, shape);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (out_type == DType::kInt64)
      t.raw<int64_t>()[i] = dims[i];
    else
      t.raw<int32_t>()[i] = static_cast<int32_t>(dims[i]);
  }
  return Constant(std::move(t));
}

Output CountConstant(int64_t n, DType out_type) {
  return out_type == DType::kInt64
             ? Constant(Tensor::Scalar<int64_t>(n))
             : Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(n)));
}

bool FitsIn(int64_t n, DType t) { return t == DType::kInt64 || n <= INT32_MAX; }

bool KnownEqual(const PartialShape& a, const PartialShape& b) {
  return a.fully_known() && a == b;
}

}  // namespace

DType TypeOf(Output x) {
  return x.valid() ? RemoveRef(x.dtype()) : DType::kInvalid;
}

Output Number(Output like, double v) {
  return like.valid() ? ScalarOf(TypeOf(like), v) : Output();
}

Output Add(Output a, Output b) { return Build("AddV2", {a, b}); }
Output Sub(Output a, Output b) { return Build("Sub", {a, b}); }
Output Mul(Output a, Output b) { return Build("Mul", {a, b}); }
Output Div(Output a, Output b) { return Build("RealDiv", {a, b}); }
Output Neg(Output x) { return Build("Neg", {x}); }
Output Square(Output x) { return Build("Square", {x}); }
Output Select(Output condition, Output a, Output b) {
  return Build("SelectV2", {condition, a, b});
}
Output Conj(Output x) {
  return x.valid() && IsComplex(TypeOf(x)) ? Build("Conj", {x}) : x;
}
Output Cast(Output x, DType dtype) {
  dtype = RemoveRef(dtype);
  if (!x.valid() || TypeOf(x) == dtype) return x;
  return Build("Cast", {x}, {{"DstT", dtype}});
}

Output ShapeOf(Output x, DType out_type) {
  if (!x.valid()) return x;
  const PartialShape& s = x.shape();
  const bool fits = s.fully_known() &&
                    std::all_of(s.dims().begin(), s.dims().end(),
                                [&](int64_t d) { return FitsIn(d, out_type); });
  if (fits) return DimsConstant(s.dims(), out_type);
  return Build("Shape", {x}, {{"out_type", out_type}});
}

Output RankOf(Output x) {
  if (!x.valid()) return x;
  if (x.shape().rank_known())
    return CountConstant(x.shape().rank(), DType::kInt32);
  return Build("Rank", {x});
}

Output SizeOf(Output x, DType out_type) {
  if (!x.valid()) return x;
  const int64_t n = x.shape().num_elements();
  if (n >= 0 && FitsIn(n, out_type)) return CountConstant(n, out_type);
  return Build("Size", {x}, {{"out_type", out_type}});
}

Output ZerosLike(Output x) { return Build("ZerosLike", {x}); }
Output OnesLike(Output x) { return Build("OnesLike", {x}); }

Output ReshapeTo(Output x, Output shape) {
  return Build("Reshape", {x, shape});
}

Output ReshapeLike(Output x, Output like) {
  if (!x.valid() || !like.valid()) return Output();
  if (KnownEqual(x.shape(), like.shape())) return x;
  return ReshapeTo(x, ShapeOf(like));
}

Output ExpandDims(Output x, int axis) {
  return Build("ExpandDims", {x, Constant(static_cast<int32_t>(axis))});
}

Output Transpose(Output x, const std::vector<int32_t>& permutation) {
  return Build("Transpose", {x, IntVector(permutation)});
}

Output SumAxes(Output x, const std::vector<int32_t>& axes, bool keep_dims) {
  if (axes.empty()) return x;
  return SumOver(x, IntVector(axes), keep_dims);
}

Output SumOver(Output x, Output axes, bool keep_dims) {
  return Build("Sum", {x, axes}, {{"keep_dims", keep_dims}});
}

// An axis of size 1 in both operands (or possibly so) may or may not be summed:
// it has one element.
std::optional<std::vector<int32_t>> BroadcastAxes(const PartialShape& x,
                                                  const PartialShape& other) {
  if (!x.rank_known() || !other.rank_known()) return std::nullopt;
  const int rank = std::max(x.rank(), other.rank());
  std::vector<int32_t> axes;
  for (int i = 0; i < rank; ++i) {
    const int xi = i - (rank - x.rank()), oi = i - (rank - other.rank());
    if (xi < 0) {
      axes.push_back(i);
      continue;
    }
    const int64_t xd = x.dim(xi);
    const int64_t od = oi < 0 ? 1 : other.dim(oi);
    if (xd == 1 && od != 1) axes.push_back(i);
    if (xd == -1 && od != 1) return std::nullopt;
  }
  return axes;
}

Output SumToShape(Output dy, Output x, Output other) {
  if (!dy.valid() || !x.valid() || !other.valid()) return Output();
  if (x.SameAs(other) || KnownEqual(dy.shape(), x.shape())) return dy;
  if (auto axes = BroadcastAxes(x.shape(), other.shape())) {
    if (axes->empty()) return dy;
    const int missing = std::max(other.shape().rank() - x.shape().rank(), 0);
    // All reduced axes are new, or all are kept: Sum gives the shape of x.
    if (missing == static_cast<int>(axes->size())) return SumAxes(dy, *axes);
    if (missing == 0) return SumAxes(dy, *axes, /*keep_dims=*/true);
    return ReshapeLike(SumAxes(dy, *axes), x);
  }
  const Output shape = ShapeOf(x);
  Output axes = Build("BroadcastGradientArgs", {shape, ShapeOf(other)});
  return ReshapeTo(SumOver(dy, axes), shape);
}

Output SumToShapeOf(Output dy, Output x) {
  if (!dy.valid() || !x.valid()) return Output();
  return SumToShape(dy, x, dy);
}

}  // namespace sluice::grad
