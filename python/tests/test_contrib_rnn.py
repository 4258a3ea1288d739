"""Cells and stacks of contrib.rnn, compared with numpy."""

import numpy as np
import pytest

import sluice.compat.v1 as tf

rnn = tf.contrib.rnn


@pytest.fixture
def rng():
    return np.random.RandomState(3)


def near(got, expected):
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def start(session, rng):
    """Assigns random values to all variables; returns them by name."""
    values = {v.op.name: rng.uniform(-1, 1, v.shape.as_list()).astype(
        np.float32) for v in tf.global_variables()}
    for v in tf.global_variables():
        v.load(values[v.op.name], session)
    return values


@pytest.mark.parametrize("normal", [True, False])
def test_layer_norm_cell_normalizes_gates(session, rng, normal):
    x, c, h = (rng.randn(3, n).astype(np.float32) for n in (4, 5, 5))
    cell = rnn.LayerNormBasicLSTMCell(5, forget_bias=0.5, layer_norm=normal)
    out, (new_c, new_h) = cell(x, rnn.LSTMStateTuple(c, h))
    w = start(session, rng)
    scope = "layer_norm_basic_lstm_cell/"
    assert sorted(w) == sorted([scope + "kernel"] + (
        [f"{scope}{gate}/{name}" for name in ("beta", "gamma") for gate in (
            "input", "transform", "forget", "output", "state")]
        if normal else [scope + "bias"]))

    def norm(x, which):
        if not normal:
            return x
        z = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        return z * w[f"{scope}{which}/gamma"] + w[f"{scope}{which}/beta"]

    gates = np.hstack([x, h]) @ w[scope + "kernel"] + (
        0 if normal else w[scope + "bias"])
    i, j, f, o = (norm(g, which) for g, which in zip(
        np.split(gates, 4, 1), ("input", "transform", "forget", "output")))
    memory = norm(c * sigmoid(f + 0.5) + sigmoid(i) * np.tanh(j), "state")
    near(session.run(new_c), memory)
    near(session.run(out), np.tanh(memory) * sigmoid(o))
    assert out is new_h


def test_dropout_applies_to_new_memory(session):
    cell = rnn.LayerNormBasicLSTMCell(50, layer_norm=False,
                                      dropout_keep_prob=1e-8)
    zeros = tf.zeros([1, 50])
    _, (c, _) = cell(tf.ones([1, 2]), rnn.LSTMStateTuple(zeros, zeros))
    session.run(tf.global_variables_initializer())
    assert not session.run(c).any()


@pytest.mark.parametrize("make,names", [
    (rnn.GRUBlockCell, ["b_c", "b_ru", "w_c", "w_ru"]),
    (rnn.GRUBlockCellV2, ["candidate/bias", "candidate/kernel", "gates/bias",
                          "gates/kernel"])])
def test_fused_gru_cells_match_the_formula(session, rng, make, names):
    x, h = rng.randn(3, 2).astype(np.float32), rng.randn(3, 4).astype("f")
    one, _ = make(4)(x, h)
    assert sorted(v.op.name for v in tf.global_variables()) == [
        "gru_cell/" + n for n in names]
    w = start(session, rng)
    b_c, w_c, b_ru, w_ru = (w["gru_cell/" + n] for n in (
        names if make is rnn.GRUBlockCellV2 else ["b_c", "w_c", "b_ru",
                                                  "w_ru"]))
    r, u = np.split(sigmoid(np.hstack([x, h]) @ w_ru + b_ru), 2, 1)
    new = np.tanh(np.hstack([x, r * h]) @ w_c + b_c)
    near(session.run(one), u * h + (1 - u) * new)
    with pytest.raises(ValueError, match="exactly one"):
        make(4, 5)


def test_stacked_bidirectional_layers_read_both_directions(session, rng):
    def cells():
        return [tf.nn.rnn_cell.GRUCell(n) for n in (3, 2)]

    x = rng.randn(2, 5, 4).astype(np.float32)
    out, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
        cells(), cells(), x, dtype=tf.float32, sequence_length=[5, 3],
        scope="s")
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        steps, *states = rnn.stack_bidirectional_rnn(
            cells(), cells(), tf.unstack(tf.constant(x), axis=1),
            dtype=tf.float32, sequence_length=[5, 3], scope="s")
    assert out.shape.as_list() == [2, 5, 4]
    assert [s.shape.as_list() for s in forward + backward] == [
        [2, 3], [2, 2]] * 2
    assert {v.op.name.split("/")[1] for v in tf.global_variables()} == {
        "cell_0", "cell_1"}
    start(session, rng)
    one, two, of_one, of_two = session.run(
        [out, tf.stack(steps, 1), [forward, backward], states])
    near(one, two)
    for a, b in zip(of_one[0] + of_one[1], of_two[0] + of_two[1]):
        near(a, b)
    assert not one[1, 3:].any() and one[0, 4].any()
    with pytest.raises(ValueError, match="same depth"):
        rnn.stack_bidirectional_dynamic_rnn(cells(), cells()[:1], x)
    with pytest.raises(ValueError, match="one per layer"):
        rnn.stack_bidirectional_dynamic_rnn(cells(), cells(), x, [forward[0]])
