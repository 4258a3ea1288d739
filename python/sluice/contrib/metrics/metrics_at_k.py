"""Metrics of the top k predictions, where several labels may be correct.

Labels are [..., number of labels] or [...] (one label each), dense or sparse.
Labels that are not a class are counted, too.
"""

from sluice import _core
from sluice.contrib.metrics.metrics import _collected, _sums
from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    SparseTensor, convert_to_tensor, convert_to_tensor_or_sparse_tensor)


def _build(function, what, labels, predictions, k, given, class_id, weights,
           metrics_collections, updates_collections, name):
    """Calls a metric of the library in a name scope, and collects it.

    `given`: the predictions are classes, not scores.
    """
    default = what if k is None else f"{what}_at_{k}"
    if class_id is not None:
        default += f"_class{class_id}"
    with graphs.name_scope(name, default, [predictions, labels,
                                           weights]) as scope:
        labels = convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, SparseTensor):
            labels = [labels.indices, labels.values, labels.dense_shape]
        call = _core.MetricCall(scope, 1.0 if weights is None else weights,
                                _sums)
        value, update = function(call, labels, predictions, k or 0, given,
                                 class_id)
    return _collected(value, update, metrics_collections, updates_collections)


def precision_at_top_k(labels, predictions_idx, k=None, class_id=None,
                       weights=None, metrics_collections=None,
                       updates_collections=None, name=None):
    """Computes the fraction of given top k classes that are labels."""
    return _build(_core.metric_precision_at_k, "precision", labels,
                  predictions_idx, k, True, class_id, weights,
                  metrics_collections, updates_collections, name)


def recall_at_top_k(labels, predictions_idx, k=None, class_id=None,
                    weights=None, metrics_collections=None,
                    updates_collections=None, name=None):
    """Computes the fraction of labels that are among given top k classes."""
    return _build(_core.metric_recall_at_k, "recall", labels, predictions_idx,
                  k, True, class_id, weights, metrics_collections,
                  updates_collections, name)


def precision_at_k(labels, predictions, k, class_id=None, weights=None,
                   metrics_collections=None, updates_collections=None,
                   name=None):
    """Computes the fraction of the top k predictions that are labels.

    Args:
      labels: the correct classes.
      predictions: a score per class, [..., classes].
      k: the number of predictions.
      class_id: the only class to count, or None for all.
      weights: the weights of the predictions, or None.
    """
    return _build(_core.metric_precision_at_k, "precision", labels, predictions,
                  k, False, class_id, weights, metrics_collections,
                  updates_collections, name)


def recall_at_k(labels, predictions, k, class_id=None, weights=None,
                metrics_collections=None, updates_collections=None, name=None):
    """Computes the fraction of labels that are in the top k predictions.

    See `precision_at_k`.
    """
    return _build(_core.metric_recall_at_k, "recall", labels, predictions, k,
                  False, class_id, weights, metrics_collections,
                  updates_collections, name)


def sparse_precision_at_k(labels, predictions, k, class_id=None, weights=None,
                          metrics_collections=None, updates_collections=None,
                          name=None):
    """Calls `precision_at_k`."""
    return precision_at_k(labels, predictions, k, class_id, weights,
                          metrics_collections, updates_collections, name)


def average_precision_at_k(labels, predictions, k, weights=None,
                           metrics_collections=None, updates_collections=None,
                           name=None):
    """Computes the mean over examples of the average precision at k.

    See `precision_at_k`.
    """
    return _build(_core.metric_average_precision_at_k, "average_precision",
                  labels, predictions, k, False, None, weights,
                  metrics_collections, updates_collections, name)


def _streaming_sparse_average_precision_at_top_k(
        labels, predictions_idx, weights=None, metrics_collections=None,
        updates_collections=None, name=None):
    """Computes `average_precision_at_k` of given top k predictions."""
    predictions_idx = convert_to_tensor(predictions_idx)
    if predictions_idx.shape.with_rank_at_least(1).as_list()[-1] is None:
        raise ValueError("The last dimension of predictions_idx must be known")
    return _build(_core.metric_average_precision_at_k,
                  "average_precision_at_top_k", labels, predictions_idx, None,
                  True, None, weights, metrics_collections,
                  updates_collections, name)


def sparse_average_precision_at_k(labels, predictions, k, weights=None,
                                  metrics_collections=None,
                                  updates_collections=None, name=None):
    """Calls `average_precision_at_k`."""
    return average_precision_at_k(labels, predictions, k, weights,
                                  metrics_collections, updates_collections,
                                  name)
