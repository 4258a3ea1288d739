"""Protocol buffers without their library: messages that programs build, look
at, store and print, in their binary form (as text: message_text.py)."""

import math
import struct
import threading

from sluice import _core
from sluice.framework import dtypes, wire
from sluice.framework.wire import DecodeError

# The values of the enumeration of types, by name.
DATA_TYPES = {"DT_INVALID": 0}
for _number in range(1, 24):
    _name = dtypes.OLD_NAMES.get(
        _number, dtypes.as_dtype(_number).name).upper()
    DATA_TYPES["DT_" + _name] = _number
    DATA_TYPES[f"DT_{_name}_REF"] = _number + 100


class Enumeration:
    """An enumeration: numbers by name, and names by number."""

    def __init__(self, values):
        self._values = values
        self._names = {number: name for name, number in values.items()}

    def Name(self, number):
        """The name of a number."""
        if number not in self._names:
            raise ValueError(f"expected the number of a name, got {number}")
        return self._names[number]

    def Value(self, name):
        """The number of a name."""
        if name not in self._values:
            raise ValueError(f"expected the name of a number, got {name!r}")
        return self._values[name]

    def keys(self):
        """The names."""
        return list(self._values)

    def values(self):
        """The numbers."""
        return list(self._values.values())

    def items(self):
        """(name, number)."""
        return list(self._values.items())


DataType = Enumeration(DATA_TYPES)


def enumerate_in(cls, name, **values):
    """An enumeration of a class of messages, whose numbers are its attributes,
    too."""
    made = Enumeration(values)
    setattr(cls, name, made)
    for key, number in values.items():
        setattr(cls, key, number)
    return made

# The least and the greatest number of a kind.
_BOUNDS = {"int32": (-1 << 31, (1 << 31) - 1), "uint32": (0, (1 << 32) - 1),
           "int64": (-1 << 63, (1 << 63) - 1), "uint64": (0, (1 << 64) - 1),
           "enum": (-1 << 31, (1 << 31) - 1)}
_DEFAULTS = {"bool": False, "float": 0.0, "double": 0.0, "string": "",
             "bytes": b"", **dict.fromkeys(_BOUNDS, 0)}
_FIXED = {"float": "f", "double": "d"}
_VARINTS = ("bool", *_BOUNDS)


class _Field:
    """A field of a message: its number, its kind (a name, or the class of a
    message), and whether it is a list or, by a kind of keys, a map of such."""

    def __init__(self, name, number, kind, repeated=False, key=None):
        self.enumeration = DataType
        if isinstance(kind, Enumeration):
            self.enumeration, kind = kind, "enum"
        self.name, self.number, self.kind = name, number, kind
        self.repeated, self.mapped = repeated, key is not None
        self.key = _Field("key", 1, key) if self.mapped else None
        self.is_message = not isinstance(kind, str)
        # How it is stored (lists of numbers may be bytes, too).
        self.stored = wire.BYTES if self.mapped else {
            "float": wire.FIXED_32, "double": wire.FIXED_64,
            **dict.fromkeys(_VARINTS, wire.NUMBER)}.get(kind, wire.BYTES)


