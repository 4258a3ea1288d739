// Cumulative sums, products and log-sum-exps along one dimension.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"

namespace sluice {
namespace {

// Rounds to T after each step, as TensorFlow does.
struct AddStep {
  template <typename T>
  static T Start() {
    return T(0);
  }
  template <typename T>
  static T Of(T acc, T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(acc) +
                            static_cast<uint64_t>(x));
    else
      return T(acc + x);
  }
};
struct MultiplyStep {
  template <typename T>
  static T Start() {
    return T(1);
  }
  template <typename T>
  static T Of(T acc, T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(acc) *
                            static_cast<uint64_t>(x));
    else
      return T(acc * x);
  }
};
struct LogSumExpStep {
  template <typename T>
  static T Start() {
    return T(-std::numeric_limits<ComputeType<T>>::infinity());
  }
  template <typename T>
  static T Of(T acc, T x) {
    using C = ComputeType<T>;
    const C a = acc, b = x;
    const C high = std::max(a, b), low = std::min(a, b);
    if (std::isnan(a) || std::isnan(b)) return T(a + b);
    if (std::isinf(high)) return T(high);
    return T(high + std::log1p(std::exp(low - high)));
  }
};

template <typename T, typename Step>
class Scan {
 public:
  explicit Scan(const Node& n)
      : exclusive_(n.BoolAttr("exclusive")), reverse_(n.BoolAttr("reverse")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    const Tensor& axis_tensor = ctx.input(1);
    if (axis_tensor.num_elements() != 1)
      return InvalidArgument("axis: expected a scalar, got shape ",
                             axis_tensor.shape().ToString());
    const int64_t value = axis_tensor.dtype() == DType::kInt32
                              ? axis_tensor.raw_scalar<int32_t>()
                              : axis_tensor.raw_scalar<int64_t>();
    SLUICE_ASSIGN_OR_RETURN(const int axis, CanonicalAxis(value, x.rank()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
    if (x.num_elements() == 0) return OkStatus();
    int64_t inner = 1;
    for (int d = axis + 1; d < x.rank(); ++d) inner *= x.dim(d);
    const int64_t length = x.dim(axis);
    const T* in = x.raw<T>();
    T* out = ctx.output(0).template raw<T>();
    const int64_t lanes = x.num_elements() / length;
    ParallelFor(lanes, std::max<int64_t>(1, 16384 / length),
                [&](int64_t begin, int64_t end) {
                  for (int64_t lane = begin; lane < end; ++lane) {
                    const int64_t at =
                        lane / inner * inner * length + lane % inner;
                    Lane(in + at, out + at, length, inner);
                  }
                });
    return OkStatus();
  }

 private:
  void Lane(const T* in, T* out, int64_t length, int64_t stride) const {
    T acc = Step::template Start<T>();
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = (reverse_ ? length - 1 - i : i) * stride;
      const T next = Step::template Of<T>(acc, in[at]);
      out[at] = exclusive_ ? acc : next;
      acc = next;
    }
  }

  const bool exclusive_, reverse_;
};

template <typename T>
using SumScan = Scan<T, AddStep>;
template <typename T>
using ProductScan = Scan<T, MultiplyStep>;
template <typename T>
using LogSumExpScan = Scan<T, LogSumExpStep>;

Status ScanShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  const PartialShape& x = c.input(0);
  if (const auto axis = c.ConstantInt(1); axis.has_value() && x.rank_known())
    SLUICE_RETURN_IF_ERROR(CanonicalAxis(*axis, x.rank()).status());
  c.set_output(0, x);
  return OkStatus();
}

// The scan `op` of x in the direction of this node's, or in the opposite
// direction.
Output ScanLike(const GradContext& c, const char* op, Output x, bool turn) {
  return Build(op, {x, c.input(1)},
               {{"exclusive", c.op->BoolAttr("exclusive")},
                {"reverse", c.op->BoolAttr("reverse") != turn}});
}

Status CumsumGrad(GradContext& c) {
  c.grads[0] = ScanLike(c, "Cumsum", c.dy[0], /*turn=*/true);
  return OkStatus();
}

Status CumprodGrad(GradContext& c) {
  const Output x = grad::Conj(c.input(0));
  const Output product = grad::Conj(c.output(0));
  const Output sums =
      ScanLike(c, "Cumsum", grad::Mul(product, c.dy[0]), /*turn=*/true);
  c.grads[0] = Build("DivNoNan", {sums, x});
  return OkStatus();
}

// Split by sign, since the sums are computed in logarithms.
Status LogSumExpGrad(GradContext& c) {
  const Output x = c.input(0), y = c.output(0), dy = c.dy[0];
  if (!dy.valid()) return OkStatus();
  const double lowest = grad::TypeOf(x) == DType::kHalf ? -65504.0
                        : grad::TypeOf(x) == DType::kDouble
                            ? std::numeric_limits<double>::lowest()
                        : grad::TypeOf(x) == DType::kBfloat16
                            ? -3.3895313892515355e38
                            : std::numeric_limits<float>::lowest();
  const Output zero = grad::Number(dy, 0), least = grad::Number(dy, lowest);
  const auto part = [&](const char* sign, Output magnitude) {
    const Output log =
        grad::Select(Build(sign, {dy, zero}), Build("Log", {magnitude}), least);
    const Output sums = ScanLike(c, "CumulativeLogsumexp", grad::Sub(log, y),
                                 /*turn=*/true);
    return Build("Exp", {grad::Add(sums, x)});
  };
  c.grads[0] = grad::Sub(part("Greater", dy), part("Less", grad::Neg(dy)));
  return OkStatus();
}

OpDefBuilder Declare(const char* name, const char* types, KernelMaker kernel,
                     GradFn gradient, const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Input("axis: Tidx")
      .Output("out: T")
      .Attr("exclusive: bool = false")
      .Attr("reverse: bool = false")
      .Attr(types)
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .HostInput("axis")
      .Family("math")
      .Shape(ScanShape)
      .Kernel(std::move(kernel))
      .Grad(gradient)
      .Sample({{.shape = {2, 3}, .low = 0.5, .high = 2}, {.values = {1}}})
      .Sample({{.shape = {2, 3}, .low = 0.5, .high = 2}, {.values = {0}}},
              {{"reverse", true}})
      .Doc(doc);
  return b;
}

const OpRegistrar kScans[] = {
    Declare("Cumsum", kNumberTypes,
            CpuStateFor<SumScan, float, double, half, bfloat16, int8_t, int16_t,
                        int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                        complex64, complex128>("T"),
            CumsumGrad, "The cumulative sum along a dimension."),
    Declare("Cumprod", kNumberTypes,
            CpuStateFor<ProductScan, float, double, half, bfloat16, int8_t,
                        int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                        uint64_t, complex64, complex128>("T"),
            CumprodGrad, "The cumulative product along a dimension."),
    Declare("CumulativeLogsumexp", "T: {bfloat16, half, float, double}",
            CpuStateFor<LogSumExpScan, float, double, half, bfloat16>("T"),
            LogSumExpGrad,
            "The logarithm of the cumulative sum of exponentials."),
};

const BatchFormRegistrar scan_batches[] = {
    {"Cumsum", AlongAxes<1>},
    {"Cumprod", AlongAxes<1>},
    {"CumulativeLogsumexp", AlongAxes<1>},
};

}  // namespace
}  // namespace sluice
