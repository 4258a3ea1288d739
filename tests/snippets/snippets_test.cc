// The examples in the headers for building and running graphs.
#include <cmath>
#include <iostream>
#include <numeric>
#include <thread>

#include "exec/core/stream_allocator.h"
#include "exec/devices/emulated_stream.h"
#include "sluice/op.h"
#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- The whole --------------------------------------------------------------

TEST_F(SnippetTest, Sluice) {
#include "snippets/include/sluice/sluice.h/1.inc"
  const Tensor rows(DType::kFloat, {3, 784});
  EXPECT_EQ(Value(y, {{x, rows}}).shape(), Shape({3, 10}));
}

TEST_F(SnippetTest, Ops) {
  Output x = Constant(Tensor::Of<float>({1, 2}, {1, 2}));
  Output w = Constant(Tensor::Of<float>({3, 2}, {1, 0, 0, 1, 1, 1}));
  Output scores = Constant(Tensor::Vector<float>({1, 5, 2, 4, 3, 0}));
#include "snippets/sluice/ops.h/1.inc"
  EXPECT_THAT(Value(y).ToVector<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Value(values).ToVector<float>(), ElementsAre(5, 4, 3, 2, 1));
  EXPECT_THAT(Value(indices).ToVector<int32_t>(), ElementsAre(1, 3, 4, 2, 0));
}

// ---- Values and errors ------------------------------------------------------

#include "snippets/src/base/status.h/1.inc"

TEST_F(SnippetTest, Statuses) {
  EXPECT_EQ(*Root(9), 3);
  EXPECT_TRUE(PrintRoot(4).ok());
  EXPECT_THAT(PrintRoot(-1).ToString(), HasSubstr("expected x >= 0, got -1"));
}

TEST_F(SnippetTest, Tensors) {
#include "snippets/src/tensor/tensor.h/1.inc"
  EXPECT_EQ(a.ToString(), "float[2,2] 1 2 3 4");
  EXPECT_EQ(b.ToString(), "int32[3] 1 2 3");
}

TEST_F(SnippetTest, Shapes) {
#include "snippets/src/tensor/shape.h/1.inc"
  EXPECT_TRUE(fits);
}

TEST_F(SnippetTest, Types) {
#include "snippets/src/tensor/dtype.h/1.inc"
  EXPECT_EQ(type, DType::kInt64);
  EXPECT_EQ(name, "int64");
  EXPECT_EQ(parsed, DType::kString);
}

TEST_F(SnippetTest, NumpyFiles) {
  const InScratchFolder folder;
  const Tensor w = Tensor::Vector<float>({1, 2}), b = Tensor::Scalar(3.0f);
  const auto save_and_load = [&]() -> Status {
#include "snippets/src/io/npy.h/1.inc"
    EXPECT_TRUE(weights.Identical(w));
    EXPECT_TRUE(arrays["b"].Identical(b));
    return OkStatus();
  };
  const Status status = save_and_load();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, Treebanks) {
  testing::internal::CaptureStdout();
#include "snippets/src/io/treebank.h/1.inc"
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "4: 3\n");
}

// ---- Graphs -----------------------------------------------------------------

TEST_F(SnippetTest, Graphs) {
#include "snippets/src/graph/graph.h/1.inc"
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->SameAs(y));
}

TEST_F(SnippetTest, Nodes) {
  const Output a = Placeholder(DType::kFloat, PartialShape({2, 3}), "a");
  const Node* const node = ops::MatMul(a, a, {.transpose_b = true}).node;
  testing::internal::CaptureStdout();
#include "snippets/src/graph/node.h/1.inc"
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "MatMul of a:0[2,3]");
  ASSERT_TRUE(transposed.ok()) << transposed.status();
  EXPECT_TRUE(*transposed);
}

