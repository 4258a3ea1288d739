"""Metrics of the top k predictions, where several labels may be correct.

Labels are [..., number of labels] or [...] (one label each), dense or sparse.
Labels that are not a class are counted, too.
"""

from sluice.contrib.metrics.metrics import _collected, metric_variable
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import (
    SparseTensor, convert_to_tensor, convert_to_tensor_or_sparse_tensor)
from sluice.ops import (
    array_ops, control_flow, math_ops, nn, sparse_ops, variables,
    weights as _weights)
from sluice.ops.variable_scope import variable_scope


def _name(what, k, class_id=None):
    name = what if k is None else f"{what}_at_{k}"
    return name if class_id is None else f"{name}_class{class_id}"


def _expanded(labels, predictions):
    """Gives labels of unknown rank the rank of the predictions."""
    sparse = isinstance(labels, SparseTensor)
    shape = labels.dense_shape if sparse else array_ops.shape(labels)
    shape = control_flow.cond(
        math_ops.equal(array_ops.size(shape), array_ops.rank(predictions) - 1),
        lambda: array_ops.concat([shape, array_ops.ones([1], shape.dtype)], 0),
        lambda: shape)
    return (sparse_ops.sparse_reshape if sparse else array_ops.reshape)(
        labels, shape)


def _lists(labels, predictions):
    """Adds a last dimension for several labels if it is missing."""
    labels = convert_to_tensor_or_sparse_tensor(labels)
    n, m = labels.shape.ndims, predictions.shape.ndims
    if n is None or m is None:
        labels = _expanded(labels, predictions)
    elif n == m - 1:
        expand = (sparse_ops.sparse_expand_dims
                  if isinstance(labels, SparseTensor) else
                  array_ops.expand_dims)
        labels = expand(labels, -1)
    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices,
                            math_ops.cast(labels.values, dtypes.int64),
                            labels.dense_shape)
    return math_ops.cast(labels, dtypes.int64)


def _of_class(ids, class_id):
    """Returns the ids of a class, or all ids if it is None."""
    if class_id is None:
        return ids
    if isinstance(ids, SparseTensor):
        return sparse_ops.sparse_retain(ids,
                                        math_ops.equal(ids.values, class_id))
    shape = array_ops.concat([array_ops.shape(ids)[:-1], [1]], 0)
    return sparse_ops.set_intersection(
        array_ops.fill(shape, convert_to_tensor(class_id, dtypes.int64)), ids)


def _total(name, ids, weights):
    """Returns (the number of ids so far, the updated number)."""
    with graphs.name_scope(name) as scope:
        count = math_ops.cast(sparse_ops.set_size(ids), dtypes.float64)
        if weights is not None:
            weights = math_ops.cast(weights, dtypes.float64)
            with graphs.control_dependencies([
                    _weights.assert_broadcastable(weights, count)]):
                count = math_ops.multiply(count, weights)
        total = metric_variable([], dtypes.float64, name=scope)
        return total, variables.assign_add(total, math_ops.reduce_sum(count),
                                           name="update")


def _share(what, others, a_minus_b, doc):
    """Makes the metric true positives / (true positives + others)."""
    def metric(labels, predictions_idx, k=None, class_id=None, weights=None,
               metrics_collections=None, updates_collections=None, name=None):
        default = _name(what, k, class_id)
        with graphs.name_scope(name, default, [predictions_idx, labels,
                                               weights]) as scope:
            best = math_ops.cast(convert_to_tensor(predictions_idx),
                                 dtypes.int64)
            labels = _of_class(_lists(labels, best), class_id)
            best = _of_class(best, class_id)
            right, more_right = _total(
                _name("true_positive", k, class_id),
                sparse_ops.set_intersection(best, labels), weights)
            wrong, more_wrong = _total(
                _name(others, k, class_id),
                sparse_ops.set_difference(best, labels, a_minus_b), weights)
            return _collected(
                math_ops.truediv(right, right + wrong, name=scope),
                math_ops.truediv(more_right, more_right + more_wrong,
                                 name="update"),
                metrics_collections, updates_collections)
    metric.__name__, metric.__doc__ = f"{what}_at_top_k", doc
    return metric


precision_at_top_k = _share(
    "precision", "false_positive", True,
    "Computes the fraction of given top k classes that are labels.")
recall_at_top_k = _share(
    "recall", "false_negative", False,
    "Computes the fraction of labels that are among given top k classes.")


