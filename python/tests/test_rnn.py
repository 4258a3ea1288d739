"""Recurrent networks, compared with loops in numpy."""

import numpy as np
import pytest
import sluice.compat.v1 as tf

cells = tf.nn.rnn_cell


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def names(variables=None):
    return [v.op.name for v in (tf.global_variables() if variables is None
                                else variables)]


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def start(session, rng, scale=0.5):
    """Assigns random values to all variables; returns {name: value}."""
    values = {}
    for v in tf.global_variables():
        values[v.op.name] = rng.uniform(-scale, scale, v.shape.as_list())
        v.load(values[v.op.name].astype(np.float32), session)
    return values


# One step of each cell: (x, state, weights by the suffix of their names).


def basic_rnn(x, h, w):
    h = np.tanh(np.hstack([x, h]) @ w["kernel"] + w["bias"])
    return h, h


def gru(x, h, w):
    r, u = np.split(sigmoid(np.hstack([x, h]) @ w["gates/kernel"] +
                            w["gates/bias"]), 2, 1)
    c = np.tanh(np.hstack([x, r * h]) @ w["candidate/kernel"] +
                w["candidate/bias"])
    h = u * h + (1 - u) * c
    return h, h


def lstm(x, state, w, forget_bias=1.0, clip=np.inf, proj_clip=np.inf):
    c, h = state
    i, j, f, o = np.split(np.hstack([x, h]) @ w["kernel"] + w["bias"], 4, 1)
    wf, wi, wo = (w.get(f"w_{g}_diag", 0.0) for g in "fio")
    c = (sigmoid(f + forget_bias + wf * c) * c +
         sigmoid(i + wi * c) * np.tanh(j))
    c = np.clip(c, -clip, clip)
    h = sigmoid(o + wo * c) * np.tanh(c)
    if "projection/kernel" in w:
        h = np.clip(h @ w["projection/kernel"], -proj_clip, proj_clip)
    return h, (c, h)


def within(values, prefix):
    return {k[len(prefix):]: v for k, v in values.items()
            if k.startswith(prefix)}


def run_cell(step, x, state, lengths=None):
    """Loops over [batch, time, depth]; rows keep their state at the end."""
    outputs = []
    flat = lambda s: s if isinstance(s, tuple) else (s,)  # noqa: E731
    for t in range(x.shape[1]):
        out, after = step(x[:, t], state)
        if lengths is not None:
            on = (t < np.asarray(lengths))[:, None]
            out = np.where(on, out, 0)
            kept = tuple(np.where(on, a, b)
                         for a, b in zip(flat(after), flat(state)))
            after = kept if isinstance(state, tuple) else kept[0]
        outputs.append(out)
        state = after
    return np.stack(outputs, 1), state


def check(got, expected):
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            check(a, b)
    else:
        np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


KINDS = {
    "BasicRNNCell": (basic_rnn, "basic_rnn_cell", ["kernel", "bias"]),
    "GRUCell": (gru, "gru_cell", ["gates/kernel", "gates/bias",
                                  "candidate/kernel", "candidate/bias"]),
    "BasicLSTMCell": (lstm, "basic_lstm_cell", ["kernel", "bias"]),
    "LSTMCell": (lstm, "lstm_cell", ["kernel", "bias"])}


@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_rnn_handles_sequence_lengths(session, rng, kind):
    step, name, weights = KINDS[kind]
    x = rng.randn(3, 5, 2).astype(np.float32)
    lengths = [5, 0, 3]
    inputs = tf.placeholder(tf.float32, [None, None, 2])
    outputs, state = tf.nn.dynamic_rnn(
        getattr(cells, kind)(4), inputs, lengths, dtype=tf.float32)
    assert names() == [f"rnn/{name}/{w}" for w in weights]
    assert outputs.shape.as_list()[1:] == [None, 4]
    values = within(start(session, rng), f"rnn/{name}/")
    zero = np.zeros([3, 4])
    expected = run_cell(lambda x, s: step(x, s, values), x,
                        (zero, zero) if "LSTM" in kind else zero, lengths)
    got = session.run([outputs, state], {inputs: x})
    check(got[0], expected[0])
    check(got[1], expected[1])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_through_time(session, rng, kind):
    x = rng.randn(2, 3, 2).astype(np.float32)
    inputs = tf.placeholder(tf.float32, [2, 3, 2])
    outputs, _ = tf.nn.dynamic_rnn(getattr(cells, kind)(2), inputs, [3, 2],
                                   dtype=tf.float32)
    start(session, rng)
    with session.as_default():
        error = tf.test.compute_gradient_error(
            inputs, [2, 3, 2], outputs, [2, 3, 2], x, delta=1e-2)
    assert error < 1e-3
    # The gradient of the weights matches differences of the loss.
    w = tf.trainable_variables()[0]
    loss = tf.reduce_sum(outputs ** 2.0)
    grad = session.run(tf.gradients(loss, w)[0], {inputs: x})
    before = session.run(w)
    for at in [(0, 0), (1, 1), (3, 1)]:
        sides = []
        for sign in (1, -1):
            moved = before.copy()
            moved[at] += sign * 1e-2
            w.load(moved, session)
            sides.append(session.run(loss, {inputs: x}))
        np.testing.assert_allclose(grad[at], (sides[0] - sides[1]) / 2e-2,
                                   2e-2, 1e-3)


