"""How files of records are compressed."""


class TFRecordCompressionType:
    """Whether and how a file of records is compressed."""

    NONE, ZLIB, GZIP = range(3)


_NAMES = {None: "", TFRecordCompressionType.NONE: "",
          TFRecordCompressionType.ZLIB: "ZLIB",
          TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """Options of files of records.

    Args:
      compression_type: a TFRecordCompressionType, its name ("", "ZLIB" or
        "GZIP"), or None.
      flush_mode: for writing, zlib's: 0 or None, or how to flush after each
        record (1 to 3, 5), which goes to the file then. With 2 and 3 what a
        killed program has written is read to its end; with 1 and 5 such a file
        is read as truncated: its records, with 5 without some of the last
        bytes, and then DataLossError.
      output_buffer_size: how many bytes a writer collects before it writes, if
        it does not flush.
      window_bits: for writing, the logarithm of the size of zlib's window, 9
        to 15; None: 15. (16 more, as TensorFlow takes it for GZIP, are the
        same.)
      compression_level: zlib's level for writing, from 0 (none) to 9 (best);
        None or -1: its default.
      mem_level: for writing, zlib's, 1 to 9; None: 8.
      compression_strategy: for writing, zlib's, 0 to 4; None: 0.
      input_buffer_size: how many bytes of records a writer collects before it
        compresses them together; flush_mode flushes then, and not after each
        record. None or 0: each record by itself. (Readers take no option but
        the compression, as in TensorFlow.)
      compression_method: None or 8, zlib's only one.

    Raises:
      ValueError: if there is no such compression.
    """

    compression_type_map = {kind: name for kind, name in _NAMES.items()
                            if kind is not None}

    def __init__(self, compression_type=None, flush_mode=None,
                 input_buffer_size=None, output_buffer_size=None,
                 window_bits=None, compression_level=None,
                 compression_method=None, mem_level=None,
                 compression_strategy=None):
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options):
        """Returns the name of the compression of options.

        Args:
          options: a TFRecordOptions, a TFRecordCompressionType, a name, or
            None.

        Raises:
          ValueError: if there is no such compression.
        """
        return compression_name(options)


def compression_name(options):
    """Returns the name of a compression: "", "ZLIB" or "GZIP".

    See `TFRecordOptions.get_compression_type_string`.
    """
    while isinstance(options, TFRecordOptions):
        options = options.compression_type
    if isinstance(options, str) and options in _NAMES.values():
        return options
    if isinstance(options, (int, type(None))) and options in _NAMES:
        return _NAMES[options]
    raise ValueError(f'Not a valid compression_type: "{options}"')


def writer_parameters(options):
    """Returns how to write: level, window, memory, strategy, flush, buffers.

    Raises:
      ValueError: if options name a method that there is not.
    """
    given = {"compression_level": -1, "window_bits": 15, "mem_level": 8,
             "compression_strategy": 0, "flush_mode": 0,
             "input_buffer_size": 0, "output_buffer_size": 256 << 10,
             "compression_method": 8}
    unset = set(given)
    while isinstance(options, TFRecordOptions):
        for name in list(unset):
            value = getattr(options, name)
            if value is not None:
                given[name] = value
                unset.remove(name)
        options = options.compression_type
    if given.pop("compression_method") != 8:
        raise ValueError("compression_method: expected 8 (zlib's DEFLATED), "
                         "got another")
    if compression_name(options) == "GZIP" and given["window_bits"] > 16:
        given["window_bits"] -= 16
    return tuple(given.values())
