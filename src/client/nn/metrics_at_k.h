// Streaming metrics of the best k predictions of each row, where several labels
// may be correct. See client/nn/metrics.h for what all metrics have in common.
//
//   Metric precision = PrecisionAtK(labels, scores, 3);
//   Metric of_cats = RecallAtK(labels, scores, 3, {.class_id = 7});
//
// Labels are classes: integers [..., number of labels], dense or sparse, or
// [...], one for each row. What occurs twice in a row counts once, but for
// dense labels of AveragePrecisionAtK; labels that are not a class count, too,
// except negative ones of AveragePrecisionAtK, which fill rows that have fewer
// labels. Weights are of the rows. Sums are doubles.
#ifndef SLUICE_CLIENT_NN_METRICS_AT_K_H_
#define SLUICE_CLIENT_NN_METRICS_AT_K_H_

#include <cstdint>
#include <optional>

#include "client/nn/embedding.h"
#include "client/nn/metrics.h"

namespace sluice {

// Labels, dense or sparse.
struct ClassLabels {
  ClassLabels(const Operand& labels,  // NOLINT
              const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : dense(labels), loc{file, line} {}
  ClassLabels(const Output& labels,  // NOLINT
              const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : dense(labels), loc{file, line} {}
  ClassLabels(SparseOutput labels,  // NOLINT
              const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : dense(0), sparse(std::move(labels)), loc{file, line} {}
  Operand dense;
  std::optional<SparseOutput> sparse;
  SourceLoc loc;
};

struct AtKOptions {
  std::optional<int64_t> class_id = std::nullopt;  // The only class to count.
};

// Of the best k classes of scores [..., classes], the part that are labels; NaN
// before any update.
Metric PrecisionAtK(const ClassLabels& labels, const Operand& scores, int64_t k,
                    const AtKOptions& at = {},
                    const MetricOptions& options = {},
                    SourceLoc loc = CallerLoc());
// Of the labels, the part that are among the best k classes; NaN before any
// update.
Metric RecallAtK(const ClassLabels& labels, const Operand& scores, int64_t k,
                 const AtKOptions& at = {}, const MetricOptions& options = {},
                 SourceLoc loc = CallerLoc());
// The mean over the rows of the mean, over its labels, of the precision at the
// place of the label among the best k; 0 for labels beyond. The labels of a row
// are as many as it has, at most k; a dense one that occurs twice is two, of
// which one is not found. As in TensorFlow, a row without any (a sparse one)
// has no mean: it makes the metric NaN until MetricsInitializer runs.
Metric AveragePrecisionAtK(const ClassLabels& labels, const Operand& scores,
                           int64_t k, const MetricOptions& options = {},
                           SourceLoc loc = CallerLoc());

// The same of given classes [..., k], best first. `k` is only of the names, if
// it is not 0.
Metric PrecisionAtTopK(const ClassLabels& labels, const Operand& classes,
                       int64_t k = 0, const AtKOptions& at = {},
                       const MetricOptions& options = {},
                       SourceLoc loc = CallerLoc());
Metric RecallAtTopK(const ClassLabels& labels, const Operand& classes,
                    int64_t k = 0, const AtKOptions& at = {},
                    const MetricOptions& options = {},
                    SourceLoc loc = CallerLoc());
Metric AveragePrecisionAtTopK(const ClassLabels& labels, const Operand& classes,
                              const MetricOptions& options = {},
                              SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_METRICS_AT_K_H_
