// What the recorded numbers (optimizer_numbers_test.cc) do not show: which rows
// an update touches, and the order of its parts.
#include "client/nn/adam_optimizers.h"

#include <algorithm>
#include <set>

#include "client/testing/client_test_util.h"
#include "session/compile.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using AdamTest = ClientTest;

Output LossOfRows(const Var& w, const Output& ids) {
  return ops::Sum(ops::Square(ops::GatherV2(w, ids, 0)), {0, 1});
}

TEST_F(AdamTest, LazyAdamLeavesOtherRowsAlone) {
  const Var w(Ones({3, 2}), "w");
  const Output ids = Placeholder<int32_t>({2});
  AdamOptimizer adam(0.1, {.rows = AdamRows::kLazy});
  Node* train = adam.Minimize(LossOfRows(w, ids));
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  RunNode(train, {{ids, Tensor::Vector<int32_t>({0, 1})}});
  const std::vector<float> first = Values<float>(w);
  RunNode(train, {{ids, Tensor::Vector<int32_t>({1, 1})}});
  const std::vector<float> second = Values<float>(w);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_GT(first[2], second[2]);
  EXPECT_EQ(second[4], 1);
  EXPECT_THAT(std::vector<float>(second.begin() + 4, second.end()),
              ElementsAre(1, 1));
}

TEST_F(AdamTest, AllRowsMoveOnByTheirMoments) {
  const Var w(Ones({3, 2}), "w");
  const Output ids = Placeholder<int32_t>({2});
  Node* train = AdamOptimizer(0.1).Minimize(LossOfRows(w, ids));
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  RunNode(train, {{ids, Tensor::Vector<int32_t>({0, 1})}});
  const std::vector<float> first = Values<float>(w);
  RunNode(train, {{ids, Tensor::Vector<int32_t>({1, 1})}});
  const std::vector<float> second = Values<float>(w);
  EXPECT_GT(first[0], second[0]);
  EXPECT_EQ(second[4], 1);  // Never had a gradient.
}

// Larger than one thread's part, with rows at the ends of the parts.
TEST_F(AdamTest, BothFormsOfAllRowsAgreeOnLargeTables) {
  constexpr int64_t kRows = 3000;
  SetRandomSeed(3);
  const Output start = RandomNormal({kRows, 17});
  const Output ids = RandomUniform({64}, 0, kRows, {.dtype = DType::kInt32});
  const Output rows = RandomNormal({64, 17});
  for (const bool nesterov : {false, true}) {
    const std::string suffix = nesterov ? "_ahead" : "";
    const Var v(start, "v" + suffix), w(start, "w" + suffix);
    AdamOptimizer one_op(0.1, {.nesterov = nesterov});
    AdamOptimizer many(
        0.1, {.nesterov = nesterov, .rows = AdamRows::kAllByTensorFlowOps});
    const Gradient g = Gradient::Slices(ids, rows, IntVector({kRows, 17}));
    const auto a = one_op.ApplyGradients({{g, v}}),
               b = many.ApplyGradients({{g, w}});
    ASSERT_TRUE(a.ok() && b.ok()) << graph_.status();
    Initialize();
    for (int i = 0; i < 5; ++i) {
      const Status both = session_.RunTargets({*a, *b});
      ASSERT_TRUE(both.ok()) << both;
    }
    const std::vector<float> x = Values<float>(v), y = Values<float>(w);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(x[i], y[i], 2e-6f) << i << " nesterov " << nesterov;
  }
}

