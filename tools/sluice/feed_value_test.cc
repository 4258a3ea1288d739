// --feed: literals and files as values of an edge.
#include "tools/sluice/feed_value.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "io/npy.h"
#include "sluice/sluice.h"

namespace sluice::cli {
namespace {

using ::testing::HasSubstr;

// 2 x 1 pixels, RGB: (255, 0, 0), (0, 0, 51).
constexpr char kPng[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR42mP4zwAExgAGNAEz"
    "KmRXLgAAAABJRU5ErkJggg==";

class FeedValue : public ::testing::Test {
 protected:
  FeedValue() : use_(graph_) { std::filesystem::create_directories(dir_); }
  ~FeedValue() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  Result<Tensor> Read(DType dtype, const std::string& text,
                      const PartialShape& shape = PartialShape::Unknown(),
                      const FeedOptions& options = {}) {
    return ReadFeedValue(Placeholder(dtype, shape, "edge"), text, options);
  }
  void Gives(const Tensor& want, const std::string& text) {
    const Result<Tensor> got = Read(want.dtype(), text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_TRUE(got->Identical(want)) << text << ": " << got->ToString();
  }
  void Refuses(DType dtype, const std::string& text, const std::string& part,
               const PartialShape& shape = PartialShape::Unknown(),
               const FeedOptions& options = {}) {
    const Result<Tensor> got = Read(dtype, text, shape, options);
    ASSERT_FALSE(got.ok()) << text << ": " << got->ToString();
    const std::string message(got.status().message());
    EXPECT_THAT(message, HasSubstr(part));
    EXPECT_THAT(message, HasSubstr("--feed edge"));
    EXPECT_THAT(message, HasSubstr("(Placeholder)"));
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  std::string WriteArray(const std::string& name, const Tensor& t) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(WriteNpy(path, t).ok());
    return path;
  }
  std::string WritePng() {
    std::string bytes;
    EXPECT_TRUE(absl::Base64Unescape(kPng, &bytes));
    return Write("image.png", bytes);
  }

  const std::string dir_ =
      ::testing::TempDir() + "sluice_feed_" + std::to_string(getpid()) + "_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  Graph graph_;
  WithGraph use_;
};

TEST_F(FeedValue, NumbersTakeTheTypeOfTheEdge) {
  Gives(Tensor::Scalar<int32_t>(10), "10");
  Gives(Tensor::Scalar<int8_t>(-128), "-128");
  Gives(Tensor::Scalar<int32_t>(1000), "1e3");
  Gives(Tensor::Scalar<uint8_t>(255), "255");
  Gives(Tensor::Scalar<int64_t>(9223372036854775807), "9223372036854775807");
  Gives(Tensor::Scalar<uint64_t>(18446744073709551615u),
        "18446744073709551615");
  Gives(Tensor::Scalar(10.f), "10");
  Gives(Tensor::Scalar(0.1), "0.1");
  Gives(Tensor::Scalar(-0.5f), "-.5");
  Gives(Tensor::Scalar(half(1.5f)), "1.5");
  Gives(Tensor::Scalar(bfloat16(2.f)), "+2.0");
  Gives(Tensor::Scalar(complex64(1, -2)), "1-2j");
  Gives(Tensor::Scalar(complex64(1e-3f, 2)), "1e-3+2j");
  Gives(Tensor::Scalar(complex64(0, 3)), "3j");
  Gives(Tensor::Scalar(complex64(3, 0)), "3");
}

TEST_F(FeedValue, PrintedComplexNumbersAreAccepted) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const complex64 v :
       {complex64(1, -2), complex64(-0.5f, 0), complex64(0.1f, 1e-20f),
        complex64(-1e30f, -3e-7f), complex64(inf, -inf)}) {
    const Tensor t = Tensor::Scalar(v);
    Gives(t, t.Summarize(1));
  }
  const Tensor wide = Tensor::Scalar(complex128(0.1, -1e-300));
  Gives(wide, wide.Summarize(1));
  Gives(Tensor::Of<complex64>({2, 2}, {{1, 2}, {3, 0}, {0, 4}, {5, -6}}),
        "[[(1,2), 3], [4j, ( 5, -6)]]");
  for (const char* text : {"(1,2", "(1)", "()", "(,)", "(1,2,3)", "(1,2)3"})
    Refuses(DType::kComplex64, text, "expected a value");
  Refuses(DType::kFloat, "(1,2)", "expected a value of float, got '(1,2)'");
}

TEST_F(FeedValue, InfinityAndNanAreNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  Gives(Tensor::Vector<float>({inf, -inf, inf}), "[inf, -inf, Infinity]");
  const Result<Tensor> nan = Read(DType::kDouble, "nan");
  ASSERT_TRUE(nan.ok()) << nan.status();
  EXPECT_TRUE(std::isnan(nan->scalar<double>()));
  Refuses(DType::kInt32, "inf", "expected a value of int32, got 'inf'");
  Refuses(DType::kInt32, "nan", "expected a value of int32");
}

TEST_F(FeedValue, NestedListsDefineTheShape) {
  Gives(Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4}), "[[1,2],[3,4]]");
  Gives(Tensor::Of<float>({1, 2, 1}, {1, 2.5}), "[ [ [1], [2.5] ] ]");
  Gives(Tensor(DType::kFloat, Shape({0})), "[]");
  Gives(Tensor(DType::kFloat, Shape({2, 0})), "[[],[]]");
  Refuses(DType::kInt32, "[[1,2],[3]]",
          "expected lists of one length, got 2 and 1 elements at [1]");
  Refuses(DType::kInt32, "[1,[2]]", "got a list at [1]");
  Refuses(DType::kInt32, "[[1],2]", "got '2' at [1]");
  Refuses(DType::kInt32, "[1,2", "expected a value, lists of values");
  Refuses(DType::kInt32, "[1 2]", "expected a value, lists of values");
  Refuses(DType::kInt32, "", "expected a value, lists of values");
  Refuses(DType::kInt32, std::string(9, '[') + "1" + std::string(9, ']'),
          "nested at most 8 deep");
  Refuses(DType::kInt32, std::string(100000, '['), "expected a value, lists");
}

