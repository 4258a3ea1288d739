"""Layers with `arg_scope`: contrib.layers and contrib.slim."""

import numpy as np
import pytest

import sluice.compat.v1 as tf

layers, slim = tf.contrib.layers, tf.contrib.slim


def near(got, expected, atol=1e-5):
    np.testing.assert_allclose(got, expected, 1e-4, atol)


@pytest.fixture
def rng():
    return np.random.RandomState(7)


def start(session):
    session.run(tf.global_variables_initializer())


def names(variables):
    return [v.op.name for v in variables]


def test_connected_layers_have_weights_and_biases(session, rng):
    x = rng.randn(4, 3).astype(np.float32)
    y = layers.fully_connected(
        x, 2, weights_regularizer=layers.l2_regularizer(0.1),
        variables_collections={"weights": ["w"], "biases": ["b"]},
        outputs_collections="out")
    w, b = tf.get_collection("w")[0], tf.get_collection("b")[0]
    assert names([w, b]) == ["fully_connected/weights",
                             "fully_connected/biases"]
    assert slim.get_model_variables() == [w, b]
    assert tf.get_collection("out") == [y] and y.aliases == ["fully_connected"]
    assert y.op.name == "fully_connected/Relu"
    start(session)
    y, w, b, loss = session.run([y, w, b, tf.losses.get_regularization_loss()])
    near(y, np.maximum(x @ w + b, 0))
    near(loss, 0.05 * (w * w).sum())


def test_scopes_set_default_arguments():
    x = tf.ones([2, 8, 8, 3])
    with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=None,
                        biases_initializer=None):
        with slim.arg_scope([slim.conv2d], padding="VALID", stride=2) as inner:
            y = slim.conv2d(x, 4, [3, 3], scope="a")
        z = slim.conv2d(x, 4, 3, scope="b")
        slim.fully_connected(slim.flatten(z), 5)
    with slim.arg_scope(inner):
        again = slim.conv2d(x, 4, [3, 3], scope="a", reuse=True)
    assert y.shape.as_list() == again.shape.as_list() == [2, 3, 3, 4]
    assert y.op.type == "Conv2D" and z.shape.as_list() == [2, 8, 8, 4]
    assert names(slim.get_variables()) == [
        "a/weights", "b/weights", "fully_connected/weights"]
    with pytest.raises(ValueError, match="exists"):
        slim.conv2d(x, 4, [3, 3], scope="a")


def test_normalization_replaces_biases(session, rng):
    x = rng.randn(6, 5, 5, 2).astype(np.float32)
    y = slim.conv2d(x, 3, [2, 2], activation_fn=None,
                    normalizer_fn=slim.batch_norm,
                    normalizer_params={"decay": 0.5})
    assert names(slim.get_model_variables()) == [
        "Conv/weights", "Conv/BatchNorm/beta", "Conv/BatchNorm/moving_mean",
        "Conv/BatchNorm/moving_variance"]
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    start(session)
    y = session.run(y)
    near(y.mean((0, 1, 2)), np.zeros(3))
    near(y.std((0, 1, 2)), np.ones(3), 1e-2)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("shape,data_format", [
    ((8, 3), "NHWC"), ((8, 2, 2, 3), "NHWC"), ((8, 3, 2, 2), "NCHW"),
    ((8, 4, 3), "NHWC")])
def test_averages_may_update_before_the_output(
        session, rng, fused, shape, data_format):
    x = rng.randn(*shape).astype(np.float32) * 2 + 1
    training = tf.placeholder(tf.bool, [])
    y = layers.batch_norm(x, decay=0.9, scale=True, updates_collections=None,
                          is_training=training, fused=fused,
                          data_format=data_format)
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    start(session)
    channels = 1 if data_format == "NCHW" else len(shape) - 1
    over = tuple(i for i in range(len(shape)) if i != channels)
    mean, var, n = x.mean(over), x.var(over), x.size / 3
    beside = [3 if i == channels else 1 for i in range(len(shape))]

    def normal(mean, var):
        return (x - np.reshape(mean, beside)) / np.sqrt(
            np.reshape(var, beside) + 1e-3)

    near(session.run(y, {training: True}), normal(mean, var), 1e-4)
    moving = [session.run(v) for v in slim.get_variables_by_suffix("moving.*")]
    if fused and len(shape) != 3:  # The fused op returns an unbiased variance.
        var = var * n / (n - 1)
    near(moving[0], 0.1 * mean)
    near(moving[1], 0.9 + 0.1 * var)
    near(session.run(y, {training: False}), normal(*moving), 1e-4)


def test_batch_weights_scale_examples(session, rng):
    x = rng.randn(3, 2).astype(np.float32)
    y = layers.batch_norm(x, batch_weights=tf.constant([1.0, 2.0, 0.0]))
    start(session)
    mean, var = np.mean(x[[0, 1, 1]], 0), np.var(x[[0, 1, 1]], 0)
    near(session.run(y), (x - mean) / np.sqrt(var + 1e-3))


def test_moving_averages_are_not_partitioned():
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)) as sc:
        layers.batch_norm(tf.ones([2, 3, 3, 4]), scale=True)
        assert sc.partitioner is not None
    assert [v.shape.as_list() for v in slim.get_variables_by_name(
        "moving_mean")] == [[4]]
    assert len(slim.get_variables("s/BatchNorm/gamma")) == 2


