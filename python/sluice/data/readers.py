"""Datasets of the contents of files."""

from sluice import _core
from sluice.data.dataset import Dataset
from sluice.data.elements import Elements
from sluice.data.lowering import missing
from sluice.framework import dtypes, errors
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.framework.elements import Tensor
from sluice.ops import array_ops


class _File(Dataset):
    """The strings that a source of the library gives for one file.

    Args:
      file: its name.
      source: a function of the name that returns a _core.Dataset.
    """

    def __init__(self, file, source):
        self._file, self._source = file, source

    def _lower(self, build):
        return self._source(build.source(self._file)), Elements(Tensor)


class _FilesDataset(Dataset):
    """The contents of files, one after the other or in parallel.

    Args:
      filenames: names (a scalar or a vector), or a Dataset of names.
      source: a function of a name that returns a _core.Dataset of strings.
      parallel: how many files are read at a time; None: one; -1: four.
    """

    def __init__(self, filenames, source, parallel):
        if not isinstance(filenames, Dataset):
            names = convert_to_tensor(filenames, dtypes.string)
            filenames = Dataset.from_tensor_slices(
                array_ops.reshape(names, [-1]))
        parallel = 4 if parallel == -1 else parallel or 1

        def contents(file):
            return _File(file, source)

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
        super().__init__(
            filenames,
            lambda file: _core.Dataset.records(file, compression, False),
            num_parallel_reads)


class TextLineDataset(_FilesDataset):
    r"""The lines of text files, without "\n" or "\r\n": string scalars.

    Compressed files are not implemented.

    Args:
      filenames: names (a scalar or a vector of strings), or a Dataset of names.
      compression_type: None or "".
      buffer_size: ignored.
      num_parallel_reads: as for TFRecordDataset.
    """

    def __init__(self, filenames, compression_type=None, buffer_size=None,
                 num_parallel_reads=None):
        _compression(compression_type, ("",))
        super().__init__(filenames, _core.Dataset.lines, num_parallel_reads)


class FixedLengthRecordDataset(_FilesDataset):
    """The records of files of records of one length: string scalars.

    Args:
      filenames: names (a scalar or a vector of strings), or a Dataset of names.
      record_bytes: the size of a record.
      header_bytes: the size of what precedes the records of a file.
      footer_bytes: the size of what follows them.
      buffer_size: ignored.
      compression_type: None or "", "ZLIB" or "GZIP".
      num_parallel_reads: as for TFRecordDataset.

    Steps raise InvalidArgumentError if a file has no whole number of records.
    """

    def __init__(self, filenames, record_bytes, header_bytes=None,
                 footer_bytes=None, buffer_size=None, compression_type=None,
                 num_parallel_reads=None):
        compression = _compression(compression_type, ("", "ZLIB", "GZIP"))
        size, header, footer = (
            int(n or 0) for n in (record_bytes, header_bytes, footer_bytes))
        if size < 1 or header < 0 or footer < 0:
            raise errors.InvalidArgumentError(
                None, None, "FixedLengthRecordDataset: expected record_bytes "
                "of at least 1 and header_bytes and footer_bytes of at least "
                f"0, got {size}, {header} and {footer}")
        super().__init__(
            filenames,
            lambda file: _core.Dataset.fixed_length_records(
                file, size, header, footer, compression),
            num_parallel_reads)
