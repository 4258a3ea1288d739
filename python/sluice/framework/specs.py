"""What is known of tensors that are not there: type, shape, name; and of
arguments that have several names."""

import enum

from sluice.framework import dtypes, tensor_shape


class TensorSpec:
    """A tensor's shape, type and name."""

    __slots__ = ("_shape", "_dtype", "_name")

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        self._shape = tensor_shape.as_shape(shape)
        self._dtype, self._name = dtypes.as_dtype(dtype), name

    shape = property(lambda self: self._shape, doc="What is known of it.")
    dtype = property(lambda self: self._dtype, doc="The type of elements.")
    name = property(lambda self: self._name, doc="The name, or None.")

    @classmethod
    def from_spec(cls, spec, name=None):
        """Like another one, perhaps under another name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """Of a tensor."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    def is_compatible_with(self, spec_or_tensor):
        """Whether a tensor may be both."""
        return (self._dtype.is_compatible_with(spec_or_tensor.dtype) and
                self._shape.is_compatible_with(spec_or_tensor.shape))

    def _key(self):
        dims = self._shape.as_list() if self._shape.ndims is not None else None
        return (type(self), self._dtype, None if dims is None else tuple(dims))

    def __eq__(self, other):
        return isinstance(other, TensorSpec) and (
            self._key() == other._key() and self._name == other._name)

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        return (f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, "
                f"name={self._name!r})")


class _PartsSpec:
    """What SparseTensorSpec and IndexedSlicesSpec have in common."""

    def __init__(self, shape=None, dtype=dtypes.float32):
        self._shape = tensor_shape.as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)

    shape = property(lambda self: self._shape, doc="What is known of it.")
    dtype = property(lambda self: self._dtype, doc="The type of elements.")

    def is_compatible_with(self, value):
        """Whether a value may be that."""
        return (self._dtype.is_compatible_with(value.dtype) and
                self._shape.is_compatible_with(value.shape))

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        return f"{type(self).__name__}({self._shape}, {self._dtype!r})"


class SparseTensorSpec(_PartsSpec):
    """A SparseTensor's shape and type."""


class IndexedSlicesSpec(_PartsSpec):
    """The shape and types of IndexedSlices."""

    def __init__(self, shape=None, dtype=dtypes.float32,
                 indices_dtype=dtypes.int64, dense_shape_dtype=None,
                 indices_shape=None):
        super().__init__(shape, dtype)
        self._indices_dtype = dtypes.as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else (
            dtypes.as_dtype(dense_shape_dtype))
        self._indices_shape = tensor_shape.as_shape(indices_shape)


class VariableSynchronization(enum.Enum):
    """When copies of a variable are brought together: there is one only."""

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(enum.Enum):
    """How copies of a variable are brought together: there is one only."""

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)


def across_copies(name, trainable, synchronization, aggregation):
    """The last three arguments of a variable, with their defaults."""
    if synchronization is None:
        synchronization = VariableSynchronization.AUTO
    if aggregation is None:
        aggregation = VariableAggregation.NONE
    if not isinstance(synchronization, VariableSynchronization):
        raise ValueError(f"Invalid variable synchronization mode: "
                         f"{synchronization} for variable: {name}")
    if not isinstance(aggregation, VariableAggregation):
        raise ValueError(f"Invalid variable aggregation mode: {aggregation} "
                         f"for variable: {name}")
    if trainable is None:
        trainable = (synchronization is not
                     VariableSynchronization.ON_READ)
    elif trainable and synchronization is (
            VariableSynchronization.ON_READ):
        raise ValueError(
            "Synchronization value can be set to "
            "VariableSynchronization.ON_READ only for non-trainable variables. "
            "You have specified trainable=True and "
            "synchronization=VariableSynchronization.ON_READ.")
    return trainable, synchronization, aggregation


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    """The value of an argument that has two names; ValueError if both are
    given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value
