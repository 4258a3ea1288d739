"""Tables of `tf.contrib.lookup`, where they differ from `tf.lookup`."""

from sluice.framework import dtypes
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import queues, tables, vocabularies
from sluice.ops.vocabularies import FastHashSpec


class HashTable(tables.InitializableLookupTableBase):
    """A table whose contents never change once it is initialized.

    Unlike `tf.lookup.StaticHashTable` it is shared only under a given name.

    Args:
      initializer: fills the table.
      default_value: the value of keys that are not in the table, a scalar.
      shared_name: the name under which sessions share the table.
      name: the name of the operation.
    """

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        self._shared_name, self._name = shared_name, name or "hash_table"
        super().__init__(default_value, initializer)

    def _create_resource(self):
        return queues.make_resource(
            "HashTableV2", self._shared_name, self._name,
            key_dtype=self._key_dtype, value_dtype=self._value_dtype)


class MutableHashTable(tables.MutableHashTable):
    """A table whose contents steps change; see `sluice.ops.tables`.

    Args:
      key_dtype: the type of the keys.
      value_dtype: the type of the values.
      default_value: the value of keys that are not in the table.
      shared_name: the name under which sessions share the table.
      name: the name of the operation.
      checkpoint: whether the table is saved.
    """

    def __init__(self, key_dtype, value_dtype, default_value, shared_name=None,
                 name="MutableHashTable", checkpoint=True):
        super().__init__(key_dtype, value_dtype, default_value, name,
                         checkpoint, shared_name)


def _given(mapping):
    if mapping is None:
        raise ValueError("mapping must be specified.")
    return mapping


def index_table_from_tensor(mapping, num_oov_buckets=0, default_value=-1,
                            hasher_spec=FastHashSpec, dtype=dtypes.string,
                            name=None):
    """Makes a table of the numbers of words in a list.

    Args:
      mapping: a vector of different words or integers.
      num_oov_buckets: the number of buckets for other words.
      default_value: the number of other words if there are no buckets.
      hasher_spec: a HasherSpec: how words are distributed to buckets.
      dtype: the type of the keys.
      name: the name of the scope.

    Raises:
      ValueError: if `mapping` is missing or of another type.
    """
    return vocabularies.index_table_from_tensor(
        _given(mapping), num_oov_buckets, default_value, hasher_spec, dtype,
        name)


def string_to_index_table_from_file(
        vocabulary_file=None, num_oov_buckets=0, vocab_size=None,
        default_value=-1, hasher_spec=FastHashSpec, name=None):
    """Calls `index_table_from_file` for strings."""
    return vocabularies.index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value,
        hasher_spec, name=name)


def string_to_index_table_from_tensor(mapping, num_oov_buckets=0,
                                      default_value=-1,
                                      hasher_spec=FastHashSpec, name=None):
    """Calls `index_table_from_tensor` for strings.

    Raises:
      ValueError: if `mapping` is not of strings.
    """
    mapping = convert_to_tensor(_given(mapping))
    if mapping.dtype.base_dtype != dtypes.string:
        raise ValueError("string_to_index_table_from_tensor requires string.")
    return index_table_from_tensor(mapping, num_oov_buckets, default_value,
                                   hasher_spec, name=name)


def string_to_index(tensor, mapping, default_value=-1, name=None):
    """Returns the numbers of words in the list `mapping`.

    The table must be initialized (`tf.tables_initializer`).
    """
    return index_table_from_tensor(
        mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string_table_from_tensor(mapping, default_value="UNK", name=None):
    """Makes a table of the words of the list `mapping` by number."""
    return vocabularies.index_to_string_table_from_tensor(
        _given(mapping), default_value, name)


def index_to_string(tensor, mapping, default_value="UNK", name=None):
    """Returns the words of the list `mapping` with the given numbers.

    The table must be initialized (`tf.tables_initializer`).
    """
    return index_to_string_table_from_tensor(
        mapping, default_value, name).lookup(tensor)
