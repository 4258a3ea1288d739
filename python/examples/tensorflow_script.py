"""A convolutional network for images of clothes, as a TensorFlow 1 script.

It does not refer to Sluice and runs unchanged.

  python3 -m sluice.run tensorflow_script.py --train_steps=500
"""

from __future__ import absolute_import, division, print_function

import gzip
import os

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string(
    "data_dir", "/usr/share/datasets/fashion-mnist", "Where the images are.")
tf.app.flags.DEFINE_integer("train_steps", 300, "How many steps to train.")
tf.app.flags.DEFINE_integer("batch_size", 64, "Images in a step.")
tf.app.flags.DEFINE_integer("eval_every", 100, "Steps between evaluations.")
tf.app.flags.DEFINE_float("learning_rate", 0.001, "Adam's learning rate.")
tf.app.flags.DEFINE_float("weight_decay", 1e-4, "Of all kernels.")
FLAGS = tf.app.flags.FLAGS


def read_idx(name, header):
    """Returns the bytes of one of the data set's files."""
    path = os.path.join(FLAGS.data_dir, name)
    if not tf.gfile.Exists(path):
        path += ".gz"
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        return np.frombuffer(f.read()[header:], np.uint8)


def load_data():
    """Returns ((training images, labels), (test images, labels))."""
    try:
        sets = []
        for part, count in (("train", 20000), ("t10k", 2000)):
            images = read_idx(part + "-images-idx3-ubyte", 16)
            labels = read_idx(part + "-labels-idx1-ubyte", 8)
            images = images.reshape(-1, 28, 28, 1)[:count] / np.float32(255)
            sets.append((images, labels[:count].astype(np.int64)))
        return sets
    except (IOError, tf.errors.NotFoundError):
        tf.logging.warn("No images in %s: made up.", FLAGS.data_dir)
        rng = np.random.RandomState(0)
        patterns = np.kron(rng.rand(10, 4, 4, 1), np.ones([1, 7, 7, 1]))

        def draw(count):
            labels = rng.randint(0, 10, count)
            noise = rng.rand(count, 28, 28, 1)
            images = 0.4 * patterns[labels] + 0.6 * noise
            return images.astype(np.float32), labels.astype(np.int64)
        return draw(4000), draw(500)


def model_fn(images, training):
    """Returns the scores of ten classes."""
    regularizer = tf.contrib.layers.l2_regularizer(FLAGS.weight_decay)
    net = images - 0.5
    for i, filters in enumerate([16, 32]):
        with tf.variable_scope("block_%d" % (i + 1)):
            net = tf.layers.conv2d(
                net, filters, 3, padding="same", use_bias=False,
                kernel_initializer=tf.variance_scaling_initializer(2.0),
                kernel_regularizer=regularizer, name="conv")
            net = tf.layers.batch_normalization(net, training=training,
                                                momentum=0.9, name="norm")
            net = tf.nn.relu(net)
            net = tf.layers.max_pooling2d(net, 2, 2)
    net = tf.layers.flatten(net)
    net = tf.layers.dense(net, 64, activation=tf.nn.relu,
                          kernel_regularizer=regularizer, name="fc1")
    net = tf.layers.dropout(net, rate=0.3, training=training)
    return tf.layers.dense(net, 10, name="logits")


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.reset_default_graph()
    tf.set_random_seed(42)
    (train_x, train_y), (test_x, test_y) = load_data()

    images = tf.placeholder(tf.float32, [None, 28, 28, 1], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    training = tf.placeholder_with_default(False, [], name="training")

    logits = model_fn(images, training)
    tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    total_loss = tf.losses.get_total_loss()

    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.exponential_decay(
        FLAGS.learning_rate, global_step, 100, 0.95, staircase=True)
    optimizer = tf.train.AdamOptimizer(learning_rate)
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
        gradients, variables = zip(*optimizer.compute_gradients(total_loss))
        gradients, norm = tf.clip_by_global_norm(gradients, 5.0)
        train_op = optimizer.apply_gradients(zip(gradients, variables),
                                             global_step=global_step)

    predictions = tf.argmax(logits, 1, name="predictions")
    accuracy, accuracy_update = tf.metrics.accuracy(labels, predictions,
                                                    name="accuracy")
    metric_init = tf.variables_initializer(
        tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))

    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(config=config) as sess:
        sess.run([tf.global_variables_initializer(),
                  tf.local_variables_initializer()])
        count = sum(np.prod(v.get_shape().as_list())
                    for v in tf.trainable_variables())
        tf.logging.info("%d parameters", count)
        order = np.random.RandomState(0)
        while True:
            step = sess.run(global_step)
            if step % FLAGS.eval_every == 0 or step >= FLAGS.train_steps:
                sess.run(metric_init)
                for i in range(0, len(test_x), 250):
                    sess.run(accuracy_update, feed_dict={
                        images: test_x[i:i + 250], labels: test_y[i:i + 250]})
                print("step %d: test accuracy %.3f" % (step,
                                                       sess.run(accuracy)))
            if step >= FLAGS.train_steps:
                break
            rows = order.randint(0, len(train_x), FLAGS.batch_size)
            _, loss, grad_norm = sess.run(
                [train_op, total_loss, norm],
                feed_dict={images: train_x[rows], labels: train_y[rows],
                           training: True})
            if step % 50 == 0:
                print("step %d: loss %.3f, gradient norm %.2f" % (
                    step, loss, grad_norm))


if __name__ == "__main__":
    tf.app.run()
