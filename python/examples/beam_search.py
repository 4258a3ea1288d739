"""Beam search in the graph, with an exit of its own for each sample.

A decoder learns to spell words, several for each topic. The likeliest word of a
topic begins with a letter that most of its words do not begin with, so taking
the likeliest letter at each step misses it. A loop searches for it with a beam
of hypotheses, and ends as soon as none can overtake the best finished one. Each
sample has its own loop: the program never thinks about batches.

  python3 beam_search.py
"""

import numpy as np

import sluice.compat.v1 as tf

TOPICS, LETTERS, LONGEST, UNITS, END = 20, 8, 10, 32, 0

tf.set_random_seed(1)
cell = tf.nn.rnn_cell.GRUCell(UNITS)
topics = tf.get_variable("topics", [TOPICS, UNITS])
letters = tf.get_variable("letters", [1 + LETTERS, UNITS])
out = tf.get_variable("out", [UNITS, 1 + LETTERS])


def log_probabilities(letter, state):
    """Returns those of the next letter after `letter`, and the next state."""
    output, state = cell(tf.gather(letters, letter), state)
    return tf.nn.log_softmax(tf.matmul(output, out)), state


# Learning: the probability of the letters of words, each padded with END.
topic = tf.placeholder(tf.int32, [None])
words = tf.placeholder(tf.int32, [None, LONGEST + 1])
state, before, losses = tf.gather(topics, topic), tf.zeros_like(topic), []
for t in range(LONGEST + 1):
    guess, state = log_probabilities(before, state)
    losses.append(-tf.reduce_sum(guess * tf.one_hot(words[:, t], 1 + LETTERS)))
    before = words[:, t]
loss = tf.add_n(losses) / tf.to_float(tf.size(topic))
train = tf.train.AdamOptimizer(0.01).minimize(loss)


def search(topic, width):
    """Returns (the word, its log probability, the number of steps)."""
    def may_be_overtaken(t, last, states, scores, found, word, score):
        return tf.logical_and(t <= LONGEST, tf.reduce_max(scores) > score)

    def step(t, last, states, scores, found, word, score):
        guess, states = log_probabilities(last, states)
        total = tf.expand_dims(scores, 1) + guess
        # A hypothesis that ends here may be the best so far.
        ended = tf.argmax(total[:, END])
        better = total[ended, END] > score
        word = tf.cond(better, lambda: found[ended], lambda: word)
        score = tf.maximum(total[ended, END], score)
        # The best ones that go on.
        scores, best = tf.nn.top_k(tf.reshape(total[:, 1:], [-1]), width)
        came_from, last = best // LETTERS, best % LETTERS + 1
        found = tf.gather(found, came_from) + (
            tf.expand_dims(last, 1) * tf.one_hot(t, LONGEST + 1,
                                                 dtype=tf.int32))
        return (t + 1, last, tf.gather(states, came_from), scores, found, word,
                score)

    start = tf.tile(tf.gather(topics, [topic]), [width, 1])
    one = tf.constant([0.0] + [-np.inf] * (width - 1))  # All begin alike.
    steps, _, _, _, _, word, score = tf.while_loop(
        may_be_overtaken, step,
        (0, tf.zeros([width], tf.int32), start, one,
         tf.zeros([width, LONGEST + 1], tf.int32),
         tf.zeros([LONGEST + 1], tf.int32), -np.inf), name="search")
    return word, score, steps


def searched(width):
    return tf.map_fn(lambda topic: search(topic, width), tf.range(TOPICS),
                     (tf.int32, tf.float32, tf.int32),
                     parallel_iterations=TOPICS)


# The words of a topic: a likely one, and six that share another first letter.
rng = np.random.RandomState(1)
lexicon = np.zeros([TOPICS, 7, LONGEST + 1], int)
for of_topic in lexicon:
    first = rng.permutation(LETTERS)[:2] + 1
    for i, spelled in enumerate(of_topic):
        length = rng.randint(3, LONGEST + 1)
        spelled[:length] = rng.randint(1, LETTERS + 1, length)
        spelled[0] = first[min(i, 1)]
        spelled[1] = i + 1
frequency = [0.4] + [0.1] * 6

greedy, beam = searched(1), searched(4)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(301):
        chosen = rng.randint(0, TOPICS, 100)
        sample = lexicon[chosen, rng.choice(7, 100, p=frequency)]
        value, _ = sess.run([loss, train], {topic: chosen, words: sample})
        if i % 100 == 0:
            print("step %3d: loss %.3f" % (i, value))
    for name, how in ("the likeliest letters", greedy), ("a beam of 4", beam):
        found, scores, steps = sess.run(how)
        right = (found == lexicon[:, 0]).all(1)
        print("%s: the likeliest word of %d in %d topics, in %d to %d steps" % (
            name, right.sum(), TOPICS, steps.min(), steps.max()))
