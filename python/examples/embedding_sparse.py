"""Word embeddings with sparse updates.

A step reads and writes only the rows of its words, regardless of the size of
the table.

  python3 embedding_sparse.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

WORDS, WIDTH, BATCH = 50000, 32, 64
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000

# Learns that word w is followed by word w + 1.
word = tf.placeholder(tf.int32, [BATCH])
following = tf.placeholder(tf.int32, [BATCH])
start = tf.random_normal_initializer(0, 0.3)
tables = [tf.get_variable(name, [WORDS, WIDTH], initializer=start)
          for name in ("in", "out")]
a = tf.nn.embedding_lookup(tables[0], word)
b = tf.nn.embedding_lookup(tables[1], following)
# Scores every word of the batch against every next word; its own should win.
scores = tf.matmul(a, b, transpose_b=True)
loss = tf.losses.sparse_softmax_cross_entropy(tf.range(BATCH), scores)
train = tf.train.AdagradOptimizer(0.5).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        words = rng.randint(0, 500, BATCH)
        value, _ = sess.run([loss, train], {word: words, following: words + 1})
        if step % 400 == 0:
            print("step %4d: loss %.3f" % (step, value))
