"""Shared by the recorders of op cases: runs one op in TensorFlow, as text.

A case is `case OP ATTR...`, a line `in DTYPE SHAPE VALUES...` for each input,
and `out ...` for each output, or `error` where TensorFlow fails. Lists of
inputs are written one after the other. Inputs that are variables are `var ...`
with the value before the op and, after the outputs, `now ...` with the value
after it. src/ops/array_test_util.h reads it.
"""

import inspect
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402

NAMES = {"float32": "float", "float64": "double", "float16": "half",
         "object": "string"}
VALUES = [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16,
          tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool,
          tf.complex64, tf.complex128]
STRINGS = np.array([b"a", b"", b"\xc3\xa9t\x00", b"long one"], object)
NO_KERNEL = "No OpKernel was registered"  # A session's error.
# Storage types of quantized elements.
STORED = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16,
          tf.quint16: tf.uint16, tf.qint32: tf.int32}


def text(v):
    if isinstance(v, (bytes, str)):
        v = v.encode() if isinstance(v, str) else v
        return "'" + v.hex()
    if isinstance(v, (bool, np.bool_)):
        return "1" if v else "0"
    if isinstance(v, (complex, np.complexfloating)):
        return text(v.real) + " " + text(v.imag)
    if isinstance(v, np.floating):
        v = str(v)  # The shortest text that reads back.
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
    if isinstance(v, tf.TensorShape):
        return "p" + ",".join("-1" if d is None else str(d) for d in v)
    if isinstance(v, tuple) or (
            isinstance(v, list) and v and isinstance(v[0], tf.DType)):
        return "y" + ",".join(d.name for d in v)  # (A tuple may be empty.)
    if isinstance(v, list) and v and isinstance(v[0], tf.TensorShape):
        return "P" + ";".join(attr(s)[1:] for s in v)
    if isinstance(v, list) and v and isinstance(v[0], str):
        return "S" + ";".join(s.encode().hex() for s in v)
    if isinstance(v, list) and v and isinstance(v[0], float):
        return "F" + ",".join(map(repr, v))
    if isinstance(v, list):
        return "l" + ",".join(map(str, v))
    raise TypeError(v)


def types(op, attr="T"):
    """The dtypes that TensorFlow declares and VALUES contains."""
    declared = op_def_registry.get(op)
    allowed = [t for a in declared.attr if a.name == attr
               for t in a.allowed_values.list.type]
    return [t.as_numpy_dtype for t in map(tf.as_dtype, allowed)
            if t in VALUES] if allowed else [t.as_numpy_dtype for t in VALUES]


def call(op, *values, **attrs):
    """A case, its inputs in the order of their declaration."""
    names = inspect.signature(getattr(tf.raw_ops, op)).parameters
    case(op, list(zip(names, values)), **attrs)


def in_graph(run, kwargs, attrs):
    """The op's results in a new session: some ops are rewritten only in graphs,
    and random ones restart there."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = tf.nest.flatten(run(**tf.nest.map_structure(
            lambda t: tf.constant(t.numpy(), t.dtype), kwargs), **attrs))
        values = session.run(made)
    return [tf.constant(v, t.dtype) for t, v in zip(made, values)]


def case(op, inputs, fresh=False, **attrs):
    """`inputs`: pairs (argument, value); a list is a list of inputs. `fresh`:
    run in a new graph."""
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
    # Before the op runs, because some ops write to their input.
    inputs_text = [tensor("in", t) for t in tensors]
    run = getattr(tf.raw_ops, op)
    taken = inspect.signature(run).parameters
    kept = {k: v for k, v in attrs.items() if k in taken}
    try:
        if fresh:
            out = in_graph(run, kwargs, kept)
        else:
            out = run(**kwargs, **kept)
    except (tf.errors.NotFoundError, tf.errors.UnimplementedError):
        return  # TensorFlow has no kernel for the type.
    except (tf.errors.OpError, ValueError) as e:
        if NO_KERNEL in str(e):
            return
        out = None
    print("case", op, *[k + "=" + attr(v) for k, v in attrs.items()])
    for line in inputs_text:
        print(line)
    if out is None:
        print("error")
        return
    for t in tf.nest.flatten(out):
        print(tensor("out", t))


def old(op, *values, **attrs):
    """A case of an op that new graphs cannot contain."""
    graph = tf.compat.v1.GraphDef()
    graph.versions.producer = 2
    node = graph.node.add(name="old", op=op)
    for k, v in attrs.items():
        setattr(node.attr[k], attr(v)[0], v)
    values = [tf.constant(v) for v in values]
    for arg, v in zip(op_def_registry.get(op).input_arg, values):
        made = graph.node.add(name=arg.name, op="Placeholder")
        made.attr["dtype"].type = v.dtype.as_datatype_enum
        node.input.append(arg.name)
        if arg.type_attr:
            node.attr[arg.type_attr].type = v.dtype.as_datatype_enum
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        try:
            tf.import_graph_def(graph, name="")
            made = session.graph.get_operation_by_name("old").outputs
            found = session.run(made, {
                n + ":0": v.numpy() for n, v in zip(node.input, values)})
            out = [(v, t.dtype) for t, v in zip(made, found)]
        except (tf.errors.OpError, ValueError) as e:
            if NO_KERNEL in str(e):
                return
            out = []
    print("case", op, *[k + "=" + attr(v) for k, v in attrs.items()])
    for v in values:
        print(tensor("in", v))
    for v, dtype in out:
        print(tensor("out", tf.constant(v, dtype)))
    if not out:
        print("error")


def on_variables(op, variables, *values, **attrs):
    """A case of an op whose first inputs are variables."""
    run = getattr(tf.raw_ops, op)
    names = inspect.signature(run).parameters
    resource = op_def_registry.get(op).input_arg[0].type == tf.resource
    found = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        handles, starts = [], []
        for i, v in enumerate(map(tf.constant, variables)):
            kind = dict(dtype=v.dtype, shape=v.shape, shared_name="v%d" % i)
            if resource:
                handles.append(tf.raw_ops.VarHandleOp(**kind))
                starts.append(tf.raw_ops.AssignVariableOp(
                    resource=handles[-1], value=v))
            else:
                handles.append(tf.raw_ops.VariableV2(**kind))
                starts.append(tf.raw_ops.Assign(ref=handles[-1], value=v).op)
        reads = [tf.raw_ops.ReadVariableOp(resource=h, dtype=v.dtype)
                 if resource else tf.raw_ops.Identity(input=h)
                 for h, v in zip(handles, variables)]
        try:
            made = run(**dict(zip(names, handles + list(values))), **attrs)
            made = getattr(made, "op", made)
            out = [t for t in made.outputs if not t.dtype._is_ref_dtype]
            session.run(starts)
            found = [("out", t.dtype, v)
                     for t, v in zip(out, session.run([made] + out)[1:])]
            found += [("now", t.dtype, v)
                      for t, v in zip(reads, session.run(reads))]
        except (tf.errors.OpError, ValueError) as e:
            if NO_KERNEL in str(e):
                return
    print("case", op, *[k + "=" + attr(v) for k, v in attrs.items()])
    for word, all_of in (("var", variables), ("in", values)):
        for v in all_of:
            print(tensor(word, tf.constant(v)))
    for word, dtype, v in found:
        print(tensor(word, tf.constant(v, dtype)))
    if not found:
        print("error")
