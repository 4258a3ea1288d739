#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "graph/builder.h"
#include "io/file.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Skipgram : public ::testing::Test {
 protected:
  ~Skipgram() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) {
    path_ = ::testing::TempDir() + "skipgram_text" + std::to_string(getpid());
    ASSERT_TRUE(WriteFile(path_, text).ok());
  }
  std::vector<Output> Of(int64_t batch, int64_t window, int64_t min_count,
                         float subsample) {
    Node* n = BuildNode("Skipgram", {},
                        {{"filename", path_},
                         {"batch_size", batch},
                         {"window_size", window},
                         {"min_count", min_count},
                         {"subsample", subsample}});
    std::vector<Output> out;
    for (int i = 0; i < 7; ++i) out.emplace_back(n, i);
    return out;
  }

  std::string path_;
  Graph graph_;
  const WithGraph use_{graph_};
};

TEST_F(Skipgram, CountsWordsAndPairsNeighbors) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a b\nc  d\te f g h ";
  Write(text + "rare");
  const std::vector<Output> out = Of(4000, 2, 5, 0);
  Session s(graph_);
  const Result<std::vector<Tensor>> got = s.Run({}, out);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].ToVector<std::string>(),
              ElementsAre("UNK", "a", "b", "c", "d", "e", "f", "g", "h"));
  EXPECT_THAT((*got)[1].ToVector<int32_t>(),
              ElementsAre(1, 100, 100, 100, 100, 100, 100, 100, 100));
  EXPECT_EQ((*got)[2].scalar<int64_t>(), 801);
  EXPECT_GE((*got)[3].scalar<int32_t>(), 1);  // A sentence is 1,000 words.
  EXPECT_GT((*got)[4].scalar<int64_t>(), 1000);
  // The eight words repeat, except for a rare one in every 801.
  int near = 0;
  for (int i = 0; i < 4000; ++i) {
    const int32_t a = (*got)[5].data<int32_t>()[i],
                  b = (*got)[6].data<int32_t>()[i];
    const int apart = std::abs(a - b);
    near += a != 0 && b != 0 && apart >= 1 && std::min(apart, 8 - apart) <= 2;
  }
  EXPECT_GT(near, 3900);
  EXPECT_LE(near, 4000);
}

TEST_F(Skipgram, DropsFrequentWords) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "the the the the the the the the other ";
  Write(text);
  const std::vector<Output> all = Of(3000, 1, 1, 0),
                            some = Of(3000, 1, 1, .01f);
  Session s(graph_);
  const Result<std::vector<Tensor>> got = s.Run({}, {all[5], some[5]});
  ASSERT_TRUE(got.ok()) << got.status();
  const auto others = [&](size_t i) {
    const std::vector<int32_t> v = (*got)[i].ToVector<int32_t>();
    return std::count(v.begin(), v.end(), 2);
  };
  EXPECT_GT(others(1), 3 * others(0) / 2);
}

TEST_F(Skipgram, RejectsInvalidInputs) {
  Write("few words");
  EXPECT_THAT(
      std::string(
          Session(graph_).Run({}, {Of(1, 5, 1, 0)[5]}).status().message()),
      HasSubstr("filename: expected a text of at least 50 words, got 2"));
  EXPECT_FALSE(Session(graph_).Run({}, {Of(-1, 5, 1, 0)[5]}).ok());
  EXPECT_FALSE(Session(graph_).Run({}, {Of(1, 0, 1, 0)[5]}).ok());
  std::filesystem::remove(path_);
  EXPECT_EQ(Session(graph_).Run({}, {Of(1, 5, 1, 0)[5]}).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
