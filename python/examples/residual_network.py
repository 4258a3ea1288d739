"""A residual network with batch normalisation learns images of clothes.

The images are Fashion-MNIST's (Debian's package dataset-fashion-mnist) or, if it
is not installed, synthetic. A Saver writes a checkpoint every 50 steps: killed
and started again, the program goes on from the latest. examples/
residual_network.cc is the same in C++, and reads the same checkpoints.

  python3 residual_network.py [STEPS [FOLDER]]  # The folder of the checkpoints.
"""

import gzip
import os
import sys
import tempfile

import numpy as np

import sluice as sl

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 250
FASHION = "/usr/share/datasets/fashion-mnist/train-"


def load():
    """Returns images [count, side, side, 1] in [0, 1], and their labels."""
    def bytes_of(name, header):
        with gzip.open(FASHION + name) as file:
            return np.frombuffer(file.read()[header:], np.uint8)

    if os.path.exists(FASHION + "images-idx3-ubyte.gz"):
        pixels = bytes_of("images-idx3-ubyte.gz", 16)[:5000 * 784]
        labels = bytes_of("labels-idx1-ubyte.gz", 8)[:5000]
    else:
        print("(no Fashion-MNIST: synthetic images)")
        labels = np.arange(5000) % 10
        pixels = 200 * (np.arange(784) // 79 == labels[:, None])
    return pixels.reshape([-1, 28, 28, 1]).astype("float32") / 255, labels


def block(x, filters, stride, training):
    """Adds to x what two convolutions make of it."""
    conv = dict(padding="same", use_bias=False)
    norm = dict(momentum=0.9, training=training)
    h = sl.layers.conv2d(x, filters, 3, stride, **conv)
    h = sl.nn.relu(sl.layers.batch_normalization(h, **norm))
    if stride > 1:
        x = sl.layers.conv2d(x, filters, 1, stride, **conv)
    h = sl.layers.conv2d(h, filters, 3, **conv)
    return sl.nn.relu(sl.layers.batch_normalization(h, **norm) + x)


def network(images, training):
    with sl.variable_scope("network", reuse=sl.AUTO_REUSE):
        h = sl.layers.conv2d(images, 8, 3, 2, activation=sl.nn.relu)
        h = block(h, 8, 1, training)
        h = block(h, 16, 2, training)
        h = block(h, 32, 2, training)
        return sl.layers.dense(sl.reduce_mean(h, [1, 2]), 10)


def train(folder):
    sl.set_random_seed(1)
    images, labels = load()
    x = sl.placeholder(sl.float32, [None, 28, 28, 1])
    y = sl.placeholder(sl.int64, [None])
    loss = sl.losses.sparse_softmax_cross_entropy(y, network(x, True))
    found = sl.equal(sl.argmax(network(x, False), 1), y)
    right = sl.reduce_mean(sl.cast(found, sl.float32))
    step = sl.train.get_or_create_global_step()
    with sl.control_dependencies(sl.get_collection(sl.GraphKeys.UPDATE_OPS)):
        update = sl.train.AdamOptimizer(3e-3).minimize(loss, step)
    saver = sl.train.Saver()
    with sl.Session() as session:
        session.run(sl.global_variables_initializer())
        latest = sl.train.latest_checkpoint(folder)
        if latest:
            saver.restore(session, latest)
            print("goes on from", os.path.basename(latest))
        rng = np.random.RandomState(1)
        for i in range(session.run(step) + 1, STEPS + 1):
            rows = rng.randint(0, len(labels), 100)
            now, _ = session.run([loss, update], {x: images[rows],
                                                  y: labels[rows]})
            if i % 50 == 0:
                saver.save(session, os.path.join(folder, "model"), i)
                print(f"step {i:3}: loss {now:.3f}")
        share = session.run(right, {x: images[:1000], y: labels[:1000]})
        print(f"right: {share:.2f}")


if len(sys.argv) > 2:
    train(sys.argv[2])
else:
    with tempfile.TemporaryDirectory() as temporary:
        train(temporary)
