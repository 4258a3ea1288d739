#!/usr/bin/env python3
"""Writes raw_ops.pyi: every op's signature and documentation, from the registry.

  PYTHONPATH=build/release/python python3 python/tools/gen_stubs.py FILE
"""

import sys

from sluice import _core

_ANNOTATIONS = {
    "tensor": "TensorLike", "tensors": "Sequence[TensorLike]", "int": "int",
    "float": "float", "bool": "bool", "string": "str | bytes",
    "type": "DTypeLike", "shape": "ShapeLike", "tensor value": "Any",
    "function": "Any"}


def annotation(kind):
    if kind.startswith("list "):
        return f"Sequence[{_ANNOTATIONS[kind[5:]]}]"
    return _ANNOTATIONS[kind]


def stub(name):
    op = _core.op(name)
    params = []
    for parameter, kind, has_default, _ in op._parameters():
        params.append(f"{parameter}: {annotation(kind)}"
                      f"{' = ...' if has_default else ''}")
    params.append("name: str | None = ...")
    outputs = op._outputs()
    kinds = ["list[Tensor]" if is_list else "Tensor"
             for _, is_list in outputs]
    lines = []
    result = kinds[0] if len(kinds) == 1 else "Operation"
    if len(outputs) > 1:
        result = f"{name}Outputs"
        lines.append(f"class {result}(NamedTuple):")
        lines += [f"    {field}: {kind}"
                  for (field, _), kind in zip(outputs, kinds)]
        lines.append("")
    lines.append(f"def {name}({', '.join(params)}) -> {result}:")
    summary = op.__doc__.splitlines()[0].replace("\\", "\\\\")
    lines += [f'    """{summary}"""', ""]
    return "\n".join(lines)


def main():
    head = '''"""Every op. Generated from the op registry by gen_stubs.py: do not edit."""

from typing import Any, NamedTuple, Sequence

from sluice.framework.dtypes import DType
from sluice.framework.graph import Operation, Tensor
from sluice.framework.tensor_shape import TensorShape

TensorLike = Any
DTypeLike = DType | str | type | int
ShapeLike = TensorShape | Sequence[int | None] | int | None

'''
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(head + "\n".join(stub(n) for n in _core.op_names()))


if __name__ == "__main__":
    main()
