#include "train/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "client/operators.h"
#include "client/partitioned_variables.h"
#include "sluice/ops.h"
#include "train/saver.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A checkpoint of a matrix whose rows are the words a, b, c, and of its
// transpose.
class WarmStartTest : public ::testing::Test {
 protected:
  WarmStartTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_warm_start_" + std::to_string(getpid()))),
        use_(g_) {
    std::filesystem::create_directories(folder_);
    Graph old;
    const WithGraph use_old(old);
    const Tensor rows = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
    const Var words(Constant(rows), "words");
    const Var columns(ops::Transpose(Constant(rows), {1, 0}), "columns");
    const Var bias(Constant(Tensor::Vector<double>({7, 8})), "bias");
    Session session(old);
    EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    EXPECT_TRUE(Saver().Save(session, Path("m")).ok());
    Write("old", "a\nb\nc\n");
    Write("new", "c\nd\na\n");
  }
  ~WarmStartTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  VocabularyChange Change() const {
    VocabularyChange change;
    change.new_vocabulary = Path("new");
    change.new_size = 3;
    change.old_vocabulary = Path("old");
    return change;
  }
  // The values after a warm start.
  std::vector<std::vector<float>> Started(
      const std::vector<WarmStartVariable>& variables) {
    Node* const start = WarmStart(Path("m"), variables);
    EXPECT_NE(start, nullptr) << g_.status();
    if (start == nullptr) return {};
    Session session(g_);
    const Status status = session.RunTargets({start});
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::vector<float>> values;
    for (const WarmStartVariable& v : variables)
      values.push_back(session.Run(v.variable)->ToVector<float>());
    return values;
  }

  const std::filesystem::path folder_;
  Graph g_;
  WithGraph use_;
};

TEST_F(WarmStartTest, WordsKeepTheirRows) {
  for (const bool reference : {false, true}) {
    const Var words(Zeros({3, 2}), "", {.reference = reference});
    const auto values = Started({{words, "words", Change()}});
    ASSERT_EQ(values.size(), 1u);
    EXPECT_THAT(values[0], ElementsAre(5, 6, 0, 0, 1, 2));
  }
}

TEST_F(WarmStartTest, NewWordsAndOthersGetOtherValues) {
  VocabularyChange change = Change();
  change.oov_rows = 1;
  change.old_size = 2;  // Only a and b.
  change.other_values = init::Constant(9);
  const Var words(Zeros({4, 2}), "w");
  const auto values = Started({{words, "words", change}});
  ASSERT_EQ(values.size(), 1u);
  EXPECT_THAT(values[0], ElementsAre(9, 9, 9, 9, 1, 2, 9, 9));
}

TEST_F(WarmStartTest, WordsMayBeColumns) {
  VocabularyChange change = Change();
  change.axis = 1;
  change.oov_rows = 1;
  const Var columns(Zeros({2, 4}), "columns");
  const auto values = Started({{columns, "", change}});
  ASSERT_EQ(values.size(), 1u);
  EXPECT_THAT(values[0], ElementsAre(5, 0, 1, 0, 6, 0, 2, 0));
}

TEST_F(WarmStartTest, PartsGetTheirRows) {
  VocabularyChange change = Change();
  change.oov_rows = 1;
  const PartitionedVar words =
      GetPartitionedVariable("words", {4, 2}, FixedSizePartitioner(2));
  ASSERT_EQ(words.parts().size(), 2u) << g_.status();
  const auto values = Started({{words.parts()[0], "words", change},
                               {words.parts()[1], "words", change}});
  ASSERT_EQ(values.size(), 2u);
  EXPECT_THAT(values[0], ElementsAre(5, 6, 0, 0));
  EXPECT_THAT(values[1], ElementsAre(1, 2, 0, 0));
  // Without a change, parts of the whole with the same rows.
  const PartitionedVar same =
      GetPartitionedVariable("columns", {2, 3}, FixedSizePartitioner(2));
  const auto halves = Started({{same.parts()[0]}, {same.parts()[1]}});
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_THAT(halves[0], ElementsAre(1, 3, 5));
  EXPECT_THAT(halves[1], ElementsAre(2, 4, 6));
}

TEST_F(WarmStartTest, WhatTheCheckpointLacksFailsTheStep) {
  const Var none(Zeros({2}), "none"), bias(Zeros({2}), "bias");
  Node* const missing = WarmStart(Path("m"), {{none}});
  Node* const other_type = WarmStart(Path("m"), {{bias}});
  VocabularyChange short_file = Change();
  short_file.new_size = 4;
  const Var words(Zeros({4, 2}), "w");
  Node* const too_few = WarmStart(Path("m"), {{words, "words", short_file}});
  Session session(g_);
  const Status status = session.RunTargets({missing});
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
  EXPECT_FALSE(session.RunTargets({other_type}).ok());
  EXPECT_THAT(std::string(session.RunTargets({too_few}).message()),
              HasSubstr("expected at least 4 lines, got 3"));
}

TEST_F(WarmStartTest, SizesMustBeThoseOfTheVocabulary) {
  const Var words(Zeros({5, 2}), "w");
  EXPECT_EQ(WarmStart(Path("m"), {{words, "words", Change()}}), nullptr);
  EXPECT_THAT(std::string(g_.status().message()),
              HasSubstr("expected rows for a vocabulary of 3 and 0 other "
                        "words, got 5; variable 'w'"));
}

}  // namespace
}  // namespace sluice
