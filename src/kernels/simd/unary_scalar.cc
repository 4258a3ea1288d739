// The unary kernels that call the C library element by element: portable code.
#include <cmath>
#include <complex>
#include <type_traits>

#include "kernels/simd/by_dtype.h"
#include "kernels/simd/special.h"
#include "kernels/simd/unary.h"
#include "tensor/compute_type.h"

namespace sluice::simd {
namespace {

// Ops here are structs with `template <class T> static R F(T x)`.
template <class Op, class T, class Compute = T>
void Loop(const void* pin, void* pout, int64_t n) {
  using R = decltype(Op::template F<Compute>(Compute()));
  using Out = std::conditional_t<std::is_same_v<T, Compute>, R, T>;
  const T* in = static_cast<const T*>(pin);
  Out* out = static_cast<Out*>(pout);
  for (int64_t i = 0; i < n; ++i)
    out[i] = Out(Op::template F<Compute>(Compute(in[i])));
}

#define SLUICE_LIBM(Name, function) \
  struct Name {                     \
    template <class T>              \
    static T F(T x) {               \
      return std::function(x);      \
    }                               \
  };
SLUICE_LIBM(Sqrt, sqrt)
SLUICE_LIBM(Exp, exp)
SLUICE_LIBM(Log, log)
SLUICE_LIBM(Sin, sin)
SLUICE_LIBM(Cos, cos)
SLUICE_LIBM(Tan, tan)
SLUICE_LIBM(Asin, asin)
SLUICE_LIBM(Acos, acos)
SLUICE_LIBM(Atan, atan)
SLUICE_LIBM(Sinh, sinh)
SLUICE_LIBM(Cosh, cosh)
SLUICE_LIBM(Tanh, tanh)
SLUICE_LIBM(Asinh, asinh)
SLUICE_LIBM(Acosh, acosh)
SLUICE_LIBM(Atanh, atanh)
SLUICE_LIBM(Erf, erf)
SLUICE_LIBM(Erfc, erfc)
#undef SLUICE_LIBM

// In double for any T.
#define SLUICE_SPECIAL(Name)                               \
  struct Name##Op {                                        \
    template <class T>                                     \
    static T F(T x) {                                      \
      return static_cast<T>(Name(static_cast<double>(x))); \
    }                                                      \
  };
SLUICE_SPECIAL(Lgamma)
SLUICE_SPECIAL(Digamma)
#undef SLUICE_SPECIAL

struct Square {
  template <class T>
  static T F(T x) {
    return x * x;
  }
};
struct Rsqrt {
  template <class T>
  static T F(T x) {
    return T(1) / std::sqrt(x);
  }
};
struct Reciprocal {
  template <class T>
  static T F(T x) {
    return T(1) / x;
  }
};
struct Sign {
  template <class T>
  static T F(T x) {
    const auto magnitude = std::abs(x);
    return magnitude == 0 ? T(0) : x / magnitude;
  }
};
struct Expm1 {
  // exp(a+ib) - 1 = expm1(a) cos b - 2 sin^2(b/2) + i exp(a) sin b.
  template <class T>
  static T F(T x) {
    const auto s = std::sin(x.imag() / 2);
    return T(std::expm1(x.real()) * std::cos(x.imag()) - 2 * s * s,
             std::exp(x.real()) * std::sin(x.imag()));
  }
};
struct Log1p {
  template <class T>
  static T F(T x) {
    const auto re = x.real();
    const auto im = x.imag();
    // Near 0, |1+x|^2 - 1 is computed directly and loses no precision.
    if (std::abs(re) < 0.5 && std::abs(im) < 0.5)
      return T(std::log1p(re * (re + 2) + im * im) / 2, std::atan2(im, re + 1));
    return std::log(T(1) + x);
  }
};
struct Sigmoid {
  template <class T>
  static T F(T x) {
    return T(1) / (T(1) + std::exp(-x));
  }
};
struct Abs {
  template <class T>
  static auto F(T x) {
    return std::abs(x);
  }
};
struct Angle {
  template <class T>
  static auto F(T x) {
    return std::arg(x);
  }
};

template <class Op>
UnaryFn PickFloats(DType t) {
  return ByDType<UnaryFn>(FloatTypes(), t, []<class T>() -> UnaryFn {
    return Loop<Op, T, ComputeType<T>>;
  });
}
template <class Op>
UnaryFn PickComplex(DType t) {
  return ByDType<UnaryFn>(ComplexTypes(), t,
                          []<class T>() -> UnaryFn { return Loop<Op, T>; });
}

UnaryFn ComplexFn(UnaryOp op, DType t) {
  switch (op) {
    case UnaryOp::kSquare:
      return PickComplex<Square>(t);
    case UnaryOp::kSign:
      return PickComplex<Sign>(t);
    case UnaryOp::kAbs:
      return PickComplex<Abs>(t);
    case UnaryOp::kAngle:
      return PickComplex<Angle>(t);
    case UnaryOp::kSqrt:
      return PickComplex<Sqrt>(t);
    case UnaryOp::kRsqrt:
      return PickComplex<Rsqrt>(t);
    case UnaryOp::kReciprocal:
      return PickComplex<Reciprocal>(t);
    case UnaryOp::kExp:
      return PickComplex<Exp>(t);
    case UnaryOp::kExpm1:
      return PickComplex<Expm1>(t);
    case UnaryOp::kLog:
      return PickComplex<Log>(t);
    case UnaryOp::kLog1p:
      return PickComplex<Log1p>(t);
    case UnaryOp::kSin:
      return PickComplex<Sin>(t);
    case UnaryOp::kCos:
      return PickComplex<Cos>(t);
    case UnaryOp::kTan:
      return PickComplex<Tan>(t);
    case UnaryOp::kAsin:
      return PickComplex<Asin>(t);
    case UnaryOp::kAcos:
      return PickComplex<Acos>(t);
    case UnaryOp::kAtan:
      return PickComplex<Atan>(t);
    case UnaryOp::kSinh:
      return PickComplex<Sinh>(t);
    case UnaryOp::kCosh:
      return PickComplex<Cosh>(t);
    case UnaryOp::kTanh:
      return PickComplex<Tanh>(t);
    case UnaryOp::kAsinh:
      return PickComplex<Asinh>(t);
    case UnaryOp::kAcosh:
      return PickComplex<Acosh>(t);
    case UnaryOp::kAtanh:
      return PickComplex<Atanh>(t);
    case UnaryOp::kSigmoid:
      return PickComplex<Sigmoid>(t);
    default:
      return nullptr;
  }
}

}  // namespace

UnaryFn GetUnaryScalar(UnaryOp op, DType t) {
  if (IsComplex(t)) return ComplexFn(op, t);
  switch (op) {
    case UnaryOp::kTan:
      return PickFloats<Tan>(t);
    case UnaryOp::kErf:
      return PickFloats<Erf>(t);
    case UnaryOp::kErfc:  // Other floats: unary_normal.cc.
      return t == DType::kDouble ? Loop<Erfc, double> : nullptr;
    case UnaryOp::kLgamma:
      return PickFloats<LgammaOp>(t);
    case UnaryOp::kDigamma:
      return PickFloats<DigammaOp>(t);
    default:
      return nullptr;
  }
}

}  // namespace sluice::simd
