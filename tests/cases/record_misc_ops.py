#!/usr/bin/env python3
"""Records TensorFlow's results for edit distances and the random ops that draw
candidates or bounded numbers.

  record_misc_ops.py > misc_ops.txt     (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py. Each random case
has different seeds, because TensorFlow reuses the generator of equal nodes.
"""

import itertools

import numpy as np

from op_cases import case, tf

SEED = itertools.count(11)


ALL = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32,
       np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.complex64,
       np.complex128, np.bool_]

# ---- Edit distances


def distance(h, hv, hs, t, tv, ts, **kw):
    case("EditDistance",
         [("hypothesis_indices", np.array(h, np.int64).reshape(len(h), -1)
           if h else np.zeros((0, len(hs)), np.int64)),
          ("hypothesis_values", hv),
          ("hypothesis_shape", np.array(hs, np.int64)),
          ("truth_indices", np.array(t, np.int64).reshape(len(t), -1)
           if t else np.zeros((0, len(ts)), np.int64)),
          ("truth_values", tv), ("truth_shape", np.array(ts, np.int64))], **kw)


A = [[0, 0], [0, 1], [0, 2], [2, 0]]
B = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
for normalize in (True, False):
    for dtype in ALL:
        distance(A, np.array([1, 2, 3, 1], dtype), [3, 3],
                 B, np.array([1, 3, 1, 2, 0, 1], dtype), [3, 2],
                 normalize=normalize)
    distance(A, tf.constant(["a", "b", "c", "d"]), [3, 3], B,
             tf.constant(["a", "c", "x", "y", "z", "d"]), [4, 2],
             normalize=normalize)
    distance(A, np.array([1, 2, 3, 1]), [3, 3], [], np.array([], np.int64),
             [3, 2], normalize=normalize)
    distance([], np.array([], np.int64), [3, 3], B,
             np.array([1, 3, 1, 2, 0, 1]), [3, 2], normalize=normalize)
    distance([[0, 1, 0], [1, 0, 1]], np.array([1, 2]), [2, 2, 2],
             [[0, 1, 0], [1, 1, 1]], np.array([1, 2]), [2, 2, 2],
             normalize=normalize)
distance(A, np.array([1, 2, 3]), [3, 3], B, np.array([1, 3, 1, 2, 0, 1]),
         [3, 2])
distance(A, np.array([1, 2, 3, 1]), [3, 3, 1], B,
         np.array([1, 3, 1, 2, 0, 1]), [3, 2])
distance([[0], [1]], np.array([1, 2]), [3], [[0]], np.array([1]), [2])
distance([[5, 0]], np.array([1]), [3, 3], B, np.array([1, 3, 1, 2, 0, 1]),
         [3, 2])
distance([[-1, 0]], np.array([1]), [3, 3], B, np.array([1, 3, 1, 2, 0, 1]),
         [3, 2])

# ---- Candidates
TRUE = np.array([[1, 2], [0, 4], [3, 3]], np.int64)
for op in ("UniformCandidateSampler", "LogUniformCandidateSampler",
           "LearnedUnigramCandidateSampler"):
    for unique in (False, True):
        for n, most in ((4, 5), (5, 5), (3, 1000), (7, 64), (20, 100000)):
            case(op, [("true_classes", TRUE)], num_true=2, num_sampled=n,
                 unique=unique, range_max=most, seed=next(SEED), seed2=5)
    case(op, [("true_classes", TRUE)], num_true=2, num_sampled=6, unique=True,
         range_max=5, seed=next(SEED))
    case(op, [("true_classes", TRUE)], num_true=3, num_sampled=2, unique=True,
         range_max=5, seed=next(SEED))
    case(op, [("true_classes", TRUE)], num_true=2, num_sampled=2, unique=True,
         range_max=3, seed=next(SEED))
    case(op, [("true_classes", TRUE[0])], num_true=2, num_sampled=2,
         unique=True, range_max=5, seed=next(SEED))
    case(op, [("true_classes", -TRUE)], num_true=2, num_sampled=2,
         unique=True, range_max=5, seed=next(SEED))
    case(op, [("true_classes", TRUE[:0])], num_true=2, num_sampled=3,
         unique=True, range_max=5, seed=next(SEED))
for most in (0, -1):
    case("UniformCandidateSampler", [("true_classes", TRUE)], num_true=2,
         num_sampled=2, unique=False, range_max=most)
for n in (5, 7):
    case("AllCandidateSampler", [("true_classes", TRUE)], num_true=2,
         num_sampled=n, unique=True, seed=next(SEED))
case("AllCandidateSampler", [("true_classes", TRUE)], num_true=2,
     num_sampled=3, unique=True, seed=next(SEED))


def fixed(weights, **kw):
    kw = {**dict(num_true=2, num_sampled=4, unique=False, range_max=5,
                 seed2=3), **kw}
    case("FixedUnigramCandidateSampler", [("true_classes", TRUE)],
         unigrams=weights, seed=next(SEED), **kw)


W = [1., 4., 0.5, 2., 8.]
for unique in (False, True):
    fixed(W, unique=unique)
    fixed(W, unique=unique, distortion=0.75)
    fixed(W, unique=unique, distortion=0.0)
    fixed([2.] * 100, unique=unique, range_max=100, num_sampled=30)
    fixed(W[:3], unique=unique, num_reserved_ids=2, num_sampled=3)
    fixed(W * 2, unique=unique, num_shards=2, shard=1)
fixed(W, range_max=4)
fixed(W, range_max=6)
fixed(W, num_sampled=6, unique=True)

# ---- Gammas' derivatives, bounded normals
# (TensorFlow's floats underflow where its doubles do not.)
for dtype, n in ((np.float32, 4), (np.float64, 6)):
    alpha = np.array([[0.1], [0.7], [1], [2.5], [20], [500]], dtype)
    sample = np.array([0.01, 0.5, 1, 3, 20, 480], dtype)
    case("RandomGammaGrad", [("alpha", alpha[:n]), ("sample", sample[:n])])


def bounded(shape, means, stdevs, lows, highs, dtype=np.float32):
    case("ParameterizedTruncatedNormal",
         [("shape", np.array(shape, np.int32)),
          ("means", np.array(means, dtype)), ("stdevs", np.array(stdevs, dtype)),
          ("minvals", np.array(lows, dtype)),
          ("maxvals", np.array(highs, dtype))], seed=next(SEED), seed2=2)


INF = np.inf
for dtype in (np.float32, np.float64, np.float16):
    for low, high in ((-2, 2), (-1, 0.5), (-0.5, 0.5), (1, 2), (3, INF),
                      (-INF, -3), (-INF, 1), (4, 4.5), (-5, -4)):
        bounded([7], 0, 1, low, high, dtype)
        bounded([2, 3], [0.5, -1], [1, 2], low, high, dtype)
bounded([2, 3], 0, 1, [-1, 2], [1, 3])
bounded([3, 5, 2], 0, 1, -1, 1)
bounded([0, 5], 0, 1, -1, 1)
bounded([300], 0, 1, -1, 1)
bounded([2, 150], [0, 3], 1, -1, 1)
for wrong in (((2,), 0, 0, -1, 1), ((2,), 0, 1, 1, -1), ((2,), 0, 1, -INF, INF),
              ((2,), [0, 0, 0], 1, -1, 1), ((-2,), 0, 1, -1, 1),
              ((), 0, 1, -1, 1), ((2,), [[0]], 1, -1, 1), ((2,), 0, -1, -1, 1)):
    bounded(*wrong)
