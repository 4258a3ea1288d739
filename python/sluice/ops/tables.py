"""Lookup tables: maps from keys to values, which steps share."""

import uuid

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops import control_flow, queues
from sluice.ops.saveable_objects import (
    VARIABLE_VALUE_KEY, SaveableObject, SaveSpec, Trackable)

_op = _core.op


def tables_initializer(name="init_all_tables"):
    """Returns an operation that initializes all tables of the graph.

    Args:
      name: the name of the operation.
    """
    return control_flow.group(
        *graphs.get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


initialize_all_tables = tables_initializer


def with_values(keys, values):
    """Returns values in the form of keys, a tensor or a SparseTensor."""
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, values, keys.dense_shape)
    return values


class LookupInterface:
    """The base class of tables.

    Args:
      key_dtype: the type of the keys.
      value_dtype: the type of the values.
    """

    _resource_handle = None
    _table_name = None

    def __init__(self, key_dtype, value_dtype):
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self):
        """The type of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self):
        """The type of the values."""
        return self._value_dtype

    @property
    def name(self):
        """The name of the table, without its scopes."""
        return self._table_name

    @property
    def resource_handle(self):
        """The handle of the table, a tensor."""
        return self._resource_handle

    def _hold(self, handle):
        self._resource_handle = handle
        self._table_name = handle.op.name.rpartition("/")[2]

    def _scoped(self, name, default):
        return graphs.name_scope(name, f"{self.name}_{default}")

    def _checked(self, keys):
        """Converts keys to a tensor or SparseTensor of the table's type.

        Raises:
          TypeError: if they have another type.
        """
        if not isinstance(keys, SparseTensor):
            keys = convert_to_tensor(
                keys, None if hasattr(keys, "dtype") else self._key_dtype)
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError(f"Signature mismatch. Keys must be dtype "
                            f"{self._key_dtype}, got {keys.dtype}.")
        return keys

    def size(self, name=None):
        """Returns the number of keys, a scalar int64 tensor."""
        raise NotImplementedError

    def lookup(self, keys, name=None):
        """Returns the values of keys, of the same form."""
        raise NotImplementedError

    def __getitem__(self, keys):
        """Calls `lookup`."""
        return self.lookup(keys)

    # (Without it, `key in table` and loops would index the table forever.)
    __iter__ = None


class _Table(LookupInterface):
    """A table with a resource of its own."""

    _key_rank = 0

    def __init__(self, key_dtype, value_dtype, default_value):
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert_to_tensor(
            default_value, self._value_dtype, name="default_value")
        self._value_shape = self._default_value.shape

    @property
    def default_value(self):
        """The value of keys that are not in the table, a tensor."""
        return self._default_value

    def _call(self, op, *inputs, **attributes):
        with graphs.colocate_with(self._resource_handle):
            return _op(op)(self._resource_handle, *inputs, **attributes)

    def size(self, name=None):
        """Returns the number of keys, a scalar int64 tensor."""
        with self._scoped(name, "Size") as scope:
            return self._call("LookupTableSizeV2", name=scope)

    def lookup(self, keys, name=None):
        """Returns the values of keys; the default for those not in the table.

        Args:
          keys: a tensor or SparseTensor of any shape.
          name: the name of the operation.

        Returns:
          A tensor or SparseTensor of the shape of `keys`; values that are not
          scalars add dimensions.

        Raises:
          TypeError: if the keys have another type than the table's.
        """
        return self._find(keys, self._default_value, name)

    def _find(self, keys, default, name):
        with self._scoped(name, "Lookup") as scope:
            keys = self._keys_to_find(keys)
            flat = keys.values if isinstance(keys, SparseTensor) else keys
            values = self._call("LookupTableFindV2", flat, default, name=scope)
            if flat.shape.ndims is not None:
                each = flat.shape[:flat.shape.ndims - self._key_rank]
                values.set_shape(each.concatenate(self._value_shape))
            return with_values(keys, values)

    def _keys_to_find(self, keys):
        return self._checked(keys)

    def export(self, name=None):
        """Returns all keys and values, in any order: (keys, values)."""
        with self._scoped(name, "Export") as scope:
            keys, values = self._call(
                "LookupTableExportV2", Tkeys=self._key_dtype,
                Tvalues=self._value_dtype, name=scope)
            values.set_shape(keys.shape[:1].concatenate(self._value_shape))
            return keys, values


# ---- Tables that are initialized once ----------------------------------------


class InitializableLookupTableBase(_Table):
    """The base class of tables that an initializer fills.

    Args:
      default_value: the value of keys that are not in the table, a scalar.
      initializer: a TableInitializerBase, which fills the table.
    """

    def __init__(self, default_value, initializer):
        super().__init__(initializer.key_dtype, initializer.value_dtype,
                         default_value)
        self._default_value.shape.merge_with(tensor_shape.scalar())
        self._initializer = initializer
        with graphs.init_scope():
            self._hold(self._create_resource())
            self._init_op = initializer.initialize(self)

    def _create_resource(self):
        raise NotImplementedError

    @property
    def initializer(self):
        """The operation that fills the table."""
        return self._init_op

    @property
    def init(self):
        """The operation that fills the table."""
        return self._init_op


InitializableLookupTableBaseV1 = InitializableLookupTableBase


class StaticHashTable(InitializableLookupTableBase):
    """A table whose contents never change once it is initialized.

        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
        numbers = table.lookup(tf.constant(["b", "c"]))  # [2, -1]
        session.run(tf.tables_initializer())

    Tables that read the same file in the same way are one.

    Args:
      initializer: fills the table.
      default_value: the value of keys that are not in the table, a scalar.
      name: the name of the operation.
    """

    def __init__(self, initializer, default_value, name=None):
        self._shared_name = initializer._shared_name or (
            f"hash_table_{uuid.uuid4()}")
        self._name = name or "hash_table"
        super().__init__(default_value, initializer)

    def _create_resource(self):
        return queues.make_resource(
            "HashTableV2", self._shared_name, self._name,
            key_dtype=self._key_dtype, value_dtype=self._value_dtype)


StaticHashTableV1 = StaticHashTable


class TableInitializerBase:
    """The base class of what fills tables.

    Args:
      key_dtype: the type of the keys.
      value_dtype: the type of the values.
    """

    def __init__(self, key_dtype, value_dtype):
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self):
        """The type of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self):
        """The type of the values."""
        return self._value_dtype

    def initialize(self, table):
        """Returns an operation that fills a table."""
        raise NotImplementedError

    @property
    def _shared_name(self):
        """The name of all tables with these contents; "" if there is none."""
        return ""

    def _check(self, table):
        for mine, its, what in (
                (self._key_dtype, table.key_dtype, "key"),
                (self._value_dtype, table.value_dtype, "value")):
            if mine != its:
                raise TypeError(f"Invalid {what} dtype, expected {its} but got "
                                f"{mine}.")


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table with keys and values of tensors.

    Args:
      keys: a vector of different keys.
      values: a vector of their values.
      key_dtype: the type of the keys; inferred by default.
      value_dtype: the type of the values; inferred by default.
      name: the name of the scope.
    """

    def __init__(self, keys, values, key_dtype=None, value_dtype=None,
                 name=None):
        with graphs.init_scope():
            self._keys = convert_to_tensor(keys, key_dtype, name="keys")
            self._values = convert_to_tensor(values, value_dtype, name="values")
        self._name = name or "key_value_init"
        super().__init__(self._keys.dtype.base_dtype,
                         self._values.dtype.base_dtype)

    def initialize(self, table):
        """Returns an operation that fills a table.

        Raises:
          TypeError: if the table has other types.
          ValueError: if there are not as many values as keys.
        """
        self._check(table)
        self._keys.shape.assert_is_compatible_with(self._values.shape)
        with graphs.name_scope(self._name):
            done = _op("LookupTableImportV2")(
                table.resource_handle, self._keys, self._values)
        graphs.add_to_collection(GraphKeys.TABLE_INITIALIZERS, done)
        return done


class TextFileIndex:
    """What a column number means that is none: the number of a line, or all."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(TableInitializerBase):
    """Fills a table from the lines of a text file.

    Keys and values are each a column, the whole line, or the line's number.

    Args:
      filename: the name of the file.
      key_dtype: the type of the keys.
      key_index: their column, or a TextFileIndex.
      value_dtype: the type of the values.
      value_index: their column, or a TextFileIndex.
      vocab_size: the number of lines, if it is known.
      delimiter: what separates columns.
      name: the name of the scope.

    Raises:
      ValueError: if the file's name is missing, or if types and columns do not
        fit.
    """

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index,
                 vocab_size=None, delimiter="\t", name=None):
        if not isinstance(filename, _core.Tensor) and not filename:
            raise ValueError(f"Filename required for {name}.")
        key_dtype = dtypes.as_dtype(key_dtype)
        value_dtype = dtypes.as_dtype(value_dtype)
        line, number = TextFileIndex.WHOLE_LINE, TextFileIndex.LINE_NUMBER
        for index, dtype, what in ((key_index, key_dtype, "key"),
                                   (value_index, value_dtype, "value")):
            if index < line:
                raise ValueError(f"Invalid {what} index {index}.")
            if index == number and dtype != dtypes.int64:
                raise ValueError(f"Signature mismatch. {what.title()}s must be "
                                 f"dtype {dtypes.int64}, got {dtype}.")
        if key_index == line and not key_dtype.is_integer and (
                key_dtype != dtypes.string):
            raise ValueError(f"Signature mismatch. Keys must be integer or "
                             f"string, got {key_dtype}.")
        if value_index == line and value_dtype != dtypes.string:
            raise ValueError(f"Signature mismatch. Values must be dtype "
                             f"{dtypes.string}, got {value_dtype}.")
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename = filename
        self._key_index, self._value_index = key_index, value_index
        self._vocab_size = vocab_size
        self._delimiter = delimiter
        self._name = name
        super().__init__(key_dtype, value_dtype)

    def initialize(self, table):
        """Returns an operation that fills a table.

        Adds the file's name to the collection ASSET_FILEPATHS.

        Raises:
          TypeError: if the table has other types.
        """
        self._check(table)
        with graphs.name_scope(self._name, "text_file_init"):
            filename = convert_to_tensor(self._filename, dtypes.string,
                                         name="asset_filepath")
            done = _op("InitializeTableFromTextFileV2")(
                table.resource_handle, filename, key_index=self._key_index,
                value_index=self._value_index,
                vocab_size=self._vocab_size or -1, delimiter=self._delimiter)
        graphs.add_to_collection(GraphKeys.TABLE_INITIALIZERS, done)
        if filename.op.type == "Const":
            graphs.add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return done

    @property
    def _shared_name(self):
        size = f"{self._vocab_size}_" if self._vocab_size else ""
        return (f"hash_table_{self._filename}_{size}{self._key_index}_"
                f"{self._value_index}")


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table of int64 keys and strings, by default lines by number.

    Args:
      filename: the name of the file.
      key_column_index: the column of the keys, or a TextFileIndex.
      value_column_index: the column of the values, or a TextFileIndex.
      vocab_size: the number of lines, if it is known.
      delimiter: what separates columns.
      name: the name of the scope.
    """

    def __init__(self, filename, key_column_index=TextFileIndex.LINE_NUMBER,
                 value_column_index=TextFileIndex.WHOLE_LINE, vocab_size=None,
                 delimiter="\t", name="text_file_string_table_init"):
        super().__init__(filename, dtypes.int64, key_column_index,
                         dtypes.string, value_column_index, vocab_size,
                         delimiter, name)


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table of strings and int64 values, by default numbers of lines.

    Args:
      filename: the name of the file.
      key_column_index: the column of the keys, or a TextFileIndex.
      value_column_index: the column of the values, or a TextFileIndex.
      vocab_size: the number of lines, if it is known.
      delimiter: what separates columns.
      name: the name of the scope.
      key_dtype: the type of the keys.
    """

    def __init__(self, filename, key_column_index=TextFileIndex.WHOLE_LINE,
                 value_column_index=TextFileIndex.LINE_NUMBER, vocab_size=None,
                 delimiter="\t", name="text_file_id_table_init",
                 key_dtype=dtypes.string):
        super().__init__(filename, key_dtype, key_column_index, dtypes.int64,
                         value_column_index, vocab_size, delimiter, name)


