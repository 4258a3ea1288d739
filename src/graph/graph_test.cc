// Guarantees of a graph when it is copied and edited. The ops are those of
// graphdef_test.cc.
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/name_index.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node* Split(Graph& g, const std::string& name, std::vector<Node*> after = {}) {
  NodeSpec s;
  s.op = "TestSplit";
  s.name = name;
  s.attrs = {{"n", 3}};
  s.control_inputs = std::move(after);
  Result<Node*> n = g.AddNode(std::move(s));
  EXPECT_TRUE(n.ok()) << n.status();
  return n.value_or(nullptr);
}

TEST(Graph, NodeErrorsNameNodeAndLine) {
  Graph g;
  Split(g, "taken");
  const auto refusal = [&g](const char* op, const char* name) {
    NodeSpec s;
    s.op = op;
    s.name = name;
    s.attrs = {{"n", 3}};
    s.loc = {"model.cc", 7};
    return std::string(g.AddNode(std::move(s)).status().message());
  };
  EXPECT_EQ(refusal("TestSplit", "bad name!"),
            "name: expected letters, digits and ._/-, got 'bad name!'; "
            "node 'bad name!' (TestSplit) at model.cc:7");
  EXPECT_THAT(
      refusal("TestSplit", "taken"),
      HasSubstr("in the graph; node 'taken' (TestSplit) at model.cc:7"));
  EXPECT_THAT(refusal("NoSuchOp", "x"),
              HasSubstr("got 'NoSuchOp'; node 'x' (NoSuchOp) at model.cc:7"));
}

TEST(NameIndex, FindsEveryInsertedName) {
  std::vector<std::string> names;
  NameIndex index;
  auto name_of = [&](int i) {
    return std::string_view(names[static_cast<size_t>(i)]);
  };
  EXPECT_EQ(index.Find("n0", name_of), -1);
  for (int i = 0; i < 5000; ++i) {
    names.push_back(absl::StrCat("n", i));
    index.Insert(names.back(), i);
  }
  for (int i = 0; i < 5000; ++i)
    ASSERT_EQ(index.Find(names[static_cast<size_t>(i)], name_of), i);
  EXPECT_EQ(index.Find("n5000", name_of), -1);
  EXPECT_EQ(index.Find("", name_of), -1);
  index.Clear();
  EXPECT_EQ(index.Find("n7", name_of), -1);
}

TEST(Graph, ChangesToNodeDoNotAffectItsCopies) {
  Graph g, h;
  Node* n = Split(g, "n");
  const AttrMap& before = n->attrs();
  Node* copy = h.CopyNode(*n, {}, {});
  EXPECT_TRUE(copy->SharesAttrs(*n));
  g.SetAttr(n, "_note", "mine");
  g.SetDevice(n, "/device:CPU:0");
  ASSERT_TRUE(g.SetShape(Output(n, 1), PartialShape({2, -1})).ok());
  EXPECT_NE(n->FindAttr("_note"), nullptr);
  EXPECT_EQ(copy->FindAttr("_note"), nullptr);
  EXPECT_EQ(copy->device(), "");
  EXPECT_FALSE(copy->output_shape(1).rank_known());
  EXPECT_EQ(before.count("n"), 1u);  // References stay valid.
  h.SetAttr(copy, "_note", "its");
  EXPECT_EQ(n->AttrOr<std::string>("_note", ""), "mine");
  EXPECT_EQ(copy->AttrOr<std::string>("_note", ""), "its");
}

TEST(Graph, CopiesAreFoundByNameAndKeepNamesUnique) {
  Graph g, h;
  Node* a = Split(g, "a");
  Node* copy = h.CopyNode(*a, {}, {});
  EXPECT_EQ(h.UniqueName("a"), "a_1");
  EXPECT_EQ(h.UniqueScope("a"), "a_1");  // (Not used yet.)
  EXPECT_EQ(h.UniqueName("a"), "a_2");
  EXPECT_EQ(h.FindNode("a"), copy);
  EXPECT_EQ(h.FindNode("b"), nullptr);
  NodeSpec again;
  again.op = "TestSplit";
  again.name = "a";
  again.attrs = {{"n", 1}};
  EXPECT_EQ(h.AddNode(again).status().code(), StatusCode::kAlreadyExists);
}