// The same step, whose passes leave the nodes as they are.
TEST_F(AdamTest, RowsMoveByTensorFlowsNodesAsByOneOp) {
  SetRandomSeed(5);
  for (const bool reference : {false, true}) {
    const Output start = RandomNormal({300, 7}, 0, 1, {.seed = 5});
    const Var w(start, reference ? "ref" : "w", {.reference = reference});
    const Output ids = Placeholder<int32_t>({4}), rows = Ones({4, 7});
    AdamOptimizer adam(0.1, {.rows = AdamRows::kAllByTensorFlowOps});
    const auto train = adam.ApplyGradients(
        {{Gradient::Slices(ids, rows, IntVector({300, 7})), w}});
    ASSERT_TRUE(train.ok()) << train.status();
    std::vector<std::vector<float>> results;
    for (const bool passes : {false, true}) {
      SessionOptions options;
      options.common_subexpressions = passes;
      Session session(graph_, options);
      ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
      for (const int32_t first : {0, 299, 7}) {
        const Status ran = session.RunTargets(
            {*train}, {{ids, Tensor::Vector<int32_t>({first, 7, 7, 30})}});
        ASSERT_TRUE(ran.ok()) << ran;
      }
      results.push_back(session.Run(w)->ToVector<float>());
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      ASSERT_NEAR(results[0][i], results[1][i], 2e-6f) << i;
  }
}

// The ops of a step after the passes, as TensorFlow names them.
std::multiset<std::string> OpsOf(const Graph& graph, Node* train,
                                 std::vector<Output> fetches = {}) {
  const Result<OptimizedStep> step =
      OptimizeStep(graph, {{}, std::move(fetches), {train}}, true, true);
  EXPECT_TRUE(step.ok()) << step.status();
  std::multiset<std::string> ops;
  if (!step.ok()) return ops;
  for (const auto& n : step->graph->nodes()) ops.insert(n->op_name());
  return ops;
}

TEST_F(AdamTest, TensorFlowsNodesForRowsBecomeOneOp) {
  for (const bool reference : {false, true}) {
    const Var w(Ones({6, 2}), "w", {.reference = reference});
    const Output ids = Placeholder<int32_t>({2});
    AdamOptimizer adam(0.1, {.rows = AdamRows::kAllByTensorFlowOps});
    Node* const train = adam.Minimize(LossOfRows(w, ids), {.variables = {w}});
    ASSERT_NE(train, nullptr) << graph_.status();
    // (`ids` are not fed: what they give does not matter here.)
    const auto ops = OpsOf(graph_, train);
    const std::string prefix = reference ? "" : "Resource";
    EXPECT_EQ(ops.count(prefix + "SparseApplyAdam"), 1u);
    EXPECT_EQ(ops.count(prefix + "ScatterAdd"), 0u);
    EXPECT_EQ(ops.count("Unique") + ops.count("UnsortedSegmentSum"), 0u);
    // A moment that is asked for before the update is read before it.
    const Var m = adam.GetSlot(w, "m");
    EXPECT_EQ(
        OpsOf(graph_, train, {m.value()}).count(prefix + "SparseApplyAdam"),
        1u);
    Initialize();
    const Feeds feeds = {{ids, Tensor::Vector<int32_t>({0, 1})}};
    const Result<Tensor> before = session_.Run(feeds, m.value(), {train});
    ASSERT_TRUE(before.ok()) << before.status();
    // (A reference is read when the step ends.)
    if (!reference) {
      EXPECT_EQ(before->ToVector<float>()[0], 0);
    }
    EXPECT_NEAR(Values<float>(m.Read())[0], 0.2f, 1e-6f);
  }
}

TEST_F(AdamTest, MomentsThatSomethingElseReadsKeepTheirNodes) {
  const Var w(Ones({6, 2}), "w");
  const Output ids = Placeholder<int32_t>({2});
  AdamOptimizer adam(0.1, {.rows = AdamRows::kAllByTensorFlowOps});
  Node* const train = adam.Minimize(LossOfRows(w, ids));
  ASSERT_NE(train, nullptr) << graph_.status();
  int fetched = 0;
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    Node* const n = graph_.nodes()[i].get();
    const auto& before = n->control_inputs();
    if (n->kind() != OpKind::kReadVariable ||
        std::none_of(before.begin(), before.end(), [](const Node* c) {
          return c->kind() == OpKind::kScatterAdd;
        }))
      continue;
    ++fetched;
    EXPECT_EQ(OpsOf(graph_, train, {Output(n)}).count("ResourceScatterAdd"),
              2u);
  }
  EXPECT_EQ(fetched, 2);
}

// The update waits for what reads the variable in the step.
TEST_F(AdamTest, OneOpForRowsRunsAfterTheReadsOfTheStep) {
  const Var w(Ones({6, 2}), "w");
  const Output ids = Placeholder<int32_t>({2});
  const Output loss = LossOfRows(w, ids);
  AdamOptimizer adam(0.5, {.rows = AdamRows::kAllByTensorFlowOps});
  Node* const train = adam.Minimize(loss);
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  const Feeds feeds = {{ids, Tensor::Vector<int32_t>({0, 1})}};
  const Result<Tensor> got = session_.Run(feeds, loss, {train});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->scalar<float>(), 4);
  EXPECT_NEAR(Values<float>(w)[0], 0.5f, 1e-5f);
}

