#!/usr/bin/env python3
"""Records what TensorFlow's layers compute, and their variables after steps of
gradient descent.

  record_layers.py > layers.tsv  (needs TensorFlow; seeded)

src/client/nn/training_record_test_util.h reads it, as training.tsv: a line is
`layer.CASE<TAB>key<TAB>numbers...`. The keys of a case: the input "x" and its
"x.shape", "var:NAME" and "shape:NAME" of each variable at the start, "y" in
training (and "y.shape"), "dx" of the loss sum(y^2) / 2, "after:NAME" of each
variable after three steps of gradient descent with the rate 0.02, and "tested",
the output in inference after that.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

L = tf.keras.layers
RATE, STEPS = 0.02, 3


def line(name, key, values):
    values = np.asarray(values).ravel()
    print("\t".join([name, key] + [str(v) for v in values]))


def numbers(seed, *shape):
    return np.random.RandomState(seed).normal(size=shape).round(3).astype(
        "float32")


class Fused(tf.Module):
    """Batch normalisation of images as TensorFlow 1's layer built it."""

    def __init__(self, momentum):
        super().__init__()
        self.momentum = momentum

    def build(self, channels):
        def made(name, value, trainable=True):
            v = tf.Variable(np.full([channels], value, "float32"),
                            trainable=trainable)
            v.path = "batch_normalization/" + name
            return v
        self.gamma, self.beta = made("gamma", 1), made("beta", 0)
        self.mean = made("moving_mean", 0, False)
        self.variance = made("moving_variance", 1, False)
        self.weights = [self.gamma, self.beta, self.mean, self.variance]

    def __call__(self, x, training):
        if not hasattr(self, "weights"):
            self.build(x.shape[-1])
        fused = tf.compat.v1.nn.fused_batch_norm
        if not training:
            return fused(x, self.gamma, self.beta, self.mean, self.variance,
                         0.001, is_training=False)[0]
        y, mean, variance = fused(x, self.gamma, self.beta, epsilon=0.001)
        for v, new in ((self.mean, mean), (self.variance, variance)):
            v.assign_sub((v - new) * (1 - self.momentum))
        return y


class Renorm(tf.Module):
    """Batch renormalisation over all but the last dimension, as TensorFlow 1's
    layer builds it, with limits of the correction."""

    def __init__(self, name, momentum, epsilon, renorm_momentum, rmin=None,
                 rmax=None, dmax=None):
        super().__init__()
        self.given, self.momentum, self.epsilon = name, momentum, epsilon
        self.renorm_momentum = renorm_momentum
        self.limits = rmin, rmax, dmax

    def build(self, n):
        def made(name, value, shape, trainable=True):
            v = tf.Variable(np.full(shape, value, "float32"),
                            trainable=trainable)
            v.path = self.given + "/" + name
            return v
        self.gamma, self.beta = made("gamma", 1, [n]), made("beta", 0, [n])
        self.mean = made("moving_mean", 0, [n], False)
        self.variance = made("moving_variance", 1, [n], False)
        self.renorm = [made("renorm_" + name, 0, shape, False)
                       for name, shape in (("mean", [n]), ("mean_weight", []),
                                           ("stddev", [n]),
                                           ("stddev_weight", []))]
        self.weights = [self.gamma, self.beta, self.mean, self.variance,
                        *self.renorm]
        self.unset = self.renorm

    def __call__(self, x, training):
        if not hasattr(self, "weights"):
            self.build(x.shape[-1])
        if not training:
            return tf.nn.batch_normalization(x, self.mean, self.variance,
                                             self.beta, self.gamma,
                                             self.epsilon)
        mean, variance = tf.nn.moments(x, list(range(len(x.shape) - 1)))
        fixed = tf.stop_gradient(mean)
        deviation = tf.sqrt(tf.stop_gradient(variance) + self.epsilon)
        m, m_weight, s, s_weight = self.renorm
        mixed = s + (1 - s_weight) * deviation
        r = deviation / mixed
        d = (fixed - (m + (1 - m_weight) * fixed)) / mixed
        rmin, rmax, dmax = self.limits
        r = r if rmin is None else tf.maximum(r, rmin)
        r = r if rmax is None else tf.minimum(r, rmax)
        d = d if dmax is None else tf.clip_by_value(d, -dmax, dmax)

        def follow(v, value, momentum):
            v.assign_sub((v - value) * (1 - momentum))
            return v

        unbiased = [follow(v, value, self.renorm_momentum) /
                    follow(weight, 1.0, self.renorm_momentum)
                    for v, weight, value in ((m, m_weight, fixed),
                                             (s, s_weight, deviation))]
        follow(self.mean, unbiased[0], self.momentum)
        follow(self.variance, unbiased[1] ** 2 - self.epsilon, self.momentum)
        x = (x - mean) / tf.sqrt(variance + self.epsilon)
        return (x * r + d) * self.gamma + self.beta