TEST_F(SnippetTest, Builders) {
  Output x, w;
  {
#include "snippets/src/graph/builder.h/1.inc"
    // (The inputs belong to no graph, so they are null.)
    EXPECT_FALSE(y.valid());
  }
}

TEST_F(SnippetTest, Attributes) {
#include "snippets/src/graph/attr.h/1.inc"
  ASSERT_NE(transpose, nullptr);
  EXPECT_TRUE(*transpose);
}

TEST_F(SnippetTest, GraphDefs) {
  ops::Neg(Constant(1.0f), {.name = "y"});
  const auto copy_graph = [&]() -> Status {
#include "snippets/src/graph/graphdef.h/1.inc"
    EXPECT_NE(copy.FindNode("y"), nullptr);
    return OkStatus();
  };
  const Status status = copy_graph();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SnippetTest, DeviceFunctions) {
#include "snippets/src/graph/device_scope.h/1.inc"
  EXPECT_EQ(w.handle().node->device(), "/device:CPU:1");
  EXPECT_EQ(w.initial_value().node->device(), "");
}

TEST_F(SnippetTest, Operators) {
  Output x = Constant(Tensor::Vector<float>({1, 5, 6})), b = Constant(1.0f);
#include "snippets/src/client/operators.h/1.inc"
  EXPECT_THAT(Value(y).ToVector<float>(), ElementsAre(3, 11, 13));
  EXPECT_THAT(Value(between).ToVector<bool>(), ElementsAre(false, false, true));
}

// ---- Variables and training -------------------------------------------------

TEST_F(SnippetTest, Variables) {
  Output x = Constant(Tensor(DType::kFloat, {2, 784}));
  Session session(graph);
#include "snippets/src/client/variables.h/1.inc"
  EXPECT_TRUE(status.ok()) << status;
  const Result<Tensor> value = session.Run(y);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->shape(), Shape({2, 100}));
}

TEST_F(SnippetTest, Placeholders) {
#include "snippets/src/client/variables.h/2.inc"
  EXPECT_EQ(rows.shape(), PartialShape({-1, 784}));
  EXPECT_EQ(scalar.shape(), PartialShape::Scalar());
  EXPECT_FALSE(any.shape().rank_known());
}

TEST_F(SnippetTest, Initializers) {
#include "snippets/src/client/initializers.h/1.inc"
  EXPECT_EQ(Value(b).shape(), Shape({100}));
  EXPECT_EQ(Value(w).shape(), Shape({784, 100}));
}

TEST_F(SnippetTest, Gradients) {
  Var w(2.0f, "w"), b(3.0f, "b");
  Output h = w * 5;
  Output loss = h * w + b * b;
#include "snippets/src/client/autodiff/gradients.h/1.inc"
  EXPECT_EQ(Number(g), 20);
  ASSERT_TRUE(gs.ok()) << gs.status();
  EXPECT_EQ(Number((*gs)[0].dense), 10);
  EXPECT_EQ(Number((*gs)[1].dense), 6);
}

