#include <gtest/gtest.h>

#include "graph/builder.h"
#include "passes/passes.h"

namespace sluice {
namespace {

Output IntPlaceholder() {
  return Build("Placeholder", {}, {{"dtype", DType::kInt32}});
}

TEST(Prune, ControlEdgeFromFedPlaceholderMovesToItsFeed) {
  Graph g;
  WithGraph use(g);
  const Output x = IntPlaceholder();
  ControlDependencies after({x.node});
  const Output y = Constant<int32_t>(3);
  const auto pruned = Prune(g, {{x}, {y}, {}});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ((*pruned)->FindNode(x.node->name()), nullptr);
  const Node* waits = (*pruned)->FindNode(y.node->name());
  ASSERT_NE(waits, nullptr);
  ASSERT_EQ(waits->control_inputs().size(), 1u);
  EXPECT_EQ(waits->control_inputs()[0]->op_name(), "_Arg");
}

// Nodes other than placeholders run even if their outputs are fed.
TEST(Prune, AControlEdgeFromAFedNodeStillRunsIt) {
  Graph g;
  WithGraph use(g);
  const Output x = Build("Neg", {IntPlaceholder()});
  ControlDependencies after({x.node});
  const Output y = Constant<int32_t>(3);
  const auto pruned = Prune(g, {{x}, {y}, {}});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_NE((*pruned)->FindNode(x.node->name()), nullptr);
}

}  // namespace
}  // namespace sluice
