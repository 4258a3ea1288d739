#include "client/nn/candidate_samplers.h"

#include <algorithm>

#include "client/initializers.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// The number of true classes of an example; 0 if the shape does not say.
int64_t TrueClasses(const Output& true_classes) {
  return std::max<int64_t>(0, KnownDim(true_classes, 1));
}

template <typename Drawn>
SampledClasses Sample(const Drawn& drawn) {
  return {drawn.sampled_candidates, drawn.true_expected_count,
          drawn.sampled_expected_count};
}

}  // namespace

ClassSampler UniformClassSampler(const ClassSamplerOptions& options) {
  return [=](const Output& of, int64_t sampled, int64_t classes) {
    const auto [seed, seed2] = SeedsFor(options.seed);
    return Sample(ops::UniformCandidateSampler(of, TrueClasses(of), sampled,
                                               options.unique, classes,
                                               {.seed = seed, .seed2 = seed2}));
  };
}

ClassSampler LogUniformClassSampler(const ClassSamplerOptions& options) {
  return [=](const Output& of, int64_t sampled, int64_t classes) {
    const auto [seed, seed2] = SeedsFor(options.seed);
    return Sample(ops::LogUniformCandidateSampler(
        of, TrueClasses(of), sampled, options.unique, classes,
        {.seed = seed, .seed2 = seed2}));
  };
}

ClassSampler LearnedUnigramClassSampler(const ClassSamplerOptions& options) {
  return [=](const Output& of, int64_t sampled, int64_t classes) {
    const auto [seed, seed2] = SeedsFor(options.seed);
    return Sample(ops::LearnedUnigramCandidateSampler(
        of, TrueClasses(of), sampled, options.unique, classes,
        {.seed = seed, .seed2 = seed2}));
  };
}

ClassSampler FixedUnigramClassSampler(const FixedUnigramOptions& options) {
  return [=](const Output& of, int64_t sampled, int64_t classes) {
    const auto [seed, seed2] = SeedsFor(options.seed);
    return Sample(ops::FixedUnigramCandidateSampler(
        of, TrueClasses(of), sampled, options.unique, classes,
        {.vocab_file = options.vocab_file,
         .distortion = options.distortion,
         .num_reserved_ids = options.reserved,
         .num_shards = options.shards,
         .shard = options.shard,
         .unigrams = options.unigrams,
         .seed = seed,
         .seed2 = seed2}));
  };
}

ClassSampler AllClasses() {
  return [](const Output& of, int64_t, int64_t classes) {
    return Sample(ops::AllCandidateSampler(of, TrueClasses(of), classes, true));
  };
}

}  // namespace sluice
