"""Projective transforms of images: `tf.contrib.image`.

A transform is a vector of 8 numbers, (a0, a1, a2, b0, b1, b2, c0, c1). Pixel
(x, y) of the result is the image's at ((a0 x + a1 y + a2) / k,
(b0 x + b1 y + b2) / k), where k = c0 x + c1 y + 1.
"""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, math_ops

_op = _core.op
_DTYPES = (dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.float16,
           dtypes.float32, dtypes.float64)


def _rows(value, what):
    """Converts a vector or a matrix of rows to a float32 matrix.

    Raises:
      TypeError: if it has another rank, or none that is known.
    """
    x = convert_to_tensor(value, dtypes.float32, name=what)
    if x.shape.ndims is None:
        raise TypeError(f"{what} rank must be statically known")
    if x.shape.ndims not in (1, 2):
        raise TypeError(f"{what.capitalize()} should have rank 1 or 2.")
    return array_ops.expand_dims(x, 0) if x.shape.ndims == 1 else x


def _batch_of(images):
    """Returns (batch of images, function that restores the original rank)."""
    x = convert_to_tensor(images, name="images")
    if x.dtype.base_dtype not in _DTYPES:
        raise TypeError(f"Invalid dtype {x.dtype}.")
    rank = x.shape.ndims
    if rank is None:
        raise TypeError("image_or_images rank must be statically known")
    if rank == 2:
        return x[None, :, :, None], lambda y: y[0, :, :, 0]
    if rank == 3:
        return x[None], lambda y: y[0]
    if rank == 4:
        return x, lambda y: y
    raise TypeError("Images should have rank between 2 and 4.")


def transform(images, transforms, interpolation="NEAREST", output_shape=None,
              name=None):
    """Transforms images.

    Args:
      images: an image [height, width] or [height, width, channels], or a batch
        of the latter.
      transforms: a transform, or one for each image of a batch.
      interpolation: "NEAREST" or "BILINEAR".
      output_shape: the height and width of the result; defaults to the
        images'.
      name: the name of the scope.

    Returns:
      Images of the same type and rank, 0 outside of the originals.

    Raises:
      TypeError: if types or ranks do not fit.
      ValueError: if `output_shape` is no vector of 2 integers.
    """
    with graphs.name_scope(name, "transform"):
        batch, restored = _batch_of(images)
        transforms = _rows(transforms, "transforms")
        if output_shape is None:
            known = batch.shape.as_list()[1:3]
            output_shape = (array_ops.shape(batch)[1:3] if None in known else
                            known)
        output_shape = convert_to_tensor(output_shape, dtypes.int32,
                                         name="output_shape")
        if not output_shape.shape.is_compatible_with([2]):
            raise ValueError("output_shape must be a 1-D Tensor of 2 elements: "
                             "new_height, new_width")
        return restored(_op("ImageProjectiveTransformV2")(
            batch, transforms, output_shape,
            interpolation=interpolation.upper()))


def rotate(images, angles, interpolation="NEAREST", name=None):
    """Rotates images counter-clockwise about their centres.

    Args:
      images: as for `transform`.
      angles: an angle in radians, or one for each image of a batch.
      interpolation: "NEAREST" or "BILINEAR".
      name: the name of the scope.
    """
    with graphs.name_scope(name, "rotate"):
        batch, restored = _batch_of(images)
        height, width = (
            math_ops.cast(array_ops.shape(batch)[i], dtypes.float32)[None]
            for i in (1, 2))
        return restored(transform(
            batch, angles_to_projective_transforms(angles, height, width),
            interpolation))


def translate(images, translations, interpolation="NEAREST", name=None):
    """Moves images.

    Args:
      images: as for `transform`.
      translations: how far to move to the right and down, [dx, dy], or a row
        for each image of a batch.
      interpolation: "NEAREST" or "BILINEAR".
      name: the name of the scope.
    """
    with graphs.name_scope(name, "translate"):
        return transform(images,
                         translations_to_projective_transforms(translations),
                         interpolation)


def angles_to_projective_transforms(angles, image_height, image_width,
                                    name=None):
    """Returns the transforms that rotate an image about its centre.

    Args:
      angles: an angle in radians, or a vector.
      image_height: the height of the image.
      image_width: its width.
      name: the name of the scope.

    Returns:
      A row of 8 numbers for each angle.

    Raises:
      TypeError: if `angles` has another rank.
    """
    with graphs.name_scope(name, "angles_to_projective_transforms"):
        angles = convert_to_tensor(angles, dtypes.float32, name="angles")
        if angles.shape.ndims not in (0, 1):
            raise TypeError("Angles should have rank 0 or 1.")
        angles = array_ops.reshape(angles, [-1])
        right, down = image_width - 1, image_height - 1
        cos, sin = math_ops.cos(angles), math_ops.sin(angles)
        zero = array_ops.zeros_like(angles)
        return array_ops.stack(
            [cos, -sin, (right - (cos * right - sin * down)) / 2.0, sin, cos,
             (down - (sin * right + cos * down)) / 2.0, zero, zero], 1)


def translations_to_projective_transforms(translations, name=None):
    """Returns the transforms that move images.

    Args:
      translations: [dx, dy], or a matrix of such rows.
      name: the name of the scope.

    Returns:
      A row of 8 numbers for each translation.

    Raises:
      TypeError: if `translations` has another rank.
    """
    with graphs.name_scope(name, "translations_to_projective_transforms"):
        rows = _rows(translations, "translations")
        dx, dy = -rows[:, 0], -rows[:, 1]
        one, zero = array_ops.ones_like(dx), array_ops.zeros_like(dx)
        return array_ops.stack([one, zero, dx, zero, one, dy, zero, zero], 1)


def compose_transforms(*transforms):
    """Returns the transforms that apply the given ones one after the other.

    Args:
      *transforms: transforms, or matrices of rows of them.
    """
    if not transforms:
        raise ValueError("transforms cannot be empty")
    with graphs.name_scope("compose_transforms"):
        composed = flat_transforms_to_matrices(transforms[0])
        for each in transforms[1:]:
            composed = math_ops.matmul(composed,
                                       flat_transforms_to_matrices(each))
        return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms):
    """Converts rows of 8 numbers to 3 x 3 matrices.

    Raises:
      ValueError: if `transforms` has another rank than 1 or 2.
    """
    with graphs.name_scope("flat_transforms_to_matrices"):
        x = convert_to_tensor(transforms, name="transforms")
        if x.shape.ndims not in (1, 2):
            raise ValueError(f"Transforms should be 1D or 2D, got: {x}")
        x = array_ops.reshape(x, [-1, 8])
        last = array_ops.ones([array_ops.shape(x)[0], 1], x.dtype)
        return array_ops.reshape(array_ops.concat([x, last], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices):
    """Converts 3 x 3 matrices to rows of 8 numbers.

    Raises:
      ValueError: if `transform_matrices` has another rank than 2 or 3.
    """
    with graphs.name_scope("matrices_to_flat_transforms"):
        x = convert_to_tensor(transform_matrices, name="transform_matrices")
        if x.shape.ndims not in (2, 3):
            raise ValueError(f"Matrices should be 2D or 3D, got: {x}")
        x = array_ops.reshape(x, [-1, 9])
        return (x / x[:, 8:])[:, :8]
