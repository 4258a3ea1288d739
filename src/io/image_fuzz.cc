// For any input bytes, decoding as an image returns a tensor with the requested
// channels, within the limit, or an error; and so does each format's decoder
// with each of its options.
//
// The first byte chooses channels and options. Seeds are in
// tests/fuzz/image_fuzz.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/image.h"
#include "io/image_bmp.h"
#include "io/image_gif.h"
#include "io/image_jpeg.h"
#include "io/image_png.h"

namespace {

constexpr int64_t kMostPixels = 1 << 18;

void Check(const sluice::Result<sluice::Tensor>& image, sluice::DType type,
           int rank, int channels) {
  if (!image.ok()) return;
  const int64_t depth = image->rank() == rank ? image->dim(rank - 1) : 0;
  if (image->dtype() != type || depth < 1 || depth > 4 ||
      image->num_elements() / depth > kMostPixels ||
      (channels != 0 && depth != channels))
    std::abort();
  // Reads every byte, so that MemorySanitizer and bounds checks see it.
  uint8_t all = 0;
  const auto* bytes = static_cast<const uint8_t*>(image->raw());
  for (size_t i = 0; i < image->bytes(); ++i) all |= bytes[i];
  volatile uint8_t seen = all;
  (void)seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  const int channels = data[0] % 5, more = data[0] / 5;
  using sluice::DType;
  Check(sluice::DecodeImage(bytes,
                            {.channels = channels, .max_pixels = kMostPixels}),
        DType::kUint8, 3, channels);
  const std::string_view format = sluice::ImageFormat(bytes);
  if (format == "PNG") {
    const bool deep = more % 2 != 0;
    Check(sluice::DecodePng(
              bytes,
              {.channels = channels, .deep = deep, .max_pixels = kMostPixels}),
          deep ? DType::kUint16 : DType::kUint8, 3, channels);
  } else if (format == "JPEG") {
    sluice::JpegOptions options;
    options.channels = channels % 2 == 0 ? 0 : channels;
    options.ratio = 1 << more % 4;
    options.fancy_upscaling = more / 4 % 2 == 0;
    options.fast_dct = more / 4 % 2 != 0;
    options.recover_truncated = more / 8 % 2 != 0;
    options.acceptable_fraction = more / 16 % 2 == 0 ? 1.0f : 0.1f;
    if (more / 32 % 2 != 0) options.window = sluice::JpegWindow{1, 2, 3, 5};
    options.max_pixels = kMostPixels;
    Check(sluice::DecodeJpeg(bytes, options), DType::kUint8, 3,
          options.channels);
    (void)sluice::ReadJpegHeader(bytes).ok();
  } else if (format == "GIF") {
    Check(sluice::DecodeGif(bytes, {.first_frame_only = more % 2 != 0,
                                    .max_pixels = kMostPixels}),
          DType::kUint8, 4, 3);
  } else if (format == "BMP" && channels != 1 && channels != 2) {
    Check(sluice::DecodeBmp(bytes, channels, kMostPixels), DType::kUint8, 3,
          channels);
  }
  return 0;
}
