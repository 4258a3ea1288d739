// TensorArrays: their ops, shape functions and gradients. The implementation is
// in ops/tensor_array/tensor_array.h.
#include <typeinfo>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/gradient_scope.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "graph/tensor_array_info.h"
#include "ops/common/elements.h"
#include "ops/tensor_array/tensor_array.h"

namespace sluice {
namespace {

// ---- Inputs -----------------------------------------------------------------

Status NotAnArray(const KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(0));
  return InvalidArgument("handle: expected a TensorArray, got ",
                         h->resource ? h->resource->TypeName() : "nothing",
                         " '", h->name, "'");
}

// The array of a handle, valid as long as the token. Runs with every read and
// write, so it avoids dynamic casts and reference counting.
TensorArrayState* ArrayOrNull(const Tensor& t) {
  if (t.dtype() != DType::kResource || t.num_elements() != 1) [[unlikely]]
    return nullptr;
  Resource* r = t.raw<ResourceHandle>()->resource.get();
  if (r == nullptr || typeid(*r) != typeid(TensorArrayState)) [[unlikely]]
    return nullptr;
  return static_cast<TensorArrayState*>(r);
}

#define SLUICE_TENSOR_ARRAY(array)                           \
  TensorArrayState* const array = ArrayOrNull(ctx.input(0)); \
  if (array == nullptr) [[unlikely]]                         \
  return NotAnArray(ctx)

Status NotAnIndex(const Tensor& t) {
  return InvalidArgument("index: expected an int32 scalar, got ", t.ToString());
}

#define SLUICE_INDEX(index)                                              \
  if (ctx.input(1).rank() != 0 || ctx.input(1).dtype() != DType::kInt32) \
      [[unlikely]]                                                       \
    return NotAnIndex(ctx.input(1));                                     \
  const int32_t index = ctx.input(1).raw_scalar<int32_t>()

template <typename T>
Result<std::span<const T>> VectorInput(const KernelContext& ctx, int i,
                                       const char* what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 1 || t.dtype() != DTypeOf<T>())
    return InvalidArgument(what, ": expected a vector of ",
                           DTypeName(DTypeOf<T>()), ", got ", t.ToString());
  return t.raw_flat<T>();
}

// ---- Kernels ----------------------------------------------------------------

class MakeArrayKernel {
 public:
  static Result<std::shared_ptr<MakeArrayKernel>> Make(const Node& n) {
    auto options = std::make_shared<TensorArrayDecl>();
    options->name = n.AttrOr<std::string>("tensor_array_name", "");
    if (options->name.empty()) options->name = n.name();
    options->dtype = n.TypeAttr("dtype");
    options->element_shape =
        n.AttrOr<PartialShape>("element_shape", PartialShape());
    options->dynamic_size = n.BoolAttr("dynamic_size");
    options->clear_after_read = n.BoolAttr("clear_after_read");
    options->identical_element_shapes = n.BoolAttr("identical_element_shapes");
    auto k = std::make_shared<MakeArrayKernel>();
    k->options_ = std::move(options);
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor& size = ctx.input(0);
    if (size.num_elements() != 1 || size.dtype() != DType::kInt32)
      return InvalidArgument("size: expected an int32 scalar, got ",
                             size.ToString());
    const int64_t n = size.raw_scalar<int32_t>();
    SLUICE_RETURN_IF_ERROR(TensorArrayState::CheckSize(n));
    const auto memory = ctx.step().allocator == Allocator::Cpu()
                            ? TensorArrayState::Memory::kHost
                            : TensorArrayState::Memory::kDevice;
    ctx.set_output(
        0, Tensor::Scalar<ResourceHandle>(
               {"", options_->name,
                std::make_shared<TensorArrayState>(options_, n, memory)}));
    ctx.output(1).SetScalar(0.0f);
    return OkStatus();
  }

 private:
  std::shared_ptr<const TensorArrayDecl> options_;
};

