// Includes Eigen as the files of this folder use it: views of row-major
// matrices.
#ifndef SLUICE_KERNELS_LINALG_EIGEN_H_
#define SLUICE_KERNELS_LINALG_EIGEN_H_

#include <Eigen/Core>
#include <cstdint>

// Only files of Eigen under the MPL 2 licence, and no threads of Eigen's own
// besides our thread team. (These are set on the command line, so that Eigen's
// headers may be included in any order.)
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