def record(case, layer, x, call=None):
    """`call(layer, x, training)` applies the layer."""
    name = "layer." + case
    ids = x.dtype.kind in "iu"
    if call is None:
        def call(layer, x, training):
            try:
                return layer(x, training=training)
            except TypeError:
                return layer(x)
    line(name, "x", x)
    line(name, "x.shape", np.asarray(x.shape))
    xs = tf.constant(x)
    call(layer, xs, False)  # Makes the variables.
    weights = list(getattr(layer, "weights", []))
    unset = [id(w) for w in getattr(layer, "unset", [])]
    for i, w in enumerate(weights):
        if id(w) in unset:  # As they are at first.
            pass
        elif w.path.endswith("moving_variance"):
            w.assign(np.abs(numbers(40 + i, *w.shape)) + 0.5)
        else:
            w.assign(numbers(40 + i, *w.shape) * 0.5)
        line(name, "var:" + w.path, w.numpy())
        line(name, "shape:" + w.path, np.asarray(w.shape, "int64"))
    trained = [w for w in weights if w.trainable]
    for step in range(STEPS):
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = call(layer, xs, True)
            loss = tf.reduce_sum(tf.square(y)) / 2
        variables = [w if isinstance(w, tf.Variable) else w.value
                     for w in trained]
        gradients = tape.gradient(loss, ([] if ids else [xs]) + variables)
        if step == 0:
            line(name, "y", y.numpy())
            line(name, "y.shape", np.asarray(y.shape))
            if not ids:
                line(name, "dx", gradients[0].numpy())
        for w, g in zip(trained, gradients[0 if ids else 1:]):
            w.assign_sub(RATE * tf.convert_to_tensor(g))
            constraint = getattr(w, "constraint", None)
            if constraint is not None:
                w.assign(constraint(tf.convert_to_tensor(w)))
    for w in weights:
        line(name, "after:" + w.path, w.numpy())
    line(name, "tested", call(layer, xs, False).numpy())


matrix, images = numbers(1, 4, 3), numbers(2, 2, 5, 6, 3)
sequence, volumes = numbers(3, 2, 7, 4), numbers(4, 2, 4, 3, 5, 2)
memory = numbers(5, 2, 5, 6)
record("dense", L.Dense(4, "relu", name="dense"), matrix)
record("dense_rank3", L.Dense(3, "tanh", use_bias=False, name="dense"),
       sequence)
record("dense_gelu", L.Dense(
    3, lambda x: tf.nn.gelu(x, approximate=False), name="fc"), matrix)
record("embedding", L.Embedding(6, 3, name="embedding"),
       np.array([[1, 0, 5], [1, 1, 2]], "int32"))
record("conv1d", L.Conv1D(3, 3, padding="same", strides=2, name="conv1d"),
       sequence)
record("conv1d_dilated", L.Conv1D(2, 3, dilation_rate=2, name="conv1d"),
       sequence)
record("conv2d", L.Conv2D(4, 3, activation="relu", name="conv2d"), images)
record("conv2d_same", L.Conv2D(2, (2, 3), padding="same", strides=(2, 1),
                               name="conv2d"), images)
record("conv2d_dilated", L.Conv2D(2, 2, dilation_rate=2, padding="same",
                                  use_bias=False, name="conv2d"), images)
record("conv3d", L.Conv3D(2, (2, 2, 3), padding="same", strides=(1, 2, 2),
                          name="conv3d"), volumes)
for padding in ("same", "valid"):
    record("conv2d_transpose_" + padding, L.Conv2DTranspose(
        2, 3, strides=2, padding=padding, name="conv2d_transpose"), images)
    record("conv3d_transpose_" + padding, L.Conv3DTranspose(
        2, (2, 3, 1), strides=(1, 2, 2), padding=padding,
        name="conv3d_transpose"), volumes)
def with_name(layer, x, old, new):
    """Gives a variable the name that it had before Keras 3."""
    layer(tf.constant(x))
    for w in layer.weights:
        w._path = w.path.replace(old, new)
    return layer


C = tf.keras.constraints
record("depthwise_conv1d", with_name(L.DepthwiseConv1D(
    3, depth_multiplier=2, padding="same", dilation_rate=2, activation="tanh",
    name="depthwise_conv1d"), sequence, "/kernel", "/depthwise_kernel"),
    sequence)
