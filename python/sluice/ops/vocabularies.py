"""Tables between words and their numbers, with buckets for unknown words."""

import collections
import functools

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import (
    SparseTensor, constant_value, convert_to_tensor)
from sluice.ops import array_ops, control_flow, math_ops, string_ops, tables


class HasherSpec(collections.namedtuple("HasherSpec", ["hasher", "key"])):
    """How unknown words are distributed to buckets.

    Args:
      hasher: "fasthash", "stronghash" or "legacy".
      key: the key of the strong hash.
    """


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """A hash that cannot be predicted without knowing its key.

    Args:
      key: two unsigned integers.

    Raises:
      ValueError: if there are fewer or more.
      TypeError: if they are not integers.
    """

    def __new__(cls, key):
        if len(key) != 2:
            raise ValueError(f"key must have size 2, got {len(key)}.")
        if not all(isinstance(k, int) for k in key):
            raise TypeError(f"Invalid key {key}. Must be unsigned integer "
                            f"values.")
        return super().__new__(cls, "stronghash", key)


def _bucket_function(spec):
    """Returns the function that hashes strings to buckets."""
    if spec.hasher == "fasthash":
        return string_ops.string_to_hash_bucket_fast
    if spec.hasher == "legacy":
        return string_ops.string_to_hash_bucket
    if spec.hasher == "stronghash":
        return functools.partial(string_ops.string_to_hash_bucket_strong,
                                 key=spec.key)
    raise ValueError(f"Unknown hasher {spec.hasher}")


def _check_types(table_key, table_value, key):
    """Checks the types of a table, or of its initializer, and of its keys."""
    allowed = (dtypes.int64, dtypes.string)
    if table_key not in allowed:
        raise TypeError(f"Invalid key dtype, expected one of {allowed}, but "
                        f"got {table_key}.")
    if table_key.is_integer != key.is_integer:
        raise TypeError(f"Invalid key dtype, expected "
                        f"{'integer' if key.is_integer else 'non-integer'} but "
                        f"got {table_key}.")
    if table_value != dtypes.int64:
        raise TypeError(f"Invalid value dtype, expected {dtypes.int64} but got "
                        f"{table_value}.")


class _Buckets(tables.LookupInterface):
    """A table whose missing keys are hashed to numbers that follow its own."""

    def __init__(self, table, num_oov_buckets, hasher_spec, name, key_dtype):
        key_dtype = dtypes.as_dtype(key_dtype)
        if not key_dtype.is_integer and key_dtype != dtypes.string:
            raise TypeError(f"Invalid key_dtype, expected integer or string, "
                            f"got {key_dtype}.")
        super().__init__(key_dtype, dtypes.int64)
        self._table = table
        self._buckets = num_oov_buckets
        self._hasher_spec = hasher_spec
        name = name or (table.name if table else "hash_bucket")
        self._table_name = name.rstrip("/").rpartition("/")[2]

    @property
    def resource_handle(self):
        """The handle of the table; None if there are only buckets."""
        return self._table.resource_handle if self._table else None

    @property
    def initializer(self):
        """The operation that fills the table."""
        if self._table:
            return self._table.initializer
        with graphs.name_scope(None, "init"):
            return control_flow.no_op()

    @property
    def init(self):
        """The operation that fills the table."""
        return self.initializer

    def size(self, name=None):
        """Returns the number of keys and buckets, a scalar int64 tensor."""
        with self._scoped(name, "Size"):
            size = (self._table.size() if self._table else
                    convert_to_tensor(0, dtypes.int64))
            return size + self._buckets

    def lookup(self, keys, name=None):
        """Returns the numbers of keys, or of the buckets of those missing.

        Args:
          keys: a tensor or SparseTensor.
          name: the name of the scope.

        Returns:
          int64 numbers in the form of `keys`.

        Raises:
          TypeError: if the keys have another type than the table's.
        """
        keys = self._checked(keys)
        flat = keys.values if isinstance(keys, SparseTensor) else keys
        if self._table and self._table.key_dtype == dtypes.int64:
            flat = math_ops.cast(flat, dtypes.int64)
        if not self._buckets:
            return tables.with_values(keys, self._table.lookup(flat, name))
        with self._scoped(name, "Lookup"):
            text = flat if flat.dtype.base_dtype == dtypes.string else (
                string_ops.as_string(flat))
            numbers = _bucket_function(self._hasher_spec)(
                text, num_buckets=self._buckets, name="hash_bucket")
            if self._table:
                ids = self._table.lookup(flat)
                known = math_ops.not_equal(ids, self._table.default_value)
                numbers = array_ops.where(known, ids,
                                          numbers + self._table.size())
        return tables.with_values(keys, numbers)


