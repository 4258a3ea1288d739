#!/usr/bin/env python3
"""Records TensorFlow's results for the ops of neural networks.

  record_nn_ops.py > nn_ops.txt     (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20180423)
ALL = [np.float32, np.float64, np.float16, tf.bfloat16.as_numpy_dtype]
REAL = ALL + [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
              np.uint32, np.uint64]


def x(*shape, dtype=np.float32):
    """Sums of products of these are exact."""
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
    return np.asarray(R.randint(low, 10, shape)).astype(dtype)


def u(*shape, dtype=np.float32):
    return (R.randint(-500, 500, shape) / 500).astype(dtype)


def i32(*v):
    return np.array(v[0] if len(v) == 1 and not np.isscalar(v[0]) else v,
                    np.int32)


def i64(v):
    return np.array(v, np.int64)


# ---- Convolutions of volumes
def order(shape, layout):
    """A shape NDHWC in the layout."""
    return list(shape) if layout == "NDHWC" else (
        [shape[0], shape[4]] + list(shape[1:4]))


def conv3d(shape, filters, dtype=np.float32, layout="NDHWC", strides=(1, 1, 1),
           dilations=(1, 1, 1), padding="SAME"):
    attrs = dict(strides=order((1,) + strides + (1,), layout),
                 dilations=order((1,) + dilations + (1,), layout),
                 padding=padding, data_format=layout)
    image = x(*order(shape, layout), dtype=dtype)
    kernel = x(*filters, dtype=dtype)
    case("Conv3D", [("input", image), ("filter", kernel)], **attrs)
    try:
        out = tf.raw_ops.Conv3D(input=image, filter=kernel, **attrs).shape
    except tf.errors.OpError:
        return
    dy = x(*out, dtype=dtype)
    for kind in (np.int32, np.int64) if filters[0] == 1 else (np.int32,):
        case("Conv3DBackpropInputV2",
             [("input_sizes", np.array(image.shape, kind)), ("filter", kernel),
              ("out_backprop", dy)], **attrs)
    case("Conv3DBackpropFilterV2",
         [("input", image), ("filter_sizes", i32(kernel.shape)),
          ("out_backprop", dy)], **attrs)


for dtype in ALL:
    conv3d((2, 3, 4, 3, 2), (2, 3, 2, 2, 3), dtype=dtype)
    conv3d((1, 4, 5, 3, 3), (2, 2, 2, 3, 2), dtype=dtype, strides=(2, 1, 2),
           padding="VALID")
for layout in ("NDHWC", "NCDHW"):
    for padding in ("SAME", "VALID"):
        conv3d((1, 5, 4, 6, 2), (3, 2, 3, 2, 4), layout=layout,
               strides=(2, 2, 1), padding=padding)
        conv3d((1, 6, 5, 7, 3), (2, 3, 2, 3, 2), layout=layout,
               dilations=(1, 2, 3), padding=padding)
conv3d((1, 3, 3, 3, 2), (1, 1, 1, 2, 5))
conv3d((1, 3, 3, 3, 2), (2, 2, 2, 3, 1))
conv3d((1, 3, 3, 3, 2), (2, 2, 2, 2, 1), strides=(0, 1, 1))
for sizes in ([1, 3, 3, 3], [1, 3, 3, 3, 3], [1, 4, 3, 3, 2],
              [1, 3, 3, 3, 2, 1]):
    case("Conv3DBackpropInputV2",
         [("input_sizes", i32(sizes)), ("filter", x(2, 2, 2, 2, 1)),
          ("out_backprop", x(1, 3, 3, 3, 1))], strides=[1, 1, 1, 1, 1],
         padding="SAME")

# ---- Pooling of volumes
def pool3d(shape, window, strides, padding, dtype):
    attrs = dict(ksize=[1, *window, 1], strides=[1, *strides, 1],
                 padding=padding)
    # All different, so that the maximum is unique.
    image = (R.permutation(int(np.prod(shape))).reshape(shape) % 251).astype(
        dtype)
    case("AvgPool3D", [("input", image)], **attrs)
    out = tf.raw_ops.AvgPool3D(input=image.astype(np.float32), **attrs).shape
    dy = x(*out, dtype=dtype)
    case("AvgPool3DGrad", [("orig_input_shape", i32(shape)), ("grad", dy)],
         **attrs)
    if dtype not in (np.float32, tf.bfloat16.as_numpy_dtype):
        return
    case("MaxPool3D", [("input", image)], **attrs)
    y = tf.raw_ops.MaxPool3D(input=image, **attrs)
    case("MaxPool3DGrad", [("orig_input", image), ("orig_output", y),
                           ("grad", dy)], **attrs)
    case("MaxPool3DGradGrad", [("orig_input", image), ("orig_output", y),
                               ("grad", x(*shape, dtype=dtype))], **attrs)


for dtype in ALL:
    pool3d((1, 4, 5, 3, 2), (2, 2, 2), (2, 1, 2), "SAME", dtype)
    pool3d((2, 3, 4, 5, 1), (3, 2, 1), (1, 2, 2), "VALID", dtype)
for bad in ([2, 1, 1, 1, 1], [1, 1, 1, 1]):
    for which in ("ksize", "strides"):
        attrs = dict(ksize=[1, 2, 2, 2, 1], strides=[1, 1, 1, 1, 1])
        attrs[which] = bad
        case("MaxPool3D", [("input", x(1, 3, 3, 3, 1))], padding="SAME", **attrs)
        case("AvgPool3D", [("input", x(1, 3, 3, 3, 1))], padding="SAME", **attrs)
POOL = dict(ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME")
case("MaxPool3D", [("input", x(0, 3, 3, 3, 1))], **POOL)

# ---- Dilation
for dtype in REAL:
    for strides, rates, padding in (([1, 1, 2, 1], [1, 2, 1, 1], "SAME"),
                                    ([1, 1, 1, 1], [1, 1, 2, 1], "VALID")):
        attrs = dict(strides=strides, rates=rates, padding=padding)
        image, kernel = x(1, 4, 5, 2, dtype=dtype), x(2, 3, 2, dtype=dtype)
        case("Dilation2D", [("input", image), ("filter", kernel)], **attrs)
        out = tf.raw_ops.Dilation2D(input=image, filter=kernel, **attrs)
        dy = x(*out.shape, dtype=dtype)
        for op in ("Input", "Filter"):
            case("Dilation2DBackprop" + op,
                 [("input", image), ("filter", kernel), ("out_backprop", dy)],
                 **attrs)
EDGE = dict(strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="VALID")
odd = np.array([np.nan, 1, -np.inf, np.nan, 2, np.inf], np.float32)
for op, more in (("Dilation2D", []),
                 ("Dilation2DBackpropInput", [("out_backprop", x(1, 1, 5, 1))]),
                 ("Dilation2DBackpropFilter", [("out_backprop", x(1, 1, 5, 1))])):
    case(op, [("input", odd.reshape(1, 1, 6, 1)), ("filter", x(1, 2, 1))] + more,
         **EDGE)
    case(op, [("input", x(1, 1, 6, 2)), ("filter", x(1, 2, 1))] + more, **EDGE)
    case(op, [("input", x(1, 6, 1)), ("filter", x(1, 2, 1))] + more, **EDGE)
case("Dilation2D", [("input", x(1, 3, 3, 1)), ("filter", x(2, 2, 1))],
     **{**EDGE, "strides": [2, 1, 1, 1]})
case("Dilation2D", [("input", x(0, 3, 3, 1)), ("filter", x(2, 2, 1))], **EDGE)

# ---- Fractional pooling
for pseudo, overlapping in itertools.product((False, True), repeat=2):
    for ratio, shape, dtype in (([1.0, 1.44, 1.73, 1.0], (2, 9, 8, 2), np.float32),
                                ([1.0, 1.5, 2.6, 1.0], (1, 6, 13, 3), np.float64),
                                ([1.0, 3.3, 1.0, 1.0], (1, 11, 3, 1), np.int32),
                                ([1.0, 2.0, 1.25, 1.0], (1, 6, 5, 2), np.int64)):
        for kind in ("Max", "Avg"):
            image = x(*shape, dtype=dtype)
            attrs = dict(pooling_ratio=ratio, pseudo_random=pseudo,
                         overlapping=overlapping, deterministic=True,
                         seed=int(R.randint(1, 99)), seed2=int(R.randint(1, 99)))
            op = "Fractional" + kind + "Pool"
            case(op, [("value", image)], **attrs)
            out, rows, columns = getattr(tf.raw_ops, op)(value=image, **attrs)
            dy = x(*out.shape, dtype=dtype)
            first = ([("orig_input", image), ("orig_output", out)]
                     if kind == "Max" else
                     [("orig_input_tensor_shape", i64(shape))])
            case(op + "Grad", first + [
                ("out_backprop", dy), ("row_pooling_sequence", rows),
                ("col_pooling_sequence", columns)], overlapping=overlapping)
for ratio in ([1.0, 0.5, 1.0, 1.0], [2.0, 1.5, 1.5, 1.0], [1.0, 1.5, 1.5, 2.0],
              [1.0, 9.0, 1.5, 1.0], [1.0, -1.5, 1.5, 1.0]):
    case("FractionalMaxPool", [("value", x(2, 4, 4, 2))], pooling_ratio=ratio,
         seed=1, seed2=2)
    case("FractionalAvgPool", [("value", x(2, 4, 4, 2))], pooling_ratio=ratio,
         seed=1, seed2=2)
case("FractionalMaxPool", [("value", x(4, 4, 2))],
     pooling_ratio=[1.0, 1.5, 1.5, 1.0], seed=1, seed2=2)

# ---- Labels without alignment
def ctc(time, batch, classes, labels, lengths, dtype=np.float32, scale=3, **attrs):
    rows = [(b, i) for b, l in enumerate(labels) for i in range(len(l))]
    case("CTCLoss",
         [("inputs", u(time, batch, classes, dtype=dtype) * dtype(scale)),
          ("labels_indices", i64(rows).reshape(-1, 2)),
          ("labels_values", i32([v for l in labels for v in l])),
          ("sequence_length", i32(lengths))], **attrs)


for collapse, merge, longer in itertools.product((False, True), repeat=3):
    attrs = dict(preprocess_collapse_repeated=collapse, ctc_merge_repeated=merge,
                 ignore_longer_outputs_than_inputs=longer)
    for dtype in (np.float32, np.float64):
        ctc(6, 3, 4, [[0, 1, 2], [1, 1, 0], [2]], [6, 6, 4], dtype, **attrs)
        ctc(5, 2, 3, [[0, 0, 1, 1], [1, 0]], [5, 3], dtype, **attrs)
    ctc(4, 2, 3, [[0, 1, 0, 1, 0], [1]], [4, 4], **attrs)
    ctc(4, 2, 3, [[0, 0, 0], [1]], [3, 0], **attrs)
ctc(7, 2, 5, [[0, 4, 4], [3, 4]], [7, 7])
ctc(7, 2, 5, [[0, 4, 1], [3, 4]], [7, 7])
ctc(7, 1, 5, [[-1]], [7])
ctc(7, 2, 5, [[1], []], [7, 7])
ctc(7, 2, 5, [[1], [2]], [8, 7])
ctc(7, 2, 5, [[1], [2]], [-1, 7])
ctc(7, 2, 5, [[1], [2]], [7])
ctc(7, 1, 5, [[1, 2, 3]], [7], scale=30)
for index in ([[0, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [2, 0]],
              [[-1, 0], [0, 0]], [[0, -1], [0, 0]]):
    case("CTCLoss", [("inputs", u(5, 2, 3)), ("labels_indices", i64(index)),
                     ("labels_values", i32(0, 1)), ("sequence_length", i32(5, 5))])
for dtype in (np.float32, np.float64):
    for merge in (False, True):
        for blank in (-1, 0, 2, -4):
            case("CTCGreedyDecoder",
                 [("inputs", u(7, 3, 4, dtype=dtype)),
                  ("sequence_length", i32(7, 0, 4))], merge_repeated=merge,
                 blank_index=blank)
        for width, paths in ((1, 1), (3, 2), (8, 3), (100, 1)):
            case("CTCBeamSearchDecoder",
                 [("inputs", u(6, 3, 3, dtype=dtype)),
                  ("sequence_length", i32(6, 3, 5))], beam_width=width,
                 top_paths=paths, merge_repeated=merge)
            # (With ties.)
            case("CTCBeamSearchDecoder",
                 [("inputs", x(5, 1, 4, dtype=dtype) // 5),
                  ("sequence_length", i32([5]))], beam_width=width,
                 top_paths=paths, merge_repeated=merge)
for blank in (4, -5):
    case("CTCGreedyDecoder", [("inputs", u(7, 1, 4)),
                              ("sequence_length", i32([7]))], blank_index=blank)
for inputs, lengths in ((u(7, 1, 4), [8]), (u(7, 1, 4), [7, 7]),
                        (u(7, 4), [7]), (u(0, 1, 4), [0]), (u(7, 1, 0), [7])):
    case("CTCGreedyDecoder", [("inputs", inputs), ("sequence_length", i32(lengths))])
    case("CTCBeamSearchDecoder", [("inputs", inputs),
                                  ("sequence_length", i32(lengths))],
         beam_width=4, top_paths=1)
case("CTCBeamSearchDecoder", [("inputs", u(7, 1, 4)),
                              ("sequence_length", i32([7]))],
     beam_width=2, top_paths=3)
case("CTCBeamSearchDecoder", [("inputs", u(7, 1, 4)),
                              ("sequence_length", i32([0]))],
     beam_width=4, top_paths=2)

# ---- Recurrent cells
def lstm(op, batch, inputs, units, time=0, steps=None, dtype=np.float32, **attrs):
    lead = [time] if time else []
    args = [("x", u(*lead, batch, inputs, dtype=dtype))]
    for name, shape in (("cs_prev", (batch, units)), ("h_prev", (batch, units)),
                        ("w", (inputs + units, 4 * units)), ("wci", (units,)),
                        ("wcf", (units,)), ("wco", (units,)), ("b", (4 * units,))):
        args.append((name, u(*shape, dtype=dtype)))
    if time:
        args.insert(0, ("seq_len_max", np.int64(time if steps is None else steps)))
    if steps is None:
        case(op, args, **attrs)
    try:
        out = getattr(tf.raw_ops, op)(**dict(args), **attrs)
    except tf.errors.OpError:
        return case(op, args, **attrs)
    names = ["i", "cs", "f", "o", "ci", "co", "h"]
    kept = [(n, out[k].numpy()) for k, n in enumerate(names)]
    if steps is not None:  # TensorFlow leaves the rest of the others unset.
        for n, value in kept:
            value[steps:] = 0
    state = (*lead, batch, units)
    kept += [("cs_grad", u(*state, dtype=dtype)), ("h_grad", u(*state, dtype=dtype))]
    if op == "LSTMBlockCell":
        kept = [k for k in kept if k[0] != "h"]
    grad = {"LSTMBlockCell": "LSTMBlockCellGrad", "BlockLSTM": "BlockLSTMGrad",
            "BlockLSTMV2": "BlockLSTMGradV2"}[op]
    if op == "LSTMBlockCell" and not attrs["use_peephole"]:
        return  # (The gradients of the peepholes are not set.)
    case(grad, args + kept, use_peephole=attrs["use_peephole"])


for dtype in (np.float32, np.float16):
    for peephole in (False, True):
        lstm("LSTMBlockCell", 2, 3, 4, dtype=dtype, use_peephole=peephole,
             forget_bias=0.5, cell_clip=0.25)
        for op in ("BlockLSTM", "BlockLSTMV2"):
            lstm(op, 2, 3, 2, time=3, dtype=dtype, use_peephole=peephole,
                 cell_clip=-1.0)
for op in ("BlockLSTM", "BlockLSTMV2"):
    lstm(op, 1, 2, 3, time=4, steps=2, use_peephole=False, cell_clip=0.3)
shapes = dict(x=(2, 3), cs_prev=(2, 4), h_prev=(2, 4), w=(7, 16), wci=(4,),
              wcf=(4,), wco=(4,), b=(16,))
for name, wrong in (("x", (2, 4)), ("x", (3, 3)), ("cs_prev", (2, 5)),
                    ("h_prev", (3, 4)), ("w", (7, 15)), ("wci", (5,)), ("b", (4,))):
    case("LSTMBlockCell",
         [(n, u(*(wrong if n == name else s))) for n, s in shapes.items()])
shapes = dict(x=(2, 3), h_prev=(2, 4), w_ru=(7, 8), w_c=(7, 4), b_ru=(8,),
              b_c=(4,))
args = [(n, u(*s)) for n, s in shapes.items()]
case("GRUBlockCell", args)
out = tf.raw_ops.GRUBlockCell(**dict(args))
case("GRUBlockCellGrad", args + [("r", out.r), ("u", out.u), ("c", out.c),
                                 ("d_h", u(2, 4))])
for name, wrong in (("x", (2, 4)), ("h_prev", (3, 4)), ("w_ru", (7, 4)),
                    ("w_c", (7, 8)), ("b_ru", (4,)), ("b_c", (4, 1))):
    case("GRUBlockCell",
         [(n, u(*(wrong if n == name else s))) for n, s in shapes.items()])

# ---- Layouts
for dtype in (np.int32, np.int64):
    for a, b in (("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "HWNC"),
                 ("NDHWC", "NCDHW"), ("NHWC", "NHWC")):
        n = len(a)
        formats = dict(src_format=a, dst_format=b)
        case("DataFormatDimMap", [("x", np.arange(-n, n, dtype=dtype))], **formats)
        for rows in (n, n - 2, n - 1):
            case("DataFormatVecPermute", [("x", x(rows, dtype=dtype))], **formats)
            case("DataFormatVecPermute", [("x", x(rows, 2, dtype=dtype))],
                 **formats)
case("DataFormatDimMap", [("x", np.int32(1))])
case("DataFormatVecPermute", [("x", x(4, 3, dtype=np.int32))])
case("DataFormatVecPermute", [("x", np.int32(3))])
case("DataFormatVecPermute", [("x", x(4, 2, 1, dtype=np.int32))])
for a, b in (("NHW", "NHW"), ("NHWC", "NHW"), ("NHWC", "NHWD"), ("NHHC", "NCHH")):
    case("DataFormatDimMap", [("x", i32([1]))], src_format=a, dst_format=b)
    case("DataFormatVecPermute", [("x", i32(1, 2, 3, 4))], src_format=a,
         dst_format=b)

# ---- Patches
for dtype in REAL + [np.complex64, np.complex128, np.bool_]:
    case("ExtractImagePatches", [("images", x(1, 4, 5, 2, dtype=dtype))],
         ksizes=[1, 2, 3, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1],
         padding="SAME")
for dtype in REAL:
    case("ExtractVolumePatches", [("input", x(1, 2, 3, 2, 2, dtype=dtype))],
         ksizes=[1, 2, 2, 1, 1], strides=[1, 1, 2, 1, 1], padding="SAME")
for ksizes, strides, rates in (([1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 2, 1]),
                               ([1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1]),
                               ([1, 1, 1, 1], [1, 3, 3, 1], [1, 1, 1, 1]),
                               ([2, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]),
                               ([1, 1, 1, 1], [1, 1, 1, 2], [1, 1, 1, 1])):
    for padding in ("SAME", "VALID"):
        case("ExtractImagePatches", [("images", x(2, 4, 4, 1))], ksizes=ksizes,
             strides=strides, rates=rates, padding=padding)
case("ExtractImagePatches", [("images", x(4, 4, 1))], ksizes=[1, 2, 2, 1],
     strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME")
case("ExtractVolumePatches", [("input", x(1, 3, 4, 3, 1))],
     ksizes=[1, 2, 2, 2, 1], strides=[1, 1, 2, 1, 1], padding="VALID")
