#include "ops/math/elementwise.h"

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/types/span.h"
#include "exec/fusion/block_form.h"
#include "ops/common/carrier_type.h"

namespace sluice {
namespace {

using simd::BinaryOp;
using simd::Operands;
using simd::UnaryOp;

// The state of the kernels of one node. Immutable.
struct UnaryState {
  simd::UnaryKernel kernel;
  DType out;
};
struct BinaryState {
  simd::BinaryKernel kernel;
  DType out;
  const char* failure;  // The reason if the kernel returns false.
};

absl::Span<const int64_t> SpanOf(const Shape& s) {
  return {s.dims().data(), s.dims().size()};
}

Status RunUnary(KernelContext& ctx) {
  const UnaryState& s = ctx.state<UnaryState>();
  const Tensor& x = ctx.input(0);
  const void* in = x.raw();
  if (x.rank() == 0) {
    Tensor y(s.out, Shape());
    s.kernel.fn(in, y.raw(), 1);
    ctx.set_output(0, std::move(y));
    return OkStatus();
  }
  const Shape shape = x.shape();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, s.out, shape));
  s.kernel(in, ctx.output(0).raw(), shape.num_elements());
  return OkStatus();
}

bool UnaryScalar(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  uint64_t bits = 0;
  static_cast<const UnaryState*>(at.state)->kernel.fn(&registers[at.in[0]],
                                                      &bits, 1);
  registers[at.out] = bits;
  return true;
}

Status Failure(const BinaryState& s) { return InvalidArgument(s.failure); }

Status RunEqualShapes(KernelContext& ctx, const BinaryState& s) {
  const void* a = ctx.input(0).raw();
  const void* b = ctx.input(1).raw();
  const Shape shape = ctx.input(0).shape();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0, 1}, 0, s.out, shape));
  const bool ok = s.kernel(a, b, ctx.output(0).raw(), shape.num_elements());
  return ok ? OkStatus() : Failure(s);
}

// One operand has one element and no more dimensions than the other.
Status RunWithScalar(KernelContext& ctx, const BinaryState& s, int vector) {
  const void* a = ctx.input(0).raw();
  const void* b = ctx.input(1).raw();
  const Shape shape = ctx.input(vector).shape();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({vector}, 0, s.out, shape));
  const bool ok =
      s.kernel(a, b, ctx.output(0).raw(), shape.num_elements(),
               vector == 0 ? Operands::kVectorScalar : Operands::kScalarVector);
  return ok ? OkStatus() : Failure(s);
}

Status RunBroadcasting(KernelContext& ctx, const BinaryState& s) {
  const Tensor& ta = ctx.input(0);
  const Tensor& tb = ctx.input(1);
  simd::Broadcast<2> plan;
  if (!plan.Build({SpanOf(ta.shape()), SpanOf(tb.shape())}))
    return IncompatibleShapes(ta.shape(), tb.shape());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make({plan.shape().data(), plan.shape().size()}));
  const void* a = ta.raw();
  const void* b = tb.raw();
  if (ta.shape() == shape) {
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, s.out, shape));
  } else if (tb.shape() == shape) {
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({1}, 0, s.out, shape));
  } else {
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, s.out, shape));
  }
  const bool ok = RunBroadcast(s.kernel, plan, a, b, ctx.output(0).raw());
  return ok ? OkStatus() : Failure(s);
}

Status RunBinary(KernelContext& ctx) {
  const BinaryState& s = ctx.state<BinaryState>();
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  if ((a.rank() | b.rank()) == 0) {
    Tensor z(s.out, Shape());
    const bool ok =
        s.kernel.fn(Operands::kVectorVector, a.raw(), b.raw(), z.raw(), 1);
    ctx.set_output(0, std::move(z));
    return ok ? OkStatus() : Failure(s);
  }
  if (a.shape() == b.shape()) return RunEqualShapes(ctx, s);
  if (b.num_elements() == 1 && b.rank() <= a.rank())
    return RunWithScalar(ctx, s, 0);
  if (a.num_elements() == 1 && a.rank() <= b.rank())
    return RunWithScalar(ctx, s, 1);
  return RunBroadcasting(ctx, s);
}

Status RunSameShape(KernelContext& ctx) {
  SLUICE_RETURN_IF_ERROR(RequireEqualShapes(ctx, 0, 1));
  return RunEqualShapes(ctx, ctx.state<BinaryState>());
}

// ---- In blocks -------------------------------------------------------------

