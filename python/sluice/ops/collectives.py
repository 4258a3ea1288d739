"""Collective operations among the members of a group.

Every member runs the operation, in a session and a graph of its own on a task
of one cluster, or as nodes of one session on several devices. How a group is
formed: docs/design/043-collectives.md.
"""

from sluice import _core
from sluice.framework import graph as graphs, protos
from sluice.framework.conversion import convert_to_tensor

_op = _core.op
# Instances beyond this are those of gradients.
_INSTANCES = 1 << 24
_REDUCTIONS = {"sum": ("Add", "Id"), "mean": ("Add", "Div"),
               "product": ("Mul", "Id"), "min": ("Min", "Id"),
               "max": ("Max", "Id")}


def _member(op):
    return op.get_attr("group_key"), op.get_attr("rank"), op.device


def _build(op, inputs, group_size, group_key, instance_key, rank, algorithm,
           **attrs):
    out = _op(op)(*inputs, group_size=group_size, group_key=group_key,
                  instance_key=instance_key or 0, rank=rank,
                  communication_hint=algorithm, **attrs)
    if instance_key is None:
        # The member is known now that the scopes have given it a device.
        used = [other.get_attr("instance_key")
                for other in out.graph.get_operations()
                if other.type.startswith("Collective") and other != out.op
                and _member(other) == _member(out.op)]
        instance_key = 1 + max((i for i in used if i < _INSTANCES), default=0)
        out.op._set_attr("instance_key", protos.AttrValue(i=instance_key))
    return out


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
        the number of this member's operations in the graph so far (those of the
        group with the same rank and device), plus one.
      rank: this member's place; -1: in the order of the members' devices.
      algorithm: "auto", "ring", "tree" or "direct".
      name: the name of the operation.

    Raises:
      ValueError: if there is no such reduction.
    """
    how = _reduction(reduction)
    x = convert_to_tensor(x)
    return _build("CollectiveReduce", [x], group_size, group_key, instance_key,
                  rank, algorithm, subdiv_offsets=[], name=name, **how)


def reduce_scatter(x, group_size, reduction="sum", group_key=1,
                   instance_key=None, rank=-1, algorithm="auto", name=None):
    """Returns this member's share of the rows of the reduced value.

    The arguments are those of `all_reduce`. It has a gradient if the group's
    size divides the number of rows.
    """
    how = _reduction(reduction)
    x = convert_to_tensor(x)
    return _build("CollectiveReduceScatter", [x], group_size, group_key,
                  instance_key, rank, algorithm, name=name, **how)


def all_gather(x, group_size, group_key=1, instance_key=None, rank=-1,
               algorithm="auto", name=None):
    """Returns the values of all members along the first dimension."""
    x = convert_to_tensor(x)
    return _build("CollectiveGather", [x], group_size, group_key, instance_key,
                  rank, algorithm, name=name)


def broadcast(x, root, group_size, group_key=1, instance_key=None, rank=-1,
              name=None):
    """Returns the value of the member whose `root` is true.

    `x` of the others gives the type and the shape, which must be known, and is
    not computed.
    """
    x = convert_to_tensor(x)
    group = (group_size, group_key, instance_key, rank, "auto")
    if root:
        return _build("CollectiveBcastSend", [x], *group, shape=x.shape,
                      name=name)
    with graphs.get_default_graph().as_default():
        return _build("CollectiveBcastRecv", [], *group, T=x.dtype.base_dtype,
                      shape=x.shape, name=name)
