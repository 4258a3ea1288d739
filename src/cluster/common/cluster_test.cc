// Cluster files: both formats, and the errors for invalid ones.
#include "cluster/common/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ClusterSpec, ListsAndNumberedTasksAreEquivalent) {
  auto a = ClusterSpec::Parse(R"({"worker": ["b:1", "b:2"], "ps": ["a:1"]})");
  auto b = ClusterSpec::Parse(
      R"({"cluster": {"ps": {"0": "a:1"},
                      "worker": {"1": "b:2", "0": "b:1"}}})");
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(a->ToJson(), b->ToJson());
  ASSERT_EQ(a->tasks().size(), 3u);
  EXPECT_EQ(a->tasks()[0].name(), "/job:ps/replica:0/task:0");
  EXPECT_EQ(a->tasks()[2].name(), "/job:worker/replica:0/task:1");
  EXPECT_EQ(a->tasks()[2].address, "b:2");
  auto again = ClusterSpec::Parse(a->ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), a->ToJson());
}

TEST(ClusterSpec, ErrorsStateTheExpectedRule) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON object"},
      {"[1]", "JSON object"},
      {"{}", "at least one task"},
      {R"({"worker": 3})", "list of addresses"},
      {R"({"worker": [3]})", "address as a string"},
      {R"({"worker": {"x": "a:1"}})", "numbers of tasks"},
      {R"({"worker": ["a"]})", "host:port"},
      {R"({"worker": ["a:0"]})", "host:port"},
      {R"({"worker": ["a:99999"]})", "host:port"},
      {R"({"worker": ["a:1", "a:1"]})", "expected a unique address"},
      {R"({"0w": ["a:1"]})", "a letter"},
      {R"({"a/b": ["a:1"]})", "a letter"},
  };
  for (const auto& [text, what] : cases) {
    auto spec = ClusterSpec::Parse(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(what)) << text;
  }
}

TEST(ClusterSpec, UnknownTaskErrorListsKnownTasks) {
  auto spec = ClusterSpec::Parse(R"({"ps": ["a:1"]})");
  ASSERT_TRUE(spec.ok());
  const auto found = spec->Find("ps", 1);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(std::string(found.status().message()),
              HasSubstr("/job:ps/replica:0/task:0"));
}

}  // namespace
}  // namespace sluice
