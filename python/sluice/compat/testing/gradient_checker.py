"""Comparison of gradients with finite differences.

It replaces `tensorflow.python.ops.gradient_checker`.
"""

import numpy as np

from sluice.framework import conversion, graph as graphs
from sluice.ops import gradients


def _dense(slices, shape):
    """Converts an IndexedSlicesValue to an array."""
    made = np.zeros(shape, slices.values.dtype)
    np.add.at(made, slices.indices, slices.values)
    return made


def _jacobians(x, x_shape, y, y_shape, value, delta, extra):
    for t, name in ((x, "x"), (y, "y")):
        if not (t.dtype.is_floating or t.dtype.is_complex):
            raise AssertionError(f"Don't support type {t.dtype.name} for "
                                 f"{name}")
    session = graphs._use_session(None, x.graph, "eval")
    value = np.array(value, x.dtype.as_numpy_dtype).reshape(x_shape)
    if y.shape.is_fully_defined():  # Programs pass [1] for scalars, too.
        y_shape = y.shape.as_list()
    dy = conversion.constant(np.zeros(y_shape, y.dtype.as_numpy_dtype))
    dx, = gradients.gradients(y, x, grad_ys=dy)
    if dx is None:
        raise AssertionError("dx = None")
    # A complex number counts as two real ones.
    nx = int(np.prod(x_shape)) * (2 if x.dtype.is_complex else 1)
    ny = int(np.prod(y_shape)) * (2 if y.dtype.is_complex else 1)
    kind = x.dtype.real_dtype.as_numpy_dtype
    theory = np.zeros([nx, ny], kind)
    numeric = np.zeros([nx, ny], kind)

    def flat(a):
        a = np.ascontiguousarray(a).reshape(-1)
        return a.view(a.real.dtype)

    for column in range(ny):
        unit = np.zeros(y_shape, y.dtype.as_numpy_dtype)
        flat(unit)[column] = 1
        got = session.run(dx, {**extra, x: value, dy: unit})
        if isinstance(got, conversion.IndexedSlicesValue):
            got = _dense(got, x_shape)
        theory[:, column] = flat(got)
    for row in range(nx):
        sides = []
        for sign in (1, -1):
            moved = value.copy()
            flat(moved)[row] += sign * delta
            sides.append(flat(session.run(y, {**extra, x: moved})))
        numeric[row] = (sides[0] - sides[1]) / (2 * delta)
    return theory, numeric


def compute_gradient(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3,
                     init_targets=None, extra_feed_dict=None):
    """Returns the Jacobians dy / dx (by `gradients`, by finite differences).

    For a list of tensors returns a list of these pairs. Each is computed with
    the other tensors fixed.
    """
    for target in init_targets or ():
        graphs._use_session(None, x.graph, "eval").run(target)
    many = isinstance(x, list)
    xs, shapes = (x, x_shape) if many else ([x], [x_shape])
    values = (x_init_value if many else [x_init_value]) or [None] * len(xs)
    results = []
    for t, shape, value in zip(xs, shapes, values):
        if value is None:
            value = np.random.random_sample(shape)
            if t.dtype.is_complex:
                value = value + 1j * np.random.random_sample(shape)
        elif list(np.shape(value)) != list(shape):
            raise AssertionError(f"x_shape = {shape}, init_data shape = "
                                 f"{np.shape(value)}")
        results.append(_jacobians(t, shape, y, y_shape, value, delta,
                                  extra_feed_dict or {}))
    return results if many else results[0]


def compute_gradient_error(x, x_shape, y, y_shape, x_init_value=None,
                           delta=1e-3, init_targets=None,
                           extra_feed_dict=None):
    """Returns the largest difference between the two Jacobians."""
    grads = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta,
                             init_targets, extra_feed_dict)
    if isinstance(grads, tuple):
        grads = [grads]
    return max((np.abs(a - b).max() if a.size else 0.0) for a, b in grads)
