"""What TensorFlow's tests of savers save: a table with its own SaveableObject."""

from sluice import _core
from sluice.framework import dtypes
from sluice.framework import graph as graphs
from sluice.training.saveables import SaveableObject, SaveSpec

_op = _core.op


class CheckpointedOp:
    """A table from strings to floats.

    Args:
      name: of the table, and in checkpoints.
      table_ref: the handle of a table that exists.
    """

    def __init__(self, name, table_ref=None):
        self.table_ref = table_ref if table_ref is not None else (
            _op("MutableHashTableV2")(key_dtype=dtypes.string,
                                      value_dtype=dtypes.float32, name=name))
        self.name = name
        self.saveable = CheckpointedOp.CustomSaveable(self, name)
        graphs.add_to_collection(graphs.GraphKeys.SAVEABLE_OBJECTS,
                                 self.saveable)

    def insert(self, keys, values):
        """Adds keys, or replaces their values."""
        return _op("LookupTableInsertV2")(self.table_ref, keys, values)

    def lookup(self, keys, default):
        """Returns the values of keys."""
        return _op("LookupTableFindV2")(self.table_ref, keys, default)

    def keys(self):
        """Returns all keys."""
        return self._export()[0]

    def values(self):
        """Returns the values of all keys."""
        return self._export()[1]

    def _export(self):
        return _op("LookupTableExportV2")(self.table_ref, dtypes.string,
                                          dtypes.float32)

    class CustomSaveable(SaveableObject):
        """Saves the keys and the values of a table."""

        def __init__(self, table, name):
            keys, values = table._export()
            super().__init__(table, [SaveSpec(keys, "", name + "-keys"),
                                     SaveSpec(values, "", name + "-values")],
                             name)

        def restore(self, restored_tensors, restored_shapes):
            """Replaces the contents of the table."""
            del restored_shapes
            return _op("LookupTableImportV2")(
                self.op.table_ref, restored_tensors[0], restored_tensors[1])
