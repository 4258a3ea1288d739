// PNG and JPEG files as tensors. Files are untrusted: a size above the limit is
// refused before anything is allocated for it.
#ifndef SLUICE_IO_IMAGE_H_
#define SLUICE_IO_IMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

struct ImageOptions {
  // 1: grey, 2: grey and alpha, 3: RGB, 4: RGBA; 0: as many as the file has.
  // Grey is 0.299 R + 0.587 G + 0.114 B. Alpha is dropped without blending and
  // is 255 where the file has none.
  int channels = 0;
  int64_t max_pixels = int64_t{1} << 27;
};

// The format that the first bytes announce: "PNG", "JPEG", "GIF", "BMP",
// "WebP" or "TIFF"; "" if it is none of these.
std::string_view ImageFormat(std::string_view bytes);

// uint8 [height, width, channels]. Samples of 16 bits are scaled to 8, palettes
// are looked up, CMYK becomes RGB; gamma, colour profiles and the orientation
// in EXIF data are ignored. InvalidArgument for bytes that are malformed or
// truncated, ResourceExhausted for more pixels than `max_pixels`, Unimplemented
// for formats other than PNG and JPEG.
Result<Tensor> DecodeImage(std::string_view bytes,
                           const ImageOptions& options = {});

// Reads a file; errors name it.
Result<Tensor> ReadImage(const std::string& path,
                         const ImageOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_H_
