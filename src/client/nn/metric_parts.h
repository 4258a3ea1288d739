// What streaming metrics are made of. Internal.
#ifndef SLUICE_CLIENT_NN_METRIC_PARTS_H_
#define SLUICE_CLIENT_NN_METRIC_PARTS_H_

#include <string>

#include "client/nn/metrics.h"
#include "client/tensorflow_names.h"

namespace sluice {

// A metric while it is built: its scope, and TensorFlow's names within.
class MetricScope {
 public:
  MetricScope(const MetricOptions& options, const std::string& usual,
              SourceLoc loc)
      : MetricScope(options.name.empty() ? usual : options.name, loc) {}
  MetricScope(const std::string& name, SourceLoc loc)
      : at_(loc), scope_(name) {}
  // As the name of a node: that of the scope itself.
  std::string Whole() const { return scope_.prefix() + "/"; }

 private:
  const AtLine at_;
  const NameScope scope_;
  const TensorFlowNames names_;
};

// A variable for sums, of zeros.
Var SumsOf(const MetricOptions& options, const std::string& name,
           const Shape& shape, DType dtype = DType::kFloat);
// The variable's value after adding; with indices, to these rows.
Output AddedTo(const Var& sums, const Output& delta, SourceLoc loc);
Output AddedToRows(const Var& sums, const Output& rows, const Output& delta,
                   SourceLoc loc);

// Of a value before and after a batch; none if one of them failed.
Metric MetricOf(const Output& value, const Output& updated);

// The sum of all elements.
Output TotalOf(const Output& x);
// Without context a number is a float.
Output FloatUnlessTyped(const Operand& x);
// total / count, 0 unless the count is positive.
Output RatioOf(const Output& total, const Output& count,
               const std::string& name);

// x without its last dimension, if it has one dimension more than `other`.
Output WithoutExtraDimension(const Output& x, const Output& other);

// Labels and predictions of one shape, but for a last dimension of 1; an error
// unless they have one. A step checks what is not known before it.
struct LabelsAndPredictions {
  LabelsAndPredictions(const Output& labels, const Output& predictions);
  Output labels, predictions;
};
// Whether it is a value of the enumeration; an error is recorded if not.
bool IsOutcome(Outcome outcome, SourceLoc loc);
// Of booleans: which are of a kind.
Output WhichAre(Outcome outcome, const Output& labels,
                const Output& predictions);
// "true_positives", ...
const char* NameOfCount(Outcome outcome);

// True if all elements count once, without a multiplication.
bool CountOnce(const MetricOptions& options);
// Weights that fit values, in a type. As for labels, their last dimension may
// be 1, or missing if that of the values is 1.
Output WeightsOf(const Output& values, const Operand& weights, DType dtype);
// The same in the shape of the values.
Output BroadcastWeights(const Output& values, const Operand& weights,
                        DType dtype);

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_METRIC_PARTS_H_
