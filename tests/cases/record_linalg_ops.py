#!/usr/bin/env python3
"""Records TensorFlow's results for matrices and Fourier transforms.

  record_linalg_ops.py > linalg_ops.txt     (needs TensorFlow; seeded)

src/ops/linalg_test.cc reads it; the format: op_cases.py.
"""

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20210607)
REAL = [np.float32, np.float64]
ALL = REAL + [np.complex64, np.complex128]
DECLARED = ALL + [np.float16]


def x(*shape, dtype=np.float32):
    """Few digits, so that the record is short."""
    v = R.randint(-40, 41, shape) / 8
    if np.issubdtype(dtype, np.complexfloating):
        v = v + 1j * R.randint(-40, 41, shape) / 8
    return np.asarray(v).astype(dtype)


def regular(*shape, dtype=np.float32):
    """Well-conditioned square matrices."""
    return x(*shape, dtype=dtype) + (9 * np.eye(shape[-1])).astype(dtype)


def positive(*shape, dtype=np.float32):
    a = x(*shape, dtype=dtype)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) +
            np.eye(shape[-1])).astype(dtype)


EMPTY = ((0, 0), (0, 2, 2), (2, 0, 0))
ODD = ((3,), (), (2, 3), (2, 2, 3))
SINGULAR = np.array([[1, 2], [2, 4]], np.float32)
NAN = np.array([[1, np.nan], [2, 4]], np.float32)
INF = np.array([[np.inf, 2], [2, 4]], np.float32)
BAD = (SINGULAR, NAN, INF, np.zeros((3, 3), np.float32),
       np.stack([np.eye(2, dtype=np.float32), SINGULAR]),
       np.array([[0, 1], [1, 0]], np.float32))

# ---- One square matrix
for op, attrs in (("Cholesky", [{}]), ("MatrixInverse", [{}, {"adjoint": True}]),
                  ("MatrixDeterminant", [{}]), ("LogMatrixDeterminant", [{}]),
                  ("Lu", [{}, {"output_idx_type": tf.int64}]),
                  ("MatrixExponential", [{}]),
                  ("SelfAdjointEigV2", [{}, {"compute_v": False}])):
    make = positive if op in ("Cholesky", "SelfAdjointEigV2") else regular
    for kw in attrs:
        for dtype in DECLARED:
            for shape in ((1, 1), (2, 2), (3, 3), (2, 3, 3), (2, 1, 4, 4)):
                case(op, [("input", make(*shape, dtype=dtype))], **kw)
        for shape in EMPTY + ODD:
            case(op, [("input", np.zeros(shape, np.float32))], **kw)
        # (Where Cholesky fails, TensorFlow leaves garbage above the diagonal.)
        for bad in BAD if op != "Cholesky" else (INF,):
            case(op, [("input", bad)], **kw)
    case(op, [("input", make(20, 20, dtype=np.float64))])
# Only a triangle is read.
for op in ("Cholesky", "SelfAdjointEigV2"):
    case(op, [("input", np.array([[4, np.nan], [1, 3]], np.float32))])
    case(op, [("input", np.array([[4, 99], [1, 3]], np.float32))])
case("SelfAdjointEigV2", [("input", np.diag([3., 1., 2.]))])
case("SelfAdjointEigV2", [("input", np.eye(3, dtype=np.float32))])
case("LogMatrixDeterminant", [("input", -np.eye(3) * 1e-200)])
case("MatrixDeterminant", [("input", np.eye(3) * 1e200)])
case("MatrixDeterminant", [("input", np.eye(3) * -1e-200)])
case("MatrixExponential", [("input", x(3, 3) * 5)])
case("MatrixExponential", [("input", x(3, 3, dtype=np.float64) / 100)])
for dtype in [np.float32, np.float64, np.float16]:
    for shape in ((1, 1), (3, 3), (2, 4, 4), (0, 0)):
        lower = np.tril(regular(*shape, dtype=dtype))
        case("CholeskyGrad", [("l", lower), ("grad", x(*shape, dtype=dtype))])
case("CholeskyGrad", [("l", regular(3, 3)), ("grad", x(3, 3))])
case("CholeskyGrad", [("l", regular(3, 3)), ("grad", x(2, 2))])
case("CholeskyGrad", [("l", regular(20, 20, dtype=np.float64)),
                      ("grad", x(20, 20, dtype=np.float64))])

