// Fused products give the same results as the separate nodes: the same numbers,
// errors and tokens.
#include <cmath>
#include <limits>

#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/nn/optimizers.h"
#include "client/operators.h"
#include "client/variables.h"
#include "graph/graphdef.h"
#include "session/testing/fusion_test_util.h"
#include "sluice/ops.h"

// (A separate namespace keeps the using-directive out of other files of a unity
// build.)
namespace sluice::fusion_test {
namespace {

using namespace ops;  // NOLINT: a program of the graph reads like one.

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- Products ---------------------------------------------------------------

TEST_F(FusionTest, EveryActivationAndTypeGivesEqualBits) {
  for (const DType t :
       {DType::kFloat, DType::kHalf, DType::kBfloat16, DType::kDouble}) {
    const Output x = Feed(t, {4, 7}), w = Feed(t, {7, 5}), b = Feed(t, {5});
    const Output m = Feed(t, {2, 5, 6, 3}), f = Feed(t, {3, 3, 3, 4}),
                 c = Feed(t, {4}), d = Feed(t, {3, 3, 3, 2}), e = Feed(t, {6});
    const Feeds feeds = {
        {x, Random({4, 7}, t)},       {w, Random({7, 5}, t)},
        {b, Random({5}, t)},          {m, Random({2, 5, 6, 3}, t)},
        {f, Random({3, 3, 3, 4}, t)}, {c, Random({4}, t)},
        {d, Random({3, 3, 3, 2}, t)}, {e, Random({6}, t)}};
    for (const char* op : {"", "Relu", "Relu6", "Elu", "Selu", "LeakyRelu",
                           "Tanh", "Sigmoid", "Softplus", "Softsign"}) {
      const auto activated = [&](Output y) {
        return *op == '\0' ? y : Build(op, {y});
      };
      const std::vector<Output> fetches = {
          activated(Bias(MatMul(x, w), b)), activated(MatMul(x, w) + b),
          activated(b + MatMul(x, w)), activated(Bias(Conv(m, f), c)),
          activated(Bias(Build("DepthwiseConv2dNative", {m, d},
                               {{"strides", AttrValue::Ints{1, 1, 1, 1}},
                                {"padding", "SAME"}}),
                         e))};
      // (Merging equal nodes would add readers to the products.)
      for (const Output& y : fetches) {
        SCOPED_TRACE(absl::StrCat(DTypeName(t), " ", op, " ", y.name()));
        Both(feeds, {y});
        EXPECT_THAT(Nodes(feeds, {y}),
                    AllOf(HasSubstr("(_Fused"), Not(HasSubstr("(BiasAdd)")),
                          Not(HasSubstr("(Add"))));
      }
    }
  }
}

TEST_F(FusionTest, SupportsChannelsFirstAndLongRows) {
  const Output x = Feed(DType::kFloat, {2, 3, 9, 10}),
               w = Feed(DType::kFloat, {3, 3, 3, 5}),
               b = Feed(DType::kFloat, {5});
  const Output y = Relu(Bias(Conv(x, w, "NCHW"), b, "NCHW"));
  const Feeds feeds = {
      {x, Random({2, 3, 9, 10})}, {w, Random({3, 3, 3, 5})}, {b, Random({5})}};
  Both(feeds, {y});
  EXPECT_THAT(Nodes(feeds, {y}), HasSubstr("/Conv2D-BiasAdd-Relu"));
  // A bias along the wrong dimension is not fused.
  const Output z = Bias(Conv(x, w, "NCHW"), Feed(DType::kFloat, {10}));
  EXPECT_TRUE(graph_.status().ok());
  EXPECT_THAT(Nodes({{x, Random({2, 3, 9, 10})},
                     {w, Random({3, 3, 3, 5})},
                     {z.node->input(1), Random({10})}},
                    {z}),
              Not(HasSubstr("_Fused")));
  const Output p = Feed(DType::kFloat, {-1, 6}),
               q = Feed(DType::kFloat, {6, -1}), v = Feed(DType::kFloat, {-1});
  Both({{p, Random({3, 6})}, {q, Random({6, 9001})}, {v, Random({9001})}},
       {Tanh(Bias(MatMul(p, q), v))});
}

TEST_F(FusionTest, NanAndEmptyResultsAreUnchanged) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Output x = Feed(DType::kFloat, {-1, 2}),
               w = Feed(DType::kFloat, {2, 3}), b = Feed(DType::kFloat, {3});
  const Output y = Relu(Bias(MatMul(x, w), b));
  const auto out = Both({{x, Tensor::Of<float>({2, 2}, {1, nan, 1, 1})},
                         {w, Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                         {b, Tensor::Vector<float>({inf, -inf, nan})}},
                        {y});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(std::isnan(out[0].data<float>()[0]));
  EXPECT_EQ(out[0].data<float>()[3], inf);
  EXPECT_EQ(out[0].data<float>()[4], 0);
  EXPECT_TRUE(std::isnan(out[0].data<float>()[5]));
  Both({{x, Random({0, 2})}, {w, Random({2, 3})}, {b, Random({3})}}, {y});
  // An empty sum is zero, to which the bias is added.
  const Output e = Feed(DType::kFloat, {-1, -1}),
               f = Feed(DType::kFloat, {-1, 3});
  const auto sum = Both({{e, Random({2, 0})},
                         {f, Random({0, 3})},
                         {b, Tensor::Vector<float>({1, -2, 3})}},
                        {Relu(Bias(MatMul(e, f), b))});
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_THAT(sum[0].ToVector<float>(),
              ::testing::ElementsAre(1, 0, 3, 1, 0, 3));
}

TEST_F(FusionTest, InferenceBatchNormIsFused) {
  const Output x = Feed(DType::kFloat, {2, 5, 6, 3});
  const Output f = Constant(Random({3, 3, 3, 4}));
  const auto vec = [&] { return Constant(Random({4})); };
  const Output variance = Constant(Tensor::Vector<float>({1, 2, .5f, 3}));
  const auto norm = [&](bool training) {
    return Build("FusedBatchNormV3",
                 {Conv(x, f), vec(), vec(), vec(), variance},
                 {{"is_training", training}, {"epsilon", 1e-3f}});
  };
  const Feeds feeds = {{x, Random({2, 5, 6, 3})}};
  const Output y = Relu6(norm(false));
  Both(feeds, {y});
  EXPECT_THAT(Nodes(feeds, {y}), HasSubstr("/Conv2D-FusedBatchNormV3-Relu6"));
  const Output z = norm(false);
  Both(feeds, {z, Output(z.node, 1)});
  EXPECT_THAT(Nodes(feeds, {z, Output(z.node, 1)}), Not(HasSubstr("_Fused")));
  EXPECT_THAT(Nodes(feeds, {Relu(norm(true))}), Not(HasSubstr("_Fused")));
}

TEST_F(FusionTest, BatchNormGradientIsNotFused) {
  const Output x = Feed(DType::kFloat, {2, 5, 6, 4}),
               ddx = Feed(DType::kFloat, {2, 5, 6, 3});
  const auto vec = [&] {
    return Constant(Tensor::Vector<float>({1, 2, 3, 4}));
  };
  const Output g = Build("FusedBatchNormGradV3",
                         {Conv(ddx, Constant(Random({3, 3, 3, 4}))), x, vec(),
                          vec(), vec(), vec()},
                         {{"is_training", false}, {"epsilon", 1e-3f}});
  Both({{x, Random({2, 5, 6, 4})}, {ddx, Random({2, 5, 6, 3})}}, {g});
}

// With fusion, the bias is still read before the product's dependencies run.
TEST_F(FusionTest, ReferenceReadTimeIsUnchanged) {
  const Output x = Feed(DType::kFloat, {4, 7}), w = Feed(DType::kFloat, {7, 5});
  const Output b =
      Build("VariableV2", {},
            {{"shape", PartialShape({5})}, {"dtype", DType::kFloat}}, "b");
  const Tensor old_value = Random({5});
  Node* const init = BuildNode("Assign", {b, Constant(old_value)});
  const Output r = Identity(b);
  Output changed;
  {
    ControlDependencies wait({r.node});
    changed = Build("Assign", {b, Constant(Random({5}))});
  }
  Output product;
  {
    ControlDependencies wait({changed.node});
    product = MatMul(x, w);
  }
  const Output y = Bias(product, r);
  const Feeds feeds = {{x, Random({4, 7})}, {w, Random({7, 5})}};
  std::vector<Tensor> got;
  for (const bool fusion : {false, true}) {
    SessionOptions options;
    options.fusion = fusion;
    Session session(graph_, options);
    ASSERT_TRUE(session.RunTargets({init}).ok());
    const auto out = session.Run(feeds, y);
    ASSERT_TRUE(out.ok()) << out.status();
    got.push_back(*out);
  }
  EXPECT_TRUE(got[0].Identical(got[1]));
}

TEST_F(FusionTest, FedFetchedAndAwaitedNodesAreNotFused) {
  const Output x = Feed(DType::kFloat, {4, 7}), w = Feed(DType::kFloat, {7, 5}),
               b = Feed(DType::kFloat, {5});
  const Output product = MatMul(x, w), biased = Bias(product, b),
               y = Relu(biased);
  const Feeds feeds = {
      {x, Random({4, 7})}, {w, Random({7, 5})}, {b, Random({5})}};
  EXPECT_THAT(Nodes(feeds, {y}), HasSubstr("/MatMul-BiasAdd-Relu"));
  Both(feeds, {y, product});
  EXPECT_THAT(Nodes(feeds, {y, product}), Not(HasSubstr("_FusedMatMul")));
  Both(feeds, {y, biased});
  EXPECT_THAT(Nodes(feeds, {y, biased}),
              AllOf(HasSubstr("/MatMul-BiasAdd ("), HasSubstr("(Relu)")));
  Both({{product, Random({4, 5})}, {b, Random({5})}}, {y});
  Both({{biased, Random({4, 5})}}, {y});
  Session session(graph_);
  EXPECT_TRUE(session.Run(feeds, {y}, {product.node}).ok());
  EXPECT_TRUE(session.Run(feeds, {y}, {biased.node}).ok());
  EXPECT_TRUE(session.Run(feeds, {y}, {y.node}).ok());
  // The rest must not read nodes that wait for the product.
  Output after;
  {
    ControlDependencies wait({product.node});
    after = Identity(Constant(Random({5})));
  }
  Both(feeds, {y, after});
  EXPECT_THAT(Nodes(feeds, {y, after}), HasSubstr("/MatMul-BiasAdd-Relu"));
  const Output second = MatMul(x, w);
  {
    ControlDependencies wait({second.node});
    after = Identity(Constant(Random({5})));
  }
  const Output z = Relu(Bias(second, Neg(after)));
  Both(feeds, {z});
  EXPECT_THAT(Nodes(feeds, {z}), Not(HasSubstr("_FusedMatMul")));
  // A control edge that ends within.
  Output late;
  {
    ControlDependencies wait({after.node});
    late = Relu(Bias(MatMul(x, w), b));
  }
  Both(feeds, {late});
}

TEST_F(FusionTest, UpdateWaitsForFusedReadOfVariable) {
  const Var w(Constant(Random({7, 5})), "w"), b(Constant(Random({5})), "b");
  const Output x = Feed(DType::kFloat, {4, 7});
  const Output y = Sum(Relu(MatMul(x, w) + b), {0, 1});
  Node* const train = AdagradOptimizer(0.1).Minimize(y);
  Node* const init = GlobalVariablesInitializer();
  const Feeds feeds = {{x, Random({4, 7})}};
  std::vector<Tensor> ends;
  for (const bool fusion : {true, false}) {
    SessionOptions options;
    options.fusion = fusion;
    Session session(graph_, options);
    ASSERT_TRUE(session.RunTargets({init}).ok());
    for (int i = 0; i < 5; ++i)
      ASSERT_TRUE(session.RunTargets({train}, feeds).ok());
    const auto out = session.Run(w.value());
    ASSERT_TRUE(out.ok()) << out.status();
    ends.push_back(*out);
    RunOptions traced;
    traced.trace = true;
    RunMetadata metadata;
    ASSERT_TRUE(session.Run(feeds, {}, {train}, traced, &metadata).ok());
    EXPECT_EQ(
        std::any_of(metadata.events.begin(), metadata.events.end(),
                    [](const TraceEvent& e) { return e.op == "_FusedMatMul"; }),
        fusion);
  }
  EXPECT_TRUE(ends[0].Identical(ends[1]));
}

TEST_F(FusionTest, ErrorsNameOriginalOpAndLine) {
  const PartialShape any = PartialShape::Unknown();
  const Output x = Feed(DType::kFloat, any), w = Feed(DType::kFloat, any),
               b = Feed(DType::kFloat, any);
  const Output y = Relu(Bias(MatMul(x, w), b));
  EXPECT_THAT(
      BothFail({{x, Random({2, 3})}, {w, Random({4, 5})}, {b, Random({5})}}, y),
      AllOf(HasSubstr("(MatMul)"), HasSubstr("fusion_test.cc")));
  EXPECT_THAT(
      BothFail({{x, Random({2, 3})}, {w, Random({3, 5})}, {b, Random({4})}}, y),
      AllOf(HasSubstr("(BiasAdd)"), HasSubstr("fusion_test")));
  const Output mean = Feed(DType::kFloat, any);
  const auto vec = [&] { return Constant(Random({4})); };
  const Output image = Feed(DType::kFloat, {1, 3, 3, 2});
  EXPECT_THAT(BothFail({{image, Random({1, 3, 3, 2})}, {mean, Random({7})}},
                       Build("FusedBatchNormV3",
                             {Conv(image, Constant(Random({3, 3, 2, 4}))),
                              vec(), vec(), mean, vec()},
                             {{"is_training", false}})),
              HasSubstr("input 3: expected a vector of 4 elements"));
  // In a loop the error says where.
  const std::vector<Output> out = While(
      std::vector<Output>{Constant<int32_t>(0), Constant(Random({4, 4}))},
      [](const std::vector<Output>& v) { return Less(v[0], 3); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, Relu(Bias(MatMul(v[1], w), b))};
      },
      {.shape_invariants = {PartialShape({}), any}});
  Session session(graph_);
  EXPECT_THAT(
      ErrorOf(session, {{w, Random({4, 4})}, {b, Random({5})}}, out[1]),
      AllOf(HasSubstr("(BiasAdd)"), HasSubstr("frame 'while' iteration 0")));
}

TEST_F(FusionTest, TrainingStepsFuseAndKeepTheirGradients) {
  const Output x = Feed(DType::kFloat, {4, 7});
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu"}) {
    const Output w = Constant(Random({7, 5})), b = Constant(Random({5}));
    const Output y = Build(op, {Bias(MatMul(x, w), b)});
    const auto g = Gradients({y * y}, {w, b, x});
    ASSERT_TRUE(g.ok()) << g.status();
    const std::vector<Output> fetches = {y, (*g)[0].dense, (*g)[1].dense,
                                         (*g)[2].dense};
    const Feeds feeds = {{x, Random({4, 7})}};
    Both(feeds, fetches);
    // (The gradient of LeakyRelu reads the input of LeakyRelu.)
    EXPECT_THAT(Nodes(feeds, fetches),
                HasSubstr(std::string(op) == "LeakyRelu"
                              ? "/MatMul-BiasAdd "
                              : absl::StrCat("/MatMul-BiasAdd-", op)));
  }
}

