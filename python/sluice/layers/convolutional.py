"""Convolutional layers."""

from sluice import _core
from sluice.framework.conversion import constant_value
from sluice.layers.base import InputSpec, Layer, as_function, last_dimension
from sluice.layers.core import normal_format
from sluice.ops import array_ops, conv, init_ops, nn


def _numbers(value, n, name):
    """Returns `n` integers; a single integer is repeated."""
    if isinstance(value, int):
        return (value,) * n
    try:
        numbers = tuple(int(v) for v in value)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != n:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} "
                         f"integers. Received: {value}")
    return numbers


def _padding(value):
    if value.lower() not in ("valid", "same"):
        raise ValueError(f'The `padding` argument must be one of "valid", '
                         f'"same". Received: {value}')
    return value.lower()


class _Conv(Layer):
    """The base class of convolutional layers."""

    rank = None

    def __init__(self, filters, kernel_size, strides=1, padding="valid",
                 data_format="channels_last", dilation_rate=1, activation=None,
                 use_bias=True, kernel_initializer=None,
                 bias_initializer=init_ops.Zeros(), kernel_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, trainable=True,
                 name=None, **kwargs):
        super().__init__(trainable=trainable, name=name,
                         activity_regularizer=activity_regularizer, **kwargs)
        n = self.rank
        self.filters = filters
        self.kernel_size = _numbers(kernel_size, n, "kernel_size")
        self.strides = _numbers(strides, n, "strides")
        self.padding = _padding(padding)
        self.data_format = normal_format(data_format)
        self.dilation_rate = _numbers(dilation_rate, n, "dilation_rate")
        self.activation, self.use_bias = activation, use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.kernel = self.bias = None
        self.input_spec = InputSpec(ndim=n + 2)

    _first = property(lambda self: self.data_format == "channels_first")

    def _channels(self, input_shape):
        axis = 1 if self._first else -1
        size = last_dimension(input_shape, axis, "channel dimension")
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: size})
        return size

    def _add_kernel(self, shape):
        return self.add_weight(
            "kernel", shape, initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint)

    def _add_bias(self):
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.filters], initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint)
        self.built = True

    def build(self, input_shape):
        channels = self._channels(input_shape)
        self.kernel = self._add_kernel(
            list(self.kernel_size) + [channels, self.filters])
        self._add_bias()

    def _convolve(self, inputs):
        return conv.convolution(
            inputs, self.kernel, self.padding.upper(), self.strides,
            self.dilation_rate, {1: "conv1d", 2: "Conv2D", 3: "Conv3D"}[
                self.rank], conv._format(self.rank, self._first))

    def _finish(self, outputs):
        if self.use_bias:
            outputs = _bias_add(outputs, self.bias, self._first)
        return outputs if self.activation is None else self.activation(outputs)

    def call(self, inputs):
        return self._finish(self._convolve(inputs))


def _bias_add(x, bias, first):
    if not first:
        return nn.bias_add(x, bias)
    if x.shape.ndims == 4:
        return nn.bias_add(x, bias, "NCHW")
    shape = [1, -1] + [1] * (x.shape.ndims - 2)
    return x + array_ops.reshape(bias, shape)


class Conv1D(_Conv):
    """A 1-D convolution of [batch, length, channels]."""

    rank = 1


class Conv2D(_Conv):
    """A 2-D convolution of [batch, height, width, channels].

    Args:
      filters: the number of output channels.
      kernel_size: the height and width of the window, or one number for both.
      strides: the step of the window.
      padding: "valid", or "same" to pad with zeros.
      data_format: "channels_last" or "channels_first".
      dilation_rate: the spacing of the window's elements.
      activation: a function that is applied to the output.
    """

    rank = 2


class Conv3D(_Conv):
    """A 3-D convolution of [batch, depth, height, width, channels]."""

    rank = 3


