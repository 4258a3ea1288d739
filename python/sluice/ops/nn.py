"""Neural-network functions: activations, losses, convolutions, pooling."""

import math

from sluice import _core
from sluice.framework import dtypes, errors, graph as graphs
from sluice.framework.arguments import deprecated_argument_lookup as _either
from sluice.framework.conversion import (
    constant, constant_value, convert_to_tensor)
from sluice.ops import array_ops, math_ops, random_ops

_op = _core.op

relu = _op("Relu")
relu6 = _op("Relu6")
elu = _op("Elu")
selu = _op("Selu")
softplus = _op("Softplus")
softsign = _op("Softsign")
tanh = math_ops.tanh
sigmoid = math_ops.sigmoid
l2_loss = _op("L2Loss")
in_top_k = _op("InTopKV2", "in_top_k")
lrn = local_response_normalization = _op("LRN")
_softmax = _op("Softmax")
_log_softmax = _op("LogSoftmax")
_xent = _op("SoftmaxCrossEntropyWithLogits")
_sparse_xent = _op("SparseSoftmaxCrossEntropyWithLogits")


def leaky_relu(features, alpha=0.2, name=None):
    """Returns max(x, alpha x); integers are converted to floats."""
    features = convert_to_tensor(features, name="features")
    if features.dtype.is_integer:
        features = math_ops.cast(features, dtypes.float32)
    return _op("LeakyRelu")(features, alpha=alpha, name=name)


def swish(features, name=None):
    """Returns x sigmoid(x)."""
    with graphs.name_scope(name, "swish", [features]):
        x = convert_to_tensor(features)
        return x * sigmoid(x)


silu = swish


def bias_add(value, bias, data_format=None, name=None):
    """Adds a vector to the channels: the last dimension (NCHW: the second)."""
    return _op("BiasAdd")(value, bias, data_format=data_format or "NHWC",
                          name=name)


def xw_plus_b(x, weights, biases, name=None):
    """Returns x times weights plus biases."""
    with graphs.name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return bias_add(math_ops.matmul(x, weights), biases, name=scope)


def _known_axis(axis):
    """Returns a dimension as an int if it is a constant."""
    known = constant_value(axis)
    return axis if known is None else int(known)


def _is_last(axis, n):
    """Returns whether a dimension is known to be the last of `n`."""
    return axis is None or not isinstance(axis, _core.Tensor) and (
        axis == -1 or n is not None and axis == n - 1)


def _from_first(axis, rank):
    """Converts a dimension to a non-negative tensor."""
    axis = math_ops.cast(axis, dtypes.int32)
    return axis + rank * math_ops.cast(math_ops.less(axis, 0), dtypes.int32)


def _last_axis(op, logits, axis, name):
    x = convert_to_tensor(logits)
    n, axis = x.shape.ndims, _known_axis(axis)
    if _is_last(axis, n):
        return op(x, name=name)
    if n is None or isinstance(axis, _core.Tensor):
        rank = array_ops.rank(x)
        axis = _from_first(axis, rank)
        # This is not a permutation, and fails, if the axis is out of range.
        swap = array_ops.concat([array_ops.where_v2(
            math_ops.equal(math_ops.range(rank - 1), axis), rank - 1,
            math_ops.range(rank - 1)), [axis]], 0)
    elif not -n <= axis < n:
        raise errors.InvalidArgumentError(
            None, None, f"Dimension (`axis`) must be in the range [-{n}, {n}) "
            f"where {n} is the number of dimensions in the input. Got: {axis}")
    else:
        swap = list(range(n))
        swap[axis % n], swap[n - 1] = n - 1, axis % n
    y = array_ops.transpose(op(array_ops.transpose(x, swap)), swap,
                            name=name or "softmax")
    y.set_shape(x.shape)  # It is unknown if the axis is a tensor.
    return y


def softmax(logits, axis=None, name=None, dim=None):
    """Returns exp(x) / sum(exp(x)) along a dimension (default: the last)."""
    axis = _either("axis", axis, "dim", dim)
    return _last_axis(_softmax, logits, axis, name)


