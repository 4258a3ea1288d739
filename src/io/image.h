// Image files as tensors: any format here, one format each in image_png.h,
// image_jpeg.h, image_gif.h and image_bmp.h. Files are untrusted: a size above
// the limit is rejected before anything is allocated for it.
#ifndef SLUICE_IO_IMAGE_H_
#define SLUICE_IO_IMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// The limit for one file, and for all frames of one.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 27;

struct ImageOptions {
  // 1: grey, 2: grey and alpha, 3: RGB, 4: RGBA; 0: the channels of the file.
  // Grey is 0.299 R + 0.587 G + 0.114 B. Alpha is dropped without blending, and
  // is 255 if the file has none.
  int channels = 0;
  int64_t max_pixels = kMaxImagePixels;
};

// The format according to the first bytes: "PNG", "JPEG", "GIF", "BMP", "WebP"
// or "TIFF"; "" if it is none of these.
std::string_view ImageFormat(std::string_view bytes);

// Decodes to uint8 [height, width, channels]. 16-bit samples are reduced to 8
// bits, palettes of PNG files are looked up, CMYK is converted to RGB; of a GIF
// the first frame is returned; gamma, colour profiles and the EXIF orientation
// are ignored. InvalidArgument for malformed or truncated bytes,
// ResourceExhausted for more than `max_pixels` pixels, Unimplemented for WebP
// and TIFF.
Result<Tensor> DecodeImage(std::string_view bytes,
                           const ImageOptions& options = {});

// Reads and decodes a file; errors name the file.
Result<Tensor> ReadImage(const std::string& path,
                         const ImageOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_H_