class GradKernel {
 public:
  explicit GradKernel(const Node& n)
      : source_(n.AttrOr<std::string>("source", "")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_TENSOR_ARRAY(array);
    Shape prepend;
    const bool with_shape = ctx.num_inputs() > 2;
    if (with_shape) {
      SLUICE_ASSIGN_OR_RETURN(
          prepend, array::ShapeFrom(ctx.input(2), "shape_to_prepend"));
    }
    SLUICE_RETURN_IF_ERROR(array->Gradient(
        source_, with_shape ? &prepend : nullptr, &ctx.output(0)));
    ctx.set_output(1, ctx.input(1));
    return OkStatus();
  }

 private:
  const std::string source_;
};

Status RunWrite(KernelContext& ctx) {
  SLUICE_TENSOR_ARRAY(array);
  SLUICE_INDEX(index);
  SLUICE_RETURN_IF_ERROR(array->Write(index, ctx.TakeInput(2)));
  ctx.output(0).SetScalar(0.0f);  // The flow, whose value has no meaning.
  return OkStatus();
}

bool WriteScalar(uint64_t* registers, Tensor* slots, const ScalarPlaces& at) {
  TensorArrayState* const array = ArrayOrNull(at.tensor(slots, 0));
  registers[at.out] = 0;  // The flow, which is zero.
  return array != nullptr &&
         array->WriteScalar(static_cast<int32_t>(registers[at.in[1]]),
                            *static_cast<const DType*>(at.state),
                            registers[at.in[2]]);
}

Status MakeWrite(const Node& n, Kernel* k) {
  k->run = RunWrite;
  k->state = std::make_shared<DType>(n.TypeAttr("T"));
  k->scalar = WriteScalar;
  k->scalar_slots = 1;
  k->scalar_inputs = 3;
  return OkStatus();
}

class ReadKernel {
 public:
  explicit ReadKernel(const Node& n) : dtype_(n.TypeAttr("dtype")) {}
  static bool RunScalar(uint64_t* registers, Tensor* slots,
                        const ScalarPlaces& at) {
    TensorArrayState* const array = ArrayOrNull(at.tensor(slots, 0));
    return array != nullptr &&
           array->ReadScalar(static_cast<int32_t>(registers[at.in[1]]),
                             static_cast<const ReadKernel*>(at.state)->dtype_,
                             &registers[at.out]);
  }
  Status Run(KernelContext& ctx) {
    SLUICE_TENSOR_ARRAY(array);
    SLUICE_INDEX(index);
    SLUICE_RETURN_IF_ERROR(array->CheckType(dtype_));
    return array->Read(index, &ctx.output(0));
  }

 private:
  const DType dtype_;
};

Status MakeRead(const Node& n, Kernel* k) {
  SLUICE_RETURN_IF_ERROR(CpuState<ReadKernel>()(n, k));
  k->scalar = ReadKernel::RunScalar;
  k->scalar_slots = 1;
  k->scalar_inputs = 2;
  return OkStatus();
}

class ArrayGatherKernel {
 public:
  explicit ArrayGatherKernel(const Node& n)
      : dtype_(n.TypeAttr("dtype")),
        element_shape_(
            n.AttrOr<PartialShape>("element_shape", PartialShape())) {}
  Status Run(KernelContext& ctx) {
    SLUICE_TENSOR_ARRAY(array);
    SLUICE_ASSIGN_OR_RETURN(const auto indices,
                            VectorInput<int32_t>(ctx, 1, "indices"));
    SLUICE_RETURN_IF_ERROR(array->CheckType(dtype_));
    return array->Gather(indices, element_shape_, ctx.step().allocator,
                         &ctx.output(0));
  }

 private:
  const DType dtype_;
  const PartialShape element_shape_;
};

Status RunArrayScatter(KernelContext& ctx) {
  SLUICE_TENSOR_ARRAY(array);
  SLUICE_ASSIGN_OR_RETURN(const auto indices,
                          VectorInput<int32_t>(ctx, 1, "indices"));
  SLUICE_RETURN_IF_ERROR(array->Scatter(indices, ctx.TakeInput(2)));
  ctx.set_output(0, ctx.input(3));
  return OkStatus();
}

