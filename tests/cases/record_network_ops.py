#!/usr/bin/env python3
"""Records TensorFlow's results for the ops of common networks (convolutions,
pooling, biases, losses) and for ops that no other recording has: shapes, joins,
strings, seeded random numbers.

  record_network_ops.py > network_ops.txt  (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import STRINGS, VALUES, call, old, tf, types

R = np.random.RandomState(20190321)
NAN, INF = np.nan, np.inf
F = np.float32


def x(dtype, *shape):
    t = tf.as_dtype(dtype)
    if t == tf.bool:
        return R.randint(0, 2, shape).astype(bool)
    a = np.asarray(R.randint(0 if t.is_unsigned else -4, 5, shape))
    if t.is_complex:
        a = a + 1j * R.randint(-4, 5, shape)
    return a.astype(dtype)


def i32(*v):
    return np.array(v, np.int32)


# ---- Convolutions
WINDOWS = [dict(strides=[1, 1, 1, 1], padding="SAME"),
           dict(strides=[1, 2, 2, 1], padding="SAME"),
           dict(strides=[1, 2, 1, 1], padding="VALID"),
           dict(strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 1, 1]),
           dict(strides=[1, 1, 2, 1], padding="EXPLICIT",
                explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0])]
for dtype, window in itertools.product(types("Conv2D"), WINDOWS):
    if dtype == np.int32 and window is not WINDOWS[1]:
        continue
    image, kernel = x(dtype, 2, 4, 5, 2), x(dtype, 3, 2, 2, 3)
    call("Conv2D", image, kernel, **window)
    if dtype == np.int32 or "dilations" in window:  # Forward only.
        continue
    dy = x(dtype, *tf.raw_ops.Conv2D(input=image, filter=kernel,
                                     **window).shape)
    call("Conv2DBackpropInput", i32(*image.shape), kernel, dy, **window)
    call("Conv2DBackpropFilter", image, i32(*kernel.shape), dy, **window)
PLAIN = dict(strides=[1, 1, 1, 1], padding="VALID")
for image, kernel in (((1, 4, 4, 4), (2, 2, 2, 2)), ((1, 4, 4, 3), (2, 2, 2, 2)),
                      ((0, 4, 4, 2), (2, 2, 2, 3)), ((1, 1, 4, 2), (2, 2, 2, 3)),
                      ((1, 4, 4, 2), (1, 1, 2, 3)), ((4, 4, 2), (1, 1, 2, 3))):
    call("Conv2D", x(F, *image), x(F, *kernel), **PLAIN)
call("Conv2D", x(F, 1, 2, 2, 1), x(F, 1, 1, 1, 1), strides=[2, 1, 1, 1],
     padding="VALID")

# ---- Pooling
for dtype, window in itertools.product(
        types("AvgPool"),
        (dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
         dict(ksize=[1, 3, 2, 1], strides=[1, 1, 2, 1], padding="VALID"),
         dict(ksize=[1, 2, 3, 1], strides=[1, 3, 1, 1], padding="SAME"))):
    image = x(dtype, 2, 5, 4, 2)
    call("AvgPool", image, **window)
    dy = x(dtype, *tf.raw_ops.AvgPool(value=image, **window).shape)
    call("AvgPoolGrad", i32(*image.shape), dy, **window)
for dtype, window in itertools.product(
        types("MaxPoolGrad"),
        (dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
         dict(ksize=[1, 3, 2, 1], strides=[1, 1, 2, 1], padding="VALID"))):
    image = x(dtype, 1, 5, 4, 2)  # With ties.
    y = tf.nn.max_pool2d(tf.cast(image, tf.float32), window["ksize"],
                         window["strides"], window["padding"])
    y = tf.cast(y, dtype).numpy()
    call("MaxPoolGrad", image, y, x(dtype, *y.shape), **window)
    call("MaxPoolGradGrad", image, y, x(dtype, *image.shape), **window)
    call("MaxPoolV2", image, i32(*window["ksize"]), i32(*window["strides"]),
         padding=window["padding"])
# Windows of channels, and of channels and pixels.
for ksize, strides, padding in itertools.product(
        ([1, 1, 1, 2], [1, 2, 2, 1], [1, 2, 1, 2]),
        ([1, 1, 1, 2], [1, 2, 1, 2], [1, 2, 2, 1], [1, 1, 1, 1]),
        ("SAME", "VALID")):
    window = dict(ksize=ksize, strides=strides, padding=padding)
    image = x(F, 1, 4, 2, 4)
    call("MaxPool", image, **window)
    call("MaxPoolV2", image, i32(*ksize), i32(*strides), padding=padding)
for dtype in types("MaxPool3DGrad"):
    for stride, padding in itertools.product((1, 2), ("SAME", "VALID")):
        window = dict(ksize=[1, 2, 2, 2, 1], padding=padding,
                      strides=[1, stride, stride, stride, 1])
        image = R.randint(0, 2, (1, 3, 3, 4, 2)).astype(dtype)  # Mostly ties.
        y = tf.raw_ops.MaxPool3D(input=image.astype(F), **window)
        y = y.numpy().astype(dtype)
        dy = x(dtype, *y.shape)
        call("MaxPool3DGrad", image, y, dy, **window)
        call("MaxPool3DGradGrad", image, y, x(dtype, *image.shape), **window)
near = F([1, 1 + 2e-6, 1 - 8e-6, 1 - 3e-5] * 2).reshape(1, 2, 2, 2, 1)
window = dict(ksize=[1, 2, 2, 2, 1], strides=[1, 1, 1, 1, 1], padding="VALID")
call("MaxPool3DGrad", near, near.max((1, 2, 3), keepdims=True),
     F([[[[[3]]]]]), **window)

# ---- Biases, probabilities, losses
for name, dtype in itertools.product(("BiasAdd", "BiasAddV1", "BiasAddGrad"),
                                     VALUES):
    dtype = dtype.as_numpy_dtype
    if dtype not in types(name):
        continue
    for shape, layout in (((2, 3), "NHWC"), ((2, 2, 1, 3), "NHWC"),
                          ((2, 3, 2, 2), "NCHW"), ((2, 3, 2), "NCHW")):
        more = {} if name == "BiasAddV1" else {"data_format": layout}
        if name == "BiasAddV1" and layout == "NCHW":
            continue
        if name == "BiasAddGrad":
            call(name, x(dtype, *shape), **more)
        else:
            call(name, x(dtype, *shape), x(dtype, 3), **more)
for name in ("BiasAdd", "BiasAddV1"):
    call(name, x(F, 2, 3), x(F, 2))
    call(name, x(F, 3), x(F, 3))
    call(name, x(F, 0, 3), x(F, 3))
call("BiasAddGrad", x(F, 3))
call("BiasAddGrad", x(F, 0, 3))
for name, dtype in itertools.product(("Softmax", "LogSoftmax"),
                                     types("Softmax")):
    call(name, x(dtype, 3, 5))
    call(name, x(dtype, 2, 1, 3))
    call(name, x(dtype, 4))
    call(name, x(dtype, 2, 0))
    call(name, np.array([[0, 88, -100, 60], [INF, 1, 2, 3], [-INF, 1, 0, 2],
                         [NAN, 1, 2, 3]]).astype(dtype))
for dtype in types("SoftmaxCrossEntropyWithLogits"):
    p = R.randint(1, 8, (2, 4))
    p = (p / p.sum(1, keepdims=True)).astype(dtype)
    call("SoftmaxCrossEntropyWithLogits", x(dtype, 2, 4), p)
    call("SoftmaxCrossEntropyWithLogits", x(dtype, 2, 4), p[:1])
    call("SoftmaxCrossEntropyWithLogits", x(dtype, 0, 4), x(dtype, 0, 4))
    for kind in (np.int32, np.int64):
        call("SparseSoftmaxCrossEntropyWithLogits", x(dtype, 3, 4),
             np.array([0, 3, 1], kind))
        call("SparseSoftmaxCrossEntropyWithLogits", x(dtype, 0, 4),
             np.array([], kind))
call("SoftmaxCrossEntropyWithLogits", x(F, 2, 4), x(F, 2, 3))
call("SoftmaxCrossEntropyWithLogits", F([[INF, 1], [1, 2]]), F([[1, 0], [0, 1]]))
call("SparseSoftmaxCrossEntropyWithLogits", x(F, 2, 4), i32(1, 2, 3))
call("SparseSoftmaxCrossEntropyWithLogits", x(F, 2, 4), i32(1, 4))

# ---- Shapes and joins
for dtype in VALUES:
    dtype = dtype.as_numpy_dtype
    for name in ("Concat",):
        call(name, np.int32(1), [x(dtype, 2, 1), x(dtype, 2, 3), x(dtype, 2, 0)])
    call("ParallelConcat", [x(dtype, 1, 2), x(dtype, 1, 2)], fresh=True,
         shape=tf.TensorShape([2, 2]))
    call("Empty", i32(2, 0), dtype=tf.as_dtype(dtype), init=True)
    call("Empty", i32(3), dtype=tf.as_dtype(dtype), init=True)
    call("InplaceSub", x(dtype, 3, 2), i32(2, 0), x(dtype, 2, 2))
    call("MatrixSetDiagV2", x(dtype, 2, 3), x(dtype, 2, 2), i32(-1, 0))
    call("MatrixSetDiagV2", x(dtype, 2, 2, 3), x(dtype, 2, 2), np.int32(1))
    call("ParallelDynamicStitch", [i32(0, 2), i32([1, 3])],
         [x(dtype, 2, 2), x(dtype, 1, 2, 2)])
    call("Rank", x(dtype, 2, 0, 1))
    for out in (tf.int32, tf.int64):
        call("Shape", x(dtype, 2, 0, 1), out_type=out)
        call("Size", x(dtype, 2, 3), out_type=out)
        call("ShapeN", [x(dtype, 2), x(dtype)], out_type=out)
for name in ("Rank", "Shape", "Size"):
    call(name, tf.constant([["a"], ["bc"]]))
    call(name, F(1))
call("Concat", np.int32(-1), [STRINGS[:, None], STRINGS[:, None]])
call("Concat", np.int32(2), [x(F, 2, 2), x(F, 2, 2)])
call("Concat", np.int32(0), [x(F, 2, 2), x(F, 2, 3)])
call("Empty", i32(-1), dtype=tf.float32, init=True)
call("Empty", i32(2), dtype=tf.string, init=True)
call("ParallelConcat", [STRINGS[:1], STRINGS[1:2]], fresh=True,
     shape=tf.TensorShape([2]))
for k, shape in (((-1, 0), (2,)), ((3, 3), (2,)), ((0, -1), (2, 2))):
    call("MatrixSetDiagV2", x(F, 2, 3), x(F, *shape), i32(*k))
call("ParallelDynamicStitch", [i32(0), i32(-1)], [x(F, 1, 2), x(F, 1, 2)])
call("ParallelDynamicStitch", [i32(0), i32(1)], [x(F, 1, 2), x(F, 1, 3)])

# ---- Strings
for dtype in types("AsString") + [np.bool_]:
    v = x(dtype, 4) if dtype == np.bool_ else (x(dtype, 4) * 3).astype(dtype)
    if tf.as_dtype(dtype).is_floating:
        v = np.array([0.1, -1.5, 1e9, 12345.678, 1e-9, NAN, INF, -INF, -0.],
                     np.float64).astype(dtype)
    for attrs in ({}, dict(width=6), dict(width=6, fill="0"),
                  dict(width=7, fill="-"), dict(width=7, fill="+"),
                  dict(width=7, fill=" "), dict(precision=2),
                  dict(scientific=True), dict(shortest=True),
                  dict(scientific=True, precision=1),
                  dict(scientific=True, shortest=True),
                  dict(precision=3, width=9, fill="0")):
        call("AsString", v, **attrs)
call("AsString", STRINGS)
call("AsString", STRINGS, width=5)
call("AsString", F(1), fill="xy")
call("StringJoin", [STRINGS, tf.constant("-"), STRINGS], separator="")
call("StringJoin", [STRINGS], separator=", ")
call("StringJoin", [STRINGS, STRINGS], separator=", ")
call("StringJoin", [STRINGS[:0], tf.constant("a")])
call("StringJoin", [STRINGS, STRINGS[:2]])
call("StringJoin", [tf.constant("a"), tf.constant("b")], separator="--")
for text in ('{"features": {"feature": {"a": {"int64List": {"value": ["1", 2]}}}}}',
             '{"features": {"feature": {"a": {"bytesList": {"value": ["YWI="]}}}}}',
             '{"features": {"feature": {"a": {"floatList": {"value": [1.5]}}}}}',
             '{}', '{', '[1]'):
    call("DecodeJSONExample", tf.constant([text]))

# ---- Random numbers, by seeds
SEED = itertools.count(3)


def seeds():
    return dict(seed=next(SEED), seed2=next(SEED))


for name in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    for dtype in types(name, "dtype"):
        for shape in ((7,), (2, 0), ()):
            call(name, np.array(shape, np.int32), fresh=True,
                 dtype=tf.as_dtype(dtype), **seeds())
    call(name, np.int64([3, 2]), fresh=True, dtype=tf.float32, **seeds())
    call(name, i32(-1), fresh=True, dtype=tf.float32, **seeds())
for kind in (np.int32, np.int64):
    call("RandomUniformInt", i32(9), kind(-5), kind(60), fresh=True, **seeds())
    call("RandomUniformInt", i32(2), kind(5), kind(5), fresh=True, **seeds())
    call("Multinomial", F([[0, 1, 2], [3, -INF, 3]]), np.int32(5), fresh=True,
         output_dtype=tf.as_dtype(kind), **seeds())
for dtype in types("Multinomial"):
    call("Multinomial", np.abs(x(dtype, 2, 3)), np.int32(4), fresh=True,
         **seeds())
for dtype in types("RandomGamma"):
    call("RandomGamma", i32(3), np.array([.25, 1, 4.5], dtype), fresh=True,
         **seeds())
    call("RandomGamma", i32(), np.array(2, dtype), fresh=True, **seeds())
for rate, out in itertools.product(types("RandomPoissonV2", "R"),
                                   types("RandomPoissonV2", "dtype")):
    call("RandomPoissonV2", i32(3), np.array([1, 4, 30], rate), fresh=True,
         dtype=tf.as_dtype(out), **seeds())
for dtype in VALUES:
    call("RandomShuffle", x(dtype.as_numpy_dtype, 5, 2), fresh=True, **seeds())
call("RandomShuffle", STRINGS, fresh=True, **seeds())
call("RandomShuffle", x(F, 0, 3), fresh=True, **seeds())
call("RandomShuffle", F(3), fresh=True, **seeds())
call("ComputeAccidentalHits", np.int64([[1, 2], [3, 1]]), np.int64([5, 1, 3, 1]),
     num_true=2)
call("ComputeAccidentalHits", np.int64([[1], [3]]), np.int64([7, 8]), num_true=1)
call("ComputeAccidentalHits", np.int64([[1], [3]]), np.int64([7, 8]), num_true=2)
call("ThreadUnsafeUnigramCandidateSampler", np.int64([[1, 2]]), fresh=True,
     num_true=2, num_sampled=4, unique=True, range_max=9, **seeds())
call("ThreadUnsafeUnigramCandidateSampler", np.int64([[1], [4]]), fresh=True,
     num_true=1, num_sampled=4, unique=False, range_max=9, **seeds())
call("StatelessRandomGetAlg")
for seed in (i32(1, 2), np.int64([-7, 1 << 40])):
    call("StatelessRandomGetKeyCounter", seed)
    call("StatelessRandomGetKeyCounterAlg", seed)
KEY, COUNTER = np.uint64([0x1234567890ABCDEF]), np.uint64([5, 1 << 63])
for name in ("StatelessRandomUniformV2", "StatelessRandomNormalV2",
             "StatelessTruncatedNormalV2"):
    for dtype in types(name, "dtype"):
        call(name, i32(2, 3), KEY, COUNTER, np.int32(1),
             dtype=tf.as_dtype(dtype))
    call(name, i32(2), KEY, COUNTER, np.int32(7), dtype=tf.float32)
    call(name, i32(0), KEY, COUNTER, np.int32(1), dtype=tf.float32)
for dtype in types("StatelessRandomUniformIntV2", "dtype"):
    call("StatelessRandomUniformIntV2", i32(5), KEY, COUNTER, np.int32(1),
         dtype(2), dtype(50))
    call("StatelessRandomUniformIntV2", i32(5), KEY, COUNTER, np.int32(1),
         dtype(2), dtype(2))

# ---- Ops of old graphs
for dtype in types("BatchNormWithGlobalNormalization"):
    for scale in (False, True):
        old("BatchNormWithGlobalNormalization", x(dtype, 1, 2, 3, 2),
            x(dtype, 2), np.abs(x(dtype, 2)), x(dtype, 2), x(dtype, 2),
            variance_epsilon=.25, scale_after_normalization=scale)
for dtype in types("MatrixExponential"):
    old("MatrixExponential", x(dtype, 2, 3, 3))
for dtype in types("RandomCrop"):
    old("RandomCrop", x(dtype, 4, 5, 2), np.int64([2, 3]), **seeds())
old("RandomCrop", x(F, 2, 2, 2), np.int64([3, 1]), **seeds())

# ---- Boundary sizes and values
for name in ("FractionalMaxPool", "FractionalAvgPool"):
    call(name, x(F, 1, 6, 7, 1), pooling_ratio=[1., 1.2, 1.4, 1.],
         deterministic=True, **seeds())
for value in (np.int32([-3, 42]), F([1.5, INF])):
    for fill in ("#", "0", "-", "+", " ", "x"):
        call("AsString", value, width=9, fill=fill)
for dtype in types("RandomGamma"):
    call("RandomGamma", i32(2), np.array([INF, NAN, 0, -1], dtype), fresh=True,
         **seeds())
for training in (False, True):
    call("FusedBatchNormGradV3", x(F, 0, 2, 3, 2), x(F, 0, 2, 3, 2), F([1, 2]),
         F([NAN, 0]), F([NAN, 1]), F([0, 0]), is_training=training)
call("FractionalMaxPool", x(F, 1, 6, 7, 1), pooling_ratio=[1., 1.2, 1.4, 1.],
     **seeds())
CENTRES = F([.1, .3, .5, .7, .9, 2.5, 5.5])  # Centres of steps: ties.
for lowest, highest in ((0., 1.), (0., 6.), (-1., 1.), (-.3, .7)):
    call("FakeQuantWithMinMaxArgs", CENTRES, min=lowest, max=highest)
    call("FakeQuantWithMinMaxVars", CENTRES, F(lowest), F(highest))
    call("FakeQuantWithMinMaxVarsPerChannel", CENTRES[:, None], F([lowest]),
         F([highest]))
for dtype in types("Digamma"):
    call("Digamma", np.array([-1e-3, -1e-5, -6e-8, -1.25, -2.001], dtype))
for dtype in (F, np.float64):
    call("Digamma", np.array([-1e-12, -1e-16, -1e-20, -20.000002], dtype))
for k in ([0, 2], [-2, 0], [-2, -1]):
    call("MatrixDiagV3", x(F, 2, k[1] - k[0] + 1, 2), i32(*k), i32(-1)[0],
         i32(-1)[0], F(9))
for name in ("SparseSegmentSum", "SparseSegmentMean"):
    call(name, x(F, 3, 2), i32(0, 1), i32(0, 2**31 - 1))
for dtype, window in itertools.product(
        (F, np.int32),  # Same kernels as MaxPoolGrad.
        (([1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
         ([1, 3, 2, 1], [1, 1, 2, 1], "VALID"))):
    ksize, strides, padding = window
    image = x(dtype, 1, 5, 4, 2)  # With ties.
    y = tf.cast(tf.nn.max_pool2d(tf.cast(image, tf.float32), *window),
                dtype).numpy()
    call("MaxPoolGradV2", image, y, x(dtype, *y.shape), i32(*ksize),
         i32(*strides), padding=padding)
    call("MaxPoolGradGradV2", image, y, x(dtype, *image.shape), i32(*ksize),
         i32(*strides), padding=padding)
