"""Encoders and decoders over lists, compared with numpy."""

import copy

import numpy as np
import pytest

import sluice.compat.v1 as tf

cells = tf.nn.rnn_cell
legacy = tf.contrib.legacy_seq2seq


@pytest.fixture
def rng():
    return np.random.RandomState(5)


def start(session, rng, scale=0.7):
    """Assigns random values to all variables; returns them by name."""
    values = {}
    for v in tf.global_variables():
        values[v.op.name] = np.asarray(
            rng.standard_normal(v.shape.as_list()) * scale, np.float32)
        v.load(values[v.op.name], session)
    return values


def close(got, expected):
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def linear(values, scope, *parts):
    return np.concatenate(parts, 1) @ values[f"{scope}/kernel"] + (
        values[f"{scope}/bias"])


def rnn(values, scope, x, h):
    return np.tanh(linear(values, f"{scope}/basic_rnn_cell", x, h))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def steps(rng, count, batch=2, depth=3):
    return [rng.randn(batch, depth).astype(np.float32) for _ in range(count)]


def words(*ids):
    return [tf.constant(i, tf.int32) for i in ids]


def test_decoder_starts_with_encoder_state(session, rng):
    xs, ys = steps(rng, 3), steps(rng, 2)
    outputs, state = legacy.basic_rnn_seq2seq(
        list(map(tf.constant, xs)), list(map(tf.constant, ys)),
        cells.BasicRNNCell(4))
    tied, _ = legacy.tied_rnn_seq2seq(
        list(map(tf.constant, xs)), list(map(tf.constant, ys)),
        cells.BasicRNNCell(4), loop_function=lambda before, i: before[:, :3])
    values = start(session, rng)
    assert {n.rsplit("/", 2)[0] for n in values} == {
        "basic_rnn_seq2seq/rnn", "basic_rnn_seq2seq/rnn_decoder",
        "combined_tied_rnn_seq2seq/tied_rnn_seq2seq"}
    outputs, state, tied = session.run([outputs, state, tied])
    h = np.zeros([2, 4])
    for x in xs:
        h = rnn(values, "basic_rnn_seq2seq/rnn", x, h)
    for y, output in zip(ys, outputs):
        h = rnn(values, "basic_rnn_seq2seq/rnn_decoder", y, h)
        close(output, h)
    close(state, h)
    h = np.zeros([2, 4])
    for x in xs:
        h = rnn(values, "combined_tied_rnn_seq2seq/tied_rnn_seq2seq", x, h)
    y = ys[0]
    for output in tied:
        h = rnn(values, "combined_tied_rnn_seq2seq/tied_rnn_seq2seq", y, h)
        close(output, h)
        y = h[:, :3]


KINDS = {
    "rnn": lambda *a, **k: legacy.embedding_rnn_seq2seq(
        *a, cells.GRUCell(4), 5, 6, 3, **k),
    "lstm": lambda *a, **k: legacy.embedding_rnn_seq2seq(
        *a, cells.BasicLSTMCell(4), 5, 6, 3, **k),
    "tied": lambda *a, **k: legacy.embedding_tied_rnn_seq2seq(
        *a, cells.BasicLSTMCell(4), 6, 3, **k),
    "attention": lambda *a, **k: legacy.embedding_attention_seq2seq(
        *a, cells.GRUCell(4), 5, 6, 3, num_heads=2, **k),
    "one2many": lambda xs, ys, **k: [x["a"] for x in (
        legacy.one2many_rnn_seq2seq(
            xs, {"a": ys}, cells.GRUCell(4), {"a": cells.GRUCell(4)}, 5,
            {"a": 6}, 3, **k))]}


