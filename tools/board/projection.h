// The rows of a matrix as points of a plane.
#ifndef SLUICE_TOOLS_BOARD_PROJECTION_H_
#define SLUICE_TOOLS_BOARD_PROJECTION_H_

#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice::board {

struct Projection {
  std::vector<double> x, y;  // Of each row, along the two components.
  // The fractions of the rows' variance that the components have.
  double x_variance = 0, y_variance = 0;
  int64_t rows_left_out = 0;
};

// The projection on the first two principal components (Pearson 1901) of the
// first `most_rows` rows of a [rows, columns] matrix of float, double, half or
// bfloat16. The components are found by subspace iteration (Halko, Martinsson
// and Tropp 2011), and their signs are such that the largest coefficient of
// each is positive, so that the picture does not flip while training goes on.
// InvalidArgument for other types and ranks, and for values that are not
// finite, whose row it names.
Result<Projection> ProjectRows(const Tensor& matrix,
                               int64_t most_rows = 10'000);

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_PROJECTION_H_
