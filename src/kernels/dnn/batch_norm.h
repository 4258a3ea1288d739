// Batch normalisation of rows of channels (NHWC images), in as few passes over
// memory as possible. Each call uses up to IntraOpThreads() threads; the
// results do not depend on the thread count.
#ifndef SLUICE_KERNELS_DNN_BATCH_NORM_H_
#define SLUICE_KERNELS_DNN_BATCH_NORM_H_

#include <cstdint>

namespace sluice::dnn {

// A matrix, row-major.
struct NormShape {
  int64_t rows = 0, channels = 0;
};

// The mean of each channel, and the mean of the squared deviations from it. One
// pass. REQUIRES: rows >= 1.
void ChannelMoments(const NormShape& s, const float* x, float* mean,
                    float* variance);

// y = (x - mean) * slope + offset. May be in place.
void Normalize(const NormShape& s, const float* x, const float* mean,
               const float* slope, const float* offset, float* y);

// The sums of dy and of dy * (x - mean) over each channel. One pass.
void NormalizeGradSums(const NormShape& s, const float* dy, const float* x,
                       const float* mean, float* sum, float* product_sum);

// dx = slope * (dy - level - (x - mean) * along). May be in place.
void NormalizeGrad(const NormShape& s, const float* dy, const float* x,
                   const float* mean, const float* slope, const float* level,
                   const float* along, float* dx);

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_BATCH_NORM_H_
