"""Cumulative distribution functions of the normal and Laplace distributions."""

import math

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, math_ops

# Between these bounds the logarithm is computed directly. Below them a series
# is more accurate, and above them log1p of the complement.
_BOUNDS = {dtypes.float32: (-10.0, 5.0), dtypes.float64: (-20.0, 8.0)}


_ndtri = _core.op("Ndtri")


def _float(x, name):
    x = convert_to_tensor(x, name=name)
    if x.dtype.base_dtype not in _BOUNDS:
        raise TypeError(f"{name}: expected float32 or float64, got "
                        f"{x.dtype.name}")
    return x


def ndtr(x, name="ndtr"):
    """Computes the standard normal cumulative distribution function."""
    with graphs.name_scope(name, values=[x]):
        return _ndtr(_float(x, "x"))


def _ndtr(x):
    w = x * math.sqrt(0.5)
    z = math_ops.abs(w)
    # Far from 0, erfc avoids cancellation.
    tail = math_ops.erfc(z)
    return 0.5 * array_ops.where_v2(
        z < math.sqrt(0.5), 1 + math_ops.erf(w),
        array_ops.where_v2(w > 0, 2 - tail, tail))


def ndtri(p, name="ndtri"):
    """Computes the inverse of `ndtr`."""
    with graphs.name_scope(name, values=[p]):
        p = _float(p, "p")
        # At 0 and 1, where the result is infinite, the gradient is 0.
        ends = math_ops.logical_or(p <= 0, p >= 1)
        inside = array_ops.where_v2(ends, array_ops.fill(
            array_ops.shape(p), math_ops.cast(0.5, p.dtype)), p)
        return array_ops.where_v2(ends, _ndtri(array_ops.stop_gradient(p)),
                                  _ndtri(inside))


def log_ndtr(x, series_order=3, name="log_ndtr"):
    """Computes log(ndtr(x)), accurately even where `ndtr` rounds to 0 or 1.

    The gradient is accurate, too.

    Args:
      series_order: the number of terms of the series for very negative x.
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if not 0 <= series_order <= 30:
        raise ValueError("series_order must be non-negative and at most 30."
                         if series_order > 30 else
                         "series_order must be non-negative.")
    with graphs.name_scope(name, values=[x]):
        x = _float(x, "x")
        lower, upper = _BOUNDS[x.dtype.base_dtype]
        # Avoids an infinite gradient in the branch that is not selected.
        below = math_ops.minimum(x, lower)
        return array_ops.where_v2(
            x > upper, -_ndtr(-x), array_ops.where_v2(
                x > lower, math_ops.log(_ndtr(math_ops.maximum(x, lower))),
                -0.5 * math_ops.square(below) - math_ops.log(-below) -
                0.5 * math.log(2 * math.pi) +
                math_ops.log(_series(below, series_order))))


def _series(x, order):
    """Returns the asymptotic series 1 - 1/x^2 + 3/x^4 - 15/x^6... of `ndtr`.

    It approximates `ndtr` divided by density / -x.
    """
    total, term = array_ops.ones_like(x), array_ops.ones_like(x)
    for n in range(1, order + 1):
        term = term * -(2 * n - 1) / math_ops.square(x)
        total = total + term
    return total


def log_cdf_laplace(x, name="log_cdf_laplace"):
    """Computes the log of the standard Laplace distribution function."""
    with graphs.name_scope(name, values=[x]):
        x = convert_to_tensor(x, name="x")
        below = -math.log(2.0) + x
        # Avoids an overflow of exp in the branch that is not selected.
        above = math_ops.log1p(-0.5 * math_ops.exp(-math_ops.abs(x)))
        return array_ops.where_v2(x < 0, below, above)
