// New tensors: filled, ranges, one-hot, tiled.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/tensor_array/tensor_list.h"
#include "tensor/compute_type.h"

namespace sluice {
namespace {

using array::IntAt;
using array::SpanOf;
using array::Tag;

// ---- Fill, Empty, ZerosLike, OnesLike ---------------------------------------

Status FillKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          array::ShapeFrom(ctx.input(0), "dims"));
  const Tensor& value = ctx.input(1);
  if (value.num_elements() != 1 || value.rank() > 1)
    return InvalidArgument("value: expected a scalar, got shape ",
                           value.shape().ToString());
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, value.dtype(), shape));
  array::FillRun(value.dtype(), value.raw(), ctx.output(0).raw(),
                 shape.num_elements());
  return OkStatus();
}

Status FillShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  if (const Tensor* dims = c.constant(0))
    for (int64_t i = 0; i < dims->num_elements(); ++i)
      if (array::IntAt(*dims, i) < 0)
        return InvalidArgument("dims: expected sizes >= 0, got ",
                               array::IntAt(*dims, i), " at [", i, "]");
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.InputAsShape(0));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status FillGrad(GradContext& g) {
  const Output dy = g.dy[0];
  g.grads[1] =
      grad::SumOver(dy, Build("Range", {Constant(int32_t{0}), grad::RankOf(dy),
                                        Constant(int32_t{1})}));
  return OkStatus();
}

class EmptyKernel {
 public:
  explicit EmptyKernel(const Node& n) : type_(n.TypeAttr("dtype")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            array::ShapeFrom(ctx.input(0), "shape"));
    // Zeros even if `init` does not request it: the result of a step must not
    // depend on uninitialised memory.
    SLUICE_ASSIGN_OR_RETURN(
        Tensor out, array::MakeZeros(type_, shape, ctx.step().allocator));
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }

 private:
  const DType type_;
};

Status ShapeOfInput0(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.InputAsShape(0));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status ZerosLikeKernel(KernelContext& ctx) {
  const DType type = ctx.input(0).dtype();
  const Shape shape = ctx.input(0).shape();
  SLUICE_RETURN_IF_ERROR(IsPlain(type)
                             ? ctx.ForwardOrAllocate({0}, 0, type, shape)
                             : ctx.Allocate(0, type, shape));
  if (IsPlain(type))
    array::ZeroRun(type, ctx.output(0).raw(), shape.num_elements());
  return OkStatus();
}

Status ZerosLikeVariants(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  for (int64_t i = 0; i < in.num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0).raw<Variant>()[i],
                            ZerosLikeVariant(in.raw<Variant>()[i]));
  }
  return OkStatus();
}

Status MakeZerosLike(const Node& n, Kernel* k) {
  const DType t = n.TypeAttr("T");
  if (t == DType::kResource) return NoKernelFor(n, t);
  k->run = t == DType::kVariant ? ZerosLikeVariants : ZerosLikeKernel;
  k->expensive = true;
  return OkStatus();
}

Status OnesLikeKernel(KernelContext& ctx) {
  const DType type = ctx.input(0).dtype();
  const Shape shape = ctx.input(0).shape();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, type, shape));
  Tensor& out = ctx.output(0);
  const bool number = array::ByNumber(type, [&]<typename T>(Tag<T>) {
    std::fill_n(out.raw<T>(), shape.num_elements(), T(1.0f));
  });
  if (!number) std::fill_n(out.raw<bool>(), shape.num_elements(), true);
  return OkStatus();
}

// ---- OneHot -----------------------------------------------------------------

