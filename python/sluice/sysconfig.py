"""Where the headers and libraries are that programs in C are built with.

    cc program.c $(python3 -m sluice.sysconfig --cflags --libs)
    cmake -DSluice_DIR="$(python3 -m sluice.sysconfig --cmake-dir)" ...

Wheels hold the C APIs: `sluice/c_api.h`, `tensorflow/c/c_api.h` and
`libsluice_c`. In a build's folder or a system's package, they are elsewhere; the
functions then raise FileNotFoundError.
"""

import argparse
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _existing(path):
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"C API: expected {path}, which sluice's wheels have, got none; "
            "other packages have pkg-config's sluice_c")
    return path


def get_include():
    """Returns the folder of the C headers (`sluice/c_api.h`)."""
    return _existing(os.path.join(_FOLDER, "include"))


def get_lib():
    """Returns the folder of `libsluice_c.so.0`."""
    _existing(os.path.join(_FOLDER, "libsluice_c.so.0"))
    return _FOLDER


def get_cmake_dir():
    """Returns the folder of `SluiceConfig.cmake`, with the target Sluice::c."""
    return _existing(os.path.join(_FOLDER, "cmake"))


def get_compile_flags():
    """Returns the options for the compiler, as a list."""
    return [f"-I{get_include()}"]


def get_link_flags():
    """Returns the options for the linker, as a list."""
    folder = get_lib()
    return [f"-L{folder}", "-l:libsluice_c.so.0", f"-Wl,-rpath,{folder}",
            "-Wl,--allow-shlib-undefined"]


def main(arguments=None):
    """Prints what the options ask for, in one line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m sluice.sysconfig",
        description="Prints options for building C programs.")
    asked = {"--cflags": get_compile_flags, "--libs": get_link_flags,
             "--include-dir": lambda: [get_include()],
             "--lib-dir": lambda: [get_lib()],
             "--cmake-dir": lambda: [get_cmake_dir()]}
    for option in asked:
        parser.add_argument(option, action="store_true")
    chosen = vars(parser.parse_args(arguments))
    words = []
    for option, function in asked.items():
        if chosen[option[2:].replace("-", "_")]:
            words += function()
    if not words:
        parser.error("expected at least one option")
    print(" ".join(words))


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as error:
        sys.exit(f"sluice.sysconfig: {error}")
