#include "client/nn/large_softmax.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/nn/losses.h"
#include "client/nn/table_parts.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// Both tables are usable and fit each other.
Status CheckWeights(const EmbeddingTable& weights,
                    const EmbeddingTable& biases) {
  SLUICE_RETURN_IF_ERROR(CheckTable(weights));
  SLUICE_RETURN_IF_ERROR(CheckTable(biases));
  const PartialShape w = weights.parts()[0].shape(),
                     b = biases.parts()[0].shape();
  if ((w.rank_known() && w.rank() != 2) || (b.rank_known() && b.rank() != 1))
    return InvalidArgument(
        "expected weights [classes, depth] and biases [classes], got '",
        weights.name(), "' ", w.ToString(), " and '", biases.name(), "' ",
        b.ToString());
  if (weights.rows() < 0 || weights.rows() != biases.rows() ||
      weights.parts().size() != biases.parts().size())
    return InvalidArgument(
        "expected as many rows and parts of weights and biases, got ",
        weights.rows(), " in ", weights.parts().size(), " of '", weights.name(),
        "' and ", biases.rows(), " in ", biases.parts().size(), " of '",
        biases.name(), "'");
  return OkStatus();
}

// Records an error; or, if a variable is null, passes on the error behind it.
Output Refuse(const EmbeddingTable& weights, const EmbeddingTable& biases,
              const Status& s, SourceLoc loc) {
  Graph& g = CurrentGraph();
  for (const EmbeddingTable* t : {&weights, &biases})
    for (const Var& v : t->parts()) {
      if (v.valid()) continue;
      g.PropagateFailure(v.handle(), WithLine(s, loc));
      return g.Failure();
    }
  return BuildError(s, loc);
}

// The scores of one part's classes, on its device.
Output PartScores(const Var& w, const Var& b, const Output& h) {
  const NoDeviceScope none;
  const DeviceScope same_device(w.handle().node->device());
  return ops::BiasAdd(ops::MatMul(h, w.Read({}), {.transpose_b = true}),
                      b.Read({}));
}

bool OnOneDevice(const EmbeddingTable& table) {
  const std::vector<Var>& parts = table.parts();
  return std::all_of(parts.begin(), parts.end(), [&](const Var& p) {
    return p.handle().node->device() == parts[0].handle().node->device();
  });
}

// The scores of all parts in one matrix, whose columns are the parts' classes
// one after the other.
Output JoinedLoss(const EmbeddingTable& weights, const EmbeddingTable& biases,
                  const Output& labels, const Output& h,
                  PartitionStrategy strategy) {
  const auto parts = static_cast<int64_t>(weights.parts().size());
  std::vector<Output> scores;
  for (size_t p = 0; p < weights.parts().size(); ++p)
    scores.push_back(PartScores(weights.parts()[p], biases.parts()[p], h));
  Output column = labels;
  if (strategy == PartitionStrategy::kMod && parts > 1) {
    const PlacesInParts at =
        FindInParts(labels, parts, weights.rows(), strategy);
    std::vector<int64_t> firsts;
    for (int64_t p = 0; p < parts; ++p)
      firsts.push_back(FirstOfPart(p, parts, weights.rows()));
    const Output first = InType(
        ops::GatherV2(Constant(Tensor::Vector<int64_t>(firsts)), at.part, 0),
        labels.dtype());
    // (A label out of range stays one, which the loss reports.)
    const auto all = static_cast<long long>(weights.rows());
    column = ops::SelectV2(labels >= 0 && labels < all,
                           first + InType(at.row, labels.dtype()), labels);
  }
  return ops::SparseSoftmaxCrossEntropyWithLogits(
             scores.size() == 1 ? scores[0] : ops::ConcatV2(scores, 1), column)
      .loss;
}