bool UnaryBlock(const void* state, const void* const* in, uint32_t single,
                void* out, int64_t n) {
  const simd::UnaryKernel& k = static_cast<const UnaryState*>(state)->kernel;
  if (single == 0) {
    k.fn(in[0], out, n);
    return true;
  }
  alignas(16) char one[16];
  k.fn(in[0], one, 1);
  auto* to = static_cast<char*>(out);
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * k.out_size, one, k.out_size);
  return true;
}

bool BinaryBlock(const void* state, const void* const* in, uint32_t single,
                 void* out, int64_t n) {
  const simd::BinaryKernel& k = static_cast<const BinaryState*>(state)->kernel;
  return k.fn(single == 0   ? Operands::kVectorVector
              : single == 1 ? Operands::kScalarVector
                            : Operands::kVectorScalar,
              in[0], in[1], out, n);
}

std::optional<BlockForm> BinaryForm(const Node& n, const Kernel& k,
                                    BlockForm::Shapes shapes) {
  const DType t = n.input_type(0);
  BlockForm form;
  form.fn = BinaryBlock;
  form.shapes = shapes;
  form.may_fail = !IsFloating(t) && !IsComplex(t);
  form.grain = static_cast<const BinaryState*>(k.state.get())->kernel.grain;
  return form;
}

// ---- Scalars of the common types --------------------------------------------
// In a loop or chain of scalars the function pointer into simd, the result type
// and the error are known at compile time: only the arithmetic remains.

template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                std::type_identity<T>>;

