"""The binary form of protocol buffers."""

import struct


# How fields are stored.
NUMBER, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


class DecodeError(ValueError):
    """Bytes that are no message of its class."""


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


def raw(n, kind, value):
    """A field, as `read` gave it."""
    if kind == NUMBER:
        return number(n, value)
    return field(n, value) if kind == BYTES else _varint(n << 3 | kind) + value


def _read_varint(data, at):
    """(the number at a place, where it ends)."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise DecodeError("message: the data end too early")
        if shift >= 70:
            raise DecodeError("message: expected a number of at most 10 bytes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at


def read(data):
    """(field, how it is stored, number or bytes) of a message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if key < 8:
            raise DecodeError("message: expected the number of a field, got 0")
        if kind == NUMBER:
            value, at = _read_varint(data, at)
        elif kind in (FIXED_64, BYTES, FIXED_32):
            size = {FIXED_64: 8, FIXED_32: 4}.get(kind)
            if size is None:
                size, at = _read_varint(data, at)
            if at + size > len(data):
                raise DecodeError("message: the data end too early")
            value, at = data[at:at + size], at + size
        else:
            raise DecodeError(f"message: expected numbers and bytes, got "
                              f"wire type {kind}")
        yield key >> 3, kind, value


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
    return values


def packed(values):
    """Numbers, as the contents of one field."""
    return b"".join(_varint(int(v)) for v in values)


def fixed(n, code, value):
    """A number of fixed size, as field n of a message."""
    return raw(n, FIXED_64 if code == "d" else FIXED_32,
               struct.pack("<" + code, value))
