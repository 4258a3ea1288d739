"""Stubs of the package's classes for type checkers: `_stubs/_classes.pyi`.

Members and parameters come from the classes. The types of members are given
here for the most common classes, and otherwise inferred from the source.
"""

import ast
import enum
import inspect
import textwrap
import types

from sluice.framework import protos

import result_types

# The members of classes with their types or return types.
_MEMBERS = {
    "Tensor": {
        "name": "Str", "op": "Operation", "graph": "Graph", "dtype": "DType",
        "device": "Str", "value_index": "Int", "consumers": "list[Operation]",
        "shape": "TensorShape", "get_shape": "TensorShape", "set_shape": "None",
        "ndim": "Int | None"},
    "Operation": {
        "name": "Str", "type": "Str", "graph": "Graph", "device": "Str",
        "inputs": "tuple[Tensor, ...]", "outputs": "list[Tensor]",
        "control_inputs": "list[Operation]", "node_def": "NodeDef",
        "values": "tuple[Tensor, ...]", "run": "None",
        "colocation_groups": "list[builtins.bytes]"},
    "Graph": {
        "version": "Int", "seed": "Int | None", "finalized": "Bool",
        "building_function": "Bool", "finalize": "None",
        "as_default": "ContextManager[Graph]", "as_graph_def": "GraphDef",
        "get_operations": "list[Operation]",
        "get_operation_by_name": "Operation", "get_tensor_by_name": "Tensor",
        "unique_name": "Str", "get_collection": "list[Any]",
        "get_collection_ref": "list[Any]", "add_to_collection": "None",
        "get_all_collection_keys": "list[Any]", "is_feedable": "Bool",
        "is_fetchable": "Bool", "name_scope": "ContextManager[Str]",
        **dict.fromkeys("device control_dependencies colocate_with container "
                        "gradient_override_map".split(),
                        "ContextManager[Any]")},
    "BaseSession": {
        "graph": "Graph", "run": "Any", "close": "None", "sess_str": "Any",
        "make_callable": "Callable[..., Any]", "as_default":
        "ContextManager[Any]", "partial_run_setup": "Any"},
    "Variable": {
        "name": "Str", "op": "Operation", "graph": "Graph", "dtype": "DType",
        "device": "Str", "shape": "TensorShape", "get_shape": "TensorShape",
        "initializer": "Operation", "handle": "Tensor", "trainable": "Bool",
        "load": "None", **dict.fromkeys(
            "value read_value initialized_value initial_value assign "
            "assign_add assign_sub scatter_add scatter_sub scatter_update "
            "scatter_nd_add scatter_nd_sub scatter_nd_update sparse_read "
            "count_up_to".split(), "Tensor")},
    "TensorShape": {
        "as_list": "list[Int | None]", "ndims": "Int | None",
        "rank": "Int | None", "dims": "list[Dimension] | None",
        "is_fully_defined": "Bool", "is_compatible_with": "Bool",
        "num_elements": "Int | None", "__len__": "Int",
        "__iter__": "Iterator[Dimension]", **dict.fromkeys(
            "concatenate merge_with with_rank with_rank_at_least "
            "with_rank_at_most".split(), "TensorShape"), **dict.fromkeys(
                "assert_has_rank assert_same_rank assert_is_fully_defined "
                "assert_is_compatible_with".split(), "None")},
    "Dimension": {
        "value": "Int | None", "__int__": "Int", "__index__": "Int",
        "is_compatible_with": "Bool", "merge_with": "Dimension",
        **dict.fromkeys([f"__{side}{op}__" for side in ("", "r") for op in (
            "add", "sub", "mul", "floordiv", "mod")], "Dimension")},
    "DType": {
        "name": "Str", "size": "Int", "base_dtype": "DType",
        "real_dtype": "DType", "as_datatype_enum": "Int",
        "is_compatible_with": "Bool", **dict.fromkeys(
            "is_floating is_integer is_complex is_bool is_unsigned "
            "is_quantized is_numpy_compatible".split(), "Bool")},
    "SparseTensor": {
        "indices": "Tensor", "values": "Tensor", "dense_shape": "Tensor",
        "op": "Operation", "graph": "Graph", "dtype": "DType",
        "shape": "TensorShape", "get_shape": "TensorShape"},
    "IndexedSlices": {
        "indices": "Tensor", "values": "Tensor", "dense_shape": "Tensor | None",
        "op": "Operation", "graph": "Graph", "dtype": "DType", "name": "Str",
        "device": "Str"},
    "TensorArray": {
        "dtype": "DType", "flow": "Tensor", "close": "Operation",
        **dict.fromkeys("read stack gather concat size".split(), "Tensor"),
        **dict.fromkeys("write unstack scatter split identity grad".split(),
                        "TensorArray")},
    "TensorStore": {
        "dtype": "DType", "handle": "Tensor",
        **dict.fromkeys("write read read_many has size keys".split(),
                        "Tensor")},
    "Optimizer": {
        "minimize": "Operation", "apply_gradients": "Operation",
        "compute_gradients": "list[tuple[Any, Variable]]", "get_name": "Str",
        "get_slot": "Variable | None", "get_slot_names": "list[Str]",
        "variables": "list[Variable]"},
    "ExponentialMovingAverage": {
        "apply": "Operation", "average": "Variable | None",
        "average_name": "Str", "variables_to_restore": "dict[Str, Variable]"},
    "Layer": {
        "name": "Str", "built": "Bool", "trainable": "Bool",
        "add_weight": "Variable", "count_params": "Int", "build": "None",
        **dict.fromkeys("variables trainable_variables weights "
                        "trainable_weights non_trainable_variables "
                        "non_trainable_weights".split(), "list[Variable]")},
    "RNNCell": {"__call__": "tuple[Tensor, Any]"},
    "OpError": {"op": "Operation | None", "message": "Str",
                "error_code": "Int"},
    "QueueBase": {
        "queue_ref": "Tensor", "name": "Str", "dtypes": "list[DType]",
        "shapes": "list[TensorShape]", "names": "list[Str] | None",
        "dequeue": "Any", "dequeue_many": "Any", "dequeue_up_to": "Any",
        "is_closed": "Tensor", "size": "Tensor", "from_list": "QueueBase",
        **dict.fromkeys("enqueue enqueue_many close".split(), "Operation")},
    "QueueRunner": {
        "queue": "Any", "name": "Str", "enqueue_ops": "list[Operation]",
        "close_op": "Operation", "cancel_op": "Operation",
        "exceptions_raised": "list[Exception]", "create_threads": "list[Any]"},
    "Coordinator": {
        "should_stop": "Bool", "wait_for_stop": "Bool", "joined": "Bool",
        **dict.fromkeys("request_stop clear_stop register_thread join "
                        "raise_requested_exception".split(), "None")},
    "ReaderBase": {
        "reader_ref": "Tensor", "supports_serialize": "Bool",
        **dict.fromkeys("read read_up_to".split(), "tuple[Tensor, Tensor]"),
        **dict.fromkeys("num_records_produced num_work_units_completed "
                        "serialize_state".split(), "Tensor"),
        **dict.fromkeys("restore_state reset".split(), "Operation")},
    "LookupInterface": {
        "key_dtype": "DType", "value_dtype": "DType", "name": "Str | None",
        "resource_handle": "Tensor", "size": "Tensor", "lookup": "Any"},
    "VariableScope": {"name": "Str", "original_name_scope": "Str",
                      "reuse_variables": "None"},
}
# Operators of tensors and variables, which sluice.ops.math_ops sets.
_OPERATORS = "".join(
    f"    def __{side}{op}__(self, other: _t.Any) -> Tensor: ...\n"
    for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow",
               "matmul", "and", "or", "xor") for side in ("", "r")) + "".join(
    f"    def __{op}__(self, other: _t.Any) -> Tensor: ...\n"
    for op in ("lt", "le", "gt", "ge", "getitem")) + "".join(
    f"    def __{op}__(self) -> Tensor: ...\n"
    for op in ("neg", "abs", "invert"))
