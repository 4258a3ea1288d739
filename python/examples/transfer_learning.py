"""Transfer learning from a checkpoint that TensorFlow wrote.

The layers of a network that was trained on other classes are read, and a new
last layer learns three new classes from forty examples of each.

  python3 transfer_learning.py ../../examples/checkpoints/shapes
"""

import sys

import numpy as np
import sluice.compat.v1 as tf

SIZE, TRAINED, TESTED = 12, 120, 600
# A T, an L and a U, on 5 x 5 pixels.
SHAPES = ["#####..#....#....#....#..",
          "#....#....#....#....#####",
          "#...##...##...##...######"]


def draw(count, random):
    """Noisy images with a shape anywhere, and their classes."""
    images = random.normal(0, 0.3, [count, SIZE, SIZE, 1])
    classes = np.arange(count) % len(SHAPES)
    for image, c in zip(images, classes):
        y, x = random.integers(0, 8, 2)
        image[y:y + 5, x:x + 5, 0] += np.array(
            [p == "#" for p in SHAPES[c]]).reshape(5, 5)
    return images, classes


def convolved(x, filters, name):
    return tf.layers.max_pooling2d(
        tf.layers.conv2d(x, filters, 3, padding="same", activation=tf.nn.relu,
                         name=name), 2, 2)


tf.set_random_seed(1)
images = tf.placeholder(tf.float32, [None, SIZE, SIZE, 1])
classes = tf.placeholder(tf.int64, [None])
h = convolved(convolved(images, 8, "conv1"), 16, "conv2")
h = tf.layers.dense(tf.layers.flatten(h), 32, tf.nn.relu, name="features")
pretrained = tf.train.Saver()  # Of the variables so far.
logits = tf.layers.dense(h, len(SHAPES), name="head")
loss = tf.losses.sparse_softmax_cross_entropy(classes, logits)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), classes),
                                  tf.float32))
train = tf.train.AdamOptimizer(0.01).minimize(
    loss, var_list=tf.trainable_variables("head"))
init = tf.global_variables_initializer()

random = np.random.default_rng(1)
few, few_classes = draw(TRAINED, random)
many, many_classes = draw(TESTED, random)
for features in "random", "TensorFlow's":
    with tf.Session() as sess:
        sess.run(init)
        if features != "random":
            pretrained.restore(sess, sys.argv[1])
        for _ in range(300):
            sess.run(train, {images: few, classes: few_classes})
        reached = sess.run(accuracy, {images: many, classes: many_classes})
        print(f"on {features} features: accuracy {reached:.3f}")
