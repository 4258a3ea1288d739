#!/usr/bin/env python3
"""Compares saving and loading a checkpoint of 1 GB in 100 tensors with
TensorFlow's, and with copies of as many bytes to and from the page cache.

    bench/checkpoint_peers.py [--sluice build/release/bin/sluice] [--turns 3]

Needs a Python that has TensorFlow, whose SaveV2 and RestoreV2 run in graph mode
on variables. Both alternate, `turns` times; each turn is the best of several
runs. The columns are the medians of the turns, "times" that of the turns'
ratios, "copy" that of Sluice's shares of the copy's rate.
"""
import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

TENSORS, ELEMENTS, TIMES = 100, 2_500_000, 5
GB = 4e-9 * TENSORS * ELEMENTS


class TensorFlow:
    def __init__(self, folder):
        import tensorflow as tf
        tf.compat.v1.disable_eager_execution()
        self.folder = folder
        names = ["tensor_%d" % i for i in range(TENSORS)]
        values = [tf.compat.v1.get_variable(n, initializer=tf.range(float(ELEMENTS)) + float(i),
                                            use_resource=True) for i, n in enumerate(names)]
        self.prefix = tf.compat.v1.placeholder(tf.string, [])
        none, raw = [""] * TENSORS, tf.raw_ops
        self.save = raw.SaveV2(prefix=self.prefix, tensor_names=names, shape_and_slices=none,
                               tensors=[v.read_value() for v in values])
        self.load = tf.group(*raw.RestoreV2(prefix=self.prefix, tensor_names=names,
                                            shape_and_slices=none,
                                            dtypes=[tf.float32] * TENSORS))
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def best(self, fn, after=lambda: None):
        best = math.inf
        for i in range(TIMES + 1):
            start = time.perf_counter()
            fn()
            if i > 0:
                best = min(best, time.perf_counter() - start)
            after()
        return GB / best

    def saving(self):
        folder = self.folder + "/saves"
        return self.best(
            lambda: self.session.run(self.save, {self.prefix: folder + "/m"}),
            lambda: shutil.rmtree(folder))  # Before the system writes it to disk.

    def loading(self):
        prefix = self.folder + "/load"
        self.session.run(self.save, {self.prefix: prefix})
        return self.best(lambda: self.session.run(self.load, {self.prefix: prefix}))


def sluice(binary, name, env):
    out = subprocess.run([binary, "bench", "--json", "--filter", r"^sluice\." + re.escape(name) + r"\."],
                         check=True, capture_output=True, text=True, env=env).stdout
    values = [json.loads(line) for line in out.splitlines()]
    return {v["name"].removeprefix("sluice."): v["value"] for v in values}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, SLUICE_BENCH_FILES=folder)
        peer = TensorFlow(folder)
        if not o.json:
            print("%-28s %10s %10s %7s %7s" % ("", "sluice", "tensorflow", "times", "copy"))
        for name, theirs in (("checkpoint.save", peer.saving), ("checkpoint.load", peer.loading)):
            turns = []
            for _ in range(o.turns):
                ours = sluice(o.sluice, name, env)
                rate = ours[name + ".gb_per_s"]
                turns.append((rate, theirs(), rate / ours[name + ".copy_gb_per_s"]))
            a, b, share = map(statistics.median, zip(*turns))
            times = statistics.median(x / y for x, y, _ in turns)
            if o.json:
                for who, value in (("sluice.", a), ("tf.", b)):
                    print(json.dumps({"name": who + name + ".gb_per_s", "value": value}),
                          flush=True)
            else:
                print("%-28s %10.3f %10.3f %7.2f %6.0f%%" % (
                    name + ".gb_per_s", a, b, times, 100 * share), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