def test_peepholes_projections_and_bounds(session, rng):
    x = rng.randn(2, 4, 3).astype(np.float32)
    cell = cells.LSTMCell(5, use_peepholes=True, cell_clip=0.4, num_proj=2,
                          proj_clip=0.3, forget_bias=0.5)
    assert cell.state_size == cells.LSTMStateTuple(5, 2)
    assert cell.output_size == 2
    first = cell.zero_state(2, tf.float32)
    outputs, state = tf.nn.dynamic_rnn(cell, x, initial_state=first)
    assert names() == [f"rnn/lstm_cell/{n}" for n in (
        "kernel", "bias", "w_f_diag", "w_i_diag", "w_o_diag",
        "projection/kernel")]
    w = within(start(session, rng, 2.0), "rnn/lstm_cell/")
    expected = run_cell(
        lambda x, s: lstm(x, s, w, 0.5, 0.4, 0.3), x,
        (np.zeros([2, 5]), np.zeros([2, 2])))
    got = session.run([outputs, state])
    check(got[0], expected[0])
    check(got[1], expected[1])
    assert isinstance(got[1], cells.LSTMStateTuple)


def test_states_may_be_one_matrix(session, rng):
    x = rng.randn(2, 3, 2).astype(np.float32)
    for make in (cells.BasicLSTMCell, cells.LSTMCell):
        cell = make(3, state_is_tuple=False)
        assert cell.state_size == 6
        outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32,
                                           scope=make.__name__)
        values = start(session, rng)
        w = {k.rsplit("/", 1)[-1]: v for k, v in values.items()
             if k.startswith(make.__name__ + "/")}
        zero = np.zeros([2, 3])
        expected = run_cell(lambda x, s: lstm(x, s, w), x, (zero, zero))
        got = session.run([outputs, state])
        check(got[0], expected[0])
        check(got[1], np.hstack(expected[1]))


def test_time_may_come_first(session, rng):
    x = rng.randn(4, 2, 3).astype(np.float32)
    cell = cells.GRUCell(2)
    one, _ = tf.nn.dynamic_rnn(cell, x, [4, 2], dtype=tf.float32,
                               time_major=True)
    two, _ = tf.nn.dynamic_rnn(cell, x.transpose([1, 0, 2]), [4, 2],
                               dtype=tf.float32)
    assert names() == [f"rnn/gru_cell/{n}" for n in KINDS["GRUCell"][2]]
    start(session, rng)
    check(session.run(one), session.run(two).transpose([1, 0, 2]))


