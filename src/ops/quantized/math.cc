// Sums, products and activations of quantised numbers.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/common/elements.h"
#include "ops/quantized/range_arithmetic.h"

namespace sluice {
namespace {

using quantized::Range;
using quantized::TypeLimits;

// ---- Broadcasting -----------------------------------------------------------

// Calls fn(i, a, b) for each element of the result: its position and those of
// its operands.
template <typename Fn>
void ForEachPair(const Shape& out, const Shape& a, const Shape& b, Fn fn) {
  if (out.num_elements() == 0) return;
  const int rank = out.rank();
  std::vector<int64_t> at(static_cast<size_t>(rank)), step_a(at), step_b(at);
  for (const auto& [shape, step] : {std::pair(&a, &step_a), {&b, &step_b}}) {
    int64_t stride = 1;
    for (int d = shape->rank() - 1; d >= 0; --d) {
      const int o = d + rank - shape->rank();
      (*step)[static_cast<size_t>(o)] = shape->dim(d) == 1 ? 0 : stride;
      stride *= shape->dim(d);
    }
  }
  int64_t in_a = 0, in_b = 0;
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    fn(i, in_a, in_b);
    for (int d = rank - 1; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      in_a += step_a[k];
      in_b += step_b[k];
      if (++at[k] < out.dim(d)) break;
      in_a -= step_a[k] * out.dim(d);
      in_b -= step_b[k] * out.dim(d);
      at[k] = 0;
    }
  }
}

Result<Shape> Broadcast(const Tensor& x, const Tensor& y) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape s,
                          BroadcastShapes(x.shape(), y.shape()));
  return s.ToShape();
}

// ---- QuantizedAdd, QuantizedMul ---------------------------------------------

// A byte in the range of a sum: the byte times the step between two bytes,
// which is rounded once. A single number is rounded itself.
class ByteInSum {
 public:
  ByteInSum(Range r, const TypeLimits& bytes, Range sum, const TypeLimits& out,
            bool alone)
      : out_(out), from_(r), to_(sum), bytes_(bytes), alone_(alone) {
    zero_ = quantized::QuantizeUnclamped(quantized::Dequantize(0, r, bytes),
                                         sum, out);
    const int64_t one = quantized::QuantizeUnclamped(
        quantized::Dequantize(1, r, bytes), sum, out);
    step_ = static_cast<int32_t>(static_cast<uint64_t>(one) -
                                 static_cast<uint64_t>(zero_));
  }
  int32_t operator()(int32_t byte) const {
    if (alone_)
      return static_cast<int32_t>(quantized::Quantize(
          quantized::Dequantize(byte, from_, bytes_), to_, out_));
    return static_cast<int32_t>(std::clamp(
        zero_ + int64_t{byte} * int64_t{step_}, out_.low, out_.high));
  }

 private:
  const TypeLimits out_;
  const Range from_, to_;
  const TypeLimits bytes_;
  const bool alone_;
  int64_t zero_;
  int32_t step_;
};

template <bool kAdd>
Status RunPair(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &y = ctx.input(1);
  SLUICE_ASSIGN_OR_RETURN(const Range rx,
                          quantized::RangeInput(ctx, 2, "x", true));
  SLUICE_ASSIGN_OR_RETURN(const Range ry,
                          quantized::RangeInput(ctx, 4, "y", true));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, Broadcast(x, y));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kQint32, shape));
  const TypeLimits bytes = quantized::LimitsOf(DType::kQuint8);
  const TypeLimits wide = quantized::LimitsOf(DType::kQint32);
  int32_t* out = static_cast<int32_t*>(ctx.output(0).raw());
  const auto* in_x = static_cast<const uint8_t*>(x.raw());
  const auto* in_y = static_cast<const uint8_t*>(y.raw());
  if constexpr (kAdd) {
    const Range sum = quantized::SumRange(rx, ry, 14);
    const bool one_x = x.num_elements() == 1;
    const bool one_y = !one_x && y.num_elements() == 1;
    const ByteInSum fx(rx, bytes, sum, wide, one_x);
    const ByteInSum fy(ry, bytes, sum, wide, one_y);
    ForEachPair(shape, x.shape(), y.shape(),
                [&](int64_t i, int64_t a, int64_t b) {
                  out[i] = array::WrapAdd<int32_t>(fx(in_x[a]), fy(in_y[b]));
                });
    quantized::SetRange(ctx, 1, sum);
  } else {
    const auto zero_x =
        static_cast<uint32_t>(quantized::QuantizeUnclamped(0.0f, rx, bytes));
    const auto zero_y =
        static_cast<uint32_t>(quantized::QuantizeUnclamped(0.0f, ry, bytes));
    ForEachPair(
        shape, x.shape(), y.shape(), [&](int64_t i, int64_t a, int64_t b) {
          out[i] =
              static_cast<int32_t>((in_x[a] - zero_x) * (in_y[b] - zero_y));
        });
    quantized::SetRange(ctx, 1,
                        quantized::ProductRange(rx, bytes, ry, bytes, wide));
  }
  return OkStatus();
}

