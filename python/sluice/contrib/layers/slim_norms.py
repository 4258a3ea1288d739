"""Normalization layers of `contrib.layers` and `contrib.slim`."""

from sluice.contrib.layers.arg_scope import add_arg_scope
from sluice.contrib.layers.model_variables import model_variable
from sluice.contrib.layers.slim_common import (
    collect, finished, get_variable_collections, images_first, model_getter)
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.layers import normalization
from sluice.ops import array_ops, init_ops, math_ops, nn
from sluice.ops.control_flow import smart_cond, smart_constant_value
from sluice.ops.variable_scope import get_variable_scope, variable_scope
from sluice.training.moving_averages import assign_moving_average

_ONES, _ZEROS = init_ops.Ones(), init_ops.Zeros()


@add_arg_scope
def batch_norm(inputs, decay=0.999, center=True, scale=False, epsilon=0.001,
               activation_fn=None, param_initializers=None,
               param_regularizers=None,
               updates_collections=GraphKeys.UPDATE_OPS, is_training=True,
               reuse=None, variables_collections=None,
               outputs_collections=None, trainable=True, batch_weights=None,
               fused=None, data_format="NHWC", zero_debias_moving_mean=False,
               scope=None, renorm=False, renorm_clipping=None,
               renorm_decay=0.99, adjustment=None):
    """Computes batch normalization with scale, shift and activation.

    See `BatchNormalization`.

    Args:
      decay: the decay of the moving averages.
      param_initializers: {"beta", "gamma", "moving_mean", "moving_variance"}.
      updates_collections: the collections for the updates of the averages; if
        None, the output depends on the updates.
      is_training: whether to use the statistics of the batch; may be a tensor.
      batch_weights: the weights of the examples.
      fused: whether to use the fused op if possible; None means true.
      zero_debias_moving_mean: whether to correct the bias of the moving mean.
    """
    first = images_first(data_format)
    inputs = convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    fused = fused is not False and batch_weights is None and not renorm and (
        rank in (2, 4) and adjustment is None)
    initializers, regularizers = param_initializers or {}, (
        param_regularizers or {})
    plain = batch_weights is None and not zero_debias_moving_mean and (
        updates_collections is GraphKeys.UPDATE_OPS)
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse,
                        custom_getter=model_getter()) as sc:
        if plain and not (fused and rank == 2):
            layer = normalization.BatchNormalization(
                1 if first else -1, decay, epsilon, center, scale,
                **{f"{name}_initializer": initializers.get(name, default)
                   for name, default in (
                       ("beta", _ZEROS), ("gamma", _ONES),
                       ("moving_mean", _ZEROS), ("moving_variance", _ONES))},
                beta_regularizer=regularizers.get("beta"),
                gamma_regularizer=regularizers.get("gamma"), renorm=renorm,
                renorm_clipping=renorm_clipping, renorm_momentum=renorm_decay,
                fused=fused, trainable=trainable, adjustment=adjustment,
                name=sc.name, _scope=sc, _reuse=reuse)
            outputs = layer(inputs, training=is_training)
            for name in ("moving_mean", "moving_variance", "beta", "gamma"):
                if getattr(layer, name) is not None:
                    collect(getattr(layer, name), variables_collections, name)
            return finished(outputs, activation_fn, outputs_collections,
                            sc.name)
        if renorm:
            raise ValueError("renorm is not supported with batch_weights, "
                             "updates_collections or zero_debias_moving_mean")
        norm = _Norm(inputs, first, epsilon, batch_weights)
        norm.make_variables(center, scale, initializers, regularizers,
                            variables_collections, trainable)
        known = smart_constant_value(is_training)
        compute = norm.fused if fused else norm.of_moments
        outputs, mean, variance = smart_cond(
            is_training, lambda: compute(True), lambda: compute(False))
        if known is None or known:
            moved = smart_cond(
                is_training, lambda: norm.moved(mean, variance, decay,
                                                zero_debias_moving_mean),
                norm.moving)
            if updates_collections is None:
                with graphs.control_dependencies(moved):
                    outputs = array_ops.identity(outputs)
            else:
                for one in moved:
                    graphs.add_to_collections(updates_collections, one)
        outputs.set_shape(inputs.shape)
        return finished(outputs, activation_fn, outputs_collections, sc.name)


