"""What the recorders of op cases share: one op run by TensorFlow, in text.

A case is `case OP ATTR...`, a line `in DTYPE SHAPE VALUES...` for each input,
and `out ...` for each output, or `error` where TensorFlow refuses. Lists of
inputs are written one after the other. src/ops/array_test_util.h reads it.
"""

import inspect
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

NAMES = {"float32": "float", "float64": "double", "float16": "half",
         "object": "string"}
# What quantised elements are in memory.
STORED = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16,
          tf.quint16: tf.uint16, tf.qint32: tf.int32}


def text(v):
    if isinstance(v, (bytes, str)):
        v = v.encode() if isinstance(v, str) else v
        return "'" + v.hex()
    if isinstance(v, (bool, np.bool_)):
        return "1" if v else "0"
    if isinstance(v, (complex, np.complexfloating)):
        return repr(float(v.real)) + " " + repr(float(v.imag))
    if isinstance(v, np.floating):
        v = str(v)  # As few digits as tell it from its neighbours.
        return v[:-2] if v.endswith(".0") else v
    if isinstance(v, float):
        return repr(v)
    return str(int(v))


def tensor(word, t):
    """One line of the record."""
    kind = t.dtype
    if kind in STORED:
        t = tf.bitcast(t, STORED[kind])
    a = t.numpy() if hasattr(t, "numpy") else np.asarray(t)
    if isinstance(a, (bytes, str)):
        a = np.asarray(a, dtype=object)
    if t.dtype == tf.bfloat16:
        name, a = "bfloat16", a.astype(np.float32)
    elif kind in STORED:
        name = kind.name
    else:
        name = NAMES.get(a.dtype.name, a.dtype.name)
    shape = "[" + ",".join(map(str, a.shape)) + "]"
    return " ".join([word, name, shape] + [text(v) for v in a.ravel()])


def attr(v):
    if isinstance(v, bool):
        return "b" + str(int(v))
    if isinstance(v, int):
        return "i" + str(v)
    if isinstance(v, float):
        return "f" + repr(v)
    if isinstance(v, str):
        return "s" + v if v.isprintable() and " " not in v else (
            "x" + v.encode().hex())
    if isinstance(v, tf.DType):
        return "t" + v.name
    if isinstance(v, list) and v and isinstance(v[0], tf.DType):
        return "y" + ",".join(d.name for d in v)
    if isinstance(v, list) and v and isinstance(v[0], float):
        return "F" + ",".join(map(repr, v))
    if isinstance(v, list):
        return "l" + ",".join(map(str, v))
    raise TypeError(v)


def case(op, inputs, **attrs):
    """`inputs`: pairs (argument, value); a value that is a list is a list."""
    tensors, kwargs = [], {}
    for name, value in inputs:
        if isinstance(value, list):
            value = [v if isinstance(v, tf.Tensor) else tf.constant(v)
                     for v in value]
            tensors += value
        else:
            if not isinstance(value, tf.Tensor):
                value = tf.constant(value)
            tensors.append(value)
        kwargs[name] = value
    # Before the op runs: some write into their input.
    inputs_text = [tensor("in", t) for t in tensors]
    run = getattr(tf.raw_ops, op)
    taken = inspect.signature(run).parameters
    try:
        out = run(**kwargs, **{k: v for k, v in attrs.items() if k in taken})
    except (tf.errors.NotFoundError, tf.errors.UnimplementedError):
        return  # TensorFlow has no kernel for the type.
    except tf.errors.OpError:
        out = None
    print("case", op, *[k + "=" + attr(v) for k, v in attrs.items()])
    print(*inputs_text, sep="\n")
    if out is None:
        print("error")
        return
    for t in tf.nest.flatten(out):
        print(tensor("out", t))
