#!/usr/bin/env python3
"""Compares Sluice's training steps with TensorFlow's in graph mode, on this
machine: Adam on an embedding of 20,000 x 64 of which a step reads 512 rows.

    bench/training_peers.py [--sluice build/release/bin/sluice] [--turns 3]

Needs a Python that has TensorFlow. A step of TensorFlow is a callable of a
session that fetches nothing, with tf.compat.v1.train.AdamOptimizer. Both
alternate, `turns` times, in separate processes; each turn is the best of three
rounds of 200 steps. The columns are the medians of the turns.
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
WORDS, UNITS, IDS, STEPS = 20000, 64, 512, 200


def tensorflow_us():
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    ids = v1.placeholder(tf.int32, [IDS])
    table = v1.get_variable("table", initializer=tf.random.normal(
        [WORDS, UNITS], seed=5), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.gather(table, ids)))
    train = v1.train.AdamOptimizer(1e-3).minimize(loss)
    draws = np.random.RandomState(11)
    batches = [draws.randint(0, WORDS, IDS).astype("int32") for _ in range(STEPS)]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        step = session.make_callable(train, [ids])
        best = float("inf")
        for _ in range(4):
            start = time.perf_counter()
            for batch in batches:
                step(batch)
            best = min(best, time.perf_counter() - start)
    return best / STEPS * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(tensorflow_us())
        return
    ours, theirs = {}, []
    for _ in range(args.turns):
        text = subprocess.run(
            [args.sluice, "bench", "--json", "--filter", "embedding.*adam"],
            check=True, capture_output=True, text=True).stdout
        for figure in map(json.loads, text.splitlines()):
            ours.setdefault(figure["name"], []).append(figure["value"])
        theirs.append(float(subprocess.run(
            [sys.executable, __file__, "--one"], check=True,
            capture_output=True, text=True).stdout.split()[-1]))
    peer = statistics.median(theirs)
    print(f"{'':46}{'Sluice us':>11}{'TF us':>9}{'times':>7}")
    for name, values in ours.items():
        mine = statistics.median(values)
        print(f"{name:46}{mine:11.0f}{peer:9.0f}{peer / mine:7.2f}")


if __name__ == "__main__":
    main()