# ---- Tables that steps change ------------------------------------------------


class _TableSaveable(SaveableObject):
    """The keys and the values of a table, under "<name>-keys", "-values"."""

    def __init__(self, table, name):
        keys, values = table.export()
        super().__init__(table, [SaveSpec(keys, "", f"{name}-keys"),
                                 SaveSpec(values, "", f"{name}-values")], name)

    def restore(self, restored_tensors, restored_shapes):
        """Makes the operation that replaces the contents of the table."""
        del restored_shapes
        handle = self.op.resource_handle
        with graphs.name_scope(f"{self.name}_table_restore"), \
                graphs.colocate_with(handle):
            return _op("LookupTableImportV2")(handle, *restored_tensors)


class _MutableTable(_Table, Trackable):
    """The base class of tables that steps change."""

    def _save_as(self, name):
        """Savers save the table by default, under a name.

        If another of the graph has that name: under that of the operation.
        """
        taken = {getattr(s, "name", None) for s in
                 graphs.get_collection(GraphKeys.SAVEABLE_OBJECTS)}
        self._saveable = _TableSaveable(
            self, self._resource_handle.op.name if name in taken else name)
        graphs.add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self._saveable)

    def _gather_saveables_for_checkpoint(self):
        def saveable(name=None):
            if name is not None:
                return _TableSaveable(self, f"{name}_table")
            if self._saveable is None:
                self._saveable = _TableSaveable(self, self.name)
            return self._saveable
        return {VARIABLE_VALUE_KEY: saveable}

    _saveable = None

    def _keys_to_find(self, keys):
        if isinstance(keys, SparseTensor):
            return self._checked(keys)
        return convert_to_tensor(keys, self._key_dtype, name="keys")

    def insert(self, keys, values, name=None):
        """Returns an operation that inserts keys, or changes their values.

        Args:
          keys: a tensor of any shape.
          values: a tensor of the same shape, and that of a value.
          name: the name of the operation.

        Raises:
          TypeError: if the types are not the table's.
        """
        with self._scoped(name, "lookup_table_insert") as scope:
            keys = convert_to_tensor(keys, self._key_dtype, name="keys")
            values = convert_to_tensor(values, self._value_dtype, name="values")
            return self._call("LookupTableInsertV2", keys, values, name=scope)

    def remove(self, keys, name=None):
        """Returns an operation that removes keys; missing ones are ignored.

        Raises:
          TypeError: if the keys have another type than the table's.
        """
        with self._scoped(name, "lookup_table_remove") as scope:
            return self._call("LookupTableRemoveV2", self._checked(keys),
                              name=scope)


