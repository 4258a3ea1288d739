"""A Graph-LSTM that learns whether a path leads from a marked node to the last.

A loop runs through the nodes of a graph, in any order. Each node sums up the
states of its predecessors, which it reads from a store: all iterations start at
once, and each waits for just its predecessors. The graphs are random and
directed; those of the test are new.

  python3 graph_lstm.py
"""

import numpy as np

import sluice
import sluice.compat.v1 as tf

UNITS, NODES = 8, 12

start = tf.placeholder(tf.int64, [None, 2])
mark = tf.placeholder(tf.float32, [None, 1])
last = tf.placeholder(tf.int64, [])
label = tf.placeholder(tf.float32, [])

tf.set_random_seed(1)
wx = tf.get_variable("wx", [1, 4 * UNITS])
wh = tf.get_variable("wh", [UNITS, 4 * UNITS])
out = tf.get_variable("out", [UNITS, 1])

# Row 0 of an element is the node's output, row 1 its memory.
states = sluice.TensorStore(tf.float32, element_shape=[2, UNITS])
states.write(-1, tf.zeros([2, UNITS]))


def node(i):
    """Computes the state of node i, when those of its predecessors are there."""
    before = tf.reduce_sum(states.read_many(tf.gather(start, i)), 0)
    x = tf.expand_dims(tf.gather(mark, i), 0)
    gates = tf.split(tf.matmul(x, wx) + tf.matmul(before[:1], wh), 4, 1)
    memory = (tf.sigmoid(gates[0]) * before[1:] * 0.5 +
              tf.sigmoid(gates[1]) * tf.tanh(gates[2]))
    state = tf.sigmoid(gates[3]) * tf.tanh(memory)
    states.write(i, tf.concat([state, memory], 0))
    return i + 1


tf.while_loop(lambda i: i < tf.shape(mark)[0], node, [0],
              parallel_iterations=1000)
logit = tf.squeeze(tf.matmul(states.read(last)[:1], out))
loss = tf.nn.softplus(logit) - label * logit
train = tf.train.AdamOptimizer(0.01).minimize(loss)


def random_graph(random):
    """Returns a graph with its marked node, its last one and its label.

    Node n has two predecessors, with repetition, in an order of the nodes that
    their numbers do not tell; -1 is the beginning.
    """
    order = random.permutation(NODES)
    edges = np.empty([NODES, 2], np.int64)
    for k, n in enumerate(order):
        edges[n] = np.append(-1, order[:k])[random.randint(0, k + 1, 2)]
    marked = random.choice(order[:-1])
    reached = {marked}
    for n in order:
        if reached.intersection(edges[n]):
            reached.add(n)
    return {start: edges, mark: 2 * np.eye(NODES)[:, [marked]] - 1,
            last: order[-1], label: float(order[-1] in reached)}


with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    total = 0.0
    for step in range(1, 2001):
        total += sess.run([loss, train], random_graph(rng))[0]
        if step % 200 == 0:
            print("step %4d: loss %.3f" % (step, total / 200))
            total = 0.0
    right = 0
    for _ in range(300):
        graph = random_graph(rng)
        right += (sess.run(logit, graph) > 0) == graph[label]
    print("accuracy %.3f on new graphs" % (right / 300))
