#include "tools/sluice/op_reference.h"

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/sluice/op_examples.h"

namespace sluice::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Examples(const std::string& op) {
  const Result<std::vector<std::string>> r = ExamplesOf(op);
  EXPECT_TRUE(r.ok()) << op << ": " << r.status();
  return r.ok() ? *r : std::vector<std::string>();
}

TEST(OpExamples, ShowResultsOfOps) {
  EXPECT_THAT(Examples("MatMul"),
              ElementsAre("MatMul([[1, 2], [3, 4]], [[1, 0], [0, 10]]) = "
                          "[[1, 20], [3, 40]]",
                          "MatMul([[1, 2], [3, 4]], [[1, 1]], "
                          "transpose_b=true) = [[3], [7]]"));
  EXPECT_THAT(Examples("ConcatV2"),
              ElementsAre("ConcatV2({[[1], [2]], [[3], [4]]}, 1) = "
                          "[[1, 3], [2, 4]]"));
  EXPECT_THAT(Examples("TopKV2"),
              ElementsAre("TopKV2([1, 9, 3, 7], 2)\n  values = [9, 7]\n"
                          "  indices = [1, 3]"));
  EXPECT_THAT(Examples("FloorDiv"),
              ElementsAre("FloorDiv([7, -7], [2, 2], T=\"int32\") = [3, -4]"));
  EXPECT_THAT(Examples("Substr"),
              ElementsAre("Substr([\"dataflow\"], 4, 3) = [\"flo\"]"));
  EXPECT_THAT(Examples("MutexV2"), ElementsAre());
}

TEST(OpExamples, RunForAllDocumentedOps) {
  const std::vector<std::string> names = OpsWithExamples();
  EXPECT_GE(names.size(), 100u);
  for (const std::string& name : names)
    for (const std::string& text : Examples(name))
      EXPECT_EQ(text.find('?'), std::string::npos) << text;
}

TEST(OpReference, TextHasSignatureAndExample) {
  const Result<const OpDef*> op = OpRegistry::Global()->Lookup("Softmax");
  ASSERT_TRUE(op.ok());
  const Result<std::string> text = OpText(**op);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("  input     logits: T\n"));
  EXPECT_THAT(*text, HasSubstr("  gradient  yes\n"));
  EXPECT_THAT(*text, HasSubstr("example   Softmax([[0, 0], [0, 1]]) = "
                               "[[0.5, 0.5], [0.26894, 0.73106]]\n"));
}

// The pages in the repository match the registry.
TEST(OpReference, PagesAreUpToDate) {
  const auto dir = std::filesystem::path(::testing::TempDir()) / "op_reference";
  const Status s = WriteOpReference(dir);
  ASSERT_TRUE(s.ok()) << s;
  const auto read = [](const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  };
  for (const auto& page : std::filesystem::directory_iterator(dir)) {
    const auto name = page.path().filename();
    EXPECT_TRUE(read(page.path()) == read("docs/ops" / name))
        << name << ": expected what the registry says; write it with "
        << "scripts/sluice ops --markdown docs/ops";
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace sluice::cli