template <bool kAdd>
Status MakePair(const Node& n, Kernel* k) {
  for (const char* attr : {"T1", "T2"})
    if (n.TypeAttr(attr) != DType::kQuint8)
      return NoKernelFor(n, n.TypeAttr(attr));
  if (n.TypeAttr("Toutput") != DType::kQint32)
    return NoKernelFor(n, n.TypeAttr("Toutput"));
  return Cpu(RunPair<kAdd>)(n, k);
}

Status PairShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 2, 6));
  SLUICE_RETURN_IF_ERROR(BroadcastBinaryShape(c));
  for (int i = 1; i < 3; ++i) c.set_output(i, PartialShape::Scalar());
  return OkStatus();
}

// ---- QuantizedBiasAdd -------------------------------------------------------

Status RunByteBiasAdd(KernelContext& ctx) {
  const Tensor &in = ctx.input(0), &bias = ctx.input(1);
  if (in.rank() < 2 || bias.rank() != 1 || bias.dim(0) != in.dim(in.rank() - 1))
    return InvalidArgument(
        "bias: expected a vector with as many elements as the last dimension "
        "of input, of rank 2 or more, got shapes ",
        bias.shape().ToString(), " and ", in.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const Range r,
                          quantized::RangeInput(ctx, 2, "input"));
  SLUICE_ASSIGN_OR_RETURN(const Range rb,
                          quantized::RangeInput(ctx, 4, "bias"));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kQint32, in.shape()));
  const TypeLimits bytes = quantized::LimitsOf(in.dtype());
  const TypeLimits wide = quantized::LimitsOf(DType::kQint32);
  const Range sum = quantized::SumRange(r, rb, 17);
  const auto zero = static_cast<int32_t>(quantized::Quantize(0.0f, sum, wide));
  const quantized::Dequantizer from(r, bytes), bias_from(rb, bytes);
  const quantized::Quantizer to(sum, wide);
  std::vector<int32_t> add = quantized::Widen(bias);
  for (int32_t& v : add) v = array::WrapAdd<int32_t>(to(bias_from(v)), zero);
  const std::vector<int32_t> x = quantized::Widen(in);
  int32_t* out = static_cast<int32_t*>(ctx.output(0).raw());
  for (size_t i = 0; i < x.size(); ++i)
    out[i] = array::WrapAdd<int32_t>(to(from(x[i])), add[i % add.size()]);
  quantized::SetRange(ctx, 1, sum);
  return OkStatus();
}

Status MakeByteBiasAdd(const Node& n, Kernel* k) {
  const DType t = n.TypeAttr("T1");
  if (t != DType::kQint8 && t != DType::kQuint8) return NoKernelFor(n, t);
  if (n.TypeAttr("T2") != t) return NoKernelFor(n, n.TypeAttr("T2"));
  if (n.TypeAttr("out_type") != DType::kQint32)
    return NoKernelFor(n, n.TypeAttr("out_type"));
  return Cpu(RunByteBiasAdd)(n, k);
}

Status ByteBiasAddShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape in, c.WithRankAtLeast(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape bias, c.WithRank(1, 1));
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 2, 6));
  if (in.rank_known()) {
    const int last = in.rank() - 1;
    SLUICE_ASSIGN_OR_RETURN(const int64_t n,
                            MergeDim(in.dim(last), bias.dim(0)));
    in.set_dim(last, n);
  }
  c.set_all_outputs(PartialShape::Scalar());
  c.set_output(0, std::move(in));
  return OkStatus();
}

// ---- Activations ------------------------------------------------------------

// The upper bound of the activation: none, 6, or input 1.
enum class ReluTop { kNone, kSix, kGiven };

