#!/usr/bin/env python3
"""Compares Sluice's time for one op per step with TensorFlow's and PyTorch's
for the same call (bench/op_calls.tsv), in microseconds, on this machine, one
after the other; for float matrix products also with numpy's BLAS.

    bench/op_peers.py [--filter REGEX] [--sluice build/release/bin/sluice] [--turns 3]

TensorFlow runs the op of that name eagerly (as a raw op, without Python
wrappers), PyTorch the function that torch_calls names. Each is timed like
Sluice: the best of seven runs, each with enough calls to take 5 ms. The
libraries alternate, since the machine's load changes from second to second, and
the best turn of each counts. The last lines are, for each size, the geometric
mean of best peer / Sluice.
"""
import argparse
import inspect
import json
import math
import os
import re
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("GLOG_minloglevel", "3")
HERE = os.path.dirname(os.path.abspath(__file__))


def calls():
    """(name, op, attributes, inputs) of every call."""
    with open(os.path.join(HERE, "op_calls.tsv")) as table:
        for line in table:
            if line.startswith("#") or not line.strip():
                continue
            name, op, attrs, *sizes = line.rstrip("\n").split("\t")
            for size, inputs in zip(("small", "medium", "large"), sizes):
                yield name + "." + size, name, op, attrs, inputs.split()


def parse_attrs(text):
    attrs = {}
    for pair in text.split():
        key, value = pair.split("=")
        try:
            attrs[key] = json.loads(value)
        except ValueError:
            attrs[key] = value
    return attrs


def arrays(inputs):
    """numpy arrays; bfloat16 ones are marked by their second element."""
    import numpy as np

    random = np.random.default_rng(7)
    for text in inputs:
        if text[0] == "=":
            value = json.loads(re.sub(r"\.(?!\d)", ".0", text[1:]))
            kind = np.float32 if isinstance(value, float) else np.int32
            yield np.array(value, kind), "constant"
            continue
        shape = json.loads(text[1:text.index("]") + 1])
        rest = text[text.index("]") + 1:]
        if text[0] == "i":
            bound = int(rest[1:]) if rest else 1 << 20
            yield random.integers(0, bound, shape).astype(np.int32), "i"
        elif text[0] == "b":
            yield random.random(shape) > 0.5, "b"
        else:
            x = random.random(shape, np.float32)
            yield (x + 0.5 if rest == "+" else 2 * x - 1), text[0]


def best_us(fn):
    fn()
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            fn()
        if time.perf_counter() - start > 0.005:
            break
        times *= 4
    best = math.inf
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(times):
            fn()
        best = min(best, time.perf_counter() - start)
    return best / times * 1e6


def tensorflow(op, attrs, inputs):
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    signature = op_def_registry.get(op)
    values = []
    for x, kind in inputs:
        t = tf.constant(x)
        values.append(tf.cast(t, tf.bfloat16) if kind == "h" else t)
    raw = getattr(tf.raw_ops, op)
    named = {}  # By parameter names of the Python function.
    for arg, name in zip(signature.input_arg, inspect.signature(raw).parameters):
        take = len(values) - (len(signature.input_arg) - 1) if arg.number_attr else 0
        named[name] = values[:take] if take else values[0]
        values = values[max(take, 1):]
    for key in ("dtype", "DstT"):
        if key in attrs:
            attrs = {**attrs, key: getattr(tf, attrs[key].replace("float", "float32"))}
    return lambda: raw(**named, **attrs)


