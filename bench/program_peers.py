#!/usr/bin/env python3
"""Compares programs that scientists write, in Python, with JAX (jitted), in
milliseconds, on this machine.

    bench/program_peers.py [--filter NAME] [--turns 3] [--python PYTHON]

Loops whose steps are small or depend on data, most with their gradients, and
models with gathers, segments and factorisations. Both sides compute the same
from the same numbers, which --check compares. Run with a Python that has JAX;
Sluice's side runs in `--python`, whose default is python3. The sides alternate
in separate processes; a turn is the best of 15 runs, and the columns are the
medians of the turns.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

PYTHON_CLIENT = pathlib.Path(__file__).parent.parent / "build/release/python"


def f32(x):
    return np.asarray(x, np.float32)


def data():
    """Returns the programs' inputs, by program and name."""
    r = np.random.RandomState(0)
    normal = lambda *shape: f32(r.randn(*shape))
    square = r.randn(300, 300)
    spd = r.randn(200, 32, 32)
    return {
        "runge_kutta_grad": dict(x=f32(r.uniform(.5, 1.5, (256, 2))),
                                 p=f32([1.1, .4, .1, .4])),
        "sinkhorn_grad": dict(c=f32(r.uniform(0, 1, (200, 200)))),
        "kalman_grad": dict(
            a=f32(np.eye(8) * .95 + r.randn(8, 8) * .02), h=normal(4, 8),
            z=normal(500, 4)),
        "n_body": dict(p=normal(128, 3)),
        "power_iteration": dict(m=f32(square @ square.T / 300)),
        "gru_grad": dict(x=normal(50, 64, 128), w=normal(256, 256) * f32(.05),
                         c=normal(256, 128) * f32(.05)),
        "particle_filter": dict(z=normal(200), e=normal(200, 1000)),
        "crf_grad": dict(e=normal(40, 32, 50), t=normal(50, 50)),
        "sgd_in_loop": dict(d=normal(512, 20), y=f32(r.uniform(size=512) > .5)),
        "nearest": dict(q=normal(1000, 32)),
        "mandelbrot": dict(
            re=f32(np.tile(np.linspace(-2, .5, 256), (256, 1))),
            im=f32(np.tile(np.linspace(-1.2, 1.2, 256)[:, None], (1, 256)))),
        "conv1d_grad": dict(x=normal(32, 200, 64),
                            w=normal(5, 64, 128) * f32(.05)),
        "norm_mlp_grad": dict(x=normal(256, 512), a=normal(512, 1024) * f32(.03),
                              b=normal(1024, 512) * f32(.03)),
        "graph_attention_grad": dict(
            h=normal(1000, 64), a=normal(64),
            s=r.randint(0, 1000, 5000).astype(np.int32),
            d=np.sort(r.randint(0, 1000, 5000)).astype(np.int32)),
        "viterbi": dict(e=normal(100, 16, 64), t=normal(64, 64)),
        "heat_grad": dict(u=normal(128, 128)),
        "mixture_em": dict(p=normal(2000, 8)),
        "fft_convolution": dict(a=normal(64, 4096), b=normal(64, 4096)),
        "cholesky_grad": dict(
            b=f32(spd @ spd.transpose(0, 2, 1) + 32 * np.eye(32)),
            y=normal(200, 32, 1)),
    }


