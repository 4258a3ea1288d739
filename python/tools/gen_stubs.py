#!/usr/bin/env python3
"""Writes stubs for type checkers and editors into the package's folder.

  PYTHONPATH=build/release/python python3 python/tools/gen_stubs.py FOLDER

`raw_ops.pyi` has every op's signature and documentation, from the registry.
`__init__.pyi` and `_stubs` have the names of the package and its namespaces,
which are looked up at run time (sluice/names.py).
"""

import importlib
import inspect
import os
import sys
import types

from sluice import _core, names
from sluice.client import session
from sluice.framework import dtypes
from sluice.ops import partitioned

import class_stubs
import result_types

_ANNOTATIONS = {
    "tensor": "TensorLike", "tensors": "TensorsLike", "int": "Int",
    "float": "Float", "bool": "Bool", "string": "Text", "type": "DTypeLike",
    "shape": "ShapeLike", "tensor value": "Any", "function": "Any"}

# The types of parameters that are the same in all functions.
_PARAMETERS = {
    **dict.fromkeys(
        "x y a b t tensor input_tensor value labels logits predictions "
        "features indices params lengths mask pred real imag x1 x2 data "
        "segment_ids ids num_segments".split(), "TensorLike"),
    **dict.fromkeys("dtype out_type output_type".split(), "DTypeLike"),
    **dict.fromkeys("axis axes reduction_indices".split(), "AxisLike"),
    "name": "Str | None", "seed": "Int | None", "shape": "AnyShapeLike"}


def annotation(kind):
    if kind.startswith("list "):
        return f"_t.Sequence[_t.{_ANNOTATIONS[kind[5:]]}]"
    return "_t." + _ANNOTATIONS[kind]


def stub(name, op, raw="_raw."):
    """Returns the stub of an op's function, under a name."""
    params = []
    for parameter, kind, has_default, _ in op._parameters():
        params.append(f"{parameter}: {annotation(kind)}"
                      f"{' = ...' if has_default else ''}")
    params.append("name: _t.Str | None = ...")
    result = result_types.of_op(op)
    result = (f"{raw}{op._op_name}Outputs" if result is None
              else qualified(result))
    lines = [f"def {name}({', '.join(params)}) -> {result}:"]
    summary = op.__doc__.splitlines()[0].replace("\\", "\\\\")
    lines += [f'    """{summary}"""', ""]
    return "\n".join(lines)


def outputs_stub(op):
    """Returns the class of an op's results if there are several."""
    if result_types.of_op(op) is not None:
        return ""
    return "\n".join([f"class {op._op_name}Outputs(_t.NamedTuple):"] + [
        f"    {name}: {qualified('list[Tensor]' if is_list else 'Tensor')}"
        # These are methods of tuple.
        f"{'  # type: ignore[assignment]' * (name in ('count', 'index'))}"
        for name, is_list in op._outputs()]) + "\n\n"


def qualified(result):
    """Qualifies the names of `_types.pyi` in a result type."""
    return result.replace("Tensor]", "_t.Tensor]") if "[" in result else (
        "None" if result == "None" else "_t." + result)


# Return types that cannot be inferred from the source.
_RESULTS = {
    **dict.fromkeys(
        "embedding_lookup embedding_lookup_sparse softmax log_softmax "
        "dropout batch_normalization conv1d conv2d conv3d conv2d_transpose "
        "depthwise_conv2d separable_conv2d max_pool avg_pool max_pooling2d "
        "average_pooling2d dense sequence_loss "
        "sparse_softmax_cross_entropy_with_logits "
        "sigmoid_cross_entropy_with_logits "
        "softmax_cross_entropy_with_logits "
        "softmax_cross_entropy_with_logits_v2 mean_squared_error "
        "absolute_difference huber_loss log_loss hinge_loss "
        "sigmoid_cross_entropy softmax_cross_entropy "
        "sparse_softmax_cross_entropy get_total_loss "
        "get_regularization_loss exponential_decay piecewise_constant "
        "polynomial_decay cosine_decay natural_exp_decay inverse_time_decay "
        "sparse_tensor_to_dense sparse_tensor_dense_matmul "
        "sparse_reduce_sum gather gather_nd transpose stack concat where "
        "einsum tensordot norm one_hot boolean_mask random_uniform "
        "random_normal eye pad sequence_mask cumsum cumprod range shape "
        "size rank argmax argmin assign assign_add assign_sub".split(),
        "_t.Tensor"),
    **dict.fromkeys("get_variable get_local_variable get_or_create_global_step "
                    "create_global_step".split(), "_t.Variable"),
    **dict.fromkeys("global_variables trainable_variables local_variables "
                    "model_variables moving_average_variables".split(),
                    "list[_t.Variable]"),
    **dict.fromkeys("meshgrid hessians unstack split".split(),
                    "list[_t.Tensor]"),
    **dict.fromkeys("get_collection get_collection_ref gradients".split(),
                    "list[_t.Any]"),
    **dict.fromkeys("moments weighted_moments".split(),
                    "_t.Tuple[_t.Tensor, _t.Tensor]"),
    "clip_by_global_norm": "_t.Tuple[list[_t.Any], _t.Tensor]",
    **dict.fromkeys("dynamic_rnn static_rnn bidirectional_dynamic_rnn".split(),
                    "_t.Tuple[_t.Any, _t.Any]"),
    "get_global_step": "_t.Variable | None",
    "get_default_graph": "_t.Graph", "as_dtype": "_t.DType",
    "get_default_session": "_t.Session | None",
    **dict.fromkeys("device control_dependencies colocate_with container "
                    "init_scope".split(), "_t.ContextManager[_t.Any]")}