def _single(value):
    """A number in single precision."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _read_number(kind, value):
    """The number of a kind whose last bits were stored."""
    if kind == "bool":
        return value != 0
    low, high = _BOUNDS[kind]
    value &= high - low
    return value + 2 * low if value > high else value


def _checked(field, value):
    """A single value as the field keeps it."""
    kind, given = field.kind, value
    if field.is_message:
        if not isinstance(value, kind):
            raise TypeError(f"{field.name}: expected a {kind.__name__}, got "
                            f"{value!r}")
        return value
    try:
        if kind == "string":
            return value.decode() if isinstance(value, bytes) else "" + value
        if kind == "bytes":
            return value.encode() if isinstance(value, str) else bytes(
                memoryview(value))
        if kind in _FIXED:
            value = float(value)
            return value if kind == "double" else _single(value)
        if kind == "enum" and isinstance(value, str):
            return field.enumeration.Value(value)
        value = int(value) if isinstance(value, dtypes.DType) else (
            value.__index__())
    except (AttributeError, TypeError, ValueError):
        raise TypeError(f"{given!r} has type {type(given).__name__}, but "
                        f"expected one of: {kind}") from None
    if kind == "bool":
        return bool(value)
    low, high = _BOUNDS[kind]
    if not low <= value <= high:
        raise ValueError(f"{field.name}: expected a value of {kind}, got "
                         f"{value}")
    return value


def _kept(field, value):
    """An element of a list or a map as it keeps it; of a message a copy."""
    value = _checked(field, value)
    if field.is_message:
        made = field.kind()
        made.CopyFrom(value)
        return made
    return value


class _List(list):
    """The values of a repeated field."""

    def __init__(self, field, values=()):
        super().__init__()
        self._field = field
        self.extend(values)

    def add(self, **fields):
        """A new message at the end."""
        made = self._field.kind(**fields)
        super().append(made)
        return made

    def append(self, value):
        """Adds a value; of a message a copy."""
        super().append(_kept(self._field, value))

    def insert(self, at, value):
        """Adds a value before another."""
        super().insert(at, _kept(self._field, value))

    def extend(self, values):
        """Adds several values; of messages copies."""
        super().extend([_kept(self._field, value) for value in values])

    MergeFrom = extend

    def __iadd__(self, values):
        self.extend(values)
        return self

    def __setitem__(self, at, value):
        super().__setitem__(at, [_kept(self._field, v) for v in value]
                            if isinstance(at, slice) else
                            _kept(self._field, value))


class _Map(dict):
    """The values of a field that is a map; messages are made as they are asked
    for."""

    def __init__(self, field):
        super().__init__()
        self._field = field

    def __missing__(self, key):
        if not self._field.is_message:
            raise KeyError(key)
        return super().setdefault(_checked(self._field.key, key),
                                  self._field.kind())

    def get_or_create(self, key):
        """The message of a key."""
        return self[key]

    def __setitem__(self, key, value):
        super().__setitem__(_checked(self._field.key, key),
                            _kept(self._field, value))

    def setdefault(self, key, default=None):
        """The value of a key, which is the default from now on if there is
        none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args, **values):
        """Sets several values."""
        for key, value in dict(*args, **values).items():
            self[key] = value

    MergeFrom = update

    def __ior__(self, values):
        self.update(values)
        return self


# (Held while what is pending of a message is looked into.)
_LOOKING = threading.RLock()


