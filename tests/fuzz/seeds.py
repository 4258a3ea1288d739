#!/usr/bin/env python3
"""Generates the fuzzers' seeds: from recorded cases, handwritten and random
ones.

  tests/fuzz/seeds.py
"""

import base64
import pathlib
import random
import struct
import zlib

HERE = pathlib.Path(__file__).resolve().parent

LOOP = """T
node { name: "exit" op: "Exit" input: "switch" attr { key: "T" value { type: DT_INT32 } } }
node { name: "next" op: "NextIteration" input: "switch:1" attr { key: "T" value { type: DT_INT32 } } }
node { name: "switch" op: "Switch" input: "merge" input: "cond" attr { key: "T" value { type: DT_INT32 } } }
node { name: "cond" op: "LoopCond" input: "less" }
node { name: "less" op: "Less" input: "merge" input: "merge:1" attr { key: "T" value { type: DT_INT32 } } }
node { name: "merge" op: "Merge" input: "enter" input: "next" attr { key: "N" value { i: 2 } } attr { key: "T" value { type: DT_INT32 } } }
node { name: "enter" op: "Enter" input: "start" attr { key: "T" value { type: DT_INT32 } } attr { key: "frame_name" value { s: "loop" } } }
node { name: "start" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 3 } } } }
"""

FUNCTION = """T
node { name: "x" op: "Placeholder" device: "/cpu:0" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { dim { size: -1 } dim { size: 3 } } } } }
node { name: "y" op: "Identity" input: "x:0" input: "^x" attr { key: "T" value { type: DT_STRING } } attr { key: "_class" value { list { s: "loc:@x" } } } attr { key: "_f" value { func { name: "f" attr { key: "k" value { list { shape { unknown_rank: true } } } } } } } }
library { function { signature { name: "f" input_arg { name: "a" type: DT_FLOAT } } ret { key: "r" value: "a" } } gradient { function_name: "f" gradient_func: "g" } }
versions { producer: 21 min_consumer: 12 }
"""

TENSORS = {  # As written by TensorFlow.
    "float_content": "0801120412020803220c0000803f000020c000004040",
    "half_values": "0813120812020801120208016a0380fc02",
    "strings": "0807120412020803420261624200420200ff",
    "complex": "080812004a080000803f000000c0",
    "repeated": "0803120812020802120208033a020708",
    "unsigned": "081712008a010affffffffffffffffff01",
}



def item(code, dims, content):
    return bytes([code, len(dims)]) + struct.pack(f"<{len(dims)}q", *dims) + content


def token_list(code, items):
    """A TensorList of unknown shape; None: an unset item."""
    out = bytes([1, code, 255]) + struct.pack("<qI", -1, len(items))
    return out + b"".join(b"\0" if i is None else b"\1" + i for i in items)


def frame(elements):
    """One token, a scalar variant (cluster/transport/wire.h)."""
    record = struct.pack("<BQIIIB", 1, 5, 6, 1, 7, 4) + bytes([21, 0, 0, 0])
    record += struct.pack("<Q", len(elements)) + elements
    return b"SLF2" + struct.pack("<IQII", len(record), 0, 0, 0) + record


FLOATS = token_list(1, [item(1, [2], b"\0" * 8), None, item(1, [], b"\0" * 4)])
STRINGS = token_list(7, [item(7, [1], struct.pack("<Q", 3) + b"abc")])
LISTS = {
    "floats": FLOATS,
    "nested": token_list(21, [item(21, [2], FLOATS + STRINGS), item(21, [], b"\0")]),
    "optional": b"\2" + struct.pack("<I", 2) + item(1, [0], b"") + item(21, [], FLOATS),
}



def body_frame(size):
    """One token whose value, a vector of floats, is a body."""
    record = struct.pack("<BQIIIB", 1, 5, 6, 1, 7, 4)
    record += bytes([1, 1, 1, 0]) + struct.pack("<q", size)
    return b"SLF2" + struct.pack("<IQII", len(record), 0, 1, 0) + record


def envelope(kind, header=b"", data=b""):
    """A message over UCX (cluster/transport/ucx/envelope.h)."""
    return b"SLU1" + struct.pack("<IQQQQ", kind, 2, 3, 4, 5) + header + data


ENVELOPES = {
    "frame": envelope(1, data=frame(FLOATS)),
    "body": envelope(2, body_frame(4), b"\0" * 16),
    "body_short": envelope(2, body_frame(4), b"\0" * 15),
    "close": envelope(3),
    "refuse": envelope(4),
    "other": envelope(9, data=b"?"),
}

