"""Programs as a new user writes them from the documentation.

The results are compared with numpy.
"""

import string

import numpy as np
import pytest

import sluice.compat.v1 as tf


class Adam:
    """AdamOptimizer in numpy."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate, self.steps = parameters, rate, 0
        self.m = [np.zeros_like(p) for p in parameters]
        self.v = [np.zeros_like(p) for p in parameters]

    def step(self, gradients):
        self.steps += 1
        rate = self.rate * np.sqrt(1 - 0.999 ** self.steps) / (
            1 - 0.9 ** self.steps)
        for p, m, v, g in zip(self.parameters, self.m, self.v, gradients):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= rate * m / (np.sqrt(v) + 1e-8)


def test_ratings_are_factorised_in_a_loop_of_the_graph():
    """Trains on ratings of 9 items by 12 users in a loop of the graph."""
    users, items, rank, batch, steps = 12, 9, 3, 16, 60
    rng = np.random.RandomState(0)
    u0 = rng.normal(0, 0.3, [users, rank])
    v0 = rng.normal(0, 0.3, [items, rank])
    rows = rng.randint(0, users, 200)
    columns = rng.randint(0, items, 200)
    ratings = np.sum(rng.normal(0, 1, [users, rank])[rows] *
                     rng.normal(0, 1, [items, rank])[columns], 1)

    u = tf.get_variable("users", initializer=u0, use_resource=True)
    v = tf.get_variable("items", initializer=v0, use_resource=True)
    bias = tf.get_variable("bias", [], tf.float64, tf.zeros_initializer(),
                           use_resource=True)
    all_rows, all_columns = tf.constant(rows), tf.constant(columns)
    all_ratings = tf.constant(ratings)
    optimizer = tf.train.AdamOptimizer(0.05)

    def body(i, losses):
        # Each batch takes the next examples, and wraps around at the end.
        which = tf.floormod(i * batch + tf.range(batch), len(ratings))
        guess = bias + tf.reduce_sum(
            tf.nn.embedding_lookup(u, tf.gather(all_rows, which)) *
            tf.nn.embedding_lookup(v, tf.gather(all_columns, which)), 1)
        loss = tf.reduce_mean(
            tf.squared_difference(guess, tf.gather(all_ratings, which)))
        with tf.control_dependencies(
                [optimizer.minimize(loss, var_list=[u, v, bias])]):
            return i + 1, losses.write(i, loss)

    _, losses = tf.while_loop(
        lambda i, losses: i < steps, body,
        [0, tf.TensorArray(tf.float64, steps, element_shape=[])],
        parallel_iterations=1, back_prop=False)
    curve = losses.stack()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run(curve)
        trained = session.run([u, v, bias])

    wanted = []
    p, q, b = parameters = [u0.copy(), v0.copy(), np.zeros([])]
    adam = Adam(parameters, 0.05)
    for i in range(steps):
        which = (i * batch + np.arange(batch)) % len(ratings)
        r, c = rows[which], columns[which]
        error = b + np.sum(p[r] * q[c], 1) - ratings[which]
        wanted.append(np.mean(error * error))
        slope = 2 * error / batch
        dp, dq = np.zeros_like(p), np.zeros_like(q)
        np.add.at(dp, r, slope[:, None] * q[c])
        np.add.at(dq, c, slope[:, None] * p[r])
        adam.step([dp, dq, np.sum(slope)])
    # The optimizer's constants are float32.
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    for value, other in zip(trained, parameters):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)
    assert np.mean(got[-10:]) < np.mean(got[:10]) / 2


TEXT = "the loop in the graph is a loop of the graph: it is the graph."


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_losses(chars, targets, lengths, table, gates, gates_bias, candidate,
               candidate_bias, out, out_bias):
    """Returns the loss of the character model below.

    It is the mean over the characters within the lengths.
    """
    units, losses = out.shape[0], []
    for row, target, length in zip(chars, targets, lengths):
        state = np.zeros(units)
        for t in range(length):
            x = table[row[t]]
            r, u = np.split(sigmoid(
                np.concatenate([x, state]) @ gates + gates_bias), 2)
            c = np.tanh(np.concatenate([x, r * state]) @ candidate +
                        candidate_bias)
            state = u * state + (1 - u) * c
            logits = state @ out + out_bias
            losses.append(np.log(np.sum(np.exp(logits))) - logits[target[t]])
    return np.mean(losses)


def test_character_model_trains_with_weight_averages():
    """Trains a character model with clipped gradients and averaged weights."""
    letters = sorted(set(TEXT))
    ids = np.array([letters.index(c) for c in TEXT])
    units, clip, decay = 10, 0.5, 0.875

    def model(chars, lengths):
        table = tf.get_variable("table", [len(letters), 4], tf.float64)
        outputs, state = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(units), tf.nn.embedding_lookup(table, chars),
            lengths, dtype=tf.float64)
        return tf.layers.dense(outputs, len(letters), name="out"), state

    def mean_loss(logits, targets, lengths):
        mask = tf.sequence_mask(lengths, tf.shape(targets)[1], tf.float64)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=targets, logits=logits)
        return tf.reduce_sum(each * mask) / tf.reduce_sum(mask)

    tf.set_random_seed(7)
    chars = tf.placeholder(tf.int32, [None, None], "chars")
    targets = tf.placeholder(tf.int32, [None, None], "targets")
    lengths = tf.placeholder(tf.int32, [None], "lengths")
    with tf.variable_scope(
            "model", initializer=tf.glorot_uniform_initializer()) as scope:
        logits, _ = model(chars, lengths)
    count = len(tf.trainable_variables())
    # A second model with the same weights reads one letter at a time.
    with tf.variable_scope(scope, reuse=True):
        one, _ = model(chars[:1, :1], tf.constant([1]))
    weights = tf.trainable_variables()
    assert len(weights) == count == 7
    loss = mean_loss(logits, targets, lengths)
    optimizer = tf.train.AdamOptimizer(0.03)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(gradients, clip)
    step = tf.train.get_or_create_global_step()
    update = optimizer.apply_gradients(zip(clipped, variables), step)
    averages = tf.train.ExponentialMovingAverage(decay)
    with tf.control_dependencies([update]):
        train = averages.apply(weights)

    rng = np.random.RandomState(3)
    feeds = []
    for _ in range(40):
        starts = rng.randint(0, len(ids) - 9, 6)
        window = starts[:, None] + np.arange(8)
        feeds.append({chars: ids[window], targets: ids[window + 1],
                      lengths: rng.randint(1, 9, 6)})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = []
        follow = session.run(weights)
        for feed in feeds:
            before = session.run(weights)
            parts = session.run([loss, norm, clipped, train], feed)
            losses.append(parts[0])
            values = [feed[chars], feed[targets], feed[lengths]]
            if len(losses) in (1, 20):
                np.testing.assert_allclose(
                    parts[0], gru_losses(*values, *before), rtol=1e-9)
                # Compares the gradient in a random direction with differences.
                way = [rng.normal(size=w.shape) for w in before]
                ends = [gru_losses(*values, *[w + e * d for w, d in zip(
                    before, way)]) for e in (1e-5, -1e-5)]
                dense = []
                for g, w in zip(parts[2], before):
                    if isinstance(g, tf.IndexedSlicesValue):
                        sums = np.zeros_like(w)
                        np.add.at(sums, g.indices, g.values)
                        g = sums
                    dense.append(g)
                along = sum(np.sum(g * d) for g, d in zip(dense, way))
                np.testing.assert_allclose(
                    along * max(1, parts[1] / clip),
                    (ends[0] - ends[1]) / 2e-5, rtol=1e-5)
            follow = [decay * a + (1 - decay) * w
                      for a, w in zip(follow, session.run(weights))]
        assert session.run(step) == len(feeds)
        for w, a in zip(weights, follow):
            np.testing.assert_allclose(session.run(averages.average(w)), a,
                                       rtol=1e-9)
        assert np.mean(losses[-5:]) < 0.7 * losses[0]
        # The averages replace the weights.
        session.run([tf.assign(w, averages.average(w)) for w in weights])
        np.testing.assert_allclose(
            session.run(one, {chars: ids[None]})[0, 0],
            session.run(logits, {chars: ids[None], lengths: [1]})[0, 0])
        np.testing.assert_allclose(
            session.run(loss, feeds[0]), gru_losses(*[
                feeds[0][k] for k in (chars, targets, lengths)], *follow))


def test_word_pipeline_runs_in_stages():
    """Looks up words in Python and scores them by a variable in a branch."""
    vocabulary = {w: i for i, w in enumerate("a graph has nodes".split())}

    def tokens(line):
        """Returns the numbers of known words, and -1 for others."""
        words = line.decode().translate(
            str.maketrans("", "", string.punctuation)).split()
        return np.array([vocabulary.get(w, -1) for w in words], np.int32)

    @tf.custom_gradient
    def bounded(x):
        """Returns x, and clips its gradient to [-1, 1]."""
        return tf.identity(x), lambda dy: tf.clip_by_value(dy, -1.0, 1.0)

    line = tf.placeholder(tf.string, [], "line")
    scale = tf.placeholder(tf.float32, [], "scale")
    ids = tf.py_func(tokens, [line], tf.int32, stateful=False)
    ids.set_shape([None])
    known = tf.boolean_mask(ids, ids >= 0)
    scores = tf.get_variable("scores", initializer=[0.5, -2.0, 3.0, 4.0])
    picked = bounded(tf.gather(scores, known))
    total = tf.cond(tf.size(known) > 0,
                    lambda: scale * tf.reduce_sum(picked * picked),
                    lambda: tf.constant(-1.0))
    slope = tf.convert_to_tensor(tf.gradients(total, scores)[0])
    ratio = tf.size(known) / tf.size(ids)

    def numbers(text, factor):
        """Computes the same in numpy."""
        all_ids = tokens(text.encode())
        chosen = all_ids[all_ids >= 0]
        values = np.array([0.5, -2.0, 3.0, 4.0])
        slopes = np.zeros(4)
        if len(chosen) == 0:
            return -1.0, slopes
        np.add.at(slopes, chosen,
                  np.clip(2 * factor * values[chosen], -1.0, 1.0))
        return factor * np.sum(values[chosen] ** 2), slopes

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        step = session.make_callable([total, slope], [line, scale])
        for text in ("A graph has nodes, a graph!", "a a a", "nothing here",
                     "graph"):
            for factor in (0.25, 2.0):
                got, wanted = step(text, factor), numbers(text, factor)
                np.testing.assert_allclose(got[0], wanted[0], rtol=1e-6)
                np.testing.assert_allclose(got[1], wanted[1], rtol=1e-6)

        # The first stage depends on the line only, the second on the scale.
        handle = session.partial_run_setup([ids, ratio, total, slope],
                                           [line, scale])
        words, share = session.partial_run(
            handle, [ids, ratio], {line: "a graph of nodes"})
        assert words.tolist() == [0, 1, -1, 3] and share == 0.75
        got = session.partial_run(handle, [total, slope], {scale: share})
        wanted = numbers("a graph of nodes", share)
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-6)
        np.testing.assert_allclose(got[1], wanted[1], rtol=1e-6)

        # An error of the Python function names it and the line of its op.
        with pytest.raises(tf.errors.OpError,
                           match=r"(?s)decode.*\(PyFuncStateless\).*"
                           r"test_new_user\.py:\d+"):
            session.run(ids, {line: b"\xff"})
