#include "client/nn/sampled_softmax.h"

#include "client/operators.h"
#include "sluice/ops.h"

namespace sluice {

Output SampledSoftmaxLoss(const Var& weights, const Var& biases,
                          const Operand& labels, const Operand& inputs,
                          int64_t sampled, const SampledSoftmaxOptions& options,
                          SourceLoc loc) {
  const AtLine line(loc);
  const NameScope scope("sampled_softmax");
  const Output classes = labels.Get(DType::kInt64);
  const Output h = inputs.Get(DType::kFloat);
  const Output own = ops::Reshape(classes, {-1, 1});
  const std::pair<int64_t, int64_t> seeds = SeedsFor(options.seed);
  const auto drawn = ops::LogUniformCandidateSampler(
      own, 1, sampled, true, weights.shape().dim(0),
      {.seed = seeds.first, .seed2 = seeds.second});

  // Both kinds of rows are gathered together, so that each weight has one
  // gradient.
  const Output all = ops::ConcatV2({classes, drawn.sampled_candidates}, 0);
  const Output batch = ops::Size(classes);
  const auto sampled_count = static_cast<int>(sampled);
  const Output sizes = ops::Pack({batch, sampled_count});
  const std::vector<Output> w =
      ops::SplitV(ops::GatherV2(weights, all, 0), sizes, 0, 2);
  const std::vector<Output> b =
      ops::SplitV(ops::GatherV2(biases, all, 0), sizes, 0, 2);

  // Scores minus the logarithm of the expected count of each class.
  const Output own_score =
      ops::Sum(h * w[0], 1) + b[0] -
      ops::Reshape(ops::Log(drawn.true_expected_count), {-1});
  Output other_scores = ops::MatMul(h, w[1], {.transpose_b = true}) +
                        (b[1] - ops::Log(drawn.sampled_expected_count));
  if (options.remove_accidental_hits) {
    const auto hits = ops::ComputeAccidentalHits(
        own, drawn.sampled_candidates, 1,
        {.seed = seeds.first, .seed2 = seeds.second});
    const Output at = ops::Pack(
        {hits.indices, ops::Cast(hits.ids, DType::kInt32)}, {.axis = 1});
    other_scores =
        other_scores + ops::SparseToDense(at, sizes, hits.weights, 0.0f,
                                          {.validate_indices = false});
  }
  const Output scores =
      ops::ConcatV2({ops::ExpandDims(own_score, 1), other_scores}, 1);
  // The true class of each example comes first.
  return ops::SparseSoftmaxCrossEntropyWithLogits(scores,
                                                  ops::ZerosLike(classes))
      .loss;
}

}  // namespace sluice
