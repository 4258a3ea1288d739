"""Messages as text: how they are shown, and read."""

import re

from sluice.framework.messages import _checked, _FIXED, Message, _single


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
        return field.enumeration._names.get(value, str(value))
    if field.kind == "float":  # The shortest that is read as the same.
        value = next((short for short in (float(f"{value:.{n}g}")
                                          for n in range(6, 9))
                      if _single(short) == value), value)
    return repr(value)


def _lines(message):
    for field, value in message.ListFields():
        if field.mapped:
            for key in sorted(value):
                yield field.name + " {"
                yield f"  key: {_shown(field.key, key)}"
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
            try:
                return _checked(field, data)
            except TypeError:
                self._fail("a string in UTF-8")
        if kind != "word":
            self._fail("a value")
        try:
            if field.kind == "bool":
                value = {"true": True, "t": True, "1": True, "false": False,
                         "f": False, "0": False}[text.lower()]
            elif field.kind == "enum":
                names = field.enumeration._values
                value = names[text] if text in names else int(text)
            elif field.kind in _FIXED:
                value = float(text.rstrip("fF") if text[-1:] in "fF" and
                              text.lower()[-3:] != "inf" else text)
            else:
                value = int(text, 0)
            value = _checked(field, value)
        except (KeyError, ValueError):
            self._fail(f"a value of kind {field.kind}")
        self._next()
        return value


def _entry_class(field):
    """What an entry of a map looks like as text."""
    made = type("Entry", (Message,), {})
    made._declare(("key", 1, field.key.kind), ("value", 2, (
        field.enumeration if field.kind == "enum" else field.kind)))
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
    return "".join(line + "\n" for line in _lines(message))
