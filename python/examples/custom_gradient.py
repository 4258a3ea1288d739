"""A custom gradient: the straight-through estimator of rounding.

It rounds in the forward pass and passes gradients through unchanged, as for
training quantized networks.

  python3 custom_gradient.py
"""

import sluice.compat.v1 as tf


@tf.custom_gradient
def round_straight_through(x):
    """Rounds; the true gradient would be zero almost everywhere."""
    return tf.round(x), lambda dy: dy


x = tf.placeholder(tf.float32, [None])
y = round_straight_through(x)
z = y * y

with tf.Session() as sess:
    values, grads = sess.run([z, tf.gradients(z, x)[0]], {x: [0.4, 1.6]})
    print("z  =", values)
    print("dz =", grads)  # [0 4], [0 4]
