// Whole layers of quantised networks in one pass: a convolution or product of
// bytes, its bias, ReLU, and the conversion back to bytes or floats. The zero
// point is 0 in all of them (mode SCALED); weights may have one range per
// output channel.
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernels/dnn/conv_int8.h"
#include "ops/common/window.h"
#include "ops/quantized/range_arithmetic.h"

namespace sluice {
namespace {

using quantized::Range;

// Input positions, the same for all of these ops.
enum : int {
  kLayerImage,
  kLayerFilter,
  kLayerBias,
  kLayerMinImage,
  kLayerMaxImage,
  kLayerMinFilter,
  kLayerMaxFilter,
  kLayerMinOut,
  kLayerMaxOut
};

// The float distance between adjacent values of a symmetric type.
float StepOf(DType t, Range r) {
  const float most = std::max(std::fabs(r.min), std::fabs(r.max));
  return most / (t == DType::kQuint8 ? 255.0f : 127.0f);
}

// What the plan depends on, besides the weights.
struct LayerKey {
  dnn::ConvGeometry shape;
  int threads = 0;
  Range image, out;
  bool operator==(const LayerKey& o) const {
    return shape == o.shape && threads == o.threads &&
           image.min == o.image.min && image.max == o.image.max &&
           out.min == o.out.min && out.max == o.out.max;
  }
};

// A node's layer. Plans for constant weights are cached for the last few
// shapes; others are made for each step. Thread-safe.
class ByteLayerKernel {
 public:
  static Result<std::shared_ptr<ByteLayerKernel>> Make(const Node& n) {
    auto k = std::make_shared<ByteLayerKernel>();
    const std::string& op = n.op_name();
    k->matmul_ = op.find("MatMul") != op.npos;
    k->relu_ = op.find("Relu") != op.npos;
    const DType image = n.TypeAttr(k->matmul_ ? "T1" : "Tinput");
    const DType filter = n.TypeAttr(k->matmul_ ? "T2" : "Tfilter");
    k->out_ = n.TypeAttr(k->matmul_ ? "Toutput" : "out_type");
    if (image != DType::kQuint8 && image != DType::kQint8)
      return NoKernelFor(n, image);
    if (filter != DType::kQint8) return NoKernelFor(n, filter);
    if (k->out_ != DType::kQuint8 && k->out_ != DType::kQint8 &&
        k->out_ != DType::kFloat)
      return NoKernelFor(n, k->out_);
    k->image_ = image;
    if (k->matmul_) {
      k->transpose_a_ = n.BoolAttr("transpose_a");
      k->transpose_b_ = n.BoolAttr("transpose_b");
      k->min_first_ =
          image == DType::kQuint8 &&
          n.AttrOr<std::string>("input_quant_mode", "") == "MIN_FIRST";
    } else {
      SLUICE_ASSIGN_OR_RETURN(k->window_, Window(n));
    }
    k->constant_ = true;
    for (const int i :
         {kLayerFilter, kLayerBias, kLayerMinFilter, kLayerMaxFilter})
      k->constant_ = k->constant_ && i < n.num_inputs() &&
                     n.input(i).node != nullptr &&
                     n.input(i).node->op().role == OpRole::kConst;
    return k;
  }

  // The attributes of a convolution; padding_list replaces VALID.
  static Result<WindowAttrs> Window(const Node& n) {
    SLUICE_ASSIGN_OR_RETURN(WindowAttrs w, WindowAttrs::Read(n));
    const auto list = n.AttrOr<AttrValue::Ints>("padding_list", {});
    if (list.empty()) return w;
    const bool fits =
        list.size() == 8 && list[0] == 0 && list[1] == 0 && list[6] == 0 &&
        list[7] == 0 &&
        std::all_of(list.begin(), list.end(), [](int64_t p) { return p >= 0; });
    if (!fits)
      return InvalidArgument(
          "padding_list: expected eight numbers, none negative, the batch's "
          "and the channels' zero");
    w.padding = "EXPLICIT";
    for (int i = 0; i < 2; ++i) {
      w.before[i] = list[static_cast<size_t>(2 + 2 * i)];
      w.after[i] = list[static_cast<size_t>(3 + 2 * i)];
    }
    return w;
  }

