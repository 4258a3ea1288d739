"""Element types of tensors: `float32`, `int64`, ..., and `as_dtype`."""

import sys

from sluice import _core


class DType:
    """The type of the elements of a tensor. There is one object per type.

    A reference type (`float32_ref`) is the type of an output that carries a
    variable instead of a value.
    """

    __slots__ = ("_number", "_name", "__weakref__")

    def __new__(cls, number, name=None):
        if name is None:
            return as_dtype(number)
        made = super().__new__(cls)
        made._number, made._name = number, name
        return made

    @property
    def name(self):
        """The name, such as "float32"."""
        return self._name

    @property
    def as_datatype_enum(self):
        """The number of the type in GraphDefs."""
        return self._number

    @property
    def base_dtype(self):
        """The type without reference: itself unless it is a reference type."""
        return _BY_NUMBER[self._number % 100]

    @property
    def real_dtype(self):
        """The type of the real and imaginary parts; for others, the type."""
        return next((part for part, whole in COMPLEX.items()
                     if whole is self.base_dtype), self)

    @property
    def _is_ref_dtype(self):
        return self._number > 100

    @property
    def _as_ref(self):
        return _BY_NUMBER[self._number % 100 + 100]

    @property
    def as_numpy_dtype(self):
        """The numpy scalar type, such as `numpy.float32`."""
        return _numpy_type(self._number % 100)

    @property
    def is_bool(self):
        """Whether it is `bool`."""
        return self.base_dtype is bool_

    @property
    def is_floating(self):
        """Whether it is a floating-point type."""
        return self._number % 100 in _FLOATS

    @property
    def is_complex(self):
        """Whether it is a complex type."""
        return self._number % 100 in _COMPLEX

    @property
    def is_integer(self):
        """Whether it is an integer type that is not quantized."""
        return self._number % 100 in _INTEGERS

    @property
    def is_quantized(self):
        """Whether it is a quantized type."""
        return self._name.startswith("q")

    @property
    def is_unsigned(self):
        """Whether it is an unsigned integer type."""
        return self._name.startswith("uint")

    @property
    def is_numpy_compatible(self):
        """Whether numpy arrays can hold it."""
        return self.base_dtype not in (resource, variant)

    @property
    def size(self):
        """The bytes per element; 1 for strings, resources and variants."""
        return _SIZES[self._number % 100]

    @property
    def min(self):
        """The smallest finite value."""
        return self.limits[0]

    @property
    def max(self):
        """The largest finite value."""
        return self.limits[1]

    @property
    def limits(self):
        """(smallest, largest) finite value."""
        import numpy as np
        if self.is_bool:
            return False, True
        if self.is_integer:
            info = np.iinfo(self.as_numpy_dtype)
        elif self.is_floating and self.base_dtype is not bfloat16:
            info = np.finfo(self.as_numpy_dtype)
        elif self.base_dtype is bfloat16:
            return -3.3895313892515355e38, 3.3895313892515355e38
        else:
            raise TypeError(f"Cannot find minimum value of {self}.")
        return info.min, info.max

    def is_compatible_with(self, other):
        """Returns whether a value of type `other` is accepted as this type.

        A reference type is accepted as its base type.
        """
        other = as_dtype(other)
        return self in (other, other.base_dtype)

    def __int__(self):
        return self._number

    def __eq__(self, other):
        if other is self:
            return True
        if other is None:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self._number

    def __repr__(self):
        return "tf." + self._name

    def __str__(self):
        return f"<dtype: '{self._name}'>"

    def __reduce__(self):
        return as_dtype, (self._name,)


_NAMES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8",
    7: "string", 8: "complex64", 9: "int64", 10: "bool", 11: "qint8",
    12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16",
    17: "uint16", 18: "complex128", 19: "float16", 20: "resource",
    21: "variant", 22: "uint32", 23: "uint64"}
_TYPE_TO_STRING = {**_NAMES, **{number + 100: name + "_ref"
                               for number, name in _NAMES.items()}}
# The digits of a name are the number of bits.
_SIZES = {number: int("".join(filter(str.isdigit, name)) or 8) // 8
          for number, name in _NAMES.items()}


def _numbers_of(*beginnings):
    return frozenset(number for number, name in _NAMES.items()
                     if name.startswith(beginnings))


_FLOATS, _INTEGERS = _numbers_of("float", "bfloat"), _numbers_of("int", "uint")
_COMPLEX = _numbers_of("complex")
# The names in C and in messages.
OLD_NAMES = {1: "float", 2: "double", 19: "half"}

_BY_NUMBER = {number: DType(number, name) for number, name in _NAMES.items()}
_BY_NUMBER.update({number + 100: DType(number + 100, name + "_ref")
                   for number, name in _NAMES.items()})
_KNOWN = {t.name: t for t in _BY_NUMBER.values()}
_KNOWN.update(_BY_NUMBER)
for _number, _name in OLD_NAMES.items():
    _KNOWN[_name] = _BY_NUMBER[_number]
    _KNOWN[_name + "_ref"] = _BY_NUMBER[_number + 100]
_KNOWN.update({float: _BY_NUMBER[1], int: _BY_NUMBER[3], bool: _BY_NUMBER[10],
               complex: _BY_NUMBER[18], str: _BY_NUMBER[7],
               bytes: _BY_NUMBER[7]})

float32, float64, int32, uint8, int16, int8, string, complex64, int64 = (
    _BY_NUMBER[i] for i in range(1, 10))
qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128 = (
    _BY_NUMBER[i] for i in range(11, 19))
float16, resource, variant, uint32, uint64 = (
    _BY_NUMBER[i] for i in range(19, 24))
half, double = float16, float64
globals().update({t.name: t for n, t in _BY_NUMBER.items() if n > 100})
# Complex types by the type of their parts.
COMPLEX = {float32: complex64, float64: complex128}
# `bool` would shadow the builtin within this module.
bool_ = _BY_NUMBER[10]


def _numpy_type(number):
    import numpy as np
    if number == 7 or number in (20, 21):
        return np.object_
    # numpy has no bfloat16: its values are represented as float32.
    name = {"bfloat16": "float32", "bool": "bool_"}.get(_NAMES[number],
                                                        _NAMES[number])
    return getattr(np, name.removeprefix("q"))


def as_dtype(type_value):
    """Converts a DType, a name, a number or a numpy type to a DType.

    Raises:
      TypeError: if there is no such type.
    """
    if isinstance(type_value, DType):
        return type_value
    try:
        known = _KNOWN.get(type_value)
    except TypeError:  # The value is not hashable.
        known = None
    if known is not None:
        return known
    numpy = sys.modules.get("numpy")
    if numpy is not None and type_value is not None:
        try:
            array_type = numpy.dtype(type_value)
        except TypeError:
            array_type = None
        if array_type is not None:
            if array_type.kind in "SUO":
                return string
            known = _KNOWN.get(array_type.name)
            if known is not None:
                return known
    near = isinstance(type_value, str) and ", ".join(_core.nearest_names(
        type_value, [name for name in _KNOWN if isinstance(name, str)]))
    raise TypeError(
        f"Cannot convert value {type_value!r} to a TensorFlow DType."
        f"{f' (nearest: {near})' if near else ''}")
