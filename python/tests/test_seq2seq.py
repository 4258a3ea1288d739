"""Decoders and attention, compared with numpy and brute force."""

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.framework.nest import map_structure

cells = tf.nn.rnn_cell
seq = tf.contrib.seq2seq


@pytest.fixture
def rng():
    return np.random.RandomState(7)


def start(session, rng, scale=0.7):
    """Assigns random values to all variables; returns them by name."""
    values = {v.op.name: np.asarray(
        rng.standard_normal(v.shape.as_list()) * scale, np.float32)
              for v in tf.global_variables()}
    for v in tf.global_variables():
        v.load(values[v.op.name], session)
    return values


def close(got, expected):
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    return np.log(softmax(x))


def gru(x, h, values, scope):
    """Computes the next state of GRUCell."""
    def w(name):
        return values[f"{scope}/gru_cell/{name}"]
    both = np.concatenate([x, h], 1)
    r, u = np.split(sigmoid(both @ w("gates/kernel") + w("gates/bias")), 2, 1)
    c = np.tanh(np.concatenate([x, r * h], 1) @ w("candidate/kernel") +
                w("candidate/bias"))
    return u * h + (1 - u) * c


# ---- dynamic_decode ----------------------------------------------------------


def test_training_helper_matches_the_cell(session, rng):
    x = rng.randn(3, 5, 2).astype(np.float32)
    inputs = tf.placeholder(tf.float32, [None, None, 2])
    lengths = tf.placeholder(tf.int32, [None])
    cell = cells.GRUCell(4, name="cell")
    first = cell.zero_state(tf.shape(inputs)[0], tf.float32)
    decoder = seq.BasicDecoder(cell, seq.TrainingHelper(inputs, lengths), first)
    made, state, counts = seq.dynamic_decode(decoder, impute_finished=True,
                                             scope="both")
    with tf.variable_scope("both", reuse=True) as scope:
        outputs, last = tf.nn.dynamic_rnn(cell, inputs, lengths, first,
                                          scope=scope)
    assert made.rnn_output.shape.as_list() == [None, None, 4]
    assert len(tf.trainable_variables()) == 4
    start(session, rng)
    feed = {inputs: x, lengths: [4, 0, 2]}
    got = session.run([made, state, counts, outputs, last], feed)
    close(got[0].rnn_output, got[3][:, :4])
    close(got[1], got[4])
    assert got[2].tolist() == [4, 0, 2]
    assert (got[0].sample_id == got[0].rnn_output.argmax(-1)).all()


def test_finished_sequences_keep_state_on_request(session, rng):
    x = rng.randn(2, 4, 3).astype(np.float32)

    def decode(**options):
        with tf.variable_scope("one", reuse=tf.AUTO_REUSE):
            cell = cells.GRUCell(3, name="gru_cell")
            return seq.dynamic_decode(seq.BasicDecoder(
                cell, seq.TrainingHelper(x, [4, 2]),
                cell.zero_state(2, tf.float32)), **options)

    kept, kept_state, _ = decode(impute_finished=True)
    free, free_state, lengths = decode(output_time_major=True)
    values = start(session, rng)
    h, states = np.zeros([2, 3]), []
    for t in range(4):
        h = gru(x[:, t] * [[1], [t < 2]], h, values, "one/decoder")
        states.append(h)
    kept, kept_state, free, free_state, lengths = session.run(
        [kept, kept_state, free, free_state, lengths])
    close(kept.rnn_output[0], [s[0] for s in states])
    close(kept.rnn_output[1], [states[0][1], states[1][1], [0] * 3, [0] * 3])
    close(kept_state, [states[3][0], states[1][1]])
    assert (kept.sample_id[1, 2:] == 0).all()
    assert lengths.tolist() == [4, 2]
    # Without `impute_finished` it continues; outputs are [time, batch, ...].
    assert free.rnn_output.shape == (4, 2, 3)
    assert (free.rnn_output[2:, 1] != 0).all()
    close(free_state, free.rnn_output[3])


