"""Image operations on [height, width, channels] or batches of these."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import (
    array_ops, check_ops, contractions, control_flow, math_ops, random_ops)

_op = _core.op


class ResizeMethod:
    """Interpolation methods for resizing images."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = range(4)


def _image(image):
    x = convert_to_tensor(image, name="image")
    if x.shape.ndims is None:
        raise ValueError("'image' (shape <unknown>) must be fully defined in "
                         "rank.")
    if x.shape.ndims not in (3, 4):
        raise ValueError(f"'image' must have either 3 or 4 dimensions, got "
                         f"shape {x.shape}")
    return x


def _size(x):
    """Returns (height, width) as numbers where known, else as tensors."""
    at = x.shape.ndims - 3
    dims, known = array_ops.shape(x), x.shape.as_list()
    return tuple(dims[i] if known[i] is None else known[i]
                 for i in (at, at + 1))


# ---- Flipping and rotation ---------------------------------------------------


def flip_left_right(image):
    """Flips an image horizontally."""
    x = _image(image)
    return array_ops.reverse(x, [x.shape.ndims - 2])


def flip_up_down(image):
    """Flips an image vertically."""
    x = _image(image)
    return array_ops.reverse(x, [x.shape.ndims - 3])


def transpose_image(image, name=None):
    """Swaps the height and width of an image."""
    x = _image(image)
    order = [1, 0, 2] if x.shape.ndims == 3 else [0, 2, 1, 3]
    return array_ops.transpose(x, order, name=name or "transpose")


def _random_flip(image, flip, seed, name):
    with graphs.name_scope(None, name, [image]):
        x = _image(image)
        if x.shape.ndims == 3:
            return control_flow.cond(
                random_ops.random_uniform([], 0, 1.0, seed=seed) < 0.5,
                lambda: flip(x), lambda: x)
        n = array_ops.shape(x)[0]
        draw = random_ops.random_uniform([n], seed=seed)
        which = math_ops.cast(math_ops.round(array_ops.reshape(
            draw, [n, 1, 1, 1])), x.dtype)
        return which * flip(x) + (1 - which) * x


def random_flip_left_right(image, seed=None):
    """Flips each image horizontally with probability 1/2."""
    return _random_flip(image, flip_left_right, seed, "random_flip_left_right")


def random_flip_up_down(image, seed=None):
    """Flips each image vertically with probability 1/2."""
    return _random_flip(image, flip_up_down, seed, "random_flip_up_down")


def rot90(image, k=1, name=None):
    """Rotates an image counter-clockwise by k * 90 degrees."""
    with graphs.name_scope(name, "rot90", [image, k]) as scope:
        x = _image(image)
        k = math_ops.mod(convert_to_tensor(k, dtypes.int32), 4)
        turns = [lambda: flip_up_down(transpose_image(x)),
                 lambda: array_ops.reverse(
                     x, [x.shape.ndims - 3, x.shape.ndims - 2]),
                 lambda: transpose_image(flip_up_down(x))]
        turned = control_flow.case(
            [(math_ops.equal(k, i + 1), t) for i, t in enumerate(turns)],
            default=lambda: x, exclusive=True, name=scope)
        known = x.shape.as_list()
        at = x.shape.ndims - 3
        same = known[at] if known[at] == known[at + 1] else None
        turned.set_shape(known[:at] + [same, same, known[-1]])
        return turned


# ---- Cropping and padding ----------------------------------------------------


def crop_to_bounding_box(image, offset_height, offset_width, target_height,
                         target_width):
    """Crops an image to a box given by its corner and size."""
    with graphs.name_scope(None, "crop_to_bounding_box", [image]):
        x = _image(image)
        height, width = _size(x)
        checks = _checks([
            (offset_width, ">=", 0, "offset_width must be >= 0."),
            (offset_height, ">=", 0, "offset_height must be >= 0."),
            (target_width, ">", 0, "target_width must be > 0."),
            (target_height, ">", 0, "target_height must be > 0."),
            (width, ">=", target_width + offset_width,
             "width must be >= target + offset."),
            (height, ">=", target_height + offset_height,
             "height must be >= target + offset.")])
        with graphs.control_dependencies(checks):
            x = array_ops.identity(x)
        lead = x.shape.ndims - 3
        cut = array_ops.slice(
            x, [0] * lead + [offset_height, offset_width, 0],
            [-1] * lead + [target_height, target_width, -1])
        _tell(cut, x, target_height, target_width)
        return cut


