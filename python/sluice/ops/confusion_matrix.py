"""Confusion matrices."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, check_ops, control_flow, math_ops


def _may_squeeze(x):
    """Returns whether the last dimension may have size 1."""
    return x.shape.ndims is None or (x.shape.ndims > 0 and
                                     x.shape.as_list()[-1] in (1, None))


def remove_squeezable_dimensions(labels, predictions, expected_rank_diff=0):
    """Removes the last dimension of size 1 if the ranks require it.

    Returns:
      (labels, predictions), of which at most one is squeezed.
    """
    predictions = convert_to_tensor(predictions)
    labels = convert_to_tensor(labels)
    n, m = predictions.shape.ndims, labels.shape.ndims
    if None not in (n, m):
        diff = n - m
        if diff == expected_rank_diff + 1:
            predictions = array_ops.squeeze(predictions, [-1])
        elif diff == expected_rank_diff - 1:
            labels = array_ops.squeeze(labels, [-1])
        return labels, predictions
    diff = array_ops.rank(predictions) - array_ops.rank(labels)
    squeezed = []
    for x, at in ((labels, -1), (predictions, 1)):
        if _may_squeeze(x):
            x = control_flow.cond(
                math_ops.equal(expected_rank_diff + at, diff),
                lambda x=x: array_ops.squeeze(x, [-1]), lambda x=x: x)
        squeezed.append(x)
    return tuple(squeezed)


def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32,
                     name=None, weights=None):
    """Returns the confusion matrix [classes, classes].

    Rows are labels and columns are predictions.
    """
    with graphs.name_scope(name, "confusion_matrix",
                           [predictions, labels, num_classes, weights]):
        labels, predictions = (
            math_ops.cast(x, dtypes.int64)
            for x in remove_squeezable_dimensions(labels, predictions))
        checks = [check_ops.assert_non_negative(
            x, message=f"`{what}` contains negative values")
                  for x, what in ((labels, "labels"),
                                  (predictions, "predictions"))]
        if num_classes is None:
            num_classes = math_ops.maximum(
                math_ops.reduce_max(predictions),
                math_ops.reduce_max(labels)) + 1
        else:
            num_classes = math_ops.cast(num_classes, dtypes.int64)
            checks += [check_ops.assert_less(x, num_classes,
                                             message=f"`{what}` out of bound")
                       for x, what in ((labels, "labels"),
                                       (predictions, "predictions"))]
        with graphs.control_dependencies(checks):
            at = array_ops.stack([labels, predictions], axis=1)
        if weights is None:
            values = array_ops.ones_like(predictions, dtype)
        else:
            weights = convert_to_tensor(weights, name="weights")
            predictions.shape.assert_is_compatible_with(weights.shape)
            values = math_ops.cast(weights, dtype)
        return array_ops.scatter_nd(
            at, values, array_ops.stack([num_classes, num_classes]))
