"""Which mode there is: graphs, always (`tensorflow.python.eager.context`)."""

import contextlib


def executing_eagerly():
    """False."""
    return False


ENABLE_CONTROL_FLOW_V2 = False  # (tensorflow.python.ops.control_flow_util)


def enabled():
    """False: this is TensorFlow 1 (`tensorflow.python.tf2`)."""
    return False


def in_eager_mode():
    """False."""
    return False


def in_graph_mode():
    """True."""
    return True


@contextlib.contextmanager
def graph_mode():
    """A with-block like any other."""
    yield


def num_gpus():
    """None: there are CPUs only."""
    return 0
