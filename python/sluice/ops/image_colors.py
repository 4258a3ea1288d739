"""Colours, brightness and number types of images."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import (
    array_ops, check_ops, contractions, control_flow, image_ops, math_ops,
    random_ops)

_op = _core.op


# ---- Types -------------------------------------------------------------------


def convert_image_dtype(image, dtype, saturate=False, name=None):
    """Converts the dtype and rescales the values.

    Floats range from 0 to 1, integers over their whole range.

    Args:
      image: a tensor.
      dtype: a floating or integer type.
      saturate: whether values out of range become the nearest ones in range,
        rather than others.
      name: the name of the operation.

    Raises:
      AttributeError: if `dtype` is another type.
    """
    x = convert_to_tensor(image, name="image")
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating and not dtype.is_integer:
        raise AttributeError("dtype must be either floating point or integer")
    old = x.dtype.base_dtype
    if dtype == old:
        return array_ops.identity(x, name=name)
    with graphs.name_scope(name, "convert_image", [x]) as scope:
        cast = math_ops.saturate_cast if saturate else math_ops.cast
        if old.is_integer and dtype.is_integer:
            if old.max > dtype.max:
                scale = (old.max + 1) // (dtype.max + 1)
                return cast(math_ops.div(x, scale), dtype, name=scope)
            scale = (dtype.max + 1) // (old.max + 1)
            return math_ops.multiply(cast(x, dtype), scale, name=scope)
        if old.is_floating and dtype.is_floating:
            return math_ops.cast(x, dtype, name=scope)
        if old.is_integer:
            return math_ops.multiply(math_ops.cast(x, dtype), 1.0 / old.max,
                                     name=scope)
        return cast(math_ops.multiply(x, dtype.max + 0.5), dtype, name=scope)


def _as_float(function, image, saturate=True):
    """Applies a function to the image as floats; keeps the image's dtype."""
    x = convert_to_tensor(image, name="image")
    old = x.dtype.base_dtype
    if old in (dtypes.float16, dtypes.float32):
        return function(x)
    done = function(convert_image_dtype(x, dtypes.float32))
    return convert_image_dtype(done, old, saturate=saturate)


# ---- Colour spaces -----------------------------------------------------------

rgb_to_hsv = _op("RGBToHSV")
hsv_to_rgb = _op("HSVToRGB")


def rgb_to_grayscale(images, name=None):
    """Converts RGB images to grayscale by perceived brightness.

    Args:
      images: a tensor whose last dimension is 3.
      name: the name of the operation.

    Returns:
      A tensor of the same type, whose last dimension is 1.
    """
    with graphs.name_scope(name, "rgb_to_grayscale", [images]) as scope:
        x = convert_to_tensor(images, name="images")
        old = x.dtype.base_dtype
        light = convert_image_dtype(x, dtypes.float32)
        grey = contractions.tensordot(light, [0.2989, 0.5870, 0.1140],
                                      [[-1], [-1]])
        return convert_image_dtype(array_ops.expand_dims(grey, -1), old,
                                   name=scope)


def grayscale_to_rgb(images, name=None):
    """Repeats the channel of grayscale images three times.

    Args:
      images: a tensor whose last dimension is 1.
      name: the name of the operation.

    Raises:
      ValueError: if its last dimension is another one.
    """
    with graphs.name_scope(name, "grayscale_to_rgb", [images]) as scope:
        x = convert_to_tensor(images, name="images")
        n = x.shape.ndims
        wrong = "Last dimension of a grayscale image should be size 1."
        if n is not None:
            if n < 2:
                raise ValueError(
                    "A grayscale image must be at least two-dimensional.")
            if x.shape.as_list()[-1] not in (1, None):
                raise ValueError(wrong)
        if n is None or not x.shape.is_fully_defined():
            x = control_flow.with_dependencies([
                check_ops.assert_equal(array_ops.shape(x)[-1], 1,
                                       message=wrong),
                check_ops.assert_greater_equal(
                    array_ops.rank(x), 2, message="A grayscale image must be "
                    "at least two-dimensional.")], x)
        times = [1] * (n - 1) + [3] if n is not None else array_ops.concat(
            [array_ops.ones([array_ops.rank(x) - 1], dtypes.int32), [3]], 0)
        rgb = array_ops.tile(x, times, name=scope)
        if n is not None:
            rgb.set_shape(x.shape[:-1].concatenate([3]))
        return rgb


def _conversion(matrix, doc):
    """Returns a function that multiplies colours by a matrix."""
    def convert(images):
        x = convert_to_tensor(images, name="images")
        kernel = convert_to_tensor(matrix, x.dtype, name="kernel")
        return contractions.tensordot(x, kernel, [[x.shape.ndims - 1], [0]])

    convert.__doc__ = f"""{doc}

    Args:
      images: a floating tensor of known rank, whose last dimension is 3.
    """
    return convert


rgb_to_yiq = _conversion([
    [0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955]], "Converts RGB images to YIQ.")
yiq_to_rgb = _conversion([
    [1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049]], "Converts YIQ images to RGB.")
rgb_to_yuv = _conversion([
    [0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026]], "Converts RGB images to YUV.")
