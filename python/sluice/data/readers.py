"""Datasets of the contents of files."""

import functools

from sluice import _core
from sluice.data.dataset import Dataset
from sluice.data.elements import Elements
from sluice.data.lowering import missing
from sluice.framework import dtypes, errors, graph as graphs
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.framework.elements import Tensor
from sluice.ops import array_ops, control_flow, math_ops, string_ops

_op = functools.lru_cache(None)(_core.op)


class _Records(Dataset):
    """The records of one TFRecord file."""

    def __init__(self, file, compression):
        self._file, self._compression = file, compression

    def _lower(self, build):
        return _core.Dataset.records(build.source(self._file),
                                     self._compression, False), Elements(Tensor)


class _FilesDataset(Dataset):
    """The contents of files, one after the other or in parallel.

    Args:
      filenames: names (a scalar or a vector), or a Dataset of names.
      contents: a function of a name that returns a Dataset.
      parallel: how many files are read at a time.
    """

    def __init__(self, filenames, contents, parallel=1):
        if not isinstance(filenames, Dataset):
            names = convert_to_tensor(filenames, dtypes.string)
            filenames = Dataset.from_tensor_slices(
                array_ops.reshape(names, [-1]))
        self._contents = (
            filenames.flat_map(contents) if parallel == 1
            else filenames.interleave(contents, parallel))

    def _lower(self, build):
        return self._contents._lower(build)


def _compression(compression_type, known):
    """Returns the name of a compression; `known` are those that are read."""
    if isinstance(compression_type, _core.Tensor):
        compression_type = constant_value(compression_type).item().decode()
    name = compression_type or ""
    if name in ("GZIP", "ZLIB") and name not in known:
        raise missing(f"compression_type {name!r}")
    if name not in known:
        raise errors.InvalidArgumentError(
            None, None, f"Unsupported compression_type: {name}.")
    return name


class TFRecordDataset(_FilesDataset):
    """The records of TFRecord files: string scalars.

    Args:
      filenames: names (a scalar or a vector of strings), or a Dataset of names.
      compression_type: None or "", "ZLIB" or "GZIP".
      buffer_size: ignored.
      num_parallel_reads: how many files are read at a time. The order then
        varies. None: one after the other.

    Steps raise DataLossError for a corrupt file, NotFoundError for none.
    """

    def __init__(self, filenames, compression_type=None, buffer_size=None,
                 num_parallel_reads=None):
        compression = _compression(compression_type, ("", "ZLIB", "GZIP"))
        super().__init__(filenames, lambda file: _Records(file, compression),
                         4 if num_parallel_reads == -1
                         else num_parallel_reads or 1)


class TextLineDataset(_FilesDataset):
    r"""The lines of text files, without "\n" or "\r\n": string scalars.

    A file is read as a whole. Compressed files are not implemented.

    Args:
      filenames: names (a scalar or a vector of strings), or a Dataset of names.
      compression_type: None or "".
      buffer_size: ignored.
      num_parallel_reads: as for TFRecordDataset.
    """

    def __init__(self, filenames, compression_type=None, buffer_size=None,
                 num_parallel_reads=None):
        _compression(compression_type, ("",))
        super().__init__(filenames, _lines,
                         4 if num_parallel_reads == -1
                         else num_parallel_reads or 1)


def _lines(file):
    text = _op("ReadFile")(file)
    lines = string_ops.string_split([text], "\n", skip_empty=False).values
    # (What follows the last line break is a line unless it is empty.)
    empty = math_ops.cast(math_ops.equal(lines[-1:], ""), dtypes.int32)
    lines = lines[:array_ops.size(lines) - math_ops.reduce_sum(empty)]
    return Dataset.from_tensor_slices(
        string_ops.regex_replace(lines, "\r$", ""))


class FixedLengthRecordDataset(_FilesDataset):
    """The records of files of records of one length: string scalars.

    A file is read as a whole. Compressed files are not implemented.

    Args:
      filenames: names (a scalar or a vector of strings), or a Dataset of names.
      record_bytes: the size of a record.
      header_bytes: the size of what precedes the records of a file.
      footer_bytes: the size of what follows them.
      buffer_size: ignored.
      compression_type: None or "".
      num_parallel_reads: as for TFRecordDataset.

    Steps raise InvalidArgumentError if a file has no whole number of records.
    """

    def __init__(self, filenames, record_bytes, header_bytes=None,
                 footer_bytes=None, buffer_size=None, compression_type=None,
                 num_parallel_reads=None):
        _compression(compression_type, ("",))
        size, header, footer = (
            int(n or 0) for n in (record_bytes, header_bytes, footer_bytes))
        if size < 1:
            raise errors.InvalidArgumentError(
                None, None, f"record_bytes: expected at least 1, got {size}")

        def records(file):
            text = _op("ReadFile")(file)
            body = string_ops.string_length(text) - (header + footer)
            whole = control_flow.Assert(
                math_ops.logical_and(body >= 0,
                                     math_ops.equal(body % size, 0)),
                [f"FixedLengthRecordDataset: Excluding the header ({header} "
                 f"bytes) and the footer ({footer} bytes), input file ", file,
                 " has ", body, " bytes, which is not a multiple of the record "
                 f"length ({size} bytes)."])
            with graphs.control_dependencies([whole]):
                count = math_ops.cast(body // size, dtypes.int64)
            return Dataset.range(count).map(lambda i: string_ops.substr(
                text, header + math_ops.cast(i, dtypes.int32) * size, size))

        super().__init__(filenames, records,
                         4 if num_parallel_reads == -1
                         else num_parallel_reads or 1)
