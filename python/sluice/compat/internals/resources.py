"""Resources that are created before use: `tensorflow.python.ops.resources`."""

import collections

from sluice.framework import graph as graphs
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, control_flow

_Resource = collections.namedtuple("_Resource", "handle create is_initialized")


def register_resource(handle, create_op, is_initialized_op, is_shared=True):
    """Registers a resource that must be created before use.

    Args:
      handle: the handle of the resource.
      create_op: the operation that creates it.
      is_initialized_op: a boolean tensor that tells whether it exists.
      is_shared: whether sessions of a cluster share it.
    """
    graphs.add_to_collection(
        GraphKeys.RESOURCES if is_shared else GraphKeys.LOCAL_RESOURCES,
        _Resource(handle, create_op, is_initialized_op))


def shared_resources():
    """Returns the resources that sessions of a cluster share."""
    return graphs.get_collection(GraphKeys.RESOURCES)


def local_resources():
    """Returns the resources that are local to each session."""
    return graphs.get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list, name="init"):
    """Makes an operation that creates resources."""
    return control_flow.group(*(r.create for r in resource_list), name=name)


def report_uninitialized_resources(resource_list=None,
                                   name="report_uninitialized_resources"):
    """Returns the names of the handles whose resources do not exist.

    Args:
      resource_list: the resources; default to all shared and local ones.
    """
    if resource_list is None:
        resource_list = shared_resources() + local_resources()
    with graphs.name_scope(name), graphs.device("/cpu:0"):
        if not resource_list:
            return array_ops.constant([], "string")
        missing = array_ops.stack(
            [r.is_initialized for r in resource_list]).__invert__()
        names = array_ops.constant([r.handle.name for r in resource_list])
        return array_ops.boolean_mask(names, missing)
