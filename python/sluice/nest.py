"""Structures of values: lists, tuples, named tuples and dicts, nested."""

from collections import abc


def is_nested(structure):
    """Whether it is a sequence (not a string) or a mapping."""
    return isinstance(structure, (abc.Mapping, list, tuple)) or (
        isinstance(structure, abc.Sequence) and
        not isinstance(structure, (str, bytes)))


is_sequence = is_nested


def _children(structure):
    if isinstance(structure, abc.Mapping):
        try:
            return [structure[k] for k in sorted(structure)]
        except TypeError:
            raise TypeError("nest only supports dicts with sortable "
                            "keys.") from None
    return list(structure)


def flatten(structure):
    """The leaves, from left to right (of dicts: in the order of the keys)."""
    if not is_nested(structure):
        return [structure]
    leaves = []
    for child in _children(structure):
        leaves.extend(flatten(child))
    return leaves


def _like(structure, children):
    if isinstance(structure, abc.Mapping):
        by_key = dict(zip(sorted(structure), children))
        return type(structure)((k, by_key[k]) for k in structure)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*children)
    return type(structure)(children)


def pack_sequence_as(structure, flat_sequence):
    """The leaves in a structure like this; ValueError if too many or few."""
    flat = list(flat_sequence)
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


def map_structure(func, *structure, **kwargs):
    """The structure of func(leaf), of one or several like structures."""
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, **kwargs)
    return pack_sequence_as(structure[0], [
        func(*leaves) for leaves in zip(*(flatten(s) for s in structure))])


def assert_same_structure(nest1, nest2, check_types=True):
    """Raises ValueError or TypeError unless both are nested alike."""
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(f"The two structures don't have the same nested "
                         f"structure.\n\nFirst structure: {nest1}\n\nSecond "
                         f"structure: {nest2}")
    if not is_nested(nest1):
        return
    if check_types and type(nest1) is not type(nest2) and not (
            isinstance(nest1, abc.Mapping) and isinstance(nest2, abc.Mapping)):
        raise TypeError(f"The two structures don't have the same sequence "
                        f"type. First structure has type {type(nest1)}, while "
                        f"second structure has type {type(nest2)}.")
    if isinstance(nest1, abc.Mapping) and set(nest1) != set(nest2):
        raise ValueError(f"The two dictionaries don't have the same set of "
                         f"keys. First structure has keys {list(nest1)}, while "
                         f"second structure has keys {list(nest2)}.")
    one, two = _children(nest1), _children(nest2)
    if len(one) != len(two):
        raise ValueError(f"The two structures don't have the same number of "
                         f"elements.\n\nFirst structure: {nest1}\n\nSecond "
                         f"structure: {nest2}")
    for a, b in zip(one, two):
        assert_same_structure(a, b, check_types)