def test_layer_norm_normalizes_chosen_dimensions(session, rng):
    x = rng.randn(4, 3, 5).astype(np.float32)
    y = layers.layer_norm(x, begin_norm_axis=2)
    z = layers.instance_norm(rng.randn(2, 4, 4, 3).astype(np.float32) + 3)
    u = layers.unit_norm(tf.constant(x), 1)
    assert names(slim.get_variables("LayerNorm")) == ["LayerNorm/beta",
                                                      "LayerNorm/gamma"]
    start(session)
    y, z, u = session.run([y, z, u])
    near(y, (x - x.mean(2, keepdims=True)) / x.std(2, keepdims=True))
    near(z.mean((1, 2)), np.zeros((2, 3)))
    near((u * u).sum(1), np.ones((4, 5)))
    with pytest.raises(ValueError, match="not fully defined"):
        layers.layer_norm(tf.placeholder(tf.float32, [3, None]))


def test_pooling_and_transposed_convolution(session):
    x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    greatest, mean = slim.max_pool2d(x, [2, 2]), slim.avg_pool2d(x, 2, stride=1)
    wide = slim.pool(x, 2, "MAX", dilation_rate=2)
    back = slim.conv2d_transpose(greatest, 3, 2, stride=2)
    alone = slim.separable_conv2d(x, None, [3, 3], depth_multiplier=2)
    plane = slim.conv2d_in_plane(tf.ones([1, 4, 4, 3]), [2, 1])
    assert back.shape.as_list() == [1, 4, 4, 3]
    assert alone.shape.as_list() == [1, 4, 4, 2]
    assert plane.shape.as_list() == [1, 4, 4, 3]
    start(session)
    greatest, mean, wide = session.run([greatest, mean, wide])
    assert greatest.ravel().tolist() == [5, 7, 13, 15]
    assert mean.ravel()[0] == 2.5 and wide.ravel().tolist() == [10, 11, 14, 15]
    with pytest.raises(ValueError, match="NCHW or NHWC"):
        slim.max_pool2d(x, 2, data_format="NWC")


def test_repeated_layers_have_separate_scopes():
    x = tf.ones([2, 8, 8, 3])
    slim.repeat(x, 2, slim.conv2d, 4, [3, 3], scope="c")
    slim.repeat(x, 1, slim.conv2d, 4, [3, 3])
    slim.stack(tf.ones([2, 3]), slim.fully_connected, [4, 5])
    assert names(slim.get_variables_by_name("weights")) == [
        "c/c_1/weights", "c/c_2/weights", "Repeat/convolution2d_1/weights",
        "Stack/fully_connected_1/weights", "Stack/fully_connected_2/weights"]


def test_small_layers_without_variables(run, rng):
    x = rng.randn(2, 3).astype(np.float32)
    s = layers.softmax(tf.constant(x))
    near(run(s), np.exp(x) / np.exp(x).sum(1, keepdims=True))
    assert run(layers.one_hot_encoding([1, 0], 3)).tolist() == [[0, 1, 0],
                                                                [1, 0, 0]]
    sparse = run(layers.dense_to_sparse([[1, 0], [2, 3]]))
    assert sparse.values.tolist() == [1, 2, 3]
    v = tf.constant(x)
    assert (run(tf.gradients(layers.scale_gradient(v, 0.5), v)[0]) == 0.5).all()
    assert (run(layers.dropout(v, is_training=False)) == x).all()
    images = rng.randn(2, 3, 4, 5).astype(np.float32)
    sequence = layers.images_to_sequence(images)
    assert sequence.shape.as_list() == [4, 6, 5]
    assert (run(layers.sequence_to_images(sequence, 3)) == images).all()


def test_spatial_softmax_gives_expected_positions(session):
    x = np.zeros([1, 3, 5, 2], np.float32)
    x[0, 2, 0, 0] = x[0, 0, 4, 1] = 50
    points = layers.spatial_softmax(tf.constant(x))
    start(session)
    near(session.run(points), [[1, -1, -1, 1]])


def test_sequences_are_embedded(session):
    ids = tf.constant([[1, 0], [2, 2]])
    one = layers.embed_sequence(ids, 3, 4, scope="e")
    two = layers.embed_sequence(ids, 3, 4, unique=True, scope="e", reuse=True)
    start(session)
    table, one, two = session.run([*slim.get_variables("e"), one, two])
    assert (one == table[[[1, 0], [2, 2]]]).all() and (one == two).all()


def test_variables_are_found_by_scope_and_name(session):
    with tf.variable_scope("a"):
        w = slim.model_variable("w", [2], initializer=tf.zeros_initializer())
        b = slim.variable("b", [1], initializer=tf.ones_initializer(),
                          device="/cpu:0")
    c = slim.local_variable(3, name="w")
    assert slim.get_variables() == [w, b]
    assert slim.get_variables(suffix="w") == slim.get_model_variables() == [w]
    assert slim.get_local_variables() == [c]
    assert slim.get_variables_to_restore(exclude=["a/w"]) == [b]
    assert slim.get_unique_variable("a/w") is w
    assert slim.filter_variables([w, b], exclude_patterns=["b"]) == [w]
    assert b.device == "/device:CPU:0"
    slim.add_model_variable(w)
    assert slim.get_model_variables() == [w]
    with pytest.raises(ValueError, match="Couldn't find variable d"):
        slim.get_unique_variable("d")
    start(session)
    slim.assign_from_values_fn({"a/w": np.array([5.0, 6.0])})(session)
    assert session.run(w).tolist() == [5, 6]
    choose = slim.VariableDeviceChooser(2)
    assert [choose(None) for _ in range(3)] == [
        f"/job:ps/task:{i}/device:CPU:0" for i in (0, 1, 0)]
