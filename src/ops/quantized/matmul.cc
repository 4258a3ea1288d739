// Matrix products and convolutions of bytes, summed in 32 bits.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dnn/conv_plain.h"
#include "kernels/dnn/matmul_int8.h"
#include "ops/common/window.h"
#include "ops/quantized/range_arithmetic.h"

namespace sluice {
namespace {

using quantized::Range;
using quantized::TypeLimits;

bool IsByte(DType t) { return t == DType::kQint8 || t == DType::kQuint8; }

// Checks that two inputs are bytes and the result has 32 bits.
Status RequireBytes(const Node& n, const char* a, const char* b,
                    const char* out) {
  for (const char* attr : {a, b})
    if (!IsByte(n.TypeAttr(attr))) return NoKernelFor(n, n.TypeAttr(attr));
  if (n.TypeAttr(out) != DType::kQint32) return NoKernelFor(n, n.TypeAttr(out));
  return OkStatus();
}

// One factor: its bytes, its range, and its zero point.
struct Factor {
  Range range;
  TypeLimits limits;
  dnn::ByteMatrix bytes;
};

// `t` with the range in inputs i and i + 1.
Result<Factor> ReadFactor(const KernelContext& ctx, const Tensor& t, int i,
                          const char* name, bool rising) {
  Factor f;
  SLUICE_ASSIGN_OR_RETURN(f.range, quantized::RangeInput(ctx, i, name, rising));
  f.limits = quantized::LimitsOf(t.dtype());
  f.bytes.data = t.raw();
  f.bytes.is_signed = t.dtype() == DType::kQint8;
  // (In 32 bits, as in TensorFlow.)
  f.bytes.zero = static_cast<int32_t>(
      quantized::QuantizeUnclamped(0.0f, f.range, f.limits));
  return f;
}

void SetProductRange(KernelContext& ctx, const Factor& a, const Factor& b) {
  quantized::SetRange(
      ctx, 1,
      quantized::ProductRange(a.range, a.limits, b.range, b.limits,
                              quantized::LimitsOf(DType::kQint32)));
}

// ---- QuantizedMatMul --------------------------------------------------------

// Immutable.
class ByteMatMul {
 public:
  static Result<std::shared_ptr<ByteMatMul>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(RequireBytes(n, "T1", "T2", "Toutput"));
    auto k = std::make_shared<ByteMatMul>();
    k->transpose_a_ = n.BoolAttr("transpose_a");
    k->transpose_b_ = n.BoolAttr("transpose_b");
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    if (a.rank() != 2 || b.rank() != 2 ||
        a.dim(transpose_a_ ? 0 : 1) != b.dim(transpose_b_ ? 1 : 0))
      return InvalidArgument(
          "a and b: expected matching inner dimensions, got ",
          a.shape().ToString(), " and ", b.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(Factor left, ReadFactor(ctx, a, 2, "a", true));
    SLUICE_ASSIGN_OR_RETURN(Factor right, ReadFactor(ctx, b, 4, "b", true));
    left.bytes.transpose = transpose_a_;
    right.bytes.transpose = transpose_b_;
    const int64_t m = a.dim(transpose_a_ ? 1 : 0);
    const int64_t n = b.dim(transpose_b_ ? 0 : 1);
    const int64_t k = a.dim(transpose_a_ ? 0 : 1);
    int64_t size = 0;
    if (__builtin_mul_overflow(m, n, &size))
      return InvalidArgument(
          "a and b: expected a product of fewer than 2^63 "
          "elements, got ",
          m, " times ", n);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kQint32, Shape({m, n})));
    dnn::ByteFactor(k, n, right.bytes)
        .Multiply(m, left.bytes, static_cast<int32_t*>(ctx.output(0).raw()));
    SetProductRange(ctx, left, right);
    return OkStatus();
  }

 private:
  bool transpose_a_ = false, transpose_b_ = false;
};

