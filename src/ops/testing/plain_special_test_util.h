// Special functions of real numbers in their simplest form, in long double:
// sums of series, integrals, searches. The reference for kernels.
#ifndef SLUICE_OPS_TESTING_PLAIN_SPECIAL_TEST_UTIL_H_
#define SLUICE_OPS_TESTING_PLAIN_SPECIAL_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::plain {

using Real = long double;

inline Real Digamma(Real x) {
  if (std::isnan(x) || x == -std::numeric_limits<Real>::infinity()) return NAN;
  if (x <= 0 && std::floor(x) == x) return NAN;
  if (x < 0) return Digamma(1 - x) - M_PIl / std::tan(M_PIl * x);
  Real sum = 0;
  for (; x < 30; ++x) sum -= 1 / x;
  const Real y = 1 / (x * x);
  return sum + std::log(x) - 1 / (2 * x) -
         y * (1.L / 12 -
              y * (1.L / 120 -
                   y * (1.L / 252 -
                        y * (1.L / 240 - y * (1.L / 132 - y * 691 / 32760)))));
}

// exp(-|x|) I_n(x), as the sum of its series.
// exp(-|x|) I_n(x), as a power series.
inline Real BesselIe(int n, Real x) {
  const Real a = std::abs(x);
  if (std::isnan(a)) return a;
  if (a > 1000) {  // The asymptotic series.
    const Real mu = 4 * n * n;
    Real sum = 1, term = 1;
    for (int k = 1; k < 20 && !std::isinf(a); ++k) {
      term *= -(mu - (2 * k - 1) * (2 * k - 1)) / (k * 8 * a);
      sum += term;
    }
    const Real value = sum / std::sqrt(2 * M_PIl * a);
    return n == 1 && x < 0 ? -value : value;
  }
  if (a == 0) return n == 0;
  // Terms are scaled one by one to avoid overflow.
  Real sum = 0;
  for (int k = 0; k < 3000; ++k) {
    const Real term = std::exp((2 * k + n) * std::log(a / 2) -
                               std::lgamma(static_cast<Real>(k + 1)) -
                               std::lgamma(static_cast<Real>(k + n + 1)) - a);
    sum += term;
    if (2 * k > a && term < 1e-24L * sum) break;
  }
  return n == 1 && x < 0 ? -sum : sum;
}

// Returns the x at which the increasing function f is y.
template <typename F>
Real Inverse(const F& f, Real y) {
  Real low = -64, high = 64;
  for (;;) {
    const Real x = (low + high) / 2, fx = f(x);
    if (fx == y || x == low || x == high) return x;
    (fx < y ? low : high) = x;
  }
}
inline Real Erfinv(Real x) {
  if (!(std::abs(x) <= 1)) return NAN;
  if (std::abs(x) == 1) return x * INFINITY;
  return Inverse([](Real y) { return std::erf(y); }, x);
}
inline Real Ndtri(Real p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
  return Inverse([](Real y) { return std::erfc(-y / std::sqrt(2.L)) / 2; }, p);
}

// The gamma distribution's probability below x, the probability above it, and
// the derivative of the first by a: integrals of the density, and of the
// density times log(t)
// - digamma(a), over the side of x where the density falls.
struct GammaParts {
  Real below, above, slope;
};
inline GammaParts IncompleteGamma(Real a, Real x) {
  // (The boundary values are TensorFlow's.)
  if (x == 0) return {0, a > 0 ? 1 : NAN, 0};
  if (std::isnan(x) || x < 0 || !(a > 0)) return {NAN, NAN, NAN};
  if (std::isinf(x)) return {Real(!std::isinf(a)), 0, 0};
  if (std::isinf(a)) return {0, 1, 0};
  const Real log_gamma = std::lgamma(a), psi = Digamma(a), step = 1.L / 32;
  const bool lower = x < a;
  Real part = 0, slope = 0;
  for (Real u = -5; u < 12; u += step) {
    const Real v = std::exp(u - std::exp(-u));  // Distance from x, any scale.
    const Real t = lower ? x * std::exp(-v) : x + v;
    if (t == 0) break;
    const Real width = step * v * (1 + std::exp(-u)) * (lower ? t : 1);
    const Real mass = width * std::exp((a - 1) * std::log(t) - t - log_gamma);
    part += mass;
    slope += mass * (std::log(t) - psi);
  }
  if (lower) return {part, 1 - part, slope};
  return {1 - part, part, -slope};
}

// The derivative of a gamma sample x by a, with the probability below x fixed.
inline Real GammaSampleGrad(Real a, Real x) {
  if (!(a >= 0) || !(x >= 0)) return NAN;
  if (a == 0 || x == 0) return 0;
  const Real density = std::exp(a * std::log(x) - x - std::lgamma(a));
  // (Densities below the range of double count as zero.)
  if (density < 0x1p-1022L) return 0;
  return -IncompleteGamma(a, x).slope * x / density;
}

// The sum of (q + n)^-x; the remainder is an integral (Euler and Maclaurin).
inline Real Zeta(Real x, Real q) {
  if (x == 1) return INFINITY;
  if (!(x >= 1) || std::isnan(q)) return NAN;
  if (q <= 0 && q == std::floor(q))
    return std::isinf(x) || std::fmod(x, 2) == 0 ? INFINITY : NAN;
  if (q < 0 && x != std::floor(x)) return NAN;
  if (std::isinf(q)) return 0;
  Real sum = 0;
  const Real end = std::max(q, 0.L) + 40;
  for (; q < end; ++q) {
    const Real term = std::pow(q, -x);
    // (Values beyond the range of double are infinite, as in TensorFlow.)
    const bool too_large = std::abs(term) > std::numeric_limits<double>::max();
    sum += too_large ? term * INFINITY : term;
  }
  const Real term = std::pow(q, -x), y = x / q;
  if (term == 0) return sum;
  const Real next = (x + 1) * (x + 2) / (q * q);
  return sum +
         term * (q / (x - 1) + .5L +
                 y * (1.L / 12 - next * (1.L / 720 -
                                         (x + 3) * (x + 4) / (q * q) / 30240)));
}
inline Real Polygamma(Real n, Real x) {
  if (!(n >= 0) || n != std::floor(n)) return NAN;
  if (n == 0) return Digamma(x);
  // (In double, which factorials soon exceed.)
  const auto factorial = static_cast<double>(std::tgamma(n + 1));
  return (std::fmod(n, 2) == 0 ? -1 : 1) *
         (factorial * static_cast<double>(Zeta(n + 1, x)));
}

}  // namespace sluice::plain

#endif  // SLUICE_OPS_TESTING_PLAIN_SPECIAL_TEST_UTIL_H_
