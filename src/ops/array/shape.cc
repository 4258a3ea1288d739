// Shapes as values, and ops that change only the shape or the type.
#include "exec/core/kernel.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::IntAt;

// ---- Shape, ShapeN, Size, Rank ----------------------------------------------

// Element counts are computed in int32 if the graph requests it.
template <typename T>
Status StoreSize(int64_t size, T* to) {
  *to = static_cast<T>(size);
  if (static_cast<int64_t>(*to) == size) return OkStatus();
  return InvalidArgument("size: expected one that fits int32, got ", size,
                         "; hint: set out_type to int64");
}

template <typename T>
struct ShapeKernel {
  static Status Run(KernelContext& ctx) {
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Shape& shape = ctx.input(i).shape();
      Tensor out(DTypeOf<T>(), Shape({shape.rank()}));
      for (int d = 0; d < shape.rank(); ++d)
        SLUICE_RETURN_IF_ERROR(StoreSize(shape[d], out.raw<T>() + d));
      ctx.set_output(i, std::move(out));
    }
    return OkStatus();
  }
};

template <typename T>
struct SizeKernel {
  static Status Run(KernelContext& ctx) {
    T size;
    SLUICE_RETURN_IF_ERROR(StoreSize(ctx.input(0).num_elements(), &size));
    ctx.set_output(0, Tensor::Scalar<T>(size));
    return OkStatus();
  }
};

Status RankKernel(KernelContext& ctx) {
  ctx.set_output(0, Tensor::Scalar<int32_t>(ctx.input(0).rank()));
  return OkStatus();
}

Status ShapeShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, PartialShape({c.input(i).rank()}));
  return OkStatus();
}

// ---- Reshape ----------------------------------------------------------------

Status ReshapeKernel(KernelContext& ctx) {
  const Tensor& sizes = ctx.input(1);
  if (sizes.rank() != 1)
    return InvalidArgument("shape: expected a vector, got shape ",
                           sizes.shape().ToString());
  if (sizes.num_elements() > kMaxRank)
    return InvalidArgument("shape: expected at most ", kMaxRank,
                           " dimensions, got ", sizes.num_elements());
  int64_t dims[kMaxRank];
  const int rank = static_cast<int>(sizes.num_elements());
  const int64_t elements = ctx.input(0).num_elements();
  int missing = -1;
  int64_t known = 1;  // Product of the sizes that are not 0.
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    dims[i] = IntAt(sizes, i);
    if (dims[i] == -1) {
      if (missing >= 0)
        return InvalidArgument("shape: expected at most one -1, got [",
                               sizes.Summarize(-1), "]");
      missing = i;
    } else if (dims[i] < 0) {
      return InvalidArgument("shape: expected dimensions >= -1, got [",
                             sizes.Summarize(-1), "]");
    } else if (dims[i] == 0) {
      empty = true;
    } else {
      known = MultiplyOrNegative(known, dims[i]);
      if (known < 0)
        return InvalidArgument(
            "shape: expected fewer than 2^63 elements, got [",
            sizes.Summarize(-1), "]");
    }
  }
  if (missing >= 0) {
    // With a size of 0, the -1 is inferred from the input's nonzero sizes.
    int64_t source = elements;
    if (empty) {
      source = 1;
      for (int64_t d : ctx.input(0).shape().dims())
        if (d > 0) source *= d;
    }
    dims[missing] = source / known;
    known *= dims[missing];
  }
  if (empty) known = 0;
  if (known != elements)
    return InvalidArgument("shape: expected one of ", elements,
                           " elements, as the input of shape ",
                           ctx.input(0).shape().ToString(), " has, got [",
                           sizes.Summarize(-1), "]");
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::Make({dims, static_cast<size_t>(rank)}));
  SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(0).Reshaped(shape));
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status ReshapeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.InputAsShape(1));
  const int64_t elements = c.input(0).num_elements();
  if (out.rank_known() && elements >= 0) {
    int64_t known = 1;
    int missing = -1, unknown = 0;
    for (int i = 0; i < out.rank() && known >= 0; ++i) {
      if (out.dim(i) >= 0) {
        known = MultiplyOrNegative(known, out.dim(i));
      } else {
        missing = i;
        ++unknown;
      }
    }
    const bool divides = known > 0 && elements % known == 0;
    if (known < 0 || (unknown == 0 && known != elements) ||
        (unknown == 1 && known > 0 && !divides))
      return InvalidArgument(
          "shape: expected ", elements, " elements, as the input of shape ",
          c.input(0).ToString(), " has, got shape ", out.ToString());
    if (unknown == 1 && known > 0) out.set_dim(missing, elements / known);
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

// The range of a quantised tensor is passed on.
Status QuantizedReshapeKernel(KernelContext& ctx) {
  for (int i = 1; i < 3; ++i) {
    if (ctx.input(i + 1).num_elements() != 1)
      return InvalidArgument("range: expected one number, got shape ",
                             ctx.input(i + 1).shape().ToString());
    // (A scalar, as in the shape function, although [1] is accepted too.)
    SLUICE_ASSIGN_OR_RETURN(ctx.output(i), ctx.input(i + 1).Reshaped(Shape()));
  }
  return ReshapeKernel(ctx);
}

Status QuantizedReshapeShape(ShapeContext& c) {
  for (int i = 1; i < 3; ++i) {
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(i + 1));
    c.set_output(i, PartialShape::Scalar());
  }
  return ReshapeShape(c);
}

