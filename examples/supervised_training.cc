// A supervised training run: it goes on from its latest checkpoint, saves
// beside training, logs, writes summaries and ends in order on Ctrl-C. Kill it
// at any moment and start it again: it ends with the same weights, since the
// batch of a step depends on the step alone.
//
//   example_supervised_training [folder [steps]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int64_t kExamples = 512, kBatch = 32;

// Points in a square; the label is whether they are within a circle. An epoch
// shuffles them with its number as seed.
Feeds BatchOf(int64_t step, const Output& x, const Output& y) {
  constexpr int64_t kBatches = kExamples / kBatch;
  std::vector<int> order(kExamples);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 shuffle(static_cast<uint32_t>(step / kBatches));
  std::shuffle(order.begin(), order.end(), shuffle);
  std::vector<float> points, labels;
  for (int64_t i = 0; i < kBatch; ++i) {
    const int example =
        order[static_cast<size_t>(step % kBatches * kBatch + i)];
    std::mt19937 random(static_cast<uint32_t>(example));
    std::uniform_real_distribution<float> coordinate(-1, 1);
    const float a = coordinate(random), b = coordinate(random);
    points.insert(points.end(), {a, b});
    labels.push_back(a * a + b * b < 0.6f ? 1.f : 0.f);
  }
  return {{x, Tensor::Of<float>({kBatch, 2}, points)},
          {y, Tensor::Of<float>({kBatch, 1}, labels)}};
}

}  // namespace

int main(int argc, char** argv) {
  SetRandomSeed(1);
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
  const Output x = Placeholder<float>({-1, 2}, "x");
  const Output y = Placeholder<float>({-1, 1}, "y");
  const Var w1(RandomNormal({2, 16}), "w1"), b1(Zeros({16}), "b1");
  const Var w2(RandomNormal({16, 1}), "w2"), b2(Zeros({1}), "b2");
  const Output hidden = ops::Tanh(ops::MatMul(x, w1) + b1);
  const Output inside = ops::Sigmoid(ops::MatMul(hidden, w2) + b2);
  const Output error = inside - y;
  const Output loss = ops::Mean(error * error, {0, 1});
  const Output right = ops::Equal(ops::Round(inside), y);
  const Output accuracy = ops::Mean(ops::Cast(right, DType::kFloat), {0, 1});
  AdamOptimizer optimizer(0.01f);
  Node* const train = optimizer.Minimize(loss, {.global_step = step});

  TrainingOptions options;
  options.folder = argc > 1 ? argv[1] : "supervised_training";
  options.last_step = argc > 2 ? std::atoll(argv[2]) : 2000;
  options.save = {.seconds = 1};
  options.loss = loss;  // Logged; NaN ends the run.
  options.log_tensors = {{"accuracy", accuracy}};
  options.log_every = {.steps = 500};
  options.summary =
      ops::ScalarSummary(Constant(Tensor::Scalar<std::string>("loss")), loss);
  options.stop_on_signals = true;
  auto training = TrainingSession::Start(options);
  Status status = training.status();
  if (status.ok())
    status = (*training)->Train({train},
                                [&](int64_t at) { return BatchOf(at, x, y); });
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("stopped at step %lld: %s\n",
              static_cast<long long>((*training)->step()),
              (*training)->stop_reason().c_str());
  return 0;
}
