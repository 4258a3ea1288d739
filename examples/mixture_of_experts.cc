// A mixture of experts inside a recurrent cell: at each element every sequence
// is sent to the expert that its gate prefers, and an expert without input does
// not run. Conditionals in a loop, and gradients through both.
#include <array>
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kBatch = 8, kLength = 8, kUnits = 16, kExperts = 4;
constexpr int kKinds = 4, kDepth = kKinds + 1, kSteps = 600;

// Rows [n, kDepth + kUnits] to [n, kUnits].
Output Expert(int e, Output rows) {
  NameScope scope(absl::StrCat("expert_", e));
  Var w = GetVariable("w", {kDepth + kUnits, kUnits});
  Var b = GetVariable("b", {kUnits}, init::Zeros());
  return ops::Tanh(ops::MatMul(rows, w) + b);
}

// The last kExperts columns of the output report which experts ran.
RnnCell MixtureCell() {
  return FunctionCell(
      kUnits + kExperts, {kUnits}, [](Output x, const RnnState& state) {
        Output in = ops::ConcatV2({x, state[0]}, 1);
        Var gate = GetVariable("gate", {kDepth + kUnits, kExperts});
        Output chances = ops::Softmax(ops::MatMul(in, gate));
        Output choice = ops::ArgMax(chances, 1, {.output_type = DType::kInt32});
        // Sends rows to the experts and puts the results back in place.
        Output places = ops::Range(0, kBatch, 1);
        std::vector<Output> rows = ops::DynamicPartition(in, choice, kExperts);
        std::vector<Output> from =
            ops::DynamicPartition(places, choice, kExperts);
        std::vector<Output> results, ran;
        for (int e = 0; e < kExperts; ++e) {
          const size_t i = static_cast<size_t>(e);
          Output asked = ops::Size(from[i]) > 0;
          results.push_back(Cond(
              asked, [&] { return Expert(e, rows[i]); },
              [&] {
                return ops::Fill({0, kUnits}, 0.0f);
              }));
          ran.push_back(
              ops::Fill({kBatch, 1}, ops::Cast(asked, DType::kFloat)));
        }
        Output y = ops::DynamicStitch(from, results);
        // The gate learns through the weight of its choice.
        Output weight = ops::Max(chances, 1, {.keep_dims = true});
        Output next = ops::Reshape(y, {kBatch, kUnits}) * weight;
        ran.insert(ran.begin(), next);
        return RnnStep{ops::ConcatV2(ran, 1), {next}};
      });
}

}  // namespace

int main() {
  // Each element is a number and the operation to apply to it.
  SetRandomSeed(4);
  Output x = Placeholder<float>({kBatch, kLength, kDepth});
  Output y = Placeholder<float>({kBatch});
  RnnResult rnn = DynamicRnn(MixtureCell(), x);
  Var w = GetVariable("w", {kUnits, 1}), b = GetVariable("b", {1});
  Output guess =
      ops::Reshape(ops::MatMul(rnn.state[0], w) + b, IntVector({kBatch}));
  Output error = guess - y;
  Output loss = ops::Mean(error * error, 0);
  Output ran =
      ops::Mean(ops::SplitV(rnn.outputs, {kUnits, kExperts}, 2, 2)[1], {0, 1});
  Node* train = AdagradOptimizer(0.1).Minimize(loss);

  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1, 1);
  double sum = 0;
  std::array<double, kExperts> share = {};
  for (int step = 1; step <= kSteps && status.ok(); ++step) {
    Tensor xs = *Tensor::Zeros(DType::kFloat, {kBatch, kLength, kDepth});
    Tensor ys = *Tensor::Zeros(DType::kFloat, {kBatch});
    for (int i = 0; i < kBatch * kLength; ++i) {
      const float v = number(random);
      const int kind = static_cast<int>(random() % kKinds);
      const float effect[kKinds] = {v, -v, v * v, 0};
      xs.data<float>()[i * kDepth] = v;
      xs.data<float>()[i * kDepth + 1 + kind] = 1;
      ys.data<float>()[i / kLength] += effect[kind] / 2;
    }
    const auto out = session.Run({{x, xs}, {y, ys}}, {loss, ran}, {train});
    status = out.status();
    if (!status.ok()) break;
    sum += (*out)[0].scalar<float>();
    for (int e = 0; e < kExperts; ++e)
      share[static_cast<size_t>(e)] += (*out)[1].data<float>()[e];
    if (step % 100 != 0) continue;
    std::printf("step %3d: mean squared error %.4f; experts ran in", step,
                sum / 100);
    for (double& s : share) std::printf(" %3.0f%%", s), s = 0;
    std::printf(" of the elements\n");
    sum = 0;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