# 9 x 5 pixels, written by libjpeg-turbo.
JPEGS = {
    "grey":
        "/9j/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4"
        "UG1RV19iZ2hnPk1xeXBkeFxlZ2P/wAALCAAFAAkBAREA/8QAFQABAQAAAAAAAAAAAAAA"
        "AAAABAX/xAAfEAAABQQDAAAAAAAAAAAAAAAAAwQREgECE4EGFDL/2gAIAQEAAD8AOgxp"
        "OLrDITkVjZ291pY+pPoSuqWP/9k=",
    "colour":
        "/9j/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4"
        "UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2Nj"
        "Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAFAAkDASIA"
        "AhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAAAAMG/8QAHRAAAgIBBQAAAAAAAAAAAAAA"
        "AAECAxMSFCFB0v/EABQBAQAAAAAAAAAAAAAAAAAAAAP/xAAaEQACAgMAAAAAAAAAAAAA"
        "AAABAgAhA2Fx/9oADAMBAAIRAxEAPwCNKWCdCitOFtvvihe2aDa1gDrTsOQclhTqf//Z",
    "progressive":
        "/9j/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4"
        "UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2Nj"
        "Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wgARCAAFAAkDASIA"
        "AhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAAAAIF/8QAFAEBAAAAAAAAAAAAAAAAAAAA"
        "Av/aAAwDAQACEAMQAAABjQGP/8QAFxABAAMAAAAAAAAAAAAAAAAAAQASMf/aAAgBAQAB"
        "BQIypP/EABYRAAMAAAAAAAAAAAAAAAAAAAACQf/aAAgBAwEBPwFof//EABYRAQEBAAAA"
        "AAAAAAAAAAAAAAEAMf/aAAgBAgEBPwE1v//EABcQAAMBAAAAAAAAAAAAAAAAABARYcH/"
        "2gAIAQEABj8CUwf/xAAZEAABBQAAAAAAAAAAAAAAAAAQESExsfD/2gAIAQEAAT8hnS27"
        "F//aAAwDAQACAAMAAAAQC//EABcRAQADAAAAAAAAAAAAAAAAAAEAIWH/2gAIAQMBAT8Q"
        "sLJ//8QAFxEAAwEAAAAAAAAAAAAAAAAAAAEhcf/aAAgBAgEBPxCFYf/EABkQAQACAwAA"
        "AAAAAAAAAAAAAAEQIRFB0f/aAAgBAQABPxAGOLFd0e4P/9k=",
    "cmyk":
        "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAQCwwODAoQDg0OEhEQExgoGhgWFhgxIyUdKDoz"
        "PTw5Mzg3QEhcTkBEV0U3OFBtUVdfYmdoZz5NcXlwZHhcZWdj/8AAFAgABQAJBEMRAE0R"
        "AFkRAEsRAP/EABkAAAEFAAAAAAAAAAAAAAAAAAYAAQMEBf/EACkQAAIBAwEFCQEAAAAA"
        "AAAAAAEDAgAEERIFFCGBoRMWIjEyQVWjstL/2gAOBEMATQBZAEsAAD8AryARsZa4CJFw"
        "uS5ZHkAiEuHOIqJoEiq1IjoWiLAcccyt5A/gdaa07O7fJmjRpUF4zn0QdDPPTnnStwLS"
        "2kxYiTJ8V+Ie02NiekjRPuq6N91XWJ3t298h9C/5oW3Vdf/Z",
}


def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))


def png(colour_type, depth, samples_a_pixel, interlaced=0, extra=b""):
    """3 x 2 arbitrary pixels; interlaced images are truncated."""
    row = b"\0" + bytes(range(0, 7 * ((3 * depth * samples_a_pixel + 7) // 8), 7))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, depth, colour_type, 0,
                                       0, interlaced)) +
            extra + chunk(b"IDAT", zlib.compress(row * 2)) + chunk(b"IEND", b""))


PALETTE = chunk(b"PLTE", bytes(range(0, 240, 10))) + chunk(b"tRNS", b"\0\x80")
PNGS = {
    "grey": png(0, 8, 1),
    "grey_1": png(0, 1, 1),
    "grey_16": png(0, 16, 1),
    "rgb": png(2, 8, 3),
    "palette": png(3, 2, 1, extra=PALETTE),
    "grey_alpha": png(4, 8, 2),
    "rgba": png(6, 8, 4),
    "rgba_16": png(6, 16, 4),
    "interlaced": png(2, 8, 3, interlaced=1),
}

# Frames of one row and two pixels.
def gif(*frames):
    """3 x 1 pixels of two colours."""
    return (b"GIF89a" + struct.pack("<HHBBB", 3, 1, 0x80, 0, 0) +
            bytes(range(10, 70, 10)) + b"".join(frames) + b";")


def gif_frame(left, flags=0, control=b""):
    return (control + b"," + struct.pack("<HHHHB", left, 0, 2, 1, flags) +
            b"\x02\x02\x4c\x0a\x00")


