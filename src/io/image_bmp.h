// BMP files.
#ifndef SLUICE_IO_IMAGE_BMP_H_
#define SLUICE_IO_IMAGE_BMP_H_

#include <cstdint>
#include <string_view>

#include "io/image.h"

namespace sluice {

// uint8 [height, width, channels] of an uncompressed file with 8, 24 or 32 bits
// per pixel; 8 bits are grey (palettes are not looked up). `channels`: 3 or 4,
// or 0 for those of the file. InvalidArgument for malformed or truncated bytes,
// ResourceExhausted for more than `max_pixels` pixels.
Result<Tensor> DecodeBmp(std::string_view bytes, int channels,
                         int64_t max_pixels = kMaxImagePixels);

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_BMP_H_