class ArrayConcatKernel {
 public:
  explicit ArrayConcatKernel(const Node& n)
      : dtype_(n.TypeAttr("dtype")),
        except0_(
            n.AttrOr<PartialShape>("element_shape_except0", PartialShape())) {}
  Status Run(KernelContext& ctx) {
    SLUICE_TENSOR_ARRAY(array);
    SLUICE_RETURN_IF_ERROR(array->CheckType(dtype_));
    return array->Concat(except0_, ctx.step().allocator, &ctx.output(0),
                         &ctx.output(1));
  }

 private:
  const DType dtype_;
  const PartialShape except0_;
};

Status RunSplit(KernelContext& ctx) {
  SLUICE_TENSOR_ARRAY(array);
  SLUICE_ASSIGN_OR_RETURN(const auto lengths,
                          VectorInput<int64_t>(ctx, 2, "lengths"));
  SLUICE_RETURN_IF_ERROR(array->Split(ctx.input(1), lengths));
  ctx.set_output(0, ctx.input(3));
  return OkStatus();
}

Status RunSize(KernelContext& ctx) {
  SLUICE_TENSOR_ARRAY(array);
  int32_t size = 0;
  SLUICE_RETURN_IF_ERROR(array->Size(&size));
  ctx.output(0).SetScalar(size);
  return OkStatus();
}

Status RunArrayClose(KernelContext& ctx) {
  SLUICE_TENSOR_ARRAY(array);
  return array->Close();
}

#undef SLUICE_TENSOR_ARRAY
#undef SLUICE_INDEX

// ---- Shapes -----------------------------------------------------------------

// The handle is a scalar. TensorFlow declares a vector of two, and stores that
// shape in graphs (where a loop saves the handle for its gradient).
Status RequireHandle(ShapeContext& c) {
  if (c.input(0) == PartialShape({2})) return OkStatus();
  return c.RequireScalar(0);
}

// Requires these inputs, besides the handle, to be scalars.
Status RequireScalars(ShapeContext& c, std::initializer_list<int> inputs) {
  SLUICE_RETURN_IF_ERROR(RequireHandle(c));
  for (const int i : inputs) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  return OkStatus();
}

Status MakeArrayShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  return ScalarShape(c);
}

Status GradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireHandle(c));
  if (c.num_inputs() > 2) SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  return ScalarShape(c);
}

Status WriteShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {1, 3}));
  return ScalarShape(c);
}

Status ReadShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {1, 2}));
  c.set_output(0, TensorArrayElementShape(c.node().input(0)));
  return OkStatus();
}

Status ArrayGatherShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {2}));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape element,
                          TensorArrayElementShape(c.node().input(0))
                              .MergeWith(c.node().AttrOr<PartialShape>(
                                  "element_shape", PartialShape())));
  c.set_output(0, array::JoinShapes({indices.dim(0)}, element));
  return OkStatus();
}

Status ArrayScatterShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {3}));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(2, 1).status());
  return ScalarShape(c);
}

Status ArrayConcatShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {1}));
  PartialShape rest =
      c.node().AttrOr<PartialShape>("element_shape_except0", PartialShape());
  const PartialShape element = TensorArrayElementShape(c.node().input(0));
  if (element.rank() >= 1) {
    SLUICE_ASSIGN_OR_RETURN(
        rest, rest.MergeWith(array::SubShape(element, 1, element.rank())));
  }
  c.set_output(0, array::JoinShapes({-1}, rest));
  c.set_output(1, {-1});
  return OkStatus();
}

Status ArraySplitShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {3}));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtLeast(1, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  return ScalarShape(c);
}

Status SizeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RequireScalars(c, {1}));
  return ScalarShape(c);
}

Status CloseShape(ShapeContext& c) { return RequireHandle(c); }

// ---- Gradients --------------------------------------------------------------
//
// The gradient of a read is written to the gradient array, and the gradient of
// a write is read from it. Flows order these ops: the gradient array is created
// after the last change of the forward array before the read (its input flow),
// and the gradient of a flow is the output of a write to the gradient array, so
// that its readers run after all writes for the forward element.

