#!/usr/bin/env python3
"""Measures the Python client: import, graph construction, small steps, feeds.

  PYTHONPATH=build/release/python python3 bench/python_client.py
  ... bench/python_client.py --peer PYTHON    also TensorFlow's, in that Python

Each figure is the best of several rounds, in microseconds.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time


def best(fn, rounds=5):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        n = fn()
        times.append((time.perf_counter() - start) / n)
    return min(times) * 1e6


def measure(module):
    start = time.perf_counter()
    tf = importlib.import_module(module)
    found = {"import": (time.perf_counter() - start) * 1e6}
    import numpy as np
    if hasattr(tf, "disable_v2_behavior"):
        tf.disable_v2_behavior()

    def repeat(fn, n):
        def many():
            for _ in range(n):
                fn()
            return n
        return best(many)

    def build(n=10000):
        with tf.Graph().as_default():
            x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
            for _ in range(n // 4):
                x = tf.tanh(tf.matmul(x, x) + x) * x
        return n

    found["build, per op"] = best(build, 3)

    def scopes(n=2000):
        with tf.Graph().as_default():
            for i in range(n):
                with tf.name_scope("a"):
                    tf.constant(1.0)
        return n

    found["name scope and constant"] = best(scopes, 3)

    def variables(n=300):
        with tf.Graph().as_default():
            for i in range(n):
                tf.get_variable(f"v{i}", [10, 10])
        return n

    found["get_variable"] = best(variables, 3)

    with tf.Graph().as_default():
        w = x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        for _ in range(2500):
            x = tf.tanh(tf.matmul(x, x) + x) * x

        start = time.perf_counter()
        tf.gradients(x, w)
        found["gradients of 10,000 ops, per op"] = (
            time.perf_counter() - start) * 1e6 / 10000

    with tf.Graph().as_default():
        one = tf.constant(1.0)
        p = tf.placeholder(tf.float32, [])
        q = p + 1.0
        big = tf.placeholder(tf.float32, [5000, 5000])
        row = tf.argmax(big, 0)
        held = tf.Variable(tf.zeros([5000, 5000]))
        copy = held + 1.0
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([one, q], {p: 1.0})
            found["run a constant"] = repeat(lambda: session.run(one), 2000)
            found["run with a scalar feed"] = repeat(
                lambda: session.run(q, {p: 1.0}), 2000)
            f = session.make_callable(one)
            found["callable of a constant"] = repeat(f, 2000)
            g = session.make_callable(q, [p])
            found["callable with a scalar feed"] = repeat(
                lambda: g(1.0), 2000)
            array = np.ones([5000, 5000], np.float32)
            found["feed 100 MB"] = repeat(
                lambda: session.run(row.op, {big: array}), 1)
            found["feed 100 MB to a variable"] = repeat(
                lambda: session.run(held.initializer,
                                    {held.initial_value: array}), 1)
            found["fetch 100 MB computed"] = repeat(
                lambda: session.run(copy), 1)
            found["fetch 100 MB of a variable"] = repeat(
                lambda: session.run(held), 1)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", help="a Python that has TensorFlow")
    parser.add_argument("--module", default="sluice.compat.v1")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    ours = measure(args.module)
    if args.json:
        print(json.dumps(ours))
        return
    theirs = {}
    if args.peer:
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
        env.pop("PYTHONPATH", None)
        out = subprocess.run(
            [args.peer, __file__, "--module", "tensorflow.compat.v1", "--json"],
            env=env, check=True, capture_output=True, text=True).stdout
        theirs = json.loads(out.splitlines()[-1])
    for name, value in ours.items():
        line = f"{name:34} {value:12.2f} us"
        if name in theirs:
            line += (f" {theirs[name]:12.2f} us TensorFlow "
                     f"{theirs[name] / value:8.1f} x")
        print(line)


if __name__ == "__main__":
    sys.exit(main())
