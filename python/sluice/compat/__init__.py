"""Parts of TensorFlow 1's environment. `sluice.compat.v1` has its names."""

import contextlib
import numbers

integral_types = (numbers.Integral,)
real_types = (numbers.Real,)
complex_types = (numbers.Complex,)
bytes_or_text_types = (bytes, str)


def as_bytes(bytes_or_text, encoding="utf-8"):
    """Converts str or bytes to bytes."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError(f"Expected binary or unicode string, got "
                    f"{bytes_or_text!r}")


def as_text(bytes_or_text, encoding="utf-8"):
    """Converts str or bytes to str."""
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got "
                    f"{bytes_or_text!r}")


as_str = as_text


def forward_compatible(year, month, day):
    """Returns True: graphs written here are read by later versions."""
    return True


@contextlib.contextmanager
def forward_compatibility_horizon(year, month, day):
    """A context manager without effect, because there is one version."""
    yield


def as_str_any(value):
    """Converts anything to str."""
    return as_text(value) if isinstance(value, bytes) else str(value)
