"""Sequence to sequence with attention.

It learns to write a word backwards. A loop in the graph feeds each letter back
and stops when all words of the batch have ended.

  python3 seq2seq.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

# Letters are 2, 3, ...; 0 starts a word, and 1 ends and pads it.
BEGIN, END, SYMBOLS = 0, 1, 2 + 26
BATCH, LONGEST, UNITS = 32, 8, 48
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 900


class Attending(tf.nn.rnn_cell.RNNCell):
    """The decoder with attention, which returns scores of the next letter."""

    state_size, output_size = UNITS, SYMBOLS

    def __init__(self, decoder, rows, keys, mask):
        super().__init__(name="attending")
        self._decoder = decoder
        self._read = rows, keys, mask

    def call(self, x, state):
        rows, keys, mask = self._read
        h, state = self._decoder(x, state)
        match = tf.reduce_sum(keys * tf.expand_dims(h, 1), 2)
        weights = tf.expand_dims(tf.nn.softmax(match + mask), 2)
        seen = tf.reduce_sum(rows * weights, 1)
        out = tf.get_variable("out", [3 * UNITS, SYMBOLS])
        return tf.matmul(tf.concat([h, seen], 1), out), state


tf.set_random_seed(1)
words = tf.placeholder(tf.int32, [None, LONGEST])
lengths = tf.placeholder(tf.int32, [None])
reversed_words = tf.placeholder(tf.int32, [None, LONGEST + 1])
embedding = tf.get_variable("embedding", [SYMBOLS, 16])
embed = lambda letters: tf.nn.embedding_lookup(embedding, letters)  # noqa: E731

# The encoder, whose outputs and final state the decoder uses.
gru = tf.nn.rnn_cell.GRUCell
both, (_, last) = tf.nn.bidirectional_dynamic_rnn(
    gru(UNITS), gru(UNITS), embed(words), lengths, dtype=tf.float32)
rows = tf.concat(both, 2)
keys = tf.layers.dense(rows, UNITS, use_bias=False, name="keys")
mask = -1e9 * (1 - tf.sequence_mask(lengths, LONGEST, tf.float32))
cell = Attending(gru(UNITS), rows, keys, mask)

# Training predicts each letter of the word from the previous ones.
begin = tf.fill(tf.shape(lengths), BEGIN)
before = tf.concat([tf.expand_dims(begin, 1), reversed_words[:, :-1]], 1)
scores, _ = tf.nn.dynamic_rnn(cell, embed(before), lengths + 1, last)
# Padding does not count in the loss.
counts = tf.sequence_mask(lengths + 1, LONGEST + 1, tf.float32)
loss = tf.contrib.seq2seq.sequence_loss(scores, reversed_words, counts)
train = tf.train.AdamOptimizer(0.005).minimize(loss)


# Inference takes the best letter each time, until all words have ended.
def write(t, letter, state, ended, so_far):
    output, state = cell(embed(letter), state)
    best = tf.argmax(output, 1, output_type=tf.int32)
    after = tf.where(ended, tf.fill(tf.shape(best), END), best)
    return t + 1, after, state, tf.equal(after, END), so_far.write(t, after)


*_, letters = tf.while_loop(
    lambda t, _, __, ended, ___: tf.logical_and(
        t < 2 * LONGEST, tf.logical_not(tf.reduce_all(ended))),
    write, (0, begin, last, tf.fill(tf.shape(lengths), False),
            tf.TensorArray(tf.int32, 0, dynamic_size=True)),
    back_prop=False, name="write")
written = tf.transpose(letters.stack())


def draw(rng):
    """Returns a batch of words and their reverses."""
    n = rng.randint(1, LONGEST + 1, BATCH)
    forwards = np.full([BATCH, LONGEST], END)
    backwards = np.full([BATCH, LONGEST + 1], END)
    for i, length in enumerate(n):
        word = rng.randint(2, SYMBOLS, length)
        forwards[i, :length], backwards[i, :length] = word, word[::-1]
    return {words: forwards, lengths: n, reversed_words: backwards}


def spell(row):
    """Returns the letters up to the end of the word."""
    end = list(row).index(END) if END in row else len(row)
    return "".join(chr(ord("a") + c - 2) for c in row[:end])


with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        value, _ = sess.run([loss, train], draw(rng))
        if step % 150 == 0:
            print("step %3d: loss %.4f" % (step, value))
    fresh = draw(rng)
    out = sess.run(written, fresh)
    pairs = [(spell(a), spell(b), spell(c)) for a, b, c in zip(
        fresh[words], out, fresh[reversed_words])]
    for a, b, _ in pairs[:5]:
        print("%-8s -> %s" % (a, b))
    print("%d of %d new words are right; the writing stopped after %d of at "
          "most %d letters" % (sum(b == c for _, b, c in pairs), BATCH,
                               out.shape[1], 2 * LONGEST))
