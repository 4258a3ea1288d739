// Samples of the classes of a large softmax: which classes a step compares with
// the true ones, and how often each is expected in such a sample.
//
//   // Words by their frequency to the power of 0.75, as in word2vec.
//   ClassSampler negatives = FixedUnigramClassSampler(
//       {.unigrams = counts, .distortion = 0.75f});
//   Output loss = ops::Mean(
//       NceLoss(w, b, words, h, 64, {.sampler = negatives}), 0);
#ifndef SLUICE_CLIENT_NN_CANDIDATE_SAMPLERS_H_
#define SLUICE_CLIENT_NN_CANDIDATE_SAMPLERS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace sluice {

// One sample, for all examples of a step.
struct SampledClasses {
  Output classes;                 // int64 [sampled]
  Output true_expected_count;     // float, of the shape of the true classes.
  Output sampled_expected_count;  // float [sampled]
};

// Builds a sample of `sampled` of the classes [0, classes), given the true
// classes of the step, int64 [batch, true]. A program may write its own.
using ClassSampler = std::function<SampledClasses(
    const Output& true_classes, int64_t sampled, int64_t classes)>;

struct ClassSamplerOptions {
  // Each class is at most once in a sample: drawn without replacement, and a
  // step fails if there are fewer classes.
  bool unique = true;
  std::optional<int64_t> seed = {};  // As for other random ops.
};

// All classes alike.
ClassSampler UniformClassSampler(const ClassSamplerOptions& options = {});
// Class c with probability log((c + 2) / (c + 1)) / log(classes + 1): for
// classes that are sorted by decreasing frequency, as words are by Zipf's law.
ClassSampler LogUniformClassSampler(const ClassSamplerOptions& options = {});
// By the frequency among the true classes of earlier steps of the session.
ClassSampler LearnedUnigramClassSampler(
    const ClassSamplerOptions& options = {});

struct FixedUnigramOptions {
  // The weights of the classes, or a file with one in the last of the
  // comma-separated columns of each line: one of the two.
  std::vector<float> unigrams = {};
  std::string vocab_file = "";
  // The power of a weight that its probability is proportional to: 0 is
  // uniform.
  float distortion = 1;
  // The first classes, which have no weight and are never drawn.
  int64_t reserved = 0;
  // Of several processes that share the classes, this one draws those with
  // class % shards == shard.
  int64_t shards = 1;
  int64_t shard = 0;
  bool unique = true;
  std::optional<int64_t> seed = {};
};
// By given weights.
ClassSampler FixedUnigramClassSampler(const FixedUnigramOptions& options);

// All classes, in order; the number to sample does not matter. For comparing a
// sampled loss with the full one.
ClassSampler AllClasses();

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_CANDIDATE_SAMPLERS_H_
