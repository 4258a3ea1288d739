"""Arrays as messages: `TensorProto`, in TensorFlow's binary form."""

from sluice import _core
from sluice.framework import dtypes, protos, tensor_shape

# The fields that hold numbers of a type, one by one.
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
# Whose elements are one by one even if they are many.
_SINGLY = (dtypes.string, dtypes.bool_, dtypes.complex64, dtypes.complex128,
           dtypes.float16, dtypes.bfloat16)


def _to_field(array, dtype):
    """The elements as their field has them."""
    import numpy as np
    flat = array.reshape(-1)
    if dtype is dtypes.string:
        return [v.encode() if isinstance(v, str) else bytes(v) for v in flat]
    if dtype is dtypes.float16:
        return flat.view(np.uint16).tolist()
    if dtype is dtypes.bfloat16:  # (numpy's are float32.)
        return (flat.view(np.uint32) >> 16).tolist()
    if dtype.is_complex:
        return flat.view(dtype.real_dtype.as_numpy_dtype).tolist()
    return flat.tolist()


def _from_field(values, dtype):
    """`_to_field`'s inverse."""
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
    """The TensorProto of a number, a string, an array, or nested lists.

    Several numbers are in `tensor_content`, others in the list of their type; a
    single value may stand for all of `shape`.
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
    """The numpy array of a TensorProto."""
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
    # (The last one stands for those that are left out.)
    left = np.repeat(array[-1:], max(0, size - array.size))
    return np.concatenate([array, left]).reshape(dims)


MakeNdarray = make_ndarray


def ShapeEquals(tensor_proto, shape):
    """Whether a TensorProto has a shape: a list, or a TensorShapeProto."""
    if not protos.is_message(tensor_proto, "TensorProto"):
        raise TypeError("tensor_proto is not a tensor_pb2.TensorProto object")
    dims = [d.size for d in tensor_proto.tensor_shape.dim]
    return dims == [getattr(d, "size", d) for d in getattr(shape, "dim", shape)]
