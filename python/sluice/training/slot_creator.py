"""Slots: what an optimiser remembers of each variable, in a variable that is
named after it."""

from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, variables
from sluice.ops.variable_scope import get_variable_scope


def full_name(primary, name):
    """What a slot is called: after its primary, within the variable scope."""
    scope = get_variable_scope().name
    return f"{scope}/" * bool(scope) + f"{primary.op.name}/{name}"


def create_slot(primary, val, name, colocate_with_primary=True):
    """A variable "primary's name/name" that begins as `val`.

    Args:
      primary: a variable or tensor.
      val: a tensor, or what becomes one; or a function that makes one, of the
        primary's shape.
      name: of the slot.
      colocate_with_primary: whether both are on the same device.
    """
    with graphs.name_scope(None), graphs.colocate_with(
            primary.op if colocate_with_primary else None):
        if not callable(val):
            val = convert_to_tensor(val)
        shape = primary.shape if callable(val) else val.shape
        return variables.Variable(
            val, trainable=False, name=full_name(primary, name),
            use_resource=getattr(primary, "_resource", False),
            validate_shape=shape.is_fully_defined())


def create_slot_with_initializer(primary, initializer, shape, dtype, name,
                                 colocate_with_primary=True):
    """`create_slot` of what an initialiser makes."""
    return create_slot(primary, initializer(shape, dtype), name,
                       colocate_with_primary)


def create_zeros_slot(primary, name, dtype=None, colocate_with_primary=True):
    """`create_slot` of zeros, as many as `primary` has elements."""
    dtype = dtype or primary.dtype.base_dtype
    shape = primary.shape
    if not shape.is_fully_defined():
        value = primary.initialized_value() if isinstance(
            primary, variables.Variable) else primary
        shape = array_ops.shape(value)
    return create_slot(primary, array_ops.zeros(shape, dtype), name,
                       colocate_with_primary)
