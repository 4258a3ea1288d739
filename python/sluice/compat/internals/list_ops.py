"""Tensor lists: `tensorflow.python.ops.list_ops`."""

from sluice import _core
from sluice.framework import dtypes, tensor_shape
from sluice.framework.conversion import convert_to_tensor

_op = _core.op


def _build_element_shape(shape):
    """Converts a shape to an op's argument: -1 for an unknown rank or size."""
    if isinstance(shape, _core.Tensor):
        return shape
    if isinstance(shape, tensor_shape.TensorShape):
        shape = None if shape.ndims is None else list(shape)
    if shape is None:
        return -1
    if not isinstance(shape, (list, tuple)) or not shape:
        return convert_to_tensor(shape, dtypes.int32)
    sizes = [s if isinstance(s, _core.Tensor) else
             tensor_shape.dimension_value(s) for s in shape]
    return [-1 if s is None else s for s in sizes]


def empty_tensor_list(element_shape, element_dtype, max_num_elements=None,
                      name=None):
    """Makes an empty list with a maximum size."""
    return _op("EmptyTensorList")(
        _build_element_shape(element_shape),
        -1 if max_num_elements is None else max_num_elements,
        element_dtype=element_dtype, name=name)


def tensor_list_reserve(element_shape, num_elements, element_dtype, name=None):
    """Makes a list of unset tensors."""
    return _op("TensorListReserve")(
        _build_element_shape(element_shape), num_elements,
        element_dtype=element_dtype, name=name)


def tensor_list_from_tensor(tensor, element_shape, name=None):
    """Makes a list of the slices of a tensor."""
    return _op("TensorListFromTensor")(
        tensor, _build_element_shape(element_shape), name=name)


def tensor_list_get_item(input_handle, index, element_dtype,
                         element_shape=None, name=None):
    """Reads an item."""
    return _op("TensorListGetItem")(
        input_handle, index, _build_element_shape(element_shape),
        element_dtype=element_dtype, name=name)


def tensor_list_set_item(input_handle, index, item,
                         resize_if_index_out_of_bounds=False, name=None):
    """Replaces an item, and extends the list if this is allowed."""
    if resize_if_index_out_of_bounds:
        size = _op("TensorListLength")(input_handle)
        input_handle = _op("TensorListResize")(
            input_handle, _op("Maximum")(size, index + 1))
    return _op("TensorListSetItem")(input_handle, index, item, name=name)


def tensor_list_pop_back(input_handle, element_dtype, name=None):
    """Returns (the list without its last tensor, that tensor)."""
    return _op("TensorListPopBack")(input_handle, -1,
                                    element_dtype=element_dtype, name=name)


def tensor_list_gather(input_handle, indices, element_dtype,
                       element_shape=None, name=None):
    """Stacks the tensors at the given indices."""
    return _op("TensorListGather")(
        input_handle, indices, _build_element_shape(element_shape),
        element_dtype=element_dtype, name=name)


def tensor_list_scatter(tensor, indices, element_shape=None, input_handle=None,
                        name=None):
    """Writes slices of a tensor to a list at the given indices.

    The list is `input_handle`, or else a new one.
    """
    if input_handle is not None:
        return _op("TensorListScatterIntoExistingList")(
            input_handle, tensor, indices, name=name)
    return _op("TensorListScatterV2")(
        tensor, indices, _build_element_shape(element_shape), -1, name=name)


def tensor_list_stack(input_handle, element_dtype, num_elements=-1,
                      element_shape=None, name=None):
    """Stacks the tensors."""
    return _op("TensorListStack")(
        input_handle, _build_element_shape(element_shape),
        element_dtype=element_dtype, num_elements=num_elements, name=name)


def tensor_list_concat(input_handle, element_dtype, element_shape=None,
                       name=None):
    """Concatenates the tensors."""
    return _op("TensorListConcatV2")(
        input_handle, _build_element_shape(element_shape),
        convert_to_tensor([], dtypes.int64), element_dtype=element_dtype,
        name=name)[0]


def tensor_list_split(tensor, element_shape, lengths, name=None):
    """Makes a list of parts of a tensor, of the given lengths."""
    return _op("TensorListSplit")(
        tensor, _build_element_shape(element_shape), lengths, name=name)
