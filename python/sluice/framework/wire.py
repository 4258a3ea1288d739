"""The binary form of protocol buffers."""

import struct


def _varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def number(n, value):
    """A number, as field n of a message."""
    return _varint(n << 3) + _varint(value)


def field(n, data):
    """Bytes, or a message, as field n of a message."""
    return _varint(n << 3 | 2) + _varint(len(data)) + data


def _read_varint(data, at):
    """(the number at a place, where it ends)."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("message: the data end too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def read(data):
    """(field, number or bytes) of a message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _read_varint(data, at)
        elif kind in (1, 2, 5):
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, at = _read_varint(data, at)
            if at + size > len(data):
                raise ValueError("message: the data end too early")
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"message: expected numbers and bytes, got "
                             f"wire type {kind}")
        yield key >> 3, value


def unpacked(value, code):
    """The numbers of a list (or the one number) of a field."""
    if code:
        return [v for v, in struct.iter_unpack("<" + code, value)]
    if isinstance(value, int):
        values = [value]
    else:
        values, at = [], 0
        while at < len(value):
            one, at = _read_varint(value, at)
            values.append(one)
    return [v - (1 << 64) if v >> 63 else v for v in values]


def packed(values):
    """Numbers, as the contents of one field."""
    return b"".join(_varint(int(v)) for v in values)


def fixed(n, code, value):
    """A number of fixed size, as field n of a message."""
    return _varint(n << 3 | (1 if code == "d" else 5)) + struct.pack(
        "<" + code, value)
