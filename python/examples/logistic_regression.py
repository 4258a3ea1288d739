"""Logistic regression by L-BFGS, beside gradient descent.

The whole minimization is one run of one operation.

  python3 logistic_regression.py
"""

import numpy as np

import sluice.compat.v1 as tf

ROWS, FEATURES = 2000, 20

x = tf.placeholder(tf.float32, [ROWS, FEATURES])
y = tf.placeholder(tf.float32, [ROWS, 1])
w = tf.get_variable("w", [FEATURES, 1], initializer=tf.zeros_initializer())
b = tf.get_variable("b", [], initializer=tf.zeros_initializer())


def loss_at(w, b):
    """Returns the mean loss, with a little weight decay, of parameters."""
    logits = tf.matmul(x, w) + b
    return tf.reduce_mean(tf.nn.softplus(logits) - y * logits) + (
        1e-4 * tf.reduce_sum(tf.square(w)))


lbfgs = tf.train.minimize_lbfgs(loss_at, [w, b])
loss = loss_at(w, b)
descent = tf.train.GradientDescentOptimizer(0.5).minimize(loss)

# The features have very different scales, which slow gradient descent down.
random = np.random.RandomState(1)
scales = 1 / np.arange(1, FEATURES + 1)
features = random.randn(ROWS, FEATURES) * scales
weights = np.where(np.arange(FEATURES) % 2 == 0, 2, -2) / scales
scores = features @ weights + 0.5 + 2 * random.randn(ROWS)
data = {x: features, y: (scores > 0)[:, None]}

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(100):
        sess.run(descent, data)
    print("100 steps of gradient descent: loss %.6f" % sess.run(loss, data))
    sess.run(tf.global_variables_initializer())
    _, iterations, evaluations, converged = sess.run(
        [lbfgs.train, lbfgs.iterations, lbfgs.evaluations, lbfgs.converged],
        data)
    print("%d iterations of L-BFGS (%d evaluations): loss %.6f" % (
        iterations, evaluations, sess.run(loss, data)))
    assert converged
