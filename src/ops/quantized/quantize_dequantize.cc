// Floats quantised and dequantised: rounded to the values of a few bits, with
// zero kept exact.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"

namespace sluice {
namespace {

// Slices along an axis: outer blocks of `count` slices of `inner` elements.
struct AxisSlices {
  int64_t outer = 1, count = 1, inner = 1;
};

// For axis -1 there is one slice.
Result<AxisSlices> SliceAlong(const Shape& s, int64_t axis) {
  if (axis < -1 || axis >= s.rank())
    return InvalidArgument("axis: expected -1 or a dimension of ", s.ToString(),
                           ", got ", axis);
  AxisSlices slices;
  // (For an empty tensor, the product of the other extents may exceed 2^63.)
  if (s.num_elements() == 0) {
    slices.outer = 0;
    if (axis >= 0) slices.count = s.dim(static_cast<int>(axis));
    return slices;
  }
  for (int i = 0; i < s.rank(); ++i)
    (i < axis    ? slices.outer
     : i == axis ? slices.count
                 : slices.inner) *= s.dim(i);
  return slices;
}

// A scalar for one slice, else a vector with one number per slice.
Status RequireEnds(const Tensor& t, int64_t axis, int64_t count,
                   const char* name) {
  if (t.num_elements() == count && t.rank() == (axis < 0 ? 0 : 1))
    return OkStatus();
  return InvalidArgument(name, ": expected ", count,
                         " numbers, one for each slice along the axis, got "
                         "shape ",
                         t.shape().ToString());
}

template <typename Fn>
void ForEachOfSlice(const AxisSlices& s, int64_t k, Fn fn) {
  for (int64_t o = 0; o < s.outer; ++o) {
    const int64_t begin = (o * s.count + k) * s.inner;
    for (int64_t i = begin; i < begin + s.inner; ++i) fn(i);
  }
}

// Immutable. V3 receives the number of bits at run time.
template <typename T>
class RoundTrip {
 public:
  using C = ComputeType<T>;

  static Result<std::shared_ptr<RoundTrip>> Make(const Node& n) {
    auto k = std::make_shared<RoundTrip>();
    k->signed_ = n.BoolAttr("signed_input");
    k->range_given_ = n.BoolAttr("range_given");
    k->narrow_ = n.BoolAttr("narrow_range");
    k->half_up_ = n.AttrOr<std::string>("round_mode", "") == "HALF_UP";
    k->axis_ = n.AttrOr<int64_t>("axis", -1);
    if (n.FindAttr("num_bits") != nullptr) {
      k->bits_ = n.IntAttr("num_bits");
      SLUICE_RETURN_IF_ERROR(k->CheckBits(k->bits_));
    }
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor &in = ctx.input(0), &min = ctx.input(1), &max = ctx.input(2);
    int64_t bits = bits_;
    if (ctx.num_inputs() == 4) {
      if (ctx.input(3).num_elements() != 1)
        return InvalidArgument("num_bits: expected one number, got shape ",
                               ctx.input(3).shape().ToString());
      bits = *ctx.input(3).raw<int32_t>();
      SLUICE_RETURN_IF_ERROR(CheckBits(bits));
    }
    SLUICE_ASSIGN_OR_RETURN(const AxisSlices s, SliceAlong(in.shape(), axis_));
    if (range_given_) {
      SLUICE_RETURN_IF_ERROR(RequireEnds(min, axis_, s.count, "input_min"));
      SLUICE_RETURN_IF_ERROR(RequireEnds(max, axis_, s.count, "input_max"));
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in.shape()));
    if (in.num_elements() == 0) return OkStatus();
    const T* from = in.raw<T>();
    T* to = ctx.output(0).template raw<T>();
    for (int64_t k = 0; k < s.count; ++k) {
      C low, high;
      if (range_given_) {
        low = static_cast<C>(min.raw<T>()[k]);
        high = static_cast<C>(max.raw<T>()[k]);
        if (low > high)
          return InvalidArgument(
              "input_min: expected at most the input_max of ", high, ", got ",
              low);
      } else {
        low = std::numeric_limits<C>::infinity();
        high = -low;
        ForEachOfSlice(s, k, [&](int64_t i) {
          low = std::min(low, static_cast<C>(from[i]));
          high = std::max(high, static_cast<C>(from[i]));
        });
      }
      C scale, inverse;
      Fit(bits, &low, &high, &scale, &inverse);
      ForEachOfSlice(s, k, [&](int64_t i) {
        C v = static_cast<C>(from[i]);
        if (range_given_) v = std::max(std::min(v, high), low);
        v *= scale;
        v = half_up_ ? std::floor(v + C(0.5)) : std::nearbyint(v);
        to[i] = static_cast<T>(v * inverse);
      });
    }
    return OkStatus();
  }

