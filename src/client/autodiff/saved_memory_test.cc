// The memory of a training step grows only with the values that must be saved
// for the gradients.
#include <functional>

#include "client/control/control_flow.h"
#include "client/control/tensor_array.h"
#include "client/nn/rnn.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

// The bytes of one tensor of a known shape.
int64_t BytesOf(const Output& o) {
  EXPECT_TRUE(o.shape().fully_known()) << o.name() << o.shape().ToString();
  auto n = static_cast<int64_t>(DTypeSize(o.dtype()));
  for (int i = 0; i < o.shape().rank(); ++i) n *= o.shape().dim(i);
  return n;
}

// The bytes that the loops of `graph` save for other loops per iteration.
int64_t SavedPerIteration(const Graph& graph) {
  int64_t bytes = 0;
  for (const auto& n : graph.nodes()) {
    if (n->op_name() != "ControlTrigger") continue;
    for (const Node* c : n->control_inputs())
      if (c->op_name() == "TensorArrayWriteV3") bytes += BytesOf(c->input(2));
  }
  return bytes;
}

struct Training {
  int64_t peak = 0;   // Of the step, above the memory in use before.
  int64_t saved = 0;  // The part that one iteration saves.
};

// Runs a step of `build`(steps), which returns the fetches and one feed.
Training Train(int64_t steps,
               const std::function<std::vector<Output>(
                   int64_t, std::pair<Output, Tensor>*)>& build) {
  Graph graph;
  const WithGraph use(graph);
  std::pair<Output, Tensor> feed;
  const std::vector<Output> fetches = build(steps, &feed);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  Session session(graph);
  Node* init = GlobalVariablesInitializer();
  EXPECT_TRUE(session.RunTargets({init}).ok());
  Training t;
  t.saved = SavedPerIteration(graph);
  for (int run = 0; run < 2; ++run) {  // The first run includes setup.
    RunMetadata m;
    const auto got = session.Run({feed}, fetches, {}, {}, &m);
    EXPECT_TRUE(got.ok()) << got.status();
    t.peak = m.step_peak_bytes;
  }
  return t;
}

Tensor Rows(const Shape& shape) {
  Tensor t(DType::kFloat, shape);
  for (float& v : t.flat<float>()) v = .1f;
  return t;
}

// h = tanh(h * w), repeated: every h has to be saved.
TEST(SavedMemoryTest, LoopSavesWhatItsGradientReads) {
  constexpr int64_t kUnits = 1024;
  const auto build = [](int64_t steps, std::pair<Output, Tensor>* feed) {
    const Output w = Placeholder<float>({kUnits});
    *feed = {w, Rows({kUnits})};
    const auto [i, h] = While(
        std::tuple{0, ops::Identity(w)},
        [&](Output i, Output) { return i < static_cast<int>(steps); },
        [&](Output i, Output h) {
          return std::tuple{i + 1, ops::Tanh(h * w)};
        });
    return std::vector<Output>{Grad(h, w)};
  };
  const Training a = Train(64, build), b = Train(256, build);
  EXPECT_EQ(a.saved, kUnits * 4);
  EXPECT_EQ((b.peak - a.peak) / 192, a.saved);
  // The constant part: the variables of a few iterations.
  EXPECT_LT(a.peak, 64 * a.saved + 16 * kUnits * 4);
}

// The products of the weights with all inputs are computed before the loop; the
// gates reuse their memory, and the gates' gradients that of the gates. Besides
// the saved values there are the outputs, which the loss reads.
TEST(SavedMemoryTest, LstmSavesGatesStatesAndOutputs) {
  constexpr int64_t kBatch = 16, kUnits = 32;
  const auto build = [](int64_t steps, std::pair<Output, Tensor>* feed) {
    const Output x = Placeholder<float>({steps, kBatch, kUnits});
    *feed = {x, Rows({steps, kBatch, kUnits})};
    RnnCell cell = LstmCell(kUnits);
    const Output y = DynamicRnn(cell, x, {.time_major = true}).outputs;
    std::vector<GradTarget> weights;
    for (const Var& v : cell.variables()) weights.emplace_back(v);
    return Grad({ops::Sum(y * y, {0, 1, 2})}, weights);
  };
  constexpr int64_t kState = kBatch * kUnits * 4;  // One float per unit.
  int64_t before = Train(64, build).peak;
  for (const int64_t steps : {128, 256, 512}) {
    const Training t = Train(steps, build);
    EXPECT_EQ(t.saved, 6 * kState) << "four gates, c and h";
    const double growth =
        static_cast<double>(t.peak - before) / static_cast<double>(steps / 2);
    EXPECT_NEAR(growth, t.saved + kState, .01 * t.saved) << steps;
    before = t.peak;
  }
}

}  // namespace
}  // namespace sluice
