// Resampling of images [batch, height, width, channels]. Work is split over
// IntraOpThreads().
#ifndef SLUICE_KERNELS_IMAGE_RESAMPLE_H_
#define SLUICE_KERNELS_IMAGE_RESAMPLE_H_

#include <cstdint>
#include <vector>

#include "kernels/image/taps.h"
#include "tensor/dtype.h"

namespace sluice::image {

struct ImageSize {
  int64_t batch, height, width, channels;
};

// out[b, y, x, c] = sum over the taps of y and x. `out` has rows.outputs() rows
// of columns.outputs() pixels. `in` has elements of a real type; sums are in
// float. False for other types.
bool Resample(DType t, const void* in, const ImageSize& size, const Taps& rows,
              const Taps& columns, float* out);

// The same for two linear interpolations, in TensorFlow's order of operations:
// equal pixels give exactly their value.
bool ResampleBilinear(DType t, const void* in, const ImageSize& size,
                      const std::vector<Between>& rows,
                      const std::vector<Between>& columns, float* out);

}  // namespace sluice::image

#endif  // SLUICE_KERNELS_IMAGE_RESAMPLE_H_
