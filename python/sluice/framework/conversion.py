"""Conversion of values to tensors, and composite tensors."""

import collections

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape

_pack = _core.op("Pack")


# ---- Composite tensors -------------------------------------------------------


class IndexedSlices:
    """A sparse tensor given by some of its rows, such as a sparse gradient.

    Row `indices[i]` is `values[i]`; all other rows are zero. Rows that occur
    several times are summed.
    """

    def __init__(self, values, indices, dense_shape=None):
        self._values, self._indices = values, indices
        self._dense_shape = dense_shape

    @property
    def values(self):
        """The tensor of the rows."""
        return self._values

    @property
    def indices(self):
        """The indices of the rows."""
        return self._indices

    @property
    def dense_shape(self):
        """The shape of the whole tensor, as a tensor, or None."""
        return self._dense_shape

    @property
    def name(self):
        """The name of `values`."""
        return self._values.name

    @property
    def device(self):
        """The device of `values`."""
        return self._values.device

    @property
    def op(self):
        """The operation that produces `values`."""
        return self._values.op

    @property
    def dtype(self):
        """The dtype of `values`."""
        return self._values.dtype

    @property
    def graph(self):
        """The graph of `values`."""
        return self._values.graph

    @property
    def shape(self):
        """The static shape of the whole tensor."""
        if self._dense_shape is None:
            return tensor_shape.unknown_shape()
        return constant_value_as_shape(self._dense_shape)

    def consumers(self):
        """Returns the operations that read any of its tensors."""
        return _consumers(self._values, self._indices, self._dense_shape)

    def __neg__(self):
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __repr__(self):
        dense = ("" if self._dense_shape is None
                 else f", dense_shape={self._dense_shape}")
        return (f"IndexedSlices(indices={self._indices}, "
                f"values={self._values}{dense})")


def _consumers(*tensors):
    return list(dict.fromkeys(op for t in tensors if t is not None
                              for op in t.consumers()))


IndexedSlicesValue = collections.namedtuple(
    "IndexedSlicesValue", ["values", "indices", "dense_shape"], defaults=[None])
SparseTensorValue = collections.namedtuple(
    "SparseTensorValue", ["indices", "values", "dense_shape"])


