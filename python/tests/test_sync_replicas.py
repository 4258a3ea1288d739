"""Synchronous replicas, with TensorFlow's rules for tokens."""

import time
from concurrent import futures

import numpy as np
import pytest
import sluice as tf


def make_worker(cluster, worker, workers, aggregate, num_tokens,
                averages=False):
    """Returns the session of a worker and what it runs."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            step = tf.Variable(0, name="global_step", trainable=False)
            dense = tf.Variable(0.0, name="dense")
        with tf.device("/job:ps/task:1"):
            rows = tf.Variable([[3.0], [4.0]], name="rows")
        with tf.device(f"/job:worker/task:{worker}"):
            gradient = tf.constant(0.1 + worker * 0.2)
            slices = tf.IndexedSlices(
                tf.reshape(gradient, [1, 1]), tf.constant([1]),
                tf.constant([2, 1]))
            average = tf.train.ExponentialMovingAverage(0.5)
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(2.0),
                replicas_to_aggregate=aggregate, total_num_replicas=workers,
                variable_averages=average if averages else None,
                variables_to_average=[dense] if averages else None)
            train = optimizer.apply_gradients(
                zip([gradient, slices], [dense, rows]), global_step=step)
            hook = optimizer.make_session_run_hook(worker == 0, num_tokens)
        averaged = average.average(dense) if averages else None
        session = tf.train.MonitoredTrainingSession(
            cluster[worker].target, is_chief=worker == 0, hooks=[hook],
            config=tf.ConfigProto(
                device_filters=["/job:ps", f"/job:worker/task:{worker}"]))
    local = graph.get_tensor_by_name("sync_rep_local_step:0")
    return session, {"train": train, "step": step, "dense": dense,
                     "rows": rows, "local": local, "averaged": averaged}


def run_together(workers):
    with futures.ThreadPoolExecutor(len(workers)) as pool:
        steps = [pool.submit(s.run, n["train"]) for s, n in workers]
        for step in steps:
            step.result(timeout=60)


def wait_for_step(session, names, step):
    end = time.monotonic() + 60
    while session.run(names["step"]) != step:
        assert time.monotonic() < end, "no update"


def test_two_workers_apply_the_mean_and_begin_with_old_tokens():
    cluster, servers = tf.test.create_local_cluster(num_workers=2, num_ps=2)
    workers = [make_worker(cluster, i, 2, 2, num_tokens=2) for i in (0, 1)]
    session, names = workers[1]

    def value(name):
        return session.run(names[name])

    for s, n in workers:
        s.run(n["train"])
    wait_for_step(session, names, 1)
    np.testing.assert_allclose(value("dense"), -0.4, rtol=1e-6)
    np.testing.assert_allclose(value("rows"), [[3], [3.6]], rtol=1e-6)
    # The first tokens are of step 0: the next gradients are dropped.
    assert value("local") == 0
    for s, n in workers:
        s.run(n["train"])
    assert (value("step"), value("local")) == (1, 1)
    np.testing.assert_allclose(value("dense"), -0.4, rtol=1e-6)
    run_together(workers)
    assert (value("step"), value("local")) == (2, 2)
    np.testing.assert_allclose(value("dense"), -0.8, rtol=1e-6)


def test_an_update_takes_the_first_gradients_of_more_workers():
    cluster, servers = tf.test.create_local_cluster(num_workers=3, num_ps=2)
    workers = [make_worker(cluster, i, 3, 2, num_tokens=3) for i in range(3)]
    session, names = workers[1]
    for i in (0, 2):
        workers[i][0].run(workers[i][1]["train"])
    wait_for_step(session, names, 1)
    np.testing.assert_allclose(session.run(names["dense"]), -0.6, rtol=1e-6)
    session.run(names["train"])
    assert session.run(names["step"]) == 1
    np.testing.assert_allclose(session.run(names["dense"]), -0.6, rtol=1e-6)


def test_averages_follow_each_update():
    cluster, servers = tf.test.create_local_cluster(num_workers=1, num_ps=2)
    session, names = make_worker(cluster, 0, 1, 1, num_tokens=0, averages=True)
    for i in range(3):
        session.run(names["train"])
    assert len(servers) == 2
    mean = 0.0
    for i in (1, 2, 3):
        mean = mean * 0.5 + -0.2 * i * 0.5
    np.testing.assert_allclose(session.run(names["averaged"]), mean, rtol=1e-5)


def test_a_session_that_is_made_again_has_the_same_graph():
    cluster, servers = tf.test.create_local_cluster(num_workers=1, num_ps=2)
    session, names = make_worker(cluster, 0, 1, 1, num_tokens=0)
    session.run(names["train"])
    with tf.Graph().as_default():
        session._end_lost_session()
        session._create()
        assert session.run(names["step"]) >= 1


def test_mistakes_are_errors():
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.AdamOptimizer(0.1), replicas_to_aggregate=2,
        total_num_replicas=1)
    hook = optimizer.make_session_run_hook(True)
    with pytest.raises(ValueError, match="apply_gradient should be called"):
        hook.begin()
    with pytest.raises(ValueError, match="after apply_gradients"):
        optimizer.get_init_tokens_op()
    with pytest.raises(ValueError, match="after apply_gradients"):
        optimizer.get_chief_queue_runner()
    with tf.Graph().as_default():
        v = tf.Variable([0.0])
        step = tf.Variable(0, name="global_step", trainable=False)
        with pytest.raises(ValueError, match="Global step is required"):
            optimizer.minimize(v)
        with pytest.raises(ValueError, match="at least one variable"):
            optimizer.apply_gradients([], step)
        assert optimizer.minimize(v, global_step=step) is not None
        with pytest.raises(ValueError, match="Too few tokens"):
            optimizer.get_init_tokens_op(0)
        assert optimizer.get_slot_names() == ["m", "v"]
        assert optimizer.get_slot(v, "m") in optimizer.variables()
