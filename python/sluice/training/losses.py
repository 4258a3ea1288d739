"""Losses of predictions and labels, collected in LOSSES."""

from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.elements import require_same_shape
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, math_ops, nn
from sluice.ops import weights as _weights

_float32 = _weights.float32


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


def _size(losses):
    return math_ops.cast(array_ops.size(losses), losses.dtype)


def _present(losses, weights, per_batch=False):
    """Returns the number of losses with a nonzero weight."""
    with graphs.name_scope(None, "num_present", [losses, weights]):
        present = _weights.broadcast_weights(
            _float32(math_ops.not_equal(weights, 0.0)), losses)
        if per_batch:
            return math_ops.reduce_sum(
                present, math_ops.range(1, array_ops.rank(present)),
                keepdims=True)
        return math_ops.reduce_sum(present)


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
    Reduction.validate(reduction)
    with graphs.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = convert_to_tensor(losses)
        with graphs.control_dependencies([
                _weights.assert_broadcastable(weights, losses)]):
            dtype = losses.dtype.base_dtype
            losses, weights = _float32(losses), _float32(weights)
            loss = math_ops.multiply(losses, weights)
            if reduction != Reduction.NONE:
                total = math_ops.reduce_sum(loss)
                count = {
                    Reduction.SUM: lambda: None,
                    Reduction.MEAN: lambda: math_ops.reduce_sum(
                        array_ops.ones_like(losses) * weights),
                    Reduction.SUM_OVER_BATCH_SIZE: lambda: _size(losses),
                    _MEAN: lambda: _present(losses, weights)}[reduction]()
                loss = total if count is None else math_ops.div_no_nan(
                    total, count, name="value")
            loss = math_ops.cast(loss, dtype)
            add_loss(loss, loss_collection)
            return loss


def _both(labels, predictions, what="predictions", of="labels"):
    if labels is None:
        raise ValueError(f"{of} must not be None.")
    if predictions is None:
        raise ValueError(f"{what} must not be None.")


def _elementwise(default, doc):
    """Makes a loss of an elementwise function of labels and predictions."""
    def decorate(function):
        def loss(labels, predictions, weights=1.0, scope=None,
                 loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
            _both(labels, predictions)
            with graphs.name_scope(scope, default, [predictions, labels,
                                                    weights]) as scope:
                predictions, labels = _float32(predictions), _float32(labels)
                require_same_shape(predictions, labels)
                return compute_weighted_loss(
                    function(labels, predictions), weights, scope,
                    loss_collection, reduction)
        loss.__doc__, loss.__name__ = doc, function.__name__
        return loss
    return decorate


@_elementwise("absolute_difference", "Weighted |predictions - labels|.")
def absolute_difference(labels, predictions):
    return math_ops.abs(math_ops.subtract(predictions, labels))


@_elementwise("mean_squared_error", "Weighted (predictions - labels)^2.")
def mean_squared_error(labels, predictions):
    return math_ops.squared_difference(predictions, labels)


def cosine_distance(labels, predictions, axis=None, weights=1.0, scope=None,
                    loss_collection=GraphKeys.LOSSES, reduction=_MEAN,
                    dim=None):
    """Computes 1 - labels . predictions of unit vectors along a dimension."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    _both(labels, predictions)
    with graphs.name_scope(scope, "cosine_distance_loss",
                           [predictions, labels, weights]) as scope:
        predictions, labels = _float32(predictions), _float32(labels)
        require_same_shape(predictions, labels)
        losses = 1 - math_ops.reduce_sum(
            math_ops.multiply(predictions, labels), axis, keepdims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)


def hinge_loss(labels, logits, weights=1.0, scope=None,
               loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes max(0, 1 - logits) for label 1, max(0, 1 + logits) for 0."""
    _both(labels, logits, "logits")
    with graphs.name_scope(scope, "hinge_loss",
                           [logits, labels, weights]) as scope:
        logits, labels = _float32(logits), _float32(labels)
        require_same_shape(logits, labels)
        signs = 2.0 * labels - 1.0
        losses = nn.relu(1.0 - signs * logits)
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)


