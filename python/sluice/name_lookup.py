"""How names of the package are found (names.py has them all).

Modules are loaded when a name of theirs is first asked for; a name that is not
there is answered with the nearest one.
"""

import functools
import importlib
import inspect
import types

from sluice import _core
from sluice.absences import MODULE_NEEDS, NEEDS
from sluice.names import _GROUPS, _MODULES, PUBLIC


class _Namespace(types.ModuleType):
    """Names that are found when they are asked for: `math`, `nn`."""

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
    """A public name of what is defined somewhere."""
    return {entry: f"{group}.{name}".lstrip(".")
            for group, names in (*_GROUPS.items(), ("", PUBLIC))
            for name, entry in names.items()}


@functools.lru_cache(maxsize=None)
def _telling(function):
    """A function of Python's that tells the nearest name when it is called with
    a keyword that it does not know."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def told(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except TypeError as e:
            if e.__traceback__.tb_next is not None:  # Of what it calls.
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
    told.__module__ = "sluice.compat.v1"  # (Where pickle finds it.)
    return told


def _tell_of_class(cls):
    """Has a class of Python's tell it, too, when it is called."""
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
                             f"needs {needs}, which are not there yet")
    else:
        near = ", ".join(_core.nearest_names(name, sorted(names)))
        raise AttributeError(
            f"module '{where}' has no attribute '{name}'"
            f"{f' (nearest: {near})' if near else ''}")
    cache[name] = value
    return value


def shown():
    """What `sl.<TAB>` shows: the public names, and namespaces of which there is
    something."""
    return set(PUBLIC) | {key for key in (*_GROUPS, *_MODULES)
                          if "." not in key and key not in MODULE_NEEDS}


def lookup(where, name, cache):
    """What `name` is in the module `where`, whose globals are `cache`.

    Raises:
      AttributeError: with the nearest name, if it is nothing.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return _find(where, name, "", PUBLIC, cache)


@functools.lru_cache(maxsize=None)
def _all_names():
    """The public names of all namespaces; of two that are alike, the first."""
    found = dict(PUBLIC)
    for group in ("nn", "train", "math", "linalg", "random", "image", "strings",
                  "sparse", "losses", "metrics", "layers", "debugging", "io",
                  "sets", "nn.rnn_cell", "contrib.layers"):
        found = {**_GROUPS[group], **found}
    return found


@functools.lru_cache(maxsize=None)
def _ops_by_name():
    """The ops by TensorFlow's names of their functions, without underscores."""
    return {op.lower(): op for op in _core.op_names()}


def anywhere(where, name, group=None, modules=(), raw=False):
    """What a name is for insides of TensorFlow: in the namespace `group`, in
    PUBLIC, in the first of our `modules` that has it, in any namespace, or as
    an op's function ("mat_mul", "_mat_mul"). With `raw` the last comes first.

    Raises:
      AttributeError: with the nearest name, if it is nothing.
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