Status ByteMatMulShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 2));
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 2, 6));
  const bool ta = c.node().BoolAttr("transpose_a");
  const bool tb = c.node().BoolAttr("transpose_b");
  SLUICE_RETURN_IF_ERROR(
      MergeDim(a.dim(ta ? 0 : 1), b.dim(tb ? 1 : 0)).status());
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, PartialShape({a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)}));
  return OkStatus();
}

// ---- QuantizedConv2D --------------------------------------------------------

// Immutable.
class ByteConv {
 public:
  static Result<std::shared_ptr<ByteConv>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(RequireBytes(n, "Tinput", "Tfilter", "out_type"));
    auto k = std::make_shared<ByteConv>();
    SLUICE_ASSIGN_OR_RETURN(k->window_, WindowAttrs::Read(n));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor &in = ctx.input(0), &filter = ctx.input(1);
    if (in.rank() != 4 || filter.rank() != 4 || in.dim(3) != filter.dim(2))
      return InvalidArgument(
          "convolution: expected an image and a filter of rank 4 with as many "
          "channels, got ",
          in.shape().ToString(), " and ", filter.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const Factor image,
                            ReadFactor(ctx, in, 2, "input", false));
    SLUICE_ASSIGN_OR_RETURN(const Factor kernel,
                            ReadFactor(ctx, filter, 4, "filter", false));
    dnn::ConvGeometry s;
    s.batch = in.dim(0);
    s.in_channels = s.filter_in_channels = in.dim(3);
    s.out_channels = filter.dim(3);
    const int64_t sizes[] = {filter.dim(0), filter.dim(1)};
    SLUICE_RETURN_IF_ERROR(window_.Resolve(in.shape(), sizes, &s));
    SLUICE_ASSIGN_OR_RETURN(const Shape out,
                            window_.OutputOf(s, s.out_channels));
    for (dnn::WindowDim* d : {&s.h, &s.w}) Centre(window_.padding, d);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kQint32, out));
    int32_t* to = static_cast<int32_t*>(ctx.output(0).raw());
    const int64_t low = image.bytes.is_signed ? -128 : 0;
    if (in.num_elements() == 0 || filter.num_elements() == 0) {
      std::fill_n(to, out.num_elements(), 0);
    } else if (out.num_elements() > 0) {
      if (image.bytes.zero >= low && image.bytes.zero <= low + 255) {
        ByPatches(s, image, kernel, to);
      } else {  // No byte value represents the padding.
        const auto x = quantized::Widen(in, image.bytes.zero);
        const auto f = quantized::Widen(filter, kernel.bytes.zero);
        dnn::PlainForward<int32_t>(s, {}, x.data(), f.data(), to, nullptr);
      }
    }
    SetProductRange(ctx, image, kernel);
    return OkStatus();
  }

 private:
  // TensorFlow centres the windows for any padding: a VALID convolution omits
  // input on both sides.
  static void Centre(const std::string& padding, dnn::WindowDim* d) {
    const int64_t out = d->out();
    const int64_t total = (out - 1) * d->stride + d->span() - d->in;
    d->pad_before = (total + (padding == "VALID" ? 1 : 0)) / 2;
    d->pad_after = total - d->pad_before;
  }

  // As matrix products: a row of patches for some pixels at a time.
  static void ByPatches(const dnn::ConvGeometry& s, const Factor& image,
                        const Factor& kernel, int32_t* out) {
    constexpr int64_t kChunk = int64_t{1} << 20;  // Bytes of patches.
    const int64_t channels = s.in_channels;
    const int64_t patch = s.h.window * s.w.window * channels;
    const int64_t pixels = s.batch * s.out_pixels();
    const int64_t rows =
        std::clamp<int64_t>(kChunk / std::max<int64_t>(patch, 1), 1, pixels);
    const dnn::ByteFactor right(patch, s.out_channels, kernel.bytes);
    std::vector<uint8_t> patches(static_cast<size_t>(rows * patch));
    const auto* in = static_cast<const uint8_t*>(image.bytes.data);
    const auto zero = static_cast<uint8_t>(image.bytes.zero);
    dnn::ByteMatrix left = image.bytes;
    left.data = patches.data();
    for (int64_t first = 0; first < pixels; first += rows) {
      const int64_t count = std::min(rows, pixels - first);
      uint8_t* to = patches.data();
      for (int64_t p = first; p < first + count; ++p) {
        const int64_t n = p / s.out_pixels();
        const int64_t y = p / s.w.out() % s.h.out(), x = p % s.w.out();
        for (int64_t ky = 0; ky < s.h.window; ++ky) {
          const int64_t iy = s.h.start(y) + ky * s.h.dilation;
          for (int64_t kx = 0; kx < s.w.window; ++kx, to += channels) {
            const int64_t ix = s.w.start(x) + kx * s.w.dilation;
            if (iy < 0 || iy >= s.h.in || ix < 0 || ix >= s.w.in) {
              std::fill_n(to, channels, zero);
            } else {
              std::copy_n(in + ((n * s.h.in + iy) * s.w.in + ix) * channels,
                          channels, to);
            }
          }
        }
      }
      right.Multiply(count, left, out + first * s.out_channels);
    }
  }

  WindowAttrs window_;
};