  Status Run(KernelContext& ctx) {
    LayerKey key;
    SLUICE_ASSIGN_OR_RETURN(key.shape, Geometry(ctx));
    SLUICE_ASSIGN_OR_RETURN(
        key.image, quantized::RangeInput(ctx, kLayerMinImage, "input"));
    SLUICE_ASSIGN_OR_RETURN(key.out,
                            quantized::RangeInput(ctx, kLayerMinOut, "output"));
    const dnn::ConvGeometry& s = key.shape;
    Shape out({s.w.out(), s.out_channels});
    if (!matmul_) {
      SLUICE_ASSIGN_OR_RETURN(out, window_.OutputOf(s, s.out_channels));
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, out_, out));
    if (ctx.num_outputs() == 3) quantized::SetRange(ctx, 1, key.out);
    if (out.num_elements() == 0) return OkStatus();
    if (s.in_channels == 0 || s.h.window == 0 || s.w.window == 0)
      return InvalidArgument("filter: expected elements, got shape ",
                             ctx.input(kLayerFilter).shape().ToString());
    key.threads = IntraOpThreads();
    SLUICE_ASSIGN_OR_RETURN(const auto plan, PlanFor(ctx, key));
    const Tensor* image = &ctx.input(kLayerImage);
    Tensor turned;
    if (transpose_a_) {
      SLUICE_ASSIGN_OR_RETURN(turned, Turned(ctx, *image));
      image = &turned;
    }
    return plan->Run(image->raw(), ctx.output(0).raw());
  }

 private:
  struct Kept {
    LayerKey key;
    Tensor filter, bias;  // Kept so that their addresses are not reused.
    std::shared_ptr<const dnn::ByteConvPlan> plan;
  };
  static constexpr size_t kCapacity = 4;

  Result<dnn::ConvGeometry> Geometry(const KernelContext& ctx) const {
    const Shape &image = ctx.input(kLayerImage).shape(),
                &filter = ctx.input(kLayerFilter).shape();
    dnn::ConvGeometry s;
    const int rank = matmul_ ? 2 : 4;
    const bool ranks = image.rank() == rank && filter.rank() == rank;
    const int depth = matmul_ ? (transpose_b_ ? 1 : 0) : 2;
    const int depth_of_image = matmul_ ? (transpose_a_ ? 0 : 1) : 3;
    if (!ranks || image.dim(depth_of_image) != filter.dim(depth))
      return InvalidArgument("factors: expected rank ", rank,
                             " and as many channels, got ", image.ToString(),
                             " and ", filter.ToString());
    s.in_channels = s.filter_in_channels = filter.dim(depth);
    if (matmul_) {
      s.batch = 1;
      s.out_channels = filter.dim(transpose_b_ ? 0 : 1);
      s.h.in = 1;
      s.w.in = image.dim(transpose_a_ ? 1 : 0);
    } else {
      s.batch = image.dim(0);
      s.out_channels = filter.dim(3);
      const int64_t sizes[] = {filter.dim(0), filter.dim(1)};
      SLUICE_RETURN_IF_ERROR(window_.Resolve(image, sizes, &s));
    }
    for (const int i : {kLayerMinFilter, kLayerMaxFilter}) {
      const Tensor& t = ctx.input(i);
      if (t.rank() > 1 ||
          (t.num_elements() != 1 && t.num_elements() != s.out_channels))
        return InvalidArgument("range of filter: expected one number or ",
                               s.out_channels, ", got shape ",
                               t.shape().ToString());
    }
    const Tensor& bias = ctx.input(kLayerBias);
    if (bias.rank() != 1 || bias.num_elements() != s.out_channels)
      return InvalidArgument("bias: expected a vector of ", s.out_channels,
                             " elements, got shape ", bias.shape().ToString());
    return s;
  }

  Result<std::shared_ptr<const dnn::ByteConvPlan>> PlanFor(
      KernelContext& ctx, const LayerKey& key) {
    const Tensor &filter = ctx.input(kLayerFilter),
                 &bias = ctx.input(kLayerBias);
    if (!constant_) return NewPlan(ctx, key);
    // (Other threads wait while a plan is made, instead of making the same.)
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Kept& k : kept_)
      if (k.key == key && k.filter.raw() == filter.raw() &&
          k.bias.raw() == bias.raw())
        return k.plan;
    SLUICE_ASSIGN_OR_RETURN(auto plan, NewPlan(ctx, key));
    if (kept_.size() == kCapacity) kept_.erase(kept_.begin());
    kept_.push_back({key, filter, bias, plan});
    return plan;
  }