TEST_F(FusionTest, ProductsFuseInLoopsAndBranches) {
  const Output w = Constant(Random({6, 6})), b = Constant(Random({6}));
  const Output n = Feed(DType::kInt32, PartialShape({}));
  const Output x = Constant(Random({3, 6}));
  const std::vector<Output> out = While(
      std::vector<Output>{Constant<int32_t>(0), x},
      [&](const std::vector<Output>& v) { return Less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, Tanh(Bias(MatMul(v[1], w), b))};
      });
  Both({{n, Tensor::Scalar<int32_t>(5)}}, {out[1]});
  Both({{n, Tensor::Scalar<int32_t>(0)}}, {out[1]});
  const Output branch = Cond(
      Greater(n, 2), [&] { return Relu(Bias(MatMul(x, w), b)); },
      [&] { return MatMul(x, w) - b; });
  for (const int v : {1, 3}) Both({{n, Tensor::Scalar<int32_t>(v)}}, {branch});
}

// As in a graph that TensorFlow's optimiser has rewritten.
TEST_F(FusionTest, ImportedGraphMayContainFusedNodes) {
  const auto imported = ParseTextGraphDef(R"(
    node { name: "x" op: "Placeholder"
           attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "w" op: "Placeholder"
           attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "b" op: "Placeholder"
           attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "s" op: "Placeholder"
           attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "y" op: "_FusedMatMul" input: "x" input: "w" input: "b"
           input: "s"
           attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "num_args" value { i: 2 } }
           attr { key: "leakyrelu_alpha" value { f: 0.5 } }
           attr { key: "fused_ops" value { list {
             s: "BiasAdd" s: "Add" s: "LeakyRelu" } } } })");
  ASSERT_TRUE(imported.ok()) << imported.status();
  Graph graph;
  ASSERT_TRUE(ImportGraphDef(*imported, graph, {}).ok());
  Session session(graph);
  const std::vector<std::pair<std::string, Tensor>> feeds = {
      {"x", Tensor::Of<float>({2, 1}, {1, -1})},
      {"w", Tensor::Of<float>({1, 2}, {2, 3})},
      {"b", Tensor::Vector<float>({10, -10})}};
  const auto run = [&](const sluice::Shape& side) {
    auto all = feeds;
    all.emplace_back("s", *Tensor::Zeros(DType::kFloat, side));
    return session.RunByName(all, {"y"});
  };
  const auto out = run({2, 2});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].ToVector<float>(),
              ::testing::ElementsAre(12, -3.5f, 8, -6.5f));
  EXPECT_THAT(std::string(run({2}).status().message()),
              AllOf(HasSubstr("sum"), HasSubstr("'y' (_FusedMatMul)")));
  // Invalid combinations are errors.
  const auto bad = [&](AttrValue::Strings ops, int64_t args) {
    Graph g;
    WithGraph use(g);
    const auto f = [](const PartialShape& s) { return Feed(DType::kFloat, s); };
    std::vector<Output> in = {f({2, 3}), f({3, 4})};
    for (int64_t i = 0; i < args; ++i) in.push_back(f({4}));
    const Output y = Build("_FusedMatMul", in, {{"fused_ops", std::move(ops)}});
    Session s(g);
    return std::string(s.Run({}, std::vector<Output>{y}).status().message());
  };
  EXPECT_THAT(bad({"BiasAdd", "Quantize"}, 1), HasSubstr("fused_ops"));
  EXPECT_THAT(bad({"BiasAdd", "Relu"}, 2), HasSubstr("num_args"));
  EXPECT_THAT(bad({"BiasAdd"}, 0), HasSubstr("num_args"));
}

}  // namespace
}  // namespace sluice::fusion_test
