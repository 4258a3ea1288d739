"""Which advertisement is clicked, by a wide and a deep model trained together.

After Cheng et al. (2016), on made data. Some pairs of an interest of the user
and an advertisement are clicked more often: the wide part has a weight for each
pair. Some advertisements are clicked more often by all users: the deep part
learns this from embeddings.

  python3 wide_and_deep.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

INTERESTS, ADS, BATCH, BUCKETS = 40, 30, 256, 5000
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


def make_batch(rng):
    """Returns (indices of interests, interests, advertisements, clicks)."""
    several = rng.randint(1, 4, BATCH)
    at = np.array([[i, k] for i in range(BATCH) for k in range(several[i])])
    interests = rng.randint(0, INTERESTS, len(at))
    ads = rng.randint(0, ADS, BATCH)
    fits = (interests * 31 + ads[at[:, 0]] * 17) % 7 == 0
    score = np.where(ads % 5 == 0, 1.5, -1.5)
    np.add.at(score, at[:, 0], np.where(fits, 3, -1))
    clicked = rng.uniform(size=BATCH) < 1 / (1 + np.exp(-2 * score))
    return at, interests, ads, clicked


tf.set_random_seed(1)
at = tf.placeholder(tf.int64, [None, 2])  # The example of an interest.
interests = tf.placeholder(tf.int64, [None])
ads = tf.placeholder(tf.int64, [BATCH])
clicked = tf.placeholder(tf.float32, [BATCH])
liked = tf.SparseTensor(at, interests, [BATCH, 3])

# Wide: a weight for each pair of an interest and an advertisement, by hash.
pairs = tf.sparse.cross_hashed([liked, tf.expand_dims(ads, 1)], BUCKETS)
weights = tf.get_variable("wide", [BUCKETS, 1],
                          initializer=tf.zeros_initializer())
wide = tf.nn.embedding_lookup_sparse(weights, pairs, None, combiner="sum")
# Deep: layers over what the interests have in common, and the advertisement.
user = tf.nn.embedding_lookup_sparse(
    tf.get_variable("user", [INTERESTS, 8]), liked, None, combiner="mean")
ad = tf.nn.embedding_lookup(tf.get_variable("ad", [ADS, 8]), ads)
deep = tf.concat([user, ad], 1)
for units in (32, 16):
    deep = tf.layers.dense(deep, units, tf.nn.relu)
deep = tf.layers.dense(deep, 1)

score = tf.reshape(wide + deep, [BATCH])
loss = tf.losses.sigmoid_cross_entropy(clicked, score)
others = [v for v in tf.trainable_variables() if v is not weights]
train = tf.group(
    tf.train.FtrlOptimizer(1.0).minimize(loss, var_list=[weights]),
    tf.train.AdagradOptimizer(0.2).minimize(loss, var_list=others))
wrong = tf.reduce_mean(tf.abs(tf.cast(score > 0, tf.float32) - clicked))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    errors = 0.5  # The mean of the last steps.
    for step in range(STEPS + 1):
        feeds = dict(zip((at, interests, ads, clicked), make_batch(rng)))
        # (Before it learns from them: what it does for examples that are new.)
        value, now = sess.run([loss, wrong], feeds)
        sess.run(train, feeds)
        errors += 0.05 * (now - errors)
        if step % 200 == 0:
            print("step %4d: loss %.3f, %.0f%% wrong" % (
                step, value, 100 * errors))