def log_softmax(logits, axis=None, name=None, dim=None):
    """Returns log(softmax(x)) along a dimension (default: the last)."""
    axis = _either("axis", axis, "dim", dim)
    return _last_axis(_log_softmax, logits, axis, name)


def softmax_cross_entropy_with_logits_v2(labels, logits, axis=None, name=None,
                                         dim=None):
    """Computes the cross-entropy of softmax(logits) and labels in each row.

    It is differentiable with respect to the labels, too.
    """
    axis = _known_axis(dim if axis is None else axis)
    with graphs.name_scope(name, "softmax_cross_entropy_with_logits",
                           [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = math_ops.cast(convert_to_tensor(labels, name="labels"),
                               logits.dtype.base_dtype)
        n = logits.shape.ndims
        if not _is_last(axis, n):
            if n is None or isinstance(axis, _core.Tensor):
                rank = array_ops.rank(logits)
                axis = _from_first(axis, rank)
                order = array_ops.concat([
                    math_ops.range(axis), math_ops.range(axis + 1, rank),
                    [axis]], 0)
            else:
                order = list(range(n))
                order.append(order.pop(axis))
            logits = array_ops.transpose(logits, order)
            labels = array_ops.transpose(labels, order)
        if n == 2:
            return _xent(logits, labels, name=scope).loss
        shape = array_ops.shape(logits)
        rows = [-1, shape[array_ops.rank(logits) - 1]]
        loss = _xent(array_ops.reshape(logits, rows),
                     array_ops.reshape(labels, rows)).loss
        loss = array_ops.reshape(loss, shape[:-1], name=scope)
        if n is not None:
            loss.set_shape(logits.shape[:-1])
        return loss


def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None,
                                      dim=-1, name=None, axis=None):
    """Computes the cross-entropy of softmax(logits) and labels in each row.

    Positional arguments are (logits, labels), as in the first versions of
    TensorFlow. Labels get no gradient.

    Args:
      labels: the probabilities of the classes, with the shape and dtype of
        `logits`. For class indices use
        `sparse_softmax_cross_entropy_with_logits`.
      logits: unnormalized log-probabilities [..., classes].
      dim: the dimension of the classes.
      name: the name scope of the operations.
      axis: another name of `dim`.

    Returns:
      The loss of each row, of shape [...].

    Raises:
      ValueError: if an argument is missing or the shapes differ.
    """
    if _sentinel is not None:
        if labels is None or logits is not None:
            raise ValueError("Only call `softmax_cross_entropy_with_logits` "
                             "with named arguments (labels=..., logits=..., "
                             "...), or with (logits, labels)")
        logits = _sentinel
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    with graphs.name_scope(name, "softmax_cross_entropy_with_logits_sg",
                           [logits, labels]) as scope:
        labels = array_ops.stop_gradient(labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(
            labels, logits, dim if axis is None else axis, scope)


def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None,
                                             logits=None, name=None):
    """Computes the cross-entropy of softmax(logits) and class indices.

    Args:
      labels: the class indices, int32 or int64 of shape [...]. An index
        outside [0, classes) is an error in the step.
      logits: unnormalized log-probabilities [..., classes].
      name: the name of the operation.

    Returns:
      The loss of each row, of shape [...] and the dtype of the logits.

    Raises:
      ValueError: if the rank of the labels is not that of the logits minus 1.
    """
    if _sentinel is not None:
        if labels is None or logits is not None:
            raise ValueError("Only call `sparse_softmax_cross_entropy_with_"
                             "logits` with named arguments (labels=..., "
                             "logits=..., ...)")
        logits = _sentinel
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    with graphs.name_scope(name, "SparseSoftmaxCrossEntropyWithLogits",
                           [labels, logits]) as scope:
        labels = convert_to_tensor(labels, name="labels")
        logits = convert_to_tensor(logits, name="logits")
        n, m = logits.shape.ndims, labels.shape.ndims
        if n == 0:
            raise ValueError(f"Logits cannot be scalars - received shape "
                             f"{logits.shape}.")
        if None not in (n, m) and m != n - 1:
            raise ValueError(
                f"Rank mismatch: Rank of labels (received {m}) should equal "
                f"rank of logits minus 1 (received {n}). Labels have shape "
                f"{labels.shape}, {labels.op._describe()}; logits have shape "
                f"{logits.shape}, {logits.op._describe()}")
        if n == 2:
            return _sparse_xent(logits, labels, name=scope).loss
        classes = array_ops.shape(logits)[array_ops.rank(logits) - 1]
        loss = _sparse_xent(array_ops.reshape(logits, [-1, classes]),
                            array_ops.reshape(labels, [-1])).loss
        loss = array_ops.reshape(loss, array_ops.shape(labels), name=scope)
        loss.set_shape(labels.shape)
        return loss


def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None,
                                      name=None):
    """Computes the cross-entropy of sigmoid(logits) and labels, elementwise."""
    if _sentinel is not None:
        logits = _sentinel
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    with graphs.name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype,
                                   name="labels")
        try:
            labels.shape.assert_is_compatible_with(logits.shape)
        except ValueError:
            raise ValueError(
                f"logits and labels must have the same shape, received "
                f"({logits.shape} vs {labels.shape}); logits: "
                f"{logits.op._describe()}; labels: {labels.op._describe()}"
            ) from None
        zeros = array_ops.zeros_like(logits)
        positive = logits >= zeros
        relu_logits = array_ops.where(positive, logits, zeros)
        neg_abs = array_ops.where(positive, -logits, logits)
        return math_ops.add(relu_logits - logits * labels,
                            math_ops.log1p(math_ops.exp(neg_abs)), name=scope)


