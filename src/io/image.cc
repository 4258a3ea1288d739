#include "io/image.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "io/file.h"
#include "io/image_bmp.h"
#include "io/image_gif.h"
#include "io/image_jpeg.h"
#include "io/image_png.h"

namespace sluice {
namespace {

uint8_t Grey(const uint8_t* rgb) {
  return static_cast<uint8_t>(
      (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

// Converts pixels with `from` channels to pixels with `to` channels.
void ConvertChannels(const uint8_t* in, int from, uint8_t* out, int to,
                     int64_t pixels) {
  const bool colour_in = from >= 3, colour_out = to >= 3;
  const bool alpha_in = from % 2 == 0, alpha_out = to % 2 == 0;
  for (int64_t i = 0; i < pixels; ++i, in += from, out += to) {
    if (colour_out) {
      out[0] = in[0];
      out[1] = in[colour_in ? 1 : 0];
      out[2] = in[colour_in ? 2 : 0];
    } else {
      out[0] = colour_in ? Grey(in) : in[0];
    }
    if (alpha_out) out[to - 1] = alpha_in ? in[from - 1] : 255;
  }
}

Result<Tensor> WithChannels(Tensor image, int channels) {
  const int have = static_cast<int>(image.dim(2));
  if (channels == 0 || channels == have) return image;
  SLUICE_ASSIGN_OR_RETURN(
      Tensor out, Tensor::Make(DType::kUint8, Shape({image.dim(0), image.dim(1),
                                                     int64_t{channels}})));
  ConvertChannels(image.data<uint8_t>(), have, out.data<uint8_t>(), channels,
                  image.dim(0) * image.dim(1));
  return out;
}

Result<Tensor> DecodeFormat(std::string_view format, std::string_view bytes,
                            const ImageOptions& options) {
  if (format == "PNG")
    return DecodePng(bytes, {.channels = options.channels,
                             .key_is_alpha = true,
                             .max_pixels = options.max_pixels});
  if (format == "JPEG")
    // (The luma of a file is used as grey.)
    return DecodeJpeg(bytes, {.channels = options.channels == 0   ? 0
                                          : options.channels <= 2 ? 1
                                                                  : 3,
                              .needs_end = true,
                              .window = {},
                              .max_pixels = options.max_pixels});
  if (format == "GIF") {
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor frames,
        DecodeGif(bytes, {.first_frame_only = true,
                          .max_pixels = options.max_pixels}));
    return frames.Reshaped(Shape({frames.dim(1), frames.dim(2), int64_t{3}}));
  }
  if (format == "BMP") return DecodeBmp(bytes, 0, options.max_pixels);
  if (!format.empty())
    return Unimplemented("image: expected a PNG, JPEG, GIF or BMP, got a ",
                         std::string(format));
  return InvalidArgument("image: expected a PNG, JPEG, GIF or BMP, got ",
                         bytes.size(), " bytes that are none of these");
}

}  // namespace

std::string_view ImageFormat(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "PNG";
  if (bytes.starts_with("\xff\xd8\xff")) return "JPEG";
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return "GIF";
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 &&
      bytes.substr(8, 4) == "WEBP")
    return "WebP";
  if (bytes.starts_with(std::string_view("II*\0", 4)) ||
      bytes.starts_with(std::string_view("MM\0*", 4)))
    return "TIFF";
  // (Two letters alone could be the start of a text.)
  if (bytes.starts_with("BM") && bytes.size() >= 14 &&
      bytes.substr(6, 4) == std::string_view("\0\0\0\0", 4))
    return "BMP";
  return "";
}

Result<Tensor> DecodeImage(std::string_view bytes,
                           const ImageOptions& options) {
  if (options.channels < 0 || options.channels > 4)
    return InvalidArgument("image: expected 0 to 4 channels, got ",
                           options.channels);
  SLUICE_ASSIGN_OR_RETURN(Tensor image,
                          DecodeFormat(ImageFormat(bytes), bytes, options));
  return WithChannels(std::move(image), options.channels);
}

Result<Tensor> ReadImage(const std::string& path, const ImageOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  Result<Tensor> image = DecodeImage(bytes, options);
  if (!image.ok())
    return Annotate(image.status(), absl::StrCat("reading '", path, "'"));
  return image;
}

}  // namespace sluice