_SPECIAL = {"__init__", "__call__", "__len__", "__iter__", "__getitem__",
            "__int__", "__index__", "__add__", "__radd__", "__sub__",
            "__rsub__", "__mul__", "__rmul__", "__floordiv__", "__rfloordiv__",
            "__mod__", "__rmod__", "__lt__", "__le__", "__gt__", "__ge__"}
_OPERATED = ("Tensor", "Variable")
# Python modules whose classes are listed as bases.
_OUTSIDE = ("builtins", "enum", "threading", "unittest.case")
_HEAD = '''# mypy: disable-error-code="override"
"""The package's classes. Generated by gen_stubs.py: do not edit."""

import builtins
import enum
import threading
import typing
import unittest
from typing import Any, Callable, ContextManager, Iterator

from typing_extensions import Self

from sluice._stubs import _types as _t
from sluice._stubs._types import Bool, Int, Str

'''
# The base classes of messages, as far as all versions of protobuf have them.
_MESSAGES = '''_K = typing.TypeVar("_K")
_V = typing.TypeVar("_V")

class _Repeated(typing.MutableSequence[_V]):
    """The values of a repeated field."""
    def add(self, **fields: Any) -> _V: ...
    def MergeFrom(self, other: Any) -> None: ...

class _Map(typing.MutableMapping[_K, _V]):
    """The values of a field that is a map."""
    def get_or_create(self, key: _K) -> _V: ...
    def MergeFrom(self, other: Any) -> None: ...

class _Message:
    """A protocol buffer."""
    DESCRIPTOR: typing.ClassVar[Any]
    def ByteSize(self) -> Int: ...
    def Clear(self) -> None: ...
    def ClearField(self, field_name: Str) -> None: ...
    def CopyFrom(self, other_msg: Self) -> None: ...
    def DiscardUnknownFields(self) -> None: ...
    def HasField(self, field_name: Str) -> Bool: ...
    def IsInitialized(self) -> Bool: ...
    def ListFields(self) -> list[builtins.tuple[Any, Any]]: ...
    def MergeFrom(self, other_msg: Self) -> None: ...
    def MergeFromString(self, serialized: builtins.bytes) -> Int: ...
    def ParseFromString(self, serialized: builtins.bytes) -> Int: ...
    def SerializePartialToString(
        self, *, deterministic: Bool = ...) -> builtins.bytes: ...
    def SerializeToString(
        self, *, deterministic: Bool = ...) -> builtins.bytes: ...
    def SetInParent(self) -> None: ...
    def WhichOneof(self, oneof_group: Str) -> Str | None: ...
    @classmethod
    def FromString(cls, s: builtins.bytes) -> Self: ...

'''
# Types by FieldDescriptor.cpp_type.
_SCALARS = {1: "Int", 2: "Int", 3: "Int", 4: "Int", 5: "builtins.float",
            6: "builtins.float", 7: "Bool", 8: "Int", 9: "Str"}


