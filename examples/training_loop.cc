// A training loop inside the graph: gradients are taken in a loop's body, each
// iteration updates the variables, and one Run trains until the loss is small.
// For comparison, the same steps driven by the client.
#include <chrono>
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

double Seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

int main() {
  // A two-layer network learns XOR.
  SetRandomSeed(1);
  Output x = Constant(Tensor::Of<float>({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1}));
  Output y = Constant(Tensor::Of<float>({4, 1}, {0, 1, 1, 0}));
  Var w1(RandomNormal({2, 8}), "w1"), b1(Zeros({8}), "b1");
  Var w2(RandomNormal({8, 1}), "w2"), b2(Zeros({1}), "b2");
  auto predict = [&] {
    Output hidden = ops::Tanh(ops::MatMul(x, w1) + b1);
    return ops::Sigmoid(ops::MatMul(hidden, w2) + b2);
  };
  auto loss_now = [&] {
    Output error = predict() - y;
    return ops::Mean(error * error, {0, 1});
  };
  GradientDescentOptimizer optimizer(2.0);

  // The loop ends when the loss is small, after a number of steps not known in
  // advance.
  auto [steps, loss] = While(
      std::tuple{0, 1.0f},
      [](Output steps, Output loss) {
        return ops::LogicalAnd(loss > 1e-3f, steps < 20000);
      },
      [&](Output steps, Output) {
        Output loss = loss_now();
        ControlDependencies updated({optimizer.Minimize(loss)});
        return std::tuple{steps + 1, ops::Identity(loss)};
      },
      {.parallel_iterations = 1, .name = "train"});
  Output prediction = predict();

  // The same step for a loop in the client.
  Output step_loss = loss_now();
  Node* step = optimizer.Minimize(step_loss);

  Session session;
  Node* init = GlobalVariablesInitializer();
  // The first run of each includes compilation.
  Status status = session.RunTargets({init});
  if (status.ok()) status = session.Run({steps, loss}).status();
  if (status.ok()) status = session.Run({}, {step_loss}, {step}).status();
  if (status.ok()) status = session.RunTargets({init});
  double started = Seconds();
  const auto trained = session.Run({steps, loss});
  const double in_graph = Seconds() - started;
  const auto learned = session.Run(prediction);
  if (!status.ok() || !trained.ok() || !learned.ok()) {
    std::fprintf(stderr, "%s\n%s\n", trained.status().ToString().c_str(),
                 learned.status().ToString().c_str());
    return 1;
  }
  const int count = (*trained)[0].scalar<int32_t>();
  std::printf("in the graph: %d steps in one run, loss %.4f, %.2f us a step\n",
              count, (*trained)[1].scalar<float>(), in_graph / count * 1e6);
  for (int i = 0; i < 4; ++i)
    std::printf("  %d xor %d = %.3f\n", i / 2, i % 2,
                learned->data<float>()[i]);

  status = session.RunTargets({init});
  started = Seconds();
  for (int i = 0; i < count && status.ok(); ++i)
    status = session.Run({}, {step_loss}, {step}).status();
  const double from_client = Seconds() - started;
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf(
      "from the client: %.2f us a step, the loop is %.1f times as fast\n",
      from_client / count * 1e6, from_client / in_graph);
  return 0;
}
