"""Slots: variables in which an optimizer keeps state for other variables."""

from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, variables
from sluice.ops.variable_scope import get_variable_scope


def full_name(primary, name):
    """Returns the name of a slot within the variable scope."""
    scope = get_variable_scope().name
    return f"{scope}/" * bool(scope) + f"{primary.op.name}/{name}"


def create_slot(primary, val, name, colocate_with_primary=True):
    """Creates a variable "primary's name/name" with the initial value `val`.

    Args:
      primary: a variable or tensor.
      val: a value that converts to a tensor, or a function that returns one
        with the shape of `primary`.
      name: the suffix of the slot's name.
      colocate_with_primary: whether to place the slot with `primary`.
    """
    with graphs.name_scope(None), graphs.colocate_with(
            primary.op if colocate_with_primary else None):
        if not callable(val):
            val = convert_to_tensor(val)
        shape = primary.shape if callable(val) else val.shape
        slot = variables.Variable(
            val, trainable=False, name=full_name(primary, name),
            use_resource=getattr(primary, "_resource", False),
            validate_shape=shape.is_fully_defined())
    part = getattr(primary, "_save_slice_info", None)
    rank = slot.shape.ndims
    if part is not None and rank != 0:
        # A slot of a part is a part of the whole's slot, which may have only
        # the first dimensions, such as a number for each row.
        whole = part.full_name + slot.op.name[
            slot.op.name.rindex(primary.op.name) + len(primary.op.name):]
        slot._set_save_slice_info(variables.SaveSliceInfo(
            whole, part.full_shape[:rank], part.var_offset[:rank],
            part.var_shape[:rank]))
    return slot


def create_slot_with_initializer(primary, initializer, shape, dtype, name,
                                 colocate_with_primary=True):
    """Calls `create_slot` with the result of an initializer."""
    return create_slot(primary, initializer(shape, dtype), name,
                       colocate_with_primary)


def create_zeros_slot(primary, name, dtype=None, colocate_with_primary=True):
    """Creates a slot of zeros with the shape of `primary`."""
    dtype = dtype or primary.dtype.base_dtype
    shape = primary.shape
    if not shape.is_fully_defined():
        value = primary.initialized_value() if isinstance(
            primary, variables.Variable) else primary
        shape = array_ops.shape(value)
    return create_slot(primary, array_ops.zeros(shape, dtype), name,
                       colocate_with_primary)
