"""What tells of Python's functions: `tensorflow.python.util.tf_inspect`,
`tf_decorator`, `tf_contextlib` and `all_util`, with the standard library's own
names."""

import collections
import contextlib
import functools
import inspect
import re
import sys

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
contextmanager = contextlib.contextmanager


def make_decorator(target, decorator_func, decorator_name=None,
                   decorator_doc="", decorator_argspec=None):
    """`decorator_func`, told to stand before `target`."""
    functools.update_wrapper(decorator_func, target)
    decorator_func._tf_decorator = target
    if decorator_doc:
        decorator_func.__doc__ = decorator_doc
    if decorator_argspec is not None:
        decorator_func._argspec = decorator_argspec
    return decorator_func


def unwrap(maybe_decorator):
    """(the decorators of `make_decorator` around a function, the outermost
    first, the function): others say themselves what their parameters are."""
    decorators = []
    while hasattr(maybe_decorator, "_tf_decorator"):
        decorators.append(maybe_decorator)
        maybe_decorator = maybe_decorator._tf_decorator
    return decorators, maybe_decorator


def getfullargspec(obj):
    """The parameters of what can be called, without its decorators."""
    decorators, target = unwrap(obj)
    for decorator in decorators:
        if hasattr(decorator, "_argspec"):
            return decorator._argspec
    if isinstance(target, type):
        target = target.__init__
    elif callable(target) and not inspect.isroutine(target) and (
            not isinstance(target, functools.partial)):
        target = type(target).__call__
    return inspect.getfullargspec(target)


def getargspec(obj):
    """`getfullargspec`, of what has no parameters by keyword alone."""
    return ArgSpec(*getfullargspec(obj)[:4])


def fn_args(fn):
    """The names of the parameters that a function, an object that can be
    called, or a partial is still to be given."""
    if isinstance(fn, functools.partial):
        return tuple(a for a in fn_args(fn.func)[len(fn.args):]
                     if a not in fn.keywords)
    if inspect.ismethod(getattr(fn, "__call__", None)):
        fn = fn.__call__
    args = getfullargspec(fn).args
    return tuple(args[1:] if inspect.ismethod(unwrap(fn)[1]) else args)


def has_kwargs(fn):
    """Whether a function takes keywords of any name."""
    if isinstance(fn, functools.partial):
        fn = fn.func
    elif inspect.ismethod(getattr(fn, "__call__", None)):
        fn = fn.__call__
    elif not callable(fn):
        raise TypeError(f"fn should be a function-like object, but is of type "
                        f"{type(fn)}.")
    return getfullargspec(fn).varkw is not None


def make_all(module_name, doc_string_modules=None):
    """The names of a module that its text, or that of others, has as "@@name"
    on a line."""
    module = sys.modules[module_name]
    return [name for told in doc_string_modules or [module]
            for name in re.findall(r"^@@(\w+)$", told.__doc__ or "", re.M)
            if hasattr(module, name)]


def remove_undocumented(module_name, allowed_exception_list=None,
                        doc_string_modules=None):
    """Takes the public names away from a module that are not documented (see
    `make_all`) or allowed."""
    module = sys.modules[module_name]
    kept = {*make_all(module_name, doc_string_modules),
            *(allowed_exception_list or ())}
    for name in set(dir(module)) - kept:
        if not name.startswith("_"):
            delattr(module, name)


def __getattr__(name):
    if hasattr(inspect, name):
        return getattr(inspect, name)
    raise AttributeError(name)
