// Square systems, for the processor's instruction set.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/linalg/solve-inl.h"

namespace sluice::linalg {
namespace {

template <typename T>
const SquareSystems<T>& Systems() {
  static const SquareSystems<T> best = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      const SquareSystems<T> wide = SquareSystemsForAvx2<T>();
      if (wide.solve != nullptr) return wide;
    }
#endif
    return SquareSystemsHere<T>();
  }();
  return best;
}

}  // namespace

template <typename T>
bool Solve(const T* a, const T* b, int64_t n, int64_t k, bool adjoint, T* out) {
  return Systems<T>().solve(a, b, n, k, adjoint, out);
}

template <typename T>
bool Invert(const T* a, int64_t n, bool adjoint, T* out) {
  return Systems<T>().invert(a, n, adjoint, out);
}

template <typename T>
bool Lu(const T* a, int64_t n, T* lu, int64_t* p) {
  return Systems<T>().lu(a, n, lu, p);
}

template <typename T>
void LogDeterminant(const T* a, int64_t n, T* sign, RealOf<T>* log_abs) {
  Systems<T>().log_determinant(a, n, sign, log_abs);
}

template <typename T>
void SolveTriangular(const T* a, const T* b, int64_t n, int64_t k, bool lower,
                     bool adjoint, T* out) {
  Systems<T>().triangular(a, b, n, k, lower, adjoint, out);
}

template <typename T>
bool Cholesky(const T* a, int64_t n, T* out) {
  return Systems<T>().cholesky(a, n, out);
}

template <typename T>
void Multiply(const T* a, const T* b, int64_t m, int64_t k, int64_t n, T* out) {
  Systems<T>().multiply(a, b, m, k, n, out);
}

#define SLUICE_INSTANTIATE(T)                                                \
  template bool Invert(const T*, int64_t, bool, T*);                         \
  template bool Solve(const T*, const T*, int64_t, int64_t, bool, T*);       \
  template bool Lu(const T*, int64_t, T*, int64_t*);                         \
  template void LogDeterminant(const T*, int64_t, T*, RealOf<T>*);           \
  template void Multiply(const T*, const T*, int64_t, int64_t, int64_t, T*); \
  template bool Cholesky(const T*, int64_t, T*);                             \
  template void SolveTriangular(const T*, const T*, int64_t, int64_t, bool,  \
                                bool, T*);
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
