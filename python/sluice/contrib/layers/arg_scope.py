"""`arg_scope`: default arguments of functions (`tf.contrib.framework`)."""

import contextlib
import inspect
import threading

from sluice.compat.internals.introspection import make_decorator


class _Stack(threading.local):
    def __init__(self):
        self.scopes = [{}]


_stack = _Stack()
_names = {}  # Names of arguments with defaults, by function.


def arg_scope_func_key(op):
    """Returns the key of a function in a scope."""
    return getattr(op, "_key_op", str(op))


def _name(op):
    return op.__module__, op.__name__


@contextlib.contextmanager
def arg_scope(list_ops_or_scope, **kwargs):
    """Returns a context manager that sets default arguments of functions.

    Its value contains the defaults of all functions, and can be passed to
    `arg_scope` again.

    Args:
      list_ops_or_scope: functions with `add_arg_scope`, or the value of a
        scope.
      kwargs: the defaults; must be empty to re-enter a scope.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a "
                             "dictionary, kwargs must be empty.")
        scope = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("list_ops_or_scope must either be a list/tuple or "
                            "reused scope (i.e. dict)")
        scope = dict(_stack.scopes[-1])
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{_name(op)} is not decorated with "
                                 f"@add_arg_scope")
            key = arg_scope_func_key(op)
            scope[key] = {**scope.get(key, {}), **kwargs}
    _stack.scopes.append(scope)
    try:
        yield scope
    finally:
        _stack.scopes.pop()


def add_arg_scope(func):
    """Decorates a function so that `arg_scope` can set default arguments."""
    key = arg_scope_func_key(func)

    def with_defaults(*args, **kwargs):
        return func(*args, **{**_stack.scopes[-1].get(key, {}), **kwargs})
    make_decorator(func, with_defaults)._key_op = key
    _names[key] = tuple(
        p.name for p in inspect.signature(func).parameters.values()
        if p.default is not p.empty)
    return with_defaults


def has_arg_scope(func):
    """Returns whether a function is decorated with `add_arg_scope`."""
    return arg_scope_func_key(func) in _names


def arg_scoped_arguments(func):
    """Returns the names of the arguments that a scope may set."""
    if not has_arg_scope(func):
        raise AssertionError(f"{_name(func)} is not decorated with "
                             f"@add_arg_scope")
    return _names[arg_scope_func_key(func)]


def current_arg_scope():
    """Returns the current defaults of all functions."""
    return _stack.scopes[-1]
