#!/usr/bin/env python3
"""Records TensorFlow's results for sparse tensors.

  record_sparse_ops.py > sparse_ops.txt     (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20201231)
REAL = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32,
        np.int64, np.uint8, np.uint16]
NUMBERS = REAL + [np.complex64, np.complex128]
ALL = NUMBERS + [object, np.bool_]


def i32(v):
    return np.array(v, np.int32)


def i64(v):
    return np.array(v, np.int64)


def x(*shape, dtype=np.float32):
    if dtype == object:
        return np.array([bytes([97 + i % 26]) * (i % 4)
                         for i in range(int(np.prod(shape)))],
                        dtype=object).reshape(shape)
    if dtype == np.bool_:
        return R.randint(0, 2, shape).astype(dtype)
    low = 1 if np.issubdtype(dtype, np.unsignedinteger) else -9
    v = R.randint(low, 10, shape)
    if np.issubdtype(dtype, np.complexfloating):
        v = v + 1j * R.randint(-9, 9, shape)
    return np.asarray(v).astype(dtype)


def entries(shape, n, dtype=np.float32, sort=True):
    """Indices and values of n distinct positions."""
    places = R.permutation(int(np.prod(shape)))[:n]
    if sort:
        places = np.sort(places)
    index = np.stack(np.unravel_index(places, shape), 1).astype(np.int64)
    return index.reshape(len(places), len(shape)), x(len(places), dtype=dtype)


def sparse(names, shape, n, **kw):
    index, values = entries(shape, n, **kw)
    return list(zip(names, (index, values, i64(shape))))


IN = ("input_indices", "input_values", "input_shape")
PLAIN = ("indices", "values", "shape")
A, B = ("a_indices", "a_values", "a_shape"), ("b_indices", "b_values", "b_shape")
SP = ("sp_indices", "sp_values", "sp_shape")
SHAPES = (([2, 3], 3), ([4], 2), ([3, 2, 4], 9), ([2, 2], 0), ([3, 0], 0))

# ---- Moves
for dtype in ALL:
    case("SparseReorder", sparse(IN, [3, 4], 7, dtype=dtype, sort=False))
for shape, n in SHAPES:
    case("SparseReorder", sparse(IN, shape, n, sort=False))
index, values = entries([3, 4], 5)
case("SparseReorder", [(IN[0], index), (IN[1], values[:4]), (IN[2], i64([3, 4]))])
case("SparseReorder", [(IN[0], index), (IN[1], values), (IN[2], i64([3, 4, 5]))])
case("SparseReorder", [(IN[0], index[:, 0]), (IN[1], values), (IN[2], i64([3]))])
case("SparseReorder", [(IN[0], np.concatenate([index, index])),
                       (IN[1], x(10)), (IN[2], i64([3, 4]))])
for new in ([3, 2], [6], [-1], [-1, 1], [1, -1], [4, 2], [-1, -1], [-1, 4],
            [-2, 3], [0, -1], [2, 3, 1, 1], [1, 1, 6], []):
    index, _ = entries([2, 3], 4)
    case("SparseReshape", [("input_indices", index), ("input_shape", i64([2, 3])),
                           ("new_shape", i64(new))])
for shape, new in (([0, 3], [-1, 3]), ([0, 3], [0, 7]), ([0], [-1, 0]),
                   ([2, 3], [6])):
    case("SparseReshape", [("input_indices", np.zeros((0, len(shape)), np.int64)),
                           ("input_shape", i64(shape)), ("new_shape", i64(new))])
for start, size in (([0, 0], [2, 2]), ([1, 1], [5, 5]), ([0, 0], [0, 2]),
                    ([0, 0], [-1, 2]), ([3, 0], [1, 1]), ([0], [1]),
                    ([0, 0], [1 << 62, 1 << 62]), ([1 << 62, 0], [1 << 62, 3]),
                    ([0, 2], [2, 1])):
    case("SparseSlice", sparse(PLAIN, [2, 3], 4) + [("start", i64(start)),
                                                    ("size", i64(size))])
for dtype in ALL:
    case("SparseSlice", sparse(PLAIN, [4, 5], 9, dtype=dtype, sort=False) + [
        ("start", i64([1, 2])), ("size", i64([3, 2]))])
index = i64([[0, 1], [1, 0], [1, 2]])
for dtype in NUMBERS:
    case("SparseSliceGrad", [("backprop_val_grad", x(2, dtype=dtype)),
                             ("input_indices", index), ("input_start", i64([1, 0])),
                             ("output_indices", i64([[0, 0], [0, 2]]))])
case("SparseSliceGrad", [("backprop_val_grad", x(2)), ("input_indices", index),
                         ("input_start", i64([0, 0])),
                         ("output_indices", i64([[0, 0], [0, 2]]))])
for axis, many in ((0, 2), (1, 2), (1, 3), (-1, 4), (2, 2), (1, 6), (0, 3)):
    case("SparseSplit", [("split_dim", np.int64(axis))] +
         sparse(PLAIN, [3, 5], 8), num_split=many)
for dtype in ALL:
    case("SparseSplit", [("split_dim", np.int64(1))] +
         sparse(PLAIN, [3, 5], 8, dtype=dtype), num_split=3)
case("SparseSplit", [("split_dim", np.int64(1)), ("indices", i64([[0, 5]])),
                     ("values", x(1)), ("shape", i64([3, 5]))], num_split=2)


def concat(axis, *shapes, dtype=np.float32, sort=True):
    made = [entries(s, n, dtype=dtype, sort=sort) for s, n in shapes]
    case("SparseConcat", [("indices", [m[0] for m in made]),
                          ("values", [m[1] for m in made]),
                          ("shapes", [i64(s) for s, _ in shapes])],
         concat_dim=axis, N=len(shapes))


for axis in (0, 1, -1, 2, -3):
    concat(axis, ([2, 3], 3), ([2, 3], 2))
for axis in (0, 1):
    concat(axis, ([2, 3], 3), ([2, 4], 2))
    concat(axis, ([2, 3], 3), ([2, 3], 0), ([2, 3], 6))
    concat(axis, ([2, 3], 3), ([2, 3, 1], 0))
    concat(axis, ([2, 3], 4, ), ([2, 3], 4), sort=False)
for dtype in ALL:
    concat(1, ([2, 3], 3), ([2, 2], 2), dtype=dtype)

# ---- With dense tensors
for dtype in ALL:
    index, values = entries([3, 4], 5, dtype=dtype)
    case("SparseToDense", [("sparse_indices", index), ("output_shape", i64([3, 4])),
                           ("sparse_values", values),
                           ("default_value", x(dtype=dtype) if dtype != object
                            else np.array(b"zz", object))])
index, v = i64([[0, 1], [1, 0], [1, 2]]), x(3)
for at, shape, values, rest, check in (
        (i32([1, 2]), i32([4]), v[:2], 0, True), (i32(1), i32([4]), v[0], 0, True),
        (index, i64([2, 3]), v[0], 1, True),
        (index[[1, 0, 2]], i64([2, 3]), v, 1, True),
        (index[[1, 0, 2]], i64([2, 3]), v, 1, False),
        (index[[0, 0, 2]], i64([2, 3]), v, 1, True),
        (index[[0, 0, 2]], i64([2, 3]), v, 1, False),
        (index, i64([2, 2]), v, 1, False), (index, i64([2, -3]), v, 1, True),
        (index, i64([2, 3, 4]), v, 1, True), (index, i64([2, 3]), v[:2], 1, True),
        (index, i64([2, 3]), v, [1], True), (index[:0], i64([2, 3]), v[:0], 1, True),
        (index[:, 0], i64([2, 3]), v, 1, True), (-index, i64([2, 3]), v, 1, True),
        (index, i64([1 << 40, 1 << 40]), v, 1, True),
        (index[:1, :0], i64([]), v[:1], 1, True)):
    case("SparseToDense", [("sparse_indices", at), ("output_shape", shape),
                           ("sparse_values", values),
                           ("default_value", np.float32(rest))],
         validate_indices=check)
for dtype in NUMBERS:
    case("SparseTensorDenseAdd", sparse(A, [3, 4], 5, dtype=dtype) + [
        ("b", x(3, 4, dtype=dtype))])
    for a, b in ((False, False), (True, False), (False, True), (True, True)):
        rows = 3 if a else 4
        case("SparseTensorDenseMatMul", sparse(A, [3, 4], 7, dtype=dtype) + [
            ("b", x(*((2, rows) if b else (rows, 2)), dtype=dtype))],
             adjoint_a=a, adjoint_b=b)
    for op in ("Add", "Mul", "Div"):
        for shape in ((3, 4), (4,), (3, 1), (), (1, 4)):
            dense = x(*shape, dtype=dtype)
            if op == "Div":
                dense = np.where(dense == 0, np.asarray(3).astype(dtype), dense)
            case("SparseDenseCwise" + op,
                 sparse(SP, [3, 4], 6, dtype=dtype) + [("dense", dense)])
for b in (x(3, 1), x(4), x(3, 4, 1)):
    case("SparseTensorDenseAdd", sparse(A, [3, 4], 5) + [("b", b)])
case("SparseTensorDenseAdd", [("a_indices", i32([[0, 0], [0, 0]])),
                              ("a_values", x(2)), ("a_shape", i32([2, 1])),
                              ("b", x(2, 1))])
case("SparseTensorDenseAdd", [("a_indices", i32([[0, 1]])), ("a_values", x(1)),
                              ("a_shape", i32([2, 1])), ("b", x(2, 1))])
for b in (x(3, 2), x(4), x(4, 0), x(2, 4)):
    case("SparseTensorDenseMatMul", sparse(A, [3, 4], 5) + [("b", b)])
for bad in ([[0, 4]], [[3, 0]], [[-1, 0]]):
    case("SparseTensorDenseMatMul", [("a_indices", i64(bad)), ("a_values", x(1)),
                                     ("a_shape", i64([3, 4])), ("b", x(4, 2))])
for dense in (x(1, 3, 4), x(3, 3), x(2, 4), np.zeros((4,), np.float32)):
    case("SparseDenseCwiseDiv", sparse(SP, [3, 4], 6) + [("dense", dense)])
case("SparseDenseCwiseAdd", [("sp_indices", i64([[0, 7]])), ("sp_values", x(1)),
                             ("sp_shape", i64([2, 3])), ("dense", x(2, 3))])

# ---- Arithmetic
for dtype in NUMBERS:
    real = {np.complex64: np.float32, np.complex128: np.float64}.get(dtype, dtype)
    for least in (0, 3):
        case("SparseAdd", sparse(A, [3, 4], 6, dtype=dtype) +
             sparse(B, [3, 4], 6, dtype=dtype) + [("thresh", real(least))])
    case("SparseAddGrad", [("backprop_val_grad", x(3, dtype=dtype)),
                           ("a_indices", index), ("b_indices", index[1:2]),
                           ("sum_indices", index)])
for dtype in REAL:
    for op in ("Maximum", "Minimum"):
        case("SparseSparse" + op, sparse(A, [3, 4], 6, dtype=dtype) +
             sparse(B, [3, 4], 6, dtype=dtype))
case("SparseAdd", sparse(A, [3, 4], 6) + sparse(B, [3, 5], 6) +
     [("thresh", np.float32(0))])
case("SparseAdd", sparse(A, [3, 4], 6) + sparse(B, [12], 6) +
     [("thresh", np.float32(0))])
case("SparseAdd", sparse(A, [3, 4], 0) + sparse(B, [3, 4], 2) +
     [("thresh", np.float32(0))])
case("SparseSparseMaximum", sparse(A, [3, 4], 6) + sparse(B, [3, 5], 6))
case("SparseAddGrad", [("backprop_val_grad", x(2)), ("a_indices", index),
                       ("b_indices", index[1:2]), ("sum_indices", index)])
for dtype in (np.float16, np.float32, np.float64):
    for shape, n in (([3, 4], 7), ([2, 3, 4], 11), ([3, 3], 0), ([5], 2)):
        case("SparseSoftmax", sparse(SP, shape, n, dtype=dtype))
for op in ("SparseReduceSum", "SparseReduceMax"):
    for to in ("", "Sparse"):
        for dtype in NUMBERS if "Sum" in op else REAL:
            case(op + to, sparse(IN, [3, 4], 6, dtype=dtype) +
                 [("reduction_axes", i32([1]))])
        for axes in ([], [0], [0, 1], [-1], [2], [1, 1], 0, [[0]], [2, 0], [-3]):
            for keep in (False, True):
                case(op + to, sparse(IN, [3, 4, 2], 9, sort=False) +
                     [("reduction_axes", i32(axes))], keep_dims=keep)
        case(op + to, sparse(IN, [3, 4], 0) + [("reduction_axes", i32([1]))])
    # (TensorFlow accepts this for a sparse result.)
    case(op, [(IN[0], i64([[5, 2]])), (IN[1], x(1)), (IN[2], i64([2, 3])),
              ("reduction_axes", i32([1]))])
FILL = ("indices", "values", "dense_shape")
for dtype in ALL:
    case("SparseFillEmptyRows", sparse(FILL, [5, 3], 4, dtype=dtype, sort=False) + [
        ("default_value", x(dtype=dtype) if dtype != object
         else np.array(b"zz", object))])
for at, shape in ((index, [4, 3]), (index, [0, 3]), (index[:0], [0, 3]),
                  (index[:0], [2, 3]), (index + 3, [4, 3]), (-index, [4, 3]),
                  (index, [4]), (index[:, :0], []), (index, [-2, 3])):
    case("SparseFillEmptyRows", [("indices", at), ("values", x(len(at))),
                                 ("dense_shape", i64(shape)),
                                 ("default_value", np.float32(9))])
for dtype in NUMBERS:
    case("SparseFillEmptyRowsGrad", [("reverse_index_map", i64([0, 3])),
                                     ("grad_values", x(5, dtype=dtype))])
for at in ([0, 5], [2, 2], [-1], []):
    case("SparseFillEmptyRowsGrad", [("reverse_index_map", i64(at)),
                                     ("grad_values", x(5))])

# ---- Sets
OPS = ("a-b", "b-a", "intersection", "union")
SETS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, object]


def of_set(which, shape, n, dtype):
    index, values = entries(shape, n)
    some = np.array([b"a", b"b", b"", b"cc", b"d"], object)
    values = (R.choice(some, n) if dtype == object
              else R.randint(0, 5, n).astype(dtype))
    return [(which + "_indices", index), (which + "_values", values),
            (which + "_shape", i64(shape))]


def dense_set(which, shape, dtype):
    return [(which, of_set(which, shape, int(np.prod(shape)), dtype)[1][1].reshape(
        shape))]


for op in OPS:
    for dtype in SETS if op == "a-b" else [np.int64, object]:
        case("DenseToDenseSetOperation", dense_set("set1", [3, 4], dtype) +
             dense_set("set2", [3, 2], dtype), set_operation=op)
        case("DenseToSparseSetOperation", dense_set("set1", [3, 4], dtype) +
             of_set("set2", [3, 5], 7, dtype), set_operation=op)
        case("SparseToSparseSetOperation", of_set("set1", [2, 3, 4], 9, dtype) +
             of_set("set2", [2, 3, 5], 9, dtype), set_operation=op)
    case("DenseToDenseSetOperation", dense_set("set1", [2, 0], np.int32) +
         dense_set("set2", [2, 2], np.int32), set_operation=op)
    case("DenseToDenseSetOperation", dense_set("set1", [3, 4], np.int32) +
         dense_set("set2", [2, 4], np.int32), set_operation=op)
    case("DenseToDenseSetOperation", dense_set("set1", [4], np.int32) +
         dense_set("set2", [4], np.int32), set_operation=op)
    case("DenseToSparseSetOperation", dense_set("set1", [3, 4], np.int32) +
         of_set("set2", [2, 5], 7, np.int32), set_operation=op)
case("DenseToDenseSetOperation", dense_set("set1", [2, 4], np.int32) +
     dense_set("set2", [2, 4], np.int32), set_operation="xor")
for dtype in SETS:
    case("SetSize", of_set("set", [2, 3, 4], 9, dtype))
case("SetSize", of_set("set", [4], 3, np.int32))

# ---- Bytes
SERIAL = ("sparse_indices", "sparse_values", "sparse_shape")
for dtype in (np.float32, np.int32, object, np.bool_):
    for shape, n in (([3, 4], 6), ([2, 3, 2], 5), ([4], 2), ([3, 4], 0)):
        made = sparse(SERIAL, shape, n, dtype=dtype)
        case("SerializeSparse", made)
        case("SerializeManySparse", made)
        kind = tf.string if dtype == object else tf.as_dtype(dtype)
        one = tf.raw_ops.SerializeSparse(**dict(made)).numpy()
        case("DeserializeSparse", [("serialized_sparse", one)], dtype=kind)
        case("DeserializeSparse", [("serialized_sparse", np.stack([one, one]))],
             dtype=kind)
        case("DeserializeSparse", [("serialized_sparse",
                                    np.stack([[one, one, one]] * 2))], dtype=kind)
        case("DeserializeManySparse",
             [("serialized_sparse", np.stack([one, one]))], dtype=kind)
        case("DeserializeManySparse", [("serialized_sparse", one)], dtype=kind)
        case("DeserializeSparse", [("serialized_sparse", one)], dtype=tf.int16)
        case("DeserializeSparse", [("serialized_sparse", one[:2])], dtype=kind)
a = tf.raw_ops.SerializeSparse(**dict(sparse(SERIAL, [2, 5], 3))).numpy()
b = tf.raw_ops.SerializeSparse(**dict(sparse(SERIAL, [4, 3], 3))).numpy()
c = tf.raw_ops.SerializeSparse(**dict(sparse(SERIAL, [4], 3))).numpy()
for rows in ([a, b], [a, c]):
    case("DeserializeManySparse", [("serialized_sparse", np.stack(rows))],
         dtype=tf.float32)


# ---- Crosses
def cross(sparse_columns, dense_columns, out, internal, **attrs):
    kinds = {np.dtype(object): tf.string}
    case("SparseCross", [("indices", [c[0] for c in sparse_columns]),
                         ("values", [c[1] for c in sparse_columns]),
                         ("shapes", [i64(c[2]) for c in sparse_columns]),
                         ("dense_inputs", dense_columns)],
         hashed_output=out == tf.int64, out_type=out, internal_type=internal,
         N=len(sparse_columns), **{"num_buckets": 0, "hash_key": 956888297470,
                                   **attrs},
         sparse_types=[kinds.get(c[1].dtype, tf.int64) for c in sparse_columns],
         dense_types=[kinds.get(c.dtype, tf.int64) for c in dense_columns])


def column(shape, n, dtype):
    index, values = entries(shape, n, dtype=dtype)
    return index, values, shape


for dtype, other in ((np.int64, object), (object, object), (np.int64, np.int64)):
    for out, internal in ((tf.int64, tf.int64), (tf.string, tf.string),
                          (tf.string, tf.int64)):
        for buckets in (0, 100):
            cross([column([3, 4], 6, dtype), column([3, 5], 8, other)],
                  [x(3, 2, dtype=other)], out, internal, num_buckets=buckets)
    cross([column([3, 4], 6, dtype)], [x(2, 2, dtype=other)], tf.int64, tf.int64)
    cross([column([3, 4], 6, dtype)], [x(3, 0, dtype=other)], tf.int64, tf.int64)
    cross([column([12], 6, dtype)], [x(3, 2, dtype=other)], tf.int64, tf.int64)
    cross([column([3, 4], 12, dtype)], [x(3, 3, dtype=other)], tf.int64, tf.int64,
          hash_key=-5)
