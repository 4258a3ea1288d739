"""Automatic batching of iterations and calls, on request."""

import numpy as np
import pytest

import sluice.compat.v1 as tf

SAMPLES, UNITS = 6, 16


def each_sample(x, w, **options):
    """Multiplies each row of x by w, one iteration for a row."""
    rows = tf.TensorArray(tf.float32, SAMPLES).unstack(x)

    def step(i, out):
        row = tf.expand_dims(rows.read(i), 0)
        return i + 1, out.write(i, tf.tanh(tf.matmul(row, w)))
    return tf.while_loop(
        lambda i, _: i < SAMPLES, step,
        (0, tf.TensorArray(tf.float32, SAMPLES)),
        parallel_iterations=SAMPLES, **options)[1].stack()


def products(session, fetch, feeds):
    """Returns the result, and the number of runs of products in the step."""
    metadata = tf.RunMetadata()
    value = session.run(
        fetch, feeds, run_metadata=metadata,
        options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
    return value, metadata.chrome_trace.count('"MatMul"')


@pytest.fixture
def program():
    rng = np.random.RandomState(3)
    x = tf.placeholder(tf.float32, [SAMPLES, UNITS])
    w = tf.placeholder(tf.float32, [UNITS, UNITS])
    return x, w, {x: rng.randn(SAMPLES, UNITS), w: rng.randn(UNITS, UNITS)}


def test_session_batches_all_loops(program):
    x, w, feeds = program
    y = each_sample(x, w)
    with tf.Session() as plain, tf.Session(batch_frames=True) as batched:
        want, one_by_one = products(plain, y, feeds)
        got, together = products(batched, y, feeds)
    assert one_by_one == SAMPLES * together > 0
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError):
        tf.Session("", None, None, True)  # By keyword only.


def test_loop_asks_for_batching(program):
    x, w, feeds = program
    asked, other = each_sample(x, w, batch=True), each_sample(x, w)
    with tf.Session() as session:
        got, together = products(session, asked, feeds)
        want, one_by_one = products(session, other, feeds)
    assert one_by_one == SAMPLES * together > 0
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_recursive_function_asks_for_batching(program):
    x, w, feeds = program
    for batch in (False, True):
        declared = tf.Declare(
            f"deep{batch}", [("h", tf.float32), ("w", tf.float32),
                             ("n", tf.int32)], [("out", tf.float32)])

        @tf.Defun(tf.float32, tf.float32, tf.int32,
                        func_name=f"deep{batch}", out_names=["out"],
                        batch=batch)
        def deep(h, w, n):
            h.set_shape([1, UNITS])
            w.set_shape([UNITS, UNITS])
            return tf.cond(n < 1, lambda: h,
                           lambda: declared(tf.tanh(tf.matmul(h, w)), w, n - 1))
        deep.add_to_graph(tf.get_default_graph())
        parts = [deep(row, w, 3) for row in tf.split(x, SAMPLES)]
        y = tf.concat(parts, 0)
        with tf.Session() as session:
            got, runs = products(session, y, feeds)
        if not batch:
            want, one_by_one = got, runs
    assert one_by_one == SAMPLES * runs > 0
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
