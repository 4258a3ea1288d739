// Steps of the networks of bench/networks, forward only and training.
// net_peers.py runs the same in PyTorch and TensorFlow.
#include <random>

#include "bench.h"
#include "bench/networks/language_model.h"
#include "bench/networks/networks.h"
#include "timing.h"

namespace sluice::bench {
namespace {

using BuildNetwork = Network (*)(const NetworkOptions&);

Tensor NormalImages(const PartialShape& shape) {
  Tensor t(DType::kFloat, *shape.ToShape());
  std::mt19937_64 random(99);
  std::normal_distribution<float> normal;
  for (float& v : t.flat<float>()) v = normal(random);
  return t;
}

Tensor DrawnClasses(const PartialShape& shape, int64_t classes) {
  Tensor t(DType::kInt32, *shape.ToShape());
  std::mt19937_64 random(7);
  for (int32_t& v : t.flat<int32_t>())
    v = static_cast<int32_t>(random() % static_cast<uint64_t>(classes));
  return t;
}

Result<double> NetworkMs(BuildNetwork build, int64_t batch, bool train) {
  Graph g;
  WithGraph use(g);
  SetRandomSeed(1);
  const Network net = build({.batch = batch, .training = train});
  Node* step_node = train ? net.Train(0.01) : nullptr;
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(
      const Session::Callable step,
      train ? session.MakeCallable({net.images, net.labels}, {}, {step_node})
            : session.MakeCallable({net.images, net.labels}, {net.loss}));
  const Tensor images = NormalImages(net.images.shape());
  const Tensor labels =
      DrawnClasses(net.labels.shape(), net.logits.shape().dim(1));
  SLUICE_ASSIGN_OR_RETURN(const double best, Best(3, [&] {
                            return step.Run({images, labels}).status();
                          }));
  return best * 1e3;
}

Result<double> LanguageModelMs(int64_t sampled, int64_t units = 512) {
  Graph g;
  WithGraph use(g);
  SetRandomSeed(1);
  const LanguageModelOptions options = {
      .embedding = units, .units = units, .sampled = sampled};
  const LanguageModelNetwork net = LanguageModel(options);
  Node* step_node = net.Train(0.2);
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable step,
                          session.MakeCallable({net.words}, {}, {step_node}));
  const Tensor words = DrawnClasses(net.words.shape(), options.vocabulary);
  SLUICE_ASSIGN_OR_RETURN(const double best,
                          Best(20, [&] { return step.Run({words}).status(); }));
  return best * 1e3;
}

SLUICE_BENCH("conv.lenet.B64.fwd_ms") { return NetworkMs(LeNet, 64, false); }
SLUICE_BENCH("conv.lenet.B64.step_ms") { return NetworkMs(LeNet, 64, true); }
SLUICE_BENCH("conv.alexnet.B16.fwd_ms") {
  return NetworkMs(AlexNet, 16, false);
}
SLUICE_BENCH("conv.alexnet.B16.step_ms") {
  return NetworkMs(AlexNet, 16, true);
}
SLUICE_BENCH("nets.alexnet.B16.fwd_ms") {
  return NetworkMs(AlexNet, 16, false);
}
SLUICE_BENCH("nets.alexnet.B16.step_ms") {
  return NetworkMs(AlexNet, 16, true);
}
SLUICE_BENCH("nets.overfeat.B16.fwd_ms") {
  return NetworkMs(Overfeat, 16, false);
}
SLUICE_BENCH("nets.overfeat.B16.step_ms") {
  return NetworkMs(Overfeat, 16, true);
}
SLUICE_BENCH("nets.vgg_a.B8.fwd_ms") { return NetworkMs(VggA, 8, false); }
SLUICE_BENCH("nets.vgg_a.B8.step_ms") { return NetworkMs(VggA, 8, true); }
SLUICE_BENCH("nets.googlenet.B16.fwd_ms") {
  return NetworkMs(GoogLeNet, 16, false);
}
SLUICE_BENCH("nets.googlenet.B16.step_ms") {
  return NetworkMs(GoogLeNet, 16, true);
}
SLUICE_BENCH("nets.inception_v3.B8.fwd_ms") {
  return NetworkMs(InceptionV3, 8, false);
}
SLUICE_BENCH("nets.inception_v3.B8.step_ms") {
  return NetworkMs(InceptionV3, 8, true);
}
SLUICE_BENCH("nets.resnet50.B8.fwd_ms") {
  return NetworkMs(ResNet50, 8, false);
}
SLUICE_BENCH("nets.resnet50.B8.step_ms") {
  return NetworkMs(ResNet50, 8, true);
}
SLUICE_BENCH("nets.lstm_512.full_softmax.B32.step_ms") {
  return LanguageModelMs(0);
}
SLUICE_BENCH("nets.lstm_512.sampled_softmax.B32.step_ms") {
  return LanguageModelMs(512);
}
// Half as wide: more of a step is the softmax, less the LSTM.
SLUICE_BENCH("lm.full_softmax.step_ms") { return LanguageModelMs(0, 256); }
SLUICE_BENCH("lm.sampled_softmax.step_ms") { return LanguageModelMs(512, 256); }

}  // namespace
}  // namespace sluice::bench