def test_stacked_cells(session, rng):
    x = rng.randn(2, 3, 2).astype(np.float32)
    stack = cells.MultiRNNCell([cells.BasicLSTMCell(3), cells.GRUCell(4)])
    outputs, state = tf.nn.dynamic_rnn(stack, x, dtype=tf.float32)
    under = "rnn/multi_rnn_cell/"
    assert names() == [under + n for n in (
        "cell_0/basic_lstm_cell/kernel", "cell_0/basic_lstm_cell/bias",
        "cell_1/gru_cell/gates/kernel", "cell_1/gru_cell/gates/bias",
        "cell_1/gru_cell/candidate/kernel", "cell_1/gru_cell/candidate/bias")]
    assert names(stack.trainable_weights) == names()
    values = start(session, rng)
    one = within(values, under + "cell_0/basic_lstm_cell/")
    two = within(values, under + "cell_1/gru_cell/")
    z = np.zeros([2, 3])
    inner, state_one = run_cell(lambda x, s: lstm(x, s, one), x, (z, z))
    outer, state_two = run_cell(lambda x, s: gru(x, s, two), inner,
                                np.zeros([2, 4]))
    got = session.run([outputs, state])
    check(got[0], outer)
    check(got[1], (state_one, state_two))
    with pytest.raises(ValueError, match="at least one cell"):
        cells.MultiRNNCell([])
    with pytest.raises(ValueError, match="state_is_tuple is not set"):
        cells.MultiRNNCell([cells.BasicLSTMCell(2)], state_is_tuple=False)
    flat = cells.MultiRNNCell([cells.GRUCell(2), cells.GRUCell(3)], False)
    assert flat.state_size == 5
    _, state = tf.nn.dynamic_rnn(flat, x, dtype=tf.float32, scope="flat")
    assert state.shape == [2, 5]


def test_bidirectional_rnn(session, rng):
    x = rng.randn(2, 4, 3).astype(np.float32)
    lengths = [4, 2]
    (fw, bw), (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
        cells.BasicRNNCell(2), cells.BasicRNNCell(2), x, lengths,
        dtype=tf.float32)
    assert names() == [f"bidirectional_rnn/{d}/basic_rnn_cell/{n}"
                       for d in ("fw", "bw") for n in ("kernel", "bias")]
    values = start(session, rng)

    def along(x, direction):
        w = within(values, f"bidirectional_rnn/{direction}/basic_rnn_cell/")
        return run_cell(lambda x, s: basic_rnn(x, s, w), x, np.zeros([2, 2]),
                        lengths)

    def backwards(x):
        turned = x.copy()
        for row, n in enumerate(lengths):
            turned[row, :n] = x[row, :n][::-1]
        return turned

    expected, last = along(x, "fw")
    check(session.run([fw, state_fw]), [expected, last])
    expected, last = along(backwards(x), "bw")
    check(session.run([bw, state_bw]), [backwards(expected), last])


def test_static_rnn(session, rng):
    x = rng.randn(3, 4, 2).astype(np.float32)
    steps = tf.unstack(tf.constant(x), axis=1)
    outputs, state = tf.nn.static_rnn(
        cells.BasicLSTMCell(3), steps, dtype=tf.float32,
        sequence_length=[4, 1, 2])
    assert names() == ["rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"]
    w = within(start(session, rng), "rnn/basic_lstm_cell/")
    zero = np.zeros([3, 3])
    expected = run_cell(lambda x, s: lstm(x, s, w), x, (zero, zero), [4, 1, 2])
    got = session.run([tf.stack(outputs, 1), state])
    check(got[0], expected[0])
    check(got[1], expected[1])
    both, fw, bw = tf.nn.static_bidirectional_rnn(
        cells.GRUCell(2), cells.GRUCell(3), steps, dtype=tf.float32)
    assert len(both) == 4 and both[0].shape == [3, 5]
    assert fw.shape == [3, 2] and bw.shape == [3, 3]
    start(session, rng)
    check(session.run(both[0][:, 2:]), session.run(bw))
    with pytest.raises(ValueError, match="must not be empty"):
        tf.nn.static_rnn(cells.GRUCell(2), [], dtype=tf.float32)


def test_raw_rnn(session, rng):
    x = rng.randn(5, 2, 3).astype(np.float32)
    lengths = tf.constant([3, 5])
    cell = cells.BasicRNNCell(4)
    inputs = tf.TensorArray(tf.float32, 5, clear_after_read=False).unstack(x)

    def loop(time, output, state, loop_state):
        if output is None:
            state, seen = cell.zero_state(2, tf.float32), tf.constant(0)
        else:
            seen = loop_state + 1
        done = time >= lengths
        after = tf.cond(tf.reduce_all(done), lambda: tf.zeros([2, 3]),
                        lambda: inputs.read(time))
        return done, after, state, output, seen

    arrays, state, seen = tf.nn.raw_rnn(cell, loop)
    assert names() == ["rnn/basic_rnn_cell/kernel", "rnn/basic_rnn_cell/bias"]
    w = within(start(session, rng), "rnn/basic_rnn_cell/")
    expected = run_cell(lambda x, s: basic_rnn(x, s, w),
                        x.transpose([1, 0, 2]), np.zeros([2, 4]), [3, 5])
    got = session.run([arrays.stack(), state, seen])
    check(got[0].transpose([1, 0, 2]), expected[0])
    check(got[1], expected[1])
    assert got[2] == 5


