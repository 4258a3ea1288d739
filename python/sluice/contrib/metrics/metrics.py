"""Streaming metrics, which accumulate over the steps of an evaluation.

Each returns (value, update). They accumulate in local variables, which are also
in METRIC_VARIABLES; `tf.local_variables_initializer` resets them. The library
builds them; this module has their arguments, scopes, variables and collections.
"""

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, math_ops, variables
from sluice.ops.variable_scope import variable_scope


def metric_variable(shape, dtype, validate_shape=True, name=None):
    """Creates a variable of zeros in which a metric accumulates."""
    return variables.Variable(
        lambda: array_ops.zeros(shape, dtype), trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape, name=name)


def _sums(name, shape, dtype):
    return metric_variable(shape, dtype, name=name)._handle


def _collected(value, update, metrics_collections, updates_collections):
    if metrics_collections:
        graphs.add_to_collections(metrics_collections, value)
    if updates_collections:
        graphs.add_to_collections(updates_collections, update)
    return value, update


def _build(function, default, inputs, weights, metrics_collections,
           updates_collections, name, *settings):
    """Calls a metric of the library in a variable scope, and collects it."""
    with variable_scope(name, default, [*inputs, weights]) as scope:
        within = scope.original_name_scope
    call = _core.MetricCall(within, 1.0 if weights is None else weights, _sums)
    return _collected(*function(call, *inputs, *settings), metrics_collections,
                      updates_collections)


def _safe_scalar_div(numerator, denominator, name):
    return math_ops.div_no_nan(numerator, denominator, name=name)


def _aggregate_variable(v, collections):
    value = array_ops.identity(v)
    if collections:
        graphs.add_to_collections(collections, value)
    return value


def mean(values, weights=None, metrics_collections=None,
         updates_collections=None, name=None):
    """Computes the mean of all values so far.

    Args:
      values: the values of this step.
      weights: the weights of the values, or None.
      metrics_collections, updates_collections: the collections for the value
        and for the update.
      name: the variable scope.
    """
    return _build(_core.metric_mean, "mean", [values], weights,
                  metrics_collections, updates_collections, name)


def mean_tensor(values, weights=None, metrics_collections=None,
                updates_collections=None, name=None):
    """Computes the elementwise mean of all values so far."""
    return _build(_core.metric_mean_tensor, "mean", [values], weights,
                  metrics_collections, updates_collections, name)


def percentage_below(values, threshold, weights=None, metrics_collections=None,
                     updates_collections=None, name=None):
    """Computes the fraction of values below a threshold."""
    return _build(_core.metric_percentage_below, "percentage_below_threshold",
                  [values, threshold], weights, metrics_collections,
                  updates_collections, name)


def mean_relative_error(labels, predictions, normalizer, weights=None,
                        metrics_collections=None, updates_collections=None,
                        name=None):
    """Computes the mean of |predictions - labels| / normalizer."""
    return _build(_core.metric_mean_relative_error, "mean_relative_error",
                  [labels, predictions, normalizer], weights,
                  metrics_collections, updates_collections, name)


def mean_cosine_distance(labels, predictions, dim, weights=None,
                         metrics_collections=None, updates_collections=None,
                         name=None):
    """Computes 1 - mean(labels . predictions) along a dimension."""
    return _build(_core.metric_mean_cosine_distance, "mean_cosine_distance",
                  [labels, predictions], weights, metrics_collections,
                  updates_collections, name, dim)


def _of_pair(function, label, doc, *settings):
    def metric(labels, predictions, weights=None, metrics_collections=None,
               updates_collections=None, name=None):
        return _build(function, label, [labels, predictions], weights,
                      metrics_collections, updates_collections, name, *settings)
    metric.__name__, metric.__doc__ = label, doc
    return metric


accuracy = _of_pair(
    _core.metric_accuracy, "accuracy",
    "Computes the fraction of predictions that equal the labels.")
mean_absolute_error = _of_pair(
    _core.metric_mean_absolute_error, "mean_absolute_error",
    "Computes the mean of |predictions - labels|.")
mean_squared_error = _of_pair(
    _core.metric_mean_squared_error, "mean_squared_error",
    "Computes the mean of (predictions - labels)^2.")
root_mean_squared_error = _of_pair(
    _core.metric_root_mean_squared_error, "root_mean_squared_error",
    "Computes the root of the mean of (predictions - labels)^2.")
precision = _of_pair(
    _core.metric_precision, "precision",
    "Computes the fraction of positives that are true.")
recall = _of_pair(
    _core.metric_recall, "recall",
    "Computes the fraction of true labels that are predicted.")

# The library's numbers of outcomes.
_TRUE_POSITIVE, _FALSE_NEGATIVE, _TRUE_NEGATIVE, _FALSE_POSITIVE = range(4)
true_positives = _of_pair(
    _core.metric_count, "true_positives", "Counts the true positives.",
    _TRUE_POSITIVE, None)
true_negatives = _of_pair(
    _core.metric_count, "true_negatives", "Counts the true negatives.",
    _TRUE_NEGATIVE, None)
