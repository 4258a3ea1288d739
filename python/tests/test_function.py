"""Functions of Python as functions of the graph: tf.function."""

import numpy as np
import pytest

import sluice.compat.v1 as tf


def run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


def test_structures_go_in_and_come_out():
    @tf.function
    def both(x, pair, scale=2.0, *, more=None):
        """Some of both."""
        return {"x": x * scale, "rest": (pair[0] - pair[1], more, None)}

    a = tf.constant([1.0, 2.0])
    made = both(a, (a, np.float32(1)), more=np.ones(2, np.float32))
    assert made["rest"][2] is None and both.__doc__ == "Some of both."
    assert made["x"].op.type.startswith("__inference_both_")
    x, rest, more = run([made["x"], *made["rest"][:2]])
    np.testing.assert_array_equal([x, rest, more], [[2, 4], [0, 1], [1, 1]])


def test_bodies_are_built_once_for_each_kind_of_arguments():
    calls = []

    @tf.function
    def traced(x, how="a"):
        calls.append((x.shape.as_list(), how))
        return x + 1

    one, two = tf.zeros([1]), tf.zeros([2])
    for x, how in ((one, "a"), (one, "a"), (two, "a"), (one, "b"),
                   (one + 1.0, "a")):
        traced(x, how)
    assert calls == [([1], "a"), ([2], "a"), ([1], "b")]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def signed(x):
        calls.append(x)
        return tf.reduce_sum(x)

    del calls[:]
    assert run([signed([1, 2]), signed(one + 3.0)]) == [3, 3]
    assert len(calls) == 1
    with pytest.raises(ValueError, match="expected the shape"):
        signed([[1.0]])


def test_changes_are_made_in_the_programs_order():
    v = tf.Variable(1.0, use_resource=True)

    @tf.function
    def step(by):
        before = v.read_value()
        v.assign_add(by)
        between = v.read_value()
        v.assign(v * 2.0)
        return before, between, v.read_value()

    with tf.Session() as session:
        session.run(v.initializer)
        made = step(tf.constant(3.0))
        assert session.run(made) == (1, 4, 8)
        assert session.run(made[1]) == 11
        assert session.run(v) == 22


def test_methods_variables_and_gradients():
    class Layer:
        def __init__(self):
            self.w = None

        @tf.function
        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable(3.0, use_resource=True)
            return x * self.w

    layer = Layer()
    x = tf.placeholder(tf.float32)
    y = layer(x) + layer(x)
    assert [v.graph for v in tf.global_variables()] == [x.graph]
    grads = tf.gradients(y, [x, layer.w])
    assert run([y] + grads, {x: 2.0}) == [12, 6, 4]

    @tf.function
    def makes(x):
        return x + tf.Variable(1.0, use_resource=True)

    makes(tf.zeros([1]))
    with pytest.raises(ValueError, match="variables on non-first call"):
        makes(tf.zeros([2]))


def test_loops_and_branches_within():
    @tf.function
    def collatz(n):
        return tf.while_loop(
            lambda n, i: n > 1,
            lambda n, i: (tf.cond(tf.equal(n % 2, 0), lambda: n // 2,
                                  lambda: 3 * n + 1), i + 1), (n, 0))[1]

    assert run([collatz(6), collatz(7)]) == [8, 16]
    assert run(collatz(tf.constant(6))) == 8


def test_a_function_without_results_is_an_operation():
    v = tf.Variable(1.0, use_resource=True)
    op = tf.function(lambda: v.assign(5.0, read_value=False))()
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(op)
        assert session.run(v) == 5
