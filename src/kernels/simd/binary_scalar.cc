// The binary kernels dominated by integer division or libm: portable code, one
// element at a time.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/simd/binary.h"
#include "kernels/simd/by_dtype.h"
#include "kernels/simd/unary.h"
#include "tensor/compute_type.h"

namespace sluice::simd {
namespace {

// Ops here are structs with `template <class T> static R F(T, T, bool& ok)`.
template <class Op, class T, class Compute = T>
bool Loop(Operands mode, const void* pa, const void* pb, void* po, int64_t n) {
  bool ok = true;
  using R = decltype(Op::template F<Compute>(Compute(), Compute(), ok));
  using Out = std::conditional_t<std::is_same_v<T, Compute>, R, T>;
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  Out* out = static_cast<Out*>(po);
  const int64_t step_a = mode == Operands::kScalarVector ? 0 : 1;
  const int64_t step_b = mode == Operands::kVectorScalar ? 0 : 1;
  if (n == 0) return true;
  // A scalar operand is read before anything is written.
  const T a0 = *a;
  const T b0 = *b;
  for (int64_t i = 0; i < n; ++i) {
    const T x = step_a ? a[i] : a0;
    const T y = step_b ? b[i] : b0;
    // 16-bit floats are divided in their own type: the quotient is rounded
    // before its fraction is dropped.
    if constexpr (!std::is_same_v<T, Compute> &&
                  requires { Op::Whole(Compute()); })
      out[i] = Out(Op::Whole(Compute(T(Compute(x) / Compute(y)))));
    else
      out[i] = Out(Op::template F<Compute>(Compute(x), Compute(y), ok));
  }
  return ok;
}

// Quotient and remainder that never trap: a zero divisor clears `ok` and gives
// 0; -1 is negation in unsigned, so that the least integer wraps.
template <class T>
T Quotient(T a, T b, bool& ok) {
  if (b == T(0)) {
    ok = false;
    return T(0);
  }
  if constexpr (std::is_signed_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (b == T(-1))
      return static_cast<T>(static_cast<U>(0 - static_cast<U>(a)));
  }
  return static_cast<T>(a / b);
}
template <class T>
T Remainder(T a, T b, bool& ok) {
  if (b == T(0)) {
    ok = false;
    return T(0);
  }
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return T(0);
  }
  return static_cast<T>(a % b);
}

struct TruncateDiv {
  static float Whole(float quotient) { return std::trunc(quotient); }
  template <class T>
  static T F(T a, T b, bool& ok) {
    if constexpr (std::is_integral_v<T>)
      return Quotient(a, b, ok);
    else
      return std::trunc(a / b);
  }
};
struct TruncateMod {
  template <class T>
  static T F(T a, T b, bool& ok) {
    if constexpr (std::is_integral_v<T>)
      return Remainder(a, b, ok);
    else
      return std::fmod(a, b);
  }
};
struct FloorDiv {
  static float Whole(float quotient) { return std::floor(quotient); }
  template <class T>
  static T F(T a, T b, bool& ok) {
    if constexpr (std::is_integral_v<T>) {
      const T q = Quotient(a, b, ok);
      if constexpr (std::is_signed_v<T>) {
        bool unused = true;
        if ((a < 0) != (b < 0) && Remainder(a, b, unused) != 0)
          return static_cast<T>(q - 1);
      }
      return q;
    } else {
      return std::floor(a / b);
    }
  }
};
struct FloorMod {
  template <class T>
  static T F(T a, T b, bool& ok) {
    if constexpr (std::is_integral_v<T>) {
      const T r = Remainder(a, b, ok);
      if constexpr (std::is_signed_v<T>) {
        if (r != 0 && (r < 0) != (b < 0)) return static_cast<T>(r + b);
      }
      return r;
    } else {
      const T r = std::fmod(a, b);
      return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
    }
  }
};
struct Pow {
  template <class T>
  static T F(T a, T b, bool& ok) {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (std::is_signed_v<T>) {
        if (b < 0) {
          ok = false;
          return T(0);
        }
      }
      uint64_t base = static_cast<uint64_t>(a);
      uint64_t result = 1;
      for (uint64_t e = static_cast<uint64_t>(b); e != 0; e >>= 1) {
        if (e & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    } else {
      return std::pow(a, b);
    }
  }
};
struct Atan2 {
  template <class T>
  static T F(T a, T b, bool&) {
    return std::atan2(a, b);
  }
};
struct NextAfter {
  template <class T>
  static T F(T a, T b, bool&) {
    return std::nextafter(a, b);
  }
};
struct Xlogy {
  template <class T>
  static T F(T a, T b, bool&) {
    return a == T(0) ? T(0) : a * std::log(b);
  }
};
struct Xlog1py {
  template <class T>
  static T F(T a, T b, bool&) {
    if (a == T(0)) return T(0);
    if constexpr (std::is_floating_point_v<T>) {
      return a * std::log1p(b);
    } else {
      // |1 + b|^2 - 1 loses nothing near b == 0.
      const auto re = b.real(), im = b.imag();
      const auto half_log = std::log1p(re * (re + 2) + im * im) / 2;
      return a * T(half_log, std::atan2(im, re + 1));
    }
  }
};
struct SoftplusGrad {
  template <class T>
  static T F(T dy, T x, bool&) {
    return dy / (std::exp(-x) + T(1));
  }
};
// The same for float and double, by vectors: dy times the sigmoid.
template <class T>
bool SoftplusGradOfVectors(Operands mode, const void* pa, const void* pb,
                           void* po, int64_t n) {
  constexpr int64_t kBlock = 256;
  static const UnaryKernel sigmoid = GetUnary(UnaryOp::kSigmoid, DTypeOf<T>());
  static const BinaryKernel multiply = GetBinary(BinaryOp::kMul, DTypeOf<T>());
  const T* dy = static_cast<const T*>(pa);
  const T* x = static_cast<const T*>(pb);
  T* out = static_cast<T*>(po);
  alignas(64) T slopes[kBlock];
  if (n == 0) return true;
  // A scalar operand is read before anything is written.
  const T dy0 = *dy;
  if (mode == Operands::kVectorScalar) {
    sigmoid.fn(x, slopes, 1);
    return multiply.fn(mode, dy, slopes, out, n);
  }
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    sigmoid.fn(x + i, slopes, m);
    multiply.fn(mode, mode == Operands::kScalarVector ? &dy0 : dy + i, slopes,
                out + i, m);
  }
  return true;
}
struct MakeComplex {
  template <class T>
  static std::complex<T> F(T re, T im, bool&) {
    return {re, im};
  }
};

template <class Op>
BinaryFn PickFloats(DType t) {
  return ByDType<BinaryFn>(FloatTypes(), t, []<class T>() -> BinaryFn {
    return Loop<Op, T, ComputeType<T>>;
  });
}
template <class Op>
BinaryFn PickInts(DType t) {
  return ByDType<BinaryFn>(IntTypes(), t,
                           []<class T>() -> BinaryFn { return Loop<Op, T>; });
}
template <class Op>
BinaryFn PickComplex(DType t) {
  return ByDType<BinaryFn>(ComplexTypes(), t,
                           []<class T>() -> BinaryFn { return Loop<Op, T>; });
}
template <class Op>
BinaryFn PickReal(DType t) {
  return IsFloating(t) ? PickFloats<Op>(t) : PickInts<Op>(t);
}
template <class Op>
BinaryFn PickField(DType t) {
  return IsFloating(t) ? PickFloats<Op>(t) : PickComplex<Op>(t);
}

}  // namespace

