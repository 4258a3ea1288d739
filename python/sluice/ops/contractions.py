"""Tensor contractions: tensordot and einsum."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.ops import math_ops

_op = _core.op


def _dot_axes(axes, a):
    """Returns the axes of `a` and of `b` for `tensordot`."""
    if isinstance(axes, _core.Tensor):
        return axes[0], axes[1]
    if isinstance(axes, int):
        if axes < 0:
            raise ValueError("'axes' must be at least 0.")
        n, first = a.shape.ndims, list(range(axes))
        if n is not None:
            if axes > n:
                raise ValueError(f"'axes' must not be larger than the number "
                                 f"of dimensions of tensor {a}.")
            return list(range(n - axes, n)), first
        n = _op("Rank")(a)
        return math_ops.range(n - axes, n), first
    if len(axes) != 2:
        raise ValueError("'axes' must be an integer or have length 2.")
    over_a, over_b = ([x] if isinstance(x, int) else x for x in axes)
    if isinstance(over_a, _core.Tensor) or isinstance(over_b, _core.Tensor):
        return convert_to_tensor(over_a), convert_to_tensor(over_b)
    if len(over_a) != len(over_b):
        raise ValueError(f"Different number of contraction axes 'a' and 'b', "
                         f"{len(over_a)} != {len(over_b)}.")
    return list(over_a), list(over_b)


def _known_axes(x, over):
    """Normalizes axes to be non-negative, if they and the rank are known."""
    n = x.shape.ndims
    if n is None or not isinstance(over, list):
        return over
    if not all(-n <= i < n for i in over):
        raise IndexError(f"'axes': expected values in [{-n}, {n}), got {over}")
    return [i % n for i in over]


def _as_matrix(x, over, over_first):
    """Returns (x as a matrix of `over` and the other axes, sizes of these)."""
    sizes, gather = _op("Shape")(x), _op("GatherV2")
    if isinstance(over, list) and x.shape.ndims is not None:
        free = constant([i for i in range(x.shape.ndims)
                         if i not in over], dtypes.int32)
        over = constant(over, dtypes.int32)
    else:
        n = _op("Rank")(x)
        over = convert_to_tensor(over, dtypes.int32)
        over = _op("SelectV2")(over < 0, over + n, over)
        free = _op("ListDiff")(math_ops.range(n), over).out
    halves = (over, free) if over_first else (free, over)
    flat = _op("Reshape")(
        _op("Transpose", "transpose")(x, _op("ConcatV2")(halves, 0)),
        _op("ConcatV2")([math_ops.reduce_prod(gather(sizes, half, 0),
                                              keepdims=True)
                         for half in halves], 0))
    return flat, gather(sizes, free, 0)


def tensordot(a, b, axes, name=None):
    """Sums products over axes of both tensors.

    `axes` is a list of two lists of axes, or the number of last axes of `a`
    and first axes of `b`.
    """
    with graphs.name_scope(name, "Tensordot", [a, b]) as scope:
        a, b = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
        over_a, over_b = _dot_axes(axes, a)
        over_a, over_b = _known_axes(a, over_a), _known_axes(b, over_b)
        if isinstance(over_a, list) and None not in (a.shape.ndims,
                                                     b.shape.ndims):
            for i, j in zip(over_a, over_b):
                a.shape[i].assert_is_compatible_with(b.shape[j])
        flat_a, free_a = _as_matrix(a, over_a, False)
        flat_b, free_b = _as_matrix(b, over_b, True)
        return _op("Reshape")(_op("MatMul")(flat_a, flat_b),
                              _op("ConcatV2")([free_a, free_b], 0), name=scope)


def einsum(equation, *inputs, **kwargs):
    """Evaluates a sum of products such as "ij,jk->ik"."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"invalid keyword arguments for this function: "
                        f"{', '.join(sorted(kwargs))}")
    equation = equation.replace(" ", "")
    if "->" not in equation:
        # The result has the labels that occur once, in alphabetical order.
        letters = equation.replace(",", "")
        dots = "..." if "..." in letters else ""
        letters = letters.replace(".", "")
        equation += "->" + dots + "".join(sorted(
            c for c in set(letters) if letters.count(c) == 1))
    if len(inputs) > 2:
        return _einsum_of_many(equation, list(inputs), name)
    return _op("Einsum", "einsum")(list(inputs), equation=equation, name=name)


def _einsum_of_many(equation, inputs, name):
    """Contracts the inputs pairwise; sums each index as early as possible."""
    labels, result = equation.split("->")
    labels = labels.split(",")
    if len(labels) != len(inputs):
        raise ValueError(f"equation: expected {len(labels)} inputs, got "
                         f"{len(inputs)}")
    first, joined = inputs[0], labels[0]
    for i in range(1, len(inputs)):
        needed = set(result).union(*labels[i + 1:])
        kept = "".join(dict.fromkeys(
            c for c in joined + labels[i] if c in needed))
        last = i == len(inputs) - 1
        first = einsum(f"{joined},{labels[i]}->{result if last else kept}",
                       first, inputs[i], name=name if last else None)
        joined = kept
    return first
