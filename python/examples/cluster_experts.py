"""A recurrent network with experts on different tasks of a cluster.

At each element, every sequence goes to the expert that its gate selects, which
runs on its task. An expert without sequences does not run. A single loop spans
five tasks, with distributed conditionals and gradients through all of it.

  python3 cluster_experts.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

BATCH, LENGTH, UNITS, EXPERTS, KINDS = 8, 6, 12, 4, 4
DEPTH = KINDS + 1
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600


class MixtureCell(tf.nn.rnn_cell.RNNCell):
    """A cell whose new state is computed by one of several experts."""

    state_size = output_size = UNITS

    def call(self, x, state):
        both = tf.concat([x, state], 1)
        gate = tf.get_variable("gate", [DEPTH + UNITS, EXPERTS])
        chances = tf.nn.softmax(tf.matmul(both, gate))
        choice = tf.argmax(chances, 1, output_type=tf.int32)
        # Sends rows to the experts and restores their order.
        rows = tf.dynamic_partition(both, choice, EXPERTS)
        places = tf.dynamic_partition(tf.range(BATCH), choice, EXPERTS)
        results = []
        for e in range(EXPERTS):
            with tf.device("/job:ps/task:%d" % e), tf.variable_scope(
                    "expert_%d" % e, use_resource=True):
                w = tf.get_variable("w", [DEPTH + UNITS, UNITS])
                b = tf.get_variable("b", [UNITS],
                                    initializer=tf.zeros_initializer())

            def expert():
                with tf.device("/job:ps/task:%d" % e):
                    return tf.tanh(tf.matmul(rows[e], w) + b)

            results.append(tf.cond(tf.size(places[e]) > 0, expert,
                                   lambda: tf.zeros([0, UNITS])))
        y = tf.dynamic_stitch(places, results)
        # Multiplying by the probability of the choice trains the gate.
        after = tf.reshape(y, [BATCH, UNITS]) * tf.reduce_max(
            chances, 1, keepdims=True)
        return after, after


# The experts are the tasks of the job "ps".
(worker,), experts = tf.test.create_local_cluster(1, EXPERTS)
# Each element is a number and an operation on it.
tf.set_random_seed(4)
with tf.device("/job:worker/task:0"):
    x = tf.placeholder(tf.float32, [BATCH, LENGTH, DEPTH])
    y = tf.placeholder(tf.float32, [BATCH])
    _, state = tf.nn.dynamic_rnn(MixtureCell(), x, dtype=tf.float32)
    guess = tf.squeeze(tf.layers.dense(state, 1), 1)
    loss = tf.losses.mean_squared_error(y, guess)
    train = tf.train.AdagradOptimizer(0.1).minimize(
        loss, colocate_gradients_with_ops=True)

with tf.Session(worker.target) as sess:
    sess.run(tf.global_variables_initializer())
    rng, total = np.random.RandomState(1), 0
    trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    last_step = tf.RunMetadata()
    for step in range(1, STEPS + 1):
        v = rng.uniform(-1, 1, [BATCH, LENGTH])
        kinds = rng.randint(0, KINDS, [BATCH, LENGTH])
        xs = np.concatenate([v[..., None], np.eye(KINDS)[kinds]], 2)
        ys = np.choose(kinds, [v, -v, v * v, 0 * v]).sum(1) / 2
        how = (trace, last_step) if step == STEPS else ()
        value, _ = sess.run([loss, train], {x: xs, y: ys}, *how)
        total += value
        if step % 100 == 0:
            print("step %3d: mean squared error %.4f" % (step, total / 100))
            total = 0

products = {}
for device in last_step.step_stats.dev_stats:
    task = device.device.partition("/device")[0]
    products[task] = products.get(task, 0) + sum(
        "MatMul" in node.timeline_label for node in device.node_stats)
for e in range(EXPERTS):
    task = "/job:ps/replica:0/task:%d" % e
    print("%s: %d products in the last step" % (task, products.get(task, 0)))
