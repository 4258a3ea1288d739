"""TensorStore: reads that wait for the write of their key."""

import numpy as np
import pytest

import sluice
import sluice.compat.v1 as tf


def test_reads_wait_for_the_write_of_their_key():
    with tf.Graph().as_default(), tf.Session() as sess:
        store = sluice.TensorStore(tf.float32)
        y = store.read(1) + store.read(tf.constant(0))
        store.write(1, store.read(0) * 2.0)
        store.write(0, 3.0)
        assert sess.run(y) == 9.0
        assert store.dtype == tf.float32 and store.handle.dtype == tf.resource


def test_keys_may_be_strings():
    with tf.Graph().as_default(), tf.Session() as sess:
        store = sluice.TensorStore(tf.int32, tf.string)
        many = store.read_many(["b", "a"])
        written = [store.write("a", 1), store.write("b", 2)]
        with tf.control_dependencies(written):
            facts = [store.size(), store.keys(), store.has("a"), store.has("c")]
        many, (size, keys, has, has_not) = sess.run([many, facts])
        assert list(many) == [2, 1] and list(keys) == [b"a", b"b"]
        assert size == 2 and has and not has_not


def test_all_iterations_of_a_loop_at_once_with_gradients():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float64, [])
        store = sluice.TensorStore(tf.float64, element_shape=[])

        def body(i):
            store.write(i, tf.sin(store.read(i + 1)) * x)
            return i + 1

        tf.while_loop(lambda i: i < 5, body, [0], parallel_iterations=6)
        store.write(5, x)
        y = store.read(0)
        dy = tf.gradients(y, x)[0]
        at = [sess.run([y, dy], {x: v}) for v in (0.9 - 1e-6, 0.9, 0.9 + 1e-6)]
        assert np.isclose(at[1][1], (at[2][0] - at[0][0]) / 2e-6)


def test_errors_name_keys_and_writers():
    with tf.Graph().as_default(), tf.Session() as sess:
        store = sluice.TensorStore(tf.float32)
        x = store.read(7)
        with pytest.raises(tf.errors.FailedPreconditionError,
                           match="deadlock.*key 7"):
            sess.run(x)
        store.write(7, 1.0, name="one")
        assert sess.run(x) == 1.0  # (A step has run before the write was built.)
        store.write(7, 2.0, name="other")
        with pytest.raises(tf.errors.AlreadyExistsError) as e:
            sess.run(x)
        assert "one" in str(e.value) and "other" in str(e.value)


def test_its_operations_are_where_the_store_is():
    with tf.Graph().as_default(), tf.Session() as sess:
        store = sluice.TensorStore(tf.float32)
        key = tf.constant(0, tf.int64)  # (A number would be a constant there.)
        with tf.device("/job:elsewhere/task:7"):
            read = store.read(key)
        assert not read.device
        store.write(0, 2.0)
        assert sess.run(read) == 2.0


def test_a_shared_store_outlives_the_step():
    with tf.Graph().as_default(), tf.Session() as sess:
        store = sluice.TensorStore(tf.float32, shared_name="kept")
        sess.run(store.write(1, 4.0))
        assert sess.run(store.read(1)) == 4.0


def test_frozen_graphs_keep_the_writes_that_reads_need():
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        v = tf.Variable(3.0)
        store = sluice.TensorStore(tf.float32)
        tf.identity(store.read(1), name="y")
        store.write(1, v * 2.0)
        sluice.TensorStore(tf.float32).write(1, 1.0, name="unread")
        sess.run(v.initializer)
        frozen = tf.graph_util.convert_variables_to_constants(
            sess, graph.as_graph_def(), ["y"])
    assert "unread" not in {n.name for n in frozen.node}
    with tf.Graph().as_default(), tf.Session() as sess:
        y, = tf.import_graph_def(frozen, return_elements=["y:0"])
        assert sess.run(y) == 6.0


def test_recursion_over_a_store_has_gradients():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float64, [])
        store = sluice.TensorStore(tf.float64, element_shape=[])
        tree = tf.Declare("tree", [("k", tf.int64)], [("k", tf.int64)])

        @tf.Defun(tf.int64, func_name="tree", out_names=["k"])
        def defined(k):
            def leaf():
                with tf.control_dependencies(
                        [store.write(k, tf.sin(x * tf.cast(k, tf.float64)))]):
                    return tf.identity(k)

            def inner():
                store.write(k, tf.tanh(store.read(2 * k)) *
                            store.read(2 * k + 1))
                return tree(2 * k) + tree(2 * k + 1)

            return tf.cond(k >= 8, leaf, inner)

        defined(tf.constant(1, tf.int64))
        y = store.read(1)
        dy = tf.gradients(y, x)[0]
        at = [sess.run([y, dy], {x: v}) for v in (0.9 - 1e-6, 0.9, 0.9 + 1e-6)]
        assert np.isclose(at[1][1], (at[2][0] - at[0][0]) / 2e-6)
