// Convolutions of images and volumes, plain and depthwise, and their gradients.
#include "kernels/dnn/conv.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/epilogue.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/common/window.h"

namespace sluice {
namespace {

enum class Pass { kForward, kBackwardInput, kBackwardFilter };

// The geometry from the shapes of the image and the filter; -1 if unknown.
struct Extents {
  int64_t batch, in_channels, filter_in, out_channels;
  int64_t window[3];  // The spatial dimensions of the filter.
};

Result<Extents> ReadExtents(const WindowAttrs& w, bool depthwise,
                            const PartialShape& image,
                            const PartialShape& filter) {
  Extents e;
  e.batch = image.dim(0);
  e.in_channels = image.dim(w.channel());
  for (int i = 0; i < w.spatial; ++i) e.window[i] = filter.dim(i);
  e.filter_in = filter.dim(w.spatial);
  e.out_channels = filter.dim(w.spatial + 1);
  if (depthwise) {
    // [H, W, C, M] is a grouped convolution with one channel per group.
    if (!MergeDim(e.in_channels, e.filter_in).ok())
      return InvalidArgument("filter: expected ", e.in_channels,
                             " channels, as the input has, got ", e.filter_in);
    e.out_channels = e.filter_in < 0 || e.out_channels < 0
                         ? -1
                         : MultiplyOrNegative(e.filter_in, e.out_channels);
    e.filter_in = 1;
  } else if (e.in_channels >= 0 && e.filter_in >= 0 &&
             e.in_channels != e.filter_in &&
             (e.filter_in == 0 || e.in_channels % e.filter_in != 0)) {
    return InvalidArgument("filter: expected input channels that divide the ",
                           e.in_channels, " of the input, got ", e.filter_in);
  }
  return e;
}

bool IsDepthwise(const Node& n) {
  return n.op_name().find("Depthwise") != std::string::npos;
}

// ---- Shapes -----------------------------------------------------------------

Status ConvShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(0, w.rank()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, w.rank()));
  SLUICE_ASSIGN_OR_RETURN(const Extents e,
                          ReadExtents(w, IsDepthwise(c.node()), image, filter));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          w.OutputShape(image, e.window, e.out_channels));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// The output has the shape given by the values of input i.
Status ShapeFromInput(ShapeContext& c, int i, int rank) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.InputAsShape(i));
  SLUICE_ASSIGN_OR_RETURN(s, s.MergeWith(PartialShape::OfRank(rank)));
  c.set_output(0, std::move(s));
  return OkStatus();
}

Status BackwardInputShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, w.rank()).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, w.rank()).status());
  const PartialShape& sizes = c.input(0);
  if (sizes.rank_known() && sizes.rank() == 1 && sizes.dim(0) == w.spatial) {
    c.set_output(0, PartialShape::OfRank(w.rank()));
    return OkStatus();
  }
  return ShapeFromInput(c, 0, w.rank());
}

Status BackwardFilterShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, w.rank()).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(2, w.rank()).status());
  return ShapeFromInput(c, 1, w.rank());
}

// ---- The kernel -------------------------------------------------------------

template <typename T>
class Convolution {
 public:
  static Result<std::shared_ptr<Convolution>> Make(const Node& n) {
    auto k = std::make_shared<Convolution>();
    SLUICE_ASSIGN_OR_RETURN(k->window_, WindowAttrs::Read(n));
    k->depthwise_ = IsDepthwise(n);
    const std::string& op = n.op_name();
    if (op.starts_with("_Fused")) {
      SLUICE_ASSIGN_OR_RETURN(k->epilogue_, Epilogue::Read(n));
    }
    k->pass_ = op.find("BackpropInput") != op.npos    ? Pass::kBackwardInput
               : op.find("BackpropFilter") != op.npos ? Pass::kBackwardFilter
                                                      : Pass::kForward;
    return k;
  }

  Status Run(KernelContext& ctx) {
    switch (pass_) {
      case Pass::kForward:
        return epilogue_.OfProduct(Forward(ctx));
      case Pass::kBackwardInput:
        return BackwardInput(ctx);
      case Pass::kBackwardFilter:
        return BackwardFilter(ctx);
    }
    return OkStatus();
  }