BinaryFn GetBinaryScalar(BinaryOp op, DType t) {
  const bool wide = t == DType::kFloat || t == DType::kDouble;
  switch (op) {
    case BinaryOp::kDiv:
      return PickInts<TruncateDiv>(t);
    case BinaryOp::kFloorDiv:
      return PickReal<FloorDiv>(t);
    case BinaryOp::kFloorMod:
      return PickReal<FloorMod>(t);
    case BinaryOp::kTruncateDiv:
      return PickReal<TruncateDiv>(t);
    case BinaryOp::kTruncateMod:
      return PickReal<TruncateMod>(t);
    case BinaryOp::kPow:
      return IsComplex(t) ? PickComplex<Pow>(t) : PickInts<Pow>(t);
    case BinaryOp::kAtan2:
      return t == DType::kDouble ? Loop<Atan2, double> : nullptr;
    case BinaryOp::kNextAfter:
      return wide ? PickFloats<NextAfter>(t) : nullptr;
    case BinaryOp::kXlogy:
      return PickField<Xlogy>(t);
    case BinaryOp::kXlog1py:
      return PickField<Xlog1py>(t);
    case BinaryOp::kSoftplusGrad:
      if (t == DType::kFloat) return SoftplusGradOfVectors<float>;
      if (t == DType::kDouble) return SoftplusGradOfVectors<double>;
      return PickFloats<SoftplusGrad>(t);
    case BinaryOp::kComplex:
      if (t == DType::kFloat) return Loop<MakeComplex, float>;
      return t == DType::kDouble ? Loop<MakeComplex, double> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace sluice::simd