def test_decoding_stops_at_maximum_iterations(session, rng):
    x = np.ones([2, 4, 3], np.float32)
    cell = cells.BasicRNNCell(3)
    most = tf.placeholder_with_default(3, [])
    decoder = seq.BasicDecoder(cell, seq.TrainingHelper(x, [4, 2]),
                               cell.zero_state(2, tf.float32))
    made, _, lengths = seq.dynamic_decode(decoder, maximum_iterations=most)
    start(session, rng)
    assert session.run(lengths).tolist() == [3, 2]
    made, lengths = session.run([made, lengths], {most: 0})
    assert made.rnn_output.shape == (2, 0, 3) and lengths.tolist() == [0, 0]
    with pytest.raises(ValueError, match="maximum_iterations must be a scalar"):
        seq.dynamic_decode(decoder, maximum_iterations=[3])
    with pytest.raises(TypeError, match="Expected decoder to be type Decoder"):
        seq.dynamic_decode(cell)


def test_custom_decoder_may_finalize_outputs(session, rng):
    class Counter(seq.Decoder):
        """Counts steps; the outputs of the last one have unknown rank."""
        batch_size = 2
        output_size = tf.TensorShape([3])
        output_dtype = tf.int32

        def initialize(self, name=None):
            return tf.constant([False, True]), tf.zeros([2]), tf.constant(0)

        def step(self, time, inputs, state, name=None):
            return (tf.fill([2, 3], state), state + 1, inputs,
                    tf.stack([time >= 3, False]))

        def finalize(self, outputs, final_state, sequence_lengths):
            whole = tf.placeholder_with_default(outputs, None)
            return (whole, sequence_lengths), final_state * 10

    (whole, counts), state, lengths = seq.dynamic_decode(Counter())
    assert whole.shape.ndims is None and lengths.shape == [2]
    whole, counts, state = session.run([whole, counts, state])
    assert whole[:, :, 0].tolist() == [[0, 1, 2, 3]] * 2
    assert counts.tolist() == [4, 0] and state == 40


def test_gradients_flow_through_the_steps(session, rng):
    x = rng.randn(2, 3, 2).astype(np.float32)
    inputs = tf.placeholder(tf.float32, [2, 3, 2])
    memory = tf.constant(rng.randn(2, 4, 3).astype(np.float32))
    cell = seq.AttentionWrapper(
        cells.GRUCell(3), seq.BahdanauAttention(
            2, memory, memory_sequence_length=[4, 2], normalize=True),
        attention_layer_size=3)
    made, _, _ = seq.dynamic_decode(seq.BasicDecoder(
        cell, seq.TrainingHelper(inputs, [3, 2]), cell.zero_state(
            2, tf.float32), tf.layers.Dense(2)), impute_finished=True)
    start(session, rng)
    with session.as_default():
        assert tf.test.compute_gradient_error(
            inputs, [2, 3, 2], made.rnn_output, [2, 3, 2], x,
            delta=1e-2) < 2e-3
    assert session.run(made.rnn_output, {inputs: x}).shape == (2, 3, 2)
    grads = tf.gradients(made.rnn_output, tf.trainable_variables())
    assert all((g != 0).any() for g in session.run(grads, {inputs: x}))
    # Inputs beyond the end of a sequence have zero gradients.
    slope = session.run(tf.gradients(made.rnn_output, inputs)[0], {inputs: x})
    assert (slope[1, 2] == 0).all() and (slope[1, 1] != 0).any()


# ---- Helpers -----------------------------------------------------------------


def words(rng, count=5, depth=3):
    """Returns a random embedding matrix."""
    return rng.randn(count, depth).astype(np.float32)