def _list(value, name, data_format="NHWC"):
    """Expands 1, 2 or 4 numbers to four for all dimensions of an image."""
    numbers = [value] if isinstance(value, int) else list(value)
    if len(numbers) == 4:
        return numbers
    if len(numbers) not in (1, 2):
        raise ValueError(f"{name}: expected 1, 2 or 4 numbers, got {value}")
    high, wide = numbers * 2 if len(numbers) == 1 else numbers
    return [1, 1, high, wide] if data_format == "NCHW" else [1, high, wide, 1]


def padding_attributes(padding, rank=4):
    """Returns the attributes for a padding.

    The padding is "SAME", "VALID", or a pair (before, after) for each
    dimension of the input.
    """
    if not isinstance(padding, (list, tuple)):
        if padding == "EXPLICIT":
            raise ValueError("'EXPLICIT' is not a valid value for `padding`. To "
                             "use explicit padding, `padding` must be a list.")
        return {"padding": padding}
    for i, pair in enumerate(padding):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(f"When `padding` is a list, each element of "
                             f"`padding` must be a list/tuple of size 2. "
                             f"Received: padding={padding} with element at "
                             f"index {i}: {pair!r}")
    if len(padding) != rank:
        raise ValueError(f"When `padding` is a list, it must be of size {rank}."
                         f" Received: padding={padding} of size {len(padding)}")
    return {"padding": "EXPLICIT",
            "explicit_paddings": [n for pair in padding for n in pair]}


def conv2d(input, filter=None, strides=None, padding=None,
           use_cudnn_on_gpu=True, data_format="NHWC", dilations=(1, 1, 1, 1),
           name=None, filters=None):
    """Computes a 2-D convolution of images.

    Args:
      input: [batch, height, width, channels], or the order of `data_format`.
      filter: [height, width, channels, outputs].
      strides: the step of the window: one number, [height, width], or four.
      padding: "SAME", "VALID", or a pair (before, after) for each dimension of
        the input; (0, 0) for batch and channels.
      use_cudnn_on_gpu: ignored.
      data_format: "NHWC" or "NCHW".
      dilations: the spacing of the filter's elements, in the form of `strides`.
      name: the name of the operation.
      filters: another name of `filter`.
    """
    return _op("Conv2D")(
        input, filters if filter is None else filter,
        strides=_list(strides, "strides", data_format),
        use_cudnn_on_gpu=use_cudnn_on_gpu, data_format=data_format,
        dilations=_list(dilations, "dilations", data_format), name=name,
        **padding_attributes(padding))


