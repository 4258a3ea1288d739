#!/usr/bin/env python3
"""Compares Sluice's queues, input pipelines and the ops that parse input with
TensorFlow's in graph mode, on the same files and on this machine.

    bench/input_peers.py [--filter REGEX] [--sluice build/release/bin/sluice] [--turns 3]
    bench/input_peers.py --json     in the form of sluice bench --json

Needs a Python that has TensorFlow. Queues are those of tf.compat.v1; pipelines
are tf.data's, with num_parallel_calls=AUTOTUNE; a step of TensorFlow is a
callable of a session that fetches nothing. Both alternate, `turns` times; each
turn is the best of several runs. The columns are the medians of the turns,
"times" that of the turns' ratios. Where the machine's copy rate was measured
beside it, the last column is Sluice's share of it.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def best_s(fn, times=5):
    fn()
    best = math.inf
    for _ in range(times):
        start = time.perf_counter()
        fn()
        best = min(best, time.perf_counter() - start)
    return best


def steps_per_s(step):
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            step()
        if time.perf_counter() - start > 0.02:
            break
        times *= 4

    def run():
        for _ in range(times):
            step()
    return times / best_s(run, 7)


class TensorFlow:
    """The figures, each by a method that takes the folder of the files."""

    def __init__(self):
        import tensorflow as tf
        tf.compat.v1.disable_eager_execution()
        self.tf, self.v1 = tf, tf.compat.v1

    def constant(self, values, dtype):
        # (A variable: what hangs on a constant would be folded.)
        return self.v1.get_variable("values", initializer=self.tf.constant(values, dtype),
                                    use_resource=True).read_value()

    def session(self):
        session = self.v1.Session()
        session.run([self.v1.global_variables_initializer(),
                     self.v1.tables_initializer()])
        return session

    # ---- Queues

    def pairs(self, threads):
        tf, steps = self.tf, 4000 // threads
        queue = self.v1.FIFOQueue(64, [tf.float32], [[]])
        x = self.v1.placeholder(tf.float32, [])
        with tf.control_dependencies([queue.enqueue(x)]):
            y = queue.dequeue()
        with self.session() as session:
            step = session.make_callable(y, [x])

            def client():
                for _ in range(steps):
                    step(1.0)

            def run():
                clients = [threading.Thread(target=client) for _ in range(threads)]
                for c in clients:
                    c.start()
                for c in clients:
                    c.join()
            return steps * threads / best_s(run)

    def dequeue_many(self, threads):
        tf, rows, size, batches = self.tf, 64, 3072, 1000
        queue = self.v1.FIFOQueue(4 * rows, [tf.uint8], [[size]])
        put = queue.enqueue_many(self.constant([[7] * size] * rows, tf.uint8))
        batch = queue.dequeue_many(rows)
        close = queue.close(cancel_pending_enqueues=True)
        with self.session() as session:
            fill, take = session.make_callable(put), session.make_callable(batch.op)

            def produce():
                try:
                    while True:
                        fill()
                except tf.errors.CancelledError:
                    pass

            def run():
                for _ in range(batches):
                    if threads == 1:
                        fill()
                    take()
            if threads == 1:
                return rows * size * batches / best_s(run) * 1e-9
            producer = threading.Thread(target=produce)
            producer.start()
            seconds = best_s(run)
            session.run(close)
            producer.join()
            return rows * size * batches / seconds * 1e-9

    # ---- Records and pipelines

    def records(self, folder):
        path = folder + "/records.tfrecord"
        iterator = self.v1.data.make_initializable_iterator(
            self.tf.data.TFRecordDataset(path).batch(64))
        batch = iterator.get_next()
        with self.session() as session:
            take = session.make_callable(batch.op)

            def run():
                session.run(iterator.initializer)
                try:
                    while True:
                        take()
                except self.tf.errors.OutOfRangeError:
                    pass
            return os.path.getsize(path) / best_s(run) * 1e-9

    def augmented(self, image, size):
        tf = self.tf
        image = tf.image.random_crop(image, [size, size, image.shape[2]])
        image = tf.image.random_flip_left_right(image)
        return tf.image.random_brightness(tf.cast(image, tf.float32), 32)

    def images(self, pattern, fn, shuffle, images):
        auto, data = self.tf.data.AUTOTUNE, self.tf.data
        batches = (data.Dataset.list_files(pattern, shuffle=False)
                   .interleave(data.TFRecordDataset, cycle_length=4,
                               num_parallel_calls=auto)
                   .map(fn, num_parallel_calls=auto)
                   .shuffle(shuffle).repeat().batch(64).prefetch(2))
        iterator = self.v1.data.make_initializable_iterator(batches)
        batch = iterator.get_next()
        with self.session() as session:
            session.run(iterator.initializer)
            take = session.make_callable(batch.op)

            def run():
                for _ in range(images // 64):
                    take()
            return images // 64 * 64 / best_s(run, 3)

    def png(self, folder):
        return self.images(
            folder + "/png28-*.tfrecord",
            lambda x: self.augmented(self.tf.io.decode_png(x, channels=1), 24),
            1000, 4 * 4096)

    def jpeg(self, folder):
        return self.images(
            folder + "/jpeg224-*.tfrecord",
            lambda x: self.augmented(self.tf.io.decode_jpeg(x, channels=3), 200),
            128, 3 * 512)

    # ---- Ops

    def parse_example(self, folder):
        tf = self.tf
        examples = list(self.v1.io.tf_record_iterator(folder + "/examples.tfrecord"))
        features = {}
        for i in range(10):
            features["dense%d" % i] = (tf.io.FixedLenFeature([8], tf.float32)
                                       if i % 2 == 0 else
                                       tf.io.FixedLenFeature([1], tf.int64))
        for i in range(5):
            features["sparse%d" % i] = tf.io.VarLenFeature(
                tf.string if i == 4 else tf.int64)
        parsed = tf.io.parse_example(self.constant(examples, tf.string), features)
        with self.session() as session:
            step = session.make_callable(parsed["dense0"].op)
            return len(examples) * steps_per_s(step)

    def lookup(self):
        tf, words, wanted = self.tf, 10000, 1000
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            ["word%d" % i for i in range(words)], list(range(words)),
            tf.string, tf.int64), -1)
        keys = ["word%d" % (i * 7919 % (words + words // 9)) for i in range(wanted)]
        found = table.lookup(self.constant(keys, tf.string))
        with self.session() as session:
            return wanted * steps_per_s(session.make_callable(found.op))

    def resize(self):
        tf = self.tf
        image = [[[[(x * y + c) % 251 for c in range(3)] for x in range(224)]
                  for y in range(224)]]
        resized = tf.raw_ops.ResizeBilinear(images=self.constant(image, tf.uint8),
                                            size=[112, 112], half_pixel_centers=True)
        with self.session() as session:
            return steps_per_s(session.make_callable(resized.op))


FIGURES = {
    "queue.pairs_t1.per_s": lambda tf, folder: tf.pairs(1),
    "queue.pairs_t4.per_s": lambda tf, folder: tf.pairs(4),
    "queue.dequeue_many.gb_per_s": lambda tf, folder: tf.dequeue_many(2),
    "queue.dequeue_many.t1.gb_per_s": lambda tf, folder: tf.dequeue_many(1),
    "records.read.gb_per_s": lambda tf, folder: tf.records(folder),
    "pipeline.png28.images_per_s": lambda tf, folder: tf.png(folder),
    "pipeline.jpeg224.images_per_s": lambda tf, folder: tf.jpeg(folder),
    "parse_example.per_s": lambda tf, folder: tf.parse_example(folder),
    "lookup.strings.per_s": lambda tf, folder: tf.lookup(),
    "resize.bilinear224.per_s": lambda tf, folder: tf.resize(),
}


def tensorflow(peer, name, folder):
    with peer.tf.Graph().as_default():
        return FIGURES[name](peer, folder)


COPIES = {  # The copy rate beside a figure.
    "queue.dequeue_many.gb_per_s": "queue.dequeue_many.copy_gb_per_s",
    "queue.dequeue_many.t1.gb_per_s": "queue.dequeue_many.copy_gb_per_s",
    "records.read.gb_per_s": "records.read.copy_gb_per_s",
}


def sluice(program, name):
    """The value of the figure, and its share of the copy rate or nan."""
    names = [name] + ([COPIES[name]] if name in COPIES else [])
    pattern = "^sluice\\.(" + "|".join(map(re.escape, names)) + ")$"
    lines = subprocess.run([program, "bench", "--json", "--filter", pattern],
                           capture_output=True, text=True, check=True).stdout
    values = {v["name"]: v["value"] for v in map(json.loads, lines.splitlines())}
    ours, *copy = [values["sluice." + n] for n in names]
    return ours, ours / copy[0] if copy else math.nan


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="figures whose name matches")
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    o = parser.parse_args()
    peer = TensorFlow()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SLUICE_BENCH_FILES"] = folder
        if not o.json:
            print("%-32s %12s %12s %7s %7s" % (
                "", "sluice", "tensorflow", "times", "copy"))
        for name in FIGURES:
            if not re.search(o.filter, name):
                continue
            turns = []
            for _ in range(o.turns):
                ours, share = sluice(o.sluice, name)  # (This writes the files.)
                turns.append((ours, tensorflow(peer, name, folder), share))
            ours, theirs, share = map(statistics.median, zip(*turns))
            times = statistics.median(a / b for a, b, _ in turns)
            if o.json:
                for who, value in (("sluice.", ours), ("tf.", theirs)):
                    print(json.dumps({"name": who + name, "value": value}), flush=True)
            else:
                print("%-32s %12.5g %12.5g %7.2f %7s" % (
                    name, ours, theirs, times,
                    "" if math.isnan(share) else "%.0f%%" % (100 * share)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
