#include "io/image_jpeg.h"

#include <cstdio>
// (Before jpeglib.h, which needs FILE.)
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "io/image_format.h"

// libjpeg reports errors by longjmp. Only pointers and numbers may live in the
// frames that it skips: the functions that call setjmp own nothing.

namespace sluice {
namespace {

// A progressive file may refine each coefficient many times; no encoder uses
// more than some dozens of scans.
constexpr int kMaxScans = 200;

// ---- Decoding ---------------------------------------------------------------

struct JpegReader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jpeg_source_mgr source = {};
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";
  bool recover = false;  // The end of a file that ends early is made up.
  int64_t rows_read = 0;

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
      if (!static_cast<JpegReader*>(c->client_data)->recover)
        return FALSE;  // The caller returns at once, with what it has.
      static const JOCTET kEnd[] = {0xff, JPEG_EOI};
      c->src->next_input_byte = kEnd;
      c->src->bytes_in_buffer = 2;
      return TRUE;
    };
    source.skip_input_data = [](j_decompress_ptr c, long n) {
      if (n <= 0) return;
      const size_t size =
          std::min(static_cast<size_t>(n), c->src->bytes_in_buffer);
      c->src->next_input_byte += size;
      c->src->bytes_in_buffer -= size;
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
  JpegReader(const JpegReader&) = delete;

  static void Fail(j_common_ptr c, const char* message) {
    auto* const self = static_cast<JpegReader*>(c->client_data);
    std::snprintf(self->message, sizeof(self->message), "%s", message);
    longjmp(self->jump, 1);
  }
  void Fail(const char* why) {
    Fail(reinterpret_cast<j_common_ptr>(&jpeg), why);
  }

  bool cmyk() const { return jpeg.out_color_space == JCS_CMYK; }

  // Reads the header, and sets the size of the output.
  bool ReadHeader(const JpegOptions& options) {
    if (setjmp(jump)) return false;
    recover = options.recover_truncated;
    jpeg_create_decompress(&jpeg);
    jpeg.client_data = this;
    jpeg.src = &source;
    jpeg.progress = &progress;
    // For a progressive image all coefficients are held in memory, 16 bits
    // each.
    jpeg.mem->max_memory_to_use = 1L << 30;
    if (jpeg_read_header(&jpeg, TRUE) != JPEG_HEADER_OK)
      Fail("the file ends early");
    if (jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK)
      jpeg.out_color_space = JCS_CMYK;
    else if (options.channels == 1 ||
             (options.channels == 0 && jpeg.num_components == 1))
      jpeg.out_color_space = JCS_GRAYSCALE;  // The luma of the file.
    else
      jpeg.out_color_space = JCS_RGB;
    jpeg.do_fancy_upsampling = options.fancy_upscaling;
    jpeg.scale_num = 1;
    jpeg.scale_denom = static_cast<unsigned>(options.ratio);
    jpeg.dct_method = options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
    jpeg_calc_output_dimensions(&jpeg);
    return true;
  }

  // Reads the rows of the window into `out`, of jpeg.output_components
  // elements per pixel. `line` has a row of the whole image. Sets rows_read;
  // true also where rows are missing.
  bool ReadRows(const JpegWindow& window, bool needs_end, uint8_t* out,
                uint8_t* line) {
    if (setjmp(jump)) return false;
    if (!jpeg_start_decompress(&jpeg)) Fail("the file ends early");
    // libjpeg moves the window's left side to the start of a block.
    auto x = static_cast<JDIMENSION>(window.x);
    auto width = static_cast<JDIMENSION>(window.width);
    if (window.width != static_cast<int64_t>(jpeg.output_width))
      jpeg_crop_scanline(&jpeg, &x, &width);
    const int64_t before =
        (window.x - static_cast<int64_t>(x)) * jpeg.output_components;
    const int64_t row = window.width * jpeg.output_components;
    if (window.y > 0 &&
        jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(window.y)) !=
            static_cast<JDIMENSION>(window.y))
      Fail("the file ends early");
    const bool direct =
        row == static_cast<int64_t>(jpeg.output_width) * jpeg.output_components;
    while (rows_read < window.height) {
      JSAMPROW to = direct ? out + rows_read * row : line;
      if (jpeg_read_scanlines(&jpeg, &to, 1) != 1) break;
      if (!direct)
        std::memcpy(out + rows_read * row, line + before,
                    static_cast<size_t>(row));
      ++rows_read;
    }
    const bool whole = rows_read == window.height &&
                       jpeg.output_scanline == jpeg.output_height;
    if (!whole)
      jpeg_abort_decompress(&jpeg);
    else if (!jpeg_finish_decompress(&jpeg) && needs_end)
      Fail("the file ends early");
    if (needs_end && rows_read < window.height) Fail("the file ends early");
    return true;
  }
};

