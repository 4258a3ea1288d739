"""A recursive network over trees.

A function calls itself for the children of a node, to the depth of the tree,
and is trained through the recursion.

  python3 recursive_tree.py
"""

import numpy as np

import sluice.compat.v1 as tf

# A tree has three columns: the two children of node i, or -1, and its value.
left = tf.placeholder(tf.int32, [None])
right = tf.placeholder(tf.int32, [None])
leaf = tf.placeholder(tf.float32, [None, 4])
want = tf.placeholder(tf.float32, [4])

# The function is declared first, because its body calls it.
tree = tf.Declare("tree", [("node", tf.int32), ("left", tf.int32),
                           ("right", tf.int32), ("leaf", tf.float32),
                           ("w", tf.float32)], [("value", tf.float32)])


@tf.Defun(tf.int32, tf.int32, tf.int32, tf.float32, tf.float32,
          func_name="tree", out_names=["value"])
def define_tree(node, left, right, leaf, w):
    """Returns the value of a leaf, or a layer applied to two children."""
    child = tf.gather(left, node)

    def layer():
        # The two calls run in parallel.
        a = tree(child, left, right, leaf, w)
        b = tree(tf.gather(right, node), left, right, leaf, w)
        both = tf.expand_dims(tf.concat([a, b], 0), 0)
        return tf.tanh(tf.squeeze(tf.matmul(both, w)))

    return tf.cond(child < 0, lambda: tf.gather(leaf, node), layer)


tf.set_random_seed(1)
w = tf.Variable(tf.random_uniform([8, 4], -0.5, 0.5))
root = define_tree(0, left, right, leaf, w)
loss = tf.reduce_sum((root - want) ** 2)
train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)

# ((a b) (c (d e))): node 0 is the root.
feeds = {left: [1, 3, 5, -1, -1, -1, 7, -1, -1],
         right: [2, 4, 6, -1, -1, -1, 8, -1, -1],
         leaf: np.full([9, 4], 0.3), want: [0.5, -0.5, 0.2, 0.1]}
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(61):
        value, _ = sess.run([loss, train], feeds)
        if step % 20 == 0:
            print("step %2d: loss %.5f" % (step, value))