TEST_F(FeedValue, ParsesBooleansAndStrings) {
  Gives(Tensor::Scalar(true), "true");
  Gives(Tensor::Scalar(false), "False");
  Refuses(DType::kBool, "1", "expected true or false, got '1'");
  Refuses(DType::kInt32, "true", "expected a value of int32, got 'true'");
  Gives(Tensor::Scalar<std::string>("two words"), "two words");
  Gives(Tensor::Scalar<std::string>("10"), "10");
  Gives(Tensor::Scalar<std::string>(""), "");
  Gives(Tensor::Scalar<std::string>("[x.npy"), "\"[x.npy\"");
  Gives(Tensor::Scalar<std::string>("a\n\"b\""), R"("a\n\"b\"")");
  Gives(Tensor::Vector<std::string>({"a, b", "c", "3"}), R"(["a, b", c, 3])");
  Refuses(DType::kString, "\"open", "expected a value, lists");
  Refuses(DType::kFloat, "\"1\"", "expected a value of float, got '\"1\"'");
}

TEST_F(FeedValue, RejectsValuesOutsideTheType) {
  Refuses(DType::kInt32, "1.5", "expected a value of int32, got '1.5'");
  Refuses(DType::kUint8, "300", "expected a value of uint8, got '300'");
  Refuses(DType::kUint8, "-1", "expected a value of uint8, got '-1'");
  Refuses(DType::kInt32, "[1, 3e9]", "got '3e9' at [1]");
  Refuses(DType::kInt64, "9223372036854775808", "expected a value of int64");
  Refuses(DType::kUint64, "18446744073709551616", "expected a value of uint64");
  Refuses(DType::kFloat, "1e39", "expected a value of float, got '1e39'");
  Refuses(DType::kDouble, "1e999", "expected a value of double");
  Refuses(DType::kHalf, "70000", "expected a value of half");
  Refuses(DType::kFloat, "abc", "expected a value of float, got 'abc'");
  Refuses(DType::kInt32, "10", "expected shape [?,2], got []", {-1, 2});
  Refuses(DType::kInt32, "[[1]]", "expected shape [?,2], got [1,1]", {-1, 2});
  Refuses(DType::kResource, "10", "expected an edge of numbers");
}

