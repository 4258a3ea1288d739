#include "io/image.h"

#include <jpeglib.h>
#include <png.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "io/image_bmp.h"
#include "io/image_gif.h"
#include "io/image_jpeg.h"
#include "io/image_png.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

struct PngSpec {
  int width = 2, height = 1;
  int type = PNG_COLOR_TYPE_RGB;
  int depth = 8;
  bool interlaced = false;
  int transparent = -1;  // A grey value, or an entry of the palette.
};

// `samples`: bytes of all rows, as the file has them.
std::string MakePng(const PngSpec& spec, std::vector<uint8_t> samples) {
  std::string out;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) std::abort();
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))
            ->append(reinterpret_cast<char*>(data), n);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(spec.width),
               static_cast<png_uint_32>(spec.height), spec.depth, spec.type,
               spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_color palette[] = {{10, 20, 30}, {40, 50, 60}};
  if (spec.type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 2);
  png_byte alphas[] = {255, 255};
  png_color_16 key = {};
  if (spec.transparent >= 0 && spec.type == PNG_COLOR_TYPE_PALETTE) {
    alphas[spec.transparent] = 0;
    png_set_tRNS(png, info, alphas, 2, nullptr);
  } else if (spec.transparent >= 0) {
    key.gray = static_cast<png_uint_16>(spec.transparent);
    png_set_tRNS(png, info, nullptr, 0, &key);
  }
  png_write_info(png, info);
  const size_t row = samples.size() / static_cast<size_t>(spec.height);
  std::vector<png_bytep> rows;
  for (int y = 0; y < spec.height; ++y)
    rows.push_back(samples.data() + static_cast<size_t>(y) * row);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

struct JpegSpec {
  int width = 16, height = 8;
  J_COLOR_SPACE space = JCS_RGB;
  bool progressive = false;
};

