"""A Tree-LSTM (Tai, Socher and Manning 2015) for the sentiment of sentences.

It composes the sentiment of a sentence along its parse tree. The program says
what happens at a node and where its children are: by a function that calls
itself for them (calls), or by a loop through all nodes in any order, where each
waits for what its children write to a store (store). It never thinks about
batches: the session finds what can be computed together.

  python3 tree_lstm.py [binary|child_sum] [calls|store] [--file TRAIN TEST]

Without files in the format of the Stanford Sentiment Treebank, it makes
sentences up.
"""

import sys

import numpy as np

import made_treebank
import sluice
import sluice.compat.v1 as tf

UNITS, LABELS, BATCH, EPOCHS = 16, 5, 20, 6
CHILD_SUM, BY_STORE = "child_sum" in sys.argv, "store" in sys.argv

if "--file" in sys.argv:
    first, second = sys.argv[sys.argv.index("--file") + 1:][:2]
    train_bank = sluice.read_treebank(first)
    test_bank = sluice.read_treebank(second, vocabulary=train_bank.words)
else:
    made = made_treebank.sentences(800, seed=1)
    train_bank = sluice.parse_treebank("".join(made[:600]))
    test_bank = sluice.parse_treebank("".join(made[600:]),
                                      vocabulary=train_bank.words)

# All nodes of a treebank as columns; the roots and the nodes of some sentences.
left, right, word, label, roots, nodes = [
    tf.placeholder(tf.int32, [None]) for _ in range(6)]

tf.set_random_seed(1)
leaf_w = tf.get_variable("leaf", [len(train_bank.words) + 1, 2 * UNITS],
                         initializer=tf.random_normal_initializer(0, 0.5))
rows, gates = (UNITS, 3) if CHILD_SUM else (2 * UNITS, 5)
inner_w = tf.get_variable("inner", [rows, gates * UNITS])
inner_b = tf.get_variable("inner_bias", initializer=tf.zeros([gates * UNITS]))
forget_w = tf.get_variable("forget", [UNITS, UNITS])
forget_b = tf.get_variable("forget_bias", initializer=tf.ones([UNITS]))
out = tf.get_variable("out", [UNITS, LABELS])


def new_state(memory, gate):
    """Returns the state of a node, a row: its memory, then its output."""
    return tf.concat([memory, tf.sigmoid(gate) * tf.tanh(memory)], 1)


def leaf(of_word):
    return new_state(*tf.split(tf.gather(leaf_w, [of_word]), 2, 1))


def inner(*children):
    parts = [tf.split(child, 2, 1) for child in children]
    if CHILD_SUM:  # As for any number of children, in any order.
        total = tf.add_n([h for _, h in parts])
        i, u, o = tf.split(tf.matmul(total, inner_w) + inner_b, 3, 1)
        forget = [tf.matmul(h, forget_w) + forget_b for _, h in parts]
    else:
        both = tf.concat([h for _, h in parts], 1)
        i, u, *forget, o = tf.split(tf.matmul(both, inner_w) + inner_b, 5, 1)
    memory = tf.sigmoid(i) * tf.tanh(u)
    for (c, _), f in zip(parts, forget):
        memory += c * tf.sigmoid(f)
    return new_state(memory, o)


def logits_of(states):
    return tf.matmul(states[:, UNITS:], out)


def loss_of(states, labels):
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits_of(states)))


def by_calls():
    """Returns the states of the roots and the loss of all nodes."""
    # The function is declared first, because its body calls it.
    tree = tf.Declare("tree", [("node", tf.int32)],
                      [("state", tf.float32), ("loss", tf.float32)])

    def call(node):
        state, loss = tree(node)
        state.set_shape([1, 2 * UNITS])
        loss.set_shape([])
        return state, loss

    def of_children(child, other):
        (a, a_loss), (b, b_loss) = call(child), call(other)
        return inner(a, b), a_loss + b_loss

    @tf.Defun(tf.int32, func_name="tree", out_names=["state", "loss"])
    def define_tree(node):
        node.set_shape([])
        child = tf.gather(left, node)
        state, loss = tf.cond(
            child < 0, lambda: (leaf(tf.gather(word, node)), 0.0),
            lambda: of_children(child, tf.gather(right, node)))
        return state, loss + loss_of(state, tf.gather(label, [node]))

    states, losses = tf.map_fn(define_tree, roots, (tf.float32, tf.float32),
                               parallel_iterations=1000)
    return tf.reshape(states, [-1, 2 * UNITS]), tf.reduce_sum(losses)


def by_store():
    """Returns the states of the roots and the loss of all nodes."""
    states = sluice.TensorStore(tf.float32, element_shape=[1, 2 * UNITS])

    def at(i):
        node = tf.gather(nodes, i)
        child = tf.gather(left, node)
        states.write(node, tf.cond(
            child < 0, lambda: leaf(tf.gather(word, node)),
            lambda: inner(states.read(child),
                          states.read(tf.gather(right, node)))))
        return i + 1

    tf.while_loop(lambda i: i < tf.size(nodes), at, [0],
                  parallel_iterations=10000)

    def rows_of(which):
        return tf.reshape(states.read_many(which), [-1, 2 * UNITS])

    return rows_of(roots), loss_of(rows_of(nodes), tf.gather(label, nodes))


root_states, loss = by_store() if BY_STORE else by_calls()
guess = tf.argmax(logits_of(root_states), 1, output_type=tf.int32)
accuracy = tf.reduce_mean(tf.to_float(tf.equal(guess, tf.gather(label, roots))))
train = tf.train.AdamOptimizer(0.03).minimize(loss / BATCH)


def sentences(bank, numbers):
    """Feeds the sentences of these numbers; the order of their nodes is any."""
    begins = np.append(0, bank.roots[:-1] + 1)
    all_nodes = np.concatenate([
        np.arange(begins[n], bank.roots[n] + 1) for n in numbers])
    return {left: bank.left, right: bank.right, word: bank.word,
            label: bank.label, roots: bank.roots[numbers],
            nodes: rng.permutation(all_nodes)}


rng = np.random.RandomState(1)
with tf.Session(config=tf.ConfigProto(batch_frames=True)) as sess:
    sess.run(tf.global_variables_initializer())
    for epoch in range(1, EPOCHS + 1):
        order = rng.permutation(len(train_bank.roots))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            sess.run(train, sentences(train_bank, order[at:at + BATCH]))
        print("epoch %2d: accuracy %.3f on unseen sentences" % (
            epoch, sess.run(accuracy, sentences(
                test_bank, np.arange(len(test_bank.roots))))))