Status ReshapeBackGrad(GradContext& g) {
  g.grads[0] = grad::ReshapeLike(g.dy[0], g.input(0));
  return OkStatus();
}

// ---- ExpandDims, Squeeze ----------------------------------------------------

Result<int> InsertedAxis(int64_t axis, int rank) {
  if (axis < -1 - rank || axis > rank)
    return InvalidArgument("dim: expected a value in [", -1 - rank, ", ", rank,
                           "], got ", axis);
  return static_cast<int>(axis < 0 ? axis + rank + 1 : axis);
}

Status ExpandDimsKernel(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t dim,
                          array::IntScalar(ctx.input(1), "dim"));
  const Shape& in = ctx.input(0).shape();
  SLUICE_ASSIGN_OR_RETURN(const int axis, InsertedAxis(dim, in.rank()));
  Dims dims = array::DimsOf(in);
  dims.insert(dims.begin() + axis, 1);
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(0).Reshaped(shape));
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status ExpandDimsShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  if (!in.rank_known()) return OkStatus();
  const std::optional<int64_t> dim = c.ConstantInt(1);
  if (!dim) {
    c.set_output(0, PartialShape::OfRank(in.rank() + 1));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const int axis, InsertedAxis(*dim, in.rank()));
  c.set_output(
      0, array::JoinShapes(array::JoinShapes(array::SubShape(in, 0, axis), {1}),
                           array::SubShape(in, axis, in.rank())));
  return OkStatus();
}

// The shape after Squeeze; unknown sizes (-1) are removed only if listed.
Result<PartialShape> Squeezed(const PartialShape& in,
                              const AttrValue::Ints& listed) {
  if (!in.rank_known()) return PartialShape();
  uint32_t drop = 0;
  for (int64_t axis : listed) {
    SLUICE_ASSIGN_OR_RETURN(const int d, CanonicalAxis(axis, in.rank()));
    if (in.dim(d) > 1 || in.dim(d) == 0)
      return InvalidArgument("squeeze_dims: expected dimension ", d,
                             " of size 1, got shape ", in.ToString());
    drop |= 1u << d;
  }
  PartialShape out = PartialShape::Scalar();
  for (int d = 0; d < in.rank(); ++d) {
    if (listed.empty() && in.dim(d) < 0) return PartialShape();
    const bool dropped = listed.empty() ? in.dim(d) == 1 : (drop >> d) & 1;
    if (!dropped) out.add_dim(in.dim(d));
  }
  return out;
}

class SqueezeKernel {
 public:
  explicit SqueezeKernel(const Node& n)
      : listed_(n.AttrOr<AttrValue::Ints>("squeeze_dims", {})) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape squeezed,
                            Squeezed(ctx.input(0).shape(), listed_));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, squeezed.ToShape());
    SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.TakeInput(0).Reshaped(shape));
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }

 private:
  const AttrValue::Ints listed_;
};

Status SqueezeShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          Squeezed(c.input(0), c.node().AttrOr<AttrValue::Ints>(
                                                   "squeeze_dims", {})));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- Bitcast ----------------------------------------------------------------

// The shape of the same bytes as elements of another size.
Result<PartialShape> BitcastedShape(const PartialShape& in, size_t from,
                                    size_t to) {
  if (from == to || !in.rank_known()) return from == to ? in : PartialShape();
  if (from > to)
    return array::JoinShapes(in, {static_cast<int64_t>(from / to)});
  const auto ratio = static_cast<int64_t>(to / from);
  const int last = in.rank() - 1;
  if (last < 0 || (in.dim(last) >= 0 && in.dim(last) != ratio))
    return InvalidArgument("input: expected a last dimension of ", ratio,
                           ", got shape ", in.ToString());
  return array::SubShape(in, 0, last);
}

Status BitcastShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(
      PartialShape out,
      BitcastedShape(c.input(0), DTypeSize(c.node().TypeAttr("T")),
                     DTypeSize(c.node().TypeAttr("type"))));
  c.set_output(0, std::move(out));
  return OkStatus();
}

