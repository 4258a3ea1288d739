"""Specs of tensors, sparse tensors and IndexedSlices."""

from sluice import _core
from sluice.framework import dtypes, tensor_shape
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, SparseTensorValue, convert_to_tensor,
    parts)
from sluice.framework.elements import Tensor
from sluice.framework.type_spec import (
    BatchableTypeSpec, TypeSpec, register_type_spec_from_value_converter,
    type_spec_from_value)  # noqa: F401 (Public names.)


class TensorSpec(BatchableTypeSpec):
    """The shape, dtype and name of a tensor.

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def total(rows):
            return tf.reduce_sum(rows)
    """

    __slots__ = ("_shape", "_dtype", "_name")

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        self._shape = tensor_shape.TensorShape(shape)
        self._dtype, self._name = dtypes.as_dtype(dtype), name

    shape = property(lambda self: self._shape, doc="The static shape.")
    dtype = property(lambda self: self._dtype, doc="The dtype of elements.")
    name = property(lambda self: self._name, doc="The name, or None.")
    value_type = property(lambda self: Tensor, doc="Tensor.")

    @classmethod
    def from_spec(cls, spec, name=None):
        """Makes a TensorSpec from another spec, optionally with a new name."""
        return cls(spec.shape, spec.dtype,
                   name or getattr(spec, "name", None))

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """Makes a spec of a tensor; the name defaults to its operation's."""
        if not isinstance(tensor, _core.Tensor):
            raise ValueError(f"`tensor` should be a tf.Tensor, but got type "
                             f"{type(tensor)}.")
        return TensorSpec(tensor.shape, tensor.dtype, name or tensor.op.name)

    def is_compatible_with(self, spec_or_tensor):
        """Returns whether shape and dtype match; names are ignored."""
        if not isinstance(spec_or_tensor, (TensorSpec, _core.Tensor)):
            return False
        return (self._dtype.is_compatible_with(spec_or_tensor.dtype) and
                self._shape.is_compatible_with(spec_or_tensor.shape))

    def most_specific_compatible_type(self, other):
        """Returns the most specific spec that both specs are compatible with.

        It has a name only if both have the same. Raises ValueError if the
        types differ.
        """
        if type(self) is not type(other) or self._dtype != other._dtype:
            raise ValueError(f"No TypeSpec is compatible with both {self} and "
                             f"{other}")
        return TensorSpec(
            self._shape.most_specific_compatible_shape(other._shape),
            self._dtype, self._name if self._name == other._name else None)

    def _serialize(self):
        return self._shape, self._dtype, self._name

    _component_specs = property(lambda self: self)
    _flat_tensor_specs = property(lambda self: [self])

    def _to_components(self, value):
        return value

    def _from_components(self, components):
        return components

    def _to_tensor_list(self, value):
        return [value]

    def _from_compatible_tensor_list(self, tensor_list):
        tensor_list[0].set_shape(self._shape)
        return tensor_list[0]

    def _batch(self, batch_size):
        return TensorSpec(tensor_shape.TensorShape([batch_size]).concatenate(
            self._shape), self._dtype)

    def _unbatch(self):
        return TensorSpec(_element(self._shape), self._dtype)

    def __hash__(self):
        return hash((self._shape._dims, self._dtype))

    def __eq__(self, other):
        if type(self) is TensorSpec is type(other):  # Fast: used in each call.
            return (self._shape._dims == other._shape._dims and
                    self._dtype is other._dtype and self._name == other._name)
        return super().__eq__(other)

    def __repr__(self):
        return (f"{type(self).__name__}(shape={self._shape}, "
                f"dtype={self._dtype!r}, name={self._name!r})")


def _element(shape):
    """Returns the shape without its first dimension."""
    if shape.ndims == 0:
        raise ValueError("Unbatching a tensor is only supported for rank >= 1")
    return shape if shape.ndims is None else shape[1:]


