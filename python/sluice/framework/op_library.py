"""Ops of shared libraries."""

import os
import types

from sluice import _core, names
from sluice.layers.base import _snake


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
    names._ops_by_name.cache_clear()
    stem = os.path.basename(path).partition(".")[0]
    made = types.ModuleType(stem, f"The ops of {path}.")
    for name in found:
        setattr(made, _snake(name), _core.op(name))
    return made
