"""Types of values, including composite ones: `TypeSpec`."""

from sluice.framework import dtypes, nest, tensor_shape
from sluice.framework.conversion import convert_to_tensor


def _key(value):
    """Returns a hashable key for a part of a spec's state."""
    if isinstance(value, dict):
        return tuple((_key(k), _key(value[k])) for k in sorted(value))
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, list):
        return list, tuple(map(_key, value))
    if hasattr(value, "__array_interface__") and hasattr(value, "tolist"):
        return "array", value.shape, _key(value.tolist())
    try:
        hash(value)
    except TypeError:
        raise ValueError(f"Unsupported value type {type(value)} in a "
                         f"TypeSpec's state") from None
    return value


def _same_kind(a, b):
    return type(a) is type(b) or nest._same_named_tuples(a, b)


def _compatible(a, b):
    """Returns whether two parts of specs' states are compatible."""
    if isinstance(a, TypeSpec):
        return a.is_compatible_with(b)
    if not _same_kind(a, b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_compatible, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_compatible(a[k], b[k]) for k in a)
    if isinstance(a, (tensor_shape.TensorShape, dtypes.DType)):
        return a.is_compatible_with(b)
    return _key(a) == _key(b)


def _common(a, b):
    """Returns the most specific state compatible with two parts of states.

    Raises ValueError if there is none.
    """
    if not _same_kind(a, b):
        raise ValueError(f"Types are not compatible: {a!r} vs {b!r}")
    if isinstance(a, (list, tuple, dict)):
        nest.assert_same_structure(a, b)
        return nest._like(a, [_common(x, y) for x, y in zip(
            nest._children(a), nest._children(b))])
    if isinstance(a, tensor_shape.TensorShape):
        return a.most_specific_compatible_shape(b)
    if isinstance(a, TypeSpec):
        return a.most_specific_compatible_type(b)
    if _key(a) != _key(b):
        raise ValueError(f"Types are not compatible: {a!r} vs {b!r}")
    return a


class TypeSpec:
    """The type of a value that is a tensor or consists of several tensors.

    A derived class defines:

      value_type: the class of the values.
      _serialize(): a tuple of the constructor's arguments: shapes, dtypes,
        numbers, strings, specs, and tuples and dicts of these.
      _component_specs: a structure of the specs of a value's tensors.
      _to_components(value): the same structure of the value's tensors.
      _from_components(components): the value of such a structure.

    Comparison, hashing, copying and compatibility follow from these.
    """

    __slots__ = ("__weakref__",)

    @property
    def value_type(self):
        """The class of the values."""
        raise NotImplementedError(f"{type(self).__name__}.value_type")

    def _serialize(self):
        raise NotImplementedError(f"{type(self).__name__}._serialize()")

    @classmethod
    def _deserialize(cls, serialization):
        return cls(*serialization)

    @property
    def _component_specs(self):
        raise NotImplementedError(f"{type(self).__name__}._component_specs()")

    def _to_components(self, value):
        raise NotImplementedError(f"{type(self).__name__}._to_components()")

    def _from_components(self, components):
        raise NotImplementedError(f"{type(self).__name__}._from_components()")

    def is_compatible_with(self, spec_or_value):
        """Returns whether it is compatible with a spec or a value."""
        if not isinstance(spec_or_value, TypeSpec):
            spec_or_value = type_spec_from_value(spec_or_value)
        return type(self) is type(spec_or_value) and _compatible(
            self._serialize(), spec_or_value._serialize())

    def most_specific_compatible_type(self, other):
        """Returns the most specific spec compatible with both specs.

        Raises ValueError if there is none.
        """
        if type(self) is not type(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and "
                             f"{other}")
        try:
            return self._deserialize(_common(self._serialize(),
                                             other._serialize()))
        except (TypeError, ValueError):
            raise ValueError(f"No TypeSpec is compatible with both {self} and "
                             f"{other}") from None

    def most_specific_common_supertype(self, others):
        """Returns the most specific spec compatible with all, or None."""
        made = self
        try:
            for other in others:
                made = made.most_specific_compatible_type(other)
        except ValueError:
            return None
        return made

    def is_subtype_of(self, other):
        """Returns whether all values of this type are of the other type."""
        return self.most_specific_common_supertype([other]) == other

    @property
    def _flat_tensor_specs(self):
        return nest.flatten(self._component_specs, expand_composites=True)

    def _to_tensor_list(self, value):
        return nest.flatten(self._to_components(value), expand_composites=True)

    def _from_tensor_list(self, tensor_list):
        expected = self._flat_tensor_specs
        if len(expected) != len(tensor_list):
            raise ValueError(f"Cannot create a {self.value_type.__name__} from "
                             f"the tensor list because the TypeSpec expects "
                             f"{len(expected)} items, but the provided tensor "
                             f"list has {len(tensor_list)} items.")
        for i, (spec, value) in enumerate(zip(expected, tensor_list)):
            if not spec.is_compatible_with(value):
                raise ValueError(f"Cannot create a {self.value_type.__name__} "
                                 f"from the tensor list because item {i} "
                                 f"({value!r}) is incompatible with the "
                                 f"expected TypeSpec {spec}.")
        return self._from_compatible_tensor_list(tensor_list)

    def _from_compatible_tensor_list(self, tensor_list):
        return self._from_components(nest.pack_sequence_as(
            self._component_specs, tensor_list, expand_composites=True))

    def __eq__(self, other):
        return type(other) is type(self) and (
            _key(self._serialize()) == _key(other._serialize()))

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self), _key(self._serialize())))

    def __reduce__(self):
        return type(self), self._serialize()

    def __repr__(self):
        return f"{type(self).__name__}{self._serialize()!r}"


