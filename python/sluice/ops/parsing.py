"""Parsing of records: Examples, comma-separated values and raw bytes."""

import collections
import re

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.framework.features import (
    FixedLenFeature, FixedLenSequenceFeature, SparseFeature, VarLenFeature)
from sluice.ops import array_ops, control_flow, math_ops, sparse_ops

_op = _core.op

decode_json_example = _op("DecodeJSONExample")


# ---- What is to be parsed ----------------------------------------------------


# A dense feature: its shape, type and default, and whether it may be missing.
_Dense = collections.namedtuple("_Dense", "shape dtype default missing")


class _Wanted:
    """The features to parse: sparse ones with their types, and dense ones."""

    def __init__(self, features, allowed):
        self.sparse, self.dense = {}, {}
        for key in sorted(features or {}):
            self._add(key, features[key], allowed)
        both = set(self.sparse) & set(self.dense)
        if both:
            raise ValueError(f"Dense and sparse keys must not intersect; "
                             f"intersection: {both}")

    def _add(self, key, feature, allowed):
        if not isinstance(feature, (VarLenFeature, SparseFeature,
                                    FixedLenFeature, FixedLenSequenceFeature)):
            raise ValueError(f"Invalid feature {key}:{feature}.")
        if not isinstance(feature, allowed):
            raise ValueError(f"Unsupported {type(feature).__name__} "
                             f"{feature}.")
        if isinstance(feature, SparseFeature):
            for what in ("index_key", "value_key"):
                if not getattr(feature, what):
                    raise ValueError(f"Missing {what} for SparseFeature "
                                     f"{feature}.")
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}.")
        dtype = dtypes.as_dtype(feature.dtype)
        if isinstance(feature, VarLenFeature):
            self._add_sparse(key, dtype)
        elif isinstance(feature, SparseFeature):
            keys = feature.index_key
            for index_key in ([keys] if isinstance(keys, str) else
                              sorted(keys)):
                self._add_sparse(index_key, dtypes.int64)
            self._add_sparse(feature.value_key, dtype)
        else:
            self._add_dense(key, feature, dtype)

    def _add_sparse(self, key, dtype):
        known = self.sparse.setdefault(key, dtype)
        if known != dtype:
            raise ValueError(f"Conflicting type {known.name} vs {dtype.name} "
                             f"for feature {key}.")

    def _add_dense(self, key, feature, dtype):
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}.")
        shape = tensor_shape.as_shape(feature.shape)
        if isinstance(feature, FixedLenFeature):
            if shape.ndims and shape.as_list()[0] is None:
                raise ValueError(f"First dimension of shape for feature {key} "
                                 f"unknown. Consider using "
                                 f"FixedLenSequenceFeature.")
            if not shape.is_fully_defined():
                raise ValueError(f"All dimensions of shape for feature {key} "
                                 f"need to be known but received "
                                 f"{feature.shape}.")
        self.dense[key] = _Dense(shape, dtype, feature.default_value,
                                 getattr(feature, "allow_missing", False))

    def sparse_types(self):
        """Returns the types of the sparse features."""
        return list(self.sparse.values())

    def dense_shapes(self):
        """Returns the shapes of the dense features."""
        return [feature.shape for feature in self.dense.values()]

    def dense_types(self):
        """Returns the types of the dense features."""
        return [feature.dtype for feature in self.dense.values()]

    def defaults(self):
        """Returns the defaults of the dense features: empty if there is none.

        That of a feature of any length is the scalar with which it is padded.
        """
        found = []
        for key, (shape, dtype, value, _) in self.dense.items():
            padded = shape.ndims and shape.as_list()[0] is None
            if value is None and padded:
                value = "" if dtype == dtypes.string else 0
            elif value is None:
                value = array_ops.constant([], dtype)
            if not isinstance(value, _core.Tensor) or padded:
                value = array_ops.reshape(
                    convert_to_tensor(value, dtype, name=_named("key", key)),
                    [] if padded else shape)
            found.append(value)
        return found

    def result(self, indices, values, shapes, dense):
        """Returns the parsed tensors by key."""
        return {**dict(zip(self.sparse, map(SparseTensor, indices, values,
                                            shapes))),
                **dict(zip(self.dense, dense))}


def _named(prefix, key):
    """Returns a name for an operation about a feature."""
    return f"{prefix}_{re.sub('[^A-Za-z0-9_.-]', '_', key)}"


_OF_EXAMPLES = (VarLenFeature, SparseFeature, FixedLenFeature,
                FixedLenSequenceFeature)


def _wanted_of_examples(features):
    if not features:
        raise ValueError(f"Missing: features was {features}.")
    rows = dict(features)
    for key, feature in features.items():
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature "
                                 "requires allow_missing to be True.")
            if feature.shape is not None:
                rows[key] = feature._replace(
                    shape=[None] + list(feature.shape))
    return _Wanted(rows, _OF_EXAMPLES)


