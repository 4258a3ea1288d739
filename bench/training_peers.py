#!/usr/bin/env python3
"""Compares Sluice's training steps with TensorFlow's in graph mode, on this
machine: Adam on an embedding of 20,000 x 64 of which a step reads 512 rows, and
gradient descent and Adagrad on 32 rows of tables of 10 MB to 10 GB.

    bench/training_peers.py [--sluice build/release/bin/sluice] [--turns 3]
                            [--filter adam] [--large]

Needs a Python that has TensorFlow. A step of TensorFlow is a callable of a
session that fetches nothing, with the optimizers of tf.compat.v1.train. Both
alternate, `turns` times, in separate processes; each turn is the best round of
200 steps. The columns are the medians of the turns. Tables of 10 GB only with
--large.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
UNITS, STEPS = 64, 200
MEGA = 1 << 20
# Rows, ids of a step, the optimizer, rounds with ids of their own.
FIGURES = {
    "embedding.adam.20000x64.us": (20000, 512, "Adam", 1),
    "embedding.adam_tensorflow_ops.20000x64.us": (20000, 512, "Adam", 1),
    "embedding.lazy_adam.20000x64.us": (20000, 512, "Adam", 1),
}
for size, mb in (("10MB", 10), ("1GB", 1000), ("10GB", 10000)):
    rows = mb * MEGA // (UNITS * 4)
    FIGURES[f"embedding.sparse_step.{size}.us"] = (
        rows, 32, "GradientDescent", 9)
    FIGURES[f"embedding.sparse_step.adagrad.{size}.us"] = (
        rows // 2, 32, "Adagrad", 9)


def tensorflow_us(rows, read, optimizer, rounds):
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    ids = v1.placeholder(tf.int32, [read])
    table = v1.get_variable("table", initializer=tf.random.uniform(
        [rows, UNITS], -0.1, 0.1, seed=5), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.gather(table, ids)))
    rate = 1e-3 if optimizer == "Adam" else 0.1
    train = getattr(v1.train, optimizer + "Optimizer")(rate).minimize(loss)
    draws = np.random.RandomState(11)
    batches = draws.randint(0, rows, [rounds + 1, STEPS, read]).astype("int32")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        step = session.make_callable(train, [ids])
        best = float("inf")
        for turn in range(max(4, rounds + 1)):
            start = time.perf_counter()
            for batch in batches[turn % len(batches)]:
                step(batch)
            best = min(best, time.perf_counter() - start)
    return best / STEPS * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--filter", default="", help="part of a figure's name")
    parser.add_argument("--large", action="store_true", help="also 10 GB")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(tensorflow_us(*FIGURES[args.one]))
        return
    print(f"{'':46}{'Sluice us':>11}{'TF us':>9}{'times':>7}")
    for name in FIGURES:
        if args.filter not in name or ("10GB" in name and not args.large):
            continue
        ours, theirs = [], []
        for _ in range(args.turns):
            text = subprocess.run(
                [args.sluice, "bench", "--json", "--filter",
                 "^sluice." + name.replace(".", "[.]") + "$"],
                check=True, capture_output=True, text=True).stdout
            ours.append(json.loads(text)["value"])
            theirs.append(float(subprocess.run(
                [sys.executable, __file__, "--one", name], check=True,
                capture_output=True, text=True).stdout.split()[-1]))
        mine, peer = statistics.median(ours), statistics.median(theirs)
        print(f"{name:46}{mine:11.1f}{peer:9.0f}{peer / mine:7.2f}", flush=True)


if __name__ == "__main__":
    main()
