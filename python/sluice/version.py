"""Versions of the package, and of the graphs that it reads and writes."""

VERSION = "1.15.0"  # The version of TensorFlow with the same names.
GRAPH_DEF_VERSION = 2474
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
GIT_VERSION = COMPILER_VERSION = "unknown"