class MutableHashTable(_MutableTable):
    """A table whose contents steps change; needs no initialization.

    Args:
      key_dtype: the type of the keys.
      value_dtype: the type of the values.
      default_value: the value of keys that are not in the table, a scalar or,
        if values are vectors, a vector.
      name: the name of the operation.
      checkpoint: whether savers save the table by default, for which all its
        users must know it by its name.
      shared_name: the name under which sessions share the table.
    """

    def __init__(self, key_dtype, value_dtype, default_value,
                 name="MutableHashTable", checkpoint=True, shared_name=None):
        super().__init__(key_dtype, value_dtype, default_value)
        attributes = {"use_node_name_sharing": checkpoint and not shared_name,
                      "key_dtype": self._key_dtype,
                      "value_dtype": self._value_dtype}
        if self._value_shape.ndims == 0:
            handle = queues.make_resource("MutableHashTableV2", shared_name,
                                          name, **attributes)
        else:
            handle = queues.make_resource(
                "MutableHashTableOfTensorsV2", shared_name, name,
                value_shape=self._value_shape, **attributes)
        self._hold(handle)
        if checkpoint:
            self._save_as(name)

    def lookup(self, keys, dynamic_default_values=None, name=None):
        """Returns the values of keys.

        Args:
          keys: a tensor or SparseTensor of any shape.
          dynamic_default_values: the values of keys that are not in the table,
            instead of the table's default: one for each key, or a single one.
          name: the name of the operation.

        Returns:
          A tensor or SparseTensor of the shape of `keys`; values that are not
          scalars add dimensions.

        Raises:
          TypeError: if the keys have another type than the table's.
        """
        if isinstance(dynamic_default_values, str) and name is None:
            # TensorFlow 1's second parameter was the name.
            dynamic_default_values, name = None, dynamic_default_values
        default = self._default_value
        if dynamic_default_values is not None:
            default = convert_to_tensor(
                dynamic_default_values, self._value_dtype,
                name="dynamic_default_values")
        return self._find(keys, default, name)


