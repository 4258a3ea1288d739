"""Graph-level seeds give the same numbers as in TensorFlow 2.21.

The function is tf.compat.v1.set_random_seed.
"""

import numpy as np
import pytest
import sluice.compat.v1 as tf


def test_ops_without_a_seed_are_counted(run):
    tf.set_random_seed(1)
    first = tf.random_uniform([3])
    own = tf.random_uniform([3], seed=5)
    second = tf.random_uniform([3])
    np.testing.assert_array_equal(run(first), np.float32(
        [0.8126964569091797, 0.07857465744018555, 0.8916854858398438]))
    np.testing.assert_array_equal(run(second), np.float32(
        [0.055544137954711914, 0.018698453903198242, 0.07080972194671631]))
    np.testing.assert_array_equal(run(own), np.float32(
        [0.19560599327087402, 0.029860854148864746, 0.3649308681488037]))


def test_each_graph_counts_its_seeds():
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(4)
            assert [tf.get_seed(None), tf.get_seed(9), tf.get_seed(None)] == [
                (4, 0), (4, 9), (4, 1)]
    with tf.Graph().as_default():
        assert tf.get_seed(None) == (None, None)
        assert tf.get_seed(9) == (87654321, 9)
        tf.set_random_seed(0)
        assert tf.get_seed(None) == (0, 2**31 - 1)
        tf.set_random_seed(2**31)
        assert tf.get_seed(-1) == (1, 2**31 - 2)


_X = np.arange(12, dtype="f").reshape(3, 4)


@pytest.mark.parametrize("make,expected", [
    (lambda: tf.random_normal([2]), [0.3052047, 0.5671378]),
    (lambda: tf.truncated_normal([2]), [0.3052047, 0.5671378]),
    (lambda: tf.random_shuffle(_X), [4, 5]),
    (lambda: tf.random_gamma([3], [1.0, 2.0]), [0.14327535, 0.7126191]),
    (lambda: tf.multinomial(_X, 5), [3, 2]),
    (lambda: tf.nn.dropout(_X, 0.7)[0, 1:], [0, 2.857143]),
    (lambda: tf.get_variable("v", (3, 4)), [0.5790013, -0.7803281]),
    (lambda: tf.get_variable(
        "v", (3, 4), initializer=tf.variance_scaling_initializer()),
     [0.20032386, 0.37224603]),
    (lambda: tf.nn.nce_loss(
        tf.get_variable("w", (20, 4)),
        tf.get_variable("b", (20,),
                        initializer=tf.random_normal_initializer()),
        np.array([[1], [2], [3]]), _X, 5, 20), [12.493701, 19.02108])],
    ids="normal truncated shuffle gamma multinomial dropout glorot scaling "
        "nce".split())
def test_first_random_numbers_match_recording(run, make, expected):
    tf.set_random_seed(1)
    made = make()
    run(tf.global_variables_initializer())
    np.testing.assert_allclose(run(made).ravel()[:2], expected, rtol=1e-6)


def test_seeds_may_be_any_numbers(fresh_graph):
    assert tf.get_seed(2**63) == tf.get_seed(2**63 % (2**31 - 1))
    assert tf.get_seed(1.0) == tf.get_seed(1)
    tf.set_random_seed(2**63)
    assert tf.get_seed(-1)[1] == 2**31 - 2


def test_parameterized_truncated_normals_stay_in_bounds(run):
    from sluice.ops import random_ops
    x = run(random_ops.parameterized_truncated_normal(
        [2, 1000], means=[0.0, 5.0], stddevs=[1.0, 2.0], minvals=[-1.0, 4.0],
        maxvals=[1.0, 9.0], seed=3))
    assert (abs(x[0]) <= 1).all() and (x[1] >= 4).all() and (x[1] <= 9).all()
