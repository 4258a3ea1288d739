#!/usr/bin/env python3
"""Compares Sluice's times for steps of the networks of bench/networks with
PyTorch's and TensorFlow's for the same networks, in milliseconds, on this
machine.

    bench/net_peers.py [--filter REGEX] [--sluice build/release/bin/sluice] [--turns 2]

fwd: the forward pass to the loss; step: a training step of gradient descent
(for the language model: Adagrad). PyTorch runs eagerly, with images in both
memory formats, and the faster one counts; TensorFlow runs a compiled
tf.function, NHWC. They alternate: each runs `turns` times, in separate
processes, and the minimum of all its steps counts: three in each process, 20 of
the language model, whose short steps are slower at first.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("GLOG_minloglevel", "3")

NETS = {  # Figure: network, batch, image size, channels, classes.
    "nets.alexnet.B16": ("alexnet", 16, 224, 3, 1000),
    "nets.overfeat.B16": ("overfeat", 16, 231, 3, 1000),
    "nets.vgg_a.B8": ("vgg_a", 8, 224, 3, 1000),
    "nets.googlenet.B16": ("googlenet", 16, 224, 3, 1000),
    "nets.inception_v3.B8": ("inception_v3", 8, 299, 3, 1000),
    "nets.resnet50.B8": ("resnet50", 8, 224, 3, 1000),
    # "lm", batch, sampled classes, units.
    "nets.lstm_512.full_softmax.B32": ("lm", 32, 0, 512),
    "nets.lstm_512.sampled_softmax.B32": ("lm", 32, 512, 512),
    "lm.full_softmax": ("lm", 32, 0, 256),
    "lm.sampled_softmax": ("lm", 32, 512, 256),
}
WORDS, LENGTH = 40000, 20


# ---- The networks, by layers of either library -------------------------------------

def alexnet(n, h):
    h = n.maxpool(n.conv(h, 64, (11, 11), 4, 2), 3, 2)
    h = n.maxpool(n.conv(h, 192, (5, 5)), 3, 2)
    h = n.conv(n.conv(n.conv(h, 384, (3, 3)), 256, (3, 3)), 256, (3, 3))
    h = n.flat(n.maxpool(h, 3, 2))
    return n.dense(n.relu(n.dense(n.relu(n.dense(h, 4096)), 4096)), 1000)


def overfeat(n, h):
    h = n.maxpool(n.conv(h, 96, (11, 11), 4, 0), 2, 2)
    h = n.maxpool(n.conv(h, 256, (5, 5), 1, 0), 2, 2)
    h = n.conv(n.conv(n.conv(h, 512, (3, 3)), 1024, (3, 3)), 1024, (3, 3))
    h = n.flat(n.maxpool(h, 2, 2))
    return n.dense(n.relu(n.dense(n.relu(n.dense(h, 3072)), 4096)), 1000)


def vgg_a(n, h):
    for channels, times in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(times):
            h = n.conv(h, channels, (3, 3))
        h = n.maxpool(h, 2, 2)
    h = n.flat(h)
    return n.dense(n.relu(n.dense(n.relu(n.dense(h, 4096)), 4096)), 1000)


def googlenet(n, h):
    def block(h, one, three_in, three, five_in, five, pool):
        return n.concat([
            n.conv(h, one, (1, 1)),
            n.conv(n.conv(h, three_in, (1, 1)), three, (3, 3)),
            n.conv(n.conv(h, five_in, (1, 1)), five, (5, 5)),
            n.conv(n.maxpool(h, 3, 1, 1), pool, (1, 1))])

    h = n.maxpool(n.conv(h, 64, (7, 7), 2, 3), 3, 2, 1)
    h = n.maxpool(n.conv(n.conv(h, 64, (1, 1)), 192, (3, 3)), 3, 2, 1)
    h = block(h, 64, 96, 128, 16, 32, 32)
    h = n.maxpool(block(h, 128, 128, 192, 32, 96, 64), 3, 2, 1)
    h = block(h, 192, 96, 208, 16, 48, 64)
    h = block(h, 160, 112, 224, 24, 64, 64)
    h = block(h, 128, 128, 256, 24, 64, 64)
    h = block(h, 112, 144, 288, 32, 64, 64)
    h = n.maxpool(block(h, 256, 160, 320, 32, 128, 128), 3, 2, 1)
    h = block(h, 256, 160, 320, 32, 128, 128)
    h = block(h, 384, 192, 384, 48, 128, 128)
    return n.dense(n.mean(h), 1000)


def inception_v3(n, h):
    def chain(h, *layers):
        for channels, window, *rest in layers:
            stride, pad = rest if rest else (1, None)
            h = n.relu(n.norm(n.conv(h, channels, window, stride, pad, False)))
        return h

    one, three, half = (1, 1), (3, 3), ((3, 3), 2, 0)

    def pooled(h, channels):
        return chain(n.avgpool(h, 3), (channels, one))

    def a(h, channels):
        return n.concat([chain(h, (64, one)), chain(h, (48, one), (64, (5, 5))),
                         chain(h, (64, one), (96, three), (96, three)),
                         pooled(h, channels)])

    def b(h, c):
        return n.concat([
            chain(h, (192, one)), chain(h, (c, one), (c, (1, 7)), (192, (7, 1))),
            chain(h, (c, one), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))),
            pooled(h, 192)])

    def c(h):
        x, y = chain(h, (384, one)), chain(h, (448, one), (384, three))
        return n.concat([chain(h, (320, one)), chain(x, (384, (1, 3))),
                         chain(x, (384, (3, 1))), chain(y, (384, (1, 3))),
                         chain(y, (384, (3, 1))), pooled(h, 192)])

    h = chain(h, (32, *half), (32, three, 1, 0), (64, three))
    h = chain(n.maxpool(h, 3, 2), (80, one), (192, three, 1, 0))
    h = a(a(a(n.maxpool(h, 3, 2), 32), 64), 64)
    h = n.concat([chain(h, (384, *half)),
                  chain(h, (64, one), (96, three), (96, *half)), n.maxpool(h, 3, 2)])
    h = b(b(b(b(h, 128), 160), 160), 192)
    h = n.concat([chain(h, (192, one), (320, *half)),
                  chain(h, (192, one), (192, (1, 7)), (192, (7, 1)), (192, *half)),
                  n.maxpool(h, 3, 2)])
    return n.dense(n.mean(c(c(h))), 1000)


def resnet50(n, h):
    def norm(h, channels, window, stride=1):
        return n.norm(n.conv(h, channels, window, stride, window[0] // 2, False))

    h = n.maxpool(n.relu(norm(h, 64, (7, 7), 2)), 3, 2, 1)
    for stage, (c, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(blocks):
            stride = 2 if i == 0 and stage > 0 else 1
            x = n.relu(norm(h, c, (1, 1)))
            x = norm(n.relu(norm(x, c, (3, 3), stride)), 4 * c, (1, 1))
            h = n.relu(x + (norm(h, 4 * c, (1, 1), stride) if i == 0 else h))
    return n.dense(n.mean(h), 1000)


BUILD = {f.__name__: f for f in (alexnet, overfeat, vgg_a, googlenet, inception_v3,
                                 resnet50)}


# ---- PyTorch -----------------------------------------------------------------------

class TorchLayers:
    """Layers in call order; the first call creates them. conv has a ReLU if it
    has a bias."""

    def __init__(self):
        self.made, self.next = [], 0

    def layer(self, make):
        if self.next == len(self.made):
            self.made.append(make())
        self.next += 1
        return self.made[self.next - 1]

    def conv(self, h, out, window, stride=1, pad=None, bias=True):
        import torch
        if pad is None:
            pad = (window[0] // 2, window[1] // 2)
        h = self.layer(lambda: torch.nn.Conv2d(h.shape[1], out, window, stride, pad,
                                               bias=bias))(h)
        return h.relu_() if bias else h

    def norm(self, h):
        import torch
        return self.layer(lambda: torch.nn.BatchNorm2d(h.shape[1], 1e-3))(h)

    def dense(self, h, out):
        import torch
        return self.layer(lambda: torch.nn.Linear(h.shape[1], out))(h)

    def maxpool(self, h, window, stride, pad=0):
        import torch
        return torch.nn.functional.max_pool2d(h, window, stride, pad)

    def avgpool(self, h, window):
        import torch
        return torch.nn.functional.avg_pool2d(h, window, 1, window // 2,
                                              count_include_pad=False)

    def relu(self, h):
        return h.relu()

    def concat(self, hs):
        import torch
        return torch.cat(hs, 1)

    def mean(self, h):
        return h.mean((2, 3))

    def flat(self, h):
        return h.flatten(1)


def torch_image_step(name, mode, channels_last):
    import torch
    build, batch, size, channels, classes = NETS[name]
    images = torch.randn(batch, channels, size, size)
    labels = torch.randint(0, classes, (batch,))
    net = TorchLayers()
    BUILD[build](net, images)
    layers = torch.nn.ModuleList(net.made)
    if channels_last:
        layers = layers.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    layers.train(mode == "step")
    optimizer = torch.optim.SGD(layers.parameters(), 0.01)
    loss_of = torch.nn.functional.cross_entropy

    def forward():
        net.next = 0
        with torch.no_grad():
            loss_of(BUILD[build](net, images), labels)

    def step():
        net.next = 0
        optimizer.zero_grad()
        loss_of(BUILD[build](net, images), labels).backward()
        optimizer.step()

    return step if mode == "step" else forward


def torch_language_step(name):
    import torch
    F = torch.nn.functional
    _, batch, sampled, units = NETS[name]
    words = torch.randint(0, WORDS, (LENGTH + 1, batch))
    embedding = torch.nn.Embedding(WORDS, units, sparse=True)
    lstm = torch.nn.LSTM(units, units)
    if sampled:
        out = torch.nn.Embedding(WORDS, units, sparse=True)
        bias = torch.nn.Embedding(WORDS, 1, sparse=True)
    else:
        out = torch.nn.Linear(units, WORDS)
        bias = torch.nn.Identity()
    modules = [embedding, lstm, out, bias]
    optimizer = torch.optim.Adagrad([p for m in modules for p in m.parameters()], 0.2)

    def step():
        optimizer.zero_grad()
        h = lstm(embedding(words[:-1]))[0].reshape(-1, units)
        to = words[1:].reshape(-1)
        if sampled:
            others = (torch.exp(torch.rand(sampled) * math.log(WORDS)).long() - 1)
            ids = torch.cat([to, others.clamp_(0, WORDS - 1)])
            w, b = out(ids), bias(ids)[:, 0]
            n = to.shape[0]
            own = (h * w[:n]).sum(1, True) + b[:n, None]
            other = h @ w[n:].t() + b[n:]
            other = other.masked_fill(to[:, None] == others, -1e30)
            scores = torch.cat([own, other], 1)
            loss = F.cross_entropy(scores, torch.zeros(n, dtype=torch.long))
        else:
            loss = F.cross_entropy(out(h), to)
        loss.backward()
        optimizer.step()

    return step


# ---- TensorFlow --------------------------------------------------------------------

class TensorFlowLayers:
    """Like TorchLayers, NHWC; the first call creates the weights."""

    def __init__(self, training):
        self.made, self.next, self.training = [], 0, training

    def weight(self, shape, value=None):
        import tensorflow as tf
        if self.next == len(self.made):
            start = tf.random.normal(shape, 0, 0.05) if value is None else tf.fill(
                shape, float(value))
            self.made.append(tf.Variable(start, trainable=value != -1))
        self.next += 1
        return self.made[self.next - 1]

    def conv(self, h, out, window, stride=1, pad=None, bias=True):
        import tensorflow as tf
        padding = "SAME" if pad is None else [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        h = tf.nn.conv2d(h, self.weight([*window, h.shape[3], out]), stride, padding)
        return tf.nn.relu(tf.nn.bias_add(h, self.weight([out], 0))) if bias else h

    def norm(self, h):
        import tensorflow as tf
        c = [h.shape[3]]
        scale, offset = self.weight(c, 1), self.weight(c, 0)
        mean, var = self.weight(c, -1), self.weight(c, -1)
        if not self.training:
            return tf.raw_ops.FusedBatchNormV3(
                x=h, scale=scale, offset=offset, mean=mean, variance=tf.abs(var),
                epsilon=1e-3, is_training=False).y
        n = tf.raw_ops.FusedBatchNormV3(
            x=h, scale=scale, offset=offset, mean=mean, variance=var, epsilon=1e-3,
            exponential_avg_factor=0.1, is_training=True)
        mean.assign(n.batch_mean)
        var.assign(n.batch_variance)
        return n.y

    def dense(self, h, out):
        import tensorflow as tf
        return tf.nn.bias_add(tf.matmul(h, self.weight([h.shape[1], out])),
                              self.weight([out], 0))

    def maxpool(self, h, window, stride, pad=0):
        import tensorflow as tf
        return tf.nn.max_pool2d(h, window, stride, "SAME" if pad else "VALID")

    def avgpool(self, h, window):
        import tensorflow as tf
        return tf.nn.avg_pool2d(h, window, 1, "SAME")

    def relu(self, h):
        import tensorflow as tf
        return tf.nn.relu(h)

    def concat(self, hs):
        import tensorflow as tf
        return tf.concat(hs, 3)

    def mean(self, h):
        import tensorflow as tf
        return tf.reduce_mean(h, [1, 2])

    def flat(self, h):
        import tensorflow as tf
        return tf.reshape(h, [h.shape[0], -1])


def tensorflow_image_step(name, mode):
    import tensorflow as tf
    build, batch, size, channels, classes = NETS[name]
    images = tf.random.normal([batch, size, size, channels])
    labels = tf.random.uniform([batch], 0, classes, tf.int32)
    net = TensorFlowLayers(mode == "step")
    BUILD[build](net, images)  # Creates the weights.

    def loss():
        net.next = 0
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, BUILD[build](net, images)))

    @tf.function
    def forward():
        return loss()

    @tf.function
    def step():
        weights = [v for v in net.made if v.trainable]
        with tf.GradientTape() as tape:
            value = loss()
        for v, g in zip(weights, tape.gradient(value, weights)):
            tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.01, delta=g)
        return value

    fn = step if mode == "step" else forward
    return lambda: fn().numpy()


def tensorflow_language_step(name):
    import tensorflow as tf
    _, batch, sampled, units = NETS[name]
    words = tf.random.uniform([LENGTH + 1, batch], 0, WORDS, tf.int32)
    shapes = [[WORDS, units], [WORDS, units], [WORDS], [2 * units, 4 * units],
              [4 * units]]
    weights = [tf.Variable(tf.random.uniform(s, -0.05, 0.05)) for s in shapes]
    sums = [tf.Variable(tf.fill(s, 0.1)) for s in shapes]
    embedding, out, bias, kernel, kernel_bias = weights

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            x = tf.nn.embedding_lookup(embedding, words[:-1])
            c = h = tf.zeros([batch, units])
            hs = []
            for t in range(LENGTH):
                gates = tf.matmul(tf.concat([x[t], h], 1), kernel) + kernel_bias
                i, j, f, o = tf.split(gates, 4, 1)
                c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
                h = tf.tanh(c) * tf.sigmoid(o)
                hs.append(h)
            h = tf.concat(hs, 0)
            to = tf.reshape(words[1:], [-1])
            if sampled:
                loss = tf.nn.sampled_softmax_loss(out, bias, to[:, None], h, sampled,
                                                  WORDS)
            else:
                scores = tf.matmul(h, out, transpose_b=True) + bias
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(to, scores)
            loss = tf.reduce_mean(loss)
        for v, s, g in zip(weights, sums, tape.gradient(loss, weights)):
            if isinstance(g, tf.IndexedSlices):
                tf.raw_ops.ResourceSparseApplyAdagrad(
                    var=v.handle, accum=s.handle, lr=0.2, grad=g.values,
                    indices=g.indices)
            else:
                tf.raw_ops.ResourceApplyAdagrad(var=v.handle, accum=s.handle, lr=0.2,
                                                grad=g)
        return loss

    return lambda: step().numpy()


# ---- Measuring ---------------------------------------------------------------------

def best_ms(fn, times):
    fn()
    best = math.inf
    for _ in range(times):
        start = time.perf_counter()
        fn()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure_here(who, name, mode):
    """Measures one figure of one library, as JSON; runs in a separate
    process."""
    language = NETS[name][0] == "lm"
    if who == "tensorflow":
        fn = tensorflow_language_step(name) if language else tensorflow_image_step(
            name, mode)
        print(json.dumps(best_ms(fn, 20 if language else 3)))
    elif language:
        print(json.dumps(best_ms(torch_language_step(name), 20)))
    else:
        print(json.dumps(min(best_ms(torch_image_step(name, mode, last), 3)
                             for last in (False, True))))


def measure(who, name, mode, sluice):
    if who == "sluice":
        # The command makes OpenMP's threads sleep soon after a kernel, for
        # machines with other work (docs/design/014-one-thread-team.md). Here they
        # wait as those of PyTorch, and of C++ programs that use Sluice, do by
        # default.
        env = {"GOMP_SPINCOUNT": "300000", **os.environ}
        out = subprocess.run(
            [sluice, "bench", "--json", "--filter",
             "^sluice." + re.escape(name) + "." + mode + "_ms$"],
            capture_output=True, text=True, check=True, env=env).stdout
        return json.loads(out)["value"]
    out = subprocess.run([sys.executable, __file__, "--one", who, name, mode],
                         capture_output=True, text=True, check=True).stdout
    return float(json.loads(out.splitlines()[-1]))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="figures whose name matches")
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.one:
        measure_here(*o.one)
        return 0
    print("%-44s %9s %9s %10s %6s" % ("ms", "sluice", "pytorch", "tensorflow", "times"))
    for name, spec in NETS.items():
        for mode in ("step",) if spec[0] == "lm" else ("fwd", "step"):
            figure = name + "." + mode + "_ms"
            if not re.search(o.filter, figure):
                continue
            best = {}
            for _ in range(o.turns):
                for who in ("sluice", "pytorch", "tensorflow"):
                    ms = measure(who, name, mode, o.sluice)
                    best[who] = min(ms, best.get(who, math.inf))
            times = min(best["pytorch"], best["tensorflow"]) / best["sluice"]
            print("%-44s %9.1f %9.1f %10.1f %6.2f" % (
                figure, best["sluice"], best["pytorch"], best["tensorflow"], times),
                flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
