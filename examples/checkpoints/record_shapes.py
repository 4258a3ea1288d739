#!/usr/bin/env python3
"""Trains a small convolutional network with TensorFlow and saves it.

    examples/checkpoints/record_shapes.py

It tells six shapes apart, in noisy images of 12 x 12. The transfer_learning
examples take its features for other shapes.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()
FOLDER = os.path.dirname(os.path.abspath(__file__))
SHAPES = ["#####" "#...#" "#...#" "#...#" "#####",   # Square.
          "..#.." "..#.." "#####" "..#.." "..#..",   # Plus.
          "#...#" ".#.#." "..#.." ".#.#." "#...#",   # Cross.
          "#####" "....." "#####" "....." "#####",   # Lines.
          "#.#.#" "#.#.#" "#.#.#" "#.#.#" "#.#.#",   # Columns.
          "..#.." ".#.#." "#...#" ".#.#." "..#.."]   # Diamond.


def draw(count, random):
    """Images [count, 12, 12, 1] and their classes."""
    images = random.normal(0, 0.3, [count, 12, 12, 1])
    classes = random.integers(0, len(SHAPES), count)
    for image, c in zip(images, classes):
        y, x = random.integers(0, 8, 2)
        bits = np.array([b == "#" for b in SHAPES[c]]).reshape(5, 5, 1)
        image[y:y + 5, x:x + 5] += bits
    return images.astype(np.float32), classes


def weights(name, shape):
    return tf1.get_variable(name + "/kernel", shape), tf1.get_variable(
        name + "/bias", shape[-1:], initializer=tf1.zeros_initializer())


def main():
    random = np.random.default_rng(1)
    tf1.set_random_seed(1)
    images = tf1.placeholder(tf.float32, [None, 12, 12, 1])
    classes = tf1.placeholder(tf.int64, [None])
    h = images
    for name, shape in (("conv1", [3, 3, 1, 8]), ("conv2", [3, 3, 8, 16])):
        kernel, bias = weights(name, shape)
        h = tf.nn.max_pool2d(
            tf.nn.relu(tf.nn.conv2d(h, kernel, 1, "SAME") + bias), 2, 2,
            "SAME")
    kernel, bias = weights("features", [144, 32])
    h = tf.nn.relu(tf.reshape(h, [-1, 144]) @ kernel + bias)
    kernel, bias = weights("logits", [32, len(SHAPES)])
    logits = h @ kernel + bias
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=classes, logits=logits))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdamOptimizer(0.003).minimize(loss, step)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), classes),
                                   tf.float32))
    # Without Adam's slots.
    saver = tf1.train.Saver(tf1.trainable_variables() + [step])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(2000):
            x, y = draw(64, random)
            session.run(train, {images: x, classes: y})
        x, y = draw(2000, random)
        print("accuracy", session.run(right, {images: x, classes: y}))
        saver.save(session, os.path.join(FOLDER, "shapes"),
                   write_meta_graph=False, write_state=False)


if __name__ == "__main__":
    main()
