// GIF files.
#ifndef SLUICE_IO_IMAGE_GIF_H_
#define SLUICE_IO_IMAGE_GIF_H_

#include <cstdint>
#include <string_view>

#include "io/image.h"

namespace sluice {

struct GifOptions {
  bool first_frame_only = false;
  int64_t max_pixels = kMaxImagePixels;  // Of all frames together.
};

// uint8 RGB [frames, height, width, 3]. Each frame is drawn on the one before,
// the first one on black. InvalidArgument for malformed or truncated bytes,
// ResourceExhausted for more than `max_pixels` pixels.
Result<Tensor> DecodeGif(std::string_view bytes, const GifOptions& options);

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_GIF_H_