class OneHotKernel {
 public:
  explicit OneHotKernel(const Node& n) : axis_(n.IntAttr("axis")) {}
  Status Run(KernelContext& ctx) {
    const Tensor &indices = ctx.input(0), &on = ctx.input(2),
                 &off = ctx.input(3);
    SLUICE_ASSIGN_OR_RETURN(const int64_t depth,
                            array::IntScalar(ctx.input(1), "depth"));
    if (depth < 0)
      return InvalidArgument("depth: expected at least 0, got ", depth);
    if (on.rank() != 0 || off.rank() != 0)
      return InvalidArgument(
          "on_value and off_value: expected scalars, got shapes ",
          on.shape().ToString(), " and ", off.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const int axis,
                            CanonicalAxis(axis_, indices.rank() + 1));
    Dims dims = array::DimsOf(indices.shape());
    dims.insert(dims.begin() + axis, depth);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    const DType type = on.dtype();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
    if (shape.num_elements() == 0) return OkStatus();
    void* out = ctx.output(0).raw();
    array::FillRun(type, off.raw(), out, shape.num_elements());
    const int64_t suffix =
        array::Product(indices.shape().dims(), axis, indices.rank());
    if (type == DType::kFloat) {
      Set(indices, depth, suffix, *on.raw<float>(), ctx.output(0).raw<float>());
      return OkStatus();
    }
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int64_t hot = IntAt(indices, i);
      if (hot < 0 || hot >= depth) continue;  // All off.
      const int64_t at = (i / suffix * depth + hot) * suffix + i % suffix;
      array::CopyRun(type, on.raw(), array::At(type, out, at), 1);
    }
    return OkStatus();
  }

 private:
  // The same for floats, the usual case.
  static void Set(const Tensor& indices, int64_t depth, int64_t suffix,
                  float on, float* out) {
    const auto set = [&](const auto* hot) {
      float* row = out;
      for (int64_t i = 0; i < indices.num_elements();) {
        for (int64_t j = 0; j < suffix; ++j, ++i) {
          const auto at = static_cast<int64_t>(hot[i]);
          if (at >= 0 && at < depth) row[at * suffix + j] = on;
        }
        row += depth * suffix;
      }
    };
    switch (indices.dtype()) {
      case DType::kInt64:
        return set(indices.raw<int64_t>());
      case DType::kInt32:
        return set(indices.raw<int32_t>());
      case DType::kInt8:
        return set(indices.raw<int8_t>());
      default:
        return set(indices.raw<uint8_t>());
    }
  }

  const int64_t axis_;
};

Status OneHotShape(ShapeContext& c) {
  for (int i : {1, 2, 3}) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  const PartialShape& in = c.input(0);
  const std::optional<int64_t> depth = c.ConstantInt(1);
  if (depth && *depth < 0)
    return InvalidArgument("depth: expected at least 0, got ", *depth);
  if (!in.rank_known()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      const int axis, CanonicalAxis(c.node().IntAttr("axis"), in.rank() + 1));
  PartialShape out = array::SubShape(in, 0, axis);
  out.add_dim(depth.value_or(-1));
  c.set_output(0, array::JoinShapes(out, array::SubShape(in, axis, in.rank())));
  return OkStatus();
}

// ---- Range, LinSpace --------------------------------------------------------

// The number of entries of start, start + delta, ... before limit.
template <typename T>
Result<int64_t> RangeSize(T start, T limit, T delta) {
  if (delta == T(0))
    return InvalidArgument("delta: expected a value other than 0, got 0");
  if (delta > T(0) ? !(start <= limit) : !(start >= limit))
    return InvalidArgument(
        "limit: expected ", delta > T(0) ? "at least" : "at most",
        " the start ", +start, " for a delta of ", +delta, ", got ", +limit);
  if constexpr (std::is_integral_v<T>) {
    // The difference of any two values fits the unsigned type.
    const auto distance = [](T from, T to) {
      return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
    };
    const uint64_t range =
        delta > 0 ? distance(start, limit) : distance(limit, start);
    const uint64_t step = delta > 0
                              ? static_cast<uint64_t>(delta)
                              : uint64_t{0} - static_cast<uint64_t>(delta);
    const uint64_t size = range / step + (range % step != 0);
    if (size > static_cast<uint64_t>(INT64_MAX))
      return InvalidArgument("range: expected fewer than 2^63 entries, got ",
                             size);
    return static_cast<int64_t>(size);
  } else {
    const double size = std::ceil(
        std::abs(static_cast<double>(static_cast<T>((limit - start) / delta))));
    if (!(size < 9.2e18))
      return InvalidArgument("range: expected fewer than 2^63 entries, got ",
                             size);
    return static_cast<int64_t>(size);
  }
}