@pytest.mark.parametrize("kind", KINDS)
def test_previous_words_are_fed_back_on_request(session, rng, kind):
    xs = words([1, 2], [3, 4], [0, 0])
    fed = [tf.placeholder_with_default(np.array(w, np.int32), [2])
           for w in ([1, 1], [2, 3], [4, 5], [0, 1])]
    switch = tf.placeholder(tf.bool, [])
    found = {}
    for name, feeds in (("given", False), ("back", True), ("either", switch)):
        with tf.variable_scope("model", reuse=bool(found)):
            found[name] = KINDS[kind](xs, fed, feed_previous=feeds)
    start(session, rng, 1.5)
    given, _ = session.run(found["given"])
    back, state = session.run(found["back"])
    assert given[0].shape == (2, 6) and len(given) == 4
    close(given[0], back[0])
    # Feeding a model its own words gives the result of feed_previous.
    feed = {f: o.argmax(1) for f, o in zip(fed[1:], back)}
    same, same_state = session.run(found["given"], feed)
    close(same, back)
    close(same_state, state)
    assert np.abs(np.array(given[1:]) - back[1:]).max() > 1e-3
    close(session.run(found["either"][0], {switch: True}), back)
    close(session.run(found["either"][0], {switch: False}), given)


def test_list_attention_matches_numpy(session, rng):
    seen = rng.randn(2, 5, 4).astype(np.float32)
    ys, first = steps(rng, 3), rng.randn(2, 4).astype(np.float32)
    for begins in (False, True):
        outputs, _ = legacy.attention_decoder(
            list(map(tf.constant, ys)), tf.constant(first), tf.constant(seen),
            cells.BasicRNNCell(4), output_size=2, num_heads=2,
            scope=f"begins{begins}", initial_state_attention=begins)
    values = start(session, rng)
    outputs = session.run(outputs)
    at = "beginsTrue"

    def look(h):
        found = []
        for head in range(2):
            y = linear(values, f"{at}/Attention_{head}", h)
            inner = np.tanh(seen @ values[f"{at}/AttnW_{head}"][0, 0] +
                            y[:, None])
            much = softmax((values[f"{at}/AttnV_{head}"] * inner).sum(-1))
            found.append(np.einsum("bt,btd->bd", much, seen))
        return found

    h = first
    looked = look(h)
    for y, output in zip(ys, outputs):
        h = rnn(values, at, linear(values, at, y, *looked), h)
        looked = look(h)
        close(output, linear(values, f"{at}/AttnOutputProjection", h, *looked))
    assert sum(n.startswith("beginsFalse") for n in values) == len(values) // 2
    with pytest.raises(ValueError, match="at least 1 input"):
        legacy.attention_decoder([], tf.constant(first), tf.constant(seen),
                                 cells.BasicRNNCell(4))
    with pytest.raises(ValueError, match="less than 1 heads"):
        legacy.attention_decoder(ys, tf.constant(first), tf.constant(seen),
                                 cells.BasicRNNCell(4), num_heads=0)


def test_outputs_may_be_projected_by_the_caller(session, rng):
    w = tf.constant(rng.randn(4, 6).astype(np.float32))
    b = tf.constant(rng.randn(6).astype(np.float32))
    xs, ys = words([1, 2], [3, 4]), words([1, 1], [2, 3], [4, 5])
    for build in (legacy.embedding_rnn_seq2seq,
                  legacy.embedding_attention_seq2seq):
        back, _ = build(xs, ys, cells.GRUCell(4), 5, 6, 3,
                        output_projection=(w, b), feed_previous=True)
        start(session, rng)
        assert session.run(back[2]).shape == (2, 4)
        with pytest.raises(ValueError):
            build(xs, ys, cells.GRUCell(4), 5, 7, 3, output_projection=(w, b),
                  scope="wrong")