Status ByteConvShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, 4));
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 2, 6));
  SLUICE_RETURN_IF_ERROR(MergeDim(image.dim(3), filter.dim(2)).status());
  const int64_t sizes[] = {filter.dim(0), filter.dim(1)};
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          w.OutputShape(image, sizes, filter.dim(3)));
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

const OpRegistrar kByteProducts[] = {
    quantized::Op("QuantizedMatMul")
        .Input("a: T1")
        .Input("b: T2")
        .Input("min_a: float")
        .Input("max_a: float")
        .Input("min_b: float")
        .Input("max_b: float")
        .Output("out: Toutput")
        .Output("min_out: float")
        .Output("max_out: float")
        .Attr(quantized::TypeAttr("T1"))
        .Attr(quantized::TypeAttr("T2"))
        .Attr(quantized::TypeAttr("Toutput", "DT_QINT32"))
        .Attr("transpose_a: bool = false")
        .Attr("transpose_b: bool = false")
        .Attr(quantized::TypeAttr("Tactivation", "DT_QUINT8"))
        .Shape(ByteMatMulShape)
        .Kernel(CpuState<ByteMatMul>(/*expensive=*/true))
        .Sample({{.shape = {2, 3}, .dtype = DType::kQuint8},
                 {.shape = {3, 2}, .dtype = DType::kQuint8},
                 {.values = {-1}},
                 {.values = {1}},
                 {.values = {-1}},
                 {.values = {1}}},
                {{"T1", DType::kQuint8}, {"T2", DType::kQuint8}})
        .Doc("Multiplies two quantised matrices, in 32 bits."),
    quantized::Op("QuantizedConv2D")
        .Input("input: Tinput")
        .Input("filter: Tfilter")
        .Input("min_input: float")
        .Input("max_input: float")
        .Input("min_filter: float")
        .Input("max_filter: float")
        .Output("output: out_type")
        .Output("min_output: float")
        .Output("max_output: float")
        .Attr(quantized::TypeAttr("Tinput"))
        .Attr(quantized::TypeAttr("Tfilter"))
        .Attr(quantized::TypeAttr("out_type", "DT_QINT32"))
        .Attr("strides: list(int)")
        .Attr("padding: {'SAME', 'VALID'}")
        .Attr("dilations: list(int) = [1, 1, 1, 1]")
        .Shape(ByteConvShape)
        .Kernel(CpuState<ByteConv>(/*expensive=*/true))
        .Sample({{.shape = {1, 4, 4, 2}, .dtype = DType::kQuint8},
                 {.shape = {2, 2, 2, 3}, .dtype = DType::kQuint8},
                 {.values = {-1}},
                 {.values = {1}},
                 {.values = {-1}},
                 {.values = {1}}},
                {{"Tinput", DType::kQuint8},
                 {"Tfilter", DType::kQuint8},
                 {"strides", AttrValue::Ints{1, 1, 1, 1}},
                 {"padding", "SAME"}})
        .Doc("Convolves quantised images with a quantised filter, in 32 bits."),
};

}  // namespace
}  // namespace sluice
