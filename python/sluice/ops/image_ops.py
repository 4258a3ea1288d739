"""Turning, cropping and padding of images [height, width, channels].

All functions take an image or a batch of images.
"""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import (
    array_ops, check_ops, control_flow, math_ops, random_ops)

# ---- Checks ------------------------------------------------------------------


def as_image(image):
    """Converts a value to a tensor of an image or of a batch of images.

    A tensor of unknown rank is taken for an image. Sizes that are not known are
    checked in the step.

    Raises:
      ValueError: if it has another rank, or no elements.
    """
    x = convert_to_tensor(image, name="image")
    if x.shape.ndims is None:
        x = array_ops.ensure_shape(x, [None, None, None])
    if x.shape.ndims not in (3, 4):
        raise ValueError(f"'image' must have either 3 or 4 dimensions. It must "
                         f"be at least three-dimensional, got shape {x.shape}")
    if 0 in x.shape.as_list():
        raise ValueError(f"all dims of 'image.shape' must be > 0: {x.shape}")
    if x.shape.is_fully_defined():
        return x
    return control_flow.with_dependencies([check_ops.assert_positive(
        array_ops.shape(x),
        message="all dims of 'image.shape' must be > 0.")], x)


def size_of(x):
    """Returns (height, width) as numbers where known, else as tensors."""
    at = x.shape.ndims - 3
    known, dims = x.shape.as_list(), None
    if None in known[at:at + 2]:
        dims = array_ops.shape(x)
    return tuple(dims[i] if known[i] is None else known[i]
                 for i in (at, at + 1))


def is_tensor(value):
    """Returns whether a number is known only in a step."""
    return isinstance(value, _core.Tensor) or hasattr(value,
                                                      "_as_graph_element")


def required(*conditions):
    """Checks (condition, text): now, or by the assertions that it returns.

    Raises:
      ValueError: if a condition is known and false.
    """
    late = []
    for condition, text in conditions:
        if is_tensor(condition):
            late.append(control_flow.Assert(condition, [text]))
        elif not condition:
            raise ValueError(text)
    return late


def after(checks, x):
    """Returns a tensor that waits for checks, if there are any."""
    return control_flow.with_dependencies(checks, x) if checks else x


def _tell(result, x, height, width):
    """Sets the static shape of a result of the given height and width."""
    known = x.shape.as_list()
    result.set_shape(known[:-3] + [None if is_tensor(d) else int(d)
                                   for d in (height, width)] + known[-1:])
    return result


# ---- Flipping and rotation ---------------------------------------------------


def flip_left_right(image):
    """Flips an image horizontally.

    Args:
      image: an image or a batch of images.

    Raises:
      ValueError: if it has another rank.
    """
    with graphs.name_scope(None, "flip_left_right", [image]):
        x = as_image(image)
        return array_ops.reverse(x, [x.shape.ndims - 2])


def flip_up_down(image):
    """Flips an image vertically.

    Args:
      image: an image or a batch of images.

    Raises:
      ValueError: if it has another rank.
    """
    with graphs.name_scope(None, "flip_up_down", [image]):
        x = as_image(image)
        return array_ops.reverse(x, [x.shape.ndims - 3])


def transpose_image(image, name=None):
    """Swaps the height and width of an image.

    Args:
      image: an image or a batch of images.
      name: the name of the operation.

    Raises:
      ValueError: if it has another rank.
    """
    with graphs.name_scope(name, "transpose", [image]) as scope:
        x = as_image(image)
        order = [1, 0, 2] if x.shape.ndims == 3 else [0, 2, 1, 3]
        return array_ops.transpose(x, order, name=scope)


