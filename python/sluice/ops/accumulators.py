"""Accumulators, which average or sum the gradients of several steps.

A gradient has the number of the step that it was computed for. Gradients of
steps before the accumulator's own step are stale, and dropped.
"""

from sluice import _core
from sluice.framework import conversion, dtypes, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import math_ops, queues

_op = _core.op


def _as_step(step):
    return math_ops.cast(convert_to_tensor(step), dtypes.int64)


class ConditionalAccumulatorBase:
    """The base class of accumulators.

    Args:
      dtype: the type of the gradients.
      shape: their shape, or None.
      accumulator_ref: the handle of the accumulator.
    """

    def __init__(self, dtype, shape, accumulator_ref):
        self._dtype = dtypes.as_dtype(dtype)
        self._shape = tensor_shape.as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rpartition("/")[2]

    @property
    def accumulator_ref(self):
        """The handle of the accumulator, a tensor."""
        return self._accumulator_ref

    @property
    def name(self):
        """The name of the accumulator, without its scopes."""
        return self._name

    @property
    def dtype(self):
        """The type of the gradients."""
        return self._dtype

    def _call(self, op, *inputs, **attributes):
        """Calls an accumulator's op, in the version that fits its handle."""
        if self._accumulator_ref.dtype == dtypes.resource:
            op = "Resource" + op
        return _op(op)(self._accumulator_ref, *inputs, **attributes)

    def num_accumulated(self, name=None):
        """Returns the number of gradients since the last was taken (int32)."""
        return self._call("AccumulatorNumAccumulated",
                          name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step, name=None):
        """Returns an operation that sets the accumulator's step.

        Does nothing but warn if the step is smaller than the present one.
        """
        return self._call("AccumulatorSetGlobalStep", _as_step(new_global_step),
                          name=name)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """An accumulator of dense gradients.

    Args:
      dtype: the type of the gradients.
      shape: their shape; if it is not known, that of the first one applies.
      shared_name: the name under which sessions share the accumulator.
      name: the name of the operation.
      reduction_type: "MEAN" or "SUM".
    """

    def __init__(self, dtype, shape=None, shared_name=None,
                 name="conditional_accumulator", reduction_type="MEAN"):
        super().__init__(dtype, shape, queues.make_resource(
            "ResourceConditionalAccumulator", shared_name, name,
            dtype=dtypes.as_dtype(dtype), shape=tensor_shape.as_shape(shape),
            reduction_type=reduction_type))

    def apply_grad(self, grad, local_step=0, name=None):
        """Returns an operation that adds a gradient, unless it is stale.

        Args:
          grad: the gradient.
          local_step: the step that it was computed for.
          name: the name of the operation.

        Raises:
          ValueError: if the gradient's shape does not fit.
        """
        grad = convert_to_tensor(grad, self._dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        return self._call("AccumulatorApplyGradient", _as_step(local_step),
                          grad, name=name)

    def take_grad(self, num_required, name=None):
        """Returns the mean (or sum) of the gradients, and forgets them.

        Waits until enough gradients were added, and increments the
        accumulator's step.

        Args:
          num_required: the number of gradients to wait for.
          name: the name of the operation.
        """
        taken = self._call("AccumulatorTakeGradient", num_required,
                           dtype=self._dtype, name=name)
        taken.set_shape(self._shape)
        return taken


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """An accumulator of gradients that have only some rows (IndexedSlices).

    With "MEAN", the mean of each row is taken over the gradients that have it.

    Args:
      dtype: the type of the gradients.
      shape: their dense shape; None if it is not known.
      shared_name: the name under which sessions share the accumulator.
      name: the name of the operation.
      reduction_type: "MEAN" or "SUM".
    """

    def __init__(self, dtype, shape=None, shared_name=None,
                 name="sparse_conditional_accumulator", reduction_type="MEAN"):
        super().__init__(dtype, shape, queues.make_resource(
            "SparseConditionalAccumulator", shared_name, name,
            dtype=dtypes.as_dtype(dtype), shape=tensor_shape.as_shape(shape),
            reduction_type=reduction_type))

    def apply_indexed_slices_grad(self, grad, local_step=0, name=None):
        """Returns an operation that adds an IndexedSlices, unless it is stale.

        Args:
          grad: the gradient.
          local_step: the step that it was computed for.
          name: the name of the operation.
        """
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape,
                               local_step, name)

    def apply_grad(self, grad_indices, grad_values, grad_shape=None,
                   local_step=0, name=None):
        """Returns an operation that adds a gradient, unless it is stale.

        Args:
          grad_indices: the numbers of its rows, a vector.
          grad_values: its rows.
          grad_shape: its dense shape, or None.
          local_step: the step that it was computed for.
          name: the name of the operation.
        """
        shape = convert_to_tensor([] if grad_shape is None else grad_shape,
                                  preferred_dtype=dtypes.int64)
        return self._call(
            "SparseAccumulatorApplyGradient", _as_step(local_step),
            math_ops.cast(grad_indices, dtypes.int64),
            convert_to_tensor(grad_values, self._dtype),
            math_ops.cast(shape, dtypes.int64),
            has_known_shape=grad_shape is not None, name=name)

    def take_grad(self, num_required, name=None):
        """Returns the mean (or sum) of the gradients, and forgets them.

        Waits until enough gradients were added, and increments the
        accumulator's step.

        Args:
          num_required: the number of gradients to wait for.
          name: the name of the operation.

        Returns:
          (indices, values, shape).
        """
        return self._call("SparseAccumulatorTakeGradient", num_required,
                          dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required, name=None):
        """Works like `take_grad`, but returns an IndexedSlices."""
        taken = self.take_grad(num_required, name)
        return conversion.IndexedSlices(
            indices=taken.indices, values=taken.values,
            dense_shape=taken.shape)
