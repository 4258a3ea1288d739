"""All registered ops as functions: `raw_ops.MatMul(a, b)`.

Signatures and documentation come from the registry. `dir(raw_ops)` lists them.
"""

from sluice import _core


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        made = _core.op(name)
    except AttributeError:
        near = ", ".join(_core.nearest_names(name, _core.op_names()))
        raise AttributeError(f"sluice.raw_ops has no op '{name}'"
                             f"{f' (nearest: {near})' if near else ''}"
                             ) from None
    made.__module__ = __name__
    globals()[name] = made
    return made


def __dir__():
    return _core.op_names()
