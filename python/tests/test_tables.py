"""Lookup tables and vocabularies."""

import numpy as np
import pytest
import sluice.compat.v1 as tf

L = tf.contrib.lookup


@pytest.fixture
def started(session):
    """Returns a function that initializes the tables."""
    return lambda: session.run(tf.tables_initializer())


@pytest.fixture
def words(tmp_path):
    """Returns the name of a file with a word and a number on each line."""
    path = tmp_path / "words.txt"
    path.write_text("brain\t3\nsalad\t5\nsurgery\t7\n")
    return str(path)


def test_static_tables_map_keys_to_values(run, started):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        ["a", "b"], np.array([1, 2], np.int64)), -1)
    keys = tf.constant([["a", "c"], ["b", "a"]])
    found = table.lookup(keys)
    assert found.shape.as_list() == [2, 2] and found.dtype == tf.int64
    with pytest.raises(tf.errors.FailedPreconditionError,
                       match="Table not initialized"):
        run(found)
    started()
    assert run(found).tolist() == [[1, -1], [2, 1]]
    assert run(table.size()) == 2
    exported_keys, values = table.export()
    assert exported_keys.shape.as_list() == values.shape.as_list() == [None]
    assert dict(zip(*run([exported_keys, values]))) == {b"a": 1, b"b": 2}
    assert table.name == "hash_table"
    assert table.key_dtype == tf.string and table.value_dtype == tf.int64


def test_sparse_keys_give_sparse_values(run, started):
    table = L.HashTable(L.KeyValueTensorInitializer([1, 2], ["x", "y"],
                                                    key_dtype=tf.int64), "?")
    keys = tf.SparseTensor([[0, 1], [1, 0]], np.array([2, 5], np.int64), [2, 2])
    started()
    found = run(table.lookup(keys))
    assert list(found.values) == [b"y", b"?"]
    assert found.indices.tolist() == [[0, 1], [1, 0]]


def test_wrong_keys_and_values_are_errors():
    keys, values = ["a", "b"], np.array([1, 2], np.int64)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), -1)
    with pytest.raises(TypeError, match="Keys must be dtype"):
        table.lookup(tf.constant([1, 2]))
    with pytest.raises(ValueError, match="ompatible"):
        tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            keys, np.arange(3)), -1)
    with pytest.raises(ValueError, match="ompatible"):
        tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), [-1])


def test_tables_of_files(run, started, words):
    numbers = L.index_table_from_file(words, key_column_index=0)
    named = L.index_to_string_table_from_file(
        words, vocab_size=3, value_column_index=0, default_value="none")
    prices = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        words, tf.string, 0, tf.int64, 1), -1)
    keys = tf.constant(["salad", "toast"])
    started()
    assert run(numbers.lookup(keys)).tolist() == [1, -1]
    assert list(run(named.lookup(tf.constant([2, 9], tf.int64)))) == [
        b"surgery", b"none"]
    assert run(prices.lookup(keys)).tolist() == [5, -1]
    files = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
    assert {run(f).decode() for f in files} == {words}


def test_tables_of_one_file_are_shared(run, words):
    first, second = (L.index_table_from_file(words) for _ in range(2))
    run(first.initializer)
    assert run(second.size()) == 3
    other = L.index_table_from_tensor(["a"])
    assert first.resource_handle.op.get_attr("shared_name") == (
        second.resource_handle.op.get_attr("shared_name"))
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(other.lookup(tf.constant("a")))


@pytest.mark.parametrize("arguments,match", [
    (("", tf.string, 0, tf.int64, 1), "Filename required"),
    (("f", tf.string, -1, tf.int64, 1), "Keys must be dtype.*int64"),
    (("f", tf.float32, -2, tf.int64, 1), "Keys must be integer or string"),
    (("f", tf.string, 0, tf.string, -1), "Values must be dtype.*int64"),
    (("f", tf.string, 0, tf.int64, -2), "Values must be dtype.*string"),
    (("f", tf.string, -3, tf.int64, 0), "Invalid key index"),
    (("f", tf.string, 0, tf.int64, -3), "Invalid value index"),
    (("f", tf.string, 0, tf.int64, 1, 0), "Invalid vocab_size")])
def test_wrong_columns_are_errors(arguments, match):
    with pytest.raises(ValueError, match=match):
        tf.lookup.TextFileInitializer(*arguments)


def test_wrong_files_are_errors_of_the_step(run, words):
    for table, match in (
            (L.index_table_from_file(words, vocab_size=4),
             "Invalid vocab_size"),
            (tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
                words, tf.string, 0, tf.int64, 2), -1),
             "Invalid number of columns"),
            (tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
                words, tf.int64, 0, tf.int64, 1), -1), "is not a valid")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            run(table.initializer)


@pytest.mark.parametrize("spec", [
    L.FastHashSpec, L.StrongHashSpec([1, 2]), L.HasherSpec("legacy", None)])
def test_unknown_words_go_to_buckets(run, started, spec):
    table = L.index_table_from_tensor(["brain", "salad"], num_oov_buckets=3,
                                      hasher_spec=spec)
    ids = table.lookup(tf.constant(["salad", "x", "y", "x"]))
    started()
    salad, x, y, again = run(ids)
    assert salad == 1 and x == again and {x, y} <= {2, 3, 4}
    assert run(table.size()) == 5


def test_integers_have_vocabularies(run, started):
    table = L.index_table_from_tensor([42, 1, -1000], dtype=tf.int32,
                                      num_oov_buckets=1)
    ids = table.lookup(tf.constant([1, -1000, 11], tf.int32))
    static = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(
            np.array([7, 8], np.int64), np.array([0, 1], np.int64)), 2)
    started()
    assert run(ids).tolist() == [1, 2, 3]
    assert run(static.lookup(tf.constant(8, tf.int64))) == 1
    assert run(static.lookup(tf.constant(9, tf.int64))) in (2, 3)


