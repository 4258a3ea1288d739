// Eigen, as the files of this folder read it: views of row-major matrices.
#ifndef SLUICE_KERNELS_LINALG_EIGEN_H_
#define SLUICE_KERNELS_LINALG_EIGEN_H_

#include <Eigen/Core>
#include <cstdint>

// No file of Eigen under another licence than MPL 2; no threads of its own
// beside our team's. (On the command line, so that any of its headers may come
// first.)
#if !defined(EIGEN_MPL2_ONLY) || !defined(EIGEN_DONT_PARALLELIZE)
#error "src/CMakeLists.txt sets how Eigen is read"
#endif

namespace sluice::linalg {

template <typename T>
using Matrix =
    Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
Eigen::Map<const Matrix<T>> View(const T* data, int64_t rows, int64_t columns) {
  return {data, rows, columns};
}
template <typename T>
Eigen::Map<Matrix<T>> View(T* data, int64_t rows, int64_t columns) {
  return {data, rows, columns};
}

}  // namespace sluice::linalg

#endif  // SLUICE_KERNELS_LINALG_EIGEN_H_
