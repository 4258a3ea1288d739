#include "kernels/simd/special.h"

#include <math.h>

#include <cmath>
#include <limits>

namespace sluice::simd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr double kSqrt2 = 1.41421356237309504880;

// The x with P(X > x) = q for 0 < q <= 0.5: Abramowitz and Stegun 26.2.23
// (error below 4.5e-4), then Halley steps, each of which triples the number of
// correct digits.
double UpperQuantile(double q) {
  const double t = std::sqrt(-2 * std::log(q));
  double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int i = 0; i < 3; ++i) {
    const double tail = 0.5 * std::erfc(x / kSqrt2);
    // (tail - q) / density, computed so that neither underflows first.
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
    if (density == 0) break;
    const double u = (tail - q) / density;
    x += u / (1 - 0.5 * x * u);
  }
  return x;
}

}  // namespace

double Ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (p == 0.5) return 0;
  return p < 0.5 ? -UpperQuantile(p) : UpperQuantile(1 - p);
}

double Erfinv(double x) {
  if (!(x >= -1 && x <= 1)) return kNan;
  if (x == 1 || x == -1) return x * kInf;
  const double a = std::fabs(x);
  if (a < 1e-9) return x * (std::sqrt(kPi) / 2);
  double y;
  if (a > 0.5) {
    // 1 - a is exact.
    y = UpperQuantile((1 - a) / 2) / kSqrt2;
  } else {
    // Winitzki's approximation, then Halley steps on erf, which loses no
    // precision near zero.
    const double l = std::log1p(-a * a);
    const double b = 2 / (kPi * 0.147) + l / 2;
    y = std::sqrt(std::sqrt(b * b - l / 0.147) - b);
    for (int i = 0; i < 3; ++i) {
      const double u =
          (std::erf(y) - a) / (2 / std::sqrt(kPi) * std::exp(-y * y));
      y -= u / (1 + y * u);
    }
  }
  return std::copysign(y, x);
}

double Lgamma(double x) {
  int sign = 0;  // std::lgamma would write it to a global.
  return lgamma_r(x, &sign);
}

double Digamma(double x) {
  if (std::isnan(x) || x == -kInf) return kNan;
  if (x == kInf) return kInf;
  double result = 0;
  if (x <= 0) {
    const double pole = x - std::nearbyint(x);  // Exact, on either side.
    if (pole == 0) return kNan;
    result = -kPi / std::tan(kPi * pole);  // Reflection.
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  const double series =
      z * (1. / 12 -
           z * (1. / 120 -
                z * (1. / 252 -
                     z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 -
                                                          z * (1. / 12)))))));
  return result + std::log(x) - 0.5 / x - series;
}

}  // namespace sluice::simd
