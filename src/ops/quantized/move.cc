// Pooling and concatenation of quantised tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/dnn/pool.h"
#include "ops/common/elements.h"
#include "ops/common/window.h"
#include "ops/quantized/range_arithmetic.h"

namespace sluice {
namespace {

using quantized::Range;

// ---- QuantizedMaxPool, QuantizedAvgPool -------------------------------------

// Sums in 64 bits, divided by the number of unpadded elements, towards zero.
template <typename T>
void AveragePool(const dnn::PoolGeometry& s, const T* in, T* out) {
  for (int64_t p = 0; p < s.batch * s.out_pixels(); ++p) {
    const int64_t n = p / s.out_pixels();
    const int64_t y = p / s.w.out() % s.h.out(), x = p % s.w.out();
    for (int64_t c = 0; c < s.channels; ++c) {
      int64_t sum = 0, count = 0;
      for (int64_t ky = s.h.first_tap(y); ky < s.h.last_tap(y); ++ky) {
        for (int64_t kx = s.w.first_tap(x); kx < s.w.last_tap(x); ++kx) {
          const int64_t row = n * s.h.in + s.h.start(y) + ky;
          sum += in[(row * s.w.in + s.w.start(x) + kx) * s.channels + c];
          ++count;
        }
      }
      out[p * s.channels + c] = static_cast<T>(count == 0 ? 0 : sum / count);
    }
  }
}

// Immutable.
template <bool kMax>
class BytePool {
 public:
  static Result<std::shared_ptr<BytePool>> Make(const Node& n) {
    const DType t = n.TypeAttr("T");
    if (t != DType::kQint8 && t != DType::kQuint8) return NoKernelFor(n, t);
    auto k = std::make_shared<BytePool>();
    SLUICE_ASSIGN_OR_RETURN(k->window_, WindowAttrs::Read(n));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    if (in.rank() != 4)
      return InvalidArgument("input: expected rank 4, got shape ",
                             in.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const Range r,
                            quantized::RangeInput(ctx, 1, "input"));
    dnn::PoolGeometry s;
    s.batch = in.dim(0);
    s.channels = in.dim(3);
    SLUICE_RETURN_IF_ERROR(window_.Resolve(in.shape(), window_.window, &s));
    SLUICE_RETURN_IF_ERROR(Validate(s));
    SLUICE_ASSIGN_OR_RETURN(const Shape out, window_.OutputOf(s, s.channels));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), out));
    if (in.num_elements() > 0 && out.num_elements() > 0) {
      if (in.dtype() == DType::kQint8)
        Pool<int8_t>(s, in, &ctx.output(0));
      else
        Pool<uint8_t>(s, in, &ctx.output(0));
    }
    quantized::SetRange(ctx, 1, r);
    return OkStatus();
  }

 private:
  template <typename T>
  static void Pool(const dnn::PoolGeometry& s, const Tensor& in, Tensor* out) {
    const T* from = static_cast<const T*>(in.raw());
    T* to = static_cast<T*>(out->raw());
    if constexpr (kMax)
      dnn::MaxPool<T>(s, from, to);
    else
      AveragePool<T>(s, from, to);
  }

  WindowAttrs window_;
};

Status BytePoolShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const WindowAttrs w, WindowAttrs::Read(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRank(0, 4));
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 1, 3));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out,
                          w.OutputShape(in, w.window, in.dim(3)));
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- QuantizedConcat --------------------------------------------------------

// Inputs: the axis, n values, n minima, n maxima.
int ConcatCount(const Node& n) { return static_cast<int>(n.IntAttr("N")); }

