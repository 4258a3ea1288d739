"""Layers as functions with `arg_scope`: `contrib.layers` and `contrib.slim`.

Normalization layers are in `slim_norms.py`. Variables are added to
MODEL_VARIABLES and to the collections given by the caller: a list, or
{"weights": a list, "biases": a list}.
"""

import collections
import functools

from sluice.contrib.layers.arg_scope import add_arg_scope
from sluice.contrib.layers.initializers import xavier_initializer
from sluice.contrib.layers.maxout import MaxOut
from sluice.contrib.layers.model_variables import model_variable
from sluice.contrib.layers.slim_common import (
    channels_first, collect, collect_named_outputs, finished,
    get_variable_collections, images_first, model_getter)
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.functions.custom_gradient import custom_gradient
from sluice.layers import convolutional, core, pooling
from sluice.ops import (
    array_ops, check_ops, conv, embedding, init_ops, math_ops, nn, sparse_ops)
from sluice.ops.variable_scope import variable_scope

_XAVIER, _ZEROS = xavier_initializer(), init_ops.Zeros()

NamedOutputs = collections.namedtuple("NamedOutputs", ["name", "outputs"])


def _order(first):
    return "channels_first" if first else "channels_last"


# ---- Layers with weights -----------------------------------------------------


def _weighted(make, inputs, scope, default_scope, reuse, variables_collections,
              outputs_collections, activation_fn, normalizer_fn,
              normalizer_params, weights_initializer, weights_regularizer,
              biases_initializer, biases_regularizer, trainable):
    """Returns the output of a layer with weights and biases.

    `make` makes the layer.
    """
    with variable_scope(
            scope, default_scope, [inputs], reuse=reuse,
            custom_getter=model_getter(bias="biases",
                                       kernel="weights")) as sc:
        inputs = convert_to_tensor(inputs)
        layer = make(
            inputs, use_bias=bool(not normalizer_fn and biases_initializer),
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer, trainable=trainable,
            name=sc.name, dtype=inputs.dtype.base_dtype, _scope=sc,
            _reuse=reuse)
        outputs = layer(inputs)
        collect(layer.kernel, variables_collections, "weights")
        if layer.bias is not None:
            collect(layer.bias, variables_collections, "biases")
        return finished(outputs, activation_fn, outputs_collections, sc.name,
                        normalizer_fn, normalizer_params)


@add_arg_scope
def fully_connected(inputs, num_outputs, activation_fn=nn.relu,
                    normalizer_fn=None, normalizer_params=None,
                    weights_initializer=_XAVIER, weights_regularizer=None,
                    biases_initializer=_ZEROS, biases_regularizer=None,
                    reuse=None, variables_collections=None,
                    outputs_collections=None, trainable=True, scope=None):
    """Computes inputs * weights + biases over the last dimension.

    Optionally applies a normalization (instead of biases) and an activation.
    """
    if not isinstance(num_outputs, int):
        raise ValueError(f"num_outputs type should be one of [int], got "
                         f"{type(num_outputs)}.")

    def make(inputs, **kwargs):
        return core.Dense(num_outputs, **kwargs)

    return _weighted(
        make, inputs, scope, "fully_connected", reuse, variables_collections,
        outputs_collections, activation_fn, normalizer_fn, normalizer_params,
        weights_initializer, weights_regularizer, biases_initializer,
        biases_regularizer, trainable)


_FORMATS = (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")


@add_arg_scope
def convolution(inputs, num_outputs, kernel_size, stride=1, padding="SAME",
                data_format=None, rate=1, activation_fn=nn.relu,
                normalizer_fn=None, normalizer_params=None,
                weights_initializer=_XAVIER, weights_regularizer=None,
                biases_initializer=_ZEROS, biases_regularizer=None, reuse=None,
                variables_collections=None, outputs_collections=None,
                trainable=True, scope=None, conv_dims=None):
    """Computes a convolution over one to three dimensions.

    Adds biases or applies a normalization, and then an activation.

    Args:
      rate: the dilation rate.
      conv_dims: the number of spatial dimensions; defaults to all.
    """
    order = _order(channels_first(data_format, _FORMATS))

    def make(inputs, **kwargs):
        rank = inputs.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank "
                             f"{conv_dims + 2}, got {rank}")
        if rank not in (3, 4, 5):
            raise ValueError("Convolution not supported for input with rank",
                             rank)
        kind = (convolutional.Conv1D, convolutional.Conv2D,
                convolutional.Conv3D)[rank - 3]
        return kind(num_outputs, kernel_size, stride, padding, order, rate,
                    **kwargs)

    return _weighted(
        make, inputs, scope, "Conv", reuse, variables_collections,
        outputs_collections, activation_fn, normalizer_fn, normalizer_params,
        weights_initializer, weights_regularizer, biases_initializer,
        biases_regularizer, trainable)


