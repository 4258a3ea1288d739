// What the small library is for: a program on a small device that trains a
// network with loops and gradients. The loop over the training steps is in the
// graph. The first part is also written as TensorFlow's GraphDef, read back and
// run by name.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

int Fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

// The sum 1 + x + ... + x^9 by a loop, and its slope at x.
Result<std::string> Powers() {
  Graph graph;
  const WithGraph use(graph);
  Output x = Placeholder<float>({}, "x");
  auto [i, power, sum] = While(
      std::tuple{0, 1.0f, 0.0f},
      [](Output i, Output, Output) { return i < 10; },
      [&](Output i, Output power, Output sum) {
        return std::tuple{i + 1, power * x, sum + power};
      });
  ops::Identity(i, {.name = "i"});
  ops::Identity(sum, {.name = "sum"});
  ops::Identity(Grad(sum, x), {.name = "slope"});
  SLUICE_RETURN_IF_ERROR(graph.status());
  return ExportGraphDef(graph);
}

Status RunPowers() {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, Powers());
  Graph graph;
  SLUICE_RETURN_IF_ERROR(ImportGraphDef(bytes, graph));
  Session session(graph);
  SLUICE_ASSIGN_OR_RETURN(
      const auto out,
      session.RunByName({{"x", Tensor::Scalar(2.0f)}}, {"i", "sum", "slope"}));
  std::printf("%d %g %g\n", out[0].scalar<int32_t>(), out[1].scalar<float>(),
              out[2].scalar<float>());
  return OkStatus();
}

}  // namespace

int main() {
  if (Status s = RunPowers(); !s.ok()) return Fail(s);

  SetRandomSeed(1);
  // A network of two layers learns XOR in one run.
  Output bits = Constant(Tensor::Of<float>({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1}));
  Output parity = Constant(Tensor::Of<float>({4, 1}, {0, 1, 1, 0}));
  Var w1(RandomNormal({2, 8}), "w1"), b1(Zeros({8}), "b1");
  Var w2(RandomNormal({8, 1}), "w2"), b2(Zeros({1}), "b2");
  auto predict = [&] {
    Output hidden = ops::Tanh(ops::MatMul(bits, w1) + b1);
    return ops::Sigmoid(ops::MatMul(hidden, w2) + b2);
  };
  GradientDescentOptimizer optimizer(2.0);
  auto [steps, loss] = While(
      std::tuple{0, 1.0f},
      [](Output steps, Output loss) {
        return ops::LogicalAnd(loss > 1e-3f, steps < 20000);
      },
      [&](Output steps, Output) {
        Output error = predict() - parity;
        Output loss = ops::Mean(error * error, {0, 1});
        ControlDependencies updated({optimizer.Minimize(loss)});
        return std::tuple{steps + 1, ops::Identity(loss)};
      },
      {.parallel_iterations = 1});
  Output learned = ops::Round(predict());

  Session session;
  if (Status s = session.RunTargets({GlobalVariablesInitializer()}); !s.ok())
    return Fail(s);
  const auto trained = session.Run({steps, loss});
  if (!trained.ok()) return Fail(trained.status());
  const auto values = session.Run(learned);
  if (!values.ok()) return Fail(values.status());
  std::printf("%s %s\n", (*trained)[1].scalar<float>() <= 1e-3f ? "yes" : "no",
              values->ToString().c_str());
  return 0;
}