 private:
  Status Forward(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    SLUICE_ASSIGN_OR_RETURN(const dnn::ConvGeometry s,
                            Geometry(in.shape(), filter.shape()));
    SLUICE_ASSIGN_OR_RETURN(const Shape out, OutputShape(s));
    SLUICE_RETURN_IF_ERROR(epilogue_.Check(ctx, out, s.out_channels));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), out));
    if (!Empty(s, ctx)) {
      SLUICE_ASSIGN_OR_RETURN(const auto plan, plans_.Get(s));
      SLUICE_RETURN_IF_ERROR(plan->Forward(in.raw<T>(), filter.raw<T>(),
                                           ctx.output(0).template raw<T>()));
    }
    if (epilogue_.empty() || out.num_elements() == 0) return OkStatus();
    const bool last = s.layout == dnn::Layout::kNhwc;
    epilogue_.Run(ctx, last ? s.batch * s.out_pixels() : s.batch,
                  s.out_channels, last ? 1 : s.out_pixels());
    return OkStatus();
  }

  Status BackwardInput(KernelContext& ctx) {
    const Tensor& filter = ctx.input(1);
    const Tensor& d_out = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Shape in,
                            InputShape(ctx.input(0), filter, d_out));
    SLUICE_ASSIGN_OR_RETURN(const dnn::ConvGeometry s,
                            Geometry(in, filter.shape()));
    SLUICE_RETURN_IF_ERROR(CheckGradient(s, d_out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in));
    if (Empty(s, ctx)) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const auto plan, plans_.Get(s));
    return plan->BackwardData(filter.raw<T>(), d_out.raw<T>(),
                              ctx.output(0).template raw<T>());
  }

  Status BackwardFilter(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const Tensor& d_out = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const Shape filter,
                            ReadShape("filter_sizes", ctx.input(1)));
    SLUICE_ASSIGN_OR_RETURN(const dnn::ConvGeometry s,
                            Geometry(in.shape(), filter));
    SLUICE_RETURN_IF_ERROR(CheckGradient(s, d_out));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), filter));
    if (Empty(s, ctx)) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const auto plan, plans_.Get(s));
    return plan->BackwardFilter(in.raw<T>(), d_out.raw<T>(),
                                ctx.output(0).template raw<T>());
  }

  Result<dnn::ConvGeometry> Geometry(const Shape& image,
                                     const Shape& filter) const {
    const int rank = window_.rank();
    if (image.rank() != rank || filter.rank() != rank)
      return InvalidArgument(
          "convolution: expected an image and a filter of "
          "rank ",
          rank, ", got ", image.ToString(), " and ", filter.ToString());
    SLUICE_ASSIGN_OR_RETURN(const Extents e,
                            ReadExtents(window_, depthwise_, image, filter));
    dnn::ConvGeometry s;
    s.layout = window_.layout;
    s.batch = e.batch;
    s.in_channels = e.in_channels;
    s.filter_in_channels = e.filter_in;
    s.out_channels = e.out_channels;
    SLUICE_RETURN_IF_ERROR(window_.Resolve(image, e.window, &s));
    return s;
  }

  Result<Shape> OutputShape(const dnn::ConvGeometry& s) const {
    return window_.OutputOf(s, s.out_channels);
  }

  Status CheckGradient(const dnn::ConvGeometry& s, const Tensor& d_out) const {
    SLUICE_ASSIGN_OR_RETURN(const Shape out, OutputShape(s));
    if (d_out.shape() == out) return OkStatus();
    return InvalidArgument("out_backprop: expected shape ", out.ToString(),
                           ", that of the convolution, got ",
                           d_out.shape().ToString());
  }

  static std::vector<int64_t> ListOf(const Tensor& t) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < t.num_elements(); ++i)
      list.push_back(t.dtype() == DType::kInt64 ? t.raw<int64_t>()[i]
                                                : t.raw<int32_t>()[i]);
    return list;
  }

  // The shape given by a vector of integers.
  Result<Shape> ReadShape(const char* what, const Tensor& sizes) const {
    if (sizes.rank() != 1 || sizes.dim(0) != window_.rank())
      return InvalidArgument(what, ": expected a vector of ", window_.rank(),
                             ", got shape ", sizes.shape().ToString());
    return Shape::Make(ListOf(sizes));
  }

  // From all sizes, or only the spatial ones.
  Result<Shape> InputShape(const Tensor& sizes, const Tensor& filter,
                           const Tensor& d_out) const {
    const int rank = window_.rank();
    if (sizes.rank() != 1 || sizes.dim(0) != window_.spatial)
      return ReadShape("input_sizes", sizes);
    if (filter.rank() != rank || d_out.rank() != rank)
      return InvalidArgument("input_sizes: expected ", rank, " values, got ",
                             window_.spatial);
    const PartialShape image =
        window_.Image(d_out.dim(0), ListOf(sizes), filter.dim(window_.spatial));
    return Shape::Make({image.dims().data(), image.dims().size()});
  }

  // If there is nothing to multiply the result is zeros.
  static bool Empty(const dnn::ConvGeometry& s, KernelContext& ctx) {
    if (s.batch > 0 && s.in_channels > 0 && s.filter_in_channels > 0 &&
        s.out_channels > 0 && !dnn::AnyEmpty({s.d, s.h, s.w}))
      return false;
    Tensor& out = ctx.output(0);
    if (out.num_elements() > 0) std::memset(out.raw(), 0, out.bytes());
    return true;
  }

  WindowAttrs window_;
  bool depthwise_;
  Pass pass_;
  Epilogue epilogue_;            // For a fused op.
  dnn::ConvPlanCache<T> plans_;  // Thread-safe.
};