struct HotAdd {
  template <typename T>
  static T Of(T a, T b) {
    using U = typename Wide<T>::type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct HotSub {
  template <typename T>
  static T Of(T a, T b) {
    using U = typename Wide<T>::type;
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  }
};
struct HotMul {
  template <typename T>
  static T Of(T a, T b) {
    using U = typename Wide<T>::type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
#define SLUICE_HOT(Name, expression) \
  struct Name {                      \
    template <typename T>            \
    static auto Of(T a, T b) {       \
      return expression;             \
    }                                \
  }
SLUICE_HOT(HotDiv, a / b);
SLUICE_HOT(HotMaximum, (a != a || a > b) ? a : b);
SLUICE_HOT(HotMinimum, (a != a || a < b) ? a : b);
SLUICE_HOT(HotLess, a < b);
SLUICE_HOT(HotLessEqual, a <= b);
SLUICE_HOT(HotGreater, a > b);
SLUICE_HOT(HotGreaterEqual, a >= b);
SLUICE_HOT(HotEqual, a == b);
SLUICE_HOT(HotNotEqual, a != b);
SLUICE_HOT(HotAnd, a&& b);
SLUICE_HOT(HotOr, a || b);
#undef SLUICE_HOT

template <typename F, typename T>
Status RunHot(KernelContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  if ((a.rank() | b.rank()) == 0) [[likely]] {
    ctx.output(0).SetScalar(F::Of(a.raw_scalar<T>(), b.raw_scalar<T>()));
    return OkStatus();
  }
  return RunBinary(ctx);
}

template <typename F, typename T>
bool HotScalar(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  T a, b;
  std::memcpy(&a, &registers[at.in[0]], sizeof(T));
  std::memcpy(&b, &registers[at.in[1]], sizeof(T));
  const auto z = F::Of(a, b);
  uint64_t bits = 0;
  std::memcpy(&bits, &z, sizeof(z));
  registers[at.out] = bits;
  return true;
}

// Any other op on scalars.
bool ScalarByLoop(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  const auto& s = *static_cast<const BinaryState*>(at.state);
  uint64_t bits = 0;
  const bool ok = s.kernel.fn(Operands::kVectorVector, &registers[at.in[0]],
                              &registers[at.in[1]], &bits, 1);
  registers[at.out] = bits;
  return ok;
}

struct RunFns {
  Status (*run)(KernelContext&) = RunBinary;
  ScalarFn scalar = ScalarByLoop;
};

template <typename F, typename T>
constexpr RunFns kHot = {RunHot<F, T>, HotScalar<F, T>};

template <typename F>
RunFns HotFor(DType t) {
  switch (t) {
    case DType::kFloat:
      return kHot<F, float>;
    case DType::kDouble:
      return kHot<F, double>;
    case DType::kInt32:
      return kHot<F, int32_t>;
    case DType::kInt64:
      return kHot<F, int64_t>;
    default:
      return {};
  }
}

RunFns RunFor(BinaryOp op, DType t) {
  switch (op) {
    case BinaryOp::kAdd:
      return HotFor<HotAdd>(t);
    case BinaryOp::kSub:
      return HotFor<HotSub>(t);
    case BinaryOp::kMul:
      return HotFor<HotMul>(t);
    case BinaryOp::kDiv:
      if (t == DType::kFloat) return kHot<HotDiv, float>;
      return t == DType::kDouble ? kHot<HotDiv, double> : RunFns();
    case BinaryOp::kMaximum:
      return HotFor<HotMaximum>(t);
    case BinaryOp::kMinimum:
      return HotFor<HotMinimum>(t);
    case BinaryOp::kLess:
      return HotFor<HotLess>(t);
    case BinaryOp::kLessEqual:
      return HotFor<HotLessEqual>(t);
    case BinaryOp::kGreater:
      return HotFor<HotGreater>(t);
    case BinaryOp::kGreaterEqual:
      return HotFor<HotGreaterEqual>(t);
    case BinaryOp::kEqual:
      return HotFor<HotEqual>(t);
    case BinaryOp::kNotEqual:
      return HotFor<HotNotEqual>(t);
    case BinaryOp::kLogicalAnd:
      return kHot<HotAnd, bool>;
    case BinaryOp::kLogicalOr:
      return kHot<HotOr, bool>;
    default:
      return {};
  }
}

const char* FailureOf(BinaryOp op) {
  return op == BinaryOp::kPow
             ? "Integers to negative integer powers are not allowed"
             : "Integer division by zero";
}

Status FillBinary(BinaryOp op, const Node& n, Kernel* k) {
  const DType t = CarrierType(n.input_type(0));
  auto s = std::make_shared<BinaryState>();
  s->kernel = simd::GetBinary(op, t);
  if (!s->kernel) return NoKernelFor(n, t);
  s->out = n.output_type(0);
  if (DTypeSize(s->out) != s->kernel.out_size) return NoKernelFor(n, s->out);
  s->failure = FailureOf(op);
  // Registers hold elements of up to eight bytes.
  if (s->kernel.in_size > 8 || s->kernel.out_size > 8) k->scalar = nullptr;
  k->state = std::move(s);
  k->expensive = LooksBig(n);
  return OkStatus();
}

// Whether `f` is one of RunHot.
template <typename F>
bool IsHotOf(Status (*run)(KernelContext&)) {
  return run == RunHot<F, float> || run == RunHot<F, double> ||
         run == RunHot<F, int32_t> || run == RunHot<F, int64_t>;
}
bool IsHot(Status (*run)(KernelContext&)) {
  return IsHotOf<HotAdd>(run) || IsHotOf<HotSub>(run) || IsHotOf<HotMul>(run) ||
         IsHotOf<HotMaximum>(run) || IsHotOf<HotMinimum>(run) ||
         IsHotOf<HotLess>(run) || IsHotOf<HotLessEqual>(run) ||
         IsHotOf<HotGreater>(run) || IsHotOf<HotGreaterEqual>(run) ||
         IsHotOf<HotEqual>(run) || IsHotOf<HotNotEqual>(run) ||
         run == RunHot<HotDiv, float> || run == RunHot<HotDiv, double> ||
         run == RunHot<HotAnd, bool> || run == RunHot<HotOr, bool>;
}

void SetFns(RunFns fns, Kernel* k) {
  k->run = fns.run;
  k->scalar = fns.scalar;
}

// ---- Equality ---------------------------------------------------------------

// Equality of operands that may not broadcast, or of types that simd does not
// support.
class Equality {
 public:
  static Result<std::shared_ptr<Equality>> Make(BinaryOp op, const Node& n) {
    auto e = std::make_shared<Equality>();
    e->binary_.out = DType::kBool;
    e->binary_.failure = "";
    e->not_equal_ = op == BinaryOp::kNotEqual;
    e->strict_ = n.AttrOr<bool>("incompatible_shape_error", true);
    e->strings_ = n.input_type(0) == DType::kString;
    if (!e->strings_)
      e->binary_.kernel = simd::GetBinary(op, CarrierType(n.input_type(0)));
    if (!e->strings_ && !e->binary_.kernel)
      return NoKernelFor(n, n.input_type(0));
    return e;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    simd::Broadcast<2> plan;
    if (!plan.Build({SpanOf(a.shape()), SpanOf(b.shape())})) {
      if (strict_) return IncompatibleShapes(a.shape(), b.shape());
      ctx.set_output(0, Tensor::Scalar<bool>(not_equal_));
      return OkStatus();
    }
    if (!strings_) return RunBroadcasting(ctx, binary_);
    SLUICE_ASSIGN_OR_RETURN(
        const Shape shape,
        Shape::Make({plan.shape().data(), plan.shape().size()}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kBool, shape));
    const std::string* pa = ctx.input(0).raw<std::string>();
    const std::string* pb = ctx.input(1).raw<std::string>();
    bool* out = ctx.output(0).raw<bool>();
    plan.ForEachInner(0, plan.outer(), [&](int64_t at, const auto& offsets) {
      const int last = plan.rank() - 1;
      const int64_t step_a = plan.stride(0, last);
      const int64_t step_b = plan.stride(1, last);
      for (int64_t i = 0; i < plan.inner(); ++i)
        out[at + i] = (pa[offsets[0] + i * step_a] ==
                       pb[offsets[1] + i * step_b]) != not_equal_;
    });
    return OkStatus();
  }

 private:
  BinaryState binary_;
  bool not_equal_, strict_, strings_;
};

std::optional<BlockForm> FormOf(const Node& n, const Kernel& k) {
  if (k.run == RunUnary) {
    BlockForm form;
    form.fn = UnaryBlock;
    form.grain = static_cast<const UnaryState*>(k.state.get())->kernel.grain;
    return form;
  }
  if (k.run == RunSameShape) return BinaryForm(n, k, BlockForm::kSame);
  if (k.run == RunBinary || (k.scalar != nullptr && IsHot(k.run)))
    return BinaryForm(n, k, BlockForm::kBroadcast);
  return std::nullopt;
}

const BlockFormRegistrar elementwise_forms(FormOf);

}  // namespace

bool LooksBig(const Node& node) {
  constexpr int64_t kManyElements = 8192;
  constexpr int64_t kGuess = 64;  // Assumed for an unknown dimension (batch).
  const PartialShape& s = node.output_shape(0);
  if (!s.rank_known()) return false;
  int64_t n = 1;
  for (int64_t d : s.dims()) {
    n = MultiplyOrNegative(n, d < 0 ? kGuess : d);
    if (n < 0) return true;
  }
  return n > kManyElements;
}

Status IncompatibleShapes(const Shape& a, const Shape& b) {
  return InvalidArgument("shapes: expected two that broadcast together, got ",
                         a.ToString(), " and ", b.ToString());
}

Status RequireEqualShapes(KernelContext& ctx, int i, int j) {
  const Shape& a = ctx.input(i).shape();
  const Shape& b = ctx.input(j).shape();
  if (a == b) return OkStatus();
  return InvalidArgument("inputs ", i, " and ", j,
                         ": expected equal shapes, got ", a.ToString(), " and ",
                         b.ToString());
}

KernelMaker MakeUnary(UnaryOp op) {
  return [op](const Node& n, Kernel* k) {
    const DType t = n.input_type(0);
    const simd::UnaryKernel kernel = simd::GetUnary(op, t);
    return kernel ? UseUnary(kernel, n, k) : NoKernelFor(n, t);
  };
}

Status UseUnary(const simd::UnaryKernel& kernel, const Node& n, Kernel* k) {
  const DType out = n.output_type(0);
  if (DTypeSize(out) != kernel.out_size) return NoKernelFor(n, out);
  // Registers hold elements of up to eight bytes.
  if (kernel.in_size <= 8 && kernel.out_size <= 8) k->scalar = UnaryScalar;
  k->state = std::make_shared<UnaryState>(UnaryState{kernel, out});
  k->run = RunUnary;
  k->expensive = LooksBig(n);
  return OkStatus();
}

KernelMaker MakeBinary(BinaryOp op) {
  return [op](const Node& n, Kernel* k) {
    SetFns(RunFor(op, n.input_type(0)), k);
    return FillBinary(op, n, k);
  };
}

KernelMaker MakeSameShapeBinary(BinaryOp op) {
  return [op](const Node& n, Kernel* k) {
    SetFns({RunSameShape, ScalarByLoop}, k);
    return FillBinary(op, n, k);
  };
}

KernelMaker MakeEquality(BinaryOp op) {
  return [op](const Node& n, Kernel* k) {
    if (n.input_type(0) != DType::kString &&
        n.AttrOr<bool>("incompatible_shape_error", true)) {
      SetFns(RunFor(op, n.input_type(0)), k);
      return FillBinary(op, n, k);
    }
    SLUICE_ASSIGN_OR_RETURN(k->state, Equality::Make(op, n));
    k->run = [](KernelContext& ctx) { return ctx.state<Equality>().Run(ctx); };
    return OkStatus();
  };
}

}  // namespace sluice
