"""Registries of objects by name and of operation statistics."""

import sys


class Registry:
    """A registry of objects by name. Each name is registered once."""

    def __init__(self, name):
        self._name, self._found = name, {}

    def register(self, candidate, name=None):
        """Registers an object, by default under its `__name__`.

        Raises:
          KeyError: if the name is taken.
        """
        name = name or candidate.__name__
        if name in self._found:
            code, line = self._found[name][1:]
            raise KeyError(
                f"Registering two {self._name} with name {name!r}! (Previous "
                f"registration was in {code.co_name} {code.co_filename}:"
                f"{line})")
        caller = sys._getframe(1)
        self._found[name] = candidate, caller.f_code, caller.f_lineno

    def list(self):
        """Returns the names."""
        return list(self._found)

    def lookup(self, name):
        """Returns the object of a name; LookupError if there is none."""
        if name not in self._found:
            raise LookupError(f"{self._name} registry has no entry for: {name}")
        return self._found[name][0]


class OpStats:
    """A statistic of an operation, such as its "flops"."""

    def __init__(self, statistic_type, value=None):
        self.statistic_type, self.value = statistic_type, value

    def __iadd__(self, other):
        if other.statistic_type != self.statistic_type:
            raise ValueError(f"Can't add an OpStat of type "
                             f"{self.statistic_type} to one of "
                             f"{other.statistic_type}.")
        if self.value is None:
            self.value = other.value
        elif other.value is not None:
            self.value += other.value
        return self


_statistics = {}  # Functions by op and statistic.


class RegisterStatistics:
    """Decorates a function to register it for an op and a statistic.

    The function is fn(graph, NodeDef) and returns an OpStats.
    """

    def __init__(self, op_type, statistic_type):
        for what, value in (("op_type", op_type),
                            ("statistic_type", statistic_type)):
            if not isinstance(value, str):
                raise TypeError(f"{what} must be a string.")
        if "," in op_type:
            raise TypeError("op_type must not contain a comma.")
        self._key = op_type, statistic_type

    def __call__(self, f):
        if self._key in _statistics:
            raise KeyError(f"Registering two statistics "
                           f"{','.join(self._key)!r}")
        _statistics[self._key] = f
        return f


def get_stats_for_node_def(graph, node, statistic_type):
    """Returns the OpStats of a node, without value if none is registered."""
    f = _statistics.get((node.op, statistic_type))
    return OpStats(statistic_type) if f is None else f(graph, node)


class RegisterShape:
    """A decorator without effect: ops have shape functions in C++."""

    def __init__(self, op_type):
        self._op_type = op_type

    def __call__(self, f):
        return f
