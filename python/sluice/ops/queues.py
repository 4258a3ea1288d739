"""Queues: elements that concurrent steps put in and take out.

An operation that finds a queue full or empty waits until another step changes
that, or until the queue is closed.
"""

import functools
import hashlib

from sluice import _core
from sluice.framework import (
    conversion, dtypes as types_of, graph as graphs, tensor_shape)
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops

_op = _core.op


def _as_types(dtypes):
    """Returns a list of DTypes for a type or a list of them."""
    if not isinstance(dtypes, (list, tuple)):
        dtypes = [dtypes]
    return [types_of.as_dtype(dtype) for dtype in dtypes]


def _as_shapes(shapes, dtypes, allow_unknown_dims=False):
    """Returns a list of TensorShapes for the shapes of components, or None.

    A single shape stands for a list of one.

    Raises:
      TypeError: if `shapes` is neither a shape nor a list.
      ValueError: if a shape is not known as far as it must be.
    """
    if allow_unknown_dims and (
            not isinstance(shapes, (tuple, list)) or not shapes or
            any(shape is None or isinstance(shape, int) for shape in shapes)):
        raise ValueError("When providing partial shapes, a list of shapes must "
                         "be provided.")
    if shapes is None:
        return None
    if isinstance(shapes, tensor_shape.TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (tuple, list)):
        raise TypeError("shapes must be a TensorShape or a list or tuple of "
                        "TensorShapes.")
    if all(isinstance(shape, int) for shape in shapes) and (
            shapes or len(dtypes) == 1):
        shapes = [shapes]
    shapes = [tensor_shape.as_shape(shape) for shape in shapes]
    if allow_unknown_dims:
        if any(shape.ndims is None for shape in shapes):
            raise ValueError(f"All dimensions must have a defined rank: "
                             f"{shapes}")
    elif not all(shape.is_fully_defined() for shape in shapes):
        raise ValueError(f"All shapes must be fully defined: {shapes}")
    return shapes


def _as_names(names, dtypes):
    """Returns a list of names of components, or None.

    Raises:
      ValueError: if there are fewer or more names than components.
    """
    if names is None:
        return None
    if not isinstance(names, (list, tuple)):
        names = [names]
    if len(names) != len(dtypes):
        raise ValueError("List of names must have the same length as the list "
                         "of dtypes")
    return list(names)


def components_of(values, dtypes, names=None, kind="Queue"):
    """Converts what is put into a queue to a list of tensors.

    Args:
      values: a tensor, or a list of them; with names, a dict by name.
      dtypes: the type of each component.
      names: the names of the components, or None.
      kind: what messages call the destination.

    Raises:
      ValueError: if there are fewer or more values than components, or if the
        values are a dict and the components have no names, or the reverse.
      TypeError: if a value cannot be converted.
    """
    if isinstance(values, dict):
        if not names:
            raise ValueError(f"{kind} must have names to enqueue a dictionary")
        if sorted(names, key=str) != sorted(values, key=str):
            raise ValueError(
                f"Keys in dictionary to enqueue do not match names of {kind}.  "
                f"Dictionary: ({sorted(values)}), {kind}: ({sorted(names)})")
        values = [values[name] for name in names]
    else:
        if names:
            raise ValueError(f"You must enqueue a dictionary in a {kind} with "
                             f"names")
        if not isinstance(values, (list, tuple)):
            values = [values]
    if len(values) != len(dtypes):
        raise ValueError(f"{kind}: expected {len(dtypes)} components, got "
                         f"{len(values)}")
    return [convert_to_tensor(value, dtype, name=f"component_{i}")
            for i, (value, dtype) in enumerate(zip(values, dtypes))]


def _common(a, b):
    """Returns the shape that both shapes fit, as far as it is known."""
    return tensor_shape.as_shape(a).most_specific_compatible_shape(b)