def test_greedy_decoding_matches_numpy(session, rng):
    table, first = words(rng), tf.placeholder(tf.int32, [None])
    cell = cells.GRUCell(4)
    helper = seq.GreedyEmbeddingHelper(table, first, 3)
    decoder = seq.BasicDecoder(
        cell, helper, cell.zero_state(helper.batch_size, tf.float32),
        tf.layers.Dense(5))
    assert decoder.output_size.rnn_output.as_list() == [5]
    made, _, lengths = seq.dynamic_decode(decoder, maximum_iterations=6)
    values = start(session, rng, 2.0)
    feed = [0, 1, 2, 4]
    made, lengths = session.run([made, lengths], {first: feed})
    word, h = np.array(feed), np.zeros([4, 4])
    done, counts = np.zeros(4, bool), np.zeros(4, int)
    for t in range(made.sample_id.shape[1]):
        counts += ~done
        h = gru(table[word], h, values, "decoder")
        logits = h @ values["decoder/dense/kernel"] + (
            values["decoder/dense/bias"])
        word = logits.argmax(1)
        close(made.rnn_output[:, t], logits)
        assert made.sample_id[:, t].tolist() == word.tolist()
        done |= word == 3
    assert lengths.tolist() == counts.tolist()
    assert len(set(counts.tolist())) > 1


def test_sampled_words_follow_probabilities(session, rng):
    logits = np.log(np.array([[0.7, 0.2, 0.1]], np.float32))
    helper = seq.SampleEmbeddingHelper(np.eye(3, dtype=np.float32),
                                       [0] * 4000, 9, seed=3)
    many = tf.constant(np.tile(logits, [4000, 1]))
    drawn = session.run(helper.sample(0, many, None))
    shares = np.bincount(drawn, minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.03)
    cold = seq.SampleEmbeddingHelper(np.eye(3, dtype=np.float32), [0] * 4000, 9,
                                     softmax_temperature=0.02, seed=3)
    assert (session.run(cold.sample(0, many, None)) == 0).all()
    with pytest.raises(TypeError, match="to be a single Tensor"):
        cold.sample(0, (many, many), None)


def test_functions_decide_samples_and_inputs(session, rng):
    cell = cells.BasicRNNCell(3)
    x = rng.randn(2, 3).astype(np.float32)
    first = tf.constant(x)
    inference = seq.InferenceHelper(
        sample_fn=lambda outputs: outputs * 2.0, sample_shape=[3],
        sample_dtype=tf.float32, start_inputs=first,
        end_fn=lambda ids: tf.fill([2], False))
    custom = seq.CustomHelper(
        initialize_fn=lambda: (tf.fill([2], False), first),
        sample_fn=lambda time, outputs, state: outputs * 2.0,
        next_inputs_fn=lambda time, outputs, state, sample_ids: (
            tf.fill([2], False), sample_ids, state),
        sample_ids_shape=[3], sample_ids_dtype=tf.float32)
    with pytest.raises(ValueError, match="accessed before initialize"):
        custom.batch_size
    found = []
    for helper in (inference, custom):
        with tf.variable_scope("same", reuse=tf.AUTO_REUSE):
            found.append(seq.dynamic_decode(seq.BasicDecoder(
                cell, helper, cell.zero_state(2, tf.float32)),
                maximum_iterations=3, scope="decoder")[0])
    w = start(session, rng)["same/decoder/basic_rnn_cell/kernel"]
    b = [v for v in tf.global_variables() if "bias" in v.name][0]
    h, b = np.zeros([2, 3]), session.run(b)
    for one in session.run(found):
        x_, h = x, np.zeros([2, 3])
        for t in range(3):
            h = np.tanh(np.concatenate([x_, h], 1) @ w + b)
            x_ = 2 * h
            close(one.rnn_output[:, t], h)
            close(one.sample_id[:, t], x_)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("function", [None, lambda y: -y])
@pytest.mark.parametrize("auxiliary", [False, True])
def test_outputs_may_be_the_next_inputs(session, rng, share, function,
                                        auxiliary):
    x = rng.randn(2, 4, 3).astype(np.float32)
    more = rng.randn(2, 4, 2).astype(np.float32) if auxiliary else None
    cell = cells.GRUCell(3)
    helper = seq.ScheduledOutputTrainingHelper(
        x, [4, 4], share, next_inputs_fn=function, auxiliary_inputs=more)
    made, _, _ = seq.dynamic_decode(seq.BasicDecoder(
        cell, helper, cell.zero_state(2, tf.float32)))
    values = start(session, rng)
    made = session.run(made)
    assert (made.sample_id == share).all()
    h = np.zeros([2, 3])
    for t in range(4):
        given = x[:, t]
        if share and t > 0:
            given = h if function is None else function(h)
        if auxiliary:
            given = np.concatenate([given, more[:, t]], 1)
        h = gru(given, h, values, "decoder")
        close(made.rnn_output[:, t], h)


