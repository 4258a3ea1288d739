"""Inspection of functions and decorators, with the names of `inspect`.

It replaces `tensorflow.python.util.tf_inspect`, `tf_decorator`, `tf_contextlib`
and `all_util`.
"""

import collections
import contextlib
import functools
import inspect
import re
import sys

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


class TFDecorator:
    """A decorator around a function, callable in its place."""

    def __init__(self, decorator_name, target, decorator_doc="",
                 decorator_argspec=None):
        self.decorator_name, self.decorated_target = decorator_name, target
        self.decorator_doc = decorator_doc
        self.decorator_argspec = decorator_argspec
        self.__name__ = target.__name__
        self.__doc__ = decorator_doc or target.__doc__ or ""

    def __get__(self, instance, owner):
        return functools.partial(self.__call__, instance)

    def __call__(self, *args, **kwargs):
        return self.decorated_target(*args, **kwargs)


def make_decorator(target, decorator_func, decorator_name=None,
                   decorator_doc="", decorator_argspec=None):
    """Records that `decorator_func` decorates `target`.

    The decorator's name defaults to that of the caller.
    """
    if decorator_name is None:
        decorator_name = sys._getframe(1).f_code.co_name
    decorator = TFDecorator(decorator_name, target, decorator_doc,
                            decorator_argspec)
    functools.update_wrapper(decorator_func, target)
    decorator_func._tf_decorator = decorator
    decorator_func.__doc__ = decorator.__doc__
    return decorator_func


def contextmanager(target):
    """Decorates like `contextlib.contextmanager`; `unwrap` can undo it."""
    return make_decorator(target, contextlib.contextmanager(target),
                          "contextmanager")


def unwrap(maybe_decorator):
    """Returns (TFDecorators around a function, the function).

    The outermost decorator is first.
    """
    decorators = []
    while True:
        decorator = (maybe_decorator if isinstance(maybe_decorator, TFDecorator)
                     else getattr(maybe_decorator, "_tf_decorator", None))
        if decorator is None:
            return decorators, maybe_decorator
        decorators.append(decorator)
        maybe_decorator = decorator.decorated_target


def getfullargspec(obj):
    """Returns the parameters of a callable, ignoring its decorators."""
    decorators, target = unwrap(obj)
    for decorator in decorators:
        if decorator.decorator_argspec is not None:
            return decorator.decorator_argspec
    if isinstance(target, type):
        target = target.__init__
    elif callable(target) and not inspect.isroutine(target) and (
            not isinstance(target, functools.partial)):
        target = type(target).__call__
    return inspect.getfullargspec(target)


def getcallargs(func, *positional, **named):
    """Returns the values of parameters in a call, by name."""
    spec = getfullargspec(func)
    if inspect.ismethod(func):
        positional = (func.__self__, *positional)
    preset = spec.defaults or ()
    values = dict(zip(spec.args[len(spec.args) - len(preset):], preset))
    values.update(zip(spec.args, positional))
    return {**values, **named}


def getargspec(obj):
    """Calls `getfullargspec` for a callable without keyword-only parameters."""
    return ArgSpec(*getfullargspec(obj)[:4])


def fn_args(fn):
    """Returns the unbound parameters of a function, callable or partial."""
    if isinstance(fn, functools.partial):
        return tuple(a for a in fn_args(fn.func)[len(fn.args):]
                     if a not in fn.keywords)
    if inspect.ismethod(getattr(fn, "__call__", None)):
        fn = fn.__call__
    args = getfullargspec(fn).args
    return tuple(args[1:] if inspect.ismethod(unwrap(fn)[1]) else args)


def has_kwargs(fn):
    """Returns whether a function accepts any keyword."""
    if isinstance(fn, functools.partial):
        fn = fn.func
    elif inspect.ismethod(getattr(fn, "__call__", None)):
        fn = fn.__call__
    elif not callable(fn):
        raise TypeError(f"fn should be a function-like object, but is of type "
                        f"{type(fn)}.")
    return getfullargspec(fn).varkw is not None


def make_all(module_name, doc_string_modules=None):
    """Returns the names that docstrings mention as "@@name" on a line."""
    module = sys.modules[module_name]
    return [name for told in doc_string_modules or [module]
            for name in re.findall(r"^@@(\w+)$", told.__doc__ or "", re.M)
            if hasattr(module, name)]


def remove_undocumented(module_name, allowed_exception_list=None,
                        doc_string_modules=None):
    """Removes public names that are neither documented nor allowed.

    For documented names see `make_all`.
    """
    module = sys.modules[module_name]
    kept = {*make_all(module_name, doc_string_modules),
            *(allowed_exception_list or ())}
    for name in set(dir(module)) - kept:
        if not name.startswith("_"):
            delattr(module, name)


def __getattr__(name):
    found = getattr(inspect, name, None)
    if found is None:
        raise AttributeError(name)
    if name.startswith("is") or name in ("getfile", "getsource"):
        return lambda obj: found(unwrap(obj)[1])
    return found