def test_dropout_around_a_cell(session, rng):
    x = np.ones([4, 3, 6], np.float32)
    made = lambda **k: cells.DropoutWrapper(  # noqa: E731
        cells.LSTMCell(8, name="cell"), **k)
    outputs, _ = tf.nn.dynamic_rnn(made(output_keep_prob=0.5, seed=1), x,
                                   dtype=tf.float32)
    assert names() == ["rnn/cell/kernel", "rnn/cell/bias"]
    start(session, rng)
    zero = (session.run(outputs) == 0).mean()
    assert 0.2 < zero < 0.8
    with tf.variable_scope("rnn", reuse=True) as scope:
        same, _ = tf.nn.dynamic_rnn(
            made(input_keep_prob=0.5, output_keep_prob=0.5,
                 state_keep_prob=0.5, variational_recurrent=True,
                 input_size=6, dtype=tf.float32, seed=2), x, dtype=tf.float32,
            scope=scope)
    dropped = session.run(same) == 0
    assert 0.1 < dropped.mean() < 0.9
    # The same elements are dropped in every step.
    np.testing.assert_array_equal(dropped, dropped[:, :1] & dropped)
    assert (dropped[:, 0] == dropped[:, 2]).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        made(input_keep_prob=1.5)
    with pytest.raises(ValueError, match="dtype must be provided"):
        made(variational_recurrent=True)
    with pytest.raises(ValueError, match="input_size must be provided"):
        made(variational_recurrent=True, input_keep_prob=0.5,
             dtype=tf.float32)


def test_lstm_memory_is_not_dropped(session, rng):
    cell = cells.DropoutWrapper(cells.BasicLSTMCell(50), state_keep_prob=0.5)
    _, state = cell(np.ones([2, 3], np.float32),
                    cell.zero_state(2, tf.float32))
    start(session, rng)
    c, h = session.run(state)
    assert (c != 0).all() and 0.2 < (h == 0).mean() < 0.8
    all_of_it = cells.DropoutWrapper(
        cells.BasicLSTMCell(50, name="b"), state_keep_prob=0.5,
        dropout_state_filter_visitor=lambda s: True)
    _, state = all_of_it(np.ones([2, 3], np.float32),
                         all_of_it.zero_state(2, tf.float32))
    start(session, rng)
    assert (session.run(state.c) == 0).any()


def test_residual_and_device_wrappers(session, rng):
    x = rng.randn(2, 3, 4).astype(np.float32)
    cell = cells.DeviceWrapper(
        cells.ResidualWrapper(cells.GRUCell(4)), "/cpu:0")
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    w = within(start(session, rng), "rnn/gru_cell/")
    h, expected = np.zeros([2, 4]), []
    for t in range(3):
        out, h = gru(x[:, t], h, w)
        expected.append(out + x[:, t])
    check(session.run(outputs), np.stack(expected, 1))
    assert names(cell.trainable_weights) == names()


def test_user_defined_cells(session, rng):
    class Adder(cells.RNNCell):
        state_size = output_size = 2

        def call(self, inputs, state):
            w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
            state = state + w * inputs
            return state, state

    cell = Adder()
    outputs, state = tf.nn.dynamic_rnn(cell, np.ones([1, 3, 2], np.float32),
                                       dtype=tf.float32)
    assert names() == ["rnn/adder/w"]
    assert names(cell.trainable_weights) == names()
    session.run(tf.global_variables_initializer())
    check(session.run(outputs)[0], np.array([[1, 1], [2, 2], [3, 3]]))


