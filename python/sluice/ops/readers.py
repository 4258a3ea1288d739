"""Readers: names of files (or other work) in, records out, step by step."""

from sluice import _core
from sluice.framework import dtypes
from sluice.framework.record_options import compression_name
from sluice.ops import queues

_op = _core.op


class ReaderBase:
    """The base class of readers.

    A reader takes a name from a queue, and then gives the records of that file
    one after the other, in as many steps as it takes. Steps share it.

    Args:
      reader_ref: the handle of the reader.
      supports_serialize: whether its state can be saved in TensorFlow; here
        it always can.
    """

    def __init__(self, reader_ref, supports_serialize=False):
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self):
        """The handle of the reader, a tensor."""
        return self._reader_ref

    @property
    def supports_serialize(self):
        """Whether the state of the reader can be saved in TensorFlow."""
        return self._supports_serialize

    def _call(self, op, *inputs, **attributes):
        """Calls a reader's op, in the version that fits its handle."""
        version = "V2" if self._reader_ref.dtype == dtypes.resource else ""
        return _op(op + version)(self._reader_ref, *inputs, **attributes)

    def read(self, queue, name=None):
        """Returns the next record.

        If the last file is finished, takes the next name from the queue, and
        waits for it. Fails with OutOfRangeError if the queue is closed and
        empty.

        Args:
          queue: a queue of strings, or its handle.
          name: the name of the operation.

        Returns:
          (key, value), two scalar strings: where the record is from, such as
          "file:3", and the record.
        """
        key, value = self._call(
            "ReaderRead", getattr(queue, "queue_ref", queue), name=name)
        return key, value

    def read_up_to(self, queue, num_records, name=None):
        """Returns the next records, fewer than asked for at the end of a file.

        Args:
          queue: a queue of strings, or its handle.
          num_records: the largest number, a scalar int64.
          name: the name of the operation.

        Returns:
          (keys, values), two vectors of strings.
        """
        keys, values = self._call(
            "ReaderReadUpTo", getattr(queue, "queue_ref", queue), num_records,
            name=name)
        return keys, values

    def num_records_produced(self, name=None):
        """Returns the number of records so far, a scalar int64 tensor."""
        return self._call("ReaderNumRecordsProduced", name=name)

    def num_work_units_completed(self, name=None):
        """Returns the number of files finished so far, a scalar int64 tensor.
        """
        return self._call("ReaderNumWorkUnitsCompleted", name=name)

    def serialize_state(self, name=None):
        """Returns the state of the reader, a scalar string."""
        return self._call("ReaderSerializeState", name=name)

    def restore_state(self, state, name=None):
        """Returns an operation that restores a state.

        Args:
          state: what `serialize_state` gave, of a reader of the same kind.
          name: the name of the operation.
        """
        return self._call("ReaderRestoreState", state, name=name)

    def reset(self, name=None):
        """Returns an operation that puts the reader into its first state."""
        return self._call("ReaderReset", name=name)


class WholeFileReader(ReaderBase):
    """A reader whose records are whole files, with their names as keys.

    Args:
      name: the name of the operation.
    """

    def __init__(self, name=None):
        super().__init__(queues.make_resource("WholeFileReaderV2", None, name),
                         supports_serialize=True)


class IdentityReader(ReaderBase):
    """A reader that gives what it takes, as key and as value.

    Args:
      name: the name of the operation.
    """

    def __init__(self, name=None):
        super().__init__(queues.make_resource("IdentityReaderV2", None, name),
                         supports_serialize=True)


class TextLineReader(ReaderBase):
    """A reader of the lines of text files, without their ends.

    Args:
      skip_header_lines: the number of lines to skip in each file.
      name: the name of the operation.
    """

    def __init__(self, skip_header_lines=None, name=None):
        super().__init__(queues.make_resource(
            "TextLineReaderV2", None, name,
            skip_header_lines=skip_header_lines or 0))


class FixedLengthRecordReader(ReaderBase):
    """A reader of files whose records have one length.

    Args:
      record_bytes: the length of a record.
      header_bytes: the number of bytes to skip at the start of each file.
      footer_bytes: the number of bytes to skip at its end.
      hop_bytes: the distance of records; defaults to their length.
      name: the name of the operation.
      encoding: how files are compressed: "" or "ZLIB".
    """

    def __init__(self, record_bytes, header_bytes=None, footer_bytes=None,
                 hop_bytes=None, name=None, encoding=None):
        super().__init__(queues.make_resource(
            "FixedLengthRecordReaderV2", None, name, record_bytes=record_bytes,
            header_bytes=header_bytes or 0, footer_bytes=footer_bytes or 0,
            hop_bytes=hop_bytes or 0, encoding=encoding or ""))


class TFRecordReader(ReaderBase):
    """A reader of TFRecord files.

    Args:
      name: the name of the operation.
      options: a TFRecordOptions: how files are compressed.
    """

    def __init__(self, name=None, options=None):
        super().__init__(queues.make_resource(
            "TFRecordReaderV2", None, name,
            compression_type=compression_name(options)))
