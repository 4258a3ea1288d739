"""Beam search, compared with brute force."""

import itertools

import numpy as np
import pytest

import sluice.compat.v1 as tf
from test_seq2seq import (
    cells, close, gru, log_softmax, luong, masked, rng, seq, softmax, start,
    words)


def test_gather_tree_follows_parents(session, rng):
    steps, batch, beams, end = 6, 4, 3, 9
    ids = rng.randint(0, 9, [steps, batch, beams])
    ids[2, 1] = end
    parents = rng.randint(0, beams, [steps, batch, beams])
    parents[4:, 0] = -1
    lengths = [3, 6, 0, 9]
    got = session.run(seq.gather_tree(ids, parents, lengths, end))
    expected = np.full([steps, batch, beams], end)
    for b, k in itertools.product(range(batch), range(beams)):
        last, at = min(steps, lengths[b]) - 1, k
        path = []
        for t in range(last, -1, -1):
            path.insert(0, ids[t, b, at])
            at = parents[t, b, at]
        if end in path:
            path = path[:path.index(end)]
        expected[:len(path), b, k] = path
    assert (got == expected).all()
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"invalid parent id -1 at \(batch, time, beam\) "
                       r"== \(0, 3, 0\)"):
        session.run(seq.gather_tree(ids, parents, [6, 6, 6, 6], end))


def test_batches_are_tiled_entry_by_entry(run):
    x = tf.placeholder_with_default([[1, 2], [3, 4]], [None, 2])
    tiled = seq.tile_batch((x, tf.constant([5, 6])), 3)
    assert tiled[0].shape.as_list() == [None, 2] and tiled[1].shape == [6]
    one, two = run(tiled)
    assert one.tolist() == [[1, 2]] * 3 + [[3, 4]] * 3
    assert two.tolist() == [5, 5, 5, 6, 6, 6]
    with pytest.raises(ValueError, match="statically known rank"):
        seq.tile_batch(tf.constant(1), 2)



def all_sequences(step, state, word, end, count, most):
    """Returns (log probability, words, length) of all complete sequences.

    A sequence is complete if it ends or has the maximum length. The end word
    does not count towards the length in its own step.
    """
    found = []

    def grow(state, word, total, so_far):
        logits, after = step(np.array([word]), state)
        for w, p in enumerate(log_softmax(logits)[0]):
            whole = so_far + [w]
            if w == end or len(whole) == most:
                found.append((total + p, whole, len(whole) - (
                    w == end and len(whole) == most)))
            else:
                grow(after, w, total + p, whole)
    grow(state, word, 0.0, [])
    return found


@pytest.mark.parametrize("penalty", [0.0, 0.8])
def test_a_wide_beam_finds_the_best_of_all_sequences(session, rng, penalty):
    count, most, width, end = 4, 3, 64, 0
    table = words(rng, count)
    cell = cells.GRUCell(3)
    first = rng.randn(2, 3).astype(np.float32)
    decoder = seq.BeamSearchDecoder(
        cell, table, [1, 2], end, seq.tile_batch(tf.constant(first), width),
        width, tf.layers.Dense(count), length_penalty_weight=penalty)
    made, state, lengths = seq.dynamic_decode(decoder, maximum_iterations=most)
    assert made.predicted_ids.shape.as_list() == [2, None, width]
    values = start(session, rng, 1.5)
    made, state = session.run([made, state])

    def step(word, h):
        h = gru(table[word], h, values, "decoder")
        return (h @ values["decoder/dense/kernel"] +
                values["decoder/dense/bias"]), h

    for b, word in enumerate([1, 2]):
        found = all_sequences(step, first[b:b + 1], word, end, count, most)
        scored = sorted(((p / ((5 + n) / 6) ** penalty, w, p)
                         for p, w, n in found), reverse=True)
        assert len(scored) == 1 + 3 + 36
        for k, (score, whole, p) in enumerate(scored[:10]):
            got = made.predicted_ids[b, :, k].tolist()
            assert got == whole + [end] * (most - len(whole))
            close(state.log_probs[b, k], p)
            assert state.lengths[b, k] == len(whole)
            close(made.beam_search_decoder_output.scores[b, -1, k], score)


def beams_of(step, state, word, end, width, most, penalty, coverage=0.0):
    """Runs a beam search in Python: [(score, words)], best first."""
    beams = [(0.0, [], state, None, False)]
    for _ in range(most):
        grown = []
        for total, so_far, state, seen, done in beams:
            if done:
                grown.append((total, so_far + [end], state, seen, True))
                continue
            logits, after, much = step(
                np.array([so_far[-1] if so_far else word]), state)
            now = much if seen is None else seen + much
            for w, p in enumerate(log_softmax(logits)[0]):
                grown.append((total + p, so_far + [w], after, now, w == end))

        def score(beam):
            total, so_far, _, seen, _ = beam
            # A beam that ends in this step counts as running without the word.
            over = end in so_far[:-1]
            n = (so_far.index(end) + 1 if over
                 else len(so_far) - (so_far[-1] == end))
            found = total / ((5 + n) / 6) ** penalty
            if coverage and over:
                found += coverage * np.log(np.minimum(np.where(
                    seen == 0, 1.0, seen), 1.0)).sum()
            return found
        beams = sorted(grown, key=score, reverse=True)[:width]
        if all(b[4] for b in beams):
            break
    return [(score(b), b[1]) for b in beams]


