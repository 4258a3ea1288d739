"""A character-level language model with an LSTM.

It learns a text file and then generates text in a loop inside the graph, which
samples each character from the model's distribution and feeds it back.

  python3 language_model.py [FILE [STEPS]]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

BATCH, LENGTH, UNITS, SYMBOLS = 32, 40, 128, 128
PATH = sys.argv[1] if len(sys.argv) > 1 else (
    "/usr/share/common-licenses/GPL-3")
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 400

with open(PATH, "rb") as f:
    text = np.frombuffer(f.read(), np.uint8) % SYMBOLS
if len(text) <= LENGTH:
    sys.exit("%s: expected a text of more than %d characters" % (PATH, LENGTH))

# The model maps the embedding of a character to the scores of the next one.
tf.set_random_seed(1)
embedding = tf.get_variable("embedding", [SYMBOLS, 64])
cell = tf.nn.rnn_cell.LSTMCell(UNITS)
scores = tf.layers.Dense(SYMBOLS, name="scores")

# Training compares [batch, time] characters with their successors.
pieces = tf.placeholder(tf.int32, [BATCH, LENGTH + 1])
vectors = tf.nn.embedding_lookup(embedding, pieces[:, :-1])
outputs, _ = tf.nn.dynamic_rnn(cell, vectors, dtype=tf.float32)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=pieces[:, 1:], logits=scores(outputs)))
train = tf.train.AdamOptimizer(0.005).minimize(loss)

# Generation produces one character per iteration.
first, count = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])


def write(n, character, state, so_far):
    output, state = cell(tf.nn.embedding_lookup(embedding, character), state)
    # The temperature 0.7 makes the choices more certain.
    drawn = tf.multinomial(scores(output) / 0.7, 1, output_dtype=tf.int32)
    drawn = tf.reshape(drawn, [1])
    return n + 1, drawn, state, so_far.write(n, drawn)


_, _, _, written = tf.while_loop(
    lambda n, *_: n < count, write,
    (0, tf.reshape(first, [1]), cell.zero_state(1, tf.float32),
     tf.TensorArray(tf.int32, count)), back_prop=False, name="write")
characters = tf.reshape(written.stack(), [-1])

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    rng = np.random.RandomState(1)
    for step in range(STEPS + 1):
        starts = rng.randint(0, len(text) - LENGTH, BATCH)
        batch = np.stack([text[i:i + LENGTH + 1] for i in starts])
        value, _ = sess.run([loss, train], {pieces: batch})
        if step % 50 == 0:
            print("step %4d: %.3f bits a character" % (step, value / np.log(2)))
    print("It writes:")
    line = sess.run(characters, {first: ord("\n"), count: 400})
    print("".join(chr(c) if c >= 32 or c == 10 else "?" for c in line))
