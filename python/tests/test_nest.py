"""tf.nest: nested structures of values."""

import collections

import pytest
import sluice.compat.v1 as tf
from sluice import nest

Pair = collections.namedtuple("Pair", "a b")


def test_structures_are_flattened_up_to_other_structures():
    deep = Pair([1, (2, 3)], {"x": (4,)})
    assert nest.flatten_up_to(Pair([0, 0], 0), deep) == [1, (2, 3), {"x": (4,)}]
    assert nest.map_structure_up_to(
        Pair(0, 0), lambda n, part: n * len(part), Pair(2, 3), deep) == Pair(
            4, 3)
    nest.assert_shallow_structure(Pair(0, 0), deep)
    for shallow, error, told in (
            ([0, 0], TypeError, "same sequence type"),
            (Pair([0], 0), ValueError, "same sequence length"),
            (Pair(0, {"y": 0}), ValueError, "same keys"),
            (Pair([[0], 0], 0), TypeError, "must also be a sequence")):
        with pytest.raises(error, match=told):
            nest.assert_shallow_structure(shallow, deep)


def test_traversal_depth_is_given_by_structure():
    deep = [(1, [2]), ([1], 2)]
    assert nest.get_traverse_shallow_structure(
        lambda s: not isinstance(s, tuple), deep) == [False, False]
    assert nest.get_traverse_shallow_structure(
        lambda s: (True, False) if isinstance(s, tuple) else True,
        deep) == [(True, False), ([True], False)]
    with pytest.raises(TypeError, match="non-bool scalar"):
        nest.get_traverse_shallow_structure(lambda s: 1, [1])


def test_leaves_have_paths():
    deep = {"b": Pair(1, [2]), "a": 3}
    assert nest.flatten_with_joined_string_paths(deep) == [
        ("a", 3), ("b/a", 1), ("b/b/0", 2)]
    assert nest.flatten_with_tuple_paths([7]) == [((0,), 7)]
    assert nest.map_structure_with_paths(
        lambda path, x: f"{path}={x}", deep) == {
            "b": Pair("b/a=1", ["b/b/0=2"]), "a": "a=3"}


def test_dict_items_are_flattened():
    assert nest.flatten_dict_items({(4, (5, 6)): ("a", ("b", "c"))}) == {
        4: "a", 5: "b", 6: "c"}
    with pytest.raises(ValueError, match="not unique"):
        nest.flatten_dict_items({(4, 4): (1, 2)})
    with pytest.raises(ValueError, match="Key had 1 elements"):
        nest.flatten_dict_items({(4,): (1, 2)})


def test_structure_differences_are_reported():
    for one, two, error, told in (
            ([1, 2], [1], ValueError,
             r"same number of elements.*\n\nFirst structure \(2 elements\)"),
            ([[1], 2], [1, [2]], ValueError, "same nested structure"),
            ([1], (1,), TypeError, "same sequence type"),
            ({"a": 1}, {"b": 1}, ValueError, "same set of keys")):
        with pytest.raises(error, match=told):
            nest.assert_same_structure(one, two)
    with pytest.raises(TypeError, match="flat_sequence must be a sequence"):
        nest.pack_sequence_as([1, 2], "ab")
    with pytest.raises(ValueError, match="Only valid keyword"):
        nest.map_structure(abs, [1], check=True)


def test_defaultdicts_and_equally_named_tuples():
    made = nest.pack_sequence_as(
        collections.defaultdict(int, {"z": 1, "a": 2}), [5, 6])
    assert made == {"a": 5, "z": 6} and made["none"] == 0
    one, same, other = (collections.namedtuple(n, "a b")
                        for n in ("One", "One", "Other"))
    nest.assert_same_structure(one(1, 2), same(3, 4))
    with pytest.raises(TypeError):
        nest.assert_same_structure(one(1, 2), other(3, 4))
    nest.assert_same_structure({"a": 1}, {"b": 1}, check_types=False)


def test_views_of_dicts_are_nested():
    views = {"b": 1, "a": 2}
    assert nest.flatten(views.values()) == [1, 2]
    assert nest.flatten(views.items()) == ["b", 1, "a", 2]
    assert nest.map_structure(lambda x: x + 1, views.values()) == [2, 3]


def test_sparse_tensors_are_leaves_or_structures(run):
    sparse = tf.SparseTensor([[1]], [2.0], [3])
    assert nest.flatten([sparse, 4]) == [sparse, 4]
    parts = nest.flatten([sparse, 4], expand_composites=True)
    assert parts == [sparse.indices, sparse.values, sparse.dense_shape, 4]
    doubled = nest.map_structure(lambda x: x * 2, [sparse, 4],
                                 expand_composites=True)
    assert doubled[1] == 8 and run(doubled[0]).values.tolist() == [4.0]
    with pytest.raises(ValueError, match="4 elements"):
        nest.pack_sequence_as([sparse, 4], [1], expand_composites=True)
    with pytest.raises(ValueError, match="number of elements"):
        nest.assert_same_structure(sparse, 1, expand_composites=True)


def test_list_subclasses_are_lists():
    class Rows(list):
        pass

    nest.assert_same_structure(Rows([1]), [1])
    assert nest.flatten_up_to([0], (1,), check_types=False) == [1]
    with pytest.raises(TypeError):
        nest.flatten_up_to([0], (1,))
    assert nest.map_structure_with_tuple_paths(
        lambda path, x: path + (x,), {"a": [5]}) == {"a": [("a", 0, 5)]}
