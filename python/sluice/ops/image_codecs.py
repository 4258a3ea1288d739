"""Images in files: decoding and encoding of PNG, JPEG, GIF and BMP."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import (
    array_ops, control_flow, image_colors, image_ops, math_ops, random_ops,
    string_ops)

_op = _core.op

decode_png = _op("DecodePng")
decode_jpeg = _op("DecodeJpeg")
decode_and_crop_jpeg = _op("DecodeAndCropJpeg")
decode_gif = _op("DecodeGif")
decode_bmp = _op("DecodeBmp")
encode_jpeg = _op("EncodeJpeg")
extract_jpeg_shape = _op("ExtractJpegShape")


def encode_png(image, compression=-1, name=None):
    """Encodes an image as a PNG file.

    Args:
      image: uint8 or uint16 [height, width, channels]; 1 (grayscale), 2
        (with alpha), 3 (RGB) or 4 (RGBA) channels. An array of uint16 keeps
        its type, anything else that is not a tensor becomes uint8.
      compression: from 0 (none) to 9; -1 for the usual one.
      name: the name of the operation.

    Returns:
      The contents of the file, a scalar string.
    """
    if str(getattr(image, "dtype", "")) == "uint16":
        image = convert_to_tensor(image)
    return _op("EncodePng")(image, compression=compression, name=name)


def is_jpeg(contents, name=None):
    """Returns whether a string begins as a JPEG file does.

    Args:
      contents: a string tensor.
      name: the name of the operation.
    """
    with graphs.name_scope(name, "is_jpeg") as scope:
        return math_ops.equal(string_ops.substr(contents, 0, 3),
                              b"\xff\xd8\xff", name=scope)


def _checked(condition, message):
    return control_flow.Assert(condition, [message])


def decode_image(contents, channels=None, dtype=dtypes.uint8, name=None,
                 expand_animations=True):
    """Decodes a PNG, JPEG, GIF or BMP file.

    Args:
      contents: the contents of the file, a scalar string.
      channels: the number of channels: 1 (grayscale), 3 (RGB), 4 (RGBA), or 0
        or None for that of the file.
      dtype: the type of the result; values are rescaled to its range.
      name: the name of the scope.
      expand_animations: whether a GIF file gives all of its frames, rather than
        the first.

    Returns:
      A tensor [height, width, channels], or [frames, height, width, 3] for a
      GIF file unless `expand_animations` is false. Its static shape is unknown.

    Raises:
      ValueError: for another number of channels.
    """
    with graphs.name_scope(name, "decode_image"):
        if channels not in (None, 0, 1, 3, 4):
            raise ValueError("channels must be in (None, 0, 1, 3, 4)")
        wanted = channels or 0
        start = string_ops.substr(contents, 0, 3)
        dtype = dtypes.as_dtype(dtype)

        def decoded(op, refused, what, **attributes):
            """Returns a function that decodes a file of one format."""
            def decode():
                checks = []
                if wanted in refused:
                    possible = [c for c in (0, 1, 3, 4) if c not in refused]
                    checks = [_checked(False, f"Channels must be in (None, "
                                       f"{str(possible)[1:-1]}) when decoding "
                                       f"{what} images")]
                with graphs.control_dependencies(checks):
                    pixels = _op(op)(array_ops.identity(contents),
                                     **attributes)
                return image_colors.convert_image_dtype(pixels, dtype)
            return decode

        def gif():
            frames = decoded("DecodeGif", (1, 4), "GIF")()
            return frames if expand_animations else frames[0]

        def bmp():
            check = _checked(
                math_ops.equal(string_ops.substr(contents, 0, 2), "BM"),
                "Unable to decode bytes as JPEG, PNG, GIF, or BMP")
            with graphs.control_dependencies([check]):
                return decoded("DecodeBmp", (1,), "BMP", channels=wanted)()

        jpeg = decoded("DecodeJpeg", (4,), "JPEG", channels=wanted)
        png = decoded(
            "DecodePng", (), "PNG", channels=wanted,
            dtype=dtypes.uint8 if dtype == dtypes.uint8 else dtypes.uint16)

        def not_png():
            return control_flow.cond(math_ops.equal(start, b"GIF"), gif, bmp,
                                     name="cond_gif")

        def not_jpeg():
            return control_flow.cond(math_ops.equal(start, b"\x89PN"), png,
                                     not_png, name="cond_png")

        return control_flow.cond(is_jpeg(contents), jpeg, not_jpeg,
                                 name="cond_jpeg")


def adjust_jpeg_quality(image, jpeg_quality, name=None):
    """Encodes an image as JPEG of some quality, and decodes it.

    Args:
      image: an image of 1 or 3 channels.
      jpeg_quality: the quality from 0 to 100, an int or a scalar tensor.
      name: the name of the scope.

    Returns:
      An image of the same type.
    """
    with graphs.name_scope(name, "adjust_jpeg_quality", [image]):
        x = convert_to_tensor(image, name="image")
        old = x.dtype.base_dtype
        x = image_colors.convert_image_dtype(x, dtypes.uint8)
        if not image_ops.is_tensor(jpeg_quality):
            jpeg_quality = convert_to_tensor(jpeg_quality, dtypes.int32)
        encoded = _op("EncodeJpegVariableQuality")(x, jpeg_quality)
        return image_colors.convert_image_dtype(decode_jpeg(encoded), old)


def random_jpeg_quality(image, min_jpeg_quality, max_jpeg_quality, seed=None):
    """Encodes an image as JPEG of random quality, and decodes it.

    Args:
      image: an image of 1 or 3 channels.
      min_jpeg_quality: the least quality.
      max_jpeg_quality: the limit of qualities, at most 100.
      seed: the seed; see `tf.set_random_seed`.

    Raises:
      ValueError: if the range is empty or not within [0, 100].
    """
    if not (0 <= min_jpeg_quality <= 100 and 0 <= max_jpeg_quality <= 100):
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError(
            "`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    return adjust_jpeg_quality(image, random_ops.random_uniform(
        [], min_jpeg_quality, max_jpeg_quality, dtypes.int32, seed=seed))