class _Separable(_Conv):
    """A depthwise convolution followed by a pointwise convolution."""

    def __init__(self, filters, kernel_size, strides=1, padding="valid",
                 data_format="channels_last", dilation_rate=1,
                 depth_multiplier=1, activation=None, use_bias=True,
                 depthwise_initializer=None, pointwise_initializer=None,
                 bias_initializer=init_ops.Zeros(), depthwise_regularizer=None,
                 pointwise_regularizer=None, bias_regularizer=None,
                 activity_regularizer=None, depthwise_constraint=None,
                 pointwise_constraint=None, bias_constraint=None,
                 trainable=True, name=None, **kwargs):
        super().__init__(
            filters, kernel_size, strides, padding, data_format, dilation_rate,
            activation, use_bias, bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint, trainable=trainable, name=name,
            **kwargs)
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = depthwise_initializer
        self.pointwise_initializer = pointwise_initializer
        self.depthwise_regularizer = depthwise_regularizer
        self.pointwise_regularizer = pointwise_regularizer
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint
        self._of_kernels = {
            "depthwise_kernel": (depthwise_initializer, depthwise_regularizer,
                                 depthwise_constraint),
            "pointwise_kernel": (pointwise_initializer, pointwise_regularizer,
                                 pointwise_constraint)}

    def _kernel(self, name, shape):
        initializer, regularizer, constraint = self._of_kernels[name]
        return self.add_weight(name, shape, initializer=initializer,
                               regularizer=regularizer, constraint=constraint)

    def build(self, input_shape):
        channels = self._channels(input_shape)
        deep = channels * self.depth_multiplier
        self.depthwise_kernel = self._kernel(
            "depthwise_kernel",
            list(self.kernel_size) + [channels, self.depth_multiplier])
        self.pointwise_kernel = self._kernel(
            "pointwise_kernel", [1] * self.rank + [deep, self.filters])
        self._add_bias()

    def call(self, inputs):
        strides, rates = self.strides, self.dilation_rate
        depthwise, pointwise = self.depthwise_kernel, self.pointwise_kernel
        axis = 2 if self._first else 1
        if self.rank == 1:  # Converts a sequence to an image with one row.
            inputs = array_ops.expand_dims(inputs, axis)
            depthwise = array_ops.expand_dims(depthwise, 0)
            pointwise = array_ops.expand_dims(pointwise, 0)
            strides, rates = strides * 2, (1,) + rates
        if self._first:
            strides = (1, 1) + strides
        else:
            strides = (1,) + strides + (1,)
        outputs = conv.separable_conv2d(
            inputs, depthwise, pointwise, strides, self.padding.upper(),
            rates, data_format=conv._format(2, self._first))
        if self.rank == 1:
            outputs = array_ops.squeeze(outputs, [axis])
        return self._finish(outputs)


class SeparableConv1D(_Separable):
    """A 1-D separable convolution."""

    rank = 1


class SeparableConv2D(_Separable):
    """A 2-D separable convolution."""

    rank = 2


class _Transposed(_Conv):
    """The base class of transposed convolutions."""

    def __init__(self, filters, kernel_size, strides=1, padding="valid",
                 data_format="channels_last", activation=None, use_bias=True,
                 kernel_initializer=None, bias_initializer=init_ops.Zeros(),
                 kernel_regularizer=None, bias_regularizer=None,
                 activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(
            filters, kernel_size, strides, padding, data_format, 1, activation,
            use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
            bias_regularizer, activity_regularizer, kernel_constraint,
            bias_constraint, trainable, name, **kwargs)

    def build(self, input_shape):
        channels = self._channels(input_shape)
        self.kernel = self._add_kernel(
            list(self.kernel_size) + [self.filters, channels])
        self._add_bias()

    def call(self, inputs):
        known = inputs.shape.as_list()
        dims = array_ops.shape(inputs)
        at = 2 if self._first else 1
        longer = []
        for i, (kernel, stride) in enumerate(zip(self.kernel_size,
                                                 self.strides)):
            size = known[at + i]
            size = dims[at + i] if size is None else size
            more = max(kernel - stride, 0) if self.padding == "valid" else 0
            longer.append(size * stride + more)
        batch = dims[0] if known[0] is None else known[0]
        shape = ([batch, self.filters] + longer if self._first
                 else [batch] + longer + [self.filters])
        strides = ((1, 1) + self.strides if self._first
                   else (1,) + self.strides + (1,))
        if self.rank == 2:
            outputs = nn.conv2d_transpose(
                inputs, self.kernel, shape, strides, self.padding.upper(),
                conv._format(2, self._first))
        else:
            outputs = conv.conv3d_transpose(
                inputs, self.kernel, shape, strides, self.padding.upper(),
                conv._format(3, self._first))
        outputs.set_shape([None if isinstance(d, _core.Tensor) and
                           constant_value(d) is None else d for d in shape])
        return self._finish(outputs)


class Conv2DTranspose(_Transposed):
    """A 2-D transposed convolution."""

    rank = 2


class Conv3DTranspose(_Transposed):
    """A 3-D transposed convolution."""

    rank = 3


conv1d = as_function(Conv1D)
conv2d = as_function(Conv2D)
conv3d = as_function(Conv3D)
separable_conv1d = as_function(SeparableConv1D)
separable_conv2d = as_function(SeparableConv2D)
conv2d_transpose = as_function(Conv2DTranspose)
conv3d_transpose = as_function(Conv3DTranspose)