// Every pixel is `pixel`.
std::string MakeJpeg(const JpegSpec& spec, std::vector<uint8_t> pixel) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(spec.width);
  jpeg.image_height = static_cast<JDIMENSION>(spec.height);
  jpeg.input_components = static_cast<int>(pixel.size());
  jpeg.in_color_space = spec.space;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  if (spec.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<uint8_t> row;
  for (int x = 0; x < spec.width; ++x)
    row.insert(row.end(), pixel.begin(), pixel.end());
  JSAMPROW at = row.data();
  while (jpeg.next_scanline < jpeg.image_height)
    jpeg_write_scanlines(&jpeg, &at, 1);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string out(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return out;
}

Tensor Decoded(const std::string& bytes, int channels = 0) {
  const Result<Tensor> t = DecodeImage(bytes, {.channels = channels});
  EXPECT_TRUE(t.ok()) << t.status();
  return t.value_or(Tensor());
}

Tensor Image(Shape shape, std::vector<uint8_t> values) {
  return Tensor::Of<uint8_t>(shape, values);
}

#define EXPECT_SAME(got, want)       \
  EXPECT_TRUE((got).Identical(want)) \
      << (got).ToString() << " want " << (want).ToString()

TEST(DecodePng, KeepsTheChannelsOfTheFile) {
  EXPECT_SAME(Decoded(MakePng({}, {1, 2, 3, 4, 5, 6})),
              Image({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_SAME(Decoded(MakePng({.type = PNG_COLOR_TYPE_GRAY}, {7, 8})),
              Image({1, 2, 1}, {7, 8}));
  EXPECT_SAME(
      Decoded(MakePng({.type = PNG_COLOR_TYPE_GRAY_ALPHA}, {7, 100, 8, 200})),
      Image({1, 2, 2}, {7, 100, 8, 200}));
  EXPECT_SAME(Decoded(MakePng({.type = PNG_COLOR_TYPE_RGB_ALPHA},
                              {1, 2, 3, 4, 5, 6, 7, 8})),
              Image({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(DecodePng, PalettesAndOtherDepthsBecomeBytes) {
  const std::vector<uint8_t> colours = {10, 20, 30, 40, 50, 60};
  EXPECT_SAME(Decoded(MakePng({.type = PNG_COLOR_TYPE_PALETTE}, {0, 1})),
              Image({1, 2, 3}, colours));
  EXPECT_SAME(Decoded(MakePng(
                  {.type = PNG_COLOR_TYPE_PALETTE, .transparent = 0}, {0, 1})),
              Image({1, 2, 4}, {10, 20, 30, 0, 40, 50, 60, 255}));
  // One bit a pixel: 1, 0.
  EXPECT_SAME(
      Decoded(MakePng({.type = PNG_COLOR_TYPE_GRAY, .depth = 1}, {0x80})),
      Image({1, 2, 1}, {255, 0}));
  EXPECT_SAME(Decoded(MakePng({.type = PNG_COLOR_TYPE_GRAY, .depth = 16},
                              {0xff, 0xff, 0x80, 0x80})),
              Image({1, 2, 1}, {255, 0x80}));
  EXPECT_SAME(
      Decoded(MakePng({.type = PNG_COLOR_TYPE_GRAY, .transparent = 9}, {9, 8})),
      Image({1, 2, 2}, {9, 0, 8, 255}));
}

TEST(DecodePng, InterlacedImagesDecodeEqually) {
  PngSpec spec{.width = 13, .height = 11, .type = PNG_COLOR_TYPE_GRAY};
  std::vector<uint8_t> samples;
  for (int i = 0; i < 13 * 11; ++i) samples.push_back(static_cast<uint8_t>(i));
  const Tensor straight = Decoded(MakePng(spec, samples));
  spec.interlaced = true;
  EXPECT_SAME(Decoded(MakePng(spec, samples)), straight);
  EXPECT_SAME(straight, Image({11, 13, 1}, samples));
}

TEST(DecodeImage, ReturnsTheRequestedChannels) {
  const std::string grey =
      MakePng({.width = 1, .type = PNG_COLOR_TYPE_GRAY}, {7});
  const std::string rgba =
      MakePng({.width = 1, .type = PNG_COLOR_TYPE_RGB_ALPHA}, {255, 0, 0, 3});
  EXPECT_SAME(Decoded(grey, 1), Image({1, 1, 1}, {7}));
  EXPECT_SAME(Decoded(grey, 2), Image({1, 1, 2}, {7, 255}));
  EXPECT_SAME(Decoded(grey, 3), Image({1, 1, 3}, {7, 7, 7}));
  EXPECT_SAME(Decoded(grey, 4), Image({1, 1, 4}, {7, 7, 7, 255}));
  EXPECT_SAME(Decoded(rgba, 1), Image({1, 1, 1}, {76}));
  EXPECT_SAME(Decoded(rgba, 2), Image({1, 1, 2}, {76, 3}));
  EXPECT_SAME(Decoded(rgba, 3), Image({1, 1, 3}, {255, 0, 0}));
  EXPECT_SAME(Decoded(rgba, 4), Image({1, 1, 4}, {255, 0, 0, 3}));
  EXPECT_EQ(Decoded(MakeJpeg({}, {1, 2, 3}), 4).shape(), Shape({8, 16, 4}));
  EXPECT_FALSE(DecodeImage(grey, {.channels = 5}).ok());
}

void ExpectAll(const Tensor& t, const Shape& shape, std::vector<int> pixel) {
  ASSERT_EQ(t.shape(), shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    ASSERT_NEAR(t.data<uint8_t>()[i],
                pixel[static_cast<size_t>(i) % pixel.size()], 2)
        << "at " << i;
}

TEST(DecodeJpeg, ReadsColourSpacesAndProgressiveFiles) {
  for (const bool progressive : {false, true}) {
    ExpectAll(Decoded(MakeJpeg({.progressive = progressive}, {200, 100, 50})),
              Shape({8, 16, 3}), {200, 100, 50});
    ExpectAll(Decoded(MakeJpeg(
                  {.space = JCS_GRAYSCALE, .progressive = progressive}, {90})),
              Shape({8, 16, 1}), {90});
  }
  ExpectAll(Decoded(MakeJpeg({}, {200, 100, 50}), 1), Shape({8, 16, 1}), {124});
  ExpectAll(Decoded(MakeJpeg({.space = JCS_GRAYSCALE}, {90}), 3),
            Shape({8, 16, 3}), {90, 90, 90});
  // As Adobe writes it (libjpeg marks its files the same way): 255 is no ink.
  ExpectAll(Decoded(MakeJpeg({.space = JCS_CMYK}, {255, 128, 0, 255})),
            Shape({8, 16, 3}), {255, 128, 0});
}

TEST(DecodeImage, RefusesMorePixelsThanTheLimit) {
  // 20,000 x 20,000 white pixels: 50 MB of bits, a file of 50 kB.
  const std::string bomb = MakePng({.width = 20000,
                                    .height = 20000,
                                    .type = PNG_COLOR_TYPE_GRAY,
                                    .depth = 1},
                                   std::vector<uint8_t>(20000 * 2500, 255));
  EXPECT_LT(bomb.size(), 100000u);
  const Status s = DecodeImage(bomb).status();
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("PNG: expected at most 134217728 pixels, got 20000 x "
                        "20000"));
  EXPECT_EQ(
      DecodeImage(MakeJpeg({}, {1, 2, 3}), {.max_pixels = 127}).status().code(),
      StatusCode::kResourceExhausted);
  EXPECT_TRUE(DecodeImage(MakeJpeg({}, {1, 2, 3}), {.max_pixels = 128}).ok());
}

TEST(DecodeImage, RejectsHeaderLargerThanTheData) {
  std::string png = MakePng({.type = PNG_COLOR_TYPE_GRAY}, {1, 2});
  // The width of the header, and its checksum, replaced: 10,000 x 10,000.
  const std::string large = MakePng({.width = 10000,
                                     .height = 10000,
                                     .type = PNG_COLOR_TYPE_GRAY,
                                     .depth = 1},
                                    std::vector<uint8_t>(10000 * 1250));
  png.replace(8, 25, large.substr(8, 25));
  const Status s = DecodeImage(png).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("ends early"));
}

TEST(DecodeImage, EveryTruncationIsAnError) {
  for (const std::string& whole :
       {MakePng({}, {1, 2, 3, 4, 5, 6}), MakeJpeg({}, {200, 100, 50}),
        MakeJpeg({.progressive = true}, {200, 100, 50})}) {
    ASSERT_TRUE(DecodeImage(whole).ok());
    for (size_t n = 0; n < whole.size(); ++n) {
      const Status s = DecodeImage(whole.substr(0, n)).status();
      ASSERT_EQ(s.code(), StatusCode::kInvalidArgument) << n;
    }
  }
}

TEST(DecodeImage, RejectsFileWithTooManyScans) {
  std::string jpeg = MakeJpeg({.progressive = true}, {200, 100, 50});
  // The last scan, a thousand times.
  const size_t scan = jpeg.rfind("\xff\xda");
  const std::string last = jpeg.substr(scan, jpeg.size() - 2 - scan);
  const std::string end = jpeg.substr(jpeg.size() - 2);
  jpeg.resize(jpeg.size() - 2);
  for (int i = 0; i < 1000; ++i) jpeg += last;
  EXPECT_THAT(std::string(DecodeImage(jpeg + end).status().message()),
              HasSubstr("more than 200 scans"));
}

TEST(DecodeImage, ErrorNamesOtherFormats) {
  const auto message = [](const std::string& bytes) {
    return std::string(DecodeImage(bytes).status().message());
  };
  EXPECT_THAT(message("GIF89a..."), HasSubstr("GIF: expected a complete"));
  EXPECT_THAT(message("RIFF....WEBPVP8 "), HasSubstr("got a WebP"));
  EXPECT_THAT(message(std::string("BM\1\0\0\0\0\0\0\0\0\0\0\0", 14)),
              HasSubstr("BMP: expected a complete"));
  EXPECT_THAT(message("BMX bikes and more"), HasSubstr("18 bytes"));
  EXPECT_THAT(message(""), HasSubstr("0 bytes"));
}

// ---- Options of single formats ----------------------------------------------

// Smooth, so that little is lost by compression.
Tensor Smooth(int64_t height, int64_t width, int64_t channels) {
  Tensor t(DType::kUint8, Shape({height, width, channels}));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t x = i / channels % width, y = i / channels / width;
    t.data<uint8_t>()[i] =
        static_cast<uint8_t>(40 + 3 * x + 2 * y + 20 * (i % channels));
  }
  return t;
}

TEST(EncodePng, DecodesToTheSamePixels) {
  for (int64_t channels = 1; channels <= 4; ++channels) {
    const Tensor image = Smooth(5, 7, channels);
    const Result<std::string> file = EncodePng(image, -1);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_SAME(*DecodePng(*file, {}), image);
  }
  Tensor deep(DType::kUint16, {2, 3, 2});
  for (int64_t i = 0; i < 12; ++i)
    deep.data<uint16_t>()[i] = static_cast<uint16_t>(5000 * i + 17);
  const Result<std::string> file = EncodePng(deep, 9);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_SAME(*DecodePng(*file, {.deep = true}), deep);
  EXPECT_FALSE(EncodePng(deep, 10).ok());
  EXPECT_FALSE(EncodePng(Smooth(2, 2, 5), -1).ok());
  EXPECT_FALSE(EncodePng(Smooth(0, 2, 1), -1).ok());
}

TEST(DecodePng, WidensEightBitsToSixteen) {
  const Tensor wide = *DecodePng(MakePng({}, {1, 2, 3, 4, 5, 255}),
                                 {.channels = 4, .deep = true});
  EXPECT_SAME(wide, Tensor::Of<uint16_t>({1, 2, 4}, {257, 514, 771, 65535, 1028,
                                                     1285, 65535, 65535}));
}

TEST(EncodeJpeg, DecodesToSimilarPixels) {
  const Tensor image = Smooth(20, 30, 3);
  for (const bool progressive : {false, true}) {
    JpegEncodeOptions options;
    options.progressive = progressive;
    options.xmp_metadata = "<note/>";
    const Result<std::string> file = EncodeJpeg(image, options);
    ASSERT_TRUE(file.ok()) << file.status();
    const Tensor back = *DecodeJpeg(*file, {});
    ASSERT_EQ(back.shape(), image.shape());
    for (int64_t i = 0; i < image.num_elements(); ++i)
      ASSERT_NEAR(back.data<uint8_t>()[i], image.data<uint8_t>()[i], 12) << i;
    // A marker has room for 65,533 bytes.
    options.xmp_metadata.assign(70000, 'x');
    EXPECT_EQ(EncodeJpeg(image, options).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(EncodeJpeg(Smooth(3, 3, 2), {}).ok());
  EXPECT_FALSE(EncodeJpeg(Smooth(70000, 1, 1), {}).ok());
}

TEST(DecodeJpeg, WindowIsThatPartOfTheImage) {
  const std::string file = *EncodeJpeg(Smooth(40, 50, 3), {});
  const Tensor all = *DecodeJpeg(file, {});
  for (const JpegWindow w :
       {JpegWindow{0, 0, 40, 50}, JpegWindow{7, 11, 9, 3},
        JpegWindow{39, 49, 1, 1}, JpegWindow{8, 16, 16, 16}}) {
    const Result<Tensor> part = DecodeJpeg(file, {.window = w});
    ASSERT_TRUE(part.ok()) << part.status();
    ASSERT_EQ(part->shape(), Shape({w.height, w.width, 3}));
    for (int64_t i = 0; i < part->num_elements(); ++i) {
      const int64_t y = w.y + i / 3 / w.width, x = w.x + i / 3 % w.width;
      // (Colours at the sides of the window are interpolated from less.)
      ASSERT_NEAR(part->data<uint8_t>()[i],
                  all.data<uint8_t>()[(y * 50 + x) * 3 + i % 3], 6);
    }
  }
  for (const JpegWindow w : {JpegWindow{0, 0, 41, 50}, JpegWindow{-1, 0, 2, 2},
                             JpegWindow{0, 49, 1, 2}, JpegWindow{0, 0, 0, 1}})
    EXPECT_EQ(DecodeJpeg(file, {.window = w}).status().code(),
              StatusCode::kInvalidArgument);
}

TEST(DecodeJpeg, AcceptsPartOfATruncatedFile) {
  const std::string file = *EncodeJpeg(Smooth(64, 64, 3), {});
  const std::string half = file.substr(0, file.size() * 2 / 3);
  EXPECT_THAT(std::string(DecodeJpeg(half, {}).status().message()),
              HasSubstr("of 64 rows"));
  const Result<Tensor> part =
      DecodeJpeg(half, {.acceptable_fraction = 0.2f, .window = {}});
  ASSERT_TRUE(part.ok()) << part.status();
  // Rows that are missing are black.
  EXPECT_GT(part->data<uint8_t>()[0], 0);
  EXPECT_EQ(part->data<uint8_t>()[64 * 64 * 3 - 1], 0);
  const Result<Tensor> recovered =
      DecodeJpeg(half, {.recover_truncated = true, .window = {}});
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->shape(), Shape({64, 64, 3}));
}

TEST(DecodeJpeg, RatioDividesTheSize) {
  const std::string file = *EncodeJpeg(Smooth(20, 30, 1), {});
  EXPECT_EQ(DecodeJpeg(file, {.ratio = 8, .window = {}})->shape(),
            Shape({3, 4, 1}));
  EXPECT_EQ(ReadJpegHeader(file)->width, 30);
}

// A GIF of one colour map, whose frames are given.
std::string MakeGif(int width, int height, const std::string& frames) {
  std::string out("GIF89a");
  for (const int v : {width, height}) {
    out.push_back(static_cast<char>(v & 255));
    out.push_back(static_cast<char>(v >> 8));
  }
  out += std::string("\x80\0\0", 3);  // Two colours.
  out += std::string("\x0a\x14\x1e\x28\x32\x3c", 6);
  return out + frames + ";";
}

// A frame of the colour 1: clear, 1, 1, end for two pixels.
std::string GifFrame(int left, int width) {
  std::string out(",");
  for (const int v : {left, 0, width, 1}) {
    out.push_back(static_cast<char>(v & 255));
    out.push_back(static_cast<char>(v >> 8));
  }
  out.push_back('\0');
  // Codes of three bits: 4 (clear), 1, 1, 5 (end).
  return out + std::string("\x02\x02\x4c\x0a\x00", 5);
}

TEST(DecodeGif, DrawsEachFrameOnTheOneBefore) {
  const std::string file = MakeGif(3, 1, GifFrame(0, 2) + GifFrame(1, 2));
  EXPECT_SAME(*DecodeGif(file, {}),
              Image({2, 1, 3, 3}, {40, 50, 60, 40, 50, 60, 0, 0, 0, 40, 50, 60,
                                   40, 50, 60, 40, 50, 60}));
  EXPECT_EQ(DecodeGif(file, {.first_frame_only = true})->shape(),
            Shape({1, 1, 3, 3}));
  EXPECT_EQ(Decoded(file).shape(), Shape({1, 3, 3}));
  for (size_t n = 0; n < file.size(); ++n)
    ASSERT_EQ(DecodeGif(file.substr(0, n), {}).status().code(),
              StatusCode::kInvalidArgument)
        << n;
}

TEST(DecodeGif, RefusesMorePixelsThanTheLimit) {
  // A file of 33 bytes for 4 G pixels, and one whose frame is as large.
  EXPECT_EQ(
      DecodeGif(MakeGif(65535, 65535, GifFrame(0, 2)), {}).status().code(),
      StatusCode::kResourceExhausted);
  const std::string frames = GifFrame(0, 2) + GifFrame(0, 2);
  EXPECT_TRUE(DecodeGif(MakeGif(8, 8, frames), {.max_pixels = 128}).ok());
  EXPECT_EQ(
      DecodeGif(MakeGif(8, 8, frames), {.max_pixels = 127}).status().code(),
      StatusCode::kResourceExhausted);
}

TEST(DecodeBmp, ReadsRowsFromTheBottomAndSwapsColours) {
  std::string file("BM");
  const auto number = [&](uint32_t v) {
    for (int i = 0; i < 4; ++i) file.push_back(static_cast<char>(v >> (8 * i)));
  };
  number(54 + 16);
  number(0);
  number(54);
  number(40);
  number(2);  // Width.
  number(2);  // Height.
  number(1 | 24 << 16);
  for (int i = 0; i < 6; ++i) number(0);
  for (int i = 0; i < 16; ++i) file.push_back(static_cast<char>(i));
  EXPECT_SAME(Decoded(file),
              Image({2, 2, 3}, {10, 9, 8, 13, 12, 11, 2, 1, 0, 5, 4, 3}));
  EXPECT_SAME(*DecodeBmp(file, 4),
              Image({2, 2, 4}, {10, 9, 8, 255, 13, 12, 11, 255, 2, 1, 0, 255, 5,
                                4, 3, 255}));
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_FALSE(DecodeBmp(file.substr(0, n), 0).ok()) << n;
  EXPECT_EQ(DecodeBmp(file, 0, 3).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(ReadImage, ErrorNamesTheFile) {
  const std::string path = ::testing::TempDir() + "sluice_image_" +
                           std::to_string(getpid()) + ".png";
  ASSERT_TRUE(WriteFile(path, MakePng({}, {1, 2, 3, 4, 5, 6})).ok());
  EXPECT_TRUE(ReadImage(path).ok());
  ASSERT_TRUE(WriteFile(path, "no image").ok());
  EXPECT_THAT(std::string(ReadImage(path).status().message()), HasSubstr(path));
  std::remove(path.c_str());
  EXPECT_EQ(ReadImage(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
