// Rows that are normalised by their own mean and variance. A row that is in the
// cache is read three times forwards, and twice backwards. Both functions split
// large work over IntraOpThreads(), their results do not depend on the number
// of threads, and they return false if the type is neither float nor double.
#ifndef SLUICE_KERNELS_SIMD_LAYER_NORM_H_
#define SLUICE_KERNELS_SIMD_LAYER_NORM_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace sluice::simd {

// A dense matrix, of which each row is normalised.
struct RowsShape {
  int64_t rows = 0, columns = 0;
};

// For each row x: mean[r], scale[r] = 1 / sqrt(variance + epsilon), and
// y = (x - mean) * scale * gamma + beta, where gamma and beta are one row each
// (Ba, Kiros and Hinton, 2016, equation 3). The variance is that of the row,
// divided by the number of columns. `y` may be `x`.
//
// The squares of deviations are of the elements' type: in a row of floats with
// a deviation above 1.8e19 they are infinite, `scale` is 0 and y is beta.
// Infinite and NaN elements, and rows whose sum is infinite in that type, give
// NaN.
bool LayerNorm(DType t, RowsShape shape, double epsilon, const void* x,
               const void* gamma, const void* beta, void* y, void* mean,
               void* scale);

// The gradients of x, gamma and beta from dy, that of y. With
// n = (x - mean) * scale and g = dy * gamma,
//   dx = scale * (g - mean(g) - n * mean(g * n)),
// dgamma and dbeta are the sums of dy * n and of dy over the rows. `dx` may be
// `dy` or `x`. Writes zeros to dgamma and dbeta if there are no rows. `room`
// has LayerNormGradRoom(shape) elements, which need no values, and overlaps
// nothing else.
bool LayerNormGrad(DType t, RowsShape shape, const void* dy, const void* x,
                   const void* gamma, const void* mean, const void* scale,
                   void* dx, void* dgamma, void* dbeta, void* room);

// At most half as many as the matrix has, or two rows.
int64_t LayerNormGradRoom(RowsShape shape);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_LAYER_NORM_H_