class BoundedTensorSpec(TensorSpec):
    """A TensorSpec with bounds for the elements.

    The bounds are numbers or arrays that broadcast to the shape.
    """

    __slots__ = ("_minimum", "_maximum")

    def __init__(self, shape, dtype, minimum, maximum, name=None):
        super().__init__(shape, dtype, name)
        self._minimum = self._bound(minimum, "minimum")
        self._maximum = self._bound(maximum, "maximum")

    def _bound(self, value, name):
        import numpy as np
        if value is None:
            raise ValueError(f"{name} can not be None.")
        dims, shape = np.shape(value), self._shape.as_list() if (
            self._shape.ndims is not None) else None
        if shape is not None and not all(
                d == 1 or s in (None, 1, d) for d, s in zip(
                    dims[::-1], shape[::-1])):
            raise ValueError(f"{name} {value} is not compatible with shape "
                             f"{self._shape}.")
        made = np.array(value, dtype=self._dtype.as_numpy_dtype)
        made.setflags(write=False)
        return made

    minimum = property(lambda self: self._minimum,
                       doc="The lower bounds, a read-only array.")
    maximum = property(lambda self: self._maximum, doc="The upper bounds, "
                       "a read-only array.")

    @classmethod
    def from_spec(cls, spec):
        """Makes a spec from another; bounds default to those of the dtype."""
        return cls(spec.shape, spec.dtype,
                   getattr(spec, "minimum", spec.dtype.min),
                   getattr(spec, "maximum", spec.dtype.max),
                   getattr(spec, "name", None))

    def most_specific_compatible_type(self, other):
        """Returns the most specific TensorSpec compatible with both specs."""
        if type(self) is type(other):
            other = TensorSpec.from_spec(other)
        return TensorSpec.from_spec(self).most_specific_compatible_type(other)

    def _serialize(self):
        return (self._shape, self._dtype, self._minimum, self._maximum,
                self._name)

    def __repr__(self):
        return (f"BoundedTensorSpec(shape={self._shape}, dtype={self._dtype!r},"
                f" name={self._name!r}, minimum={self._minimum!r}, "
                f"maximum={self._maximum!r})")


class SparseTensorSpec(BatchableTypeSpec):
    """The shape and dtype of a SparseTensor."""

    __slots__ = ("_shape", "_dtype")

    def __init__(self, shape=None, dtype=dtypes.float32):
        self._shape = tensor_shape.as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)

    shape = property(lambda self: self._shape, doc="The static shape.")
    dtype = property(lambda self: self._dtype, doc="The dtype of elements.")
    value_type = property(lambda self: SparseTensor, doc="SparseTensor.")

    def _serialize(self):
        return self._shape, self._dtype

    @property
    def _component_specs(self):
        rank = self._shape.ndims
        return [TensorSpec([None, rank], dtypes.int64),
                TensorSpec([None], self._dtype),
                TensorSpec([rank], dtypes.int64)]

    def _to_components(self, value):
        value = SparseTensor.from_value(value)
        return [value.indices, value.values, value.dense_shape]

    def _from_components(self, components):
        if not any(isinstance(c, _core.Tensor) for c in components):
            return SparseTensorValue(*components)
        made = SparseTensor(*components)
        made._known_shape = made.shape.merge_with(self._shape)
        return made

    def _batch(self, batch_size):
        return SparseTensorSpec(tensor_shape.TensorShape(
            [batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self):
        return SparseTensorSpec(_element(self._shape), self._dtype)


class IndexedSlicesSpec(TypeSpec):
    """The shape and dtypes of IndexedSlices.

    `indices_shape` gives the number of slices. Without `dense_shape_dtype`
    they have no dense shape.
    """

    __slots__ = ("_shape", "_values_dtype", "_indices_dtype",
                 "_dense_shape_dtype", "_indices_shape")

    def __init__(self, shape=None, dtype=dtypes.float32,
                 indices_dtype=dtypes.int64, dense_shape_dtype=None,
                 indices_shape=None):
        self._shape = tensor_shape.as_shape(shape)
        self._values_dtype = dtypes.as_dtype(dtype)
        self._indices_dtype = dtypes.as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else (
            dtypes.as_dtype(dense_shape_dtype))
        self._indices_shape = tensor_shape.as_shape(indices_shape).with_rank(1)

    value_type = property(lambda self: IndexedSlices, doc="IndexedSlices.")

    def _serialize(self):
        return (self._shape, self._values_dtype, self._indices_dtype,
                self._dense_shape_dtype, self._indices_shape)

    @property
    def _component_specs(self):
        row = self._shape if self._shape.ndims is None else self._shape[1:]
        specs = (TensorSpec(self._indices_shape.concatenate(row),
                            self._values_dtype),
                 TensorSpec(self._indices_shape, self._indices_dtype))
        if self._dense_shape_dtype is None:
            return specs
        return (*specs, TensorSpec([self._shape.ndims],
                                   self._dense_shape_dtype))

    def _to_components(self, value):
        return tuple(parts(value))

    def _from_components(self, components):
        return IndexedSlices(*components)


register_type_spec_from_value_converter(
    _core.Tensor, lambda t: TensorSpec(t.shape, t.dtype), allow_subclass=True)
register_type_spec_from_value_converter(
    SparseTensorValue, lambda v: SparseTensorSpec(
        list(v.dense_shape), convert_to_tensor(v.values).dtype))


def _spec_of_slices(slices):
    whole = tensor_shape.TensorShape([None]).concatenate(
        slices.values.shape[1:]).merge_with(slices.shape)
    dense = slices.dense_shape
    return IndexedSlicesSpec(
        whole, slices.dtype, slices.indices.dtype,
        None if dense is None else convert_to_tensor(dense).dtype,
        slices.indices.shape.merge_with(slices.values.shape[:1]))


IndexedSlices._type_spec = property(_spec_of_slices)
SparseTensor._type_spec = property(
    lambda value: SparseTensorSpec(value.shape, value.dtype))