TEST_F(AdamTest, HalvesAndEmptyTablesAreUpdated) {
  for (const DType t : {DType::kHalf, DType::kDouble}) {
    const Var w(Ones({3, 2}, t), "w");
    const Output ids = Constant(Tensor::Vector<int32_t>({2}));
    Node* train =
        AdamOptimizer(0.1).Minimize(LossOfRows(w, ids), {.variables = {w}});
    ASSERT_NE(train, nullptr) << graph_.status();
    Initialize();
    RunNode(train);
    const std::vector<float> got =
        Values<float>(ops::Cast(w.Read(), DType::kFloat));
    EXPECT_EQ(got[0], 1);
    EXPECT_NEAR(got[4], 0.9f, 0.01f);
  }
  const Var none(Zeros({0, 2}), "none");
  const Gradient g = Gradient::Slices(Constant(Tensor::Vector<int32_t>({})),
                                      Zeros({0, 2}), IntVector({0, 2}));
  const auto train = AdamOptimizer(0.1).ApplyGradients({{g, none}});
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  RunNode(*train);
}

TEST_F(AdamTest, AWrongRowIsAnErrorThatNamesIt) {
  const Var w(Ones({3, 2}), "w");
  const Output ids = Placeholder<int32_t>({1});
  const Gradient g = Gradient::Slices(ids, Ones({1, 2}), IntVector({3, 2}));
  const auto train = AdamOptimizer(0.1).ApplyGradients({{g, w}});
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  const Status ran =
      session_.RunTargets({*train}, {{ids, Tensor::Vector<int32_t>({3})}});
  EXPECT_THAT(std::string(ran.message()),
              ::testing::HasSubstr("Index 3 at offset 0 in indices is out of "
                                   "range: expected [0, 3)"));
}

TEST_F(AdamTest, VariablesHaveTensorFlowsNames) {
  const Var w(1.0, "layer/w"), b(1.0, "b");
  AdamOptimizer adam(0.1);
  const NameScope scope("train");
  Node* train = adam.Minimize(w * b);
  ASSERT_NE(train, nullptr) << graph_.status();
  EXPECT_EQ(train->name(), "train/Adam");
  std::vector<std::string> names;
  for (const Var& v : adam.Variables()) names.push_back(v.name());
  EXPECT_THAT(names, UnorderedElementsAre(
                         "layer/w/Adam", "layer/w/Adam_1", "b/Adam", "b/Adam_1",
                         "train/beta1_power", "train/beta2_power"));
  EXPECT_NE(graph_.FindNode("train/Adam/learning_rate"), nullptr);
  EXPECT_NE(graph_.FindNode("train/Adam/beta1"), nullptr);
  EXPECT_NE(graph_.FindNode("train/Adam/update_b/ResourceApplyAdam"), nullptr);
}

TEST_F(AdamTest, OnlyTheGivenVariablesDecay) {
  const Var w(1.0, "w"), b(1.0, "b");
  AdamWOptimizer adam(0.0, {.weight_decay = 0.25, .decayed = {w}});
  Node* train = adam.Minimize(w * b);
  ASSERT_NE(train, nullptr) << graph_.status();
  Initialize();
  RunNode(train);
  EXPECT_FLOAT_EQ(Values<float>(w)[0], 0.75f);
  EXPECT_FLOAT_EQ(Values<float>(b)[0], 1);
}

// The decay and the parts of a sparse step write the variable too: none may
// come before a read of the loss. For any order of the ready nodes.
TEST_F(AdamTest, NoPartOfAnUpdatePrecedesAReadOfTheLoss) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    for (const AdamRows rows :
         {AdamRows::kAll, AdamRows::kAllByTensorFlowOps}) {
      Graph graph;
      const WithGraph use(graph);
      SessionOptions options;
      options.scheduler_seed = seed;
      Session session(graph, options);
      const Var w(Ones({2, 2}), "w");
      const Output ids = Constant(Tensor::Vector<int32_t>({0}));
      const Output more =
          ops::Sum(ops::Exp(ops::StopGradient(w.Read())), {0, 1});
      const Output loss = LossOfRows(w, ids) + more;
      AdamWOptimizer adam(0.1, {.weight_decay = 0.5, .adam = {.rows = rows}});
      Node* train = adam.Minimize(loss);
      ASSERT_NE(train, nullptr) << graph.status();
      ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
      const auto got = session.Run({}, {loss}, {train});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_NEAR((*got)[0].scalar<float>(), 2 + 4 * std::exp(1.0f), 1e-4f);
    }
  }
}

}  // namespace
}  // namespace sluice
