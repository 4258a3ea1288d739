// add, sub, mul, division of floats, maximum, minimum, bitwise and shifts.
#include <type_traits>

#include "kernels/simd/binary.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/binary_arithmetic.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/binary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// Small integers are promoted to int by the language; their product must be
// computed in unsigned so that it cannot overflow.
template <class T>
using Wide =
    std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4, uint32_t, T>;

template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;

// Without the recovery of infinities of C's Annex G, as Eigen does it.
template <class T>
inline T Multiply(T a, T b) {
  if constexpr (kIsComplex<T>) {
    return T(a.real() * b.real() - a.imag() * b.imag(),
             a.real() * b.imag() + a.imag() * b.real());
  } else {
    return static_cast<T>(Wide<T>(a) * Wide<T>(b));
  }
}

struct Add {
  template <class T>
  static T F(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Sub {
  template <class T>
  static T F(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct Mul {
  template <class T>
  static T F(T a, T b) {
    return Multiply(a, b);
  }
};
struct SquaredDifference {
  template <class T>
  static T F(T a, T b) {
    const T d = static_cast<T>(a - b);
    if constexpr (kIsComplex<T>) {
      return T(d.real() * d.real() + d.imag() * d.imag(), 0);
    } else {
      return Multiply(d, d);
    }
  }
};
struct Div {
  template <class T>
  static T F(T a, T b) {
    return a / b;
  }
};
struct DivNoNan {
  template <class T>
  static T F(T a, T b) {
    const T q = a / b;
    return b == T(0) ? T(0) : q;
  }
};
struct MulNoNan {
  template <class T>
  static T F(T a, T b) {
    const T p = Multiply(a, b);
    return b == T(0) ? T(0) : p;
  }
};
struct Xdivy {
  template <class T>
  static T F(T a, T b) {
    const T q = a / b;
    return a == T(0) ? T(0) : q;
  }
};
struct Maximum {
  template <class T>
  static T F(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return ((a < b) | (b != b)) ? b : a;
    } else {
      return a < b ? b : a;
    }
  }
};
struct Minimum {
  template <class T>
  static T F(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return ((b < a) | (b != b)) ? b : a;
    } else {
      return b < a ? b : a;
    }
  }
};
struct And {
  template <class T>
  static T F(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T F(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T F(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class T>
inline int ClampShift(T b) {
  constexpr int kMaxShift = static_cast<int>(sizeof(T)) * 8 - 1;
  if (b < T(0)) return 0;
  return b > T(kMaxShift) ? kMaxShift : static_cast<int>(b);
}
struct LeftShift {
  template <class T>
  static T F(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(Wide<U>(static_cast<U>(a)) << ClampShift(b));
  }
};
struct RightShift {
  template <class T>
  static T F(T a, T b) {
    return static_cast<T>(a >> ClampShift(b));
  }
};

template <class Op>
BinaryFn PickRing(DType t) {
  if (IsFloating(t)) return PickFloats<Op>(t);
  return IsComplex(t) ? PickComplex<Op>(t) : PickUnsigned<Op>(t);
}
template <class Op>
BinaryFn PickField(DType t) {
  return IsComplex(t) ? PickComplex<Op>(t) : PickFloats<Op>(t);
}
template <class Op>
BinaryFn PickOrdered(DType t) {
  return IsFloating(t) ? PickFloats<Op>(t) : PickInts<Op>(t);
}

}  // namespace

BinaryFn ArithmeticFn(BinaryOp op, DType t) {
  switch (op) {
    case BinaryOp::kAdd:
      return PickRing<Add>(t);
    case BinaryOp::kSub:
      return PickRing<Sub>(t);
    case BinaryOp::kMul:
      return PickRing<Mul>(t);
    case BinaryOp::kSquaredDifference:
      return PickRing<SquaredDifference>(t);
    case BinaryOp::kDiv:
      return PickField<Div>(t);
    case BinaryOp::kDivNoNan:
      return PickField<DivNoNan>(t);
    case BinaryOp::kMulNoNan:
      return PickField<MulNoNan>(t);
    case BinaryOp::kXdivy:
      return PickField<Xdivy>(t);
    case BinaryOp::kMaximum:
      return PickOrdered<Maximum>(t);
    case BinaryOp::kMinimum:
      return PickOrdered<Minimum>(t);
    case BinaryOp::kBitwiseAnd:
      return PickUnsigned<And>(t);
    case BinaryOp::kBitwiseOr:
      return PickUnsigned<Or>(t);
    case BinaryOp::kBitwiseXor:
      return PickUnsigned<Xor>(t);
    case BinaryOp::kLeftShift:
      return PickInts<LeftShift>(t);
    case BinaryOp::kRightShift:
      return PickInts<RightShift>(t);
    // bool is stored as the bytes 0 and 1.
    case BinaryOp::kLogicalAnd:
      return t == DType::kBool ? Loop<And, uint8_t> : nullptr;
    case BinaryOp::kLogicalOr:
      return t == DType::kBool ? Loop<Or, uint8_t> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(ArithmeticFn);
BinaryFn GetBinaryArithmetic(BinaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(ArithmeticFn)(op, t);
}
}  // namespace sluice::simd
#endif
