#!/usr/bin/env python3
"""Records TensorFlow's results for elementwise ops: unary and binary functions,
comparisons, logic, bits, parts of complex numbers, conversions, activations and
the ops of their gradients.

  record_elementwise_ops.py > elementwise_ops.txt  (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import VALUES, call, tf, types

R = np.random.RandomState(20190319)
NAN, INF = np.nan, np.inf
NUMBERS = [NAN, INF, -INF, 0., -0., 1e-7, 1e-3, .5, -.5, 1, -1, 1.5, 2.5, -2.5,
           3.7, -3.7, 10, -10, 88.5, -100, 65504]
FRACTIONS = [NAN, 0., -0., 1e-7, .25, -.25, .5, -.5, .97, 1, -1, 1.01]
COMPLEX = [0, 1, -1, 1j, -2j, .5 + .25j, -1.5 + 2j, 3 - .5j, -.25 - 1e-3j]


def is_float(dtype):
    return tf.as_dtype(dtype).is_floating


def is_signed(dtype):
    t = tf.as_dtype(dtype)
    return t.is_integer and not t.is_unsigned


def one(dtype, of=NUMBERS):
    """Values for a unary op."""
    t = tf.as_dtype(dtype)
    if t == tf.bool:
        return np.array([False, True])
    if t.is_complex:
        return np.array(COMPLEX, dtype)
    if t.is_floating:
        with np.errstate(over="ignore"):
            return np.array(of).astype(dtype)
    low, high = t.limits
    return np.array([0, 1, 2, 3, 7, 100, high - 1, high, low, low + 1] +
                    ([-1, -2, -5] if low < 0 else []), dtype)


def small(dtype, *shape, least=0):
    """Integers are small enough not to overflow."""
    t = tf.as_dtype(dtype)
    if t == tf.bool:
        return R.randint(0, 2, shape).astype(bool)
    if t.is_complex:
        return (R.randint(1, 9, shape) + 1j * R.randint(-4, 5, shape)
                ).astype(dtype)
    if t.is_floating:
        return (R.randint(-40, 41, shape) / 8).astype(dtype)
    return R.randint(least if t.is_unsigned or least else -9, 10, shape
                     ).astype(dtype)


def part(name, dtype):
    """The result attributes of ops on complex numbers."""
    if name not in ("Real", "Imag", "Angle", "ComplexAbs"):
        return {}
    return {"Tout": tf.float32 if dtype == np.complex64 else tf.float64}


# ---- Unary
for name in ("Abs Asinh Atan BesselI0e BesselI1e Ceil Cos Cosh Digamma Erf Erfc "
             "Exp Expm1 Floor Inv Lgamma Log Log1p Neg Reciprocal Rint Round "
             "Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh Invert "
             "PopulationCount Conj ComplexAbs Real Imag Angle Elu Relu Relu6 "
             "LeakyRelu Selu Softplus Softsign Acosh").split():
    for dtype in types(name):
        x = one(dtype)
        # Cases where TensorFlow 2.21 is inconsistent or wrong: Erf of an
        # infinite double is NaN, Round of integers is 0, and Reciprocal of a
        # complex 0 and Log1p of -1 depend on the number of elements.
        if name == "Erf" and dtype == np.float64:
            x = x[np.isfinite(x)]
        if name == "Round" and not is_float(dtype):
            continue
        if name in ("Inv", "Reciprocal", "Log1p") and dtype in (
                np.complex64, np.complex128):
            x = x[(x != 0) & (x != -1)]
        call(name, x, **part(name, dtype))
    call(name, np.zeros([2, 0], types(name)[0]), **part(name, types(name)[0]))
for name in ("Asin", "Acos", "Atanh"):
    for dtype in types(name):
        call(name, one(dtype, FRACTIONS))
call("LeakyRelu", one(np.float32), alpha=0.0)
call("LogicalNot", np.array([[False], [True]]))

# ---- Gradients from the result or from the input
for name in ("InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad "
             "EluGrad Relu6Grad ReluGrad LeakyReluGrad SeluGrad SoftplusGrad "
             "SoftsignGrad").split():
    for dtype in types(name):
        x = one(dtype)
        if not is_float(dtype):
            x = small(dtype, 9, least=1)
        dy = small(dtype, len(x), least=1)
        # The gradient comes first in some, second in others.
        call(name, *((x, dy) if name in (
            "InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad",
            "TanhGrad") else (dy, x)))

# ---- Binary, with broadcasting
TWO = ("AddV2 Atan2 Div Equal FloorDiv FloorMod Greater GreaterEqual Less "
       "LessEqual Maximum Minimum Mod Mul NotEqual Pow RealDiv Sub TruncateDiv "
       "TruncateMod ApproximateEqual BitwiseAnd BitwiseOr BitwiseXor LeftShift "
       "RightShift LogicalAnd LogicalOr").split()
EDGES = [NAN, INF, -INF, 0., -0., 1., -2.5]
for name in TWO:
    declared = [np.bool_] if name.startswith("Logical") else types(name)
    divides = "Div" in name or "Mod" in name
    for dtype in declared:
        least = 1 if divides or name in ("Pow", "LeftShift", "RightShift") else 0
        a, b = small(dtype, 2, 1, 3), small(dtype, 4, 1, least=least)
        if name in ("LeftShift", "RightShift"):
            b = np.minimum(b, tf.as_dtype(dtype).size * 8 - 1).astype(dtype)
        if divides and is_signed(dtype):
            b[0] = -3  # To test the rounding direction.
        call(name, a, b)
        call(name, small(dtype, 3), small(dtype, least=least))
        if is_float(dtype) and name != "ApproximateEqual":
            pairs = np.array(list(itertools.product(EDGES, EDGES))).astype(dtype)
            call(name, pairs[:, 0], pairs[:, 1])
        elif divides and not tf.as_dtype(dtype).is_complex:
            call(name, small(dtype, 2), np.array([1, 0], dtype))
    call(name, small(declared[0], 0, 3), small(declared[0], 3, least=1))
    call(name, small(declared[0], 2), small(declared[0], 3, least=1))
    call(name, small(declared[0], 0), small(declared[0], least=1))
for name, dtype in itertools.product(("Igamma", "Igammac", "IgammaGradA"),
                                     (np.float32, np.float64)):
    pairs = np.array(list(itertools.product([INF, NAN, 0, 1, -1, 1e30],
                                            repeat=2)), dtype)
    pairs = pairs[:-1]  # (The series of the last one do not converge.)
    call(name, pairs[:, 0], pairs[:, 1])
# Quotients that become integers by rounding.
for name, dtype in itertools.product(
        ("FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod"),
        types("FloorDiv")):
    if is_float(dtype):
        call(name, R.uniform(-10, 10, 60).astype(dtype),
             R.uniform(.05, .2, 60).astype(dtype))
call("Pow", np.int32([2, 3]), np.int32([3, -1]))
call("Pow", np.int64([-2, 0, 5]), np.int64([63, 0, 27]))
call("ApproximateEqual", np.float32([1, 1, NAN, INF]),
     np.float32([1.05, 1.2, NAN, INF]), tolerance=0.1)
for dtype, incompatible in itertools.product((np.float32, np.int32, np.bool_),
                                             (False, True)):
    call("Equal", small(dtype, 2), small(dtype, 3),
         incompatible_shape_error=incompatible)
    call("NotEqual", small(dtype, 2), small(dtype, 3),
         incompatible_shape_error=incompatible)
call("Equal", tf.constant(["a", "b", ""]), tf.constant("b"))
call("NotEqual", tf.constant(["a", "b", ""]), tf.constant("b"))
for dtype in types("Cross"):
    call("Cross", small(dtype, 2, 3), small(dtype, 2, 3))
call("Cross", small(np.float32, 2, 4), small(np.float32, 2, 4))
for dtype, whole in ((np.float32, tf.complex64), (np.float64, tf.complex128)):
    call("Complex", small(dtype, 2, 1), small(dtype, 3), Tout=whole)

# ---- Several
for dtype in types("AddN"):
    for n in (1, 2, 3, 9):
        call("AddN", [small(dtype, 2, 2) for _ in range(n)])
    call("AccumulateNV2", [small(dtype, 2, 2) for _ in range(3)],
         fresh=True, shape=tf.TensorShape([2, 2]))
call("AddN", [small(np.float32, 2), small(np.float32, 3)])
for dtype in types("ClipByValue"):
    if not tf.as_dtype(dtype).is_complex:
        call("ClipByValue", one(dtype), dtype(1), dtype(5))
        call("ClipByValue", small(dtype, 2, 2), small(dtype, 2, 2),
             small(dtype, 2, 2))
call("ClipByValue", small(np.float32, 3), small(np.float32, 2), np.float32(1))

# ---- Conversions
for a, b in itertools.product(VALUES, VALUES):
    values = [0, 1] if a == tf.bool else [0, 1, 2, 100, 127]
    if not any(t.is_unsigned or t == tf.bool for t in (a, b)):
        values += [-1, -128]
    if a.is_floating:
        values += [2.5, 3.7] + ([-2.5, -.7] if -128 in values else [])
    call("Cast", np.array(values).astype(a.as_numpy_dtype), DstT=b)
for a, b in itertools.product((tf.float32, tf.float64), VALUES):
    if b.is_floating or b.is_complex or b == tf.bool:
        call("Cast", np.array(NUMBERS + [1e-30, 1e30, 2049, 2051, 1.00390625]
                              ).astype(a.as_numpy_dtype), DstT=b)
for b in (tf.bfloat16, tf.float16, tf.float32):
    call("Cast", np.array([1.00390625, 2049, 2051, 1 + 2**-11, 3.14159, -NAN]),
         DstT=b, Truncate=True)
for a, b in itertools.product((np.int64, np.uint64, np.int32), VALUES):
    if b.is_integer:
        call("Cast", one(a), DstT=b)
