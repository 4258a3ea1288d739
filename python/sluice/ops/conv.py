"""Convolutions and pooling in one, two or three dimensions."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, nn

_op = _core.op
_FORMATS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def _spatial(data_format, rank, inputs):
    """Returns (number of spatial dimensions, whether channels come first)."""
    if rank is None:
        n = inputs.shape.ndims
        if n is None:
            raise ValueError("Cannot perform convolution on tensor of unknown "
                             "rank")
        rank = n - 2
    if rank not in _FORMATS:
        raise ValueError(f"num_spatial_dims must be 1, 2, or 3, got {rank}")
    first = bool(data_format) and data_format.startswith("NC")
    return rank, first


def _each(value, rank, name):
    """Returns a list of `rank` numbers; a single number is repeated."""
    if value is None:
        return [1] * rank
    if isinstance(value, int):
        return [value] * rank
    value = list(value)
    if len(value) == 1:
        return value * rank
    if len(value) != rank:
        raise ValueError(f"{name}: expected 1 or {rank} numbers, got {value}")
    return value


def _one(value, first, name):
    """Returns [number for the spatial dimension], given 1 or 3 numbers."""
    if isinstance(value, (list, tuple)) and len(value) == 3:
        value = value[2 if first else 1]
    return _each(value, 1, name)


def _around(numbers, first):
    """Adds ones for the batch and channel dimensions."""
    return [1, 1] + numbers if first else [1] + numbers + [1]


def _format(rank, first):
    """Returns the data format in the notation of ops."""
    form = _FORMATS[rank]
    return "NC" + form[1:-1] if first else form


def _as_image(x, first):
    """Converts a sequence to an image with one row."""
    return array_ops.expand_dims(x, 2 if first else 1)


def convolution(input, filter, padding, strides=None, dilation_rate=None,
                name=None, data_format=None, filters=None, dilations=None):
    """Computes a convolution in one, two or three dimensions.

    Args:
      input: [batch, ..., channels], or the order given by `data_format`.
      filter: [..., channels, outputs].
      padding: "VALID", "SAME" or, in one or two dimensions, a pair (before,
        after) for each dimension of the input.
      strides: the step of the window in each spatial dimension.
      dilation_rate: the spacing of the filter's elements.
      data_format: "NWC", "NHWC" or "NDHWC", or "NC...".
    """
    filter = filters if filter is None else filter
    rates = dilations if dilation_rate is None else dilation_rate
    x = convert_to_tensor(input, name="input")
    rank, first = _spatial(data_format, None, x)
    strides, rates = _each(strides, rank, "strides"), _each(
        rates, rank, "dilation_rate")
    if max(strides) > 1 and max(rates) > 1:
        raise ValueError("strides > 1 not supported in conjunction with "
                         "dilation_rate > 1")
    if rank == 1:
        return _conv1d(x, filter, strides, padding, rates, first,
                       name or "convolution")
    # Conv3D rejects explicit paddings.
    edges = nn.padding_attributes(padding) if rank == 2 else {
        "padding": padding}
    return _op("Conv2D" if rank == 2 else "Conv3D", "convolution")(
        x, filter, strides=_around(strides, first),
        dilations=_around(rates, first), data_format=_format(rank, first),
        name=name, **edges)


def _row_padding(padding, first):
    """Returns the padding attributes of a sequence as an image with one row."""
    if not isinstance(padding, (list, tuple)):
        return nn.padding_attributes(padding)
    nn.padding_attributes(padding, 3)
    padding = list(padding)
    padding.insert(2 if first else 1, (0, 0))
    return nn.padding_attributes(padding)


def _conv1d(x, filter, strides, padding, rates, first, name):
    with graphs.name_scope(name, None, [x, filter]):
        result = _op("Conv2D")(
            _as_image(x, first), array_ops.expand_dims(filter, 0),
            strides=_around(strides * 2, first),
            dilations=_around([1] + rates, first),
            data_format=_format(2, first), **_row_padding(padding, first))
        return array_ops.squeeze(result, [2 if first else 1])


def conv1d(value=None, filters=None, stride=None, padding=None,
           use_cudnn_on_gpu=None, data_format=None, name=None, input=None,
           dilations=None):
    """Convolves [batch, length, channels] with [length, channels, outputs]."""
    x = convert_to_tensor(input if value is None else value, name="input")
    _, first = _spatial("NC" if data_format in ("NCHW", "NCW") else None, 1, x)
    return _conv1d(x, filters, _one(stride, first, "stride"), padding,
                   _one(dilations, first, "dilations"), first, name or "conv1d")


def conv1d_transpose(input, filters, output_shape, strides=None,
                     padding="SAME", data_format="NWC", dilations=None,
                     name=None, stride=None):
    """Computes the transpose (gradient) of conv1d."""
    strides = stride if strides is None else strides
    with graphs.name_scope(name, "conv1d_transpose",
                           [input, filters, output_shape]):
        x = convert_to_tensor(input, name="input")
        _, first = _spatial(data_format, 1, x)
        at = 2 if first else 1
        dims = convert_to_tensor(output_shape)
        dims = array_ops.concat([dims[:at], [1], dims[at:]], 0)
        result = _op("Conv2DBackpropInput")(
            dims, array_ops.expand_dims(filters, 0), _as_image(x, first),
            strides=_around([1] + _one(strides, first, "strides"), first),
            dilations=_around([1] + _one(dilations, first, "dilations"), first),
            data_format=_format(2, first), **_row_padding(padding, first))
        return array_ops.squeeze(result, [at])


def conv3d(input, filter=None, strides=None, padding=None,
           data_format="NDHWC", dilations=(1, 1, 1, 1, 1), name=None,
           filters=None):
    """Computes a 3-D convolution.

    The input is [batch, depth, height, width, channels], and the filter is
    [depth, height, width, channels, outputs].
    """
    return _op("Conv3D")(input, filters if filter is None else filter,
                         strides=list(strides), padding=padding,
                         data_format=data_format, dilations=list(dilations),
                         name=name)


def _five(value, first, name):
    """Returns five numbers for all dimensions, given one, three or five."""
    return list(value) if isinstance(value, (list, tuple)) and len(
        value) == 5 else _around(_each(value, 3, name), first)


def conv3d_transpose(value, filter=None, output_shape=None, strides=None,
                     padding="SAME", data_format="NDHWC", name=None, input=None,
                     filters=None, dilations=None):
    """Computes the transpose (gradient) of conv3d."""
    value = input if value is None else value
    _, first = _spatial(data_format, 3, value)
    return _op("Conv3DBackpropInputV2", "conv3d_transpose")(
        output_shape, filters if filter is None else filter, value,
        strides=_five(strides, first, "strides"), padding=padding,
        dilations=_five(dilations, first, "dilations"),
        data_format=data_format, name=name)


def conv3d_backprop_filter(input, filter_sizes, out_backprop, strides, padding,
                           data_format="NDHWC", dilations=(1, 1, 1, 1, 1),
                           name=None):
    """Computes the gradient of conv3d with respect to its filter."""
    return _op("Conv3DBackpropFilterV2")(
        input, filter_sizes, out_backprop, strides=list(strides),
        padding=padding, data_format=data_format, dilations=list(dilations),
        name=name)


def conv2d_backprop_filter(input, filter_sizes, out_backprop, strides, padding,
                           use_cudnn_on_gpu=True, data_format="NHWC",
                           dilations=(1, 1, 1, 1), name=None):
    """Computes the gradient of conv2d with respect to its filter."""
    return _op("Conv2DBackpropFilter")(
        input, filter_sizes, out_backprop, strides=list(strides),
        data_format=data_format, dilations=list(dilations), name=name,
        **nn.padding_attributes(padding))


def conv2d_backprop_input(input_sizes, filter=None, out_backprop=None,
                          strides=None, padding=None, use_cudnn_on_gpu=True,
                          data_format="NHWC", dilations=(1, 1, 1, 1),
                          name=None, filters=None):
    """Computes the gradient of conv2d with respect to its input."""
    return _op("Conv2DBackpropInput")(
        input_sizes, filters if filter is None else filter, out_backprop,
        strides=list(strides), data_format=data_format,
        dilations=list(dilations), name=name, **nn.padding_attributes(padding))


def depthwise_conv2d_backprop_filter(input, filter_sizes, out_backprop, strides,
                                     padding, data_format="NHWC",
                                     dilations=(1, 1, 1, 1), name=None):
    """Computes the gradient of depthwise_conv2d with respect to its filter."""
    return _op("DepthwiseConv2dNativeBackpropFilter")(
        input, filter_sizes, out_backprop, strides=list(strides),
        data_format=data_format, dilations=list(dilations), name=name,
        **nn.padding_attributes(padding))


def depthwise_conv2d_backprop_input(input_sizes, filter, out_backprop, strides,
                                    padding, data_format="NHWC",
                                    dilations=(1, 1, 1, 1), name=None):
    """Computes the gradient of depthwise_conv2d with respect to its input."""
    return _op("DepthwiseConv2dNativeBackpropInput")(
        input_sizes, filter, out_backprop, strides=list(strides),
        data_format=data_format, dilations=list(dilations), name=name,
        **nn.padding_attributes(padding))


def separable_conv2d(input, depthwise_filter, pointwise_filter, strides,
                     padding, rate=None, name=None, data_format=None,
                     dilations=None):
    """Computes a depthwise convolution followed by a pointwise convolution."""
    rate = dilations if rate is None else rate
    with graphs.name_scope(name, "separable_conv2d",
                           [input, depthwise_filter, pointwise_filter]):
        form = data_format or "NHWC"
        first = form.startswith("NC")
        known = convert_to_tensor(pointwise_filter).shape.as_list()
        if known[:2] != [1, 1]:
            raise ValueError(f"separable_conv2d: expected a pointwise filter "
                             f"of height and width 1, got {known}")
        deep = _op("DepthwiseConv2dNative", "depthwise")(
            input, depthwise_filter, strides=list(strides),
            dilations=_around(_each(rate, 2, "rate"), first), data_format=form,
            **nn.padding_attributes(padding))
        return _op("Conv2D")(deep, pointwise_filter, strides=[1, 1, 1, 1],
                             padding="VALID", data_format=form)


def atrous_conv2d(value, filters, rate, padding, name=None):
    """Computes a 2-D convolution with dilation `rate`."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate],
                       name=name)


