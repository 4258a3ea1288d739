"""Comparison of gradients of functions with finite differences.

It replaces `tensorflow.python.ops.gradient_checker_v2`.
"""

import numpy as np

from sluice.client import session as sessions
from sluice.compat.testing import gradient_checker
from sluice.framework import conversion
from sluice.framework.default_session import get_default_session
from sluice.ops import array_ops


def _to_numpy(a):
    """Evaluates a tensor, a variable or IndexedSlices."""
    if hasattr(a, "op"):
        a = get_default_session().run(a)
    if isinstance(a, conversion.IndexedSlicesValue):
        a = gradient_checker._dense(a, a.dense_shape)
    return a


def compute_gradient(f, x, delta=1 / 1024):
    """Returns the Jacobians of f(*x) (by `gradients`, by finite differences).

    Both are lists with a Jacobian for each array or tensor in x.
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError("`x` must be a list or tuple of arrays")
    values = [np.asarray(_to_numpy(v)) for v in x]
    inputs = [array_ops.placeholder(v.dtype, v.shape) for v in values]
    y = f(*inputs)
    session = get_default_session()
    owned = session is None
    session = session or sessions.Session(graph=y.graph)
    try:
        with session.as_default():
            shape = session.run(y, dict(zip(inputs, values))).shape
            fed = dict(zip(inputs, values))
            both = [gradient_checker._jacobians(t, v.shape, y, shape, v, delta,
                                                fed)
                    for t, v in zip(inputs, values)]
    finally:
        if owned:
            session.close()
    return tuple(list(side) for side in zip(*both))


def max_error(grad1, grad2):
    """Returns the largest difference between two lists of Jacobians."""
    return max((np.abs(a - b).max() if a.size else 0.0)
               for a, b in zip(grad1, grad2))