  Result<std::shared_ptr<const dnn::ByteConvPlan>> NewPlan(
      KernelContext& ctx, const LayerKey& key) const {
    dnn::ByteLayer l;
    l.shape = key.shape;
    l.signed_image = image_ == DType::kQint8;
    l.relu = relu_;
    l.out = out_ == DType::kFloat   ? dnn::ByteOut::kFloat
            : out_ == DType::kQint8 ? dnn::ByteOut::kInt8
                                    : dnn::ByteOut::kUint8;
    const Tensor &bias = ctx.input(kLayerBias),
                 &low = ctx.input(kLayerMinFilter),
                 &high = ctx.input(kLayerMaxFilter);
    Tensor turned;
    const Tensor* filter = &ctx.input(kLayerFilter);
    if (transpose_b_) {
      SLUICE_ASSIGN_OR_RETURN(turned, Turned(ctx, *filter));
      filter = &turned;
    }
    const auto* bytes = static_cast<const int8_t*>(filter->raw());
    const int64_t channels = key.shape.out_channels;
    const float image_step = min_first_
                                 ? (key.image.max - key.image.min) / 255.0f
                                 : StepOf(image_, key.image);
    const float out_step = out_ == DType::kFloat ? 1.0f : StepOf(out_, key.out);
    if (!(image_step > 0) || !(out_step > 0))
      return InvalidArgument("range: expected a range that is not just zero");
    for (int64_t c = 0; c < channels; ++c) {
      const Range r{low.raw<float>()[low.num_elements() == 1 ? 0 : c],
                    high.raw<float>()[high.num_elements() == 1 ? 0 : c]};
      // A channel of zeros may have an empty range.
      const float sum_step =
          std::max(image_step * StepOf(DType::kQint8, r), 1e-30f);
      float b =
          bias.dtype() == DType::kFloat
              ? bias.raw<float>()[c] / sum_step
              : static_cast<float>(static_cast<const int32_t*>(bias.raw())[c]);
      if (min_first_ && key.image.min != 0) {
        int64_t sum = 0;
        for (int64_t i = 0; i < key.shape.in_channels; ++i)
          sum += bytes[i * channels + c];
        b += static_cast<float>(sum) * key.image.min / image_step;
      }
      l.scale.push_back(sum_step / out_step);
      l.bias.push_back(b);
    }
    return dnn::ByteConvPlan::Make(std::move(l), bytes);
  }

  // The transpose of a byte matrix.
  static Result<Tensor> Turned(KernelContext& ctx, const Tensor& t) {
    const int64_t rows = t.dim(0), columns = t.dim(1);
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            ctx.AllocateTemp(t.dtype(), {columns, rows}));
    const auto* from = static_cast<const uint8_t*>(t.raw());
    auto* to = static_cast<uint8_t*>(out.raw());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        to[j * rows + i] = from[i * columns + j];
    return out;
  }

  bool matmul_ = false, relu_ = false, min_first_ = false, constant_ = false;
  bool transpose_a_ = false, transpose_b_ = false;
  DType image_ = DType::kQuint8, out_ = DType::kQuint8;
  WindowAttrs window_;
  std::mutex mutex_;
  std::vector<Kept> kept_;  // Guarded by mutex_.
};

// ---- Shapes -----------------------------------------------------------------

Status CheckRanges(ShapeContext& c, int64_t channels) {
  for (const int i :
       {kLayerMinImage, kLayerMaxImage, kLayerMinOut, kLayerMaxOut})
    SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, i, i + 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape bias, c.WithRank(kLayerBias, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(bias.dim(0), channels).status());
  for (const int i : {kLayerMinFilter, kLayerMaxFilter}) {
    const PartialShape& s = c.input(i);
    if (s.rank_known() && s.rank() > 1)
      return InvalidArgument(
          "range of filter: expected a number or a vector, "
          "got shape ",
          s.ToString());
    if (s.rank() == 1 && s.dim(0) != 1)
      SLUICE_RETURN_IF_ERROR(MergeDim(s.dim(0), channels).status());
  }
  return OkStatus();
}

Status ByteLayerConvShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w,
                          ByteLayerKernel::Window(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(kLayerImage, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape filter,
                          c.WithRank(kLayerFilter, 4));
  SLUICE_RETURN_IF_ERROR(MergeDim(image.dim(3), filter.dim(2)).status());
  SLUICE_RETURN_IF_ERROR(CheckRanges(c, filter.dim(3)));
  const int64_t sizes[] = {filter.dim(0), filter.dim(1)};
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          w.OutputShape(image, sizes, filter.dim(3)));
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status ByteLayerMatMulShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(kLayerImage, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(kLayerFilter, 2));
  const bool ta = c.node().BoolAttr("transpose_a");
  const bool tb = c.node().BoolAttr("transpose_b");
  SLUICE_RETURN_IF_ERROR(
      MergeDim(a.dim(ta ? 0 : 1), b.dim(tb ? 1 : 0)).status());
  const int64_t columns = b.dim(tb ? 0 : 1);
  SLUICE_RETURN_IF_ERROR(CheckRanges(c, columns));
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, PartialShape({a.dim(ta ? 1 : 0), columns}));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