GIFS = {
    "one": gif(gif_frame(0)),
    "two": gif(gif_frame(0), gif_frame(1)),
    "interlaced": gif(gif_frame(0, 0x40)),
    "transparent": gif(gif_frame(0, 0, b"!\xf9\x04\x01\0\0\x01\0")),
}


def bmp(channels, height=2):
    """2 x 2 pixels."""
    row = (2 * channels + 3) // 4 * 4
    return (b"BM" + struct.pack("<IHHI", 54 + 2 * row, 0, 0, 54) +
            struct.pack("<IiiHH", 40, 2, height, 1, 8 * channels) + b"\0" * 24 +
            bytes(range(2 * row)))


BMPS = {"grey": bmp(1), "rgb": bmp(3), "rgba": bmp(4), "top_down": bmp(3, -2)}

SMALL_CASES = ["control_order", "stages", "feed_any_edge", "variable_scatters"]


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def features(**lists):
    """A Features message of these Feature messages."""
    return b"".join(field(1, field(1, k.encode()) + field(2, v))
                    for k, v in lists.items())


FLOATS = field(2, field(1, struct.pack("<2f", 1, -2)))
INTS = field(3, field(1, b"\5\x96\1" + b"\xff" * 9 + b"\1"))
UNPACKED = field(3, b"\x08\5\x08\6")
STRINGS = field(1, field(1, b"text") + field(1, b""))
EXAMPLES = {
    "all": field(1, features(x=FLOATS, s=INTS, b=STRINGS, v=UNPACKED,
                             r=FLOATS)),
    "twice": 2 * field(1, features(x=FLOATS, s=UNPACKED)),
    "empty": field(1, features(x=b"", s=field(3, b""), other=INTS)),
    "sequence": field(1, features(s=INTS)) + field(2, features(
        x=field(1, FLOATS) + field(1, FLOATS), s=field(1, INTS) + field(1, b""),
        b=field(1, STRINGS))),
}

LINES = b"one\r\ntwo\n\n\rthree\r\nfour\n\r"

# "a", "" and "bcd" as TensorFlow writes them.
RECORDS = bytes.fromhex(
    "01000000000000000175de4161786ee428000000000000000029039807d8ea82a203000000"
    "00000000b099490e626364f22033a9")


def gzip_of(data):
    packed = zlib.compressobj(wbits=31)
    return packed.compress(data) + packed.flush()


