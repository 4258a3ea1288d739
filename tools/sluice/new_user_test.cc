// The command as a new user takes it up: graphs that a program wrote to files,
// run, shown and made smaller, with numbers checked against plain computations.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "sluice/sluice.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

using ::testing::EndsWith;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;
using ::testing::StartsWith;

// A folder of its own for each test, and the command's output.
class NewUserOfCommand : public ::testing::Test {
 protected:
  struct Answer {
    int code;
    std::string out, err;
  };

  NewUserOfCommand() : use_(graph_) {
    std::filesystem::create_directories(dir_);
  }
  ~NewUserOfCommand() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  Answer Sluice(std::vector<std::string> args) {
    args.insert(args.begin(), "sluice");
    std::vector<char*> argv;
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = Main(static_cast<int>(args.size()), argv.data());
    std::fflush(stdout);
    std::string out = ::testing::internal::GetCapturedStdout();
    return {code, out, ::testing::internal::GetCapturedStderr()};
  }
  // What a run that succeeds prints.
  std::string Run(const std::string& graph, std::vector<std::string> args) {
    args.insert(args.begin(), {"run", graph});
    const Answer a = Sluice(std::move(args));
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_EQ(a.err, "");
    return a.out;
  }
  // Runs, and reads one fetched value back.
  Tensor Fetch(const std::string& graph, const std::string& name,
               std::vector<std::string> args) {
    args.insert(args.end(), {"--fetch", name, "--out", dir_});
    Run(graph, std::move(args));
    const Result<Tensor> value = ReadNpy(dir_ + "/" + name + ".npy");
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value : Tensor();
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  // The graph as it is by now; as text if the name says so.
  std::string Save(const std::string& name) {
    Result<std::string> bytes = ExportGraphDef(graph_);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (bytes.ok() && IsTextFile(name)) bytes = PrintTextGraphDef(*bytes);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return Write(name, bytes.value_or(""));
  }

  // An RGB image as a PNG file; `pixels` are its rows, one after another.
  static std::string Png(uint32_t width, uint32_t height,
                         const std::vector<uint8_t>& pixels) {
    const auto number = [](uint32_t v) {
      return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16),
                         static_cast<char>(v >> 8), static_cast<char>(v)};
    };
    const auto chunk = [&](const std::string& type, const std::string& data) {
      const std::string body = type + data;
      const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                             static_cast<uInt>(body.size()));
      return number(static_cast<uint32_t>(data.size())) + body +
             number(static_cast<uint32_t>(crc));
    };
    std::string rows;
    for (uint32_t y = 0; y < height; ++y) {
      rows += '\0';  // No filter.
      for (uint32_t i = 0; i < 3 * width; ++i)
        rows += static_cast<char>(pixels[y * 3 * width + i]);
    }
    uLongf size = compressBound(static_cast<uLong>(rows.size()));
    std::string packed(size, '\0');
    compress(reinterpret_cast<Bytef*>(packed.data()), &size,
             reinterpret_cast<const Bytef*>(rows.data()),
             static_cast<uLong>(rows.size()));
    packed.resize(size);
    const std::string header =
        number(width) + number(height) + std::string("\x08\x02\0\0\0", 5);
    return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) +
           chunk("IEND", "");
  }

  const std::string dir_ =
      ::testing::TempDir() + "sluice_new_user_" + std::to_string(getpid()) +
      "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  Graph graph_;
  WithGraph use_;
};

// ---- A loop, fed from the command line --------------------------------------

