#!/usr/bin/env python3
"""Records TensorFlow's results for the ops on quantized tensors.

  record_quantized_ops.py > quantized_ops.txt     (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools
import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # It rounds differently.

import numpy as np  # noqa: E402

from op_cases import STORED, case, tf  # noqa: E402

R = np.random.RandomState(20171215)
TYPES = [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]
BYTES = [tf.qint8, tf.quint8]


def q(*shape, t=tf.quint8):
    kind = STORED[t]
    low, high = tf.as_dtype(kind).limits
    v = R.randint(low, high + 1, shape, dtype=np.int64)
    if t == tf.qint32:  # Its maximum is not a float.
        high = 1 << 30
    v = np.where(R.randint(0, 6, shape) == 0, R.choice([low, high, 0]), v)
    return tf.bitcast(tf.constant(np.asarray(v), kind), t)


def of(values, t):
    return tf.bitcast(tf.constant(np.array(values), STORED[t]), t)


def u(*shape, low=-1, high=1):
    return (R.randint(low * 500, high * 500, shape) / 500).astype(np.float32)


def span(prefix, low, high, suffix=""):
    return [("min_" + prefix + suffix, np.float32(low)),
            ("max_" + prefix + suffix, np.float32(high))]


RANGES = [(-1, 1), (0, 3.7), (-2.5, 0.25), (-6, 6)]

# ---- To quantised numbers and back
EDGES = np.array([-9, -1, -0.5, -0.1, -0.0, 0, 0.1, 0.3, 0.5, 0.7, 1, 9],
                 np.float32)
for t in TYPES:
    for mode, even in (("MIN_COMBINED", False), ("MIN_FIRST", False),
                       ("SCALED", False), ("SCALED", True)):
        rounding = "HALF_TO_EVEN" if even else "HALF_AWAY_FROM_ZERO"
        for low, high in RANGES + [(0.5, 0.5), (0, 0), (1, 2), (-3, -2)]:
            if t == tf.qint32 and mode != "SCALED" and high > 1:
                continue  # (At the limit of int32 it depends on the processor.)
            case("QuantizeV2",
                 [("input", np.concatenate([EDGES * 0.9, u(8, low=-4, high=4)])),
                  ("min_range", np.float32(low)), ("max_range", np.float32(high))],
                 T=t, mode=mode, round_mode=rounding,
                 narrow_range=bool(low == -1))
        for low, high in RANGES:
            case("Dequantize", [("input", q(8, t=t)),
                                ("min_range", np.float32(low)),
                                ("max_range", np.float32(high))], T=t, mode=mode,
                 narrow_range=bool(low == -1))
        for axis in (0, 1, 2):
            n = (2, 3, 4)[axis]
            low, high = u(n, low=-3, high=0), u(n, low=0, high=3) + 0.5
            if t != tf.qint32 or mode == "SCALED":
                case("QuantizeV2", [("input", u(2, 3, 4, low=-2, high=2)),
                                    ("min_range", low), ("max_range", high)], T=t,
                     mode=mode, round_mode=rounding, axis=axis)
            case("Dequantize", [("input", q(2, 3, 4, t=t)), ("min_range", low),
                                ("max_range", high)], T=t, mode=mode, axis=axis)
    for mode in ("MIN_COMBINED", "SCALED"):
        case("Dequantize", [("input", q(6, t=t)), ("min_range", np.float32(-2)),
                            ("max_range", np.float32(3))], T=t, mode=mode,
             dtype=tf.bfloat16)
for minimum in (0.0, 0.5):
    case("QuantizeV2", [("input", EDGES), ("min_range", np.float32(0.1)),
                        ("max_range", np.float32(0.1001))], T=tf.quint8,
         ensure_minimum_range=minimum)
for inputs in ((u(2, 3), np.float32(2), np.float32(1)),
               (u(2, 3), u(2), np.float32(1)), (u(2, 3), u(2), u(2)),
               (u(0), np.float32(0), np.float32(1))):
    names = ("input", "min_range", "max_range")
    case("QuantizeV2", list(zip(names, inputs)), T=tf.quint8)
    case("Dequantize", [("input", q(*inputs[0].shape))] +
         list(zip(names[1:], inputs[1:])), T=tf.quint8)
for axis in (2, -2, 0):
    case("QuantizeV2", [("input", u(2, 3)), ("min_range", u(3) - 3),
                        ("max_range", u(3) + 3)], T=tf.quint8, axis=axis)
    case("Dequantize", [("input", q(2, 3)), ("min_range", u(3) - 3),
                        ("max_range", u(3) + 3)], T=tf.quint8, axis=axis)
case("QuantizeV2", [("input", EDGES), ("min_range", np.float32(-1)),
                    ("max_range", np.float32(1))], T=tf.quint8,
     mode="MIN_COMBINED", round_mode="HALF_TO_EVEN")

# ---- Products
for ta, tb in itertools.product((False, True), repeat=2):
    for m, n, k in ((2, 3, 4), (1, 1, 1), (5, 17, 33), (0, 3, 2)):
        for ra, rb in ((RANGES[0], RANGES[1]), (RANGES[2], RANGES[3]),
                       ((1, 2), (-3, -1))):
            case("QuantizedMatMul",
                 [("a", q(*((k, m) if ta else (m, k)))),
                  ("b", q(*((n, k) if tb else (k, n))))] +
                 span("a", *ra) + span("b", *rb), T1=tf.quint8, T2=tf.quint8,
                 Toutput=tf.qint32, transpose_a=ta, transpose_b=tb)
for a, b, ra in ((q(2, 3), q(2, 3), (0, 1)), (q(2, 3), q(3), (0, 1)),
                 (q(2, 3), q(3, 2), (1, 0)), (q(2, 3), q(3, 2), (1, 1))):
    case("QuantizedMatMul", [("a", a), ("b", b)] + span("a", *ra) +
         span("b", 0, 1), T1=tf.quint8, T2=tf.quint8)
for shape, kernel in (((2, 5, 6, 3), (3, 2, 3, 4)), ((1, 7, 4, 1), (2, 2, 1, 2)),
                      ((1, 6, 6, 2), (1, 1, 2, 3)), ((1, 4, 4, 17), (3, 3, 17, 5))):
    for stride, padding in ((1, "SAME"), (1, "VALID"), (2, "SAME"), (2, "VALID"),
                            (3, "VALID")):
        for ri, rf in ((RANGES[0], RANGES[1]), (RANGES[2], RANGES[3]),
                       ((1, 2), (-3, -1))):
            case("QuantizedConv2D",
                 [("input", q(*shape)), ("filter", q(*kernel))] +
                 span("input", *ri) + span("filter", *rf), Tinput=tf.quint8,
                 Tfilter=tf.quint8, strides=[1, stride, stride, 1],
                 padding=padding)
for image, kernel, strides in ((q(1, 4, 4, 2), q(2, 2, 3, 1), [1, 1, 1, 1]),
                               (q(4, 4, 2), q(2, 2, 2, 1), [1, 1, 1, 1]),
                               (q(1, 4, 4, 2), q(2, 2, 2, 1), [2, 1, 1, 1])):
    case("QuantizedConv2D", [("input", image), ("filter", kernel)] +
         span("input", 0, 1) + span("filter", 0, 1), Tinput=tf.quint8,
         Tfilter=tf.quint8, strides=strides, padding="VALID")
for op in ("QuantizedAdd", "QuantizedMul"):
    for rx, ry in itertools.product(RANGES + [(1, 2)], RANGES):
        case(op, [("x", q(7)), ("y", q(7))] + span("x", *rx) + span("y", *ry),
             T1=tf.quint8, T2=tf.quint8)
    for a, b in (((3, 4), (4,)), ((4,), (3, 4)), ((), (3,)), ((2, 3), ()),
                 ((1,), (5,)), ((0,), (0,)), ((2, 3), (2, 3))):
        case(op, [("x", q(*a)), ("y", q(*b))] + span("x", -1, 2) +
             span("y", 0, 3), T1=tf.quint8, T2=tf.quint8)
    case(op, [("x", q(3)), ("y", q(2))] + span("x", -1, 2) + span("y", 0, 3),
         T1=tf.quint8, T2=tf.quint8)
    case(op, [("x", q(3)), ("y", q(3))] + span("x", 2, 2) + span("y", 0, 3),
         T1=tf.quint8, T2=tf.quint8)
for t in BYTES:
    for r, rb in itertools.product(RANGES + [(1, 1)], RANGES):
        case("QuantizedBiasAdd", [("input", q(2, 3, t=t)), ("bias", q(3, t=t))] +
             span("input", *r) + span("bias", *rb), T1=t, T2=t,
             out_type=tf.qint32)
for a, b in ((q(2, 3), q(2)), (q(3), q(3)), (q(2, 3), q(1, 3))):
    case("QuantizedBiasAdd", [("input", a), ("bias", b)] + span("input", 0, 1) +
         span("bias", 0, 1), T1=tf.quint8, T2=tf.quint8, out_type=tf.qint32)

# ---- Activations and pools
for t in (tf.quint8, tf.qint32):
    for low, high in RANGES + [(-9, 9), (2, 8)]:
        x = [("features", q(9, t=t))]
        r = span("features", low, high)
        case("QuantizedRelu", x + r, Tinput=t, out_type=t)
        case("QuantizedRelu6", x + r, Tinput=t, out_type=t)
        for top in (0.5, 3, -1):
            case("QuantizedReluX", x + [("max_value", np.float32(top))] + r,
                 Tinput=t, out_type=t)
for t in BYTES:
    for op in ("QuantizedMaxPool", "QuantizedAvgPool"):
        for window, stride, padding in ((2, 2, "VALID"), (3, 2, "SAME"),
                                        (1, 1, "SAME"), (3, 1, "SAME")):
            case(op, [("input", q(2, 5, 4, 3, t=t))] + span("input", -1, 1), T=t,
                 ksize=[1, window, window, 1], strides=[1, stride, stride, 1],
                 padding=padding)
        case(op, [("input", q(5, 4, 3, t=t))] + span("input", -1, 1), T=t,
             ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        case(op, [("input", q(1, 5, 4, 3, t=t))] + span("input", -1, 1), T=t,
             ksize=[2, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")

# ---- Moving
for t in (tf.quint8, tf.qint32):
    for axis, shapes in ((0, [(2, 3), (1, 3)]), (1, [(2, 3), (2, 1), (2, 2)]),
                         (2, [(2, 3), (2, 3)]), (-1, [(2, 3), (2, 3)]),
                         (0, [(2, 3), (2, 2)]), (0, [(2,), (3,)])):
        n = len(shapes)
        for ranges in ([(-1, 1)] * n, ([(-1, 2), (0, 3), (-2.5, 0.25)])[:n]):
            case("QuantizedConcat",
                 [("concat_dim", np.int32(axis)),
                  ("values", [q(*s, t=t) for s in shapes]),
                  ("input_mins", [np.float32(r[0]) for r in ranges]),
                  ("input_maxes", [np.float32(r[1]) for r in ranges])], N=n, T=t)
    for shape in ([3, 2], [-1], [6, 1, 1], [4, 2], [-1, -1]):
        case("QuantizedReshape",
             [("tensor", q(2, 3, t=t)), ("shape", np.array(shape, np.int32)),
              ("input_min", np.float32(-1)), ("input_max", np.float32(2))], T=t)

# ---- From 32 bits to fewer
INPUT = ("input_min", "input_max")
WANTED = ("requested_output_min", "requested_output_max")
for low, high in RANGES + [(-1000, 1000), (0, 0), (1, 2)]:
    for values in (q(9, t=tf.qint32),
                   of([-(1 << 24), 5, 1 << 20, 0, 1 << 27], tf.qint32),
                   of([-7, 3, 0, 100], tf.qint32), q(0, t=tf.qint32)):
        given = [("input", values)] + list(
            zip(INPUT, np.array([low, high], np.float32)))
        case("RequantizationRange", given, Tinput=tf.qint32)
        case("QuantizeDownAndShrinkRange", given, Tinput=tf.qint32,
             out_type=tf.quint8)
        for out, to in itertools.product(BYTES, [(-1, 1), (0, 6), (-2.5, 0), (0, 0)]):
            case("Requantize", given + list(
                zip(WANTED, np.array(to, np.float32))), Tinput=tf.qint32,
                 out_type=out)
for to in ((1, 2),):
    case("Requantize", [("input", q(3, t=tf.qint32))] +
         list(zip(INPUT + WANTED, np.array([-1, 1, *to], np.float32))),
         Tinput=tf.qint32, out_type=tf.quint8)

# ---- Floats rounded as if quantised
x = np.concatenate([EDGES, u(4, low=-2, high=2)]) * np.float32(0.97)
x += np.float32(0.0013)  # No ties.
g = u(len(x))
for bits, narrow in ((8, False), (8, True), (2, False), (4, True), (16, False),
                     (1, False), (17, False)):
    attrs = dict(num_bits=bits, narrow_range=narrow)
    ranges = RANGES + [(0, 0), (1, 2), (-3, -2), (0.1, 1), (1, -1)]
    for low, high in ranges if bits == 8 else ranges[:2]:
        low, high = float(low), float(high)
        case("FakeQuantWithMinMaxArgs", [("inputs", x)], min=low, max=high, **attrs)
        case("FakeQuantWithMinMaxArgsGradient", [("gradients", g), ("inputs", x)],
             min=low, max=high, **attrs)
        if low > high:
            continue
        ends = [("min", np.float32(low)), ("max", np.float32(high))]
        case("FakeQuantWithMinMaxVars", [("inputs", x)] + ends, **attrs)
        case("FakeQuantWithMinMaxVarsGradient",
             [("gradients", g), ("inputs", x)] + ends, **attrs)
    ends = [("min", np.array([-1, 0, -0.5], np.float32)),
            ("max", np.array([1, 0, 0.1], np.float32))]
    for shape in ((3,), (2, 3), (2, 1, 2, 3)) if bits == 8 else ((2, 3),):
        case("FakeQuantWithMinMaxVarsPerChannel", [("inputs", u(*shape))] + ends,
             **attrs)
        case("FakeQuantWithMinMaxVarsPerChannelGradient",
             [("gradients", u(*shape)), ("inputs", u(*shape))] + ends, **attrs)
ends = [("min", np.float32([-1, 0])), ("max", np.float32([1, 1]))]
case("FakeQuantWithMinMaxVarsPerChannel", [("inputs", u(2, 3))] + ends)
case("FakeQuantWithMinMaxVars", [("inputs", u(2, 3))] + ends)
case("FakeQuantWithMinMaxVarsGradient",
     [("gradients", u(3)), ("inputs", u(2)), ("min", np.float32(-1)),
      ("max", np.float32(1))])
for dtype in (np.float32, np.float64):
    for signed, narrow, given in itertools.product((False, True), repeat=3):
        if narrow and not signed:
            continue
        for bits, mode in ((8, "HALF_TO_EVEN"), (3, "HALF_UP"), (4, "HALF_TO_EVEN")):
            for axis in (-1, 1):
                inputs = u(2, 3, 2, low=-2, high=2).astype(dtype)
                low = (u(3, low=-1, high=0) if axis == 1 else
                       np.float32(-0.7)).astype(dtype)
                high = (u(3, low=0, high=1) if axis == 1 else
                        np.float32(1.1)).astype(dtype)
                ends = [("input_min", low), ("input_max", high)]
                attrs = dict(signed_input=signed, narrow_range=narrow,
                             range_given=given, axis=axis)
                for op in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
                    if given and axis == 1:
                        continue  # (Only V3 takes ranges of slices.)
                    case(op, [("input", inputs)] + ends, num_bits=bits,
                         round_mode=mode, **attrs)
                case("QuantizeAndDequantizeV3", [("input", inputs)] + ends + [
                    ("num_bits", np.int32(bits))], **attrs)
                if given:
                    case("QuantizeAndDequantizeV4Grad",
                         [("gradients", u(2, 3, 2).astype(dtype)),
                          ("input", inputs)] + ends, axis=axis)
for bits, low, high, axis in ((0, -1, 1, -1), (64, -1, 1, -1), (8, 1, -1, -1),
                              (8, -1, 1, 2), (8, -1, 1, -2), (8, -1, 1, 0)):
    case("QuantizeAndDequantizeV2",
         [("input", u(2, 3)), ("input_min", np.float32(low)),
          ("input_max", np.float32(high))], num_bits=bits, range_given=True,
         axis=axis)
