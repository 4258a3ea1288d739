"""A training run that goes on from its latest checkpoint.

Kill it at any moment and start it again: it ends with the same weights, since
the batch of a step depends on the step alone. Beside the checkpoints it writes
summaries, and logs the loss.

  python3 supervised_training.py [FOLDER [STEPS]]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

EXAMPLES, BATCH = 512, 32


def batch_of(step):
    """Points in a square, and whether they are within a circle.

    An epoch shuffles them with its number as seed.
    """
    points = np.random.RandomState(0).uniform(-1, 1, [EXAMPLES, 2])
    batches = EXAMPLES // BATCH
    order = np.random.RandomState(step // batches).permutation(EXAMPLES)
    chosen = points[order[step % batches * BATCH:][:BATCH]]
    return chosen, (chosen ** 2).sum(1, keepdims=True) < 0.6


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "supervised_training"
    last_step = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    tf.set_random_seed(1)
    tf.logging.set_verbosity(tf.logging.INFO)
    step = tf.train.get_or_create_global_step()
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.placeholder(tf.float32, [None, 1])
    w1, b1 = tf.Variable(tf.random_normal([2, 16])), tf.Variable(tf.zeros(16))
    w2, b2 = tf.Variable(tf.random_normal([16, 1])), tf.Variable(tf.zeros(1))
    inside = tf.sigmoid(tf.matmul(tf.tanh(tf.matmul(x, w1) + b1), w2) + b2)
    loss = tf.reduce_mean((inside - y) ** 2)
    train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    tf.summary.scalar("loss", loss)
    hooks = [tf.train.StopAtStepHook(last_step=last_step),
             tf.train.NanTensorHook(loss),
             tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=500)]
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, save_checkpoint_secs=1,
            hooks=hooks) as session:
        at = session.run_step_fn(lambda step_context:
                                 step_context.session.run(step))
        print(f"begins at step {at}")
        while not session.should_stop():
            points, labels = batch_of(at)
            value, _ = session.run([loss, train], {x: points, y: labels})
            at += 1
    print(f"stopped at step {at}: loss {value:.4f}")


if __name__ == "__main__":
    with tf.Graph().as_default():
        main()
