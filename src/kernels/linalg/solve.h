// The operations on square systems, as compiled for one instruction set.
#ifndef SLUICE_KERNELS_LINALG_SOLVE_H_
#define SLUICE_KERNELS_LINALG_SOLVE_H_

#include <cstdint>

#include "kernels/linalg/linalg.h"

namespace sluice::linalg {

template <typename T>
struct SquareSystems {
  bool (*invert)(const T* a, int64_t n, bool adjoint, T* out);
  bool (*solve)(const T* a, const T* b, int64_t n, int64_t k, bool adjoint,
                T* out);
  bool (*lu)(const T* a, int64_t n, T* lu, int64_t* p);
  void (*log_determinant)(const T* a, int64_t n, T* sign, RealOf<T>* log_abs);
  void (*multiply)(const T* a, const T* b, int64_t m, int64_t k, int64_t n,
                   T* out);
  bool (*cholesky)(const T* a, int64_t n, T* out);
  void (*triangular)(const T* a, const T* b, int64_t n, int64_t k, bool lower,
                     bool adjoint, T* out);
};

// For processors with AVX2 and FMA; null functions if this build has none, as
// with other compilers than g++ and for other processors.
template <typename T>
SquareSystems<T> SquareSystemsForAvx2();

}  // namespace sluice::linalg

#endif  // SLUICE_KERNELS_LINALG_SOLVE_H_
