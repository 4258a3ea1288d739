"""Batches of elements, padded or not."""

import functools

from sluice import _core
from sluice.data import elements
from sluice.data.elements import Elements
from sluice.data.lowering import mapped, missing, through_queue
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import (
    SparseTensor, constant_value, convert_to_tensor)
from sluice.ops import array_ops, control_flow, math_ops

_op = functools.lru_cache(None)(_core.op)


def batch(pipeline, like, size, drop_remainder):
    """Returns a pipeline of batches, and its Elements.

    Sparse tensors pass the queues as strings and become those of a higher rank.
    """
    kinds = []  # Of the leaves: the dtype and rank of a sparse one, or None.

    def serialized(element):
        element = elements.convert(element)
        kinds[:] = [(leaf.dtype, leaf.shape.ndims)
                    if isinstance(leaf, SparseTensor) else None
                    for leaf in elements.flatten(element)]
        return elements.map_structure(
            lambda leaf: _op("SerializeSparse")(
                leaf.indices, leaf.values, leaf.dense_shape)
            if isinstance(leaf, SparseTensor) else leaf, element)

    def restored(element):
        leaves = []
        for leaf, sparse in zip(elements.flatten(element), kinds):
            if sparse is not None:
                dtype, rank = sparse
                indices, values, shape = _op("DeserializeSparse")(leaf, dtype)
                if rank is not None:
                    indices.set_shape([None, rank + 1])
                    shape.set_shape([rank + 1])
                leaf = SparseTensor(indices, values, shape)
            leaves.append(leaf)
        return elements.pack(element, leaves)

    pipeline, like = mapped(pipeline, like, serialized)
    batches = through_queue(
        pipeline, lambda p: p.batch(size, drop_remainder, False),
        [size if drop_remainder else None])
    return mapped(batches, like, restored)


class Padding:
    """How the elements of a batch are padded.

    Args:
      shapes: a structure of shapes; None: the largest of the batch.
      values: a structure of scalars, of which None is 0 or "".
    """

    def __init__(self, shapes=None, values=None):
        self._shapes, self._values = shapes, values

    def around(self, pipeline, like, size, make_batches):
        """Returns a pipeline of padded batches, and its Elements.

        Args:
          pipeline, like: the elements.
          size: of all batches; None: unknown.
          make_batches: makes a pipeline of batches, padded with zeros to the
            largest of each, of a pipeline.
        """
        plan = []  # (static shape, padding value or None) of each leaf.
        inner, outer = Elements(), Elements()

        # The library pads with zeros. Where something else is wanted, the shape
        # of the element goes along, and tells what is padding.
        def before(tensors):
            element = elements.convert(like.pack(tensors))
            leaves = elements.flatten(element)
            plan[:] = list(zip(self._static_shapes(element, leaves),
                               self._padding(element, leaves)))
            inner.unpack(element)
            padded = [_padded(leaf, shape)
                      for leaf, (shape, _) in zip(leaves, plan)]
            return padded + [array_ops.shape(leaf, out_type=dtypes.int64)
                             for leaf, (_, value) in zip(leaves, plan)
                             if value is not None]

        def after(tensors):
            leaves, sizes = [], iter(tensors[len(plan):])
            for leaf, (shape, value) in zip(tensors, plan):
                if value is not None:
                    leaf = _filled(leaf, next(sizes), value)
                leaf.set_shape(tensor_shape.TensorShape([size]).concatenate(
                    shape))
                leaves.append(leaf)
            return outer.unpack(inner.pack(leaves))

        return make_batches(pipeline.map(before, 1)).map(after, 1), outer

    def _static_shapes(self, element, leaves):
        if self._shapes is None:
            shapes = [None] * len(leaves)
        else:
            shapes = elements.flatten_up_to(element, self._shapes)
        made = []
        for leaf, shape in zip(leaves, shapes):
            if isinstance(leaf, SparseTensor):
                raise TypeError("Batching of padded sparse tensors is not "
                                "currently supported")
            own = leaf.shape
            if shape is None:
                wanted = tensor_shape.TensorShape(
                    None if own.ndims is None else [None] * own.ndims)
                if own.ndims is not None:  # What is equal needs no padding.
                    wanted = own
            else:
                wanted = _as_shape(shape)
            if own.ndims is not None and wanted.ndims is not None and (
                    own.ndims != wanted.ndims):
                raise ValueError(f"The padded shape {wanted} is not compatible "
                                 f"with the corresponding input component "
                                 f"shape {own}.")
            made.append(wanted)
        return made

    def _padding(self, element, leaves):
        values = ([None] * len(leaves) if self._values is None
                  else elements.flatten_up_to(element, self._values)
                  if elements.is_nested(self._values)
                  else [self._values] * len(leaves))
        made = []
        for leaf, value in zip(leaves, values):
            if isinstance(value, _core.Tensor):
                if value.dtype.base_dtype != leaf.dtype.base_dtype:
                    raise TypeError(f"Mismatching padding value for a "
                                    f"component of type {leaf.dtype.name}, got "
                                    f"{value!r}")
                value = constant_value(value)
                if value is None:
                    raise missing("padding_values: a tensor that is computed "
                                  "in a step")
            if value in (0, b"", ""):
                value = None  # What the library pads with.
            made.append(value)
        return made


def _as_shape(shape):
    """Returns a padded shape, in which -1 is an unknown size."""
    if isinstance(shape, _core.Tensor):
        known = constant_value(shape)
        if known is None:
            raise missing("padded_shapes: a tensor that is computed in a step")
        shape = known
    if isinstance(shape, tensor_shape.TensorShape):
        return shape
    return tensor_shape.TensorShape([
        None if d is None or getattr(d, "value", d) in (None, -1)
        else int(getattr(d, "value", d)) for d in shape])


def _padded(tensor, shape):
    """Returns the tensor padded to the known sizes of a shape."""
    if shape.ndims is None or not any(
            d is not None for d in shape.as_list()) or (
                tensor.shape.is_fully_defined() and tensor.shape == shape):
        return tensor
    own = array_ops.shape(tensor)
    room = [(convert_to_tensor(0) if d is None else d - own[i])
            for i, d in enumerate(shape.as_list())]
    room = array_ops.stack(room)
    fits = control_flow.Assert(
        math_ops.reduce_all(room >= 0),
        ["padded_batch: Attempted to pad to a smaller size than the input "
         "element: ", own, f" to {shape}"])
    with graphs.control_dependencies([fits]):
        tensor = _op("Pad")(tensor, array_ops.stack(
            [array_ops.zeros_like(room), room], axis=1))
    tensor.set_shape(shape)
    return tensor


def _filled(batched, sizes, value):
    """Returns a batch with `value` where it is beyond each element's sizes."""
    rank = batched.shape.ndims
    if rank is None:
        raise ValueError("padding_values: expected elements of known rank")
    within = None
    shape = array_ops.shape(batched, out_type=dtypes.int64)
    for d in range(1, rank):
        at = array_ops.reshape(
            math_ops.range(shape[d]), [-1 if i == d else 1
                                       for i in range(rank)])
        size = array_ops.reshape(sizes[:, d - 1], [-1] + [1] * (rank - 1))
        ok = math_ops.less(at, size)
        within = ok if within is None else math_ops.logical_and(within, ok)
    if within is None:
        return batched
    return array_ops.where_v2(
        within, batched, convert_to_tensor(value, batched.dtype.base_dtype))