def _merged(features, parsed):
    """Returns the parsed tensors of the features that the program named."""
    found = {}
    for key, feature in features.items():
        if isinstance(feature, SparseFeature):
            keys = feature.index_key
            ids = (parsed[keys] if isinstance(keys, str) else
                   [parsed[k] for k in keys])
            found[key] = sparse_ops.sparse_merge(
                ids, parsed[feature.value_key], feature.size,
                already_sorted=feature.already_sorted)
        else:
            found[key] = parsed[key]
    return found


# ---- Examples ----------------------------------------------------------------


def parse_example(serialized, features, name=None, example_names=None):
    """Parses a batch of Example messages.

    Args:
      serialized: a vector of serialized Examples.
      features: a dict of what to parse, by key: FixedLenFeature,
        FixedLenSequenceFeature, VarLenFeature or SparseFeature.
      name: the name of the operation.
      example_names: a vector of names for error messages.

    Returns:
      A dict with a tensor for each FixedLenFeature, of shape [batch, *shape]; a
      tensor padded to the longest for each FixedLenSequenceFeature, of shape
      [batch, longest, *shape]; and a SparseTensor for the others.

    Raises:
      ValueError: if a feature is invalid.
    """
    wanted = _wanted_of_examples(features)
    with graphs.name_scope(name, "ParseExample", [serialized]) as scope:
        parsed = _parse_batch(serialized, example_names, wanted, scope)
    return _merged(features, parsed)


def _parse_batch(serialized, names, wanted, name):
    return wanted.result(*_op("ParseExample")(
        serialized, convert_to_tensor([] if names is None else names,
                                      dtypes.string),
        list(wanted.sparse), list(wanted.dense), wanted.defaults(),
        sparse_types=wanted.sparse_types(), dense_shapes=wanted.dense_shapes(),
        name=name))


def parse_single_example(serialized, features, name=None, example_names=None):
    """Parses one Example message.

    Args:
      serialized: a scalar: the serialized Example.
      features: what to parse; see `parse_example`.
      name: the name of the operation.
      example_names: a scalar: a name for error messages.

    Returns:
      As `parse_example`, without the dimension of the batch.

    Raises:
      ValueError: if a feature is invalid, or `serialized` is not a scalar.
    """
    if not features:
        raise ValueError("Missing features.")
    wanted = _wanted_of_examples(features)
    with graphs.name_scope(name, "ParseSingleExample", [serialized]) as scope:
        serialized = convert_to_tensor(serialized, name="serialized")
        if example_names is None:
            parsed = wanted.result(*_op("ParseSingleExample")(
                serialized, wanted.defaults(), num_sparse=len(wanted.sparse),
                sparse_keys=list(wanted.sparse), dense_keys=list(wanted.dense),
                sparse_types=wanted.sparse_types(),
                dense_shapes=wanted.dense_shapes(), name=scope))
        else:
            names = _scalar(convert_to_tensor(example_names), "names")
            parsed = _first(_parse_batch(
                array_ops.expand_dims(_scalar(serialized, "serialized"), 0),
                array_ops.expand_dims(names, 0), wanted, None))
    return _merged(features, parsed)


def _scalar(value, what):
    """Returns a scalar; ValueError if it is known to be none."""
    message = f"Input {what} must be a scalar"
    if value.shape.ndims is None:
        check = control_flow.Assert(math_ops.equal(array_ops.rank(value), 0),
                                    [message])
        return control_flow.with_dependencies([check], value)
    if value.shape.ndims:
        raise ValueError(message)
    return value


def _first(parsed):
    """Returns the tensors of the only message of a batch."""
    return {key: SparseTensor(
        array_ops.slice(value.indices, [0, 1], [-1, -1]), value.values,
        array_ops.slice(value.dense_shape, [1], [-1]))
        if isinstance(value, SparseTensor) else
        array_ops.squeeze(value, [0], name=_named("Squeeze", key))
        for key, value in parsed.items()}


# ---- SequenceExamples --------------------------------------------------------