class Sluice:
    """The programs in Sluice: each returns what is fetched."""

    def __init__(self):
        sys.path.insert(0, str(PYTHON_CLIENT))
        import sluice
        self.tf = sluice

    def prepare(self, name, inputs):
        tf = self.tf
        graph = tf.Graph()
        with graph.as_default():
            # (Variables, which are not folded.)
            values = {k: tf.Variable(v, use_resource=True).read_value()
                      for k, v in inputs.items()}
            fetched = getattr(self, name)(tf, **values)
            session = tf.Session()
            session.run(tf.global_variables_initializer())
            return session.make_callable(fetched)

    def runge_kutta_grad(self, tf, x, p):
        def slope(x):
            a, b = x[:, 0], x[:, 1]
            return tf.stack([p[0] * a - p[1] * a * b,
                             p[2] * a * b - p[3] * b], 1)

        def step(i, x, h=.01):
            k1 = slope(x)
            k2 = slope(x + h / 2 * k1)
            k3 = slope(x + h / 2 * k2)
            return i + 1, x + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(x + h * k3))
        x = tf.while_loop(lambda i, x: i < 1000, step, [0, x])[1]
        return tf.gradients(tf.reduce_sum(x * x), p)

    def sinkhorn_grad(self, tf, c):
        k = tf.exp(-c / .05)

        def step(i, u, v):
            u = (1 / 200) / tf.matmul(k, v)
            return i + 1, u, (1 / 200) / tf.matmul(k, u, transpose_a=True)
        ones = tf.ones([200, 1])
        _, u, v = tf.while_loop(lambda i, *_: i < 100, step, [0, ones, ones])
        return tf.gradients(tf.reduce_sum(u * k * tf.transpose(v) * c), c)

    def kalman_grad(self, tf, a, h, z):
        rows = tf.TensorArray(tf.float32, 500).unstack(z)

        def step(i, m, p, loss):
            m = tf.matmul(a, m)
            p = tf.matmul(tf.matmul(a, p), a, transpose_b=True) + tf.eye(8) * .1
            s = tf.matmul(tf.matmul(h, p), h, transpose_b=True) + tf.eye(4) * .5
            gain = tf.transpose(tf.matrix_solve(s, tf.matmul(h, p)))
            r = rows.read(i)[:, None] - tf.matmul(h, m)
            loss += tf.reduce_sum(r * tf.matrix_solve(s, r))
            return (i + 1, m + tf.matmul(gain, r),
                    p - tf.matmul(tf.matmul(gain, h), p), loss)
        loss = tf.while_loop(lambda i, *_: i < 500, step,
                             [0, tf.zeros([8, 1]), tf.eye(8), 0.0])[3]
        return tf.gradients(loss, a)

    def n_body(self, tf, p):
        def step(i, p, v):
            d = p[None] - p[:, None]
            near = tf.reduce_sum(d * d, -1) + .1
            v += .01 * tf.reduce_sum(d * (near ** -1.5)[..., None], 1)
            return i + 1, p + .01 * v, v
        return [tf.while_loop(lambda i, *_: i < 100, step,
                              [0, p, tf.zeros([128, 3])])[1]]

    def power_iteration(self, tf, m):
        def step(i, x, change):
            y = tf.matmul(m, x)
            y /= tf.norm(y)
            return i + 1, y, tf.reduce_max(tf.abs(y - x))
        return [tf.while_loop(lambda i, x, change: (change > 1e-5) & (i < 1000),
                              step, [0, tf.ones([300, 1]) / 17.3, 1.0])[1]]

    def gru_grad(self, tf, x, w, c):
        rows = tf.TensorArray(tf.float32, 50).unstack(x)

        def step(i, h):
            x = rows.read(i)
            r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), w)), 2, 1)
            new = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), c))
            return i + 1, u * h + (1 - u) * new
        h = tf.while_loop(lambda i, h: i < 50, step, [0, tf.zeros([64, 128])])[1]
        return tf.gradients(tf.reduce_sum(h * h), [w, c])

    def particle_filter(self, tf, z, e):
        seen = tf.TensorArray(tf.float32, 200).unstack(z)
        noise = tf.TensorArray(tf.float32, 200).unstack(e)
        places = (tf.range(1000, dtype=tf.float32) + .5) / 1000

        def step(i, x, means):
            x = .9 * x + noise.read(i)
            sums = tf.cumsum(tf.nn.softmax(-.5 * (seen.read(i) - x) ** 2))
            chosen = tf.minimum(tf.searchsorted(sums, places), 999)
            return i + 1, tf.gather(x, chosen), means.write(i, tf.reduce_mean(x))
        means = tf.while_loop(
            lambda i, *_: i < 200, step,
            [0, tf.zeros([1000]), tf.TensorArray(tf.float32, 200)])[2]
        return [means.stack()]

    def crf_grad(self, tf, e, t):
        rows = tf.TensorArray(tf.float32, 40, clear_after_read=False).unstack(e)
        a = tf.while_loop(
            lambda i, a: i < 40,
            lambda i, a: (i + 1, tf.reduce_logsumexp(a[:, :, None] + t[None], 1)
                          + rows.read(i)), [1, rows.read(0)])[1]
        return tf.gradients(tf.reduce_sum(tf.reduce_logsumexp(a, 1)), [e, t])

    def sgd_in_loop(self, tf, d, y):
        def step(i, w):
            loss = tf.reduce_mean(
                tf.nn.softplus(-(2 * y - 1) * tf.matmul(d, w)[:, 0]))
            return i + 1, w - .1 * tf.gradients(loss, w)[0]
        return [tf.while_loop(lambda i, w: i < 500, step,
                              [0, tf.zeros([20, 1])])[1][:, 0]]

    def nearest(self, tf, q):
        s = tf.reduce_sum(q * q, 1)
        return [tf.nn.top_k(-(s[:, None] + s[None] - 2 * tf.matmul(
            q, q, transpose_b=True)), 10).values]

    def mandelbrot(self, tf, re, im):
        def step(i, x, y, n):
            x2, y2 = x * x - y * y + re, 2 * x * y + im
            inside = x2 * x2 + y2 * y2 < 4.
            return (i + 1, tf.where(inside, x2, x), tf.where(inside, y2, y),
                    n + tf.cast(inside, tf.int32))
        zeros = tf.zeros([256, 256])
        return [tf.while_loop(lambda i, *_: i < 50, step,
                              [0, zeros, zeros, tf.cast(zeros, tf.int32)])[3]]

    def conv1d_grad(self, tf, x, w):
        y = tf.reduce_max(tf.nn.relu(tf.nn.conv1d(x, w, 1, "SAME")), 1)
        return tf.gradients(tf.reduce_sum(y ** 2), w)

    def norm_mlp_grad(self, tf, x, a, b):
        mean = tf.reduce_mean(x, -1, keepdims=True)
        spread = tf.reduce_mean((x - mean) ** 2, -1, keepdims=True)
        z = tf.matmul((x - mean) / tf.sqrt(spread + 1e-5), a)
        z = .5 * z * (1 + tf.tanh(0.7978845608 * (z + .044715 * z ** 3)))
        return tf.gradients(tf.reduce_sum((tf.matmul(z, b) + x) ** 2), [a, b])

    def graph_attention_grad(self, tf, h, a, s, d):
        from_ = tf.gather(h, s)
        e = tf.nn.leaky_relu(tf.matmul(from_ * tf.gather(h, d),
                                       a[:, None])[:, 0], .01)
        w = tf.exp(e - tf.gather(tf.unsorted_segment_max(e, d, 1000), d))
        w /= tf.gather(tf.unsorted_segment_sum(w, d, 1000), d)
        y = tf.unsorted_segment_sum(w[:, None] * from_, d, 1000)
        return [tf.convert_to_tensor(g)
                for g in tf.gradients(tf.reduce_sum(y ** 2), [h, a])]

    def viterbi(self, tf, e, t):
        rows = tf.TensorArray(tf.float32, 100, clear_after_read=False).unstack(e)

        def step(i, s, best):
            z = s[:, :, None] + t[None]
            return (i + 1, tf.reduce_max(z, 1) + rows.read(i),
                    best.write(i, tf.argmax(z, 1, output_type=tf.int32)))
        _, s, best = tf.while_loop(
            lambda i, *_: i < 100, step,
            [1, rows.read(0), tf.TensorArray(tf.int32, 100)])
        last = tf.argmax(s, 1, output_type=tf.int32)

        def back(i, k, path):
            k = tf.gather_nd(best.read(i), tf.stack([tf.range(16), k], 1))
            return i - 1, k, path.write(i - 1, k)
        return [tf.while_loop(
            lambda i, *_: i > 0, back,
            [99, last, tf.TensorArray(tf.int32, 100).write(99, last)])[2].stack()]

    def heat_grad(self, tf, u):
        def step(i, u):
            around = (tf.roll(u, 1, 0) + tf.roll(u, -1, 0) + tf.roll(u, 1, 1)
                      + tf.roll(u, -1, 1))
            return i + 1, u + .2 * (around - 4 * u)
        end = tf.while_loop(lambda i, u: i < 200, step, [0, u])[1]
        return tf.gradients(tf.reduce_sum(end ** 3), u)

    def mixture_em(self, tf, p):
        def step(i, mean, var, share):
            parts = tf.reduce_sum((p[:, None] - mean) ** 2 / var + tf.log(var), -1)
            r = tf.nn.softmax(-.5 * parts + tf.log(share))
            n = tf.reduce_sum(r, 0)
            mean = tf.matmul(r, p, transpose_a=True) / n[:, None]
            var = tf.einsum("nk,nkd->kd", r, (p[:, None] - mean) ** 2)
            return i + 1, mean, var / n[:, None] + 1e-3, n / 2000
        return [tf.while_loop(lambda i, *_: i < 30, step,
                              [0, p[:10], tf.ones([10, 8]), tf.ones([10]) / 10])[1]]

    def fft_convolution(self, tf, a, b):
        return [tf.signal.irfft(tf.signal.rfft(a) * tf.signal.rfft(b))]

    def cholesky_grad(self, tf, b, y):
        low = tf.cholesky(b)
        z = tf.matrix_triangular_solve(low, y)
        logs = tf.log(tf.matrix_diag_part(low))
        return tf.gradients(tf.reduce_sum(z * z) + 2 * tf.reduce_sum(logs), b)


