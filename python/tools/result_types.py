"""Infers the return types of the package's functions from their source."""

import ast
import functools
import inspect
import textwrap
import types

from sluice import _core
from sluice.framework import conversion
from sluice.ops.variables import Variable

_CLASSES = {conversion.SparseTensor: "SparseTensor",
            conversion.IndexedSlices: "IndexedSlices", Variable: "Variable"}
_TENSORS = {conversion.convert_to_tensor, conversion.constant}


def of_op(op):
    """Returns the type of an op's result; None if it has several."""
    outputs = op._outputs()
    if len(outputs) > 1:
        return None
    if not outputs:
        return "Operation"
    return "list[Tensor]" if outputs[0][1] else "Tensor"


class _Unknown(Exception):
    """Raised if the type cannot be inferred."""


class _Function:
    """A function whose return types are inferred from expressions."""

    def __init__(self, function):
        self._globals = {**function.__globals__,
                         **inspect.getclosurevars(function).nonlocals}
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        self._body = tree.body[0]
        if not isinstance(self._body, ast.FunctionDef):
            raise _Unknown
        self._names = {}
        for node in ast.walk(self._body):
            if isinstance(node, (ast.FunctionDef, ast.Lambda)) and (
                    node is not self._body):
                raise _Unknown  # Nested functions have their own returns.
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assigned(target, node.value)

    def _assigned(self, target, value):
        if isinstance(target, ast.Name):
            self._names.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            for part in target.elts:
                self._assigned(part, None)

    def returns(self):
        """Returns all types that the function may return."""
        found = set()
        for node in ast.walk(self._body):
            if isinstance(node, ast.Return):
                found |= self._of(node.value, ())
            elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                raise _Unknown
        if not found:
            raise _Unknown
        return found

    def _value(self, node):
        """Returns the value of a module-level name."""
        if isinstance(node, ast.Name) and node.id in self._globals:
            return self._globals[node.id]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self._globals.get(node.value.id)
            if isinstance(module, types.ModuleType):
                return getattr(module, node.attr, None)
        return None

    def _of(self, node, open_names):
        if isinstance(node, ast.Constant) and node.value is None or (
                node is None):
            return {"None"}
        if isinstance(node, ast.IfExp):
            return self._of(node.body, open_names) | self._of(node.orelse,
                                                              open_names)
        if isinstance(node, ast.Name) and node.id in self._names and (
                node.id not in open_names):
            return set().union(*(
                self._of(v, (*open_names, node.id)) if v is not None
                else _unknown() for v in self._names[node.id]))
        if isinstance(node, (ast.BinOp, ast.Compare)):
            left = node.left
            for side in (left, node.right if isinstance(node, ast.BinOp)
                         else node.comparators[0]):
                try:
                    if self._of(side, open_names) == {"Tensor"}:
                        return {"Tensor"}
                except _Unknown:
                    pass
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self._of(node.operand, open_names)
        if isinstance(node, ast.Attribute) and node.attr == "op":
            if self._of(node.value, open_names) == {"Tensor"}:
                return {"Operation"}
        if isinstance(node, ast.Call):
            return self._of_call(node.func)
        raise _Unknown

    def _of_call(self, called):
        if isinstance(called, ast.Call):  # _op("Name")(...)
            maker = self._value(called.func)
            if maker is not _core.op or not isinstance(called.args[0],
                                                       ast.Constant):
                raise _Unknown
            value = _core.op(called.args[0].value)
        else:
            value = self._value(called)
        if hasattr(value, "_outputs"):  # An op function or a wrapper of one.
            return {of_op(value) or _unknown()}
        if value in _TENSORS:
            return {"Tensor"}
        if isinstance(value, type) and value in _CLASSES:
            return {_CLASSES[value]}
        if isinstance(value, types.FunctionType):
            return set(_returns(value))
        raise _Unknown


def _unknown():
    raise _Unknown


@functools.lru_cache(maxsize=None)
def _found(function):
    try:
        return frozenset(_Function(function).returns())
    except (_Unknown, RecursionError, OSError):
        return None


def _returns(function):
    found = _found(function)
    return _unknown() if found is None else found


def annotation(function):
    """Returns the return type of a function for a stub.

    It is "Any" if the type is unknown or one of several, which callers would
    have to distinguish.
    """
    if function in _TENSORS:
        return "Tensor"
    found = _found(function)
    return next(iter(found)) if found and len(found) == 1 else "Any"
