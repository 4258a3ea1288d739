"""Weights of values in losses and metrics."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, control_flow, math_ops


def assert_broadcastable(weights, values):
    """Returns an operation that checks that weights broadcast to values.

    The weights must be a scalar, or have the rank of the values with
    dimensions of size 1 or of the values' sizes.

    Raises:
      ValueError: if the static shapes do not broadcast.
    """
    with graphs.name_scope(None, "assert_broadcastable", [weights, values]):
        weights = convert_to_tensor(weights, name="weights")
        values = convert_to_tensor(values, name="values")
        n, m = weights.shape.ndims, values.shape.ndims
        wrong = (f"weights can not be broadcast to values. values.shape="
                 f"{values.shape}. weights.shape={weights.shape}.")
        if n == 0:
            return control_flow.no_op(name="static_scalar_check_success")
        if None not in (n, m):
            if n != m:
                raise ValueError(f"{wrong} values.rank={m}. weights.rank={n}.")
            sizes = list(zip(weights.shape.as_list(), values.shape.as_list()))
            if any(None not in (a, b) and a not in (1, b) for a, b in sizes):
                raise ValueError(wrong)
            if all(a == 1 or None not in (a, b) for a, b in sizes):
                return control_flow.no_op(name="static_dims_check_success")
        dims, whole = array_ops.shape(weights), array_ops.shape(values)

        def fits():
            return math_ops.reduce_all(math_ops.logical_or(
                math_ops.equal(dims, 1), math_ops.equal(dims, whole)))

        rank = array_ops.rank(weights)
        valid = control_flow.cond(
            math_ops.equal(rank, array_ops.rank(values)), fits,
            lambda: math_ops.equal(rank, 0))
        return control_flow.Assert(valid, [
            "weights can not be broadcast to values.", "weights.shape=",
            weights.name, dims, "values.shape=", values.name, whole])


def broadcast_weights(weights, values):
    """Broadcasts weights to the shape of values."""
    with graphs.name_scope(None, "broadcast_weights", [weights, values]):
        values = convert_to_tensor(values, name="values")
        weights = convert_to_tensor(weights, values.dtype.base_dtype,
                                    name="weights")
        if weights.shape.is_fully_defined() and (
                values.shape.is_fully_defined() and
                weights.shape.as_list() == values.shape.as_list()):
            return weights
        with graphs.control_dependencies([assert_broadcastable(weights,
                                                               values)]):
            return math_ops.multiply(weights, array_ops.ones_like(values))


def may_squeeze(x):
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
        if may_squeeze(x):
            x = control_flow.cond(
                math_ops.equal(expected_rank_diff + at, diff),
                lambda x=x: array_ops.squeeze(x, [-1]), lambda x=x: x)
        squeezed.append(x)
    return tuple(squeezed)


def squeeze_weights(weights, labels):
    """Removes a last dimension of size 1 that the labels do not have."""
    weights = convert_to_tensor(weights)
    n, m = weights.shape.ndims, labels.shape.ndims
    if None not in (n, m):
        return array_ops.squeeze(weights, [-1]) if n - m == 1 else weights
    if not may_squeeze(weights):
        return weights
    return control_flow.cond(
        math_ops.equal(array_ops.rank(weights) - array_ops.rank(labels), 1),
        lambda: array_ops.squeeze(weights, [-1]), lambda: weights)


def float32(x):
    """Casts to float32."""
    return math_ops.cast(x, dtypes.float32)
