"""Bodies that are placed when they run, on one of several devices."""

import contextlib
import operator

from sluice import _core
from sluice.framework import conversion, nest
from sluice.ops import variable_scope
from sluice.ops.control_flow import _flatten, _leaf, _pack, _value_of


def scheduled(devices, inputs, body, policy="cost", ns_per_row=0.0,
              bytes_per_s=12e9, rows_per_part=0, home="/device:CPU:0",
              name=None):
    """Runs `body` on one of `devices`, chosen when its inputs are there.

    Each iteration and each call decides anew, by the sizes of the inputs, the
    load of the devices and the parameters that they hold. `body` is called once
    per device, while the graph is built, and must build the same each time.
    Variables that it makes with `get_variable`, or in layers, are kept at
    `home`, one for all devices; a device fetches the values that it needs and
    keeps them as long as they fit. (Make other variables before.)
    Gradients are computed on the device that was chosen.

    Args:
      devices: the names of the devices.
      inputs: a tensor, or a nested structure of tensors.
      body: a function of `inputs` (of its elements, if it is a list or tuple)
        that returns a tensor or a nested structure of tensors.
      policy: "cost", "least_loaded", "locality", or one that was registered in
        C++, in the process of the task of `home`.
      ns_per_row: how long the body takes for a row of the first input; 0:
        measured as it runs.
      bytes_per_s: of a copy to a device.
      rows_per_part: if not 0, inputs of more rows are cut along axis 0 into
        parts, which are placed one by one.
      home: a CPU, where decisions are made and results arrive.
      name: a name for the operations.

    Returns:
      What `body` returns.

    Raises:
      TypeError: if `body` is not callable, or an argument has the wrong type.
      ValueError: if there is no device, or `body` does not return the same
        types each time, or makes variables anew each time.
    """
    if not callable(body):
        raise TypeError("'body' must be callable.")
    if isinstance(devices, str):
        raise TypeError(f"'devices' must be a list of names, got '{devices}'.")
    for what, value in (("policy", policy), ("home", home)):
        if not isinstance(value, str):
            raise TypeError(f"'{what}' must be a str, got {value!r}.")
    try:
        rows_per_part = operator.index(rows_per_part)
    except TypeError:
        raise TypeError(f"'rows_per_part' must be an integer, got "
                        f"{rows_per_part!r}.") from None
    if not 0 <= rows_per_part < 2**31:
        raise ValueError(f"'rows_per_part' must be from 0 to {2**31 - 1}, got "
                         f"{rows_per_part}.")
    inputs = nest.map_structure(conversion.convert_to_tensor, inputs)
    several = isinstance(inputs, (list, tuple))
    structures = []
    scopes = _SharedScopes()

    def build(values):
        given = nest.pack_sequence_as(inputs, values)
        with scopes.build():
            result = nest.map_structure(
                _leaf, body(*given) if several else body(given))
        if not structures:
            structures.append(result)
        else:
            nest.assert_same_structure(structures[0], result)
        return [_value_of(part) for part in _flatten(result)]

    results = _core.scheduled(
        [str(d) for d in devices], nest.flatten(inputs), build, policy,
        float(ns_per_row), float(bytes_per_s), rows_per_part, home,
        name or "scheduled")
    return _pack(structures[0], results)


class _SharedScopes:
    """Variable scopes of a body that is built several times.

    Default names are the same each time, and variables are made the first time
    and found later.
    """

    def __init__(self):
        self._scopes = variable_scope._store().scopes
        self._before = dict(self._scopes.counts)
        self._after = None

    @contextlib.contextmanager
    def build(self):
        if self._after is None:
            yield
            self._after = dict(self._scopes.counts)
            return
        self._scopes.counts = dict(self._before)
        try:
            with variable_scope.variable_scope(
                    self._scopes.scope, reuse=True,
                    auxiliary_name_scope=False):
                yield
        finally:
            self._scopes.counts = dict(self._after)
