#include "io/image_gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "io/image_format.h"

namespace sluice {
namespace {

// A file that is read record by record: giflib's own function for whole files
// allocates what each frame claims to be.
class GifReader {
 public:
  explicit GifReader(std::string_view bytes) : bytes_(bytes) {}
  ~GifReader() {
    if (gif_ != nullptr) DGifCloseFile(gif_, nullptr);
  }
  GifReader(const GifReader&) = delete;

  Status Open() {
    int error = 0;
    gif_ = DGifOpen(this, Read, &error);
    return gif_ != nullptr ? OkStatus() : Failure(error);
  }
  int64_t width() const { return gif_->SWidth; }
  int64_t height() const { return gif_->SHeight; }
  const GifImageDesc& frame() const { return gif_->Image; }

  // Goes to the data of the next frame; false at the end of the file.
  Result<bool> NextFrame() {
    transparent_ = NO_TRANSPARENT_COLOR;
    while (true) {
      GifRecordType type;
      if (DGifGetRecordType(gif_, &type) != GIF_OK) return Failure();
      if (type == TERMINATE_RECORD_TYPE) return false;
      if (type == IMAGE_DESC_RECORD_TYPE) {
        if (DGifGetImageDesc(gif_) != GIF_OK) return Failure();
        return true;
      }
      if (type == EXTENSION_RECORD_TYPE)
        SLUICE_RETURN_IF_ERROR(ReadExtension());
    }
  }

  Status SkipPixels() {
    int size;
    GifByteType* block;
    if (DGifGetCode(gif_, &size, &block) != GIF_OK) return Failure();
    while (block != nullptr)
      if (DGifGetCodeNext(gif_, &block) != GIF_OK) return Failure();
    return OkStatus();
  }

  // Draws the frame on an RGB canvas.
  Status DrawPixels(uint8_t* canvas) {
    const GifImageDesc f = frame();
    if (f.Width < 1 || f.Height < 1) return SkipPixels();
    const ColorMapObject* colours =
        f.ColorMap != nullptr ? f.ColorMap : gif_->SColorMap;
    if (colours == nullptr) return MalformedImage("GIF", "no colour map");
    std::vector<GifPixelType> row(static_cast<size_t>(f.Width));
    constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (f.Interlace ? 4 : 1); ++pass)
      for (int y = f.Interlace ? kStart[pass] : 0; y < f.Height;
           y += f.Interlace ? kStep[pass] : 1) {
        if (DGifGetLine(gif_, row.data(), f.Width) != GIF_OK) return Failure();
        SLUICE_RETURN_IF_ERROR(DrawRow(row, f, y, *colours, canvas));
      }
    return OkStatus();
  }

 private:
  static int Read(GifFileType* gif, GifByteType* to, int n) {
    auto* const self = static_cast<GifReader*>(gif->UserData);
    const size_t size =
        std::min(self->bytes_.size(), static_cast<size_t>(std::max(n, 0)));
    std::memcpy(to, self->bytes_.data(), size);
    self->bytes_.remove_prefix(size);
    return static_cast<int>(size);
  }

  Status Failure() const { return Failure(gif_->Error); }
  static Status Failure(int error) {
    const char* message = GifErrorString(error);
    return MalformedImage("GIF", message != nullptr ? message : "unknown");
  }

  Status ReadExtension() {
    int code;
    GifByteType* block;
    if (DGifGetExtension(gif_, &code, &block) != GIF_OK) return Failure();
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        transparent_ = control.TransparentColor;
      if (DGifGetExtensionNext(gif_, &block) != GIF_OK) return Failure();
    }
    return OkStatus();
  }

  Status DrawRow(const std::vector<GifPixelType>& row, const GifImageDesc& f,
                 int y, const ColorMapObject& colours, uint8_t* canvas) const {
    const int64_t at = int64_t{f.Top} + y;
    if (at < 0 || at >= height()) return OkStatus();
    const int64_t first = std::max<int64_t>(0, -int64_t{f.Left});
    const int64_t end = std::min<int64_t>(f.Width, width() - f.Left);
    for (int64_t x = first; x < end; ++x) {
      const int index = row[static_cast<size_t>(x)];
      if (index == transparent_) continue;
      if (index >= colours.ColorCount)
        return MalformedImage("GIF", "a colour outside the colour map");
      const GifColorType& c = colours.Colors[index];
      uint8_t* to = canvas + (at * width() + f.Left + x) * 3;
      to[0] = c.Red;
      to[1] = c.Green;
      to[2] = c.Blue;
    }
    return OkStatus();
  }

  std::string_view bytes_;  // Not yet read.
  GifFileType* gif_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

// The number of frames that are to be decoded.
Result<int64_t> CountFrames(std::string_view bytes, const GifOptions& options) {
  GifReader reader(bytes);
  SLUICE_RETURN_IF_ERROR(reader.Open());
  int64_t frames = 0, pixels = 0;
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const bool more, reader.NextFrame());
    if (!more) break;
    // (A frame may be larger than the canvas, and takes time to decode.)
    pixels += std::max(reader.width() * reader.height(),
                       int64_t{reader.frame().Width} * reader.frame().Height);
    if (pixels > options.max_pixels)
      return ResourceExhausted("GIF: expected at most ", options.max_pixels,
                               " pixels in all frames, got ", pixels, " in ",
                               frames + 1, " of ", reader.width(), " x ",
                               reader.height());
    ++frames;
    if (options.first_frame_only) break;
    SLUICE_RETURN_IF_ERROR(reader.SkipPixels());
  }
  if (frames == 0) return MalformedImage("GIF", "no frame");
  SLUICE_RETURN_IF_ERROR(CheckImageSize("GIF", reader.width(), reader.height(),
                                        options.max_pixels));
  return frames;
}

}  // namespace

Result<Tensor> DecodeGif(std::string_view bytes, const GifOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t frames, CountFrames(bytes, options));
  GifReader reader(bytes);
  SLUICE_RETURN_IF_ERROR(reader.Open());
  SLUICE_ASSIGN_OR_RETURN(
      Tensor out,
      Tensor::Make(DType::kUint8, Shape({frames, reader.height(),
                                         reader.width(), int64_t{3}})));
  const int64_t size = reader.height() * reader.width() * 3;
  uint8_t* canvas = out.raw<uint8_t>();
  std::fill_n(canvas, size, uint8_t{0});
  for (int64_t i = 0; i < frames; ++i, canvas += size) {
    if (i > 0) std::copy_n(canvas - size, size, canvas);
    SLUICE_ASSIGN_OR_RETURN(const bool more, reader.NextFrame());
    if (!more) return MalformedImage("GIF", "the file ends early");
    SLUICE_RETURN_IF_ERROR(reader.DrawPixels(canvas));
  }
  return out;
}

}  // namespace sluice
