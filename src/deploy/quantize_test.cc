#include "deploy/quantize.h"

#include <cmath>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kQuantizeSide = 12, kQuantizeClasses = 4, kQuantizeBatch = 64;

// Images of one bright bar each: horizontal or vertical, in either half.
struct Bars {
  Tensor images{DType::kFloat,
                {kQuantizeBatch, kQuantizeSide, kQuantizeSide, 1}};
  Tensor labels{DType::kInt32, {kQuantizeBatch}};

  explicit Bars(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> noise(0.3f, 0.15f);
    for (float& v : images.flat<float>()) v = std::max(0.0f, noise(random));
    for (int n = 0; n < kQuantizeBatch; ++n) {
      const int label = static_cast<int>(random() % kQuantizeClasses);
      labels.data<int32_t>()[n] = label;
      const int at = static_cast<int>(random() % 5) + (label & 1 ? 6 : 0);
      for (int i = 0; i < kQuantizeSide; ++i) {
        const int y = label & 2 ? at : i, x = label & 2 ? i : at;
        images.data<float>()[(n * kQuantizeSide + y) * kQuantizeSide + x] +=
            0.5f;
      }
    }
  }
};

double RightOf(const Tensor& scores, const Tensor& labels) {
  int right = 0;
  for (int64_t i = 0; i < labels.num_elements(); ++i) {
    const float* row = scores.data<float>() + i * kQuantizeClasses;
    right += std::max_element(row, row + kQuantizeClasses) - row ==
             labels.data<int32_t>()[i];
  }
  return static_cast<double>(right) /
         static_cast<double>(labels.num_elements());
}