def test_sampled_words_may_be_the_next_inputs(session, rng):
    x = rng.randn(3, 4, 3).astype(np.float32)
    table = words(rng)
    share = tf.placeholder(tf.float32, [])
    cell = cells.GRUCell(3)
    helper = seq.ScheduledEmbeddingTrainingHelper(x, [4, 2, 3], table, share,
                                                  seed=1, scheduling_seed=2)
    made, _, lengths = seq.dynamic_decode(seq.BasicDecoder(
        cell, helper, cell.zero_state(3, tf.float32), tf.layers.Dense(5)))
    values = start(session, rng)
    seen = set()
    for p in (0.0, 0.5, 1.0):
        got, counts = session.run([made, lengths], {share: p})
        assert counts.tolist() == [4, 2, 3]
        drawn = got.sample_id
        assert (drawn > -1).mean() in ((p,) if p != 0.5 else
                                       (drawn > -1).mean(),)
        seen |= set((drawn > -1).ravel().tolist())
        h, given = np.zeros([3, 3]), x[:, 0]
        for t in range(3):
            h = gru(given, h, values, "decoder")
            close(got.rnn_output[:, t], h @ values["decoder/dense/kernel"] +
                  values["decoder/dense/bias"])
            given = np.where(drawn[:, t:t + 1] > -1, table[drawn[:, t]],
                             x[:, t + 1])
    assert seen == {True, False}
    with pytest.raises(ValueError, match="either a scalar or a vector"):
        seq.ScheduledEmbeddingTrainingHelper(x, [4, 2, 3], table, [[0.5]])


def test_decoders_and_helpers_reject_invalid_arguments(rng):
    cell, table = cells.GRUCell(3), words(rng)
    state = cell.zero_state(2, tf.float32)
    with pytest.raises(TypeError, match="helper must be a Helper"):
        seq.BasicDecoder(cell, cell, state)
    helper = seq.GreedyEmbeddingHelper(table, [1, 1], 0)
    with pytest.raises(TypeError, match="output_layer must be a Layer"):
        seq.BasicDecoder(cell, helper, state, lambda x: x)
    with pytest.raises(ValueError, match="start_tokens must be a vector"):
        seq.GreedyEmbeddingHelper(table, 1, 0)
    with pytest.raises(ValueError, match="end_token must be a scalar"):
        seq.GreedyEmbeddingHelper(table, [1], [0])
    with pytest.raises(ValueError, match="sequence_length to be a vector"):
        seq.TrainingHelper(np.ones([2, 3, 4], np.float32), 3)


# ---- Attention ---------------------------------------------------------------


def luong(query, memory, values, scale=1.0, name="memory_layer"):
    keys = memory @ values[f"{name}/kernel"]
    return scale * np.einsum("bd,btd->bt", query, keys)


def masked(score, lengths):
    return np.where(np.arange(score.shape[1]) < np.array(lengths)[:, None],
                    score, -np.inf)


def attend(cell, session, rng, steps=3, batch=2):
    """Runs a cell with attention on random inputs."""
    x = rng.randn(batch, steps, 3).astype(np.float32)
    made, state, _ = seq.dynamic_decode(seq.BasicDecoder(
        cell, seq.TrainingHelper(x, [steps] * batch),
        cell.zero_state(batch, tf.float32)))
    history = map_structure(lambda a: a.stack(), state.alignment_history)
    values = start(session, rng)
    got = session.run([made.rnn_output, state.attention, state.time, history])
    return x, values, got


