// A training step of a small transformer with Adam, as in the peers' script
// (transformer_peers.py): 2 layers, 8 sequences of 128 positions, a model of
// 256 with 4 heads and an inner layer of 1024, 1000 words.
#include <random>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int64_t kBatch = 8, kLength = 128, kModel = 256, kHeads = 4,
                  kInner = 1024, kLayers = 2, kVocabulary = 1000;

// Predicts each word from those before it.
Output Transformer(const Output& words, bool fused_norms) {
  const auto norm = [=](const Output& x) {
    return LayerNorm(x, {.fused = fused_norms});
  };
  const Output places =
      GetVariable("places", {kLength, kModel}, init::RandomNormal(0, 0.02));
  Output h = Embedding(words, kVocabulary, kModel) + places;
  for (int i = 0; i < kLayers; ++i) {
    h = h +
        MultiHeadAttention(norm(h), kHeads, kModel / kHeads, {.causal = true});
    const Output inner = Dense(norm(h), kInner, {.activation = ops::Relu});
    h = h + Dense(inner, kModel);
  }
  return Dense(norm(h), kVocabulary);
}

Tensor Words(uint64_t seed) {
  Tensor t(DType::kInt32, {kBatch, kLength});
  std::mt19937_64 random(seed);
  for (int32_t& v : t.flat<int32_t>())
    v = static_cast<int32_t>(random() % static_cast<uint64_t>(kVocabulary));
  return t;
}

// The model in training; one step at a time.
class TransformerTraining {
 public:
  Status Begin(bool fused_norms) {
    const WithGraph use(graph_);
    SetRandomSeed(5);
    const Output words = Placeholder<int32_t>({kBatch, kLength}),
                 next = Placeholder<int32_t>({kBatch, kLength});
    const Output logits = ops::Reshape(Transformer(words, fused_norms),
                                       {kBatch * kLength, kVocabulary});
    const Output loss = SparseSoftmaxCrossEntropy(
        ops::Reshape(next, {kBatch * kLength}), logits);
    Node* train = AdamOptimizer(1e-3).Minimize(loss);
    SLUICE_RETURN_IF_ERROR(session_.RunTargets({GlobalVariablesInitializer()}));
    SLUICE_ASSIGN_OR_RETURN(
        step_, session_.MakeCallable({words, next}, {loss}, {train}));
    return OkStatus();
  }
  Status Step() { return step_.Run({x_, y_}).status(); }

 private:
  const Tensor x_ = Words(1), y_ = Words(2);
  Graph graph_;
  Session session_{graph_};
  Session::Callable step_;
};

Result<double> StepMs(bool fused_norms) {
  TransformerTraining training;
  SLUICE_RETURN_IF_ERROR(training.Begin(fused_norms));
  SLUICE_ASSIGN_OR_RETURN(const double s,
                          Best(20, [&] { return training.Step(); }));
  return s * 1e3;
}

SLUICE_BENCH("transformer.step_ms") { return StepMs(true); }
SLUICE_BENCH("transformer.step.arithmetic_norms_ms") { return StepMs(false); }

// How long a step takes in percent of one whose layers are normalised by
// arithmetic ops.
SLUICE_BENCH("transformer.step.of_arithmetic_norms.percent") {
  TransformerTraining fused, plain;
  SLUICE_RETURN_IF_ERROR(fused.Begin(true));
  SLUICE_RETURN_IF_ERROR(plain.Begin(false));
  return PercentByTurns(
      40, [&] { return fused.Step(); }, [&] { return plain.Step(); });
}

}  // namespace
}  // namespace sluice::bench
