"""Word vectors from the company that words keep (word2vec).

A word is to tell the words of its sentence from others, by noise-contrastive
estimation. The text is made: each sentence is about one of 20 topics, which has
10 words of its own. The nearest neighbours of a word should then be of its
topic.

  python3 word2vec.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

TOPICS, EACH, WIDTH, BATCH, NOISE = 20, 10, 32, 128, 16
WORDS = TOPICS * EACH
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000

tf.set_random_seed(1)
word = tf.placeholder(tf.int64, [BATCH])
beside = tf.placeholder(tf.int64, [BATCH])
vectors = tf.get_variable("vectors", [WORDS, WIDTH],
                          initializer=tf.random_uniform_initializer(-1, 1))
w = tf.get_variable("w", [WORDS, WIDTH],
                    initializer=tf.truncated_normal_initializer(0, 0.2))
b = tf.get_variable("b", [WORDS], initializer=tf.zeros_initializer())
labels = tf.expand_dims(beside, 1)
loss = tf.reduce_mean(tf.nn.nce_loss(
    w, b, labels, tf.nn.embedding_lookup(vectors, word), NOISE, WORDS,
    sampled_values=tf.random.uniform_candidate_sampler(
        labels, 1, NOISE, True, WORDS)))
train = tf.train.AdagradOptimizer(1.0).minimize(loss)
# The two nearest by the cosine, of which one is the word itself.
units = tf.nn.l2_normalize(vectors, axis=1)
_, nearest = tf.nn.top_k(tf.matmul(units, units, transpose_b=True), 2)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        topic = rng.randint(0, TOPICS, BATCH) * EACH  # Two words of a sentence.
        value, _ = sess.run([loss, train], {
            word: topic + rng.randint(0, EACH, BATCH),
            beside: topic + rng.randint(0, EACH, BATCH)})
        if step % 400 == 0:
            print("step %4d: loss %.3f" % (step, value))
    own = np.arange(WORDS)
    a, other = sess.run(nearest).T
    neighbour = np.where(a == own, other, a)
    print("nearest word is of the same topic: %.0f%%" % (
        100 * np.mean(neighbour // EACH == own // EACH)))
