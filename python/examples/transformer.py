"""A small transformer (Vaswani et al., 2017) learns to sort sequences.

It reads a sequence, and writes its numbers in order, each after those that it
wrote before. examples/transformer.cc is the same in C++, with the same names of
variables.

  python3 transformer.py [STEPS]
"""

import sys

import sluice as sl

BATCH, LENGTH, NUMBERS, MODEL, HEADS = 64, 8, 16, 32, 2
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600


def unique(name):
    return sl.variable_scope(None, default_name=name)


def normalized(x):
    with unique("layer_normalization"):
        gamma = sl.get_variable("gamma", [MODEL], initializer=sl.ones_initializer)
        beta = sl.get_variable("beta", [MODEL], initializer=sl.zeros_initializer)
        mean, variance = sl.nn.moments(x, [-1], keep_dims=True)
        return sl.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def linear(x, name, kernel, bias):
    """A linear function of the last dimensions of x, which `kernel` has first."""
    with sl.variable_scope(name):
        w = sl.get_variable("kernel", kernel)
        b = sl.get_variable("bias", bias, initializer=sl.zeros_initializer)
        axes = len(kernel) - len(bias)
        rank = x.shape.ndims
        return sl.tensordot(x, w, [list(range(rank - axes, rank)),
                                   list(range(axes))]) + b


def attention(x, value, causal=False):
    size = MODEL // HEADS
    with unique("multi_head_attention"):
        q, k, v = (linear(of, name, [MODEL, HEADS, size], [HEADS, size])
                   for of, name in ((x, "query"), (value, "key"),
                                    (value, "value")))
        scores = sl.einsum("bthd,bshd->bhts", q, k) * size ** -0.5
        if causal:
            later = 1 - sl.matrix_band_part(sl.ones([LENGTH, LENGTH]), -1, 0)
            scores -= 1e9 * later
        seen = sl.einsum("bhts,bshd->bthd", sl.nn.softmax(scores), v)
        return linear(seen, "attention_output", [HEADS, size, MODEL], [MODEL])


def gelu(x):
    return 0.5 * x * (1 + sl.erf(x / 2 ** 0.5))


def thought(h):
    return h + sl.layers.dense(
        sl.layers.dense(normalized(h), 4 * MODEL, gelu), MODEL)


def embedded(words):
    with unique("embedding"):
        table = sl.get_variable(
            "embeddings", [NUMBERS + 1, MODEL],
            initializer=sl.random_uniform_initializer(-0.05, 0.05))
    places = sl.get_variable("places", [LENGTH, MODEL],
                             initializer=sl.random_normal_initializer(0, 0.1))
    return sl.nn.embedding_lookup(table, words) + places


def transformer(sequence, before):
    """Returns the logits of each number, from the numbers before."""
    with sl.variable_scope("transformer", reuse=sl.AUTO_REUSE):
        with sl.variable_scope("reader"):
            h = embedded(sequence)
            x = normalized(h)
            memory = normalized(thought(h + attention(x, x)))
        with sl.variable_scope("writer"):
            h = embedded(before)
            x = normalized(h)
            h += attention(x, x, causal=True)
            h = thought(h + attention(normalized(h), memory))
            return sl.layers.dense(normalized(h), NUMBERS)


def shifted(words):
    """What comes before each word; before the first, a word of its own."""
    return sl.concat([sl.fill([BATCH, 1], NUMBERS), words[:, :-1]], 1)


def written_after(words):
    return sl.argmax(transformer(sequence, shifted(words)), 2,
                     output_type=sl.int32)


sl.set_random_seed(1)
sequence = sl.random_uniform([BATCH, LENGTH], 0, NUMBERS, sl.int32, seed=3)
in_order = -sl.nn.top_k(-sequence, LENGTH)[0]
loss = sl.losses.sparse_softmax_cross_entropy(
    in_order, transformer(sequence, shifted(in_order)))
train = sl.train.AdamOptimizer(3e-3).minimize(loss)
# After training: number by number, each after the model's own.
_, written = sl.while_loop(
    lambda i, words: i < LENGTH,
    lambda i, words: (i + 1, written_after(words)),
    [0, sl.zeros([BATCH, LENGTH], sl.int32)])
right = sl.reduce_mean(sl.cast(
    sl.reduce_all(sl.equal(written, in_order), 1), sl.float32))

with sl.Session() as session:
    session.run(sl.global_variables_initializer())
    for step in range(1, STEPS + 1):
        value, _ = session.run([loss, train])
        if step % 100 == 0:
            print(f"step {step:3}: loss {value:.3f}")
    read, wrote, share = session.run([sequence, written, right])
    print("read", *read[0], end="")
    print(", wrote", *wrote[0], end="")
    print(f"; right: {share:.2f}")