def atrous_conv2d_transpose(value, filters, output_shape, rate, padding,
                            name=None):
    """Computes the transpose (gradient) of atrous_conv2d."""
    return _op("Conv2DBackpropInput", "atrous_conv2d_transpose")(
        output_shape, filters, value, strides=[1, 1, 1, 1], padding=padding,
        dilations=[1, rate, rate, 1], name=name)


# ---- Pooling -----------------------------------------------------------------


def with_space_to_batch(input, dilation_rate, padding, op, filter_shape=None,
                        spatial_dims=None, data_format=None):
    """Applies `op` with a dilation, by moving blocks into the batch and back.

    Args:
      input: [batch, ..., channels], or the order given by `data_format`.
      dilation_rate: the dilation of each spatial dimension.
      padding: "VALID", "SAME", or a pair (before, after) for each dimension of
        the input.
      op: fn(blocks, number of spatial dimensions, "VALID").
      filter_shape: the size of the windows, required for "SAME".
      spatial_dims: the spatial dimensions; default to all between batch and
        channels.
    """
    x = convert_to_tensor(input, name="input")
    rates = [int(r) for r in dilation_rate]
    if max(rates) == 1:
        return op(x, len(rates), padding)
    if spatial_dims is None:
        start = 2 if str(data_format).startswith("NC") else 1
        spatial_dims = range(start, start + len(rates))
    edges = [[0, 0]] * max(spatial_dims)
    block = [1] * max(spatial_dims)
    for i, (d, rate) in enumerate(zip(sorted(spatial_dims), rates)):
        block[d - 1] = rate
        if padding == "SAME":
            wide = (int(filter_shape[i]) - 1) * rate
            edges[d - 1] = [wide // 2, wide - wide // 2]
        elif isinstance(padding, (list, tuple)):
            edges[d - 1] = list(padding[d])
    sizes = x.shape[1:len(block) + 1]
    pads, crops = array_ops.required_space_to_batch_paddings(
        sizes.as_list() if sizes.is_fully_defined()
        else array_ops.shape(x)[1:len(block) + 1], block, edges)
    return array_ops.batch_to_space_nd(
        op(array_ops.space_to_batch_nd(x, block, pads), len(rates), "VALID"),
        block, crops)


def pool(input, window_shape, pooling_type, padding, dilation_rate=None,
         strides=None, name=None, data_format=None, dilations=None):
    """Computes the maximum or mean of windows in one to three dimensions.

    Args:
      input: [batch, ..., channels], or the order given by `data_format`.
      window_shape: the size of the window in each spatial dimension.
      pooling_type: "MAX" or "AVG".
      padding: "VALID"; without dilation also "SAME" and, for "MAX" in one or
        two dimensions, a pair (before, after) for each dimension of the input.
      dilation_rate: the spacing of the window's elements.
      strides: the step of the window in each spatial dimension.
    """
    rates = dilations if dilation_rate is None else dilation_rate
    x = convert_to_tensor(input, name="input")
    rank, first = _spatial(data_format, None, x)
    rates = _each(rates, rank, "dilation_rate")
    window = _each(window_shape, rank, "window_shape")
    strides = _each(strides, rank, "strides")
    if max(rates) > 1:
        if max(strides) > 1:
            raise ValueError("strides > 1 not supported in conjunction with "
                             "dilation_rate > 1")
        if padding != "VALID":  # Zeros of the padding would be pooled.
            raise ValueError(f"pooling with {padding!r} padding is not "
                             f"implemented for dilation_rate > 1")
        with graphs.name_scope(name, "pool", [x]):
            return with_space_to_batch(
                x, rates, padding, lambda part, _, edges: pool(
                    part, window, pooling_type, edges,
                    data_format=data_format), window, data_format=data_format)
    kind = {"MAX": "MaxPool", "AVG": "AvgPool"}.get(pooling_type)
    if kind is None:
        raise ValueError(f"pooling_type: expected 'MAX' or 'AVG', got "
                         f"{pooling_type!r}")
    if rank == 1:
        with graphs.name_scope(name, "pool", [x]):
            wide = _op(kind)(
                _as_image(x, first), ksize=_around([1] + window, first),
                strides=_around([1] + strides, first),
                data_format=_format(2, first), **_row_padding(padding, first))
            return array_ops.squeeze(wide, [2 if first else 1])
    edges = nn.padding_attributes(padding) if rank == 2 else {
        "padding": padding}
    return _op(kind + ("3D" if rank == 3 else ""))(
        x, ksize=_around(window, first), strides=_around(strides, first),
        data_format=_format(rank, first), name=name, **edges)


def _pool1d(kind, doc):
    def pool1d(input, ksize, strides, padding, data_format="NWC", name=None):
        _, first = _spatial(data_format, 1, input)
        return pool(input, _one(ksize, first, "ksize"), kind, padding,
                    strides=_one(strides, first, "strides"),
                    data_format=data_format, name=name)
    pool1d.__doc__ = doc
    return pool1d


max_pool1d = _pool1d("MAX", "Computes the maximum of windows of [batch, "
                     "length, channels].")
avg_pool1d = _pool1d("AVG", "Computes the mean of windows of [batch, length, "
                     "channels].")


def max_pool_v2(input, ksize, strides, padding, data_format=None, name=None):
    """Computes the maximum of windows in one, two or three dimensions."""
    input = convert_to_tensor(input, name="input")
    if input.shape.ndims not in (None, 3, 4, 5):
        raise ValueError(f"Input tensor must be of rank 3, 4 or 5 but was "
                         f"{input.shape.ndims}.")
    rank, first = _spatial(data_format, None, input)

    def inner(sizes, what):
        sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        if len(sizes) == rank + 2:
            return sizes[2:] if first else sizes[1:-1]
        if len(sizes) not in (1, rank):
            raise ValueError(f"{what}: expected 1, {rank} or {rank + 2} "
                             f"values, got {len(sizes)}")
        return sizes * rank if len(sizes) == 1 else sizes
    return pool(input, inner(ksize, "ksize"), "MAX", padding,
                strides=inner(strides, "strides"), data_format=data_format,
                name=name)


def _pool3d(kind, doc):
    op = _op(kind)

    def pool3d(input, ksize, strides, padding, data_format="NDHWC", name=None):
        _, first = _spatial(data_format, 3, input)
        return op(input, ksize=_five(ksize, first, "ksize"),
                  strides=_five(strides, first, "strides"), padding=padding,
                  data_format=data_format, name=name)
    pool3d.__doc__ = doc
    return pool3d


max_pool3d = _pool3d("MaxPool3D", "Computes the maximum of windows of [batch, "
                     "depth, height, width, channels].")
avg_pool3d = _pool3d("AvgPool3D", "Computes the mean of windows of [batch, "
                     "depth, height, width, channels].")


def max_pool_with_argmax(input, ksize, strides, padding, data_format="NHWC",
                         Targmax=None, name=None, output_dtype=None,
                         include_batch_in_index=False):
    """Returns (maximum of each window, its index in the flattened image)."""
    if data_format != "NHWC":
        raise ValueError(f"data_format values other than 'NHWC' are not yet "
                         f"supported, got {data_format}")
    return _op("MaxPoolWithArgmax")(
        input, ksize=nn._list(ksize, "ksize"),
        strides=nn._list(strides, "strides"), padding=padding,
        Targmax=output_dtype or Targmax or dtypes.int64,
        include_batch_in_index=include_batch_in_index, name=name)


def dilation2d(input, filter=None, strides=None, rates=None, padding=None,
               name=None, filters=None, dilations=None):
    """Computes the greyscale dilation: max(window + filter)."""
    return _op("Dilation2D")(
        input, filters if filter is None else filter, strides=list(strides),
        rates=list(dilations if rates is None else rates), padding=padding,
        name=name)


def erosion2d(value, kernel, strides, rates, padding, name=None):
    """Computes the greyscale erosion: min(window - filter)."""
    with graphs.name_scope(name, "erosion2d", [value, kernel]) as scope:
        value = convert_to_tensor(value)
        return _op("Neg")(dilation2d(
            -value, array_ops.reverse(kernel, [0, 1]), strides, rates, padding),
            name=scope)