TEST_F(NewUserOfCommand, RunsAndShowsALoopOverAConditional) {
  // Collatz: how many steps to 1, and the highest number on the way.
  Output n = Placeholder<int32_t>({}, "n");
  auto [steps, last, peak] = While(
      std::tuple{0, n, n}, [](Output, Output v, Output) { return v != 1; },
      [](Output steps, Output v, Output peak) {
        Output next = Cond(
            v % 2 == 0, [&] { return v / 2; }, [&] { return 3 * v + 1; },
            "even");
        return std::tuple{steps + 1, next, ops::Maximum(peak, next)};
      },
      {.maximum_iterations = 1000, .name = "collatz"});
  ops::Identity(steps, {.name = "steps"});
  ops::Identity(peak, {.name = "peak"});
  const std::string binary = Save("collatz.pb"), text = Save("collatz.pbtxt");

  for (const int start : {1, 6, 27, 97}) {
    int count = 0, highest = start;
    for (int v = start; v != 1; ++count) {
      v = v % 2 == 0 ? v / 2 : 3 * v + 1;
      highest = std::max(highest, v);
    }
    const std::string want = absl::StrCat("steps: int32[] ", count,
                                          "\npeak: int32[] ", highest, "\n");
    const std::vector<std::string> args = {"--feed",  absl::StrCat("n=", start),
                                           "--fetch", "steps",
                                           "--fetch", "peak",
                                           "--seed",  "3"};
    EXPECT_EQ(Run(binary, args), want);
    EXPECT_EQ(Run(text, args), want);
  }

  const Answer wrong =
      Sluice({"run", binary, "--feed", "n=1.5", "--fetch", "steps"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, StartsWith("sluice: --feed n:0 (int32[]): expected a "
                                    "value of int32, got '1.5'; node 'n'"));
  const Answer misspelt =
      Sluice({"run", binary, "--feed", "n=1", "--fetch", "stpes"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("--fetch: expected a node of the graph, "
                                      "got 'stpes'; nearest: steps"));

  const Answer shown = Sluice({"show", text});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out, Sluice({"show", binary}).out);
  EXPECT_THAT(shown.out, HasSubstr("\n┌ while collatz "));
  EXPECT_THAT(shown.out, HasSubstr("\n│ ┌ if "));
  EXPECT_THAT(shown.out, HasSubstr("\n│ ┌ if not "));
  EXPECT_THAT(shown.out, Not(HasSubstr("<unknown>")));
  EXPECT_THAT(shown.out, HasSubstr("\npeak = Identity(collatz/Exit_"));
}

// ---- Training, a step at a time ---------------------------------------------

TEST_F(NewUserOfCommand, TrainsOnTwoDevicesAndFoldsTheGradients) {
  // y = softplus(x w) of two features, one step of gradient descent.
  const std::vector<float> xs = {1, 2, -1, 0.5f, 0, -2}, ys = {1, 0.5f, 2};
  const std::vector<float> begin = {0.25f, -0.5f};
  Output x = Placeholder<float>({-1, 2}, "x"),
         y = Placeholder<float>({-1}, "y");
  Var w(Tensor::Of<float>({2, 1}, begin), "w");
  Output guess;
  {
    const DeviceScope second("/device:CPU:1");
    guess = ops::Softplus(ops::Reshape(ops::MatMul(x, w), {-1}));
  }
  Output error = guess - y;
  Output loss = ops::Mean(error * error, 0, {.name = "loss"});
  Node* train = GradientDescentOptimizer(0.1).Minimize(loss, {.name = "train"});
  GlobalVariablesInitializer();
  {
    const ControlDependencies trained({train});
    ops::Identity(w.Read(), {.name = "trained"});
  }
  const std::string graph = Save("train.pb");

  float mean = 0;
  std::vector<float> want = begin;
  for (size_t i = 0; i < ys.size(); ++i) {
    const float z = xs[2 * i] * begin[0] + xs[2 * i + 1] * begin[1];
    const float e = std::log1p(std::exp(z)) - ys[i];
    mean += e * e / 3;
    for (size_t j = 0; j < 2; ++j)
      want[j] -= 0.1f * 2 / 3 * e * xs[2 * i + j] / (1 + std::exp(-z));
  }
  const std::vector<std::string> feeds = {
      "--init", "init",         "--feed", "x=[[1, 2], [-1, 0.5], [0, -2]]",
      "--feed", "y=[1, 0.5, 2]"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), feeds.begin(), feeds.end());
    return more;
  };
  for (const char* devices : {"2", "cpu=2", "cpu=2,emu=1(kernel_us=1)"}) {
    EXPECT_THAT(
        Fetch(graph, "trained", with({"--devices", devices})).ToVector<float>(),
        Pointwise(FloatNear(1e-6f), want))
        << devices;
    EXPECT_NEAR(
        Fetch(graph, "loss", with({"--devices", devices})).scalar<float>(),
        mean, 1e-6f);
  }

  // On one device there is no second; without its initialiser no value.
  std::vector<std::string> args = with({"--fetch", "loss"});
  args.insert(args.begin(), {"run", graph});
  const Answer one = Sluice(args);
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.err, HasSubstr("device: expected one of "));
  EXPECT_THAT(one.err, HasSubstr(", got '/device:CPU:1'; node '"));
  args.erase(args.begin() + 2, args.begin() + 4);  // --init init
  args.insert(args.end(), {"--devices", "2"});
  const Answer empty = Sluice(args);
  EXPECT_EQ(empty.code, 1);
  EXPECT_THAT(empty.err, HasSubstr("variable 'w': expected a value, got an "
                                   "uninitialized variable"));

  const Answer folded = Sluice({"show", graph, "--devices", "2"});
  EXPECT_EQ(folded.code, 0);
  EXPECT_THAT(folded.err, EndsWith("--gradients shows them\n"));
  EXPECT_THAT(folded.out, HasSubstr("\n┌ gradients   ("));
  EXPECT_THAT(folded.out, Not(HasSubstr("SoftplusGrad(")));
  EXPECT_THAT(folded.out, HasSubstr("\n  CPU:1 "));
  const Answer open = Sluice({"show", graph, "--gradients"});
  EXPECT_EQ(open.code, 0);
  EXPECT_EQ(open.err, "");
  EXPECT_THAT(open.out, HasSubstr("SoftplusGrad("));
}