record("depthwise_conv2d", with_name(L.DepthwiseConv2D(
    (2, 3), depth_multiplier=2, strides=2, name="depthwise_conv2d"), images,
    "/kernel", "/depthwise_kernel"), images)
record("separable_conv1d", L.SeparableConv1D(
    3, 3, strides=2, padding="same", depth_multiplier=2, activation="relu",
    name="separable_conv1d"), sequence)
record("separable_conv2d", L.SeparableConv2D(
    4, (3, 2), padding="same", dilation_rate=(1, 2), activation="tanh",
    name="separable_conv2d"), images)
record("separable_conv2d_strided", L.SeparableConv2D(
    2, 2, strides=2, depth_multiplier=3, use_bias=False,
    name="separable_conv2d"), images)
record("dense_max_norm", L.Dense(
    4, kernel_constraint=C.MaxNorm(0.7), bias_constraint=C.NonNeg(),
    name="dense"), matrix)
record("conv2d_unit_norm", L.Conv2D(
    4, 3, kernel_constraint=C.UnitNorm(axis=[0, 1, 2]), name="conv2d"), images)
record("dense_min_max_norm", L.Dense(
    4, kernel_constraint=C.MinMaxNorm(0.9, 1.1, 0.4, axis=1), use_bias=False,
    name="dense"), matrix)
record("separable_conv2d_constrained", L.SeparableConv2D(
    4, 2, depthwise_constraint=C.NonNeg(), pointwise_constraint=C.MaxNorm(
        0.5, axis=[0, 1, 2]), name="separable_conv2d"), images)
record("batch_renormalization", Renorm(
    "batch_normalization", 0.9, 0.001, 0.8), matrix)
record("batch_renormalization_limited", Renorm(
    "batch_normalization", 0.9, 0.001, 0.7, 0.95, 1.02, 0.01), images)
for kind in ("Max", "Average"):
    for n, x in ((1, sequence), (2, images), (3, volumes)):
        layer = getattr(L, f"{kind}Pooling{n}D")
        record(f"{kind.lower()}_pooling{n}d", layer(2), x)
        record(f"{kind.lower()}_pooling{n}d_same",
               layer(3, strides=2, padding="same"), x)
        record(f"global_{kind.lower()}_pooling{n}d",
               getattr(L, f"Global{kind}Pooling{n}D")(), x)
record("batch_normalization", L.BatchNormalization(
    momentum=0.9, name="batch_normalization"), matrix)
record("batch_normalization_axis1", L.BatchNormalization(
    axis=1, momentum=0.8, epsilon=0.01, scale=False,
    name="batch_normalization"), sequence)
record("batch_normalization_images", Fused(0.9), images)
record("layer_normalization", L.LayerNormalization(
    name="layer_normalization"), sequence)
record("layer_normalization_axes", L.LayerNormalization(
    axis=[2, 3], epsilon=1e-5, name="layer_normalization"), images)
heads = L.MultiHeadAttention(2, 3, name="multi_head_attention")
record("attention", heads, sequence, lambda a, x, training: a(x, x))
heads = L.MultiHeadAttention(2, 3, name="multi_head_attention")
record("attention_causal", heads, sequence,
       lambda a, x, training: a(x, x, use_causal_mask=True))
heads = L.MultiHeadAttention(2, 3, value_dim=4, output_shape=5, use_bias=False,
                             name="attend")
seen = np.random.RandomState(9).uniform(size=(2, 7, 5)) < 0.6
seen[0, 3] = False
record("attention_masked", heads, sequence,
       lambda a, x, training: a(x, memory, attention_mask=seen))
line("layer.attention_masked", "memory", memory)
line("layer.attention_masked", "mask", seen.astype("int32"))

# Dropout: the numbers of a seed.
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.set_random_seed(3)
    x = numbers(6, 4, 5)
    line("layer.dropout", "x", x)
    line("layer.dropout", "y", session.run(
        tf.compat.v1.nn.dropout(x, rate=0.4, seed=7)))
    line("layer.dropout", "rows", session.run(
        tf.compat.v1.nn.dropout(x, rate=0.4, seed=7, noise_shape=[4, 1])))
    line("layer.dropout", "graph_seed", session.run(
        tf.compat.v1.nn.dropout(x, rate=0.25)))

for key, made in (("l1", tf.keras.regularizers.L1(0.3)),
                  ("l2", tf.keras.regularizers.L2(0.2)),
                  ("l1l2", tf.keras.regularizers.L1L2(0.1, 0.02))):
    line("regularizer", key, float(made(tf.constant(matrix))))
line("regularizer", "x", matrix)
