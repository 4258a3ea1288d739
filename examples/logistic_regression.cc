// Logistic regression by L-BFGS, beside gradient descent: the whole
// minimisation is one run of one node.
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kRows = 2000, kFeatures = 20;

int main() {
  Output x = Placeholder<float>({kRows, kFeatures});
  Output y = Placeholder<float>({kRows, 1});
  Var w(Zeros({kFeatures, 1}), "w"), b(0.0, "b");
  // The mean loss, with a little weight decay, as a function of the parameters.
  const auto loss_at = [&](const std::vector<Output>& at) {
    Output logits = ops::MatMul(x, at[0]) + at[1];
    return ops::Mean(ops::Softplus(logits) - y * logits, {0, 1}) +
           1e-4f * ops::Sum(ops::Square(at[0]), {0, 1});
  };
  const LbfgsResult lbfgs = Lbfgs({w, b}, loss_at);
  Output loss = loss_at({w, b});
  Node* descent = GradientDescentOptimizer(0.5).Minimize(loss);
  Node* init = GlobalVariablesInitializer();

  // The features have very different scales, which gradient descent minds.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Tensor features(DType::kFloat, {kRows, kFeatures});
  Tensor labels(DType::kFloat, {kRows, 1});
  for (int i = 0; i < kRows; ++i) {
    float score = 0.5f;
    for (int j = 0; j < kFeatures; ++j) {
      const float scale = 1.0f / static_cast<float>(1 + j);
      const float value = scale * normal(random);
      features.data<float>()[i * kFeatures + j] = value;
      score += (j % 2 == 0 ? 2.0f : -2.0f) / scale * value;
    }
    labels.data<float>()[i] = score + 2 * normal(random) > 0 ? 1 : 0;
  }
  const Feeds data = {{x, features}, {y, labels}};

  Session session;
  Status status = session.RunTargets({init});
  for (int step = 0; step < 100 && status.ok(); ++step)
    status = session.RunTargets({descent}, data);
  const auto descended = session.Run(data, loss);
  if (status.ok()) status = session.RunTargets({init});
  const auto fit =
      session.Run(data, {lbfgs.iterations, lbfgs.evaluations, lbfgs.converged},
                  {lbfgs.train});
  const auto fitted = session.Run(data, loss);
  if (!status.ok() || !descended.ok() || !fit.ok() || !fitted.ok()) {
    std::fprintf(stderr, "%s\n%s\n", status.ToString().c_str(),
                 fit.status().ToString().c_str());
    return 1;
  }
  std::printf("100 steps of gradient descent: loss %.6f\n",
              descended->scalar<float>());
  std::printf("%d iterations of L-BFGS (%d evaluations): loss %.6f\n",
              (*fit)[0].scalar<int32_t>(), (*fit)[1].scalar<int32_t>(),
              fitted->scalar<float>());
  return (*fit)[2].scalar<bool>() &&
                 fitted->scalar<float>() < descended->scalar<float>()
             ? 0
             : 1;
}
