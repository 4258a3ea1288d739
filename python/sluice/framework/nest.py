"""Nested structures of lists, tuples, named tuples and dicts."""

import collections
import functools
from collections import abc


@functools.lru_cache(1024)  # Called for each leaf, and ABCs are slow.
def _nests(kind):
    return issubclass(kind, (abc.Mapping, abc.MappingView, list, tuple)) or (
        issubclass(kind, abc.Sequence) and not issubclass(kind, (str, bytes)))


def is_nested(structure):
    """Returns whether a value is a sequence (not a string), mapping or view."""
    return _nests(structure.__class__)


def _children(structure):
    if isinstance(structure, abc.Mapping):
        try:
            return [structure[k] for k in sorted(structure)]
        except TypeError:
            raise TypeError("nest only supports dicts with sortable "
                            "keys.") from None
    return list(structure)


def flatten(structure, expand_composites=False):
    """Returns the leaves from left to right, with dicts in key order.

    With `expand_composites`, sparse tensors and their specs are replaced by
    their components.
    """
    if not is_nested(structure):
        return _parts(structure) if expand_composites else [structure]
    leaves = []
    for child in _children(structure):
        leaves.extend(flatten(child, expand_composites))
    return leaves


_composites = []  # (class, parts, join); see _register_composite.


def _register_composite(kind, parts, join):
    """Registers a class of leaves for `expand_composites`.

    Args:
      kind: the class.
      parts: parts(leaf) returns the list of its component tensors or specs.
      join: join(leaf, parts) returns a leaf like `leaf` with new components.
    """
    _composites.append((kind, parts, join))


def _composite(leaf):
    """Returns (parts, join) for a leaf; None if it has no components."""
    return next((functions for kind, *functions in _composites
                 if isinstance(leaf, kind)), None)


def _parts(leaf):
    found = _composite(leaf)
    return [leaf] if found is None else found[0](leaf)


def _like(structure, children):
    if isinstance(structure, abc.Mapping):
        by_key = dict(zip(sorted(structure), children))
        pairs = [(k, by_key[k]) for k in structure]
        if isinstance(structure, collections.defaultdict):
            return type(structure)(structure.default_factory, pairs)
        return type(structure)(pairs)
    if isinstance(structure, abc.MappingView):
        return list(children)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*children)
    return type(structure)(children)


def pack_sequence_as(structure, flat_sequence, expand_composites=False):
    """Packs leaves into the given structure.

    Raises ValueError if the number of leaves differs.
    """
    if isinstance(flat_sequence, (str, bytes)):
        raise TypeError(f"flat_sequence must be a sequence, got "
                        f"{flat_sequence!r}")
    flat = list(flat_sequence)
    if expand_composites:
        flat = _joined(flatten(structure), flat)
    if not is_nested(structure):
        if len(flat) != 1:
            raise ValueError(f"Structure is a scalar but len(flat_sequence) "
                             f"== {len(flat)} > 1")
        return flat[0]
    leaves = iter(flat)

    def pack(s):
        if not is_nested(s):
            return next(leaves)
        return _like(s, [pack(child) for child in _children(s)])

    needed = len(flatten(structure))
    if needed != len(flat):
        raise ValueError(f"Could not pack sequence. Structure had {needed} "
                         f"elements, but flat_sequence had {len(flat)} "
                         f"elements.")
    return pack(structure)


def _joined(leaves, tensors):
    """Packs tensors into composites like the given leaves or specs."""
    def joined(leaf, group):
        mine = [next(left) for _ in group]
        found = _composite(leaf)
        return mine[0] if found is None else found[1](leaf, mine)

    groups = [_parts(leaf) for leaf in leaves]
    needed = sum(map(len, groups))
    if needed != len(tensors):
        raise ValueError(f"Could not pack sequence. Structure had {needed} "
                         f"elements, but flat_sequence had {len(tensors)} "
                         f"elements.")
    left = iter(tensors)
    return list(map(joined, leaves, groups))