def torch_calls():
    import torch
    import torch.nn.functional as F

    def nchw(x):  # A view of [n, h, w, c].
        return x.permute(0, 3, 1, 2)

    def oihw(w):
        return w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)

    def conv(x, w):
        x, w = nchw(x), oihw(w)
        pad = w.shape[2] // 2
        return lambda: F.conv2d(x, w, padding=pad)

    def conv_back(which):
        def make(x, w, dy):
            dy = nchw(dy)
            if which == 0:
                shape, w = [int(x[0]), int(x[3]), int(x[1]), int(x[2])], oihw(w)
                like = torch.empty(shape).contiguous(memory_format=torch.channels_last)
            else:
                like, n = nchw(x), [int(v) for v in w]
                w = torch.empty(n[3], n[2], n[0], n[1]).contiguous(
                    memory_format=torch.channels_last)
            pad = w.shape[2] // 2
            mask = [which == 0, which == 1, False]
            return lambda: torch.ops.aten.convolution_backward(
                dy, like, w, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, mask)
        return make

    def depthwise(x, w):
        x, w = nchw(x), w.permute(2, 3, 0, 1).contiguous()
        return lambda: F.conv2d(x, w, padding=1, groups=w.shape[0])

    def pool(fn):
        def make(x):
            x = nchw(x)
            return lambda: fn(x, 2, 2)
        return make

    def pool_grad(x, y, dy):
        x, dy = nchw(x), nchw(dy)
        _, at = F.max_pool2d(x, 2, 2, return_indices=True)
        return lambda: torch.ops.aten.max_pool2d_with_indices_backward(
            dy, x, [2, 2], [2, 2], [0, 0], [1, 1], False, at)

    def unary(fn):
        return lambda x: lambda: fn(x)

    def binary(fn):
        return lambda x, y: lambda: fn(x, y)

    def rows(fn):
        return lambda x, axes: lambda: fn(x, [int(a) for a in axes])

    def batch_norm(x, scale, offset, *_):
        x = nchw(x)
        mean, var = torch.zeros_like(scale), torch.ones_like(scale)
        return lambda: F.batch_norm(x, mean, var, scale, offset, training=True)

    def segment_sum(x, ids, n):
        ids, n = ids.long(), int(n)
        return lambda: torch.zeros(n, x.shape[1]).index_add_(0, ids, x)

    def gather(x, i, axis):
        i = i.long()
        return lambda: torch.index_select(x, int(axis), i)

    def sparse_loss(x, labels):
        labels = labels.long()
        return lambda: F.cross_entropy(x, labels, reduction="none")

    def one_hot(i, depth, *_):
        i = i.long()
        return lambda: F.one_hot(i, int(depth)).float()

    return {
        "MatMul": binary(torch.matmul), "MatMul.bf16": binary(torch.matmul),
        "MatMul.tall": lambda x, y: lambda: torch.matmul(x, y.t()),
        "BatchMatMul": binary(torch.bmm),
        "Conv2D": conv, "Conv2D.1x1": conv,
        "Conv2DBackpropInput": conv_back(0), "Conv2DBackpropFilter": conv_back(1),
        "DepthwiseConv2d": depthwise,
        "MaxPool": pool(F.max_pool2d), "AvgPool": pool(F.avg_pool2d),
        "MaxPoolGrad": pool_grad,
        "BiasAdd": binary(torch.add), "BiasAddGrad": unary(lambda x: x.sum(0)),
        "Relu": unary(torch.relu), "Tanh": unary(torch.tanh),
        "Sigmoid": unary(torch.sigmoid), "Softplus": unary(F.softplus),
        "Elu": unary(F.elu),
        "ReluGrad": lambda dy, x: lambda: torch.ops.aten.threshold_backward(dy, x, 0),
        "Softmax": unary(lambda x: torch.softmax(x, 1)),
        "LogSoftmax": unary(lambda x: torch.log_softmax(x, 1)),
        "SoftmaxCrossEntropy": lambda x, y: lambda: F.cross_entropy(
            x, y, reduction="none"),
        "SparseSoftmaxCrossEntropy": sparse_loss, "FusedBatchNorm": batch_norm,
        "L2Loss": unary(lambda x: torch.dot(x.flatten(), x.flatten()) / 2),
        "AddV2": binary(torch.add), "AddV2.row": binary(torch.add),
        "AddV2.column": binary(torch.add), "Sub": binary(torch.sub),
        "Mul": binary(torch.mul), "Maximum": binary(torch.maximum),
        "SquaredDifference": binary(lambda x, y: (x - y).square_()),
        "RealDiv": binary(torch.div), "Pow": binary(torch.pow),
        "Neg": unary(torch.neg), "Square": unary(torch.square),
        "Exp": unary(torch.exp), "Abs": unary(torch.abs), "Log": unary(torch.log),
        "Sqrt": unary(torch.sqrt), "Rsqrt": unary(torch.rsqrt),
        "Erf": unary(torch.erf), "Sin": unary(torch.sin),
        "Greater": binary(torch.gt), "Equal": binary(torch.eq),
        "SelectV2": lambda c, x, y: lambda: torch.where(c, x, y),
        "AddN": lambda a, b, c, d: lambda: (a + b).add_(c).add_(d),
        "Sum": rows(torch.sum), "Mean": rows(torch.mean), "Max": rows(torch.amax),
        "Sum.first": rows(torch.sum), "Sum.all": rows(torch.sum),
        "ArgMax": lambda x, axis: lambda: torch.argmax(x, int(axis)),
        "Cumsum": lambda x, axis: lambda: torch.cumsum(x, int(axis)),
        "Cast": unary(lambda x: x.int()),
        "Transpose": lambda x, p: lambda: x.t().contiguous(),
        "Transpose.nchw": lambda x, p: lambda: nchw(x).contiguous(),
        "ConcatV2": lambda x, y, axis: lambda: torch.cat([x, y], int(axis)),
        "Split": lambda axis, x: lambda: [
            p.contiguous() for p in torch.chunk(x, 4, int(axis))],
        "StridedSlice": lambda x, *_: lambda: x[:, 1:-1:2].contiguous(),
        "Pad": lambda x, _: lambda: F.pad(x, (2, 2, 1, 1)),
        "Tile": lambda x, m: lambda: x.repeat(2, 2),
        "GatherV2": gather, "UnsortedSegmentSum": segment_sum, "OneHot": one_hot,
        "TopKV2": lambda x, k: lambda: torch.topk(x, int(k)),
        "RandomUniform": lambda s: lambda: torch.rand([int(v) for v in s]),
        "RandomStandardNormal": lambda s: lambda: torch.randn([int(v) for v in s]),
    }


