"""A custom op in C++ (examples/custom_op.cc), loaded from a shared library.

The library declares the op, its kernel and its gradient.

  python3 custom_op.py [LIBRARY]
"""

import sys

import sluice.compat.v1 as tf

LIBRARY = sys.argv[1] if len(sys.argv) > 1 else "build/release/lib/custom_op.so"

custom = tf.load_op_library(LIBRARY)
x = tf.placeholder(tf.float32, [None])
y = custom.backwards(x * x) * [1.0, 10, 100]

with tf.Session() as sess:
    values, grads = sess.run([y, tf.gradients(y, x)[0]], {x: [1, 2, 3]})
    print("y  =", values)
    print("dx =", grads)  # [9 40 100], [200 40 6]