@pytest.mark.parametrize("scale", [False, True])
def test_luong_attention_matches_numpy(session, rng, scale):
    memory = rng.randn(2, 5, 6).astype(np.float32)
    held = tf.placeholder_with_default(memory, [None, None, 6])
    cell = seq.AttentionWrapper(
        cells.GRUCell(4), seq.LuongAttention(
            4, held, memory_sequence_length=[5, 2], scale=scale),
        attention_layer_size=3, alignment_history=True)
    assert cell.output_size == 3
    x, values, (outputs, last, time, history) = attend(cell, session, rng)
    below = "decoder/attention_wrapper"
    assert set(values) == {"memory_layer/kernel", *(f"{below}/{n}" for n in (
        ["luong_attention/attention_g"] if scale else []) + [
            "attention_layer/kernel", "gru_cell/gates/kernel",
            "gru_cell/gates/bias", "gru_cell/candidate/kernel",
            "gru_cell/candidate/bias"])}
    g = values[f"{below}/luong_attention/attention_g"] if scale else 1.0
    real = memory * (np.arange(5) < [[5], [2]])[..., None]
    h, seen = np.zeros([2, 4]), np.zeros([2, 3])
    for t in range(3):
        h = gru(np.concatenate([x[:, t], seen], 1), h, values, below)
        much = softmax(masked(luong(h, real, values, g), [5, 2]))
        context = np.einsum("bt,btd->bd", much, real)
        seen = np.concatenate([h, context], 1) @ values[
            f"{below}/attention_layer/kernel"]
        close(history[t], much)
        close(outputs[:, t], seen)
    close(last, seen)
    assert time == 3


@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau_attention_matches_numpy(session, rng, normalize):
    memory = rng.randn(2, 5, 6).astype(np.float32)
    cell = seq.AttentionWrapper(
        cells.GRUCell(4), seq.BahdanauAttention(7, memory, normalize=normalize),
        output_attention=False, alignment_history=True)
    assert cell.output_size == 4
    x, values, (outputs, last, _, history) = attend(cell, session, rng)
    below = "decoder/attention_wrapper"
    own = {k.rsplit("/", 1)[1]: v for k, v in values.items()
           if "attention_" in k.rsplit("/", 1)[1]}
    v, b = own["attention_v"], 0.0
    if normalize:
        v = own["attention_g"] * v / np.sqrt((v ** 2).sum())
        b = own["attention_b"]
    h, seen = np.zeros([2, 4]), np.zeros([2, 6])
    for t in range(3):
        h = gru(np.concatenate([x[:, t], seen], 1), h, values, below)
        query = h @ values[f"{below}/bahdanau_attention/query_layer/kernel"]
        much = softmax((v * np.tanh(
            memory @ values["memory_layer/kernel"] + query[:, None] + b)).sum(
                -1))
        seen = np.einsum("bt,btd->bd", much, memory)
        close(history[t], much)
        close(outputs[:, t], h)
    close(last, seen)


def test_custom_attention_mechanisms_and_functions(session, rng):
    memory = rng.randn(2, 5, 6).astype(np.float32)
    asked = []

    def first_place(score):
        return tf.one_hot(tf.zeros([2], tf.int32), 5)

    def attend_to(mechanism, output, state, layer):
        asked.append(mechanism)
        alignments, state = mechanism(output, state=state)
        return (tf.squeeze(tf.matmul(alignments[:, None], mechanism.values), 1),
                alignments, state)

    both = [seq.LuongAttention(4, memory, probability_fn=seq.hardmax),
            seq.BahdanauAttention(3, memory, probability_fn=first_place)]
    cell = seq.AttentionWrapper(
        cells.GRUCell(4), both, alignment_history=True,
        attention_fn=attend_to, cell_input_fn=lambda x, seen: x)
    x, values, (outputs, last, _, history) = attend(cell, session, rng)
    assert asked == both and outputs.shape == (2, 3, 12)
    h = np.zeros([2, 4])
    for t in range(3):
        h = gru(x[:, t], h, values, "decoder/attention_wrapper")
        best = luong(h, memory, values).argmax(1)
        close(history[0][t], np.eye(5)[best])
        close(history[1][t], np.eye(5)[[0, 0]])
        close(outputs[:, t], np.concatenate(
            [memory[[0, 1], best], memory[:, 0]], 1))


