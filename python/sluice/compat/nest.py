"""`tf.nest`: the functions of framework/nest.py, and functions for programs."""

from collections import abc

from sluice.framework.nest import (  # noqa: F401 (Public names.)
    _children, _like, assert_same_structure, assert_shallow_structure, flatten,
    flatten_up_to, is_nested, map_structure, pack_sequence_as)

is_sequence = is_nested


def flatten_dict_items(dictionary):
    """Flattens a dict whose keys and values are structures."""
    if not isinstance(dictionary, abc.Mapping):
        raise TypeError(f"input must be a dictionary, got {dictionary!r}")
    flat = {}
    for key, value in dictionary.items():
        keys, values = flatten(key), flatten(value)
        if len(keys) != len(values):
            raise ValueError(f"Could not flatten dictionary. Key had "
                             f"{len(keys)} elements, but value had "
                             f"{len(values)} elements. Key: {key}, value: "
                             f"{value}.")
        for k, v in zip(keys, values):
            if k in flat:
                raise ValueError(f"Could not flatten dictionary: key {k} is "
                                 f"not unique.")
            flat[k] = v
    return flat


def map_structure_up_to(shallow_tree, func, *inputs, check_types=True):
    """Maps `func` over the parts of inputs at the leaves of `shallow_tree`."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    return pack_sequence_as(shallow_tree, [
        func(*parts) for parts in zip(*(
            flatten_up_to(shallow_tree, i, check_types) for i in inputs))])


def get_traverse_shallow_structure(traverse_fn, structure):
    """Returns a structure of bools that tells how deep to traverse a structure.

    Args:
      traverse_fn: traverse_fn(part) returns whether to traverse a part, or a
        structure of bools for its children.
      structure: the structure.
    """
    wanted = traverse_fn(structure)
    if not is_nested(structure):
        if not isinstance(wanted, bool):
            raise TypeError(f"traverse_fn returned structure: {wanted} for "
                            f"non-structure: {structure}")
        return wanted
    if not is_nested(wanted) and not isinstance(wanted, bool):
        raise TypeError(f"traverse_fn returned a non-bool scalar: {wanted} for "
                        f"input: {structure}")
    if wanted is False:
        return False
    children = _children(structure)
    if wanted is True:
        return _like(structure, [get_traverse_shallow_structure(traverse_fn, c)
                                 for c in children])
    assert_shallow_structure(wanted, structure)
    made = []
    for go, child in zip(_children(wanted), children):
        if not isinstance(go, bool):
            raise TypeError(f"traverse_fn didn't return a depth=1 structure of "
                            f"bools. saw: {wanted} for input: {structure}")
        made.append(get_traverse_shallow_structure(traverse_fn, child) if go
                    else False)
    return _like(structure, made)


# ---- Paths -------------------------------------------------------------------


def yield_flat_paths(structure):
    """Yields the path of each leaf: a tuple of keys, names and indices."""
    if not is_nested(structure):
        yield ()
        return
    if isinstance(structure, abc.Mapping):
        keys = sorted(structure)
    else:
        keys = getattr(structure, "_fields", range(len(structure)))
    for key, child in zip(keys, _children(structure)):
        for path in yield_flat_paths(child):
            yield (key, *path)


def flatten_with_joined_string_paths(structure, separator="/"):
    """Returns [(path as a string, leaf)]."""
    return [(separator.join(map(str, path)), leaf) for path, leaf in zip(
        yield_flat_paths(structure), flatten(structure))]


def flatten_with_tuple_paths(structure):
    """Returns [(path, leaf)]."""
    return list(zip(yield_flat_paths(structure), flatten(structure)))


def map_structure_with_paths(func, *structure, **kwargs):
    """Maps func(path as a string, *leaves)."""
    return map_structure_with_tuple_paths(
        lambda path, *leaves: func("/".join(map(str, path)), *leaves),
        *structure, **kwargs)


def map_structure_with_tuple_paths(func, *structure, **kwargs):
    """Maps func(path as a tuple, *leaves)."""
    paths = yield_flat_paths(structure[0])
    return map_structure(lambda *leaves: func(next(paths), *leaves),
                         *structure, **kwargs)
