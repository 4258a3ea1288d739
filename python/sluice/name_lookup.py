"""Lookup of the package's names, which are listed in names.py.

Modules are imported on first use of one of their names. For an unknown name,
the error suggests the nearest ones.
"""

import functools
import importlib
import inspect
import types

from sluice import _core
from sluice.absences import MODULE_NEEDS, NEEDS
from sluice.names import _GROUPS, _MODULES, PUBLIC


class _Namespace(types.ModuleType):
    """A namespace with lazy lookup, such as `math` or `nn`."""

    def __init__(self, name, key):
        super().__init__(name, f"The names of {key}.")
        self._key = key

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _find(self.__name__, name, self._key + ".", _GROUPS[self._key],
                     self.__dict__)

    def __dir__(self):
        within = self._key + "."
        return sorted(set(_GROUPS[self._key]) | {
            k[len(within):] for k in (*_GROUPS, *_MODULES)
            if k.startswith(within) and "." not in k[len(within):]})

    def __repr__(self):
        return f"<namespace {self.__name__}>"


@functools.lru_cache(maxsize=None)
def _places():
    """Returns {(module, name): public name}."""
    return {entry: f"{group}.{name}".lstrip(".")
            for group, names in (*_GROUPS.items(), ("", PUBLIC))
            for name, entry in names.items()}


@functools.lru_cache(maxsize=None)
def _telling(function):
    """Wraps a function so that it suggests names for unknown keywords."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def told(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except TypeError as e:
            if e.__traceback__.tb_next is not None:  # Raised in the body.
                raise
            known = list(signature.parameters)
            near = ", ".join(near for k in kwargs if k not in known
                             for near in _core.nearest_names(k, known))
            words = str(e).replace(
                f"{function.__qualname__}()",
                f"{type(args[0]).__name__ if of_class else told.__name__}()")
            raise TypeError(f"{words}{f' (nearest: {near})' if near else ''}"
                            ) from None
    of_class = function.__name__ == "__init__"
    told.__signature__ = signature
    told.__module__ = "sluice.compat.v1"  # Required for pickling.
    return told


def _tell_of_class(cls):
    """Makes the constructor of a class suggest names for unknown keywords."""
    init = cls.__init__
    if isinstance(init, types.FunctionType) and (
            (init.__module__ or "").startswith("sluice.")) and (
                "told" not in init.__code__.co_name):
        cls.__init__ = _telling(init)
        cls.__init__.__module__ = init.__module__


def _find(where, name, prefix, names, cache):
    key = prefix + name
    entry = names.get(name)
    if entry is not None:
        value = getattr(importlib.import_module(entry[0]), entry[1])
        if isinstance(value, types.FunctionType):
            value = _telling(value)
            value.__qualname__ = _places()[entry]
            value.__name__ = value.__qualname__.rpartition(".")[2]
        elif isinstance(value, type):
            _tell_of_class(value)
        elif isinstance(value, _core.OpFunction):
            value.__qualname__ = _places()[entry]
            value.__name__ = value.__qualname__.rpartition(".")[2]
            value.__module__ = "sluice.compat.v1"
            value._set_called(value.__name__)
    elif key in _GROUPS:
        value = _Namespace(f"{where}.{name}", key)
    elif key in _MODULES:
        value = importlib.import_module(_MODULES[key])
    elif key in NEEDS or prefix[:-1] in MODULE_NEEDS:
        needs = NEEDS.get(key) or MODULE_NEEDS[prefix[:-1]]
        raise AttributeError(f"module '{where}' has no attribute '{name}': it "
                             f"needs {needs}, which are not implemented yet")
    else:
        near = ", ".join(_core.nearest_names(name, sorted(names)))
        raise AttributeError(
            f"module '{where}' has no attribute '{name}'"
            f"{f' (nearest: {near})' if near else ''}")
    cache[name] = value
    return value


def shown():
    """Returns the names for `dir`: public names and implemented namespaces."""
    return set(PUBLIC) | {key for key in (*_GROUPS, *_MODULES)
                          if "." not in key and key not in MODULE_NEEDS}


def lookup(where, name, cache):
    """Returns the value of `name` in the module `where` with globals `cache`.

    Raises:
      AttributeError: if there is none, with the nearest name.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return _find(where, name, "", PUBLIC, cache)


@functools.lru_cache(maxsize=None)
def _all_names():
    """Returns the names of all namespaces; earlier ones take precedence."""
    found = dict(PUBLIC)
    for group in ("nn", "train", "math", "linalg", "random", "image", "strings",
                  "sparse", "losses", "metrics", "layers", "debugging", "io",
                  "sets", "nn.rnn_cell", "contrib.layers"):
        found = {**_GROUPS[group], **found}
    return found


@functools.lru_cache(maxsize=None)
def _ops_by_name():
    """Returns {TensorFlow function name without underscores: op}."""
    return {op.lower(): op for op in _core.op_names()}


def anywhere(where, name, group=None, modules=(), raw=False):
    """Looks up a name for TensorFlow's internal modules.

    It searches the namespace `group`, PUBLIC, the modules in order, all
    namespaces, and then op functions ("mat_mul", "_mat_mul"). With `raw`, op
    functions come first.

    Raises:
      AttributeError: if there is none, with the nearest name.
    """
    op = _ops_by_name().get(name.replace("_", "").lower())
    if raw and op is not None:
        return getattr(importlib.import_module("sluice.raw_ops"), op)
    names = _all_names()
    if group is not None and name in _GROUPS[group]:
        names = _GROUPS[group]
    elif name not in PUBLIC:
        for module in modules:
            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError:
                continue
            if hasattr(found, name):
                return getattr(found, name)
    if name not in names and op is not None:
        return getattr(importlib.import_module("sluice.raw_ops"), op)
    return _find(where, name, "", names, {})
