#include "kernels/simd/special.h"

#include <math.h>

#include <cmath>
#include <limits>

namespace sluice::simd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

}  // namespace

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
