"""The base class of file readers."""


class ReaderBase:
    """The base class of file readers, which are not implemented yet."""

    def __init__(self, reader_ref, supports_serialize=False):
        raise NotImplementedError(
            f"{type(self).__name__}: it needs readers of files, which are not "
            f"implemented yet")
