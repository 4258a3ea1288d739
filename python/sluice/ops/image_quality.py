"""Measures of images: their similarity, variation and edges."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, control_flow, math_ops, nn
from sluice.ops.image_colors import convert_image_dtype

# ---- Similarity --------------------------------------------------------------


def _same_shape(a, b):
    """Returns `a`, checked to have images of the same shape as `b`.

    Raises:
      ValueError: if the shapes are known and do not fit.
    """
    one, two = a.shape.with_rank_at_least(3), b.shape.with_rank_at_least(3)
    one[-3:].assert_is_compatible_with(two[-3:])
    if one.ndims is not None and two.ndims is not None:
        for m, n in zip(reversed(one.as_list()[:-3]),
                        reversed(two.as_list()[:-3])):
            if None not in (m, n) and m != n and 1 not in (m, n):
                raise ValueError(f"Two images are not compatible: {one} and "
                                 f"{two}")
    if one.is_fully_defined() and two.is_fully_defined():
        return a
    shape1, shape2 = array_ops.shape(a), array_ops.shape(b)
    return control_flow.with_dependencies([
        control_flow.Assert(array_ops.size(shape1) >= 3, [shape1, shape2],
                            summarize=10),
        control_flow.Assert(
            math_ops.reduce_all(math_ops.equal(shape1[-3:], shape2[-3:])),
            [shape1, shape2], summarize=10)], a)


def _as_floats(a, b, max_val):
    """Returns two images and their largest value as float32."""
    return [convert_image_dtype(x, dtypes.float32)
            for x in (_same_shape(a, b), b, math_ops.cast(max_val, a.dtype))]


def psnr(a, b, max_val, name=None):
    """Returns the peak signal-to-noise ratio of images, in decibels.

    Args:
      a: a tensor [..., height, width, channels].
      b: a tensor of the same type and size.
      max_val: the difference of the largest and the least possible value.
      name: the name of the scope.

    Returns:
      A float32 tensor [...].

    Raises:
      ValueError: if the shapes do not fit.
    """
    with graphs.name_scope(name, "PSNR", [a, b]):
        a, b = convert_to_tensor(a), convert_to_tensor(b)
        a, b, most = _as_floats(a, b, max_val)
        error = math_ops.reduce_mean(math_ops.squared_difference(a, b),
                                     [-3, -2, -1])
        ten = math_ops.log(10.0)
        return math_ops.subtract(20 * math_ops.log(most) / ten,
                                 10 / ten * math_ops.log(error), name="psnr")


def _window(size, sigma, channels):
    """Returns the weights of a Gaussian window, [size, size, channels, 1]."""
    at = math_ops.to_float(math_ops.range(size))
    at -= math_ops.to_float(size - 1) / 2.0
    falling = math_ops.square(at) * (-0.5 / math_ops.square(sigma))
    logits = (array_ops.reshape(falling, [1, -1]) +
              array_ops.reshape(falling, [-1, 1]))
    weights = nn.softmax(array_ops.reshape(logits, [1, -1]))
    return array_ops.tile(array_ops.reshape(weights, [size, size, 1, 1]),
                          [1, 1, channels, 1])


def _similarity(a, b, max_val, filter_size, filter_sigma, k1, k2):
    """Returns (SSIM, its part without luminance) for each channel."""
    filter_size = convert_to_tensor(filter_size, dtypes.int32)
    sigma = convert_to_tensor(filter_sigma, dtypes.float32)
    checks = []
    for x in (a, b):
        shape = array_ops.shape(x)
        checks.append(control_flow.Assert(
            math_ops.reduce_all(shape[-3:-1] >= filter_size),
            [shape, filter_size], summarize=8))
    a = control_flow.with_dependencies(checks, a)
    kernel = _window(filter_size, sigma, array_ops.shape(a)[-1])

    def averaged(x):
        shape = array_ops.shape(x)
        flat = array_ops.reshape(x, array_ops.concat([[-1], shape[-3:]], 0))
        y = nn.depthwise_conv2d(flat, kernel, [1, 1, 1, 1], "VALID")
        return array_ops.reshape(y, array_ops.concat(
            [shape[:-3], array_ops.shape(y)[1:]], 0))

    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    mean_a, mean_b = averaged(a), averaged(b)
    product = mean_a * mean_b * 2.0
    squares = math_ops.square(mean_a) + math_ops.square(mean_b)
    luminance = (product + c1) / (squares + c1)
    products = averaged(a * b) * 2.0
    all_squares = averaged(math_ops.square(a) + math_ops.square(b))
    contrast = (products - product + c2) / (all_squares - squares + c2)
    over = [-3, -2]
    return (math_ops.reduce_mean(luminance * contrast, over),
            math_ops.reduce_mean(contrast, over))


def ssim(img1, img2, max_val, filter_size=11, filter_sigma=1.5, k1=0.01,
         k2=0.03):
    """Returns the structural similarity of images, at most 1.

    Args:
      img1: a tensor [..., height, width, channels].
      img2: a tensor of the same type and size.
      max_val: the difference of the largest and the least possible value.
      filter_size: the size of the window; images are at least as large.
      filter_sigma: the width of the window's Gaussian.
      k1: stabilizes the luminance.
      k2: stabilizes the contrast.

    Returns:
      A float32 tensor [...], the means over channels.

    Raises:
      ValueError: if the shapes do not fit.
    """
    with graphs.name_scope(None, "SSIM", [img1, img2]):
        a, b = convert_to_tensor(img1), convert_to_tensor(img2)
        a, b, most = _as_floats(a, b, max_val)
        similarity, _ = _similarity(a, b, most, filter_size, filter_sigma, k1,
                                    k2)
        return math_ops.reduce_mean(similarity, [-1])


_WEIGHTS_OF_SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def ssim_multiscale(img1, img2, max_val, power_factors=_WEIGHTS_OF_SCALES,
                    filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03):
    """Returns the similarity of images on several scales, at most 1.

    Args:
      img1: a tensor [..., height, width, channels].
      img2: a tensor of the same type and size.
      max_val: the difference of the largest and the least possible value.
      power_factors: the weight of each scale, each half as large as the one
        before.
      filter_size, filter_sigma, k1, k2: see `ssim`.

    Returns:
      A float32 tensor [...], the means over channels.

    Raises:
      ValueError: if the shapes do not fit.
    """
    with graphs.name_scope(None, "MS-SSIM", [img1, img2]):
        a, b = convert_to_tensor(img1), convert_to_tensor(img2)
        a, b, most = _as_floats(a, b, max_val)
        images, parts = [a, b], []
        for scale in range(len(power_factors)):
            with graphs.name_scope(None, f"Scale{scale}"):
                if scale:
                    images = [_halved(x) for x in images]
                similarity, contrast = _similarity(
                    *images, most, filter_size, filter_sigma, k1, k2)
                parts.append(nn.relu(contrast))
        parts[-1] = nn.relu(similarity)
        product = math_ops.reduce_prod(math_ops.pow(
            array_ops.stack(parts, -1), power_factors), [-1])
        return math_ops.reduce_mean(product, [-1])


def _halved(x):
    """Returns images of half the size, each pixel the mean of four."""
    shape = array_ops.shape(x)
    flat = array_ops.reshape(x, array_ops.concat([[-1], shape[-3:]], 0))
    odd = shape[-3:-1] % 2
    flat = array_ops.pad(flat, [[0, 0], [0, odd[0]], [0, odd[1]], [0, 0]],
                         mode="SYMMETRIC")
    small = nn.avg_pool(flat, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return array_ops.reshape(small, array_ops.concat(
        [shape[:-3], array_ops.shape(small)[1:]], 0))


# ---- Variation and edges -----------------------------------------------------


def total_variation(images, name=None):
    """Returns the sum of the differences of neighbouring pixels.

    Args:
      images: an image or a batch of images.
      name: the name of the scope.

    Returns:
      A scalar, or a vector with an entry for each image of a batch.

    Raises:
      ValueError: if the rank is another one.
    """
    with graphs.name_scope(name, "total_variation"):
        x = convert_to_tensor(images)
        if x.shape.ndims not in (3, 4):
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        down = x[..., 1:, :, :] - x[..., :-1, :, :]
        right = x[..., :, 1:, :] - x[..., :, :-1, :]
        over = None if x.shape.ndims == 3 else [1, 2, 3]
        return (math_ops.reduce_sum(math_ops.abs(down), over) +
                math_ops.reduce_sum(math_ops.abs(right), over))


def image_gradients(image):
    """Returns (dy, dx): the differences to the next pixels, or 0 at the end.

    Args:
      image: a batch of images.

    Raises:
      ValueError: if it has another rank.
    """
    x = convert_to_tensor(image)
    if x.shape.ndims != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, "
                         f"w, d], not {x.shape}.")
    dy = array_ops.pad(x[:, 1:] - x[:, :-1], [[0, 0], [0, 1], [0, 0], [0, 0]])
    dx = array_ops.pad(x[:, :, 1:] - x[:, :, :-1],
                       [[0, 0], [0, 0], [0, 1], [0, 0]])
    dy.set_shape(x.shape)
    dx.set_shape(x.shape)
    return dy, dx


def sobel_edges(image):
    """Returns the vertical and horizontal differences by Sobel's filters.

    Args:
      image: a batch of float images.

    Returns:
      A tensor [batch, height, width, channels, 2].
    """
    x = convert_to_tensor(image)
    shape = array_ops.shape(x)
    filters = [[[-1, -1], [-2, 0], [-1, 1]],
               [[0, -2], [0, 0], [0, 2]],
               [[1, -1], [2, 0], [1, 1]]]
    kernel = array_ops.tile(
        array_ops.expand_dims(math_ops.cast(filters, x.dtype), 2),
        [1, 1, shape[-1], 1])
    padded = array_ops.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]],
                           mode="REFLECT")
    edges = nn.depthwise_conv2d(padded, kernel, [1, 1, 1, 1], "VALID")
    edges = array_ops.reshape(edges, array_ops.concat([shape, [2]], 0))
    edges.set_shape(x.shape.concatenate([2]))
    return edges