TEST_F(SnippetTest, Optimizers) {
  Var w(2.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/optimizers.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_LT(session.Run(w)->scalar<float>(), 2);
}

#include "snippets/src/client/nn/optimizer.h/1.inc"

TEST_F(SnippetTest, OwnOptimizers) {
  const Var w(Tensor::Vector<float>({1, 1, 1}), "w");
  const Output rows = Constant(Tensor::Vector<int32_t>({2}));
  Node* train =
      SignDescent(0.25f).Minimize(ops::Sum(ops::GatherV2(w, rows, 0) * 3, 0));
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_THAT(session.Run(w)->ToVector<float>(), ElementsAre(1, 1, 0.75f));
}

TEST_F(SnippetTest, AdamOptimizers) {
  Var w(2.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/adam_optimizers.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_NEAR(session.Run(w)->scalar<float>(), 2 - 1e-3f, 1e-6f);
  ASSERT_TRUE(session.Run(decayed).ok());
  EXPECT_LT(session.Run(w)->scalar<float>(), 2 - 2e-3f);
}

TEST_F(SnippetTest, LearningRates) {
  Var w(2.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/learning_rates.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  EXPECT_EQ(session.Run(rate)->scalar<float>(), 0);
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_GT(session.Run(rate)->scalar<float>(), 0);
}

TEST_F(SnippetTest, Clipping) {
  Var w(200.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/clip_gradients.h/1.inc"
  ASSERT_TRUE(train.ok()) << train.status();
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(*train).ok());
  EXPECT_FLOAT_EQ(session.Run(adam.GetSlot(w, "m"))->scalar<float>(), 0.5f);
}

TEST_F(SnippetTest, MovingAverages) {
  Var w(2.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/moving_averages.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(step).ok());
  EXPECT_NEAR(session.Run(averages.Average(w))->scalar<float>(), 2 - 1e-6f,
              1e-6f);
}

TEST_F(SnippetTest, MeansOfAllMembers) {
  const int workers = 1, worker = 0;
  const Var w(2.0f, "w");
  const Output loss = w * w;
#include "snippets/src/client/nn/collectives.h/1.inc"
  (void)same_start;  // (A group of one has nobody to send to.)
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_FLOAT_EQ(session.Run(w)->scalar<float>(), 1.6f);
}

TEST_F(SnippetTest, Accumulation) {
  Var w(2.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/gradient_accumulation.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(session.Run(w)->scalar<float>(), 2);
    ASSERT_TRUE(session.Run(step).ok());
  }
  EXPECT_LT(session.Run(w)->scalar<float>(), 2);
}

TEST_F(SnippetTest, ScaledLosses) {
  Var w(2.0f, "w");
  Output loss = w * w;
#include "snippets/src/client/nn/loss_scaling.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_LT(session.Run(w)->scalar<float>(), 2);
}

TEST_F(SnippetTest, Losses) {
  Output labels = Constant(Tensor::Vector<int32_t>({1}));
  Output logits = Constant(Tensor::Of<float>({1, 2}, {0, 0}));
  Output targets = Constant(Tensor::Vector<float>({0, 0}));
  Output predictions = Constant(Tensor::Vector<float>({1, 5}));
#include "snippets/src/client/nn/losses.h/1.inc"
  EXPECT_NEAR(Number(loss), std::log(2.0f), 1e-6f);
  EXPECT_FLOAT_EQ(Number(robust), (0.5f + 8) / 2);
  const Var w(1.0f, "w");
  MeanSquaredError(Constant(Tensor::Scalar(3.0f)), w);
  {
#include "snippets/src/client/nn/losses.h/2.inc"
    EXPECT_NE(train, nullptr) << graph.status();
  }
}

TEST_F(SnippetTest, VariableScopes) {
  Output examples = Constant(Tensor(DType::kFloat, {2, 4}));
  Output tests = Constant(Tensor(DType::kFloat, {3, 4}));
#include "snippets/src/client/variable_scope.h/1.inc"
  EXPECT_EQ(GlobalVariables().size(), 1u);
  EXPECT_EQ(Value(evaluation).shape(), Shape({3, 2}));
  EXPECT_EQ(Value(training).shape(), Shape({2, 2}));
}

TEST_F(SnippetTest, UpdateOps) {
  Output loss = Dense(BatchNorm(Ones({2, 3}), true), 1);
#include "snippets/src/client/variable_scope.h/2.inc"
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
}

TEST_F(SnippetTest, Activations) {
  Output x = Ones({2, 3});
#include "snippets/src/client/nn/activation.h/1.inc"
  EXPECT_EQ(Value(g).shape(), Shape({2, 10}));
}

TEST_F(SnippetTest, ReductionsOverAllAxes) {
  Output x = Ones({2, 3}), y = x * 3.0f;
#include "snippets/src/client/reductions.h/1.inc"
  EXPECT_EQ(Number(loss), 4);
}

TEST_F(SnippetTest, Constraints) {
  Output x = Ones({2, 3});
  Var weights = GetVariable("weights", {100}, init::Ones());
  Output loss = ops::Sum(weights * 2.0f, {0});
#include "snippets/src/client/nn/constraints.h/1.inc"
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(HasConstraint(scale));
  EXPECT_NE(train, nullptr);
  EXPECT_EQ(h.shape(), PartialShape({2, 100}));
}

TEST_F(SnippetTest, Regularizers) {
  Output x = Ones({2, 3}), y = Ones({2, 100});
#include "snippets/src/client/nn/regularizers.h/1.inc"
  EXPECT_EQ(RegularizationLosses().size(), 1u);
  EXPECT_GT(Number(loss), 0);
}

TEST_F(SnippetTest, Layers) {
  Output x = Ones({2, 3});
#include "snippets/src/client/nn/layers.h/1.inc"
  EXPECT_EQ(TrainableVariables("logits").size(), 2u);
  EXPECT_EQ(Value(logits).shape(), Shape({2, 10}));
}

TEST_F(SnippetTest, Convolutions) {
  Output images = Ones({2, 8, 8, 3});
#include "snippets/src/client/nn/convolutions.h/1.inc"
  EXPECT_EQ(up.shape(), PartialShape({2, 8, 6, 32}));
}

TEST_F(SnippetTest, Pooling) {
  Output images = Ones({2, 8, 8, 3});
#include "snippets/src/client/nn/pooling.h/1.inc"
  EXPECT_EQ(Value(features).shape(), Shape({2, 3}));
}

TEST_F(SnippetTest, Normalization) {
  Output images = Ones({2, 8, 8, 3}), targets = Zeros({2, 6 * 6 * 32});
#include "snippets/src/client/nn/normalization.h/1.inc"
  EXPECT_EQ(UpdateOps().size(), 2u);
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  ASSERT_TRUE(session.Run(train).ok());
}

TEST_F(SnippetTest, Attention) {
  Output x = Ones({2, 5, 8}), memory = Ones({2, 7, 6});
#include "snippets/src/client/nn/attention.h/1.inc"
  EXPECT_EQ(Value(h).shape(), Shape({2, 5, 8}));
}

TEST_F(SnippetTest, Metrics) {
  Output labels = Constant(Tensor::Vector<int64_t>({1, 0}));
  Output logits = Constant(Tensor::Of<float>({2, 2}, {0, 1, 0, 1}));
#include "snippets/src/client/nn/metrics.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({reset}).ok());
  ASSERT_TRUE(session.RunTargets({update}).ok());
  EXPECT_EQ(session.Run(figure)->scalar<float>(), 0.5f);
}

TEST_F(SnippetTest, MetricsAtThresholds) {
  Output labels = Constant(Tensor::Vector<int32_t>({1, 0, 1}));
  Output probabilities = Constant(Tensor::Vector<float>({0.7f, 0.6f, 0.95f}));
#include "snippets/src/client/nn/threshold_metrics.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({MetricsInitializer()}).ok());
  EXPECT_NEAR(session.Run(area.updated)->scalar<float>(), 1, 1e-3f);
  EXPECT_NEAR(session.Run(precision.updated)->ToVector<float>()[0], 2.0f / 3,
              1e-6f);
}

TEST_F(SnippetTest, MetricsAtK) {
  Output labels = Constant(Tensor::Of<int64_t>({1, 2}, {7, 1}));
  Output scores =
      Constant(Tensor::Of<float>({1, 8}, {0, 0.9f, 0.8f, 0, 0, 0.7f, 0, 0.1f}));
#include "snippets/src/client/nn/metrics_at_k.h/1.inc"
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({MetricsInitializer()}).ok());
  EXPECT_NEAR(session.Run(precision.updated)->scalar<double>(), 1.0 / 3, 1e-9);
  EXPECT_EQ(session.Run(of_cats.updated)->scalar<double>(), 0);
}

TEST_F(SnippetTest, LbfgsFits) {
  Output x = Constant(Tensor::Of<float>({1, 10}, std::vector<float>(10, 1)));
  Output y = Constant(Tensor::Of<float>({1, 1}, {5}));
  Session session(graph);
  {
#include "snippets/src/client/nn/lbfgs.h/1.inc"
    // (The variables are not initialized yet.)
    EXPECT_FALSE(done.ok());
    ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
    const auto again = session.Run({}, {fit.loss}, {fit.train});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_NEAR((*again)[0].scalar<float>(), 0, 1e-6f);
    EXPECT_NEAR(session.Run(w)->ToVector<float>()[3], 0.5f, 1e-4f);
  }
}

TEST_F(SnippetTest, LargeSoftmax) {
  Var w(RandomUniform({5000, 8}), "w"), b(Zeros({5000}), "b");
  Output words = Constant(Tensor::Vector<int64_t>({7, 4000}));
  Output h = RandomUniform({2, 8});
#include "snippets/src/client/nn/large_softmax.h/1.inc"
  EXPECT_GT(Number(loss), 0);
  EXPECT_GT(Number(exact), 0);
}

TEST_F(SnippetTest, CandidateSamplers) {
  Var w(RandomUniform({300, 8}), "w"), b(Zeros({300}), "b");
  Output words = Constant(Tensor::Vector<int64_t>({7, 299}));
  Output h = RandomUniform({2, 8});
  const std::vector<float> counts(300, 2.0f);
#include "snippets/src/client/nn/candidate_samplers.h/1.inc"
  EXPECT_GT(Number(loss), 0);
}

TEST_F(SnippetTest, PartitionedVariables) {
  Output ids = Constant(Tensor::Vector<int64_t>({7, 999999}));
#include "snippets/src/client/partitioned_variables.h/1.inc"
  EXPECT_EQ(rows.shape(), PartialShape({2, 64}));
  EXPECT_EQ(first.shape(), PartialShape({250000, 64}));
  EXPECT_EQ(table.parts()[3].handle().node->device(), "/job:ps/task:1");
}

TEST_F(SnippetTest, Embeddings) {
  Output words = Constant(Tensor::Vector<int64_t>({7, 49999}));
  Output indices = Constant(Tensor::Of<int64_t>({3, 2}, {0, 0, 0, 1, 1, 0}));
  Output tags = Constant(Tensor::Vector<int64_t>({1, 2, 40000}));
  Output sizes = Constant(Tensor::Vector<int64_t>({2, 2}));
#include "snippets/src/client/nn/embedding.h/1.inc"
  EXPECT_EQ(Value(rows).shape(), Shape({2, 64}));
  EXPECT_EQ(Value(means).shape(), Shape({2, 64}));
}

// ---- Control flow -----------------------------------------------------------

TEST_F(SnippetTest, ControlFlow) {
  Output x = Constant(-2.0f), n = Constant(3);
#include "snippets/src/client/control/control_flow.h/1.inc"
  EXPECT_EQ(Number(y), 2);
  EXPECT_EQ(Value(i).scalar<int32_t>(), 3);
  EXPECT_EQ(Number(total), -6);
}

TEST_F(SnippetTest, LoopsFromPrimitives) {
#include "snippets/src/client/control/loops.h/1.inc"
  EXPECT_EQ(Value(ten).scalar<int32_t>(), 10);
}

TEST_F(SnippetTest, TourLoop) {
#include "snippets/docs/tour.md/1.inc"
  EXPECT_EQ(Value(two).scalar<int32_t>(), 2);
}

TEST_F(SnippetTest, Functions) {
#include "snippets/src/client/control/functions.h/1.inc"
  EXPECT_EQ(Value(y).scalar<int32_t>(), 6765);
}

TEST_F(SnippetTest, HigherOrder) {
  Output xs = Constant(Tensor::Vector<float>({1, 2, 3}));
#include "snippets/src/client/control/higher_order.h/1.inc"
  EXPECT_THAT(Value(squares).ToVector<float>(), ElementsAre(1, 4, 9));
  EXPECT_EQ(Number(sum), 6);
  EXPECT_THAT(Value(sums).ToVector<float>(), ElementsAre(1, 3, 6));
}

#include "snippets/src/client/control/structure.h/1.inc"

TEST_F(SnippetTest, Structures) {
  const Point end = While(
      Point{Constant(1.0f), Constant(2.0f)},
      [](const Point& p) { return p.x < 100; },
      [](const Point& p) {
        return Point{p.x * 2, p.y + p.x};
      });
  EXPECT_EQ(Number(end.x), 128);
  EXPECT_EQ(Number(end.y), 129);
}

TEST_F(SnippetTest, TensorArrays) {
  Output x = Constant(Tensor::Vector<float>({1, 2, 3})), n = Constant(3);
#include "snippets/src/client/control/tensor_array.h/1.inc"
  EXPECT_THAT(Value(y).ToVector<float>(), ElementsAre(2, 4, 6));
}

TEST_F(SnippetTest, TensorStores) {
  // Node i has the nodes after it as predecessors.
  const auto Predecessors = [](Output i) {
    return ops::Cast(ops::Range(i + 1, 3, 1), DType::kInt64);
  };
  Output n = Constant(3), last = Constant(0);
  Output w = Constant(Tensor::Vector<float>(std::vector<float>(8, 0.5f)));
#include "snippets/src/client/control/tensor_store.h/1.inc"
  const float a = std::tanh(0.5f), b = std::tanh(a + 0.5f);
  EXPECT_NEAR(Value(y).ToVector<float>()[7], std::tanh(a + b + 0.5f), 1e-6);
}

TEST_F(SnippetTest, ScheduledBodies) {
  Output rows = Constant(Tensor::Of<float>({2, 1}, {1, 2})), x = rows;
  Output w = Constant(Tensor::Of<float>({1, 1}, {0.5f}));
  SessionOptions options;
  options.devices = EmulatedDevices(2);
  {
#include "snippets/src/client/control/scheduled.h/1.inc"
    const auto out = Session(graph, options).Run(y);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_NEAR(out->ToVector<float>()[1], std::tanh(1.0f), 1e-6);
    const auto body = [](Output x) { return x * 2; };
    {
#include "snippets/src/exec/scheduling/schedule_policy.h/1.inc"
      ASSERT_TRUE(status.ok()) << status;
      const auto twice = Session(graph, options).Run(y);
      ASSERT_TRUE(twice.ok()) << twice.status();
      EXPECT_THAT(twice->ToVector<float>(), ElementsAre(2, 4));
    }
  }
}

TEST_F(SnippetTest, RecurrentNetworks) {
  Output inputs = RandomUniform({2, 5, 3});
  Output lengths = Constant(Tensor::Vector<int32_t>({5, 4}));
#include "snippets/src/client/nn/rnn.h/1.inc"
  EXPECT_EQ(Value(r.outputs).shape(), Shape({2, 5, 256}));
  ASSERT_EQ(r.state.size(), 2u);
  EXPECT_EQ(Value(r.state[0]).shape(), Shape({2, 256}));
}

TEST_F(SnippetTest, RecurrentCells) {
  Output inputs = RandomUniform({2, 5, 3});
  Output x = RandomUniform({2, 3}), batch = Constant(2);
#include "snippets/src/client/nn/rnn_cells.h/1.inc"
  EXPECT_EQ(Value(r.outputs).shape(), Shape({2, 5, 256}));
  EXPECT_EQ(Value(y).shape(), Shape({2, 256}));
  EXPECT_EQ(next.size(), 2u);
}

// ---- Sessions ---------------------------------------------------------------

TEST_F(SnippetTest, Sessions) {
  Output x = Placeholder<float>({-1}), y = x * 2;
#include "snippets/src/session/session.h/1.inc"
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(one->ToVector<float>(), ElementsAre(2, 4));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_THAT((*two)[0].ToVector<float>(), ElementsAre(1, 2));
}

TEST_F(SnippetTest, Traces) {
  Output x = Placeholder<float>({}), y = ops::Exp(ops::Neg(RandomUniform({4})));
  Session session(graph);
#include "snippets/src/exec/core/trace.h/1.inc"
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GE(metadata.events.size(), 3u);
}

TEST_F(SnippetTest, Cancellations) {
  Output y = While(
      0, [](Output i) { return i >= 0; }, [](Output i) { return i * 1; });
  Session session(graph);
#include "snippets/src/exec/core/cancellation.h/1.inc"
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST_F(SnippetTest, SharedResources) {
  Var w(2.0f, "w");
#include "snippets/src/exec/core/resources.h/1.inc"
  ASSERT_TRUE(trainer.Run(w.Assign(5.0f)).ok());
  const Result<Tensor> value = evaluator.Run(w);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), 5);
}

// Checks that a node can be placed on this device.
void RunOn(Session& session, Graph& graph, const std::string& device) {
  const DeviceScope on(device);
  const Result<Tensor> value = session.Run(ops::Neg(Constant(1.0f)));
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), -1);
  EXPECT_TRUE(graph.status().ok());
}