def is_ours(value):
    """Returns whether a value is a Python class of the package."""
    return isinstance(value, type) and value.__module__.startswith(
        "sluice.") and value.__module__ != "sluice._core"


class Classes:
    """The classes that stubs refer to, and their base classes."""

    def __init__(self, function_stub):
        self._stub = function_stub
        self._texts, self._names = {}, {}

    def name(self, cls):
        """Returns the name of a class in `_classes.pyi`."""
        if cls not in self._names:
            name = cls.__name__
            while name in self._names.values():
                name += "_"
            self._names[cls] = name
            self._texts[cls] = self._text(cls)
        return self._names[cls]

    def text(self):
        """Returns the contents of `_classes.pyi`."""
        return _HEAD + _MESSAGES + "\n".join(self._texts.values())

    def _message(self, cls, indent=""):
        """Returns the stub of a message class from its descriptor."""
        descriptor = cls.DESCRIPTOR
        lines = [f"class {descriptor.name}(_Message):",
                 f'    """TensorFlow\'s message {descriptor.name}."""']
        for inner in descriptor.nested_types:
            if not inner.GetOptions().map_entry:
                lines.append(self._message(getattr(cls, inner.name), "    "))
        for kind in descriptor.enum_types:
            lines.append(f"    {kind.name}: typing.ClassVar[Any]")
            lines += [f"    {value.name}: typing.ClassVar[Int]"
                      for value in kind.values]
        for field in descriptor.fields:
            kind = self._field(field)
            if field.message_type is None and not _is_repeated(field):
                lines.append(f"    {field.name}: {kind}")
            else:
                lines += ["    @builtins.property",
                          f"    def {field.name}(self) -> {kind}: ..."]
        given = "".join(f", {field.name}: Any = ..."
                        for field in descriptor.fields)
        lines.append(f"    def __init__(self{given and ', *'}{given}) -> None: "
                     f"...\n")
        return "\n".join(indent + line for line in "\n".join(
            lines).split("\n")).replace(f"\n{indent}\n", "\n\n").rstrip(" ")

    def _field(self, field):
        """Returns the type of a field."""
        message = field.message_type
        if message is None:
            kind = ("builtins.bytes" if field.type == field.TYPE_BYTES else
                    _SCALARS[field.cpp_type])
        elif message.GetOptions().map_entry:
            key, value = (self._field(message.fields_by_name[name])
                          for name in ("key", "value"))
            return f"_Map[{key}, {value}]"
        elif message.file.package.startswith("google."):
            kind = "Any"
        else:
            names = message.full_name.partition(".")[2].split(".")
            kind = ".".join([self.name(getattr(protos, names[0])), *names[1:]])
        return f"_Repeated[{kind}]" if _is_repeated(field) else kind

    def _text(self, cls):
        if hasattr(cls, "DESCRIPTOR"):
            return self._message(cls)
        bases, past, lines = [], {object}, []
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            bases.append("typing.NamedTuple")
            past.update(c for c in cls.__mro__ if "_fields" in vars(c))
            lines = [f"    {field}: Any\n" for field in cls._fields]
        for base in cls.__mro__[1:]:
            if base not in past and not lines and (
                    is_ours(base) and base.__name__[0] != "_"
                    or base.__module__ in _OUTSIDE):
                bases.append(self.name(base) if is_ours(base) else
                             f"{base.__module__.split('.')[0]}."
                             f"{base.__name__}")
                past.update(base.__mro__)
        own = [c for c in cls.__mro__ if c not in past]
        lines += self._members(cls, own)
        summary = (cls.__doc__ or "").partition("\n\n")[0]
        summary = " ".join(summary.replace("\\", "\\\\").split())
        of = f"({', '.join(bases)})" if bases else ""
        return (f"class {self._names[cls]}{of}:\n"
                f'    """{summary}"""\n' + "".join(lines))

    def _known(self, cls):
        """Returns the known members of a class and its bases."""
        known = {}
        for one in reversed(cls.__mro__):
            known.update(_MEMBERS.get(one.__name__, {}))
        return known

    def _members(self, cls, own):
        known, lines, done = self._known(cls), [], set()
        if issubclass(cls, enum.Enum):
            return [f"    {m.name} = {m.value!r}\n" for m in cls]
        if cls.__name__ in _OPERATED:
            lines.append(_OPERATORS)
            done |= _SPECIAL - {"__init__"}
        for one in own:
            for name, value in vars(one).items():
                if name not in done and (name in _SPECIAL
                                         or not name.startswith("__")):
                    line = self._member(name, value, known.get(name))
                    if line:
                        done.add(name)
                        lines.append(line)
        for name in sorted(_set_in(own) - done):
            lines.append(f"    {name}: {known.get(name, 'Any')}\n")
        if any(c.__module__ != "sluice._core" and isinstance(
                vars(c).get("__getattr__"), types.FunctionType)
               and vars(c)["__getattr__"].__name__ != "missing" for c in own):
            lines.append("    def __getattr__(self, name: Str) -> Any: ...\n")
            lines.append("    def __setattr__(self, name: Str, value: Any) -> "
                         "None: ...\n")
        if any("__enter__" in vars(c) for c in own):
            lines.append("    def __enter__(self) -> Any: ...\n"
                         "    def __exit__(self, *unused: Any) -> None: ...\n")
        return lines

    def _member(self, name, value, known):
        """Returns the lines of a member, or "" for an internal member."""
        wrapped, before = value, ""
        if isinstance(value, (staticmethod, classmethod)):
            wrapped = value.__func__
            before = f"    @{type(value).__name__}\n"
        if isinstance(wrapped, types.FunctionType):
            return before + "    " + self._stub(
                name, wrapped, "None" if name == "__init__" else known,
                not isinstance(value, staticmethod)) + "\n"
        if name[0] == "_":
            return ""
        if isinstance(value, property):
            kind = known or _plain(result_types.annotation(value.fget)
                                   if isinstance(value.fget,
                                                 types.FunctionType) else "Any")
            setter = "" if value.fset is None else (
                f"    @{name}.setter\n    def {name}(self, value: Any) -> None:"
                f" ...\n")
            return (f"    @builtins.property\n    def {name}(self) -> {kind}: "
                    f"...\n{setter}")
        if callable(value) and not isinstance(value, type) and (
                not hasattr(value, "_parameters")):  # Not an op function.
            return (f"    def {name}(self, *args: Any, **options: Any) -> "
                    f"{known or 'Any'}: ...\n")
        return f"    {name}: {known or 'Any'}\n"


def _is_repeated(field):
    """Returns whether a field is repeated or a map.

    Newer versions of protobuf have no labels, older ones have nothing else.
    """
    if hasattr(field, "is_repeated"):
        return field.is_repeated
    return field.label == field.LABEL_REPEATED


def _plain(result):
    """Converts a result of `result_types` to the names of this stub."""
    return result.replace("_t.", "")


def _set_in(classes):
    """Returns the public attributes that methods set."""
    found = set()
    for cls in classes:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(
                    node.ctx, ast.Store) and isinstance(
                        node.value, ast.Name) and node.value.id == "self" and (
                            node.attr[0] != "_"):
                found.add(node.attr)
    return found