def test_mechanism_may_keep_state(session, rng):
    class Remembering(seq.BahdanauAttention):
        """A mechanism that prefers places that were not attended to before."""

        def __call__(self, query, state):
            with tf.variable_scope(None, "remembering", [query]):
                query = self.query_layer(query)
                v = tf.get_variable("v", [self._num_units])
                score = tf.reduce_sum(v * tf.tanh(
                    self._keys + tf.expand_dims(query, 1)), 2) - 2.0 * state
            alignments = self._probability_fn(score, state)
            return alignments, state + alignments

    memory = rng.randn(2, 5, 6).astype(np.float32)
    cell = seq.AttentionWrapper(
        cells.GRUCell(4), Remembering(3, memory, memory_sequence_length=[5, 3]),
        cell_input_fn=lambda x, seen: x, alignment_history=True)
    x, values, (outputs, _, _, history) = attend(cell, session, rng)
    below = "decoder/attention_wrapper"
    real = memory * (np.arange(5) < [[5], [3]])[..., None]
    h, looked = np.zeros([2, 4]), np.zeros([2, 5])
    for t in range(3):
        h = gru(x[:, t], h, values, below)
        query = h @ values[f"{below}/remembering/query_layer/kernel"]
        score = (values[f"{below}/remembering/v"] * np.tanh(
            real @ values["memory_layer/kernel"] + query[:, None])).sum(-1)
        much = softmax(masked(score - 2 * looked, [5, 3]))
        looked += much
        close(history[t], much)
        close(outputs[:, t], np.einsum("bt,btd->bd", much, real))


