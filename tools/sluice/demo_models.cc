#include "tools/sluice/demo_models.h"

#include "tools/sluice/demo_data.h"

namespace sluice::demo {
namespace {

Output Dense(const Output& x, int64_t in, int64_t out,
             const std::string& name) {
  const NameScope scope(name);
  const Var w = GetVariable("w", {in, out}, init::GlorotUniform());
  const Var b = GetVariable("b", {out}, init::Zeros());
  return ops::MatMul(x, w) + b;
}

// A 3 x 3 convolution, then 2 x 2 max pooling.
Output ConvPool(const Output& x, int64_t in, int64_t out,
                const std::string& name) {
  const NameScope scope(name);
  const Var w = GetVariable("w", {3, 3, in, out}, init::GlorotUniform());
  const Var b = GetVariable("b", {out}, init::Zeros());
  const Output y =
      ops::Relu(ops::BiasAdd(ops::Conv2D(x, w, {1, 1, 1, 1}, "SAME"), b));
  return ops::MaxPool(y, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID");
}

Model On(const ModelInputs& inputs) {
  Model m;
  m.images = inputs.images;
  m.labels = inputs.labels;
  return m;
}

void Finish(const Output& logits, double learning_rate, Model* m) {
  const Output wanted = ops::OneHot(m->labels, kClasses, 1.0f, 0.0f);
  m->loss =
      ops::Mean(ops::SoftmaxCrossEntropyWithLogits(logits, wanted).loss, 0);
  const Output guess = ops::ArgMax(logits, 1, {.output_type = DType::kInt32});
  m->accuracy =
      ops::Mean(ops::Cast(ops::Equal(guess, m->labels), DType::kFloat), 0);
  m->probabilities = ops::Softmax(logits);
  m->train = AdagradOptimizer(learning_rate).Minimize(m->loss);
  m->initialize = GlobalVariablesInitializer();
}

}  // namespace

ModelInputs FedInputs() {
  return {Placeholder<float>({-1, kPixels}, "images"),
          Placeholder<int32_t>({-1}, "labels")};
}

Model BuildClassifier(const ModelInputs& inputs) {
  Model m = On(inputs);
  const Output hidden = ops::Relu(Dense(m.images, kPixels, 100, "layer1"));
  Finish(Dense(hidden, 100, kClasses, "layer2"), 0.1, &m);
  return m;
}

Model BuildConvNet(const ModelInputs& inputs) {
  Model m = On(inputs);
  Output x = ops::Reshape(m.images, {-1, kSide, kSide, 1});
  x = ConvPool(x, 1, 16, "conv1");
  x = ConvPool(x, 16, 32, "conv2");
  constexpr int64_t kFlat = kSide / 4 * kSide / 4 * 32;
  x = ops::Relu(Dense(ops::Reshape(x, {-1, static_cast<int>(kFlat)}), kFlat,
                      100, "dense1"));
  Finish(Dense(x, 100, kClasses, "dense2"), 0.1, &m);
  return m;
}

}  // namespace sluice::demo
