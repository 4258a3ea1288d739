#!/usr/bin/env python3
"""Records TensorFlow's results for the ops that move elements.

  record_array_ops.py > array_ops.txt     (needs TensorFlow; seeded)

src/ops/array_recorded_test.cc reads it; the format: op_cases.py.
"""

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20161102)


def x(*shape, dtype=np.float32):
    if dtype == object:
        return np.array([bytes([97 + i % 26]) * (i % 4)
                         for i in range(int(np.prod(shape)))],
                        dtype=object).reshape(shape)
    if np.issubdtype(dtype, np.complexfloating):
        return (R.randint(-9, 9, shape) + 1j * R.randint(-9, 9, shape)).astype(
            dtype)
    if dtype == np.bool_:
        return R.randint(0, 2, shape).astype(dtype)
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -99
    return np.asarray(R.randint(low, 99, shape)).astype(dtype)


def i32(*v):
    return np.array(v[0] if len(v) == 1 and not np.isscalar(v[0]) else v,
                    np.int32)


def s32(v):
    return np.int32(v)


ALL = [np.float32, np.int8, np.int16, np.float64, np.complex128, object,
       np.bool_]

# ---- Shapes
for shape in ([-1], [3, -1], [6, 2], [5, -1], [-1, -1], [0, -1], [2, 2, 3, 1]):
    case("Reshape", [("tensor", x(3, 4)), ("shape", i32(shape))])
case("Reshape", [("tensor", x(0, 4)), ("shape", i32([-1, 4]))])
case("Reshape", [("tensor", x(0, 4)), ("shape", i32([0, -1]))])
case("Reshape", [("tensor", x(1, 1)), ("shape", np.zeros([0], np.int64))])
for axis in (0, 2, -1, -3, 3, -4):
    case("ExpandDims", [("input", x(2, 3)), ("axis", s32(axis))])
for dims in ([], [0], [-1, 0], [1], [4]):
    case("Squeeze", [("input", x(1, 2, 1))], axis=dims)
for dtype in ALL:
    case("Transpose", [("x", x(2, 3, 4, dtype=dtype)), ("perm", i32([2, 0, 1]))])
