// The language model of the OSDI'16 paper, section 6.4: an LSTM over words.
#ifndef SLUICE_BENCH_NETWORKS_LANGUAGE_MODEL_H_
#define SLUICE_BENCH_NETWORKS_LANGUAGE_MODEL_H_

#include "sluice/sluice.h"

namespace sluice::bench {

// LSTM-512-512 over the 40,000 most common words, as in the paper.
struct LanguageModelOptions {
  int64_t batch = 32;
  int64_t steps = 20;  // Predicted words per sequence.
  int64_t vocabulary = 40000;
  int64_t embedding = 512;
  int64_t units = 512;
  // Classes that the sampled softmax of a training step uses, beside the true
  // one; 0: all of them.
  int64_t sampled = 512;
};

struct LanguageModelNetwork {
  Output words;      // int32 [batch, steps + 1], a feed.
  Output loss;       // Nats per word, full softmax.
  Output objective;  // Minimized by training: the full or the sampled loss.
  Output hidden;     // [steps, batch, units].

  // One step of Adagrad.
  Node* Train(double learning_rate) const;
};

LanguageModelNetwork LanguageModel(const LanguageModelOptions& options = {});

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_NETWORKS_LANGUAGE_MODEL_H_
