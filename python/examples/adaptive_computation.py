"""Adaptive Computation Time (Graves, 2016).

At each element of a sequence, the network computes as many thinking steps as
are worth their cost, the penalty. A loop within a loop; the number of inner
iterations is learned.

  python3 adaptive_computation.py [STEPS [PENALTY]]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

BATCH, LENGTH, UNITS, MOST_THOUGHTS, HALTED = 32, 6, 16, 10, 0.99
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
PENALTY = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01


class AdaptiveCell(tf.nn.rnn_cell.RNNCell):
    """A cell whose result for an element is the weighted mean of the states.

    The weights are the probabilities to halt after each thinking step. Two more
    columns contain the number of these steps and the weight of the last one.
    """

    state_size, output_size = UNITS, UNITS + 2

    def call(self, x, state):
        think = tf.nn.rnn_cell.BasicRNNCell(UNITS, name="think",
                                            reuse=tf.AUTO_REUSE)
        halt_w = tf.get_variable("halt/w", [UNITS, 1])
        halt_b = tf.get_variable("halt/b", [1],
                                 initializer=tf.constant_initializer(-1.0))
        zero = tf.zeros_like(x)

        def thought(n, s, mean, halted, count, rest):
            # A flag tells the first step at an element from the others.
            flag = tf.fill([BATCH, 1], tf.to_float(tf.equal(n, 0)))
            s, _ = think(tf.concat([x, flag], 1), s)
            h = tf.sigmoid(tf.matmul(s, halt_w) + halt_b)
            is_open = tf.cast(halted < HALTED, tf.float32)
            last = tf.logical_or(
                halted + h >= HALTED,
                tf.fill([BATCH, 1], n >= MOST_THOUGHTS - 1))
            left = is_open * (1 - halted)
            p = tf.where(last, left, is_open * h)
            rest += tf.where(last, left, tf.zeros_like(left))
            return n + 1, s, mean + p * s, halted + p, count + is_open, rest

        _, _, mean, _, count, rest = tf.while_loop(
            lambda n, s, mean, halted, *_: tf.logical_and(
                tf.reduce_any(halted < HALTED), n < MOST_THOUGHTS),
            thought, (0, state, tf.zeros_like(state), zero, zero, zero),
            name="think")
        return tf.concat([mean, count, rest], 1), mean


# The task is to output the largest number so far.
tf.set_random_seed(2)
x = tf.placeholder(tf.float32, [BATCH, LENGTH, 1])
y = tf.placeholder(tf.float32, [BATCH, LENGTH, 1])
outputs, _ = tf.nn.dynamic_rnn(AdaptiveCell(), x, dtype=tf.float32)
results, counts, rests = tf.split(outputs, [UNITS, 1, 1], 2)
loss = tf.losses.mean_squared_error(y, tf.layers.dense(results, 1))
thoughts = tf.reduce_mean(counts)
# The cost of thinking: the number of steps (which has no gradient) plus the
# weight of the last step (which has one).
price = thoughts + tf.reduce_mean(rests)
train = tf.train.AdamOptimizer(0.005).minimize(loss + PENALTY * price)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        xs = rng.rand(BATCH, LENGTH, 1)
        ys = np.maximum.accumulate(xs, 1)
        value, n, _ = sess.run([loss, thoughts, train], {x: xs, y: ys})
        if step % 50 == 0:
            print("step %3d: mean squared error %.4f, %.2f thoughts an element"
                  % (step, value, n))
