#include "tools/sluice/demo.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "base/sanitizers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/sluice/demo_data.h"
#include "tools/sluice/demo_page.h"
#include "tools/sluice/demo_train.h"
#include "zlib.h"

namespace sluice::demo {
namespace {

using ::testing::HasSubstr;

int Demo(std::vector<std::string> args) {
  args.insert(args.begin(), "demo");
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  return DemoMain(static_cast<int>(argv.size()), argv.data());
}

TEST(DemoTest, GeneratedImagesAreEqualForEqualSeeds) {
  const ImageData a = MakeImages(3, 500, 9), b = MakeImages(3, 500, 9),
                  c = MakeImages(4, 500, 9);
  EXPECT_EQ(a.train.pixels, b.train.pixels);
  EXPECT_NE(a.train.pixels, c.train.pixels);
  EXPECT_EQ(a.train.pixels.size(), a.train.labels.size() * kPixels);
}

TEST(DemoTest, TrainsClassifierAndWritesPage) {
  const ImageData data = MakeImages(1, 2000, 300);
  TrainOptions options;
  options.title = "A <classifier>";
  options.epochs = 2;
  const Result<Training> t = Train(BuildClassifier, data, options);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_GT(t->final_accuracy, 0.5);
  EXPECT_EQ(t->guesses.size(), 300u);
  EXPECT_EQ(t->test_accuracy.size(), 2u);
  EXPECT_EQ(t->parameters, 784 * 100 + 100 + 100 * 10 + 10);
  EXPECT_THAT(t->trace, HasSubstr("MatMul"));
  // The same steps on batches of a pipeline.
  options.pipeline = true;
  const Result<Training> piped = Train(BuildClassifier, data, options);
  ASSERT_TRUE(piped.ok()) << piped.status();
  EXPECT_GT(piped->final_accuracy, 0.5);
  EXPECT_EQ(piped->train_accuracy.size(), t->train_accuracy.size());
  EXPECT_GT(piped->nodes, t->nodes);
  const std::string page = MakePage(data, {*t});
  EXPECT_THAT(page, HasSubstr("A &lt;classifier>"));
  EXPECT_THAT(page, HasSubstr("data:image/png;base64,"));
  EXPECT_THAT(page, HasSubstr("<polyline"));
}

TEST(DemoTest, ConvolutionalNetworkTrains) {
  const ImageData data = MakeImages(1, 50, 10);
  TrainOptions options;
  options.batch = 50;
  const Result<Training> t = Train(BuildConvNet, data, options);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_THAT(t->trace, HasSubstr("Conv2DBackpropFilter"));
  options.batch = 51;
  EXPECT_FALSE(Train(BuildConvNet, data, options).ok());
}

TEST(DemoTest, Int8ConvolutionalNetworkIsAccurateAndSmaller) {
  if (kSanitized) GTEST_SKIP() << "it is about numbers; quantize_test.cc runs";
  const ImageData data = MakeImages(1, 3000, 500);
  TrainOptions options;
  options.batch = 50;
  options.int8 = true;
  const Result<Training> t = Train(BuildConvNet, data, options);
  ASSERT_TRUE(t.ok()) << t.status();
  ASSERT_TRUE(t->int8.has_value());
  const InferenceFigures &before = t->int8->before, &after = t->int8->after;
  EXPECT_GT(before.accuracy, 0.8);
  EXPECT_GE(after.accuracy, before.accuracy - 0.01);
  EXPECT_LT(static_cast<double>(after.bytes),
            0.3 * static_cast<double>(before.bytes));
  EXPECT_GT(after.images_per_second, 0);
}

TEST(DemoTest, TrainsOnText) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "demo_test_text").string();
  {
    std::ofstream file(path);
    for (int i = 0; i < 200; ++i) file << "abc & <abc>\n";
  }
  TextOptions options;
  options.path = path;
  options.steps = 60;
  options.units = 16;
  const Result<TextTraining> t = TrainOnText(options);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->characters, 200 * 12);
  EXPECT_LT(t->final_bits, 4);  // Uncompressed: 7.
  EXPECT_LT(t->bits.back().value, t->bits.front().value);
  EXPECT_EQ(t->last_words.size(), 500u);
  const std::string page = MakePage(MakeImages(1, 50, 50), {}, &*t);
  EXPECT_THAT(page, HasSubstr("A language model of"));
  EXPECT_THAT(page, HasSubstr("<polyline"));
  std::ofstream(path) << "too short";
  EXPECT_THAT(std::string(TrainOnText(options).status().message()),
              HasSubstr("expected more than 40 characters, got 9"));
  options.path = path + ".none";
  EXPECT_EQ(TrainOnText(options).status().code(), StatusCode::kNotFound);
  std::filesystem::remove(path);
}

TEST(DemoTest, PngsContainTheirPixels) {
  const uint8_t pixels[] = {0, 128, 255, 7, 8, 9};
  const std::string png = EncodePng(pixels, 3, 2);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  const size_t data = png.find("IDAT") + 4;
  uint8_t rows[8];
  uLongf size = sizeof rows;
  ASSERT_EQ(
      uncompress(rows, &size, reinterpret_cast<const Bytef*>(png.data() + data),
                 png.size() - data),
      Z_OK);
  EXPECT_THAT(rows, ::testing::ElementsAre(0, 0, 128, 255, 0, 7, 8, 9));
}

TEST(DemoTest, ErrorsDescribeInvalidData) {
  const std::filesystem::path dir =
      std::filesystem::path(::testing::TempDir()) / "demo_test_data";
  std::filesystem::create_directories(dir);
  EXPECT_EQ(LoadFashionMnist((dir / "none").string()).status().code(),
            StatusCode::kNotFound);
  std::ofstream(dir / "train-images-idx3-ubyte.gz") << "no idx file at all";
  EXPECT_THAT(std::string(LoadFashionMnist(dir.string()).status().message()),
              HasSubstr("expected idx magic 2051"));
  std::filesystem::remove_all(dir);
}

TEST(DemoTest, ErrorsSetExitCodes) {
  EXPECT_EQ(Demo({"--no-such-option"}), 2);
  EXPECT_EQ(Demo({"--epochs", "0"}), 2);
  EXPECT_EQ(Demo({"--data", "/no/such/folder"}), 1);
  EXPECT_EQ(Demo({"--help"}), 0);
}

}  // namespace
}  // namespace sluice::demo
