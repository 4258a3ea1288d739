"""Replays recorded cases of single ops through the Python op functions.

    PYTHONPATH=build/release/python python3 python/tools/replay_ops.py FILE...

FILE is one of tests/cases/*_ops.txt; tests/cases/op_cases.py describes the
format. The exit status is 1 if any case differs. The tolerances exceed those of
the kernels, which src/ops tests. This program tests how arguments, dtypes,
feeds and fetches pass through Python.
"""

import os
import sys

import numpy as np

import sluice.compat.v1 as tf

# Tolerances relative to the largest element, by numpy type.
_OFF = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-6, "complex128": 1e-6,
        "float16": 0.02}
# Several vectors are correct results (src/ops/linalg/linalg_test.cc).
_FREE_VECTORS = ("SelfAdjointEigV2", "Svd")
_STORED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16",
           "quint16": "uint16", "qint32": "int32", "bfloat16": "float32"}


def _value(words):
    """Parses `DTYPE SHAPE VALUES...` to (dtype, value)."""
    dtype, shape = tf.as_dtype(words[0]), words[1][1:-1]
    shape = [int(d) for d in shape.split(",") if d]
    stored = _STORED.get(dtype.name, dtype.name)
    if stored == "string":
        made = np.empty(len(words) - 2, object)
        made[:] = [bytes.fromhex(w[1:]) for w in words[2:]]
    elif dtype.is_complex:
        made = np.array(words[2:], float).astype(
            np.dtype(stored).type(0).real.dtype).view(stored)
    elif stored in ("int64", "uint64"):  # Floats cannot represent all of them.
        made = np.array([int(w) for w in words[2:]], stored)
    else:
        made = np.array(words[2:], float).astype(stored)
    return dtype, made.reshape(shape)


def _shape(text):
    return [None if d == "-1" else int(d) for d in text.split(",") if d]


def _attr(text):
    kind, rest = text[0], text[1:]
    items = [item for item in rest.split(",") if item]
    return {
        "b": lambda: rest == "1", "i": lambda: int(rest),
        "f": lambda: float(rest), "s": lambda: rest,
        "x": lambda: bytes.fromhex(rest), "t": lambda: tf.as_dtype(rest),
        "p": lambda: _shape(rest),
        "P": lambda: [_shape(shape) for shape in rest.split(";")],
        "S": lambda: [bytes.fromhex(v) for v in rest.split(";") if rest],
        "y": lambda: [tf.as_dtype(d) for d in items],
        "F": lambda: [float(v) for v in items],
        "l": lambda: [int(v) for v in items]}[kind]()


class _Case:
    """A case: an op, its attributes and values.

    It also tells whether TensorFlow rejects it.
    """

    def __init__(self, line, words):
        self.line, self.op = line, words[0]
        self.attrs = {name: _attr(value) for name, value in (
            word.split("=", 1) for word in words[1:])}
        self.values = {"in": [], "out": [], "var": [], "now": []}
        self.refused = False
        self.by_reference = not any(word in self.op for word in (
            "Resource", "VariableOp", "VariableShape", "VarIsInitialized"))


def read_cases(path):
    """Reads the cases of a file."""
    cases = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            word, *rest = line.split()
            if word == "case":
                cases.append(_Case(number, rest))
            elif word == "error":
                cases[-1].refused = True
            else:
                cases[-1].values[word].append(_value(rest))
    return cases


