// The loops over rows of numbers in which factorisations spend their time,
// compiled for several instruction sets. T is float, double, complex64 or
// complex128.
#ifndef SLUICE_KERNELS_LINALG_ROWS_H_
#define SLUICE_KERNELS_LINALG_ROWS_H_

#include <cstdint>
#include <vector>

#include "kernels/linalg/linalg.h"

namespace sluice::linalg {

// a[rows, columns] (rows `pitch` apart) times I - tau u u^H from the left,
// u = (1, v[1], ...), whose elements are `stride` apart. `work`: columns
// elements.
template <typename T>
void ApplyReflection(const T* v, int64_t stride, T tau, int64_t rows,
                     int64_t columns, int64_t pitch, T* a, T* work);

// The same from the right; u = (1, v[1], ...) with `columns` elements.
template <typename T>
void ApplyReflectionRight(const T* v, T tau, int64_t rows, int64_t columns,
                          int64_t pitch, T* a);

// to += c x for n elements. Returns the sum of conj(x[i]) y[i].
template <typename T>
T AddRowAndDot(const T* x, T c, const T* y, int64_t n, T* to);

// to -= c x + d y for n elements.
template <typename T>
void SubtractRows(const T* x, T c, const T* y, T d, int64_t n, T* to);

// (x, y) becomes (c x + s y, c y - s x).
template <typename Real>
struct PlaneRotation {
  Real c, s;
};

// Rotates rows 0 and 1 of a by by[0], then rows 1 and 2 by by[1], and so on.
// Rows have `columns` elements and are contiguous.
template <typename Real>
void RotateRows(const PlaneRotation<Real>* by, int64_t count, int64_t columns,
                Real* a);

// The same for rows of any type, from row `first` on.
template <typename T>
void TurnRows(const std::vector<PlaneRotation<RealOf<T>>>& by, int64_t first,
              int64_t columns, T* a) {
  // (A complex number is treated as two real ones.)
  constexpr int64_t kNumbers = sizeof(T) / sizeof(RealOf<T>);
  RotateRows(by.data(), static_cast<int64_t>(by.size()), columns * kNumbers,
             reinterpret_cast<RealOf<T>*>(a + first * columns));
}

}  // namespace sluice::linalg

#endif  // SLUICE_KERNELS_LINALG_ROWS_H_
