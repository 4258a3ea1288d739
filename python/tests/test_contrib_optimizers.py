"""Optimizers of contrib.opt, compared with numpy."""

import numpy as np
import pytest

import sluice.compat.v1 as tf

opt = tf.contrib.opt
START = np.array([[1.0, 2], [3, 4], [5, 6]], np.float32)


def near(got, expected):
    np.testing.assert_allclose(got, expected, 1e-4, 1e-6)


def slopes(step, sparse):
    """Returns the gradient of a step and the rows that have one."""
    grad = np.cos(np.arange(6.0).reshape(3, 2) + step).astype(np.float32)
    rows = [step % 3, 2] if sparse and step % 3 != 2 else (
        [2] if sparse else [0, 1, 2])
    return grad, rows


def adam(kind, sparse, steps=4, rate=0.1, b1=0.9, b2=0.999, eps=1e-8,
         decay=0.0):
    w, m, v = START.copy(), np.zeros([3, 2]), np.zeros([3, 2])
    for t in range(steps):
        grad, rows = slopes(t, sparse)
        g = np.zeros([3, 2])
        g[rows] = grad[rows]
        here = np.isin(range(3), rows)[:, None]
        lr = rate * np.sqrt(1 - b2 ** (t + 1)) / (1 - b1 ** (t + 1))
        w = w - np.where(here, decay * w, 0)
        only = here if kind in ("lazy", "max") else True
        m = np.where(only, b1 * m + (1 - b1) * g, m)
        if kind == "max":
            v = np.where(only, np.maximum(b2 * v, abs(g)), v)
            w = w - np.where(only, rate / (1 - b1 ** (t + 1)) * m / (v + eps),
                             0)
            continue
        v = np.where(only, b2 * v + (1 - b2) * g * g, v)
        ahead = b1 * m + (1 - b1) * g if kind == "nadam" else m
        moves = here if kind in ("lazy", "nadam") else True
        w = w - np.where(moves, lr * ahead / (np.sqrt(v) + eps), 0)
    return w


def trained(session, optimizer, sparse, resource, steps=4):
    w = tf.Variable(START, use_resource=resource)
    grad = tf.placeholder(tf.float32, [3, 2])
    rows = tf.placeholder(tf.int64, [None])
    train = optimizer.apply_gradients([(
        tf.IndexedSlices(tf.gather(grad, rows), rows, [3, 2]) if sparse
        else grad, w)])
    session.run(tf.global_variables_initializer())
    for t in range(steps):
        g, r = slopes(t, sparse)
        session.run(train, {grad: g, rows: r})
    return session.run(w)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("make,expected", [
    (lambda: opt.NadamOptimizer(0.1), dict(kind="nadam")),
    (lambda: opt.LazyAdamOptimizer(0.1), dict(kind="lazy")),
    (lambda: opt.AdaMaxOptimizer(0.1), dict(kind="max")),
    (lambda: opt.AdamWOptimizer(0.01, 0.1), dict(kind="adam", decay=0.01)),
    (lambda: opt.extend_with_decoupled_weight_decay(
        opt.NadamOptimizer)(0.01, 0.1), dict(kind="nadam", decay=0.01))],
    ids=["nadam", "lazy", "max", "adamw", "extended"])
def test_steps_match_the_papers(session, make, expected, sparse,
                                       resource):
    near(trained(session, make(), sparse, resource),
         adam(sparse=sparse, **expected))


def test_momentum_decays_weights_of_some_variables(session):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    train = opt.MomentumWOptimizer(0.1, 0.5, 0.9).minimize(
        tf.reduce_sum(a) + tf.reduce_sum(b), decay_var_list=[a])
    session.run(tf.global_variables_initializer())
    session.run(train)
    a, b = session.run([a, b])
    near(a, np.array([1.0, 2.0]) * 0.9 - 0.5)
    near(b, [2.5])


def test_scipy_interface_minimizes(session):
    pytest.importorskip("scipy")
    x = tf.Variable([7.0, 7.0])
    y = tf.Variable(1.0)
    target = tf.placeholder(tf.float32, [2])
    loss = tf.reduce_sum(tf.square(x - target)) + tf.square(y + 1)
    seen = []
    best = opt.ScipyOptimizerInterface(loss, options={"maxiter": 50})
    session.run(tf.global_variables_initializer())
    best.minimize(session, {target: [1.0, 2.0]}, [loss],
                  loss_callback=seen.append)
    near(session.run(x), [1, 2])
    near(session.run(y), -1)
    assert seen[0] == pytest.approx(65) and seen[-1] < 1e-6

    bounded = opt.ScipyOptimizerInterface(
        loss, var_list=[x], var_to_bounds={x: ([3, -np.inf], np.inf)})
    bounded.minimize(session, {target: [1.0, 2.0]})
    near(session.run(x), [3, 2])

    tied = opt.ScipyOptimizerInterface(
        loss, [x], equalities=[x[0] + x[1] - 4], inequalities=[x[0] - 2.5])
    session.run(tf.global_variables_initializer())
    tied.minimize(session, {target: [1.0, 2.0]})
    near(session.run(x), [2.5, 1.5])
    with pytest.raises(ValueError, match="'jac' is set automatically"):
        opt.ScipyOptimizerInterface(loss, jac=True).minimize(
            session, {target: [1.0, 2.0]})