// The gradient array of `handle`, with its flow.
struct GradArray {
  GradArray(Output handle, Output flow)
      : node(BuildNode("TensorArrayGradV3", {handle, flow},
                       {{"source", CurrentGradientScope()}})) {}
  Output handle() const { return node == nullptr ? Output() : Output(node, 0); }
  Output flow() const { return node == nullptr ? Output() : Output(node, 1); }
  Node* node;
};

bool ArrayHasGradients(DType t) {
  return IsFloating(t) || IsComplex(t) || t == DType::kVariant;
}

// The gradient of a flow is a flow.
Status GradGrad(GradContext& c) {
  c.grads[1] = c.dy[1];
  return OkStatus();
}

Status ReadGrad(GradContext& c) {
  const GradArray g(c.input(0), c.input(2));
  c.grads[2] =
      Build("TensorArrayWriteV3", {g.handle(), c.input(1), c.dy[0], g.flow()});
  return OkStatus();
}

Status WriteGrad(GradContext& c) {
  c.grads[3] = c.dy[0];
  const DType t = c.op->TypeAttr("T");
  if (!ArrayHasGradients(t)) return OkStatus();
  const GradArray g(c.input(0), c.dy[0]);
  c.grads[2] = Build("TensorArrayReadV3", {g.handle(), c.input(1), g.flow()},
                     {{"dtype", t}});
  return OkStatus();
}

Status ArrayGatherGrad(GradContext& c) {
  const GradArray g(c.input(0), c.input(2));
  c.grads[2] = Build("TensorArrayScatterV3",
                     {g.handle(), c.input(1), c.dy[0], g.flow()});
  return OkStatus();
}

Status ArrayScatterGrad(GradContext& c) {
  c.grads[3] = c.dy[0];
  const DType t = c.op->TypeAttr("T");
  if (!ArrayHasGradients(t)) return OkStatus();
  const GradArray g(c.input(0), c.dy[0]);
  const PartialShape& value = c.input(2).shape();
  c.grads[2] =
      Build("TensorArrayGatherV3", {g.handle(), c.input(1), g.flow()},
            {{"dtype", t},
             {"element_shape", value.rank() >= 1
                                   ? array::SubShape(value, 1, value.rank())
                                   : PartialShape()}});
  return OkStatus();
}

Status ArrayConcatGrad(GradContext& c) {
  if (!c.dy[0].valid()) return OkStatus();
  const GradArray g(c.input(0), c.input(1));
  c.grads[1] =
      Build("TensorArraySplitV3", {g.handle(), c.dy[0], c.output(1), g.flow()});
  return OkStatus();
}

