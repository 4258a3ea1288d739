// PNG and JPEG files as tensors. Files are untrusted: a size above the limit is
// rejected before anything is allocated for it.
#ifndef SLUICE_IO_IMAGE_H_
#define SLUICE_IO_IMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

struct ImageOptions {
  // 1: grey, 2: grey and alpha, 3: RGB, 4: RGBA; 0: the channels of the file.
  // Grey is 0.299 R + 0.587 G + 0.114 B. Alpha is dropped without blending, and
  // is 255 if the file has none.
  int channels = 0;
  int64_t max_pixels = int64_t{1} << 27;
};

// The format according to the first bytes: "PNG", "JPEG", "GIF", "BMP", "WebP"
// or "TIFF"; "" if it is none of these.
std::string_view ImageFormat(std::string_view bytes);

// Decodes to uint8 [height, width, channels]. 16-bit samples are scaled to 8
// bits, palettes are looked up, CMYK is converted to RGB; gamma, colour
// profiles and the EXIF orientation are ignored. InvalidArgument for malformed
// or truncated bytes, ResourceExhausted for more than `max_pixels` pixels,
// Unimplemented for formats other than PNG and JPEG.
Result<Tensor> DecodeImage(std::string_view bytes,
                           const ImageOptions& options = {});

// Reads and decodes a file; errors name the file.
Result<Tensor> ReadImage(const std::string& path,
                         const ImageOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_H_