def test_score_mask_value_can_be_set(session, rng):
    memory = rng.randn(1, 4, 3).astype(np.float32)
    query = rng.randn(1, 3).astype(np.float32)
    lengths = tf.placeholder_with_default([2], [None])
    mechanism = seq.LuongAttention(
        3, memory, memory_sequence_length=lengths, score_mask_value=-1.0,
        probability_fn=lambda score: score)
    got, _ = mechanism(tf.constant(query), None)
    values = start(session, rng)
    close(session.run(got), np.where(np.arange(4) < 2, luong(
        query, memory, values), -1))
    close(session.run(mechanism.values)[:, 2:], np.zeros([1, 2, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="must be greater than zero"):
        session.run(got, {lengths: [0]})


def test_monotonic_attention(session, rng):
    p = rng.rand(3, 6).astype(np.float32)
    before = softmax(rng.randn(3, 6)).astype(np.float32)
    expected, reached = np.zeros([3, 6]), np.zeros(3)
    for i in range(6):
        reached = before[:, i] + (reached * (1 - p[:, i - 1]) if i else 0)
        expected[:, i] = p[:, i] * reached
    for mode in ("recursive", "parallel"):
        close(session.run(seq.monotonic_attention(p, before, mode)), expected)
    chosen = session.run(seq.monotonic_attention(
        np.array([[0, 1, 0, 1, 1.0]], np.float32),
        np.array([[0, 0, 1, 0, 0.0]], np.float32), "hard"))
    assert chosen.tolist() == [[0, 0, 0, 1, 0]]
    with pytest.raises(ValueError, match="mode must be"):
        seq.monotonic_attention(p, before, "soft")
    memory = rng.randn(2, 5, 6).astype(np.float32)
    cell = seq.AttentionWrapper(cells.GRUCell(4), [
        seq.LuongMonotonicAttention(4, memory, mode="hard", scale=True),
        seq.BahdanauMonotonicAttention(3, memory, normalize=True,
                                       score_bias_init=1.0, sigmoid_noise=0.1)],
                                alignment_history=True)
    _, values, (_, _, _, history) = attend(cell, session, rng, steps=5)
    assert sum("attention_score_bias" in n for n in values) == 2
    assert set(history[0].ravel()) <= {0.0, 1.0}
    for one, two in zip(history[0], history[0][1:]):
        # Hard attention never goes back to an earlier place.
        assert (two[:, :-1].cumsum(1) <= one[:, :-1].cumsum(1)).all()
    total = history[1].sum(-1)
    assert (total <= 1 + 1e-5).all() and (history[1] >= 0).all()


def test_states_can_be_cloned_with_equal_shapes(session, rng):
    memory = tf.placeholder(tf.float32, [None, None, 6])
    cell = seq.AttentionWrapper(cells.LSTMCell(4),
                                seq.LuongAttention(4, memory))
    rows = tf.shape(memory)[0]
    zero = cell.zero_state(rows, tf.float32)
    mine = cells.LSTMStateTuple(tf.ones([rows, 4]), tf.placeholder(tf.float32))
    state = zero.clone(cell_state=mine)
    assert state.cell_state.h.shape.as_list() == [None, 4]
    start(session, rng)
    feed = {memory: np.ones([2, 3, 6]), mine.h: np.ones([2, 4])}
    assert session.run(state.cell_state.h, feed).shape == (2, 4)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(state.cell_state.h, {**feed, mine.h: np.ones([3, 4])})
    with pytest.raises(ValueError, match="Invalid shape for tensor"):
        zero.clone(attention=tf.ones([2, 5]))
    # Batch sizes that differ from the memory's are errors.
    wrong = cell.zero_state(tf.placeholder_with_default(3, []), tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Non-matching batch sizes"):
        session.run(wrong.cell_state.c, feed)
    given = seq.AttentionWrapper(
        cells.LSTMCell(4), seq.LuongAttention(4, memory),
        initial_cell_state=mine).zero_state(rows, tf.float32)
    start(session, rng)
    close(session.run(given.cell_state.c, feed), np.ones([2, 4]))


def test_attention_rejects_invalid_arguments(rng):
    memory = rng.randn(2, 5, 6).astype(np.float32)
    luong_ = seq.LuongAttention(4, memory)
    cell = cells.GRUCell(4)
    with pytest.raises(TypeError, match="must be an AttentionMechanism"):
        seq.AttentionWrapper(cell, memory)
    with pytest.raises(ValueError, match="exactly one integer per"):
        seq.AttentionWrapper(cell, luong_, attention_layer_size=[1, 2])
    with pytest.raises(ValueError, match="Only one of"):
        seq.AttentionWrapper(cell, luong_, attention_layer_size=3,
                             attention_layer=tf.layers.Dense(3))
    with pytest.raises(TypeError, match="probability_fn must be callable"):
        seq.LuongAttention(4, memory, probability_fn=3)
    with pytest.raises(ValueError, match="fully defined inner dims"):
        seq.LuongAttention(4, tf.placeholder(tf.float32, [2, 3, None]))
    with pytest.raises(ValueError, match="Incompatible or unknown inner"):
        luong_(tf.ones([2, 3]), None)
    wrapper = seq.AttentionWrapper(cell, luong_)
    with pytest.raises(TypeError, match="instance of AttentionWrapperState"):
        wrapper(tf.ones([2, 3]), cell.zero_state(2, tf.float32))


# ---- Losses ------------------------------------------------------------------


def test_sequence_loss_averages_as_requested(run, rng):
    logits = rng.randn(2, 3, 4).astype(np.float32)
    targets = rng.randint(0, 4, [2, 3])
    weights = np.array([[1, 2, 0], [0.5, 0, 0]], np.float32)
    each = -np.take_along_axis(log_softmax(logits), targets[..., None],
                               2)[..., 0] * weights
    count = (weights != 0).astype(np.float32)

    def loss(*options):
        return run(seq.sequence_loss(logits, targets, weights, *options))

    def over(total, by):
        return np.divide(total, by, out=np.zeros_like(total), where=by != 0)

    close(loss(), each.sum() / 3.5)
    close(loss(False, False), each)
    close(loss(True, False), over(each.sum(1), weights.sum(1)))
    close(loss(False, True), over(each.sum(0), weights.sum(0)))
    close(loss(False, False, True, True), each.sum() / 3)
    close(loss(False, False, True), over(each.sum(1), count.sum(1)))
    close(loss(False, False, False, True), over(each.sum(0), count.sum(0)))
    assert run(seq.sequence_loss(logits, targets, 0 * weights)) == 0
    with pytest.raises(ValueError, match="cannot be set to True at same time"):
        loss(True, True, True)
    with pytest.raises(ValueError, match="Targets must be"):
        seq.sequence_loss(logits, targets[0], weights)
