"""Conversion between arrays and `TensorProto` messages."""

from sluice import _core
from sluice.framework import dtypes, protos, tensor_shape

# The repeated field for the elements of each type.
_FIELDS = {dtypes.float32: "float_val", dtypes.float64: "double_val",
           dtypes.int32: "int_val", dtypes.int16: "int_val",
           dtypes.int8: "int_val", dtypes.uint8: "int_val",
           dtypes.uint16: "int_val", dtypes.qint8: "int_val",
           dtypes.quint8: "int_val", dtypes.qint16: "int_val",
           dtypes.quint16: "int_val", dtypes.qint32: "int_val",
           dtypes.string: "string_val", dtypes.int64: "int64_val",
           dtypes.bool_: "bool_val", dtypes.uint32: "uint32_val",
           dtypes.uint64: "uint64_val", dtypes.complex64: "scomplex_val",
           dtypes.complex128: "dcomplex_val", dtypes.float16: "half_val",
           dtypes.bfloat16: "half_val"}
# Types whose elements are always stored in the repeated field.
_SINGLY = (dtypes.string, dtypes.bool_, dtypes.complex64, dtypes.complex128,
           dtypes.float16, dtypes.bfloat16)


def _to_field(array, dtype):
    """Converts an array to the values of its repeated field."""
    import numpy as np
    flat = array.reshape(-1)
    if dtype is dtypes.string:
        return [v.encode() if isinstance(v, str) else bytes(v) for v in flat]
    if dtype is dtypes.float16:
        return flat.view(np.uint16).tolist()
    if dtype is dtypes.bfloat16:  # Represented as float32 in numpy.
        return (flat.view(np.uint32) >> 16).tolist()
    if dtype.is_complex:
        return flat.view(dtype.real_dtype.as_numpy_dtype).tolist()
    return flat.tolist()


def _from_field(values, dtype):
    """Converts the values of a repeated field to an array."""
    import numpy as np
    kind = dtype.as_numpy_dtype
    if dtype is dtypes.string:
        array = np.empty(len(values), object)
        array[:] = values
        return array
    if dtype is dtypes.float16:
        return np.array(values, np.uint16).view(np.float16)
    if dtype is dtypes.bfloat16:
        return (np.array(values, np.uint32) << 16).view(np.float32)
    if dtype.is_complex:
        return np.array(values, dtype.real_dtype.as_numpy_dtype).view(kind)
    return np.array(values, kind)


def make_tensor_proto(values, dtype=None, shape=None, verify_shape=False,
                      allow_broadcast=False):
    """Converts a number, a string, an array or nested lists to a TensorProto.

    Several numbers are stored in `tensor_content`, other values in the
    repeated field of their type. A single value may fill all of `shape`.
    """
    import numpy as np
    if protos.is_message(values, "TensorProto"):
        return values
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if values is None:
        raise ValueError("None values not supported.")
    if hasattr(values, "__array__") and not isinstance(
            values, (np.ndarray, np.generic)):
        values = np.asarray(values)
    array = np.asarray(_core.as_array(values, dtype))
    if dtype is None:
        dtype = dtypes.string if array.dtype.kind in "OSU" else (
            dtypes.as_dtype(array.dtype))
    if dtype not in _FIELDS:
        raise TypeError(f"Unrecognized data type: {dtype}")
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
    proto = protos.TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.CopyFrom(tensor_shape.TensorShape(dims).as_proto())
    array = np.ascontiguousarray(array)
    if array.size > 1 and array.size == size and dtype not in _SINGLY:
        proto.tensor_content = array.tobytes()
    else:
        getattr(proto, _FIELDS[dtype]).extend(_to_field(array, dtype))
    return proto


def make_ndarray(tensor):
    """Converts a TensorProto to a numpy array."""
    import numpy as np
    dims = [d.size for d in tensor.tensor_shape.dim]
    size = int(np.prod(dims)) if dims else 1
    dtype = dtypes.as_dtype(tensor.dtype)
    kind = dtype.as_numpy_dtype
    if tensor.tensor_content:
        data = tensor.tensor_content
        if dtype is dtypes.bfloat16:
            return _from_field(np.frombuffer(data, np.uint16), dtype).reshape(
                dims)
        return np.frombuffer(data, kind).copy().reshape(dims)
    if dtype not in _FIELDS:
        raise TypeError(f"Unsupported tensor type: {dtype}")
    array = _from_field(list(getattr(tensor, _FIELDS[dtype])), dtype)
    if not array.size:
        return np.zeros(dims, kind)
    # The last value is repeated for the missing ones.
    left = np.repeat(array[-1:], max(0, size - array.size))
    return np.concatenate([array, left]).reshape(dims)


MakeNdarray = make_ndarray


def ShapeEquals(tensor_proto, shape):
    """Returns whether a TensorProto has a shape, a list or TensorShapeProto."""
    if not protos.is_message(tensor_proto, "TensorProto"):
        raise TypeError("tensor_proto is not a tensor_pb2.TensorProto object")
    dims = [d.size for d in tensor_proto.tensor_shape.dim]
    return dims == [getattr(d, "size", d) for d in getattr(shape, "dim", shape)]
