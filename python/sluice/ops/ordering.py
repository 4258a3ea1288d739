"""Sorting and searching."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.ops import array_ops

_op = _core.op


def searchsorted(sorted_sequence, values, side="left", out_type=dtypes.int32,
                 name=None):
    """Returns the insertion index of each value in sorted rows."""
    x, v = convert_to_tensor(sorted_sequence), convert_to_tensor(values)
    rows, wanted = array_ops.shape(x), array_ops.shape(v)
    kind = {"left": "LowerBound", "right": "UpperBound"}.get(side)
    if kind is None:
        raise ValueError(f"side must be either 'right' or 'left'.  Saw: "
                         f"{side}.")
    found = _op(kind)(array_ops.reshape(x, [-1, rows[-1]]),
                      array_ops.reshape(v, [-1, wanted[-1]]), out_type=out_type,
                      name=name)
    return array_ops.reshape(found, wanted)


def repeat(input, repeats, axis=None, name=None):
    """Repeats each element or slice `repeats` times."""
    with graphs.name_scope(name, "Repeat", [input, repeats]):
        x = convert_to_tensor(input)
        if axis is None:
            x, axis = array_ops.reshape(x, [-1]), 0
        if x.shape.ndims is None:
            raise ValueError("repeat: expected a known rank for an axis that "
                             "is given")
        axis %= x.shape.ndims
        repeats = convert_to_tensor(repeats, dtypes.int32)
        n = array_ops.shape(x)[axis]
        counts = array_ops.broadcast_to(array_ops.reshape(repeats, [-1]),
                                        array_ops.reshape(n, [1]))
        ends = _op("Cumsum")(counts, 0)
        at = searchsorted(ends, _op("Range")(0, _op("Sum")(counts, [0]), 1),
                          side="right")
        return array_ops.gather(x, at, axis=axis)


def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    """Returns the indices that sort a tensor along a dimension.

    Equal elements keep their order.
    """
    with graphs.name_scope(name, "argsort", [values]):
        return _sorted(values, axis, direction)[1]


def sort(values, axis=-1, direction="ASCENDING", name=None):
    """Sorts a tensor along a dimension."""
    with graphs.name_scope(name, "sort", [values]):
        return _sorted(values, axis, direction)[0]


def _sorted(values, axis, direction):
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of 'ASCENDING' "
                         f"or 'DESCENDING'. Received: {direction}")
    x = convert_to_tensor(values)
    if x.dtype.is_unsigned and direction == "ASCENDING":
        # Negating unsigned numbers does not reverse their order.
        limit = constant(x.dtype.max, x.dtype.base_dtype)
        back = lambda v: limit - v  # noqa: E731
    elif x.dtype.is_integer and direction == "ASCENDING":
        back = lambda v: -1 - v  # noqa: E731
    elif direction == "ASCENDING":
        back = lambda v: -v  # noqa: E731
    else:
        back = lambda v: v  # noqa: E731
    n = x.shape.ndims
    last = axis == -1 or n is not None and axis == n - 1
    if not last:
        if n is None:
            raise ValueError("sort: expected a known rank for an axis that is "
                             "not the last one")
        order = [i for i in range(n) if i != axis % n] + [axis % n]
        x = array_ops.transpose(x, order)
    top, at = _op("TopKV2")(back(x), array_ops.shape(x)[-1])
    top = back(top)
    if last:
        return top, at
    undone = [order.index(i) for i in range(n)]
    return array_ops.transpose(top, undone), array_ops.transpose(at, undone)
