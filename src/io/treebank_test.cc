#include "io/treebank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "io/file.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TreebankTest, ChildrenPrecedeParentsAndSentencesFollowEachOther) {
  const auto bank = ParseTreebank(
      "(3 (2 The) (4 (3 great) (2 film)))\n"
      "(2 film)\r\n"
      "\t( 0 (1 The)\n\n (0 awful) )");
  ASSERT_TRUE(bank.ok()) << bank.status();
  EXPECT_THAT(bank->left, ElementsAre(-1, -1, -1, 1, 0, -1, -1, -1, 6));
  EXPECT_THAT(bank->right, ElementsAre(-1, -1, -1, 2, 3, -1, -1, -1, 7));
  EXPECT_THAT(bank->word, ElementsAre(0, 1, 2, -1, -1, 2, 0, 3, -1));
  EXPECT_THAT(bank->label, ElementsAre(2, 3, 2, 4, 3, 2, 1, 0, 0));
  EXPECT_THAT(bank->roots, ElementsAre(4, 5, 8));
  EXPECT_THAT(bank->words, ElementsAre("The", "great", "film", "awful"));
}

TEST(TreebankTest, ATextOfSpacesHasNoTrees) {
  for (const char* text : {"", " \n\t\r\n"}) {
    const auto bank = ParseTreebank(text);
    ASSERT_TRUE(bank.ok()) << bank.status();
    EXPECT_THAT(bank->roots, IsEmpty());
    EXPECT_THAT(bank->label, IsEmpty());
    EXPECT_THAT(bank->words, IsEmpty());
  }
}

TEST(TreebankTest, WordsKeepTheirBytes) {
  const auto bank =
      ParseTreebank("(2 (2 -LRB-) (2 (2 J\xc3\xb6rg\\/\xff) (2 12)))");
  ASSERT_TRUE(bank.ok()) << bank.status();
  EXPECT_THAT(bank->words, ElementsAre("-LRB-", "J\xc3\xb6rg\\/\xff", "12"));
}

TEST(TreebankTest, AVocabularyNumbersTheWordsAndOthersAreUnknown) {
  TreebankOptions options;
  options.vocabulary = {"film", "great", "unused"};
  const auto bank =
      ParseTreebank("(3 (2 The) (4 (3 great) (2 film)))", options);
  ASSERT_TRUE(bank.ok()) << bank.status();
  EXPECT_THAT(bank->word, ElementsAre(3, 1, 0, -1, -1));
  EXPECT_EQ(bank->words, options.vocabulary);
  options.vocabulary.push_back("film");
  EXPECT_EQ(ParseTreebank("", options).status().message(),
            "treebank: vocabulary: expected each word once, got 'film' twice");
}

TEST(TreebankTest, LabelsMayBeMore) {
  TreebankOptions options;
  options.labels = 11;
  const auto bank = ParseTreebank("(10 a)", options);
  ASSERT_TRUE(bank.ok()) << bank.status();
  EXPECT_THAT(bank->label, ElementsAre(10));
  options.labels = 0;
  EXPECT_EQ(ParseTreebank("", options).status().message(),
            "treebank: labels: expected at least 1, got 0");
}

TEST(TreebankTest, MistakesAreToldWithTheirPlace) {
  const std::string_view kNode = "node: expected a word or two children, got ";
  const struct {
    std::string text, place;
    std::string_view what;
    std::string got;
  } kCases[] = {
      {"(2 a", "1:1", "tree: expected as many ')' as '(', got ",
       "the end of the file with 1 open"},
      {"(2 a)\n(2 (2 b)\n(1 c)", "2:1",
       "tree: expected as many ')' as '(', got ",
       "the end of the file with 1 open"},
      {"(2 a))", "1:6", "tree: expected '(', got ",
       "a ')' that closes nothing"},
      {" film", "1:2", "tree: expected '(', got ", "'film'"},
      {"(5 a)", "1:2", "label: expected a number from 0 to 4 after '(', got ",
       "'5'"},
      {"(-1 a)", "1:2", "label: expected a number from 0 to 4 after '(', got ",
       "'-1'"},
      {"\n\n(2 (S a) (1 b))", "3:5",
       "label: expected a number from 0 to 4 after '(', got ", "'S'"},
      {"(99999999999 a)", "1:2",
       "label: expected a number from 0 to 4 after '(', got ", "'99999999999'"},
      {"((2 a))", "1:2", "label: expected a number from 0 to 4 after '(', got ",
       "'('"},
      {"(", "1:2", "label: expected a number from 0 to 4 after '(', got ",
       "the end of the file"},
      {"(\xff\n)", "1:2",
       "label: expected a number from 0 to 4 after '(', got ", "'\\xff'"},
      {"(" + std::string(100, 'x') + " a)", "1:2",
       "label: expected a number from 0 to 4 after '(', got ",
       "'" + std::string(40, 'x') + "...'"},
      {"(2)", "1:3", kNode, "neither; the node begins at 1:1"},
      {"(2 (1 a))", "1:9", kNode, "one child; the node begins at 1:1"},
      {"(2 (1 a)\n (1 b) (1 c))", "2:8", kNode,
       "a third child; the node begins at 1:1"},
      {"(2 a b)", "1:6", kNode, "a second word; the node begins at 1:1"},
      {"(2 a (1 b))", "1:6", kNode,
       "a word and a child; the node begins at 1:1"},
      {"(2 (1 a) b)", "1:10", kNode,
       "a child and a word; the node begins at 1:1"}};
  for (const auto& c : kCases) {
    const Status status = ParseTreebank(c.text, {}, "a.txt").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_EQ(status.message(),
              absl::StrCat("a.txt:", c.place, ": ", std::string(c.what), c.got))
        << c.text;
  }
}

TEST(TreebankTest, DeepTreesNeedNoStack) {
  constexpr int kDepth = kSanitized ? 100'000 : 1'000'000;
  std::string left, right;
  for (int i = 0; i < kDepth; ++i) {
    left += "(1 ";
    right += "(1 (1 b)";
  }
  left += "(1 a)";
  right += "(1 a)";
  for (int i = 0; i < kDepth; ++i) {
    left += "(1 b))";
    right += ")";
  }
  for (const std::string& text : {left, right}) {
    const auto bank = ParseTreebank(text);
    ASSERT_TRUE(bank.ok()) << bank.status();
    EXPECT_THAT(bank->roots, ElementsAre(2 * kDepth));
  }
  EXPECT_THAT(ParseTreebank(left.substr(0, 3 * kDepth)).status().message(),
              HasSubstr(absl::StrCat("got the end of the file with ", kDepth,
                                     " open")));
}

TEST(TreebankTest, FilesAreNamedInMessages) {
  const std::string path = ::testing::TempDir() + "treebank_test.txt";
  ASSERT_TRUE(WriteFile(path, "(2 a)\n(2 b").ok());
  const Status cut = ReadTreebank(path).status();
  EXPECT_THAT(std::string(cut.message()), HasSubstr(path + ":2:1: tree: "));
  ASSERT_TRUE(WriteFile(path, "(2 a)\n").ok());
  const auto bank = ReadTreebank(path);
  ASSERT_TRUE(bank.ok()) << bank.status();
  EXPECT_THAT(bank->words, ElementsAre("a"));
  EXPECT_EQ(ReadTreebank(path + ".none").status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
