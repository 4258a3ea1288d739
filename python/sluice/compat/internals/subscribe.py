"""Side effects of existing tensors: `tensorflow.python.framework.subscribe`."""

import contextlib
import re

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.elements import Tensor

_NAME = "/subscription/"


def subscribe(tensors, side_effects):
    """Redirects the readers of tensors to identities that run side effects.

    Args:
      tensors: a tensor, or a nested list, tuple, named tuple or dict of some.
      side_effects: one or several functions from a tensor to a list of
        operations and tensors to run with it.

    Returns:
      The identities, in the structure of `tensors`. Existing identities get the
      new side effects, too.
    """
    if not hasattr(side_effects, "__iter__"):
        side_effects = [side_effects]
    return _each(tensors, side_effects, {})


def _each(tensors, side_effects, waiting):
    """Applies `subscribe` to a structure.

    `waiting` contains the operations that waited for others before.
    """
    if hasattr(tensors, "value") and hasattr(tensors, "initializer"):
        tensors = tensors.value()  # `tensors` is a variable.
    if isinstance(tensors, Tensor):
        return _subscribed(tensors, side_effects, waiting)
    if isinstance(tensors, (list, tuple)):
        made = [_each(t, side_effects, waiting) for t in tensors]
        kind = type(tensors)
        return kind(*made) if hasattr(kind, "_fields") else kind(made)
    if isinstance(tensors, dict):
        return {k: _each(t, side_effects, waiting)
                for k, t in tensors.items()}
    raise TypeError(f"subscribe argument {tensors!r} has invalid type "
                    f"{type(tensors)!r}")


def _is_subscribed_identity(tensor):
    """Returns whether a tensor was made by `subscribe`."""
    if tensor.op.type != "Identity":
        return False
    name = re.match(r"(.*?)" + _NAME + r"Identity[^/]+", tensor.name)
    return name is not None and name[1] == tensor.op.inputs[0].op.name


@contextlib.contextmanager
def _beside(tensor):
    """A context manager for operations at a tensor's place.

    They are on its device and in its loop and branch.
    """
    token = _core.enter_context_of(tensor.graph, tensor.op)
    try:
        with tensor.graph.device(tensor.device):
            yield
    finally:
        _core.exit_scope(token)


def _subscribed(tensor, side_effects, waiting):
    if not tensor.dtype.is_numpy_compatible:
        return tensor
    known = [tensor] + [t for op in tensor.consumers() for t in op.outputs]
    identity = next((t for t in known if _is_subscribed_identity(t) and (
        t is tensor or t.op.inputs[0] is tensor)), None)
    source = tensor if identity is None else identity.op.inputs[0]
    with _beside(source), graphs.name_scope(source.op.name + _NAME):
        effects = [effect for function in side_effects
                   for effect in function(source)]
        if identity is not None:
            identity.op._add_control_inputs(
                [getattr(effect, "op", effect) for effect in effects])
            return identity
        reads = [(op, i) for op in dict.fromkeys(source.consumers())
                 for i, t in enumerate(op.inputs)
                 if t is source and not _is_within(op, source)]
        waits = waiting.setdefault(
            source.op, [op for op in source.op.control_outputs
                        if not _is_within(op, source)])
        with graphs.control_dependencies(effects):
            identity = _core.op("Identity")(source)
    for op, i in reads:
        op._update_input(i, identity)
    for op in waits:
        others = [c for c in op.control_inputs if c is not source.op]
        op._remove_all_control_inputs()
        op._add_control_inputs(others + [identity.op])
    return identity


def _is_within(op, source):
    """Returns whether an operation is one of a tensor's side effects."""
    return op.name.startswith(source.op.name + _NAME)
