// Our own matrix product: for element types that oneDNN does not support, and
// for matrices so small or thin that a call to oneDNN costs more than the
// product.
#ifndef SLUICE_KERNELS_DNN_GEMM_SIMD_H_
#define SLUICE_KERNELS_DNN_GEMM_SIMD_H_

#include <cstdint>

namespace sluice::dnn {

// Element (i, j) is data[i * row + j * col].
template <typename T>
struct MatrixView {
  const T* data;
  int64_t row;
  int64_t col;
  T at(int64_t i, int64_t j) const { return data[i * row + j * col]; }
};

// c[m, n] (rows ldc apart) = a[m, k] * b[k, n], or += with accumulate, on this
// thread. T: float, double, uint32, uint64 (which serve the signed types too,
// since integers wrap). REQUIRES: m, n, k > 0.
template <typename T>
void GemmBlocked(int64_t m, int64_t n, int64_t k, MatrixView<T> a,
                 MatrixView<T> b, T* c, int64_t ldc, bool accumulate);

// The same without packing. REQUIRES: k * n <= kTinyFactor.
inline constexpr int64_t kTinyFactor = 1024;
template <typename T>
void GemmTiny(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b,
              T* c, int64_t ldc, bool accumulate);

// The same without copying: b is read once for each row of c, and c once for
// every four rows of b (ldb apart). For small m or k.
template <typename T>
void GemmThin(int64_t m, int64_t n, int64_t k, MatrixView<T> a, const T* b,
              int64_t ldb, T* c, int64_t ldc, bool accumulate);

// c[n] = a[k] times the transpose of b[n, k], or +=.
template <typename T>
void GemmDots(int64_t n, int64_t k, const T* a, const T* b, T* c,
              bool accumulate);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_GEMM_SIMD_H_
