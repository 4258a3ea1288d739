#include "io/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "io/file.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// Gives at most `most` bytes at a time.
class SlowSource final : public ByteSource {
 public:
  SlowSource(std::string bytes, size_t most)
      : bytes_(MakeMemorySource(std::move(bytes))), most_(most) {}
  Result<size_t> Read(char* to, size_t n) override {
    return bytes_->Read(to, std::min(n, most_));
  }

 private:
  const std::unique_ptr<ByteSource> bytes_;
  const size_t most_;
};

std::vector<std::string> LinesOf(std::string text, size_t most = 1 << 20) {
  BufferedBytes bytes(std::make_unique<SlowSource>(std::move(text), most));
  std::vector<std::string> lines;
  std::string_view line;
  for (;;) {
    const Result<bool> more = bytes.ReadLine(&line, 1 << 30);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return lines;
    lines.emplace_back(line);
  }
}

TEST(BufferedBytesTest, LinesEndInLineFeedsOrTheEnd) {
  EXPECT_THAT(LinesOf(""), ElementsAre());
  EXPECT_THAT(LinesOf("\n"), ElementsAre(""));
  EXPECT_THAT(LinesOf("a\n\nb"), ElementsAre("a", "", "b"));
  // Of carriage returns only the one before the end of a line belongs to it.
  EXPECT_THAT(LinesOf("a\r\n\rb\r\r\nc\r"), ElementsAre("a", "\rb\r", "c"));
  EXPECT_THAT(LinesOf("a\n\r"), ElementsAre("a"));
}

TEST(BufferedBytesTest, LinesAreTheSameHoweverTheBytesArrive) {
  std::mt19937 rng(5);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text.append(rng() % 8 == 0 ? rng() % 3000 : rng() % 9, 'x');
    text.append(rng() % 4 == 0 ? "\r\n" : "\n");
  }
  text.append(400'000, 'y');
  const std::vector<std::string> lines = LinesOf(text);
  EXPECT_EQ(lines.size(), 401u);
  for (const size_t most : {1, 7, 4096, 100'000})
    EXPECT_EQ(LinesOf(text, most), lines) << most;
}

TEST(BufferedBytesTest, ALineThatIsTooLongIsAnError) {
  BufferedBytes bytes(MakeMemorySource("abc\nabcd\n"));
  std::string_view line;
  EXPECT_TRUE(bytes.ReadLine(&line, 3).ok());
  EXPECT_EQ(bytes.ReadLine(&line, 3).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(BufferedBytesTest, WhatIsConsumedIsTheSource) {
  std::mt19937 rng(11);
  std::string all(700'000, '\0');
  for (char& c : all) c = static_cast<char>(rng());
  for (const size_t most : {997, 1 << 20}) {
    BufferedBytes bytes(std::make_unique<SlowSource>(all, most));
    size_t at = 0;
    while (at < all.size()) {
      EXPECT_EQ(bytes.offset(), static_cast<int64_t>(at));
      size_t n = rng() % (rng() % 5 == 0 ? 150'000 : 300);
      if (rng() % 3 == 0) {
        const Result<int64_t> skipped = bytes.Skip(static_cast<int64_t>(n));
        ASSERT_TRUE(skipped.ok()) << skipped.status();
        ASSERT_EQ(*skipped, static_cast<int64_t>(std::min(n, all.size() - at)));
        n = static_cast<size_t>(*skipped);
      } else {
        ASSERT_TRUE(bytes.Fill(n).ok());
        n = std::min(n, all.size() - at);
        ASSERT_EQ(bytes.ahead().substr(0, n),
                  std::string_view(all).substr(at, n));
        bytes.Consume(n);
      }
      at += n;
    }
    ASSERT_TRUE(bytes.Fill(1).ok());
    EXPECT_TRUE(bytes.ahead().empty());
  }
}

TEST(ByteSourceTest, FilesAndOtherSourcesSkipAlike) {
  const std::string path =
      "/tmp/sluice_byte_source_" + std::to_string(getpid());
  ASSERT_TRUE(WriteFile(path, "0123456789").ok());
  for (const bool file : {true, false}) {
    auto source = file ? *OpenFileSource(path) : MakeMemorySource("0123456789");
    char c = 0;
    EXPECT_EQ(*source->Skip(4), 4);
    ASSERT_EQ(*source->Read(&c, 1), 1u);
    EXPECT_EQ(c, '4');
    EXPECT_EQ(*source->Skip(100), 5);
    EXPECT_EQ(*source->Read(&c, 1), 0u);
    EXPECT_EQ(*source->Skip(1), 0);
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace sluice
