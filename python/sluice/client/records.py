"""Files of records, read and written by the program itself."""

from sluice import _core
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
    return _core.RecordReader(_as_path(path), compression_name(options))