false_positives = _of_pair(
    _core.metric_count, "false_positives", "Counts the false positives.",
    _FALSE_POSITIVE, None)
false_negatives = _of_pair(
    _core.metric_count, "false_negatives", "Counts the false negatives.",
    _FALSE_NEGATIVE, None)


# ---- Metrics at thresholds ---------------------------------------------------


def _threshold_metric(function, label, doc, *settings):
    def metric(labels, predictions, thresholds, weights=None,
               metrics_collections=None, updates_collections=None, name=None):
        return _build(function, label, [labels, predictions], weights,
                      metrics_collections, updates_collections, name, *settings,
                      list(thresholds))
    metric.__name__, metric.__doc__ = label, doc
    return metric


true_positives_at_thresholds = _threshold_metric(
    _core.metric_count, "true_positives",
    "Counts the true positives at each threshold.", _TRUE_POSITIVE)
false_negatives_at_thresholds = _threshold_metric(
    _core.metric_count, "false_negatives",
    "Counts the false negatives at each threshold.", _FALSE_NEGATIVE)
true_negatives_at_thresholds = _threshold_metric(
    _core.metric_count, "true_negatives",
    "Counts the true negatives at each threshold.", _TRUE_NEGATIVE)
false_positives_at_thresholds = _threshold_metric(
    _core.metric_count, "false_positives",
    "Counts the false positives at each threshold.", _FALSE_POSITIVE)
precision_at_thresholds = _threshold_metric(
    _core.metric_precision_at_thresholds, "precision_at_thresholds",
    "Computes the precision at each threshold.")
recall_at_thresholds = _threshold_metric(
    _core.metric_recall_at_thresholds, "recall_at_thresholds",
    "Computes the recall at each threshold.")


def _confusion_matrix_at_thresholds(labels, predictions, thresholds,
                                    weights=None, includes=None):
    """Returns ({kind: counts}, {kind: updated counts}) per threshold."""
    counters = {"tp": true_positives_at_thresholds,
                "fn": false_negatives_at_thresholds,
                "tn": true_negatives_at_thresholds,
                "fp": false_positives_at_thresholds}
    values, updates = {}, {}
    for kind in includes or counters:
        values[kind], updates[kind] = counters[kind](labels, predictions,
                                                     thresholds, weights)
    return values, updates


_SUMMATIONS = ("trapezoidal", "minoring", "majoring", "careful_interpolation")


def auc(labels, predictions, weights=None, num_thresholds=200,
        metrics_collections=None, updates_collections=None, curve="ROC",
        name=None, summation_method="trapezoidal", thresholds=None):
    """Computes the area under a curve over all thresholds.

    Args:
      curve: "ROC", the true positive rate over the false positive rate, or
        "PR", precision over recall.
      num_thresholds: the number of points that approximate the curve.
      summation_method: "trapezoidal", "minoring", "majoring" or, for "PR",
        "careful_interpolation".
      thresholds: the thresholds in [0, 1], instead of `num_thresholds`.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR. Curve {curve} is "
                         f"unknown.")
    if summation_method not in _SUMMATIONS or (
            curve == "ROC" and summation_method == "careful_interpolation"):
        raise ValueError(f"Invalid summation_method: {summation_method} for "
                         f"{curve} curve")
    return _build(_core.metric_auc, "auc", [labels, predictions], weights,
                  metrics_collections, updates_collections, name,
                  curve == "ROC", _SUMMATIONS.index(summation_method),
                  num_thresholds,
                  [] if thresholds is None else list(thresholds))


def sensitivity_at_specificity(labels, predictions, specificity, weights=None,
                               num_thresholds=200, metrics_collections=None,
                               updates_collections=None, name=None):
    """Computes the sensitivity where the specificity is nearest to a value."""
    return _build(_core.metric_sensitivity_at_specificity,
                  "sensitivity_at_specificity", [labels, predictions], weights,
                  metrics_collections, updates_collections, name, specificity,
                  num_thresholds)


def specificity_at_sensitivity(labels, predictions, sensitivity, weights=None,
                               num_thresholds=200, metrics_collections=None,
                               updates_collections=None, name=None):
    """Computes the specificity where the sensitivity is nearest to a value."""
    return _build(_core.metric_specificity_at_sensitivity,
                  "specificity_at_sensitivity", [labels, predictions], weights,
                  metrics_collections, updates_collections, name, sensitivity,
                  num_thresholds)


# ---- Metrics per class -------------------------------------------------------


def mean_iou(labels, predictions, num_classes, weights=None,
             metrics_collections=None, updates_collections=None, name=None):
    """Computes the mean intersection over union of all classes."""
    return _build(_core.metric_mean_iou, "mean_iou", [labels, predictions],
                  weights, metrics_collections, updates_collections, name,
                  num_classes)


def mean_per_class_accuracy(labels, predictions, num_classes, weights=None,
                            metrics_collections=None, updates_collections=None,
                            name=None):
    """Computes the mean of the accuracies of all classes."""
    return _build(_core.metric_mean_per_class_accuracy, "mean_accuracy",
                  [labels, predictions], weights, metrics_collections,
                  updates_collections, name, num_classes)