def _convolution_over(dims):
    def convolved(inputs, num_outputs, kernel_size, stride=1, padding="SAME",
                  data_format=None, rate=1, activation_fn=nn.relu,
                  normalizer_fn=None, normalizer_params=None,
                  weights_initializer=_XAVIER, weights_regularizer=None,
                  biases_initializer=_ZEROS, biases_regularizer=None,
                  reuse=None, variables_collections=None,
                  outputs_collections=None, trainable=True, scope=None):
        return convolution(
            inputs, num_outputs, kernel_size, stride, padding, data_format,
            rate, activation_fn, normalizer_fn, normalizer_params,
            weights_initializer, weights_regularizer, biases_initializer,
            biases_regularizer, reuse, variables_collections,
            outputs_collections, trainable, scope, conv_dims=dims)
    convolved.__name__ = convolved.__qualname__ = f"convolution{dims}d"
    convolved.__doc__ = f"Calls `convolution` with conv_dims={dims}."
    return add_arg_scope(convolved)


convolution1d, convolution2d, convolution3d = map(_convolution_over, (1, 2, 3))


def _transposed(kind, name, formats, default_scope):
    def convolved(inputs, num_outputs, kernel_size, stride=1, padding="SAME",
                  data_format=formats[1], activation_fn=nn.relu,
                  normalizer_fn=None, normalizer_params=None,
                  weights_initializer=_XAVIER, weights_regularizer=None,
                  biases_initializer=_ZEROS, biases_regularizer=None,
                  reuse=None, variables_collections=None,
                  outputs_collections=None, trainable=True, scope=None):
        order = _order(channels_first(data_format, formats))

        def make(inputs, **kwargs):
            return kind(num_outputs, kernel_size, stride, padding, order,
                        **kwargs)

        return _weighted(
            make, inputs, scope, default_scope, reuse, variables_collections,
            outputs_collections, activation_fn, normalizer_fn,
            normalizer_params, weights_initializer, weights_regularizer,
            biases_initializer, biases_regularizer, trainable)
    convolved.__name__ = convolved.__qualname__ = name
    convolved.__doc__ = ("""Computes a transposed convolution.

    Adds biases or applies a normalization, and then an activation.
    """)
    return add_arg_scope(convolved)


convolution2d_transpose = _transposed(
    convolutional.Conv2DTranspose, "convolution2d_transpose",
    ("NCHW", "NHWC"), "Conv2d_transpose")
convolution3d_transpose = _transposed(
    convolutional.Conv3DTranspose, "convolution3d_transpose",
    ("NCDHW", "NDHWC"), "Conv3d_transpose")


def _pair(value):
    return tuple(int(v) for v in value) if hasattr(value, "__iter__") else (
        int(value),) * 2


