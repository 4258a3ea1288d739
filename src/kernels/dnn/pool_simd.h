// Pooling of NHWC images of floats, doubles and (max pooling only) bytes,
// vectorised over channels.
#ifndef SLUICE_KERNELS_DNN_POOL_SIMD_H_
#define SLUICE_KERNELS_DNN_POOL_SIMD_H_

#include "kernels/dnn/pool.h"

namespace sluice::dnn {

// The work of one thread: channels [first, last) of image n.
struct PoolPart {
  int64_t n, first, last;
};

// T: float, double, uint8, int8.
template <typename T>
void MaxPoolPart(const PoolGeometry& s, const PoolPart& part, const T* in,
                 T* out);
// T: float, double. The gradients set every element of their part of d_in.
template <typename T>
void MaxPoolGradPart(const PoolGeometry& s, const PoolPart& part, const T* in,
                     const T* d_out, T* d_in);
template <typename T>
void AvgPoolPart(const PoolGeometry& s, const PoolPart& part, const T* in,
                 T* out);
template <typename T>
void AvgPoolGradPart(const PoolGeometry& s, const PoolPart& part,
                     const T* d_out, T* d_in);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_POOL_SIMD_H_