def test_buckets_need_no_table(run):
    table = tf.lookup.StaticVocabularyTable(None, 4)
    assert table.resource_handle is None
    run(table.initializer)
    assert run(table.size()) == 4
    assert 0 <= run(table.lookup(tf.constant("any"))) < 4


def test_wrong_vocabularies_are_errors():
    for make in (lambda: tf.lookup.StaticVocabularyTable(None, 0),
                 lambda: L.IdTableWithHashBuckets(None, 0),
                 lambda: L.index_table_from_tensor(None),
                 lambda: L.index_table_from_tensor(["a"], -1),
                 lambda: L.index_table_from_tensor([1.5], dtype=tf.int64),
                 lambda: L.index_table_from_file(""),
                 lambda: L.index_table_from_file("f", vocab_size=0),
                 lambda: L.StrongHashSpec([1])):
        with pytest.raises(ValueError):
            make()
    floats = tf.lookup.KeyValueTensorInitializer(["a"], [1.0])
    for make in (lambda: L.StrongHashSpec(["a", "b"]),
                 lambda: L.index_table_from_tensor(["a"], dtype=tf.float32),
                 lambda: L.index_table_from_tensor(["a"], 1, hasher_spec=1),
                 lambda: tf.lookup.StaticVocabularyTable(floats, 1)):
        with pytest.raises(TypeError):
            make()


@pytest.mark.parametrize("dense", [False, True])
def test_steps_change_tables(run, dense):
    table = (L.MutableDenseHashTable(tf.int64, tf.float32, 0.0, -1, -2)
             if dense else L.MutableHashTable(tf.int64, tf.float32, 0.0))
    keys = tf.constant([[1, 2], [3, 4]], tf.int64)
    found = table.lookup(keys)
    assert found.shape.as_list() == [2, 2]
    run(table.insert(keys[0], [10.0, 20.0]))
    assert run(found).tolist() == [[10, 20], [0, 0]]
    run(table.insert([2], [25.0]))
    run(table.remove(tf.constant([1, 99], tf.int64)))
    assert run([found, table.size()])[1] == 1
    keys, values = run(table.export())
    assert dict(zip(keys.flat, values.flat)).get(2) == 25
    with pytest.raises(TypeError, match="Keys must be dtype"):
        table.remove(tf.constant(["a"]))


def test_values_may_be_vectors(run):
    table = L.MutableHashTable(tf.string, tf.int32, [-1, -1])
    found = table.lookup(["a", "b", "c"])
    assert found.shape.as_list() == [3, 2]
    run(table.insert(["a", "b"], [[1, 2], [3, 4]]))
    assert run(found).tolist() == [[1, 2], [3, 4], [-1, -1]]
    assert table.export()[1].shape.as_list() == [None, 2]


def test_keys_may_be_vectors(run):
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.int64, [-1, -2], [0, 0], [9, 9], initial_num_buckets=8)
    keys = tf.constant([[1, 2], [3, 4], [5, 6]], tf.int64)
    run(table.insert_or_assign(keys[:2], [[10, 11], [20, 21]]))
    found = table.lookup(keys)
    assert found.shape.as_list() == [3, 2]
    assert run(found).tolist() == [[10, 11], [20, 21], [-1, -2]]
    run(table.erase(keys[:1]))
    assert run(table.size()) == 1


def test_tables_may_be_shared_by_name(run):
    first = L.MutableHashTable(tf.string, tf.int64, 0, shared_name="t")
    second = L.MutableHashTable(tf.string, tf.int64, 0, shared_name="t")
    run(first.insert(["a"], [5]))
    assert run(second.lookup(["a"])).tolist() == [5]


def test_older_functions_of_vocabularies(run, started):
    ids = L.string_to_index(tf.constant(["b", "z"]), ["a", "b"], 7)
    names = L.index_to_string(tf.constant([1, 5], tf.int64), ["a", "b"])
    started()
    assert run(ids).tolist() == [1, 7] and list(run(names)) == [b"b", b"UNK"]
    with pytest.raises(ValueError, match="requires string"):
        L.string_to_index_table_from_tensor([1, 2])


def test_monitored_sessions_initialize_tables():
    table = L.index_table_from_tensor(["a", "b"])
    ids = table.lookup(tf.constant(["b"]))
    with tf.train.MonitoredSession() as session:
        assert session.run(ids).tolist() == [1]


def test_tables_are_indexed_and_have_defaults_for_each_key(run):
    table = L.MutableHashTable(tf.string, tf.int64, -1)
    run(table.insert(["a", "b"], [1, 2]))
    keys = tf.constant([["a", "x"], ["y", "b"]])
    each = tf.constant([[-2, -3], [-4, -5]], tf.int64)
    assert run(table[keys]).tolist() == [[1, -1], [-1, 2]]
    assert run(table.lookup(keys, each)).tolist() == [[1, -3], [-4, 2]]
    assert run(table.lookup(keys, dynamic_default_values=9)).tolist() == [
        [1, 9], [9, 2]]
    named = table.lookup(keys, "found")  # TensorFlow 1's order.
    assert named.op.name == "found"
    assert run(table.lookup(keys, name="other")).tolist() == [[1, -1], [-1, 2]]
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Expected shape .* for default value, got"):
        run(table.lookup(keys, [1, 2, 3]))
    with pytest.raises(TypeError, match="not iterable"):
        list(table)