_RAW_OPS = '''"""Every op. Generated by gen_stubs.py: do not edit."""

from sluice._stubs import _types as _t

'''

# In a separate module, because the package has names such as `bool` and `Any`.
_TYPES = '''import builtins
from typing import (
    Any as Any, Callable as Callable, ContextManager as ContextManager,
    NamedTuple as NamedTuple, Protocol, Sequence as Sequence, Tuple as Tuple)

from sluice._stubs._classes import (
    Dimension as Dimension, DType as DType, Graph as Graph,
    IndexedSlices as IndexedSlices,
    Operation as Operation, PartitionedVariable as PartitionedVariable,
    Session as Session, SparseTensor as SparseTensor, Tensor as Tensor,
    TensorShape as TensorShape, Variable as Variable)

class Array(Protocol):
    def __array__(self) -> Any: ...

Bool = builtins.bool
Int = builtins.int
Float = builtins.float
Str = builtins.str
Text = builtins.str | builtins.bytes
TensorLike = (
    Tensor | Variable | PartitionedVariable | IndexedSlices | Array | complex |
    str | bytes | TensorShape | Dimension | Sequence[Any])
TensorsLike = Sequence[TensorLike]
DTypeLike = DType | str | type | int
ShapeLike = TensorShape | Sequence[int | Dimension | None] | int | None
AnyShapeLike = ShapeLike | TensorLike
AxisLike = int | Sequence[int] | Tensor | None
'''

_HEAD = '''from sluice import raw_ops as _raw
from sluice._stubs import _classes as _c, _types as _t

'''


def parameter_type(p):
    """Returns the type of a parameter, given its name and default."""
    if isinstance(p.default, bool):
        return "_t.Bool"
    kind = _PARAMETERS.get(p.name)
    if kind is None or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        return "_t.Any"
    if p.default is None and "None" not in kind:
        return f"_t.{kind} | None"
    return "_t." + kind


def function_stub(name, function, result=None, bound=False):
    """Returns the stub of a function or (if `bound`) a method.

    It uses the parameters' names and the source.
    """
    parts, star = [], False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or p.kind is p.VAR_POSITIONAL
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else " = ..."
        kind = "" if bound and not parts else ": " + parameter_type(p)
        parts.append(f"{prefix}{p.name}{kind}{default}")
    result = result or qualified(result_types.annotation(function))
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


CLASSES = class_stubs.Classes(function_stub)


def entry(name, module, there):
    """Returns the line for a public name and its location."""
    module = importlib.import_module(module)
    value = getattr(module, there)
    if hasattr(value, "_parameters"):
        return stub(name, value)
    if class_stubs.is_ours(value):
        return f"{name} = _c.{CLASSES.name(value)}"
    if isinstance(value, types.FunctionType):
        return function_stub(name, value, _RESULTS.get(there))
    return (f"{name}: _t."
            f"{'DType' if isinstance(value, dtypes.DType) else 'Any'}")


def names_of(module):
    """Returns the names of a module in the form of a namespace."""
    module = importlib.import_module(module)
    return {name: (module.__name__, name) for name in dir(module)
            if not name.startswith("_") and not isinstance(
                getattr(module, name), types.ModuleType)}


def namespace(key, entries):
    """Returns the stub of a namespace ("nn", or "" for the package)."""
    lines = [entry(name, *where) for name, where in sorted(entries.items())]
    within = key + "." if key else ""
    for one in sorted({*names._GROUPS, *names._MODULES}):
        name = one[len(within):]
        if one.startswith(within) and name and "." not in name:
            at = "sluice" if one == "raw_ops" else f"sluice._stubs.{key}"
            lines.append(f"from {at.rstrip('.')} import {name} as {name}")
    return _HEAD + "\n".join(lines) + "\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_in(folder, text):
    """Writes the stub of a package."""
    os.makedirs(folder, exist_ok=True)
    write(f"{folder}/__init__.pyi", text)


def main():
    folder = sys.argv[1]
    write(f"{folder}/raw_ops.pyi", _RAW_OPS + "\n".join(
        outputs_stub(_core.op(n)) + stub(n, _core.op(n), "")
        for n in _core.op_names()))
    write(f"{folder}/__init__.pyi", namespace("", names.PUBLIC))
    write_in(f"{folder}/_stubs", "")
    write(f"{folder}/_stubs/_types.pyi", _TYPES)
    for cls in (partitioned.PartitionedVariable, session.Session):
        CLASSES.name(cls)
    spaces = {key: names_of(module) for key, module in names._MODULES.items()
              if key != "raw_ops"}
    for key, entries in {**spaces, **names._GROUPS}.items():
        write_in(f"{folder}/_stubs/{key.replace('.', '/')}",
                 namespace(key, entries))
    write_in(f"{folder}/_stubs/compat/v1", _HEAD + "\n".join(
        entry(name, *where)
        for name, where in sorted(names_of("sluice.compat.v1").items())
        if where[1] in vars(importlib.import_module(where[0]))) + "\n")
    write(f"{folder}/_stubs/_classes.pyi", CLASSES.text())


if __name__ == "__main__":
    main()
