"""A word-level language model with an LSTM (OSDI'16, section 6.4).

It learns a text file, with a softmax over all words or over a sample of them,
and then writes in a loop inside the graph, which draws each word and feeds it
back. The tables of words are in two parts each (Figure 4).

  python3 language_model.py [FILE [STEPS [SAMPLED]]]  # 0 sampled words: all.
"""

import collections
import sys

import numpy as np

import sluice.compat.v1 as tf

BATCH, LENGTH, UNITS = 16, 20, 128
PATH = sys.argv[1] if len(sys.argv) > 1 else (
    "/usr/share/common-licenses/GPL-3")
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 300
SAMPLED = int(sys.argv[3]) if len(sys.argv) > 3 else 0

# The text as numbers of words: the most frequent word is 0, as samples by the
# log-uniform distribution expect.
with open(PATH, encoding="utf-8") as f:
    text = f.read().split()
if len(text) <= LENGTH:
    sys.exit("%s: expected a text of more than %d words" % (PATH, LENGTH))
words = [w for w, _ in collections.Counter(text).most_common()]
number = {w: i for i, w in enumerate(words)}
text = np.array([number[w] for w in text], np.int32)

tf.set_random_seed(1)
parts = tf.fixed_size_partitioner(2)
embedding = tf.get_variable("embedding", [len(words), 64], partitioner=parts)
w = tf.get_variable("w", [len(words), UNITS], partitioner=parts)
b = tf.get_variable("b", [len(words)], partitioner=parts)
cell = tf.nn.rnn_cell.LSTMCell(UNITS)


def vectors(ids):
    return tf.nn.embedding_lookup(embedding, ids, partition_strategy="div")


def scores(h):
    return tf.matmul(h, tf.convert_to_tensor(w), transpose_b=True) + b


# Training: [batch, time] words predict those that follow them.
pieces = tf.placeholder(tf.int32, [BATCH, LENGTH + 1])
outputs, _ = tf.nn.dynamic_rnn(cell, vectors(pieces[:, :-1]), dtype=tf.float32)
h, to = tf.reshape(outputs, [-1, UNITS]), tf.reshape(pieces[:, 1:], [-1])
if SAMPLED:
    losses = tf.nn.sampled_softmax_loss(
        w, b, tf.expand_dims(to, 1), h, SAMPLED, len(words),
        partition_strategy="div")
else:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=to, logits=scores(h))
loss = tf.reduce_mean(losses)
train = tf.train.AdamOptimizer(0.005).minimize(loss)

# Writing: the requested number of words, one per iteration.
first, length = tf.placeholder(tf.int32, [1]), tf.placeholder(tf.int32, [])


def write(n, word, state, so_far):
    output, state = cell(vectors(word), state)
    # The temperature 0.7 makes the choices more certain.
    drawn = tf.multinomial(scores(output) / 0.7, 1, output_dtype=tf.int32)
    drawn = tf.reshape(drawn, [1])
    return n + 1, drawn, state, so_far.write(n, drawn)


_, _, _, written = tf.while_loop(
    lambda n, *_: n < length, write,
    (0, first, cell.zero_state(1, tf.float32),
     tf.TensorArray(tf.int32, length)), back_prop=False, name="write")
line = tf.reshape(written.stack(), [-1])

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        starts = rng.randint(0, len(text) - LENGTH, BATCH)
        batch = np.stack([text[i:i + LENGTH + 1] for i in starts])
        value, _ = sess.run([loss, train], {pieces: batch})
        if step % 50 == 0:
            print("step %4d: loss %.3f" % (step, value))
    print("It writes:")
    print(" ".join(words[i] for i in sess.run(line, {first: [0], length: 60})))
