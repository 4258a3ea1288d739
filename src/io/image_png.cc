#include "io/image_png.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "io/image_format.h"

// libpng reports errors by longjmp. Only pointers and numbers may live in the
// frames that it skips: the functions that call setjmp own nothing.

namespace sluice {
namespace {

// ---- Decoding ---------------------------------------------------------------

struct PngReader {
  const uint8_t* data;
  size_t left;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = "";

  int64_t width = 0, height = 0;
  int channels = 0;    // Of the result.
  int bits = 0;        // Per pixel of the file.
  bool widen = false;  // 8 bits become 16 after decoding.

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

  bool ReadHeader(const PngOptions& options) {
    if (setjmp(png_jmpbuf(png))) return false;
    // (We limit the number of pixels ourselves.)
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_chunk_cache_max(png, 128);
    png_set_chunk_malloc_max(png, 8 << 20);
    // Skips all chunks that do not affect pixels: texts, profiles, times.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    width = png_get_image_width(png, info);
    height = png_get_image_height(png, info);
    const int type = png_get_color_type(png, info);
    const int depth = png_get_bit_depth(png, info);
    bits = depth * png_get_channels(png, info);
    const bool palette = type == PNG_COLOR_TYPE_PALETTE;
    const bool grey = (type & PNG_COLOR_MASK_COLOR) == 0;
    const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0;
    const bool key = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    channels = options.channels != 0
                   ? options.channels
                   : (grey ? 1 : 3) +
                         (alpha || (key && (palette || options.key_is_alpha)));
    if (channels % 2 == 0) {
      if (!alpha && key)
        png_set_tRNS_to_alpha(png);
      else if (!alpha)
        png_set_add_alpha(png, 0xffff, PNG_FILLER_AFTER);
    } else if (alpha || key) {
      png_set_strip_alpha(png);
    }
    if (depth == 16 && !options.deep) png_set_strip_16(png);
    if (options.deep && std::endian::native == std::endian::little)
      png_set_swap(png);
    widen = options.deep && depth < 16;
    if (palette) png_set_palette_to_rgb(png);
    if (grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (channels < 3 && !grey)
      png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    else if (channels >= 3 && grey)
      png_set_gray_to_rgb(png);
    return true;
  }

  // Reads into `rows`, each of `row_bytes`.
  bool ReadPixels(size_t row_bytes, png_bytepp rows) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != row_bytes)
      png_error(png, "rows of another length than the header says");
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }
};

// ---- Encoding ---------------------------------------------------------------

struct PngWriter {
  std::string bytes;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = "";

  PngWriter() = default;
  ~PngWriter() { png_destroy_write_struct(&png, &info); }
  PngWriter(const PngWriter&) = delete;

  static void Fail(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngWriter*>(png_get_error_ptr(png));
    std::snprintf(self->message, sizeof(self->message), "%s", message);
    png_longjmp(png, 1);
  }
  static void Write(png_structp png, png_bytep data, size_t n) {
    auto* const self = static_cast<PngWriter*>(png_get_io_ptr(png));
    if (!self->Append(reinterpret_cast<const char*>(data), n))
      png_error(png, "no memory");
  }
  bool Append(const char* data, size_t n) {
    try {
      bytes.append(data, n);
      return true;
    } catch (const std::exception&) {  // (It must not pass through C code.)
      return false;
    }
  }

  bool Run(const uint8_t* pixels, int64_t height, int64_t width, int channels,
           int depth, int compression) {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, Fail,
                                  PngReader::Ignore);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) {
      std::snprintf(message, sizeof(message), "no memory");
      return false;
    }
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_write_fn(png, this, Write, [](png_structp) {});
    png_set_compression_level(
        png, compression < 0 ? Z_DEFAULT_COMPRESSION : compression);
    png_set_compression_mem_level(png, MAX_MEM_LEVEL);
    constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                              PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_IHDR(png, info, static_cast<png_uint_32>(width),
                 static_cast<png_uint_32>(height), depth, kTypes[channels - 1],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (depth > 8 && std::endian::native == std::endian::little)
      png_set_swap(png);
    const int64_t row = width * channels * (depth / 8);
    for (int64_t y = 0; y < height; ++y)
      png_write_row(png, const_cast<png_bytep>(pixels + y * row));
    png_write_end(png, nullptr);
    return true;
  }
};

}  // namespace

Result<Tensor> DecodePng(std::string_view bytes, const PngOptions& options) {
  PngReader reader(bytes);
  if (!reader.Open() || !reader.ReadHeader(options))
    return MalformedImage("PNG", reader.message);
  SLUICE_RETURN_IF_ERROR(
      CheckImageSize("PNG", reader.width, reader.height, options.max_pixels));
  // Deflate expands a byte to at most 1,032 bytes: memory is not allocated for
  // pixels that the file cannot contain.
  if (reader.height * ((reader.width * reader.bits + 7) / 8) / 1032 >
      static_cast<int64_t>(bytes.size()))
    return MalformedImage("PNG", "the file ends early");
  SLUICE_ASSIGN_OR_RETURN(
      Tensor image,
      Tensor::Make(options.deep ? DType::kUint16 : DType::kUint8,
                   Shape({reader.height, reader.width,
                          static_cast<int64_t>(reader.channels)})));
  const int64_t samples = reader.width * reader.channels;
  const size_t row_bytes =
      static_cast<size_t>(samples) * (options.deep && !reader.widen ? 2 : 1);
  auto* const start = static_cast<png_bytep>(image.raw());
  std::vector<png_bytep> rows(static_cast<size_t>(reader.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = start + y * row_bytes;
  if (!reader.ReadPixels(row_bytes, rows.data()))
    return MalformedImage("PNG", reader.message);
  // In place, from the end.
  for (int64_t i = reader.widen ? image.num_elements() : 0; i-- > 0;)
    image.raw<uint16_t>()[i] = static_cast<uint16_t>(start[i] * 257);
  return image;
}

Result<std::string> EncodePng(const Tensor& image, int compression) {
  const bool deep = image.dtype() == DType::kUint16;
  if ((!deep && image.dtype() != DType::kUint8) || image.rank() != 3 ||
      image.dim(2) < 1 || image.dim(2) > 4)
    return InvalidArgument(
        "PNG: expected uint8 or uint16 [height, width, 1 to 4 channels], got ",
        DTypeName(image.dtype()), " ", image.shape().ToString());
  if (compression < -1 || compression > 9)
    return InvalidArgument("PNG: expected a compression of -1 to 9, got ",
                           compression);
  constexpr int64_t kMostSide = 0x7fffffff;  // Of the format.
  if (image.dim(0) > kMostSide || image.dim(1) > kMostSide)
    return InvalidArgument("PNG: expected sides below 2^31, got shape ",
                           image.shape().ToString());
  SLUICE_RETURN_IF_ERROR(
      CheckImageSize("PNG", image.dim(1), image.dim(0), int64_t{1} << 40));
  PngWriter writer;
  if (!writer.Run(static_cast<const uint8_t*>(image.raw()), image.dim(0),
                  image.dim(1), static_cast<int>(image.dim(2)), deep ? 16 : 8,
                  compression))
    return InvalidArgument("PNG: expected an image that can be encoded, got ",
                           "one with an error: ", writer.message);
  return std::move(writer.bytes);
}

}  // namespace sluice
