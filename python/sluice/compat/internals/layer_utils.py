"""Checks of layer arguments and output sizes:
`tensorflow.python.layers.utils`."""

from sluice.framework.conversion import constant_value  # noqa: F401
from sluice.layers.convolutional import _numbers, _padding
from sluice.layers.core import normal_format, smart_cond  # noqa: F401
from sluice.ops.conv import _format


def convert_data_format(data_format, ndim):
    """Converts a data format to the notation of ops, such as "NHWC"."""
    if ndim not in (3, 4, 5):
        raise ValueError(f"Input rank not supported: {ndim}")
    return _format(ndim - 2, normal_format(data_format) == "channels_first")


def normalize_tuple(value, n, name):
    """Returns `n` integers; a single integer is repeated."""
    return _numbers(value, n, name)


def normalize_data_format(value):
    """Returns the data format in lower case; ValueError if it is unknown."""
    return normal_format(value)


def normalize_padding(value):
    """Returns the padding in lower case; ValueError if it is unknown."""
    return _padding(value)


def _side(padding, filter_size):
    """Returns the output length minus the input length for stride 1."""
    if padding not in ("same", "valid", "full"):
        raise ValueError(f"padding: expected 'same', 'valid' or 'full', got "
                         f"{padding!r}")
    return {"same": 0, "valid": 1 - filter_size,
            "full": filter_size - 1}[padding]


def conv_output_length(input_length, filter_size, padding, stride, dilation=1):
    """Returns the output length of a convolution."""
    if input_length is None:
        return None
    wide = (filter_size - 1) * dilation + 1
    return (input_length + _side(padding, wide) + stride - 1) // stride


def conv_input_length(output_length, filter_size, padding, stride):
    """Returns the smallest input length of a convolution."""
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0,
           "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(input_length, filter_size, padding, stride):
    """Returns the output length of a transposed convolution."""
    if input_length is None:
        return None
    if padding == "valid":
        return input_length * stride + max(filter_size - stride, 0)
    if padding == "full":
        return input_length * stride - (stride + filter_size - 2)
    return input_length * stride
