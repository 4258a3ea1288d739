#include "io/image.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "io/file.h"

// Both libraries report errors by longjmp. Only pointers and numbers may live
// in the frames that it skips: the functions that call setjmp own nothing.

namespace sluice {
namespace {

// The contents of a file's header.
struct ImageHeader {
  int64_t width = 0, height = 0;
  int channels = 0;  // When decoded, before any conversion.
};

Status CheckSize(const char* format, const ImageHeader& h,
                 const ImageOptions& options) {
  if (h.width < 1 || h.height < 1)
    return InvalidArgument(format, ": expected at least one pixel, got ",
                           h.width, " x ", h.height);
  const int64_t pixels = MultiplyOrNegative(h.width, h.height);
  if (pixels < 0 || pixels > options.max_pixels)
    return ResourceExhausted(format, ": expected at most ", options.max_pixels,
                             " pixels, got ", h.width, " x ", h.height);
  return OkStatus();
}

Status Malformed(const char* format, const char* message) {
  return InvalidArgument(format, ": expected a complete, well-formed image, ",
                         "got one with an error: ", message);
}

// ---- Channels ---------------------------------------------------------------

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

Result<Tensor> MakeImage(const ImageHeader& h) {
  return Tensor::Make(DType::kUint8,
                      Shape({h.height, h.width, int64_t{h.channels}}));
}

// ---- PNG --------------------------------------------------------------------

struct PngReader {
  const uint8_t* data;
  size_t left;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = "";

  PngReader(std::string_view bytes)
      : data(reinterpret_cast<const uint8_t*>(bytes.data())),
        left(bytes.size()) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;

  static void Fail(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self->message, sizeof(self->message), "%s", message);
    png_longjmp(png, 1);
  }
  static void Ignore(png_structp, png_const_charp) {}
  static void Read(png_structp png, png_bytep to, size_t n) {
    auto* const self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (n > self->left) png_error(png, "the file ends early");
    std::memcpy(to, self->data, n);
    self->data += n;
    self->left -= n;
  }

  bool Open() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Ignore);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) {
      std::snprintf(message, sizeof(message), "no memory");
      return false;
    }
    png_set_read_fn(png, this, Read);
    return true;
  }

  bool ReadHeader(ImageHeader* h) {
    if (setjmp(png_jmpbuf(png))) return false;
    // (We limit the number of pixels ourselves.)
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_chunk_cache_max(png, 128);
    png_set_chunk_malloc_max(png, 8 << 20);
    // Skips all chunks that do not affect pixels: texts, profiles, times.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    h->width = png_get_image_width(png, info);
    h->height = png_get_image_height(png, info);
    const int type = png_get_color_type(png, info);
    const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 ||
                       png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    h->channels = ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + alpha;
    return true;
  }

  // Reads into `rows`, each of width * channels bytes.
  bool ReadPixels(const ImageHeader& h, png_bytepp rows) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_expand(png);    // Palettes, fewer bits than 8, tRNS.
    png_set_scale_16(png);  // 16 bits.
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) !=
        static_cast<size_t>(h.width) * static_cast<size_t>(h.channels))
      png_error(png, "rows of another length than the header says");
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }
};

Result<Tensor> DecodePng(std::string_view bytes, const ImageOptions& options) {
  PngReader reader(bytes);
  ImageHeader h;
  if (!reader.Open() || !reader.ReadHeader(&h))
    return Malformed("PNG", reader.message);
  SLUICE_RETURN_IF_ERROR(CheckSize("PNG", h, options));
  // Deflate expands a byte to at most 1,032 bytes: memory is not allocated for
  // pixels that the file cannot contain.
  const int depth = png_get_bit_depth(reader.png, reader.info) *
                    png_get_channels(reader.png, reader.info);
  if (h.height * ((h.width * depth + 7) / 8) / 1032 >
      static_cast<int64_t>(bytes.size()))
    return Malformed("PNG", "the file ends early");
  SLUICE_ASSIGN_OR_RETURN(Tensor image, MakeImage(h));
  std::vector<png_bytep> rows(static_cast<size_t>(h.height));
  for (size_t y = 0; y < rows.size(); ++y)
    rows[y] = image.data<uint8_t>() +
              static_cast<int64_t>(y) * h.width * int64_t{h.channels};
  if (!reader.ReadPixels(h, rows.data()))
    return Malformed("PNG", reader.message);
  return WithChannels(std::move(image), options.channels);
}

// ---- JPEG -------------------------------------------------------------------

// A progressive file may refine each coefficient many times; no encoder uses
// more than some dozens of scans.
constexpr int kMaxScans = 200;

