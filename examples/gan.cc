// A generative adversarial network (Goodfellow et al., 2014) learns a circle:
// the generator makes points of random numbers, and the discriminator learns to
// tell them from points of the circle.
//
//   example_gan [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kBatch = 256;

Output Layers(const char* name, Output x, int outputs) {
  const VariableScope scope(name, {.reuse = Reuse::kAuto});
  Output h = Dense(x, 64, {.activation = ops::LeakyRelu});
  h = Dense(h, 64, {.activation = ops::LeakyRelu});
  return Dense(h, outputs);
}

Node* Trained(Output loss, const char* scope) {
  AdamOptimizer adam(1e-3, {.beta1 = 0.5});
  return adam.Minimize(loss, {.variables = TrainableVariables(scope)});
}

Status Train(int steps) {
  SetRandomSeed(1);
  const Output angle = RandomUniform({kBatch, 1}, 0, 2 * std::numbers::pi);
  const Output real = ops::Concat(1, {ops::Cos(angle), ops::Sin(angle)});
  const Output made = Layers("generator", RandomNormal({kBatch, 8}), 2);
  const Output of_real = Layers("discriminator", real, 1);
  const Output of_made = Layers("discriminator", made, 1);
  const Output ones = Ones({kBatch, 1}), zeros = Zeros({kBatch, 1});
  const Output tells =
      SigmoidCrossEntropy(ones, of_real) + SigmoidCrossEntropy(zeros, of_made);
  const Output fools = SigmoidCrossEntropy(ones, of_made);
  Node* step =
      Group({Trained(tells, "discriminator"), Trained(fools, "generator")});

  // How far the points are from the circle, and the share of points in the
  // emptiest of its quadrants.
  const Output radius = ops::Sqrt(ops::Sum(made * made, 1));
  const Output off = ops::Mean(ops::Abs(radius - 1), 0);
  const std::vector<Output> positive =
      ops::Unpack(ops::Cast(made > 0, DType::kFloat), /*num=*/2, {.axis = 1});
  const Output &x = positive[0], &y = positive[1];
  const Output shares =
      ops::Mean(ops::Pack({x * y, x * (1 - y), (1 - x) * y, (1 - x) * (1 - y)}),
                /*reduction_indices=*/1);
  const Output least = ops::Min(shares, 0);

  Session session;
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  float distance = 0, share = 0;
  for (int i = 1; i <= steps; ++i) {
    SLUICE_RETURN_IF_ERROR(session.RunTargets({step}));
    if (i % std::max(steps / 5, 1) != 0) continue;
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> now,
                            session.Run({off, least}));
    distance = now[0].scalar<float>();
    share = now[1].scalar<float>();
    std::printf("step %4d: distance %.3f, emptiest quadrant %.2f\n", i,
                distance, share);
  }
  return distance < 0.3f && share > 0.05f ? OkStatus()
                                          : Internal("expected a circle");
}

int main(int argc, char** argv) {
  const Status status = Train(argc > 1 ? std::atoi(argv[1]) : 1500);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
