"""TensorFlow 1's way to read files: a queue of names, a reader, batches.

Queue runners fill the queues until the data ends. (Datasets do this in a few
lines: input_pipeline.py.)

  python3 readers.py
"""

import os
import tempfile

import sluice as sl

FILES, RECORDS, BATCH = 3, 100, 20


def write_files(folder):
    """Writes examples of a line y = 2 x + 1."""
    names = [os.path.join(folder, f"{i}.tfrecord") for i in range(FILES)]
    for name in names:
        with sl.python_io.TFRecordWriter(name) as writer:
            for x in (i / RECORDS for i in range(RECORDS)):
                feature = {
                    key: sl.train.Feature(
                        float_list=sl.train.FloatList(value=[value]))
                    for key, value in (("x", x), ("y", 2 * x + 1))
                }
                writer.write(sl.train.Example(features=sl.train.Features(
                    feature=feature)).SerializeToString())
    return names


def read_and_train(files):
    """Trains on ten epochs of the files."""
    names = sl.train.string_input_producer(files, num_epochs=10, seed=1)
    _, record = sl.TFRecordReader().read(names)
    example = sl.parse_single_example(record, {
        "x": sl.FixedLenFeature([], sl.float32),
        "y": sl.FixedLenFeature([], sl.float32)
    })
    x, y = sl.train.shuffle_batch([example["x"], example["y"]], BATCH,
                                  capacity=200, min_after_dequeue=50,
                                  num_threads=2, seed=1)
    w, b = sl.Variable(0.0, name="w"), sl.Variable(0.0, name="b")
    loss = sl.reduce_mean(sl.square(x * w + b - y))
    train = sl.train.GradientDescentOptimizer(0.5).minimize(loss)
    with sl.Session() as session:
        session.run([sl.global_variables_initializer(),
                     sl.local_variables_initializer()])
        coordinator = sl.train.Coordinator()
        threads = sl.train.start_queue_runners(session, coordinator)
        steps = 0
        try:
            while not coordinator.should_stop():
                session.run(train)
                steps += 1
        except sl.errors.OutOfRangeError:
            pass  # The files have ended.
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
        slope, offset = session.run([w, b])
    print(f"{steps} steps, until the files ended: y = {slope:.2f} x + "
          f"{offset:.2f}")
    return slope, offset


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        read_and_train(write_files(made))
