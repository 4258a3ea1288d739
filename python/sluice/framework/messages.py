"""Protocol buffers without their library: messages that programs build, look
at, store and print, in their binary form and as text."""

import re
import struct

from sluice.framework import dtypes, wire

# The values of the enumeration of types, by name.
DATA_TYPES = {"DT_INVALID": 0}
for _number in range(1, 24):
    _name = {1: "float", 2: "double", 19: "half"}.get(
        _number, dtypes.as_dtype(_number).name).upper()
    DATA_TYPES["DT_" + _name] = _number
    DATA_TYPES[f"DT_{_name}_REF"] = _number + 100
_TYPE_NAMES = {number: name for name, number in DATA_TYPES.items()}

_DEFAULTS = {"int": 0, "unsigned": 0, "enum": 0, "bool": False, "float": 0.0,
             "double": 0.0, "string": "", "bytes": b""}
_FIXED = {"float": "f", "double": "d"}
_VARINTS = ("int", "unsigned", "bool", "enum")


class _Field:
    """A field of a message: its number, its kind (a name, or the class of a
    message), and whether it is a list or a map of such."""

    def __init__(self, name, number, kind, repeated, mapped):
        self.name, self.number, self.kind = name, number, kind
        self.repeated, self.mapped = repeated, mapped
        self.is_message = not isinstance(kind, str)


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
            return value if kind == "double" else struct.unpack(
                "f", struct.pack("f", value))[0]
        if kind == "enum" and isinstance(value, str):
            return DATA_TYPES[value]
        value = int(value) if isinstance(value, dtypes.DType) else (
            value.__index__())
        if kind == "unsigned":
            value %= 1 << 64  # (As it is read.)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TypeError(f"{given!r} has type {type(given).__name__}, but "
                        f"expected one of: {kind}") from None
    return bool(value) if kind == "bool" else value


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
        value = _checked(self._field, value)
        if self._field.is_message:
            self.add().CopyFrom(value)
        else:
            super().append(value)

    def extend(self, values):
        """Adds several values; of messages copies."""
        for value in list(values):
            self.append(value)

    MergeFrom = extend


class _Map(dict):
    """The values of a field that is a map; messages are made as they are asked
    for."""

    def __init__(self, field):
        super().__init__()
        self._field = field

    def __missing__(self, key):
        if not self._field.is_message:
            raise KeyError(key)
        self[key] = made = self._field.kind()
        return made

    get_or_create = __missing__