def map_structure(func, *structure, **kwargs):
    """Applies a function to the leaves of one or more structures.

    Returns a structure of the results.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    if set(kwargs) - {"check_types", "expand_composites"}:
        raise ValueError(f"Only valid keyword arguments are check_types and "
                         f"expand_composites, not: "
                         f"{', '.join(sorted(kwargs))}")
    expand = kwargs.get("expand_composites", False)
    for other in structure[1:]:
        assert_same_structure(structure[0], other, **kwargs)
    return pack_sequence_as(structure[0], [
        func(*leaves)
        for leaves in zip(*(flatten(s, expand) for s in structure))], expand)


def assert_same_structure(nest1, nest2, check_types=True,
                          expand_composites=False):
    """Raises ValueError or TypeError unless both have the same structure."""
    one, two = (len(flatten(n, expand_composites)) for n in (nest1, nest2))
    if one != two:
        raise ValueError(f"The two structures don't have the same number of "
                         f"elements.\n\nFirst structure ({one} elements): "
                         f"{nest1}\n\nSecond structure ({two} elements): "
                         f"{nest2}")
    _assert_same(nest1, nest2, check_types)


def _same_named_tuples(a, b):
    """Returns whether two named tuples have the same class name and fields."""
    return hasattr(a, "_fields") and hasattr(b, "_fields") and (
        a._fields == b._fields and type(a).__name__ == type(b).__name__)


def _assert_same(nest1, nest2, check_types):
    a = _children(nest1) if is_nested(nest1) else None
    b = _children(nest2) if is_nested(nest2) else None
    if (a is None) != (b is None):
        raise ValueError(f"The two structures don't have the same nested "
                         f"structure.\n\nFirst structure: {nest1}\n\nSecond "
                         f"structure: {nest2}")
    if a is None:
        return
    if check_types and type(nest1) is not type(nest2) and not (
            any(isinstance(nest1, kind) and isinstance(nest2, kind)
                for kind in (abc.Mapping, list))
            or _same_named_tuples(nest1, nest2)):
        raise TypeError(f"The two structures don't have the same nested "
                        f"structure: they don't have the same sequence type. "
                        f"First structure has type {type(nest1)}, while "
                        f"second structure has type {type(nest2)}.")
    if check_types and isinstance(nest1, abc.Mapping) and (
            set(nest1) != set(nest2)):
        raise ValueError(f"The two structures don't have the same nested "
                         f"structure: the two dictionaries don't have the same "
                         f"set of keys. First structure has keys "
                         f"{list(nest1)}, while second structure has keys "
                         f"{list(nest2)}.")
    if len(a) != len(b):
        raise ValueError(f"The two structures don't have the same nested "
                         f"structure.\n\nFirst structure: {nest1}\n\nSecond "
                         f"structure: {nest2}")
    for x, y in zip(a, b):
        _assert_same(x, y, check_types)


# ---- Shallow structures ------------------------------------------------------


def assert_shallow_structure(shallow_tree, input_tree, check_types=True):
    """Raises ValueError or TypeError unless the structures are compatible.

    `input_tree` must be nested at least as deep as `shallow_tree`.
    """
    if not is_nested(shallow_tree):
        return
    if not is_nested(input_tree):
        raise TypeError(f"If shallow structure is a sequence, input must also "
                        f"be a sequence. Input has type: {type(input_tree)}.")
    if check_types and not isinstance(input_tree, type(shallow_tree)):
        raise TypeError(f"The two structures don't have the same sequence "
                        f"type. Input structure has type {type(input_tree)}, "
                        f"while shallow structure has type "
                        f"{type(shallow_tree)}.")
    if len(input_tree) != len(shallow_tree):
        raise ValueError(f"The two structures don't have the same sequence "
                         f"length. Input structure has length "
                         f"{len(input_tree)}, while shallow structure has "
                         f"length {len(shallow_tree)}.")
    if check_types and isinstance(shallow_tree, abc.Mapping) and (
            set(input_tree) != set(shallow_tree)):
        raise ValueError(f"The two structures don't have the same keys. Input "
                         f"structure has keys {list(input_tree)}, while "
                         f"shallow structure has keys {list(shallow_tree)}.")
    for a, b in zip(_children(shallow_tree), _children(input_tree)):
        assert_shallow_structure(a, b, check_types)


def flatten_up_to(shallow_tree, input_tree, check_types=True):
    """Returns the parts of `input_tree` at the leaves of `shallow_tree`."""
    assert_shallow_structure(shallow_tree, input_tree, check_types)

    def parts(shallow, whole):
        if not is_nested(shallow):
            return [whole]
        return [part for a, b in zip(_children(shallow), _children(whole))
                for part in parts(a, b)]
    return parts(shallow_tree, input_tree)
