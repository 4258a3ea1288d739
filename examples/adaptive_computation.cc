// Adaptive Computation Time (Graves 2016): at each element of a sequence the
// network computes ("ponders") for as many steps as it considers worth their
// cost. A loop within a loop; the number of inner iterations is learned.
//
//   example_adaptive_computation [PENALTY]      of a step: 0.01
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kBatch = 32, kLength = 6, kUnits = 16, kSteps = 400;
constexpr int kMaxThoughts = 10;
constexpr float kHalted = 0.99f;

// An element's result is the mean of the states after each step, weighted by
// the probabilities of halting there, with two more columns: the number of
// steps and the weight of the last one.
RnnCell AdaptiveCell() {
  return FunctionCell(
      kUnits + 2, {kUnits}, [](Output x, const RnnState& before) {
        const int depth = 2;
        RnnStepper think =
            *BasicRnnCell(kUnits).Open(depth, DType::kFloat, false);
        Output halt_w = GetVariable("halt/w", {kUnits, 1}).Read();
        Output halt_b = GetVariable("halt/b", {1}, init::Constant(-1)).Read();
        Output zero = ops::ZerosLike(x);
        auto thoughts = While(
            std::tuple{0, before[0], ops::ZerosLike(before[0]), zero, zero,
                       zero},
            [](Output n, Output, Output, Output halted, Output, Output) {
              Output open = ops::Any(halted < kHalted, {0, 1});
              return ops::LogicalAnd(open, n < kMaxThoughts);
            },
            [&](Output n, Output s, Output mean, Output halted, Output count,
                Output rest) {
              // A flag tells the first step at an element from the others.
              Output flag = zero + ops::Cast(ops::Equal(n, 0), DType::kFloat);
              s = think.step(ops::ConcatV2({x, flag}, 1), {s}).output;
              Output h = ops::Sigmoid(ops::MatMul(s, halt_w) + halt_b);
              Output open = ops::Cast(halted < kHalted, DType::kFloat);
              Output last =
                  ops::LogicalOr(halted + h >= kHalted, n >= kMaxThoughts - 1);
              Output left = open * (1 - halted);
              Output p = ops::SelectV2(last, left, open * h);
              rest = rest + ops::SelectV2(last, left, ops::ZerosLike(left));
              return std::tuple{n + 1,        s,   mean + p * s, halted + p,
                                count + open, rest};
            },
            {.name = "think"});
        Output mean = std::get<2>(thoughts);
        Output count = std::get<4>(thoughts), rest = std::get<5>(thoughts);
        return RnnStep{ops::ConcatV2({mean, count, rest}, 1), {mean}};
      });
}

}  // namespace

int main(int argc, char** argv) {
  const float penalty = argc > 1 ? std::strtof(argv[1], nullptr) : 0.01f;
  // Learns to output the largest number so far.
  SetRandomSeed(2);
  Output x = Placeholder<float>({kBatch, kLength, 1});
  Output y = Placeholder<float>({kBatch, kLength, 1});
  RnnResult rnn = DynamicRnn(AdaptiveCell(), x);
  std::vector<Output> parts = ops::SplitV(rnn.outputs, {kUnits, 1, 1}, 2, 3);
  Var w = GetVariable("w", {kUnits, 1}), b = GetVariable("b", {1});
  Output guess =
      ops::Reshape(ops::MatMul(ops::Reshape(parts[0], {-1, kUnits}), w) + b,
                   {kBatch, kLength, 1});
  Output error = guess - y;
  Output loss = ops::Mean(error * error, {0, 1, 2});
  Output thoughts = ops::Mean(parts[1], {0, 1, 2});
  // The ponder cost: the number of steps (which has no gradient) and the last
  // one's weight (which has one).
  Output price = thoughts + ops::Mean(parts[2], {0, 1, 2});
  Node* train = AdagradOptimizer(0.05).Minimize(loss + penalty * price);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(0, 1);
  for (int step = 0; step <= kSteps && status.ok(); ++step) {
    Tensor xs(DType::kFloat, {kBatch, kLength, 1});
    Tensor ys(DType::kFloat, {kBatch, kLength, 1});
    for (int i = 0; i < kBatch * kLength; ++i) {
      const float v = xs.data<float>()[i] = number(random);
      float& most = ys.data<float>()[i];
      most = i % kLength == 0 ? v : std::max(v, ys.data<float>()[i - 1]);
    }
    const auto out = session.Run({{x, xs}, {y, ys}}, {loss, thoughts}, {train});
    status = out.status();
    if (status.ok() && step % 50 == 0)
      std::printf(
          "step %3d: mean squared error %.4f, %.2f thoughts an element\n", step,
          (*out)[0].scalar<float>(), (*out)[1].scalar<float>());
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