// ---- Gradients --------------------------------------------------------------

struct ConvFamily {
  const char *forward, *backward_input, *backward_filter;
};
constexpr ConvFamily kPlain = {"Conv2D", "Conv2DBackpropInput",
                               "Conv2DBackpropFilter"};
constexpr ConvFamily kDepthwise = {"DepthwiseConv2dNative",
                                   "DepthwiseConv2dNativeBackpropInput",
                                   "DepthwiseConv2dNativeBackpropFilter"};
constexpr ConvFamily kVolume = {"Conv3D", "Conv3DBackpropInputV2",
                                "Conv3DBackpropFilterV2"};

// The attributes shared by all ops of a family.
AttrMap ConvAttrs(const Node& n) {
  AttrMap attrs;
  for (const char* name : {"strides", "use_cudnn_on_gpu", "padding",
                           "explicit_paddings", "data_format", "dilations"})
    if (const AttrValue* a = n.FindAttr(name)) attrs[name] = *a;
  return attrs;
}

template <const ConvFamily& F>
Status ConvGrad(GradContext& c) {
  const Output x = c.input(0), w = c.input(1), dy = c.dy[0];
  const AttrMap attrs = ConvAttrs(*c.op);
  c.grads[0] = Build(F.backward_input, {grad::ShapeOf(x), w, dy}, attrs);
  c.grads[1] = Build(F.backward_filter, {x, grad::ShapeOf(w), dy}, attrs);
  return OkStatus();
}

template <const ConvFamily& F>
Status BackwardInputGrad(GradContext& c) {
  const Output w = c.input(1), d_out = c.input(2), ddx = c.dy[0];
  const AttrMap attrs = ConvAttrs(*c.op);
  c.grads[1] = Build(F.backward_filter, {ddx, grad::ShapeOf(w), d_out}, attrs);
  c.grads[2] = Build(F.forward, {ddx, w}, attrs);
  return OkStatus();
}

template <const ConvFamily& F>
Status BackwardFilterGrad(GradContext& c) {
  const Output x = c.input(0), d_out = c.input(2), ddw = c.dy[0];
  const AttrMap attrs = ConvAttrs(*c.op);
  c.grads[0] = Build(F.backward_input, {grad::ShapeOf(x), ddw, d_out}, attrs);
  c.grads[2] = Build(F.forward, {x, ddw}, attrs);
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

void AddAttrs(OpDefBuilder& b, const char* types, bool cudnn) {
  b.Attr(types).Attr("strides: list(int)");
  if (cudnn) b.Attr("use_cudnn_on_gpu: bool = true");
  b.Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]")
      .Family("nn");
}

const AttrMap& SampleAttrs() {
  static const AttrMap* attrs = new AttrMap{
      {"strides", AttrValue::Ints{1, 2, 2, 1}}, {"padding", "SAME"}};
  return *attrs;
}

constexpr char kConvTypes[] = "T: {half, bfloat16, float, double, int32}";

void AddVolumeAttrs(OpDefBuilder& b) {
  b.Attr(kFloatTypes)
      .Attr("strides: list(int) >= 5")
      .Attr("padding: {'SAME', 'VALID'}")
      .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
      .Family("nn")
      .Kernel(CpuStateFor<Convolution, float, half, bfloat16, double>(
          "T", /*expensive=*/true));
}

const AttrMap& VolumeSampleAttrs() {
  static const AttrMap* attrs = new AttrMap{
      {"strides", AttrValue::Ints{1, 1, 2, 1, 1}}, {"padding", "SAME"}};
  return *attrs;
}

