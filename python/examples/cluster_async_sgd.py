"""Asynchronous training with parameter servers.

Two parameter servers hold the variables of a classifier, and three workers read
and update them without waiting for each other. The images are Fashion-MNIST's
if the Debian package dataset-fashion-mnist is installed, otherwise synthetic.
All tasks run in this program and communicate over loopback.

  python3 cluster_async_sgd.py [STEPS]
"""

import sys
import threading

import numpy as np

import sluice.compat.v1 as tf

PS, WORKERS, BATCH = 2, 3, 50
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 150


def load():
    try:
        train = tf.examples.tutorials.mnist.input_data.read_data_sets(
            "/usr/share/datasets/fashion-mnist").train
        return train.images, train.labels
    except tf.errors.NotFoundError:
        print("no Fashion-MNIST: the images are made up")
        labels = np.arange(2000) % 10
        noise = np.random.RandomState(1).uniform(0, 0.5, [2000, 784])
        # One tenth of the pixels is brighter.
        bright = np.arange(784) // 79 == labels[:, None]
        return (noise + 0.3 * bright).astype(np.float32), labels


def build(worker):
    """Builds a worker's graph: variables, a training step and initializers."""
    with tf.device(tf.train.replica_device_setter(
            ps_tasks=PS, worker_device="/job:worker/task:%d" % worker)):
        x = tf.placeholder(tf.float32, [BATCH, 784])
        y = tf.placeholder(tf.int32, [BATCH])
        logits = tf.layers.dense(tf.layers.dense(x, 64, tf.nn.relu), 10)
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
        return x, y, loss, train, tf.global_variables_initializer()


def work(worker, target, images, labels):
    """Runs a worker with its own graph, client and loop."""
    with tf.Graph().as_default():
        x, y, loss, train, _ = build(worker)
        rng, total = np.random.RandomState(worker + 1), 0
        with tf.Session(target) as sess:
            for step in range(1, STEPS + 1):
                rows = rng.randint(0, len(labels), BATCH)
                total += sess.run([loss, train], {x: images[rows],
                                                  y: labels[rows]})[0]
                if step % 50 == 0:
                    print("worker %d, step %3d: loss %.3f" % (
                        worker, step, total / 50))
                    total = 0


workers, servers = tf.test.create_local_cluster(WORKERS, PS)
with tf.Graph().as_default():
    *_, init = build(0)
    with tf.Session(workers[0].target) as sess:
        sess.run(init)
images, labels = load()
threads = [threading.Thread(target=work, args=(i, w.target, images, labels))
           for i, w in enumerate(workers)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