class SparseTensor:
    """A sparse tensor: elements `values` at the coordinates `indices`.

        # [[0, 5], [7, 0]]
        tf.SparseTensor([[0, 1], [1, 0]], [5, 7], dense_shape=[2, 2])

    Sessions feed and fetch it as a SparseTensorValue.

    Args:
      indices: [n, rank], int64. Most functions require row-major order
        (`tf.sparse.reorder`).
      values: [n], any dtype.
      dense_shape: [rank], int64.
    """

    def __init__(self, indices, values, dense_shape):
        with graphs.name_scope(None, "SparseTensor",
                               [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, dtypes.int64, "indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, dtypes.int64,
                                                  "dense_shape")
        indices = self._indices.shape.with_rank(2)
        count = self._values.shape.with_rank(1)[0]
        rank = self._dense_shape.shape.with_rank(1)[0]
        indices.dims[0].assert_is_compatible_with(count)
        indices.dims[1].assert_is_compatible_with(rank)

    @classmethod
    def from_value(cls, value):
        """Converts a SparseTensor or a SparseTensorValue to a SparseTensor."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, SparseTensorValue):
            raise TypeError(f"Argument sparse_tensor_value={value} is neither "
                            f"a SparseTensor nor SparseTensorValue.")
        return cls(*value)

    def with_values(self, new_values):
        """Returns a SparseTensor with new values at the same coordinates."""
        made = SparseTensor(self._indices, new_values, self._dense_shape)
        made._known_shape = self._known_shape
        return made

    def consumers(self):
        """Returns the operations that read any of its tensors."""
        return _consumers(self._indices, self._values, self._dense_shape)

    @property
    def indices(self):
        """The coordinates: int64 [elements, rank]."""
        return self._indices

    @property
    def values(self):
        """The values of the elements: [elements]."""
        return self._values

    @property
    def dense_shape(self):
        """The shape of the whole tensor: int64 [rank]."""
        return self._dense_shape

    @property
    def op(self):
        """The operation that produces `values`."""
        return self._values.op

    @property
    def dtype(self):
        """The dtype of `values`."""
        return self._values.dtype

    @property
    def graph(self):
        """The graph of `values`."""
        return self._values.graph

    _known_shape = None  # The declared shape of a placeholder.

    @property
    def shape(self):
        """The static shape of the whole tensor."""
        return (constant_value_as_shape(self._dense_shape)
                if self._known_shape is None else self._known_shape)

    get_shape = lambda self: self.shape  # noqa: E731

    def _with(self, op, dense, name=None):
        """Applies an op to the elements and a dense tensor at their places."""
        return self.with_values(_core.op(op)(
            self._indices, self._values, self._dense_shape, dense, name=name))

    def __mul__(self, dense):
        return self._with("SparseDenseCwiseMul", dense, "mul")

    __rmul__ = __mul__

    def __truediv__(self, dense):
        dense = convert_to_tensor(dense, self.dtype.base_dtype)
        if not dense.dtype.is_integer:
            return self._with("SparseDenseCwiseDiv", dense, "truediv")
        numbers = quotient_type(dense.dtype)
        return self.with_values(_core.op("Cast")(self._values, numbers))._with(
            "SparseDenseCwiseDiv", _core.op("Cast")(dense, numbers), "truediv")

    __div__ = __truediv__

    def eval(self, feed_dict=None, session=None):
        """Returns its value, a SparseTensorValue."""
        return graphs._use_session(session, self.graph, "eval").run(
            self, feed_dict)

    def __repr__(self):
        return (f"SparseTensor(indices={self._indices}, "
                f"values={self._values}, dense_shape={self._dense_shape})")


def quotient_type(dtype):
    """Returns the float dtype in which integers of a dtype are divided."""
    return dtypes.float32 if dtype.size < 4 else dtypes.float64


def parts(value):
    """Returns the component tensors of a SparseTensor or IndexedSlices.

    They are in the order of the constructor's arguments, in which the values
    are also fed and fetched. For any other value returns [value].
    """
    if isinstance(value, SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    if isinstance(value, IndexedSlices):
        made = [value.values, value.indices, value.dense_shape]
        return made if value.dense_shape is not None else made[:2]
    return [value]


nest._register_composite(
    (SparseTensor, IndexedSlices), parts,
    lambda value, made: type(value)(*made))


def constant_value(tensor, partial=False):
    """Returns the value of a constant tensor as an array, or None."""
    if not isinstance(tensor, _core.Tensor):
        return None if hasattr(tensor, "_as_graph_element") else tensor
    op = tensor.op
    if op.type == "Const":
        value = _array(op._attr("value"))
        return value.astype(object) if value.dtype.kind == "S" else value
    if op.type == "Shape":
        dims = op.inputs[0]._dims
        if dims is not None and None not in dims:
            return _core.as_array(list(dims), tensor.dtype)
    if op.type == "Rank" and op.inputs[0]._dims is not None:
        return _array(_core.as_array(len(op.inputs[0]._dims), tensor.dtype))
    if op.type in ("Pack", "ConcatV2", "Fill", "Equal", "NotEqual", "Range"):
        return _computed_value(op, partial)
    if op.type == "Cast":
        value = constant_value(op.inputs[0])
        if value is not None:
            return value.astype(tensor.dtype.as_numpy_dtype)
    return None


def _computed_value(op, partial):
    """Returns the value of an operation on constants, or None.

    With `partial`, a packed vector has None for each unknown scalar.
    """
    import numpy as np
    parts = [constant_value(x) for x in op.inputs]
    missing = [p is None for p in parts]
    if op.type == "Pack" and partial and any(missing) and (
            not all(missing) and op._attr("axis") == 0 and
            all(x._dims == () for x in op.inputs)):
        return np.array([None if p is None else p.item() for p in parts],
                        object)
    if not parts or any(missing):
        return None
    if op.type == "Pack":
        return np.stack(parts) if op._attr("axis") == 0 else None
    if op.type == "ConcatV2":
        return np.concatenate(parts[:-1], int(parts[-1]))
    if op.type == "Fill":
        return np.full(parts[0], parts[1], parts[1].dtype)
    if op.type == "Range":
        return np.arange(*parts, dtype=parts[0].dtype)
    return np.array(parts[0] == parts[1] if op.type == "Equal" else
                    parts[0] != parts[1])


def _array(value):
    import numpy as np
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def constant_value_as_shape(tensor):
    """Returns the TensorShape whose dimensions a tensor holds."""
    if not isinstance(tensor, _core.Tensor):
        return tensor_shape.TensorShape([None if d < 0 else int(d)
                                         for d in tensor])
    return tensor_shape.TensorShape._of(_core.constant_as_shape(tensor))


# ---- Conversions -------------------------------------------------------------

_registry = []  # (priority, order, types, function)


def register_tensor_conversion_function(base_type, conversion_func,
                                        priority=100):
    """Registers a function that converts objects of a type to tensors.

    `conversion_func(value, dtype, name, as_ref)` returns a Tensor or
    NotImplemented. Functions of lower priority are tried first.
    """
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable")
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(t, type) for t in types):
        raise TypeError("base_type must be a type or a tuple of types")
    global _registry  # A new list: other threads may iterate over the old one.
    _registry = sorted(
        [*_registry, (priority, len(_registry), types, conversion_func)],
        key=lambda entry: entry[:2])


def _convert(value, dtype, name, as_ref):
    """Converts a value of a type that _core does not know; _core calls it."""
    for _, _, types, function in _registry:
        if not isinstance(value, types):
            continue
        result = function(value, dtype=dtype, name=name, as_ref=as_ref)
        if result is not NotImplemented:
            if not isinstance(result, _core.Tensor):
                raise RuntimeError(
                    f"Conversion function {function!r} for type "
                    f"{type(value)} returned non-Tensor: {result!r}")
            if dtype is not None and not dtype.is_compatible_with(
                    result.dtype.base_dtype):
                raise RuntimeError(
                    f"Conversion function {function!r} for type {type(value)} "
                    f"returned incompatible dtype: requested = {dtype.name}, "
                    f"actual = {result.dtype.name}")
            return result
    if value is None:
        raise ValueError("None values not supported.")
    if isinstance(value, (list, tuple)):
        plain = list(value)  # It may be of a subclass.
        made = _core.to_tensor(plain, dtype, name or "Const")
        return _pack_list(plain, dtype, name) if made is None else made
    if isinstance(value, range):
        # An empty range has a dtype, too.
        return _core.constant(list(value), dtype or (
            None if value else dtypes.int32), name or "Const")
    if hasattr(value, "__array__"):
        import numpy as np
        return _core.constant(np.asarray(value), dtype, name or "Const")
    raise TypeError(f"Failed to convert {value!r} to a Tensor: expected a "
                    f"number, a string, an array, or a list of these, got "
                    f"{type(value).__name__}."
                    + (f" Expected {dtype.name}." if dtype else ""))


def _pack_list(values, dtype, name, as_ref=False):
    """Packs a list that contains tensors into one tensor."""
    asked = dtype is not None
    if not asked:
        dtype = _dtype_within(values)
    with graphs.get_default_graph().name_scope(name or "packed") as scope:
        parts = [convert_to_tensor(v, dtype, str(i))
                 if not isinstance(v, _core.Tensor)
                 else _checked(v, dtype, asked) for i, v in enumerate(values)]
        return _pack(parts, name=scope)


def _dtype_within(values):
    for v in values:
        if isinstance(v, (list, tuple)):
            found = _dtype_within(v)
            if found is not None:
                return found
        else:
            found = getattr(v, "dtype", None)
            if isinstance(found, dtypes.DType):
                return found.base_dtype
    return None


def _checked(tensor, dtype, asked):
    """Returns an element of a list, cast to `dtype` if `asked`."""
    if asked and tensor.dtype.base_dtype is not dtype:
        return _core.op("Cast")(tensor, dtype)
    if dtype is not None and tensor.dtype.base_dtype is not dtype:
        raise TypeError(f"Cannot convert a list containing a tensor of dtype "
                        f"{tensor.dtype} to {dtype} (Tensor is: {tensor!r})")
    return tensor


def convert_to_tensor(value, dtype=None, name=None, preferred_dtype=None,
                      dtype_hint=None, as_ref=False):
    """Converts a value to a tensor: a tensor to itself, others to a constant.

    Python ints become int32, floats float32. numpy dtypes are kept.

    Args:
      value: a tensor, variable, number, string, array, or nested lists of
        these.
      dtype: the required dtype, or None.
      name: the name of the new operation; defaults to "Const".
      preferred_dtype, dtype_hint: the dtype to try first.
      as_ref: passed to functions of `register_tensor_conversion_function`.

    Raises:
      TypeError, ValueError: if the conversion is impossible.
    """
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, _core.Tensor):
        if dtype is not None and not dtype.is_compatible_with(
                value.dtype.base_dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for Tensor "
                f"with dtype {value.dtype.name}: {value!r}")
        return value
    hint = preferred_dtype if preferred_dtype is not None else dtype_hint
    if dtype is None and hint is not None:
        try:
            return _plain_or_registered(value, dtypes.as_dtype(hint), name,
                                        as_ref)
        except (TypeError, ValueError):
            pass
    return _plain_or_registered(value, dtype, name, as_ref)


def _plain_or_registered(value, dtype, name, as_ref):
    made = _core.to_tensor(value, dtype, name or "Const")
    if made is not None:
        return made
    return _convert(value, None if dtype is None else dtype.base_dtype,
                    name, as_ref)


# Functions for all classes of tensors.
def is_tensor(x):
    """Returns whether a value is a tensor, a variable or a sparse tensor."""
    return isinstance(x, (_core.Tensor, SparseTensor, IndexedSlices)) or (
        hasattr(x, "_as_graph_element") and hasattr(x, "dtype"))


def convert_to_tensor_or_indexed_slices(value, dtype=None, name=None):
    """Converts a value to a tensor; returns sparse values unchanged."""
    if isinstance(value, (IndexedSlices, SparseTensor)):
        return value
    return convert_to_tensor(value, dtype, name)


def convert_to_tensor_or_sparse_tensor(value, dtype=None, name=None):
    """Converts sparse values to a SparseTensor, others to a tensor."""
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        value = SparseTensor.from_value(value)
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(
                value.dtype):
            raise RuntimeError(
                f"Sparse dtype mismatch. Requested: "
                f"{dtypes.as_dtype(dtype).name},  Actual: {value.dtype.name}")
        return value
    return convert_to_tensor(value, dtype, name)


def constant(value, dtype=None, shape=None, name="Const", verify_shape=False):
    """Returns a tensor with a constant value.

    Args:
      value: a number, a string, an array, or nested lists of these.
      dtype: the dtype; defaults to int32 for ints, float32 for floats, and the
        dtype of an array.
      shape: the shape; the last value is repeated to fill it.
      name: the name of the operation.
      verify_shape: whether to require that the value has exactly `shape`.
    """
    name = name or "Const"
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, _core.Tensor):
        raise TypeError(f"constant: expected a value, got {value!r}")
    if shape is None:
        try:
            return _core.constant(value, dtype, name)
        except NotImplementedError:  # Raised for a tensor among the values.
            raise TypeError(f"constant: expected values, got a tensor among "
                            f"them: {value!r}") from None
    import numpy as np
    dims = tensor_shape.as_shape(shape).as_list()
    is_array = isinstance(value, (np.ndarray, np.generic))
    if 0 in dims and not is_array:  # Too many values of an array are an error.
        value = np.empty(shape, (dtype or dtypes.as_dtype(
            _core.as_array(value, None).dtype)).as_numpy_dtype)
        return _core.constant(value, dtype, name)
    array = _array(_core.as_array(value, dtype))
    if dtype is None and not is_array:
        dtype = dtypes.as_dtype(array.dtype)
    if verify_shape and list(array.shape) != dims:
        raise TypeError(f"Expected Tensor's shape: {tuple(dims)}, got "
                        f"{array.shape}.")
    size = 1
    for d in dims:
        size *= d
    if array.size > size:
        raise ValueError(f"Too many elements provided. Needed at most {size}, "
                         f"but received {array.size}")
    if array.size == size:
        array = array.reshape(dims)
    elif array.size == 0:
        raise ValueError(f"constant: expected {size} values, got none")
    else:
        flat = array.reshape(-1)
        array = np.concatenate(
            [flat, np.repeat(flat[-1:], size - flat.size)]).reshape(dims)
    return _core.constant(array, dtype, name)


def _slices_to_tensor(value, dtype=None, name=None, as_ref=False):
    if value.dense_shape is None:
        raise ValueError("Tensor conversion requested for IndexedSlices "
                         "without dense_shape.")
    rows = _core.op("StridedSlice")(value.dense_shape, [0], [1], [1],
                                    shrink_axis_mask=1)
    return _core.op("UnsortedSegmentSum")(value.values, value.indices, rows,
                                          name=name)


def _operation_to_tensor(value, dtype=None, name=None, as_ref=False):
    raise TypeError(f"Can't convert Operation '{value.name}' to Tensor (target "
                    f"dtype={dtype!r}, name={name!r}, as_ref={as_ref!r})")


def _shape_to_tensor(value, dtype=None, name=None, as_ref=False):
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape "
                         f"{value} to a Tensor.")
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype {dtype.name}")
    dims = value.as_list()
    too_large = [d for d in dims if d > dtypes.int32.max]
    if dtype is dtypes.int32 and too_large:
        raise ValueError(f"Cannot convert a TensorShape to dtype int32; a "
                         f"dimension is too large ({too_large[0]})")
    return _dimensions(dims, dtype, name)


def _dimension_to_tensor(value, dtype=None, name=None, as_ref=False):
    if value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: "
                         f"{value}")
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a Dimension to dtype {dtype.name}")
    return _dimensions(value.value, dtype, name)


def _dimensions(value, dtype, name):
    """Converts sizes to a constant: int64 if int32 is too small, else int32."""
    if dtype is None:
        sizes = value if isinstance(value, list) else [value]
        dtype = dtypes.int64 if any(
            d > dtypes.int32.max for d in sizes) else dtypes.int32
    return _core.constant(value, dtype, name or "shape_as_tensor")


register_tensor_conversion_function(IndexedSlices, _slices_to_tensor)
register_tensor_conversion_function(graphs.Operation, _operation_to_tensor, 0)
register_tensor_conversion_function(tensor_shape.TensorShape, _shape_to_tensor)
register_tensor_conversion_function(tensor_shape.Dimension,
                                    _dimension_to_tensor)
