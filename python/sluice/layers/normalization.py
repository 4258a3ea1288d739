"""Batch normalization."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.layers.base import InputSpec, Layer, last_dimension
from sluice.ops import array_ops, init_ops, math_ops, nn, variables
from sluice.ops.control_flow import smart_cond, smart_constant_value


class BatchNormalization(Layer):
    """Normalizes inputs over the batch (Ioffe and Szegedy, 2015).

    The result has mean 0 and variance 1, and is then scaled and shifted. In
    training, mean and variance are those of the batch. Operations in UPDATE_OPS
    update their moving averages, and the program must run them with the
    training step. Inference uses the moving averages.

    Args:
      axis: the dimension of the features.
      momentum: the decay of the moving averages.
      epsilon: a number that is added to the variance.
      center, scale: whether there are a shift ("beta") and a scale ("gamma").
      renorm: whether training corrects towards the moving averages (Ioffe,
        2017). `renorm_clipping` limits it: {"rmin", "rmax", "dmax"}.
      renorm_momentum: the decay of the averages for renorm.
      fused: whether to use a single op for images if possible; true by default.
      virtual_batch_size: the number of examples that share mean and variance.
      adjustment: a function from the shape of the inputs to (scale, bias),
        which are applied in training before scale and shift.
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
        self.renorm, self.renorm_momentum = renorm, renorm_momentum
        self.renorm_clipping = dict(renorm_clipping or {})
        if not set(self.renorm_clipping) <= {"rmin", "rmax", "dmax"}:
            raise ValueError(f"renorm_clipping {renorm_clipping} contains keys "
                             f"not in ['rmax', 'rmin', 'dmax']")
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
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
        self.gamma_constraint = gamma_constraint
        self.beta_constraint = beta_constraint
        self.gamma = self.beta = None

    def _parameter(self, name, shape, trainable=True):
        # Sums over a batch lose too much precision in 16 bits.
        dtype = self._dtype or dtypes.float32
        if dtype in (dtypes.float16, dtypes.bfloat16):
            dtype = dtypes.float32
        return self.add_weight(
            name, shape, dtype,
            self._initializers.get(name, init_ops.Zeros()),
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
        if len(set(self.axis)) < len(self.axis):
            raise ValueError(f"Duplicate axis: {tuple(self.axis)}")
        virtual = self.virtual_batch_size
        if virtual is not None:
            if virtual <= 0:
                raise ValueError("virtual_batch_size must be a positive "
                                 "integer that divides the true batch size of "
                                 "the input Tensor")
            if 0 in self.axis:
                raise ValueError("When using virtual_batch_size, the batch "
                                 "dimension must be 0 and thus axis cannot "
                                 "include 0")
            if self.adjustment is not None:
                raise ValueError("When using virtual_batch_size, adjustment "
                                 "cannot be specified")
        self.fused = (self.fused in (None, True) and n == 4 and
                      self.axis in ([1], [3]) and not self.renorm and
                      virtual is None and self.adjustment is None)
        sizes = [input_shape.as_list()[a] for a in self.axis]
        if None in sizes:
            raise ValueError(f"Input has undefined `axis` dimension. Input "
                             f"shape: {input_shape}")
        self.input_spec = InputSpec(ndim=n, axes=dict(zip(self.axis, sizes)))
        shape = sizes if len(sizes) == 1 and virtual is None else [
            input_shape.as_list()[i] if i in self.axis else 1
            for i in range(n)]
        if virtual is not None:  # Splits the batch into batches.
            shape.insert(1, 1)
            self.axis = [a + 1 for a in self.axis]
        if self.scale:
            self.gamma = self._parameter("gamma", shape)
        if self.center:
            self.beta = self._parameter("beta", shape)
        # The averages ignore the partitioner of the scope.
        partitioner = self._scope.partitioner
        self._scope.set_partitioner(None)
        try:
            self._make_averages(shape)
        finally:
            self._scope.set_partitioner(partitioner)
        self.built = True

    def _make_averages(self, shape):
        self.moving_mean = self._parameter("moving_mean", shape, False)
        self.moving_variance = self._parameter("moving_variance", shape, False)
        if self.renorm:
            self.renorm_mean = self._parameter("renorm_mean", shape, False)
            self.renorm_mean_weight = self._parameter("renorm_mean_weight", (),
                                                      False)
            self.renorm_stddev = self._parameter("renorm_stddev", shape, False)
            self.renorm_stddev_weight = self._parameter("renorm_stddev_weight",
                                                        (), False)

    def call(self, inputs, training=False):
        if self.fused:
            return self._fused(inputs, training)
        whole = inputs
        if self.virtual_batch_size is not None:
            rest = inputs.shape.as_list()[1:]
            inputs = array_ops.reshape(inputs,
                                       [self.virtual_batch_size, -1, *rest])
        outputs = self._normal(inputs, training)
        if self.virtual_batch_size is not None:
            outputs = array_ops.reshape(outputs, [-1, *rest])
        outputs.set_shape(whole.shape)
        return outputs

    def _normal(self, inputs, training):
        n = inputs.shape.ndims
        virtual = self.virtual_batch_size is not None
        over = [i for i in range(n) if i not in self.axis and not (
            virtual and i == 1)]
        shape = [-1 if i in self.axis else 1 for i in range(n)]

        def wide(v):
            # Over the last dimension, vectors broadcast without reshaping.
            if v is None or virtual or len(self.axis) > 1 or (
                    self.axis == [n - 1]):
                return v
            return array_ops.reshape(v, shape)

        training = _known(training)
        scale, offset = wide(self.gamma), wide(self.beta)

        def before(by, plus):
            """Composes x * by + plus with the following scale and offset."""
            nonlocal scale, offset
            if scale is not None:
                by, plus = by * scale, plus * scale
            scale, offset = by, plus if offset is None else plus + offset

        if training is False:
            mean, variance = (self.moving_mean.value(),
                              self.moving_variance.value())
        else:
            if self.adjustment is not None:
                by, plus = self.adjustment(array_ops.shape(inputs))
                before(smart_cond(training, lambda: by,
                                  lambda: array_ops.ones_like(by)),
                       smart_cond(training, lambda: plus,
                                  lambda: array_ops.zeros_like(plus)))
            keep = virtual or len(self.axis) > 1
            mean, variance = nn.moments(
                math_ops.cast(inputs, self.moving_mean.dtype.base_dtype), over,
                keep_dims=keep)
            batch = mean, variance
            follows = [math_ops.reduce_mean(b, 1, keepdims=True) for b in
                       batch] if virtual else batch
            if self.renorm:
                r, d, follows = self._renormed(*follows, training)
                before(wide(array_ops.stop_gradient(r)),
                       wide(array_ops.stop_gradient(d)))
            mean = smart_cond(training, lambda: batch[0],
                              self.moving_mean.value)
            variance = smart_cond(training, lambda: batch[1],
                                  self.moving_variance.value)
            for variable, value in ((self.moving_mean, follows[0]),
                                    (self.moving_variance, follows[1])):
                self.add_update(smart_cond(
                    training,
                    lambda v=variable, x=value: _follow(v, x, self.momentum),
                    variable.value))
        return nn.batch_normalization(inputs, wide(mean), wide(variance),
                                      offset, scale, self.epsilon)

    def _renormed(self, mean, variance, training):
        """Applies renorm to the statistics of a batch.

        Returns:
          (scale and shift that correct towards the current averages; averages
          of mean and variance after this batch).
        """
        stddev = math_ops.sqrt(variance + self.epsilon)
        mixed_mean = self.renorm_mean.value() + (
            1.0 - self.renorm_mean_weight.value()) * mean
        mixed_stddev = self.renorm_stddev.value() + (
            1.0 - self.renorm_stddev_weight.value()) * stddev
        r, d = stddev / mixed_stddev, (mean - mixed_mean) / mixed_stddev
        # The averages must change only after they are read.
        with graphs.control_dependencies([r, d]):
            mean, stddev = array_ops.identity(mean), array_ops.identity(stddev)
            one = constant(1.0, mean.dtype)
        bounds = self.renorm_clipping
        if "rmin" in bounds:
            r = math_ops.maximum(r, bounds["rmin"])
        if "rmax" in bounds:
            r = math_ops.minimum(r, bounds["rmax"])
        if "dmax" in bounds:
            d = math_ops.maximum(math_ops.minimum(d, bounds["dmax"]),
                                 -bounds["dmax"])
        r = smart_cond(training, lambda: r, lambda: array_ops.ones_like(r))
        d = smart_cond(training, lambda: d, lambda: array_ops.zeros_like(d))

        def followed(variable, weight, value):
            def update():
                new = _follow(variable, value, self.renorm_momentum)
                return new / _follow(weight, one, self.renorm_momentum)
            return smart_cond(training, update, variable.value)

        new_mean = followed(self.renorm_mean, self.renorm_mean_weight, mean)
        new_stddev = followed(self.renorm_stddev, self.renorm_stddev_weight,
                              stddev)
        return r, d, (new_mean, math_ops.square(new_stddev) - self.epsilon)

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
    """Returns the static value of `training`, or else a tensor."""
    if isinstance(training, variables.Variable):
        return training.value()
    known = smart_constant_value(training)
    return training if known is None else known


def _follow(variable, value, momentum):
    """Updates a moving average; returns its new value."""
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


# Older names in TensorFlow.
BatchNorm, batch_norm = BatchNormalization, batch_normalization