// (Inlined where there are errors to return, it would keep the sum, on which
// each step waits, in a register of integers.)
template <typename T>
[[gnu::noinline]] void AddUp(ComputeType<T> v, ComputeType<T> delta, int64_t n,
                             T* out) {
  for (int64_t i = 0; i < n; ++i, v += delta) out[i] = T(v);
}

template <typename T>
struct RangeKernel {
  static Status Run(KernelContext& ctx) {
    for (int i = 0; i < 3; ++i)
      if (ctx.input(i).num_elements() != 1 || ctx.input(i).rank() > 1)
        return InvalidArgument(
            "start, limit and delta: expected scalars, got "
            "shape ",
            ctx.input(i).shape().ToString());
    const ComputeType<T> start = ctx.input(0).raw_scalar<T>(),
                         limit = ctx.input(1).raw_scalar<T>(),
                         delta = ctx.input(2).raw_scalar<T>();
    SLUICE_ASSIGN_OR_RETURN(const int64_t n, RangeSize(start, limit, delta));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), Shape({n})));
    T* out = ctx.output(0).raw<T>();
    if constexpr (std::is_integral_v<T>) {
      auto v = static_cast<uint64_t>(start);
      for (int64_t i = 0; i < n; ++i, v += static_cast<uint64_t>(delta))
        out[i] = static_cast<T>(v);
    } else {
      AddUp(start, delta, n, out);
    }
    return OkStatus();
  }
};

template <typename T>
Result<int64_t> ConstantRangeSize(const Tensor& start, const Tensor& limit,
                                  const Tensor& delta) {
  return RangeSize<ComputeType<T>>(start.raw_scalar<T>(), limit.raw_scalar<T>(),
                                   delta.raw_scalar<T>());
}

Status RangeShape(ShapeContext& c) {
  for (int i : {0, 1, 2}) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  const Tensor *start = c.constant(0), *limit = c.constant(1),
               *delta = c.constant(2);
  Result<int64_t> size = -1;
  if (start != nullptr && limit != nullptr && delta != nullptr)
    array::ByNumber(start->dtype(), [&]<typename T>(Tag<T>) {
      if constexpr (!std::is_same_v<T, complex64> &&
                    !std::is_same_v<T, complex128>)
        size = ConstantRangeSize<T>(*start, *limit, *delta);
    });
  if (!size.ok()) return size.status();
  c.set_output(0, {*size});
  return OkStatus();
}

template <typename T>
struct LinSpaceKernel {
  static Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t num,
                            array::IntScalar(ctx.input(2), "num"));
    for (int i = 0; i < 2; ++i)
      if (ctx.input(i).rank() != 0)
        return InvalidArgument("start and stop: expected scalars, got shape ",
                               ctx.input(i).shape().ToString());
    if (num <= 0)
      return InvalidArgument("num: expected a value > 0, got ", num);
    const ComputeType<T> start = ctx.input(0).raw_scalar<T>();
    const ComputeType<T> stop = ctx.input(1).raw_scalar<T>();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), Shape({num})));
    T* out = ctx.output(0).raw<T>();
    out[0] = T(start);
    if (num == 1) return OkStatus();
    const ComputeType<T> step =
        (stop - start) / static_cast<ComputeType<T>>(num - 1);
    for (int64_t i = 1; i < num - 1; ++i)
      out[i] = T(start + step * static_cast<ComputeType<T>>(i));
    out[num - 1] = T(stop);  // Exact, without the rounding of the others.
    return OkStatus();
  }
};

Status LinSpaceShape(ShapeContext& c) {
  for (int i : {0, 1, 2}) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  const std::optional<int64_t> num = c.ConstantInt(2);
  if (num && *num <= 0)
    return InvalidArgument("num: expected a value > 0, got ", *num);
  c.set_output(0, {num.value_or(-1)});
  return OkStatus();
}

// ---- Tile -------------------------------------------------------------------

