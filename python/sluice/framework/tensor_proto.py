"""Arrays as messages: `TensorProto`, in TensorFlow's binary form."""

from sluice import _core
from sluice.framework import dtypes, tensor_shape, wire

# The fields that hold numbers of a type, one by one.
_FIELDS = {dtypes.float32: "float_val", dtypes.float64: "double_val",
           dtypes.int32: "int_val", dtypes.int16: "int_val",
           dtypes.int8: "int_val", dtypes.uint8: "int_val",
           dtypes.uint16: "int_val", dtypes.string: "string_val",
           dtypes.int64: "int64_val", dtypes.bool_: "bool_val",
           dtypes.uint32: "uint32_val", dtypes.uint64: "uint64_val"}


# Of lists of numbers: (field, struct's code, or "" for varints).
_PACKED = {5: ("float_val", "f"), 6: ("double_val", "d"), 7: ("int_val", ""),
           10: ("int64_val", ""), 11: ("bool_val", ""),
           16: ("uint32_val", ""), 17: ("uint64_val", "")}


class _Dim:
    def __init__(self, size):
        self.size, self.name = size, ""

    def __repr__(self):
        return f"dim {{ size: {self.size} }}"


class _Shape:
    def __init__(self, dims=()):
        self.dim = [_Dim(d) for d in dims]
        self.unknown_rank = False

    def __repr__(self):
        return " ".join(map(repr, self.dim))


class TensorProto:
    """A type, a shape, and elements: `tensor_content` or one of the lists."""

    def __init__(self, dtype=0, dims=()):
        self.dtype = dtype
        self.tensor_shape = _Shape(dims)
        self.version_number = 0
        self.tensor_content = b""
        for field in set(_FIELDS.values()):
            setattr(self, field, [])

    def SerializeToString(self):
        """The binary form."""
        array = make_ndarray(self)
        shape = b"".join(wire.field(2, wire.number(1, d.size))
                         for d in self.tensor_shape.dim)
        data = wire.number(1, self.dtype) + wire.field(2, shape)
        if dtypes.as_dtype(self.dtype) is dtypes.string:
            return data + b"".join(wire.field(8, s) for s in array.reshape(-1))
        return data + wire.field(4, array.tobytes())

    def ParseFromString(self, data):
        """Takes over the binary form; how many bytes there were."""
        fields = list(wire.read(bytes(data)))
        one = dict(fields)
        self.__init__(one.get(1, 0), [
            dict(wire.read(dim)).get(1, 0)
            for n, dim in wire.read(one.get(2, b"")) if n == 2])
        self.tensor_content = one.get(4, b"")
        self.string_val = [v for n, v in fields if n == 8]
        for number, value in fields:
            if number in _PACKED:
                name, code = _PACKED[number]
                getattr(self, name).extend(wire.unpacked(value, code))
            elif number not in (1, 2, 3, 4, 8):
                raise ValueError(f"TensorProto: expected numbers or strings, "
                                 f"got field {number}")
        return len(data)

    @classmethod
    def FromString(cls, data):
        """A TensorProto of the binary form."""
        made = cls()
        made.ParseFromString(data)
        return made

    def __eq__(self, other):
        return isinstance(other, TensorProto) and (
            self.SerializeToString() == other.SerializeToString())

    __hash__ = None

    def __repr__(self):
        name = dtypes.as_dtype(self.dtype).name
        return (f"dtype: {name}\ntensor_shape {{ {self.tensor_shape!r} }}\n"
                f"values: {make_ndarray(self)!r}\n")


def make_tensor_proto(values, dtype=None, shape=None, verify_shape=False,
                      allow_broadcast=False):
    """The TensorProto of a number, a string, an array, or nested lists.

    An array's elements are in `tensor_content`, others in the list of their
    type; a single value may stand for all of `shape`.
    """
    import numpy as np
    if isinstance(values, TensorProto):
        return values
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    whole = isinstance(values, (np.ndarray, np.generic))
    array = np.asarray(_core.as_array(values, dtype))
    if dtype is None:
        dtype = dtypes.string if array.dtype.kind in "OSU" else (
            dtypes.as_dtype(array.dtype))
    dims = list(array.shape) if shape is None else (
        tensor_shape.as_shape(shape).as_list())
    size = int(np.prod(dims)) if dims else 1
    if shape is not None:
        if verify_shape and list(array.shape) != dims:
            raise TypeError(f"Expected Tensor's shape: {tuple(dims)}, got "
                            f"{array.shape}.")
        if array.size > size:
            raise ValueError(f"Too many elements provided. Needed at most "
                             f"{size}, but received {array.size}")
    proto = TensorProto(dtype.as_datatype_enum, dims)
    if whole and array.size > 1 and array.size == size and (
            dtype is not dtypes.string):
        proto.tensor_content = array.tobytes()
        return proto
    if dtype is dtypes.string:
        proto.string_val = [v.encode() if isinstance(v, str) else bytes(v)
                            for v in array.reshape(-1)]
    elif dtype in _FIELDS:
        getattr(proto, _FIELDS[dtype]).extend(array.reshape(-1).tolist())
    else:
        proto.tensor_content = np.broadcast_to(array, dims).tobytes()
    return proto


def make_ndarray(tensor):
    """The numpy array of a TensorProto."""
    import numpy as np
    dims = [d.size for d in tensor.tensor_shape.dim]
    size = int(np.prod(dims)) if dims else 1
    dtype = dtypes.as_dtype(tensor.dtype)
    kind = dtype.as_numpy_dtype
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, kind).copy().reshape(dims)
    values = list(getattr(tensor, _FIELDS.get(dtype, "int_val")))
    if not values:
        return np.zeros(dims, kind)
    # (The last one stands for those that are left out.)
    values += values[-1:] * (size - len(values))
    if dtype is dtypes.string:
        array = np.empty(size, object)
        array[:] = values
        return array.reshape(dims)
    return np.array(values, kind).reshape(dims)


MakeNdarray = make_ndarray
