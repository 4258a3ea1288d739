"""The ops of TensorFlow's graph tests: `tensorflow.python.framework.test_ops`.

Importing this module loads their library.
"""

import os

from sluice import _core
from sluice.framework import op_library
from sluice.framework.elements import Operation

_library = op_library.load_op_library(
    os.path.join(os.path.dirname(_core.__file__), "_test_ops.so"))


def __getattr__(name):
    return getattr(_library, name)


class _OpDefLibrary:
    """Makes operations by the names of their ops."""

    @staticmethod
    def apply_op(op_type_name, name=None, **keywords):
        """Makes an operation and returns its outputs.

        Names of arguments may end with an underscore. Empty lists of outputs
        are returned as lists.
        """
        try:
            op = _core.op(op_type_name)
        except AttributeError:
            raise RuntimeError(
                f"Unrecognized Op name {op_type_name}") from None
        known = {parameter[0] for parameter in op._parameters()}
        made = op(name=name, **{
            key if key in known else key.rstrip("_"): value
            for key, value in keywords.items()})
        outputs = op._outputs()
        if not outputs or not isinstance(made, Operation):
            return made
        return [] if len(outputs) == 1 else [[] for _ in outputs]


_op_def_lib = _OpDefLibrary()
