"""The execution mode, which is always graphs, and control-flow operations.

It replaces `tensorflow.python.eager.context` and `control_flow_util`.
"""

import contextlib


def executing_eagerly():
    """Returns False."""
    return False


ENABLE_CONTROL_FLOW_V2 = False  # From tensorflow.python.ops.control_flow_util.


def enabled():
    """Returns False: this is TensorFlow 1 (`tensorflow.python.tf2`)."""
    return False


def in_eager_mode():
    """Returns False."""
    return False


def in_graph_mode():
    """Returns True."""
    return True


@contextlib.contextmanager
def graph_mode():
    """A context manager without effect."""
    yield


def IsSwitch(op):
    """Returns whether an operation is a Switch."""
    return op.type in ("Switch", "RefSwitch")


def IsLoopEnter(op):
    """Returns whether an operation is an Enter."""
    return op.type in ("Enter", "RefEnter")


def IsLoopConstantEnter(op):
    """Returns whether an operation is the Enter of a loop invariant."""
    return IsLoopEnter(op) and op.get_attr("is_constant")


def IsLoopExit(op):
    """Returns whether an operation is an Exit."""
    return op.type in ("Exit", "RefExit")


def IsMerge(op):
    """Returns whether an operation is a Merge."""
    return op.type in ("Merge", "RefMerge")


def IsLoopMerge(op):
    """Returns whether an operation is the Merge of a loop."""
    return IsMerge(op) and any(
        t.op.type in ("NextIteration", "RefNextIteration") for t in op.inputs)


def IsCondMerge(op):
    """Returns whether an operation is the Merge of a conditional."""
    return IsMerge(op) and not IsLoopMerge(op)


def IsLoopSwitch(op):
    """Returns whether an operation is the Switch of a loop."""
    return IsSwitch(op) and op.inputs[1].op.type == "LoopCond"


def IsCondSwitch(op):
    """Returns whether an operation is the Switch of a conditional."""
    return IsSwitch(op) and not IsLoopSwitch(op)


def GraphOrParentsInXlaContext(graph):
    """Returns False, because XLA is not used."""
    return False


def num_gpus():
    """Returns 0, because there are only CPUs."""
    return 0