def huber_loss(labels, predictions, weights=1.0, delta=1.0, scope=None,
               loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes half the squared error, which becomes linear above `delta`."""
    _both(labels, predictions)
    with graphs.name_scope(scope, "huber_loss",
                           [predictions, labels, weights]) as scope:
        predictions, labels = _float32(predictions), _float32(labels)
        require_same_shape(predictions, labels)
        error = math_ops.abs(predictions - labels)
        quadratic = math_ops.minimum(error, delta)
        losses = 0.5 * quadratic * quadratic + delta * (error - quadratic)
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)


def log_loss(labels, predictions, weights=1.0, epsilon=1e-7, scope=None,
             loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes the cross-entropy of probabilities, elementwise."""
    _both(labels, predictions)
    with graphs.name_scope(scope, "log_loss",
                           [predictions, labels, weights]) as scope:
        predictions, labels = _float32(predictions), _float32(labels)
        require_same_shape(predictions, labels)
        losses = -labels * math_ops.log(predictions + epsilon) - (
            1 - labels) * math_ops.log(1 - predictions + epsilon)
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)


def mean_pairwise_squared_error(labels, predictions, weights=1.0, scope=None,
                                loss_collection=GraphKeys.LOSSES):
    """Computes the mean squared difference between the errors of elements.

    The mean is over all pairs of elements of an example.
    """
    _both(labels, predictions)
    with graphs.name_scope(scope, "mean_pairwise_squared_error",
                           [predictions, labels, weights]) as scope:
        predictions, labels = _float32(predictions), _float32(labels)
        weights = _float32(weights)
        require_same_shape(predictions, labels)
        with graphs.control_dependencies([
                _weights.assert_broadcastable(weights, labels)]):
            error = predictions - labels
            axes = math_ops.range(1, array_ops.rank(error))
            present = _present(error, weights, per_batch=True)
            others = math_ops.maximum(present - 1, 0)
            squares = math_ops.reduce_sum(math_ops.square(error), axes, True)
            total = math_ops.reduce_sum(error, axes, True)
            losses = 2.0 * math_ops.div_no_nan(
                squares, others) - 2.0 * math_ops.div_no_nan(
                    math_ops.square(total), present * others)
            loss = math_ops.reduce_sum(losses * weights)
            loss = array_ops.where(math_ops.reduce_sum(present) > 0, loss,
                                   array_ops.zeros_like(loss), name="value")
            add_loss(loss, loss_collection)
            return loss


def sigmoid_cross_entropy(multi_class_labels, logits, weights=1.0,
                          label_smoothing=0, scope=None,
                          loss_collection=GraphKeys.LOSSES, reduction=_MEAN):
    """Computes the cross-entropy of sigmoid(logits) and labels, elementwise."""
    _both(multi_class_labels, logits, "logits", "multi_class_labels")
    with graphs.name_scope(scope, "sigmoid_cross_entropy_loss",
                           [logits, multi_class_labels, weights]) as scope:
        logits = convert_to_tensor(logits)
        labels = math_ops.cast(multi_class_labels, logits.dtype)
        require_same_shape(logits, labels)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn.sigmoid_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)


def softmax_cross_entropy(onehot_labels, logits, weights=1.0, label_smoothing=0,
                          scope=None, loss_collection=GraphKeys.LOSSES,
                          reduction=_MEAN):
    """Computes the cross-entropy of softmax(logits) and probabilities."""
    _both(onehot_labels, logits, "logits", "onehot_labels")
    with graphs.name_scope(scope, "softmax_cross_entropy_loss",
                           [logits, onehot_labels, weights]) as scope:
        logits = convert_to_tensor(logits)
        labels = math_ops.cast(onehot_labels, logits.dtype)
        require_same_shape(logits, labels)
        if label_smoothing > 0:
            classes = math_ops.cast(array_ops.shape(labels)[-1], logits.dtype)
            labels = labels * (1.0 - label_smoothing) + (
                label_smoothing / classes)
        labels = array_ops.stop_gradient(labels, name="labels_stop_gradient")
        losses = nn.softmax_cross_entropy_with_logits_v2(
            labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)


def sparse_softmax_cross_entropy(labels, logits, weights=1.0, scope=None,
                                 loss_collection=GraphKeys.LOSSES,
                                 reduction=_MEAN):
    """Computes the cross-entropy of softmax(logits) and class indices."""
    _both(labels, logits, "logits")
    with graphs.name_scope(scope, "sparse_softmax_cross_entropy_loss",
                           [logits, labels, weights]) as scope:
        labels, logits = _weights.remove_squeezable_dimensions(
            labels, logits, expected_rank_diff=1)
        weights = _weights.squeeze_weights(weights, labels)
        losses = nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection,
                                     reduction)
