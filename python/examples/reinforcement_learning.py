"""A Q-learning agent whose whole episode is one graph.

The agent acts, the environment steps, transitions go into a replay memory, some
steps learn from it and some update the target network. For comparison, the same
agent is also driven from the client as usual, with a run for each of these.

  python3 reinforcement_learning.py [EPISODES]
"""

import sys
import time

import sluice.compat.v1 as tf

# A corridor with the reward at its right end. Actions: 0 is left, 1 is right.
# An episode ends at the reward or after LONGEST steps.
CELLS, HIDDEN, MEMORY, BATCH = 12, 24, 512, 16
LONGEST, LEARN_EVERY, TARGET_EVERY = 60, 4, 40
EPISODES = int(sys.argv[1]) if len(sys.argv) > 1 else 120


def weights(net):
    with tf.variable_scope(net, use_resource=True):
        return [tf.get_variable(name, shape) for name, shape in (
            ("w1", [CELLS, HIDDEN]), ("b", [HIDDEN]), ("w2", [HIDDEN, 2]))]


tf.set_random_seed(1)
online, target = weights("online"), weights("target")
# Rows {cell, action, next cell, 1 at the reward}.
memory = tf.get_variable("memory", [MEMORY, 4], tf.int32, trainable=False,
                         initializer=tf.zeros_initializer(), use_resource=True)
optimizer = tf.train.AdagradOptimizer(0.1)


def q(cells, net):
    """Returns the expected returns of both actions, [n, 2]."""
    w1, b, w2 = net
    x = tf.one_hot(cells, CELLS)
    return tf.matmul(tf.tanh(tf.matmul(x, w1) + b), w2)


def act(cell):
    """Returns the best action for a cell, or sometimes a random one."""
    return tf.cond(
        tf.random_uniform([]) < 0.3,
        lambda: tf.random_uniform([], 0, 2, tf.int32),
        lambda: tf.argmax(q(tf.reshape(cell, [1]), online)[0],
                          output_type=tf.int32))


def remember(at, row):
    return tf.scatter_update(memory, at, row).op


def learn(size):
    """Learns from transitions among the first `size` of the memory."""
    rows = tf.gather(memory, tf.random_uniform([BATCH], 0, size, tf.int32))
    cell, action, after, end = tf.unstack(rows, axis=1)
    reward = tf.cast(end, tf.float32)
    later = tf.reduce_max(q(after, target), 1)
    wanted = tf.stop_gradient(reward + 0.95 * (1 - reward) * later)
    taken = tf.reduce_sum(q(cell, online) * tf.one_hot(action, 2), 1)
    return optimizer.minimize(tf.reduce_mean((taken - wanted) ** 2),
                              var_list=online)


def update_target():
    return tf.group(*[t.assign(o) for t, o in zip(target, online)])


def episode(start):
    """Runs an episode from the global step number `start`.

    Returns the number of its steps.
    """
    def step(t, cell, _):
        action = act(cell)
        after = tf.clip_by_value(cell + 2 * action - 1, 0, CELLS - 1)
        done = tf.equal(after, CELLS - 1)
        now = start + t
        row = tf.stack([cell, action, after, tf.cast(done, tf.int32)])
        # Steps into the wall are not stored, because they teach nothing.
        ops = [(tf.not_equal(cell, after), lambda: remember(now % MEMORY, row)),
               (tf.equal(now % LEARN_EVERY, 0),
                lambda: learn(tf.minimum(now + 1, MEMORY))),
               (tf.equal(now % TARGET_EVERY, 0), update_target)]
        for due, op in ops:  # These run in this order.
            ran = tf.cond(due, op, tf.no_op)
            with tf.control_dependencies([ran]):
                now, done = tf.identity(now), tf.identity(done)
                after = tf.identity(after)
        return t + 1, after, done

    steps, _, _ = tf.while_loop(
        lambda t, _, done: tf.logical_and(t < LONGEST, tf.logical_not(done)),
        step, (0, 0, False), parallel_iterations=1, back_prop=False,
        name="episode")
    return steps


start = tf.placeholder(tf.int32, [])
steps_of_episode = episode(start)

# The same agent driven from the client, with a run for each part.
now, cell = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
row = tf.placeholder(tf.int32, [4])
action = act(cell)
remembered = remember(now % MEMORY, row)
learned = learn(tf.minimum(now + 1, MEMORY))
updated = update_target()


def in_graph(sess, total):
    return sess.run(steps_of_episode, {start: total})


def from_client(sess, total):
    at = steps = 0
    while steps < LONGEST and at < CELLS - 1:
        number = total + steps
        a = sess.run(action, {cell: at})
        after = max(at + 2 * a - 1, 0)
        feeds = {now: number, row: [at, a, after, after == CELLS - 1]}
        for due, op in ((after != at, remembered),
                        (number % LEARN_EVERY == 0, learned),
                        (number % TARGET_EVERY == 0, updated)):
            if due:
                sess.run(op, feeds)
        at, steps = after, steps + 1
    return steps


def train(name, run):
    """Trains for all episodes; returns the microseconds per step."""
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        total, recent, timed, seconds = 0, 0, 0, 0.0
        for i in range(1, EPISODES + 1):
            started = time.perf_counter()
            steps = run(sess, total)
            total, recent = total + steps, recent + steps
            if i > 1:  # The first episode also prepares the graph.
                seconds += time.perf_counter() - started
                timed += steps
            if i % 40 == 0:
                print("%s: episodes %3d to %3d took %.1f steps" % (
                    name, i - 39, i, recent / 40))
                recent = 0
    return seconds / timed * 1e6


one, other = train("one graph", in_graph), train("client   ", from_client)
print("a step takes %.1f us in one graph, %.1f us from the client: %.1f times "
      "as fast" % (one, other, other / one))