// ---- Images -----------------------------------------------------------------

TEST_F(NewUserOfCommand, ClassifiesAnImageInFloatAndInt8) {
  // A convolution with random filters, the mean over the image, and a layer.
  constexpr int kFilters = 8, kClasses = 3, kWidth = 6, kHeight = 5;
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  const auto draw = [&](const Shape& shape) {
    Tensor t(DType::kFloat, shape);
    for (float& v : t.flat<float>()) v = 0.5f * normal(random);
    return t;
  };
  const Tensor filter = draw({3, 3, 3, kFilters});
  const Tensor last = draw({kFilters, kClasses});
  Output image = Placeholder<float>({-1, -1, -1, 3}, "image");
  Output features = ops::Relu(ops::Conv2D(image, Constant(filter), {1, 1, 1, 1},
                                          "VALID", {.name = "conv"}));
  Output pooled = ops::Mean(features, {1, 2});
  ops::MatMul(pooled, Constant(last), {.name = "scores"});
  const std::string graph = Save("classifier.pb");

  std::vector<uint8_t> pixels(3 * kWidth * kHeight);
  for (uint8_t& p : pixels) p = static_cast<uint8_t>(random() % 256);
  const std::string png = Write("image.png", Png(kWidth, kHeight, pixels));

  std::vector<float> want(kClasses);
  const float* f = filter.data<float>();
  for (int k = 0; k < kFilters; ++k) {
    double mean = 0;
    for (int y = 0; y + 3 <= kHeight; ++y)
      for (int x = 0; x + 3 <= kWidth; ++x) {
        double sum = 0;
        for (int i = 0; i < 27; ++i) {
          const int row = y + i / 9, column = x + i / 3 % 3, channel = i % 3;
          sum += f[i * kFilters + k] / 255 *
                 pixels[3 * (row * kWidth + column) + channel];
        }
        mean += std::max(sum, 0.0) / ((kHeight - 2) * (kWidth - 2));
      }
    for (int c = 0; c < kClasses; ++c)
      want[c] +=
          static_cast<float>(mean) * last.data<float>()[k * kClasses + c];
  }
  const std::vector<std::string> feed = {"--feed", "image=" + png,
                                         "--image-range", "0,1"};
  const Tensor scores = Fetch(graph, "scores", feed);
  EXPECT_EQ(scores.shape(), Shape({1, kClasses}));
  EXPECT_THAT(scores.ToVector<float>(), Pointwise(FloatNear(1e-5f), want));
  // Without a range the pixels are 0 to 255: the network is linear in them.
  std::vector<float> bright;
  for (float v : want) bright.push_back(255 * v);
  EXPECT_THAT(
      Fetch(graph, "scores", {"--feed", "image=" + png}).ToVector<float>(),
      Pointwise(FloatNear(2e-3f), bright));

  // In bytes, calibrated with the image and with random ones.
  Tensor examples(DType::kFloat, {32, kHeight, kWidth, 3});
  std::uniform_real_distribution<float> uniform(0, 1);
  for (float& v : examples.flat<float>()) v = uniform(random);
  for (size_t i = 0; i < pixels.size(); ++i)
    examples.data<float>()[i] = static_cast<float>(pixels[i]) / 255;
  ASSERT_TRUE(WriteNpy(dir_ + "/x.npy", examples).ok());
  const std::string small = dir_ + "/int8.pbtxt";
  const Answer quantized =
      Sluice({"quantize", graph, "--feed", "image=" + dir_ + "/x.npy",
              "--fetch", "scores", "--out", small});
  ASSERT_EQ(quantized.code, 0) << quantized.err;
  EXPECT_THAT(quantized.out, HasSubstr("int8   conv\n"));
  EXPECT_THAT(quantized.out, HasSubstr("int8   scores\n"));
  const Tensor in_bytes = Fetch(small, "scores", feed);
  EXPECT_FALSE(in_bytes.Identical(scores));
  EXPECT_THAT(in_bytes.ToVector<float>(), Pointwise(FloatNear(0.05f), want));
  EXPECT_THAT(Sluice({"show", small}).out, HasSubstr("QuantizedConv2D"));

  const Answer damaged =
      Sluice({"run", graph, "--fetch", "scores", "--feed",
              "image=" + Write("cut.png",
                               Png(kWidth, kHeight, pixels).substr(0, 60))});
  EXPECT_EQ(damaged.code, 2);
  EXPECT_THAT(damaged.err, HasSubstr("cut.png"));
  EXPECT_THAT(damaged.err, HasSubstr("node 'image'"));
}

}  // namespace
}  // namespace sluice::cli
