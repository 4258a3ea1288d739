"""tf.layers: names of variables, results compared with numpy, batch norm."""

import numpy as np
import pytest
import sluice.compat.v1 as tf


def names(variables=None):
    return [v.op.name for v in (tf.global_variables() if variables is None
                                else variables)]


def start(session):
    session.run(tf.global_variables_initializer())


def windows(x, kernel, stride):
    """Yields each place of a VALID window and its part of the input."""
    sizes = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:-1], kernel, stride)]
    for at in np.ndindex(*sizes):
        cut = tuple(slice(i * s, i * s + k)
                    for i, k, s in zip(at, kernel, stride))
        yield at, x[(slice(None), *cut)]


def convolved(x, w, stride):
    """Computes a VALID convolution."""
    n = w.ndim - 2
    sizes = [(a - k) // s + 1 for a, k, s in zip(x.shape[1:-1], w.shape,
                                                 stride)]
    y = np.zeros([x.shape[0], *sizes, w.shape[-1]])
    for at, part in windows(x, w.shape[:n], stride):
        y[(slice(None), *at)] = np.tensordot(part, w, n + 1)
    return y


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def test_a_dense_layer_is_a_product_a_bias_and_an_activation(session, rng):
    x = rng.rand(4, 3).astype(np.float32)
    y = tf.layers.dense(x, 2, tf.nn.relu,
                        bias_initializer=tf.constant_initializer(0.1))
    start(session)
    w, b = session.run(tf.trainable_variables())
    np.testing.assert_allclose(session.run(y), np.maximum(x @ w + b, 0), 1e-5,
                               1e-6)
    assert names() == ["dense/kernel", "dense/bias"]
    assert y.op.name == "dense/Relu"
    assert y.shape == [4, 2]
    deep = tf.layers.dense(np.ones([2, 5, 3], np.float32), 7, use_bias=False)
    assert deep.shape == [2, 5, 7]
    start(session)
    np.testing.assert_allclose(
        session.run(deep),
        np.ones([2, 5, 3]) @ session.run(tf.trainable_variables()[-1]), 1e-5)


def test_names_of_layers_are_unique_unless_given(session):
    x = tf.ones([1, 2])
    for _ in range(2):
        tf.layers.dense(x, 1)
    with tf.variable_scope("a"):
        tf.layers.dense(x, 1)
        tf.layers.dense(x, 1, name="b", use_bias=False)
    assert names() == [
        "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias",
        "a/dense/kernel", "a/dense/bias", "a/b/kernel"]
    with pytest.raises(ValueError, match="a/b/kernel already exists"):
        with tf.variable_scope("a"):
            tf.layers.dense(x, 1, name="b", use_bias=False)
    with tf.variable_scope("a", reuse=True):
        tf.layers.dense(x, 1, name="b", use_bias=False)
    with tf.variable_scope("a"):
        tf.layers.dense(x, 1, name="b", use_bias=False, reuse=True)
    with tf.variable_scope("c", reuse=tf.AUTO_REUSE):
        for _ in range(2):
            tf.layers.dense(x, 1, name="d", use_bias=False)
    assert names()[7:] == ["c/d/kernel"]


def test_a_layer_that_is_called_again_shares_its_variables(session):
    layer = tf.layers.Dense(3, name="shared")
    x = tf.ones([2, 4])
    one, two = layer(x), layer.apply(x)
    assert names() == ["shared/kernel", "shared/bias"]
    assert names(layer.trainable_weights) == names()
    assert layer.count_params() == 15
    assert layer.scope_name == "shared"
    start(session)
    np.testing.assert_array_equal(*session.run([one, two]))
    with pytest.raises(ValueError, match="expected axis -1"):
        layer(tf.ones([2, 5]))
    with pytest.raises(ValueError, match="expected min_ndim=2"):
        layer(tf.ones([2]))
    with pytest.raises(ValueError, match="last dimension"):
        tf.layers.dense(tf.placeholder(tf.float32, [2, None]), 1)


