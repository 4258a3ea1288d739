"""tf.train.minimize_lbfgs: a minimization as one operation."""

import numpy as np
import pytest
import sluice.compat.v1 as tf


@pytest.mark.parametrize("use_resource", [False, True])
def test_least_squares_are_found(run, use_resource):
    rng = np.random.RandomState(0)
    x, w = rng.randn(50, 3), rng.randn(3, 1)
    with tf.variable_scope("", use_resource=use_resource):
        v = tf.get_variable("v", [3, 1], tf.float64, tf.zeros_initializer())
        b = tf.get_variable("b", [], tf.float64, tf.zeros_initializer())
    y = tf.placeholder(tf.float64, [50, 1])
    fit = tf.train.minimize_lbfgs(
        lambda v, b: tf.reduce_mean((tf.matmul(x, v) + b - y) ** 2), [v, b])
    assert fit.train.name == "lbfgs/train"
    run(tf.global_variables_initializer())
    feed = {y: x @ w + 2}
    # Without `train` nothing is assigned.
    assert run(fit.loss, feed) < 1e-9 and not run(v).any()
    _, converged, iterations, evaluations = run(
        [fit.train, fit.converged, fit.iterations, fit.evaluations], feed)
    assert converged and 1 < iterations < 30 and evaluations > iterations
    np.testing.assert_allclose(run(v), w, 1e-3, 1e-4)
    np.testing.assert_allclose(run(b), 2, 1e-4)


def test_all_trainable_variables_are_the_default(run):
    a = tf.get_variable("a", initializer=3.0)
    kept = tf.get_variable("kept", initializer=5.0, trainable=False)
    fit = tf.train.minimize_lbfgs(lambda a: (a - kept) ** 2, name="fit")
    assert fit.train.name == "fit/train"
    run(tf.global_variables_initializer())
    run(fit.train)
    assert run([a, kept]) == [pytest.approx(5), 5]


def test_what_cannot_be_minimized_is_refused():
    a = tf.get_variable("a", initializer=3.0)
    n = tf.get_variable("n", initializer=3)
    with pytest.raises(ValueError, match="expected variables, got none"):
        tf.train.minimize_lbfgs(lambda: tf.constant(0.0), [])
    with pytest.raises(ValueError, match="expected float or double"):
        tf.train.minimize_lbfgs(lambda v: tf.cast(v, tf.float32), [n])
    with pytest.raises(ValueError, match="expected a scalar loss"):
        tf.train.minimize_lbfgs(lambda v: [v, v], [a])
    with pytest.raises(ZeroDivisionError):
        tf.train.minimize_lbfgs(lambda v: 1 // 0, [a])
