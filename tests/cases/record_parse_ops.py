#!/usr/bin/env python3
"""Records TensorFlow's results for the ops that parse Examples.

  record_parse_ops.py > parse_ops.txt     (needs TensorFlow)

src/ops/testing/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import struct

import numpy as np

from op_cases import case, tf

F, I, S = tf.float32, tf.int64, tf.string


def feature(v):
    kind, values = v
    if kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if kind == "i":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if kind == "b":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    return tf.train.Feature()


def features(values):
    return tf.train.Features(feature={k: feature(v) for k, v in values.items()})


def example(**values):
    return tf.train.Example(features=features(values)).SerializeToString(
        deterministic=True)


def sequence(context=None, **lists):
    return tf.train.SequenceExample(
        context=features(context or {}),
        feature_lists=tf.train.FeatureLists(feature_list={
            k: tf.train.FeatureList(feature=[feature(v) for v in frames])
            for k, frames in lists.items()})).SerializeToString(
                deterministic=True)


def strings(*v):
    return np.array(v, dtype=object)


def one(v):
    return np.array(v, dtype=object)


def values(t, *v):
    return tf.constant(v, t) if v else tf.constant([], t)


def v2(serialized, sparse=(), dense=(), ragged=(), names=()):
    """sparse: (key, type); dense: (key, default, shape); ragged: (key, type,
    splits)."""
    case("ParseExampleV2",
         [("serialized", serialized),
          ("names", names if isinstance(names, np.ndarray) else strings(*names)),
          ("sparse_keys", strings(*[k for k, _ in sparse])),
          ("dense_keys", strings(*[k for k, _, _ in dense])),
          ("ragged_keys", strings(*[k for k, _, _ in ragged])),
          ("dense_defaults", [d for _, d, _ in dense])],
         num_sparse=len(sparse), sparse_types=tuple(t for _, t in sparse),
         ragged_value_types=tuple(t for _, t, _ in ragged),
         ragged_split_types=tuple(s for _, _, s in ragged),
         dense_shapes=[tf.TensorShape(s) for _, _, s in dense],
         Tdense=tuple(d.dtype for _, d, _ in dense))


def v1(serialized, sparse=(), dense=(), names=()):
    case("ParseExample",
         [("serialized", serialized), ("names", strings(*names)),
          ("sparse_keys", [one(k) for k, _ in sparse]),
          ("dense_keys", [one(k) for k, _, _ in dense]),
          ("dense_defaults", [d for _, d, _ in dense])],
         Nsparse=len(sparse), Ndense=len(dense),
         sparse_types=tuple(t for _, t in sparse),
         Tdense=tuple(d.dtype for _, d, _ in dense),
         dense_shapes=[tf.TensorShape(s) for _, _, s in dense])


def single(serialized, sparse=(), dense=()):
    case("ParseSingleExample",
         [("serialized", serialized),
          ("dense_defaults", [d for _, d, _ in dense])],
         num_sparse=len(sparse), sparse_keys=[k for k, _ in sparse],
         dense_keys=[k for k, _, _ in dense],
         sparse_types=tuple(t for _, t in sparse),
         Tdense=tuple(d.dtype for _, d, _ in dense),
         dense_shapes=[tf.TensorShape(s) for _, _, s in dense])


def sequences(serialized, context_sparse=(), context_dense=(), sparse=(),
              dense=(), missing=(), names=()):
    """dense: (key, type, shape)."""
    case("ParseSequenceExample",
         [("serialized", serialized),
          ("debug_name", names if isinstance(names, np.ndarray)
           else strings(*names)),
          ("context_dense_defaults", [d for _, d, _ in context_dense])],
         feature_list_dense_missing_assumed_empty=list(missing),
         context_sparse_keys=[k for k, _ in context_sparse],
         context_dense_keys=[k for k, _, _ in context_dense],
         feature_list_sparse_keys=[k for k, _ in sparse],
         feature_list_dense_keys=[k for k, _, _ in dense],
         Ncontext_sparse=len(context_sparse), Ncontext_dense=len(context_dense),
         Nfeature_list_sparse=len(sparse), Nfeature_list_dense=len(dense),
         context_sparse_types=tuple(t for _, t in context_sparse),
         Tcontext_dense=tuple(d.dtype for _, d, _ in context_dense),
         context_dense_shapes=[tf.TensorShape(s) for _, _, s in context_dense],
         feature_list_sparse_types=tuple(t for _, t in sparse),
         feature_list_dense_types=tuple(t for _, t, _ in dense),
         feature_list_dense_shapes=[tf.TensorShape(s) for _, _, s in dense])


def one_sequence(serialized, context_sparse=(), context_dense=(), sparse=(),
                 dense=(), missing=(), name=""):
    """dense: (key, type, shape)."""
    case("ParseSingleSequenceExample",
         [("serialized", serialized),
          ("feature_list_dense_missing_assumed_empty", strings(*missing)),
          ("context_sparse_keys", [one(k) for k, _ in context_sparse]),
          ("context_dense_keys", [one(k) for k, _, _ in context_dense]),
          ("feature_list_sparse_keys", [one(k) for k, _ in sparse]),
          ("feature_list_dense_keys", [one(k) for k, _, _ in dense]),
          ("context_dense_defaults", [d for _, d, _ in context_dense]),
          ("debug_name", one(name))],
         Ncontext_sparse=len(context_sparse), Ncontext_dense=len(context_dense),
         Nfeature_list_sparse=len(sparse), Nfeature_list_dense=len(dense),
         context_sparse_types=tuple(t for _, t in context_sparse),
         Tcontext_dense=tuple(d.dtype for _, d, _ in context_dense),
         context_dense_shapes=[tf.TensorShape(s) for _, _, s in context_dense],
         feature_list_sparse_types=tuple(t for _, t in sparse),
         feature_list_dense_types=tuple(t for _, t, _ in dense),
         feature_list_dense_shapes=[tf.TensorShape(s) for _, _, s in dense])


A = example(x=("f", [1, 2]), s=("i", [3, -4, 5 << 40]), b=("b", [b"q", b""]))
B = example(x=("f", [5, 6]), s=("i", []))
EMPTY = example()
BATCH = strings(A, B, EMPTY)

# ---- Sparse and ragged
for serialized in (BATCH, strings(A), strings(), one(A), one(B), one(EMPTY)):
    v2(serialized, sparse=[("s", I), ("b", S), ("none", F)])
    v2(serialized, ragged=[("s", I, tf.int32), ("b", S, tf.int64)])
    v2(serialized, sparse=[("x", F)], ragged=[("s", I, tf.int64)],
       dense=[("b", values(S, b"z"), [None])])
v2(BATCH)
v1(BATCH, sparse=[("s", I), ("b", S)])
v1(strings(A), sparse=[("x", F)], dense=[("s", values(I, 1, 2, 3), [3])])
v1(one(A), sparse=[("x", F)])
single(one(A), sparse=[("s", I), ("b", S)])
single(one(A), sparse=[("z", S)], dense=[("x", values(F), [2]),
                                         ("d", values(I, 9), [1])])
single(one(EMPTY), dense=[("x", values(F), [2])])
single(strings(A), sparse=[("s", I)])

# ---- Dense
for serialized in (BATCH, strings(A, B), one(A), one(EMPTY), strings()):
    v2(serialized, dense=[("x", values(F), [2])])
    v2(serialized, dense=[("x", values(F, 8, 9), [2])])
    v2(serialized, dense=[("x", tf.constant([[8, 9]], F), [1, 2])])
    v2(serialized, dense=[("s", values(I, 7), [None])])
    v2(serialized, dense=[("x", values(F, 7), [None, 2])])
    v2(serialized, dense=[("x", values(F, 7), [None, 3])])
v2(BATCH, dense=[("b", tf.constant(b"d"), [])])
v2(strings(example(b=("b", [b"one"])), EMPTY), dense=[("b", tf.constant(b"d"), [])])
v2(strings(A), dense=[("x", values(F), [3])])
v2(strings(A), dense=[("x", values(I), [2])])
v2(strings(A), dense=[("x", values(F, 8), [2])])
v2(strings(A), dense=[("x", tf.constant([[8, 9]], F), [2])])
v2(strings(A), dense=[("s", values(I), [None])])
v2(strings(A), dense=[("s", values(I, 1, 2), [None])])
v2(strings(A), dense=[("s", tf.constant(1, I), [None])])
v1(strings(A, EMPTY), dense=[("x", values(F), [2])], names=["n1", "n2"])
v1(BATCH, dense=[("x", values(F, 1, 2), [2])])

# ---- Kinds
NONE = example(x=("", []))
v2(strings(NONE), sparse=[("x", I)])
v2(strings(NONE), dense=[("x", values(F, 1), [1])])
v2(strings(example(x=("f", []))), sparse=[("x", I)])
v2(strings(A), sparse=[("x", I)])
v2(strings(A), ragged=[("x", I, tf.int32)])
v2(strings(A, b"\xff\xff"), sparse=[("x", F)])
# (TensorFlow takes a message that ends early, and the second of two packed
# lists, for nothing; here they are an error and more values.)
v2(strings(A, B), sparse=[("x", F)], names=["n"])
v2(strings(A + B), sparse=[("x", F), ("b", S)])
v2(strings(b"\x50\x05" + A), sparse=[("x", F)])
v2(strings(b"\x53\x54" + A), sparse=[("x", F)])


# ---- Written by hand
def field(n, b):
    return bytes([n << 3 | 2, len(b)]) + b


def entry(key, value):
    return field(1, field(1, field(1, key) + field(2, value)))


def number(v):
    return struct.pack("<f", v)


for value in (
        field(2, b"\x0d" + number(3) + b"\x0d" + number(4)),  # Unpacked.
        field(2, b""), b"",
        field(3, b"\x08\x05\x08\x06"), field(3, field(1, b"\x05\x96\x01")),
        field(3, field(1, b"\xff" * 9 + b"\x01")),
        field(3, field(1, b"\xff" * 11 + b"\x01")),
        field(3, field(1, b"\xff"))):
    for t in (F, I):
        v2(strings(entry(b"x", value)), sparse=[("x", t)])

# ---- Sequences
ONE = sequence({"c": ("i", [1, 2]), "d": ("f", [1])},
               w=[("i", [1]), ("i", [2, 3]), ("i", [])],
               v=[("f", [1, 2]), ("f", [3, 4])])
TWO = sequence({"d": ("f", [2])}, v=[("f", [5, 6])])
for serialized in (strings(ONE, TWO), strings(TWO, ONE), one(ONE), one(TWO)):
    sequences(serialized, context_sparse=[("c", I)],
              context_dense=[("d", values(F), [1])],
              sparse=[("w", I), ("none", S)], dense=[("v", F, [2])])
    sequences(serialized, dense=[("v", F, [2]), ("z", S, [])], missing=["z"])
    sequences(serialized, context_dense=[("c", values(I, 5, 6), [2])])
    sequences(serialized, context_dense=[("c", values(I), [2])])
    sequences(serialized, dense=[("w", I, [1])])
sequences(strings(TWO), dense=[("w", I, [1])], names=["n"])
sequences(strings(ONE), context_dense=[("c", values(I, 5), [None])])
sequences(strings(ONE), dense=[("w", I, [None])])
sequences(strings(ONE), dense=[("w", F, [1])])
sequences(strings(ONE), sparse=[("w", F)])
sequences(strings(ONE, b"\xff"), sparse=[("w", I)])
sequences(strings(ONE, TWO), sparse=[("w", I)], names=["n"])
sequences(strings(sequence(w=[("", []), ("i", [1])])), sparse=[("w", I)])
sequences(strings(sequence(w=[("", []), ("i", [1])])), dense=[("w", I, [1])])
sequences(strings(sequence(w=[("b", [b"a"]), ("b", [b"bb"])]), sequence(w=[])),
          dense=[("w", S, [])])
sequences(strings(ONE + TWO), dense=[("v", F, [2])], context_sparse=[("d", F)])

# ---- One sequence
for serialized in (one(ONE), one(TWO)):
    one_sequence(serialized, context_sparse=[("c", I)],
                 context_dense=[("d", values(F), [1])],
                 sparse=[("w", I), ("none", S)], dense=[("v", F, [2])])
    one_sequence(serialized, dense=[("v", F, [2]), ("z", S, [])],
                 missing=["z"])
    one_sequence(serialized, context_dense=[("c", values(I, 5, 6), [2])])
    one_sequence(serialized, context_dense=[("c", values(I), [2])], name="n")
    one_sequence(serialized, dense=[("w", I, [1])])
one_sequence(strings(ONE), sparse=[("w", I)])
one_sequence(one(ONE), dense=[("w", F, [1])])
one_sequence(one(ONE), sparse=[("w", F)])
one_sequence(one(b"\xff"), sparse=[("w", I)])
one_sequence(one(sequence(w=[("b", [b"a"]), ("b", [b"bb"])])),
             dense=[("w", S, [])])