class Jax:
    """The programs in JAX: each returns what is compared."""

    def __init__(self):
        import jax
        self.jax = jax

    def prepare(self, name, inputs):
        jax = self.jax
        program = getattr(self, name)
        order = list(inputs)
        compiled = jax.jit(lambda *values: program(
            jax, jax.numpy, jax.lax, **dict(zip(order, values))))
        values = [jax.numpy.asarray(inputs[k]) for k in order]
        return lambda: jax.block_until_ready(compiled(*values))

    def runge_kutta_grad(self, jax, np, lax, x, p):
        def loss(p):
            def slope(x):
                a, b = x[:, 0], x[:, 1]
                return np.stack([p[0] * a - p[1] * a * b,
                                 p[2] * a * b - p[3] * b], 1)

            def step(x, _, h=.01):
                k1 = slope(x)
                k2 = slope(x + h / 2 * k1)
                k3 = slope(x + h / 2 * k2)
                k4 = slope(x + h * k3)
                return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None
            return np.sum(lax.scan(step, x, None, length=1000)[0] ** 2)
        return [jax.grad(loss)(p)]

    def sinkhorn_grad(self, jax, np, lax, c):
        def loss(c):
            k = np.exp(-c / .05)

            def step(uv, _):
                u = (1 / 200) / (k @ uv[1])
                return (u, (1 / 200) / (k.T @ u)), None
            u, v = lax.scan(step, (np.ones(200), np.ones(200)), None,
                            length=100)[0]
            return np.sum(u[:, None] * k * v[None] * c)
        return [jax.grad(loss)(c)]

    def kalman_grad(self, jax, np, lax, a, h, z):
        def loss(a):
            def step(state, z):
                m, p = state
                m = a @ m
                p = a @ p @ a.T + np.eye(8) * .1
                s = h @ p @ h.T + np.eye(4) * .5
                gain = np.linalg.solve(s, h @ p).T
                r = z - h @ m
                part = np.sum(r * np.linalg.solve(s, r[:, None])[:, 0])
                return (m + gain @ r, p - gain @ h @ p), part
            return np.sum(lax.scan(step, (np.zeros(8), np.eye(8)), z)[1])
        return [jax.grad(loss)(a)]

    def n_body(self, jax, np, lax, p):
        def step(pv, _):
            p, v = pv
            d = p[None] - p[:, None]
            near = np.sum(d * d, -1) + .1
            v = v + .01 * np.sum(d * (near ** -1.5)[..., None], 1)
            return (p + .01 * v, v), None
        return [lax.scan(step, (p, np.zeros((128, 3))), None, length=100)[0][0]]

    def power_iteration(self, jax, np, lax, m):
        def step(state):
            i, x, _ = state
            y = m @ x
            y = y / np.linalg.norm(y)
            return i + 1, y, np.max(np.abs(y - x))
        return [lax.while_loop(
            lambda s: (s[2] > 1e-5) & (s[0] < 1000), step,
            (0, np.ones(300) / 17.3, np.float32(1)))[1][:, None]]

    def gru_grad(self, jax, np, lax, x, w, c):
        def loss(w, c):
            def step(h, x):
                z = jax.nn.sigmoid(np.concatenate([x, h], 1) @ w)
                r, u = np.split(z, 2, 1)
                new = np.tanh(np.concatenate([x, r * h], 1) @ c)
                return u * h + (1 - u) * new, None
            return np.sum(lax.scan(step, np.zeros((64, 128)), x)[0] ** 2)
        return jax.grad(loss, (0, 1))(w, c)

    def particle_filter(self, jax, np, lax, z, e):
        places = (np.arange(1000, dtype=np.float32) + .5) / 1000

        def step(x, ze):
            x = .9 * x + ze[1]
            sums = np.cumsum(jax.nn.softmax(-.5 * (ze[0] - x) ** 2))
            chosen = np.minimum(np.searchsorted(sums, places), 999)
            return x[chosen], np.mean(x)
        return [lax.scan(step, np.zeros(1000), (z, e))[1]]

    def crf_grad(self, jax, np, lax, e, t):
        def loss(e, t):
            def step(a, e):
                return jax.nn.logsumexp(a[:, :, None] + t[None], 1) + e, None
            return np.sum(jax.nn.logsumexp(lax.scan(step, e[0], e[1:])[0], 1))
        return jax.grad(loss, (0, 1))(e, t)

    def sgd_in_loop(self, jax, np, lax, d, y):
        loss = lambda w: np.mean(jax.nn.softplus(-(2 * y - 1) * (d @ w)))
        step = lambda w, _: (w - .1 * jax.grad(loss)(w), None)
        return [lax.scan(step, np.zeros(20), None, length=500)[0]]

    def nearest(self, jax, np, lax, q):
        s = np.sum(q * q, 1)
        return [lax.top_k(-(s[:, None] + s[None] - 2 * q @ q.T), 10)[0]]

    def mandelbrot(self, jax, np, lax, re, im):
        def step(state, _):
            x, y, n = state
            x2, y2 = x * x - y * y + re, 2 * x * y + im
            inside = x2 * x2 + y2 * y2 < 4
            return (np.where(inside, x2, x), np.where(inside, y2, y),
                    n + inside.astype(np.int32)), None
        zeros = np.zeros((256, 256))
        return [lax.scan(step, (zeros, zeros, zeros.astype(np.int32)), None,
                         length=50)[0][2]]

    def conv1d_grad(self, jax, np, lax, x, w):
        def loss(w):
            y = lax.conv_general_dilated(x, w, (1,), "SAME",
                                         dimension_numbers=("NWC", "WIO", "NWC"))
            return np.sum(np.max(jax.nn.relu(y), 1) ** 2)
        return [jax.grad(loss)(w)]

    def norm_mlp_grad(self, jax, np, lax, x, a, b):
        def loss(a, b):
            mean = x.mean(-1, keepdims=True)
            spread = ((x - mean) ** 2).mean(-1, keepdims=True)
            z = jax.nn.gelu((x - mean) / np.sqrt(spread + 1e-5) @ a)
            return np.sum((z @ b + x) ** 2)
        return jax.grad(loss, (0, 1))(a, b)

    def graph_attention_grad(self, jax, np, lax, h, a, s, d):
        def loss(h, a):
            e = jax.nn.leaky_relu((h[s] * h[d]) @ a)
            w = np.exp(e - jax.ops.segment_max(e, d, 1000)[d])
            w = w / jax.ops.segment_sum(w, d, 1000)[d]
            return np.sum(jax.ops.segment_sum(w[:, None] * h[s], d, 1000) ** 2)
        return jax.grad(loss, (0, 1))(h, a)

    def viterbi(self, jax, np, lax, e, t):
        def step(s, e):
            z = s[:, :, None] + t[None]
            return np.max(z, 1) + e, np.argmax(z, 1).astype(np.int32)

        def back(k, best):
            k = np.take_along_axis(best, k[:, None], 1)[:, 0]
            return k, k
        s, best = lax.scan(step, e[0], e[1:])
        last = np.argmax(s, 1).astype(np.int32)
        path = lax.scan(back, last, best, reverse=True)[1]
        return [np.concatenate([path, last[None]])]

    def heat_grad(self, jax, np, lax, u):
        def loss(u):
            def step(u, _):
                around = (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1)
                          + np.roll(u, -1, 1))
                return u + .2 * (around - 4 * u), None
            return np.sum(lax.scan(step, u, None, length=200)[0] ** 3)
        return [jax.grad(loss)(u)]

    def mixture_em(self, jax, np, lax, p):
        def step(state, _):
            mean, var, share = state
            parts = np.sum((p[:, None] - mean) ** 2 / var + np.log(var), -1)
            r = jax.nn.softmax(-.5 * parts + np.log(share), -1)
            n = r.sum(0)
            mean = r.T @ p / n[:, None]
            var = np.einsum("nk,nkd->kd", r, (p[:, None] - mean) ** 2)
            return (mean, var / n[:, None] + 1e-3, n / 2000), None
        return [lax.scan(step, (p[:10], np.ones((10, 8)), np.ones(10) / 10), None,
                         length=30)[0][0]]

    def fft_convolution(self, jax, np, lax, a, b):
        return [np.fft.irfft(np.fft.rfft(a) * np.fft.rfft(b), n=4096)]

    def cholesky_grad(self, jax, np, lax, b, y):
        def loss(b):
            low = np.linalg.cholesky(b)
            z = jax.scipy.linalg.solve_triangular(low, y, lower=True)
            logs = np.log(np.diagonal(low, axis1=1, axis2=2))
            return np.sum(z * z) + 2 * np.sum(logs)
        return [jax.grad(loss)(b)]


