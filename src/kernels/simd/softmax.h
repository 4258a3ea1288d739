// Softmax over the rows of a matrix, and losses based on it. Half and bfloat16
// are computed in float. All functions split large work over IntraOpThreads()
// and return false if the type is not one of the four float types.
#ifndef SLUICE_KERNELS_SIMD_SOFTMAX_H_
#define SLUICE_KERNELS_SIMD_SOFTMAX_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace sluice::simd {

// out = exp(x - max) / sum, row by row. `out` may be `in`.
bool Softmax(DType t, int64_t rows, int64_t columns, const void* in, void* out);

// out = x - max - log(sum(exp(x - max))). `out` may be `in`.
bool LogSoftmax(DType t, int64_t rows, int64_t columns, const void* in,
                void* out);

// loss[r] = -sum(labels * log_softmax(logits)) over row r, and its gradient
// backprop = softmax(logits) - labels. A stride (elements between rows) of 0
// uses one row for all. `backprop` may be either matrix unless that one is
// repeated.
bool SoftmaxCrossEntropy(DType t, int64_t rows, int64_t columns,
                         const void* logits, int64_t logits_stride,
                         const void* labels, int64_t labels_stride, void* loss,
                         void* backprop);

// The same with one int32 or int64 class per row. *bad_row is -1, or a row
// whose label is outside [0, columns); its loss and gradient are NaN.
// `backprop` may be `logits`. Also false for other label types.
bool SparseSoftmaxCrossEntropy(DType t, DType label_type, int64_t rows,
                               int64_t columns, const void* logits,
                               const void* labels, void* loss, void* backprop,
                               int64_t* bad_row);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_SOFTMAX_H_
