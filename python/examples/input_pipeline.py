"""Reading, decoding and distorting run beside training (OSDI'16, Figure 2).

The images are synthetic. They are first written to files of fixed-length
records: the label, one byte, and 28 x 28 pixels.

  python3 input_pipeline.py [STEPS]
"""

import os
import sys
import tempfile

import numpy as np

import sluice as sl

IMAGES, SHARDS, SIDE, BATCH = 6000, 4, 28, 100
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600


def write_shards(folder):
    """Writes files of records; the class is where an image is brighter."""
    rng = np.random.RandomState(1)
    labels = np.arange(IMAGES) % 10
    bright = 80 * (np.arange(SIDE * SIDE) // 79 == labels[:, None])
    pixels = rng.randint(0, 128, bright.shape) + bright
    records = np.column_stack([labels, pixels]).astype(np.uint8)
    for shard in range(SHARDS):
        records[shard::SHARDS].tofile(
            os.path.join(folder, f"images-{shard}.bin"))


def decode_and_distort(record):
    """Returns an image, moved by up to two pixels, as floats; and its label."""
    values = sl.decode_raw(record, sl.uint8)
    image = sl.reshape(values[1:], [SIDE, SIDE])
    padded = sl.pad(image, [[2, 2], [2, 2]])
    moved = sl.random_crop(padded, [SIDE, SIDE])
    return (sl.cast(sl.reshape(moved, [SIDE * SIDE]), sl.float32) / 255,
            sl.cast(values[0], sl.int32))


with tempfile.TemporaryDirectory() as folder:
    write_shards(folder)
    sl.set_random_seed(1)
    data = sl.data
    images, labels = (
        data.Dataset.list_files(os.path.join(folder, "images-*.bin"))
        .interleave(lambda file: data.FixedLengthRecordDataset(
            file, 1 + SIDE * SIDE), cycle_length=SHARDS)
        .map(decode_and_distort, data.experimental.AUTOTUNE)
        .shuffle(1000).repeat().batch(BATCH, drop_remainder=True).prefetch(4)
        .make_one_shot_iterator().get_next())
    logits = sl.layers.dense(sl.layers.dense(images, 128, sl.nn.relu), 10)
    loss = sl.losses.sparse_softmax_cross_entropy(labels, logits)
    right = sl.reduce_mean(sl.cast(sl.nn.in_top_k(logits, labels, 1),
                                   sl.float32))
    train = sl.train.AdagradOptimizer(0.05).minimize(loss)

    with sl.Session() as session:
        session.run(sl.global_variables_initializer())
        step = session.make_callable([loss, right, train])
        accuracies = []
        for i in range(1, STEPS + 1):
            value, accuracy, _ = step()
            accuracies.append(accuracy)
            if i % max(STEPS // 6, 1) == 0:
                print("step %3d: loss %.3f, accuracy %.2f" % (
                    i, value, np.mean(accuracies[-100:])))