def _spec_parts(spec):
    components = spec._component_specs
    return [spec] if components is spec else nest.flatten(components, True)


nest._register_composite(
    TypeSpec, _spec_parts,
    lambda spec, parts: spec._from_components(nest.pack_sequence_as(
        spec._component_specs, parts, spec._component_specs is not spec)))


class BatchableTypeSpec(TypeSpec):
    """A TypeSpec of values that can be batched and unbatched.

    A derived class defines `_batch` and `_unbatch`.
    """

    __slots__ = ()

    def _batch(self, batch_size):
        raise NotImplementedError(f"{type(self).__name__}._batch")

    def _unbatch(self):
        raise NotImplementedError(f"{type(self).__name__}._unbatch")


_converters = []  # (class, function, whether it applies to subclasses).


def register_type_spec_from_value_converter(type_object, converter_fn,
                                            allow_subclass=False):
    """Registers converter_fn(value), which returns the spec of a value.

    The most recent registration for a class wins.
    """
    _converters.append((type_object, converter_fn, allow_subclass))


def _spec_of(value):
    """Returns the spec of a value that has one without conversion, or None."""
    spec = getattr(value, "_type_spec", None)
    if isinstance(spec, TypeSpec):
        return spec
    for kind, convert, derived in reversed(_converters):
        if type(value) is kind or derived and isinstance(value, kind):
            return convert(value)
    if isinstance(value, list) and value:
        specs = [_spec_of(v) for v in value]
        if isinstance(specs[0], BatchableTypeSpec) and None not in specs:
            common = specs[0].most_specific_common_supertype(specs[1:])
            if common is not None:
                return common._batch(len(specs))
    return None


def type_spec_from_value(value):
    """Returns the spec of a value.

    It is a tensor, a sparse tensor, IndexedSlices, a TensorArray, or a value
    that can be converted to a tensor.

    Raises:
      TypeError: if there is no such spec.
    """
    spec = _spec_of(value)
    if spec is None:
        try:
            spec = _spec_of(convert_to_tensor(value))
        except (TypeError, ValueError):
            pass
    if spec is None:
        raise TypeError(f"Could not build a TypeSpec for {value!r} of "
                        f"unsupported type {type(value)}.")
    return spec
