"""Quantization of trained networks to int8."""

import numpy as np
import pytest
import sluice.compat.v1 as tf

_RNG = np.random.RandomState(3)
_BATCHES = [_RNG.rand(4, 6, 6, 3).astype("f") for _ in range(3)]


def _network():
    """Builds a network; returns its input and its scores."""
    x = tf.placeholder(tf.float32, [None, 6, 6, 3], name="x")
    w = tf.Variable(_RNG.randn(3, 3, 3, 8).astype("f") / 5, name="w")
    h = tf.nn.relu(tf.nn.bias_add(
        tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME", name="conv"),
        tf.constant(_RNG.randn(8).astype("f") / 9)))
    v = tf.Variable(_RNG.randn(288, 5).astype("f") / 9, name="v")
    scores = tf.matmul(tf.reshape(h, [-1, 288]), v, name="product")
    return x, tf.identity(scores, name="scores")


def _quantized(session, x, scores, **options):
    session.run(tf.global_variables_initializer())
    return tf.quantization.quantize_graph(
        session, [x], [scores], [[batch] for batch in _BATCHES], **options)


def test_int8_graph_matches_float_graph(session):
    x, scores = _network()
    small = _quantized(session, x, scores)
    assert set(small.quantized) == {"conv", "product"} and not small.kept
    want = session.run(scores, {x: _BATCHES[0]})
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(small.graph_def, name="")
        ops = {op.type for op in graph.get_operations()}
        assert "Conv2D" not in ops and "VariableV2" not in ops
        with tf.Session() as fast:
            got = fast.run(small.fetches[0], {small.feeds[0]: _BATCHES[0]})
    assert np.abs(got - want).max() < 0.05 * np.abs(want).max()


def test_layers_can_stay_float(session):
    x, scores = _network()
    small = _quantized(session, x, scores, keep_float=["conv"],
                       percentile=0.999)
    assert small.quantized == ["product"]
    assert len(small.kept) == 1 and small.kept[0].startswith("conv: ")


def test_calibration_must_fit_the_feeds(session):
    x, scores = _network()
    session.run(tf.global_variables_initializer())
    with pytest.raises(ValueError, match="expected 1 values a step, got 2"):
        tf.quantization.quantize_graph(session, [x], scores,
                                       [[_BATCHES[0]] * 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="calibration"):
        tf.quantization.quantize_graph(session, [x], scores, [])