def entries_of(table):
    """The entries of a table's first block, which is all of a small one."""
    def varint(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at

    meta, _ = varint(table, len(table) - 48)  # Where the next block begins.
    block = table[:meta - 5]
    restarts, = struct.unpack("<I", block[-4:])
    end, at, key, out = len(block) - 4 - 4 * restarts, 0, b"", []
    while at < end:
        shared, at = varint(block, at)
        added, at = varint(block, at)
        length, at = varint(block, at)
        key = key[:shared] + block[at:at + added]
        out.append((key, block[at + added:at + added + length]))
        at += added + length
    return out


TREES = {
    "leaf": b"(2 a)",
    "sentences": b"(3 (2 a) (4 (3 b) (2 c)))\n\n(0 (1 d)\n (0 a))\r\n",
    "left": b"(1 " * 5 + b"(1 a)" + b" (1 b))" * 5,
    "unclosed": b"(2 (2 a) (2 b)",
    "unary": b"(2 (2 a))",
    "label": b"(5 a)",
}


TEXTS = {  # By the byte that chooses the op (session/text_fuzz.cc).
    "csv": (0, b'1.5,-7,"a ""quoted"", one"'),
    "csv_without_quotes": (5, b'nan,12,say "x"'),
    "csv_default": (10, b"\t3\t"),
    "json": (1, b'{"features": {"feature": {"x": {"floatList": {"value": [1, 2.5]}},'
                b' "b": {"bytesList": {"value": ["YQ=="]}}}}}'),
    "base64": (2, b"c2x1aWNlIQ=="),
    "plain": (3, b"as it is"),
    "zlib": (8, zlib.compress(b"text " * 9)),
    "gzip": (13, gzip_of(b"text " * 9)),
    "tensor_float": (4, bytes.fromhex(TENSORS["float_content"])),
    "tensor_strings": (9, bytes.fromhex(TENSORS["strings"])),
    "vocabulary": (7, b"one\ntwo\r\nthree"),
    "vocabulary_columns": (15, b"1\t10\n-2\t20\n"),
}


def main():
    out = HERE / "graphdef_fuzz"
    out.mkdir(exist_ok=True)
    (out / "loop").write_text(LOOP)
    (out / "function").write_text(FUNCTION)
    for name, wire in TENSORS.items():
        (out / f"tensor_{name}").write_bytes(b"P" + bytes.fromhex(wire))
    for case in SMALL_CASES:
        graph = (HERE.parent / "cases" / case / "graph.pb").read_bytes()
        (out / f"case_{case}").write_bytes(b"B" + graph)
    out = HERE / "wire_fuzz"
    out.mkdir(exist_ok=True)
    for name, elements in LISTS.items():
        (out / f"list_{name}").write_bytes(frame(elements))
    for name, message in ENVELOPES.items():
        (out / f"ucx_{name}").write_bytes(message)
    out = HERE / "image_fuzz"
    out.mkdir(exist_ok=True)
    for channels, (name, image) in enumerate(PNGS.items()):
        (out / f"png_{name}").write_bytes(bytes([channels % 5]) + image)
    for channels, (name, image) in enumerate(JPEGS.items()):
        (out / f"jpeg_{name}").write_bytes(
            bytes([channels]) + base64.b64decode(image))
    for name, image in {**{f"gif_{k}": v for k, v in GIFS.items()},
                        **{f"bmp_{k}": v for k, v in BMPS.items()}}.items():
        (out / name).write_bytes(b"\0" + image)
    # The first byte chooses options too: a smaller image, a window, the end
    # made up.
    for name, options in {"small": 10, "window": 160, "recovered": 40}.items():
        image = base64.b64decode(next(iter(JPEGS.values())))
        (out / f"jpeg_{name}").write_bytes(bytes([options]) + image)
    out = HERE / "example_fuzz"
    out.mkdir(exist_ok=True)
    for name, example in EXAMPLES.items():
        (out / name).write_bytes(example)
    out = HERE / "records_fuzz"
    out.mkdir(exist_ok=True)
    for kind, (name, data) in enumerate((
            ("plain", RECORDS), ("zlib", zlib.compress(RECORDS)),
            ("gzip", gzip_of(RECORDS)))):
        (out / name).write_bytes(bytes([kind]) + data)
    for kind, (name, data) in enumerate((
            ("lines", LINES), ("lines_zlib", zlib.compress(LINES)),
            ("lines_gzip", gzip_of(LINES)))):
        (out / name).write_bytes(bytes([3 + kind]) + data)
    out = HERE / "readers_fuzz"
    out.mkdir(exist_ok=True)
    # A format, and the sizes of a header, a record less one, a footer, a hop.
    for name, (choice, data) in {
            "whole": (0, LINES), "lines": (2, LINES), "records": (3, RECORDS),
            "state": (1, b"\x08\2\x10\1\x18\5\"\1f\xa8\6\7\xb0\6\3"),
            "records_gzip": (8 * 2 + 3, gzip_of(RECORDS)),
            "fixed": (5, bytes(range(200))), "fixed_exact": (128 + 5, bytes(102)),
            "fixed_zlib": (8 + 5, zlib.compress(bytes(range(200))))}.items():
        (out / name).write_bytes(bytes([choice, 3, 9, 2, 0]) + data)
    out = HERE / "text_fuzz"
    out.mkdir(exist_ok=True)
    for name, (choice, text) in TEXTS.items():
        (out / name).write_bytes(bytes([choice]) + text)
    out = HERE / "treebank_fuzz"
    out.mkdir(exist_ok=True)
    for words, (name, trees) in enumerate(TREES.items()):
        (out / name).write_bytes(bytes([words % 4]) + trees)
    out = HERE / "checkpoint_fuzz"
    out.mkdir(exist_ok=True)
    checkpoints = HERE.parent / "checkpoints"
    for name in ("types.index", "parts.index", "old_types", "old_parts"):
        (out / f"table_{name}").write_bytes(
            b"\0" + (checkpoints / name).read_bytes())
    for name in ("types", "parts"):
        entries = b""
        for key, value in entries_of((checkpoints / f"{name}.index").read_bytes()):
            entries += struct.pack("<BH", len(key), len(value)) + key + value
        (out / name).write_bytes(
            b"\1" + entries + b"\xff" + b"\0\0" +
            (checkpoints / f"{name}.data-00000-of-00001").read_bytes())
    out = HERE / "saved_model_fuzz"
    out.mkdir(exist_ok=True)
    (out / "loops").write_bytes(
        (HERE.parent / "saved_models/loops.meta").read_bytes())
    draw = random.Random(1)
    for fuzzer in ("random_graph_fuzz", "control_fuzz"):
        out = HERE / fuzzer
        out.mkdir(exist_ok=True)
        for size in (40, 80, 120, 160, 240, 320, 400, 480):
            (out / f"drawn_{size}").write_bytes(draw.randbytes(size))


if __name__ == "__main__":
    main()