def test_losses_of_lists(run, rng):
    logits = steps(rng, 3, 2, 4)
    targets = [np.array(t, np.int32) for t in ([0, 1], [2, 3], [3, 0])]
    weights = [np.array(w, np.float32) for w in ([1, 1], [2, 1], [0, 0])]
    each = np.array([-np.log(softmax(x))[[0, 1], t] * w
                     for x, t, w in zip(logits, targets, weights)])
    args = [list(map(tf.constant, v)) for v in (logits, targets, weights)]
    close(run(legacy.sequence_loss_by_example(*args)), each.sum(0) / [3, 2])
    close(run(legacy.sequence_loss_by_example(
        *args, average_across_timesteps=False)), each.sum(0))
    close(run(legacy.sequence_loss(*args)), (each.sum(0) / [3, 2]).mean())
    close(run(legacy.sequence_loss(*args, average_across_batch=False,
                                   softmax_loss_function=lambda labels, logits:
                                   tf.cast(labels, tf.float32))),
          (np.array([0, 1]) + [4, 3]) @ [1 / 3, 1 / 2])
    with pytest.raises(ValueError, match="must be the same"):
        legacy.sequence_loss(args[0], args[1][:2], args[2])


def test_buckets_share_their_variables(session, rng):
    xs, ys = words(*[[i, 1] for i in range(4)]), words(*[[2, i]
                                                         for i in range(4)])
    weights = [tf.ones([2])] * 4
    # As in TensorFlow's example, the buckets share the cell.
    cell = cells.GRUCell(4)

    def model(x, y):
        return legacy.embedding_attention_seq2seq(x, y, cell, 5, 5, 3)

    buckets = [(2, 2), (4, 3)]
    outputs, losses = legacy.model_with_buckets(xs, ys, ys, weights, buckets,
                                                model)
    with tf.variable_scope("alone"):
        model(xs, ys)
    here = [v for v in tf.global_variables()
            if not v.name.startswith("alone")]
    assert len(here) == len(set(v.name for v in here)) == 20
    assert [len(o) for o in outputs] == [2, 3]
    values = start(session, rng)
    again, _ = legacy.model_with_buckets(xs, ys, ys, weights, [(4, 3)],
                                         lambda x, y: _reused(model, x, y))
    one, two, small, large = session.run([outputs[1], again[0], *losses])
    close(one, two)
    assert small.shape == large.shape == ()
    grads = tf.gradients(losses[0], here)
    assert all(g is not None for g in grads)
    with pytest.raises(ValueError, match="Length of encoder_inputs"):
        legacy.model_with_buckets(xs[:3], ys, ys, weights, buckets, model)
    assert values


def _reused(model, x, y):
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        return model(x, y)


def test_wrappers_put_layers_around_a_cell(session, rng):
    rnn_ = tf.contrib.rnn
    cell = rnn_.OutputProjectionWrapper(rnn_.InputProjectionWrapper(
        cells.BasicRNNCell(4), 5, activation=tf.tanh), 2, activation=tf.tanh)
    x, h = rng.randn(3, 6), rng.randn(3, 4)
    output, state = cell(tf.constant(x, tf.float32), tf.constant(h, tf.float32))
    values = start(session, rng)
    output, state = session.run([output, state])
    at = "output_projection_wrapper"
    inner = f"{at}/input_projection_wrapper"
    h = rnn(values, inner, np.tanh(linear(values, inner, x)), h)
    close(state, h)
    close(output, np.tanh(linear(values, at, h)))
    assert (cell.output_size, cell.state_size) == (2, 4)
    with pytest.raises(ValueError, match="must be > 0"):
        rnn_.EmbeddingWrapper(cells.GRUCell(3), 0, 4)


def test_copied_cell_creates_its_own_variables(session):
    cell = cells.MultiRNNCell([cells.LSTMCell(3, activation=tf.nn.relu),
                               cells.GRUCell(2)])
    x = tf.ones([2, 4])
    with tf.variable_scope("one"):
        cell(x, cell.zero_state(2, tf.float32))
    twin = copy.deepcopy(cell)
    assert twin.weights == [] and len(cell.weights) == 6
    with tf.variable_scope("two"):
        twin(x, twin.zero_state(2, tf.float32))
    assert [v.name.replace("one/", "two/") for v in cell.weights] == [
        v.name for v in twin.weights]
    layer = tf.layers.Dense(3, name="dense")
    both = copy.deepcopy([layer, layer])
    assert both[0] is both[1] is not layer
