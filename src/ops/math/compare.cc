// Comparisons, logic and bitwise ops with broadcasting; ClipByValue.
#include <cmath>
#include <memory>

#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/select.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

using grad::Select;
using grad::SumToShape;
using simd::BinaryOp;

constexpr char kTruth[] = "its output is boolean";

OpDefBuilder Comparison(const char* name, BinaryOp op, const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr(kRealTypes)
      .Family("math")
      .Shape(BroadcastBinaryShape)
      .Kernel(MakeBinary(op))
      .NoGradient(kTruth)
      .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}})
      .Sample({{.shape = {2, 1}}, {.shape = {3}}})
      .Sample({{}, {}})
      .Doc(doc);
  return b;
}

const OpRegistrar kComparisons[] = {
    Comparison("Less", BinaryOp::kLess, "x < y with broadcasting."),
    Comparison("LessEqual", BinaryOp::kLessEqual, "x <= y with broadcasting."),
    Comparison("Greater", BinaryOp::kGreater, "x > y with broadcasting."),
    Comparison("GreaterEqual", BinaryOp::kGreaterEqual,
               "x >= y with broadcasting."),
};

// The broadcast shape; unknown if the shapes may turn out not to broadcast and
// that is not an error.
Status EqualityShape(ShapeContext& c) {
  if (c.node().AttrOr<bool>("incompatible_shape_error", true))
    return BroadcastBinaryShape(c);
  const PartialShape& x = c.input(0);
  const PartialShape& y = c.input(1);
  const Result<PartialShape> both = BroadcastShapes(x, y);
  if (both.ok() && x.fully_known() && y.fully_known())
    c.set_output(0, *both);
  else if (!both.ok())
    c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}

OpDefBuilder EqualityOp(const char* name, BinaryOp op, const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: type")
      .Attr("incompatible_shape_error: bool = true")
      .Family("math")
      .Commutative()
      .Shape(EqualityShape)
      .Kernel(MakeEquality(op))
      .NoGradient(kTruth)
      .Sample({{.shape = {4}, .values = {1, 2, 3, 4}},
               {.shape = {4}, .values = {1, 3, 3, 5}}})
      .Sample({{.shape = {2, 1}, .values = {1, 2}},
               {.shape = {3}, .values = {1, 2, 3}}})
      .Doc(doc);
  return b;
}

const OpRegistrar kEqualities[] = {
    EqualityOp("Equal", BinaryOp::kEqual, "x == y with broadcasting."),
    EqualityOp("NotEqual", BinaryOp::kNotEqual, "x != y with broadcasting."),
};

// ---- ApproximateEqual -------------------------------------------------------

template <typename T>
struct ApproximateEqual {
  explicit ApproximateEqual(const Node& n)
      : tolerance(n.AttrOr<float>("tolerance", 1e-5f)) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_RETURN_IF_ERROR(RequireEqualShapes(ctx, 0, 1));
    const Tensor& x = ctx.input(0);
    const Tensor& y = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kBool, x.shape()));
    const T* a = x.raw<T>();
    const T* b = y.raw<T>();
    bool* out = ctx.output(0).raw<bool>();
    for (int64_t i = 0; i < x.num_elements(); ++i)
      out[i] = Near(a[i], b[i], tolerance);
    return OkStatus();
  }

  // (The difference of the most negative integer and a positive one does not
  // fit the signed type.)
  static uint64_t Distance(T a, T b) {
    return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                 : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
  }
  // The tolerance as an integer: rounded towards zero, and zero for NaN.
  static uint64_t WholeTolerance(float tolerance) {
    if (!(tolerance >= 1)) return 0;
    return tolerance < 1.8e19f ? static_cast<uint64_t>(tolerance) : UINT64_MAX;
  }

  static bool Near(T a, T b, float tolerance) {
    if constexpr (std::is_integral_v<T>)
      return Distance(a, b) < WholeTolerance(tolerance);
    else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
      return static_cast<float>(T(std::abs(float{a} - float{b}))) <
             static_cast<float>(T(tolerance));
    else
      return std::abs(a - b) < tolerance;
  }

  float tolerance;
};

template <typename... Ts>
Status MakeApproximateEqualFor(const Node& n, Kernel* k) {
  const DType t = n.input_type(0);
  Status made = NoKernelFor(n, t);
  (void)((t == DTypeOf<Ts>()
              ? (made = CpuState<ApproximateEqual<Ts>>()(n, k), true)
              : false) ||
         ...);
  return made;
}

SLUICE_OP(ApproximateEqual)
    .Input("x: T")
    .Input("y: T")
    .Output("z: bool")
    .Attr(kNumberTypes)
    .Attr("tolerance: float = 0.00001")
    .Family("math")
    .Commutative()
    .Shape(MergeBothShape)
    .Kernel(MakeApproximateEqualFor<float, double, half, bfloat16, int8_t,
                                    int16_t, int32_t, int64_t, uint8_t,
                                    uint16_t, uint32_t, uint64_t>)
    .NoGradient(kTruth)
    .Sample({{.shape = {3}, .values = {1, 2, 3}},
             {.shape = {3}, .values = {1, 2.5, 3}}})
    .Doc("|x - y| < tolerance, elementwise, for equal shapes.");

