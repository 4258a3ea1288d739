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
  EXPECT_THAT(message("GIF89a..."), HasSubstr("got a GIF"));
  EXPECT_THAT(message("RIFF....WEBPVP8 "), HasSubstr("got a WebP"));
  EXPECT_THAT(message(std::string("BM\1\0\0\0\0\0\0\0\0\0\0\0", 14)),
              HasSubstr("got a BMP"));
  EXPECT_THAT(message("BMX bikes and more"), HasSubstr("18 bytes"));
  EXPECT_THAT(message(""), HasSubstr("0 bytes"));
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
