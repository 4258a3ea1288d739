#!/usr/bin/env python3
"""Compares Sluice's training step of a small transformer with TensorFlow's,
PyTorch's and JAX's, in milliseconds, on this machine.

    bench/transformer_peers.py [--sluice build/release/bin/sluice] [--turns 3]

The model of bench/transformer.cc: 2 layers with normalisation before attention
and before the inner layer, 8 sequences of 128 words, a model of 256 with 4
heads, an inner layer of 1024, 1000 words, causal, Adam. Needs a Python with the
peers; those that it lacks are skipped. TensorFlow runs a compiled tf.function,
with and without XLA; PyTorch eagerly, and with torch.compile; JAX jitted; the
fastest of each counts. All alternate, `turns` times, in separate processes; a
turn is the best of 20 steps, and the columns are the medians of the turns.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
B, T, M, H, F, LAYERS, WORDS = 8, 128, 256, 4, 1024, 2, 1000


def shapes():
    """Returns the names and shapes of the parameters."""
    made = {"words": (WORDS, M), "places": (T, M)}
    for i in range(LAYERS):
        for name in ("q", "k", "v", "o"):
            made[f"{i}{name}"], made[f"{i}{name}b"] = (M, M), (M,)
        for name in ("n1", "n2"):
            made[f"{i}{name}"], made[f"{i}{name}b"] = (M,), (M,)
        made[f"{i}f"], made[f"{i}fb"] = (M, F), (F,)
        made[f"{i}g"], made[f"{i}gb"] = (F, M), (M,)
    made["n"], made["nb"] = (M,), (M,)
    made["w"], made["wb"] = (M, WORDS), (WORDS,)
    return made


def parameters(np):
    draws = np.random.RandomState(5)
    return {name: (draws.normal(size=shape) * 0.05).astype("float32")
            for name, shape in shapes().items()}


def batches(np):
    draws = np.random.RandomState(11)
    return [draws.randint(0, WORDS, [B, T]).astype("int32") for _ in range(2)]


def model(p, words, lib):
    """Returns the logits, by functions of `lib`."""
    h = lib.rows(p["words"], words) + p["places"]
    for i in range(LAYERS):
        def linear(x, name):
            return lib.matmul(x, p[f"{i}{name}"]) + p[f"{i}{name}b"]

        def heads(x):
            return lib.transpose(lib.reshape(x, [B, T, H, M // H]))

        x = lib.norm(h, p[f"{i}n1"], p[f"{i}n1b"])
        seen = lib.attend(heads(linear(x, "q")), heads(linear(x, "k")),
                          heads(linear(x, "v")))
        h = h + linear(lib.reshape(lib.transpose(seen), [B, T, M]), "o")
        x = lib.norm(h, p[f"{i}n2"], p[f"{i}n2b"])
        h = h + linear(lib.relu(linear(x, "f")), "g")
    return lib.matmul(lib.norm(h, p["n"], p["nb"]), p["w"]) + p["wb"]


def best(step, times=20):
    for _ in range(3):
        step()
    shortest = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        step()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest * 1e3


def tensorflow_ms():
    import numpy as np
    import tensorflow as tf
    causal = np.triu(np.full([T, T], -1e9, "float32"), 1)

    class Lib:
        rows, matmul, reshape, relu = tf.gather, tf.matmul, tf.reshape, (
            tf.nn.relu)

        @staticmethod
        def transpose(x):
            return tf.transpose(x, [0, 2, 1, 3])

        @staticmethod
        def norm(x, gamma, beta):
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma,
                                             1e-3)

        @staticmethod
        def attend(q, k, v):
            scores = tf.matmul(q, k, transpose_b=True) * (M // H) ** -0.5
            return tf.matmul(tf.nn.softmax(scores + causal), v)

    x, y = map(tf.constant, batches(np))

    def timed(xla):
        p = {n: tf.Variable(v) for n, v in parameters(np).items()}
        names = list(p)
        adam = tf.keras.optimizers.Adam(1e-3)
        adam.build([p[n] for n in names])

        @tf.function(jit_compile=xla)
        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(
                        y, model(p, x, Lib)))
            adam.apply_gradients(zip(
                tape.gradient(loss, [p[n] for n in names]),
                [p[n] for n in names]))
            return loss
        return best(lambda: step().numpy())
    times = [timed(False)]
    try:
        times.append(timed(True))
    except Exception as e:  # Not every build has XLA for this.
        print(f"TensorFlow without XLA: {e!r:.200}", file=sys.stderr)
    return min(times)


def torch_ms():
    import numpy as np
    import torch
    import torch.nn.functional as F_
    torch.set_num_threads(os.cpu_count())

    class Lib:
        relu = torch.relu

        @staticmethod
        def rows(table, ids):
            return F_.embedding(ids, table)

        @staticmethod
        def matmul(x, w):
            return x @ w

        @staticmethod
        def reshape(x, shape):
            return x.reshape(shape)

        @staticmethod
        def transpose(x):
            return x.transpose(1, 2)

        @staticmethod
        def norm(x, gamma, beta):
            return F_.layer_norm(x, [M], gamma, beta, 1e-3)

        @staticmethod
        def attend(q, k, v):
            return F_.scaled_dot_product_attention(q, k, v, is_causal=True)

    x, y = (torch.tensor(b, dtype=torch.int64) for b in batches(np))

    def timed(compiled):
        p = {n: torch.tensor(v, requires_grad=True)
             for n, v in parameters(np).items()}
        adam = torch.optim.Adam(list(p.values()), 1e-3, foreach=True)

        def loss_of():
            return F_.cross_entropy(model(p, x, Lib).reshape(-1, WORDS),
                                    y.reshape(-1))
        forward = torch.compile(loss_of) if compiled else loss_of

        def step():
            adam.zero_grad()
            loss = forward()
            loss.backward()
            adam.step()
            return loss.item()
        return best(step)
    times = [timed(False)]
    try:
        times.append(timed(True))
    except Exception as e:  # It needs a C++ compiler that it likes.
        print(f"PyTorch without torch.compile: {e!r:.200}", file=sys.stderr)
    return min(times)


def jax_ms():
    import jax
    import jax.numpy as jnp
    import numpy as np
    causal = np.triu(np.full([T, T], -1e9, "float32"), 1)

    class Lib:
        matmul, reshape, relu = jnp.matmul, jnp.reshape, jax.nn.relu

        @staticmethod
        def rows(table, ids):
            return table[ids]

        @staticmethod
        def transpose(x):
            return jnp.transpose(x, [0, 2, 1, 3])

        @staticmethod
        def norm(x, gamma, beta):
            mean = jnp.mean(x, -1, keepdims=True)
            variance = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
            return (x - mean) * jax.lax.rsqrt(variance + 1e-3) * gamma + beta

        @staticmethod
        def attend(q, k, v):
            scores = jnp.einsum("bhtd,bhsd->bhts", q, k) * (M // H) ** -0.5
            return jnp.einsum("bhts,bhsd->bhtd",
                              jax.nn.softmax(scores + causal), v)

    x, y = map(jnp.asarray, batches(np))

    def loss_of(p):
        logs = jax.nn.log_softmax(model(p, x, Lib))
        return -jnp.mean(jnp.take_along_axis(logs, y[..., None], -1))

    @jax.jit
    def update(state):
        p, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(p)
        tree = jax.tree_util.tree_map
        m = tree(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = tree(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        rate = 1e-3 * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
        p = tree(lambda w, a, b: w - rate * a / (jnp.sqrt(b) + 1e-8), p, m, v)
        return (p, m, v, t + 1), loss

    p = {n: jnp.asarray(v) for n, v in parameters(np).items()}
    zeros = {n: jnp.zeros_like(v) for n, v in p.items()}
    state = [(p, zeros, zeros, jnp.float32(1))]

    def step():
        state[0], loss = update(state[0])
        return float(loss)
    return best(step)


def sluice_ms(sluice):
    # The command makes OpenMP's threads sleep soon after a kernel, for machines
    # with other work (docs/design/014-one-thread-team.md). Here they wait as
    # those of PyTorch, and of C++ programs that use Sluice, do by default.
    env = {"GOMP_SPINCOUNT": "300000", **os.environ}
    text = subprocess.run(
        [sluice, "bench", "--json", "--filter", "transformer.step_ms"],
        check=True, capture_output=True, text=True, env=env).stdout
    return json.loads(text)["value"]


PEERS = {"tensorflow": tensorflow_ms, "torch": torch_ms, "jax": jax_ms}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(PEERS[args.one]())
        return
    times = {}
    for _ in range(args.turns):
        times.setdefault("sluice", []).append(sluice_ms(args.sluice))
        for name in PEERS:
            if importlib.util.find_spec(name) is None:
                continue
            done = subprocess.run([sys.executable, __file__, "--one", name],
                                  check=True, capture_output=True, text=True)
            sys.stderr.write("".join(
                line + "\n" for line in done.stderr.splitlines()
                if " without " in line))
            times.setdefault(name, []).append(
                float(done.stdout.split()[-1]))
    medians = {name: statistics.median(t) for name, t in times.items()}
    for name, ms in medians.items():
        print(f"{name:12}{ms:9.2f} ms")
    peers = [ms for name, ms in medians.items() if name != "sluice"]
    if peers:
        print(f"best peer / sluice: {min(peers) / medians['sluice']:.2f}")


if __name__ == "__main__":
    main()
