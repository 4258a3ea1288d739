"""Loads the extension module, even if another protobuf is already loaded."""

import ctypes
import importlib
import os
import sys


def load():
    """Imports and returns the extension module, `sluice._core`.

    TensorFlow's libraries export their own versions of protobuf, Abseil and
    gRPC to all libraries loaded later, which would then call them and crash.
    After TensorFlow, the module and its libraries are therefore loaded with
    RTLD_DEEPBIND, so that they look up their own symbols first.
    """
    if "tensorflow" not in sys.modules or not hasattr(os, "RTLD_DEEPBIND"):
        return importlib.import_module("sluice._core")
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        core = importlib.import_module("sluice._core")
    finally:
        sys.setdlopenflags(flags)
    # The library for clusters is otherwise loaded only when it is needed.
    cluster = os.path.join(_library_folder(), "libsluice_cluster.so.0")
    if os.path.exists(cluster):
        try:
            ctypes.CDLL(cluster, mode=(os.RTLD_NOW | os.RTLD_GLOBAL |
                                       os.RTLD_DEEPBIND))
        except OSError:
            pass  # Sessions on clusters report what is missing.
    return core


def _library_folder():
    """Returns the folder from which libsluice was loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line[line.find("/"):].rstrip("\n") if "/" in line else ""
            if os.path.basename(path).startswith("libsluice.so"):
                return os.path.dirname(path)
    return ""
