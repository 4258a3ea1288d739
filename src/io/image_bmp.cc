#include "io/image_bmp.h"

#include "io/image_format.h"

namespace sluice {
namespace {

// The little-endian number at `at`.
template <typename T>
T NumberAt(std::string_view bytes, size_t at) {
  uint32_t v = 0;
  for (size_t i = sizeof(T); i-- > 0;)
    v = v << 8 | static_cast<uint8_t>(bytes[at + i]);
  return static_cast<T>(v);
}

void CopyBmpPixel(const uint8_t* from, int have, uint8_t* to, int channels) {
  if (have == 1) {
    for (int c = 0; c < channels && c < 3; ++c) to[c] = from[0];
  } else {
    for (int c = 0; c < 3; ++c) to[c] = from[2 - c];  // (The file has BGR.)
  }
  if (channels == 4) to[3] = have == 4 ? from[3] : 255;
}

}  // namespace

Result<Tensor> DecodeBmp(std::string_view bytes, int channels,
                         int64_t max_pixels) {
  constexpr size_t kHeader = 32;
  if (bytes.size() < kHeader || !bytes.starts_with("BM"))
    return MalformedImage("BMP", "the header is incomplete");
  const int64_t start = NumberAt<int32_t>(bytes, 10);
  const int64_t width = NumberAt<int32_t>(bytes, 18);
  const int64_t signed_height = NumberAt<int32_t>(bytes, 22);
  const int64_t bits = NumberAt<int16_t>(bytes, 28);
  const int64_t height = signed_height < 0 ? -signed_height : signed_height;
  SLUICE_RETURN_IF_ERROR(CheckImageSize("BMP", width, height, max_pixels));
  const int64_t have = bits / 8;
  if (have != 1 && have != 3 && have != 4)
    return InvalidArgument("BMP: expected 8, 24 or 32 bits per pixel, got ",
                           bits);
  if (channels == 0) channels = static_cast<int>(have);
  if (channels != have && channels != 3 && channels != 4)
    return InvalidArgument("BMP: expected 3 or 4 channels, got ", channels);
  // Rows are padded to words.
  const int64_t row = (width * have + 3) / 4 * 4;
  if (start < 0 || start + row * height != static_cast<int64_t>(bytes.size()))
    return InvalidArgument("BMP: expected a file of ", start + row * height,
                           " bytes (a header of ", start, " and ", height,
                           " rows of ", row, "), got ", bytes.size());
  SLUICE_ASSIGN_OR_RETURN(
      Tensor image,
      Tensor::Make(DType::kUint8,
                   Shape({height, width, static_cast<int64_t>(channels)})));
  const auto* const pixels =
      reinterpret_cast<const uint8_t*>(bytes.data()) + start;
  uint8_t* to = image.raw<uint8_t>();
  for (int64_t y = 0; y < height; ++y) {
    // Rows are stored from the bottom up unless the height is negative.
    const uint8_t* from =
        pixels + (signed_height < 0 ? y : height - 1 - y) * row;
    for (int64_t x = 0; x < width; ++x, from += have, to += channels)
      CopyBmpPixel(from, static_cast<int>(have), to, channels);
  }
  return image;
}

}  // namespace sluice