class Message:
    """A message: its fields are attributes, with their defaults until they are
    set. Classes of messages say their fields in `_declare`."""

    _fields = {}  # By name.
    _by_number = {}
    _oneofs = {}  # {name: names of fields of which at most one is set}

    _lazy = False  # Whether the binary form is read when it is looked into.

    def __init__(self, **fields):
        self.__dict__.update(_read={}, _unknown=[], _set=False, _pending=None)
        for name, value in fields.items():
            field = self._field_of(name)
            if value is None:
                continue
            if field.mapped:
                for key, v in value.items():
                    if field.is_message:
                        getattr(self, name)[key].CopyFrom(v)
                    else:
                        getattr(self, name)[key] = v
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
        [kind], that of a map with strings as keys {str: kind}."""
        cls._fields, cls._oneofs = {}, oneofs
        for name, number, kind in fields:
            repeated, mapped = isinstance(kind, list), isinstance(kind, dict)
            if repeated:
                kind, = kind
            elif mapped:
                kind = kind[str]
            cls._fields[name] = _Field(name, number, kind, repeated, mapped)
        cls._by_number = {f.number: f for f in cls._fields.values()}

    @classmethod
    def _field_of(cls, name):
        field = cls._fields.get(name)
        if field is None:
            raise ValueError(f'Protocol message {cls.__name__} has no "{name}" '
                             f'field.')
        return field

    @property
    def _values(self):
        """What fields were set to, by name."""
        data = self._pending
        if data is not None:
            self.__dict__["_pending"] = None
            self._merge(data)
        return self._read

    def __getattr__(self, name):
        field = self._fields.get(name)
        if field is None:
            raise AttributeError(f"'{type(self).__name__}' object has no "
                                 f"attribute '{name}'")
        values = self._values
        if name in values:
            return values[name]
        if field.mapped:
            made = values[name] = _Map(field)
        elif field.repeated:
            made = values[name] = _List(field)
        elif field.is_message:
            made = values[name] = field.kind()
        else:
            return _DEFAULTS[field.kind]
        return made

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
        for names in self._oneofs.values():
            if name in names:
                for other in names:
                    if other != name:
                        self._values.pop(other, None)

    # ---- What is set.

    def _has(self, field):
        value = self._values.get(field.name)
        if value is None:
            return False
        if field.repeated or field.mapped:
            return bool(value)
        if field.is_message:
            return value._set or value._filled()
        return value != _DEFAULTS[field.kind] or any(
            field.name in names for names in self._oneofs.values())

    def _filled(self):
        return bool(self._unknown or self._pending) or any(
            self._has(f) for f in self._fields.values())

    def ListFields(self):
        """What is set: [(field, value)]."""
        return [(f, self._values[f.name]) for f in sorted(
            self._fields.values(), key=lambda f: f.number) if self._has(f)]

    def HasField(self, name):
        """Whether a field is set, or one of a group of fields."""
        if name in self._oneofs:
            return self.WhichOneof(name) is not None
        return self._has(self._field_of(name))

    def WhichOneof(self, name):
        """Which field of a group is set, or None."""
        if name not in self._oneofs:
            raise ValueError(f'Protocol message has no oneof "{name}" field.')
        return next((n for n in self._oneofs[name]
                     if self._has(self._fields[n])), None)

    def ClearField(self, name):
        """Gives a field (or a group) its default back."""
        for n in self._oneofs.get(name, (name,)):
            self._values.pop(self._field_of(n).name, None)

    def Clear(self):
        """Gives all fields their defaults back."""
        self.__dict__.update(_read={}, _unknown=[], _pending=None)

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
        if self._pending is not None:
            return self._pending
        out = []
        for field, value in self.ListFields():
            if field.mapped:
                for key in sorted(value):
                    out.append(wire.field(field.number, wire.field(
                        1, key.encode()) + _binary(field, value[key], 2)))
            elif field.repeated and field.kind in _FIXED:
                out.append(wire.field(field.number, struct.pack(
                    f"<{len(value)}{_FIXED[field.kind]}", *value)))
            elif field.repeated and field.kind in _VARINTS:
                out.append(wire.field(field.number, wire.packed(value)))
            elif field.repeated:
                out.extend(_binary(field, v, field.number) for v in value)
            else:
                out.append(_binary(field, value, field.number))
        out.extend(wire.number(n, v) if isinstance(v, int) else wire.field(n, v)
                   for n, v in self._unknown)
        return b"".join(out)

    SerializePartialToString = SerializeToString

    def ParseFromString(self, data):
        """Takes over the binary form; how many bytes there were."""
        self.Clear()
        return self.MergeFromString(data)

    def MergeFromString(self, data):
        """Adds what the binary form says; how many bytes there were."""
        data = bytes(data)
        if self._lazy and not self._filled():
            self.__dict__["_pending"] = data
        else:
            self._merge(data)
        return len(data)

    def _merge(self, data):
        for number, value in wire.read(data):
            field = self._by_number.get(number)
            if field is None:
                self._unknown.append((number, value))
            elif field.mapped:
                entry = dict(wire.read(value))
                key, item = entry.get(1, b"").decode(), entry.get(2, b"")
                there = getattr(self, field.name)
                if field.is_message:
                    there[key].ParseFromString(item)
                else:
                    there[key] = _checked(field, item)
            elif field.is_message:
                there = getattr(self, field.name)
                part = there.add() if field.repeated else there
                part.MergeFromString(value)
                part.SetInParent()
                self._only(field.name)
            elif field.repeated and field.kind not in ("string", "bytes"):
                getattr(self, field.name).extend(
                    wire.unpacked(value, _FIXED.get(field.kind, "")))
            else:
                if field.kind in _FIXED or isinstance(value, int):
                    value = wire.unpacked(value, _FIXED.get(field.kind, ""))[0]
                if field.repeated:
                    getattr(self, field.name).append(value)
                else:
                    setattr(self, field.name, value)

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
        return type(other) is type(self) and (
            self.SerializeToString() == other.SerializeToString())

    __hash__ = None

    # ---- As text.

    def __str__(self):
        return "".join(line + "\n" for line in _lines(self))

    __repr__ = __str__


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


# ---- Text --------------------------------------------------------------------

_ESCAPES = {"n": 10, "r": 13, "t": 9, '"': 34, "'": 39, "\\": 92, "a": 7,
            "b": 8, "f": 12, "v": 11, "?": 63}
_ESCAPED = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}


def _quoted(data):
    if isinstance(data, str):
        data = data.encode()
    return '"' + "".join(
        _ESCAPED.get(c) or (chr(c) if 32 <= c < 127 else f"\\{c:03o}")
        for c in data) + '"'


def _shown(field, value):
    if field.kind in ("string", "bytes"):
        return _quoted(value)
    if field.kind == "bool":
        return "true" if value else "false"
    if field.kind == "enum":
        return _TYPE_NAMES.get(value, str(value))
    if field.kind == "float":  # The shortest that is read as the same.
        return next((t for t in (f"{value:.{n}g}" for n in range(6, 9))
                     if struct.pack("f", float(t)) == struct.pack("f", value)),
                    repr(value)) if value != int(value or 0) else repr(value)
    return repr(value)


def _lines(message):
    for field, value in message.ListFields():
        if field.mapped:
            for key in sorted(value):
                yield field.name + " {"
                yield f"  key: {_quoted(key)}"
                if field.is_message:
                    yield "  value {"
                    yield from ("    " + line for line in _lines(value[key]))
                    yield "  }"
                else:
                    yield f"  value: {_shown(field, value[key])}"
                yield "}"
            continue
        for item in value if field.repeated else (value,):
            if field.is_message:
                yield field.name + " {"
                yield from ("  " + line for line in _lines(item))
                yield "}"
            else:
                yield f"{field.name}: {_shown(field, item)}"


class ParseError(ValueError):
    """Text that is no message of its class."""


_TOKEN = re.compile(
    r"(?:\s|#[^\n]*)*(?:(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')|"
    r"(?P<word>[-+.\w]+)|(?P<sign>[{}<>\[\]:,;])|(?P<end>\Z))", re.S)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.S)


def _tokens(text):
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        line = text.count("\n", 0, at) + 1
        if found is None:
            raise ParseError(f"{line}: expected text of a message, got "
                             f"{text[at:at + 20]!r}")
        yield found.lastgroup, found[found.lastgroup], line
        if found.lastgroup == "end":
            return
        at = found.end()


def _unquoted(text):
    def code(m):
        return chr(int(m[1], 8) if m[1] else int(m[2], 16) if m[2] else
                   _ESCAPES.get(m[3], ord(m[3])))

    # (Characters of one byte stand for that byte.)
    return b"".join(c.encode("latin-1" if ord(c) < 256 else "utf-8")
                    for c in _ESCAPE.sub(code, text[1:-1]))


class _Reader:

    def __init__(self, text):
        self._tokens = _tokens(text)
        self._next()

    def _next(self):
        self.kind, self.text, self.line = next(self._tokens)

    def _fail(self, expected):
        raise ParseError(f"{self.line}: expected {expected}, got "
                         f"{self.text or 'the end'!r}")

    def _take(self, *signs):
        if self.text not in signs or self.kind != "sign":
            return False
        self._next()
        return True

    def fields(self, message, end=None):
        """The fields up to a sign, or the end."""
        while self.kind != "end" and not (end and self.text == end):
            if self.kind != "word":
                self._fail("the name of a field")
            name = self.text
            field = message._fields.get(name)
            if field is None:
                raise ParseError(
                    f'{self.line}: Message type "{type(message).__name__}" has '
                    f'no field named "{name}".')
            self._next()
            colon = self._take(":")
            if field.repeated and self._take("["):
                while not self._take("]"):
                    self._value(message, field)
                    self._take(",")
            elif colon or field.is_message or field.mapped:
                self._value(message, field)
            else:
                self._fail("':'")
            self._take(",", ";")
        if end and not self._take(end):
            self._fail(f"'{end}'")

    def _value(self, message, field):
        if field.mapped:
            entry = _entry_class(field)()
            self._message(entry)
            there = getattr(message, field.name)
            if field.is_message:
                there[entry.key].CopyFrom(entry.value)
            else:
                there[entry.key] = entry.value
        elif field.is_message:
            there = getattr(message, field.name)
            part = there.add() if field.repeated else there
            part.SetInParent()
            message._only(field.name)
            self._message(part)
        elif field.repeated:
            getattr(message, field.name).append(self._scalar(field))
        else:
            setattr(message, field.name, self._scalar(field))

    def _message(self, message):
        close = "}" if self.text == "{" else ">"
        if not self._take("{", "<"):
            self._fail("'{'")
        self.fields(message, close)

    def _scalar(self, field):
        kind, text = self.kind, self.text
        if field.kind in ("string", "bytes"):
            if kind != "string":
                self._fail("a quoted string")
            data = b""
            while self.kind == "string":
                data += _unquoted(self.text)
                self._next()
            return data
        if kind != "word":
            self._fail("a value")
        try:
            if field.kind == "bool":
                value = {"true": True, "t": True, "1": True, "false": False,
                         "f": False, "0": False}[text.lower()]
            elif field.kind == "enum":
                value = DATA_TYPES[text] if text in DATA_TYPES else int(text)
            elif field.kind in _FIXED:
                value = float(text.rstrip("fF") if text[-1:] in "fF" and
                              text.lower()[-3:] != "inf" else text)
            else:
                value = int(text, 0)
        except (KeyError, ValueError):
            self._fail(f"a value of kind {field.kind}")
        self._next()
        return value


def _entry_class(field):
    """What an entry of a map looks like as text."""
    made = type("Entry", (Message,), {})
    made._declare(("key", 1, "string"), ("value", 2, field.kind))
    return made


def Merge(text, message, *unused_args, **unused_kwargs):
    """Adds what a text says to a message; ParseError says where it is wrong."""
    if isinstance(text, bytes):
        text = text.decode()
    _Reader(text).fields(message)
    return message


def Parse(text, message, *unused_args, **unused_kwargs):
    """`Merge`."""
    return Merge(text, message)


def MessageToString(message, *unused_args, **unused_kwargs):
    """The text of a message."""
    return str(message)
