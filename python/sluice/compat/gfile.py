"""Files and folders, with TensorFlow's functions and errors."""

import collections
import glob
import os
import shutil

from sluice import _core
from sluice.framework import errors
from sluice.compat import as_bytes, as_str_any

_ERRORS = {FileNotFoundError: errors.NotFoundError,
           FileExistsError: errors.AlreadyExistsError,
           PermissionError: errors.PermissionDeniedError,
           IsADirectoryError: errors.FailedPreconditionError,
           NotADirectoryError: errors.FailedPreconditionError}

FileStatistics = collections.namedtuple(
    "FileStatistics", ["length", "mtime_nsec", "is_directory"])


class _translated:
    """A context manager that turns OSErrors into errors of `tf.errors`."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, OSError):
            made = _ERRORS.get(kind, errors.FailedPreconditionError)
            raise made(None, None, f"{error.filename}; {error.strerror}"
                       ) from error


def _path(name):
    name = os.fspath(name) if hasattr(name, "__fspath__") else as_str_any(name)
    return _core.local_path(name) if isinstance(name, str) else name


class GFile:
    """A file: `GFile(name, "r").read()`. Reads str, or bytes in mode "b".

    In the modes with "+" what is read and what is written have positions of
    their own: reading begins at the start of the file.
    """

    def __init__(self, name, mode="r"):
        if mode not in ("r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab",
                        "rb+", "wb+", "ab+", "r+b", "w+b", "a+b"):
            raise errors.InvalidArgumentError(
                None, None, f"mode is not 'r' or 'w' or 'a': {mode}")
        self._name, self._mode = name, mode
        self._input = self._output = None

    name = property(lambda self: self._name, doc="The name of the file.")
    mode = property(lambda self: self._mode, doc="The mode of the file.")

    @property
    def _reads(self):
        return "r" in self._mode or "+" in self._mode

    def _reader(self):
        if not self._reads:
            raise errors.PermissionDeniedError(
                None, None, "File isn't open for reading")
        if self._mode[0] == "w":
            self._writer()  # The file is empty at first.
        with _translated():
            if self._output is not None:
                self._output.flush()
            if self._input is None:
                self._input = open(_path(self._name), "rb")
        return self._input

    def _writer(self):
        if self._mode[0] == "r" and "+" not in self._mode:
            raise errors.PermissionDeniedError(
                None, None, "File isn't open for writing")
        if self._output is None:
            path, kind = _path(self._name), self._mode[0]
            if kind == "r":
                kind = "r+" if os.path.exists(path) else "w"
            with _translated():
                self._output = open(path, kind + "b")
        return self._output

    def _text(self, data):
        return data if "b" in self._mode else data.decode("utf-8")

    def read(self, n=-1):
        """Reads `n` bytes, or the rest."""
        if n < -1:
            raise errors.InvalidArgumentError(
                None, None, f"read: expected n >= 0, or -1, got {n}")
        file = self._reader()
        with _translated():
            return self._text(file.read(n))

    def readline(self):
        """Reads a line, with its line break."""
        file = self._reader()
        with _translated():
            return self._text(file.readline())

    def readlines(self):
        """Reads the remaining lines."""
        return list(self)

    def __iter__(self):
        return self

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def write(self, file_content):
        """Writes str or bytes."""
        file = self._writer()
        with _translated():
            file.write(as_bytes(file_content))

    def seek(self, offset=None, whence=0, position=None):
        """Moves to a position, where reading goes on if the file is read.

        Raises:
          errors.InvalidArgumentError: if there is no such position or `whence`.
          TypeError: if no position is given.
        """
        to = position if offset is None else offset
        if to is None:
            raise TypeError("seek(): offset argument required")
        file = self._reader() if self._reads else self._writer()
        try:
            if whence not in (0, 1, 2):
                raise ValueError("whence: expected 0, 1 or 2")
            file.seek(to, whence)
        except (OSError, ValueError) as e:
            raise errors.InvalidArgumentError(
                None, None, f"{self._name}: expected a position to seek to, "
                f"got {to} with whence {whence}") from e

    def seekable(self):
        """Returns True."""
        return True

    def tell(self):
        """Returns the position, of reading if the file is read."""
        return (self._reader() if self._reads else self._writer()).tell()

    def size(self):
        """Returns the length in bytes."""
        return Stat(self._name).length

    def flush(self):
        """Writes buffered data."""
        if self._output is not None:
            self._output.flush()

    def close(self):
        """Closes the file."""
        for file in (self._input, self._output):
            if file is not None:
                file.close()
        self._input = self._output = None

    def __enter__(self):
        if self._mode[0] == "w":
            self._writer()
        return self

    def __exit__(self, *unused):
        self.close()


FastGFile = Open = GFile


def Exists(filename):
    """Returns whether the file or folder exists."""
    return os.path.exists(_path(filename))


def IsDirectory(dirname):
    """Returns whether the path is a folder."""
    return os.path.isdir(_path(dirname))


def Stat(filename):
    """Returns length and modification time, and whether it is a folder."""
    with _translated():
        s = os.stat(_path(filename))
    return FileStatistics(s.st_size, s.st_mtime_ns, IsDirectory(filename))


def MkDir(dirname):
    """Creates a folder."""
    with _translated():
        os.mkdir(_path(dirname))


def MakeDirs(dirname):
    """Creates a folder and its parents unless they exist."""
    with _translated():
        os.makedirs(_path(dirname), exist_ok=True)


def Remove(filename):
    """Deletes a file."""
    with _translated():
        os.remove(_path(filename))


def DeleteRecursively(dirname):
    """Deletes a file, or a folder and its contents."""
    with _translated():
        if IsDirectory(dirname):
            shutil.rmtree(_path(dirname))
        else:
            os.remove(_path(dirname))


def Rename(oldname, newname, overwrite=False):
    """Renames a file."""
    _may_write(newname, overwrite)
    with _translated():
        os.replace(_path(oldname), _path(newname))


def Copy(oldpath, newpath, overwrite=False):
    """Copies a file."""
    _may_write(newpath, overwrite)
    with _translated():
        shutil.copyfile(_path(oldpath), _path(newpath))


def _may_write(name, overwrite):
    if Exists(name) and not overwrite:
        raise errors.AlreadyExistsError(None, None,
                                        "file already exists")


def ListDirectory(dirname):
    """Returns the names in a folder."""
    with _translated():
        return sorted(os.listdir(_path(dirname)))


def Glob(filename):
    """Returns the files that match a pattern or one of several patterns."""
    patterns = filename if isinstance(filename, (list, tuple)) else [filename]
    return [f for p in patterns for f in sorted(glob.glob(_path(p)))]


def Walk(top, in_order=True):
    """Yields (folder, its folders, its files) for a folder and all below it."""
    top = _path(top)
    if not os.path.isdir(top):
        return
    for folder, folders, files in os.walk(top, topdown=in_order):
        folders.sort()
        yield folder, list(folders), sorted(files)
