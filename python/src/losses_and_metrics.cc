// Losses and streaming metrics, which the library builds.
#include <map>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/nn/losses.h"
#include "client/nn/metrics.h"
#include "client/nn/metrics_at_k.h"
#include "client/nn/threshold_metrics.h"
#include "library_calls.h"

namespace sluice::python {
namespace {

// ---- Losses -----------------------------------------------------------------

LossReduction ToReduction(const std::string& name) {
  static const auto* const kNamed = new std::map<std::string, LossReduction>{
      {"none", LossReduction::kNone},
      {"weighted_sum", LossReduction::kSum},
      {"weighted_sum_over_batch_size", LossReduction::kSumOverBatchSize},
      {"weighted_mean", LossReduction::kMean},
      {"weighted_sum_by_nonzero_weights", LossReduction::kSumByNonzeroWeights}};
  return kNamed->at(name);  // (Python has checked it.)
}

// `scope` is the name of one that was entered, "huber_loss/". The loss is added
// to no collection of the library: Python's graphs have their own.
LossOptions OptionsOf(const std::string& scope, const std::string& reduction) {
  LossOptions options;
  options.reduction = ToReduction(reduction);
  options.name = scope;
  options.collection.clear();
  return options;
}

// What becomes an option: a number, or a tensor where the option may be one.
template <typename In>
void Set(double* option, const py::object& value, const In&) {
  *option = py::float_(value);
}
template <typename In>
void Set(Operand* option, const py::object& value, const In& in) {
  // (Not an array's or a NumPy number's own type, but that of the losses.)
  py::detail::make_caster<double> number;
  *option = number.load(value, true) ? Operand(static_cast<double>(number))
                                     : in(value);
}

// The loss of predictions (or logits) and labels; `kSetting` is the option that
// `setting` is, if there is one.
template <auto kLoss, auto... kSetting>
Output Loss(const std::string& scope, const py::object& labels,
            const py::object& predictions, const py::object& weights,
            const std::string& reduction, const py::object& setting) {
  return Made({predictions, labels, weights, setting},
              [&](const auto& in, SourceLoc loc) {
                LossOptions options = OptionsOf(scope, reduction);
                // (In TensorFlow's order, which decides the names of nodes.)
                const Operand p = in(predictions), l = in(labels);
                options.weights = in(weights);
                (Set(&(options.*kSetting), setting, in), ...);
                return kLoss(l, p, options, loc);
              });
}

Output LossOfCosine(const std::string& scope, const py::object& labels,
                    const py::object& predictions, const py::object& weights,
                    const std::string& reduction, int axis) {
  return Made({predictions, labels, weights},
              [&](const auto& in, SourceLoc loc) {
                LossOptions options = OptionsOf(scope, reduction);
                const Operand p = in(predictions), l = in(labels);
                options.weights = in(weights);
                return CosineDistance(l, p, axis, options, loc);
              });
}

Output LossOfElements(const std::string& scope, const py::object& losses,
                      const py::object& weights, const std::string& reduction) {
  return Made({losses, weights}, [&](const auto& in, SourceLoc loc) {
    LossOptions options = OptionsOf(scope, reduction);
    const Operand of_elements = in(losses);
    options.weights = in(weights);
    return WeightedLoss(of_elements, options, loc);
  });
}

void AddLosses(py::module_& m) {
  m.def("weighted_loss", LossOfElements);
  m.def("absolute_difference", Loss<AbsoluteDifference>);
  m.def("mean_squared_error", Loss<MeanSquaredError>);
  m.def("huber_loss", Loss<HuberLoss, &LossOptions::delta>);
  m.def("log_loss", Loss<LogLoss, &LossOptions::epsilon>);
  m.def("hinge_loss", Loss<HingeLoss>);
  m.def("cosine_distance", LossOfCosine);
  m.def("mean_pairwise_squared_error", Loss<MeanPairwiseSquaredError>);
  m.def("sigmoid_cross_entropy",
        Loss<SigmoidCrossEntropy, &LossOptions::label_smoothing>);
  m.def("softmax_cross_entropy",
        Loss<SoftmaxCrossEntropy, &LossOptions::label_smoothing>);
  m.def("sparse_softmax_cross_entropy", Loss<SparseSoftmaxCrossEntropy>);
}

// ---- Metrics ----------------------------------------------------------------

using ValueAndUpdate = std::pair<Output, Output>;

// What every metric takes: its scope ("mean/", which was entered before and is
// entered again), the weights, and the function that makes a variable of zeros:
// (name, shape, DType) -> its handle.
struct MetricCall {
  MetricOptions Options(const Operand& of_elements) const {
    MetricOptions options;
    options.weights = of_elements;
    options.name = scope;
    options.variable = [fn = &variable](const std::string& name,
                                        const Shape& shape, DType dtype) {
      return FromLibrary([&] {
        const ScopeState scopes;
        const absl::Cleanup back = [&scopes] { scopes.Restore(); };
        return Var::FromHandle(py::cast<Output>(
            (*fn)(name, FromShape(PartialShape(shape)), FromDType(dtype))));
      });
    };
    return options;
  }
  // Calls `make(operand, options, loc)`.
  template <typename Make>
  ValueAndUpdate operator()(std::vector<py::handle> inputs,
                            const Make& make) const {
    inputs.push_back(weights);
    return Made(inputs, [&](const auto& in, SourceLoc loc) {
      const Metric m = make(in, Options(in(weights)), loc);
      return ValueAndUpdate(m.value, m.updated);
    });
  }
  std::string scope;
  py::object weights, variable;
};

template <auto kMetric>
ValueAndUpdate MetricOfValues(const MetricCall& call,
                              const py::object& values) {
  return call({values},
              [&](const auto& in, const auto& options, SourceLoc loc) {
                return kMetric(in(values), options, loc);
              });
}

template <auto kMetric, typename... Setting>
ValueAndUpdate MetricOfPair(const MetricCall& call, const py::object& labels,
                            const py::object& predictions,
                            Setting... settings) {
  return call({labels, predictions},
              [&](const auto& in, const auto& options, SourceLoc loc) {
                const Operand p = in(predictions);
                return kMetric(in(labels), p, settings..., options, loc);
              });
}

ValueAndUpdate Below(const MetricCall& call, const py::object& values,
                     const py::object& threshold) {
  return call({values, threshold},
              [&](const auto& in, const auto& options, SourceLoc loc) {
                const Operand x = in(values);
                return PercentageBelow(x, in(threshold), options, loc);
              });
}

ValueAndUpdate RelativeError(const MetricCall& call, const py::object& labels,
                             const py::object& predictions,
                             const py::object& normalizer) {
  return call({labels, predictions, normalizer},
              [&](const auto& in, const auto& options, SourceLoc loc) {
                const Operand p = in(predictions), l = in(labels);
                return StreamingMeanRelativeError(l, p, in(normalizer), options,
                                                  loc);
              });
}

ValueAndUpdate Count(const MetricCall& call, const py::object& labels,
                     const py::object& predictions, int outcome,
                     const std::optional<std::vector<double>>& thresholds) {
  return call({labels, predictions}, [&](const auto& in, const auto& options,
                                         SourceLoc loc) {
    const Operand p = in(predictions), l = in(labels);
    const auto which = static_cast<Outcome>(outcome);
    return thresholds.has_value()
               ? CountAtThresholds(which, l, p, *thresholds, options, loc)
               : CountOf(which, l, p, options, loc);
  });
}

ValueAndUpdate AreaUnderCurve(const MetricCall& call, const py::object& labels,
                              const py::object& predictions, bool roc,
                              int summation, int64_t points,
                              const std::vector<double>& thresholds) {
  return call({labels, predictions},
              [&](const auto& in, const auto& options, SourceLoc loc) {
                const Operand p = in(predictions);
                return Auc(in(labels), p,
                           {.curve = roc ? AucCurve::kRoc : AucCurve::kPr,
                            .summation = static_cast<AucSummation>(summation),
                            .points = points,
                            .thresholds = thresholds},
                           options, loc);
              });
}

// Labels are a tensor, or the list (indices, values, dense_shape). `best`: the
// predictions are classes, not scores.
enum class AtK { kPrecision, kRecall, kAverage };
template <AtK kKind>
ValueAndUpdate MetricAtK(const MetricCall& call, const py::object& labels,
                         const py::object& predictions, int64_t k, bool best,
                         const std::optional<int64_t>& class_id) {
  return call(
      {labels, predictions},
      [&](const auto& in, const MetricOptions& options, SourceLoc loc) {
        const auto labels_of = [&] {
          if (!py::isinstance<py::list>(labels)) return ClassLabels(in(labels));
          const py::list parts = labels;
          return ClassLabels(SparseOutput{
              in(parts[0]).output, in(parts[1]).output, in(parts[2]).output});
        };
        const Operand p = in(predictions);
        const ClassLabels l = labels_of();
        const AtKOptions at = {.class_id = class_id};
        if constexpr (kKind == AtK::kPrecision)
          return best ? PrecisionAtTopK(l, p, k, at, options, loc)
                      : PrecisionAtK(l, p, k, at, options, loc);
        else if constexpr (kKind == AtK::kRecall)
          return best ? RecallAtTopK(l, p, k, at, options, loc)
                      : RecallAtK(l, p, k, at, options, loc);
        else
          return best ? AveragePrecisionAtTopK(l, p, options, loc)
                      : AveragePrecisionAtK(l, p, k, options, loc);
      });
}

void AddMetrics(py::module_& m) {
  py::class_<MetricCall>(m, "MetricCall")
      .def(py::init(
          [](std::string scope, py::object weights, py::object variable) {
            return MetricCall{std::move(scope), std::move(weights),
                              std::move(variable)};
          }));
  m.def("metric_mean", MetricOfValues<StreamingMean>);
  m.def("metric_mean_tensor", MetricOfValues<StreamingMeanTensor>);
  m.def("metric_percentage_below", Below);
  m.def("metric_accuracy", MetricOfPair<Accuracy>);
  m.def("metric_mean_absolute_error", MetricOfPair<StreamingMeanAbsoluteError>);
  m.def("metric_mean_squared_error", MetricOfPair<StreamingMeanSquaredError>);
  m.def("metric_root_mean_squared_error",
        MetricOfPair<StreamingRootMeanSquaredError>);
  m.def("metric_mean_relative_error", RelativeError);
  m.def("metric_mean_cosine_distance",
        MetricOfPair<StreamingMeanCosineDistance, int>);
  m.def("metric_count", Count);
  m.def("metric_precision", MetricOfPair<Precision>);
  m.def("metric_recall", MetricOfPair<Recall>);
  m.def("metric_precision_at_thresholds",
        MetricOfPair<PrecisionAtThresholds, std::vector<double>>);
  m.def("metric_recall_at_thresholds",
        MetricOfPair<RecallAtThresholds, std::vector<double>>);
  m.def("metric_auc", AreaUnderCurve);
  m.def("metric_sensitivity_at_specificity",
        MetricOfPair<SensitivityAtSpecificity, double, int64_t>);
  m.def("metric_specificity_at_sensitivity",
        MetricOfPair<SpecificityAtSensitivity, double, int64_t>);
  m.def("metric_mean_iou", MetricOfPair<MeanIou, int64_t>);
  m.def("metric_mean_per_class_accuracy",
        MetricOfPair<MeanPerClassAccuracy, int64_t>);
  m.def("metric_precision_at_k", MetricAtK<AtK::kPrecision>);
  m.def("metric_recall_at_k", MetricAtK<AtK::kRecall>);
  m.def("metric_average_precision_at_k", MetricAtK<AtK::kAverage>);
}

}  // namespace

void AddLossesAndMetrics(py::module_& m) {
  AddLosses(m);
  AddMetrics(m);
}

}  // namespace sluice::python
