#!/usr/bin/env python3
"""Records TensorFlow's results for arithmetic, segment sums, batch norms,
windows of images and stateless random numbers.

  record_math_ops.py > math_ops.txt     (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20180424)
BFLOAT16 = tf.bfloat16.as_numpy_dtype
FLOATS = [np.float32, np.float64, np.float16, BFLOAT16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
            np.uint32, np.uint64]
COMPLEX = [np.complex64, np.complex128]
NUMBERS = FLOATS + INTEGERS + COMPLEX
NAN, INF = np.nan, np.inf


def x(*shape, dtype=np.float32):
    """Sums of products of these are exact."""
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
    a = np.asarray(R.randint(low, 10, shape))
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * R.randint(-9, 10, shape)
    return a.astype(dtype)


def u(*shape, low=-1., high=1., dtype=np.float32):
    return (low + (high - low) * R.randint(0, 500, shape) / 500).astype(dtype)


def i32(*v):
    return np.array(v, np.int32)


# ---- Binary and unary
def two(op, dtypes, a="x", b="y", make=x):
    for dtype in dtypes:
        case(op, [(a, make(2, 1, 3, dtype=dtype)),
                  (b, make(4, 1, dtype=dtype))])
        case(op, [(a, make(3, dtype=dtype)), (b, make(dtype=dtype))])
    case(op, [(a, make(2, dtype=dtypes[0])), (b, make(3, dtype=dtypes[0]))])
    case(op, [(a, make(0, 3, dtype=dtypes[0])), (b, make(3, dtype=dtypes[0]))])


two("Add", NUMBERS)
two("SquaredDifference", FLOATS + COMPLEX + [np.int32, np.int64])
two("NextAfter", FLOATS[:2], "x1", "x2")
for op in ("Xlogy", "Xdivy", "Xlog1py", "MulNoNan", "DivNoNan"):
    two(op, FLOATS + COMPLEX,
        make=lambda *s, dtype: np.abs(x(*s, dtype=dtype)).astype(dtype))
    case(op, [("x", np.float32([0, 0, 0, 1, NAN, INF])),
              ("y", np.float32([0, NAN, -1, 0, 0, 0]))])
SPECIAL = [NAN, INF, -INF, 0., -0., 1e-7, 65504., -3.]
for op, dtype in itertools.product(("IsNan", "IsInf", "IsFinite"), FLOATS):
    case(op, [("x", np.array(SPECIAL).astype(dtype))])
    case(op, [("x", np.zeros([2, 0], dtype))])
for op, dtype in itertools.product(("Erfinv", "Ndtri"), FLOATS[:2]):
    case(op, [("x", np.array([0.5, 0.01, 0.97, 0, 1, 2, NAN], dtype))])

# ---- Special functions
for dtype in FLOATS[:2]:
    a, b = u(4, 1, low=0.2, high=9, dtype=dtype), u(5, low=0.1, high=9,
                                                    dtype=dtype)
    for op in ("Igamma", "Igammac", "IgammaGradA"):
        case(op, [("a", a), ("x", b)])
    case("Zeta", [("x", a + dtype(1.1)), ("q", b)])
    case("Polygamma", [("a", np.array([[0], [1], [2], [5]], dtype)), ("x", b)])
    case("Betainc", [("a", u(6, low=.3, high=9, dtype=dtype)),
                     ("b", u(6, low=.3, high=9, dtype=dtype)),
                     ("x", u(6, low=0, high=1, dtype=dtype))])
    case("Betainc", [("a", np.array(2, dtype)), ("b", np.array(3, dtype)),
                     ("x", np.array([0, .2, 1, NAN, -1, 2], dtype))])
    for op, names in (("Igamma", "ax"), ("Igammac", "ax"), ("Zeta", "xq")):
        case(op, [(names[0], np.array([.5, 2, 0, NAN, -1], dtype)),
                  (names[1], np.array([1e30, 0, 1, 1, 2], dtype))])
for op in ("Igamma", "Igammac"):
    case(op, [("a", np.array([.5, 1.5, 88.9])),
              ("x", np.array([1e160, 1e300, 1e308]))])
case("Zeta", [("x", np.array([1e300, 1000, 1e300, 710])),
              ("q", np.array([88.9, 88.9, 1.5, -88.9]))])

# ---- The largest
for dtype in FLOATS + INTEGERS:
    for k in (0, 1, 3, 5):
        case("TopKV2", [("input", x(2, 5, dtype=dtype)), ("k", np.int32(k))],
             sorted=True)
case("TopKV2", [("input", x(2, 5)), ("k", np.int32(6))], sorted=True)
case("TopKV2", [("input", x(2, 5)), ("k", np.int32(-1))], sorted=True)
case("TopKV2", [("input", np.float32(1)), ("k", np.int32(1))], sorted=True)
case("TopKV2", [("input", x(0, 5)), ("k", np.int32(2))], sorted=True)
case("InTopK", [("predictions", x(4, 6)), ("targets", i32(0, 5, 6, -1))], k=3)
case("InTopKV2", [("predictions", np.float32([[1, NAN, 2], [1, 3, 3]])),
                  ("targets", i32(2, 1)), ("k", np.int32(1))])

# ---- Sums of products
for equation, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bki", (2, 2, 3), (2, 3, 2)),
        ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ij->", (2, 3)),
        ("...ij,jk->...ik", (2, 2, 3), (3, 2)), ("i,j->ij", (3,), (2,)),
        ("abc,cd->abd", (2, 1, 3), (3, 2)), ("i,i->", (4,), (4,)),
        ("ij,jk->ik", (2, 3), (4, 2)), ("ij,k", (2, 3), (4,))):
    for dtype in (np.float32, np.float64, np.complex64):
        case("Einsum", [("inputs", [x(*s, dtype=dtype) for s in shapes])],
             equation=equation)

# ---- Segments
IDS = np.array([0, 0, 1, 3, 3], np.int32)
WILD = np.array([2, 0, -1, 2, 0], np.int64)
for kind in ("Sum", "Mean", "Prod", "Max", "Min"):
    real = FLOATS + INTEGERS
    types = real + (COMPLEX if kind in ("Sum", "Prod", "Mean") else [])
    for dtype in types:
        data = (x(5, 2, dtype=dtype) % 4).astype(dtype) if (
            kind == "Prod" and dtype not in COMPLEX) else x(5, 2, dtype=dtype)
        case("Segment" + kind, [("data", data), ("segment_ids", IDS)])
        if kind != "Mean":
            case("UnsortedSegment" + kind,
                 [("data", data), ("segment_ids", WILD),
                  ("num_segments", np.int32(4))])
    case("Segment" + kind, [("data", x(3, 0)), ("segment_ids", IDS[:3])])
    case("Segment" + kind, [("data", x(0, 2)), ("segment_ids", IDS[:0])])
    case("Segment" + kind, [("data", x(3)), ("segment_ids", i32(0, 1))])
    if kind != "Mean":
        case("UnsortedSegment" + kind,
             [("data", x(2, 2, 3)), ("segment_ids", i32([0, 3], [3, 1])),
              ("num_segments", np.int64(5))])
        for bad in (i32(0, 5), i32(0, 1, 1)):
            case("UnsortedSegment" + kind,
                 [("data", x(2, 3)), ("segment_ids", bad),
                  ("num_segments", np.int32(5))])
for kind, (ids, at) in itertools.product(
        ("Sum", "Mean", "SqrtN"), itertools.product((np.int32, np.int64),
                                                    repeat=2)):
    op = "SparseSegment" + kind
    indices, segments = np.array([3, 0, 1, 1], at), np.array([0, 0, 2, 2], ids)
    for dtype in FLOATS:
        data = x(4, 3, dtype=dtype)
        which = [("data", data), ("indices", indices),
                 ("segment_ids", segments)]
        case(op, which)
        case(op + "WithNumSegments", which + [("num_segments", np.int32(4))])
        case(op + "Grad", [("grad", x(3, 3, dtype=dtype)), which[1], which[2],
                           ("output_dim0", np.int32(5))])
    case(op, [("data", data), ("indices", indices + at(9)),
              ("segment_ids", segments)])
    case(op + "WithNumSegments", [("data", data), ("indices", indices),
                                  ("segment_ids", segments),
                                  ("num_segments", np.int32(2))])

# ---- Batch norms
VERSIONS = {"": [np.float32], "V2": FLOATS[:1] + FLOATS[2:],
            "V3": FLOATS[:1] + FLOATS[2:]}
for version, types in VERSIONS.items():
    for dtype, training in itertools.product(types, (True, False)):
        image, dy = u(2, 3, 2, 4, dtype=dtype), u(2, 3, 2, 4, dtype=dtype)
        scale, offset = u(4), u(4)
        mean, variance = u(4), u(4, low=0.5, high=2)
        attrs = dict(epsilon=0.01, is_training=training)
        none = np.zeros([0], np.float32)
        if training:  # (Else TensorFlow leaves two outputs unset.)
            case("FusedBatchNorm" + version,
                 [("x", image), ("scale", scale), ("offset", offset),
                  ("mean", none), ("variance", none)], **attrs)
            if version == "V3":
                case("FusedBatchNormV3",
                     [("x", image), ("scale", scale), ("offset", offset),
                      ("mean", mean), ("variance", variance)],
                     exponential_avg_factor=0.25, **attrs)
        reserve = [("reserve_space_1", mean), ("reserve_space_2", variance)]
        if version == "V3":
            reserve.append(("reserve_space_3", np.float32(0)))
        if training:
            m = image.astype(np.float64).mean((0, 1, 2))
            v = image.astype(np.float64).var((0, 1, 2))
            reserve[0] = ("reserve_space_1", m.astype(np.float32))
            reserve[1] = ("reserve_space_2", v.astype(np.float32))
        case("FusedBatchNormGrad" + version,
             [("y_backprop", dy), ("x", image), ("scale", scale)] + reserve,
             **attrs)

# ---- Normalisation across channels
for dtype in (np.float32, np.float16):
    for attrs in ({}, dict(depth_radius=1, bias=2., alpha=.5, beta=.75)):
        image = u(1, 2, 2, 5, dtype=dtype)
        case("LRN", [("input", image)], **attrs)
        y = tf.raw_ops.LRN(input=image, **attrs).numpy()
        case("LRNGrad", [("input_grads", u(1, 2, 2, 5, dtype=dtype)),
                         ("input_image", image), ("output_image", y)], **attrs)

# ---- Windows of images
for dtype, stride, padding in itertools.product(FLOATS, (1, 2),
                                                ("SAME", "VALID")):
    attrs = dict(strides=[1, stride, stride, 1], padding=padding)
    image, kernel = x(1, 4, 5, 2, dtype=dtype), x(2, 3, 2, 2, dtype=dtype)
    case("DepthwiseConv2dNative", [("input", image), ("filter", kernel)],
         **attrs)
    out = tf.raw_ops.DepthwiseConv2dNative(input=image, filter=kernel, **attrs)
    dy = x(*out.shape, dtype=dtype)
    case("DepthwiseConv2dNativeBackpropInput",
         [("input_sizes", i32(*image.shape)), ("filter", kernel),
          ("out_backprop", dy)], **attrs)
    case("DepthwiseConv2dNativeBackpropFilter",
         [("input", image), ("filter_sizes", i32(*kernel.shape)),
          ("out_backprop", dy)], **attrs)
for dtype, batch, index in itertools.product(
        FLOATS + INTEGERS, (False, True), (tf.int32, tf.int64)):
    attrs = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 1, 1], padding="SAME",
                 include_batch_in_index=batch, Targmax=index)
    image = R.permutation(48).reshape(2, 4, 3, 2).astype(dtype)
    case("MaxPoolWithArgmax", [("input", image)], **attrs)
    if index == tf.int64:
        _, at = tf.raw_ops.MaxPoolWithArgmax(input=image, **attrs)
        case("MaxPoolGradWithArgmax",
             [("input", image), ("grad", x(*at.shape, dtype=dtype)),
              ("argmax", at)], **attrs)
for dtype in FLOATS + INTEGERS[:6]:
    for k, padding in ((2, "SAME"), (3, "VALID"), (6, "SAME"), (4, "VALID")):
        sizes = [1, 1, 1, k]
        case("MaxPool", [("input", x(2, 1, 2, 6, dtype=dtype))], ksize=sizes,
             strides=sizes, padding=padding)
for dtype in FLOATS:
    odd = np.array([-INF, -INF, NAN, 1, 1, NAN, NAN, NAN]).astype(dtype)
    case("MaxPool", [("input", odd.reshape(1, 2, 2, 2))], ksize=[1, 1, 1, 2],
         strides=[1, 1, 1, 2], padding="SAME")
for ksize, strides in (([1, 1, 1, 2], [1, 1, 1, 1]), ([1, 2, 1, 2],) * 2,
                       ([1, 1, 1, 2], [1, 1, 1, 3])):
    case("MaxPool", [("input", x(2, 2, 2, 6))], ksize=ksize, strides=strides,
         padding="SAME")

# ---- Stateless random numbers
SEEDS = [np.array([1, 2], np.int32), np.array([-7, 1 << 40], np.int64)]
for seed, kind in itertools.product(
        SEEDS, (tf.float32, tf.float64, tf.float16, tf.bfloat16)):
    for op in ("StatelessRandomUniform", "StatelessRandomNormal",
               "StatelessTruncatedNormal"):
        case(op, [("shape", i32(2, 5)), ("seed", seed)], dtype=kind)
for seed, kind in itertools.product(SEEDS, (np.int32, np.int64)):
    case("StatelessRandomUniformInt",
         [("shape", i32(7)), ("seed", seed), ("minval", kind(-3)),
          ("maxval", kind(11))], dtype=tf.as_dtype(kind))
    case("StatelessMultinomial",
         [("logits", np.float32([[0, 1, 2], [3, -INF, 3]])),
          ("num_samples", np.int32(6)), ("seed", seed)],
         output_dtype=tf.as_dtype(kind))
case("StatelessRandomUniformInt",
     [("shape", i32(2)), ("seed", SEEDS[0]), ("minval", np.int32(3)),
      ("maxval", np.int32(3))], dtype=tf.int32)
case("StatelessRandomUniform", [("shape", i32(0, 3)), ("seed", SEEDS[0])],
     dtype=tf.float32)
case("StatelessRandomUniform", [("shape", i32(2)), ("seed", i32(1, 2, 3))],
     dtype=tf.float32)