def _best(predictions, k):
    return nn.top_k(convert_to_tensor(predictions), k)[1]


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
    with graphs.name_scope(name, _name("precision", k, class_id),
                           [predictions, labels, weights]) as scope:
        return precision_at_top_k(labels, _best(predictions, k), k, class_id,
                                  weights, metrics_collections,
                                  updates_collections, scope)


def recall_at_k(labels, predictions, k, class_id=None, weights=None,
                metrics_collections=None, updates_collections=None, name=None):
    """Computes the fraction of labels that are in the top k predictions.

    See `precision_at_k`.
    """
    with graphs.name_scope(name, _name("recall", k, class_id),
                           [predictions, labels, weights]) as scope:
        return recall_at_top_k(labels, _best(predictions, k), k, class_id,
                               weights, metrics_collections,
                               updates_collections, scope)


def sparse_precision_at_k(labels, predictions, k, class_id=None, weights=None,
                          metrics_collections=None, updates_collections=None,
                          name=None):
    """Calls `precision_at_k`."""
    return precision_at_k(labels, predictions, k, class_id, weights,
                          metrics_collections, updates_collections, name)


def _average_precision(labels, best):
    """Computes the mean over labels of the precision at the label's rank.

    Labels beyond rank k count as 0.
    """
    if isinstance(labels, SparseTensor):
        relevant = sparse_ops.set_size(labels)
        # -1 is not a class.
        labels = sparse_ops.sparse_to_dense(
            labels, convert_to_tensor(-1, dtypes.int64), validate_indices=False)
    else:
        shape = array_ops.shape(labels)
        relevant = array_ops.fill(shape[:-1], shape[-1])
    k = array_ops.shape(best)[-1]
    found = math_ops.cast(math_ops.reduce_any(math_ops.equal(
        array_ops.expand_dims(best, -1), array_ops.expand_dims(labels, -2)),
        -1), dtypes.float64)
    places = math_ops.cast(math_ops.range(1, k + 1), dtypes.float64)
    precisions = math_ops.cumsum(found, -1) / places
    return math_ops.truediv(
        math_ops.reduce_sum(precisions * found, -1),
        math_ops.cast(math_ops.minimum(relevant, k), dtypes.float64))


def average_precision_at_k(labels, predictions, k, weights=None,
                           metrics_collections=None, updates_collections=None,
                           name=None):
    """Computes the mean over examples of the average precision at k.

    See `precision_at_k`.
    """
    with variable_scope(name, _name("average_precision", k),
                        [predictions, labels, weights]):
        return _average_of_best(labels, _best(predictions, k), weights,
                                metrics_collections, updates_collections)


def _streaming_sparse_average_precision_at_top_k(
        labels, predictions_idx, weights=None, metrics_collections=None,
        updates_collections=None, name=None):
    """Computes `average_precision_at_k` of given top k predictions."""
    with variable_scope(name, "average_precision_at_top_k",
                        [predictions_idx, labels, weights]):
        predictions_idx = convert_to_tensor(predictions_idx)
        if predictions_idx.shape.with_rank_at_least(1).as_list()[-1] is None:
            raise ValueError("The last dimension of predictions_idx must be "
                             "known")
        return _average_of_best(labels, predictions_idx, weights,
                                metrics_collections, updates_collections)


def _average_of_best(labels, best, weights, metrics_collections,
                     updates_collections):
    best = math_ops.cast(best, dtypes.int64)
    average = _average_precision(_lists(labels, best), best)
    if weights is None:
        n = math_ops.cast(array_ops.size(average), dtypes.float64)
    else:
        weights = _weights.broadcast_weights(
            math_ops.cast(weights, dtypes.float64), average)
        average = math_ops.multiply(average, weights)
        n = math_ops.reduce_sum(weights)
    max_total = metric_variable([], dtypes.float64, name="max")
    total = metric_variable([], dtypes.float64, name="total")
    more = variables.assign_add(total, math_ops.reduce_sum(average))
    counted = variables.assign_add(max_total, n)
    return _collected(math_ops.div_no_nan(total, max_total, name="mean"),
                      math_ops.div_no_nan(more, counted, name="update"),
                      metrics_collections, updates_collections)


def sparse_average_precision_at_k(labels, predictions, k, weights=None,
                                  metrics_collections=None,
                                  updates_collections=None, name=None):
    """Calls `average_precision_at_k`."""
    return average_precision_at_k(labels, predictions, k, weights,
                                  metrics_collections, updates_collections,
                                  name)
