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
      flush_mode, input_buffer_size, output_buffer_size, window_bits: zlib's
        parameters; ignored, since any reader accepts any of them.
      compression_level: zlib's level for writing, from 0 (none) to 9 (best);
        None or -1: its default.
      compression_method, mem_level, compression_strategy: ignored.

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


def compression_level(options):
    """Returns the level of compression of options; -1: zlib's default."""
    level = None
    while isinstance(options, TFRecordOptions):
        level = options.compression_level if level is None else level
        options = options.compression_type
    return -1 if level is None else level
