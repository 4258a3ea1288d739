// Common code of the tests of the documentation's examples. Each example is a
// file that tools/doc_blocks.py extracts from a header or a page; a test
// declares the names that the example assumes, includes it, and checks the
// results.
#ifndef TESTS_SNIPPETS_SNIPPETS_TEST_UTIL_H_
#define TESTS_SNIPPETS_SNIPPETS_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "sluice/sluice.h"

namespace sluice {

class SnippetTest : public ::testing::Test {
 protected:
  SnippetTest() : use_(graph) {}

  // A wrong builder call in an example is an error of the graph.
  void TearDown() override {
    EXPECT_TRUE(graph.status().ok()) << graph.status();
  }

  // The value of an edge of `graph`, after initializing its variables.
  Tensor Value(Output y, const Feeds& feeds = {}) {
    Session session(graph);
    Status status = session.Run(GlobalVariablesInitializer()).status();
    EXPECT_TRUE(status.ok()) << status;
    Result<Tensor> value = session.Run(feeds, y);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value : Tensor();
  }
  float Number(Output y, const Feeds& feeds = {}) {
    const Tensor value = Value(y, feeds);
    return value.dtype() == DType::kFloat && value.num_elements() == 1
               ? value.scalar<float>()
               : -12345;
  }

  Graph graph;

 private:
  const WithGraph use_;
};

// RAII: makes a new empty folder the working directory.
class InScratchFolder {
 public:
  InScratchFolder() : before_(std::filesystem::current_path()) {
    std::string name = ::testing::TempDir() + "snippetXXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::filesystem::current_path(folder_);
  }
  ~InScratchFolder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  InScratchFolder(const InScratchFolder&) = delete;

 private:
  const std::filesystem::path before_;
  std::filesystem::path folder_;
};

}  // namespace sluice

#endif  // TESTS_SNIPPETS_SNIPPETS_TEST_UTIL_H_