Status TileKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Dims multiples,
                          array::IntVectorOf(ctx.input(1), "multiples"));
  const auto rank = static_cast<size_t>(in.rank());
  if (multiples.size() != rank)
    return InvalidArgument("multiples: expected ", rank,
                           " entries, one per dimension, got ",
                           multiples.size());
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    if (multiples[i] < 0)
      return InvalidArgument("multiples: expected values >= 0, got ",
                             multiples[i]);
    SLUICE_ASSIGN_OR_RETURN(
        const int64_t d,
        array::MultiplyDims(in.shape().dims()[i], multiples[i]));
    dims.push_back(d);
  }
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  if (shape == in.shape()) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
  const Dims from_dense = array::DenseStrides(in.shape().dims());
  const Dims to_dense = array::DenseStrides(shape.dims());
  Dims loops, from, to;  // For each dimension: its copies, then its elements.
  for (size_t i = 0; i < rank; ++i) {
    const int64_t d = in.shape().dims()[i];
    loops.push_back(multiples[i]);
    from.push_back(0);
    to.push_back(to_dense[i] * d);
    loops.push_back(d);
    from.push_back(from_dense[i]);
    to.push_back(to_dense[i]);
  }
  array::CopyStrided(in.dtype(), SpanOf(loops), in.raw(), SpanOf(from),
                     ctx.output(0).raw(), SpanOf(to));
  return OkStatus();
}

