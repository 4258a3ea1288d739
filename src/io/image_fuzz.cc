// For any input bytes, decoding as an image returns a tensor with the requested
// channels, within the limit, or an error.
//
// The first byte chooses the channels. Seeds are in tests/fuzz/image_fuzz.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  sluice::ImageOptions options;
  options.channels = data[0] % 5;
  options.max_pixels = 1 << 18;
  const auto image = sluice::DecodeImage(
      {reinterpret_cast<const char*>(data) + 1, size - 1}, options);
  if (!image.ok()) return 0;
  if (image->dtype() != sluice::DType::kUint8 || image->rank() != 3 ||
      image->dim(0) * image->dim(1) > options.max_pixels ||
      (options.channels != 0 && image->dim(2) != options.channels))
    std::abort();
  // Reads every byte, so that MemorySanitizer and bounds checks see it.
  uint8_t all = 0;
  for (const uint8_t b : image->flat<uint8_t>()) all |= b;
  volatile uint8_t seen = all;
  (void)seen;
  return 0;
}
