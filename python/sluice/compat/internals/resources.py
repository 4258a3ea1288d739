"""State behind handles that is no variable, and is created before use:
`tensorflow.python.ops.resources`."""

import collections

from sluice.framework import graph as graphs
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, control_flow

_Resource = collections.namedtuple("_Resource", "handle create is_initialized")


def register_resource(handle, create_op, is_initialized_op, is_shared=True):
    """Collects a resource: what creates it, and what tells whether it is
    there."""
    graphs.add_to_collection(
        GraphKeys.RESOURCES if is_shared else GraphKeys.LOCAL_RESOURCES,
        _Resource(handle, create_op, is_initialized_op))


def shared_resources():
    """The resources that sessions of a cluster share."""
    return graphs.get_collection(GraphKeys.RESOURCES)


def local_resources():
    """The resources of each session's own."""
    return graphs.get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list, name="init"):
    """An operation that creates some resources."""
    return control_flow.group(*(r.create for r in resource_list), name=name)


def report_uninitialized_resources(resource_list=None,
                                   name="report_uninitialized_resources"):
    """The names of the handles whose resources are not there, a vector.

    Args:
      resource_list: all shared and local ones, unless given.
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
