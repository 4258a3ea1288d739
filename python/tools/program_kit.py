"""Common parts of `graph_programs.py` and `flow_programs.py`."""

import numpy as np

# The programs of all imported modules by name. Each is a function from a
# library with TensorFlow 1's names to (fetches, feeds): a list of tensors, and
# a dict of arrays by placeholder.
PROGRAMS = {}

_rng = np.random.RandomState(7)
A = _rng.randn(4, 3).astype(np.float32)
B = _rng.randn(3, 5).astype(np.float32)
IMAGE = _rng.randn(2, 8, 8, 3).astype(np.float32)
SEQUENCE = _rng.randn(2, 5, 3).astype(np.float32)


def program(fn):
    PROGRAMS[fn.__name__] = fn
    return fn


def set_weights(tf, scale=0.1):
    """Returns operations that assign reproducible values to all variables."""
    ops = []
    for v in sorted(tf.global_variables(), key=lambda v: v.op.name):
        shape = v.shape.as_list()
        n = int(np.prod(shape))
        values = np.sin(np.arange(n) * 1.7 + len(shape)).reshape(shape)
        ops.append(tf.assign(v, (scale * values).astype(
            v.dtype.base_dtype.as_numpy_dtype)))
    return tf.group(*ops, name="set_weights")