class _Norm:
    """The variables and computations of a batch normalization.

    The statistics are either those of the batch or the moving averages.
    """

    def __init__(self, inputs, first, epsilon, batch_weights):
        self.inputs, self.first, self.epsilon = inputs, first, epsilon
        rank = inputs.shape.ndims
        channels = 1 if first else rank - 1
        self.features = inputs.shape.as_list()[channels]
        if self.features is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channels "
                             f"dimension {inputs.shape[channels:channels + 1]}."
                             )
        self.axes = [i for i in range(rank) if i != channels]
        # The shape in which parameters of channels broadcast to the inputs.
        self.beside = [self.features if i == channels else 1
                       for i in range(rank)] if first else None
        self.weights = None
        if batch_weights is not None:
            weights = convert_to_tensor(batch_weights)
            inputs.shape[:1].assert_is_compatible_with(weights.shape)
            self.weights = array_ops.reshape(weights, [-1] + [1] * (rank - 1))

    def make_variables(self, center, scale, initializers, regularizers,
                       variables_collections, trainable):
        """Creates the variables."""
        def make(name, default, trainable):
            return model_variable(
                name, [self.features], dtypes.float32 if (
                    self.inputs.dtype.base_dtype == dtypes.float16) else
                self.inputs.dtype.base_dtype, initializers.get(name, default),
                regularizers.get(name), trainable,
                get_variable_collections(variables_collections, name))

        self.beta = make("beta", _ZEROS, trainable) if center else None
        self.gamma = make("gamma", _ONES, trainable) if scale else None
        with variable_scope(get_variable_scope()) as within:
            within.set_partitioner(None)
            self.moving_mean = make("moving_mean", _ZEROS, False)
            self.moving_variance = make("moving_variance", _ONES, False)

    def moving(self):
        """Returns the moving (mean, variance)."""
        return self.moving_mean.value(), self.moving_variance.value()

    def moved(self, mean, variance, decay, zero_debias):
        """Updates the moving averages; returns the new (mean, variance)."""
        return (assign_moving_average(self.moving_mean, mean, decay,
                                      zero_debias),
                assign_moving_average(self.moving_variance, variance, decay,
                                      False))

    def fused(self, training):
        """Returns (outputs, mean, variance), computed by one op."""
        images, rank = self.inputs, self.inputs.shape.ndims
        data_format = "NCHW" if self.first and rank == 4 else "NHWC"
        if rank == 2:
            images = array_ops.reshape(images, [-1, 1, 1, self.features])
        dtype = self.moving_mean.dtype.base_dtype
        gamma = self.gamma if self.gamma is not None else array_ops.ones(
            [self.features], dtype)
        beta = self.beta if self.beta is not None else array_ops.zeros(
            [self.features], dtype)
        moving = {} if training else dict(mean=self.moving_mean,
                                          variance=self.moving_variance)
        outputs, mean, variance = nn.fused_batch_norm(
            images, gamma, beta, epsilon=self.epsilon, data_format=data_format,
            is_training=training, **moving)
        if rank == 2:
            outputs = array_ops.reshape(outputs,
                                        array_ops.shape(self.inputs))
        return outputs, mean, variance

    def of_moments(self, training):
        """Returns (outputs, mean, variance), computed by several ops."""
        if not training:
            mean, variance = self.moving()
        elif self.weights is None:
            mean, variance = nn.moments(self.inputs, self.axes)
        else:
            mean, variance = nn.weighted_moments(self.inputs, self.axes,
                                                 self.weights)

        def lie(x):
            return x if x is None or self.beside is None else (
                array_ops.reshape(x, self.beside))

        outputs = nn.batch_normalization(
            self.inputs, lie(mean), lie(variance), lie(self.beta),
            lie(self.gamma), self.epsilon)
        return outputs, mean, variance


