"""Dense layers, dropout and flattening."""

from sluice.layers.base import InputSpec, Layer, as_function, last_dimension
from sluice.ops import array_ops, contractions, init_ops, math_ops, nn
from sluice.ops.control_flow import smart_cond


class Dense(Layer):
    """Computes activation(inputs x kernel + bias) over the last dimension."""

    def __init__(self, units, activation=None, use_bias=True,
                 kernel_initializer=None,
                 bias_initializer=init_ops.Zeros(), kernel_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, trainable=True,
                 name=None, **kwargs):
        super().__init__(trainable=trainable, name=name,
                         activity_regularizer=activity_regularizer, **kwargs)
        self.units, self.activation = int(units), activation
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.kernel = self.bias = None
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape):
        size = last_dimension(input_shape, -1, "last dimension")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel", [size, self.units], initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint)
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.units], initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint)
        self.built = True

    def call(self, inputs):
        if inputs.shape.ndims == 2:
            outputs = math_ops.matmul(inputs, self.kernel)
        else:
            outputs = contractions.tensordot(
                inputs, self.kernel, [[inputs.shape.ndims - 1], [0]])
            outputs.set_shape(inputs.shape.as_list()[:-1] + [self.units])
        if self.use_bias:
            outputs = nn.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


class Dropout(Layer):
    """Drops a fraction `rate` of elements in training; scales the others."""

    def __init__(self, rate=0.5, noise_shape=None, seed=None, name=None,
                 **kwargs):
        super().__init__(name=name, **kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs, training=False):
        def dropped():
            shape = self.noise_shape
            if isinstance(shape, (list, tuple)):
                dims = array_ops.shape(inputs)
                shape = [dims[i] if d is None else d
                         for i, d in enumerate(shape)]
            return nn.dropout(inputs, noise_shape=shape, seed=self.seed,
                              rate=self.rate)
        return smart_cond(training, dropped,
                          lambda: array_ops.identity(inputs))


class Flatten(Layer):
    """Flattens all dimensions but the first."""

    def __init__(self, data_format="channels_last", name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.data_format = normal_format(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs):
        n = inputs.shape.ndims
        if self.data_format == "channels_first" and n and n > 2:
            inputs = array_ops.transpose(
                inputs, [0] + list(range(2, n)) + [1])
        dims = inputs.shape.as_list()
        size = 1
        for d in dims[1:]:
            size = None if None in (size, d) else size * d
        rows = dims[0] if dims[0] is not None and size is None else -1
        if rows == -1 and size is None:
            rows = array_ops.shape(inputs)[0]
        outputs = array_ops.reshape(inputs, [rows, -1 if size is None
                                             else size])
        outputs.set_shape([dims[0], size])
        return outputs


def normal_format(data_format):
    """Returns the data format in lower case; ValueError if it is unknown."""
    text = data_format.lower()
    if text not in ("channels_first", "channels_last"):
        raise ValueError(f'The `data_format` argument must be one of '
                         f'"channels_first", "channels_last". Received: '
                         f'{data_format}')
    return text


dense = as_function(Dense)
dropout = as_function(Dropout, reuse=False,
                      training=[(4, "training", False)])


def flatten(inputs, name=None, data_format="channels_last"):
    """Flattens all dimensions but the first."""
    return Flatten(data_format=data_format, name=name)(inputs)