TEST(Graph, GeneratedNamesDifferInMoreThanCase) {
  Graph g;
  Split(g, "Add");
  EXPECT_EQ(g.UniqueName("add"), "add_1");
  EXPECT_EQ(g.UniqueName("ADD"), "ADD_1");
  EXPECT_EQ(g.UniqueScope("Scope"), "Scope");
  EXPECT_EQ(g.UniqueName("scope"), "scope_1");
  Split(g, "add");  // (Explicit names may differ in case.)
  EXPECT_EQ(g.UniqueName("Add"), "Add_1");
}

// As in TensorFlow.
TEST(Graph, ControlDependenciesImpliedByInputsAreOmitted) {
  Graph g;
  const WithGraph use(g);
  const Output a = Constant<float>(1), b = Constant<float>(2);
  const auto identity = [](const Output& in) {
    return Build("Identity", {in}, {});
  };
  using Nodes = std::vector<Node*>;
  const ControlDependencies after({a.node, b.node});
  const Output p = identity(a);
  EXPECT_EQ(p.node->control_inputs(), Nodes{b.node});
  EXPECT_TRUE(identity(p).node->control_inputs().empty());
  {
    const ControlDependencies more({p.node});
    EXPECT_EQ(identity(b).node->control_inputs(), (Nodes{a.node, p.node}));
    EXPECT_TRUE(identity(p).node->control_inputs().empty());
  }
  Output alone;
  {
    const NoControlDependencies none;
    alone = identity(a);
    EXPECT_TRUE(alone.node->control_inputs().empty());
  }
  EXPECT_EQ(identity(alone).node->control_inputs(), (Nodes{a.node, b.node}));
  // It may be folded before p has run.
  EXPECT_EQ(BuildNode("Shape", {p}, {})->control_inputs(),
            (Nodes{a.node, b.node}));
}

TEST(Graph, ControlInputsAreDeduplicatedInOrder) {
  Graph g;
  std::vector<Node*> some, twice;
  for (int i = 0; i < 40; ++i) some.push_back(Split(g, absl::StrCat("n", i)));
  for (int round = 0; round < 2; ++round)
    twice.insert(twice.end(), some.begin(), some.end());
  EXPECT_EQ(Split(g, "many", twice)->control_inputs(), some);
  EXPECT_THAT(Split(g, "few", {some[1], some[0], some[1]})->control_inputs(),
              ElementsAre(some[1], some[0]));
}

TEST(Graph, RetainRenumbersKeptNodes) {
  Graph g;
  Node* a = Split(g, "a");
  Split(g, "b");
  Node* c = Split(g, "c", {a});
  g.Retain({1, 0, 1});
  ASSERT_EQ(g.num_nodes(), 2);
  EXPECT_EQ(c->id(), 1);
  EXPECT_EQ(g.FindNode("b"), nullptr);
  EXPECT_EQ(g.FindNode("c"), c);
  EXPECT_EQ(g.nodes()[1].get(), c);
}

TEST(TopologicalOrder, SubsetIgnoresOtherNodesAndCycles) {
  Graph g;
  Node* a = Split(g, "a");
  Node* b = Split(g, "b", {a});
  Node* c = Split(g, "c", {b});
  ASSERT_TRUE(g.AddControlEdge(c, b).ok());
  Node* d = Split(g, "d", {a});
  EXPECT_THAT(TopologicalOrder(g).status().ToString(), HasSubstr("cycle"));
  const std::vector<uint8_t> only = {1, 0, 0, 1};
  const Result<std::vector<Node*>> order = TopologicalOrder(g, &only);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_THAT(*order, ElementsAre(a, d));
}

TEST(Output, NullOutputHasNoTypeShapeOrGraph) {
  const Output none;
  EXPECT_EQ(none.dtype(), DType::kInvalid);
  EXPECT_FALSE(none.shape().rank_known());
  EXPECT_EQ(none.graph(), nullptr);
  EXPECT_EQ(none.name(), "<none>");
}

TEST(NearestNames, DistanceLimitDependsOnLength) {
  const std::vector<std::string> names = {"x", "y", "X1", "logits", "weights"};
  EXPECT_TRUE(NearestNames("z", names).empty());
  EXPECT_THAT(NearestNames("Y", names), ElementsAre("y"));
  EXPECT_TRUE(NearestNames("ab", names).empty());
  EXPECT_THAT(NearestNames("logit", names), ElementsAre("logits"));
  EXPECT_THAT(NearestNames("wieghts", names), ElementsAre("weights"));
  EXPECT_THAT(NearestNames("rnu", {"run", "rank"}), ElementsAre("run"));
}

}  // namespace
}  // namespace sluice
