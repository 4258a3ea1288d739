"""A recurrent network along sequences of different lengths.

It learns to add the marked numbers. The loop runs as often as the longest
sequence of the batch requires; shorter sequences keep their state at the end.

  python3 dynamic_rnn.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

BATCH, LONGEST, UNITS = 32, 20, 24
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600


def draw(rng):
    """Returns a batch of rows {number, mark}, of which two are marked.

    They are padded with ones, which must be ignored.
    """
    inputs = np.ones([BATCH, LONGEST, 2], np.float32)
    lengths = rng.randint(2, LONGEST + 1, BATCH)
    sums = np.zeros(BATCH, np.float32)
    for i, n in enumerate(lengths):
        inputs[i, :n, 0] = rng.rand(n)
        inputs[i, :n, 1] = 0
        inputs[i, rng.choice(n, 2, replace=False), 1] = 1
        sums[i] = inputs[i, :n].prod(1).sum()
    return inputs, lengths, sums


tf.set_random_seed(1)
inputs = tf.placeholder(tf.float32, [None, LONGEST, 2])
lengths = tf.placeholder(tf.int32, [None])
sums = tf.placeholder(tf.float32, [None])
outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(UNITS), inputs,
                                   lengths, dtype=tf.float32)
guess = tf.squeeze(tf.layers.dense(state.h, 1), 1)
loss = tf.losses.mean_squared_error(sums, guess)
train = tf.train.AdamOptimizer(0.01).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        batch = dict(zip((inputs, lengths, sums), draw(rng)))
        value, _ = sess.run([loss, train], batch)
        if step % 100 == 0:
            print("step %3d: mean squared error %.4f" % (step, value))
    x, n, wanted = draw(rng)
    guesses, y = sess.run([guess, outputs], {inputs: x, lengths: n})
    for i in range(4):
        # Beyond a sequence's end the outputs are zero.
        zeros = (y[i, n[i]:] == 0).sum()
        print("length %2d: sum %.3f, guess %.3f; %d of %d padded outputs are "
              "zero" % (n[i], wanted[i], guesses[i], zeros,
                        (LONGEST - n[i]) * UNITS))
