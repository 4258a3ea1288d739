"""What a saver saves: tensors with names, and how they are restored."""

from sluice import _core
from sluice.framework import graph as graphs, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops
from sluice.ops.partitioned import PartitionedVariable
from sluice.ops.saveable_objects import (
    VARIABLE_VALUE_KEY, SaveableObject, SaveSpec, Trackable)
from sluice.ops.variables import Variable

_op = _core.op


class VariableSaveable(SaveableObject):
    """A variable, whose value is saved as it is."""


class ReferenceVariableSaveable(VariableSaveable):
    """A variable that is a reference."""

    def __init__(self, var, slice_spec, name):
        super().__init__(var, [SaveSpec(var, slice_spec, name,
                                        dtype=var.dtype.base_dtype)], name)

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = array_ops.reshape(value, restored_shapes[0])
        return _op("Assign")(
            self.op, value, validate_shape=restored_shapes is None and (
                self.op.shape.is_fully_defined()))


class ResourceVariableSaveable(VariableSaveable):
    """A variable that is a resource."""

    def __init__(self, var, slice_spec, name):
        self.handle_op = var.handle

        def read():
            with graphs.device(var.device):
                value = _op("ReadVariableOp")(var.handle, var.dtype.base_dtype)
                # A file is written by the CPU of the variable's task.
                with graphs.device("/device:CPU:0"):
                    return _op("Identity")(value)

        super().__init__(var, [SaveSpec(read, slice_spec, name,
                                        dtype=var.dtype.base_dtype,
                                        device=var.device)], name)

    def restore(self, restored_tensors, restored_shapes):
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = array_ops.reshape(value, restored_shapes[0])
        with graphs.device(self.op.device):
            value = _op("Identity")(value)
        value.set_shape(value.shape.merge_with(self.op.shape))
        return _op("AssignVariableOp")(self.handle_op, value)


def _kind(var):
    return (ReferenceVariableSaveable if var.dtype._is_ref_dtype
            else ResourceVariableSaveable)


def _variable(given):
    """Returns the variable of a value, or None."""
    if isinstance(given, Variable):
        return given
    if isinstance(given, graphs.Tensor) and given.op.type in (
            "Variable", "VariableV2", "VarHandleOp"):
        for key in given.graph.get_all_collection_keys():
            for v in given.graph.get_collection(key):
                if isinstance(v, Variable) and v.op is given.op:
                    return v
    return None


def _behind(value, *name):
    """Returns what an object stands for, under a name; others themselves."""
    if not isinstance(value, Trackable):
        return value
    found = value._gather_saveables_for_checkpoint()
    if VARIABLE_VALUE_KEY not in found:
        raise TypeError(f"Variable to save is not a Variable: {value}")
    found = found[VARIABLE_VALUE_KEY]
    return found(*name) if callable(found) and not hasattr(
        found, "initializer") else found


def op_list_to_dict(op_list):
    """Returns {name: what is saved under it} for a list of variables.

    Raises:
      TypeError: if one is not a variable.
      ValueError: if two have the same name.
    """
    if not isinstance(op_list, (list, tuple, set)):
        raise TypeError(f"Variables to save should be passed in a dict or a "
                        f"list: {op_list}")
    named, known = {}, {}
    for given in map(_behind, sorted(op_list, key=lambda v: v.name)):
        if isinstance(given, SaveableObject):
            name, value = given.name, given
        elif isinstance(given, PartitionedVariable):
            name, value = given.name, given
        else:
            value = _variable(given)
            if value is None:
                raise TypeError(f"Variable to save is not a Variable: {given}")
            if known.get(value.op.name) is value:
                continue
            known[value.op.name] = value
            if value._save_slice_info is not None:
                name = value._save_slice_info.full_name
                parts = named.setdefault(name, [])
                if not isinstance(parts, list):
                    raise ValueError(f"At least two variables have the same "
                                     f"name: {name}")
                parts.append(value)
                continue
            name = value.op.name
        if name in named and named[name] is not value:
            raise ValueError(f"At least two variables have the same name: "
                             f"{name}")
        named[name] = value
    return named


def _parts(name, variables):
    for part in variables:
        info = part._save_slice_info
        if info is None:
            raise ValueError(f"Slices must all be slices: {part}")
        yield _kind(part)(part, info.spec, name)


def saveables_of(names_to_values):
    """Returns the SaveableObjects of {name: variables}, in order of the names.

    Raises:
      ValueError: if a variable occurs twice.
      TypeError: if a name is not a string or a value is not a variable.
    """
    if not isinstance(names_to_values, dict):
        names_to_values = op_list_to_dict(names_to_values)
    made, seen = [], set()
    for name, value in sorted(names_to_values.items()):
        if not isinstance(name, str):
            raise TypeError(f"names_to_saveables must be a dict mapping string "
                            f"names to checkpointable operations. Name is not "
                            f"a string: {name}")
        value = _behind(value, name)
        if isinstance(value, SaveableObject):
            found = [value]
        elif isinstance(value, (list, tuple, PartitionedVariable)):
            found = list(_parts(name, value))
        else:
            var = _variable(value)
            if var is None:
                raise TypeError(f"names_to_saveables must be a dict mapping "
                                f"string names to Tensors/Variables. Not a "
                                f"variable: {value}")
            found = [_kind(var)(var, "", name)]
        for each in found:
            key = each.op if isinstance(each.op, Variable) else each
            if id(key) in seen:
                raise ValueError(f"The same saveable will be restored with two "
                                 f"names: {name}")
            seen.add(id(key))
        made += found
    return made


def shapes_of(saveable):
    """Returns the shapes of a SaveableObject's tensors: lists, or tensors."""
    found = []
    for spec in saveable.specs:
        shape = (saveable.op.shape if isinstance(saveable.op, Variable)
                 else tensor_shape.as_shape(spec.tensor.shape))
        found.append(shape.as_list() if shape.is_fully_defined()
                     else array_ops.shape(convert_to_tensor(spec.tensor)))
    return found
