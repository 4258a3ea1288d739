// Source lines and other debug information in GraphDefs. The ops are those of
// graphdef_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string SplitDef(const std::string& name, const std::string& rest = "") {
  return absl::StrCat("node { name: '", name,
                      "' op: 'TestSplit' attr { key: 'n' value { i: 1 } } ",
                      rest, " }\n");
}
std::string Trace(const std::string& key, const std::string& value) {
  return absl::StrCat("traces { key: '", key, "' value { ", value, " } }\n");
}
Status ImportText(const std::string& text, Graph& g,
                  const ImportOptions& options = {}) {
  const Result<std::string> bytes = ParseTextGraphDef(text);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? ImportGraphDef(*bytes, g, options) : bytes.status();
}
std::string LineOf(const Graph& g, const std::string& name) {
  const Node* n = g.FindNode(name);
  return n == nullptr ? "no node" : n->loc().ToString();
}

TEST(GraphDefLines, RoundTrip) {
  Graph g, again;
  for (int i = 0; i < 3; ++i) {
    NodeSpec s;
    s.op = "TestSplit";
    s.name = absl::StrCat("n", i);
    s.attrs = {{"n", 1}};
    if (i < 2) s.loc = {i == 0 ? "model.cc" : "layers.cc", 10 + i};
    ASSERT_TRUE(g.AddNode(std::move(s)).ok());
  }
  for (const bool text : {false, true}) {
    Result<std::string> def = ExportGraphDef(g, text);
    ASSERT_TRUE(def.ok()) << def.status();
    if (text) def = ParseTextGraphDef(*def);
    ImportOptions options;
    options.prefix = text ? "text" : "binary";
    ASSERT_TRUE(ImportGraphDef(*def, again, options).ok());
    EXPECT_EQ(LineOf(again, options.prefix + "/n0"), "model.cc:10");
    EXPECT_EQ(LineOf(again, options.prefix + "/n1"), "layers.cc:11");
    EXPECT_EQ(LineOf(again, options.prefix + "/n2"), "");
  }
  EXPECT_THAT(again.FindNode("binary/n0")->Describe(),
              HasSubstr(" at model.cc:10"));
}

// As TensorFlow 2.21 writes them: by node, by "node@function", and by number.
TEST(GraphDefLines, AreReadFromEveryFormOfDebugInfo) {
  Graph g;
  const std::string frame = "file_line_cols { file_index: 0 line: ";
  ASSERT_TRUE(
      ImportText(SplitDef("a") + SplitDef("b") + SplitDef("c") + SplitDef("d") +
                     "debug_info { files: 'train.py' files: "
                     "'/lib/tensorflow/python/ops/math_ops.py'\n" +
                     Trace("a", frame + "3 } " + frame + "4 }") +
                     Trace("b@", frame + "5 } file_line_cols { file_index: 1 "
                                         "line: 6 }") +
                     "name_to_trace_id { key: 'c' value: 77 }\n"
                     "traces_by_id { key: 77 value { frame_id: 8 } }\n"
                     "frames_by_id { key: 8 value { line: 9 } } }",
                 g)
          .ok());
  EXPECT_EQ(LineOf(g, "a"), "train.py:4");  // The innermost frame,
  EXPECT_EQ(LineOf(g, "b"), "train.py:5");  // but one that the user wrote.
  EXPECT_EQ(LineOf(g, "c"), "train.py:9");
  EXPECT_EQ(LineOf(g, "d"), "");
}

TEST(GraphDefLines, InvalidOnesAreIgnored) {
  Graph g;
  ASSERT_TRUE(
      ImportText(SplitDef("a") + SplitDef("b") + SplitDef("c") + SplitDef("d") +
                     "debug_info { files: 'f'\n" +
                     Trace("a", "file_line_cols { file_index: 1 line: 3 }") +
                     Trace("b", "file_line_cols { file_index: -1 line: 3 }") +
                     Trace("c", "file_line_cols { file_index: 0 line: -3 }") +
                     "name_to_trace_id { key: 'd' value: 77 } }",
                 g)
          .ok());
  for (const char* name : {"a", "b", "c", "d"})
    EXPECT_FALSE(g.FindNode(name)->loc().known()) << name;
}

TEST(GraphDefLines, AppearInErrors) {
  Graph g;
  const Status s = ImportText(
      "node { name: 'a' op: 'TestSplit' }\n debug_info { files: 'net.py' " +
          Trace("a", "file_line_cols { line: 12 }") + "}",
      g);
  EXPECT_THAT(s.ToString(), HasSubstr("node 'a' (TestSplit) at net.py:12"));
}

TEST(GraphDefOriginalNames, RoundTrip) {
  Graph g, again;
  ASSERT_TRUE(
      ImportText(SplitDef("a",
                          "experimental_debug_info { original_node_names: "
                          "'x' original_func_names: 'f' }") +
                     SplitDef("b"),
                 g)
          .ok());
  const Result<std::string> text = ExportGraphDef(g, true);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("original_node_names: \"x\""));
  EXPECT_THAT(*text, HasSubstr("original_func_names: \"f\""));
  ASSERT_TRUE(ImportText(*text, again).ok());
  EXPECT_EQ(again.original_names(), g.original_names());
  EXPECT_EQ(again.original_names().size(), 1u);
}

}  // namespace
}  // namespace sluice