class Message:
    """A message: its fields are attributes, with their defaults until they are
    set. Classes of messages say their fields in `_declare`."""

    _fields = {}  # By name.
    _by_number = {}
    _group_of = {}  # The oneof that a field is in, by name.
    _oneofs = {}  # {name: names of fields of which at most one is set}

    _uncompared = ()  # Numbers of fields that equal messages may differ in.
    _lazy = False  # Whether the binary form is read when it is looked into.

    def __init__(self, **fields):
        self.__dict__.update(_read={}, _unknown=[], _set=False, _pending=None,
                             _last={})
        for name, value in fields.items():
            field = self._field_of(name)
            if value is None:
                continue
            if field.mapped:
                getattr(self, name).update(value)
            elif field.repeated:
                getattr(self, name).extend(value)
            elif field.is_message:
                getattr(self, name).CopyFrom(value)
                getattr(self, name).SetInParent()
            else:
                setattr(self, name, value)

    @classmethod
    def _declare(cls, *fields, **oneofs):
        """Takes the declarations (name, number, kind): the kind of a list is
        [kind], that of a map {kind of keys: kind}."""
        cls._fields, cls._oneofs = {}, oneofs
        cls._group_of = {n: group for group, names in oneofs.items()
                         for n in names}
        for name, number, kind in fields:
            repeated, key = isinstance(kind, list), None
            if repeated:
                kind, = kind
            elif isinstance(kind, dict):
                (key, kind), = kind.items()
            cls._fields[name] = _Field(name, number, kind, repeated, key)
        cls._by_number = {f.number: f for f in cls._fields.values()}

    @classmethod
    def _field_of(cls, name):
        field = cls._fields.get(name)
        if field is None:
            near = ", ".join(_core.nearest_names(name, list(cls._fields)))
            raise ValueError(f'Protocol message {cls.__name__} has no "{name}" '
                             f'field{f" (nearest: {near})" if near else ""}.')
        return field

    @property
    def _values(self):
        """What fields were set to, by name."""
        if self._pending is not None:
            with _LOOKING:
                data = self._pending
                if data is not None:
                    made = type(self)()
                    made._merge(data)
                    self.__dict__.update(_read=made._read, _last=made._last,
                                         _unknown=made._unknown)
                    self.__dict__["_pending"] = None  # (Now others may look.)
        return self._read

    def __getattr__(self, name):
        field = self._fields.get(name)
        if field is None:
            near = name[0] != "_" and ", ".join(_core.nearest_names(
                name, list(self._fields)))
            raise AttributeError(f"'{type(self).__name__}' object has no "
                                 f"attribute '{name}'"
                                 f"{f' (nearest: {near})' if near else ''}")
        values = self._values
        if name in self._group_of:
            self._member(self._group_of[name])
        if name in values:
            return values[name]
        if field.mapped:
            made = _Map(field)
        elif field.repeated:
            made = _List(field)
        elif field.is_message:
            made = field.kind()
        else:
            return _DEFAULTS[field.kind]
        return values.setdefault(name, made)

    def __setattr__(self, name, value):
        field = self._fields.get(name)
        if field is None:
            raise AttributeError(f"Assignment not allowed (no field \"{name}\" "
                                 f"in protocol message object).")
        if field.repeated or field.mapped or field.is_message:
            raise AttributeError(f'Assignment not allowed to repeated or '
                                 f'composite field "{name}" in protocol '
                                 f'message object.')
        self._values[name] = _checked(field, value)
        self._only(name)

    def _only(self, name):
        """Forgets what was set in place of a field."""
        group = self._group_of.get(name)
        if group is not None:
            for other in self._oneofs[group]:
                if other != name:
                    self._values.pop(other, None)
            self._last[group] = name

    def _member(self, group):
        """Which field of a oneof is set, or None. Messages are changed without
        their parent: of several that hold something, one that did not when it
        was last asked for is the last that was set, and stays."""
        names, last = self._oneofs[group], self._last.get(group)
        there = [n for n in tuple(self._values)
                 if n in names and self._holds(self._fields[n])]
        if not there:
            return None
        if there != [last]:
            last = [n for n in there if n != last][-1]
            self._only(last)
        return last

    # ---- What is set.

    def _holds(self, field):
        value = self._values.get(field.name)
        if value is None:
            return False
        if field.repeated or field.mapped:
            return bool(value)
        if field.is_message:
            return value._set or value._filled()
        return (value != _DEFAULTS[field.kind] or
                field.name in self._group_of)

    def _has(self, field):
        group = self._group_of.get(field.name)
        if group is not None:
            return self._member(group) == field.name
        return self._holds(field)

    def _filled(self):
        return bool(self._pending or self._unknown) or any(
            self._holds(self._fields[n]) for n in tuple(self._values))

    def ListFields(self):
        """What is set: [(field, value)]."""
        fields = sorted((self._fields[n] for n in tuple(self._values)),
                        key=lambda f: f.number)
        return [(f, self._values[f.name]) for f in fields if self._has(f)]

    def HasField(self, name):
        """Whether a field is set, or one of a group of fields."""
        if name in self._oneofs:
            return self.WhichOneof(name) is not None
        return self._has(self._field_of(name))

    def WhichOneof(self, name):
        """Which field of a group is set, or None."""
        if name not in self._oneofs:
            raise ValueError(f'Protocol message has no oneof "{name}" field.')
        return self._member(name)

    def ClearField(self, name):
        """Gives a field (or a group) its default back."""
        for n in self._oneofs.get(name, (name,)):
            self._values.pop(self._field_of(n).name, None)

    def Clear(self):
        """Gives all fields their defaults back."""
        self.__dict__.update(_read={}, _unknown=[], _pending=None, _last={})

    def SetInParent(self):
        """Declares it set, though it may be empty."""
        self.__dict__["_set"] = True

    def CopyFrom(self, other):
        """Becomes a copy of a message of the same class."""
        if other is self:
            return
        if not isinstance(other, type(self)):
            raise TypeError(f"Parameter to CopyFrom() must be instance of same "
                            f"class: expected {type(self).__name__} got "
                            f"{type(other).__name__}.")
        self.ParseFromString(other.SerializeToString())
        self.SetInParent()

    def MergeFrom(self, other):
        """Takes over what is set in another; lists grow."""
        self.MergeFromString(other.SerializeToString())

    def __deepcopy__(self, memo):
        made = type(self)()
        made.CopyFrom(self)
        return made

    # ---- The binary form.

    def SerializeToString(self, deterministic=None):
        """The binary form."""
        pending = self._pending
        if pending is not None:
            return pending
        out = []
        for field, value in self.ListFields():
            if field.mapped:
                for key in sorted(value):
                    out.append(wire.field(
                        field.number, _binary(field.key, key, 1) +
                        _binary(field, value[key], 2)))
            elif field.repeated and field.kind in _FIXED:
                out.append(wire.field(field.number, struct.pack(
                    f"<{len(value)}{_FIXED[field.kind]}", *value)))
            elif field.repeated and field.kind in _VARINTS:
                out.append(wire.field(field.number, wire.packed(value)))
            elif field.repeated:
                out.extend(_binary(field, v, field.number) for v in value)
            else:
                out.append(_binary(field, value, field.number))
        out.extend(wire.raw(*unknown) for unknown in self._unknown)
        return b"".join(out)

    SerializePartialToString = SerializeToString

    def ParseFromString(self, data):
        """Takes over the binary form; how many bytes there were."""
        self.Clear()
        return self.MergeFromString(data)

    def MergeFromString(self, data):
        """Adds what the binary form says; how many bytes there were.

        Raises:
          DecodeError: if it is none.
        """
        if type(data) is not bytes:
            data = bytes(memoryview(data))
        if self._lazy and not self._filled():
            for _ in wire.read(data):  # (What is wrong is told at once.)
                pass
            self.__dict__["_pending"] = data
        else:
            self._merge(data)
        return len(data)

    def _merge(self, data):
        self._values  # (What is pending comes before.)
        try:
            for number, stored, value in wire.read(data):
                field = self._by_number.get(number)
                if field is None or stored != field.stored and not (
                        field.repeated and stored == wire.BYTES):
                    self._unknown.append((number, stored, value))
                else:
                    self._merge_field(field, value)
        except DecodeError:
            raise
        except (AttributeError, IndexError, RecursionError, TypeError,
                ValueError, struct.error) as e:
            raise DecodeError(f"{type(self).__name__}: {e}") from None

    def _merge_field(self, field, value):
        if not (field.repeated or field.mapped or field.is_message):
            setattr(self, field.name, _from_wire(field, value))
            return
        there = getattr(self, field.name)
        if field.mapped:
            entry = {n: v for n, _, v in wire.read(value)}
            key = _from_wire(field.key, entry.get(1))
            if field.is_message:
                there[key].ParseFromString(entry.get(2, b""))
            else:
                there[key] = _from_wire(field, entry.get(2))
        elif field.is_message:
            part = there.add() if field.repeated else there
            part.MergeFromString(value)
            part.SetInParent()
            self._only(field.name)
        elif field.stored == wire.BYTES:
            there.append(value)
        elif field.kind in _FIXED:
            there.extend(wire.unpacked(value, _FIXED[field.kind]))
        else:
            there.extend([_read_number(field.kind, v)
                          for v in wire.unpacked(value, "")])

    @classmethod
    def FromString(cls, data):
        """The message of a binary form."""
        made = cls()
        made.ParseFromString(data)
        return made

    def ByteSize(self):
        """The size of the binary form."""
        return len(self.SerializeToString())

    def IsInitialized(self):
        """True: no field must be set."""
        return True

    def __reduce__(self):
        return type(self).FromString, (self.SerializeToString(),)

    def __eq__(self, other):
        if type(other) is not type(self):
            return False
        pending = self._pending
        return pending is not None and pending == other._pending or (
            self.ListFields() == other.ListFields() and
            self._compared() == other._compared())

    def _compared(self):
        """The unknown fields that count where messages are compared."""
        return sorted((field for field in self._unknown
                       if field[0] not in self._uncompared), key=repr)

    __hash__ = None

    # ---- As text.

    def __str__(self):
        from sluice.framework import message_text  # (Not needed before.)
        return message_text.MessageToString(self)

    __repr__ = __str__


def _from_wire(field, value):
    """A single value, as it was read; by default if it was not there."""
    if value is None:
        return _DEFAULTS[field.kind]
    if field.kind in _FIXED:
        value, = wire.unpacked(value, _FIXED[field.kind])
    elif field.kind in _VARINTS:
        value = _read_number(field.kind, value)
    return value


def _binary(field, value, number):
    """A single value, as the field of a number."""
    if field.is_message:
        return wire.field(number, value.SerializeToString())
    if field.kind in _FIXED:
        return wire.fixed(number, _FIXED[field.kind], value)
    if field.kind == "string":
        return wire.field(number, value.encode())
    if field.kind == "bytes":
        return wire.field(number, value)
    return wire.number(number, int(value))