// A convolutional network that learns where the bars are.
class QuantizeTest : public ::testing::Test {
 protected:
  QuantizeTest() {
    SetRandomSeed(5);
    images_ = Placeholder<float>({-1, kQuantizeSide, kQuantizeSide, 1}, "x");
    labels_ = Placeholder<int32_t>({-1}, "labels");
    Output h = Conv(images_, 1, 8, "conv1");
    h = ops::MaxPool(h, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID", {.name = "pool"});
    h = Conv(h, 8, 16, "conv2");
    h = ops::MaxPool(h, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID");
    h = ops::Reshape(h, {-1, 3 * 3 * 16});
    const Var w = GetVariable("dense/w", {3 * 3 * 16, kQuantizeClasses});
    const Var b = GetVariable("dense/b", {kQuantizeClasses}, init::Zeros());
    logits_ = ops::MatMul(h, w, {.name = "dense/product"}) + b;
    scores_ = ops::Softmax(logits_);
    loss_ = ops::Mean(
        ops::SparseSoftmaxCrossEntropyWithLogits(logits_, labels_).loss, 0);
    train_ = AdagradOptimizer(0.1).Minimize(loss_);
    session_ = std::make_unique<Session>(graph_);
    EXPECT_TRUE(session_->RunTargets({GlobalVariablesInitializer()}).ok());
  }

  static Output Conv(Output x, int64_t in, int64_t out,
                     const std::string& name) {
    const Var w = GetVariable(name + "/w", {3, 3, in, out});
    const Var b = GetVariable(name + "/b", {out}, init::Constant(0.1));
    return ops::Relu(ops::BiasAdd(
        ops::Conv2D(x, w, {1, 1, 1, 1}, "SAME", {.name = name + "/conv"}), b));
  }

  void Learn(int steps) {
    for (int i = 0; i < steps; ++i) {
      const Bars bars(static_cast<uint64_t>(i + 10));
      ASSERT_TRUE(session_
                      ->RunTargets({train_}, {{images_, bars.images},
                                              {labels_, bars.labels}})
                      .ok());
    }
  }

  Result<InferenceGraph> Frozen() {
    return Freeze(*session_, {images_}, {scores_});
  }

  static Tensor Scores(const InferenceGraph& g, const Tensor& images) {
    Session session(*g.graph);
    const auto out = session.Run({{g.feeds[0], images}}, g.fetches[0]);
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    return out.ok() ? *out : Tensor();
  }

  static std::multiset<std::string> OpsOf(const Graph& g) {
    std::multiset<std::string> ops;
    for (const auto& n : g.nodes()) ops.insert(n->op_name());
    return ops;
  }

  Graph graph_;
  const WithGraph use_{graph_};
  Output images_, labels_, logits_, scores_, loss_;
  Node* train_ = nullptr;
  std::unique_ptr<Session> session_;
};

TEST_F(QuantizeTest, FreezingKeepsExactResultsAndRemovesVariables) {
  Learn(3);
  const Result<InferenceGraph> g = Frozen();
  ASSERT_TRUE(g.ok()) << g.status().ToString();
  const Bars bars(1);
  const auto want = session_->Run({{images_, bars.images}}, scores_);
  ASSERT_TRUE(want.ok());
  EXPECT_TRUE(Scores(*g, bars.images).Identical(*want));
  const auto ops = OpsOf(*g->graph);
  EXPECT_EQ(ops.count("VarHandleOp"), 0u);
  EXPECT_EQ(ops.count("ResourceApplyAdagrad"), 0u);
  // Later steps do not change it.
  const Tensor before = Scores(*g, bars.images);
  Learn(3);
  EXPECT_TRUE(Scores(*g, bars.images).Identical(before));
}

TEST_F(QuantizeTest, LosesUnderOnePercentAccuracyAndQuartersTheSize) {
  Learn(150);
  const Result<InferenceGraph> g = Frozen();
  ASSERT_TRUE(g.ok()) << g.status().ToString();
  const Result<QuantizedGraph> q =
      Quantize(*g, {{Bars(1).images}, {Bars(2).images}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  EXPECT_THAT(q->kept, IsEmpty());
  EXPECT_THAT(q->quantized,
              ElementsAre("conv1/conv", "conv2/conv", "dense/product"));
  double before = 0, after = 0;
  for (uint64_t seed = 1000; seed < 1010; ++seed) {
    const Bars bars(seed);
    before += RightOf(Scores(*g, bars.images), bars.labels) / 10;
    after += RightOf(Scores(*q, bars.images), bars.labels) / 10;
  }
  EXPECT_GT(before, 0.9);
  EXPECT_GT(after, before - 0.01);
  EXPECT_LT(q->constant_bytes(), 0.4 * g->constant_bytes());
}

TEST_F(QuantizeTest, LayersExchangeQuantizedValues) {
  const Result<InferenceGraph> g = Frozen();
  const Result<QuantizedGraph> q = Quantize(*g, {{Bars(1).images}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  const auto ops = OpsOf(*q->graph);
  EXPECT_EQ(ops.count("QuantizeV2"), 1u);  // The images.
  EXPECT_EQ(ops.count("QuantizedConv2DWithBiasAndReluAndRequantize"), 2u);
  EXPECT_EQ(ops.count("QuantizedMaxPool"), 2u);
  EXPECT_EQ(ops.count("QuantizedReshape"), 1u);
  EXPECT_EQ(ops.count("QuantizedMatMulWithBiasAndDequantize"), 1u);
  EXPECT_EQ(ops.count("Dequantize"), 0u);
  for (const char* op : {"Conv2D", "MatMul", "Relu", "BiasAdd", "MaxPool"})
    EXPECT_EQ(ops.count(op), 0u) << op;
}

TEST_F(QuantizeTest, KeepFloatLayersStayFloat) {
  const Result<InferenceGraph> g = Frozen();
  const Bars bars(1);
  const Result<QuantizedGraph> q = Quantize(
      *g, {{bars.images}}, {.keep_float = {"conv2/conv", "dense/product"}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  EXPECT_THAT(q->quantized, ElementsAre("conv1/conv"));
  EXPECT_THAT(q->kept, ElementsAre(HasSubstr("conv2/conv: the options"),
                                   HasSubstr("dense/product")));
  const Tensor want = Scores(*g, bars.images), got = Scores(*q, bars.images);
  for (int64_t i = 0; i < want.num_elements(); ++i)
    EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 0.05f);
}

TEST_F(QuantizeTest, ExportedGraphGivesEqualResults) {
  const Result<InferenceGraph> g = Frozen();
  const Bars bars(1);
  const Result<QuantizedGraph> q = Quantize(*g, {{bars.images}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  const Result<std::string> bytes = ExportGraphDef(*q->graph);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_LT(bytes->size(), ExportGraphDef(*g->graph)->size());
  InferenceGraph again;
  again.graph = std::make_unique<Graph>();
  ImportOptions options;
  options.return_elements = {q->feeds[0].name(), q->fetches[0].name()};
  ImportResults results;
  ASSERT_TRUE(ImportGraphDef(*bytes, *again.graph, options, &results).ok());
  again.feeds = {results.return_outputs[0]};
  again.fetches = {results.return_outputs[1]};
  EXPECT_TRUE(Scores(again, bars.images).Identical(Scores(*q, bars.images)));
}

TEST_F(QuantizeTest, NegativeActivationsAndLoopsAreKept) {
  // No ReLU: bytes with a sign. Products in a loop stay float.
  const Tensor w = *session_->Run({}, TrainableVariables()[4].value());
  Graph g;
  const WithGraph use(g);
  Output x = Placeholder<float>({-1, 3 * 3 * 16}, "x");
  Output c = ops::Reshape(x, {-1, 3, 3, 16});
  Tensor filter(DType::kFloat, {2, 2, 16, 4});
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& v : filter.flat<float>()) v = normal(random);
  Output y = ops::Conv2D(c, Constant(filter), {1, 1, 1, 1}, "VALID",
                         {.name = "signed"});
  Output square = Constant(*Tensor::Zeros(DType::kFloat, {4, 4}));
  auto [n, z] = While(
      std::tuple{0, ops::Reshape(y, {-1, 4})},
      [](Output n, Output) { return n < 3; },
      [&](Output n, Output z) {
        return std::tuple{n + 1, z + ops::MatMul(z, square, {.name = "inner"})};
      });
  Session session(g);
  const Result<InferenceGraph> frozen = Freeze(session, {x}, {z});
  ASSERT_TRUE(frozen.ok()) << frozen.status().ToString();
  Tensor rows(DType::kFloat, {5, 3 * 3 * 16});
  for (float& v : rows.flat<float>()) v = normal(random);
  const Result<QuantizedGraph> q = Quantize(*frozen, {{rows}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  EXPECT_THAT(q->quantized, ElementsAre("signed"));
  EXPECT_THAT(q->kept, ElementsAre(HasSubstr("control flow")));
  const Tensor want = Scores(*frozen, rows), got = Scores(*q, rows);
  ASSERT_TRUE(want.shape() == got.shape());
  double most = 0;
  for (const float v : want.flat<float>())
    most = std::max<double>(most, std::fabs(v));
  for (int64_t i = 0; i < want.num_elements(); ++i)
    EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 0.03 * most);
}

TEST_F(QuantizeTest, FedAndNonFiniteValuesStayFloat) {
  InferenceGraph g;
  g.graph = std::make_unique<Graph>();
  {
    const WithGraph use(*g.graph);
    const Output x = Placeholder<float>({-1, 2}, "x");
    const auto weights = [](float a, float b) {
      return Constant(Tensor::Of<float>({2, 2}, {a, 1, b, 1}));
    };
    const Output fed = ops::MatMul(x, weights(1, 2), {.name = "fed"});
    const Output nan = ops::MatMul(x, weights(NAN, 2), {.name = "nan"});
    const Output tiny = ops::MatMul(x, weights(0, 1e-38f), {.name = "tiny"});
    // A name that the pass would have taken.
    const Output named = ops::Identity(x, {.name = "x/bytes"});
    g.feeds = {x, fed};
    g.fetches = {ops::Relu(fed), nan, tiny, named};
  }
  const Tensor x = Tensor::Of<float>({1, 2}, {1, -2});
  const Tensor fed = Tensor::Of<float>({1, 2}, {3, -4});
  const auto q = Quantize(g, {{x, fed}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  EXPECT_THAT(q->quantized, ::testing::ElementsAre("tiny"));
  EXPECT_THAT(q->kept,
              ::testing::UnorderedElementsAre(
                  "fed: it is fed", "nan: its weights are not all finite"));
  Session session(*q->graph);
  const auto out =
      session.Run({{q->feeds[0], x}, {q->feeds[1], fed}}, q->fetches);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_THAT((*out)[0].ToVector<float>(), ::testing::ElementsAre(3, 0));
  EXPECT_TRUE(std::isnan((*out)[1].data<float>()[0]));
  EXPECT_NEAR((*out)[2].data<float>()[1], -1, 0.05);
  const auto bytes = ExportGraphDef(*q->graph);
  ASSERT_TRUE(bytes.ok());
  Graph again;
  EXPECT_TRUE(ImportGraphDef(*bytes, again).ok());
}

TEST_F(QuantizeTest, FreezingRejectsUsesOtherThanReads) {
  const Var v(Constant(Tensor::Vector<float>({1, 2})), "v");
  ASSERT_TRUE(session_->RunTargets({v.initializer()}).ok());
  Output late;
  {
    const ControlDependencies wait({images_.node});
    late = Build("ReadVariableOp", {v.handle()}, {{"dtype", DType::kFloat}});
  }
  EXPECT_THAT(Freeze(*session_, {images_}, {late}).status().ToString(),
              HasSubstr("wait for no other node"));
  const Output row = Build("ResourceGather", {v.handle(), Constant(int32_t{0})},
                           {{"dtype", DType::kFloat}});
  EXPECT_THAT(Freeze(*session_, {}, {row}).status().ToString(),
              HasSubstr("read and nothing else"));
  const std::vector<Output> halves = ops::Split(0, images_, 2);
  EXPECT_THAT(Freeze(*session_, {halves[0]}, {halves[1]}).status().ToString(),
              HasSubstr("expected the only outputs"));
}

// No edge leads from the reads of a store to its writes.
TEST_F(QuantizeTest, WritesOfStoresAreFrozenWithTheirReads) {
  const Var v(3.f, "v");
  const TensorStore s(DType::kFloat);
  const Output y = s.Read(1) + images_;
  s.Write(0, v.Read());
  s.Write(1, s.Read(0) * 2.0f);
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const auto frozen = Freeze(session, {images_}, {y});
  ASSERT_TRUE(frozen.ok()) << frozen.status().ToString();
  const Tensor zero =
      *Tensor::Zeros(DType::kFloat, {1, kQuantizeSide, kQuantizeSide, 1});
  EXPECT_EQ(Scores(*frozen, zero).flat<float>()[0], 6.f);
  const Result<QuantizedGraph> q = Quantize(*frozen, {{zero}});
  ASSERT_TRUE(q.ok()) << q.status().ToString();
  EXPECT_EQ(Scores(*q, zero).flat<float>()[0], 6.f);
}

TEST_F(QuantizeTest, FunctionsThatCaptureVariablesAreFrozen) {
  const Var v(3.f, "v"), w(5.f, "w");
  // Read by the body, by a loop and a branch in it, and by another function.
  const Function inner = DefineFunction(
      "inner", {DType::kFloat},
      [&](const std::vector<Output>& a) { return a[0] + w.Read(); });
  const Function f =
      DefineFunction("f", {DType::kFloat}, [&](const std::vector<Output>& a) {
        const auto [i, y] = While(
            std::tuple{0, a[0]}, [](Output i, Output) { return i < 2; },
            [&](Output i, Output y) {
              return std::tuple{i + 1, Cond(
                                           y > 1, [&] { return y * v.Read(); },
                                           [&] { return y - w.Read(); })};
            });
        return inner({y * v})[0];
      });
  const Output x = Placeholder<float>({});
  const Output y = f({f({x})[0]})[0] + w;
  ASSERT_TRUE(session_->RunTargets({v.initializer(), w.initializer()}).ok());
  ASSERT_TRUE(session_->RunTargets({w.Assign(7.f)}).ok());
  const Result<InferenceGraph> g = Freeze(*session_, {x}, {y});
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(OpsOf(*g->graph).count("VarHandleOp"), 0u);
  EXPECT_EQ(OpsOf(*g->graph).count("ReadVariableOp"), 0u);
  // Later steps do not change it, nor an export.
  ASSERT_TRUE(session_->RunTargets({w.Assign(1.f)}).ok());
  const auto bytes = ExportGraphDef(*g->graph);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph again;
  ASSERT_TRUE(ImportGraphDef(*bytes, again).ok());
  const auto once = [](float z) {
    for (int i = 0; i < 2; ++i) z = z > 1 ? z * 3 : z - 7;
    return z * 3 + 7;
  };
  for (const float value : {-4.f, 0.5f, 2.f}) {
    const Tensor fed = Tensor::Scalar(value);
    const float want = once(once(value)) + 7;
    Session session(*g->graph);
    const auto got = session.Run({{g->feeds[0], fed}}, g->fetches[0]);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->scalar<float>(), want);
    Session other(again);
    const auto same = other.Run({{*again.FindOutput(x.name()), fed}},
                                *again.FindOutput(y.name()));
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->scalar<float>(), want);
  }
}

TEST_F(QuantizeTest, AVariableOfALoopOrBranchIsFrozen) {
  const Var v(3.f, "v");
  const Output x = Placeholder<float>({});
  const auto [i, y] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 2; },
      [&](Output i, Output y) {
        return std::tuple{i + 1, y * v.Read()};
      });
  ASSERT_TRUE(session_->RunTargets({v.initializer()}).ok());
  const Result<InferenceGraph> g = Freeze(*session_, {x}, {y});
  ASSERT_TRUE(g.ok()) << g.status();
  Session session(*g->graph);
  const auto got =
      session.Run({{g->feeds[0], Tensor::Scalar(2.f)}}, g->fetches[0]);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->scalar<float>(), 18.f);
}

TEST_F(QuantizeTest, FunctionsThatNeedTheVariableItselfAreNamed) {
  const Var v(3.f, "v");
  const Output x = Placeholder<float>({});
  ASSERT_TRUE(session_->RunTargets({v.initializer()}).ok());
  const Function add =
      DefineFunction("add", {DType::kFloat}, [&](const std::vector<Output>& a) {
        const ControlDependencies after({v.AssignAdd(a[0])});
        return v.Read();
      });
  EXPECT_THAT(
      Freeze(*session_, {x}, {add({x})[0]}).status().ToString(),
      AllOf(HasSubstr("expected variables that are read and nothing else, got "
                      "node 'add/AssignAdd'"),
            HasSubstr("uses variable 'v'")));
  const Function power =
      DefineFunction("power", {DType::kInt32}, {DType::kFloat},
                     [&](const Function& self, const std::vector<Output>& a) {
                       return Cond(
                           a[0] <= 0, [&] { return Constant(1.f); },
                           [&] { return self({a[0] - 1})[0] * v; });
                     });
  EXPECT_THAT(Freeze(*session_, {}, {power({Constant(int32_t{3})})[0]})
                  .status()
                  .ToString(),
              AllOf(HasSubstr("expected functions without recursion and "
                              "without a gradient of their own"),
                    HasSubstr("'v'"), HasSubstr("node 'power'")));
}

TEST_F(QuantizeTest, ErrorsStateTheExpectedRule) {
  const Result<InferenceGraph> g = Frozen();
  EXPECT_THAT(Quantize(*g, {}).status().ToString(),
              HasSubstr("calibration: expected at least one step"));
  EXPECT_THAT(Quantize(*g, {{}}).status().ToString(),
              HasSubstr("expected 1 values a step"));
  EXPECT_THAT(
      Quantize(*g, {{Bars(1).images}}, {.percentile = 0}).status().ToString(),
      HasSubstr("percentile"));
  Graph other;
  const WithGraph use(other);
  EXPECT_THAT(Freeze(*session_, {images_}, {Zeros({2})}).status().ToString(),
              HasSubstr("expected outputs of the session's graph"));
}

}  // namespace
}  // namespace sluice