@add_arg_scope
def separable_convolution2d(
        inputs, num_outputs, kernel_size, depth_multiplier=1, stride=1,
        padding="SAME", data_format="NHWC", rate=1, activation_fn=nn.relu,
        normalizer_fn=None, normalizer_params=None,
        weights_initializer=_XAVIER, pointwise_initializer=None,
        weights_regularizer=None, biases_initializer=_ZEROS,
        biases_regularizer=None, reuse=None, variables_collections=None,
        outputs_collections=None, trainable=True, scope=None):
    """Computes a depthwise and a pointwise convolution.

    If `num_outputs` is None, omits the latter. Adds biases or applies a
    normalization, and then an activation.
    """
    first = images_first(data_format)
    with variable_scope(
            scope, "SeparableConv2d", [inputs], reuse=reuse,
            custom_getter=model_getter(
                bias="biases", depthwise_kernel="depthwise_weights",
                pointwise_kernel="pointwise_weights")) as sc:
        inputs = convert_to_tensor(inputs)
        biased = bool(not normalizer_fn and biases_initializer)
        if num_outputs is not None:
            layer = convolutional.SeparableConv2D(
                num_outputs, kernel_size, stride, padding, _order(first),
                _pair(rate), depth_multiplier, use_bias=biased,
                depthwise_initializer=weights_initializer,
                pointwise_initializer=(pointwise_initializer or
                                       weights_initializer),
                bias_initializer=biases_initializer,
                depthwise_regularizer=weights_regularizer,
                pointwise_regularizer=weights_regularizer,
                bias_regularizer=biases_regularizer, trainable=trainable,
                name=sc.name, dtype=inputs.dtype.base_dtype, _scope=sc,
                _reuse=reuse)
            outputs = layer(inputs)
            collect(layer.depthwise_kernel, variables_collections, "weights")
            collect(layer.pointwise_kernel, variables_collections, "weights")
            if layer.bias is not None:
                collect(layer.bias, variables_collections, "biases")
        else:
            channels = inputs.shape.as_list()[1 if first else 3]
            dtype = inputs.dtype.base_dtype
            weights = model_variable(
                "depthwise_weights",
                [*_pair(kernel_size), channels, depth_multiplier], dtype,
                weights_initializer, weights_regularizer, trainable,
                get_variable_collections(variables_collections, "weights"))
            strides = [1, 1, *_pair(stride)] if first else [
                1, *_pair(stride), 1]
            outputs = nn.depthwise_conv2d(inputs, weights, strides, padding,
                                          rate=_pair(rate),
                                          data_format=data_format)
            if biased:
                biases = model_variable(
                    "biases", [channels * depth_multiplier], dtype,
                    biases_initializer, biases_regularizer, trainable,
                    get_variable_collections(variables_collections, "biases"))
                outputs = nn.bias_add(outputs, biases, data_format=data_format)
        return finished(outputs, activation_fn, outputs_collections, sc.name,
                        normalizer_fn, normalizer_params)


@add_arg_scope
def convolution2d_in_plane(
        inputs, kernel_size, stride=1, padding="SAME", activation_fn=nn.relu,
        normalizer_fn=None, normalizer_params=None,
        weights_initializer=_XAVIER, weights_regularizer=None,
        biases_initializer=_ZEROS, biases_regularizer=None, reuse=None,
        variables_collections=None, outputs_collections=None, trainable=True,
        scope=None):
    """Convolves all channels with the same kernel.

    Adds biases or applies a normalization, and then an activation.
    """
    with variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        inputs = convert_to_tensor(inputs)
        channels, dtype = inputs.shape.as_list()[3], inputs.dtype.base_dtype
        weights = model_variable(
            "weights", [*_pair(kernel_size), 1, 1], dtype, weights_initializer,
            weights_regularizer, trainable,
            get_variable_collections(variables_collections, "weights"))
        outputs = nn.depthwise_conv2d(
            inputs, array_ops.tile(weights, [1, 1, channels, 1]),
            [1, *_pair(stride), 1], padding)
        if not normalizer_fn and biases_initializer:
            outputs = nn.bias_add(outputs, model_variable(
                "biases", [channels], dtype, biases_initializer,
                biases_regularizer, trainable,
                get_variable_collections(variables_collections, "biases")))
        return finished(outputs, activation_fn, outputs_collections, sc.name,
                        normalizer_fn, normalizer_params)


@add_arg_scope
def bias_add(inputs, activation_fn=None, initializer=_ZEROS, regularizer=None,
             reuse=None, variables_collections=None, outputs_collections=None,
             trainable=True, data_format="NHWC", scope=None):
    """Adds a bias per channel and applies an activation."""
    first = images_first(data_format)
    with variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = convert_to_tensor(inputs)
        if inputs.shape.ndims is None:
            raise ValueError("Dims of shape must be known but is None")
        if first and inputs.shape.ndims != 4:
            raise ValueError("Data format NCHW only supports 4D Tensor")
        features = inputs.shape.as_list()[1 if first else -1]
        if features is None:
            raise ValueError("`C` dimension must be known but is None")
        biases = model_variable(
            "biases", [features], inputs.dtype.base_dtype, initializer,
            regularizer, trainable,
            get_variable_collections(variables_collections, "biases"))
        return finished(nn.bias_add(inputs, biases, data_format=data_format),
                        activation_fn, outputs_collections, sc.name)