// Adobe's programs, which mark their files, store ink inverted.
void CmykToRgb(const uint8_t* in, bool inverted, uint8_t* out, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, in += 4, out += 3) {
    const int light = inverted ? in[3] : 255 - in[3];
    for (int c = 0; c < 3; ++c)
      out[c] =
          static_cast<uint8_t>((inverted ? in[c] : 255 - in[c]) * light / 255);
  }
}

void RgbToGrey(const uint8_t* in, uint8_t* out, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, in += 3)
    out[i] = static_cast<uint8_t>(
        (299 * in[0] + 587 * in[1] + 114 * in[2] + 500) / 1000);
}

Result<Tensor> MakeJpegImage(const JpegWindow& window, int channels) {
  return Tensor::Make(DType::kUint8, Shape({window.height, window.width,
                                            static_cast<int64_t>(channels)}));
}

// ---- Encoding ---------------------------------------------------------------

struct JpegWriter {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";
  unsigned char* bytes = nullptr;  // Allocated by libjpeg, with malloc.
  unsigned long size = 0;

  JpegWriter() {
    jpeg.err = jpeg_std_error(&errors);
    jpeg.client_data = this;
    errors.error_exit = [](j_common_ptr c) {
      auto* const self = static_cast<JpegWriter*>(c->client_data);
      c->err->format_message(c, self->message);
      longjmp(self->jump, 1);
    };
    errors.emit_message = [](j_common_ptr, int) {};
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);
  }
  JpegWriter(const JpegWriter&) = delete;

  // `note`: the whole APP1 marker, or empty.
  bool Run(const uint8_t* pixels, int64_t height, int64_t width, int channels,
           const JpegEncodeOptions& options, std::string_view note) {
    if (setjmp(jump)) return false;
    jpeg_create_compress(&jpeg);
    jpeg.client_data = this;
    jpeg_mem_dest(&jpeg, &bytes, &size);
    jpeg.image_width = static_cast<JDIMENSION>(width);
    jpeg.image_height = static_cast<JDIMENSION>(height);
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (options.optimize_size) jpeg.optimize_coding = TRUE;
    jpeg.density_unit = options.density_per_cm ? 2 : 1;
    jpeg.X_density = static_cast<UINT16>(options.x_density);
    jpeg.Y_density = static_cast<UINT16>(options.y_density);
    jpeg_set_quality(&jpeg, options.quality, TRUE);
    if (options.progressive) jpeg_simple_progression(&jpeg);
    for (int c = 0; c < jpeg.num_components && !options.chroma_downsampling;
         ++c)
      jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    if (!note.empty())
      jpeg_write_marker(&jpeg, JPEG_APP0 + 1,
                        reinterpret_cast<const JOCTET*>(note.data()),
                        static_cast<unsigned>(note.size()));
    while (jpeg.next_scanline < jpeg.image_height) {
      auto* row = const_cast<JSAMPROW>(
          pixels + static_cast<int64_t>(jpeg.next_scanline) * width * channels);
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    return true;
  }
};

}  // namespace

