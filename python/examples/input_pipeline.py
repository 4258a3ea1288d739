"""Reading, decoding and distorting run beside training (OSDI'16, Figure 2).

The images are Fashion-MNIST's (Debian's package dataset-fashion-mnist) or, if it
is not installed, synthetic. They are first written to TFRecord files of PNGs.

  python3 input_pipeline.py [STEPS [FOLDER of train-images-idx3-ubyte.gz ...]]
"""

import gzip
import os
import sys
import tempfile

import numpy as np

import sluice as sl

IMAGES, SHARDS, SIDE, BATCH = 6000, 4, 28, 100
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600
FASHION = sys.argv[2] if len(sys.argv) > 2 else (
    "/usr/share/datasets/fashion-mnist")


def load_images():
    """Returns the pixels, [images, side, side, 1], and the labels."""
    def bytes_of(name, header):
        with gzip.open(os.path.join(FASHION, name)) as file:
            return np.frombuffer(file.read()[header:], np.uint8)

    try:
        pixels = bytes_of("train-images-idx3-ubyte.gz", 16)
        labels = bytes_of("train-labels-idx1-ubyte.gz", 8)
    except OSError:
        print(f"(no Fashion-MNIST in {FASHION}: synthetic images)")
        rng = np.random.RandomState(1)
        labels = np.arange(IMAGES) % 10
        bright = 80 * (np.arange(SIDE * SIDE) // 79 == labels[:, None])
        pixels = (rng.randint(0, 128, bright.shape) + bright).astype(np.uint8)
    pixels = pixels.reshape([-1, SIDE, SIDE, 1])
    return pixels[:IMAGES], labels[:IMAGES]


def write_shards(folder):
    """Writes files of Examples with the features "image", a PNG, and "label"."""
    train = sl.train
    with sl.Graph().as_default(), sl.Session() as session:
        pixels = sl.placeholder(sl.uint8, [SIDE, SIDE, 1])
        encode = session.make_callable(sl.image.encode_png(pixels), [pixels])
        images, labels = load_images()
        for shard in range(SHARDS):
            path = os.path.join(folder, f"images-{shard}.tfrecord")
            with sl.python_io.TFRecordWriter(path) as writer:
                for image, label in zip(images[shard::SHARDS],
                                        labels[shard::SHARDS]):
                    features = train.Features(feature={
                        "image": train.Feature(bytes_list=train.BytesList(
                            value=[encode(image)])),
                        "label": train.Feature(int64_list=train.Int64List(
                            value=[label]))})
                    writer.write(train.Example(features=features)
                                 .SerializeToString())


def decode_and_distort(record):
    """Returns an image, moved by up to two pixels, as floats; and its label."""
    example = sl.parse_single_example(record, {
        "image": sl.FixedLenFeature([], sl.string),
        "label": sl.FixedLenFeature([], sl.int64)})
    image = sl.image.decode_png(example["image"], channels=1)
    padded = sl.pad(image, [[2, 2], [2, 2], [0, 0]])
    moved = sl.random_crop(padded, [SIDE, SIDE, 1])
    return (sl.cast(sl.reshape(moved, [SIDE * SIDE]), sl.float32) / 255,
            example["label"])


with tempfile.TemporaryDirectory() as folder:
    write_shards(folder)
    sl.set_random_seed(1)
    data = sl.data
    images, labels = (
        data.Dataset.list_files(os.path.join(folder, "images-*.tfrecord"))
        .interleave(data.TFRecordDataset, cycle_length=SHARDS)
        .map(decode_and_distort, data.experimental.AUTOTUNE)
        .shuffle(1000).repeat().batch(BATCH, drop_remainder=True).prefetch(4)
        .make_one_shot_iterator().get_next())
    logits = sl.layers.dense(sl.layers.dense(images, 128, sl.nn.relu), 10)
    loss = sl.losses.sparse_softmax_cross_entropy(labels, logits)
    right = sl.reduce_mean(sl.cast(sl.nn.in_top_k(logits, labels, 1),
                                   sl.float32))
    train = sl.train.AdagradOptimizer(0.05).minimize(loss)
    variables = {v.op.name.replace("/", "."): v
                 for v in sl.trainable_variables()}

    with sl.Session() as session:
        session.run(sl.global_variables_initializer())
        # Beside it: the variables are written to a file every half second.
        coordinator = sl.train.Coordinator()
        saves = sl.train.LooperThread.loop(
            coordinator, 0.5, lambda: np.savez(
                os.path.join(folder, "variables.npz"),
                **session.run(variables)))
        step = session.make_callable([loss, right, train])
        accuracies = []
        for i in range(1, STEPS + 1):
            value, accuracy, _ = step()
            accuracies.append(accuracy)
            if i % max(STEPS // 6, 1) == 0:
                print("step %3d: loss %.3f, accuracy %.2f" % (
                    i, value, np.mean(accuracies[-100:])))
        coordinator.request_stop()
        coordinator.join([saves])