// One log-sum and one score per example from each device.
Output CombinedLoss(const EmbeddingTable& weights, const EmbeddingTable& biases,
                    const Output& labels, const Output& h,
                    PartitionStrategy strategy) {
  const auto count = static_cast<int64_t>(weights.parts().size());
  const auto all = static_cast<long long>(weights.rows());
  Node* const checked = ops::Assert(
      ops::All(labels >= 0 && labels < all, 0),
      {ops::Identity(Constant(Tensor::Scalar<std::string>(
           absl::StrCat("labels: expected classes in [0, ", all, "), got")))),
       labels});
  const PlacesInParts at = FindInParts(labels, count, all, strategy);
  const Output row = ops::Cast(at.row, DType::kInt32);
  std::vector<Output> sums, own;
  for (size_t p = 0; p < weights.parts().size(); ++p) {
    const Var& w = weights.parts()[p];
    if (w.shape().dim(0) == 0) continue;  // There is no greatest score.
    const Output mine = ops::Equal(at.part, static_cast<int>(p));
    const Output place = ops::SelectV2(mine, row, 0);
    const NoDeviceScope none;
    const DeviceScope same_device(w.handle().node->device());
    const Output scores = PartScores(w, biases.parts()[p], h);
    // Less the greatest score, so that the exponentials do not overflow. (The
    // loss does not depend on what is subtracted.)
    const Output top = ops::StopGradient(ops::Max(scores, 1));
    sums.push_back(top + ops::Log(ops::Sum(
                             ops::Exp(scores - ops::ExpandDims(top, 1)), 1)));
    const Output places =
        ops::Pack({ops::Range(0, ops::Size(place), 1), place}, {.axis = 1});
    const Output score = ops::GatherNd(scores, places);
    own.push_back(ops::SelectV2(mine, score, ops::ZerosLike(score)));
  }
  const ControlDependencies in_range({checked});
  const Output by_part = ops::Pack(sums, {.axis = 1});
  const Output top = ops::StopGradient(ops::Max(by_part, 1));
  const Output log_sum =
      top + ops::Log(ops::Sum(ops::Exp(by_part - ops::ExpandDims(top, 1)), 1));
  return log_sum - ops::AddN(own);
}

struct SampledScores {
  Output of_true, of_sampled;  // [batch, true] and [batch, sampled]
  Output labels;               // int64 [batch * true]
  int64_t num_true = 0;
  bool ok = false;
  Output failed;  // Null, with the error, unless ok.
};

// The scores of the true and the sampled classes, less the logarithms of their
// expected counts in the sample.
SampledScores ScoresOfSample(const EmbeddingTable& weights,
                             const EmbeddingTable& biases,
                             const Operand& labels, const Operand& inputs,
                             int64_t sampled, const SampledLossOptions& options,
                             bool remove_accidental_hits, SourceLoc loc) {
  SampledScores out;
  const auto refuse = [&](const Status& s) {
    out.failed = Refuse(weights, biases, s, loc);
    return out;
  };
  if (const Status s = CheckWeights(weights, biases); !s.ok()) return refuse(s);
  Output own = labels.Get(DType::kInt64);
  const Output h = inputs.Get(weights.parts()[0].dtype());
  if (!own.valid() || !h.valid()) {
    out.failed = own.valid() ? h : own;
    return out;
  }
  if (const Status s = CheckIds(own, "labels"); !s.ok()) return refuse(s);
  own = InType(own, DType::kInt64);
  if (own.shape().rank() == 1) own = ops::ExpandDims(own, 1);
  out.num_true = KnownDim(own, 1);
  if (own.shape().rank() != 2 || out.num_true < 1)
    return refuse(
        InvalidArgument("labels: expected shape [batch] or [batch,true] with "
                        "a known number of true classes, got ",
                        own.shape().ToString()));
  if (options.classes < 0 || options.classes > weights.rows())
    return refuse(InvalidArgument("classes: expected at most the ",
                                  weights.rows(), " rows of '", weights.name(),
                                  "', got ", options.classes));
  const int64_t classes =
      options.classes == 0 ? weights.rows() : options.classes;
  SampledClasses drawn = options.sampler != nullptr
                             ? options.sampler(own, sampled, classes)
                             : LogUniformClassSampler({.seed = options.seed})(
                                   own, sampled, classes);
  for (Output* o : {&drawn.classes, &drawn.true_expected_count,
                    &drawn.sampled_expected_count}) {
    if (!o->valid()) {
      CurrentGraph().PropagateFailure(
          *o, WithLine(InvalidArgument("sampler: expected classes and counts, "
                                       "got none"),
                       loc));
      out.failed = CurrentGraph().Failure();
      return out;
    }
    *o = ops::StopGradient(*o);
  }
  drawn.classes = InType(drawn.classes, DType::kInt64);

  // Both kinds of rows are gathered together, so that each weight has one
  // gradient.
  const Output flat = out.labels = ops::Reshape(own, {-1});
  const Output all = ops::ConcatV2({flat, drawn.classes}, 0);
  const Output sizes = ops::Pack({ops::Size(flat), ops::Size(drawn.classes)});
  const std::vector<Output> w = ops::SplitV(
      EmbeddingLookup(weights, all, {.strategy = options.strategy}, loc), sizes,
      0, 2);
  const std::vector<Output> b = ops::SplitV(
      EmbeddingLookup(biases, all, {.strategy = options.strategy}, loc), sizes,
      0, 2);
  const auto num_true = static_cast<int>(out.num_true);
  const DType type = h.dtype();
  const auto log_of = [&](const Output& counts) {
    return InType(ops::Log(counts), type);
  };
  if (num_true == 1) {
    out.of_true =
        ops::Sum(h * w[0], 1, {.keep_dims = true}) + ops::ExpandDims(b[0], 1);
  } else {
    const Output rows =
        ops::Reshape(w[0], ops::Pack({-1, num_true, DimOf(w[0], 1, loc)}));
    out.of_true = ops::Sum(ops::ExpandDims(h, 1) * rows, 2) +
                  ops::Reshape(b[0], {-1, num_true});
  }
  out.of_true = out.of_true - log_of(drawn.true_expected_count);
  out.of_sampled = ops::MatMul(h, w[1], {.transpose_b = true}) +
                   (b[1] - log_of(drawn.sampled_expected_count));
  if (remove_accidental_hits) {
    const auto hits =
        ops::ComputeAccidentalHits(own, drawn.classes, out.num_true);
    const Output at = ops::Pack(
        {hits.indices, ops::Cast(hits.ids, DType::kInt32)}, {.axis = 1});
    const Output each = ops::Pack(
        {ops::Div(ops::Size(flat), num_true), ops::Size(drawn.classes)});
    out.of_sampled =
        out.of_sampled +
        ops::SparseToDense(at, each, InType(hits.weights, type),
                           ScalarOf(type, 0), {.validate_indices = false});
  }
  out.ok = out.of_true.valid() && out.of_sampled.valid();
  if (!out.ok) out.failed = out.of_true.valid() ? out.of_sampled : out.of_true;
  return out;
}