std::vector<SampleInput> ByteLayerInputs(const Dims& image,
                                         const Dims& filter) {
  return {{.shape = image, .dtype = DType::kQuint8},
          {.shape = filter, .dtype = DType::kQint8},
          {.shape = {3}},
          {.values = {0}},
          {.values = {1}},
          {.values = {-1}},
          {.values = {1}},
          {.values = {0}},
          {.values = {4}}};
}

OpDefBuilder ByteConvOp(const char* name, const char* out_type) {
  OpDefBuilder b = quantized::Op(name);
  b.Input("input: Tinput")
      .Input("filter: Tfilter")
      .Input("bias: Tbias")
      .Input("min_input: float")
      .Input("max_input: float")
      .Input("min_filter: float")
      .Input("max_filter: float")
      .Input("min_freezed_output: float")
      .Input("max_freezed_output: float")
      .Output("output: out_type")
      .Output("min_output: float")
      .Output("max_output: float")
      .Attr(quantized::TypeAttr("Tinput"))
      .Attr(quantized::TypeAttr("Tfilter"))
      .Attr("Tbias: {float, qint32}")
      .Attr(quantized::TypeAttr("out_type", out_type))
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID'}")
      .Attr("dilations: list(int) = [1, 1, 1, 1]")
      .Attr("padding_list: list(int) = []")
      .Shape(ByteLayerConvShape)
      .Kernel(CpuState<ByteLayerKernel>(/*expensive=*/true))
      .Sample(ByteLayerInputs({1, 4, 4, 2}, {2, 2, 2, 3}),
              {{"Tinput", DType::kQuint8},
               {"Tfilter", DType::kQint8},
               {"Tbias", DType::kFloat},
               {"out_type", DType::kQuint8},
               {"strides", AttrValue::Ints{1, 1, 1, 1}},
               {"padding", "SAME"}});
  return b;
}

OpDefBuilder ByteMatMulOp(const char* name, const char* out_type,
                          bool requantize = true) {
  OpDefBuilder b = quantized::Op(name);
  b.Input("a: T1")
      .Input("b: T2")
      .Input("bias: Tbias")
      .Input("min_a: float")
      .Input("max_a: float")
      .Input("min_b: float")
      .Input("max_b: float")
      .Input("min_freezed_output: float")
      .Input("max_freezed_output: float")
      .Output("out: Toutput");
  if (requantize) b.Output("min_out: float").Output("max_out: float");
  b.Attr(quantized::TypeAttr("T1"))
      .Attr(quantized::TypeAttr("T2"))
      .Attr("Tbias: {float, qint32}")
      .Attr(requantize ? quantized::TypeAttr("Toutput", out_type)
                       : "Toutput: {float}")
      .Attr("transpose_a: bool = false")
      .Attr("transpose_b: bool = false")
      .Attr("input_quant_mode: {'MIN_FIRST', 'SCALED'} = 'MIN_FIRST'")
      .Shape(ByteLayerMatMulShape)
      .Kernel(CpuState<ByteLayerKernel>(/*expensive=*/true))
      .Sample(ByteLayerInputs({2, 4}, {4, 3}),
              {{"T1", DType::kQuint8},
               {"T2", DType::kQint8},
               {"Tbias", DType::kFloat},
               {"Toutput", requantize ? DType::kQuint8 : DType::kFloat}});
  return b;
}

const OpRegistrar kByteLayers[] = {
    ByteConvOp("QuantizedConv2DWithBiasAndRequantize", "DT_QINT8")
        .Doc("A quantised convolution with a bias; the output is quantised "
             "with the given range."),
    ByteConvOp("QuantizedConv2DWithBiasAndReluAndRequantize", "DT_QUINT8")
        .Doc("A quantised convolution with a bias and ReLU; the output is "
             "quantised with the given range."),
    ByteMatMulOp("QuantizedMatMulWithBiasAndRequantize", "DT_QUINT8")
        .Doc("A quantised matrix product with a bias; the output is quantised "
             "with the given range."),
    ByteMatMulOp("QuantizedMatMulWithBiasAndReluAndRequantize", "DT_QUINT8")
        .Doc("A quantised matrix product with a bias and ReLU; the output is "
             "quantised with the given range."),
    ByteMatMulOp("QuantizedMatMulWithBiasAndDequantize", "", false)
        .Doc("A quantised matrix product with a bias and float output."),
};

}  // namespace
}  // namespace sluice