@pytest.mark.parametrize("coverage", [0.0, 0.4])
def test_narrow_attention_beam_matches_plain_python(session, rng, coverage):
    count, most, width, end = 5, 6, 3, 0
    table = words(rng, count)
    memory = rng.randn(2, 4, 3).astype(np.float32)
    held = tf.placeholder_with_default(memory, [None, None, 3])
    lengths = tf.constant([4, 2])
    wrapper = seq.AttentionWrapper(
        cells.GRUCell(3), seq.LuongAttention(
            3, seq.tile_batch(held, width),
            memory_sequence_length=seq.tile_batch(lengths, width)),
        alignment_history=True)
    def decode(sorted_):
        with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
            return seq.dynamic_decode(seq.BeamSearchDecoder(
                wrapper, lambda ids: tf.nn.embedding_lookup(table, ids), [1, 2],
                end, wrapper.zero_state(2 * width, tf.float32), width, dense,
                length_penalty_weight=0.6, coverage_penalty_weight=coverage,
                reorder_tensor_arrays=sorted_), maximum_iterations=most,
                                      output_time_major=True, scope="decoder")

    dense = tf.layers.Dense(count, name="dense")
    made, state, _ = decode(True)
    history = state.cell_state.alignment_history
    raw = decode(False)[1].cell_state.alignment_history.stack()
    below = "decoder/attention_wrapper"
    values = start(session, rng, 1.3)
    made, state, history, raw = session.run(
        [made, state._replace(cell_state=()), history, raw])
    raw = raw.reshape(-1, 2, width, 4)
    parents = made.beam_search_decoder_output.parent_ids
    real = memory * (np.arange(4) < [[4], [2]])[..., None]
    ended = 0
    for b, (word, n) in enumerate([(1, 4), (2, 2)]):
        def step(word, before):
            h, seen = before
            h = gru(np.concatenate([table[word], seen], 1), h, values, below)
            much = softmax(masked(luong(h, real[b:b + 1], values), [n]))
            seen = np.einsum("bt,btd->bd", much, real[b:b + 1])
            return (seen @ values["decoder/dense/kernel"] +
                    values["decoder/dense/bias"]), (h, seen), much[0]

        def looked(so_far):
            at, found = (np.zeros([1, 3]), np.zeros([1, 3])), []
            for w in [word] + so_far[:-1]:
                _, at, much = step(np.array([w]), at)
                found.append(much)
            return found

        zero = np.zeros([1, 3]), np.zeros([1, 3])
        expected = beams_of(step, zero, word, end, width, most, 0.6, coverage)
        for k, (score, whole) in enumerate(expected):
            whole = whole + [end] * (len(made.predicted_ids) - len(whole))
            assert made.predicted_ids[:, b, k].tolist() == whole
            steps = (whole.index(end) + 1 if end in whole else len(whole))
            ended += end in whole
            assert state.lengths[b, k] == steps
            # As in TensorFlow, the cell's rows are the beams before a step, but
            # they are reordered like the beams after it.
            at, last = k, int(state.lengths[b].max())
            for t in range(last - 1, -1, -1):
                if t < steps:
                    close(history.reshape(raw.shape)[t, b, k], raw[t, b, at])
                at = parents[t, b, at]
                if t < steps:
                    close(raw[t, b, at], looked(whole[:steps])[t])
    assert ended


def test_one_beam_is_greedy(session, rng):
    table = words(rng)
    cell = cells.LSTMCell(4, name="cell")
    dense = tf.layers.Dense(5, name="dense")
    greedy, _, _ = seq.dynamic_decode(seq.BasicDecoder(
        cell, seq.GreedyEmbeddingHelper(table, [1, 2, 3], 0),
        cell.zero_state(3, tf.float32), dense), maximum_iterations=7)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        one, _, _ = seq.dynamic_decode(seq.BeamSearchDecoder(
            cell, table, [1, 2, 3], 0, cell.zero_state(3, tf.float32), 1,
            dense), maximum_iterations=7, scope="decoder")
    start(session, rng, 2.0)
    greedy, one = session.run([greedy.sample_id, one.predicted_ids[:, :, 0]])
    over = np.cumsum(greedy == 0, 1) > 0
    assert (one == np.where(over, 0, greedy)).all()


def test_beam_search_rejects_invalid_arguments(rng):
    cell, table = cells.GRUCell(3), words(rng)
    state = cell.zero_state(4, tf.float32)
    with pytest.raises(ValueError, match="no cell is attentional"):
        seq.BeamSearchDecoder(cell, table, [1, 1], 0, state, 2,
                              coverage_penalty_weight=0.1).initialize()
    with pytest.raises(ValueError, match="forgot to create a zero_state"):
        seq.BeamSearchDecoder(cell, table, [1, 1], 0,
                              tf.zeros([4, 5]), 2)
    with pytest.raises(ValueError, match="to have known rank"):
        seq.BeamSearchDecoder(cell, table, [1, 1], 0,
                              tf.placeholder(tf.float32), 2)
