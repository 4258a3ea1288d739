#!/usr/bin/env python3
"""Makes the seeds of the fuzzers: from the recorded cases, by hand, by lot.

  tests/fuzz/seeds.py
"""

import pathlib
import random
import struct

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

TENSORS = {  # As TensorFlow writes them.
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
    """A TensorList of any shape; None: not set."""
    out = bytes([1, code, 255]) + struct.pack("<qI", -1, len(items))
    return out + b"".join(b"\0" if i is None else b"\1" + i for i in items)


def frame(elements):
    """One token, a scalar variant (dist/wire.h)."""
    record = struct.pack("<BQIIIB", 1, 5, 6, 1, 7, 4) + bytes([21, 0, 0, 0])
    record += struct.pack("<Q", len(elements)) + elements
    return b"SLF1" + struct.pack("<IQII", len(record), 0, 0, 0) + record


FLOATS = token_list(1, [item(1, [2], b"\0" * 8), None, item(1, [], b"\0" * 4)])
STRINGS = token_list(7, [item(7, [1], struct.pack("<Q", 3) + b"abc")])
LISTS = {
    "floats": FLOATS,
    "nested": token_list(21, [item(21, [2], FLOATS + STRINGS), item(21, [], b"\0")]),
    "optional": b"\2" + struct.pack("<I", 2) + item(1, [0], b"") + item(21, [], FLOATS),
}



def body_frame(size):
    """One token whose value, so many floats, is a body."""
    record = struct.pack("<BQIIIB", 1, 5, 6, 1, 7, 4)
    record += bytes([1, 1, 1, 0]) + struct.pack("<q", size)
    return b"SLF1" + struct.pack("<IQII", len(record), 0, 1, 0) + record


def envelope(kind, header=b"", data=b""):
    """A message over UCX (dist/ucx_envelope.h)."""
    return b"SLU1" + struct.pack("<IQQQQ", kind, 2, 3, 4, 5) + header + data


ENVELOPES = {
    "frame": envelope(1, data=frame(FLOATS)),
    "body": envelope(2, body_frame(4), b"\0" * 16),
    "body_short": envelope(2, body_frame(4), b"\0" * 15),
    "close": envelope(3),
    "refuse": envelope(4),
    "other": envelope(9, data=b"?"),
}

SMALL_CASES = ["control_order", "stages", "feed_any_edge", "variable_scatters"]


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
    draw = random.Random(1)
    for fuzzer in ("random_graph_fuzz", "control_fuzz"):
        out = HERE / fuzzer
        out.mkdir(exist_ok=True)
        for size in (40, 80, 120, 160, 240, 320, 400, 480):
            (out / f"drawn_{size}").write_bytes(draw.randbytes(size))


if __name__ == "__main__":
    main()
