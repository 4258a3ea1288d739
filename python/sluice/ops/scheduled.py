"""Bodies that are placed when they run, on one of several devices."""

from sluice import _core
from sluice.framework import conversion, nest
from sluice.ops.control_flow import _flatten, _leaf, _pack, _value_of


def scheduled(devices, inputs, body, policy="cost", ns_per_row=0.0,
              bytes_per_s=12e9, rows_per_part=0, home="/device:CPU:0",
              name=None):
    """Runs `body` on one of `devices`, chosen when its inputs are there.

    Each iteration and each call decides anew, by the sizes of the inputs, the
    load of the devices and the parameters that they hold. `body` is called once
    per device, while the graph is built, and must build the same each time.
    Variables that it makes with `get_variable` are kept at `home`, one for all
    devices (use `variable_scope(..., reuse=AUTO_REUSE)` in the body); a device
    fetches the values that it needs and keeps them as long as they fit.
    Gradients are computed on the device that was chosen.

    Args:
      devices: the names of the devices.
      inputs: a tensor, or a nested structure of tensors.
      body: a function of `inputs` (of its elements, if it is a list or tuple)
        that returns a tensor or a nested structure of tensors.
      policy: "cost", "least_loaded", "locality", or one that was registered in
        C++.
      ns_per_row: how long the body takes for a row of the first input; 0:
        measured as it runs.
      bytes_per_s: of a copy to a device.
      rows_per_part: if not 0, inputs of more rows are cut along axis 0 into
        parts, which are placed one by one.
      home: where decisions are made and results arrive.
      name: a name for the operations.

    Returns:
      What `body` returns.

    Raises:
      TypeError: if `body` is not callable.
      ValueError: if there is no device, or `body` does not return the same
        types each time.
    """
    if not callable(body):
        raise TypeError("'body' must be callable.")
    inputs = nest.map_structure(conversion.convert_to_tensor, inputs)
    several = isinstance(inputs, (list, tuple))
    structures = []

    def build(values):
        given = nest.pack_sequence_as(inputs, values)
        result = nest.map_structure(
            _leaf, body(*given) if several else body(given))
        if not structures:
            structures.append(result)
        else:
            nest.assert_same_structure(structures[0], result)
        return [_value_of(part) for part in _flatten(result)]

    results = _core.scheduled(
        [str(d) for d in devices], nest.flatten(inputs), build, policy,
        ns_per_row, bytes_per_s, rows_per_part, home, name or "scheduled")
    return _pack(structures[0], results)