def parse_sequence_example(serialized, context_features=None,
                           sequence_features=None, example_names=None,
                           name=None):
    """Parses a batch of SequenceExample messages.

    Args:
      serialized: a vector of serialized SequenceExamples.
      context_features: what to parse of their contexts, by key:
        FixedLenFeature or VarLenFeature.
      sequence_features: what to parse of their lists, by key:
        FixedLenSequenceFeature or VarLenFeature.
      example_names: a vector of names for error messages.
      name: the name of the operation.

    Returns:
      (tensors of the contexts by key, tensors of the lists by key, the lengths
      of the dense lists by key). Dense lists are padded with zeros to the
      longest: [batch, longest, *shape]; sparse ones have rank 3.

    Raises:
      ValueError: if a feature is invalid, or if there are none.
    """
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    context = _Wanted(context_features, (VarLenFeature, FixedLenFeature))
    lists = _Wanted(sequence_features,
                    (VarLenFeature, FixedLenSequenceFeature))
    for key, feature in lists.dense.items():
        if feature.default is not None:
            raise ValueError(f"Value feature_list_dense_defaults[{key}] must "
                             f"be None")
    with graphs.name_scope(name, "ParseSequenceExample",
                           [serialized]) as scope:
        parsed = _op("ParseSequenceExample")(
            serialized, convert_to_tensor(
                [] if example_names is None else example_names, dtypes.string),
            context.defaults(),
            feature_list_dense_missing_assumed_empty=[
                key for key, feature in lists.dense.items() if feature.missing],
            context_sparse_keys=list(context.sparse),
            context_dense_keys=list(context.dense),
            feature_list_sparse_keys=list(lists.sparse),
            feature_list_dense_keys=list(lists.dense),
            Ncontext_sparse=len(context.sparse),
            Ncontext_dense=len(context.dense),
            Nfeature_list_sparse=len(lists.sparse),
            Nfeature_list_dense=len(lists.dense),
            context_sparse_types=context.sparse_types(),
            context_dense_shapes=context.dense_shapes(),
            feature_list_sparse_types=lists.sparse_types(),
            feature_list_dense_types=lists.dense_types(),
            feature_list_dense_shapes=lists.dense_shapes(), name=scope)
        return (context.result(*parsed[:4]), lists.result(*parsed[4:8]),
                dict(zip(lists.dense, parsed[8])))


def parse_single_sequence_example(serialized, context_features=None,
                                  sequence_features=None, example_name=None,
                                  name=None):
    """Parses one SequenceExample message.

    Args:
      serialized: a scalar: the serialized SequenceExample.
      context_features: what to parse of its context; see
        `parse_sequence_example`.
      sequence_features: what to parse of its lists.
      example_name: a scalar: a name for error messages.
      name: the name of the scope.

    Returns:
      (tensors of the context by key, tensors of the lists by key), without the
      dimension of a batch: the first one of a list is its length.

    Raises:
      ValueError: if a feature is invalid, or `serialized` is not a scalar.
    """
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    with graphs.name_scope(name, "ParseSingleSequenceExample", [serialized]):
        serialized = _scalar(convert_to_tensor(serialized), "serialized")
        names = None if example_name is None else array_ops.expand_dims(
            convert_to_tensor(example_name), 0)
        context, lists, _ = parse_sequence_example(
            array_ops.expand_dims(serialized, 0), context_features,
            sequence_features, names)
        return _first(context), _first(lists)


# ---- Other records -----------------------------------------------------------


def decode_csv(records, record_defaults, field_delim=",", use_quote_delim=True,
               name=None, na_value="", select_cols=None):
    """Parses lines of comma-separated values.

    Args:
      records: a tensor of lines.
      record_defaults: a list with a tensor for each column, of its type: the
        value of empty fields, or an empty vector if there must be none.
      field_delim: what separates fields, one character.
      use_quote_delim: whether double quotes may enclose fields.
      name: the name of the operation.
      na_value: a text that means an empty field, too.
      select_cols: the columns to parse, increasing; defaults to all.

    Returns:
      A list with a tensor for each column, of the shape of `records`.

    Raises:
      ValueError: if `select_cols` is invalid.
    """
    if select_cols is not None and len(select_cols) != len(record_defaults):
        raise ValueError(f"Length of select_cols and record_defaults do not "
                         f"match: {len(select_cols)}, {len(record_defaults)}")
    if select_cols and select_cols[0] < 0:
        raise ValueError("select_cols contains negative values.")
    if any(a >= b for a, b in zip(select_cols or [], (select_cols or [])[1:])):
        raise ValueError("select_cols is not strictly increasing.")
    return list(_op("DecodeCSV")(
        records, record_defaults, field_delim=field_delim,
        use_quote_delim=use_quote_delim, na_value=na_value,
        select_cols=list(select_cols or []), name=name))


def decode_raw(input_bytes=None, out_type=None, little_endian=True, name=None,
               bytes=None, fixed_length=None):
    """Reinterprets the bytes of strings as numbers.

    Args:
      input_bytes: a tensor of strings of equal length, unless `fixed_length`
        is given.
      out_type: the type of the numbers.
      little_endian: whether the lowest byte of a number comes first.
      name: the name of the operation.
      bytes: another name of `input_bytes`.
      fixed_length: how many bytes of each string count, a multiple of a
        number's size; shorter strings are filled with zero bytes.

    Returns:
      A tensor with one more dimension, that of the numbers of a string.

    Raises:
      ValueError: if there is no type.
    """
    if out_type is None:
        raise ValueError("decode_raw: expected out_type, got none")
    given = bytes if input_bytes is None else input_bytes
    if fixed_length is not None:
        return _op("DecodePaddedRaw")(given, fixed_length, out_type,
                                      little_endian=little_endian, name=name)
    return _op("DecodeRaw")(given, out_type, little_endian=little_endian,
                            name=name)