def _arguments(op, tensors, attrs):
    """Returns the arguments of the op's function by name."""
    parameters = op._parameters()
    lists = [name for name, kind, *_ in parameters if kind == "tensors"]
    single = sum(kind == "tensor" for _, kind, *_ in parameters)
    rest, made = list(tensors), {}
    in_lists = len(tensors) - single
    # All lists have the same length unless the case gives the lengths: one for
    # all lists, or Nsparse for sparse_keys.
    each = attrs.get("N", in_lists // max(len(lists), 1))
    for name, kind, *_ in parameters:
        if kind == "tensor":
            made[name] = rest.pop(0)
        elif kind == "tensors":
            n = in_lists if name == lists[-1] else attrs.get(
                "N" + name.removesuffix("_keys"),
                attrs.get("N" + name.split("_")[0], each))
            made[name], rest = rest[:n], rest[n:]
            in_lists -= n
        elif name in attrs:
            made[name] = attrs[name]
    return made


def _differs(want, got, only_shape):
    """Returns "" if a value is as recorded, else the difference."""
    dtype, want = want
    got = np.asarray(got, object if want.dtype == object else None)
    if got.shape != want.shape or got.dtype != want.dtype:
        return (f"expected {want.dtype} {want.shape}, got {got.dtype} "
                f"{got.shape}")
    if only_shape:
        return ""
    off = 0.1 if dtype.name == "bfloat16" else _OFF.get(want.dtype.name)
    if off is None:
        same = np.array_equal(got, want)
    else:
        odd = ~np.isfinite(want)
        largest = np.abs(want[~odd]).max(initial=0)
        same = np.array_equal(got[odd], want[odd], equal_nan=True) and np.all(
            np.abs(got[~odd] - want[~odd]) <= off * largest + 1e-40)
    return "" if same else (
        f"expected {want.reshape(-1)[:6]}, got {got.reshape(-1)[:6]}")


def _run(case):
    """Runs a case; returns the results of its op and its variables."""
    op = getattr(tf.raw_ops, case.op)
    feeds = {tf.placeholder(dtype, value.shape): value
             for dtype, value in case.values["in"]}
    variables, starts = [], []
    for i, (dtype, value) in enumerate(case.values["var"]):
        kind = {"dtype": dtype, "shape": value.shape, "shared_name": f"v{i}"}
        start = tf.constant(value, dtype)
        if case.by_reference:
            variables.append(tf.raw_ops.VariableV2(**kind))
            starts.append(tf.raw_ops.Assign(variables[-1], start).op)
        else:
            variables.append(tf.raw_ops.VarHandleOp(**kind))
            starts.append(tf.raw_ops.AssignVariableOp(variables[-1], start))
    made = op(**_arguments(op, variables + list(feeds), case.attrs))
    outputs = tf.nest.flatten(made)
    node = outputs[0] if isinstance(outputs[0], tf.Operation) else (
        outputs[0].op)
    outputs = [t for t in node.outputs if not t.dtype._is_ref_dtype]
    with tf.Session() as session:
        session.run(starts)
        values = session.run([node] + outputs, feeds)[1:]
        return values + session.run([
            tf.raw_ops.Identity(v) if case.by_reference
            else tf.raw_ops.ReadVariableOp(v, dtype)
            for v, (dtype, _) in zip(variables, case.values["var"])])


def replay(case):
    """Returns the list of differences in a case."""
    where = f"{case.line}: {case.op}"
    try:
        with tf.Graph().as_default():
            got = _run(case)
    except (tf.errors.OpError, TypeError, ValueError) as e:
        if case.refused and not isinstance(e, tf.errors.InternalError):
            return []
        return [f"{where}: {type(e).__name__}: {e}"]
    if case.refused:
        return [f"{where}: expected an error, got {got}"]
    want = case.values["out"] + case.values["now"]
    if len(got) != len(want):
        return [f"{where}: expected {len(want)} values, got {len(got)}"]
    free = case.op in _FREE_VECTORS
    differ = [_differs(w, g, free and i > 0)
              for i, (w, g) in enumerate(zip(want, got))]
    return [f"{where}: {d}" for d in differ if d]


def main(paths):
    """Replays the cases of all files."""
    wrong = 0
    for path in paths:
        cases = read_cases(path)
        name, bad = os.path.basename(path), 0
        for case in cases:
            lines = replay(case)
            bad += bool(lines)
            for line in lines:
                print(f"{name}:{line}")
        print(f"{name}: {len(cases) - bad} of {len(cases)} cases as recorded")
        wrong += bad
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
