"""Pooling layers."""

from sluice.layers.base import InputSpec, Layer, as_function
from sluice.layers.convolutional import _numbers, _padding
from sluice.layers.core import normal_format
from sluice.ops import conv


class _Pooling(Layer):
    """The base class of pooling layers.

    Args:
      pool_size: the size of the window along each dimension, or one number.
      strides: the step of the window.
      padding: "valid", or "same" to let windows extend over the edge.
      data_format: "channels_last" or "channels_first".
    """

    rank = kind = None

    def __init__(self, pool_size, strides, padding="valid",
                 data_format="channels_last", name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.pool_size = _numbers(pool_size, self.rank, "pool_size")
        self.strides = _numbers(strides, self.rank, "strides")
        self.padding = _padding(padding)
        self.data_format = normal_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs):
        return conv.pool(
            inputs, self.pool_size, self.kind, self.padding.upper(),
            strides=self.strides, data_format=conv._format(
                self.rank, self.data_format == "channels_first"))


class AveragePooling1D(_Pooling):
    """Computes the mean of windows of [batch, length, channels]."""

    rank, kind = 1, "AVG"


class AveragePooling2D(_Pooling):
    """Computes the mean of windows of [batch, height, width, channels]."""

    rank, kind = 2, "AVG"


class AveragePooling3D(_Pooling):
    """The mean of windows of [batch, depth, height, width, channels]."""

    rank, kind = 3, "AVG"


class MaxPooling1D(_Pooling):
    """Computes the maximum of windows of [batch, length, channels]."""

    rank, kind = 1, "MAX"


class MaxPooling2D(_Pooling):
    """Computes the maximum of windows of [batch, height, width, channels]."""

    rank, kind = 2, "MAX"


class MaxPooling3D(_Pooling):
    """The maximum of windows of [batch, depth, height, width, channels]."""

    rank, kind = 3, "MAX"


average_pooling1d = as_function(AveragePooling1D, reuse=False)
average_pooling2d = as_function(AveragePooling2D, reuse=False)
average_pooling3d = as_function(AveragePooling3D, reuse=False)
max_pooling1d = as_function(MaxPooling1D, reuse=False)
max_pooling2d = as_function(MaxPooling2D, reuse=False)
max_pooling3d = as_function(MaxPooling3D, reuse=False)
