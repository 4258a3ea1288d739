"""A loop with a data-dependent number of iterations.

It computes square roots by Newton's method, inside a conditional.

  python3 while_loop.py
"""

import numpy as np

import sluice.compat.v1 as tf


def newton(a, tolerance=1e-6):
    """Returns (x with x * x = a, number of steps)."""
    steps, x = tf.while_loop(
        lambda steps, x: tf.abs(x * x - a) > tolerance * a,
        lambda steps, x: (steps + 1, (x + a / x) / 2),
        (0, a), maximum_iterations=100, name="newton")
    return x, steps


# A negative number, which has no root, gives NaN and runs no loop.
a = tf.placeholder(tf.float32, [])
root, steps = tf.cond(a < 0, lambda: (tf.constant(np.nan, tf.float32),
                                      tf.constant(0)), lambda: newton(a))

with tf.Session() as sess:
    for value in (2.0, 1e-6, 1e6, 0.0, -1.0):
        print("sqrt(%g) = %.6g after %d steps" % (
            value, *sess.run([root, steps], {a: value})))
