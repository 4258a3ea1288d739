"""`tf.contrib.metrics`: the metrics with their arguments as they once were, of
predictions and labels, and some more."""

import importlib
import inspect

from sluice import metrics_at_k
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.elements import require_same_shape
from sluice.metrics import (
    _collected, _remove_squeezable_dimensions, metric_variable)
from sluice.ops import array_ops, math_ops, nn, variables
from sluice.ops import weights as _weights
from sluice.ops.variable_scope import variable_scope

# (`from sluice import metrics` is the namespace of its public names.)
metrics = importlib.import_module("sluice.metrics")
_float32 = _weights.float32


def _swapped(metric):
    """A metric that takes predictions before labels."""
    def streaming(predictions, labels, *args, **kwargs):
        return metric(labels, predictions, *args, **kwargs)
    labels, predictions, *rest = inspect.signature(
        metric).parameters.values()
    streaming.__signature__ = inspect.Signature([predictions, labels, *rest])
    streaming.__name__ = streaming.__qualname__ = "streaming_" + metric.__name__
    streaming.__doc__ = metric.__doc__
    return streaming


for _name in ("accuracy", "auc", "false_negatives",
              "false_negatives_at_thresholds", "false_positives",
              "false_positives_at_thresholds", "mean_absolute_error",
              "mean_cosine_distance", "mean_iou", "mean_relative_error",
              "mean_squared_error", "precision", "precision_at_thresholds",
              "recall", "recall_at_thresholds", "root_mean_squared_error",
              "sensitivity_at_specificity", "specificity_at_sensitivity",
              "true_negatives", "true_negatives_at_thresholds",
              "true_positives", "true_positives_at_thresholds"):
    globals()["streaming_" + _name] = _swapped(getattr(metrics, _name))
streaming_mean = metrics.mean
streaming_mean_tensor = metrics.mean_tensor
streaming_percentage_less = metrics.percentage_below
streaming_sparse_precision_at_k = _swapped(metrics_at_k.precision_at_k)
streaming_sparse_recall_at_k = _swapped(metrics_at_k.recall_at_k)
streaming_sparse_average_precision_at_k = _swapped(
    metrics_at_k.average_precision_at_k)


streaming_false_positive_rate_at_thresholds = _swapped(
    metrics._threshold_metric(
        "false_positive_rate_at_thresholds", ("fp", "tn"),
        lambda c: c["fp"] / (metrics._EPSILON + c["fp"] + c["tn"]),
        "Which part of what is false is above each threshold."))
streaming_false_negative_rate_at_thresholds = _swapped(
    metrics._threshold_metric(
        "false_negative_rate_at_thresholds", ("tp", "fn"),
        lambda c: c["fn"] / (metrics._EPSILON + c["fn"] + c["tp"]),
        "Which part of what is true is not above each threshold."))


def streaming_sparse_precision_at_top_k(
        top_k_predictions, labels, class_id=None, weights=None,
        metrics_collections=None, updates_collections=None, name=None):
    """Which part of the best predictions, given as classes, are labels."""
    return metrics_at_k.precision_at_top_k(
        labels, top_k_predictions, None, class_id, weights,
        metrics_collections, updates_collections, name)


def sparse_recall_at_top_k(
        labels, top_k_predictions, class_id=None, weights=None,
        metrics_collections=None, updates_collections=None, name=None):
    """Which part of the labels are among the best predictions, given as
    classes."""
    return metrics_at_k.recall_at_top_k(
        labels, top_k_predictions, None, class_id, weights,
        metrics_collections, updates_collections, name)


def streaming_sparse_average_precision_at_top_k(
        top_k_predictions, labels, weights=None, metrics_collections=None,
        updates_collections=None, name=None):
    """The mean over examples of the mean of the precisions at each place of the
    best predictions where a label is."""
    return metrics_at_k._streaming_sparse_average_precision_at_top_k(
        labels, top_k_predictions, weights, metrics_collections,
        updates_collections, name)


def streaming_recall_at_k(predictions, labels, k, weights=None,
                          metrics_collections=None, updates_collections=None,
                          name=None):
    """The share of the labels that are among the k best predictions."""
    return metrics.mean(
        _float32(nn.in_top_k(predictions, labels, k)), weights,
        metrics_collections, updates_collections, name or f"recall_at_{k}")


def _rate(label, wrong, right, doc):
    """The share of `wrong` among wrong and right, which are counters."""
    def metric(predictions, labels, weights=None, metrics_collections=None,
               updates_collections=None, name=None):
        with variable_scope(name, label, [predictions, labels, weights]):
            predictions, labels, weights = _remove_squeezable_dimensions(
                math_ops.cast(predictions, dtypes.bool_),
                math_ops.cast(labels, dtypes.bool_), weights)
            counts = (wrong(labels, predictions, weights),
                      right(labels, predictions, weights))
            value, update = (
                math_ops.div_no_nan(a, a + b, name=which) for (a, b), which in
                zip(zip(*counts), ("value", "update_op")))
            return _collected(value, update, metrics_collections,
                              updates_collections)
    metric.__name__ = metric.__qualname__ = "streaming_" + label
    metric.__doc__ = doc
    return metric


