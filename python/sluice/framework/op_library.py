"""Ops of shared libraries."""

import os
import re
import types

from sluice import _core, name_lookup

# Where a word of an op's name begins, as TensorFlow has it.
_WORD = re.compile("(?<=[a-z])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])")


def _function_name(op):
    """The name of an op's function: "FFT2D" -> "fft2d", "RGB2Gray" ->
    "rgb2_gray"."""
    return _WORD.sub("_", op).lower()


def load_op_library(library_filename):
    """Loads a shared library that declares ops; a module of their functions.

        custom = tf.load_op_library("./custom_op.so")
        y = custom.backwards(x)  # Of the op Backwards.

    They are in `raw_ops` too then, by the ops' own names, and graphs that hold
    them can be imported. A library is loaded once; it is built against the
    Sluice that loads it.

    Raises:
      errors.NotFoundError: if it is no library, or needs what is not there.
      errors.AlreadyExistsError: if it declares an op that is there.
      errors.InvalidArgumentError: if it declares none, or one that makes no
        sense. In all these cases none of its ops is there.
    """
    path = os.fspath(library_filename)
    found = _core.load_op_library(path)
    name_lookup._ops_by_name.cache_clear()
    stem = os.path.basename(path).partition(".")[0]
    made = types.ModuleType(stem, f"The ops of {path}.")
    for name in found:
        setattr(made, _function_name(name), _core.op(name))
    return made
