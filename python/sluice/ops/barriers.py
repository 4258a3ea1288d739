"""Barriers, which assemble the components of elements by key."""

from sluice import _core
from sluice.framework import dtypes, tensor_shape
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.ops import queues

_op = _core.op


class Barrier:
    """A store of elements with keys, whose components arrive separately.

    Element `key` is complete when each of its components was inserted. Complete
    elements are taken out in the order in which their first components came.

    Args:
      types: the types of the components.
      shapes: their shapes, fully known. Without them the first value of a
        component determines its shape.
      shared_name: the name under which sessions share the barrier.
      name: the name of the operation.

    Raises:
      ValueError: if a shape is not fully known, or has no elements.
    """

    def __init__(self, types, shapes=None, shared_name=None, name="barrier"):
        self._types = queues._as_types(types)
        if shapes is None:
            self._shapes = [tensor_shape.unknown_shape() for _ in self._types]
        else:
            self._shapes = queues._as_shapes(shapes, self._types)
            for i, shape in enumerate(self._shapes):
                if shape.num_elements() == 0:
                    raise ValueError(f"Empty tensors are not supported, but "
                                     f"received shape '{shape}' at index {i}")
        self._barrier_ref = queues.make_resource(
            "Barrier", shared_name, name, component_types=self._types,
            shapes=self._shapes)
        self._name = self._barrier_ref.op.name.rpartition("/")[2]

    @property
    def barrier_ref(self):
        """The handle of the barrier, a tensor."""
        return self._barrier_ref

    @property
    def name(self):
        """The name of the operation that makes the barrier."""
        return self._barrier_ref.op.name

    def insert_many(self, component_index, keys, values, name=None):
        """Returns an operation that inserts a component of several elements.

        Args:
          component_index: the number of the component.
          keys: a vector of strings.
          values: the components, the rows of a tensor.
          name: the name of the operation.
        """
        return _op("BarrierInsertMany")(
            self._barrier_ref, keys, values, component_index=component_index,
            name=name or f"{self._name}_BarrierInsertMany")

    def take_many(self, num_elements, allow_small_batch=False, timeout=None,
                  name=None):
        """Takes out complete elements; waits until there are enough.

        Args:
          num_elements: their number, a scalar integer.
          allow_small_batch: whether to take fewer elements if the barrier is
            closed and has no more.
          timeout: the time to wait in milliseconds; without limit if None.
          name: the name of the operation.

        Returns:
          (indices, keys, values): when each element came (int64), its key, and
          a list with a tensor for each component. The first dimension is that
          of elements.
        """
        indices, keys, values = _op("BarrierTakeMany")(
            self._barrier_ref, convert_to_tensor(num_elements, dtypes.int32),
            component_types=self._types, allow_small_batch=allow_small_batch,
            timeout_ms=-1 if timeout is None else timeout,
            name=name or f"{self._name}_BarrierTakeMany")
        count = (None if allow_small_batch else
                 constant_value(indices.op.inputs[1]))
        rows = tensor_shape.TensorShape([count])
        indices.set_shape(rows)
        keys.set_shape(rows)
        for value, shape in zip(values, self._shapes):
            value.set_shape(rows.concatenate(shape))
        return indices, keys, list(values)

    def close(self, cancel_pending_enqueues=False, name=None):
        """Returns an operation that closes the barrier.

        New keys are refused then; components of incomplete elements are
        accepted unless `cancel_pending_enqueues`.
        """
        return _op("BarrierClose")(
            self._barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_BarrierClose")

    def ready_size(self, name=None):
        """Returns the number of complete elements, a scalar int32 tensor."""
        return _op("BarrierReadySize")(
            self._barrier_ref, name=name or f"{self._name}_BarrierReadySize")

    def incomplete_size(self, name=None):
        """Returns the number of incomplete elements, a scalar int32 tensor."""
        return _op("BarrierIncompleteSize")(
            self._barrier_ref,
            name=name or f"{self._name}_BarrierIncompleteSize")