def _tell(result, x, height, width):
    known = x.shape.as_list()
    result.set_shape(known[:-3] + [
        d if isinstance(d, int) else None for d in (height, width)] +
                     known[-1:])


def _checks(rules):
    """Checks rules: raises ValueError now or returns assertions for a step."""
    late = []
    for value, relation, limit, text in rules:
        if isinstance(value, int) and isinstance(limit, int):
            if not (value >= limit if relation == ">=" else value > limit):
                raise ValueError(text)
        else:
            check = (check_ops.assert_greater_equal if relation == ">="
                     else check_ops.assert_greater)
            late.append(check(value, limit, message=text))
    return late


def pad_to_bounding_box(image, offset_height, offset_width, target_height,
                        target_width):
    """Pads an image with zeros to a size, at an offset."""
    with graphs.name_scope(None, "pad_to_bounding_box", [image]):
        x = _image(image)
        height, width = _size(x)
        below = target_height - offset_height - height
        right = target_width - offset_width - width
        checks = _checks([
            (offset_height, ">=", 0, "offset_height must be >= 0"),
            (offset_width, ">=", 0, "offset_width must be >= 0"),
            (right, ">=", 0, "width must be <= target - offset"),
            (below, ">=", 0, "height must be <= target - offset")])
        with graphs.control_dependencies(checks):
            x = array_ops.identity(x)
        lead = [[0, 0]] * (x.shape.ndims - 3)
        padded = array_ops.pad(x, lead + [[offset_height, below],
                                          [offset_width, right], [0, 0]])
        _tell(padded, x, target_height, target_width)
        return padded


def resize_image_with_crop_or_pad(image, target_height, target_width):
    """Crops or pads the image centrally with zeros to a size."""
    with graphs.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        x = _image(image)
        for what, value in (("target_width", target_width),
                            ("target_height", target_height)):
            if isinstance(value, int) and value <= 0:
                raise ValueError(f"{what} must be > 0.")

        def least(a, b):
            if isinstance(a, int) and isinstance(b, int):
                return min(a, b)
            return math_ops.minimum(a, b)

        def half(a):
            return least(0, a) // -2 if isinstance(a, int) else (
                -math_ops.minimum(0, a) // 2)

        def positive_half(a):
            return max(0, a) // 2 if isinstance(a, int) else (
                math_ops.maximum(0, a) // 2)

        height, width = _size(x)
        more_high, more_wide = target_height - height, target_width - width
        cut = crop_to_bounding_box(
            x, half(more_high), half(more_wide), least(target_height, height),
            least(target_width, width))
        resized = pad_to_bounding_box(
            cut, positive_half(more_high), positive_half(more_wide),
            target_height, target_width)
        _tell(resized, x, target_height, target_width)
        return resized


def central_crop(image, central_fraction):
    """Crops the image to the central fraction of its height and width."""
    with graphs.name_scope(None, "central_crop", [image]):
        x = _image(image)
        if not 0.0 < central_fraction <= 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        if central_fraction == 1.0:
            return x
        cut, sizes = [], []
        for size in _size(x):
            if isinstance(size, int):
                start = int((size - size * central_fraction) / 2)
            else:
                wide = math_ops.to_double(size)
                start = math_ops.to_int32((wide - wide * central_fraction) / 2)
            cut.append(start)
            sizes.append(size - start * 2)
        lead = x.shape.ndims - 3
        middle = array_ops.slice(x, [0] * lead + cut + [0],
                                 [-1] * lead + sizes + [-1])
        _tell(middle, x, *sizes)
        return middle


def random_crop(value, size, seed=None, name=None):
    """Crops a tensor to a size at a random position."""
    with graphs.name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        dims = array_ops.shape(value)
        check = control_flow.Assert(
            math_ops.reduce_all(dims >= size),
            ["Need value.shape >= size, got ", dims, size])
        with graphs.control_dependencies([check]):
            dims = array_ops.identity(dims)
        room = dims - size + 1
        start = math_ops.mod(random_ops.random_uniform(
            array_ops.shape(dims), maxval=dtypes.int32.max,
            dtype=dtypes.int32, seed=seed), room)
        return array_ops.slice(value, start, size, name=scope)


# ---- Colour and brightness ---------------------------------------------------