def test_user_defined_layers(session):
    class Scale(tf.layers.Layer):
        def build(self, input_shape):
            self.by = self.add_variable("by", [int(input_shape[-1])],
                                        initializer=tf.ones_initializer())
            self.built = True

        def call(self, inputs, twice=False):
            return inputs * self.by * (2.0 if twice else 1.0)

    y = Scale()(tf.ones([1, 2]), twice=True)
    start(session)
    np.testing.assert_array_equal(session.run(y), [[2, 2]])
    assert names() == ["scale/by"]


def test_regularizers_are_collected_once(session):
    penalty = lambda w: 0.5 * tf.reduce_sum(w * w)  # noqa: E731
    x = tf.ones([2, 3])
    for reuse in (None, True):
        tf.layers.dense(x, 2, name="d", kernel_regularizer=penalty,
                        reuse=reuse)
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(losses) == 1
    start(session)
    w = session.run(tf.trainable_variables()[0])
    np.testing.assert_allclose(session.run(losses[0]), 0.5 * (w * w).sum(),
                               1e-5)
    layer = tf.layers.Dense(2, activity_regularizer=tf.reduce_sum)
    y = layer(x)
    start(session)
    np.testing.assert_allclose(*session.run([layer.losses[0],
                                             tf.reduce_sum(y) / 2]), 1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(session, rng, rank):
    x = rng.rand(2, *[6, 7, 5][:rank], 3).astype(np.float32)
    layer = getattr(tf.layers, f"conv{rank}d")
    y = layer(x, 4, 2, strides=2)
    same = layer(x, 4, 3, padding="same", name="same")
    start(session)
    w, b = session.run(tf.trainable_variables()[:2])
    assert w.shape == (2,) * rank + (3, 4)
    np.testing.assert_allclose(session.run(y), convolved(x, w, [2] * rank) + b,
                               1e-4, 1e-5)
    assert same.shape == [*x.shape[:-1], 4]
    assert names()[:3] == [f"conv{rank}d/kernel", f"conv{rank}d/bias",
                           "same/kernel"]
    with pytest.raises(ValueError, match="kernel_size"):
        layer(x, 4, (1,) * (rank + 1))
    with pytest.raises(ValueError, match="padding"):
        layer(x, 4, 1, padding="full")


def test_dilated_convolutions(session, rng):
    x = rng.rand(1, 9, 9, 2).astype(np.float32)
    y = tf.layers.conv2d(x, 3, 3, dilation_rate=2, use_bias=False)
    start(session)
    w = session.run(tf.trainable_variables()[0])
    spread = np.zeros([5, 5, 2, 3])
    spread[::2, ::2] = w
    np.testing.assert_allclose(session.run(y), convolved(x, spread, [1, 1]),
                               1e-4, 1e-5)


@pytest.mark.parametrize("rank", [1, 2])
def test_separable_convolutions(session, rng, rank):
    x = rng.rand(2, *[6, 7][:rank], 3).astype(np.float32)
    y = getattr(tf.layers, f"separable_conv{rank}d")(
        x, 5, 2, depth_multiplier=2)
    start(session)
    depthwise, pointwise, bias = session.run(tf.trainable_variables())
    assert depthwise.shape == (2,) * rank + (3, 2)
    assert pointwise.shape == (1,) * rank + (6, 5)
    full = np.zeros([*(2,) * rank, 3, 6])
    for c in range(3):
        full[..., c, 2 * c:2 * c + 2] = depthwise[..., c, :]
    expected = convolved(x, full, [1] * rank) @ pointwise.reshape(6, 5) + bias
    np.testing.assert_allclose(session.run(y), expected, 1e-4, 1e-5)
    assert names()[:2] == [f"separable_conv{rank}d/depthwise_kernel",
                           f"separable_conv{rank}d/pointwise_kernel"]


@pytest.mark.parametrize("rank,padding", [(2, "valid"), (2, "same"),
                                          (3, "valid")])
def test_transposed_convolutions(session, rng, rank, padding):
    x = rng.rand(1, *[3, 4, 2][:rank], 2).astype(np.float32)
    images = tf.placeholder(tf.float32, [None] * (rank + 1) + [2])
    y = getattr(tf.layers, f"conv{rank}d_transpose")(
        images, 3, 3, 2, padding)
    start(session)
    w = session.run(tf.trainable_variables()[0])
    assert w.shape == (3,) * rank + (3, 2)
    sizes = [2 * n + 1 for n in x.shape[1:-1]]
    full = np.zeros([1, *sizes, 3])
    for at in np.ndindex(*x.shape[1:-1]):
        cut = tuple(slice(2 * i, 2 * i + 3) for i in at)
        full[(0, *cut)] += w @ x[(0, *at)]
    if padding == "same":  # The output is cut to twice the size.
        full = full[:, :-1, :-1]
    assert y.shape.as_list() == [None] * (rank + 1) + [3]
    np.testing.assert_allclose(session.run(y, {images: x}), full, 1e-4, 1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling(session, rng, rank):
    x = rng.rand(2, *[6, 7, 5][:rank], 3).astype(np.float32)
    for kind, reduce in (("max", np.max), ("average", np.mean)):
        y = session.run(getattr(tf.layers, f"{kind}_pooling{rank}d")(x, 2, 2))
        for at, part in windows(x, [2] * rank, [2] * rank):
            over = tuple(range(1, rank + 1))
            np.testing.assert_allclose(y[(slice(None), *at)],
                                       reduce(part, over), 1e-5)


def test_flatten_and_dropout(session):
    x = tf.placeholder(tf.float32, [None, 2, 3])
    assert tf.layers.flatten(x).shape.as_list() == [None, 6]
    odd = tf.layers.flatten(tf.placeholder(tf.float32, [4, None, 3]))
    assert odd.shape.as_list() == [4, None]
    training = tf.placeholder_with_default(False, [])
    ones = tf.ones([100, 10])
    y = tf.layers.dropout(ones, 0.4, training=training)
    assert session.run(y).sum() == 1000
    dropped = session.run(y, {training: True})
    assert set(np.unique(dropped.round(3))) == {0, np.float32(1.667)}
    assert 0.5 < (dropped > 0).mean() < 0.7
    rows = session.run(tf.layers.dropout(ones, 0.5, [None, 1], training=True))
    assert (rows == rows[:, :1]).all() and 0 < (rows[:, 0] == 0).sum() < 100
    kept = tf.layers.dropout(ones, 0.5, training=np.bool_(False))
    assert session.run(kept).sum() == 1000


@pytest.mark.parametrize("fused", [False, True])
def test_batch_normalization_accepts_numpy_booleans(fused):
    x = tf.ones([2, 3, 3, 4])
    for training in (np.bool_(False), np.bool_(True)):
        tf.layers.batch_normalization(x, training=training, fused=fused)
        assert bool(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == training
    with pytest.raises(TypeError, match="or 1 or 0"):
        tf.layers.batch_normalization(x, training=2, fused=fused)


@pytest.mark.parametrize("fused", [False, True])
def test_batch_normalization_learns_moving_averages(session, rng, fused):
    x = (rng.rand(8, 4, 4, 3) * 3 + 1).astype(np.float32)
    images = tf.placeholder(tf.float32, [None, 4, 4, 3])
    training = tf.placeholder(tf.bool, [])
    y = tf.layers.batch_normalization(images, momentum=0.9, training=training,
                                      fused=fused, epsilon=0.01)
    assert names() == [f"batch_normalization/{n}" for n in (
        "gamma", "beta", "moving_mean", "moving_variance")]
    assert names(tf.trainable_variables()) == names()[:2]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    start(session)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    got, _ = session.run([y, updates], {images: x, training: True})
    np.testing.assert_allclose(got, (x - mean) / np.sqrt(variance + 0.01),
                               1e-3, 1e-4)
    n = x.size / 3
    unbiased = variance * n / (n - 1) if fused else variance
    moving = session.run(tf.global_variables()[2:])
    np.testing.assert_allclose(moving[0], 0.1 * mean, 1e-4)
    np.testing.assert_allclose(moving[1], 0.9 + 0.1 * unbiased, 1e-4)
    # Inference trains nothing and uses the averages.
    got, _ = session.run([y, updates], {images: x, training: False})
    np.testing.assert_allclose(
        got, (x - moving[0]) / np.sqrt(moving[1] + 0.01), 1e-3, 1e-4)
    for a, b in zip(session.run(tf.global_variables()[2:]), moving):
        np.testing.assert_array_equal(a, b)


def test_batch_normalization_without_training_has_no_updates(session, rng):
    x = rng.rand(5, 3).astype(np.float32)
    y = tf.layers.batch_normalization(x, center=False)
    assert names() == ["batch_normalization/gamma",
                       "batch_normalization/moving_mean",
                       "batch_normalization/moving_variance"]
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    start(session)
    np.testing.assert_allclose(session.run(y), x / np.sqrt(1.001), 1e-5)
    trained = tf.layers.batch_normalization(x, axis=0, training=True)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert [u.name for u in updates] == [
        "batch_normalization_1/AssignMovingAvg",
        "batch_normalization_1/AssignMovingAvg_1"]
    start(session)
    np.testing.assert_allclose(
        session.run(trained),
        (x - x.mean(1, keepdims=True)) / np.sqrt(
            x.var(1, keepdims=True) + 1e-3), 1e-3, 1e-4)
    with pytest.raises(ValueError, match="undefined `axis` dimension"):
        tf.layers.batch_normalization(tf.placeholder(tf.float32, [5, None]))


def test_batch_normalization_is_fused_if_possible(session, rng):
    x = rng.rand(2, 3, 3, 4).astype(np.float32)
    layers = [tf.layers.BatchNormalization(fused=True, **kwargs)
              for kwargs in ({}, {"axis": 2}, {"virtual_batch_size": 1},
                             {"adjustment": lambda shape: (1.0, 0.0)})]
    made = [layer(x, training=True) for layer in layers]
    assert [layer.fused for layer in layers] == [True] + 3 * [False]
    start(session)
    expected = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-3)
    for y in made[0], made[3]:
        np.testing.assert_allclose(session.run(y), expected, 1e-3, 1e-4)
    assert not tf.layers.BatchNormalization(fused=True).apply(
        x[0]).op.type.startswith("Fused")


def test_gradients_flow_through_batch_normalization(session, rng):
    x = rng.rand(6, 4).astype(np.float32)
    inputs = tf.placeholder(tf.float32, [6, 4])
    y = tf.layers.batch_normalization(inputs, training=True)
    y = tf.reduce_sum(y ** 3.0)
    start(session)
    with session.as_default():
        error = tf.test.compute_gradient_error(inputs, [6, 4], y, [], x,
                                               delta=1e-2)
    assert error < 0.05


def test_layers_support_partitioned_variables(session):
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(3)):
        w = tf.get_variable("w", [5, 2], initializer=tf.constant_initializer(
            2.0))
        scalar = tf.get_variable("b", [])
    assert names() == ["s/w/part_0", "s/w/part_1", "s/w/part_2", "s/b"]
    assert [p.shape.as_list() for p in w] == [[2, 2], [2, 2], [1, 2]]
    assert isinstance(scalar, tf.Variable)
    start(session)
    np.testing.assert_array_equal(session.run(tf.convert_to_tensor(w)),
                                  np.full([5, 2], 2.0))
    np.testing.assert_array_equal(session.run(w + 1.0), np.full([5, 2], 3.0))
    session.run(w.assign(np.arange(10.0).reshape(5, 2)))
    np.testing.assert_array_equal(session.run(w.as_tensor()).ravel(),
                                  np.arange(10))
    with tf.variable_scope("s", reuse=True,
                           partitioner=tf.fixed_size_partitioner(3)):
        assert list(tf.get_variable("w", [5, 2])) == list(w)
    parts = tf.create_partitioned_variables([4, 2], [1, 2],
                                            tf.ones_initializer())
    assert names(parts) == ["PartitionedVariable/part_0",
                            "PartitionedVariable/part_1"]
    dense = tf.layers.dense
    with tf.variable_scope("d", partitioner=tf.fixed_size_partitioner(2)):
        y = dense(tf.ones([1, 4]), 3, use_bias=False)
    start(session)
    halves = session.run(tf.trainable_variables()[-2:])
    np.testing.assert_allclose(session.run(y)[0],
                               np.concatenate(halves).sum(0), 1e-5)


def test_partitioned_variable_is_concatenated_once(session):
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        w = tf.get_variable("w", [4], initializer=tf.ones_initializer())
    start(session)
    session.run(w)
    before = session.graph.version
    np.testing.assert_array_equal(session.run(w), np.ones(4))
    assert session.graph.version == before


def test_output_shapes_are_computed_without_a_call(session):
    dense = tf.layers.Dense(5, name="d", kernel_regularizer=tf.abs)
    for shape in ([None, 3], (None, 3), tf.TensorShape([None, 3])):
        assert dense.compute_output_shape(shape).as_list() == [None, 5]
    assert not dense.built and dense.weights == [] and names() == []
    assert dense(tf.ones([2, 4])).shape.as_list() == [2, 5]
    assert names() == ["d/kernel", "d/bias"]
    assert dense.compute_output_shape([7, 4]).as_list() == [7, 5]
    assert dense.kernel.graph is session.graph
    assert dense(tf.ones([3, 4])).shape.as_list() == [3, 5]

    class Two(tf.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = [tf.layers.Dense(2), tf.layers.Dense(3)]

        def call(self, inputs):
            a, b = inputs
            return [self.inner[0](a), self.inner[1](b)]

    two = Two()
    assert [s.as_list() for s in two.compute_output_shape(
        [[None, 1], [4, 2]])] == [[None, 2], [4, 3]]
    assert not two.inner[0].built


def test_partitioners_choose_the_number_of_parts(session):
    shape = tf.TensorShape([64, 8])
    count = lambda p: p(shape=shape, dtype=tf.float32)  # noqa: E731
    assert count(tf.fixed_size_partitioner(100)) == [64, 1]
    assert count(tf.fixed_size_partitioner(4, axis=1)) == [1, 4]
    assert count(tf.variable_axis_size_partitioner(320)) == [7, 1]
    assert count(tf.variable_axis_size_partitioner(320, max_shards=3)) == [3, 1]
    assert count(tf.min_max_variable_partitioner(
        10, min_slice_size=512)) == [4, 1]
    assert count(tf.min_max_variable_partitioner(10)) == [1, 1]


def test_virtual_batch_normalization(session):
    x = np.random.RandomState(0).randn(6, 3).astype(np.float32)
    y = tf.layers.batch_normalization(x, virtual_batch_size=2, training=True,
                                      epsilon=1e-6)
    start(session)
    parts = x.reshape(2, 3, 3)  # Each third row is in the same virtual batch.
    expected = (parts - parts.mean(0)) / parts.std(0)
    np.testing.assert_allclose(session.run(y), expected.reshape(6, 3), 1e-3,
                               1e-3)
    session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    mean = next(v for v in tf.global_variables() if "mean" in v.name)
    assert mean.shape == [1, 1, 3]
    np.testing.assert_allclose(session.run(mean)[0, 0], x.mean(0) * 0.01, 1e-3)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="positive"):
            tf.layers.batch_normalization(x, virtual_batch_size=wrong)


def test_batch_renormalization_converges_to_inference(session):
    x = (np.random.RandomState(0).randn(8, 3) * [1, 2, 3] + [4, 5, 6]).astype(
        np.float32)
    layer = tf.layers.BatchNormalization(
        renorm=True, renorm_momentum=0.8, momentum=0.8, epsilon=1e-6,
        renorm_clipping={"rmin": 1e-3, "rmax": 1e3, "dmax": 1e3})
    trained, inferred = layer(x, training=True), layer(x, training=False)
    start(session)
    np.testing.assert_allclose(session.run(trained),
                               (x - x.mean(0)) / x.std(0), 1e-3, 1e-3)
    for _ in range(60):
        session.run(layer.updates)
    np.testing.assert_allclose(session.run(trained), session.run(inferred),
                               1e-3, 1e-3)
    with pytest.raises(ValueError, match="contains keys not in"):
        tf.layers.batch_normalization(x, renorm=True, renorm_clipping={"r": 1})


def test_batch_norms_may_be_adjusted_in_training(session):
    x = np.random.RandomState(0).randn(8, 3).astype(np.float32)
    training = tf.placeholder(tf.bool)
    y = tf.layers.batch_normalization(
        x, training=training, epsilon=1e-6,
        adjustment=lambda shape: (tf.fill(shape, 2.0), tf.fill(shape, 1.0)))
    start(session)
    np.testing.assert_allclose(
        session.run(y, {training: True}),
        2 * (x - x.mean(0)) / x.std(0) + 1, 1e-3, 1e-3)
    np.testing.assert_allclose(session.run(y, {training: False}), x, 1e-3)


def test_maxout_selects_largest_features(run):
    from sluice.contrib.layers import maxout
    x = np.arange(24.0).reshape(2, 2, 6)
    y = maxout.maxout(x, 2)
    assert y.shape == [2, 2, 2]
    np.testing.assert_array_equal(run(y), x.reshape(2, 2, 2, 3).max(-1))
    with pytest.raises(ValueError, match="multiple of num_units"):
        maxout.maxout(x, 4)


@pytest.mark.parametrize("padding", ["same", "valid", "full"])
def test_convolution_output_lengths(padding):
    from sluice.compat.internals import layer_utils as utils
    for n, k, stride in ((7, 3, 1), (8, 3, 2), (9, 2, 3)):
        pad = {"same": k // 2, "valid": 0, "full": k - 1}[padding]
        expected = -(-n // stride) if padding == "same" else (
            (n + 2 * pad - k) // stride + 1)
        assert utils.conv_output_length(n, k, padding, stride) == expected
    assert utils.convert_data_format("channels_first", 4) == "NCHW"
    assert utils.normalize_tuple(2, 3, "strides") == (2, 2, 2)


@pytest.mark.parametrize("kernel,rank", [([3], 1), ([2, 2], 2), ([2, 2, 2], 3)])
def test_orthogonal_kernels_keep_norms(run, kernel, rank):
    from sluice.ops import init_ops
    x = np.random.RandomState(0).randn(1, *[4] * rank, 3).astype(np.float32)
    # The kernel wraps around the edges.
    pad = [(0, 0)] + [(k - 1, 0) for k in kernel] + [(0, 0)]
    around = np.pad(x, pad, mode="wrap")
    for name in (f"convolutional_orthogonal_{rank}d",
                 "convolutional_delta_orthogonal"):
        made = getattr(init_ops, name)(gain=2.0)([*kernel, 3, 5])
        y = run(tf.nn.convolution(around, made, "VALID"))
        np.testing.assert_allclose(np.linalg.norm(y), 2 * np.linalg.norm(x),
                                   1e-4)
        with pytest.raises(ValueError, match="greater than out_filters"):
            getattr(init_ops, name)()([*kernel, 5, 3])


def test_losses_and_updates_are_found_by_inputs():
    class Counts(tf.layers.Layer):
        def build(self, input_shape):
            self.a = self.add_weight("a", (), trainable=False)
            self.add_update(tf.assign_add(self.a, 1.0))
            self.add_loss(self.a)
            self.built = True

        def call(self, inputs):
            self.add_update(tf.assign_add(self.a, inputs), inputs=True)
            self.add_loss(inputs * 2.0, inputs=True)
            return inputs + 1.0

    layer = Counts()
    first, second = (tf.placeholder(tf.float32, ()) for _ in range(2))
    y = layer(first * 2.0)
    layer(second)
    for found, all_of_them in ((layer.get_updates_for, layer.updates),
                               (layer.get_losses_for, layer.losses)):
        assert len(all_of_them) == 3
        assert found(None) == all_of_them[:1]
        assert found([first]) == all_of_them[1:2]
        assert found([first, second]) == all_of_them[1:]
        assert found([y]) == []


def test_weights_of_unsynchronized_copies_are_not_trained():
    layer = tf.layers.Layer()
    mode = tf.VariableSynchronization.ON_READ
    w = layer.add_weight("w", [2], synchronization=mode)
    assert layer.non_trainable_weights == [w]
    with pytest.raises(ValueError, match="only for non-trainable"):
        layer.add_weight("v", [2], synchronization=mode, trainable=True)
    separable = tf.layers.SeparableConv2D(
        2, 3, depthwise_constraint=abs, pointwise_constraint=max)
    assert separable.depthwise_constraint is abs
    assert separable.pointwise_constraint is max
