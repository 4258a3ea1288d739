"""Figure 1 of "TensorFlow: A System for Large-Scale Machine Learning".

An image classifier, identical to the figure of the OSDI'16 paper except for the
import, the data, and one typo: the figure adds b_2 where it means b_1.

  python3 figure1.py
"""

import gzip
import os

import numpy as np

import sluice.compat.v1 as tf

BATCH_SIZE = 100
NUM_STEPS = 600


def load(folder="/usr/share/datasets/fashion-mnist"):
    """Loads 28x28 images of clothes and their classes.

    They are synthetic if the Debian package dataset-fashion-mnist is missing.
    """
    try:
        def read(name, skip):
            for path in (name, name + ".gz"):
                path = os.path.join(folder, path)
                if os.path.exists(path):
                    opener = gzip.open if path.endswith(".gz") else open
                    with opener(path) as f:
                        return np.frombuffer(f.read()[skip:], np.uint8)
            raise FileNotFoundError(name)
        images = read("train-images-idx3-ubyte", 16).reshape(-1, 784)[:10000]
        labels = read("train-labels-idx1-ubyte", 8)[:10000]
    except FileNotFoundError:
        rng = np.random.RandomState(0)
        labels = rng.randint(0, 10, 10000)
        images = rng.randint(0, 100, (10000, 784)) + 15 * labels[:, None]
    return (images / 255.0).astype(np.float32), np.eye(10, dtype=np.float32)[
        labels]


# 1. Construct a graph representing the model.
x = tf.placeholder(tf.float32, [BATCH_SIZE, 784])  # Placeholder for input.
y = tf.placeholder(tf.float32, [BATCH_SIZE, 10])  # Placeholder for labels.
W_1 = tf.Variable(tf.random_uniform([784, 100]))  # 784x100 weight matrix.
b_1 = tf.Variable(tf.zeros([100]))  # 100-element bias vector.
layer_1 = tf.nn.relu(tf.matmul(x, W_1) + b_1)  # Output of hidden layer.
W_2 = tf.Variable(tf.random_uniform([100, 10]))  # 100x10 weight matrix.
b_2 = tf.Variable(tf.zeros([10]))  # 10-element bias vector.
layer_2 = tf.matmul(layer_1, W_2) + b_2  # Output of linear layer.

# 2. Add nodes that represent the optimization algorithm.
loss = tf.nn.softmax_cross_entropy_with_logits(layer_2, y)
train_op = tf.train.AdagradOptimizer(0.01).minimize(loss)

# 3. Execute the graph on batches of input data.
images, classes = load()
with tf.Session() as sess:  # Connect to the TF runtime.
    sess.run(tf.initialize_all_variables())  # Randomly initialize weights.
    for step in range(NUM_STEPS):  # Train iteratively for NUM_STEPS.
        rows = np.arange(step * BATCH_SIZE, (step + 1) * BATCH_SIZE)
        rows %= len(images)
        x_data, y_data = images[rows], classes[rows]  # Load one batch.
        sess.run(train_op, {x: x_data, y: y_data})  # Perform one step.
        if step % 100 == 0 or step == NUM_STEPS - 1:
            value = sess.run(loss, {x: x_data, y: y_data})
            print(f"step {step}: loss {value.mean():.3f}")
