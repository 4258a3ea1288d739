"""Error messages for attributes that an object does not have."""

from sluice import _core

# Attributes of numpy arrays and eager tensors.
_IN_A_STEP = {"numpy", "item", "tolist"}
_FUNCTIONS = {"astype": "cast", "T": "transpose", "sum": "reduce_sum",
              "mean": "reduce_mean", "max": "reduce_max", "min": "reduce_min",
              "prod": "reduce_prod", "dot": "matmul"}


class _NoMember(AttributeError):
    """An AttributeError with a lazy message, because hasattr() is frequent."""

    def __init__(self, owner, member):
        super().__init__(owner, member)
        self._owner, self._member = owner, member

    def __str__(self):
        from sluice import names
        owner, member = self._owner, self._member
        words = f"'{type(owner).__name__}' object has no attribute '{member}'"
        if isinstance(owner, _core.Tensor):
            function = _FUNCTIONS.get(member, member)
            if member in _IN_A_STEP:
                return words + " (session.run() gives its value)"
            if function in names.PUBLIC:
                return words + f" (there is a function: tf.{function})"
        near = ", ".join(_core.nearest_names(
            member, [n for n in dir(type(owner)) if n[0] != "_"]))
        return words + (f" (nearest: {near})" if near else "")


_NoMember.__name__ = _NoMember.__qualname__ = "AttributeError"
_NoMember.__module__ = "builtins"


def missing(self, name):
    """Implements `__getattr__`: raises AttributeError with a suggestion."""
    if name.startswith("_"):
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'")
    if hasattr(type(self), name):  # A property raised AttributeError.
        return object.__getattribute__(self, name)
    raise _NoMember(self, name)
