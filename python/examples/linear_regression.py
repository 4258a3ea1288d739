"""Fits a line by gradient descent.

  python3 linear_regression.py
"""

import sluice.compat.v1 as tf

x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
slope, offset = tf.Variable(0.0, name="slope"), tf.Variable(0.0, name="offset")
loss = tf.reduce_mean((slope * x + offset - y) ** 2)
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(200):
        sess.run(train, {x: [-1, 0, 1, 2], y: [-4, -1, 2, 5]})
    print("y = %.3f x + %.3f" % tuple(sess.run([slope, offset])))  # 3 x - 1
