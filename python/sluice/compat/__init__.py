"""Other systems' names on Sluice's objects: `sluice.compat.v1`."""

import contextlib
import numbers

integral_types = (numbers.Integral,)
real_types = (numbers.Real,)
complex_types = (numbers.Complex,)
bytes_or_text_types = (bytes, str)


def as_bytes(bytes_or_text, encoding="utf-8"):
    """`bytes` of str or bytes."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError(f"Expected binary or unicode string, got "
                    f"{bytes_or_text!r}")


def as_text(bytes_or_text, encoding="utf-8"):
    """`str` of str or bytes."""
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got "
                    f"{bytes_or_text!r}")


as_str = as_text


def forward_compatible(year, month, day):
    """True: what is written here is read by later versions."""
    return True


@contextlib.contextmanager
def forward_compatibility_horizon(year, month, day):
    """A with-block like any other: there is one version."""
    yield


def as_str_any(value):
    """`str` of anything."""
    return as_text(value) if isinstance(value, bytes) else str(value)