class IdTableWithHashBuckets(_Buckets):
    """A table of numbers of words, with buckets for other words.

    Args:
      table: a table from strings or int64 to int64; None for buckets only.
      num_oov_buckets: the number of buckets.
      hasher_spec: a HasherSpec: how words are distributed to buckets.
      name: the name of the table.
      key_dtype: the type of the keys, if it is not that of the table.

    Raises:
      ValueError: if there is neither a table nor a bucket.
      TypeError: if types do not fit, or for another kind of `hasher_spec`.
    """

    def __init__(self, table, num_oov_buckets, hasher_spec=FastHashSpec,
                 name=None, key_dtype=None):
        if table:
            key_dtype = table.key_dtype if key_dtype is None else key_dtype
            _check_types(table.key_dtype, table.value_dtype, key_dtype)
        elif num_oov_buckets <= 0:
            raise ValueError(
                "oov_buckets must be > 0 if no table is supplied.")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got "
                            f"{hasher_spec}")
        super().__init__(table, num_oov_buckets, hasher_spec, name,
                         dtypes.string if key_dtype is None else key_dtype)


class StaticVocabularyTable(_Buckets):
    """A table of numbers of words, with at least one bucket for other words.

    Args:
      initializer: fills the table with int64 values; None for buckets only.
      num_oov_buckets: the number of buckets.
      lookup_key_dtype: the type of the keys, if it is not the initializer's.
      name: the name of the table.

    Raises:
      ValueError: if there is no bucket.
      TypeError: if types do not fit.
    """

    def __init__(self, initializer, num_oov_buckets, lookup_key_dtype=None,
                 name=None):
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        table, key_dtype = None, dtypes.string
        if initializer:
            key_dtype = (initializer.key_dtype if lookup_key_dtype is None else
                         lookup_key_dtype)
            _check_types(initializer.key_dtype, initializer.value_dtype,
                         key_dtype)
            table = tables.StaticHashTable(initializer, default_value=-1)
        super().__init__(table, num_oov_buckets, FastHashSpec, name, key_dtype)


StaticVocabularyTableV1 = StaticVocabularyTable


def _check_vocabulary(vocabulary_file, vocab_size, buckets=0):
    if vocabulary_file is None or (
            isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be "
                         "empty.")
    if buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, "
                         f"got {buckets}.")
    if vocab_size is not None and vocab_size < 1:
        if not isinstance(vocabulary_file, (str, bytes)):
            vocabulary_file = constant_value(convert_to_tensor(
                vocabulary_file)) or "?"
        raise ValueError(f"vocab_size must be greater than 0, got "
                         f"{vocab_size}. vocabulary_file: {vocabulary_file}")


def _check_key_type(dtype):
    if not dtype.is_integer and dtype.base_dtype != dtypes.string:
        raise TypeError("Only integer and string keys are supported.")