SIDES = {"sluice": Sluice, "jax": Jax}


def measure_here(side, name, path):
    """Prints the best of 15 runs, in ms; saves the results at `path`, if any."""
    run = SIDES[side]().prepare(name, data()[name])
    results = run()
    if path:
        np.savez(path, *[np.asarray(x) for x in results])
    best = float("inf")
    for _ in range(15):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    print(json.dumps(best * 1e3))


def measure(side, name, python, path=""):
    command = [python if side == "sluice" else sys.executable, __file__, "--one",
               side, name, path]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(out.stdout.splitlines()[-1])


def check(name, folder, python):
    """Raises an AssertionError if the sides do not compute the same.

    Up to rounding, which decides when a point leaves the Mandelbrot set.
    """
    results = []
    for side in SIDES:
        path = os.path.join(folder, f"{side}.npz")
        measure(side, name, python, path)
        with np.load(path) as saved:
            results.append([saved[k] for k in saved])
    for a, b in zip(*results, strict=True):
        if name == "particle_filter":  # Chaotic: a rounding chooses a particle.
            a, b = a[:3], b[:3]
        close = np.isclose(a, b, rtol=2e-2, atol=2e-3 * np.abs(b).max())
        if a.shape != b.shape or close.mean() < .999:
            raise AssertionError(f"{name}: {a} is not {b}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="part of a program's name")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--check", metavar="FOLDER", help="compare the results, "
                        "which are kept there, instead of the times")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.one:
        return measure_here(*o.one)
    print("%-22s %9s %9s %6s" % ("ms", "sluice", "jax", "times"))
    for name in data():
        if o.filter not in name:
            continue
        if o.check:
            check(name, o.check, o.python)
            print(name, "same")
            continue
        times = {side: [] for side in SIDES}
        for _ in range(o.turns):
            for side in SIDES:
                times[side].append(measure(side, name, o.python))
        ours, theirs = (statistics.median(times[side]) for side in SIDES)
        print("%-22s %9.2f %9.2f %6.2f" % (name, ours, theirs, theirs / ours),
              flush=True)


if __name__ == "__main__":
    main()
