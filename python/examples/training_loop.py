"""A training loop inside the graph.

The loop's body computes gradients, each iteration updates the variables, and
one run trains until the loss is small. For comparison, the same steps are also
driven from the client.

  python3 training_loop.py
"""

import time

import sluice.compat.v1 as tf

# A network with two layers learns the exclusive or.
tf.set_random_seed(1)
x = tf.constant([[0.0, 0], [0, 1], [1, 0], [1, 1]])
y = tf.constant([[0.0], [1], [1], [0]])


def predict():
    # Resource variables are read in each iteration.
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
        normal = tf.random_normal_initializer()
        hidden = tf.layers.dense(x, 8, tf.tanh, kernel_initializer=normal,
                                 name="hidden")
        return tf.layers.dense(hidden, 1, tf.sigmoid, name="out",
                               kernel_initializer=normal)


def loss_now():
    return tf.reduce_mean((predict() - y) ** 2)


prediction = predict()
optimizer = tf.train.GradientDescentOptimizer(2.0)


def train(steps, _):
    loss = loss_now()
    with tf.control_dependencies([optimizer.minimize(loss)]):
        return steps + 1, tf.identity(loss)


# The loop ends when the loss is small; the number of steps is not known before.
steps, loss = tf.while_loop(
    lambda steps, loss: tf.logical_and(loss > 1e-3, steps < 20000), train,
    (0, 1.0), parallel_iterations=1, name="train")

# The same step for a client that runs the loop itself.
step_loss = loss_now()
step = optimizer.minimize(step_loss)

with tf.Session() as sess:
    init = tf.global_variables_initializer()
    for each in (init, [steps, loss], [step_loss, step], init):
        sess.run(each)  # The first run also prepares the graph.
    started = time.perf_counter()
    count, value = sess.run([steps, loss])
    in_graph = time.perf_counter() - started
    print("in the graph: %d steps in one run, loss %.4f, %.2f us a step" % (
        count, value, in_graph / count * 1e6))
    for i, p in enumerate(sess.run(prediction)):
        print("  %d xor %d = %.3f" % (i // 2, i % 2, p[0]))

    sess.run(init)
    started = time.perf_counter()
    for _ in range(count):
        sess.run([step_loss, step])
    from_client = time.perf_counter() - started
    print("from the client: %.2f us a step, the loop is %.1f times as fast" % (
        from_client / count * 1e6, from_client / in_graph))
