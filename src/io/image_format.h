// Shared by the decoders of images.
#ifndef SLUICE_IO_IMAGE_FORMAT_H_
#define SLUICE_IO_IMAGE_FORMAT_H_

#include <cstdint>

#include "base/status.h"

namespace sluice {

inline Status CheckImageSize(const char* format, int64_t width, int64_t height,
                             int64_t max_pixels) {
  if (width < 1 || height < 1)
    return InvalidArgument(format, ": expected at least one pixel, got ", width,
                           " x ", height);
  if (width > max_pixels / height)
    return ResourceExhausted(format, ": expected at most ", max_pixels,
                             " pixels, got ", width, " x ", height);
  return OkStatus();
}

inline Status MalformedImage(const char* format, const char* message) {
  return InvalidArgument(format, ": expected a complete, well-formed image, ",
                         "got one with an error: ", message);
}

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_FORMAT_H_
