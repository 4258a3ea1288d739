"""Partially known shapes: `TensorShape` and `Dimension`."""

import operator

from sluice.framework import protos


class Dimension:
    """The size of a dimension; `value` is None if it is unknown."""

    __slots__ = ("_value",)

    def __init__(self, value):
        if isinstance(value, Dimension):
            value = value._value
        elif value is not None:
            try:
                value = operator.index(value)
            except TypeError:
                raise TypeError(
                    f"Dimension value must be integer or None or have an "
                    f"__index__ method, got value '{value!r}' with type "
                    f"'{type(value)!r}'") from None
            if value < 0:
                raise ValueError(f"Dimension {value} must be >= 0")
        self._value = value

    @property
    def value(self):
        """The size, or None."""
        return self._value

    def is_compatible_with(self, other):
        """Returns whether both can have the same size."""
        other = as_dimension(other)
        return (self._value is None or other._value is None or
                self._value == other._value)

    def assert_is_compatible_with(self, other):
        """Raises ValueError unless both can have the same size."""
        if not self.is_compatible_with(other):
            raise ValueError(
                f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other):
        """Returns the merged dimension; ValueError if they are incompatible."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(other._value if self._value is None else self._value)

    def _calculate(self, other, fn):
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other._value is None:
            return Dimension(None)
        return Dimension(fn(self._value, other._value))

    def _compare(self, other, fn):
        other = as_dimension(other)
        if self._value is None or other._value is None:
            return None
        return fn(self._value, other._value)

    def __eq__(self, other):
        try:
            return self._compare(other, operator.eq)
        except (TypeError, ValueError):
            return NotImplemented

    def __ne__(self, other):
        try:
            return self._compare(other, operator.ne)
        except (TypeError, ValueError):
            return NotImplemented

    def __lt__(self, other):
        return self._compare(other, operator.lt)

    def __le__(self, other):
        return self._compare(other, operator.le)

    def __gt__(self, other):
        return self._compare(other, operator.gt)

    def __ge__(self, other):
        return self._compare(other, operator.ge)

    def __add__(self, other):
        return self._calculate(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other):
        return self._calculate(other, operator.sub)

    def __rsub__(self, other):
        return self._calculate(other, lambda a, b: b - a)

    def __mul__(self, other):
        return self._calculate(other, operator.mul)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return self._calculate(other, operator.floordiv)

    def __rfloordiv__(self, other):
        return self._calculate(other, lambda a, b: b // a)

    def __truediv__(self, other):
        raise TypeError(f"unsupported operand type(s) for /: 'Dimension' and "
                        f"'{type(other).__name__}', please use // instead")

    def __rtruediv__(self, other):
        raise TypeError(f"unsupported operand type(s) for /: "
                        f"'{type(other).__name__}' and 'Dimension', please use "
                        f"// instead")

    def __mod__(self, other):
        return self._calculate(other, operator.mod)

    def __rmod__(self, other):
        return self._calculate(other, lambda a, b: b % a)

    def __bool__(self):
        return bool(self._value)

    def __int__(self):
        return self._value

    def __index__(self):
        return self._value

    def __hash__(self):
        if self._value is None:
            raise ValueError("Unable to hash Dimension with value 'None'")
        return hash(self._value)

    def __repr__(self):
        return f"Dimension({self._value!r})"

    def __str__(self):
        return "?" if self._value is None else str(self._value)

    def __reduce__(self):
        return Dimension, (self._value,)


def as_dimension(value):
    """Converts an int, None or Dimension to a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension):
    """Converts a Dimension, int or None to an int or None."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape, index):
    """Returns a dimension of a shape, unknown if the rank is unknown."""
    return Dimension(None) if shape.ndims is None else shape.dims[index]


class TensorShape:
    """A static shape: unknown, or with a known rank and some known dimensions.

    Made from a list of ints, Nones (unknown) and Dimensions, from None (unknown
    rank), or from another shape.
    """

    __slots__ = ("_dims",)
    _v2_behavior = False  # Indexing returns Dimension objects.

    def __init__(self, dims):
        if dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif isinstance(dims, (list, tuple)):
            self._dims = tuple(_dim(d) for d in dims)
        elif hasattr(dims, "unknown_rank"):  # A TensorShapeProto.
            self._dims = None if dims.unknown_rank else tuple(
                None if d.size < 0 else d.size for d in dims.dim)
        elif isinstance(dims, (int, Dimension)) or not hasattr(
                dims, "__iter__"):
            self._dims = (_dim(dims),)
        elif isinstance(dims, str):
            raise TypeError(f"Dimension value must be integer or None, got "
                            f"value '{dims}'")
        else:
            self._dims = tuple(_dim(d) for d in dims)

    @classmethod
    def _of(cls, dims):
        made = cls.__new__(cls)
        made._dims = dims
        return made

    @property
    def dims(self):
        """A list of Dimensions, or None for an unknown rank."""
        return None if self._dims is None else [Dimension(d)
                                                for d in self._dims]

    @property
    def ndims(self):
        """The rank, or None."""
        return None if self._dims is None else len(self._dims)

    rank = ndims

    def as_list(self):
        """Returns a list of ints and Nones; ValueError if rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown "
                             "TensorShape.")
        return list(self._dims)

    def num_elements(self):
        """Returns the number of elements, or None if it is unknown."""
        if not self.is_fully_defined():
            return None
        count = 1
        for d in self._dims:
            count *= d
        return count

    def is_fully_defined(self):
        """Returns whether the rank and all dimensions are known."""
        return self._dims is not None and None not in self._dims

    def assert_is_fully_defined(self):
        """Raises ValueError unless the rank and all dimensions are known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other):
        """Returns whether some shape is an instance of both."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b
            for a, b in zip(self._dims, other._dims))

    def assert_is_compatible_with(self, other):
        """Raises ValueError unless the shapes are compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are "
                             f"incompatible")

    def assert_same_rank(self, other):
        """Raises ValueError if the ranks are known and differ."""
        other = as_shape(other)
        if None not in (self.ndims, other.ndims) and self.ndims != other.ndims:
            raise ValueError(f"Shapes {self} and {other} must have the same "
                             f"rank")

    def assert_has_rank(self, rank):
        """Raises ValueError if the rank is known and differs."""
        if self.ndims not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank):
        """Returns the shape with that rank; ValueError if it has another."""
        try:
            return self.merge_with(unknown_shape(rank))
        except ValueError:
            raise ValueError(f"Shape {self} must have rank {rank}") from None

    def with_rank_at_least(self, rank):
        """Returns the shape; ValueError if its rank is known to be lower."""
        if self.ndims is not None and self.ndims < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank):
        """Returns the shape; ValueError if its rank is known to be higher."""
        if self.ndims is not None and self.ndims > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def merge_with(self, other):
        """Returns the merged shape; ValueError if they are incompatible."""
        other = as_shape(other)
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        self.assert_is_compatible_with(other)
        return TensorShape._of(tuple(b if a is None else a for a, b in
                                     zip(self._dims, other._dims)))

    def concatenate(self, other):
        """Returns the shape followed by the dimensions of `other`."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return unknown_shape()
        return TensorShape._of(self._dims + other._dims)

    def as_proto(self):
        """Returns a TensorShapeProto, with -1 for unknown dimensions."""
        if self._dims is None:
            return protos.TensorShapeProto(unknown_rank=True)
        made = protos.TensorShapeProto()
        made.SetInParent()
        for d in self._dims:
            made.dim.add(size=-1 if d is None else d)
        return made

    def most_specific_compatible_shape(self, other):
        """Returns the most specific shape compatible with both shapes."""
        other = as_shape(other)
        if None in (self.ndims, other.ndims) or self.ndims != other.ndims:
            return unknown_shape()
        return TensorShape._of(tuple(a if a == b else None for a, b in
                                     zip(self._dims, other._dims)))

    def __len__(self):
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown "
                             "rank.")
        return len(self._dims)

    def __bool__(self):
        return self._dims is not None

    def __iter__(self):
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(d) for d in self._dims])

    def __getitem__(self, key):
        if self._dims is not None:
            if isinstance(key, slice):
                return TensorShape._of(self._dims[key])
            return Dimension(self._dims[key])
        if not isinstance(key, slice):
            return Dimension(None)
        start, stop = key.start or 0, key.stop
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        if stop is None or start < 0 or stop < 0:
            return unknown_shape()
        return unknown_shape(max(0, stop - start))

    def __add__(self, other):
        return self.concatenate(other)

    def __radd__(self, other):
        return as_shape(other).concatenate(self)

    def __eq__(self, other):
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self._dims == other._dims

    def __ne__(self, other):
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._dims is None or other._dims is None:
            raise ValueError("The inequality of unknown TensorShapes is "
                             "undefined.")
        return self._dims != other._dims

    def __hash__(self):
        return hash(self._dims)

    def __repr__(self):
        if self._dims is None:
            return "TensorShape(None)"
        return f"TensorShape({[Dimension(d) for d in self._dims]!r})"

    def __str__(self):
        if self._dims is None:
            return "<unknown>"
        dims = ["?" if d is None else str(d) for d in self._dims]
        return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"

    def __reduce__(self):
        return TensorShape, (None if self._dims is None else list(self._dims),)