Result<Tensor> DecodeJpeg(std::string_view bytes, const JpegOptions& options) {
  JpegReader reader(bytes);
  if (!reader.ReadHeader(options))
    return MalformedImage("JPEG", reader.message);
  const int64_t height = reader.jpeg.output_height;
  const int64_t width = reader.jpeg.output_width;
  // (Before it is reduced, since all of it is decoded.)
  SLUICE_RETURN_IF_ERROR(CheckImageSize("JPEG", reader.jpeg.image_width,
                                        reader.jpeg.image_height,
                                        options.max_pixels));
  const JpegWindow window =
      options.window.value_or(JpegWindow{0, 0, height, width});
  if (window.y < 0 || window.x < 0 || window.height < 1 || window.width < 1 ||
      window.y > height - window.height || window.x > width - window.width)
    return InvalidArgument("JPEG: expected a window within ", height, " x ",
                           width, " pixels, got ", window.height, " x ",
                           window.width, " at (", window.y, ", ", window.x,
                           ")");
  const int components = reader.jpeg.out_color_components;
  SLUICE_ASSIGN_OR_RETURN(Tensor image, MakeJpegImage(window, components));
  std::vector<uint8_t> line(
      options.window.has_value() ? static_cast<size_t>(width * components) : 0);
  if (!reader.ReadRows(window, options.needs_end, image.raw<uint8_t>(),
                       line.data()))
    return MalformedImage("JPEG", reader.message);
  const auto fraction =
      static_cast<float>(reader.rows_read) / static_cast<float>(window.height);
  if (fraction < std::min(1.0f, options.acceptable_fraction))
    return InvalidArgument(
        "JPEG: expected a complete, well-formed image, got "
        "one that ends after ",
        reader.rows_read, " of ", window.height, " rows");
  int64_t pixels = reader.rows_read * window.width;
  if (reader.cmyk()) {
    SLUICE_ASSIGN_OR_RETURN(Tensor rgb, MakeJpegImage(window, 3));
    CmykToRgb(image.raw<uint8_t>(), reader.jpeg.saw_Adobe_marker != 0,
              rgb.raw<uint8_t>(), pixels);
    image = std::move(rgb);
    if (options.channels == 1) {
      SLUICE_ASSIGN_OR_RETURN(Tensor grey, MakeJpegImage(window, 1));
      RgbToGrey(image.raw<uint8_t>(), grey.raw<uint8_t>(), pixels);
      image = std::move(grey);
    }
  }
  // The rows that are missing.
  std::fill(image.raw<uint8_t>() + pixels * image.dim(2),
            image.raw<uint8_t>() + image.num_elements(), uint8_t{0});
  return image;
}

Result<JpegHeader> ReadJpegHeader(std::string_view bytes) {
  JpegReader reader(bytes);
  if (!reader.ReadHeader({})) return MalformedImage("JPEG", reader.message);
  return JpegHeader{reader.jpeg.image_height, reader.jpeg.image_width,
                    reader.jpeg.num_components};
}

Result<std::string> EncodeJpeg(const Tensor& image,
                               const JpegEncodeOptions& options) {
  if (image.dtype() != DType::kUint8 || image.rank() != 3 ||
      (image.dim(2) != 1 && image.dim(2) != 3))
    return InvalidArgument(
        "JPEG: expected uint8 [height, width, 1 or 3 channels], got ",
        DTypeName(image.dtype()), " ", image.shape().ToString());
  if (image.dim(0) < 1 || image.dim(1) < 1 ||
      image.dim(0) > JPEG_MAX_DIMENSION || image.dim(1) > JPEG_MAX_DIMENSION)
    return InvalidArgument("JPEG: expected a height and width of 1 to ",
                           JPEG_MAX_DIMENSION, ", got shape ",
                           image.shape().ToString());
  if (options.quality < 0 || options.quality > 100)
    return InvalidArgument("JPEG: expected a quality of 0 to 100, got ",
                           options.quality);
  constexpr int kMostDensity = 65535;
  for (const int density : {options.x_density, options.y_density})
    if (density < 0 || density > kMostDensity)
      return InvalidArgument("JPEG: expected a density of 0 to ", kMostDensity,
                             ", got ", density);
  std::string note;
  if (!options.xmp_metadata.empty()) {
    note = "http://ns.adobe.com/xap/1.0/";
    note.push_back('\0');
    note += options.xmp_metadata;
  }
  JpegWriter writer;
  if (!writer.Run(image.raw<uint8_t>(), image.dim(0), image.dim(1),
                  static_cast<int>(image.dim(2)), options, note))
    return InvalidArgument(
        "JPEG: expected an image that can be encoded, got one with an error: ",
        writer.message);
  return std::string(reinterpret_cast<const char*>(writer.bytes), writer.size);
}

}  // namespace sluice