// 1 / true for the true classes, 0 for the sampled ones.
Output Targets(const SampledScores& scores) {
  return ops::ConcatV2(
      {ops::OnesLike(scores.of_true) / static_cast<double>(scores.num_true),
       ops::ZerosLike(scores.of_sampled)},
      1);
}

}  // namespace

Output FullSoftmaxLoss(const EmbeddingTable& weights,
                       const EmbeddingTable& biases, const Operand& labels,
                       const Operand& inputs, const FullSoftmaxOptions& options,
                       SourceLoc loc) {
  const AtLine line(loc);
  if (const Status s = CheckWeights(weights, biases); !s.ok())
    return Refuse(weights, biases, s, loc);
  const NameScope scope(options.name);
  Output own = labels.Get(DType::kInt64);
  const Output h = inputs.Get(weights.parts()[0].dtype());
  if (!own.valid() || !h.valid()) return own.valid() ? h : own;
  if (const Status s = CheckIds(own, "labels"); !s.ok())
    return Refuse(weights, biases, s, loc);
  if (own.shape().rank_known() && own.shape().rank() != 1)
    return Refuse(weights, biases,
                  InvalidArgument("labels: expected shape [batch], got ",
                                  own.shape().ToString()),
                  loc);
  own = IdsForRows(own, weights.rows());
  return OnOneDevice(weights)
             ? JoinedLoss(weights, biases, own, h, options.strategy)
             : CombinedLoss(weights, biases, own, h, options.strategy);
}

Output SampledSoftmaxLoss(const EmbeddingTable& weights,
                          const EmbeddingTable& biases, const Operand& labels,
                          const Operand& inputs, int64_t sampled,
                          const SampledLossOptions& options, SourceLoc loc) {
  const AtLine line(loc);
  const NameScope scope(options.name.empty() ? "sampled_softmax"
                                             : options.name);
  const SampledScores scores =
      ScoresOfSample(weights, biases, labels, inputs, sampled, options,
                     options.remove_accidental_hits.value_or(true), loc);
  if (!scores.ok) return scores.failed;
  const Output all = ops::ConcatV2({scores.of_true, scores.of_sampled}, 1);
  if (scores.num_true > 1)
    return ops::SoftmaxCrossEntropyWithLogits(all, Targets(scores)).loss;
  // The true class of each example comes first.
  return ops::SparseSoftmaxCrossEntropyWithLogits(all,
                                                  ops::ZerosLike(scores.labels))
      .loss;
}

Output NceLoss(const EmbeddingTable& weights, const EmbeddingTable& biases,
               const Operand& labels, const Operand& inputs, int64_t sampled,
               const SampledLossOptions& options, SourceLoc loc) {
  const AtLine line(loc);
  const NameScope scope(options.name.empty() ? "nce_loss" : options.name);
  const SampledScores scores =
      ScoresOfSample(weights, biases, labels, inputs, sampled, options,
                     options.remove_accidental_hits.value_or(false), loc);
  if (!scores.ok) return scores.failed;
  const Output each = SigmoidCrossEntropy(
      Targets(scores), ops::ConcatV2({scores.of_true, scores.of_sampled}, 1),
      {.reduction = LossReduction::kNone}, loc);
  return ops::Sum(each, 1);
}

}  // namespace sluice
