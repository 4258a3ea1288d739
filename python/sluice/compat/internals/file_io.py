"""Files under the names of TensorFlow's internal module file_io."""

import uuid

from sluice.compat import gfile

file_exists, is_directory, stat = gfile.Exists, gfile.IsDirectory, gfile.Stat
create_dir, recursive_create_dir = gfile.MkDir, gfile.MakeDirs
delete_file, delete_recursively = gfile.Remove, gfile.DeleteRecursively
rename, copy = gfile.Rename, gfile.Copy
list_directory, get_matching_files = gfile.ListDirectory, gfile.Glob
walk, FileIO = gfile.Walk, gfile.GFile


def read_file_to_string(filename, binary_mode=False):
    """Returns the contents of a file."""
    with gfile.GFile(filename, "rb" if binary_mode else "r") as f:
        return f.read()


def write_string_to_file(filename, file_content):
    """Writes the contents of a file."""
    mode = "wb" if isinstance(file_content, bytes) else "w"
    with gfile.GFile(filename, mode) as f:
        f.write(file_content)


def atomic_write_string_to_file(filename, contents, overwrite=True):
    """Writes a file aside, and gives it its name."""
    aside = f"{gfile._path(filename)}.tempstate{uuid.uuid4().hex}"
    try:
        write_string_to_file(aside, contents)
        gfile.Rename(aside, filename, overwrite)
    except BaseException:
        if gfile.Exists(aside):
            gfile.Remove(aside)
        raise
