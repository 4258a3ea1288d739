"""Hyperparameters: `tf.contrib.training.HParams`."""

import json
import numbers
import re

# Matches assignments such as "a=1", "b=[1,2]" and "c[1]=2".
_PARAMETER = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"((?P<value>[^,\[]*)|\[(?P<values>[^\]]*)\])($|,\s*)")


def _truth(text):
    known = {"true": True, "True": True, "false": False, "False": False}
    return known[text] if text in known else bool(int(text))


def parse_values(values, type_map, ignore_unknown=False):
    """Parses a string of values.

    "a=1,b=[1,2],c[1]=2" gives {"a": 1, "b": [1, 2], "c": {1: 2}}.

    Args:
      values: the string.
      type_map: {name: type}; for lists, the type of the items.
      ignore_unknown: whether to ignore names that are not in `type_map`.

    Raises:
      ValueError: if a value cannot be parsed, or is set twice.
    """
    found, at = {}, 0
    while at < len(values):
        match = _PARAMETER.match(values, at)
        if match is None:
            raise ValueError(f"Malformed hyperparameter value: {values[at:]}")
        at, name = match.end(), match["name"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        index = match["index"] and int(match["index"])
        text = match["values" if match["value"] is None else "value"]
        kind = type_map[name]
        read = _truth if kind is bool else kind
        try:
            value = (read(text) if match["value"] is not None else
                     [read(item) for item in re.split("[ ,]", text) if item])
        except ValueError:
            raise ValueError(f"Could not parse hparam '{name}' of type "
                             f"'{kind.__name__}' with value '{text}' in "
                             f"{values}") from None
        if index is None:
            again = name in found
            found[name] = value
        elif match["value"] is None:
            raise ValueError("Assignment of a list to a list index.")
        else:
            items = found.setdefault(name, {})
            again = not isinstance(items, dict) or index in items
            if not again:
                items[index] = value
        if again:
            raise ValueError(f"Multiple assignments to variable '{name}' in "
                             f"{values}")
    return found


def _cast(name, kind, value):
    """Casts a value to a parameter's type; the only change is int to float."""
    if issubclass(kind, type(None)):  # The initial value was None.
        return value
    needed = next((known for known in (
        (str, bytes), bool, numbers.Integral, numbers.Number)
        if issubclass(kind, known)), object)
    if not isinstance(value, needed) or (
            isinstance(value, bool) != issubclass(kind, bool)):
        raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' "
                         f"from value {value!r}")
    return kind(value)


class HParams:
    """Hyperparameters of a model, as attributes: `HParams(rate=0.1).rate`.

    Each keeps its initial type.
    """

    def __init__(self, hparam_def=None, model_structure=None, **kwargs):
        if hparam_def is not None:
            raise ValueError("hparam_def: expected None, since there are no "
                             "HParamDef messages")
        self._hparam_types = {}  # {name: (type, whether it is a list)}.
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        """Adds a parameter."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        several = isinstance(value, (list, tuple))
        if several and not value:
            raise ValueError(f"Multi-valued hyperparameters cannot be empty: "
                             f"{name}")
        self._hparam_types[name] = (type(value[0] if several else value),
                                    several)
        setattr(self, name, value)

    def set_hparam(self, name, value):
        """Sets a parameter.

        Raises ValueError if the type differs, KeyError if there is no such
        parameter.
        """
        kind, several = self._hparam_types[name]
        if isinstance(value, list) != several:
            raise ValueError(
                f"Must pass a list for multi-valued parameter: {name}."
                if several else
                f"Must not pass a list for single-valued parameter: {name}")
        setattr(self, name, [_cast(name, kind, v) for v in value] if several
                else _cast(name, kind, value))

    def del_hparam(self, name):
        """Removes a parameter if it exists."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values):
        """Sets parameters from a string: "rate=0.1,layers=[10,20]"."""
        return self.override_from_dict(parse_values(values, {
            name: kind for name, (kind, _) in self._hparam_types.items()}))

    def override_from_dict(self, values_dict):
        """Sets parameters from a dict."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def to_json(self, indent=None, separators=None, sort_keys=False):
        """Returns the parameters as JSON, without callables."""
        def plain(value):
            if isinstance(value, dict):
                return {k: plain(v) for k, v in value.items()
                        if not callable(v)}
            if isinstance(value, list):
                return [plain(v) for v in value if not callable(v)]
            return value
        return json.dumps(plain(self.values()), indent=indent,
                          separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json):
        """Sets parameters from JSON: see `to_json`."""
        return self.override_from_dict(json.loads(values_json))

    def values(self):
        """Returns {name: value}."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key, default=None):
        """Returns a parameter, or the default if it does not exist.

        Raises ValueError if the type of the default differs.
        """
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, several = self._hparam_types[key]
            wrong = (f"Hparam '{key}' of type "
                     f"'{f'list<{kind}>' if several else kind}' is "
                     f"incompatible with default={default}")
            if isinstance(default, list) != several:
                raise ValueError(wrong)
            try:
                for value in default if several else [default]:
                    _cast(key, kind, value)
            except ValueError as e:
                raise ValueError(f"{wrong}. {e}") from None
        return getattr(self, key)

    def set_model_structure(self, model_structure):
        """Stores the structure of the model."""
        self._model_structure = model_structure

    def get_model_structure(self):
        """Returns the argument of `set_model_structure`."""
        return self._model_structure

    def __contains__(self, key):
        return key in self._hparam_types

    def __str__(self):
        return str(sorted(self.values().items()))

    def __repr__(self):
        return f"{type(self).__name__}({self})"
