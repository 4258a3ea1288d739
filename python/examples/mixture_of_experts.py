"""A mixture of experts inside a recurrent cell.

At each element, every sequence is sent to the expert that its gate selects, and
an expert without sequences does not run. Conditionals in a loop, with gradients
through both.

  python3 mixture_of_experts.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

BATCH, LENGTH, UNITS, EXPERTS, KINDS = 8, 8, 16, 4, 4
DEPTH = KINDS + 1
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600


class MixtureCell(tf.nn.rnn_cell.RNNCell):
    """A cell whose last output columns tell which experts ran."""

    state_size, output_size = UNITS, UNITS + EXPERTS

    def call(self, x, state):
        both = tf.concat([x, state], 1)
        gate = tf.get_variable("gate", [DEPTH + UNITS, EXPERTS])
        chances = tf.nn.softmax(tf.matmul(both, gate))
        choice = tf.argmax(chances, 1, output_type=tf.int32)
        # Sends rows to the experts and restores their order.
        rows = tf.dynamic_partition(both, choice, EXPERTS)
        places = tf.dynamic_partition(tf.range(BATCH), choice, EXPERTS)
        results, ran = [], []
        for e in range(EXPERTS):
            asked = tf.size(places[e]) > 0
            with tf.variable_scope("expert_%d" % e):
                w = tf.get_variable("w", [DEPTH + UNITS, UNITS])
                b = tf.get_variable("b", [UNITS],
                                    initializer=tf.zeros_initializer())
            results.append(tf.cond(
                asked, lambda: tf.tanh(tf.matmul(rows[e], w) + b),
                lambda: tf.zeros([0, UNITS])))
            ran.append(tf.fill([BATCH, 1], tf.cast(asked, tf.float32)))
        y = tf.dynamic_stitch(places, results)
        # Multiplying by the probability of the choice trains the gate.
        after = tf.reshape(y, [BATCH, UNITS]) * tf.reduce_max(
            chances, 1, keepdims=True)
        return tf.concat([after] + ran, 1), after


# Each element is a number and an operation on it.
tf.set_random_seed(4)
x = tf.placeholder(tf.float32, [BATCH, LENGTH, DEPTH])
y = tf.placeholder(tf.float32, [BATCH])
outputs, state = tf.nn.dynamic_rnn(MixtureCell(), x, dtype=tf.float32)
guess = tf.squeeze(tf.layers.dense(state, 1), 1)
loss = tf.losses.mean_squared_error(y, guess)
ran = tf.reduce_mean(outputs[:, :, UNITS:], [0, 1])
train = tf.train.AdagradOptimizer(0.1).minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    total, shares = 0, np.zeros(EXPERTS)
    for step in range(1, STEPS + 1):
        v = rng.uniform(-1, 1, [BATCH, LENGTH])
        kinds = rng.randint(0, KINDS, [BATCH, LENGTH])
        xs = np.concatenate([v[..., None], np.eye(KINDS)[kinds]], 2)
        ys = np.choose(kinds, [v, -v, v * v, 0 * v]).sum(1) / 2
        value, share, _ = sess.run([loss, ran, train], {x: xs, y: ys})
        total, shares = total + value, shares + share
        if step % 100 == 0:
            print("step %3d: mean squared error %.4f; experts ran in" % (
                step, total / 100), " ".join("%3.0f%%" % s for s in shares),
                  "of the elements")
            total, shares = 0, np.zeros(EXPERTS)
