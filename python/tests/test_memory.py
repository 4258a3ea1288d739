"""Graphs and sessions free their memory."""

import gc
import threading
import weakref

import numpy as np
import pytest

import sluice.compat.v1 as tf


def _resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * 4096


def _loops_and_gradients():
    x = tf.placeholder(tf.float32, [4, 4])
    _, y = tf.while_loop(lambda i, y: i < 3,
                         lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x))),
                         [0, x])
    z = tf.cond(tf.reduce_sum(y) > 0, lambda: y, lambda: y * x)
    return tf.gradients(z, x), {x: np.ones([4, 4])}


def _training():
    x = tf.placeholder(tf.float32, [2, 3])
    y = tf.layers.dense(x, 100, tf.nn.relu)
    train = tf.train.AdamOptimizer().minimize(tf.reduce_sum(y * y))
    return [train, y], {x: np.ones([2, 3])}


def _functions_of_python():
    x = tf.placeholder(tf.float32, [300])
    graph = x.graph
    y = tf.py_func(lambda a: a * np.float32(len(graph.get_operations())), [x],
                   tf.float32)

    @tf.custom_gradient
    def f(v):
        return v * v, lambda dy: dy * x

    return [y] + tf.gradients(f(x), x), {x: np.ones(300)}


def _failing_steps():
    x = tf.placeholder(tf.float32, [])

    def fail(a):
        raise ValueError(a)
    return tf.py_func(fail, [x], tf.float32), {x: 1.0}


def _stored_graphs():
    x = tf.placeholder(tf.float32, [4])
    tf.get_variable("v", initializer=np.ones(4, np.float32))
    y = tf.identity(x + 1.0, name="y")
    made = tf.train.export_meta_graph()
    with tf.Graph().as_default() as other:
        tf.train.import_meta_graph(made)
        with tf.Session() as session:
            session.run("y:0", {x.name: np.ones(4)})
    del other
    return y, {x: np.ones(4)}


def _one(build):
    with tf.Graph().as_default() as graph:
        fetches, feeds = build()
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            step = session.make_callable(fetches, list(feeds))
            handle = session.partial_run_setup(fetches, list(feeds))
            for take in (lambda: session.run(fetches, feeds),
                         lambda: step(*feeds.values()),
                         lambda: session.partial_run(handle, fetches, feeds)):
                if build is not _failing_steps:
                    take()
                    continue
                with pytest.raises(tf.errors.InvalidArgumentError):
                    take()
    return weakref.ref(graph)


@pytest.mark.parametrize("build", [
    _loops_and_gradients, _training, _functions_of_python, _failing_steps,
    _stored_graphs])
def test_memory_is_flat_over_many_graphs(build):
    for _ in range(30):
        gone = _one(build)
    gc.collect()
    assert gone() is None
    before = _resident_bytes()
    for _ in range(100):
        _one(build)
    gc.collect()
    # A leak would be 20 KiB per graph; the heap itself varies by less.
    assert _resident_bytes() - before < 2 << 20


def test_steps_leak_nothing(session):
    x = tf.placeholder(tf.float32, [1000])
    y = tf.py_func(lambda a: a + np.float32(1), [x + 1.0], tf.float32)
    z = tf.while_loop(lambda v: v[0] < 100, lambda v: v * 2.0,
                      [tf.reshape(y, [1000])])
    feed = {x: np.ones(1000, np.float32)}
    for _ in range(500):
        session.run(z, feed)
    before = _resident_bytes()
    for _ in range(3000):
        session.run(z, feed)
    assert _resident_bytes() - before < 1 << 20


def test_sessions_end_while_another_thread_collects():
    ended = threading.Event()

    def sessions():
        graph = tf.Graph()
        with graph.as_default():
            c = tf.constant(1)
        for _ in range(500):
            session = tf.Session(graph=graph)
            handle = session.partial_run_setup([c])
            call = session.make_callable(c)
            assert call() == session.run(c) == 1
            del handle, call, session
        ended.set()

    thread = threading.Thread(target=sessions)
    thread.start()
    while not ended.is_set():
        gc.collect()
    thread.join()
