// Max pooling of images with the position of each maximum, and the gradients
// based on these positions.
#include "graph/builder.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/nn/pool_window.h"

namespace sluice::pooling {
namespace {

// ---- Kernels ----------------------------------------------------------------

// The state of both kernels. Immutable.
struct ArgmaxBase : PoolBase {
  template <typename K>
  static Result<std::shared_ptr<K>> MakeOf(const Node& n) {
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<K> k, PoolBase::MakeOf<K>(n));
    k->include_batch = n.BoolAttr("include_batch_in_index");
    return k;
  }
  bool include_batch = false;
};

template <typename T>
struct MaxPoolWithArgmax : ArgmaxBase {
  static auto Make(const Node& n) { return MakeOf<MaxPoolWithArgmax>(n); }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    const DType index = ctx.node().output_type(1);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), p.out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, index, p.out));
    const bool empty = Empty(p.s, ctx.output(0));
    if (empty && Empty(p.s, ctx.output(1))) return OkStatus();
    T* largest = ctx.output(0).template raw<T>();
    if (index == DType::kInt32)
      dnn::MaxPoolWithArgmax<T, int32_t>(p.s, include_batch, in.raw<T>(),
                                         largest,
                                         ctx.output(1).template raw<int32_t>());
    else
      dnn::MaxPoolWithArgmax<T, int64_t>(p.s, include_batch, in.raw<T>(),
                                         largest,
                                         ctx.output(1).template raw<int64_t>());
    return OkStatus();
  }
};

template <typename T>
struct MaxPoolGradWithArgmax : ArgmaxBase {
  static auto Make(const Node& n) { return MakeOf<MaxPoolGradWithArgmax>(n); }
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& dy = ctx.input(1);
    const Tensor& argmax = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Pooling p, PoolingOf(window, in.shape()));
    SLUICE_RETURN_IF_ERROR(RequireShape("grad", dy, p.out));
    SLUICE_RETURN_IF_ERROR(RequireShape("argmax", argmax, p.out));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                            Tensor::Zeros(DTypeOf<T>(), in.shape()));
    T* dx = ctx.output(0).template raw<T>();
    const int64_t images = include_batch ? 1 : p.s.batch;
    if (images == 0 || dy.num_elements() == 0) return OkStatus();
    const int64_t image = in.num_elements() / images;
    const int64_t per_image = dy.num_elements() / images;
    const T* from = dy.raw<T>();
    for (int64_t i = 0; i < dy.num_elements(); ++i) {
      const int64_t at = argmax.dtype() == DType::kInt32
                             ? argmax.raw<int32_t>()[i]
                             : argmax.raw<int64_t>()[i];
      if (at < 0 || at >= image)
        return InvalidArgument("argmax: expected an index in [0, ", image,
                               "), got ", at);
      T& to = dx[i / per_image * image + at];
      to = static_cast<T>(static_cast<ComputeType<T>>(to) +
                          static_cast<ComputeType<T>>(from[i]));
    }
    return OkStatus();
  }
};

// ---- Gradients --------------------------------------------------------------

Status MaxPoolWithArgmaxGradient(GradContext& c) {
  AttrMap attrs = WindowOf(*c.op);
  attrs["include_batch_in_index"] = c.op->BoolAttr("include_batch_in_index");
  c.grads[0] = Build("MaxPoolGradWithArgmax",
                     {c.input(0), c.dy[0], Output(c.op, 1)}, attrs);
  return OkStatus();
}

// Moves each element of grad to the position given by argmax, in its image or
// in the whole batch.
Status MaxPoolGradWithArgmaxGradient(GradContext& c) {
  const Output argmax = c.input(2), axis = Constant(int32_t{0});
  if (c.op->BoolAttr("include_batch_in_index")) {
    c.grads[1] =
        Build("GatherV2",
              {Build("Reshape", {c.dy[0], IntVector({-1})}), argmax, axis});
    return OkStatus();
  }
  const Output batch = Build(
      "StridedSlice",
      {grad::ShapeOf(argmax), IntVector({0}), IntVector({1}), IntVector({1})});
  const Output flat = Build("ConcatV2", {batch, IntVector({-1}), axis});
  c.grads[1] = grad::ReshapeLike(
      Build("GatherV2",
            {Build("Reshape", {c.dy[0], flat}),
             Build("Reshape", {argmax, flat}), Constant(int32_t{1})},
            {{"batch_dims", 1}}),
      argmax);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

OpDefBuilder MaxPoolWithArgmaxOp() {
  OpDefBuilder b("MaxPoolWithArgmax");
  b.Input("input: T").Output("output: T").Output("argmax: Targmax");
  AddWindow(b);
  b.Attr("Targmax: {int32, int64} = DT_INT64")
      .Attr(kPadding)
      .Attr("include_batch_in_index: bool = false")
      .Attr(kRealTypes)
      .Shape(PoolShape)
      .Kernel(CpuStateFor<MaxPoolWithArgmax, float, double, half, bfloat16,
                          int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(MaxPoolWithArgmaxGradient)
      .Sample({{.shape = {2, 5, 5, 2}}}, SampleAttrs())
      .Doc(
          "MaxPool that also returns the position of each largest element in "
          "the image.");
  return b;
}

OpDefBuilder MaxPoolGradWithArgmaxOp() {
  OpDefBuilder b("MaxPoolGradWithArgmax");
  b.Input("input: T")
      .Input("grad: T")
      .Input("argmax: Targmax")
      .Output("output: T");
  AddWindow(b);
  b.Attr(kPadding)
      .Attr("include_batch_in_index: bool = false")
      .Attr("Targmax: {int32, int64}")
      .Attr(kRealTypes)
      .Shape(ImageShape)
      .Kernel(CpuStateFor<MaxPoolGradWithArgmax, float, double, half, bfloat16,
                          int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t,
                          uint32_t, uint64_t>("T", /*expensive=*/true))
      .Grad(MaxPoolGradWithArgmaxGradient)
      .Sample({{.shape = {1, 4, 4, 1}},
               {.shape = {1, 2, 2, 1}},
               {.shape = {1, 2, 2, 1}, .values = {0, 3, 9, 10}}},
              SampleAttrs())
      .Doc("The gradient of MaxPoolWithArgmax.");
  return b;
}

const OpRegistrar kArgmaxPools[] = {MaxPoolWithArgmaxOp(),
                                    MaxPoolGradWithArgmaxOp()};

}  // namespace
}  // namespace sluice::pooling
