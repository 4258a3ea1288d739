"""TensorFlow's messages of examples, and what says how they are to be read."""

import collections

from sluice.framework.messages import Message


class BytesList(Message):
    """Strings."""


class FloatList(Message):
    """Numbers."""


class Int64List(Message):
    """Integers."""


class Feature(Message):
    """Values of one kind: one of the lists."""


class Features(Message):
    """Features by name."""


class FeatureList(Message):
    """A feature of each step."""


class FeatureLists(Message):
    """Lists of features by name."""


class Example(Message):
    """Features by name: a line of a data set."""


class SequenceExample(Message):
    """A sequence: what is of it all, and of its steps."""


BytesList._declare(("value", 1, ["bytes"]))
FloatList._declare(("value", 1, ["float"]))
Int64List._declare(("value", 1, ["int64"]))
Feature._declare(("bytes_list", 1, BytesList), ("float_list", 2, FloatList),
                 ("int64_list", 3, Int64List),
                 kind=("bytes_list", "float_list", "int64_list"))
Features._declare(("feature", 1, {"string": Feature}))
FeatureList._declare(("feature", 1, [Feature]))
FeatureLists._declare(("feature_list", 1, {"string": FeatureList}))
Example._declare(("features", 1, Features))
SequenceExample._declare(("context", 1, Features),
                         ("feature_lists", 2, FeatureLists))


class FixedLenFeature(collections.namedtuple(
        "FixedLenFeature", ["shape", "dtype", "default_value"])):
    """A feature of as many values in each example."""

    def __new__(cls, shape, dtype, default_value=None):
        return super().__new__(cls, shape, dtype, default_value)


class VarLenFeature(collections.namedtuple("VarLenFeature", ["dtype"])):
    """A feature of some values, which is read as a SparseTensor."""


class FixedLenSequenceFeature(collections.namedtuple(
        "FixedLenSequenceFeature",
        ["shape", "dtype", "allow_missing", "default_value"])):
    """A feature of some rows, each of as many values."""

    def __new__(cls, shape, dtype, allow_missing=False, default_value=None):
        return super().__new__(cls, shape, dtype, allow_missing, default_value)


class SparseFeature(collections.namedtuple(
        "SparseFeature",
        ["index_key", "value_key", "dtype", "size", "already_sorted"])):
    """A SparseTensor of two features: its indices and its values."""

    def __new__(cls, index_key, value_key, dtype, size, already_sorted=False):
        return super().__new__(cls, index_key, value_key, dtype, size,
                               already_sorted)
