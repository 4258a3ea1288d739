// Losses over very many classes, such as the words of a language model, with
// weights that may be in parts: the full softmax, and two estimates of it from
// a sample of the classes.
//
//   Output loss = ops::Mean(SampledSoftmaxLoss(w, b, words, h, 512), 0);
//   Output exact = ops::Mean(FullSoftmaxLoss(w, b, words, h), 0);
//
// `weights` [classes, depth] and `biases` [classes] are tables of one row per
// class, both in as many parts (EmbeddingTable).
#ifndef SLUICE_CLIENT_NN_LARGE_SOFTMAX_H_
#define SLUICE_CLIENT_NN_LARGE_SOFTMAX_H_

#include <optional>
#include <string>

#include "client/nn/candidate_samplers.h"
#include "client/nn/embedding.h"
#include "graph/builder.h"

namespace sluice {

struct FullSoftmaxOptions {
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  std::string name = "full_softmax";
};

// The softmax cross-entropy of each row of `inputs` [batch, depth], whose class
// is in `labels` (int32 or int64 [batch]), over all classes: [batch]. Each part
// of the weights computes the scores of its classes on its own device. If the
// parts are on several devices, only the inputs travel to them, and one sum per
// example back; otherwise the scores are joined. (Train with
// MinimizeOptions::colocate, so that the gradients stay there too.) A step
// fails with InvalidArgument for a label out of range.
Output FullSoftmaxLoss(const EmbeddingTable& weights,
                       const EmbeddingTable& biases, const Operand& labels,
                       const Operand& inputs,
                       const FullSoftmaxOptions& options = {},
                       SourceLoc loc = CallerLoc());

struct SampledLossOptions {
  // Whether a sampled class that is a true class of the example is left out of
  // its loss. By default it is in a sampled softmax, and is not in NCE.
  std::optional<bool> remove_accidental_hits = {};
  std::optional<int64_t> seed = {};  // Of the default sampler.
  ClassSampler sampler = nullptr;    // Null: LogUniformClassSampler.
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  // Only the first so many classes are sampled; 0: all.
  int64_t classes = 0;
  std::string name = "";  // "": that of the loss.
};

// For training: the loss of each row of `inputs` [batch, depth], whose true
// classes are in `labels` (int32 or int64, [batch] or [batch, true] with `true`
// known): the softmax cross-entropy between these, each with the same share,
// and `sampled` other classes, drawn once per step for the whole batch. Scores
// are corrected for the probability of being drawn (Jean et al., 2015).
// Weights are read row by row, and their gradients are sparse, with the rows
// that were drawn. Equivalent to tf.nn.sampled_softmax_loss.
Output SampledSoftmaxLoss(const EmbeddingTable& weights,
                          const EmbeddingTable& biases, const Operand& labels,
                          const Operand& inputs, int64_t sampled,
                          const SampledLossOptions& options = {},
                          SourceLoc loc = CallerLoc());

// The same with noise-contrastive estimation (Gutmann and Hyvarinen, 2010): the
// sum of the logistic losses of telling the true classes from the sampled ones.
// Equivalent to tf.nn.nce_loss.
Output NceLoss(const EmbeddingTable& weights, const EmbeddingTable& biases,
               const Operand& labels, const Operand& inputs, int64_t sampled,
               const SampledLossOptions& options = {},
               SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LARGE_SOFTMAX_H_
