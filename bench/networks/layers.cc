#include "bench/networks/layers.h"

#include <algorithm>
#include <cmath>

namespace sluice::bench {
namespace {

using Ints = std::vector<int64_t>;

constexpr float kEpsilon = 1e-3f;
// The weight of a step in the moving averages.
constexpr float kNew = 0.1f;

// Normal, scaled so that a layer of ReLUs preserves the variance of its input
// (He et al., 2015).
InitializerFn HeNormal(int64_t fan_in) {
  return init::TruncatedNormal(0, std::sqrt(2.0 / static_cast<double>(fan_in)));
}

Ints Explicit(const Padding& p) {
  if (p.name != "EXPLICIT") return {};
  return {0, 0, p.pixels, p.pixels, p.pixels, p.pixels, 0, 0};
}

}  // namespace

Node* Network::Train(double learning_rate) const {
  Node* update = GradientDescentOptimizer(learning_rate).Minimize(loss);
  if (update == nullptr || averages.empty()) return update;
  std::vector<Node*> all = averages;
  all.push_back(update);
  return Group(all, "train");
}

int64_t TrainableParameters() {
  int64_t n = 0;
  for (const Var& v : TrainableVariables()) n += v.shape().num_elements();
  return n;
}

Layers::Layers(NetworkOptions options, const NetworkOptions& published)
    : options_(options) {
  NetworkOptions& o = options_;
  if (o.size == 0) o.size = published.size;
  if (o.channels == 0) o.channels = published.channels;
  if (o.classes == 0) o.classes = published.classes;
  net_.images =
      Placeholder<float>({o.batch, o.size, o.size, o.channels}, "images");
  net_.labels = Placeholder<int32_t>({o.batch}, "labels");
}

int64_t Layers::Scaled(int64_t channels) const {
  const double scaled = static_cast<double>(channels) * options_.width;
  return std::max<int64_t>(1, std::llround(scaled));
}

Output Layers::Conv(const Output& x, int64_t channels, Window window,
                    int64_t stride, const Padding& padding, bool bias) {
  const NameScope scope("conv");
  const int64_t in = x.shape().dim(3), out = Scaled(channels);
  const Var filter =
      GetVariable("filter", {window.height, window.width, in, out},
                  HeNormal(window.height * window.width * in));
  const Output y = ops::Conv2D(x, filter, {1, stride, stride, 1}, padding.name,
                               {.explicit_paddings = Explicit(padding)});
  if (!bias) return y;
  return ops::BiasAdd(y, GetVariable("bias", {out}, init::Zeros()));
}

Output Layers::ConvRelu(const Output& x, int64_t channels, Window window,
                        int64_t stride, const Padding& padding) {
  return ops::Relu(Conv(x, channels, window, stride, padding));
}

Output Layers::ConvNorm(const Output& x, int64_t channels, Window window,
                        int64_t stride, const Padding& padding) {
  return Normalize(Conv(x, channels, window, stride, padding, false));
}

Output Layers::ConvNormRelu(const Output& x, int64_t channels, Window window,
                            int64_t stride, const Padding& padding) {
  return ops::Relu(ConvNorm(x, channels, window, stride, padding));
}

Output Layers::Normalize(const Output& x) {
  const NameScope scope("norm");
  const int64_t c = x.shape().dim(3);
  const VarOptions kept = {.trainable = false};
  const Var scale = GetVariable("scale", {c}, init::Ones());
  const Var offset = GetVariable("offset", {c}, init::Zeros());
  const Var mean = GetVariable("mean", {c}, init::Zeros(), DType::kFloat, kept);
  const Var variance =
      GetVariable("variance", {c}, init::Ones(), DType::kFloat, kept);
  const auto n = ops::FusedBatchNormV3(
      x, scale, offset, mean, variance,
      {.epsilon = kEpsilon,
       .exponential_avg_factor = options_.training ? kNew : 1.0f,
       .is_training = options_.training});
  if (options_.training) {
    net_.averages.push_back(mean.Assign(n.batch_mean));
    net_.averages.push_back(variance.Assign(n.batch_variance));
  }
  return n.y;
}

Output Layers::Relu(const Output& x) { return ops::Relu(x); }

Output Layers::MaxPool(const Output& x, int64_t window, int64_t stride,
                       const Padding& padding) {
  return ops::MaxPool(x, {1, window, window, 1}, {1, stride, stride, 1},
                      padding.name, {.explicit_paddings = Explicit(padding)});
}

Output Layers::AvgPool(const Output& x, int64_t window, int64_t stride,
                       const Padding& padding) {
  return ops::AvgPool(x, {1, window, window, 1}, {1, stride, stride, 1},
                      padding.name);
}

Output Layers::GlobalPool(const Output& x) { return ops::Mean(x, {1, 2}); }

Output Layers::Concat(const std::vector<Output>& xs) {
  return ops::ConcatV2(xs, 3);
}

Output Layers::Flat(const Output& x) {
  return ops::Reshape(x, {static_cast<int>(options_.batch), -1});
}

Output Layers::Dense(const Output& x, int64_t units, bool last) {
  const NameScope scope("dense");
  const int64_t in = x.shape().dim(1), out = last ? units : Scaled(units);
  const Var w = GetVariable("weights", {in, out}, HeNormal(last ? 2 * in : in));
  const Var b = GetVariable("bias", {out}, init::Zeros());
  return ops::BiasAdd(ops::MatMul(x, w), b);
}

Output Layers::Loss(const Output& logits) {
  return ops::Mean(
      ops::SparseSoftmaxCrossEntropyWithLogits(logits, net_.labels).loss, 0);
}

Output Layers::Named(const std::string& name, const Output& x) {
  net_.layers.emplace_back(name, x);
  return x;
}

Network Layers::Finish(const Output& logits) {
  return Finish(logits, Loss(logits));
}

Network Layers::Finish(const Output& logits, const Output& loss) {
  net_.logits = Named("logits", logits);
  net_.loss = loss;
  return net_;
}

}  // namespace sluice::bench
