// Checks what the examples whose structure depends on the data find. (Python's
// twins are checked by python/tests/test_examples.py.)
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "cluster/testing/child_process_test_util.h"
#include "io/file.h"

namespace sluice {
namespace {

class StructureExamples : public ::testing::Test {
 protected:
  StructureExamples() { std::filesystem::create_directories(dir_); }
  ~StructureExamples() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  // Runs a built example and keeps its output in `said_`.
  void Run(const std::string& name, const std::vector<std::string>& arguments) {
    std::error_code ignored;
    const auto folder =
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    ChildProcess child(folder / ("example_" + name), arguments, {},
                       dir_ + "/out");
    code_ = child.Wait();
    said_ = ReadFile(dir_ + "/out").value_or("");
  }
  // The first group of all matches of the expression in the output.
  std::vector<double> Numbers(const std::string& expression) {
    std::vector<double> numbers;
    const std::regex regex(expression);
    for (std::sregex_iterator it(said_.begin(), said_.end(), regex), end;
         it != end; ++it)
      numbers.push_back(std::atof((*it)[1].str().c_str()));
    EXPECT_EQ(code_, 0) << said_;
    EXPECT_FALSE(numbers.empty()) << "no " << expression << " in " << said_;
    if (numbers.empty()) numbers.push_back(-1);
    return numbers;
  }

  const std::string dir_ = ::testing::TempDir() + "sluice_structure_examples_" +
                           std::to_string(getpid());
  int code_ = -1;
  std::string said_;
};

TEST_F(StructureExamples, SentimentIsComposedAlongTrees) {
  Run("tree_lstm", {"binary", "store"});
  EXPECT_GT(Numbers("accuracy ([0-9.]+)").back(), 0.9) << said_;
  Run("tree_lstm", {"child_sum", "store"});
  EXPECT_GT(Numbers("accuracy ([0-9.]+)").back(), 0.85) << said_;
}

TEST_F(StructureExamples, TreesAreReadFromFiles) {
  std::string trees;
  for (const char* opinion : {"(4 good)", "(0 bad)"})
    for (const char* thing : {"(2 film)", "(2 plot)", "(2 cast)"})
      for (int i = 0; i < 20; ++i)
        trees +=
            std::string("(") + opinion[1] + " " + thing + " " + opinion + ")\n";
  ASSERT_TRUE(WriteFile(dir_ + "/train", trees).ok());
  ASSERT_TRUE(
      WriteFile(dir_ + "/test", "(4 (2 book) (4 good))(0 (2 book) (0 bad))")
          .ok());
  Run("tree_lstm",
      {"binary", "calls", "--file", dir_ + "/train", dir_ + "/test"});
  EXPECT_EQ(Numbers("accuracy ([0-9.]+)").back(), 1) << said_;
  ASSERT_TRUE(WriteFile(dir_ + "/test", "(2 (2 film))").ok());
  Run("tree_lstm",
      {"binary", "calls", "--file", dir_ + "/train", dir_ + "/test"});
  EXPECT_EQ(code_, 1) << said_;
  EXPECT_NE(said_.find("/test:1:12: node: expected a word or two children"),
            std::string::npos)
      << said_;
}

TEST_F(StructureExamples, ABeamFindsTheLikeliestWord) {
  Run("beam_search", {});
  const std::vector<double> found = Numbers("likeliest word of (\\d+) in 20");
  ASSERT_EQ(found.size(), 2u) << said_;
  EXPECT_LT(found[0], 10) << said_;
  EXPECT_EQ(found[1], 20) << said_;
  EXPECT_LT(Numbers("in (\\d+) to \\d+ steps").back(),
            Numbers("in \\d+ to (\\d+) steps").back())
      << said_;
}

TEST_F(StructureExamples, LookingFurtherFindsThePerfectMoves) {
  Run("game_tree", {});
  const std::vector<double> perfect = Numbers("(\\d+)% of the moves");
  ASSERT_EQ(perfect.size(), 4u) << said_;
  EXPECT_LT(perfect[0], 95) << said_;
  EXPECT_GE(perfect[2], 95) << said_;
  EXPECT_EQ(perfect[3], 100) << said_;
}

TEST_F(StructureExamples, AGraphLstmFindsPaths) {
  Run("graph_lstm", {});
  EXPECT_GT(Numbers("accuracy ([0-9.]+)").back(), 0.95) << said_;
}

TEST_F(StructureExamples, WhatThinkingCostsDecidesHowLongItLasts) {
  Run("adaptive_computation", {"0.001"});
  const double cheap = Numbers("([0-9.]+) thoughts").back();
  Run("adaptive_computation", {"0.05"});
  EXPECT_LT(Numbers("([0-9.]+) thoughts").back(), 0.75 * cheap) << said_;
}

}  // namespace
}  // namespace sluice