struct JpegReader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jpeg_source_mgr source = {};
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";

  explicit JpegReader(std::string_view bytes) {
    jpeg.err = jpeg_std_error(&errors);
    jpeg.client_data = this;
    errors.error_exit = [](j_common_ptr c) {
      auto* const self = static_cast<JpegReader*>(c->client_data);
      if (self->message[0] == '\0') c->err->format_message(c, self->message);
      longjmp(self->jump, 1);
    };
    errors.emit_message = [](j_common_ptr, int) {};
    progress.progress_monitor = [](j_common_ptr c) {
      if (reinterpret_cast<j_decompress_ptr>(c)->input_scan_number > kMaxScans)
        Fail(c, "more than 200 scans");
    };
    source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source.bytes_in_buffer = bytes.size();
    source.init_source = [](j_decompress_ptr) {};
    source.term_source = [](j_decompress_ptr) {};
    source.resync_to_restart = jpeg_resync_to_restart;
    source.fill_input_buffer = [](j_decompress_ptr c) -> boolean {
      Fail(reinterpret_cast<j_common_ptr>(c), "the file ends early");
      return FALSE;
    };
    source.skip_input_data = [](j_decompress_ptr c, long n) {
      if (n <= 0) return;
      if (static_cast<size_t>(n) > c->src->bytes_in_buffer)
        Fail(reinterpret_cast<j_common_ptr>(c), "the file ends early");
      c->src->next_input_byte += n;
      c->src->bytes_in_buffer -= static_cast<size_t>(n);
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
  JpegReader(const JpegReader&) = delete;

  static void Fail(j_common_ptr c, const char* message) {
    auto* const self = static_cast<JpegReader*>(c->client_data);
    std::snprintf(self->message, sizeof(self->message), "%s", message);
    longjmp(self->jump, 1);
  }

  bool ReadHeader(int channels, ImageHeader* h) {
    if (setjmp(jump)) return false;
    jpeg_create_decompress(&jpeg);
    jpeg.client_data = this;
    jpeg.src = &source;
    jpeg.progress = &progress;
    // For a progressive image all coefficients are held in memory, 16 bits
    // each.
    jpeg.mem->max_memory_to_use = 1L << 30;
    jpeg_read_header(&jpeg, TRUE);
    h->width = jpeg.image_width;
    h->height = jpeg.image_height;
    switch (jpeg.jpeg_color_space) {
      case JCS_GRAYSCALE:
        h->channels = 1;
        break;
      case JCS_CMYK:
      case JCS_YCCK:
        jpeg.out_color_space = JCS_CMYK;
        h->channels = 4;
        return true;
      default:
        // The luma of a file is used as grey.
        h->channels = channels == 1 || channels == 2 ? 1 : 3;
    }
    jpeg.out_color_space = h->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    return true;
  }

  bool ReadPixels(const ImageHeader& h, uint8_t* out) {
    if (setjmp(jump)) return false;
    jpeg_start_decompress(&jpeg);
    if (jpeg.output_width != h.width || jpeg.output_height != h.height ||
        jpeg.output_components != h.channels)
      Fail(reinterpret_cast<j_common_ptr>(&jpeg),
           "another size than the header says");
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW row = out + static_cast<int64_t>(jpeg.output_scanline) *
                               h.width * h.channels;
      jpeg_read_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_decompress(&jpeg);
    return true;
  }
};

// Adobe's programs, which mark their files, store ink inverted.
void CmykToRgb(const uint8_t* in, bool inverted, uint8_t* out, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, in += 4, out += 3) {
    const int light = inverted ? in[3] : 255 - in[3];
    for (int c = 0; c < 3; ++c)
      out[c] = static_cast<uint8_t>(
          ((inverted ? in[c] : 255 - in[c]) * light + 127) / 255);
  }
}

Result<Tensor> DecodeJpeg(std::string_view bytes, const ImageOptions& options) {
  JpegReader reader(bytes);
  ImageHeader h;
  if (!reader.ReadHeader(options.channels, &h))
    return Malformed("JPEG", reader.message);
  SLUICE_RETURN_IF_ERROR(CheckSize("JPEG", h, options));
  SLUICE_ASSIGN_OR_RETURN(Tensor image, MakeImage(h));
  if (!reader.ReadPixels(h, image.data<uint8_t>()))
    return Malformed("JPEG", reader.message);
  if (h.channels == 4) {
    h.channels = 3;
    SLUICE_ASSIGN_OR_RETURN(Tensor rgb, MakeImage(h));
    CmykToRgb(image.data<uint8_t>(), reader.jpeg.saw_Adobe_marker != 0,
              rgb.data<uint8_t>(), h.width * h.height);
    image = std::move(rgb);
  }
  return WithChannels(std::move(image), options.channels);
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
  const std::string_view format = ImageFormat(bytes);
  if (format == "PNG") return DecodePng(bytes, options);
  if (format == "JPEG") return DecodeJpeg(bytes, options);
  if (!format.empty())
    return Unimplemented("image: expected a PNG or a JPEG, got a ",
                         std::string(format));
  return InvalidArgument("image: expected a PNG or a JPEG, got ", bytes.size(),
                         " bytes that are neither");
}

Result<Tensor> ReadImage(const std::string& path, const ImageOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  Result<Tensor> image = DecodeImage(bytes, options);
  if (!image.ok())
    return Annotate(image.status(), absl::StrCat("reading '", path, "'"));
  return image;
}

}  // namespace sluice