class QueueBase:
    """The base class of queues.

    An element of a queue has one or several components, each with a type and,
    if shapes are given, a fixed shape.

    Args:
      dtypes: the types of the components.
      shapes: their shapes, or None if these may differ between elements.
      names: their names, or None. With names, elements are dicts.
      queue_ref: the handle of the queue.

    Raises:
      ValueError: if there are fewer or more shapes or names than types.
    """

    def __init__(self, dtypes, shapes, names, queue_ref):
        self._dtypes = dtypes
        if shapes is not None and len(shapes) != len(dtypes):
            raise ValueError("Queue shapes must have the same length as dtypes")
        self._shapes = ([tensor_shape.unknown_shape() for _ in dtypes]
                        if shapes is None else
                        [tensor_shape.as_shape(shape) for shape in shapes])
        if names is not None and len(names) != len(dtypes):
            raise ValueError("Queue names must have the same length as dtypes")
        self._names = names or None
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rpartition("/")[2]

    @staticmethod
    def from_list(index, queues):
        """Returns the queue of a list that `index` selects in each step.

        Args:
          index: a scalar integer tensor.
          queues: QueueBases with components of the same types and names.

        Raises:
          TypeError: if `queues` is no list of queues, or if their types differ.
          ValueError: if their names differ.
        """
        if not queues or not isinstance(queues, list) or (
                not all(isinstance(q, QueueBase) for q in queues)):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(q.dtypes != first.dtypes for q in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(q.names != first.names for q in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = [functools.reduce(_common, of_component)
                  for of_component in zip(*(q.shapes for q in queues))]
        selected = array_ops.gather([q.queue_ref for q in queues], index)
        return QueueBase(first.dtypes, shapes, first.names, selected)

    @property
    def queue_ref(self):
        """The handle of the queue, a tensor."""
        return self._queue_ref

    @property
    def name(self):
        """The name of the operation that makes the queue."""
        return self._queue_ref.op.name

    @property
    def dtypes(self):
        """The types of the components."""
        return self._dtypes

    @property
    def shapes(self):
        """The TensorShapes of the components."""
        return self._shapes

    @property
    def names(self):
        """The names of the components, or None."""
        return self._names

    def _scoped(self, name, default, values=()):
        return graphs.name_scope(name, f"{self._name}_{default}", list(values))

    def enqueue(self, vals, name=None):
        """Returns an operation that puts one element in.

        It waits while the queue is full. It fails with CancelledError if the
        queue is closed, or if it is closed with `cancel_pending_enqueues` while
        the operation waits.

        Args:
          vals: a tensor, or a list or tuple of the components; with names, a
            dict by name.
          name: the name of the operation.

        Raises:
          ValueError: if the number, names or shapes of components are wrong.
          TypeError: if a type is wrong.
        """
        with self._scoped(name, "enqueue") as scope:
            vals = components_of(vals, self._dtypes, self._names)
            for value, shape in zip(vals, self._shapes):
                value.shape.assert_is_compatible_with(shape)
            return self._call("QueueEnqueue", vals, name=scope)

    def enqueue_many(self, vals, name=None):
        """Returns an operation that puts in elements, the rows of tensors.

        Args:
          vals: as for `enqueue`; all have the same first dimension, which
            counts the elements.
          name: the name of the operation.

        Raises:
          ValueError: if the number, names or shapes of components are wrong.
          TypeError: if a type is wrong.
        """
        with self._scoped(name, "EnqueueMany") as scope:
            vals = components_of(vals, self._dtypes, self._names)
            count = tensor_shape.Dimension(None)
            for value, shape in zip(vals, self._shapes):
                rows = value.shape.with_rank_at_least(1)
                count = count.merge_with(rows[0])
                rows[1:].assert_is_compatible_with(shape)
            return self._call("QueueEnqueueMany", vals, name=scope)

    def _call(self, op, *inputs, **attributes):
        """Calls a queue's op, in the version that fits its handle."""
        version = "V2" if self._queue_ref.dtype == types_of.resource else ""
        return _op(op + version)(self._queue_ref, *inputs, **attributes)

    def _element(self, tensors, batch=None):
        """Returns dequeued tensors in the form that the program expects."""
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        for tensor, shape in zip(tensors, self._shapes):
            tensor.set_shape(shape if batch is None else
                             tensor_shape.TensorShape([batch]).concatenate(
                                 shape))
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else list(tensors)

    def dequeue(self, name=None):
        """Takes one element out, and returns its components.

        The operation waits while the queue is empty. It fails with
        OutOfRangeError if the queue is empty and closed.

        Args:
          name: the name of the operation.

        Returns:
          A tensor, a list of tensors if there are several components, or a
          dict if they have names.
        """
        with self._scoped(name, "Dequeue") as scope:
            return self._element(self._call(
                "QueueDequeue", component_types=self._dtypes, name=scope))

    def dequeue_many(self, n, name=None):
        """Takes n elements out; stacks each component along dimension 0.

        The operation waits until n elements have come. It fails with
        OutOfRangeError, taking nothing, if the queue is closed before.

        Args:
          n: a scalar integer.
          name: the name of the operation.

        Returns:
          As `dequeue`, with a first dimension of n.
        """
        with self._scoped(name, "DequeueMany", [n]) as scope:
            n = convert_to_tensor(n, types_of.int32)
            return self._element(
                self._call("QueueDequeueMany", n, component_types=self._dtypes,
                           name=scope),
                tensor_shape.Dimension(conversion.constant_value(n)))

    def dequeue_up_to(self, n, name=None):
        """Works like `dequeue_many`, but a closed queue gives what it has.

        It fails with OutOfRangeError only if a closed queue is empty.

        Args:
          n: a scalar integer.
          name: the name of the operation.

        Returns:
          As `dequeue`, with an unknown first dimension.
        """
        with self._scoped(name, "DequeueUpTo", [n]) as scope:
            return self._element(
                self._call("QueueDequeueUpTo", n,
                           component_types=self._dtypes, name=scope),
                tensor_shape.Dimension(None))

    def close(self, cancel_pending_enqueues=False, name=None):
        """Returns an operation that closes the queue.

        Nothing can be put into a closed queue; what it has can be taken out.

        Args:
          cancel_pending_enqueues: whether enqueues that wait fail; by default
            they are completed first.
          name: the name of the operation.
        """
        with self._scoped(name, "Close") as scope:
            return self._call("QueueClose", name=scope,
                              cancel_pending_enqueues=cancel_pending_enqueues)

    def is_closed(self, name=None):
        """Returns whether the queue is closed, a scalar boolean tensor."""
        with self._scoped(name, "Is_Closed") as scope:
            return self._call("QueueIsClosed", name=scope)

    def size(self, name=None):
        """Returns the number of elements, a scalar int32 tensor."""
        with self._scoped(name, "Size") as scope:
            return self._call("QueueSize", name=scope)


def make_resource(op, shared_name, name, **attributes):
    """Makes a resource that is shared by name within the current container."""
    container = graphs.get_default_graph()._container
    return _op(op)(shared_name=shared_name or "", container=container or "",
                   name=name, **attributes)


class FIFOQueue(QueueBase):
    """A queue whose elements leave in the order in which they came.

    Args:
      capacity: the largest number of elements; without limit if negative.
      dtypes: the types of the components.
      shapes: their fully known shapes. Without them elements of different
        shapes may be in the queue, and only `dequeue` works.
      names: their names; with names, elements are dicts.
      shared_name: the name under which sessions share the queue.
      name: the name of the operation.
    """

    def __init__(self, capacity, dtypes, shapes=None, names=None,
                 shared_name=None, name="fifo_queue"):
        dtypes = _as_types(dtypes)
        shapes = _as_shapes(shapes, dtypes)
        names = _as_names(names, dtypes)
        # (As in TensorFlow, queues are on CPUs, whatever device is current.)
        with graphs.init_scope(), graphs.device("CPU"):
            handle = make_resource(
                "FIFOQueueV2", shared_name, name, component_types=dtypes,
                shapes=shapes or [], capacity=capacity)
        super().__init__(dtypes, shapes, names, handle)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements leave in random order.

    Args:
      capacity: the largest number of elements; without limit if negative.
      min_after_dequeue: the number of elements that stay until the queue is
        closed, so that what is taken out is well mixed.
      dtypes: the types of the components.
      shapes: their fully known shapes, or None.
      names: their names; with names, elements are dicts.
      seed: the seed of the order; see `tf.set_random_seed`.
      shared_name: the name under which sessions share the queue.
      name: the name of the operation.
    """

    def __init__(self, capacity, min_after_dequeue, dtypes, shapes=None,
                 names=None, seed=None, shared_name=None,
                 name="random_shuffle_queue"):
        dtypes = _as_types(dtypes)
        shapes = _as_shapes(shapes, dtypes)
        names = _as_names(names, dtypes)
        seed1, seed2 = graphs.get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:
            # All users of the shared queue must agree about its seed, though
            # their graphs number their operations differently.
            text = f"{seed1}{shared_name}".encode()
            seed2 = int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF
        with graphs.init_scope():
            handle = make_resource(
                "RandomShuffleQueueV2", shared_name, name,
                component_types=dtypes, shapes=shapes or [], capacity=capacity,
                min_after_dequeue=min_after_dequeue, seed=seed1, seed2=seed2)
        super().__init__(dtypes, shapes, names, handle)


class PaddingFIFOQueue(QueueBase):
    """A FIFO queue whose elements may differ in size.

    `dequeue_many` and `dequeue_up_to` pad each component with zeros (False,
    "") to the largest sizes among the elements that they take.

    Args:
      capacity: the largest number of elements; without limit if negative.
      dtypes: the types of the components.
      shapes: their shapes, whose dimensions are None where sizes vary.
      names: their names; with names, elements are dicts.
      shared_name: the name under which sessions share the queue.
      name: the name of the operation.

    Raises:
      ValueError: if there is no shape for each type.
    """

    def __init__(self, capacity, dtypes, shapes, names=None, shared_name=None,
                 name="padding_fifo_queue"):
        dtypes = _as_types(dtypes)
        shapes = _as_shapes(shapes, dtypes, allow_unknown_dims=True)
        names = _as_names(names, dtypes)
        if len(dtypes) != len(shapes):
            raise ValueError(
                f"Shapes must be provided for all components, but received "
                f"{len(dtypes)} dtypes and {len(shapes)} shapes.")
        with graphs.init_scope():
            handle = make_resource(
                "PaddingFIFOQueueV2", shared_name, name,
                component_types=dtypes, shapes=shapes, capacity=capacity)
        super().__init__(dtypes, shapes, names, handle)


class PriorityQueue(QueueBase):
    """A queue whose elements leave by priority, the lowest first.

    The first component of each element is its priority, an int64 scalar, which
    precedes those that are declared here.

    Args:
      capacity: the largest number of elements; without limit if negative.
      types: the types of the other components.
      shapes: their fully known shapes, or None.
      names: the names of all components, including the priority.
      shared_name: the name under which sessions share the queue.
      name: the name of the operation.
    """

    def __init__(self, capacity, types, shapes=None, names=None,
                 shared_name=None, name="priority_queue"):
        types = _as_types(types)
        shapes = _as_shapes(shapes, types)
        with graphs.init_scope():
            handle = make_resource(
                "PriorityQueueV2", shared_name, name, component_types=types,
                shapes=shapes or [], capacity=capacity)
        dtypes = [types_of.int64] + types
        if shapes is not None:
            shapes = [tensor_shape.scalar()] + shapes
        super().__init__(dtypes, shapes, _as_names(names, dtypes), handle)