def test_invalid_cells_and_inputs_are_errors(session):
    x = np.ones([2, 3, 4], np.float32)
    with pytest.raises(TypeError, match="is not an RNNCell"):
        tf.nn.dynamic_rnn(lambda x, s: (x, s), x, dtype=tf.float32)
    with pytest.raises(ValueError, match="you must give a dtype"):
        tf.nn.dynamic_rnn(cells.GRUCell(2), x)
    with pytest.raises(ValueError, match="must be a vector"):
        tf.nn.dynamic_rnn(cells.GRUCell(2), x, [[1, 2]], dtype=tf.float32)
    with pytest.raises(ValueError, match="depth of inputs"):
        tf.nn.dynamic_rnn(cells.GRUCell(2),
                          tf.placeholder(tf.float32, [2, 3, None]),
                          dtype=tf.float32)
    with pytest.raises(ValueError, match="only supports floating point"):
        tf.nn.dynamic_rnn(cells.GRUCell(2), np.ones([2, 3, 4], np.int32),
                          dtype=tf.int32)
    outputs, _ = tf.nn.dynamic_rnn(
        cells.GRUCell(2), x, tf.placeholder_with_default([1, 2, 3], [None]),
        dtype=tf.float32, scope="long")
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Expected shape for Tensor sequence_length"):
        session.run(outputs)


def test_block_cell_matches_lstm_cell(run):
    block = tf.contrib.rnn.LSTMBlockCell(3, 0.5, 0.4, use_peephole=True)
    plain = cells.LSTMCell(3, use_peepholes=True, cell_clip=0.4,
                           forget_bias=0.5)
    x = tf.random_uniform([2, 4], seed=1)
    state = cells.LSTMStateTuple(tf.ones([2, 3]), tf.ones([2, 3]))
    with tf.variable_scope("a"):
        ours = block(x, state)
    with tf.variable_scope("a", reuse=True):
        theirs = plain(x, state)
    assert [v.name for v in tf.global_variables()] == [
        f"a/lstm_cell/{n}:0" for n in ("kernel", "bias", "w_f_diag",
                                       "w_i_diag", "w_o_diag")]
    run(tf.global_variables_initializer())
    for a, b in zip(*map(tf.nest.flatten, run([ours, theirs]))):
        np.testing.assert_array_equal(a, b)


# ---- State that persists between steps ---------------------------------------


class KeptInVariables:
    """A state saver that keeps states in variables, initially zero."""

    def __init__(self, **shapes):
        self.kept = {name: tf.Variable(tf.zeros(shape), trainable=False)
                     for name, shape in shapes.items()}

    def state(self, name):
        return self.kept[name].read_value()

    def save_state(self, name, value):
        return self.kept[name].assign(value)


def test_state_is_saved_with_the_last_output(session):
    rng = np.random.RandomState(0)
    whole = rng.rand(2, 6, 3).astype(np.float32)
    saver = KeptInVariables(c=[2, 4], h=[2, 4])
    fed = [tf.placeholder(tf.float32, [2, 3]) for _ in range(3)]
    cell = tf.nn.rnn_cell.LSTMCell(4)
    outputs, state = tf.nn.static_state_saving_rnn(cell, fed, saver, ("c", "h"))
    assert isinstance(state, tf.nn.rnn_cell.LSTMStateTuple)
    expected, last = tf.nn.static_rnn(
        cell, [whole[:, t] for t in range(6)], dtype=tf.float32, scope="rnn")
    session.run(tf.global_variables_initializer())
    want, last = session.run([expected, last])
    got = []
    for piece in (whole[:, :3], whole[:, 3:]):
        feed = {x: piece[:, t] for t, x in enumerate(fed)}
        session.run(outputs[0], feed)  # This does not save the state.
        got += session.run(outputs, feed)
    np.testing.assert_allclose(got, want, 1e-5)
    np.testing.assert_allclose(session.run(saver.kept["h"]), last.h, 1e-5)
    np.testing.assert_allclose(session.run(saver.kept["c"]), last.c, 1e-5)
    after = session.run(state.h, {x: whole[:, 0] for x in fed})
    np.testing.assert_array_equal(session.run(saver.kept["h"]), after)


def test_state_has_a_name_per_component():
    inputs = [tf.zeros([2, 3])]
    saver = KeptInVariables(c=[2, 4], h=[2, 4])
    lstm, gru = tf.nn.rnn_cell.LSTMCell(4), tf.nn.rnn_cell.GRUCell(4)
    _, state = tf.nn.static_state_saving_rnn(gru, inputs, saver, "h")
    assert state.shape == [2, 4]
    for cell, names in ((lstm, "h"), (gru, ("h",)), (lstm, ("h",))):
        with pytest.raises(ValueError, match="state_name"):
            tf.nn.static_state_saving_rnn(cell, inputs, saver, names)