def torch_call(known, name, inputs):
    import torch

    if name not in known:
        return None
    values = []
    for x, kind in inputs:
        t = torch.from_numpy(x)
        values.append(t.bfloat16() if kind == "h" else t)
    return known[name](*values)


def numpy_call(op, attrs, inputs):
    if op != "MatMul" or any(kind != "f" for _, kind in inputs):
        return None
    x, y = (x for x, _ in inputs)
    y = y.T if attrs.get("transpose_b") else y
    return lambda: x @ y


def sluice_us(program, call):
    out = subprocess.run(
        [program, "bench", "--json", "--filter",
         "^sluice.ops." + re.escape(call) + ".us$"],
        capture_output=True, text=True, check=True).stdout
    return json.loads(out)["value"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="calls whose name matches")
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    o = parser.parse_args()
    import torch

    known = torch_calls()
    ratios = {}
    print("%-34s %10s %10s %10s %10s %7s" % (
        "us", "sluice", "pytorch", "tensorflow", "numpy", "times"))
    for full, name, op, attrs, inputs in calls():
        if not re.search(o.filter, full):
            continue
        values, given = list(arrays(inputs)), parse_attrs(attrs)
        timed = [lambda: sluice_us(o.sluice, full)]
        for call in (torch_call(known, name, values),
                     tensorflow(op, given, values), numpy_call(op, given, values)):
            timed.append((lambda call=call: best_us(call)) if call else
                         lambda: math.nan)
        with torch.no_grad():
            turns = [[one() for one in timed] for _ in range(o.turns)]
        ours, pytorch, tf, blas = map(min, zip(*turns))
        times = min(t for t in (pytorch, tf, blas) if not math.isnan(t)) / ours
        ratios.setdefault(full.rsplit(".", 1)[1], []).append(times)
        print("%-34s %10.2f %10.2f %10.2f %10.2f %7.2f" % (
            full, ours, pytorch, tf, blas, times), flush=True)
    for size, all_times in ratios.items():
        mean = math.exp(sum(map(math.log, all_times)) / len(all_times))
        print("%s: geometric mean %.2f times the best peer, least %.2f" % (
            size, mean, min(all_times)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
