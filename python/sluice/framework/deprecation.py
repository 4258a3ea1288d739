"""What tells that something will go: `tensorflow.python.util.deprecation`."""

import functools
import inspect

from sluice import logging
from sluice.framework.introspection import make_decorator

_told, _NONE = set(), object()


def _tell(what, date, instructions, warn_once):
    if warn_once and what in _told:
        return
    _told.add(what)
    when = "in a future version" if date is None else f"after {date}"
    logging.warning("%s is deprecated and will be removed %s. "
                    "Instructions for updating:\n%s", what, when, instructions)


def deprecated(date, instructions, warn_once=True):
    """A decorator: the first call of the function tells that it will go."""
    def decorate(f):
        what = f"{f.__module__}.{f.__qualname__}"
        told = functools.partial(_tell, what, date, instructions, warn_once)
        if isinstance(f, type):
            f.__init__ = _before(f.__init__, lambda *_, **__: told())
            return f
        return _before(f, lambda *_, **__: told())
    return decorate


def _before(f, do):
    def decorated(*args, **kwargs):
        do(*args, **kwargs)
        return f(*args, **kwargs)
    return make_decorator(f, decorated)


def _equal(a, b):
    """Whether two values are equal: of arrays, all elements."""
    if hasattr(a, "__array_interface__") or hasattr(b, "__array_interface__"):
        import numpy as np
        return np.array_equal(a, b)
    return bool(a == b)


def _about_arguments(values, concerns, what, date, instructions, warn_once):
    """A decorator: a call tells of `what(function, name)` for each argument
    name whose value `concerns(given, values[name])`."""
    def decorate(f):
        parameters, left = inspect.signature(f), dict(values)

        def check(*args, **kwargs):
            if not left:  # (All has been told, and binding takes long.)
                return
            given = parameters.bind_partial(*args, **kwargs).arguments
            for name, value in tuple(left.items()):
                if name in given and concerns(given[name], value):
                    if warn_once:
                        left.pop(name, None)
                    _tell(what(f, name), date, instructions, warn_once)
        return _before(f, check)
    return decorate


def deprecated_args(date, instructions, *names, warn_once=True):
    """A decorator: a call with one of the arguments tells that it will go; of
    (name, value), with another value."""
    allowed = dict(n if isinstance(n, tuple) else (n, _NONE) for n in names)
    return _about_arguments(
        allowed, lambda given, to: to is _NONE or not _equal(given, to),
        lambda f, name: f"the argument {name} of {f.__qualname__}", date,
        instructions, warn_once)


def deprecated_arg_values(date, instructions, warn_once=True, **values):
    """A decorator: a call with one of these values of an argument tells that
    it will go."""
    return _about_arguments(
        values, _equal,
        lambda f, name: f"{name}={values[name]} of {f.__qualname__}", date,
        instructions, warn_once)


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    """The value of an argument that has two names; ValueError if both are
    given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value
