// The exponential of a matrix: scaling to a small norm, a Pade approximant
// whose order depends on the norm (Higham 2005), and repeated squaring.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "kernels/linalg/linalg.h"

namespace sluice::linalg {
namespace {

// An order of the approximant, and the largest 1-norm for which it is accurate
// in double.
struct Order {
  int degree;
  double norm;
};
constexpr Order kOrders[] = {{3, 1.495585217958292e-2},
                             {5, 2.539398330063230e-1},
                             {7, 9.504178996162932e-1},
                             {9, 2.097847961257068},
                             {13, 5.371920351148152}};

}  // namespace

template <typename T>
bool Exponential(const T* a, int64_t n, T* out) {
  if (n == 0) return true;
  const auto size = static_cast<size_t>(n * n);
  using Matrix = std::vector<T>;
  Matrix x(a, a + size);
  double norm = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += static_cast<double>(std::abs(a[i * n + j]));
    if (!std::isfinite(sum)) return false;
    norm = std::max(norm, sum);
  }
  const Order* order =
      std::find_if(std::begin(kOrders), std::end(kOrders) - 1,
                   [&](const Order& o) { return norm <= o.norm; });
  int squarings = 0;
  if (norm > order->norm) {
    std::frexp(norm / order->norm, &squarings);
    const T by(static_cast<RealOf<T>>(std::ldexp(1.0, -squarings)));
    for (T& v : x) v *= by;
  }
  const auto multiply = [&](const Matrix& l, const Matrix& r) {
    Matrix product(size);
    Multiply(l.data(), r.data(), n, n, n, product.data());
    return product;
  };
  const auto add = [&](const Matrix& m, double c, Matrix* to) {
    const T by(static_cast<RealOf<T>>(c));
    for (size_t i = 0; i < size; ++i) (*to)[i] += by * m[i];
  };
  // r(x) = q(-x)^-1 q(x); q's terms of even degree make `even`, odd ones `odd`.
  const int d = order->degree;
  const Matrix square = multiply(x, x);
  Matrix power(size), even, odd(size);
  for (int64_t i = 0; i < n; ++i) power[static_cast<size_t>(i * n + i)] = T(1);
  even = power;
  add(power, 0.5, &odd);
  double c = 0.5;  // Of x^1; the ratio of successive ones is
                   // (d-i)/((2d-i)(i+1)).
  for (int i = 1; i < d; i += 2) {
    power = multiply(power, square);
    c *= static_cast<double>(d - i) / ((2 * d - i) * (i + 1));
    add(power, c, &even);
    c *= static_cast<double>(d - i - 1) / ((2 * d - i - 1) * (i + 2));
    add(power, c, &odd);
  }
  odd = multiply(x, odd);
  Matrix sum = even;
  add(odd, 1, &sum);
  add(odd, -1, &even);
  if (!Solve(even.data(), sum.data(), n, n, false, x.data())) return false;
  for (; squarings > 0; --squarings) x = multiply(x, x);
  std::copy(x.begin(), x.end(), out);
  return true;
}

#define SLUICE_INSTANTIATE(T) template bool Exponential(const T*, int64_t, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
