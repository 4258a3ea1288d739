"""What programs derive their readers of files from."""


class ReaderBase:
    """The base class of readers of files; there are no ops for them yet."""

    def __init__(self, reader_ref, supports_serialize=False):
        raise NotImplementedError(
            f"{type(self).__name__}: it needs readers of files, which are not "
            f"there yet")