def depthwise_conv2d(input, filter, strides, padding, rate=None, name=None,
                     data_format=None, dilations=None):
    """Convolves each channel separately.

    The filter is [height, width, channels, multiplier].
    """
    rate = dilations if rate is None else rate
    return _op("DepthwiseConv2dNative", "depthwise")(
        input, filter, strides=strides, data_format=data_format or "NHWC",
        dilations=_list(1 if rate is None else rate, "rate", data_format),
        name=name, **padding_attributes(padding))


def depthwise_conv2d_native(input, filter, strides, padding,
                            data_format="NHWC", dilations=(1, 1, 1, 1),
                            name=None):
    """Calls `depthwise_conv2d` with the arguments of the op."""
    return depthwise_conv2d(input, filter, strides, padding, name=name,
                            data_format=data_format, dilations=dilations)


def conv2d_transpose(value=None, filter=None, output_shape=None,
                     strides=None, padding="SAME", data_format="NHWC",
                     name=None, input=None, filters=None, dilations=None):
    """Computes the transpose (gradient) of conv2d.

    The filter is [height, width, outputs, channels].
    """
    value = input if value is None else value
    return _op("Conv2DBackpropInput", "conv2d_transpose")(
        output_shape, filters if filter is None else filter, value,
        strides=_list(strides, "strides", data_format),
        dilations=_list(1 if dilations is None else dilations, "dilations",
                        data_format),
        data_format=data_format, name=name, **padding_attributes(padding))


def max_pool(value, ksize, strides, padding, data_format="NHWC", name=None,
             input=None):
    """Computes the maximum of each window of images.

    Args:
      value: [batch, height, width, channels].
      ksize: the window's size: one number, [height, width], or four.
      strides: the step of the window, in the form of `ksize`.
      padding: "SAME" (windows may extend over the edges), "VALID", or a pair
        (before, after) for each dimension.
      data_format: "NHWC" or "NCHW".
      name: the name of the operation.
      input: another name of `value`.
    """
    return _op("MaxPool")(input if value is None else value,
                          ksize=_list(ksize, "ksize", data_format),
                          strides=_list(strides, "strides", data_format),
                          data_format=data_format, name=name,
                          **padding_attributes(padding))


def avg_pool(value, ksize, strides, padding, data_format="NHWC", name=None,
             input=None):
    """Computes the mean of each window of images.

    Args:
      value: [batch, height, width, channels].
      ksize: the window's size: one number, [height, width], or four.
      strides: the step of the window, in the form of `ksize`.
      padding: "SAME" (windows may extend over the edges) or "VALID".
      data_format: "NHWC".
      name: the name of the operation.
      input: another name of `value`.
    """
    return _op("AvgPool")(input if value is None else value,
                          ksize=_list(ksize, "ksize", data_format),
                          strides=_list(strides, "strides", data_format),
                          padding=padding, data_format=data_format, name=name)


def moments(x, axes, shift=None, name=None, keep_dims=None, keepdims=None):
    """Returns (mean, variance) over dimensions."""
    keep = bool(keep_dims if keepdims is None else keepdims)
    with graphs.name_scope(name, "moments", [x, axes]):
        x = convert_to_tensor(x)
        y = math_ops.cast(x, dtypes.float32) if (
            x.dtype.base_dtype == dtypes.float16) else x
        mean = math_ops.reduce_mean(y, axes, True, name="mean")
        variance = math_ops.reduce_mean(
            math_ops.squared_difference(y, array_ops.stop_gradient(mean)), axes,
            True, name="variance")
        if not keep:
            mean = array_ops.squeeze(mean, axes)
            variance = array_ops.squeeze(variance, axes)
        return math_ops.cast(mean, x.dtype), math_ops.cast(variance, x.dtype)