def index_table_from_file(
        vocabulary_file=None, num_oov_buckets=0, vocab_size=None,
        default_value=-1, hasher_spec=FastHashSpec, key_dtype=dtypes.string,
        name=None, key_column_index=tables.TextFileIndex.WHOLE_LINE,
        value_column_index=tables.TextFileIndex.LINE_NUMBER, delimiter="\t"):
    """Makes a table of the numbers of words, which are lines of a file.

    Args:
      vocabulary_file: the name of the file.
      num_oov_buckets: the number of buckets for other words.
      vocab_size: the number of lines, if it is known.
      default_value: the number of other words if there are no buckets.
      hasher_spec: a HasherSpec: how words are distributed to buckets.
      key_dtype: the type of the keys, string or an integer type.
      name: the name of the scope.
      key_column_index: the column of the keys, or a TextFileIndex.
      value_column_index: the column of the numbers, or a TextFileIndex.
      delimiter: what separates columns.

    Raises:
      ValueError: if the file's name is missing, or a number is out of range.
      TypeError: if the keys have another type.
    """
    _check_vocabulary(vocabulary_file, vocab_size, num_oov_buckets)
    key_dtype = dtypes.as_dtype(key_dtype)
    _check_key_type(key_dtype)
    with graphs.name_scope(name, "string_to_index"):
        with graphs.name_scope(None, "hash_table"):
            table = tables.StaticHashTable(tables.TextFileIdTableInitializer(
                vocabulary_file, key_column_index, value_column_index,
                vocab_size, delimiter, "table_init",
                dtypes.int64 if key_dtype.is_integer else key_dtype),
                default_value)
        if not num_oov_buckets:
            return table
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec,
                                      key_dtype=key_dtype)


def index_table_from_tensor(vocabulary_list, num_oov_buckets=0,
                            default_value=-1, hasher_spec=FastHashSpec,
                            dtype=dtypes.string, name=None):
    """Makes a table of the numbers of words in a list.

    Args:
      vocabulary_list: a vector of different words or integers.
      num_oov_buckets: the number of buckets for other words.
      default_value: the number of other words if there are no buckets.
      hasher_spec: a HasherSpec: how words are distributed to buckets.
      dtype: the type of the keys, string or an integer type.
      name: the name of the scope.

    Raises:
      ValueError: if the list is missing or of another type, or if the number of
        buckets is negative.
      TypeError: if `dtype` is another type.
    """
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, "
                         f"got {num_oov_buckets}.")
    dtype = dtypes.as_dtype(dtype)
    _check_key_type(dtype)
    with graphs.name_scope(name, "string_to_index"):
        keys = convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != dtype.is_integer or (
                not dtype.is_integer and keys.dtype.base_dtype != dtype):
            raise ValueError(f"Expected "
                             f"{'integer' if dtype.is_integer else dtype}, got "
                             f"{keys.dtype}.")
        if dtype.is_integer:
            keys = math_ops.cast(keys, dtypes.int64)
        numbers = math_ops.cast(math_ops.range(array_ops.size(keys)),
                                dtypes.int64)
        with graphs.name_scope(None, "hash_table"):
            table = tables.StaticHashTable(tables.KeyValueTensorInitializer(
                keys, numbers, name="table_init"), default_value)
        if not num_oov_buckets:
            return table
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec,
                                      key_dtype=dtype)


def index_to_string_table_from_file(
        vocabulary_file, vocab_size=None, default_value="UNK", name=None,
        key_column_index=tables.TextFileIndex.LINE_NUMBER,
        value_column_index=tables.TextFileIndex.WHOLE_LINE, delimiter="\t"):
    """Makes a table of words, which are lines of a file, by number.

    Args:
      vocabulary_file: the name of the file.
      vocab_size: the number of lines, if it is known.
      default_value: the word of other numbers.
      name: the name of the scope.
      key_column_index: the column of the numbers, or a TextFileIndex.
      value_column_index: the column of the words, or a TextFileIndex.
      delimiter: what separates columns.

    Raises:
      ValueError: if the file's name is missing, or `vocab_size` is 0.
    """
    _check_vocabulary(vocabulary_file, vocab_size)
    with graphs.name_scope(name, "index_to_string"):
        return tables.StaticHashTable(tables.TextFileStringTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size,
            delimiter, "table_init"), default_value)


def index_to_string_table_from_tensor(vocabulary_list, default_value="UNK",
                                      name=None):
    """Makes a table of the words of a list by number.

    Args:
      vocabulary_list: a vector of strings.
      default_value: the word of other numbers.
      name: the name of the scope.

    Raises:
      ValueError: if the list is missing.
    """
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    with graphs.name_scope(name, "index_to_string"):
        words = convert_to_tensor(vocabulary_list, dtypes.string)
        numbers = math_ops.cast(math_ops.range(array_ops.size(words)),
                                dtypes.int64)
        return tables.StaticHashTable(tables.KeyValueTensorInitializer(
            numbers, words, name="table_init"), default_value)