yuv_to_rgb = _conversion([
    [1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185],
    [1.13988303, -0.58062185, 0.0]], "Converts YUV images to RGB.")


# ---- Adjustments -------------------------------------------------------------


def adjust_brightness(image, delta):
    """Adds `delta` to the image on a scale from 0 to 1.

    Args:
      image: a tensor of any shape.
      delta: a scalar.
    """
    with graphs.name_scope(None, "adjust_brightness", [image, delta]):
        return _as_float(lambda x: x + math_ops.cast(delta, x.dtype), image)


def adjust_contrast(images, contrast_factor):
    """Scales the difference of each pixel from its channel's mean.

    Args:
      images: an image or a batch of images.
      contrast_factor: a scalar.
    """
    with graphs.name_scope(None, "adjust_contrast", [images, contrast_factor]):
        return _as_float(lambda x: _op("AdjustContrastv2")(x, contrast_factor),
                         images)


def adjust_gamma(image, gamma=1, gain=1):
    """Computes gain * image ** gamma on a scale from 0 to 1.

    Args:
      image: a tensor of any shape.
      gamma: a scalar that is not negative.
      gain: a scalar.

    Raises:
      ValueError: if `gamma` is negative; InvalidArgumentError in the step if it
        is a tensor.
    """
    with graphs.name_scope(None, "adjust_gamma", [image, gamma, gain]):
        checks = image_ops.required(
            (gamma >= 0, "Gamma should be a non-negative real number."))
        if checks:
            gamma = control_flow.with_dependencies(checks, gamma)
        return _as_float(
            lambda x: gain * x ** math_ops.cast(gamma, x.dtype), image)


def adjust_hue(image, delta, name=None):
    """Turns the hue of RGB images.

    Args:
      image: a tensor whose last dimension is 3.
      delta: the part of a turn, a scalar within [-1, 1].
      name: the name of the scope.
    """
    with graphs.name_scope(name, "adjust_hue", [image]):
        return _as_float(lambda x: _op("AdjustHue")(x, delta), image,
                         saturate=False)


def adjust_saturation(image, saturation_factor, name=None):
    """Multiplies the saturation of RGB images.

    Args:
      image: a tensor whose last dimension is 3.
      saturation_factor: a scalar.
      name: the name of the scope.
    """
    with graphs.name_scope(name, "adjust_saturation", [image]):
        return _as_float(
            lambda x: _op("AdjustSaturation")(x, saturation_factor), image,
            saturate=False)


def _check_range(lower, upper):
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def random_brightness(image, max_delta, seed=None):
    """Adjusts the brightness by a random delta.

    Args:
      image: a tensor of any shape.
      max_delta: the largest change.
      seed: the seed; see `tf.set_random_seed`.

    Raises:
      ValueError: if `max_delta` is negative.
    """
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_ops.random_uniform(
        [], -max_delta, max_delta, seed=seed))


def random_contrast(image, lower, upper, seed=None):
    """Adjusts the contrast by a random factor.

    Args:
      image: an image or a batch of images.
      lower: the least factor.
      upper: the limit of factors.
      seed: the seed; see `tf.set_random_seed`.

    Raises:
      ValueError: if the range is empty or has negative numbers.
    """
    _check_range(lower, upper)
    return adjust_contrast(image, random_ops.random_uniform(
        [], lower, upper, seed=seed))


def random_hue(image, max_delta, seed=None):
    """Turns the hue of RGB images by a random part of a turn.

    Args:
      image: a tensor whose last dimension is 3.
      max_delta: the largest part, within [0, 0.5].
      seed: the seed; see `tf.set_random_seed`.

    Raises:
      ValueError: if `max_delta` is out of range.
    """
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random_ops.random_uniform(
        [], -max_delta, max_delta, seed=seed))


def random_saturation(image, lower, upper, seed=None):
    """Multiplies the saturation of RGB images by a random factor.

    Args:
      image: a tensor whose last dimension is 3.
      lower: the least factor.
      upper: the limit of factors.
      seed: the seed; see `tf.set_random_seed`.

    Raises:
      ValueError: if the range is empty or has negative numbers.
    """
    _check_range(lower, upper)
    return adjust_saturation(image, random_ops.random_uniform(
        [], lower, upper, seed=seed))


def per_image_standardization(image):
    """Normalizes each image to mean 0 and standard deviation 1.

    The deviation is smaller if the image is nearly uniform.

    Args:
      image: an image or a batch of images.

    Returns:
      A float32 tensor of the same shape.
    """
    with graphs.name_scope(None, "per_image_standardization", [image]) as scope:
        x = math_ops.cast(image_ops.as_image(image), dtypes.float32)
        over = [-3, -2, -1]
        count = math_ops.cast(math_ops.reduce_prod(array_ops.shape(x)[-3:]),
                              dtypes.float32)
        mean = math_ops.reduce_mean(x, over, keepdims=True)
        deviation = math_ops.sqrt(math_ops.reduce_mean(
            math_ops.square(x - mean), over, keepdims=True))
        return math_ops.div(x - mean, math_ops.maximum(
            deviation, math_ops.rsqrt(count)), name=scope)