struct BitcastKernel {
  explicit BitcastKernel(const Node& n) : type(n.TypeAttr("type")) {}
  Status Run(KernelContext& ctx) {
    Tensor in = ctx.TakeInput(0);
    const size_t from = DTypeSize(in.dtype()), to = DTypeSize(type);
    if (from == to) {
      ctx.set_output(0, in.BitcastTo(type));
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(const PartialShape dims,
                            BitcastedShape(in.shape(), from, to));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, dims.ToShape());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
    std::memcpy(ctx.output(0).raw(), std::as_const(in).raw(), in.bytes());
    return OkStatus();
  }
  const DType type;
};

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Shape)
    .Input("input: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Kind(OpKind::kShape)
    .TouchesNoElements()
    .Shape(ShapeShape)
    .Kernel(CpuFor<ShapeKernel, int32_t, int64_t>("out_type"))
    .NoGradient("a shape does not depend on the elements")
    .Sample({{.shape = {2, 3}}})
    .Sample({{.shape = {}}}, {{"out_type", DType::kInt64}})
    .Doc("Returns the shape of the input as a vector.")
    .Family("array");

SLUICE_OP(ShapeN)
    .Input("input: N * T")
    .Output("output: N * out_type")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Kind(OpKind::kShapeN)
    .TouchesNoElements()
    .Shape(ShapeShape)
    .Kernel(CpuFor<ShapeKernel, int32_t, int64_t>("out_type"))
    .NoGradient("a shape does not depend on the elements")
    .Sample({{.shape = {2, 3}}, {.shape = {4}}}, {{"N", 2}})
    .Doc("Returns the shapes of the inputs as vectors.")
    .Family("array");

SLUICE_OP(Size)
    .Input("input: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Kind(OpKind::kSize)
    .TouchesNoElements()
    .Shape(ScalarShape)
    .Kernel(CpuFor<SizeKernel, int32_t, int64_t>("out_type"))
    .NoGradient("a size does not depend on the elements")
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns the number of elements of the input.")
    .Family("array");

SLUICE_OP(Rank)
    .Input("input: T")
    .Output("output: int32")
    .Attr("T: type")
    .Kind(OpKind::kRank)
    .TouchesNoElements()
    .Shape(ScalarShape)
    .Kernel(Cpu(RankKernel))
    .NoGradient("a rank does not depend on the elements")
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns the rank of the input.")
    .Family("array");

SLUICE_OP(QuantizedReshape)
    .Input("tensor: T")
    .Input("shape: Tshape")
    .Input("input_min: float")
    .Input("input_max: float")
    .Output("output: T")
    .Output("output_min: float")
    .Output("output_max: float")
    .Attr("T: type")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Family("quantized")
    .Shape(QuantizedReshapeShape)
    .Kernel(Cpu(QuantizedReshapeKernel))
    .NoGradient("quantised values are discrete")
    .Sample({{.shape = {2, 3}, .dtype = DType::kQuint8},
             {.shape = {2}, .values = {3, -1}},
             {.values = {-1}},
             {.values = {1}}},
            {{"T", DType::kQuint8}})
    .Doc("Reshapes a quantised tensor.");

SLUICE_OP(Reshape)
    .Input("tensor: T")
    .Input("shape: Tshape")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .HostInput("shape")
    .Kind(OpKind::kReshape)
    .TouchesNoElements()
    .Shape(ReshapeShape)
    .Kernel(Cpu(ReshapeKernel))
    .Grad(ReshapeBackGrad)
    .Sample({{.shape = {2, 6}}, {.shape = {3}, .values = {3, -1, 2}}})
    .Sample({{.shape = {1, 1}}, {.shape = {0}}})
    .Doc("Reshapes a tensor; one dimension may be -1 and is then inferred.")
    .Family("array");

SLUICE_OP(ExpandDims)
    .Input("input: T")
    .Input("dim: Tdim")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tdim: {int32, int64} = DT_INT32")
    .HostInput("dim")
    .Kind(OpKind::kExpandDims)
    .TouchesNoElements()
    .Shape(ExpandDimsShape)
    .Kernel(Cpu(ExpandDimsKernel))
    .Grad(ReshapeBackGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {}, .values = {-2}}})
    .Doc("Inserts a dimension of size 1.")
    .Family("array");

SLUICE_OP(Squeeze)
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("squeeze_dims: list(int) >= 0 = []")
    .Kind(OpKind::kSqueeze)
    .TouchesNoElements()
    .Shape(SqueezeShape)
    .Kernel(CpuState<SqueezeKernel>())
    .Grad(ReshapeBackGrad)
    .Sample({{.shape = {1, 3, 1}}})
    .Sample({{.shape = {1, 3, 1}}}, {{"squeeze_dims", AttrValue::Ints{-1}}})
    .Doc("Removes all dimensions of size 1, or only the given ones.")
    .Family("array");

SLUICE_OP(Bitcast)
    .Input("input: T")
    .Output("output: type")
    .Attr(
        "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, "
        "uint32, uint64, int8, int16, complex64, complex128, qint8, quint8, "
        "qint16, quint16, qint32}")
    .Attr(
        "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, "
        "uint32, uint64, int8, int16, complex64, complex128, qint8, quint8, "
        "qint16, quint16, qint32}")
    .TouchesNoElements()
    .Shape(BitcastShape)
    .Kernel(CpuState<BitcastKernel>())
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3}, .dtype = DType::kFloat}},
            {{"type", DType::kInt32}})
    .Sample({{.shape = {3}, .dtype = DType::kDouble}},
            {{"type", DType::kUint16}})
    .Doc("Reinterprets the bytes as another type.")
    .Family("array");

}  // namespace
}  // namespace sluice
