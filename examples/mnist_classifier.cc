// Figure 1 of "TensorFlow: A system for large-scale machine learning"
// (OSDI'16): an image classifier with 784-pixel images and ten classes. The
// images here are synthetic; `sluice demo` trains it on real ones.
#include <cstdio>
#include <random>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kBatch = 100, kSteps = 500;

// Noise, brighter in the tenth of the image that belongs to its class.
void LoadBatch(std::mt19937* random, Tensor* images, Tensor* labels) {
  *images = Tensor(DType::kFloat, {kBatch, 784});
  *labels = *Tensor::Zeros(DType::kFloat, {kBatch, 10});
  std::uniform_real_distribution<float> noise(0, 1);
  for (int i = 0; i < kBatch; ++i) {
    const int label = i % 10;
    labels->flat<float>()[i * 10 + label] = 1;
    for (int p = 0; p < 784; ++p)
      images->flat<float>()[i * 784 + p] =
          0.5f * noise(*random) + (p / 79 == label ? 0.3f : 0);
  }
}

int main() {
  // 1. Construct a graph representing the model.
  Output x = Placeholder<float>({kBatch, 784});
  Output y = Placeholder<float>({kBatch, 10});
  Var w1(RandomUniform({784, 100}, -0.1, 0.1));
  Var b1(Zeros({100}));
  Output layer1 = ops::Relu(ops::MatMul(x, w1) + b1);
  Var w2(RandomUniform({100, 10}, -0.1, 0.1));
  Var b2(Zeros({10}));
  Output layer2 = ops::MatMul(layer1, w2) + b2;

  // 2. Add nodes that represent the optimization algorithm.
  Output loss =
      ops::Mean(ops::SoftmaxCrossEntropyWithLogits(layer2, y).loss, 0);
  Node* train = AdagradOptimizer(0.01).Minimize(loss);

  // 3. Execute the graph on batches of input data.
  Session session;
  Status status = session.RunTargets({GlobalVariablesInitializer()});
  std::mt19937 random(1);
  for (int step = 0; step <= kSteps && status.ok(); ++step) {
    Tensor images, labels;
    LoadBatch(&random, &images, &labels);
    auto out = session.Run({{x, images}, {y, labels}}, {loss}, {train});
    status = out.status();
    if (status.ok() && step % 100 == 0)
      std::printf("step %d: loss %.4f\n", step, (*out)[0].scalar<float>());
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
