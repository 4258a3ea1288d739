"""`tf.contrib.losses`: losses with predictions as the first argument.

Their weights may lack trailing dimensions.
"""

from sluice.contrib.layers.arg_scope import add_arg_scope
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.elements import require_same_shape
from sluice.ops import array_ops, math_ops
from sluice.training import losses as _losses
from sluice.training.losses import (  # noqa: F401 (Names of this module.)
    get_losses, get_regularization_losses)

add_loss = add_arg_scope(_losses.add_loss)


def _float32(x):
    return math_ops.cast(x, dtypes.float32)


def get_total_loss(add_regularization_losses=True, name="total_loss"):
    """Returns the sum of the graph's losses and regularization losses."""
    return _losses.get_total_loss(add_regularization_losses, name)


def _weights_for(weights, ndims):
    """Adds missing trailing dimensions to weights."""
    if weights is None:
        raise ValueError("`weights` cannot be None")
    weights = _float32(convert_to_tensor(weights))
    if weights.shape.ndims is None:
        raise ValueError("weights.get_shape().ndims cannot be None")
    if ndims is None:
        raise ValueError("losses.get_shape().ndims cannot be None")
    if weights.shape.ndims in (0, ndims):
        return weights
    if weights.shape.ndims > ndims:
        return array_ops.squeeze(weights, [-1])
    shape = array_ops.concat(
        [array_ops.shape(weights),
         array_ops.ones([ndims - weights.shape.ndims], "int32")], 0)
    return array_ops.reshape(weights, shape)


def _added(loss):
    add_loss(loss)  # This applies the arguments of an arg_scope.
    return loss


def compute_weighted_loss(losses, weights=1.0, scope=None):
    """Returns the weighted mean of losses over nonzero weights."""
    with graphs.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = convert_to_tensor(losses)
        return _added(_losses.compute_weighted_loss(
            losses, _weights_for(weights, losses.shape.ndims),
            loss_collection=None))


def absolute_difference(predictions, labels=None, weights=1.0, scope=None):
    """Computes the weighted |predictions - labels|."""
    return _added(_losses.absolute_difference(
        labels, predictions, _weights_for(weights, predictions.shape.ndims),
        scope, None))


def mean_squared_error(predictions, labels=None, weights=1.0, scope=None):
    """Computes the weighted (predictions - labels)^2."""
    return _added(_losses.mean_squared_error(
        labels, predictions, _weights_for(weights, predictions.shape.ndims),
        scope, None))


def log_loss(predictions, labels=None, weights=1.0, epsilon=1e-7, scope=None):
    """Computes the elementwise cross-entropy of probabilities."""
    return _added(_losses.log_loss(
        labels, predictions, _weights_for(weights, predictions.shape.ndims),
        epsilon, scope, None))


def mean_pairwise_squared_error(predictions, labels=None, weights=1.0,
                                scope=None):
    """Computes the mean squared difference between the errors of elements.

    The mean is over all pairs of elements of an example, including pairs of
    an element with itself.
    """
    with graphs.name_scope(scope, "mean_pairwise_squared_error",
                           [predictions, labels, weights]):
        predictions, labels = _float32(predictions), _float32(labels)
        require_same_shape(predictions, labels)
        error = predictions - labels
        weights = _weights_for(weights, error.shape.ndims)
        axes = list(range(1, error.shape.ndims))
        present = _losses._present(error, weights, per_batch=True)
        squares = math_ops.reduce_sum(math_ops.square(error), axes, True)
        total = math_ops.reduce_sum(error, axes, True)
        losses = 2.0 * math_ops.div_no_nan(
            squares, present) - 2.0 * math_ops.div_no_nan(
                math_ops.square(total), math_ops.square(present))
        return _added(math_ops.reduce_sum(losses * weights))


def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0,
                          label_smoothing=0, scope=None):
    """Computes the cross-entropy of sigmoid(logits) and labels, elementwise."""
    return _added(_losses.sigmoid_cross_entropy(
        multi_class_labels, logits, _weights_for(weights, logits.shape.ndims),
        label_smoothing, scope, None))


def softmax_cross_entropy(logits, onehot_labels, weights=1.0,
                          label_smoothing=0, scope=None):
    """Computes the cross-entropy of softmax(logits) and probabilities."""
    return _added(_losses.softmax_cross_entropy(
        onehot_labels, logits, _weights_for(weights, 1), label_smoothing,
        scope, None))


def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    """Computes the cross-entropy of softmax(logits) and class indices."""
    labels = array_ops.reshape(labels, [array_ops.shape(labels)[0]])
    return _added(_losses.sparse_softmax_cross_entropy(
        labels, logits, _weights_for(weights, 1), scope, None))


def hinge_loss(logits, labels=None, scope=None):
    """Computes max(0, 1 - logits) for label 1, max(0, 1 + logits) for 0.

    The result is elementwise, and is not added to the collection.
    """
    return _losses.hinge_loss(labels, logits, 1.0, scope, None,
                              _losses.Reduction.NONE)


def cosine_distance(predictions, labels=None, axis=None, weights=1.0,
                    scope=None, dim=None):
    """Computes 1 - labels . predictions of unit vectors along a dimension."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    with graphs.name_scope(scope, "cosine_distance_loss",
                           [predictions, labels, weights]) as scope:
        predictions, labels = _float32(predictions), _float32(labels)
        require_same_shape(predictions, labels)
        distances = 1 - math_ops.reduce_sum(predictions * labels, [axis])
        return compute_weighted_loss(distances, weights, scope)
