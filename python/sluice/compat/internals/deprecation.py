"""Decorators for deprecated functions.

They replace `tensorflow.python.util.deprecation` and `decorator_utils`.
"""

import contextlib
import functools
import inspect
import re

from sluice.compat import logging
from sluice.compat.internals.introspection import getfullargspec, make_decorator
from sluice.framework.arguments import (  # noqa: F401 (TensorFlow's place.)
    deprecated_argument_lookup)

_told, _NONE = set(), object()
_silent = False


@contextlib.contextmanager
def silence():
    """A context manager that suppresses deprecation warnings."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


# ---- Documentation -----------------------------------------------------------


def get_qualified_name(function):
    """Returns the qualified name of a function."""
    return function.__qualname__


def validate_callable(func, decorator_name):
    """Raises ValueError unless the decorated object is callable."""
    if not callable(func):
        raise ValueError(
            f"{func} is not a function. If this is a property, make sure "
            f"@property appears before @{decorator_name} in your source code:"
            f"\n\n@property\n@{decorator_name}\ndef method(...)")


def add_notice_to_docstring(doc, instructions, no_doc_str, suffix_str, notice):
    """Adds a notice after the first line of a docstring, or makes a docstring.

    Args:
      no_doc_str: the first line if there is no docstring.
      suffix_str: the suffix of the first line otherwise.
      notice: the lines of the notice, which `instructions` follow.
    """
    lines = inspect.cleandoc(doc or "").rstrip().splitlines()
    notice = ["", *notice, instructions]
    if not lines:
        return "\n".join([no_doc_str, *notice])
    if len(lines) > 1 and lines[1].strip():
        notice.append("")
    return "\n".join([f"{lines[0]} {suffix_str}", *notice, *lines[1:]])


def rewrite_argument_docstring(old_doc, old_argument, new_argument):
    """Renames an argument in a docstring."""
    return old_doc.replace(f"`{old_argument}`", f"`{new_argument}`").replace(
        f"{old_argument}:", f"{new_argument}:")


# ---- Warnings ----------------------------------------------------------------


def _when(date):
    return "in a future version" if date is None else f"after {date}"


def _check(date, instructions):
    if date is not None and not re.match(r"20\d\d-[01]\d-[0123]\d", date):
        raise ValueError(f"Date must be YYYY-MM-DD, got {date!r}.")
    if not instructions:
        raise ValueError("Don't deprecate things without conversion "
                         "instructions!")


def _tell(key, warn_once, words, *about):
    if _silent or warn_once and key in _told:
        return
    _told.add(key)
    logging.warning(words + " is deprecated and will be removed %s.\n"
                    "Instructions for updating:\n%s", *about)


def deprecated(date, instructions, warn_once=True):
    """Decorates a function as deprecated.

    Its documentation says so, and its first call logs a warning.
    """
    _check(date, instructions)

    def decorate(f):
        validate_callable(f, "deprecated")

        def tell(*_, **__):
            _tell(f, warn_once, "%s (from %s)", f.__qualname__, f.__module__,
                  _when(date), instructions)
        doc = add_notice_to_docstring(
            f.__doc__, instructions, "DEPRECATED FUNCTION", "(deprecated)",
            [f"THIS FUNCTION IS DEPRECATED. It will be removed {_when(date)}.",
             "Instructions for updating:"])
        if isinstance(f, type):
            f.__init__, f.__doc__ = _before(f.__init__, tell, ""), doc
            return f
        return _before(f, tell, doc)
    return decorate


def _before(f, do, doc):
    @functools.wraps(f)
    def decorated(*args, **kwargs):
        do(*args, **kwargs)
        return f(*args, **kwargs)
    return make_decorator(f, decorated, "deprecated", doc)


def _equal(a, b):
    """Returns whether two values are equal; for arrays, all elements."""
    if hasattr(a, "__array_interface__") or hasattr(b, "__array_interface__"):
        import numpy as np
        return np.array_equal(a, b)
    return bool(a == b)


def _about_arguments(values, concerns, told_as, date, instructions, warn_once,
                     presets=False):
    """Makes a decorator that logs told_as(name) for some arguments.

    It logs those for which concerns(given, values[name]) is true. With
    `presets`, defaults count as given.
    """
    _check(date, instructions)
    if not values:
        raise ValueError("Specify which arguments are deprecated.")

    def decorate(f):
        validate_callable(f, "deprecated_args")
        parameters, left = inspect.signature(f), dict(values)

        def check(*args, **kwargs):
            if not left or _silent:  # Avoids binding, which is slow.
                return
            bound = parameters.bind_partial(*args, **kwargs)
            if presets:
                bound.apply_defaults()
            given = bound.arguments
            for name, value in tuple(left.items()):
                if name in given and concerns(given[name], value):
                    if warn_once:
                        left.pop(name, None)
                    _tell((f, name), warn_once, "calling %s (from %s) with %s",
                          f.__qualname__, f.__module__, told_as(name),
                          _when(date), instructions)
        return _before(f, check, add_notice_to_docstring(
            f.__doc__, instructions, "DEPRECATED FUNCTION ARGUMENTS",
            "(deprecated arguments)",
            [f"SOME ARGUMENTS ARE DEPRECATED. They will be removed "
             f"{_when(date)}.", "Instructions for updating:"]))
    return decorate


def deprecated_args(date, instructions, *names, warn_once=True):
    """Decorates a function to mark arguments as deprecated.

    An argument given as (name, value) is deprecated unless it has that value.
    """
    allowed = dict(n if isinstance(n, tuple) else (n, _NONE) for n in names)
    told = _about_arguments(
        allowed, lambda given, to: to is _NONE or not _equal(given, to),
        str, date, instructions, warn_once)

    def decorate(f):
        spec = getfullargspec(f)
        known = [*spec.args, *spec.kwonlyargs, spec.varargs, spec.varkw]
        missing = [name for name in allowed if name not in known]
        if missing:
            raise ValueError(f"The following deprecated arguments are not "
                             f"present in the function signature: {missing}. "
                             f"Found next arguments: {known}.")
        return told(f)
    return decorate


def deprecated_arg_values(date, instructions, warn_once=True, **values):
    """Decorates a function to mark values of arguments as deprecated."""
    return _about_arguments(
        values, _equal, lambda name: f"{name}={values[name]}", date,
        instructions, warn_once, presets=True)
