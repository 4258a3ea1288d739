"""Batch normalisation."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import (
    constant, constant_value, convert_to_tensor)
from sluice.layers.base import InputSpec, Layer, last_dimension
from sluice.layers.core import smart_cond
from sluice.ops import array_ops, init_ops, math_ops, nn, variables


class BatchNormalization(Layer):
    """The inputs with mean 0 and variance 1 over the batch, scaled and shifted
    (Ioffe and Szegedy, 2015).

    In training, mean and variance are those of the batch, and moving averages
    of them follow: by operations in UPDATE_OPS, which the program runs with the
    training step. Otherwise the moving averages are used.

    Args:
      axis: the dimension of the features.
      momentum: what the moving averages keep of themselves in each step.
      epsilon: is added to the variance.
      center, scale: whether there are a shift ("beta") and a scale ("gamma").
      fused: whether one op does it all; None: where it can, for images.
    """

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, center=True,
                 scale=True, beta_initializer=init_ops.Zeros(),
                 gamma_initializer=init_ops.Ones(),
                 moving_mean_initializer=init_ops.Zeros(),
                 moving_variance_initializer=init_ops.Ones(),
                 beta_regularizer=None, gamma_regularizer=None,
                 beta_constraint=None, gamma_constraint=None, renorm=False,
                 renorm_clipping=None, renorm_momentum=0.99, fused=None,
                 trainable=True, virtual_batch_size=None, adjustment=None,
                 name=None, **kwargs):
        super().__init__(trainable=trainable, name=name, **kwargs)
        for what, value in (("renorm", renorm),
                            ("virtual_batch_size", virtual_batch_size),
                            ("adjustment", adjustment)):
            if value:
                raise NotImplementedError(f"batch_normalization: expected no "
                                          f"{what}, got {value}")
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        self.momentum, self.epsilon = momentum, epsilon
        self.center, self.scale, self.fused = center, scale, fused
        self._initializers = dict(
            gamma=gamma_initializer, beta=beta_initializer,
            moving_mean=moving_mean_initializer,
            moving_variance=moving_variance_initializer)
        self._regularizers = dict(gamma=gamma_regularizer,
                                  beta=beta_regularizer)
        self._constraints = dict(gamma=gamma_constraint, beta=beta_constraint)
        self.gamma = self.beta = None

    def _parameter(self, name, shape, trainable=True):
        # (Sums over a batch are too coarse in half precision.)
        dtype = self._dtype or dtypes.float32
        if dtype in (dtypes.float16, dtypes.bfloat16):
            dtype = dtypes.float32
        return self.add_weight(
            name, shape, dtype, self._initializers[name],
            self._regularizers.get(name), trainable,
            self._constraints.get(name))

    def build(self, input_shape):
        n = input_shape.ndims
        if not n:
            raise ValueError("Input has undefined rank:", input_shape)
        for axis in self.axis:
            if not -n <= axis < n:
                raise ValueError(f"Invalid axis: {axis}")
        self.axis = [a % n for a in self.axis]
        fusible = n == 4 and self.axis in ([1], [3])
        if self.fused and not fusible:
            raise ValueError(
                f"Unsupported axis, fused batch norm only supports axis == [1] "
                f"or axis == [3] of 4 dimensions, got {self.axis} of {n}")
        self.fused = fusible if self.fused is None else self.fused
        sizes = [last_dimension(input_shape, a, f"dimension {a}")
                 for a in self.axis]
        self.input_spec = InputSpec(ndim=n, axes=dict(zip(self.axis, sizes)))
        shape = sizes if len(sizes) == 1 else [
            input_shape.as_list()[i] if i in self.axis else 1
            for i in range(n)]
        if self.scale:
            self.gamma = self._parameter("gamma", shape)
        if self.center:
            self.beta = self._parameter("beta", shape)
        self.moving_mean = self._parameter("moving_mean", shape, False)
        self.moving_variance = self._parameter("moving_variance", shape, False)
        self.built = True

    def call(self, inputs, training=False):
        if self.fused:
            return self._fused(inputs, training)
        n = inputs.shape.ndims
        over = [i for i in range(n) if i not in self.axis]
        shape = [-1 if i in self.axis else 1 for i in range(n)]

        def wide(v):
            # (Over the last dimension, vectors are wide enough.)
            if v is None or len(self.axis) > 1 or self.axis == [n - 1]:
                return v
            return array_ops.reshape(v, shape)

        training = _known(training)
        if training is False:
            mean, variance = (self.moving_mean.value(),
                              self.moving_variance.value())
        else:
            keep = len(self.axis) > 1
            mean, variance = nn.moments(
                math_ops.cast(inputs, self.moving_mean.dtype.base_dtype), over,
                keep_dims=keep)
            batch = mean, variance
            mean = smart_cond(training, lambda: batch[0],
                              self.moving_mean.value)
            variance = smart_cond(training, lambda: batch[1],
                                  self.moving_variance.value)
            for variable, value in ((self.moving_mean, batch[0]),
                                    (self.moving_variance, batch[1])):
                self.add_update(smart_cond(
                    training,
                    lambda v=variable, x=value: _follow(v, x, self.momentum),
                    variable.value))
        outputs = nn.batch_normalization(
            inputs, wide(mean), wide(variance), wide(self.beta),
            wide(self.gamma), self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def _fused(self, inputs, training):
        shape = self.moving_mean.shape
        dtype = self.moving_mean.dtype.base_dtype
        gamma = constant(1.0, dtype, shape) if self.gamma is None else (
            self.gamma)
        beta = constant(0.0, dtype, shape) if self.beta is None else self.beta
        form = "NCHW" if self.axis == [1] else "NHWC"

        def trained():
            return nn.fused_batch_norm(inputs, gamma, beta,
                                       epsilon=self.epsilon, data_format=form)

        def inferred():
            return nn.fused_batch_norm(
                inputs, gamma, beta, self.moving_mean, self.moving_variance,
                self.epsilon, form, is_training=False)

        training = _known(training)
        outputs, mean, variance = smart_cond(training, trained, inferred)
        if training is not False:
            momentum = smart_cond(training, lambda: constant(self.momentum),
                                  lambda: constant(1.0))
            self.add_update([_follow(self.moving_mean, mean, momentum),
                             _follow(self.moving_variance, variance,
                                     momentum)])
        return outputs


def _known(training):
    """The truth value, if it is known; else the tensor."""
    if isinstance(training, variables.Variable):
        return training.value()
    value = constant_value(training)
    return training if value is None else bool(value)


def _follow(variable, value, momentum):
    """Moves a moving average towards a value; gives what it is then."""
    with graphs.name_scope("AssignMovingAvg") as scope, graphs.colocate_with(
            variable.op):
        dtype = variable.dtype.base_dtype
        decay = math_ops.cast(convert_to_tensor(1.0 - momentum, name="decay"),
                              dtype)
        delta = (variable.value() - math_ops.cast(value, dtype)) * decay
        return variables.assign_sub(variable, delta, name=scope)


def batch_normalization(
        inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
        beta_initializer=init_ops.Zeros(), gamma_initializer=init_ops.Ones(),
        moving_mean_initializer=init_ops.Zeros(),
        moving_variance_initializer=init_ops.Ones(), beta_regularizer=None,
        gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
        training=False, trainable=True, name=None, reuse=None, renorm=False,
        renorm_clipping=None, renorm_momentum=0.99, fused=None,
        virtual_batch_size=None, adjustment=None):
    """Makes and calls a `BatchNormalization` layer."""
    layer = BatchNormalization(
        axis, momentum, epsilon, center, scale, beta_initializer,
        gamma_initializer, moving_mean_initializer,
        moving_variance_initializer, beta_regularizer, gamma_regularizer,
        beta_constraint, gamma_constraint, renorm, renorm_clipping,
        renorm_momentum, fused, trainable, virtual_batch_size, adjustment,
        name, _reuse=reuse, _scope=name)
    return layer(inputs, training=training)