Status TileShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  SLUICE_ASSIGN_OR_RETURN(const PartialShape length, c.WithRank(1, 1));
  if (in.rank_known() && length.dim(0) >= 0 && length.dim(0) != in.rank())
    return InvalidArgument("multiples: expected ", in.rank(),
                           " entries, one per dimension, got ", length.dim(0));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.InputAsShape(1));
  if (!in.rank_known() || !out.rank_known()) {
    c.set_output(0, in.rank_known()    ? PartialShape::OfRank(in.rank())
                    : out.rank_known() ? PartialShape::OfRank(out.rank())
                                       : PartialShape());
    return OkStatus();
  }
  for (int i = 0; i < in.rank(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const int64_t d,
                            array::MultiplyDims(in.dim(i), out.dim(i)));
    out.set_dim(i, d);
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

// Sums over the copies: dy in the shape [m0, d0, m1, d1, ...], without the
// dimensions known not to be repeated.
Status TileGrad(GradContext& g) {
  const Output x = g.input(0), multiples = g.input(1), dy = g.dy[0];
  const std::optional<Tensor> known = ConstantValue(multiples);
  if (known && x.shape().fully_known()) {
    std::vector<int32_t> shape, axes;
    bool joins = false;  // The next dimension merges with the last one.
    for (int i = 0; i < x.shape().rank(); ++i) {
      const int64_t m = IntAt(*known, i), d = x.shape().dim(i);
      if (m != 1) {
        axes.push_back(static_cast<int32_t>(shape.size()));
        shape.push_back(static_cast<int32_t>(m));
        joins = false;
      }
      if (joins)
        shape.back() *= static_cast<int32_t>(d);
      else
        shape.push_back(static_cast<int32_t>(d));
      joins = true;
    }
    g.grads[0] = grad::ReshapeLike(
        grad::SumAxes(grad::ReshapeTo(dy, IntVector(shape)), axes), x);
    return OkStatus();
  }
  const Output pairs =
      Build("Pack", {multiples, grad::ShapeOf(x, multiples.dtype())},
            {{"N", 2}, {"axis", 1}});
  const Output split = grad::ReshapeTo(pairs, IntVector({-1}));
  const Output axes = Build("Range", {Constant(int32_t{0}), grad::SizeOf(split),
                                      Constant(int32_t{2})});
  g.grads[0] =
      grad::ReshapeLike(grad::SumOver(grad::ReshapeTo(dy, split), axes), x);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Fill)
    .Input("dims: index_type")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("index_type: {int32, int64} = DT_INT32")
    .HostInput("dims")
    .Kind(OpKind::kFill)
    .Shape(FillShape)
    .Kernel(Cpu(FillKernel, true))
    .Grad(FillGrad)
    .Sample({{.shape = {2}, .values = {2, 3}}, {.shape = {}}})
    .Doc(
        "Returns a tensor of the given shape with all elements equal to "
        "`value`.")
    .Family("array");

SLUICE_OP(Empty)
    .Input("shape: int32")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("init: bool = false")
    .Stateful(kDiffersEachTime)
    .Shape(ShapeOfInput0)
    .Kernel(CpuState<EmptyKernel>(true))
    .NoGradient("it does not depend on the input values")
    .Sample({{.shape = {2}, .values = {2, 3}}}, {{"dtype", DType::kFloat}})
    .Doc("Returns a tensor of the given shape with unspecified contents.")
    .Family("array");

SLUICE_OP(ZerosLike)
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Kind(OpKind::kZerosLike)
    .Shape(UnchangedShape)
    .Kernel(MakeZerosLike)
    .NoGradient("it does not depend on the input values")
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns zeros of the same shape and type.")
    .Family("array");

SLUICE_OP(OnesLike)
    .Input("x: T")
    .Output("y: T")
    .Attr(
        "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, "
        "int32, uint32, int64, uint64, complex64, complex128, bool}")
    .Kind(OpKind::kOnesLike)
    .Shape(UnchangedShape)
    .Kernel(Cpu(OnesLikeKernel, true))
    .NoGradient("it does not depend on the input values")
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns ones of the same shape and type.")
    .Family("array");

SLUICE_OP(OneHot)
    .Input("indices: TI")
    .Input("depth: int32")
    .Input("on_value: T")
    .Input("off_value: T")
    .Output("output: T")
    .Attr("axis: int = -1")
    .Attr("T: type")
    .Attr("TI: {uint8, int8, int32, int64} = DT_INT64")
    .HostInput("depth")
    .Shape(OneHotShape)
    .Kernel(CpuState<OneHotKernel>(true))
    .NoGradient("indices have no derivative")
    .Sample({{.shape = {3}, .values = {2, -1, 0}},
             {.shape = {}, .values = {3}},
             {.shape = {}, .values = {1}},
             {.shape = {}, .values = {0}}})
    .Doc(
        "Returns on_value at the given indices along a new dimension, and "
        "off_value elsewhere.")
    .Family("array");

const BatchFormRegistrar one_hot_batch(
    "OneHot", [](const Node& n) -> std::optional<BatchForm> {
      if (n.IntAttr("axis") != -1) return std::nullopt;
      return BatchForm{.axis = BatchForm::kNew,
                       .shared = 1 << 1 | 1 << 2 | 1 << 3};
    });

SLUICE_OP(Range)
    .Input("start: Tidx")
    .Input("limit: Tidx")
    .Input("delta: Tidx")
    .Output("output: Tidx")
    .Attr(
        "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, "
        "uint16, uint32, uint64} = DT_INT32")
    .HostInput("start")
    .HostInput("limit")
    .HostInput("delta")
    .Kind(OpKind::kRange)
    .Shape(RangeShape)
    .Kernel(CpuFor<RangeKernel, bfloat16, half, float, double, int8_t, int16_t,
                   int32_t, int64_t, uint16_t, uint32_t, uint64_t>("Tidx"))
    .NoGradient("its output is a fixed sequence")
    .Sample({{.shape = {}, .values = {2}},
             {.shape = {}, .values = {9}},
             {.shape = {}, .values = {3}}})
    .Doc("Returns start, start + delta, ... up to but not including limit.")
    .Family("math");

SLUICE_OP(LinSpace)
    .Input("start: T")
    .Input("stop: T")
    .Input("num: Tidx")
    .Output("output: T")
    .Attr("T: {bfloat16, half, float, double}")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(LinSpaceShape)
    .Kernel(CpuFor<LinSpaceKernel, bfloat16, half, float, double>("T"))
    .NoGradient("TensorFlow does not define one")
    .Sample({{.shape = {}, .values = {1}},
             {.shape = {}, .values = {2}},
             {.shape = {}, .values = {5}}})
    .Doc("Returns num values evenly spaced from start to stop, both included.")
    .Family("math");

SLUICE_OP(Tile)
    .Input("input: T")
    .Input("multiples: Tmultiples")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tmultiples: {int32, int64} = DT_INT32")
    .HostInput("multiples")
    .Shape(TileShape)
    .Kernel(Cpu(TileKernel, true))
    .Grad(TileGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2}, .values = {2, 3}}})
    .Doc("Repeats the input multiples[i] times along dimension i.")
    .Family("array");

const BatchFormRegistrar tile_batch("Tile", ByDimension<1, 1>);

}  // namespace
}  // namespace sluice
