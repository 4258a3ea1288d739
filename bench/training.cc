// Training steps of small models, as in the peers' scripts: the classifier of
// Figure 1 with Adagrad, and convolutional networks with gradient descent.
#include <cmath>
#include <random>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

Tensor Random(const Shape& shape, float scale, uint64_t seed,
              bool uniform = false) {
  Tensor t(DType::kFloat, shape);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> flat;
  for (float& v : t.flat<float>())
    v = scale * (uniform ? flat(random) : normal(random));
  return t;
}

Tensor RandomLabels(int64_t n, int classes) {
  Tensor t(DType::kInt32, Shape({n}));
  std::mt19937_64 random(7);
  for (int32_t& v : t.flat<int32_t>())
    v = static_cast<int32_t>(random() % static_cast<uint64_t>(classes));
  return t;
}

SLUICE_BENCH("mlp_adagrad.step_us") {
  Graph g;
  WithGraph use(g);
  Output x = Placeholder<float>({64, 784});
  Output y = Placeholder<float>({64, 10});
  Var w1 = GetVariable("W1", {784, 100}), w2 = GetVariable("W2", {100, 10});
  Var b1(Zeros({100}), "b1"), b2(Zeros({10}), "b2");
  Output logits = ops::MatMul(ops::Relu(ops::MatMul(x, w1) + b1), w2) + b2;
  Output loss =
      ops::Mean(ops::SoftmaxCrossEntropyWithLogits(logits, y).loss, 0);
  Node* train = AdagradOptimizer(0.01).Minimize(loss);
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  const Tensor images = Random({64, 784}, 1, 1, true);
  Tensor labels = *Tensor::Zeros(DType::kFloat, {64, 10});
  const Tensor classes = RandomLabels(64, 10);
  for (int i = 0; i < 64; ++i)
    labels.data<float>()[i * 10 + classes.data<int32_t>()[i]] = 1;
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x, y}, {}, {train}));
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(5, [&]() -> Status {
        for (int i = 0; i < 200; ++i)
          SLUICE_RETURN_IF_ERROR(step.Run({images, labels}).status());
        return OkStatus();
      }));
  return s / 200 * 1e6;
}

// One layer: convolution (out, window, stride, padding), pooling (window,
// stride), fully connected with ReLU (out), last (out).
struct ConvLayer {
  enum Kind { kConv, kPool, kFull, kLast } kind;
  int64_t a, b = 0, c = 0, d = 0;
};

struct Network {
  int64_t channels, size, batch;
  std::vector<ConvLayer> layers;
};

const Network kLenet = {1,
                        28,
                        64,
                        {{ConvLayer::kConv, 32, 5, 1, 2},
                         {ConvLayer::kPool, 2, 2},
                         {ConvLayer::kConv, 64, 5, 1, 2},
                         {ConvLayer::kPool, 2, 2},
                         {ConvLayer::kFull, 512},
                         {ConvLayer::kLast, 10}}};
const Network kAlexnet = {3,
                          224,
                          16,
                          {{ConvLayer::kConv, 64, 11, 4, 2},
                           {ConvLayer::kPool, 3, 2},
                           {ConvLayer::kConv, 192, 5, 1, 2},
                           {ConvLayer::kPool, 3, 2},
                           {ConvLayer::kConv, 384, 3, 1, 1},
                           {ConvLayer::kConv, 256, 3, 1, 1},
                           {ConvLayer::kConv, 256, 3, 1, 1},
                           {ConvLayer::kPool, 3, 2},
                           {ConvLayer::kFull, 4096},
                           {ConvLayer::kFull, 4096},
                           {ConvLayer::kLast, 1000}}};

Result<double> ConvNetMs(const Network& net, bool train) {
  Graph g;
  WithGraph use(g);
  const int64_t b = net.batch;
  Output x = Placeholder<float>({b, net.size, net.size, net.channels});
  Output y = Placeholder<int32_t>({b});
  std::vector<Var> vars;
  auto var = [&](const Shape& shape, float scale) -> Output {
    vars.emplace_back(Constant(Random(shape, scale, vars.size() + 1)),
                      absl::StrCat("v", vars.size()));
    return vars.back().value();
  };
  using Ints = AttrValue::Ints;
  Output h = x;
  int64_t c = net.channels, s = net.size, flat = 0;
  for (const ConvLayer& l : net.layers) {
    if (l.kind == ConvLayer::kConv) {
      if (l.d > 0) {
        const auto p = static_cast<int32_t>(l.d);
        h = ops::Pad(
            h, Constant(Tensor::Of<int32_t>({4, 2}, {0, 0, p, p, p, p, 0, 0})));
      }
      h = Build("Conv2D", {h, var({l.b, l.b, c, l.a}, .02f)},
                {{"strides", Ints{1, l.c, l.c, 1}}, {"padding", "VALID"}});
      h = ops::Relu(ops::BiasAdd(h, var({l.a}, 0)));
      c = l.a;
      s = (s + 2 * l.d - l.b) / l.c + 1;
    } else if (l.kind == ConvLayer::kPool) {
      h = Build("MaxPool", {h},
                {{"ksize", Ints{1, l.a, l.a, 1}},
                 {"strides", Ints{1, l.b, l.b, 1}},
                 {"padding", "VALID"}});
      s = (s - l.a) / l.b + 1;
    } else {
      const int64_t n = flat > 0 ? flat : c * s * s;
      h = ops::Reshape(h, IntVector({static_cast<int32_t>(b), -1}));
      h = ops::BiasAdd(ops::MatMul(h, var({n, l.a}, .01f)), var({l.a}, 0));
      if (l.kind == ConvLayer::kFull) h = ops::Relu(h);
      flat = l.a;
    }
  }
  Output loss =
      ops::Mean(ops::SparseSoftmaxCrossEntropyWithLogits(h, y).loss, 0);
  std::vector<Node*> updates;
  if (train) {
    SLUICE_ASSIGN_OR_RETURN(
        std::vector<Gradient> grads,
        Gradients({loss}, std::vector<GradTarget>(vars.begin(), vars.end())));
    for (size_t i = 0; i < vars.size(); ++i)
      updates.push_back(vars[i].AssignSub(.01f * grads[i].dense));
  }
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  const Tensor images = Random({b, net.size, net.size, net.channels}, 1, 99);
  const Tensor labels = RandomLabels(b, static_cast<int>(net.layers.back().a));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          train ? session.MakeCallable({x, y}, {}, updates)
                                : session.MakeCallable({x, y}, {loss}));
  SLUICE_ASSIGN_OR_RETURN(const double best, Best(3, [&] {
                            return step.Run({images, labels}).status();
                          }));
  return best * 1e3;
}

SLUICE_BENCH("conv.lenet.B64.fwd_ms") { return ConvNetMs(kLenet, false); }
SLUICE_BENCH("conv.lenet.B64.step_ms") { return ConvNetMs(kLenet, true); }
SLUICE_BENCH("conv.alexnet.B16.fwd_ms") { return ConvNetMs(kAlexnet, false); }
SLUICE_BENCH("conv.alexnet.B16.step_ms") { return ConvNetMs(kAlexnet, true); }

}  // namespace
}  // namespace sluice::bench
