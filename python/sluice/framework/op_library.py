"""Loading of ops from shared libraries."""

import os
import re
import types

from sluice import _core, name_lookup

# The start of a word in an op's name, by TensorFlow's rules.
_WORD = re.compile("(?<=[a-z])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])")


def _function_name(op):
    """Returns the function name of an op.

    For example "FFT2D" becomes "fft2d" and "RGB2Gray" becomes "rgb2_gray".
    """
    return _WORD.sub("_", op).lower()


def load_op_library(library_filename):
    """Loads a shared library of ops and returns a module of their functions.

        custom = tf.load_op_library("./custom_op.so")
        y = custom.backwards(x)  # The op Backwards.

    The ops are then also in `raw_ops` by their own names, and graphs that use
    them can be imported. Each library is loaded once. It must be built against
    the version of Sluice that loads it.

    Raises:
      errors.NotFoundError: if it is not a library, or a dependency is missing.
      errors.AlreadyExistsError: if it declares an op that exists.
      errors.InvalidArgumentError: if it declares no op or an invalid one. In
        all these cases no op is registered.
    """
    path = os.fspath(library_filename)
    found = _core.load_op_library(path)
    name_lookup._ops_by_name.cache_clear()
    stem = os.path.basename(path).partition(".")[0]
    made = types.ModuleType(stem, f"The ops of {path}.")
    for name in found:
        setattr(made, _function_name(name), _core.op(name))
    return made
