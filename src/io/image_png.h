// PNG files.
#ifndef SLUICE_IO_IMAGE_PNG_H_
#define SLUICE_IO_IMAGE_PNG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "io/image.h"

namespace sluice {

struct PngOptions {
  // 1: grey, 2: grey and alpha, 3: RGB, 4: RGBA; 0: the channels of the file.
  int channels = 0;
  // uint16 samples instead of uint8: those of 8 bits are multiplied by 257.
  bool deep = false;
  // With `channels` 0, a colour that the file calls transparent makes an alpha
  // channel. (A palette with alpha always does.)
  bool key_is_alpha = false;
  int64_t max_pixels = kMaxImagePixels;
};

// [height, width, channels]. Samples of 16 bits are reduced to their high byte.
// InvalidArgument for malformed or truncated bytes, ResourceExhausted for more
// than `max_pixels` pixels.
Result<Tensor> DecodePng(std::string_view bytes, const PngOptions& options);

// Encodes pixels [height, width, channels] of uint8 or uint16, channels 1 to 4
// as above. `compression`: zlib's level, 0 to 9, or -1 for its default.
Result<std::string> EncodePng(const Tensor& image, int compression);

}  // namespace sluice

#endif  // SLUICE_IO_IMAGE_PNG_H_