def _parameters(inputs, shape, center, scale, initializers, regularizers,
                variables_collections, trainable):
    """Returns (beta, gamma) of a normalization; None for unused ones."""
    return [model_variable(
        name, shape, inputs.dtype.base_dtype,
        (initializers or {}).get(name, default),
        (regularizers or {}).get(name), trainable,
        get_variable_collections(variables_collections, name))
            if asked else None for name, asked, default in (
                ("beta", center, _ZEROS), ("gamma", scale, _ONES))]


@add_arg_scope
def layer_norm(inputs, center=True, scale=True, activation_fn=None, reuse=None,
               variables_collections=None, outputs_collections=None,
               trainable=True, begin_norm_axis=1, begin_params_axis=-1,
               scope=None):
    """Computes layer normalization (Ba et al., 2016) and an activation.

    It normalizes over the dimensions from `begin_norm_axis` on. Scale and shift
    are variables over the dimensions from `begin_params_axis` on.
    """
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        begin = begin_norm_axis + (rank if begin_norm_axis < 0 else 0)
        if begin_params_axis >= rank or begin >= rank:
            raise ValueError(f"begin_params_axis ({begin_params_axis}) and "
                             f"begin_norm_axis ({begin}) must be < rank(inputs)"
                             f" ({rank})")
        shape = inputs.shape[begin_params_axis:]
        if not shape.is_fully_defined():
            raise ValueError(f"Inputs {inputs.name}: shape(inputs)"
                             f"[{begin_params_axis}:] is not fully defined: "
                             f"{inputs.shape}")
        beta, gamma = _parameters(inputs, shape, center, scale, None, None,
                                  variables_collections, trainable)
        mean, variance = nn.moments(inputs, list(range(begin, rank)),
                                    keep_dims=True)
        least = 1e-3 if inputs.dtype.base_dtype == dtypes.float16 else 1e-12
        outputs = nn.batch_normalization(inputs, mean, variance, beta, gamma,
                                         least)
        outputs.set_shape(inputs.shape)
        return finished(outputs, activation_fn, outputs_collections, sc.name)


@add_arg_scope
def instance_norm(inputs, center=True, scale=True, epsilon=1e-6,
                  activation_fn=None, param_initializers=None, reuse=None,
                  variables_collections=None, outputs_collections=None,
                  trainable=True, data_format="NHWC", scope=None):
    """Computes instance normalization (Ulyanov et al., 2016) and an activation.

    It normalizes each channel of each example. Scale and shift are per channel.
    """
    inputs = convert_to_tensor(inputs)
    if inputs.shape.ndims is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    first = images_first(data_format)
    with variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        rank, channels = inputs.shape.ndims, 1 if first else (
            inputs.shape.ndims - 1)
        features = inputs.shape.as_list()[channels]
        if features is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channels "
                             f"dimension {inputs.shape[channels:channels + 1]}."
                             )
        beta, gamma = _parameters(
            inputs, [features], center, scale, param_initializers, None,
            variables_collections, trainable)
        if first:
            beta, gamma = (p if p is None else array_ops.reshape(
                p, [1, -1] + [1] * (rank - 2)) for p in (beta, gamma))
        mean, variance = nn.moments(
            inputs, [i for i in range(1, rank) if i != channels],
            keep_dims=True)
        outputs = nn.batch_normalization(inputs, mean, variance, beta, gamma,
                                         epsilon)
        outputs.set_shape(inputs.shape)
        return finished(outputs, activation_fn, outputs_collections, sc.name)


@add_arg_scope
def unit_norm(inputs, dim, epsilon=1e-7, scope=None):
    """Divides the inputs by their norm along a dimension."""
    with variable_scope(scope, "UnitNorm", [inputs]):
        if not inputs.shape:
            raise ValueError("The input rank must be known.")
        if not 0 <= dim < inputs.shape.ndims:
            raise ValueError("dim must be positive but smaller than the input "
                             "rank.")
        return math_ops.div(inputs, math_ops.sqrt(
            epsilon + math_ops.reduce_sum(math_ops.square(inputs), dim,
                                          keepdims=True)))
