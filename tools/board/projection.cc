#include "tools/board/projection.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <random>

namespace sluice::board {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
void CopyRows(const Tensor& from, Matrix* to) {
  const auto values = from.flat<T>();
  for (Eigen::Index i = 0; i < to->size(); ++i)
    to->data()[i] = static_cast<double>(values[i]);
}

constexpr int kSpare = 6;         // Directions beside the two, for convergence.
constexpr int kIterations = 200;  // At most.

}  // namespace

Result<Projection> ProjectRows(const Tensor& matrix, int64_t most_rows) {
  if (matrix.shape().rank() != 2)
    return InvalidArgument("projection: expected a matrix, got ",
                           DTypeName(matrix.dtype()),
                           matrix.shape().ToString());
  const int64_t all = matrix.shape().dim(0), columns = matrix.shape().dim(1);
  const int64_t rows = std::min(all, most_rows);
  Projection p;
  p.rows_left_out = all - rows;
  p.x.assign(static_cast<size_t>(rows), 0);
  p.y.assign(static_cast<size_t>(rows), 0);
  if (rows == 0 || columns == 0) return p;
  Matrix m(rows, columns);
  switch (matrix.dtype()) {
    case DType::kFloat:
      CopyRows<float>(matrix, &m);
      break;
    case DType::kDouble:
      CopyRows<double>(matrix, &m);
      break;
    case DType::kHalf:
      CopyRows<half>(matrix, &m);
      break;
    case DType::kBfloat16:
      CopyRows<bfloat16>(matrix, &m);
      break;
    default:
      return InvalidArgument(
          "projection: expected float, double, half or bfloat16, got ",
          DTypeName(matrix.dtype()));
  }
  for (Eigen::Index i = 0; i < rows; ++i)
    if (!m.row(i).allFinite())
      return InvalidArgument(
          "projection: expected finite values, got others "
          "in row ",
          i);
  // (Scaled, so that squares of large values do not overflow.)
  if (const double largest = m.cwiseAbs().maxCoeff(); largest > 0) {
    m /= largest;
    m.rowwise() -= m.colwise().mean().eval();
    const double total = m.squaredNorm();
    if (total > 0) {
      const Eigen::Index k = std::min<Eigen::Index>(
          2 + kSpare, std::min<Eigen::Index>(rows, columns));
      std::mt19937 random(1);
      std::normal_distribution<double> normal;
      Matrix basis =
          Matrix::NullaryExpr(columns, k, [&] { return normal(random); });
      Eigen::VectorXd before = Eigen::VectorXd::Zero(k);
      Matrix directions;
      for (int i = 0; i < kIterations; ++i) {
        const Eigen::HouseholderQR<Matrix> qr(basis);
        basis = qr.householderQ() * Matrix::Identity(columns, k);
        const Matrix projected = m * basis;
        const Eigen::SelfAdjointEigenSolver<Matrix> inner(
            Matrix(projected.transpose() * projected));
        directions = basis * inner.eigenvectors().rowwise().reverse();
        const Eigen::VectorXd now = inner.eigenvalues().reverse();
        if ((now - before).head(std::min<Eigen::Index>(2, k)).norm() <=
            1e-12 * total)
          break;
        before = now;
        basis = m.transpose() * projected;
      }
      for (Eigen::Index c = 0; c < std::min<Eigen::Index>(2, k); ++c) {
        Eigen::VectorXd direction = directions.col(c);
        Eigen::Index at = 0;
        direction.cwiseAbs().maxCoeff(&at);
        if (direction[at] < 0) direction = -direction;
        const Eigen::VectorXd along = m * direction;
        std::vector<double>& to = c == 0 ? p.x : p.y;
        for (Eigen::Index i = 0; i < rows; ++i)
          to[static_cast<size_t>(i)] = along[i] * largest;
        (c == 0 ? p.x_variance : p.y_variance) = along.squaredNorm() / total;
      }
    }
  }
  return p;
}

}  // namespace sluice::board
