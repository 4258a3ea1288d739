#!/usr/bin/env python3
"""Records TensorFlow's results for the ops that decode and encode image files.

  record_image_file_ops.py > image_file_ops.txt  (needs TensorFlow; seeded)

src/ops/testing/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools
import struct
import zlib

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20180613)
raw = tf.raw_ops


def picture(height, width, channels, dtype=np.uint8):
    """Smooth, with some noise."""
    y, x, c = np.mgrid[:height, :width, :channels]
    v = 110 + 90 * np.sin(x / 5 + c) * np.cos(y / 4 - c) + R.randint(
        -9, 10, y.shape)
    return (v * (257 if dtype == np.uint16 else 1)).astype(dtype)


# ---- PNG
def chunk(kind, data):
    body = kind + data
    return (struct.pack(">I", len(data)) + body +
            struct.pack(">I", zlib.crc32(body)))


def png(width, height, depth, kind, rows, *more):
    """A file of the given bit depth and colour type; rows: bytes of each."""
    data = b"".join(b"\0" + r for r in rows)
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind,
                                       0, 0, 0)) + b"".join(more) +
            chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def rows(n, width):
    return [R.bytes(width) for _ in range(n)]


PALETTE = chunk(b"PLTE", bytes(range(10, 10 + 48)))
PNGS = {
    "grey": png(5, 4, 8, 0, rows(4, 5)),
    "grey 1": png(9, 3, 1, 0, rows(3, 2)),
    "grey 4": png(5, 3, 4, 0, rows(3, 3)),
    "grey 16": png(4, 3, 16, 0, rows(3, 8)),
    "grey alpha": png(4, 3, 8, 4, rows(3, 8)),
    "rgb": png(4, 3, 8, 2, rows(3, 12)),
    "rgb 16": png(3, 2, 16, 2, rows(2, 18)),
    "rgba": png(3, 2, 8, 6, rows(2, 12)),
    "rgba 16": png(3, 2, 16, 6, rows(2, 24)),
    "palette": png(4, 3, 8, 3, [bytes(R.randint(0, 16, 4)) for _ in range(3)],
                   PALETTE),
    "palette alpha": png(4, 3, 8, 3,
                         [bytes(R.randint(0, 16, 4)) for _ in range(3)],
                         PALETTE, chunk(b"tRNS", bytes(range(0, 160, 16)))),
    "grey key": png(4, 2, 8, 0, [bytes([9, 8, 9, 7])] * 2,
                    chunk(b"tRNS", b"\0\x09")),
    "rgb key": png(2, 1, 8, 2, [bytes([1, 2, 3, 4, 5, 6])],
                   chunk(b"tRNS", b"\0\1\0\2\0\3")),
}
for name, file in PNGS.items():
    for channels, dtype in itertools.product((0, 1, 3, 4),
                                             (tf.uint8, tf.uint16)):
        if name in ("grey 1", "grey 4") and channels == 4:
            continue  # TensorFlow's alpha is that of the file's depth.
        case("DecodePng", [("contents", file)], channels=channels, dtype=dtype)
    for dtype in (tf.uint8, tf.uint16, tf.float32):
        case("DecodeImage", [("contents", file)], dtype=dtype)
for channels, dtype, size in itertools.product(
        (1, 2, 3, 4), (np.uint8, np.uint16), ((3, 5), (9, 7))):
    case("EncodePng", [("image", picture(*size, channels, dtype))])
case("EncodePng", [("image", np.stack([picture(3, 4, 3)] * 2))], compression=9)
case("EncodePng", [("image", picture(3, 4, 1))], compression=0)
for shape, attrs in [((3, 4), {}), ((3, 4, 5), {}), ((0, 4, 1), {}),
                     ((3, 4, 1), dict(compression=10))]:
    case("EncodePng", [("image", np.zeros(shape, np.uint8))], **attrs)

# ---- JPEG
JPEGS = {}
for name, channels, attrs in [
        ("rgb", 3, {}), ("grey", 1, {}), ("progressive", 3,
                                          dict(progressive=True)),
        ("full", 3, dict(chroma_downsampling=False)),
        ("poor", 3, dict(quality=20, optimize_size=True)),
        ("noted", 1, dict(xmp_metadata="<x/>", density_unit="cm",
                          x_density=7, y_density=9))]:
    image = picture(20, 26, channels)
    JPEGS[name] = raw.EncodeJpeg(image=image, **dict(
        dict(format="", quality=95, progressive=False, optimize_size=False,
             chroma_downsampling=True, density_unit="in", x_density=300,
             y_density=300, xmp_metadata=""), **attrs)).numpy()
    case("EncodeJpeg", [("image", image)], **attrs)
for shape, attrs in [((3, 4), {}), ((3, 4, 2), {}), ((0, 4, 1), {}),
                     ((3, 4, 3), dict(format="grayscale")),
                     ((3, 4, 1), dict(format="rgb")),
                     ((3, 4, 1), dict(quality=101))]:
    case("EncodeJpeg", [("image", np.zeros(shape, np.uint8))], **attrs)
for quality in (0, 50, 100, -1):
    case("EncodeJpegVariableQuality",
         [("images", picture(9, 8, 3)), ("quality",
                                         np.array(quality, np.int32))])
for name, file in JPEGS.items():
    for channels in (0, 1, 3, 4):
        case("DecodeJpeg", [("contents", file)], channels=channels)
    for ratio, fancy, method in itertools.product(
            (1, 2, 4, 8), (True, False), ("", "INTEGER_ACCURATE")):
        case("DecodeJpeg", [("contents", file)], ratio=ratio,
             fancy_upscaling=fancy, dct_method=method)
    for dtype in (tf.uint8, tf.uint16, tf.float32):
        case("DecodeImage", [("contents", file)], dtype=dtype)
    for t in (tf.int32, tf.int64):
        case("ExtractJpegShape", [("contents", file)], output_type=t)
    for window in [(0, 0, 20, 26), (3, 5, 7, 9), (10, 16, 10, 10), (0, 25, 20, 1),
                   (19, 0, 1, 26), (0, 0, 21, 26), (-1, 0, 2, 2), (0, 0, 0, 2)]:
        case("DecodeAndCropJpeg",
             [("contents", file), ("crop_window", np.array(window, np.int32))])
    case("DecodeAndCropJpeg", [("contents", file), (
        "crop_window", np.array((1, 2, 6, 7), np.int32))], ratio=2)
case("DecodeJpeg", [("contents", JPEGS["rgb"])], ratio=3)
case("DecodeJpeg", [("contents", JPEGS["rgb"])], dct_method="bogus")
for part, attrs in itertools.product(
        (.3, .6, .9),
        [{}, dict(acceptable_fraction=.5), dict(acceptable_fraction=.1)]):
    for name in ("rgb", "grey"):
        file = JPEGS[name]
        case("DecodeJpeg", [("contents", file[:int(len(file) * part)])],
             **attrs)

# ---- GIF
def lzw(indices, bits):
    """Codes of one width: a clear code before the table would grow."""
    clear, out, size, acc, n = 1 << bits, bytearray(), bits + 1, 0, 0
    codes = [clear]
    for i, v in enumerate(indices):
        if i and i % ((1 << bits) - 2) == 0:
            codes.append(clear)
        codes.append(v)
    for code in codes + [clear + 1]:
        acc |= code << n
        n += size
        while n >= 8:
            out.append(acc & 255)
            acc >>= 8
            n -= 8
    if n:
        out.append(acc & 255)
    blocks = b"".join(bytes([len(out[i:i + 255])]) + bytes(out[i:i + 255])
                      for i in range(0, len(out), 255))
    return bytes([bits]) + blocks + b"\0"


COLOURS = bytes(R.randint(0, 256, 24))


def frame(left, top, width, height, local=False, interlaced=False,
          transparent=None, limit=8):
    control = b"" if transparent is None else (
        b"\x21\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0")
    flags = (0x82 if local else 0) | (0x40 if interlaced else 0)
    return (control + b"\x2c" + struct.pack("<HHHHB", left, top, width, height,
                                            flags) +
            (COLOURS[::-1] if local else b"") +
            lzw(list(R.randint(0, limit, width * height)), 3))


def gif(width, height, *frames, colours=True):
    return (b"GIF89a" + struct.pack("<HHBBB", width, height,
                                    0x82 if colours else 0, 0, 0) +
            (COLOURS if colours else b"") + b"".join(frames) + b"\x3b")


GIFS = [
    gif(5, 4, frame(0, 0, 5, 4)),
    gif(5, 9, frame(0, 0, 5, 9, interlaced=True)),
    gif(5, 4, frame(0, 0, 5, 4), frame(1, 1, 3, 2, local=True),
        frame(2, 0, 3, 4, transparent=3)),
    gif(5, 4, frame(1, 1, 3, 2), frame(3, 2, 4, 5)),
    gif(5, 4, frame(0, 0, 5, 4, transparent=2)),
    gif(4, 3, frame(0, 0, 4, 3, local=True), colours=False),
    gif(4, 3, frame(0, 0, 4, 3), colours=False),
    gif(4, 3),
]
for file in GIFS:
    case("DecodeGif", [("contents", file)])
    for expand in (True, False):
        case("DecodeImage", [("contents", file)], expand_animations=expand)
    for op in ("DecodePng", "DecodeJpeg"):
        case(op, [("contents", file)])
        case(op, [("contents", file)], channels=1)
    for dtype in (tf.uint16, tf.float32):
        case("DecodeImage", [("contents", file)], dtype=dtype)

# ---- BMP
def bmp(width, height, channels, more=0, size=40):
    row = (abs(width) * channels + 3) // 4 * 4
    return (b"BM" + struct.pack("<IHHI", 14 + size + row * abs(height), 0, 0,
                                14 + size) +
            struct.pack("<IiiHH", size, width, height, 1, channels * 8) +
            b"\0" * (size - 16) + R.bytes(row * abs(height) + more))


BMPS = [bmp(5, 4, 3), bmp(5, 4, 4), bmp(5, 4, 1), bmp(3, -4, 3), bmp(4, 2, 3)]
for file in BMPS + [bmp(5, 4, 3, more=1), bmp(5, 4, 2), bmp(-5, 4, 3),
                    bmp(5, 4, 3)[:-1], b"BM", bmp(5, 0, 3)]:
    for op, channels in itertools.product(("DecodeBmp", "DecodeImage"),
                                          (0, 3, 4)):
        if op == "DecodeBmp" or file in BMPS:
            case(op, [("contents", file)], channels=channels)
case("DecodeBmp", [("contents", BMPS[0])], channels=1)
for dtype in (tf.uint16, tf.float32):
    case("DecodeImage", [("contents", BMPS[0])], dtype=dtype)

# ---- Other formats than the op's
FILES = [PNGS["rgb"], JPEGS["rgb"], JPEGS["grey"], GIFS[0], BMPS[0], b"",
         b"no image"]
for op, file in itertools.product(
        ("DecodePng", "DecodeJpeg", "DecodeGif", "DecodeBmp", "DecodeImage"),
        FILES):
    case(op, [("contents", file)])
for file in FILES:
    case("DecodeAndCropJpeg", [("contents", file), (
        "crop_window", np.array([0, 0, 2, 2], np.int32))])
for op in ("DecodePng", "DecodeJpeg", "DecodeGif", "DecodeImage"):
    case(op, [("contents", np.array([PNGS["rgb"]], object))])
for file in (PNGS["rgb"], JPEGS["rgb"]):
    case("DecodeImage", [("contents", file)], channels=2)
for size in range(0, len(PNGS["rgb"]), 9):
    case("DecodePng", [("contents", PNGS["rgb"][:size])])
