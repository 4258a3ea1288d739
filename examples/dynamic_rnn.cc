// A recurrent network over sequences of different lengths, which learns to add
// the marked numbers. The loop runs for the length of the batch's longest
// sequence; shorter ones keep their state after their end.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kBatch = 32, kLongest = 20, kUnits = 24, kSteps = 600;

struct Batch {
  Tensor inputs, lengths, sums;
};

// Rows {number, mark}, two of them marked; padded with ones that must be
// ignored.
Batch Draw(std::mt19937* random) {
  std::uniform_real_distribution<float> number(0, 1);
  Batch b;
  b.lengths = Tensor(DType::kInt32, {kBatch});
  b.sums = Tensor(DType::kFloat, {kBatch});
  b.inputs = Tensor(DType::kFloat, {kBatch, kLongest, 2});
  std::fill_n(b.inputs.data<float>(), b.inputs.num_elements(), 1.0f);
  for (int i = 0; i < kBatch; ++i) {
    const int n = 2 + static_cast<int>((*random)() % (kLongest - 1));
    const int one = static_cast<int>((*random)() % static_cast<unsigned>(n));
    const int shift =
        1 + static_cast<int>((*random)() % static_cast<unsigned>(n - 1));
    const int other = (one + shift) % n;
    float* row = b.inputs.data<float>() + i * kLongest * 2;
    b.lengths.data<int32_t>()[i] = n;
    b.sums.data<float>()[i] = 0;
    for (int t = 0; t < n; ++t) {
      row[2 * t] = number(*random);
      row[2 * t + 1] = t == one || t == other ? 1 : 0;
      b.sums.data<float>()[i] += row[2 * t] * row[2 * t + 1];
    }
  }
  return b;
}

}  // namespace

int main() {
  SetRandomSeed(1);
  Output inputs = Placeholder<float>({-1, kLongest, 2});
  Output lengths = Placeholder<int32_t>({-1}), sums = Placeholder<float>({-1});
  RnnCell cell = LstmCell(kUnits);
  RnnResult rnn =
      DynamicRnn(cell, inputs, {.sequence_length = Operand(lengths)});
  Var w = GetVariable("w", {kUnits, 1});
  Var b = GetVariable("b", {1}, init::Constant(1));
  Output guess = ops::Reshape(ops::MatMul(rnn.state[1], w) + b, {-1});
  Output error = guess - sums;
  Output loss = ops::Mean(error * error, 0);
  Node* train = AdagradOptimizer(0.05, 1e-5).Minimize(loss);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= kSteps && status.ok(); ++step) {
    const Batch batch = Draw(&random);
    const Feeds feeds = {
        {inputs, batch.inputs}, {lengths, batch.lengths}, {sums, batch.sums}};
    const auto out = session.Run(feeds, {loss}, {train});
    status = out.status();
    if (status.ok() && step % 100 == 0)
      std::printf("step %3d: mean squared error %.4f\n", step,
                  (*out)[0].scalar<float>());
  }
  const Batch batch = Draw(&random);
  const auto out = session.Run(
      {{inputs, batch.inputs}, {lengths, batch.lengths}}, {guess, rnn.outputs});
  if (!status.ok() || !out.ok()) {
    std::fprintf(stderr, "%s\n%s\n", status.ToString().c_str(),
                 out.status().ToString().c_str());
    return 1;
  }
  for (int i = 0; i < 4; ++i) {
    const int n = batch.lengths.data<int32_t>()[i];
    // After a sequence's end the outputs are zero.
    const float* y = (*out)[1].data<float>() + i * kLongest * kUnits;
    const auto zeros = std::count(y + n * kUnits, y + kLongest * kUnits, 0.0f);
    std::printf(
        "length %2d: sum %.3f, guess %.3f; %d of %d padded outputs are "
        "zero\n",
        n, batch.sums.data<float>()[i], (*out)[0].data<float>()[i],
        static_cast<int>(zeros), (kLongest - n) * kUnits);
  }
  return 0;
}