Status RunByteConcat(KernelContext& ctx) {
  const int n = (ctx.num_inputs() - 1) / 3;
  const Tensor& head = ctx.input(1);
  const DType t = head.dtype();
  if (t != DType::kQuint8 && t != DType::kQint32)
    return NoKernelFor(ctx.node(), t);
  SLUICE_ASSIGN_OR_RETURN(const int64_t axis_value,
                          array::IntScalar(ctx.input(0), "concat_dim"));
  const int rank = head.rank();
  if (axis_value < 0 || axis_value >= rank)
    return InvalidArgument("concat_dim: expected a value in [0, ", rank,
                           "), got ", axis_value);
  const auto axis = static_cast<int>(axis_value);
  std::vector<Range> ranges;
  Range all{std::numeric_limits<float>::max(),
            std::numeric_limits<float>::lowest()};
  int64_t joined = 0;
  for (int i = 0; i < n; ++i) {
    const Tensor& v = ctx.input(1 + i);
    bool fits = v.rank() == rank;
    for (int d = 0; fits && d < rank; ++d)
      fits = d == axis || v.dim(d) == head.dim(d);
    if (!fits)
      return InvalidArgument(
          "values: expected shapes that differ only in "
          "dimension ",
          axis, ", got ", head.shape().ToString(), " and ",
          v.shape().ToString(), " (number ", i, ")");
    if (__builtin_add_overflow(joined, v.dim(axis), &joined))
      return InvalidArgument("values: expected fewer than 2^63 elements");
    Range r;
    SLUICE_ASSIGN_OR_RETURN(
        r.min, quantized::FloatInput(ctx, 1 + n + i, "input_mins"));
    SLUICE_ASSIGN_OR_RETURN(
        r.max, quantized::FloatInput(ctx, 1 + 2 * n + i, "input_maxes"));
    all = {std::min(all.min, r.min), std::max(all.max, r.max)};
    ranges.push_back(r);
  }
  if (t == DType::kQint32) {  // Symmetric.
    const float most = std::max(std::abs(all.min), std::abs(all.max));
    all = {-most, most};
  }
  std::vector<int64_t> dims(head.shape().dims().begin(),
                            head.shape().dims().end());
  dims[static_cast<size_t>(axis)] = joined;
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, shape));
  quantized::SetRange(ctx, 1, all);
  if (shape.num_elements() == 0) return OkStatus();
  const auto limits = quantized::LimitsOf(t);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= head.dim(d);
  for (int d = axis + 1; d < rank; ++d) inner *= head.dim(d);
  std::vector<int32_t> out(static_cast<size_t>(shape.num_elements()));
  int64_t before = 0;
  for (int i = 0; i < n; ++i) {
    const Range r = ranges[static_cast<size_t>(i)];
    std::vector<int32_t> v = quantized::Widen(ctx.input(1 + i));
    if (r.min != all.min || r.max != all.max) {
      const quantized::Dequantizer from(r, limits);
      const quantized::Quantizer to(all, limits);
      for (int32_t& x : v) x = to(from(x));
    }
    const int64_t width = ctx.input(1 + i).dim(axis) * inner;
    for (int64_t o = 0; o < outer; ++o)
      std::copy_n(v.begin() + o * width, width,
                  out.begin() + (o * joined * inner + before));
    before += width;
  }
  quantized::Narrow(out.data(), &ctx.output(0));
  return OkStatus();
}

Status ByteConcatShape(ShapeContext& c) {
  const int n = ConcatCount(c.node());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 1 + n, 1 + 3 * n));
  for (int i = 1; i < 3; ++i) c.set_output(i, PartialShape::Scalar());
  PartialShape out = PartialShape::Unknown();
  int64_t joined = 0;
  const std::optional<int64_t> axis = c.ConstantInt(0);
  for (int i = 1; i <= n; ++i) {
    PartialShape s = c.input(i);
    if (!s.rank_known()) {
      joined = -1;
      continue;
    }
    if (s.rank() == 0 || (axis && (*axis < 0 || *axis >= s.rank())))
      return InvalidArgument("concat_dim: expected a dimension of ",
                             s.ToString(), ", got ", axis.value_or(0));
    if (axis) {
      SLUICE_ASSIGN_OR_RETURN(
          joined, array::AddDims(joined, s.dim(static_cast<int>(*axis))));
      s.set_dim(static_cast<int>(*axis), -1);
    } else {
      s = PartialShape::OfRank(s.rank());
    }
    SLUICE_ASSIGN_OR_RETURN(out, out.MergeWith(s));
  }
  if (out.rank_known() && axis) out.set_dim(static_cast<int>(*axis), joined);
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

template <bool kMax>
OpDefBuilder BytePoolOp(const char* name) {
  OpDefBuilder b = quantized::Op(name);
  b.Input("input: T")
      .Input("min_input: float")
      .Input("max_input: float")
      .Output("output: T")
      .Output("min_output: float")
      .Output("max_output: float")
      .Attr(quantized::TypeAttr("T"))
      .Attr("ksize: list(int)")
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID'}")
      .Shape(BytePoolShape)
      .Kernel(CpuState<BytePool<kMax>>())
      .Sample({{.shape = {1, 4, 4, 2}, .dtype = DType::kQuint8},
               {.values = {-1}},
               {.values = {1}}},
              {{"T", DType::kQuint8},
               {"ksize", AttrValue::Ints{1, 2, 2, 1}},
               {"strides", AttrValue::Ints{1, 2, 2, 1}},
               {"padding", "SAME"}});
  return b;
}

const OpRegistrar kByteMoves[] = {
    BytePoolOp<true>("QuantizedMaxPool")
        .Doc("Max pooling of quantised images."),
    BytePoolOp<false>("QuantizedAvgPool")
        .Doc("Average pooling of quantised images, rounded towards zero."),
    quantized::Op("QuantizedConcat")
        .Input("concat_dim: int32")
        .Input("values: N * T")
        .Input("input_mins: N * float")
        .Input("input_maxes: N * float")
        .Output("output: T")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr("N: int >= 2")
        .Attr("T: type")
        .Shape(ByteConcatShape)
        .Kernel(Cpu(RunByteConcat))
        .Sample({{.values = {0}},
                 {.shape = {2, 3}, .dtype = DType::kQuint8},
                 {.shape = {1, 3}, .dtype = DType::kQuint8},
                 {.values = {-1}},
                 {.values = {0}},
                 {.values = {1}},
                 {.values = {2}}},
                {{"N", 2}, {"T", DType::kQuint8}})
        .Doc("Concatenates quantised tensors along a dimension, with a common "
             "range."),
};

}  // namespace
}  // namespace sluice
