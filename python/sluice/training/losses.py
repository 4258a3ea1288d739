"""Losses of predictions and labels, collected in LOSSES.

The library builds them; this module has their arguments, scopes and collections.
"""

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops import math_ops


class Reduction:
    """Methods of reducing the losses of all elements to a number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls):
        """Returns all methods."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE,
                cls.SUM_OVER_NONZERO_WEIGHTS, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key):
        """Raises ValueError unless `key` is a method."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}. Key should be one "
                             f"of {cls.all()}.")


_MEAN = Reduction.SUM_BY_NONZERO_WEIGHTS


def add_loss(loss, loss_collection=GraphKeys.LOSSES):
    """Adds a loss to the graph's collection of losses."""
    if loss_collection:
        graphs.add_to_collection(loss_collection, loss)


def get_losses(scope=None, loss_collection=GraphKeys.LOSSES):
    """Returns the losses of the graph."""
    return graphs.get_collection(loss_collection, scope)


def get_regularization_losses(scope=None):
    """Returns the losses of the graph's regularizers."""
    return graphs.get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope=None, name="total_regularization_loss"):
    """Returns the sum of the losses of the graph's regularizers."""
    losses = get_regularization_losses(scope)
    if losses:
        return math_ops.add_n(losses, name=name)
    return convert_to_tensor(0.0)


def get_total_loss(add_regularization_losses=True, name="total_loss",
                   scope=None):
    """Returns the sum of the graph's losses, including regularizers."""
    losses = get_losses(scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope)
    return math_ops.add_n(losses, name=name)


def _build(function, default, inputs, weights, scope, loss_collection,
           reduction, *setting):
    """Calls a loss of the library in its name scope, and collects it.

    `inputs` are (labels, predictions), which must not be None, by name.
    """
    Reduction.validate(reduction)
    for name, value in inputs.items():
        if value is None:
            raise ValueError(f"{name} must not be None.")
    values = list(inputs.values())
    with graphs.name_scope(scope, default, [*values[::-1], weights]) as scope:
        loss = function(scope, *values, weights, reduction, *setting)
        add_loss(loss, loss_collection)
        return loss


def compute_weighted_loss(losses, weights=1.0, scope=None,
                          loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Multiplies losses by weights and reduces them to a number.

    Args:
      losses: the loss of each element.
      weights: a number, or a tensor with the rank of the losses and sizes that
        are 1 or equal to theirs.
      scope: the name scope.
      loss_collection: the collection for the result, or None.
      reduction: a `Reduction`; defaults to the sum divided by the number of
        nonzero weights.
    """
    return _build(_core.weighted_loss, "weighted_loss", {"losses": losses},
                  weights, scope, loss_collection, reduction)


def absolute_difference(labels, predictions, weights=1.0, scope=None,
                        loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Weighted |predictions - labels|."""
    return _build(_core.absolute_difference, "absolute_difference",
                  {"labels": labels, "predictions": predictions}, weights,
                  scope, loss_collection, reduction, 0.0)


def mean_squared_error(labels, predictions, weights=1.0, scope=None,
                       loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Weighted (predictions - labels)^2."""
    return _build(_core.mean_squared_error, "mean_squared_error",
                  {"labels": labels, "predictions": predictions}, weights,
                  scope, loss_collection, reduction, 0.0)


def cosine_distance(labels, predictions, axis=None, weights=1.0, scope=None,
                    loss_collection=GraphKeys.LOSSES, reduction=_MEAN,
                    dim=None):
    """Computes 1 - labels . predictions of unit vectors along a dimension."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    return _build(_core.cosine_distance, "cosine_distance_loss",
                  {"labels": labels, "predictions": predictions}, weights,
                  scope, loss_collection, reduction, axis)


def hinge_loss(labels, logits, weights=1.0, scope=None,
               loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes max(0, 1 - logits) for label 1, max(0, 1 + logits) for 0."""
    return _build(_core.hinge_loss, "hinge_loss",
                  {"labels": labels, "logits": logits}, weights, scope,
                  loss_collection, reduction, 0.0)


def huber_loss(labels, predictions, weights=1.0, delta=1.0, scope=None,
               loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes half the squared error, which becomes linear above `delta`."""
    return _build(_core.huber_loss, "huber_loss",
                  {"labels": labels, "predictions": predictions}, weights,
                  scope, loss_collection, reduction, delta)


def log_loss(labels, predictions, weights=1.0, epsilon=1e-7, scope=None,
             loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes the cross-entropy of probabilities, elementwise."""
    return _build(_core.log_loss, "log_loss",
                  {"labels": labels, "predictions": predictions}, weights,
                  scope, loss_collection, reduction, epsilon)


def mean_pairwise_squared_error(labels, predictions, weights=1.0, scope=None,
                                loss_collection=GraphKeys.LOSSES):
    """Computes the mean squared difference between the errors of elements.

    The mean is over all pairs of elements of an example.
    """
    return _build(_core.mean_pairwise_squared_error,
                  "mean_pairwise_squared_error",
                  {"labels": labels, "predictions": predictions}, weights,
                  scope, loss_collection, _MEAN, 0.0)


def sigmoid_cross_entropy(multi_class_labels, logits, weights=1.0,
                          label_smoothing=0, scope=None,
                          loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes the cross-entropy of sigmoid(logits) and labels, elementwise."""
    return _build(_core.sigmoid_cross_entropy, "sigmoid_cross_entropy_loss",
                  {"multi_class_labels": multi_class_labels, "logits": logits},
                  weights, scope, loss_collection, reduction, label_smoothing)


def softmax_cross_entropy(onehot_labels, logits, weights=1.0, label_smoothing=0,
                          scope=None, loss_collection=GraphKeys.LOSSES,
                          reduction=_MEAN):
    """Computes the cross-entropy of softmax(logits) and probabilities."""
    return _build(_core.softmax_cross_entropy, "softmax_cross_entropy_loss",
                  {"onehot_labels": onehot_labels, "logits": logits}, weights,
                  scope, loss_collection, reduction, label_smoothing)


def sparse_softmax_cross_entropy(labels, logits, weights=1.0, scope=None,
                                 loss_collection=GraphKeys.LOSSES,
                                 reduction=_MEAN):
    """Computes the cross-entropy of softmax(logits) and class indices."""
    return _build(_core.sparse_softmax_cross_entropy,
                  "sparse_softmax_cross_entropy_loss",
                  {"labels": labels, "logits": logits}, weights, scope,
                  loss_collection, reduction, 0.0)
