"""Resizing of images, and crops of other sizes."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import (
    constant_value, constant_value_as_shape, convert_to_tensor)
from sluice.ops import array_ops, image_ops, math_ops

_op = _core.op


class ResizeMethod:
    """Interpolation methods for resizing images."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = range(4)


ResizeMethodV1 = ResizeMethod


# The ops of the methods, by their numbers and by the names of TensorFlow 2.
_OPS = {0: "ResizeBilinear", 1: "ResizeNearestNeighbor", 2: "ResizeBicubic",
        3: "ResizeArea"}
_OPS.update(zip(("bilinear", "nearest", "bicubic", "area"),
                list(_OPS.values())))


def resize_bilinear(images, size, align_corners=False, name=None,
                    half_pixel_centers=False):
    """Resizes a batch of images by bilinear interpolation.

    Args:
      images: a batch of images.
      size: the height and width, a vector.
      align_corners: whether the centres of corner pixels stay where they are.
      name: the name of the operation.
      half_pixel_centers: whether pixels have their centres at halves.

    Returns:
      A float32 batch.
    """
    return _op("ResizeBilinear")(
        images, size, align_corners=align_corners,
        half_pixel_centers=half_pixel_centers, name=name)


def resize_nearest_neighbor(images, size, align_corners=False, name=None,
                            half_pixel_centers=False):
    """Resizes a batch of images to the values of the nearest pixels.

    Args:
      images: a batch of images.
      size: the height and width, a vector.
      align_corners: whether the centres of corner pixels stay where they are.
      name: the name of the operation.
      half_pixel_centers: whether pixels have their centres at halves.
    """
    return _op("ResizeNearestNeighbor")(
        images, size, align_corners=align_corners,
        half_pixel_centers=half_pixel_centers, name=name)


def resize_bicubic(images, size, align_corners=False, name=None,
                   half_pixel_centers=False):
    """Resizes a batch of images by bicubic interpolation.

    Args:
      images: a batch of images.
      size: the height and width, a vector.
      align_corners: whether the centres of corner pixels stay where they are.
      name: the name of the operation.
      half_pixel_centers: whether pixels have their centres at halves.

    Returns:
      A float32 batch.
    """
    return _op("ResizeBicubic")(
        images, size, align_corners=align_corners,
        half_pixel_centers=half_pixel_centers, name=name)


resize_area = _op("ResizeArea")


def resize_images(images, size, method=ResizeMethod.BILINEAR,
                  align_corners=False, preserve_aspect_ratio=False, name=None):
    """Resizes images.

    Args:
      images: an image or a batch of images.
      size: the height and width, a vector.
      method: a ResizeMethod.
      align_corners: whether the centres of corner pixels stay where they are.
      preserve_aspect_ratio: whether the result is the largest one within `size`
        that has the proportions of the images.
      name: the name of the scope.

    Returns:
      A float32 tensor; one of the same type for NEAREST_NEIGHBOR, or if the
      size is known to be that of the images, which are returned as they are.

    Raises:
      ValueError: if the shape of `images` or `size` is wrong, or for another
        method.
    """
    with graphs.name_scope(name, "resize", [images, size]):
        x = convert_to_tensor(images, name="images")
        rank = x.shape.ndims
        if rank is None:
            raise ValueError("'images' contains no shape.")
        if rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        if rank == 3:
            x = array_ops.expand_dims(x, 0)
        try:
            size = convert_to_tensor(size, dtypes.int32, name="size")
        except (TypeError, ValueError):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        if not size.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: "
                             "new_height, new_width")
        if preserve_aspect_ratio:
            size = _within(size, x)
        want = constant_value_as_shape(size).with_rank(2).as_list()
        if None not in want and want == x.shape.as_list()[1:3]:
            return array_ops.squeeze(x, [0]) if rank == 3 else x
        if method not in _OPS:
            raise ValueError("Resize method is not implemented.")
        resized = _op(_OPS[method])(x, size, align_corners=align_corners)
        resized.set_shape([None, *want, None])
        return array_ops.squeeze(resized, [0]) if rank == 3 else resized


