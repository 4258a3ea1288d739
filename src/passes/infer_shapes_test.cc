#include "passes/infer_shapes.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/graphdef.h"

namespace sluice {
namespace {

// A loop over one variable, as text, with body `body` (which reads "switch:1"
// and produces "next_value"). Its initial value is the float placeholder "x".
std::string Loop(const std::string& x_shape, const std::string& body) {
  return R"(
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { )" +
         x_shape + R"( } } } }
node { name: "go_on" op: "Placeholder"
       attr { key: "dtype" value { type: DT_BOOL } }
       attr { key: "shape" value { shape { } } } }
node { name: "enter" op: "Enter" input: "x"
       attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "frame_name" value { s: "f" } } }
node { name: "go_on_enter" op: "Enter" input: "go_on"
       attr { key: "T" value { type: DT_BOOL } }
       attr { key: "is_constant" value { b: true } }
       attr { key: "frame_name" value { s: "f" } } }
node { name: "merge" op: "Merge" input: "enter" input: "next"
       attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "N" value { i: 2 } } }
node { name: "cond" op: "LoopCond" input: "go_on_enter" input: "^merge" }
node { name: "switch" op: "Switch" input: "merge" input: "cond"
       attr { key: "T" value { type: DT_FLOAT } } }
node { name: "next" op: "NextIteration" input: "next_value"
       attr { key: "T" value { type: DT_FLOAT } } }
node { name: "exit" op: "Exit" input: "switch"
       attr { key: "T" value { type: DT_FLOAT } } })" +
         body;
}

constexpr char kNeg[] = R"(
node { name: "next_value" op: "Neg" input: "switch:1"
       attr { key: "T" value { type: DT_FLOAT } } })";
// Twice as long each time.
constexpr char kConcat[] = R"(
node { name: "axis" op: "Const" input: "^switch"
       attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { }
                                            int_val: 0 } } } }
node { name: "next_value" op: "ConcatV2" input: "switch:1" input: "switch:1"
       input: "axis" attr { key: "N" value { i: 2 } }
       attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "Tidx" value { type: DT_INT32 } } })";

class InferShapesTest : public ::testing::Test {
 protected:
  void Import(const std::string& text) {
    const auto bytes = ParseTextGraphDef(text);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const Status s = ImportGraphDef(*bytes, graph_);
    ASSERT_TRUE(s.ok()) << s;
  }
  std::string ShapeOf(
      const std::string& node,
      const std::vector<std::pair<const Node*, PartialShape>>& known = {}) {
    const Result<NodeShapes> shapes = InferShapes(graph_, known);
    EXPECT_TRUE(shapes.ok()) << shapes.status();
    const Node* n = graph_.FindNode(node);
    EXPECT_NE(n, nullptr) << node;
    return (*shapes)[static_cast<size_t>(n->id())][0].ToString();
  }
  Graph graph_;
};

TEST_F(InferShapesTest, LoopVariableKeepsItsInitialShape) {
  Import(Loop("", kNeg));
  EXPECT_EQ(Output(graph_.FindNode("exit")).shape().ToString(), "<unknown>");
  for (const char* node : {"merge", "switch", "next_value", "next", "exit"})
    EXPECT_EQ(ShapeOf(node), "[]") << node;
  // The graph is unchanged.
  EXPECT_EQ(Output(graph_.FindNode("exit")).shape().ToString(), "<unknown>");
}

TEST_F(InferShapesTest, ShapeIsRelaxedWhereIterationsChangeIt) {
  Import(Loop("dim { size: 2 } dim { size: 3 }", kConcat));
  EXPECT_EQ(ShapeOf("enter"), "[2,3]");
  for (const char* node : {"merge", "next_value", "exit"})
    EXPECT_EQ(ShapeOf(node), "[?,3]") << node;
}

TEST_F(InferShapesTest, GivenShapesRefineTheResult) {
  Import(Loop("unknown_rank: true", kNeg));
  EXPECT_EQ(ShapeOf("exit"), "<unknown>");
  EXPECT_EQ(ShapeOf("exit", {{graph_.FindNode("x"), PartialShape({4})}}),
            "[4]");
}

// A chain of a hundred loops, each of which starts with the result of the
// previous one and loses a dimension in the last round.
TEST_F(InferShapesTest, InferenceTerminatesForChainsOfLoops) {
  const WithGraph use(graph_);
  std::string text = Loop("dim { size: 2 }", kConcat);
  for (int i = 0; i < 100; ++i) {
    const std::string k = std::to_string(i);
    const std::string before =
        i == 0 ? "exit" : "exit_" + std::to_string(i - 1);
    const std::string frame =
        "attr { key: 'frame_name' value { s: 'f" + k + "' } }";
    const std::string type = "attr { key: 'T' value { type: DT_FLOAT } }";
    text += "node { name: 'enter_" + k + "' op: 'Enter' input: '" + before +
            "' " + type + frame + "}";
    text += "node { name: 'c_" + k +
            "' op: 'Enter' input: 'go_on' attr { key: 'is_constant' value { "
            "b: true } } attr { key: 'T' value { type: DT_BOOL } }" +
            frame + "}";
    text += "node { name: 'merge_" + k + "' op: 'Merge' input: 'enter_" + k +
            "' input: 'next_" + k + "' " + type +
            " attr { key: 'N' value { i: 2 } } }";
    text +=
        "node { name: 'cond_" + k + "' op: 'LoopCond' input: 'c_" + k + "' }";
    text += "node { name: 'switch_" + k + "' op: 'Switch' input: 'merge_" + k +
            "' input: 'cond_" + k + "' " + type + "}";
    text += "node { name: 'next_" + k +
            "' op: 'NextIteration' input: 'switch_" + k + ":1' " + type + "}";
    text += "node { name: 'exit_" + k + "' op: 'Exit' input: 'switch_" + k +
            "' " + type + "}";
  }
  Import(text);
  EXPECT_EQ(ShapeOf("exit_99"), "[?]");
}

}  // namespace
}  // namespace sluice
