"""Collective operations, and data-parallel training on them."""

import threading

import numpy as np
import pytest

import sluice.compat.v1 as tf


def in_all(count, work):
    """Runs work(member) on a thread each; returns the results."""
    results, errors = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except Exception as e:  # pylint: disable=broad-except
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


def test_members_of_one_step():
    with tf.Graph().as_default():
        x = [tf.constant([[1.0, 2], [3, 4 * r]]) for r in range(2)]

        def of(build):
            return [build(x[r], rank=r, group_size=2) for r in range(2)]

        def reduced(how, instance):
            return of(lambda v, **k: tf.collectives.all_reduce(
                v, reduction=how, instance_key=instance, **k))

        fetches = [reduced(how, i + 1) for i, how in enumerate(
            ["sum", "mean", "product", "min", "max"])]
        fetches.append(of(lambda v, **k: tf.collectives.all_gather(
            v, instance_key=6, **k)))
        fetches.append(of(lambda v, **k: tf.collectives.reduce_scatter(
            v, instance_key=7, **k)))
        fetches.append(of(lambda v, rank, **k: tf.collectives.broadcast(
            v, rank == 1, rank=rank, instance_key=8, **k)))
        with tf.Session() as sess:
            got = sess.run(fetches)
    a, b = [[1, 2], [3, 0]], [[1, 2], [3, 4]]
    for out, want in zip(got, [
            np.add(a, b), np.add(a, b) / 2, np.multiply(a, b), a, b]):
        np.testing.assert_array_equal(out, [want, want])
    np.testing.assert_array_equal(got[5], [a + b, a + b])
    np.testing.assert_array_equal(got[6], [[[2, 4]], [[6, 4]]])
    np.testing.assert_array_equal(got[7], [b, b])


def test_members_of_one_graph_need_no_instances():
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2])
        fetches = []
        for rank in range(2):
            sums = tf.collectives.all_reduce(x * (rank + 1), 2, rank=rank)
            fetches.append(tf.collectives.all_gather(sums, 2, rank=rank))
        config = tf.ConfigProto(operation_timeout_in_ms=20_000)
        with tf.Session(config=config) as sess:
            for got in sess.run(fetches):
                np.testing.assert_array_equal(got, [3, 6, 3, 6])


def test_bad_reduction():
    with pytest.raises(ValueError, match="reduction: expected one of"):
        tf.collectives.all_reduce([1.0], 1, reduction="median")


def test_copies_train_like_one_large_batch():
    members, rows, steps = 2, 3, 8
    servers, _ = tf.test.create_local_cluster(members, 0)
    rng = np.random.RandomState(3)
    xs = rng.normal(size=[steps, members * rows, 4]).astype(np.float32)
    ys = rng.normal(size=[steps, members * rows, 1]).astype(np.float32)
    start = [rng.normal(size=s).astype(np.float32) for s in ([4, 5], [5, 1])]

    def build(size, values):
        x = tf.placeholder(tf.float32, [size, 4])
        y = tf.placeholder(tf.float32, [size, 1])
        w = [tf.Variable(v) for v in values]
        loss = tf.reduce_mean((tf.tanh(x @ w[0]) @ w[1] - y) ** 2)
        return x, y, w, loss

    def work(member):
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{member}"):
            # Only the first begins with the right values.
            x, y, w, loss = build(rows, [v * (1 + member) for v in start])
            optimizer = tf.train.AllReduceOptimizer(
                tf.train.AdamOptimizer(0.1), group_size=members,
                bucket_bytes=1 << 20)
            train = optimizer.minimize(loss)
            same = optimizer.broadcast_variables(member == 0)
            mine = slice(member * rows, (member + 1) * rows)
            with tf.Session(servers[member].target) as sess:
                sess.run(tf.global_variables_initializer())
                sess.run(same)
                for s in range(steps):
                    sess.run(train, {x: xs[s, mine], y: ys[s, mine]})
                return sess.run(w)

    got = in_all(members, work)
    with tf.Graph().as_default():
        x, y, w, loss = build(members * rows, start)
        train = tf.train.AdamOptimizer(0.1).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for s in range(steps):
                sess.run(train, {x: xs[s], y: ys[s]})
            want = sess.run(w)
    for a, b, c in zip(*got, want):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=2e-4)


def test_disagreement_is_an_error_for_all():
    servers, _ = tf.test.create_local_cluster(2, 0)

    def work(member):
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{member}"):
            y = tf.collectives.all_reduce(tf.zeros([2 + member]), 2)
            with tf.Session(servers[member].target) as sess:
                with pytest.raises(tf.errors.InvalidArgumentError,
                                   match="expected the same of all members"):
                    sess.run(y)
        return True

    assert in_all(2, work) == [True, True]
