"""Support of `inspect`, `help` and `pickle` for op functions."""

import inspect
import typing

from sluice import _core
from sluice.framework.dtypes import DType
from sluice.framework.elements import Operation, Tensor
from sluice.framework.tensor_shape import TensorShape

_KINDS = {"tensor": Tensor, "tensors": list[Tensor], "int": int, "float": float,
          "bool": bool, "string": str, "type": DType, "shape": TensorShape,
          "tensor value": typing.Any, "function": typing.Any}


def _annotation(kind):
    if kind.startswith("list "):
        return list[_KINDS[kind[5:]]]
    return _KINDS[kind]


def make(*args):
    """Unpickles an op function without a public name."""
    return _core.op(*args)


def signature(op):
    """Returns the Signature of an op function."""
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=(inspect.Parameter.empty if not has_default else
                     default.decode() if isinstance(default, bytes) else
                     default),
            annotation=_annotation(kind))
        for name, kind, has_default, default in op._parameters()]
    parameters.append(inspect.Parameter(
        "name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None,
        annotation=typing.Optional[str]))
    outputs = op._outputs()
    result = (tuple if len(outputs) > 1 else Operation if not outputs else
              list[Tensor] if outputs[0][1] else Tensor)
    return inspect.Signature(parameters, return_annotation=result)