def _within(size, x):
    """Returns the largest size within another one with an image's proportions.
    """
    known = constant_value(size)
    if None not in x.shape.as_list()[1:3] and known is not None:
        # As float32, as in a step, where rounding could differ otherwise.
        import numpy as np
        has = np.array(x.shape.as_list()[1:3], np.float32)
        scale = (known.astype(np.float32) / has).min()
        return convert_to_tensor(np.round(scale * has).astype(np.int32),
                                 name="size")
    has = math_ops.to_float(array_ops.shape(x)[1:3])
    scale = math_ops.reduce_min(math_ops.to_float(size) / has)
    return math_ops.to_int32(math_ops.round(scale * has), name="size")


def resize_image_with_pad(image, target_height, target_width,
                          method=ResizeMethod.BILINEAR, align_corners=False):
    """Resizes an image to fit into a size, and pads it centrally with zeros.

    Args:
      image: an image or a batch of images.
      target_height: the height of the result.
      target_width: its width.
      method: a ResizeMethod.
      align_corners: whether the centres of corner pixels stay where they are.

    Raises:
      ValueError: if the size is not positive.
    """
    with graphs.name_scope(None, "resize_image_with_pad", [image]):
        x = image_ops.as_image(image)
        x = image_ops.after(image_ops.required(
            (target_width > 0, "target_width must be > 0."),
            (target_height > 0, "target_height must be > 0.")), x)
        height, width = (math_ops.cast(d, dtypes.float64)
                         for d in image_ops.size_of(x))
        high, wide = (math_ops.cast(d, dtypes.float64)
                      for d in (target_height, target_width))
        ratio = math_ops.maximum(width / wide, height / high)
        size = [math_ops.to_int32(math_ops.floor(d / ratio))
                for d in (height, width)]
        above, left = (
            image_ops.at_least_zero(math_ops.to_int32(math_ops.floor(
                (want - d / ratio) / 2)))
            for want, d in ((high, height), (wide, width)))
        return image_ops.pad_to_bounding_box(
            resize_images(x, array_ops.stack(size), method, align_corners),
            above, left, target_height, target_width)


def crop_and_resize(image, boxes, box_ind=None, crop_size=None,
                    method="bilinear", extrapolation_value=0, name=None,
                    box_indices=None):
    """Cuts boxes out of images, and resizes each to one size.

    Args:
      image: a batch of images.
      boxes: rows of [y1, x1, y2, x2], as parts of height and width. Boxes may
        exceed the image, or be flipped.
      box_ind: the number of the image of each box, a vector.
      crop_size: the height and width of the results.
      method: "bilinear" or "nearest".
      extrapolation_value: the value outside of images.
      name: the name of the operation.
      box_indices: another name of `box_ind`.

    Returns:
      A float32 batch with an image for each box.
    """
    return _op("CropAndResize")(
        image, boxes, box_ind if box_indices is None else box_indices,
        crop_size, method=method, extrapolation_value=extrapolation_value,
        name=name)


def extract_glimpse(input, size, offsets, centered=True, normalized=True,
                    uniform_noise=True, name=None):
    """Cuts a window out of each image of a batch.

    Args:
      input: a batch of float32 images.
      size: the height and width of the windows.
      offsets: the centre of each window, rows of [y, x].
      centered: whether offsets are relative to the centres of images.
      normalized: whether offsets are within [-1, 1] (or [0, 1]), rather than
        numbers of pixels.
      uniform_noise: whether what is outside of images is uniform noise, rather
        than normal.
      name: the name of the operation.
    """
    return _op("ExtractGlimpse")(
        input, size, offsets, centered=centered, normalized=normalized,
        uniform_noise=uniform_noise, name=name)
