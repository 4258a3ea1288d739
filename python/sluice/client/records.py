"""Files of records, read and written by the program itself."""

import os

from sluice import _core
from sluice.framework import errors
from sluice.framework.record_options import (
    compression_name, writer_parameters)


def _as_path(path):
    return path.decode() if isinstance(path, bytes) else str(path)


class TFRecordWriter:
    """Writes a file of records, such as serialized Examples.

        with tf.python_io.TFRecordWriter("data.tfrecord") as writer:
            writer.write(example.SerializeToString())

    Replaces a file of the same name. Threads may share a writer.

    Args:
      path: the name of the file.
      options: a TFRecordOptions, TFRecordCompressionType, or the name of a
        compression ("", "ZLIB" or "GZIP").

    Raises:
      ValueError: if there is no such compression.
      errors.OpError: if the file cannot be written.
      errors.InvalidArgumentError: if an option is out of range.
    """

    def __init__(self, path, options=None):
        self._file = _core.RecordWriter(_as_path(path),
                                        compression_name(options),
                                        *writer_parameters(options))
        self._closed = False

    def write(self, record):
        """Appends a record.

        Args:
          record: bytes; a str is encoded as UTF-8.

        Raises:
          errors.FailedPreconditionError: if the writer is closed.
        """
        self._file.write(record.encode() if isinstance(record, str) else
                         record)

    def flush(self):
        """Hands what was written to the system, so that readers see it."""
        self._file.flush()

    def close(self):
        """Closes the file, unless it is closed.

        Raises:
          errors.OpError: if its last records cannot be written.
        """
        if not self._closed:
            self._closed = True
            self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class _Records:
    """Iterates over the records of a file, which may grow meanwhile.

    After its end, or an incomplete record, the next call opens the file again,
    if it has grown, and passes over what was read.
    """

    def __init__(self, path, compression):
        self._path, self._compression = path, compression
        self._count = self._bytes = 0
        self._ended = False
        self._file = _core.RecordReader(path, compression)

    def __iter__(self):
        return self

    def __next__(self):
        if self._ended:
            self._open_again()
        try:
            record = self._file.read()
        except errors.DataLossError:
            self._ended = True
            raise
        if record is None:
            self._ended = True
            raise StopIteration
        self._count += 1
        self._bytes += len(record) + 16  # Its length, and checksums.
        return record

    def _open_again(self):
        # (Of a compressed file the size says nothing.)
        if self._compression or os.path.getsize(self._path) != self._bytes:
            self._file = _core.RecordReader(self._path, self._compression)
            for _ in range(self._count):
                self._file.read()
            self._ended = False


def tf_record_iterator(path, options=None):
    """Returns an iterator over the records of a file, as bytes.

    It may go on after its end, if records have been added, and after a
    DataLossError, if the record has been completed.

    Args:
      path: the name of the file.
      options: how the file is compressed; see `TFRecordWriter`.

    Raises:
      ValueError: if there is no such compression.
      errors.NotFoundError: if there is no such file.
      errors.DataLossError: if a record is truncated or corrupt.
    """
    return _Records(_as_path(path), compression_name(options))
