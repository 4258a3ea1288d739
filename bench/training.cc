// A training step of a small model, as in the peers' script: the classifier of
// Figure 1 with Adagrad. (Larger ones: nets.cc.)
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

}  // namespace
}  // namespace sluice::bench