template <ReluTop kTop>
Status RunByteRelu(KernelContext& ctx) {
  const Tensor in = ctx.input(0);
  const int first = kTop == ReluTop::kGiven ? 2 : 1;
  SLUICE_ASSIGN_OR_RETURN(const Range r,
                          quantized::RangeInput(ctx, first, "features"));
  const TypeLimits l = quantized::LimitsOf(in.dtype());
  const int64_t low = quantized::Quantize(0.0f, r, l);
  int64_t high = l.high;
  if constexpr (kTop == ReluTop::kSix) high = quantized::Quantize(6.0f, r, l);
  if constexpr (kTop == ReluTop::kGiven) {
    SLUICE_ASSIGN_OR_RETURN(const float top,
                            quantized::FloatInput(ctx, 1, "max_value"));
    high = quantized::Quantize(top, r, l);
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  std::vector<int32_t> v = quantized::Widen(in);
  for (int32_t& x : v)
    x = static_cast<int32_t>(
        std::min<int64_t>(std::max<int64_t>(x, low), high));
  quantized::Narrow(v.data(), &ctx.output(0));
  quantized::SetRange(ctx, 1, r);
  return OkStatus();
}

template <ReluTop kTop>
Status MakeByteRelu(const Node& n, Kernel* k) {
  if (n.TypeAttr("out_type") != n.TypeAttr("Tinput"))
    return NoKernelFor(n, n.TypeAttr("out_type"));
  return Cpu(RunByteRelu<kTop>)(n, k);
}

Status ByteReluShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(quantized::RequireScalars(c, 1, c.num_inputs()));
  return quantized::LikeFirstShape(c);
}

// ---- Declarations -----------------------------------------------------------

template <bool kAdd>
OpDefBuilder PairOp(const char* name) {
  OpDefBuilder b = quantized::Op(name);
  for (const char* arg : {"x: T1", "y: T2", "min_x: float", "max_x: float",
                          "min_y: float", "max_y: float"})
    b.Input(arg);
  b.Output("z: Toutput")
      .Output("min_z: float")
      .Output("max_z: float")
      .Attr(quantized::TypeAttr("T1"))
      .Attr(quantized::TypeAttr("T2"))
      .Attr(quantized::TypeAttr("Toutput", "DT_QINT32"))
      .Shape(PairShape)
      .Kernel(MakePair<kAdd>)
      .Sample({{.shape = {2, 3}, .dtype = DType::kQuint8},
               {.shape = {3}, .dtype = DType::kQuint8},
               {.values = {-1}},
               {.values = {1}},
               {.values = {-1}},
               {.values = {1}}},
              {{"T1", DType::kQuint8}, {"T2", DType::kQuint8}});
  return b;
}

template <ReluTop kTop>
OpDefBuilder ByteReluOp(const char* name) {
  OpDefBuilder b = quantized::Op(name);
  std::vector<SampleInput> sample{{.shape = {4}, .dtype = DType::kQuint8},
                                  {.values = {-1}},
                                  {.values = {1}}};
  b.Input("features: Tinput");
  if (kTop == ReluTop::kGiven) {
    b.Input("max_value: float");
    sample.insert(sample.begin() + 1, {.values = {0.5}});
  }
  b.Input("min_features: float")
      .Input("max_features: float")
      .Output("activations: out_type")
      .Output("min_activations: float")
      .Output("max_activations: float")
      .Attr(quantized::TypeAttr("Tinput"))
      .Attr(quantized::TypeAttr("out_type", "DT_QUINT8"))
      .Shape(ByteReluShape)
      .Kernel(MakeByteRelu<kTop>)
      .Sample(std::move(sample), {{"Tinput", DType::kQuint8}});
  return b;
}

const OpRegistrar kByteMath[] = {
    PairOp<true>("QuantizedAdd")
        .Doc("Adds quantised numbers in 32 bits, with broadcasting."),
    PairOp<false>("QuantizedMul")
        .Doc("Multiplies quantised numbers in 32 bits, with broadcasting."),
    quantized::Op("QuantizedBiasAdd")
        .Input("input: T1")
        .Input("bias: T2")
        .Input("min_input: float")
        .Input("max_input: float")
        .Input("min_bias: float")
        .Input("max_bias: float")
        .Output("output: out_type")
        .Output("min_out: float")
        .Output("max_out: float")
        .Attr(quantized::TypeAttr("T1"))
        .Attr(quantized::TypeAttr("T2"))
        .Attr(quantized::TypeAttr("out_type"))
        .Shape(ByteBiasAddShape)
        .Kernel(MakeByteBiasAdd)
        .Sample({{.shape = {2, 3}, .dtype = DType::kQuint8},
                 {.shape = {3}, .dtype = DType::kQuint8},
                 {.values = {-1}},
                 {.values = {1}},
                 {.values = {-1}},
                 {.values = {1}}},
                {{"T1", DType::kQuint8},
                 {"T2", DType::kQuint8},
                 {"out_type", DType::kQint32}})
        .Doc("Adds a quantised bias to each row of a quantised tensor."),
    ByteReluOp<ReluTop::kNone>("QuantizedRelu")
        .Doc("ReLU of quantised numbers: the larger of zero and each."),
    ByteReluOp<ReluTop::kSix>("QuantizedRelu6")
        .Doc("ReLU6 of quantised numbers: clips to [0, 6]."),
    ByteReluOp<ReluTop::kGiven>("QuantizedReluX")
        .Doc("Clips quantised numbers to [0, max_value]."),
};

}  // namespace
}  // namespace sluice