TEST_F(SnippetTest, Cpus) {
#include "snippets/src/exec/core/device.h/1.inc"
  RunOn(session, graph, "/device:CPU:1");
}

TEST_F(SnippetTest, EmulatedAccelerators) {
#include "snippets/src/exec/devices/emulated_device.h/1.inc"
  RunOn(session, graph, "/device:EMU:1");
}

TEST_F(SnippetTest, Streams) {
  const auto clock = std::make_shared<VirtualClock>();
  const auto compute = std::make_shared<EmulatedStream>(clock),
             copies = std::make_shared<EmulatedStream>(clock);
  const int64_t copy_ns = 50;
  bool copied = false;
  compute->Enqueue(100);
#include "snippets/src/exec/core/stream.h/1.inc"
  EXPECT_EQ(copies->Position(), 150);
  EXPECT_FALSE(copied);
  clock->AdvanceTo(150);
  EXPECT_TRUE(copied);
}

TEST_F(SnippetTest, MemoryOfStreams) {
  const auto clock = std::make_shared<VirtualClock>();
  const auto compute = std::make_shared<EmulatedStream>(clock),
             copies = std::make_shared<EmulatedStream>(clock);
  auto raw = std::make_unique<HostAllocator>();
  const int64_t max_bytes = 1 << 20, max_cached = 1 << 20;
#include "snippets/src/exec/core/stream_allocator.h/1.inc"
  for (StreamAllocator* a : {&for_kernels, &for_copies}) {
    const auto t = Tensor::Make(DType::kFloat, Shape({64}), a);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_FALSE(t->in_host_memory());
    EXPECT_EQ(memory->stats().live_bytes, 256);
  }
}

TEST_F(SnippetTest, Quantization) {
  Output images = Placeholder<float>({-1, 8});
  Var w(RandomUniform({8, 4}), "w");
  Output probabilities = ops::Softmax(ops::MatMul(images, w));
  const Tensor batch1 = Tensor::Of<float>({1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor batch2 = Tensor::Of<float>({1, 8}, {8, 7, 6, 5, 4, 3, 2, 1});
  Session session(graph);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
#include "snippets/src/deploy/quantize.h/1.inc"
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].shape(), Shape({1, 4}));
}

}  // namespace
}  // namespace sluice