// ---- Logic and bits ---------------------------------------------------------

OpDefBuilder Logical(const char* name, BinaryOp op, const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: bool")
      .Input("y: bool")
      .Output("z: bool")
      .Family("math")
      .Commutative()
      .Shape(BroadcastBinaryShape)
      .Kernel(MakeBinary(op))
      .NoGradient(kTruth)
      .Sample({{.shape = {4}, .values = {0, 0, 1, 1}},
               {.shape = {4}, .values = {0, 1, 0, 1}}})
      .Sample({{.shape = {2, 1}, .values = {0, 1}},
               {.shape = {2}, .values = {0, 1}}})
      .Doc(doc);
  return b;
}

const OpRegistrar kLogic[] = {
    Logical("LogicalAnd", BinaryOp::kLogicalAnd, "True where both are true."),
    Logical("LogicalOr", BinaryOp::kLogicalOr, "True where either is true."),
};

OpDefBuilder Bitwise(const char* name, BinaryOp op, double high,
                     const char* doc) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(kIntTypes)
      .Family("math")
      .Shape(BroadcastBinaryShape)
      .Kernel(MakeBinary(op))
      .NoGradient("its outputs are integers")
      .Sample({{.shape = {2, 3}, .low = 0, .high = 100},
               {.shape = {2, 3}, .low = 0, .high = high}})
      .Sample({{.shape = {2, 1}, .low = 0, .high = 100},
               {.shape = {3}, .low = 0, .high = high}})
      .Doc(doc);
  return b;
}

const OpRegistrar kBitwise[] = {
    Bitwise("BitwiseAnd", BinaryOp::kBitwiseAnd, 100, "x & y, bit by bit.")
        .Commutative(),
    Bitwise("BitwiseOr", BinaryOp::kBitwiseOr, 100, "x | y, bit by bit.")
        .Commutative(),
    Bitwise("BitwiseXor", BinaryOp::kBitwiseXor, 100, "x ^ y, bit by bit.")
        .Commutative(),
    Bitwise("LeftShift", BinaryOp::kLeftShift, 7,
            "x << y; the count is clamped to the width of the type."),
    Bitwise("RightShift", BinaryOp::kRightShift, 7,
            "x >> y, arithmetic for signed types; the count is clamped."),
};

// ---- ClipByValue ------------------------------------------------------------

Status ClipShape(ShapeContext& c) {
  // Each bound is a scalar or has a shape that broadcasts to that of t.
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status RunClip(KernelContext& ctx) {
  const Shape shape = ctx.input(0).shape();
  const DType t = ctx.input(0).dtype();
  const auto is_scalar = [&](int i) { return ctx.input(i).rank() == 0; };
  for (int i = 1; i <= 2; ++i)
    if (!is_scalar(i) && !(ctx.input(i).shape() == shape))
      return InvalidArgument("clip_value_", i == 1 ? "min" : "max",
                             ": expected a scalar or the shape of t ",
                             shape.ToString(), ", got ",
                             ctx.input(i).shape().ToString());
  const void* x = ctx.input(0).raw();
  const void* lo = ctx.input(1).raw();
  const void* hi = ctx.input(2).raw();
  const bool lo_scalar = is_scalar(1), hi_scalar = is_scalar(2);
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, t, shape));
  if (!simd::Clip(t, x, lo, lo_scalar, hi, hi_scalar, ctx.output(0).raw(),
                  shape.num_elements()))
    return NoKernelFor(ctx.node(), t);
  return OkStatus();
}

Status ClipGrad(GradContext& c) {
  const Output x = c.input(0), lo = c.input(1), hi = c.input(2);
  const Output dy = c.dy[0], zero = grad::Number(dy, 0);
  const Output below = Build("Less", {x, lo});
  const Output above = Build("Greater", {x, hi});
  const Output outside = Build("LogicalOr", {below, above});
  c.grads[0] = SumToShape(Select(outside, zero, dy), x, lo);
  c.grads[1] = SumToShape(Select(below, dy, zero), lo, x);
  c.grads[2] = SumToShape(Select(above, dy, zero), hi, x);
  return OkStatus();
}

SLUICE_OP(ClipByValue)
    .Input("t: T")
    .Input("clip_value_min: T")
    .Input("clip_value_max: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Family("math")
    .Shape(ClipShape)
    .Kernel(Cpu(RunClip))
    .Grad(ClipGrad)
    .Sample({{.shape = {2, 3}, .low = -2, .high = 2},
             {.values = {-0.5}},
             {.values = {0.5}}})
    .Doc("Clips the elements of t to the range between two bounds.");

}  // namespace
}  // namespace sluice