Status ArraySplitGrad(GradContext& c) {
  c.grads[3] = c.dy[0];
  const DType t = c.op->TypeAttr("T");
  if (!ArrayHasGradients(t)) return OkStatus();
  const GradArray g(c.input(0), c.dy[0]);
  const PartialShape& value = c.input(1).shape();
  const Output all =
      Build("TensorArrayConcatV3", {g.handle(), g.flow()},
            {{"dtype", t},
             {"element_shape_except0",
              value.rank() >= 1 ? array::SubShape(value, 1, value.rank())
                                : PartialShape()}});
  c.grads[1] = all;
  const Node& array = *c.input(0).node;
  if (array.kind() == OpKind::kTensorArray && !array.BoolAttr("dynamic_size"))
    return OkStatus();
  // (Elements written after the split's do not belong to it.)
  const Output shape = Build("Shape", {c.input(1)});
  c.grads[1] = Build("Slice", {all, Build("ZerosLike", {shape}), shape});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(TensorArrayV3)
    .Input("size: int32")
    .Attr("dtype: type")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Attr("dynamic_size: bool = false")
    .Attr("clear_after_read: bool = true")
    .Attr("identical_element_shapes: bool = false")
    .Attr("tensor_array_name: string = ''")
    .Output("handle: resource")
    .Output("flow: float")
    .Kind(OpKind::kTensorArray)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(MakeArrayShape)
    .Kernel(CpuState<MakeArrayKernel>())
    .NoGradient("it creates an empty array")
    .Doc(
        "Creates an array of tensors that lives for one step; each element is "
        "written once.");

SLUICE_OP(TensorArrayGradV3)
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("grad_handle: resource")
    .Output("flow_out: float")
    .Attr("source: string")
    .Kind(OpKind::kTensorArrayGrad)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(GradShape)
    .Kernel(CpuState<GradKernel>())
    .Grad(GradGrad)
    .Doc(
        "Returns the array that accumulates the gradients of another array's "
        "elements, one array per source.");

SLUICE_OP(TensorArrayGradWithShape)
    .Input("handle: resource")
    .Input("flow_in: float")
    .Input("shape_to_prepend: int32")
    .Output("grad_handle: resource")
    .Output("flow_out: float")
    .Attr("source: string")
    .Kind(OpKind::kTensorArrayGradWithShape)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(GradShape)
    .Kernel(CpuState<GradKernel>())
    .Grad(GradGrad)
    .Doc(
        "TensorArrayGradV3 with additional leading dimensions in the shape of "
        "the elements.");

SLUICE_OP(TensorArrayWriteV3)
    .Input("handle: resource")
    .Input("index: int32")
    .Input("value: T")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Kind(OpKind::kTensorArrayWrite)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(WriteShape)
    .Kernel(MakeWrite)
    .Grad(WriteGrad)
    .Doc("Writes one element of a TensorArray.");

SLUICE_OP(TensorArrayReadV3)
    .Input("handle: resource")
    .Input("index: int32")
    .Input("flow_in: float")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Kind(OpKind::kTensorArrayRead)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(ReadShape)
    .Kernel(MakeRead)
    .Grad(ReadGrad)
    .Doc("Reads one element of a TensorArray.");

SLUICE_OP(TensorArrayGatherV3)
    .Input("handle: resource")
    .Input("indices: int32")
    .Input("flow_in: float")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Kind(OpKind::kTensorArrayGather)
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(ArrayGatherShape)
    .Kernel(CpuState<ArrayGatherKernel>(/*expensive=*/true))
    .Grad(ArrayGatherGrad)
    .Doc("Stacks some elements of a TensorArray along a new first dimension.");

SLUICE_OP(TensorArrayScatterV3)
    .Input("handle: resource")
    .Input("indices: int32")
    .Input("value: T")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Kind(OpKind::kTensorArrayScatter)
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(ArrayScatterShape)
    .Kernel(Cpu(RunArrayScatter))
    .Grad(ArrayScatterGrad)
    .Doc("Writes the rows of a tensor as elements of a TensorArray.");

SLUICE_OP(TensorArrayConcatV3)
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("value: dtype")
    .Output("lengths: int64")
    .Attr("dtype: type")
    .Attr("element_shape_except0: shape = { unknown_rank: true }")
    .Kind(OpKind::kTensorArrayConcat)
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(ArrayConcatShape)
    .Kernel(CpuState<ArrayConcatKernel>(/*expensive=*/true))
    .Grad(ArrayConcatGrad)
    .Doc(
        "Concatenates all elements of a TensorArray along their first "
        "dimension, and returns the length of each.");

SLUICE_OP(TensorArraySplitV3)
    .Input("handle: resource")
    .Input("value: T")
    .Input("lengths: int64")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Kind(OpKind::kTensorArraySplit)
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(ArraySplitShape)
    .Kernel(Cpu(RunSplit))
    .Grad(ArraySplitGrad)
    .Doc(
        "Splits a tensor into runs of rows of the given lengths, and writes "
        "them as the elements of a TensorArray.");

SLUICE_OP(TensorArraySizeV3)
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("size: int32")
    .Kind(OpKind::kTensorArraySize)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(SizeShape)
    .Kernel(Cpu(RunSize))
    .NoGradient("its output is an integer")
    .Doc("Returns the number of elements of a TensorArray.");

SLUICE_OP(TensorArrayCloseV3)
    .Input("handle: resource")
    .Kind(OpKind::kTensorArrayClose)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .Family("tensor_array")
    .Shape(CloseShape)
    .Kernel(Cpu(RunArrayClose))
    .NoGradient("its output has no numeric value")
    .Doc("Frees the elements of a TensorArray before its step ends.");

}  // namespace
}  // namespace sluice
