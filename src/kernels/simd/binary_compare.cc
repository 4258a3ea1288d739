// Comparisons: any type to bool.
#include "kernels/simd/binary.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/binary_compare.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/binary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

#define SLUICE_COMPARISON(Name, sign) \
  struct Name {                       \
    template <class T>                \
    static bool F(T a, T b) {         \
      return a sign b;                \
    }                                 \
  };
SLUICE_COMPARISON(Equal, ==)
SLUICE_COMPARISON(NotEqual, !=)
SLUICE_COMPARISON(Less, <)
SLUICE_COMPARISON(LessEqual, <=)
#undef SLUICE_COMPARISON

// a > b is b < a: the operands are swapped and the code is shared.
template <BinaryFn kFn>
bool Swapped(Operands mode, const void* a, const void* b, void* out,
             int64_t n) {
  if (mode == Operands::kScalarVector) {
    mode = Operands::kVectorScalar;
  } else if (mode == Operands::kVectorScalar) {
    mode = Operands::kScalarVector;
  }
  return kFn(mode, b, a, out, n);
}

template <class Op>
BinaryFn PickEquality(DType t) {
  if (IsFloating(t)) return PickFloats<Op>(t);
  if (IsComplex(t)) return PickComplex<Op>(t);
  return t == DType::kBool ? Loop<Op, uint8_t> : PickUnsigned<Op>(t);
}

template <class Op>
BinaryFn PickOrder(DType t) {
  return IsFloating(t) ? PickFloats<Op>(t) : PickInts<Op>(t);
}

template <class Op>
BinaryFn PickSwapped(DType t) {
  if (IsFloating(t))
    return ByDType<BinaryFn>(FloatTypes(), t, []<class T>() -> BinaryFn {
      if constexpr (std::is_floating_point_v<T>)
        return Swapped<Loop<Op, T>>;
      else
        return Swapped<LoopVia<Op, T>>;
    });
  return ByDType<BinaryFn>(IntTypes(), t, []<class T>() -> BinaryFn {
    return Swapped<Loop<Op, T>>;
  });
}

}  // namespace

BinaryFn CompareFn(BinaryOp op, DType t) {
  switch (op) {
    case BinaryOp::kEqual:
      return PickEquality<Equal>(t);
    case BinaryOp::kNotEqual:
      return PickEquality<NotEqual>(t);
    case BinaryOp::kLess:
      return PickOrder<Less>(t);
    case BinaryOp::kLessEqual:
      return PickOrder<LessEqual>(t);
    case BinaryOp::kGreater:
      return PickSwapped<Less>(t);
    case BinaryOp::kGreaterEqual:
      return PickSwapped<LessEqual>(t);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(CompareFn);
BinaryFn GetBinaryCompare(BinaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(CompareFn)(op, t);
}
}  // namespace sluice::simd
#endif