 private:
  Status CheckBits(int64_t bits) const {
    const int64_t most = signed_ ? 61 : 62;  // TensorFlow's bound.
    if (bits > 0 && bits <= most) return OkStatus();
    return InvalidArgument("num_bits: expected a value in [1, ", most,
                           "], got ", bits);
  }

  // The largest scale that keeps the range within the integers; the range is
  // then set to theirs.
  void Fit(int64_t bits, C* low, C* high, C* scale, C* inverse) const {
    const int64_t most =
        signed_ ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
    const int64_t least = signed_ ? -most - (narrow_ ? 0 : 1) : 0;
    const C least_c = static_cast<C>(least), most_c = static_cast<C>(most);
    constexpr C kAny = std::numeric_limits<C>::max();
    const C by_low = least_c * *low > 0 ? least_c / *low : kAny;
    const C by_high = most_c * *high > 0 ? most_c / *high : kAny;
    if (by_low < by_high) {
      *scale = by_low;
      *inverse = *low / least_c;
      *high = most_c * *inverse;
    } else {
      *scale = by_high;
      *inverse = *high / most_c;
      *low = least_c * *inverse;
    }
  }

  bool signed_ = true, range_given_ = false, narrow_ = false, half_up_ = false;
  int64_t axis_ = -1, bits_ = 8;
};

// QuantizeAndDequantizeV4Grad: passes gradients within the range.
template <typename T>
class RoundTripGrad {
 public:
  explicit RoundTripGrad(const Node& n)
      : axis_(n.AttrOr<int64_t>("axis", -1)) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &dy = ctx.input(0), &in = ctx.input(1);
    const Tensor &min = ctx.input(2), &max = ctx.input(3);
    if (dy.shape() != in.shape())
      return InvalidArgument("gradients: expected the shape of input, ",
                             in.shape().ToString(), ", got ",
                             dy.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const AxisSlices s, SliceAlong(in.shape(), axis_));
    SLUICE_RETURN_IF_ERROR(RequireEnds(min, axis_, s.count, "input_min"));
    SLUICE_RETURN_IF_ERROR(RequireEnds(max, axis_, s.count, "input_max"));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in.shape()));
    for (int i = 1; i < 3; ++i) {
      SLUICE_ASSIGN_OR_RETURN(ctx.output(i),
                              Tensor::Zeros(DTypeOf<T>(), min.shape()));
    }
    T* dx = ctx.output(0).template raw<T>();
    for (int64_t k = 0; k < s.count; ++k) {
      const T low = min.raw<T>()[k], high = max.raw<T>()[k];
      ForEachOfSlice(s, k, [&](int64_t i) {
        const T v = in.raw<T>()[i];
        dx[i] = v >= low && v <= high ? dy.raw<T>()[i] : T(0.0f);
      });
    }
    return OkStatus();
  }

 private:
  const int64_t axis_;
};

// ---- Shapes, gradients, declarations ----------------------------------------