def batch_normalization(x, mean, variance, offset, scale, variance_epsilon,
                        name=None):
    """Computes scale (x - mean) / sqrt(variance + epsilon) + offset."""
    with graphs.name_scope(name, "batchnorm",
                           [x, mean, variance, scale, offset]):
        inv = math_ops.rsqrt(variance + variance_epsilon)
        if scale is not None:
            inv = inv * scale
        shift = -mean * inv if offset is None else offset - mean * inv
        return x * math_ops.cast(inv, x.dtype) + math_ops.cast(shift, x.dtype)


def l2_normalize(x, axis=None, epsilon=1e-12, name=None, dim=None):
    """Computes x / sqrt(max(sum(x^2), epsilon)) over dimensions."""
    axis = dim if axis is None else axis
    with graphs.name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            total = math_ops.reduce_sum(math_ops.real(
                x * math_ops.conj(x)), axis, True)
            by = math_ops.rsqrt(math_ops.maximum(total, epsilon))
            return math_ops.multiply(x, math_ops.cast(by, x.dtype), name=scope)
        total = math_ops.reduce_sum(math_ops.square(x), axis, True)
        return math_ops.multiply(
            x, math_ops.rsqrt(math_ops.maximum(total, epsilon)), name=scope)


def dropout(x, keep_prob=None, noise_shape=None, seed=None, name=None,
            rate=None):
    """Sets random elements to 0 and scales the others to keep the mean.

    Args:
      x: a float tensor.
      keep_prob: the probability to keep an element, in (0, 1]: a number or a
        scalar tensor. Feed 1.0 for inference.
      noise_shape: the shape of the random mask, which is broadcast to the
        shape of x. Elements along dimensions of size 1 share one draw.
      seed: the seed of the random numbers (see `set_random_seed`).
      name: the name scope of the operations.
      rate: 1 - keep_prob, in [0, 1); an alternative to it.

    Raises:
      ValueError: if neither or both of `keep_prob` and `rate` are given, if
        they are out of range, or if x is not of a float dtype.
    """
    if rate is None:
        if keep_prob is None:
            raise ValueError("You must provide a rate to dropout.")
        if isinstance(keep_prob, (list, tuple)):
            keep_prob = convert_to_tensor(keep_prob)
        if isinstance(keep_prob, (int, float)) and not 0 < keep_prob <= 1:
            raise ValueError(f"keep_prob must be a scalar tensor or a float in "
                             f"the range (0, 1], got {keep_prob}")
        rate = 1 - keep_prob
    elif keep_prob is not None:
        raise ValueError("Only one of `rate` and `keep_prob` can be set.")
    with graphs.name_scope(name, "dropout", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError(f"x has to be a floating point tensor since it "
                             f"will be scaled. Got a {x.dtype} tensor "
                             f"instead.")
        if isinstance(rate, (int, float)):
            if not 0 <= rate < 1:
                raise ValueError(f"rate must be a scalar tensor or a float in "
                                 f"the range [0, 1), got {rate}")
            if rate == 0:
                return x
        # In lower precision, a rate near 1 could round to 1.
        scale = 1 / (1 - rate) if isinstance(rate, (int, float)) else None
        rate = convert_to_tensor(rate, x.dtype.base_dtype, name="rate")
        rate.shape.assert_is_compatible_with([])
        dims = array_ops.shape(x) if noise_shape is None else noise_shape
        if isinstance(dims, (list, tuple)) and None in dims:
            dims = [x.shape.as_list()[i] if d is None else d
                    for i, d in enumerate(dims)]
        noise = random_ops.random_uniform(dims, dtype=x.dtype.base_dtype,
                                          seed=seed)
        if scale is None:
            scale = 1 / (1 - rate)
        result = x * scale * math_ops.cast(noise >= rate, x.dtype)
        result.set_shape(x.shape)
        return result


def top_k(input, k=1, sorted=True, name=None):
    """Returns (values, indices) of the k largest in the last dimension."""
    return _op("TopKV2")(input, k, sorted=sorted, name=name)


def zero_fraction(value, name=None):
    """Returns the fraction of elements that are zero."""
    with graphs.name_scope(name, "zero_fraction", [value]):
        value = convert_to_tensor(value)
        zero = math_ops.cast(math_ops.equal(value, 0), dtypes.float32)
        return math_ops.reduce_mean(zero)


def crelu(features, name=None, axis=-1):
    """Concatenates relu(x) and relu(-x)."""
    with graphs.name_scope(name, "CRelu", [features]) as scope:
        x = convert_to_tensor(features)
        return relu(array_ops.concat([x, -x], axis), name=scope)


def fused_batch_norm(x, scale, offset, mean=None, variance=None, epsilon=0.001,
                     data_format="NHWC", is_training=True, name=None,
                     exponential_avg_factor=1.0):
    """Normalizes images per channel; returns (images, mean, variance).

    In training, mean and variance are those of the batch, with an unbiased
    variance. Otherwise they are the given ones.
    """
    if mean is None or variance is None:
        if not is_training or exponential_avg_factor != 1.0:
            raise ValueError(f"Both `mean` and `variance` must be a 1D tensor "
                             f"when `is_training` is False or "
                             f"`exponential_avg_factor` != 1.0. Received: "
                             f"`mean` {mean} and `variance` {variance}")
    empty = constant([], dtypes.float32)
    # The minimum that hardware libraries accept.
    epsilon = max(epsilon, 1.001e-5)
    y, batch_mean, batch_variance, *_ = _op("FusedBatchNormV3")(
        x, scale, offset, empty if mean is None else mean,
        empty if variance is None else variance, epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format, is_training=is_training, name=name)
    return y, batch_mean, batch_variance


def weighted_moments(x, axes, frequency_weights, name=None, keep_dims=None,
                     keepdims=None):
    """Returns (mean, variance) over dimensions, with weighted elements."""
    keep = bool(keep_dims if keepdims is None else keepdims)
    with graphs.name_scope(name, "weighted_moments",
                           [x, frequency_weights, axes]):
        x = convert_to_tensor(x, name="x")
        y = math_ops.cast(x, dtypes.float32) if (
            x.dtype.base_dtype == dtypes.float16) else x
        weights = math_ops.cast(frequency_weights, y.dtype)
        count = math_ops.reduce_sum(weights + array_ops.zeros_like(y), axes,
                                    keepdims=True)
        mean = math_ops.div_no_nan(
            math_ops.reduce_sum(weights * y, axes, keepdims=True), count)
        variance = math_ops.div_no_nan(math_ops.reduce_sum(
            weights * math_ops.squared_difference(y, mean), axes,
            keepdims=True), count)
        if not keep:
            mean = array_ops.squeeze(mean, axes)
            variance = array_ops.squeeze(variance, axes)
        return math_ops.cast(mean, x.dtype), math_ops.cast(variance, x.dtype)


def sufficient_statistics(x, axes, shift=None, keep_dims=None, name=None,
                          keepdims=None):
    """Computes sufficient statistics over dimensions.

    Returns:
      (count, sum of x - shift, sum of (x - shift)^2, shift).
    """
    keep = bool(keep_dims if keepdims is None else keepdims)
    axes = sorted(set(axes))
    with graphs.name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert_to_tensor(x, name="x")
        dims = math_ops.cast(array_ops.gather(
            array_ops.shape(x), [a % len(x.shape) for a in axes]), x.dtype)
        count = math_ops.reduce_prod(dims, name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, name="shift")
        first = x if shift is None else x - shift
        return (count, math_ops.reduce_sum(first, axes, keep, name="mean_ss"),
                math_ops.reduce_sum(math_ops.square(first), axes, keep,
                                    name="var_ss"), shift)


def normalize_moments(counts, mean_ss, variance_ss, shift, name=None):
    """Returns (mean, variance) given the results of `sufficient_statistics`."""
    with graphs.name_scope(name, "normalize",
                           [counts, mean_ss, variance_ss, shift]):
        by = math_ops.reciprocal(counts, name="divisor")
        shifted = math_ops.multiply(mean_ss, by)
        mean = shifted if shift is None else math_ops.add(shifted, shift,
                                                          name="mean")
        return mean, math_ops.subtract(math_ops.multiply(variance_ss, by),
                                       math_ops.square(shifted),
                                       name="variance")


def batch_norm_with_global_normalization(
        t=None, m=None, v=None, beta=None, gamma=None, variance_epsilon=None,
        scale_after_normalization=None, name=None, input=None, mean=None,
        variance=None):
    """Calls `batch_normalization` with the arguments of its predecessor."""
    return batch_normalization(
        input if t is None else t, mean if m is None else m,
        variance if v is None else v, beta,
        gamma if scale_after_normalization else None, variance_epsilon, name)


def relu_layer(x, weights, biases, name=None):
    """Returns relu(x times weights plus biases)."""
    with graphs.name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return relu(bias_add(math_ops.matmul(x, weights), biases), name=scope)


def weighted_cross_entropy_with_logits(labels=None, logits=None,
                                       pos_weight=None, name=None,
                                       targets=None):
    """Weights positive labels in `sigmoid_cross_entropy_with_logits`."""
    labels = targets if labels is None else labels
    with graphs.name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype,
                                   name="labels")
        if not labels.shape.is_compatible_with(logits.shape):
            raise ValueError(f"logits and targets must have the same shape "
                             f"({logits.shape} vs {labels.shape})")
        weight = 1 + (pos_weight - 1) * labels
        return math_ops.add(
            (1 - labels) * logits, weight * (math_ops.log1p(math_ops.exp(
                -math_ops.abs(logits))) + relu(-logits)), name=scope)