def embed_sequence(ids, vocab_size=None, embed_dim=None, unique=False,
                   initializer=None, regularizer=None, trainable=True,
                   scope=None, reuse=None):
    """Looks up the embeddings of ids."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(f"Must specify vocab size and embedding dimension "
                         f"when not reusing. Got vocab_size={vocab_size} and "
                         f"embed_dim={embed_dim}")
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        embeddings = model_variable(
            "embeddings", [vocab_size, embed_dim] if vocab_size else None,
            initializer=initializer, regularizer=regularizer,
            trainable=trainable)
        if not unique:
            return embedding.embedding_lookup(embeddings, ids)
        ids = convert_to_tensor(ids)
        known, places = array_ops.unique(array_ops.reshape(ids, [-1]))
        found = array_ops.gather(
            embedding.embedding_lookup(embeddings, known), places)
        result = array_ops.reshape(found, array_ops.concat(
            [array_ops.shape(ids), array_ops.shape(found)[1:]], 0))
        result.set_shape(ids.shape.concatenate(found.shape[1:]))
        return result


# ---- Pooling -----------------------------------------------------------------


def _pooling(kind, default_scope, name, formats):
    def pooled(inputs, kernel_size, stride=2, padding="VALID",
               data_format=formats[1], outputs_collections=None, scope=None):
        order = _order(channels_first(data_format, formats))
        with graphs.name_scope(scope, default_scope, [inputs]) as sc:
            outputs = kind(kernel_size, stride, padding, order, _scope=sc)(
                convert_to_tensor(inputs))
            return collect_named_outputs(outputs_collections, sc, outputs)
    pooled.__name__ = pooled.__qualname__ = name
    pooled.__doc__ = (f"Computes the {'maximum' if 'max' in name else 'mean'} "
                      f"of each window.")
    return add_arg_scope(pooled)


_IMAGES, _VOLUMES = ("NCHW", "NHWC"), ("NCDHW", "NDHWC")
avg_pool2d = _pooling(pooling.AveragePooling2D, "AvgPool2D", "avg_pool2d",
                      _IMAGES)
avg_pool3d = _pooling(pooling.AveragePooling3D, "AvgPool3D", "avg_pool3d",
                      _VOLUMES)
max_pool2d = _pooling(pooling.MaxPooling2D, "MaxPool2D", "max_pool2d", _IMAGES)
max_pool3d = _pooling(pooling.MaxPooling3D, "MaxPool3D", "max_pool3d",
                      _VOLUMES)


@add_arg_scope
def pool(inputs, kernel_size, pooling_type, padding="VALID", data_format=None,
         dilation_rate=1, stride=1, outputs_collections=None, scope=None):
    """Computes pooling ("MAX", "AVG") over windows, as `nn.pool`."""
    with graphs.name_scope(scope, f"{pooling_type.lower()}_pool",
                           [inputs]) as sc:
        inputs = convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Rank of inputs must be known")
        if rank < 3:
            raise ValueError("Rank of inputs must be >= 3")

        def each(value):
            several = hasattr(value, "__iter__")
            values = [int(v) for v in (value if several else
                                       [value] * (rank - 2))]
            if len(values) != rank - 2 or min(values) < 1:
                raise ValueError(f"Expected sequence of {rank - 2} positive "
                                 f"integers, but received {value!r}")
            return values

        outputs = conv.pool(inputs, each(kernel_size), pooling_type, padding,
                            each(dilation_rate), each(stride), name=sc,
                            data_format=data_format)
        return collect_named_outputs(outputs_collections, sc, outputs)


# ---- Layers without variables ------------------------------------------------


@add_arg_scope
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True,
            outputs_collections=None, scope=None, seed=None):
    """Drops elements in training and divides the others by `keep_prob`."""
    with variable_scope(scope, "Dropout", [inputs]) as sc:
        outputs = core.Dropout(
            1 - keep_prob, noise_shape, seed, name=sc.name, _scope=sc)(
                convert_to_tensor(inputs), training=is_training)
        return collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    """Flattens all dimensions but the batch."""
    with graphs.name_scope(scope, "Flatten", [inputs]) as sc:
        return collect_named_outputs(outputs_collections, sc, core.flatten(
            convert_to_tensor(inputs)))


@add_arg_scope
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0,
                     outputs_collections=None, scope=None):
    """Calls `one_hot`."""
    with graphs.name_scope(scope, "OneHotEncoding",
                           [labels, num_classes]) as sc:
        labels = convert_to_tensor(labels)
        if labels.dtype == dtypes.int32:
            labels = math_ops.cast(labels, dtypes.int64)
        return collect_named_outputs(outputs_collections, sc, array_ops.one_hot(
            labels, num_classes, on_value, off_value))


@add_arg_scope
def dense_to_sparse(tensor, eos_token=0, outputs_collections=None, scope=None):
    """Converts the elements other than `eos_token` to a SparseTensor."""
    with variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        tensor = convert_to_tensor(tensor)
        indices = array_ops.where(math_ops.not_equal(
            tensor, math_ops.cast(eos_token, tensor.dtype)))
        outputs = SparseTensor(indices, array_ops.gather_nd(tensor, indices),
                               array_ops.shape(tensor, out_type=dtypes.int64))
        return collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def softmax(logits, scope=None):
    """Computes softmax over the last dimension."""
    with variable_scope(scope, "softmax", [logits]):
        logits = convert_to_tensor(logits)
        known = logits.shape.with_rank_at_least(2).as_list()[-1]
        if known is None:
            raise ValueError(f"dimension -1 of shape must be known but is None:"
                             f" {logits.shape}")
        outputs = array_ops.reshape(
            nn.softmax(array_ops.reshape(logits, [-1, known])),
            array_ops.shape(logits))
        outputs.set_shape(logits.shape)
        return outputs


@add_arg_scope
def spatial_softmax(features, temperature=None, name=None,
                    variables_collections=None, trainable=True,
                    data_format="NHWC"):
    """Returns the expected (row, column) of each channel, in [-1, 1].

    The distribution is the softmax of the features divided by a temperature
    variable (Levine et al., 2015).
    """
    first = images_first(data_format)
    with variable_scope(name, "spatial_softmax"):
        features = convert_to_tensor(features)
        channels = features.shape.as_list()[1 if first else 3]
        if channels is None:
            raise ValueError("The num_channels dimension of the inputs to "
                             "`spatial_softmax` should be defined. Found "
                             "`None`.")
        dims = array_ops.shape(features)
        height, width = (dims[2], dims[3]) if first else (dims[1], dims[2])
        with graphs.name_scope("spatial_softmax_op", values=[features]):
            rows, columns = (
                array_ops.reshape(x, [-1]) for x in array_ops.meshgrid(
                    math_ops.linspace(-1.0, 1.0, height),
                    math_ops.linspace(-1.0, 1.0, width), indexing="ij"))
            temperature = model_variable(
                "temperature", [], dtypes.float32,
                init_ops.Ones() if temperature is None else
                init_ops.Constant(temperature), trainable=trainable,
                collections=get_variable_collections(
                    variables_collections, "temperature")
                if trainable else None)
            if not first:
                features = array_ops.transpose(features, [0, 3, 1, 2])
            attention = nn.softmax(array_ops.reshape(
                features, [-1, height * width]) / temperature)
            means = [math_ops.reduce_sum(place * attention, [1], keepdims=True)
                     for place in (rows, columns)]
            points = array_ops.reshape(array_ops.concat(means, 1),
                                       [-1, channels * 2])
            points.set_shape([None, channels * 2])
            return points


@add_arg_scope
def maxout(inputs, num_units, axis=-1, scope=None):
    """Computes the maximum of groups of features (Goodfellow et al., 2013)."""
    with variable_scope(scope, "MaxOut", [inputs]):
        return MaxOut(num_units, axis)(convert_to_tensor(inputs))


@custom_gradient
def scale_gradient(inputs, gradient_multiplier):
    """Returns the inputs, with a scaled gradient."""
    return inputs, lambda dy: [dy * gradient_multiplier, None]


@add_arg_scope
def images_to_sequence(inputs, data_format="NHWC", outputs_collections=None,
                       scope=None):
    """Converts images to sequences: [width, batch * height, channels]."""
    first = images_first(data_format)
    with graphs.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = convert_to_tensor(inputs)
        if first:
            inputs = array_ops.transpose(inputs, [0, 2, 3, 1])
        batch, height, width, channels = inputs.shape.as_list()
        outputs = array_ops.reshape(
            array_ops.transpose(inputs, [2, 0, 1, 3]),
            [-1 if width is None else width,
             -1 if batch is None or height is None else batch * height,
             channels])
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def sequence_to_images(inputs, height, output_data_format="channels_last",
                       outputs_collections=None, scope=None):
    """Converts sequences to images, the inverse of `images_to_sequence`."""
    with graphs.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = convert_to_tensor(inputs)
        width, batch, channels = inputs.shape.as_list()
        batch = -1 if batch is None else batch // height
        images = array_ops.reshape(inputs, [width, batch, height, channels])
        outputs = array_ops.transpose(
            images, [1, 3, 2, 0] if output_data_format == "channels_first"
            else [1, 2, 0, 3])
        return collect_named_outputs(outputs_collections, sc, outputs)


def _inner_flatten(inputs, new_rank, output_collections=None, scope=None):
    """Flattens the last dimensions so that `new_rank` remain."""
    with graphs.name_scope(scope, "InnerFlatten", [inputs, new_rank]) as sc:
        if isinstance(inputs, SparseTensor):
            rank = inputs.dense_shape.shape.as_list()[0]
            if rank < new_rank:
                raise ValueError(f"Inputs has rank less than new_rank. "
                                 f"{inputs} must have rank at least "
                                 f"{new_rank}. Received rank {rank}, shape "
                                 f"{inputs.get_shape()}")
            dims = inputs.dense_shape
            outputs = sparse_ops.sparse_reshape(inputs, array_ops.concat(
                [dims[:new_rank - 1],
                 [math_ops.reduce_prod(dims[new_rank - 1:])]], 0))
            return collect_named_outputs(output_collections, sc, outputs)
        inputs = convert_to_tensor(inputs)
        with graphs.control_dependencies([check_ops.assert_rank_at_least(
                inputs, new_rank,
                message="inputs has rank less than new_rank")]):
            outputs = array_ops.reshape(inputs, array_ops.concat(
                [array_ops.shape(inputs)[:new_rank - 1], [-1]], 0))
        if isinstance(new_rank, int) and inputs.shape.ndims is not None:
            inner = inputs.shape[new_rank - 1:].num_elements()
            outputs.set_shape(inputs.shape[:new_rank - 1].concatenate([inner]))
        return collect_named_outputs(output_collections, sc, outputs)


# ---- Repeated layers ---------------------------------------------------------


def _name_of(layer, otherwise):
    return getattr(layer, "__name__", None) or getattr(
        getattr(layer, "func", None), "__name__", otherwise)


def repeat(inputs, repetitions, layer, *args, **kwargs):
    """Applies a layer several times, in scopes "conv_1", "conv_2"."""
    return _stacked(inputs, layer, [args] * repetitions, "Repeat", "repeat",
                    kwargs)


def stack(inputs, layer, stack_args, **kwargs):
    """Applies a layer with each item of `stack_args`.

    The scopes are "fc_1", "fc_2" and so on.
    """
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    return _stacked(inputs, layer, [
        args if isinstance(args, (list, tuple)) else (args,)
        for args in stack_args], "Stack", "stack", kwargs)


def _stacked(inputs, layer, arguments, default_scope, otherwise, kwargs):
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, default_scope, [inputs]):
        outputs = convert_to_tensor(inputs)
        scope = scope or _name_of(layer, otherwise)
        for i, args in enumerate(arguments):
            outputs = layer(outputs, *args, **kwargs, scope=f"{scope}_{i + 1}")
        return outputs


relu, relu6, elu, linear = (
    functools.partial(fully_connected, activation_fn=activation)
    for activation in (nn.relu, nn.relu6, nn.elu, None))