streaming_false_positive_rate = _rate(
    "false_positive_rate", metrics.false_positives, metrics.true_negatives,
    "The share of what was held to be true among what is false.")
streaming_false_negative_rate = _rate(
    "false_negative_rate", metrics.false_negatives, metrics.true_positives,
    "The share of what was held to be false among what is true.")


def _running_mean(name, values, weights, n, count):
    """A variable of a mean: (what it becomes, what it was, the mean of these
    values, of which there are `n`, with `count` in all)."""
    mean = metric_variable([], dtypes.float32, name=name)
    if weights is not None:
        values = values * weights
    these = math_ops.div_no_nan(math_ops.reduce_sum(values), n)
    change = math_ops.div_no_nan((these - mean) * n, count)
    after = variables.assign_add(mean, change)
    return after - change, these


def streaming_covariance(predictions, labels, weights=None,
                         metrics_collections=None, updates_collections=None,
                         name=None):
    """The covariance of predictions and labels so far, as of a sample; NaN
    until there are two."""
    with variable_scope(name, "covariance", [predictions, labels, weights]):
        predictions, labels, weights = _remove_squeezable_dimensions(
            predictions, labels, weights)
        require_same_shape(predictions, labels)
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            n = _float32(array_ops.size(labels))
        else:
            weights = _weights.broadcast_weights(weights, labels)
            n = math_ops.reduce_sum(weights)
        counted = variables.assign_add(count, n)
        before, mean = _running_mean("mean_prediction", predictions, weights, n,
                                     counted)
        before_label, mean_label = _running_mean("mean_label", labels, weights,
                                                 n, counted)
        comoment = metric_variable([], dtypes.float32, name="comoment")
        products = (predictions - mean) * (labels - mean_label)
        if weights is not None:
            products = products * weights
        more = variables.assign_add(comoment, (
            math_ops.reduce_sum(products) + (before - mean) *
            (before_label - mean_label) * ((counted - n) * n / counted)))

        def of(moment, which):
            return array_ops.where(
                math_ops.less_equal(count, 1.0), float("nan"),
                math_ops.truediv(moment, count - 1), name=which)

        value = of(comoment, "covariance")
        with graphs.control_dependencies([more]):
            update = of(more, "update_op")
        return _collected(value, update, metrics_collections,
                          updates_collections)


def streaming_pearson_correlation(predictions, labels, weights=None,
                                  metrics_collections=None,
                                  updates_collections=None, name=None):
    """The correlation of predictions and labels so far."""
    with variable_scope(name, "pearson_r", [predictions, labels, weights]):
        predictions, labels, weights = _remove_squeezable_dimensions(
            predictions, labels, weights)
        require_same_shape(predictions, labels)
        if weights is not None:
            weights = _weights.broadcast_weights(weights, labels)
        moments = [streaming_covariance(a, b, weights, name=which)
                   for a, b, which in (
                       (predictions, labels, "covariance"),
                       (predictions, predictions, "variance_predictions"),
                       (labels, labels, "variance_labels"))]
        value, update = (
            math_ops.truediv(both, math_ops.sqrt(one) * math_ops.sqrt(other),
                             name=which)
            for (both, one, other), which in zip(
                zip(*moments), ("pearson_r", "update_op")))
        return _collected(value, update, metrics_collections,
                          updates_collections)


def count(values, weights=None, metrics_collections=None,
          updates_collections=None, name=None):
    """How many values there were so far, or the sum of their weights."""
    with variable_scope(name, "count", [values, weights]):
        values = convert_to_tensor(values)
        so_far = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            n = _float32(array_ops.size(values))
        else:
            values, _, weights = _remove_squeezable_dimensions(
                _float32(values), None, weights)
            n = math_ops.reduce_sum(_weights.broadcast_weights(
                _float32(weights), values))
        with graphs.control_dependencies([values]):
            update = variables.assign_add(so_far, n)
        return _collected(array_ops.identity(so_far), update,
                          metrics_collections, updates_collections)


def accuracy(predictions, labels, weights=None, name=None):
    """The share of the predictions that are the labels, in one step."""
    predictions, labels = map(convert_to_tensor, (predictions, labels))
    if not (labels.dtype.is_integer or
            labels.dtype in (dtypes.bool_, dtypes.string)):
        raise ValueError(f"Labels should have bool, integer, or string dtype, "
                         f"not {labels.dtype!r}")
    if not labels.dtype.is_compatible_with(predictions.dtype):
        raise ValueError(f"Dtypes of predictions and labels should match. "
                         f"Given: predictions ({predictions.dtype!r}) and "
                         f"labels ({labels.dtype!r})")
    with graphs.name_scope(name, "accuracy", [predictions, labels]):
        right = _float32(math_ops.equal(predictions, labels))
        if weights is None:
            return math_ops.reduce_mean(right)
        right = right * weights
        return math_ops.div(
            math_ops.reduce_sum(right),
            math_ops.reduce_sum(weights * array_ops.ones_like(right)))


def aggregate_metrics(*value_update_tuples):
    """(the values, the updates) of several metrics: lists."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """(the values, the updates) of several metrics: dicts by their names."""
    values, updates = zip(*names_to_tuples.values())
    return (dict(zip(names_to_tuples, values)),
            dict(zip(names_to_tuples, updates)))
