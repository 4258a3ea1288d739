"""`tf.contrib.metrics`: metrics with predictions as the first argument."""

import functools
import inspect

from sluice.contrib.metrics import metrics, metrics_at_k
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import math_ops


def _predictions_first(metric, name=None):
    """Swaps the first two arguments of a metric."""
    labels, predictions, *others = inspect.signature(
        metric).parameters.values()

    @functools.wraps(metric)
    def streaming(predictions, labels, *args, **kwargs):
        return metric(labels, predictions, *args, **kwargs)

    streaming.__name__ = streaming.__qualname__ = "streaming_" + (
        name or metric.__name__)
    streaming.__doc__ = (f"Calls `tf.metrics.{metric.__name__}`; predictions "
                         f"come first.")
    streaming.__signature__ = inspect.Signature(
        [predictions, labels, *others])
    return streaming


streaming_accuracy = _predictions_first(metrics.accuracy)
streaming_auc = _predictions_first(metrics.auc)
streaming_false_negatives = _predictions_first(metrics.false_negatives)
streaming_false_positives = _predictions_first(metrics.false_positives)
streaming_mean_absolute_error = _predictions_first(
    metrics.mean_absolute_error)
streaming_mean_cosine_distance = _predictions_first(
    metrics.mean_cosine_distance)
streaming_mean_iou = _predictions_first(metrics.mean_iou)
streaming_mean_relative_error = _predictions_first(
    metrics.mean_relative_error)
streaming_mean_squared_error = _predictions_first(metrics.mean_squared_error)
streaming_precision = _predictions_first(metrics.precision)
streaming_precision_at_thresholds = _predictions_first(
    metrics.precision_at_thresholds)
streaming_recall = _predictions_first(metrics.recall)
streaming_recall_at_thresholds = _predictions_first(
    metrics.recall_at_thresholds)
streaming_root_mean_squared_error = _predictions_first(
    metrics.root_mean_squared_error)
streaming_sensitivity_at_specificity = _predictions_first(
    metrics.sensitivity_at_specificity)
streaming_specificity_at_sensitivity = _predictions_first(
    metrics.specificity_at_sensitivity)
streaming_true_negatives = _predictions_first(metrics.true_negatives)
streaming_true_positives = _predictions_first(metrics.true_positives)
streaming_false_negatives_at_thresholds = _predictions_first(
    metrics.false_negatives_at_thresholds)
streaming_false_positives_at_thresholds = _predictions_first(
    metrics.false_positives_at_thresholds)
streaming_true_negatives_at_thresholds = _predictions_first(
    metrics.true_negatives_at_thresholds)
streaming_true_positives_at_thresholds = _predictions_first(
    metrics.true_positives_at_thresholds)
streaming_sparse_precision_at_k = _predictions_first(
    metrics_at_k.precision_at_k, "sparse_precision_at_k")
streaming_sparse_recall_at_k = _predictions_first(
    metrics_at_k.recall_at_k, "sparse_recall_at_k")
streaming_sparse_average_precision_at_k = _predictions_first(
    metrics_at_k.average_precision_at_k, "sparse_average_precision_at_k")


def accuracy(predictions, labels, weights=None, name=None):
    """Returns the fraction of correct predictions in this step."""
    with graphs.name_scope(name, "accuracy", [predictions, labels]):
        predictions = convert_to_tensor(predictions)
        labels = convert_to_tensor(labels)
        if labels.dtype != predictions.dtype:
            raise ValueError(f"Cannot compute accuracy with different dtypes: "
                             f"{labels.dtype.name} and "
                             f"{predictions.dtype.name}")
        right = math_ops.cast(math_ops.equal(predictions, labels), "float32")
        if weights is None:
            return math_ops.reduce_mean(right)
        weights = math_ops.cast(weights, "float32")
        return math_ops.truediv(math_ops.reduce_sum(right * weights),
                                math_ops.reduce_sum(
                                    weights + 0 * right))


def aggregate_metrics(*value_update_tuples):
    """Converts (value, update) pairs to (values, updates)."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """Converts {name: (value, update)} to ({name: value}, {name: update})."""
    values, updates = zip(*names_to_tuples.values())
    return (dict(zip(names_to_tuples, values)),
            dict(zip(names_to_tuples, updates)))
