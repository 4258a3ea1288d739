// JPEG files.
#ifndef SLUICE_IO_IMAGE_JPEG_H_
#define SLUICE_IO_IMAGE_JPEG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/image.h"

namespace sluice {

// Part of an image, in pixels of the result.
struct JpegWindow {
  int64_t y = 0, x = 0, height = 0, width = 0;
};

struct JpegOptions {
  int channels = 0;  // 1: grey, 3: RGB; 0: as the file has.
  int ratio = 1;     // 1, 2, 4 or 8: how much smaller the result is.
  bool fancy_upscaling = true;
  bool fast_dct = false;  // Faster, and less exact.
  // A file that ends early: its end is made up, or (if it is not progressive)
  // the rows after the end are black. Fewer rows than this part of all are an
  // error.
  bool recover_truncated = false;
  float acceptable_fraction = 1;
  // Whether the mark of the file's end must be there.
  bool needs_end = false;
  std::optional<JpegWindow> window;
  int64_t max_pixels = kMaxImagePixels;
};

// uint8 [height, width, channels]. Colours of ink (CMYK) become RGB.
// InvalidArgument for malformed or truncated bytes and a window outside the
// image, ResourceExhausted for more than `max_pixels` pixels.
Result<Tensor> DecodeJpeg(std::string_view bytes, const JpegOptions& options);

struct JpegHeader {
  int64_t height, width, channels;
};
// Reads no pixels.
Result<JpegHeader> ReadJpegHeader(std::string_view bytes);

struct JpegEncodeOptions {
  int quality = 95;  // 0 to 100.
  bool progressive = false;
  bool optimize_size = false;
  bool chroma_downsampling = true;
  bool density_per_cm = false;  // Else per inch.
  int x_density = 300, y_density = 300;
  std::string xmp_metadata;
};

// Encodes uint8 pixels [height, width, channels] with 1 or 3 channels.
Result<std::string> EncodeJpeg(const Tensor& image,
                               const JpegEncodeOptions& options);

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_JPEG_H_
