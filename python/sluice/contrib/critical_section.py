"""CriticalSection: mutual exclusion of functions across steps."""

import collections
import contextlib
import threading

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest
from sluice.framework.conversion import IndexedSlices, SparseTensor
from sluice.ops import array_ops, control_flow

# The collections of a graph's sections and of their executions.
CRITICAL_SECTIONS = "critical_sections"
CRITICAL_SECTION_EXECUTIONS = "critical_section_executions"

_Execution = collections.namedtuple(
    "_Execution", ["op", "handle", "resources", "exclusive_resource_access"])
_within = threading.local()  # The sections whose functions are being called.


def _identity(x):
    """Returns an identity of a value, or a group of an operation."""
    if isinstance(x, _core.Operation):
        return control_flow.group(x)
    if isinstance(x, SparseTensor):
        return SparseTensor(*map(array_ops.identity,
                                 (x.indices, x.values, x.dense_shape)))
    if isinstance(x, IndexedSlices):
        return IndexedSlices(*(part if part is None else array_ops.identity(
            part) for part in (x.values, x.indices, x.dense_shape)))
    return x if x is None else array_ops.identity(x)


class CriticalSection:
    """Runs the operations of one function at a time.

    The exclusion extends to all steps of a session and to all sections of the
    same name.

        section = tf.CriticalSection()
        doubled = section.execute(lambda: v.assign(2 * v.read_value()))

    Args:
      name: the name of the mutex.
      shared_name: a name; sections with the same name exclude each other.
    """

    def __init__(self, name=None, shared_name=None, critical_section_def=None,
                 import_scope=None):
        if critical_section_def is not None:
            raise ValueError("Argument `critical_section_def` is not "
                             "supported.")
        graph = graphs.get_default_graph()
        with graphs.name_scope(name, "CriticalSection") as scope:
            self._handle = _core.op("MutexV2")(
                shared_name=shared_name or scope,
                container=graph._container or "", name=scope)
        graph.add_to_collection(CRITICAL_SECTIONS, self)

    name = property(lambda self: self._handle.op.name, doc="The name.")

    def execute(self, fn, exclusive_resource_access=True, name=None):
        """Returns the result of `fn()`, computed while no other function runs.

        Args:
          fn: a function that returns a structure of tensors or operations. The
            operations that it adds run inside the section, and their inputs
            are computed before.
          exclusive_resource_access: whether other sections must not use the
            resources that it uses; ValueError if one does.
        """
        graph = graphs.get_default_graph()
        with graphs.name_scope(name, "critical_section_execute"):
            with self._entered():
                lock = _core.op("MutexLock")(self._handle)
                known = len(graph.get_operations())
                with graphs.control_dependencies([lock]):
                    result = fn()
                made = graph.get_operations()[known:]
            self._wait_for_arguments(made, lock.op)
            resources = {x for op in made for x in op.inputs
                         if x.dtype == dtypes.resource}
            if any(self._is_this(x) for x in resources):
                raise ValueError(_NESTED)
            self._check_others(resources, exclusive_resource_access)
            flat = [_identity(x) for x in nest.flatten(result)]
            last = [x for x in flat if x is not None] or [lock]
            with graphs.control_dependencies(last), graphs.colocate_with(
                    self._handle.op):
                left = _core.op("ConsumeMutexLock")(lock)
            with graphs.control_dependencies([left]):
                outputs = nest.pack_sequence_as(
                    result, [_identity(x) for x in flat])
            graph.add_to_collection(CRITICAL_SECTION_EXECUTIONS, _Execution(
                lock.op, self._handle, resources, exclusive_resource_access))
            return outputs

    @contextlib.contextmanager
    def _entered(self):
        """A context manager for the call of a function."""
        sections = _within.__dict__.setdefault("sections", [])
        if any(self._is_this(handle) for handle in sections):
            raise ValueError(_NESTED)
        sections.append(self._handle)
        try:
            yield
        finally:
            sections.pop()

    @staticmethod
    def _wait_for_arguments(made, lock):
        """Makes the lock wait for all inputs of the function.

        Otherwise an input that comes from another execution of the section
        would cause a deadlock. Inputs from outside a loop or branch are
        excluded, because they are always computed before.
        """
        inside = {*made, lock, *lock.control_inputs,
                  *(x.op for x in lock.inputs)}
        lock._add_control_inputs([op for op in dict.fromkeys(
            before for op in made
            for before in (*(x.op for x in op.inputs), *op.control_inputs))
            if op not in inside and (
                op._control_flow_context == lock._control_flow_context)])

    def _is_this(self, x):
        """Returns whether a tensor is the handle of this section's mutex.

        Handles with the same shared name and device are equal.
        """
        here, there = self._handle.op, x.op
        if there.type != "MutexV2":
            return False
        return there is here or (
            there.get_attr("shared_name") == here.get_attr("shared_name")
            and there.device == here.device)

    def _check_others(self, resources, exclusive):
        for other in graphs.get_collection(CRITICAL_SECTION_EXECUTIONS):
            shared = resources & other.resources
            if (shared and not self._is_this(other.handle) and
                    (exclusive or other.exclusive_resource_access)):
                raise ValueError(
                    f"This execution would access resources: "
                    f"{sorted(x.name for x in shared)}. Either this lock "
                    f"(CriticalSection: {self._handle}) or that of "
                    f"{other.handle} requested exclusive resource access of "
                    f"this resource. Did you mean to call execute with keyword "
                    f"argument exclusive_resource_access=False?")


_NESTED = ("Attempting to lock a CriticalSection in which we are already "
           "running. This is illegal and may cause deadlocks.")
