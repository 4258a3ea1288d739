"""Device names."""

import re


class DeviceSpec:
    """A device name as components, each of which may be unspecified."""

    _FIELDS = ("job", "replica", "task", "device_type", "device_index")

    def __init__(self, job=None, replica=None, task=None, device_type=None,
                 device_index=None):
        self.job = None if job is None else str(job)
        self.replica = None if replica is None else int(replica)
        self.task = None if task is None else int(task)
        self.device_type = device_type
        self.device_index = None if device_index is None else int(device_index)

    def parse_from_string(self, spec):
        """Replaces all components by those of a name; returns itself."""
        self.__init__()
        for part in spec.split("/"):
            if not part:
                continue
            named = re.fullmatch(r"(job|replica|task):(.+)", part)
            device = re.fullmatch(r"(?:device:)?([A-Za-z_]+):(\d+|\*)", part)
            if named:
                key, value = named.groups()
                setattr(self, key, value if key == "job" else int(value))
            elif device:
                kind, index = device.groups()
                if not part.startswith("device:") and kind.lower() not in (
                        "cpu", "gpu"):
                    raise ValueError(f"Unknown attribute: '{kind}' in "
                                     f"'{spec}'")
                if self.device_type is not None:
                    raise ValueError(f"Cannot specify multiple device types: "
                                     f"'{spec}'")
                self.device_type = None if kind == "*" else (
                    kind.upper() if kind in ("cpu", "gpu") else kind)
                self.device_index = None if index == "*" else int(index)
            else:
                raise ValueError(f"Unknown attribute: '{part}' in '{spec}'")
        return self

    @classmethod
    def from_string(cls, spec):
        """Parses a name such as "/job:ps/task:0/device:CPU:0"."""
        return cls().parse_from_string(spec)

    def to_string(self):
        """Returns the name."""
        text = "".join(f"/{key}:{getattr(self, key)}" for key in (
            "job", "replica", "task") if getattr(self, key) is not None)
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            text += f"/device:{self.device_type}:{index}"
        return text

    def merge_from(self, dev):
        """Overwrites its components with those that `dev` specifies."""
        for field in self._FIELDS:
            value = getattr(dev, field)
            if value is not None:
                setattr(self, field, value)

    def make_merged_spec(self, dev):
        """Returns a copy with the components of `dev` where it has some."""
        made = DeviceSpec(*(getattr(self, f) for f in self._FIELDS))
        made.merge_from(dev)
        return made

    def replace(self, **kwargs):
        """Returns a copy with some components replaced."""
        parts = {f: getattr(self, f) for f in self._FIELDS}
        return DeviceSpec(**{**parts, **kwargs})

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and (
            self.to_string() == other.to_string())

    def __hash__(self):
        return hash(self.to_string())

    def __repr__(self):
        return f"<DeviceSpec '{self.to_string()}'>"
