// Passes preserve the results of a graph.
#include "passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

class PassesTest : public ::testing::Test {
 protected:
  PassesTest() : use_(graph_) {}

  static Output Op(const std::string& op, std::vector<Output> in,
                   AttrMap attrs = {}) {
    return Build(op, std::move(in), std::move(attrs));
  }
  static Output F(float v) { return Constant(Tensor::Scalar<float>(v)); }
  Output Placeholder(DType t = DType::kFloat) {
    return Op("Placeholder", {}, {{"dtype", t}, {"shape", PartialShape({2})}});
  }
  std::unique_ptr<Graph> Pruned(StepSignature s) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    auto g = Prune(graph_, s);
    EXPECT_TRUE(g.ok()) << g.status();
    return g.ok() ? *std::move(g) : std::make_unique<Graph>();
  }
  static std::unique_ptr<Graph> Folded(std::unique_ptr<Graph> g) {
    const Status s =
        FoldConstants(g.get(), [](const Node& n, std::vector<Tensor> in) {
          return RunKernel(n, std::move(in));
        });
    EXPECT_TRUE(s.ok()) << s;
    DropUnread(g.get(), {});
    return g;
  }
  static std::unique_ptr<Graph> Merged(std::unique_ptr<Graph> g) {
    const Status s = MergeCommonSubexpressions(g.get());
    EXPECT_TRUE(s.ok()) << s;
    DropUnread(g.get(), {});
    return g;
  }
  static int Count(const Graph& g, const std::string& op) {
    int n = 0;
    for (const auto& node : g.nodes()) n += node->op_name() == op;
    return n;
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(PassesTest, PruningKeepsDependenciesOfFetchesAndTargets) {
  Output x = Placeholder();
  Output y = Op("Neg", {x});
  Op("Exp", {y});
  Node* noop = BuildNode("NoOp", {});
  Output z;
  {
    ControlDependencies after({noop});
    z = Op("Abs", {y});
  }
  auto g = Pruned({{y}, {z}, {}});
  EXPECT_EQ(Count(*g, "Exp"), 0);
  EXPECT_EQ(Count(*g, "Neg"), 0);
  EXPECT_EQ(Count(*g, "NoOp"), 1);
  EXPECT_EQ(Count(*g, "_Arg"), 1);
  EXPECT_EQ(Count(*g, "_Retval"), 1);
}

TEST_F(PassesTest, FoldingSkipsRandomAndFailingNodes) {
  Output sum = Op("AddV2", {F(1), Op("Mul", {F(2), F(3)})});
  Output shape = Constant(Tensor::Vector<int32_t>({2}));
  Output random = Op("RandomUniform", {shape}, {{"dtype", DType::kFloat}});
  Output bad = Op("FloorDiv", {Constant(Tensor::Scalar<int32_t>(1)),
                               Constant(Tensor::Scalar<int32_t>(0))});
  auto g = Folded(Pruned({{}, {sum, random, bad}, {}}));
  EXPECT_EQ(Count(*g, "AddV2"), 0);
  EXPECT_EQ(Count(*g, "Mul"), 0);
  EXPECT_EQ(Count(*g, "RandomUniform"), 1);
  EXPECT_EQ(Count(*g, "FloorDiv"), 1);
}

// Declared like no op of the library: what the passes do follows from the
// traits alone.
OpDefBuilder TraitOp(const char* name) {
  return OpDefBuilder(name)
      .Input("x: float")
      .Output("y: float")
      .Shape(UnchangedShape)
      .Kernel(Cpu([](KernelContext& ctx) -> Status {
        ctx.set_output(0, ctx.input(0));
        return OkStatus();
      }));
}
const OpRegistrar kTraitOps[] = {
    TraitOp("PassesTestPure"),
    TraitOp("PassesTestNotFoldable").Stateful({.not_foldable = true}),
    TraitOp("PassesTestNotMergeable").Stateful({.not_mergeable = true}),
    TraitOp("PassesTestFlag").Stateful({}),
    OpDefBuilder("PassesTestShape")
        .Input("x: float")
        .Output("y: int32")
        .Kind(OpKind::kShape)
        .Shape([](ShapeContext& c) -> Status {
          c.set_output(0, PartialShape({c.input(0).rank()}));
          return OkStatus();
        }),
    OpDefBuilder("PassesTestOtherShape")
        .Input("x: float")
        .Output("y: int32")
        .Shape([](ShapeContext& c) -> Status {
          c.set_output(0, PartialShape({c.input(0).rank()}));
          return OkStatus();
        }),
};

TEST_F(PassesTest, AnOpIsFoldedUnlessItIsDeclaredNotFoldable) {
  std::vector<Output> all;
  for (const char* op : {"PassesTestPure", "PassesTestNotFoldable",
                         "PassesTestNotMergeable", "PassesTestFlag"})
    all.push_back(Op(op, {F(1)}));
  auto g = Folded(Pruned({{}, all, {}}));
  EXPECT_EQ(Count(*g, "PassesTestPure"), 0);
  EXPECT_EQ(Count(*g, "PassesTestNotFoldable"), 1);
  EXPECT_EQ(Count(*g, "PassesTestNotMergeable"), 0);
  // TensorFlow's flag alone has no meaning for passes.
  EXPECT_EQ(Count(*g, "PassesTestFlag"), 0);
}

TEST_F(PassesTest, EqualNodesAreMergedUnlessTheOpIsDeclaredNotMergeable) {
  const Output x = Placeholder();
  std::vector<Output> all;
  for (const char* op : {"PassesTestPure", "PassesTestNotFoldable",
                         "PassesTestNotMergeable", "PassesTestFlag"})
    for (int i = 0; i < 2; ++i) all.push_back(Op(op, {x}));
  auto g = Merged(Pruned({{x}, all, {}}));
  EXPECT_EQ(Count(*g, "PassesTestPure"), 1);
  EXPECT_EQ(Count(*g, "PassesTestNotFoldable"), 1);
  EXPECT_EQ(Count(*g, "PassesTestNotMergeable"), 2);
  EXPECT_EQ(Count(*g, "PassesTestFlag"), 1);
}

TEST_F(PassesTest, AnOpOfTheKindOfShapeIsFoldedLikeShape) {
  const Output x = Placeholder();
  const Output shape = Op("PassesTestShape", {x});
  const Output other = Op("PassesTestOtherShape", {x});
  auto g = Folded(Pruned({{x}, {shape, other}, {}}));
  EXPECT_EQ(Count(*g, "PassesTestShape"), 0);
  EXPECT_EQ(Count(*g, "PassesTestOtherShape"), 1);
}

TEST_F(PassesTest, FoldedOutputsHaveUniqueNames) {
  Node* split = BuildNode("Split",
                          {Constant(Tensor::Scalar<int32_t>(0)),
                           Constant(Tensor::Vector<float>({1, 2, 3, 4}))},
                          {{"num_split", 2}}, "x");
  const Output sum = Op("AddV2", {Output(split, 0), Output(split, 1)});
  Output fed = Placeholder();
  const Output user = Build("Mul", {fed, Output(split, 1)}, {}, "x/folded_1");
  auto g = Folded(Pruned({{fed}, {user, sum, Output(split, 1)}, {}}));
  EXPECT_EQ(Count(*g, "Split"), 0);
  EXPECT_EQ(Count(*g, "AddV2"), 0);
  std::set<std::string> names;
  for (const auto& n : g->nodes())
    EXPECT_TRUE(names.insert(n->name()).second) << n->name() << " twice";
  ASSERT_NE(g->FindNode("x/folded_1"), nullptr);
  EXPECT_EQ(g->FindNode("x/folded_1")->op_name(), "Mul");
  // Its reader reads output 1, not output 0.
  const Node* second = g->FindNode("x/folded_1")->input(1).node;
  EXPECT_EQ(second->AttrOr<Tensor>("value", Tensor()).ToVector<float>(),
            (std::vector<float>{3, 4}));
}

TEST_F(PassesTest, NoNodeWaitsForAFoldedNode) {
  const Output folded = Op("AddV2", {F(1), F(2)});
  Node* noop = BuildNode("NoOp", {});
  const Output x = Placeholder();
  ControlDependencies after({folded.node, noop});
  const Output y = Op("Neg", {x});
  auto g = Folded(Pruned({{}, {y}, {}}));
  EXPECT_EQ(Count(*g, "Const"), 0);
  EXPECT_EQ(Count(*g, "AddV2"), 0);
  EXPECT_EQ(g->FindNode(y.node->name())->control_inputs().size(), 1u);
}

TEST_F(PassesTest, UserGraphIsUnchanged) {
  const Output a = Op("AddV2", {F(1), F(2)}), b = Op("AddV2", {F(1), F(2)});
  const Output c = Op("Mul", {a, b});
  auto g = Merged(Folded(Pruned({{}, {c}, {}})));
  EXPECT_EQ(Count(*g, "Mul"), 0);
  EXPECT_EQ(c.node->op_name(), "Mul");
  EXPECT_TRUE(c.node->input(0).SameAs(a));
  EXPECT_TRUE(c.node->input(1).SameAs(b));
  EXPECT_EQ(a.node->num_inputs(), 2);
}

TEST_F(PassesTest, FoldingSkipsPossiblyDeadAndOrderedNodes) {
  Output p = Op("Placeholder", {}, {{"dtype", DType::kBool}});
  Node* sw = Op("Switch", {Placeholder(), p}).node;
  Output shape = Op("Shape", {Op("Neg", {Output(sw, 1)})});
  Output ordered;
  {
    ControlDependencies after({sw});
    ordered = Op("AddV2", {F(1), F(2)});
  }
  Output known = Op("Shape", {Op("Neg", {Placeholder()})});
  auto g = Folded(Pruned({{}, {shape, ordered, known}, {}}));
  EXPECT_EQ(Count(*g, "Shape"), 1);
  EXPECT_EQ(Count(*g, "AddV2"), 1);
}

TEST_F(PassesTest, MergingSkipsRandomReferenceAndOtherwiseOrderedNodes) {
  Output x = Placeholder(), y = Placeholder();
  Output a = Op("AddV2", {x, y}), b = Op("AddV2", {y, x});
  Output c = Op("Sub", {x, y}), d = Op("Sub", {y, x});
  Output shape = Constant(Tensor::Vector<int32_t>({2}));
  AttrMap seeds = {{"dtype", DType::kFloat}, {"seed", int64_t{1}}};
  Output r = Op("RandomUniform", {shape}, seeds);
  Output s = Op("RandomUniform", {shape}, seeds);
  Output v = Op("VariableV2", {},
                {{"dtype", DType::kFloat}, {"shape", PartialShape({2})}});
  Output v1 = Op("Identity", {v}), v2 = Op("Identity", {v});
  Output e;
  {
    ControlDependencies after({r.node});
    e = Op("AddV2", {x, y});
  }
  auto g = Merged(Pruned({{x, y}, {a, b, c, d, r, s, v1, v2, e}, {}}));
  EXPECT_EQ(Count(*g, "AddV2"), 2);  // One waits for a random number.
  EXPECT_EQ(Count(*g, "Sub"), 2);
  EXPECT_EQ(Count(*g, "RandomUniform"), 2);
  EXPECT_EQ(Count(*g, "Identity"), 2);
}

// Nodes are compared by hash first, so the hash must include everything that is
// compared.
TEST_F(PassesTest, NodesWithDifferentAttributeOrOutputAreNotMerged) {
  const Output x = Placeholder();
  Node* parts = BuildNode("Split", {Constant(Tensor::Scalar<int32_t>(0)), x},
                          {{"num_split", 2}});
  const Output a = Op("Neg", {Output(parts, 0)});
  const Output b = Op("Neg", {Output(parts, 1)});
  const Output c = Op("Cast", {x}, {{"DstT", DType::kInt32}});
  const Output d = Op("Cast", {x}, {{"DstT", DType::kInt64}});
  const Output e = Op("Cast", {x}, {{"DstT", DType::kInt32}});
  auto g = Merged(Pruned({{x}, {a, b, c, d, e}, {}}));
  EXPECT_EQ(Count(*g, "Neg"), 2);
  EXPECT_EQ(Count(*g, "Cast"), 2);
}

TEST_F(PassesTest, NodesWithDifferentPlacementAreNotMerged) {
  const Output x = Placeholder();
  std::vector<Output> all;
  for (const char* device : {"", "/cpu:0", "/cpu:1", "/cpu:1"}) {
    const DeviceScope scope(device);
    all.push_back(Op("Neg", {x}));
    all.push_back(F(3));
  }
  for (int twice = 0; twice < 2; ++twice) {
    const ColocateWith with(all[0].node);
    all.push_back(Op("Neg", {x}));
  }
  auto g = Merged(Pruned({{x}, all, {}}));
  EXPECT_EQ(Count(*g, "Neg"), 4);
  EXPECT_EQ(Count(*g, "Const"), 3);
  // Folded nodes keep their requested device.
  const Output c = [] {
    const DeviceScope scope("/cpu:1");
    return Op("Neg", {F(1)});
  }();
  g = Folded(Pruned({{}, {c}, {}}));
  ASSERT_NE(g->FindNode(c.node->name()), nullptr);
  EXPECT_EQ(g->FindNode(c.node->name())->op_name(), "Const");
  EXPECT_EQ(g->FindNode(c.node->name())->device(), "/device:CPU:1");
}

TEST_F(PassesTest, ControlEdgesFromMergedNodesAreDeduplicated) {
  const Output x = Placeholder();
  const Output a = Op("Neg", {x}), b = Op("Neg", {x});
  ControlDependencies after({a.node, b.node});
  const Output y = Op("Exp", {x}), z = Op("Exp", {x});
  auto g = Merged(Pruned({{x}, {y, z}, {}}));
  EXPECT_EQ(Count(*g, "Neg"), 1);
  EXPECT_EQ(Count(*g, "Exp"), 1);
  EXPECT_EQ(g->FindNode(y.node->name())->control_inputs().size(), 1u);
}

TEST_F(PassesTest, ConstantsThatDifferInOneBitAreNotMerged) {
  Output a = F(0.f), b = F(-0.f), c = F(0.f);
  Output one = Op("Pack", {a, b, c});
  auto g = Merged(Pruned({{}, {one}, {}}));
  EXPECT_EQ(Count(*g, "Const"), 2);
}

TEST_F(PassesTest, RandomGraphsKeepTheirValues) {
  const uint32_t kSeed = 20;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  std::vector<Output> pool;
  for (int i = 0; i < 5; ++i) pool.push_back(F(static_cast<float>(i) - 2));
  const char* kOps[] = {"AddV2", "Sub", "Mul", "Maximum", "Minimum"};
  for (int i = 0; i < 300; ++i) {
    Output a = pool[random() % pool.size()], b = pool[random() % pool.size()];
    Output n = Op("Tanh", {Op(kOps[random() % 5], {a, b})});
    pool.push_back(n);
  }
  auto plain = Pruned({{}, pool, {}});
  auto folded = Folded(Merged(Pruned({{}, pool, {}})));
  EXPECT_EQ(Count(*folded, "Tanh"), 0);
  auto value = [](const Graph& g, int i) {
    // A plain interpreter, node by node.
    std::map<const Node*, Tensor> at;
    const std::vector<Node*> order = *TopologicalOrder(g);
    for (Node* n : order) {
      std::vector<Tensor> in;
      for (const Output& o : n->inputs()) in.push_back(at[o.node]);
      if (n->op_name() == "_Retval") {
        if (n->IntAttr("index") == i) return in[0].scalar<float>();
        continue;
      }
      at[n] = (*RunKernel(*n, in))[0];
    }
    return -1e9f;
  };
  for (int i = 5; i < 305; i += 13)
    EXPECT_EQ(value(*plain, i), value(*folded, i)) << i;
}

// ---- Sums of products -------------------------------------------------------

class ProductsTest : public PassesTest {
 protected:
  ProductsTest() {
    std::mt19937 random(7);
    for (int i = 0; i < 4; ++i) {
      factors_.push_back(
          Op("Placeholder", {},
             {{"dtype", DType::kFloat}, {"shape", PartialShape({2, 2})}}));
      values_.push_back(*Tensor::Make(DType::kFloat, Shape({2, 2})));
      for (int k = 0; k < 4; ++k)
        values_.back().data<float>()[k] = static_cast<float>(random() % 9);
    }
  }
  Output Product(int a, int b, bool ta = false, bool tb = false) {
    return Op(
        "MatMul",
        {factors_[static_cast<size_t>(a)], factors_[static_cast<size_t>(b)]},
        {{"transpose_a", ta}, {"transpose_b", tb}});
  }
  // The graph for `fetches` after the pass, which must produce the same
  // results.
  std::unique_ptr<Graph> Accumulated(const std::vector<Output>& fetches) {
    auto g = Pruned({factors_, fetches, {}});
    const std::vector<Tensor> want = Run(*g, fetches.size());
    const Status s = AccumulateProducts(g.get());
    EXPECT_TRUE(s.ok()) << s;
    DropUnread(g.get(), {});
    const std::vector<Tensor> got = Run(*g, fetches.size());
    for (size_t i = 0; i < fetches.size(); ++i)
      EXPECT_TRUE(got[i].Identical(want[i])) << i;  // Small integers.
    return g;
  }

  std::vector<Tensor> Run(const Graph& g, size_t fetches) const {
    std::map<const Node*, std::vector<Tensor>> done;
    std::vector<Tensor> results(fetches);
    const auto order = TopologicalOrder(g);
    for (const Node* n : *order) {
      std::vector<Tensor> in;
      for (const Output& o : n->inputs())
        in.push_back(done[o.node][static_cast<size_t>(o.index)]);
      const auto index = static_cast<size_t>(n->AttrOr<int64_t>("index", 0));
      if (n->op_name() == "_Arg") {
        done[n] = {values_[index]};
      } else if (n->op_name() == "_Retval") {
        results[index] = in[0];
      } else {
        auto out = RunKernel(*n, std::move(in));
        EXPECT_TRUE(out.ok()) << out.status();
        if (out.ok()) done[n] = *std::move(out);
      }
    }
    return results;
  }

  std::vector<Output> factors_;
  std::vector<Tensor> values_;
};

TEST_F(ProductsTest, SumOfProductsBecomesChain) {
  const Output sum = Op(
      "AddN", {Product(0, 1), Product(2, 3, true), Product(1, 2, false, true)});
  auto g = Accumulated({Op("Neg", {sum})});
  EXPECT_EQ(Count(*g, "AddN"), 0);
  EXPECT_EQ(Count(*g, "MatMul"), 1);
  EXPECT_EQ(Count(*g, "MatMulAdd"), 2);
}

TEST_F(ProductsTest, OtherTermsAreAddedFirst) {
  const Output a = Op("Neg", {Product(0, 0)}), b = Op("Abs", {Product(1, 1)});
  auto g = Accumulated({Op("AddN", {Product(0, 1), a, Product(2, 3), b})});
  EXPECT_EQ(Count(*g, "AddN"), 1);
  EXPECT_EQ(Count(*g, "MatMul"), 2);
  EXPECT_EQ(Count(*g, "MatMulAdd"), 2);
}

TEST_F(ProductsTest, ProductIsAccumulatedIntoOtherTerm) {
  const Output other = Op("Neg", {Product(0, 0)});
  auto g = Accumulated({Op("AddN", {other, Product(0, 1)})});
  EXPECT_EQ(Count(*g, "AddN"), 0);
  EXPECT_EQ(Count(*g, "MatMulAdd"), 1);
}

TEST_F(ProductsTest, SumsOfSumsBecomeChainsOfChains) {
  const Output inner = Op("AddN", {Product(0, 1), Product(1, 0)});
  auto g = Accumulated({Op("AddN", {inner, Product(2, 3), Product(3, 2)})});
  EXPECT_EQ(Count(*g, "AddN"), 0);
  EXPECT_EQ(Count(*g, "MatMul"), 1);
  EXPECT_EQ(Count(*g, "MatMulAdd"), 3);
}

TEST_F(ProductsTest, ProductsWithOtherReadersAreNotFused) {
  const Output read = Product(0, 1), twice = Product(2, 3);
  Output ordered;
  {
    ControlDependencies after({factors_[0].node});
    ordered = Product(1, 2);
  }
  const Output alone = Product(3, 1);
  auto g =
      Accumulated({Op("AddN", {read, twice, twice, ordered, alone}), read});
  EXPECT_EQ(Count(*g, "AddN"), 1);
  EXPECT_EQ(Count(*g, "MatMul"), 4);
  EXPECT_EQ(Count(*g, "MatMulAdd"), 0);
}

}  // namespace
}  // namespace sluice