def convert_image_dtype(image, dtype, saturate=False, name=None):
    """Converts the dtype and rescales the values.

    Floats range from 0 to 1, integers over their whole range.
    """
    x = convert_to_tensor(image, name="image")
    dtype = dtypes.as_dtype(dtype)
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


def rgb_to_grayscale(images, name=None):
    """Converts RGB images to grayscale by perceived brightness."""
    with graphs.name_scope(name, "rgb_to_grayscale", [images]) as scope:
        x = convert_to_tensor(images, name="images")
        old = x.dtype.base_dtype
        light = convert_image_dtype(x, dtypes.float32)
        grey = contractions.tensordot(light, [0.2989, 0.5870, 0.1140],
                                      [[-1], [-1]])
        return convert_image_dtype(array_ops.expand_dims(grey, -1), old,
                                   name=scope)


def grayscale_to_rgb(images, name=None):
    """Repeats the channel of grayscale images three times."""
    with graphs.name_scope(name, "grayscale_to_rgb", [images]) as scope:
        x = convert_to_tensor(images, name="images")
        n = x.shape.ndims
        if n is not None and x.shape.as_list()[-1] not in (1, None):
            raise ValueError("Last dimension of a grayscale image should be "
                             "size 1.")
        times = [1] * (n - 1) + [3] if n is not None else array_ops.concat(
            [array_ops.ones([array_ops.rank(x) - 1], dtypes.int32), [3]], 0)
        return array_ops.tile(x, times, name=scope)


def _as_float(function, image, *arguments):
    """Applies a function to the image as floats; keeps the image's dtype."""
    x = convert_to_tensor(image, name="image")
    old = x.dtype.base_dtype
    if old in (dtypes.float16, dtypes.float32):
        return function(x, *arguments)
    done = function(convert_image_dtype(x, dtypes.float32), *arguments)
    return convert_image_dtype(done, old, saturate=True)


def adjust_brightness(image, delta):
    """Adds `delta` to the image on a scale from 0 to 1."""
    with graphs.name_scope(None, "adjust_brightness", [image, delta]):
        return _as_float(lambda x: x + math_ops.cast(delta, x.dtype), image)


def adjust_contrast(images, contrast_factor):
    """Scales the difference of each pixel from its channel's mean."""
    def adjusted(x):
        mean = math_ops.reduce_mean(x, [-3, -2], keepdims=True)
        return (x - mean) * contrast_factor + mean

    with graphs.name_scope(None, "adjust_contrast", [images, contrast_factor]):
        return _as_float(adjusted, images)


def adjust_gamma(image, gamma=1, gain=1):
    """Computes gain * image ** gamma on a scale from 0 to 1."""
    with graphs.name_scope(None, "adjust_gamma", [image, gamma, gain]):
        checks = []
        if isinstance(gamma, _core.Tensor):
            checks = [check_ops.assert_non_negative(
                gamma, message="Gamma should be a non-negative real number.")]
        elif gamma < 0:
            raise ValueError("Gamma should be a non-negative real number.")

        def adjusted(x):
            with graphs.control_dependencies(checks):
                return gain * x ** math_ops.cast(gamma, x.dtype)
        return _as_float(adjusted, image)


def random_brightness(image, max_delta, seed=None):
    """Adjusts the brightness by a random delta."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_ops.random_uniform(
        [], -max_delta, max_delta, seed=seed))


def random_contrast(image, lower, upper, seed=None):
    """Adjusts the contrast by a random factor."""
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return adjust_contrast(image, random_ops.random_uniform(
        [], lower, upper, seed=seed))


def per_image_standardization(image):
    """Normalizes each image to mean 0 and standard deviation 1.

    The deviation is smaller if the image is nearly uniform.
    """
    with graphs.name_scope(None, "per_image_standardization", [image]) as scope:
        x = math_ops.cast(_image(image), dtypes.float32)
        over = [-3, -2, -1]
        count = math_ops.cast(math_ops.reduce_prod(array_ops.shape(x)[-3:]),
                              dtypes.float32)
        mean = math_ops.reduce_mean(x, over, keepdims=True)
        deviation = math_ops.sqrt(math_ops.reduce_mean(
            math_ops.square(x - mean), over, keepdims=True))
        return math_ops.div(x - mean, math_ops.maximum(
            deviation, math_ops.rsqrt(count)), name=scope)
