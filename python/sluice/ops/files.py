"""Operations on whole files."""

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.record_options import compression_name
from sluice.ops import array_ops

_op = _core.op


def read_file(filename, name=None):
    """Returns the contents of a file, a scalar string.

    Args:
      filename: its name, a scalar string.
      name: the name of the operation.
    """
    return _op("ReadFile")(filename, name=name)


def write_file(filename, contents, name=None):
    """Returns an operation that writes a file; makes its folders.

    Args:
      filename: its name, a scalar string.
      contents: what to write, a scalar string.
      name: the name of the operation.
    """
    return _op("WriteFile")(filename, contents, name=name)


def matching_files(pattern, name=None):
    """Returns the names of the files that match, a sorted vector of strings.

    Args:
      pattern: a glob pattern for the last part of the path, or a vector of
        patterns.
      name: the name of the operation.
    """
    return _op("MatchingFiles")(pattern, name=name)


class RecordInput:
    """A source of records of files, in random order.

    The operation of `get_yield_op` reads the files in parallel, over and over.

    Args:
      file_pattern: a glob pattern of TFRecord files.
      batch_size: the number of records that a step gets.
      buffer_size: the number of records from which a random one is chosen.
      parallelism: the number of files that are read at once.
      shift_ratio: by which part of the files each epoch shifts their order.
      seed: the seed of the order.
      name: the name of the operation.
      batches: the number of batches that a step gets; None for one, as a
        vector.
      compression_type: a TFRecordCompressionType or its name; none by default.
    """

    def __init__(self, file_pattern, batch_size=1, buffer_size=1, parallelism=1,
                 shift_ratio=0, seed=0, name=None, batches=None,
                 compression_type=None):
        self._pattern = file_pattern
        self._batches = batches
        self._count = batch_size * (1 if batches is None else batches)
        self._buffer_size = buffer_size
        self._parallelism = parallelism
        self._shift_ratio = shift_ratio
        self._seed = seed
        self._name = name
        self._compression = compression_name(compression_type)

    def get_yield_op(self):
        """Returns records, a vector of strings; a list of lists of scalars if
        the number of batches was given.
        """
        records = _op("RecordInput")(
            file_pattern=self._pattern, file_buffer_size=self._buffer_size,
            file_parallelism=self._parallelism,
            file_shuffle_shift_ratio=self._shift_ratio, batch_size=self._count,
            file_random_seed=self._seed, compression_type=self._compression,
            name=self._name)
        if self._batches is None:
            return records
        with graphs.name_scope(self._name, "RecordInput"):
            scalars = array_ops.unstack(records, self._count)
        return [scalars[i::self._batches] for i in range(self._batches)]
