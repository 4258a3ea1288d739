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
Output Transformer(const Output& words) {
  const Output places =
      GetVariable("places", {kLength, kModel}, init::RandomNormal(0, 0.02));
  Output h = Embedding(words, kVocabulary, kModel) + places;
  for (int i = 0; i < kLayers; ++i) {
    h = h + MultiHeadAttention(LayerNorm(h), kHeads, kModel / kHeads,
                               {.causal = true});
    const Output inner = Dense(LayerNorm(h), kInner, {.activation = ops::Relu});
    h = h + Dense(inner, kModel);
  }
  return Dense(LayerNorm(h), kVocabulary);
}

Tensor Words(uint64_t seed) {
  Tensor t(DType::kInt32, {kBatch, kLength});
  std::mt19937_64 random(seed);
  for (int32_t& v : t.flat<int32_t>())
    v = static_cast<int32_t>(random() % static_cast<uint64_t>(kVocabulary));
  return t;
}

SLUICE_BENCH("transformer.step_ms") {
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(5);
  const Output words = Placeholder<int32_t>({kBatch, kLength}),
               next = Placeholder<int32_t>({kBatch, kLength});
  const Output logits =
      ops::Reshape(Transformer(words), {kBatch * kLength, kVocabulary});
  const Output loss =
      SparseSoftmaxCrossEntropy(ops::Reshape(next, {kBatch * kLength}), logits);
  Node* train = AdamOptimizer(1e-3).Minimize(loss);
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({words, next}, {loss}, {train}));
  const Tensor x = Words(1), y = Words(2);
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(20, [&] {
                            return step.Run({x, y}).status();
                          }));
  return s * 1e3;
}

}  // namespace
}  // namespace sluice::bench