def log_poisson_loss(targets, log_input, compute_full_loss=False, name=None):
    """Computes the negative log-likelihood of counts.

    Omits terms that do not depend on the input unless `compute_full_loss` is
    true, which adds Stirling's approximation of them.
    """
    with graphs.name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert_to_tensor(log_input, name="log_input")
        targets = convert_to_tensor(targets, name="targets")
        if not targets.shape.is_compatible_with(log_input.shape):
            raise ValueError(f"log_input and targets must have the same shape "
                             f"({log_input.shape} vs {targets.shape})")
        loss = math_ops.exp(log_input) - log_input * targets
        if not compute_full_loss:
            return loss
        stirling = targets * math_ops.log(targets) - targets + (
            0.5 * math_ops.log(2 * math.pi * targets))
        small = math_ops.logical_and(targets >= 0, targets <= 1)
        return loss + array_ops.where(small, array_ops.zeros_like(targets),
                                      stirling)


# ---- Fractional pooling ------------------------------------------------------


def _fractional(kind):
    def pool(value, pooling_ratio, pseudo_random=False, overlapping=False,
             seed=0, name=None):
        sizes = list(pooling_ratio) if isinstance(
            pooling_ratio, (list, tuple)) else [pooling_ratio]
        if len(sizes) not in (1, 2, 4):
            raise ValueError(f"pooling_ratio should be of length 1, 2 or 4 "
                             f"but was {len(sizes)}")
        if len(sizes) < 4:
            sizes = [1.0, sizes[0], sizes[-1], 1.0]
        one, two = graphs.get_seed(seed) if seed else (0, 0)
        return _op(kind)(value, pooling_ratio=sizes,
                         pseudo_random=pseudo_random, overlapping=overlapping,
                         deterministic=bool(seed), seed=one, seed2=two,
                         name=name)
    pool.__doc__ = f"""Computes `{kind}` with one ratio, or one for rows and one
    for columns. With a seed, the regions are the same in each step."""
    return pool


fractional_avg_pool_v2 = _fractional("FractionalAvgPool")
fractional_max_pool_v2 = _fractional("FractionalMaxPool")