TEST_F(FeedValue, ArraysAreConvertedWithoutLoss) {
  Gives(Tensor::Vector<float>({1, 0.5}),
        WriteArray("d.npy", Tensor::Vector<double>({1, 0.5})));
  Gives(Tensor::Vector<uint8_t>({1, 255}),
        WriteArray("i.npy", Tensor::Vector<int64_t>({1, 255})));
  Gives(Tensor::Vector<complex128>({complex128(1, 0)}),
        WriteArray("c.npy", Tensor::Vector<float>({1})));
  Refuses(DType::kUint8,
          WriteArray("big.npy", Tensor::Vector<int64_t>({1, 256})),
          "got 256 (int64, element 1)");
  Refuses(DType::kInt32, WriteArray("f.npy", Tensor::Vector<float>({1.5})),
          "got 1.5 (float, element 0)");
  Refuses(DType::kFloat,
          WriteArray("s.npy", Tensor::Vector<std::string>({"x"})),
          "expected values of float, got string[1]");
  Refuses(DType::kInt32, WriteArray("b.npy", Tensor::Vector<bool>({true})),
          "got bool[1]");
}

TEST_F(FeedValue, FilesAreRecognizedByExtensionOrAtSign) {
  const std::string ten = WriteArray("10", Tensor::Scalar<int32_t>(3));
  const auto back = std::filesystem::current_path();
  std::filesystem::current_path(dir_);
  Gives(Tensor::Scalar<int32_t>(10), "10");
  Gives(Tensor::Scalar<int32_t>(3), "@10");
  WriteArray("data", Tensor::Scalar<int32_t>(3));
  Refuses(DType::kInt32, "data", "the file of that name is @data");
  Gives(Tensor::Scalar<std::string>("data"), "data");
  std::filesystem::current_path(back);
  Gives(Tensor::Scalar<int32_t>(3), "@" + ten);
  Refuses(DType::kInt32, "none.npy", "'none.npy': No such file");
  Refuses(DType::kInt32, "@" + dir_, "the folder");
  Refuses(DType::kInt32, Write("e.npy", ""), "an empty file");
  Refuses(DType::kInt32, Write("t.png", "text"), "4 bytes of another format");
  Refuses(DType::kInt32, Write("a.npz", "PK\3\4...."), "an archive");
  Refuses(DType::kInt32, Write("g.gif", "GIF89a"), "GIF: expected a complete");
}

TEST_F(FeedValue, ImagesTakeRankAndChannelsOfTheEdge) {
  const std::string png = WritePng();
  const auto gives = [&](const PartialShape& shape, const Tensor& want,
                         const FeedOptions& options = {}) {
    const Result<Tensor> got = Read(want.dtype(), png, shape, options);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->Identical(want)) << got->ToString();
  };
  const std::vector<uint8_t> rgb = {255, 0, 0, 0, 0, 51};
  gives(PartialShape(), Tensor::Of<uint8_t>({1, 2, 3}, rgb));
  gives({-1, -1, -1}, Tensor::Of<uint8_t>({1, 2, 3}, rgb));
  gives({-1, -1, -1, 3}, Tensor::Of<uint8_t>({1, 1, 2, 3}, rgb));
  gives({-1, 1, 2, 4},
        Tensor::Of<int32_t>({1, 1, 2, 4}, {255, 0, 0, 255, 0, 0, 51, 255}));
  gives({1, 2, 1}, Tensor::Of<uint8_t>({1, 2, 1}, {76, 5}));
  gives({-1, -1}, Tensor::Of<float>({1, 2}, {76, 5}));
  gives({1, 2, 3},
        Tensor::Of<float>({1, 2, 3}, {0.5, -0.5, -0.5, -0.5, -0.5, -0.3f}),
        {.image_range = {{-0.5, 0.5}}});
  // A string edge takes the file's bytes, to be decoded in the graph.
  const Result<Tensor> bytes = Read(DType::kString, png);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->scalar<std::string>(), *ReadFile(png));
  Refuses(DType::kUint8, png, "expected shape [?,28,28,1], got [1,1,2,1]",
          {-1, 28, 28, 1});
  Refuses(DType::kUint8, png, "whose last dimension is 1 to 4 channels",
          {-1, 28, 28});
  Refuses(DType::kUint8, png, "for an image, got one of [784]", {784});
  Refuses(DType::kInt8, png, "expected values of int8, got 255");
  Refuses(DType::kUint8, png, "expected a floating edge for --image-range",
          PartialShape(), {.image_range = {{0, 1}}});
}

}  // namespace
}  // namespace sluice::cli