# ---- Rectangular matrices
SHAPES = ((1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 1, 2, 3), (5, 1),
          (1, 5))
for full in (False, True):
    for dtype in DECLARED:
        for shape in SHAPES:
            a = x(*shape, dtype=dtype)
            case("Qr", [("input", a)], full_matrices=full)
            case("Svd", [("input", a)], full_matrices=full)
            case("Svd", [("input", a)], full_matrices=full, compute_uv=False)
    for shape in EMPTY + ((3, 0), (0, 3), (2, 0, 3), (3,), ()):
        a = np.zeros(shape, np.float32)
        case("Qr", [("input", a)], full_matrices=full)
        for uv in (False, True):
            case("Svd", [("input", a)], full_matrices=full, compute_uv=uv)
    for shape in ((20, 20), (24, 18), (18, 24)):
        a = x(*shape, dtype=np.float64)
        case("Qr", [("input", a)], full_matrices=full)
        case("Svd", [("input", a)], full_matrices=full)
    case("Qr", [("input", SINGULAR)], full_matrices=full)
    case("Svd", [("input", INF)], full_matrices=full)
    case("Svd", [("input", np.stack([NAN, SINGULAR]))], full_matrices=full)
case("Svd", [("input", np.diag([1., 3., 2.]))])
case("Svd", [("input", NAN)], compute_uv=False)

# ---- Systems
for dtype in DECLARED:
    for adjoint in (False, True):
        for shape, k in (((1, 1), 1), ((3, 3), 2), ((2, 4, 4), 3)):
            a = regular(*shape, dtype=dtype)
            b = x(*shape[:-1], k, dtype=dtype)
            case("MatrixSolve", [("matrix", a), ("rhs", b)], adjoint=adjoint)
            for lower in (False, True):
                case("MatrixTriangularSolve", [("matrix", a), ("rhs", b)],
                     lower=lower, adjoint=adjoint)
case("MatrixTriangularSolve", [("matrix", tf.constant(regular(3, 3), tf.bfloat16)),
                               ("rhs", tf.constant(x(3, 2), tf.bfloat16))])
for a, b in (((3, 3), (2, 2)), ((3, 3), (3,)), ((2, 3), (2, 1)), ((3,), (3, 1)),
             ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (1, 3, 2)),
             ((2, 1, 3, 3), (4, 3, 2)), ((2, 3, 3), (3, 3, 2)), ((0, 0), (0, 2)),
             ((2, 2), (2, 0)), ((0, 2, 2), (0, 2, 1)), ((0, 2, 2), (2, 1))):
    inputs = [("matrix", x(*a) + np.float32(6)), ("rhs", x(*b))]
    if a[-1] == a[-2:][0] and len(a) > 1:
        inputs[0] = ("matrix", regular(*a))
    case("MatrixSolve", inputs)
    case("MatrixTriangularSolve", inputs)
for bad in BAD:
    b = x(*bad.shape[:-1], 2)
    case("MatrixSolve", [("matrix", bad), ("rhs", b)])
    for lower in (False, True):
        case("MatrixTriangularSolve", [("matrix", bad), ("rhs", b)], lower=lower)
case("MatrixSolve", [("matrix", regular(20, 20, dtype=np.float64)),
                     ("rhs", x(20, 3, dtype=np.float64))])
for fast in (True, False):
    for dtype in DECLARED:
        for shape in ((3, 3), (5, 2), (2, 5), (2, 4, 3), (2, 3, 4)):
            for l2 in (0., 0.75):
                case("MatrixSolveLs", [("matrix", x(*shape, dtype=dtype)),
                                       ("rhs", x(*shape[:-1], 2, dtype=dtype)),
                                       ("l2_regularizer", np.float64(l2))],
                     fast=fast)
    for a, b, l2 in (((3, 2), (2, 2), 0.), ((3,), (3, 1), 0.), ((3, 2), (3,), 0.),
                     ((2, 3, 2), (3, 2), 0.), ((3, 2), (3, 1), -1.),
                     ((3, 2), (3, 1), [1.]), ((0, 2), (0, 1), 0.),
                     ((2, 0), (2, 1), 0.), ((2, 2), (2, 0), 0.),
                     ((0, 2, 2), (0, 2, 1), 0.)):
        if not fast and a == (0, 2):
            continue  # TensorFlow leaves garbage.
        case("MatrixSolveLs", [("matrix", x(*a)), ("rhs", x(*b)),
                               ("l2_regularizer", np.asarray(l2, np.float64))],
             fast=fast)
    for a in (SINGULAR, np.ones((3, 2), np.float32), NAN):
        for l2 in (0., 2.):
            case("MatrixSolveLs", [("matrix", a), ("rhs", x(a.shape[0], 2)),
                                   ("l2_regularizer", np.float64(l2))], fast=fast)
