"""Data-parallel training by all-reduce.

Two workers have a copy of a residual network each, compute gradients of their
own images, and apply the mean of both, which they get by all-reduce. No task
has a special role. Both run in this program and communicate over loopback.
examples/cluster_all_reduce.cc is the same in C++.

  python3 cluster_all_reduce.py [STEPS]
"""

import sys
import threading

import numpy as np

import sluice.compat.v1 as tf

WORKERS, BATCH, SIDE = 2, 32, 16
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 90


def block(x, filters, stride):
    """Adds to x what two convolutions make of it."""
    h = tf.layers.conv2d(x, filters, 3, stride, "same", activation=tf.nn.relu)
    if stride > 1:
        x = tf.layers.conv2d(x, filters, 1, stride, "same")
    return tf.nn.relu(tf.layers.conv2d(h, filters, 3, 1, "same") + x)


def network(images):
    h = tf.layers.conv2d(images, 8, 3, activation=tf.nn.relu)
    h = block(block(h, 8, 1), 16, 2)
    return tf.layers.dense(tf.reduce_mean(h, [1, 2]), 4)


def draw(rng):
    """Returns noise with bars of one of four widths, and the widths."""
    labels = rng.randint(0, 4, BATCH)
    bars = (np.arange(SIDE) >> labels[:, None]) & 1
    images = rng.uniform(size=[BATCH, SIDE, SIDE]) + bars[:, None, :]
    return images[..., None].astype(np.float32), labels


def work(worker, target, weights):
    """Runs a worker with its own graph, variables and loop."""
    with tf.Graph().as_default(), tf.device(f"/job:worker/task:{worker}"):
        tf.set_random_seed(worker + 1)
        x = tf.placeholder(tf.float32, [BATCH, SIDE, SIDE, 1])
        y = tf.placeholder(tf.int64, [BATCH])
        loss = tf.losses.sparse_softmax_cross_entropy(y, network(x))
        optimizer = tf.train.AllReduceOptimizer(
            tf.train.AdamOptimizer(3e-3), group_size=WORKERS)
        train = optimizer.minimize(loss)
        # The workers begin with the first one's values.
        same_start = optimizer.broadcast_variables(worker == 0)
        rng = np.random.RandomState(worker)
        with tf.Session(target) as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(same_start)
            for step in range(1, STEPS + 1):
                images, labels = draw(rng)
                value, _ = sess.run([loss, train], {x: images, y: labels})
                if step % max(STEPS // 3, 1) == 0:
                    print("worker %d, step %3d: loss %.3f" % (
                        worker, step, value))
            weights[worker] = sess.run(tf.trainable_variables())


servers, _ = tf.test.create_local_cluster(WORKERS, 0)
weights = {}
threads = [threading.Thread(target=work, args=(i, s.target, weights))
           for i, s in enumerate(servers)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same = all(np.array_equal(a, b) for a, b in zip(weights[0], weights[1]))
print("the weights are", "the same" if same else "different")
