// Colour spaces.
#ifndef SLUICE_KERNELS_IMAGE_COLOUR_H_
#define SLUICE_KERNELS_IMAGE_COLOUR_H_

#include <cstdint>

namespace sluice::image {

// n pixels of hue, saturation and value to red, green and blue, on the calling
// thread. In place is allowed.
void HsvToRgb(const float* in, int64_t n, float* out);

}  // namespace sluice::image

#endif  // SLUICE_KERNELS_IMAGE_COLOUR_H_
