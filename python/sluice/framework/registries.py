"""What TensorFlow's programs register of types of operations: statistics, and
shapes, which ours know; and how their own collections become data."""

import sys


class Registry:
    """Functions or classes by name; each is there once."""

    def __init__(self, name):
        self._name, self._found = name, {}

    def register(self, candidate, name=None):
        """Takes one, by its own name unless another is given.

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
        """The names."""
        return list(self._found)

    def lookup(self, name):
        """What is registered by a name; LookupError if nothing is."""
        if name not in self._found:
            raise LookupError(f"{self._name} registry has no entry for: {name}")
        return self._found[name][0]


class OpStats:
    """A number that says something of an operation: its "flops"."""

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


_statistics = {}  # Functions, by op and statistic.


class RegisterStatistics:
    """A decorator that registers fn(graph, NodeDef), which gives an OpStats,
    for a type of operations and a statistic."""

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
    """What is registered of a node; an OpStats without a value if nothing."""
    f = _statistics.get((node.op, statistic_type))
    return OpStats(statistic_type) if f is None else f(graph, node)


class RegisterShape:
    """Nothing: ops know their results' shapes."""

    def __init__(self, op_type):
        self._op_type = op_type

    def __call__(self, f):
        return f


_conversions = {}  # (type of messages, to one, from one), by collection.


def register_proto_function(collection_name, proto_type=None, to_proto=None,
                            from_proto=None):
    """How what a collection holds becomes a message and is made of one.

    Args:
      to_proto: a function of (value, export_scope) that gives a message, or
        None.
      from_proto: a function of (message, import_scope).
    """
    for what, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if function is not None and not callable(function):
            raise TypeError(f"{what} must be callable.")
    if collection_name in _conversions:
        raise KeyError(f"Registering two proto_functions with name "
                       f"{collection_name!r}!")
    _conversions[collection_name] = proto_type, to_proto, from_proto


def _conversion(collection_name):
    return _conversions.get(collection_name, (None, None, None))


def get_collection_proto_type(collection_name):
    """The type of messages of a collection; None if nothing is registered."""
    return _conversion(collection_name)[0]


def get_to_proto_function(collection_name):
    """The function of (value, export_scope), or None."""
    return _conversion(collection_name)[1]


def get_from_proto_function(collection_name):
    """The function of (message, import_scope), or None."""
    return _conversion(collection_name)[2]
