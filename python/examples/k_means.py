"""K-means as one run.

k-means++ draws the first centres, and a loop of Lloyd's steps ends when no
point changes its cluster.

  python3 k_means.py
"""

import numpy as np
import sluice.compat.v1 as tf

POINTS, CLUSTERS = 3000, 5


def distances(points, centres):
    """The squared distance of each point to each centre, [n, k]."""
    return (tf.reduce_sum(tf.square(points), 1, keepdims=True)
            - 2 * tf.matmul(points, centres, transpose_b=True)
            + tf.reduce_sum(tf.square(centres), 1))


def first_centres(points):
    """Each next centre is a point.

    It is drawn with a probability proportional to its squared distance from the
    centres so far (Arthur and Vassilvitskii, 2007).
    """
    def another(count, centres):
        nearest = tf.maximum(
            tf.reduce_min(distances(points, centres), 1), 1e-12)
        drawn = tf.multinomial(tf.log(nearest)[None], 1)
        return count + 1, tf.concat([centres, tf.gather(points, drawn[0])], 0)

    first = tf.random_uniform([1], 0, POINTS, tf.int32)
    centres = tf.while_loop(
        lambda count, centres: count < CLUSTERS, another,
        [1, tf.gather(points, first)],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])])[1]
    return tf.ensure_shape(centres, [CLUSTERS, 2])


def step(count, centres, before, _):
    now = tf.argmin(distances(points, centres), 1, output_type=tf.int32)
    sums = tf.unsorted_segment_sum(points, now, CLUSTERS)
    sizes = tf.unsorted_segment_sum(tf.ones([POINTS, 1]), now, CLUSTERS)
    # An empty cluster keeps its centre.
    moved = tf.where_v2(sizes > 0, sums / tf.maximum(sizes, 1), centres)
    return count + 1, moved, now, tf.reduce_any(tf.not_equal(now, before))


tf.set_random_seed(3)
points = tf.placeholder(tf.float32, [POINTS, 2])
steps, centres, cluster, _ = tf.while_loop(
    lambda count, centres, before, changed: changed, step,
    [0, first_centres(points), tf.fill([POINTS], -1), True])
spread = tf.reduce_mean(tf.reduce_min(distances(points, centres), 1))

# Five clouds around a circle, which overlap.
angles = 2 * np.pi * (np.arange(POINTS) % CLUSTERS) / CLUSTERS
data = (5 * np.stack([np.cos(angles), np.sin(angles)], 1)
        + np.random.default_rng(1).normal(size=[POINTS, 2]))
with tf.Session() as sess:
    count, at, mean = sess.run([steps, centres, spread], {points: data})
for x, y in at:
    print(f"centre ({x:6.2f}, {y:6.2f})")
print(f"{count} steps; the mean squared distance is {mean:.3f}")