Status RoundTripShape(ShapeContext& c) {
  const int64_t axis = c.node().AttrOr<int64_t>("axis", -1);
  const PartialShape& in = c.input(0);
  if (axis < -1 || (in.rank_known() && axis >= in.rank()))
    return InvalidArgument("axis: expected -1 or a dimension of ",
                           in.ToString(), ", got ", axis);
  c.set_output(0, in);
  return OkStatus();
}

Status RoundTripGradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(RoundTripShape(c));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in,
                          c.input(0).MergeWith(c.input(1)));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape ends,
                          c.input(2).MergeWith(c.input(3)));
  c.set_all_outputs(ends);
  c.set_output(0, in);
  return OkStatus();
}

// Ignores the rounding.
Status PassThrough(GradContext& c) {
  c.grads[0] = c.dy[0];
  return OkStatus();
}

Status PassWithinRange(GradContext& c) {
  Node* n = BuildNode("QuantizeAndDequantizeV4Grad",
                      {c.dy[0], c.input(0), c.input(1), c.input(2)},
                      {{"axis", c.op->AttrOr<int64_t>("axis", -1)}});
  if (n == nullptr) return OkStatus();
  for (int i = 0; i < 3; ++i) c.grads[static_cast<size_t>(i)] = Output(n, i);
  return OkStatus();
}

Status RoundTripGradGradient(GradContext& c) {
  c.grads[0] = c.dy[0];
  return OkStatus();
}

OpDefBuilder RoundTripOp(const char* name, bool bits_given) {
  OpDefBuilder b(name);
  b.Input("input: T").Input("input_min: T").Input("input_max: T");
  std::vector<SampleInput> sample{
      {.shape = {2, 3}}, {.values = {-0.75}}, {.values = {0.5}}};
  if (bits_given) {
    b.Input("num_bits: int32");
    sample.push_back({.values = {4}});
  }
  b.Output("output: T").Attr("signed_input: bool = true");
  if (bits_given) {
    b.Attr("range_given: bool = true");
  } else {
    b.Attr("num_bits: int = 8")
        .Attr("range_given: bool = false")
        .Attr("round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'");
  }
  b.Attr(kFloatTypes)
      .Attr("narrow_range: bool = false")
      .Attr("axis: int = -1")
      .Family("array")
      .Shape(RoundTripShape)
      .Kernel(CpuStateFor<RoundTrip, float, double, half, bfloat16>("T"))
      .Sample(std::move(sample), {{"range_given", true}});
  return b;
}

const OpRegistrar kRoundTrips[] = {
    RoundTripOp("QuantizeAndDequantizeV2", false)
        .Grad(PassThrough)
        .Doc("Rounds to the values that num_bits bits can represent; the "
             "gradient ignores the rounding."),
    RoundTripOp("QuantizeAndDequantizeV3", true)
        .Grad(PassThrough)
        .Doc("QuantizeAndDequantizeV2 with the number of bits given at run "
             "time."),
    RoundTripOp("QuantizeAndDequantizeV4", false)
        .Grad(PassWithinRange)
        .Doc("QuantizeAndDequantizeV2 with gradients only within the range."),
};

SLUICE_OP(QuantizeAndDequantizeV4Grad)
    .Input("gradients: T")
    .Input("input: T")
    .Input("input_min: T")
    .Input("input_max: T")
    .Output("input_backprop: T")
    .Output("input_min_backprop: T")
    .Output("input_max_backprop: T")
    .Attr(kFloatTypes)
    .Attr("axis: int = -1")
    .Family("array")
    .Shape(RoundTripGradShape)
    .Kernel(CpuStateFor<RoundTripGrad, float, double, half, bfloat16>("T"))
    .Grad(RoundTripGradGradient)
    .Sample({{.shape = {2, 3}},
             {.shape = {2, 3}},
             {.values = {-2}},
             {.values = {2}}})
    .Doc("The gradient of QuantizeAndDequantizeV4.");

}  // namespace
}  // namespace sluice
