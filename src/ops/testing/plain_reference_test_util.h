// Elementwise ops in their simplest form: one element at a time, floats in long
// double, integers in 128 bits and truncated to their type. The reference for
// kernels.
#ifndef SLUICE_OPS_TESTING_PLAIN_REFERENCE_TEST_UTIL_H_
#define SLUICE_OPS_TESTING_PLAIN_REFERENCE_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "ops/testing/plain_special_test_util.h"
#include "tensor/dtype.h"

namespace sluice::plain {

template <typename T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;
template <typename T>
inline constexpr bool kIsFloat =
    std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

__extension__ using Integer = __int128;
__extension__ using Bits = unsigned __int128;
using Complex = std::complex<long double>;
// The type in which elements of a type are computed.
template <typename T>
using Exact =
    std::conditional_t<kIsComplex<T>, Complex,
                       std::conditional_t<kIsFloat<T>, Real, Integer>>;

template <typename T>
Exact<T> Widen(T v) {
  if constexpr (kIsComplex<T>)
    return Complex(v.real(), v.imag());
  else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return static_cast<float>(v);
  else
    return v;
}

// The element of the type nearest to v; for integers, the low bits of v.
template <typename T>
T Narrow(Exact<T> v) {
  if constexpr (kIsComplex<T>)
    return T(static_cast<typename T::value_type>(v.real()),
             static_cast<typename T::value_type>(v.imag()));
  else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

// The distance between 1 and the next number of the type.
template <typename T>
Real Epsilon() {
  if constexpr (std::is_same_v<T, half>)
    return 0x1p-10L;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return 0x1p-7L;
  else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, complex64>)
    return 0x1p-23L;
  else
    return 0x1p-52L;
}

// The smallest normal number.
template <typename T>
Real LeastNormal() {
  if constexpr (std::is_same_v<T, half>)
    return 0x1p-14L;
  else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, complex128>)
    return 0x1p-1022L;
  else
    return 0x1p-126L;
}

// (For integers: the low bits of the product.)
template <typename E>
E Times(E a, E b) {
  if constexpr (std::is_same_v<E, Integer>)
    return static_cast<E>(static_cast<Bits>(a) * static_cast<Bits>(b));
  else
    return a * b;
}

// ---- One argument -----------------------------------------------------------

// nullopt if there is no such op for that type here.
template <typename T>
std::optional<Exact<T>> Unary(std::string_view op, Exact<T> x) {
  using E = Exact<T>;
  if (op == "Neg") return -x;
  if (op == "Square") return Times(x, x);
  if constexpr (kIsComplex<T>) {
    if (op == "Conj") return std::conj(x);
    if (op == "Sign") return x == E(0) ? E(0) : x / std::abs(x);
    if (op == "Reciprocal" || op == "Inv") return E(1) / x;
    if (op == "Sqrt") return std::sqrt(x);
    if (op == "Rsqrt") return E(1) / std::sqrt(x);
    if (op == "Exp") return std::exp(x);
    if (op == "Expm1") return std::exp(x) - E(1);
    if (op == "Log") return std::log(x);
    if (op == "Log1p") return std::log(E(1) + x);
    if (op == "Sin") return std::sin(x);
    if (op == "Cos") return std::cos(x);
    if (op == "Tan") return std::tan(x);
    if (op == "Sinh") return std::sinh(x);
    if (op == "Cosh") return std::cosh(x);
    if (op == "Tanh") return std::tanh(x);
    if (op == "Asin") return std::asin(x);
    if (op == "Acos") return std::acos(x);
    if (op == "Atan") return std::atan(x);
    if (op == "Asinh") return std::asinh(x);
    if (op == "Acosh") return std::acosh(x);
    if (op == "Atanh") return std::atanh(x);
    if (op == "Sigmoid") return E(1) / (E(1) + std::exp(-x));
    return std::nullopt;
  } else {
    if (op == "Abs") return x < 0 ? -x : x;
    if (op == "Sign") return x > 0 ? E(1) : x < 0 ? E(-1) : x;
    if (op == "Relu") return x < 0 ? E(0) : x;
    if (op == "Relu6") return x < 0 ? E(0) : x > 6 ? E(6) : x;
  }
  if constexpr (std::is_same_v<E, Integer>) {
    if (op == "LogicalNot") return !x;
    if (op == "Round") return x;
    if (op == "Invert") return ~x;
    if (op == "PopulationCount") {
      E count = 0;
      for (size_t bit = 0; bit < 8 * sizeof(T); ++bit) count += x >> bit & 1;
      return count;
    }
  }
  if constexpr (std::is_same_v<E, Real>) {
    if (op == "IsNan") return std::isnan(x);
    if (op == "IsInf") return std::isinf(x);
    if (op == "IsFinite") return std::isfinite(x);
    if (op == "Reciprocal" || op == "Inv") return 1 / x;
    if (op == "Sqrt") return std::sqrt(x);
    if (op == "Rsqrt") return 1 / std::sqrt(x);
    if (op == "Floor") return std::floor(x);
    if (op == "Ceil") return std::ceil(x);
    if (op == "Round" || op == "Rint") return std::nearbyint(x);
    if (op == "Exp") return std::exp(x);
    if (op == "Expm1") return std::expm1(x);
    if (op == "Log") return std::log(x);
    if (op == "Log1p") return std::log1p(x);
    if (op == "Sin") return std::sin(x);
    if (op == "Cos") return std::cos(x);
    if (op == "Tan") return std::tan(x);
    if (op == "Asin") return std::asin(x);
    if (op == "Acos") return std::acos(x);
    if (op == "Atan") return std::atan(x);
    if (op == "Sinh") return std::sinh(x);
    if (op == "Cosh") return std::cosh(x);
    if (op == "Tanh") return std::tanh(x);
    if (op == "Asinh") return std::asinh(x);
    if (op == "Acosh") return std::acosh(x);
    if (op == "Atanh") return std::atanh(x);
    if (op == "Erf") return std::erf(x);
    if (op == "Erfc") return std::erfc(x);
    if (op == "Lgamma") return std::lgamma(x);
    if (op == "Digamma") return Digamma(x);
    if (op == "Erfinv") return Erfinv(x);
    if (op == "Ndtri") return Ndtri(x);
    if (op == "BesselI0e") return BesselIe(0, x);
    if (op == "BesselI1e") return BesselIe(1, x);
    if (op == "Sigmoid") return 1 / (1 + std::exp(-x));
    if (op == "Softplus")
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    if (op == "Softsign") return x / (1 + std::abs(x));
    if (op == "LeakyRelu") return x < 0 ? x * Real{0.2f} : x;
    if (op == "Elu") return x < 0 ? std::expm1(x) : x;
    if (op == "Selu")
      return 1.0507009873554804934193349852946L *
             (x < 0 ? 1.6732632423543772848170429916717L * std::expm1(x) : x);
  }
  return std::nullopt;
}

