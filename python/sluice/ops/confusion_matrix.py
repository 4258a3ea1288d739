"""Confusion matrices."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, check_ops, math_ops
from sluice.ops import weights as _weights


def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32,
                     name=None, weights=None):
    """Returns the confusion matrix [classes, classes].

    Rows are labels and columns are predictions.
    """
    with graphs.name_scope(name, "confusion_matrix",
                           [predictions, labels, num_classes, weights]):
        labels, predictions = (
            math_ops.cast(x, dtypes.int64)
            for x in _weights.remove_squeezable_dimensions(labels,
                                                           predictions))
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