OpDefBuilder Conv3dOp() {
  OpDefBuilder b("Conv3D");
  b.Input("input: T").Input("filter: T").Output("output: T");
  AddVolumeAttrs(b);
  b.Shape(ConvShape)
      .Grad(ConvGrad<kVolume>)
      .Sample({{.shape = {1, 3, 4, 3, 2}}, {.shape = {2, 3, 2, 2, 3}}},
              VolumeSampleAttrs())
      .Doc("Convolves volumes with a filter.");
  return b;
}

OpDefBuilder Conv3dBackwardInputOp() {
  OpDefBuilder b("Conv3DBackpropInputV2");
  b.Input("input_sizes: Tshape")
      .Input("filter: T")
      .Input("out_backprop: T")
      .Output("output: T");
  AddVolumeAttrs(b);
  b.Attr("Tshape: {int32, int64} = DT_INT32")
      .Shape(BackwardInputShape)
      .Grad(BackwardInputGrad<kVolume>)
      .Sample({{.shape = {5}, .values = {1, 3, 4, 3, 2}},
               {.shape = {2, 3, 2, 2, 3}},
               {.shape = {1, 3, 2, 3, 3}}},
              VolumeSampleAttrs())
      .Doc("The gradient of Conv3D with respect to its input.");
  return b;
}

OpDefBuilder Conv3dBackwardFilterOp() {
  OpDefBuilder b("Conv3DBackpropFilterV2");
  b.Input("input: T")
      .Input("filter_sizes: int32")
      .Input("out_backprop: T")
      .Output("output: T");
  AddVolumeAttrs(b);
  b.Shape(BackwardFilterShape)
      .Grad(BackwardFilterGrad<kVolume>)
      .Sample({{.shape = {1, 3, 4, 3, 2}},
               {.shape = {5}, .values = {2, 3, 2, 2, 3}},
               {.shape = {1, 3, 2, 3, 3}}},
              VolumeSampleAttrs())
      .Doc("The gradient of Conv3D with respect to its filter.");
  return b;
}

OpDefBuilder ConvOp(const char* name, const char* types, bool cudnn) {
  OpDefBuilder b(name);
  b.Input("input: T").Input("filter: T").Output("output: T");
  AddAttrs(b, types, cudnn);
  b.Shape(ConvShape).Kernel(
      CpuStateFor<Convolution, float, half, bfloat16, double, int32_t>(
          "T", /*expensive=*/true));
  return b;
}

OpDefBuilder BackwardInputOp(const char* name, const char* types, bool cudnn) {
  OpDefBuilder b(name);
  b.Input("input_sizes: int32")
      .Input("filter: T")
      .Input("out_backprop: T")
      .Output("output: T");
  AddAttrs(b, types, cudnn);
  b.HostInput("input_sizes")
      .Shape(BackwardInputShape)
      .Kernel(CpuStateFor<Convolution, float, half, bfloat16, double, int32_t>(
          "T", /*expensive=*/true));
  return b;
}

OpDefBuilder BackwardFilterOp(const char* name, bool cudnn) {
  OpDefBuilder b(name);
  b.Input("input: T")
      .Input("filter_sizes: int32")
      .Input("out_backprop: T")
      .Output("output: T");
  AddAttrs(b, kFloatTypes, cudnn);
  b.HostInput("filter_sizes")
      .Shape(BackwardFilterShape)
      .Kernel(CpuStateFor<Convolution, float, half, bfloat16, double>(
          "T", /*expensive=*/true));
  return b;
}

// ---- Fused with an epilogue -------------------------------------------------

void AddFusedAttrs(OpDefBuilder& b) {
  b.Attr("dilations: list(int) = [1, 1, 1, 1]")
      .Attr("fused_ops: list(string) = []")
      .Attr("epsilon: float = 0.0001")
      .Attr("leakyrelu_alpha: float = 0.2")
      .Family("nn")
      .Shape(ConvShape)
      .Kernel(CpuStateFor<Convolution, float, half, bfloat16, double>(
          "T", /*expensive=*/true))
      .NoGradient("a graph pass creates it after gradients are built");
}

AttrMap FusedSampleAttrs(std::vector<std::string> ops, int64_t args) {
  return {{"strides", AttrValue::Ints{1, 2, 2, 1}},
          {"padding", "SAME"},
          {"num_args", args},
          {"fused_ops", std::move(ops)}};
}

AttrMap FusedConvSampleAttrs() {
  AttrMap attrs = FusedSampleAttrs({"BiasAdd", "Relu"}, 1);
  attrs["TArgs"] = AttrValue(AttrValue::Types{DType::kFloat});
  attrs["num_host_args"] = int64_t{0};
  return attrs;
}

