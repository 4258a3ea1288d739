#!/usr/bin/env python3
"""Records TensorFlow's results for ops over many elements: reductions, scans,
positions, matrix products, histograms, largest elements.

  record_reduction_ops.py > reduction_ops.txt  (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import call, tf, types

R = np.random.RandomState(20190320)
NAN, INF = np.nan, np.inf


def x(dtype, *shape):
    """Sums and products of a few of these are exact."""
    t = tf.as_dtype(dtype)
    if t == tf.bool:
        return R.randint(0, 2, shape).astype(bool)
    a = np.asarray(R.randint(0 if t.is_unsigned else -4, 5, shape))
    if t.is_complex:
        a = a + 1j * R.randint(-4, 5, shape)
    return a.astype(dtype)


def i32(*v):
    return np.array(v, np.int32)


# ---- Reductions
for name in "Sum Mean Prod Max Min EuclideanNorm All Any".split():
    declared = [np.bool_] if name in ("All", "Any") else types(name)
    for dtype in declared:
        for axis, keep in ((i32(0), False), (i32(-1), True), (i32(0, 2), False),
                           (np.int64([1]), True), (i32(), False)):
            call(name, x(dtype, 2, 3, 2), axis, keep_dims=keep)
        if name != "EuclideanNorm" or dtype != np.int8:  # (It overflows.)
            call(name, x(dtype, 35), np.int32(0))
        call(name, np.zeros([2, 0, 3], dtype), i32(1))
        call(name, x(dtype), i32())
        if tf.as_dtype(dtype).is_floating:
            call(name, np.array([[NAN, 1, 2], [1, INF, NAN], [INF, -INF, 1],
                                 [-INF, 2, 3], [0., -0., 0]]).astype(dtype),
                 i32(1))
    dtype = declared[0]
    for axis in (i32(2), i32(-3), i32(0, 0), i32(0, -2)):
        call(name, x(dtype, 2, 3), axis)
    call(name, x(dtype, 2, 3), i32([0]), fresh=True)

# ---- Positions
for name in ("ArgMax", "ArgMin"):
    for dtype in types(name):
        for axis, out in ((np.int32(0), tf.int64), (np.int64(-1), tf.int32)):
            call(name, x(dtype, 3, 4), axis, output_type=out)
    for dtype in (np.float32, np.float64, np.float16):
        call(name, np.array([[1, NAN, 3, NAN], [INF, 1, INF, 2],
                             [-INF, -INF, NAN, 0], [NAN] * 4], dtype),
             np.int32(1))
    call(name, x(np.float32, 40), np.int32(0))
    for shape, axis in (((2, 3), 2), ((2, 3), -3), ((2, 0), 1), ((0, 2), 1),
                        ((), 0)):
        call(name, x(np.float32, *shape), np.int32(axis))

# ---- Scans
for name in ("Cumsum", "Cumprod", "CumulativeLogsumexp"):
    for dtype in types(name):
        for exclusive, reverse in itertools.product((False, True), repeat=2):
            call(name, x(dtype, 2, 4), np.int32(1 - exclusive),
                 exclusive=exclusive, reverse=reverse)
    for shape, axis in (((3,), -1), ((3,), 1), ((2, 0), 0), ((), 0)):
        call(name, x(np.float32, *shape), np.int32(axis))
    call(name, np.float32([1, INF, 2, NAN, 1]), np.int32(0))
    call(name, np.float32([-INF, -INF, 1, 1000, -1000]), np.int32(0))

# ---- Products of matrices
for name in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
    a_name, b_name = (("transpose_a", "transpose_b") if name == "MatMul" else
                      ("adj_x", "adj_y"))
    batch = () if name == "MatMul" else (2,)
    for dtype in types(name, "Ta" if name[-1] == "3" else "T"):
        more = {"Tout": tf.as_dtype(dtype)} if name[-1] == "3" else {}
        for ta, tb in itertools.product((False, True), repeat=2):
            call(name, x(dtype, *batch, *((3, 2) if ta else (2, 3))),
                 x(dtype, *batch, *((4, 3) if tb else (3, 4))),
                 **{a_name: ta, b_name: tb}, **more)
        call(name, x(dtype, *batch, 1, 17), x(dtype, *batch, 17, 1), **more)
        call(name, x(dtype, *batch, 2, 0), x(dtype, *batch, 0, 2), **more)
    more = {"Tout": tf.float32} if name[-1] == "3" else {}
    f = np.float32
    call(name, x(f, *batch, 0, 2), x(f, *batch, 2, 3), **more)
    call(name, x(f, *batch, 2, 3), x(f, *batch, 2, 3), **more)
    call(name, x(f, 3), x(f, 3), **more)
    call(name, x(f, 2, 1, 2, 3), x(f, 3, 3, 2), **more)
    call(name, x(f, 2, 2, 3), x(f, 3, 3, 2), **more)
    call(name, np.float32([[NAN, 0], [INF, 1]])[(None,) * len(batch)],
         np.float32([[0, 1], [1, 0]])[(None,) * len(batch)], **more)
for a, b in itertools.product(types("SparseMatMul", "Ta"), repeat=2):
    for ta, tb in ((False, False), (True, False), (False, True)):
        call("SparseMatMul", x(a, *((3, 2) if ta else (2, 3))),
             x(b, *((4, 3) if tb else (3, 4))), transpose_a=ta, transpose_b=tb,
             a_is_sparse=True)
call("SparseMatMul", x(np.float32, 2, 3), x(np.float32, 2, 3))

# ---- Bins
for dtype in types("Bucketize"):
    call("Bucketize", x(dtype, 3, 4), boundaries=[-2., 0., .5, 3.])
call("Bucketize", np.float32([NAN, INF, -INF, 0, -0.]), boundaries=[-1., 0., 1.])
call("Bucketize", np.float32([1, 2]), boundaries=[3., 1.])
call("Bucketize", x(np.float32, 0), boundaries=[1.])
for ids, dtype, binary in itertools.product(
        (np.int32, np.int64), types("DenseBincount"), (False, True)):
    call("DenseBincount", np.array([1, 3, 1, 0, 7], ids), ids(5),
         np.zeros([0], dtype) if binary else x(dtype, 5), binary_output=binary)
    call("DenseBincount", np.array([[1, 3, 1], [0, 7, 2]], ids), ids(4),
         np.zeros([0], dtype), binary_output=binary)
for ids, size in (([-1, 2], 3), ([1, 2], -1), ([], 2), ([1, 2], 0)):
    call("DenseBincount", i32(*ids), np.int32(size), np.float32([]))
for dtype, out in itertools.product(types("HistogramFixedWidth"),
                                    (tf.int32, tf.int64)):
    call("HistogramFixedWidth", x(dtype, 9), np.array([-2, 3], dtype),
         np.int32(5), dtype=out)
for span, n in (([0, 5], 0), ([5, 0], 3), ([1, 1], 3), ([0], 3)):
    call("HistogramFixedWidth", np.float32([-1, 0, 1, 2.5, 5, 9]),
         np.float32(span), np.int32(n))
call("HistogramFixedWidth", np.float32([INF, -INF, 1]), np.float32([0, 5]),
     np.int32(5))
for dtype in types("L2Loss"):
    call("L2Loss", x(dtype, 3, 4))
    call("L2Loss", x(dtype, 0))
    call("L2Loss", x(dtype))

# ---- The largest
for dtype in types("NthElement"):
    for n, reverse in itertools.product((0, 3), (False, True)):
        call("NthElement", x(dtype, 2, 4), np.int32(n), reverse=reverse)
for n in (4, -1):
    call("NthElement", x(np.float32, 2, 4), np.int32(n))
call("NthElement", np.float32(1), np.int32(0))
for dtype in types("TopKV2"):
    for k, ordered in ((0, True), (3, True), (5, True), (1, False), (3, False),
                       (5, False)):
        call("TopKV2", x(dtype, 2, 5), np.int32(k), sorted=ordered)
call("TopKV2", np.float32([1, 3, INF, -INF]), np.int32(2), sorted=True)
for n, k in ((40, 7), (100, 33), (64, 60)):
    call("TopKV2", R.permutation(n).astype(np.float32), np.int32(k),
         sorted=False)

# ---- Gradients of sums over rows that indices name
INDICES, SEGMENTS = [3, 0, 1, 1], [0, 0, 2, 2]
for kind, dtype, (ids, at) in itertools.product(
        ("Sum", "Mean", "SqrtN"), types("SparseSegmentSumGradV2"),
        itertools.product((np.int32, np.int64), repeat=2)):
    call("SparseSegment" + kind + "GradV2", x(dtype, 3, 2),
         np.array(INDICES, ids), np.array(SEGMENTS, at), np.int32(5))
for kind in ("Sum", "Mean", "SqrtN"):
    for rows, segments, n in ((INDICES, [0, 0, 2], 5), (INDICES, SEGMENTS, 2),
                              (INDICES, [0, 0, 3, 3], 5), ([], [], 5)):
        call("SparseSegment" + kind + "GradV2", x(np.float32, 3, 2),
             i32(*rows), i32(*segments), np.int32(n))