class DenseHashTable(_MutableTable):
    """A table whose contents steps change, in one block of memory.

    It is faster than MutableHashTable, and takes more memory.

    Args:
      key_dtype: the type of the keys.
      value_dtype: the type of the values.
      default_value: the value of keys that are not in the table.
      empty_key: a key that marks free places, and is never inserted; keys may
        be vectors.
      deleted_key: another such key, which marks removed ones.
      initial_num_buckets: the number of places at first, a power of two.
      name: the name of the operation.
      checkpoint: whether savers save the table by default, for which all its
        users must know it by its name.
      shared_name: the name under which sessions share the table.
    """

    def __init__(self, key_dtype, value_dtype, default_value, empty_key,
                 deleted_key, initial_num_buckets=None,
                 name="MutableDenseHashTable", checkpoint=True,
                 shared_name=None):
        super().__init__(key_dtype, value_dtype, default_value)
        empty_key = convert_to_tensor(empty_key, self._key_dtype,
                                      name="empty_key")
        self._key_rank = empty_key.shape.ndims
        deleted_key = convert_to_tensor(deleted_key, self._key_dtype,
                                        name="deleted_key")
        size = {} if initial_num_buckets is None else {
            "initial_num_buckets": initial_num_buckets}
        self._hold(queues.make_resource(
            "MutableDenseHashTableV2", shared_name, name, empty_key=empty_key,
            deleted_key=deleted_key, value_dtype=self._value_dtype,
            value_shape=self._value_shape,
            use_node_name_sharing=checkpoint and not shared_name, **size))
        if checkpoint:
            self._save_as(name)

    def export(self, name=None):
        """Returns the keys and values of all places: (keys, values).

        The keys of free places are `empty_key` and `deleted_key`. Scalars
        become vectors of one element.
        """
        with self._scoped(name, "Export") as scope:
            return self._call("LookupTableExportV2", Tkeys=self._key_dtype,
                              Tvalues=self._value_dtype, name=scope)

    def insert_or_assign(self, keys, values, name=None):
        """Calls `insert`."""
        return self.insert(keys, values, name)

    def erase(self, keys, name=None):
        """Calls `remove`."""
        return self.remove(keys, name)


MutableDenseHashTable = DenseHashTable