for perm in ([0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [0, 0, 1], [0, 1],
             [3, 1, 0]):
    case("Transpose", [("x", x(3, 1, 5)), ("perm", i32(perm))])
case("Transpose", [("x", x(2, 1, 2, 3, 2)), ("perm", i32([4, 2, 0, 3, 1]))])
case("Transpose", [("x", x(19, 37)), ("perm", i32([1, 0]))])
case("ConjugateTranspose", [("x", x(2, 3, dtype=np.complex64)),
                            ("perm", i32([1, 0]))])
case("InvertPermutation", [("x", i32([3, 0, 2, 1]))])
case("InvertPermutation", [("x", i32([3, 0, 0, 1]))])
case("InvertPermutation", [("x", i32([3, 0, 4, 1]))])
for a, b in (([2, 1, 3], [4, 1]), ([1, 2], [1, 2]), ([1, 2], [2, 1]), ([], [3]),
             ([1], []), ([2], [3]), ([0, 1], [1]), ([5, 1], [3, 1, 5, 1])):
    for op in ("BroadcastArgs", "BroadcastGradientArgs"):
        case(op, [("s0", i32(a)), ("s1", i32(b))])
for src, shape in (((3, 1), [2, 3, 4]), ((), [2, 2]), ((1,), [0]), ((2,), [3]),
                   ((1, 3), [3]), ((2, 3), [2, 3])):
    case("BroadcastTo", [("input", x(*src)), ("shape", i32(shape))])
case("BroadcastTo", [("input", x(1, 2, dtype=object)), ("shape", i32([2, 2]))])
case("Bitcast", [("input", x(2, 3))], type=tf.int32)
case("Bitcast", [("input", x(2, dtype=np.float64))], type=tf.uint16)
case("Bitcast", [("input", x(3, 4, dtype=np.int16))], type=tf.float64)
case("Bitcast", [("input", x(3, 3, dtype=np.int16))], type=tf.float64)

# ---- Joining and cutting
for dtype in ALL:
    case("ConcatV2", [("values", [x(2, 3, dtype=dtype), x(2, 1, dtype=dtype),
                                  x(2, 0, dtype=dtype)]), ("axis", s32(1))], N=3)
    case("Pack", [("values", [x(2, 3, dtype=dtype), x(2, 3, dtype=dtype)])],
         N=2, axis=1)
    case("Tile", [("input", x(2, 3, dtype=dtype)), ("multiples", i32([2, 3]))])
for axis in (0, -2, -3, 2):
    case("ConcatV2", [("values", [x(2, 3), x(1, 3)]), ("axis", s32(axis))], N=2)
case("ConcatV2", [("values", [x(2, 3), x(1, 2)]), ("axis", s32(0))], N=2)
case("ConcatV2", [("values", [x(), x()]), ("axis", s32(0))], N=2)
case("ConcatOffset", [("concat_dim", s32(1)),
                      ("shape", [i32(2, 3), i32(2, 5), i32(2, 0)])], N=3)
case("ConcatOffset", [("concat_dim", s32(-1)),
                      ("shape", [i32(2, 3), i32(2, 5)])], N=2)
case("ConcatOffset", [("concat_dim", s32(1)),
                      ("shape", [i32(2, 3), i32(3, 5)])], N=2)
for axis in (0, 1, -1, 3):
    case("Split", [("axis", s32(axis)), ("value", x(4, 6, 2))], num_split=2)
case("Split", [("axis", s32(0)), ("value", x(4))], num_split=3)
case("Split", [("axis", s32(1)), ("value", x(2, 4, dtype=object))], num_split=2)
for sizes in ([1, 2, 3], [-1, 2, 0], [1, 1, 1], [-1, 7, 0], [-1, -1, 2], [6, 0]):
    case("SplitV", [("value", x(2, 6)), ("size_splits", i32(sizes)),
                    ("axis", s32(1))], num_split=3)
for axis in (0, 2, -1, -4):
    case("Pack", [("values", [x(2, 3), x(2, 3), x(2, 3)])], N=3, axis=axis)
case("Pack", [("values", [x(2, 3), x(3, 2)])], N=2, axis=0)
for axis, num in ((0, 3), (1, 2), (-1, 4), (0, 2), (3, 3)):
    case("Unpack", [("value", x(3, 2, 4))], num=num, axis=axis)

# ---- Slices
for begin, size in (([0, 0, 0], [-1, -1, -1]), ([1, 0, 2], [2, 2, -1]),
                    ([1, 0, 0], [2, -1, -1]), ([3, 2, 4], [0, 0, 0]),
                    ([0, 0, 0], [4, 1, 1]), ([-1, 0, 0], [1, 1, 1]),
                    ([1, 1], [1, 1])):
    case("Slice", [("input", x(3, 2, 4)), ("begin", i32(begin)),
                   ("size", i32(size))])
for dtype in ALL:
    case("Slice", [("input", x(3, 4, dtype=dtype)), ("begin", i32([1, 1])),
                   ("size", i32([2, 2]))])


def strided(value, begins, ends, strides, **masks):
    attrs = {k + "_mask": v for k, v in masks.items()}
    case("StridedSlice", [("input", value), ("begin", i32(begins)),
                          ("end", i32(ends)), ("strides", i32(strides))], **attrs)


for dtype in ALL:
    strided(x(4, 5, dtype=dtype), [3, 1], [0, 5], [-2, 2])
strided(x(4, 5, 2), [1], [3], [1])
strided(x(4, 5, 2), [0, 0, -1], [0, 0, 0], [1, 1, 1], ellipsis=1, new_axis=2,
        shrink_axis=4)
strided(x(4, 5, 2), [1, 0, 0], [2, 0, 0], [1, 1, 1], shrink_axis=1, ellipsis=2,
        new_axis=4)
strided(x(4, 5), [9, -9], [-9, 9], [-1, 3])
strided(x(4, 5), [4], [5], [1], shrink_axis=1)
strided(x(4, 5), [-5], [5], [1], shrink_axis=1)
strided(x(4, 5), [1], [5], [0])
strided(x(4, 5), [1], [5], [-1], shrink_axis=1)
strided(x(4, 5), [0, 0, 0], [1, 1, 1], [1, 1, 1])
strided(x(4, 5), [0, 0], [0, 0], [1, 1], ellipsis=3)
strided(x(4, 5), [0, 0], [0, 0], [1, 1], begin=3, end=3)
strided(x(4, 5), [0, 0], [0, 0], [-1, -1], begin=3, end=3)
strided(x(4, 0), [0, 0], [9, 9], [2, 1])
strided(x(), [], [], [])
strided(x(), [0], [0], [1], new_axis=1)
for _ in range(25):
    rank = R.randint(1, 5)
    dims = R.randint(1, 5, rank)
    n = R.randint(1, rank + 2)
    strides = R.choice([-3, -2, -1, 1, 2, 3], n)
    masks = {m: int(R.randint(0, 1 << n)) & int(R.randint(0, 1 << n)) for m in
             ("begin", "end", "new_axis", "shrink_axis")}
    masks["ellipsis"] = 1 << int(R.randint(0, n)) if R.randint(0, 2) else 0
    strided(x(*dims), R.randint(-5, 5, n), R.randint(-5, 5, n), strides, **masks)
case("StridedSliceGrad", [("shape", i32(4, 3)), ("begin", i32(3, 0)),
                          ("end", i32(0, 3)), ("strides", i32(-2, 2)),
                          ("dy", x(2, 2))])
case("StridedSliceGrad", [("shape", i32(4, 3)), ("begin", i32(1)),
                          ("end", i32(2)), ("strides", i32(1)), ("dy", x(3))],
     shrink_axis_mask=1)
case("StridedSliceGrad", [("shape", i32(4, 3)), ("begin", i32(1)),
                          ("end", i32(2)), ("strides", i32(1)), ("dy", x(2, 3))])
case("TensorStridedSliceUpdate",
     [("input", x(4, 3)), ("begin", i32(1, 0)), ("end", i32(4, 3)),
      ("strides", i32(2, 1)), ("value", x(2, 3))])

# ---- Gather and scatter
for dtype in ALL:
    case("GatherV2", [("params", x(3, 2, dtype=dtype)),
                      ("indices", i32([2, 0, 2])), ("axis", s32(0))])
    case("GatherNd", [("params", x(3, 2, dtype=dtype)),
                      ("indices", i32([[2, 0], [1, 1]]))])
    case("GatherV2", [("params", x(3, 2, dtype=dtype)),
                      ("indices", i32([[1, 0], [1, 1]])), ("axis", s32(-1))])
for axis, batch, shape in ((1, 0, (2,)), (1, 1, (2, 2)), (2, 1, (2, 3)),
                           (2, 2, (2, 3, 2)), (2, -1, (2, 3, 2)), (0, 1, (2, 2)),
                           (1, 0, ()), (3, 0, (2,)), (1, 0, (0,)),
                           (2, 1, (3, 2))):
    case("GatherV2", [("params", x(2, 3, 4)),
                      ("indices", R.randint(0, 2, shape).astype(np.int32)),
                      ("axis", s32(axis))], batch_dims=batch)
case("GatherV2", [("params", x(2, 3)), ("indices", i32([0, 2])),
                  ("axis", s32(0))])
case("GatherV2", [("params", x(2, 3)), ("indices", i32([0, -1])),
                  ("axis", s32(0))])
case("GatherV2", [("params", x(0, 3)), ("indices", i32([0])), ("axis", s32(0))])
case("Gather", [("params", x(4, 2)), ("indices", i32([[3], [1]]))])
for shape in ((2, 0), (2, 1), (2, 3), (3,), (0, 2), (2, 4)):
    case("GatherNd", [("params", x(2, 2, 2)),
                      ("indices", R.randint(0, 2, shape).astype(np.int32))])
case("GatherNd", [("params", x(2, 2)), ("indices", i32([[0, 2]]))])
for dtype in [np.float32, np.int8, np.complex64, object, np.float16]:
    case("ScatterNd", [("indices", i32([[4], [1], [4]])),
                       ("updates", x(3, 2, dtype=dtype)), ("shape", i32(5, 2))])
case("ScatterNd", [("indices", i32([[0, 1], [1, 1]])), ("updates", x(2)),
                   ("shape", i32(2, 2))])
case("ScatterNd", [("indices", i32([[2]])), ("updates", x(1, 2)),
                   ("shape", i32(2, 2))])
case("ScatterNd", [("indices", i32([[1]])), ("updates", x(2, 2)),
                   ("shape", i32(2, 2))])
case("ScatterNd", [("indices", i32([[0]])), ("updates", x(1)),
                   ("shape", i32([0]))])
for op in ("Update", "Add", "Sub", "Min", "Max"):
    for dtype in (np.float32, np.int32, np.float64):
        case("TensorScatter" + op,
             [("tensor", x(5, 2, dtype=dtype)), ("indices", i32([[4], [1]])),
              ("updates", x(2, 2, dtype=dtype))])
case("TensorScatterUpdate", [("tensor", x(3, dtype=object)),
                             ("indices", i32([[1]])),
                             ("updates", x(1, dtype=object))])
case("TensorScatterAdd", [("tensor", x(3)), ("indices", i32([[3]])),
                          ("updates", x(1))])
case("TensorScatterAdd", [("tensor", x(3)), ("indices", i32([[2]])),
                          ("updates", x(2))])

# ---- New tensors
for dtype in ALL:
    case("Fill", [("dims", i32(2, 2)), ("value", x(dtype=dtype) if dtype != object
                                        else np.array(b"ab"))])
    case("ZerosLike", [("x", x(2, 2, dtype=dtype))])
case("Fill", [("dims", i32(0, 2)), ("value", x())])
case("Fill", [("dims", i32(-1, 2)), ("value", x())])
case("Fill", [("dims", i32(2)), ("value", x(2))])
case("OnesLike", [("x", x(2, 2, dtype=np.complex64))])
case("OnesLike", [("x", x(2, dtype=np.bool_))])
for axis in (-1, 0, 1, 3):
    case("OneHot", [("indices", np.array([[0, 2], [-1, 5]], np.int64)),
                    ("depth", s32(3)), ("on_value", np.float32(2)),
                    ("off_value", np.float32(-1))], axis=axis)
case("OneHot", [("indices", i32([1, 2])), ("depth", s32(0)),
                ("on_value", np.int32(2)), ("off_value", np.int32(1))], axis=-1)
case("OneHot", [("indices", i32([1, 2])), ("depth", s32(-1)),
                ("on_value", np.int32(2)), ("off_value", np.int32(1))], axis=-1)
for dtype in (np.int32, np.float32, np.float64, np.int64, np.int8):
    for a, b, c in ((2, 9, 3), (9, 2, -3), (2, 2, 1), (2, 9, 0), (9, 2, 1)):
        case("Range", [("start", dtype(a)), ("limit", dtype(b)),
                       ("delta", dtype(c))])
case("Range", [("start", np.float32(0)), ("limit", np.float32(1)),
               ("delta", np.float32(0.1))])
for a, b, n in ((1, 2, 5), (2, -3, 4), (1, 9, 1), (1, 2, 0)):
    case("LinSpace", [("start", np.float32(a)), ("stop", np.float32(b)),
                      ("num", s32(n))])
for multiples in ([1, 1, 1], [2, 1, 2], [0, 1, 1], [1, 3], [-1, 1, 1], [3, 2, 4]):
    case("Tile", [("input", x(2, 1, 3)), ("multiples", i32(multiples))])

# ---- Borders
for dtype in ALL:
    case("Pad", [("input", x(2, 3, dtype=dtype)),
                 ("paddings", i32([[1, 0], [2, 1]]))])
case("PadV2", [("input", x(2, 3)), ("paddings", i32([[1, 0], [2, 1]])),
               ("constant_values", np.float32(7))])
case("Pad", [("input", x(0, 3)), ("paddings", i32([[1, 0], [2, 1]]))])
case("Pad", [("input", x()), ("paddings", np.zeros([0, 2], np.int32))])
case("Pad", [("input", x(2)), ("paddings", i32([[-1, 0]]))])
case("Pad", [("input", x(2)), ("paddings", i32([[1, 0], [1, 1]]))])
for mode in ("REFLECT", "SYMMETRIC"):
    case("MirrorPad", [("input", x(3, 4)), ("paddings", i32([[2, 1], [0, 3]]))],
         mode=mode)
    case("MirrorPad", [("input", x(3, dtype=object)), ("paddings", i32([[3, 2]]))],
         mode=mode)
    case("MirrorPadGrad", [("input", x(6, 7)),
                           ("paddings", i32([[2, 1], [0, 3]]))], mode=mode)

# ---- Choosing
for c, t in (((2, 3), (2, 3)), ((2,), (2, 3)), ((), (2, 3)), ((3,), (2, 3)),
             ((2, 1), (2, 3))):
    for op in ("Select", "SelectV2"):
        a, b = ("x", "y") if op == "Select" else ("t", "e")
        case(op, [("condition", x(*c, dtype=np.bool_)), (a, x(*t)),
                  (b, x(*t))])
for dtype in ALL:
    case("SelectV2", [("condition", x(2, 1, dtype=np.bool_)),
                      ("t", x(2, 3, dtype=dtype)), ("e", x(3, dtype=dtype))])
    case("Select", [("condition", x(2, 3, dtype=np.bool_)),
                    ("x", x(2, 3, dtype=dtype)), ("y", x(2, 3, dtype=dtype))])
case("SelectV2", [("condition", x(2, dtype=np.bool_)), ("t", x(3)), ("e", x(3))])
case("Where", [("condition", x(2, 3, dtype=np.bool_))])
case("Where", [("condition", np.array([0, -0.0, np.nan, 1], np.float32))])
case("Where", [("condition", x(0, 2, dtype=np.bool_))])
case("Where", [("condition", np.array([[0, 1j]], np.complex64))])

# ---- Orders
for dtype in [np.float32, np.int8, object, np.complex128]:
    case("ReverseV2", [("tensor", x(2, 3, 2, dtype=dtype)), ("axis", i32(0, -1))])
case("Reverse", [("tensor", x(2, 3)), ("dims", np.array([False, True]))])
case("ReverseV2", [("tensor", x(2, 3)), ("axis", i32(1, -1))])
case("ReverseV2", [("tensor", x(2, 3)), ("axis", i32([2]))])
case("ReverseV2", [("tensor", x(2, 3)), ("axis", np.zeros([0], np.int32))])
case("ReverseSequence", [("input", x(2, 4, 2)), ("seq_lengths", i32(3, 0))],
     seq_dim=1, batch_dim=0)
case("ReverseSequence", [("input", x(4, 2, 2)), ("seq_lengths", i32(3, 4))],
     seq_dim=0, batch_dim=1)
case("ReverseSequence", [("input", x(2, 4)), ("seq_lengths", i32(3, 5))],
     seq_dim=1, batch_dim=0)
case("Roll", [("input", x(3, 4)), ("shift", i32(1, -2)), ("axis", i32(0, 1))])
case("Roll", [("input", x(5)), ("shift", s32(7)), ("axis", s32(0))])
case("Roll", [("input", x(2, 3, dtype=object)), ("shift", i32(1, 1)),
              ("axis", i32(1, 1))])
case("Roll", [("input", x(5)), ("shift", s32(1)), ("axis", s32(1))])

# ---- Matrices
for lower, upper in ((0, 0), (1, -1), (-1, 1), (0, 2), (3, 0), (4, 0), (-1, -1)):
    case("MatrixBandPart", [("input", x(2, 3, 4)), ("num_lower", np.int64(lower)),
                            ("num_upper", np.int64(upper))])
case("MatrixDiag", [("diagonal", x(2, 3))])
case("MatrixDiagPart", [("input", x(2, 3, 4))])
case("MatrixSetDiag", [("input", x(2, 3, 4)), ("diagonal", x(2, 3))])
case("MatrixSetDiag", [("input", x(2, 3, 4)), ("diagonal", x(2, 4))])
for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
    case("MatrixDiagV3", [("diagonal", x(2, 3, 3)), ("k", i32(-1, 1)),
                          ("num_rows", s32(-1)), ("num_cols", s32(-1)),
                          ("padding_value", np.float32(9))], align=align)
    case("MatrixDiagPartV3", [("input", x(2, 3, 4)), ("k", i32(-1, 2)),
                              ("padding_value", np.float32(9))], align=align)
    case("MatrixSetDiagV3", [("input", x(2, 3, 4)), ("diagonal", x(2, 3, 3)),
                             ("k", i32(0, 2))], align=align)
case("MatrixDiagV2", [("diagonal", x(3)), ("k", s32(1)), ("num_rows", s32(-1)),
                      ("num_cols", s32(6)), ("padding_value", np.float32(9))])
case("MatrixDiagV2", [("diagonal", x(3)), ("k", s32(1)), ("num_rows", s32(2)),
                      ("num_cols", s32(6)), ("padding_value", np.float32(9))])
case("MatrixDiagPartV2", [("input", x(3, 4)), ("k", i32(-2, -1)),
                          ("padding_value", np.float32(9))])
case("MatrixDiagPartV2", [("input", x(3, 4)), ("k", i32(0, 4)),
                          ("padding_value", np.float32(9))])
case("Diag", [("diagonal", x(2, 3))])
case("DiagPart", [("input", x(2, 3, 2, 3))])
case("DiagPart", [("input", x(2, 3, 3, 2))])

# ---- Sets and counts
for dtype in (np.int32, np.float32, np.int8, object, np.bool_):
    v = (x(8, dtype=dtype) if dtype in (object, np.bool_) else
         R.randint(0, 4, 8).astype(dtype))
    case("Unique", [("x", v)])
    case("UniqueWithCounts", [("x", v)], out_idx=tf.int64)
    case("ListDiff", [("x", v), ("y", v[:2])])
case("Unique", [("x", np.array([np.nan, 0, -0.0, np.nan], np.float32))])
case("Unique", [("x", x(2, 2))])
case("Unique", [("x", np.zeros([0], np.int32))])
v = R.randint(0, 2, (4, 2)).astype(np.int32)
for axis in (0, 1):
    case("UniqueV2", [("x", v), ("axis", np.array([axis], np.int64))])
    case("UniqueWithCountsV2", [("x", v), ("axis", np.array([axis], np.int64))])
case("UniqueV2", [("x", v[0]), ("axis", np.zeros([0], np.int64))])
case("Bincount", [("arr", i32(0, 2, 2, 5)), ("size", s32(4)),
                  ("weights", np.zeros([0], np.float32))])
case("Bincount", [("arr", i32(0, 2, 2, 5)), ("size", s32(4)),
                  ("weights", np.array([1, 2, 3, 4], np.float32))])
case("Bincount", [("arr", i32(0, -2)), ("size", s32(4)),
                  ("weights", np.zeros([0], np.int32))])
case("UnravelIndex", [("indices", i32(5, 2, 0)), ("dims", i32(2, 3))])
case("UnravelIndex", [("indices", s32(5)), ("dims", i32(2, 3))])
case("UnravelIndex", [("indices", i32(6, 2)), ("dims", i32(2, 3))])

for op in ("LowerBound", "UpperBound"):
    case(op, [("sorted_inputs", np.array([[1, 3, 3, 5], [2, 2, 4, 9]], np.float32)),
              ("values", np.array([[0, 3, 9], [2, 3, 10]], np.float32))])

# ---- Partitions
for dtype in (np.float32, object):
    case("DynamicPartition", [("data", x(4, 2, dtype=dtype)),
                              ("partitions", i32(1, 0, 1, 1))], num_partitions=3)
case("DynamicPartition", [("data", x(2, 2)),
                          ("partitions", i32([[1, 0], [1, 1]]))],
     num_partitions=2)
case("DynamicPartition", [("data", x(2)), ("partitions", i32(1, 2))],
     num_partitions=2)
case("DynamicPartition", [("data", x(2)), ("partitions", i32(1, 0, 0))],
     num_partitions=2)
case("DynamicStitch", [("indices", [i32([[0, 3], [1, 2]]), s32(4)]),
                       ("data", [x(2, 2, 3), x(3)])], N=2)
case("DynamicStitch", [("indices", [i32(0, 1), i32(1, 2)]),
                       ("data", [x(2), x(2)])], N=2)
case("DynamicStitch", [("indices", [i32(0, 1), i32(1, 2)]),
                       ("data", [x(2, 2), x(2, 3)])], N=2)
case("InplaceUpdate", [("x", x(3, 2)), ("i", i32(2, 0)), ("v", x(2, 2))])
case("InplaceAdd", [("x", x(3, 2)), ("i", i32(2, 2)), ("v", x(2, 2))])

# ---- Space
case("SpaceToBatchND", [("input", x(2, 4, 3, 2)), ("block_shape", i32(2, 2)),
                        ("paddings", i32([[0, 0], [1, 0]]))])
case("SpaceToBatchND", [("input", x(2, 4)), ("block_shape", i32([2])),
                        ("paddings", i32([[0, 2]]))])
case("SpaceToBatchND", [("input", x(1, 3)), ("block_shape", i32([2])),
                        ("paddings", i32([[0, 0]]))])
case("BatchToSpaceND", [("input", x(8, 2, 2, 1)), ("block_shape", i32(2, 2)),
                        ("crops", i32([[0, 0], [1, 0]]))])
case("BatchToSpaceND", [("input", x(6, 2)), ("block_shape", i32([3])),
                        ("crops", i32([[0, 0]]))])
case("BatchToSpaceND", [("input", x(5, 2)), ("block_shape", i32([3])),
                        ("crops", i32([[0, 0]]))])
case("SpaceToBatch", [("input", x(1, 4, 2, 1)),
                      ("paddings", i32([[1, 1], [0, 0]]))], block_size=2)
case("BatchToSpace", [("input", x(4, 2, 1, 1)),
                      ("crops", i32([[1, 0], [0, 0]]))], block_size=2)
case("SpaceToDepth", [("input", x(1, 4, 2, 3))], block_size=2)
case("DepthToSpace", [("input", x(2, 1, 2, 8))], block_size=2)
case("SpaceToDepth", [("input", x(1, 3, 2, 3))], block_size=2)
