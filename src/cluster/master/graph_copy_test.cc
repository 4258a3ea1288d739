// A master's copy of a graph that its client keeps extending.
#include "cluster/master/graph_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graphdef.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

// The whole graph as text.
std::string Text(const Graph& g) {
  Result<std::string> text = ExportGraphDef(g, /*text=*/true);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

class GraphCopyTest : public ::testing::Test {
 protected:
  GraphCopyTest() : use_(graph_) {}
  // Sends the changes; returns the number of bytes.
  size_t Send() {
    Result<std::string> changes = sender_.Changes(graph_);
    EXPECT_TRUE(changes.ok()) << changes.status();
    if (!changes.ok()) return 0;
    if (!changes->empty()) {
      EXPECT_TRUE(copy_.Extend(*changes).ok());
    }
    auto got = copy_.graph();
    EXPECT_TRUE(got.ok()) << got.status();
    if (got.ok()) {
      EXPECT_EQ(Text(**got), Text(graph_));
    }
    return changes->size();
  }
  Graph graph_;
  WithGraph use_;
  GraphSender sender_;
  GraphCopy copy_;
};

TEST_F(GraphCopyTest, NewNodesAreSentOnce) {
  EXPECT_EQ(Send(), 0u);
  Output x = Placeholder<float>({3}, "x");
  Output y = x + 1.0f;
  const size_t first = Send();
  EXPECT_GT(first, 0u);
  EXPECT_EQ(Send(), 0u);
  y = y * y;
  const size_t second = Send();
  EXPECT_GT(second, 0u);
  EXPECT_LT(second, first);
}

TEST_F(GraphCopyTest, ChangedNodesAreSentAgain) {
  Output x = Placeholder<float>({3}, "x");
  Output y = x + 1.0f;
  Send();
  graph_.SetDevice(y.node, "/device:CPU:0");
  EXPECT_GT(Send(), 0u);
  Output z = Placeholder<float>({3}, "z");
  Send();
  EXPECT_TRUE(graph_.AddControlEdge(x.node, z.node).ok());
  EXPECT_GT(Send(), 0u);
}

TEST_F(GraphCopyTest, LostChangesAreSentAgain) {
  Placeholder<float>({3}, "x");
  ASSERT_TRUE(sender_.Changes(graph_).ok());
  sender_.Lost();
  EXPECT_GT(Send(), 0u);
}

TEST_F(GraphCopyTest, InvalidGraphBytesAreRejected) {
  EXPECT_EQ(copy_.Extend("\xff\xff\xff").code(), StatusCode::kInvalidArgument);
  proto::GraphDef def;
  def.add_node()->set_name("a");
  def.mutable_node(0)->set_op("NoSuchOp");
  ASSERT_TRUE(copy_.Extend(def.SerializeAsString()).ok());
  EXPECT_FALSE(copy_.graph().ok());
  // Source lines with invalid references become unknown.
  GraphCopy other;
  def.mutable_node(0)->set_op("NoOp");
  auto* frame =
      (*def.mutable_debug_info()->mutable_traces())["a"].add_file_line_cols();
  frame->set_file_index(7);
  frame->set_line(1);
  ASSERT_TRUE(other.Extend(def.SerializeAsString()).ok());
  EXPECT_TRUE(other.graph().ok());
}

}  // namespace
}  // namespace sluice
