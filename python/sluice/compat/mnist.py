"""Reads the MNIST data set from files. Nothing is downloaded.

It replaces `tensorflow.examples.tutorials.mnist.input_data`.
"""

import collections
import gzip
import os

import numpy as np

from sluice.framework import dtypes, errors

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


class DataSet:
    """Images and labels, which can be read in batches.

    Args:
      images: [n, height, width, 1], uint8.
      labels: [n], or one-hot [n, classes].
      dtype: float32 (from 0 to 1) or uint8.
      reshape: whether to flatten images to rows of pixels.
      seed: the seed of the order of batches.
    """

    def __init__(self, images, labels, fake_data=False, one_hot=False,
                 dtype=dtypes.float32, reshape=True, seed=None):
        if len(images) != len(labels):
            raise ValueError(f"images: expected as many as labels, got "
                             f"{len(images)} and {len(labels)}")
        if dtypes.as_dtype(dtype) not in (dtypes.uint8, dtypes.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or "
                            f"float32")
        if reshape:
            images = images.reshape(len(images), -1)
        if dtypes.as_dtype(dtype) is dtypes.float32:
            images = images.astype(np.float32) / np.float32(255)
        self._images, self._labels = images, labels
        self._random = np.random.RandomState(seed)
        self._order, self._at, self._epochs = None, 0, 0

    images = property(lambda self: self._images, doc="All images.")
    labels = property(lambda self: self._labels, doc="All labels.")
    num_examples = property(lambda self: len(self._images),
                            doc="The number of examples.")
    epochs_completed = property(lambda self: self._epochs,
                                doc="The number of completed epochs.")

    def _start(self, shuffle):
        n = len(self._images)
        self._order = self._random.permutation(n) if shuffle else np.arange(n)
        self._at = 0

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """Returns the next (images, labels), in a new order in each epoch."""
        if self._order is None:
            self._start(shuffle)
        rows = self._order[self._at:self._at + batch_size]
        self._at += batch_size
        while len(rows) < batch_size:
            self._epochs += 1
            missing = batch_size - len(rows)
            self._start(shuffle)
            self._at = missing
            rows = np.concatenate([rows, self._order[:missing]])
        return self._images[rows], self._labels[rows]


def _read(folder, name):
    """Reads an array from an idx file, compressed or not."""
    for path, opener in ((os.path.join(folder, name + ".gz"), gzip.open),
                         (os.path.join(folder, name), open)):
        if not os.path.exists(path):
            continue
        with opener(path, "rb") as f:
            data = f.read()
        rank = data[3] if len(data) > 4 and data[:3] == b"\0\0\x08" else 0
        dims = np.frombuffer(data, ">i4", rank, 4) if rank in (1, 3) else [-1]
        if len(data) != 4 + 4 * rank + int(np.prod(dims)):
            raise errors.DataLossError(
                None, None, f"{path}: expected an idx file of bytes, got one "
                f"of {len(data)} bytes that begins with {data[:4]!r}")
        return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(dims)
    raise errors.NotFoundError(
        None, None, f"{os.path.join(folder, name)}.gz: expected a file of the "
        f"MNIST data set; nothing is downloaded")


def read_data_sets(train_dir, fake_data=False, one_hot=False,
                   dtype=dtypes.float32, reshape=True, validation_size=5000,
                   seed=None, source_url=None):
    """Reads the data sets of a folder.

    The first `validation_size` training images become the validation set.
    """
    found = []
    for part in ("train", "t10k"):
        images = _read(train_dir, f"{part}-images-idx3-ubyte")[..., None]
        labels = _read(train_dir, f"{part}-labels-idx1-ubyte")
        found.append((images, np.eye(10)[labels] if one_hot else labels))
    (images, labels), test = found
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and "
                         f"{len(images)}. Received: {validation_size}.")
    n = validation_size
    make = lambda x, y: DataSet(x, y, dtype=dtype,  # noqa: E731
                                reshape=reshape,
                                seed=seed)
    return Datasets(make(images[n:], labels[n:]), make(images[:n], labels[:n]),
                    make(*test))


def load_mnist(train_dir="MNIST-data"):
    """Calls `read_data_sets`."""
    return read_data_sets(train_dir)