for dtype in ALL:
    for pivots in (True, False):
        for n, batch, k in ((1, (), 1), (2, (), 2), (5, (), 2), (4, (2,), 1),
                            (3, (2, 1), 3)):
            d = x(*batch, 3, n, dtype=dtype)
            d[..., 1, :] += 11 if not pivots else 1
            case("TridiagonalSolve", [("diagonals", d),
                                      ("rhs", x(*batch, n, k, dtype=dtype))],
                 partial_pivoting=pivots)
for d, b in (((3, 0), (0, 2)), ((3, 2), (2, 0)), ((2, 3), (3, 1)), ((3,), (1, 1)),
             ((3, 3), (2, 1)), ((2, 3, 3), (3, 1)), ((3, 3), (3,)),
             ((0, 3, 2), (0, 2, 1))):
    for pivots in (True, False):
        case("TridiagonalSolve", [("diagonals", x(*d) + np.float32(9)),
                                  ("rhs", x(*b))], partial_pivoting=pivots)
ZERO = np.zeros((3, 3), np.float32)
SWAP = np.array([[1, 2, 0], [0, 0, 3], [0, 4, 1]], np.float32)
SINGLE = np.zeros((3, 1), np.float32)
LOST = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
for d in (ZERO, SWAP, SINGLE, LOST):
    for pivots, perturb in ((True, False), (False, False), (True, True),
                            (False, True)):
        if pivots and perturb and not d.any():
            continue  # The exact error is specific to TensorFlow.
        case("TridiagonalSolve", [("diagonals", d), ("rhs", x(d.shape[1], 2))],
             partial_pivoting=pivots, perturb_singular=perturb)

# ---- Fourier transforms
for rank, suffix in ((1, ""), (2, "2D"), (3, "3D")):
    shapes = {1: ((1,), (2,), (3,), (8,), (2, 5), (2, 3, 6), (1, 67), (1, 128)),
              2: ((1, 1), (2, 3), (4, 4), (2, 3, 5), (1, 7, 2)),
              3: ((1, 1, 1), (2, 3, 4), (2, 1, 3, 5))}[rank]
    for op in ("FFT" + suffix, "IFFT" + suffix):
        for shape in shapes:
            for dtype in (np.complex64, np.complex128):
                case(op, [("input", x(*shape, dtype=dtype))])
        for shape in ((0,), (2, 0), (0, 2), (0, 2, 2), (2, 0, 2), (0, 2, 2, 2),
                      ()):
            case(op, [("input", x(*shape, dtype=np.complex64))])
    for op in ("RFFT" + suffix, "IRFFT" + suffix):
        forward = op[0] == "R"
        for shape in shapes:
            for wide in (False, True):
                real = np.float64 if wide else np.float32
                plex = np.complex128 if wide else np.complex64
                last = shape[-1]
                for n in ((last, last - 1) if forward
                          else (2 * last - 2, 2 * last - 1, last - 1)):
                    if n < 1 or last > 60 and n != last and forward:
                        continue
                    length = list(shape[-rank:-1]) + [n]
                    case(op, [("input", x(*shape, dtype=real if forward else plex)),
                              ("fft_length", np.array(length, np.int32))],
                         **{"Tcomplex" if forward else "Treal":
                            tf.as_dtype(plex if forward else real)})
        # (No length of 0: TensorFlow aborts.)
        for shape, length in (((4,) * rank, [4] * (rank + 1)),
                              ((4,) * rank, [2] * rank), ((4,) * rank, [9] * rank),
                              ((4,) * rank, [-1] * rank),
                              ((0,) * rank, [0] * rank), ((0,) + (4,) * rank,
                                                          [4] * rank),
                              ((4,) * (rank - 1), [4] * rank),
                              ((5, 6) + (4,) * rank, [3] * rank)):
            case(op, [("input", x(*shape, dtype=np.float32 if forward
                                  else np.complex64)),
                      ("fft_length", np.array(length, np.int32))])
