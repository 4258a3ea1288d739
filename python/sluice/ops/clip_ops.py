"""Clipping of values and gradients."""

from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, constant, convert_to_tensor)
from sluice.ops import array_ops, math_ops, nn


def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """Clips the elements of a tensor to an interval."""
    with graphs.name_scope(name, "clip_by_value", [t]) as scope:
        values = convert_to_tensor(
            t.values if isinstance(t, IndexedSlices) else t, name="t")
        low = math_ops.minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(low.shape)
        clipped = math_ops.maximum(low, clip_value_min, name=scope)
        if isinstance(t, IndexedSlices):
            return IndexedSlices(clipped, t.indices, t.dense_shape)
        return clipped


def clip_by_norm(t, clip_norm, axes=None, name=None):
    """Scales a tensor down so that its Euclidean norm is at most a limit."""
    with graphs.name_scope(name, "clip_by_norm", [t]) as scope:
        values = convert_to_tensor(
            t.values if isinstance(t, IndexedSlices) else t, name="t")
        squares = math_ops.reduce_sum(values * values, axes, True)
        positive = squares > 0
        # Avoids the infinite gradient of sqrt at zero.
        safe = array_ops.where(positive, squares,
                               array_ops.ones_like(squares))
        norm = array_ops.where(positive, math_ops.sqrt(safe), squares)
        scaled = values * clip_norm
        values.shape.assert_is_compatible_with(scaled.shape)
        clipped = array_ops.identity(
            scaled / math_ops.maximum(norm, clip_norm), name=scope)
        if isinstance(t, IndexedSlices):
            return IndexedSlices(clipped, t.indices, t.dense_shape)
        return clipped


def clip_by_average_norm(t, clip_norm, name=None):
    """Scales a tensor down so that its average norm is at most a limit.

    The average norm is the Euclidean norm divided by the number of elements.
    """
    with graphs.name_scope(name, "clip_by_average_norm", [t]) as scope:
        t = convert_to_tensor(t, name="t")
        count = math_ops.cast(array_ops.size(t), t.dtype)
        inverse = math_ops.rsqrt(math_ops.reduce_sum(t * t, keepdims=True))
        return array_ops.identity(
            t * clip_norm * math_ops.minimum(
                inverse * count, constant(1.0, t.dtype) / clip_norm),
            name=scope)


def global_norm(t_list, name=None):
    """Returns the Euclidean norm of all elements of several tensors."""
    with graphs.name_scope(name, "global_norm", t_list):
        halves = [nn.l2_loss(t.values if isinstance(t, IndexedSlices) else t)
                  for t in t_list if t is not None]
        total = math_ops.reduce_sum(array_ops.stack(halves))
        return math_ops.sqrt(total * constant(2.0, total.dtype),
                             name="global_norm")


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """Scales tensors down so that their global norm is at most a limit.

    Returns:
      (the scaled tensors, their global norm).
    """
    if not isinstance(t_list, (list, tuple)):
        raise TypeError("t_list should be a sequence")
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with graphs.name_scope(name, "clip_by_global_norm") as scope:
        # If the norm is not finite, the results are NaN.
        scale = clip_norm * math_ops.minimum(
            1.0 / norm, constant(1.0, norm.dtype) / clip_norm)
        scale = array_ops.where(math_ops.is_finite(norm), scale, norm - norm)
        clipped = []
        for i, t in enumerate(t_list):
            if t is None:
                clipped.append(None)
                continue
            sparse = isinstance(t, IndexedSlices)
            # As in TensorFlow, the name repeats the scope's name.
            scaled = array_ops.identity(
                (t.values if sparse else t) * scale, name=f"{scope}_{i}")
            clipped.append(IndexedSlices(scaled, t.indices, t.dense_shape)
                           if sparse else scaled)
        return clipped, norm
