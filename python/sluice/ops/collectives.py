"""Collective operations among the members of a group.

Every member runs the operation, in a session and a graph of its own on a task
of one cluster, or as nodes of one session on several devices. How a group is
formed: docs/design/043-collectives.md.
"""

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor

_op = _core.op
# Instances beyond this are those of gradients.
_INSTANCES = 1 << 24
_REDUCTIONS = {"sum": ("Add", "Id"), "mean": ("Add", "Div"),
               "product": ("Mul", "Id"), "min": ("Min", "Id"),
               "max": ("Max", "Id")}


def _next_instance(graph, group_key):
    used = [op.get_attr("instance_key") for op in graph.get_operations()
            if op.type.startswith("Collective")
            and op.get_attr("group_key") == group_key]
    return 1 + max((i for i in used if i < _INSTANCES), default=0)


def _group(graph, group_size, group_key, instance_key, rank, algorithm):
    if instance_key is None:
        instance_key = _next_instance(graph, group_key)
    return {"group_size": group_size, "group_key": group_key,
            "instance_key": instance_key, "rank": rank,
            "communication_hint": algorithm}


def _reduction(how):
    if how not in _REDUCTIONS:
        raise ValueError(f"reduction: expected one of {sorted(_REDUCTIONS)}, "
                         f"got {how!r}")
    merge, final = _REDUCTIONS[how]
    return {"merge_op": merge, "final_op": final}


def all_reduce(x, group_size, reduction="sum", group_key=1, instance_key=None,
               rank=-1, algorithm="auto", name=None):
    """Returns the reduced values of all members.

    Args:
      x: a tensor; of the same type and shape in all members.
      group_size: the number of members.
      reduction: "sum", "mean", "product", "min" or "max".
      group_key: names the group.
      instance_key: which operation of the members is the same one; defaults to
        the number of the group's operations in the graph so far, plus one.
      rank: this member's place; -1: in the order of the members' devices.
      algorithm: "auto", "ring", "tree" or "direct".
      name: the name of the operation.

    Raises:
      ValueError: if there is no such reduction.
    """
    how = _reduction(reduction)
    x = convert_to_tensor(x)
    return _op("CollectiveReduce")(
        x, subdiv_offsets=[], name=name, **how,
        **_group(x.graph, group_size, group_key, instance_key, rank, algorithm))


def reduce_scatter(x, group_size, reduction="sum", group_key=1,
                   instance_key=None, rank=-1, algorithm="auto", name=None):
    """Returns this member's share of the rows of the reduced value.

    The arguments are those of `all_reduce`.
    """
    how = _reduction(reduction)
    x = convert_to_tensor(x)
    return _op("CollectiveReduceScatter")(
        x, name=name, **how,
        **_group(x.graph, group_size, group_key, instance_key, rank, algorithm))


def all_gather(x, group_size, group_key=1, instance_key=None, rank=-1,
               algorithm="auto", name=None):
    """Returns the values of all members along the first dimension."""
    x = convert_to_tensor(x)
    return _op("CollectiveGather")(
        x, name=name,
        **_group(x.graph, group_size, group_key, instance_key, rank, algorithm))


def broadcast(x, root, group_size, group_key=1, instance_key=None, rank=-1,
              name=None):
    """Returns the value of the member whose `root` is true.

    `x` of the others gives the type and the shape, which must be known, and is
    not computed.
    """
    x = convert_to_tensor(x)
    group = _group(x.graph, group_size, group_key, instance_key, rank, "auto")
    if root:
        return _op("CollectiveBcastSend")(x, shape=x.shape, name=name, **group)
    with graphs.get_default_graph().as_default():
        return _op("CollectiveBcastRecv")(
            T=x.dtype.base_dtype, shape=x.shape, name=name, **group)