OpDefBuilder FusedConvOp() {
  OpDefBuilder b("_FusedConv2D");
  b.Input("input: T")
      .Input("filter: T")
      .Input("args: TArgs")
      .Input("host_args: num_host_args * float")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("TArgs: list(type) >= 1")
      .Attr("num_args: int >= 0")
      .Attr("num_host_args: int >= 0 = 0")
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("filter_format: {'HWIO'} = 'HWIO'")
      .Attr("use_cudnn_on_gpu: bool = true");
  AddFusedAttrs(b);
  b.Sample({{.shape = {2, 5, 5, 2}},
            {.shape = {3, 3, 2, 3}},
            {.shape = {3}, .dtype = DType::kFloat}},
           FusedConvSampleAttrs())
      .Doc("A fused convolution, bias or normalisation, and activation.");
  return b;
}

OpDefBuilder FusedDepthwiseOp() {
  OpDefBuilder b("_FusedDepthwiseConv2dNative");
  b.Input("input: T")
      .Input("filter: T")
      .Input("args: num_args * T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("num_args: int >= 0")
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'");
  AddFusedAttrs(b);
  b.Sample({{.shape = {2, 5, 5, 2}}, {.shape = {3, 3, 2, 2}}, {.shape = {4}}},
           FusedSampleAttrs({"BiasAdd", "Relu6"}, 1))
      .Doc("A fused depthwise convolution, bias and activation.");
  return b;
}

const OpRegistrar kConvolutions[] = {
    ConvOp("Conv2D", kConvTypes, true)
        .Kind(OpKind::kConv2D)
        .Grad(ConvGrad<kPlain>)
        .Sample({{.shape = {2, 5, 5, 2}}, {.shape = {3, 3, 2, 3}}},
                SampleAttrs())
        .Doc("Convolves images with a filter."),
    BackwardInputOp("Conv2DBackpropInput", kConvTypes, true)
        .Grad(BackwardInputGrad<kPlain>)
        .Sample({{.shape = {4}, .values = {2, 5, 5, 2}},
                 {.shape = {3, 3, 2, 3}},
                 {.shape = {2, 3, 3, 3}}},
                SampleAttrs())
        .Doc("The gradient of a convolution with respect to its input."),
    BackwardFilterOp("Conv2DBackpropFilter", true)
        .Grad(BackwardFilterGrad<kPlain>)
        .Sample({{.shape = {2, 5, 5, 2}},
                 {.shape = {4}, .values = {3, 3, 2, 3}},
                 {.shape = {2, 3, 3, 3}}},
                SampleAttrs())
        .Doc("The gradient of a convolution with respect to its filter."),
    ConvOp("DepthwiseConv2dNative", kFloatTypes, false)
        .Kind(OpKind::kDepthwiseConv2D)
        .Grad(ConvGrad<kDepthwise>)
        .Sample({{.shape = {2, 5, 5, 2}}, {.shape = {3, 3, 2, 2}}},
                SampleAttrs())
        .Doc("Convolves each channel with its own filters."),
    BackwardInputOp("DepthwiseConv2dNativeBackpropInput", kFloatTypes, false)
        .Grad(BackwardInputGrad<kDepthwise>)
        .Sample({{.shape = {4}, .values = {2, 5, 5, 2}},
                 {.shape = {3, 3, 2, 2}},
                 {.shape = {2, 3, 3, 4}}},
                SampleAttrs())
        .Doc("The gradient of a depthwise convolution with respect to its "
             "input."),
    BackwardFilterOp("DepthwiseConv2dNativeBackpropFilter", false)
        .Grad(BackwardFilterGrad<kDepthwise>)
        .Sample({{.shape = {2, 5, 5, 2}},
                 {.shape = {4}, .values = {3, 3, 2, 2}},
                 {.shape = {2, 3, 3, 4}}},
                SampleAttrs())
        .Doc("The gradient of a depthwise convolution with respect to its "
             "filter."),
    Conv3dOp(),
    Conv3dBackwardInputOp(),
    Conv3dBackwardFilterOp(),
    FusedConvOp(),
    FusedDepthwiseOp(),
};

// Images and volumes of all instances, with one filter.
const BatchFormRegistrar convolution_batches[] = {
    {"Conv2D", RowByRow<1 << 1>},
    {"DepthwiseConv2dNative", RowByRow<1 << 1>},
    {"Conv3D", RowByRow<1 << 1>},
};

}  // namespace
}  // namespace sluice