// ---- Two arguments ----------------------------------------------------------

inline Integer FloorDiv(Integer a, Integer b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

template <typename T>
std::optional<Exact<T>> Binary(std::string_view op, Exact<T> x, Exact<T> y) {
  using E = Exact<T>;
  if (op == "AddV2" || op == "Add") return x + y;
  if (op == "Sub") return x - y;
  if (op == "Mul") return Times(x, y);
  if (op == "Equal") return E(x == y);
  if (op == "NotEqual") return E(x != y);
  if (op == "SquaredDifference") {
    if constexpr (kIsComplex<T>)
      return std::conj(x - y) * (x - y);
    else
      return Times(x - y, x - y);
  }
  const bool divides = op == "Div" || op == "RealDiv";
  if constexpr (kIsComplex<T>) {
    if (divides) return x / y;
    if (op == "Pow") return std::pow(x, y);
    if (op == "MulNoNan") return y == E(0) ? E(0) : x * y;
    if (op == "DivNoNan") return y == E(0) ? E(0) : x / y;
    if (op == "Xlogy") return x == E(0) ? E(0) : x * std::log(y);
    if (op == "Xlog1py") return x == E(0) ? E(0) : x * std::log(E(1) + y);
    if (op == "Xdivy") return x == E(0) ? E(0) : x / y;
    return std::nullopt;
  } else {
    if (op == "Less") return x < y;
    if (op == "LessEqual") return x <= y;
    if (op == "Greater") return x > y;
    if (op == "GreaterEqual") return x >= y;
    if (op == "Maximum") return x != x || x > y ? x : y;
    if (op == "Minimum") return x != x || x < y ? x : y;
  }
  if constexpr (std::is_same_v<E, Integer>) {
    if (op == "LogicalAnd") return x && y;
    if (op == "LogicalOr") return x || y;
    if (op == "BitwiseAnd") return x & y;
    if (op == "BitwiseOr") return x | y;
    if (op == "BitwiseXor") return x ^ y;
    // Clamped to the width; shifted-out bits are lost.
    const E shift = std::clamp<E>(y, 0, 8 * sizeof(T) - 1);
    if (op == "LeftShift") return x << shift;
    if (op == "RightShift") return x >> shift;
    if (op == "FloorDiv") return FloorDiv(x, y);
    if (op == "FloorMod") return x - FloorDiv(x, y) * y;
    if (op == "Div" || op == "TruncateDiv") return x / y;
    if (op == "Mod" || op == "TruncateMod") return x % y;
    if (op == "Pow") {
      E power = 1;
      for (E i = 0; i < y; ++i) power = Widen<T>(Narrow<T>(Times(power, x)));
      return power;
    }
  }
  if constexpr (std::is_same_v<E, Real>) {
    if (divides) return x / y;
    if (op == "FloorDiv") return std::floor(Widen<T>(Narrow<T>(x / y)));
    if (op == "TruncateDiv") return std::trunc(Widen<T>(Narrow<T>(x / y)));
    const E rest = std::fmod(x, y);
    if (op == "Mod" || op == "TruncateMod") return rest;
    if (op == "FloorMod")
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    if (op == "Pow") return std::pow(x, y);
    if (op == "Atan2") return std::atan2(x, y);
    if (op == "MulNoNan") return y == 0 ? 0 : x * y;
    if (op == "DivNoNan") return y == 0 ? 0 : x / y;
    if (op == "Xlogy") return x == 0 ? 0 : x * std::log(y);
    if (op == "Xlog1py") return x == 0 ? 0 : x * std::log1p(y);
    if (op == "Xdivy") return x == 0 ? 0 : x / y;
    if (op == "Igamma") return IncompleteGamma(x, y).below;
    if (op == "Igammac") return IncompleteGamma(x, y).above;
    if (op == "IgammaGradA") return IncompleteGamma(x, y).slope;
    if (op == "RandomGammaGrad") return GammaSampleGrad(x, y);
    if (op == "Zeta") return Zeta(x, y);
    if (op == "Polygamma") return Polygamma(x, y);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      if (op == "NextAfter")
        return std::nextafter(static_cast<T>(x), static_cast<T>(y));
  }
  return std::nullopt;
}

}  // namespace sluice::plain

#endif  // SLUICE_OPS_TESTING_PLAIN_REFERENCE_TEST_UTIL_H_
