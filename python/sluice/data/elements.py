"""The structures of elements: nested tuples and dicts of tensors.

Unlike the structures of `nest`, lists are not nested: they are values, which
become tensors. The library's functions of elements take and give flat lists of
tensors, in which a sparse tensor is three.
"""

from collections import abc

from sluice.framework import nest
from sluice.framework.conversion import (
    SparseTensor, SparseTensorValue, convert_to_tensor)
from sluice.framework.elements import Tensor
from sluice.framework.specs import SparseTensorSpec, TensorSpec


def is_nested(structure):
    """Returns whether a value is a tuple or a mapping, but no sparse tensor."""
    return isinstance(structure, (tuple, abc.Mapping)) and not isinstance(
        structure, SparseTensorValue)


def flatten(structure):
    """Returns the leaves from left to right, with dicts in key order."""
    return flatten_up_to(structure, structure)


def flatten_up_to(shallow, structure):
    """Returns the parts of `structure` at the leaves of `shallow`.

    Raises:
      TypeError, ValueError: if `structure` does not begin like `shallow`.
    """
    if not is_nested(shallow):
        return [structure]
    if isinstance(shallow, abc.Mapping) != isinstance(structure, abc.Mapping):
        raise TypeError(f"expected a structure like {shallow}, got {structure}")
    # (What goes beside a tuple may be a list.)
    same = (set(shallow) == set(structure) if isinstance(shallow, abc.Mapping)
            else isinstance(structure, (tuple, list)) and (
                len(shallow) == len(structure)))
    if not same:
        raise ValueError(f"expected a structure like {shallow}, got "
                         f"{structure}")
    return [leaf
            for a, b in zip(nest._children(shallow), nest._children(structure))
            for leaf in flatten_up_to(a, b)]


def pack(structure, leaves):
    """Returns the structure with other leaves."""
    leaves = iter(leaves)

    def packed(part):
        if not is_nested(part):
            return next(leaves)
        return nest._like(part, [packed(p) for p in nest._children(part)])

    return packed(structure)


def map_structure(fn, structure):
    """Returns the structure with fn(leaf) for each leaf."""
    return pack(structure, [fn(leaf) for leaf in flatten(structure)])


def convert(value):
    """Returns the structure with tensors and sparse tensors as leaves.

    Raises:
      TypeError, ValueError: if a leaf cannot become a tensor.
    """
    def converted(leaf):
        if isinstance(leaf, SparseTensorValue):
            return SparseTensor.from_value(leaf)
        if isinstance(leaf, SparseTensor):
            return leaf
        if leaf is None:
            raise TypeError("an element: expected tensors, got None")
        return convert_to_tensor(leaf)

    return map_structure(converted, value)


def tensors_of(value):
    """Returns the flat list of tensors of a structure that `convert` gave."""
    return [t for leaf in flatten(value)
            for t in ([leaf.indices, leaf.values, leaf.dense_shape]
                      if isinstance(leaf, SparseTensor) else [leaf])]


class Elements:
    """How the elements of a dataset are structured.

    It is known when the functions of the dataset were called, which happens
    while its pipeline is built: those before a function are called before it.

    Args:
      structure: the structure with the classes Tensor and SparseTensor as
        leaves; or a function that returns it; or None, for `unpack` to set it.
    """

    def __init__(self, structure=None):
        self._structure = structure

    @property
    def structure(self):
        """The structure, with the classes of the leaves."""
        found = self._structure
        return found() if callable(found) and not isinstance(
            found, type) else found

    def follow(self, other):
        """Has the structure of another Elements from now on."""
        self._structure = lambda: other.structure

    def pack(self, tensors):
        """Returns the element that a flat list of tensors is."""
        structure, left = self.structure, iter(tensors)
        return pack(structure, [
            SparseTensor(next(left), next(left), next(left))
            if kind is SparseTensor else next(left)
            for kind in flatten(structure)])

    def unpack(self, value):
        """Sets the structure to that of a value; returns its flat tensors."""
        value = convert(value)
        self._structure = map_structure(
            lambda leaf: SparseTensor if isinstance(leaf, SparseTensor)
            else Tensor, value)
        return tensors_of(value)


def spec_of(element):
    """Returns the structure of the specs of an element's tensors."""
    return map_structure(
        lambda leaf: SparseTensorSpec(leaf.shape, leaf.dtype)
        if isinstance(leaf, SparseTensor)
        else TensorSpec(leaf.shape, leaf.dtype.base_dtype), element)