def _random_flip(image, from_end, seed, name):
    with graphs.name_scope(None, name, [image]) as scope:
        x = as_image(image)
        axis = [x.shape.ndims - from_end]
        if x.shape.ndims == 3:
            flipped = control_flow.cond(
                random_ops.random_uniform([], 0, 1.0, seed=seed) < 0.5,
                lambda: array_ops.reverse(x, axis), lambda: x, name=scope)
            flipped.set_shape(x.shape)
            return flipped
        n = array_ops.shape(x)[0]
        draw = random_ops.random_uniform([n], 0, 1.0, seed=seed)
        which = math_ops.cast(math_ops.round(array_ops.reshape(
            draw, [n, 1, 1, 1])), x.dtype)
        return which * array_ops.reverse(x, axis) + (1 - which) * x


def random_flip_left_right(image, seed=None):
    """Flips each image horizontally with probability 1/2.

    Args:
      image: an image or a batch of images.
      seed: the seed; see `tf.set_random_seed`.
    """
    return _random_flip(image, 2, seed, "random_flip_left_right")


def random_flip_up_down(image, seed=None):
    """Flips each image vertically with probability 1/2.

    Args:
      image: an image or a batch of images.
      seed: the seed; see `tf.set_random_seed`.
    """
    return _random_flip(image, 3, seed, "random_flip_up_down")


def rot90(image, k=1, name=None):
    """Rotates an image counter-clockwise by k * 90 degrees.

    Args:
      image: an image or a batch of images.
      k: a scalar integer.
      name: the name of the operation.
    """
    with graphs.name_scope(name, "rot90", [image, k]) as scope:
        x = as_image(image)
        k = convert_to_tensor(k, dtypes.int32, name="k")
        k.shape.assert_has_rank(0)
        k = math_ops.mod(k, 4)
        at = x.shape.ndims - 3
        swapped = [1, 0, 2] if at == 0 else [0, 2, 1, 3]
        turns = [
            lambda: array_ops.transpose(array_ops.reverse(x, [at + 1]),
                                        swapped),
            lambda: array_ops.reverse(x, [at, at + 1]),
            lambda: array_ops.reverse(array_ops.transpose(x, swapped),
                                      [at + 1])]
        turned = control_flow.case(
            [(math_ops.equal(k, i + 1), t) for i, t in enumerate(turns)],
            default=lambda: x, exclusive=True, name=scope)
        known = x.shape.as_list()
        same = known[at] if known[at] == known[at + 1] else None
        turned.set_shape(known[:at] + [same, same, known[-1]])
        return turned


# ---- Cropping and padding ----------------------------------------------------


def crop_to_bounding_box(image, offset_height, offset_width, target_height,
                         target_width):
    """Crops an image to a box given by its corner and size.

    Args:
      image: an image or a batch of images.
      offset_height: the row of the box's upper left corner.
      offset_width: its column.
      target_height: the height of the box.
      target_width: its width. All four may be scalar tensors.

    Raises:
      ValueError: if the box is empty, or not within the image; what is known
        only in a step is InvalidArgumentError there.
    """
    with graphs.name_scope(None, "crop_to_bounding_box", [image]):
        x = as_image(image)
        height, width = size_of(x)
        x = after(required(
            (offset_width >= 0, "offset_width must be >= 0."),
            (offset_height >= 0, "offset_height must be >= 0."),
            (target_width > 0, "target_width must be > 0."),
            (target_height > 0, "target_height must be > 0."),
            (width >= target_width + offset_width,
             "width must be >= target + offset."),
            (height >= target_height + offset_height,
             "height must be >= target + offset.")), x)
        lead = x.shape.ndims - 3
        return _tell(array_ops.slice(
            x, [0] * lead + [offset_height, offset_width, 0],
            [-1] * lead + [target_height, target_width, -1]),
            x, target_height, target_width)


