"""Clipping of values and gradients."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, constant, convert_to_tensor,
    convert_to_tensor_or_indexed_slices)


def _like(t, clipped):
    """Returns slices for slices: the library gives their parts."""
    return clipped if type(clipped) is not tuple else (
        IndexedSlices(clipped[0], t.indices, t.dense_shape))


def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """Clips the elements of a tensor to an interval."""
    with graphs.name_scope(name, "clip_by_value", [t]) as scope:
        return _like(t, _core.clip_by_value(
            scope, convert_to_tensor_or_indexed_slices(t, name="t"),
            clip_value_min, clip_value_max))


def clip_by_norm(t, clip_norm, axes=None, name=None):
    """Scales a tensor down so that its Euclidean norm is at most a limit."""
    if isinstance(axes, (list, tuple)) and not axes:
        axes = constant([], dtypes.int32)  # Each element is its own norm.
    with graphs.name_scope(name, "clip_by_norm", [t]) as scope:
        return _like(t, _core.clip_by_norm(
            scope, convert_to_tensor_or_indexed_slices(t, name="t"), clip_norm,
            axes))


def clip_by_average_norm(t, clip_norm, name=None):
    """Scales a tensor down so that its average norm is at most a limit.

    The average norm is the Euclidean norm divided by the number of elements.
    """
    with graphs.name_scope(name, "clip_by_average_norm", [t]) as scope:
        return _core.clip_by_average_norm(
            scope, convert_to_tensor(t, name="t"), clip_norm)


def _gradients(t_list):
    return [t if t is None else convert_to_tensor_or_indexed_slices(t)
            for t in t_list]


def global_norm(t_list, name=None):
    """Returns the Euclidean norm of all elements of several tensors."""
    with graphs.name_scope(name, "global_norm", t_list) as scope:
        tensors = _gradients(t_list)
        if all(t is None for t in tensors):
            return constant(0.0, name="global_norm")
        return _core.global_norm(scope, tensors)


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """Scales tensors down so that their global norm is at most a limit.

    Returns:
      (the scaled tensors, their global norm).
    """
    if not isinstance(t_list, (list, tuple)):
        raise TypeError("t_list should be a sequence")
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with graphs.name_scope(name, "clip_by_global_norm") as scope:
        clipped = _core.clip_by_global_norm(
            scope, _gradients(t_list), clip_norm, convert_to_tensor(norm))
        return [_like(t, c) for t, c in zip(t_list, clipped)], norm
