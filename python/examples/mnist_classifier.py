"""The classifier of Figure 1 (see figure1.py) with the current interface.

It uses layers and a progress bar, and reports the accuracy on test images. The
images are Fashion-MNIST's if the Debian package dataset-fashion-mnist is
installed, otherwise synthetic.

  python3 mnist_classifier.py [STEPS]
"""

import sys

import numpy as np

import sluice as sl

BATCH = 100
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000


def load(folder="/usr/share/datasets/fashion-mnist"):
    """Returns (training images, their labels, test images, their labels)."""
    try:
        sets = sl.examples.tutorials.mnist.input_data.read_data_sets(folder)
        return (sets.train.images, sets.train.labels, sets.test.images,
                sets.test.labels)
    except sl.errors.NotFoundError:
        print("no Fashion-MNIST: the images are made up")
        labels = np.arange(4000) % 10
        noise = np.random.RandomState(1).uniform(0, 0.5, [4000, 784])
        images = noise + 0.3 * (np.arange(784) // 79 == labels[:, None])
        return images[:3000], labels[:3000], images[3000:], labels[3000:]


images, labels, test_images, test_labels = load()
sl.set_random_seed(1)
x = sl.placeholder(sl.float32, [None, 784])
y = sl.placeholder(sl.int32, [None])
logits = sl.layers.dense(sl.layers.dense(x, 100, sl.nn.relu), 10)
loss = sl.losses.sparse_softmax_cross_entropy(y, logits)
train = sl.train.AdagradOptimizer(0.02).minimize(loss)
right = sl.reduce_mean(sl.cast(sl.nn.in_top_k(logits, y, 1), sl.float32))

with sl.Session() as session:
    session.run(sl.global_variables_initializer())
    rng = np.random.RandomState(1)
    bar = sl.progress(range(1, STEPS + 1), "training")
    for step in bar:
        rows = rng.randint(0, len(labels), BATCH)
        value, _ = session.run([loss, train], {x: images[rows],
                                               y: labels[rows]})
        bar.set(loss=value)
        if step % max(STEPS // 4, 1) == 0:
            bar.print("step %4d: %.1f%% of unseen images are known" % (
                step, 100 * session.run(right, {x: test_images,
                                                y: test_labels})))