def pad_to_bounding_box(image, offset_height, offset_width, target_height,
                        target_width):
    """Pads an image with zeros to a size, at an offset.

    Args:
      image: an image or a batch of images.
      offset_height: the number of rows above it.
      offset_width: the number of columns to its left.
      target_height: the height of the result.
      target_width: its width. All four may be scalar tensors.

    Raises:
      ValueError: if the image does not fit; what is known only in a step is
        InvalidArgumentError there.
    """
    with graphs.name_scope(None, "pad_to_bounding_box", [image]):
        x = as_image(image)
        height, width = size_of(x)
        below = target_height - offset_height - height
        right = target_width - offset_width - width
        x = after(required(
            (offset_height >= 0, "offset_height must be >= 0"),
            (offset_width >= 0, "offset_width must be >= 0"),
            (right >= 0, "width must be <= target - offset"),
            (below >= 0, "height must be <= target - offset")), x)
        lead = [[0, 0]] * (x.shape.ndims - 3)
        return _tell(array_ops.pad(x, lead + [
            [offset_height, below], [offset_width, right], [0, 0]]),
            x, target_height, target_width)


def _least(a, b):
    return math_ops.minimum(a, b) if is_tensor(a) or is_tensor(b) else min(a, b)


def at_least_zero(a):
    """Returns a number, or 0 if it is negative."""
    return math_ops.maximum(a, 0) if is_tensor(a) else max(a, 0)


def resize_image_with_crop_or_pad(image, target_height, target_width):
    """Crops or pads the image centrally with zeros to a size.

    Args:
      image: an image or a batch of images.
      target_height: the height of the result.
      target_width: its width. Both may be scalar tensors.

    Raises:
      ValueError: if the size is not positive.
    """
    with graphs.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        x = as_image(image)
        x = after(required((target_width > 0, "target_width must be > 0."),
                           (target_height > 0, "target_height must be > 0.")),
                  x)
        height, width = size_of(x)
        higher, wider = target_height - height, target_width - width
        cut = crop_to_bounding_box(
            x, at_least_zero(-higher // 2), at_least_zero(-wider // 2),
            _least(target_height, height), _least(target_width, width))
        return pad_to_bounding_box(
            cut, at_least_zero(higher // 2), at_least_zero(wider // 2),
            target_height, target_width)


def central_crop(image, central_fraction):
    """Crops the image to the central fraction of its height and width.

    Args:
      image: an image or a batch of images.
      central_fraction: the fraction, within (0, 1].

    Raises:
      ValueError: if the fraction is out of range, or the rank is not known.
    """
    with graphs.name_scope(None, "central_crop", [image]):
        x = convert_to_tensor(image, name="image")
        if not 0.0 < central_fraction <= 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        if central_fraction == 1.0:
            return x
        if x.shape.ndims not in (3, 4):
            raise ValueError(f"`image` should either be a Tensor with rank = 3 "
                             f"or rank = 4. Had rank = {x.shape.ndims}.")
        x = as_image(x)
        cut, sizes = [], []
        for size in size_of(x):
            if is_tensor(size):
                wide = math_ops.to_double(size)
                start = math_ops.to_int32((wide - wide * central_fraction) / 2)
            else:
                start = int((size - size * central_fraction) / 2)
            cut.append(start)
            sizes.append(size - start * 2)
        lead = x.shape.ndims - 3
        return _tell(array_ops.slice(x, [0] * lead + cut + [0],
                                     [-1] * lead + sizes + [-1]), x, *sizes)


def random_crop(value, size, seed=None, name=None):
    """Crops a tensor to a size at a random position.

    Args:
      value: the tensor.
      size: the size, a vector with an entry for each dimension.
      seed: the seed; see `tf.set_random_seed`.
      name: the name of the operation.
    """
    with graphs.name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        dims = array_ops.shape(value)
        check = control_flow.Assert(
            math_ops.reduce_all(dims >= size),
            ["Need value.shape >= size, got ", dims, size], summarize=1000)
        dims = control_flow.with_dependencies([check], dims)
        room = dims - size + 1
        start = math_ops.mod(random_ops.random_uniform(
            array_ops.shape(dims), maxval=dtypes.int32.max,
            dtype=dtypes.int32, seed=seed), room)
        return array_ops.slice(value, start, size, name=scope)
