"""A mixture of experts over four emulated devices, placed when it runs.

A few experts get most of the rows (Zipf's law), and which ones is known only
when the gate has run. Each expert runs on the device where it would end first,
large inputs are cut over several devices, and the parameters are on the host: a
device fetches those of the experts that it runs.

  python3 scheduled_experts.py [STEPS]
"""

import collections
import sys

import numpy as np

import sluice
import sluice.compat.v1 as tf

ROWS, UNITS, HIDDEN, EXPERTS, DEVICES = 256, 16, 32, 12, 4
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 150


def expert(e, rows):
    with tf.variable_scope("expert_%d" % e, reuse=tf.AUTO_REUSE):
        w1 = tf.get_variable("w1", [UNITS, HIDDEN])
        w2 = tf.get_variable("w2", [HIDDEN, UNITS],
                             initializer=tf.zeros_initializer())
    return tf.matmul(tf.tanh(tf.matmul(rows, w1)), w2)


def mixture(rows, scores):
    """Sends each row to the expert with the largest score."""
    devices = ["/device:EMU:%d" % d for d in range(DEVICES)]
    choice = tf.argmax(scores, 1, output_type=tf.int32)
    parts = tf.dynamic_partition(rows, choice, EXPERTS)
    places = tf.dynamic_partition(tf.range(ROWS), choice, EXPERTS)
    results = [
        sluice.scheduled(devices, part, lambda rows, e=e: expert(e, rows),
                         rows_per_part=48)
        for e, part in enumerate(parts)]
    return tf.dynamic_stitch(places, results)


tf.set_random_seed(1)
with tf.device("/device:CPU:0"):
    x = tf.placeholder(tf.float32, [ROWS, UNITS])
    y = tf.placeholder(tf.float32, [ROWS, UNITS])
    scores = tf.placeholder(tf.float32, [ROWS, EXPERTS])
    loss = tf.reduce_mean(tf.square(mixture(x, scores) - y))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)

# Memory for the parameters of three experts, and for rows.
config = tf.ConfigProto(
    device_count={"EMU": DEVICES},
    emulated_device="memory=1M,parameters=12K,tflops=0.00005")
random = np.random.RandomState(3)
popularity = 1 / np.arange(1, EXPERTS + 1)
popularity /= popularity.sum()
# Rows of one kind are multiplied by a matrix, which their expert learns.
matrices = [np.roll(np.diag(random.randn(UNITS)), k, 1)
            for k in range(EXPERTS)]
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    total, metadata = 0, tf.RunMetadata()
    for step in range(1, STEPS + 1):
        kinds = random.choice(EXPERTS, ROWS, p=popularity)
        rows = random.randn(ROWS, UNITS)
        wanted = np.stack([r @ matrices[k] for r, k in zip(rows, kinds)])
        options = (tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                   if step == STEPS else None)
        value, _ = sess.run(
            [loss, train],
            {x: rows, y: wanted, scores: np.eye(EXPERTS)[kinds]},
            options=options, run_metadata=metadata if options else None)
        total += value
        if step % 50 == 0:
            print("step %3d: mean squared error %.4f" % (step, total / 50))
            total = 0

parts = collections.Counter(
    node.timeline_label.split(" -> ")[1].split(";")[0]
    for device in metadata.step_stats.dev_stats for node in device.node_stats
    if "= Schedule:" in node.timeline_label)
for device, times in sorted(parts.items()):
    print("%s: %d parts of experts in the last step" % (device, times))