def _dim(value):
    if value is None or type(value) is int and value >= 0:
        return value
    return Dimension(value)._value


def as_shape(shape):
    """Converts a value to a TensorShape, unless it is one."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def scalar():
    """Returns the shape of a scalar."""
    return TensorShape([])


def vector(length):
    """Returns the shape of a vector."""
    return TensorShape([length])


def matrix(rows, cols):
    """Returns the shape of a matrix."""
    return TensorShape([rows, cols])


def unknown_shape(rank=None, ndims=None):
    """Returns a shape with unknown dimensions and optionally a known rank."""
    rank = ndims if rank is None else rank
    return TensorShape._of(None if rank is None else (None,) * rank)


def broadcast_shape(shape_x, shape_y):
    """Returns the broadcast shape; ValueError if they are incompatible."""
    if shape_x.ndims is None or shape_y.ndims is None:
        return unknown_shape()
    one, two = list(shape_x._dims), list(shape_y._dims)
    n = max(len(one), len(two))
    one, two = [1] * (n - len(one)) + one, [1] * (n - len(two)) + two
    dims = []
    for a, b in zip(one, two):
        if a == b or b == 1:
            dims.append(a)
        elif a == 1:
            dims.append(b)
        elif a is None or b is None:  # The known size is greater than 1.
            dims.append(b if a is None else a)
        else:
            raise ValueError(f"Incompatible shapes for broadcasting: {shape_x} "
                             f"and {shape_y}")
    return TensorShape(dims)


def call_cpp_shape_fn(op, require_shape_fn=True):
    """Returns the output shapes of an operation, which are already inferred."""
    return {"shapes": [t.shape for t in op.outputs]}


def _shape_dims(shape):
    """Returns a shape for _core: a tuple of ints and Nones, or None."""
    return as_shape(shape)._dims
