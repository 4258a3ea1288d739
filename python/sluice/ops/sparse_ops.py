"""Operations on SparseTensors."""

import functools
import math

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, SparseTensorValue, constant,
    constant_value, convert_to_tensor, parts)
from sluice.ops import array_ops, check_ops, control_flow, math_ops

_op = _core.op


def _sparse(value):
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor, got {value!r}.")
    return value


def _parts(value):
    return parts(_sparse(value))


def sparse_placeholder(dtype, shape=None, name=None):
    """Returns a sparse tensor whose value must be fed in each step."""
    prefix = name or "Placeholder"
    rank = None if shape is None else len(shape)
    if shape is None:
        dims = array_ops.placeholder(dtypes.int64, [rank],
                                     name=f"{prefix}/shape")
    else:  # A feed may have another shape.
        shape = tensor_shape.as_shape(shape)
        dims = array_ops.placeholder_with_default(
            convert_to_tensor([-1 if d is None else d
                               for d in shape.as_list()], dtypes.int64),
            [rank], name=f"{prefix}/shape")
    made = SparseTensor(
        array_ops.placeholder(dtypes.int64, [None, rank],
                              name=f"{prefix}/indices"),
        array_ops.placeholder(dtype, [None], name=f"{prefix}/values"), dims)
    made._known_shape = shape
    return made


def sparse_to_dense(sp_input, default_value=None, validate_indices=True,
                    name=None):
    """Converts to a dense tensor, with a default value for missing elements."""
    sp_input = _sparse(sp_input)
    if default_value is None:
        default_value = array_ops.zeros([], sp_input.dtype)
    return _op("SparseToDense")(
        sp_input.indices, sp_input.dense_shape, sp_input.values,
        default_value, validate_indices=validate_indices, name=name)


def sparse_add(a, b, threshold=None, thresh=None):
    """Adds two tensors, at least one of which is sparse.

    The sum of two sparse tensors is sparse, without elements whose magnitude
    is at most the threshold.
    """
    thresh = threshold if thresh is None else thresh
    if all(isinstance(x, (SparseTensor, SparseTensorValue)) for x in (a, b)):
        a, b = _sparse(a), _sparse(b)
        limit = convert_to_tensor(0 if thresh is None else thresh,
                                  a.dtype.real_dtype.base_dtype)
        return SparseTensor(*_op("SparseAdd")(*_parts(a), *_parts(b), limit))
    if isinstance(b, (SparseTensor, SparseTensorValue)):
        a, b = b, a
    return _op("SparseTensorDenseAdd")(*_parts(a), b)


def sparse_dense_cwise_add(sp_t, dense_t):
    """Adds the corresponding elements of a dense tensor to the elements."""
    return _sparse(sp_t)._with("SparseDenseCwiseAdd", dense_t)


def sparse_concat(axis, sp_inputs, name=None, expand_nonconcat_dim=False,
                  concat_dim=None, expand_nonconcat_dims=None):
    """Concatenates sparse tensors along a dimension."""
    axis = concat_dim if axis is None else axis
    if expand_nonconcat_dim or expand_nonconcat_dims:
        sp_inputs = [_sparse(s) for s in sp_inputs]
        widest = functools.reduce(math_ops.maximum,
                                  [s.dense_shape for s in sp_inputs])
        after = axis + 1 or None  # None if axis is -1, the last.
        sp_inputs = [SparseTensor(s.indices, s.values, array_ops.concat(
            [widest[:axis], s.dense_shape[axis:after]] +
            ([widest[after:]] if after else []), 0)) for s in sp_inputs]
    parts = [_parts(s) for s in sp_inputs]
    if len(parts) == 1:
        return _sparse(sp_inputs[0])
    return SparseTensor(*_op("SparseConcat")(
        *[list(p) for p in zip(*parts)], concat_dim=axis, name=name))


_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def sparse_cross(inputs, name=None):
    """Returns all combinations of values in each row, joined by "_X_".

    Args:
      inputs: a list of SparseTensors and matrices, of strings or integers.
    """
    return _cross(inputs, dtypes.string, 0, None, name)


def sparse_cross_hashed(inputs, num_buckets=0, hash_key=None, name=None):
    """Works like `sparse_cross`, but hashes combinations to buckets."""
    return _cross(inputs, dtypes.int64, num_buckets, hash_key, name)


def _cross(inputs, out_type, num_buckets, hash_key, name):
    if not isinstance(inputs, list):
        raise TypeError("Inputs must be a list")
    if not all(isinstance(i, (SparseTensor, _core.Tensor)) for i in inputs):
        raise TypeError("All inputs must be SparseTensors")
    kinds = set()

    def known(values):
        if values.dtype.base_dtype is not dtypes.string:
            values = math_ops.cast(values, dtypes.int64)
        kinds.add(values.dtype.base_dtype)
        return values

    sparse = [i for i in inputs if isinstance(i, SparseTensor)]
    values = [known(s.values) for s in sparse]
    dense = [known(i) for i in inputs if isinstance(i, _core.Tensor)]
    return SparseTensor(*_op("SparseCross")(
        [s.indices for s in sparse], values, [s.dense_shape for s in sparse],
        dense, hashed_output=out_type is dtypes.int64, num_buckets=num_buckets,
        hash_key=hash_key or _DEFAULT_HASH_KEY, out_type=out_type,
        internal_type=(dtypes.int64 if dtypes.int64 in kinds
                       else dtypes.string), name=name))


_sparse_cross, _sparse_cross_hashed = sparse_cross, sparse_cross_hashed


def sparse_reorder(sp_input, name=None):
    """Sorts the elements in row-major order."""
    sp_input = _sparse(sp_input)
    indices, values = _op("SparseReorder")(*_parts(sp_input), name=name)
    return SparseTensor(indices, values, sp_input.dense_shape)


def _completed(sizes, n):
    """Replaces -1 in a shape so that it has n elements."""
    if sizes.count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: "
                         f"{sizes}")
    rest = math.prod(s for s in sizes if s != -1)
    made = [s if s != -1 else n // rest if rest else 0 for s in sizes]
    if math.prod(made) != n:
        raise ValueError(f"Cannot reshape a tensor with {n} elements to shape "
                         f"{made} ({math.prod(made)} elements).")
    return made


def sparse_reshape(sp_input, shape, name=None):
    """Reshapes a sparse tensor; -1 in the shape is inferred."""
    sp_input = _sparse(sp_input)
    shape = math_ops.cast(shape, dtypes.int64)
    known, old = constant_value(shape), sp_input.shape.num_elements()
    if known is not None and old is not None:
        shape = constant(_completed(list(known), old), dtypes.int64)
    indices, dims = _op("SparseReshape")(
        sp_input.indices, sp_input.dense_shape, shape, name=name)
    if known is not None and old is not None:
        dims = shape
    return SparseTensor(indices, sp_input.values, dims)


def sparse_slice(sp_input, start, size, name=None):
    """Extracts a slice given its start and size."""
    with graphs.name_scope(name, "SparseSlice"):
        return SparseTensor(*_op("SparseSlice")(
            *_parts(sp_input), convert_to_tensor(start, dtypes.int64),
            convert_to_tensor(size, dtypes.int64)))


def sparse_split(keyword_required=None, sp_input=None, num_split=None,
                 axis=None, name=None, split_dim=None):
    """Splits a sparse tensor along a dimension into equal parts, a list."""
    if keyword_required is not None:
        raise ValueError("Keyword arguments are required for this function.")
    axis = split_dim if axis is None else axis
    if num_split is None or axis is None or sp_input is None:
        raise ValueError("Must specify num_split, axis and sp_input "
                         "arguments")
    indices, values, shapes = _op("SparseSplit")(
        convert_to_tensor(axis, dtypes.int64), *_parts(sp_input),
        num_split=num_split, name=name)
    return [SparseTensor(*part) for part in zip(indices, values, shapes)]


def sparse_transpose(sp_input, perm=None, name=None):
    """Permutes the dimensions of a sparse tensor; reverses them by default."""
    with graphs.name_scope(name, "SparseTranspose"):
        sp_input = _sparse(sp_input)
        if perm is None:
            rank = sp_input.shape.ndims
            if rank is None:
                rank = array_ops.shape(sp_input.dense_shape)[0]
                perm = (rank - 1) - math_ops.range(0, rank, 1)
            else:
                perm = list(range(rank))[::-1]
        indices = array_ops.transpose(array_ops.gather(
            array_ops.transpose(sp_input.indices), perm))
        dims = array_ops.gather(sp_input.dense_shape, perm)
        order = constant_value(convert_to_tensor(perm))
        if order is not None and sp_input.shape.is_fully_defined():
            sizes = sp_input.shape.as_list()
            dims = constant([sizes[i] for i in order], dtypes.int64)
        return sparse_reorder(SparseTensor(indices, sp_input.values, dims))


def sparse_expand_dims(sp_input, axis=None, name=None):
    """Inserts a dimension of size 1 at `axis`."""
    with graphs.name_scope(name, "expand_dims"):
        sp_input = _sparse(sp_input)
        rank = sp_input.dense_shape.shape.as_list()[0]
        axis = -1 if axis is None else axis
        at = axis if axis >= 0 else rank + 1 + axis
        zeros = array_ops.zeros_like(sp_input.indices[:, :1])
        return SparseTensor(
            array_ops.concat([sp_input.indices[:, :at], zeros,
                              sp_input.indices[:, at:]], 1),
            sp_input.values,
            array_ops.concat([sp_input.dense_shape[:at], [1],
                              sp_input.dense_shape[at:]], 0))


def sparse_eye(num_rows, num_columns=None, dtype=dtypes.float32, name=None):
    """Returns a sparse identity matrix."""
    with graphs.name_scope(name, "eye", [num_rows, num_columns]):
        columns = num_rows if num_columns is None else num_columns
        side = math_ops.cast(math_ops.minimum(num_rows, columns), dtypes.int64)
        at = math_ops.range(side)
        return SparseTensor(array_ops.stack([at, at], axis=1),
                            array_ops.ones(array_ops.reshape(side, [1]), dtype),
                            [num_rows, columns])


def from_dense(tensor, name=None):
    """Converts a dense tensor, omitting zeros and empty strings."""
    with graphs.name_scope(name, "dense_to_sparse"):
        x = convert_to_tensor(tensor)
        zero = constant("" if x.dtype is dtypes.string else 0,
                        x.dtype.base_dtype)
        at = array_ops.where(math_ops.not_equal(x, zero))
        return SparseTensor(at, array_ops.gather_nd(x, at),
                            array_ops.shape(x, out_type=dtypes.int64))


def sparse_retain(sp_input, to_retain):
    """Keeps only the elements for which `to_retain` is true."""
    sp_input = _sparse(sp_input)
    to_retain = convert_to_tensor(to_retain)
    to_retain.shape.merge_with(sp_input.values.shape)
    at = array_ops.reshape(array_ops.where(to_retain), [-1])
    return SparseTensor(array_ops.gather(sp_input.indices, at),
                        array_ops.gather(sp_input.values, at),
                        sp_input.dense_shape)


def sparse_fill_empty_rows(sp_input, default_value, name=None):
    """Fills empty rows with a default value.

    Returns:
      (the filled tensor, a boolean for each row: whether it was empty).
    """
    with graphs.name_scope(name, "SparseFillEmptyRows", [sp_input]):
        sp_input = _sparse(sp_input)
        indices, values, empty, _ = _op("SparseFillEmptyRows")(
            *_parts(sp_input),
            convert_to_tensor(default_value, sp_input.dtype))
        return SparseTensor(indices, values, sp_input.dense_shape), empty


def sparse_reset_shape(sp_input, new_shape=None):
    """Replaces the shape by a larger one, or by the tightest if it is None."""
    sp_input = _sparse(sp_input)
    if new_shape is None:
        rank = array_ops.shape(sp_input.dense_shape)
        least = array_ops.zeros(rank, dtypes.int64)
        tight = math_ops.maximum(
            least, math_ops.reduce_max(sp_input.indices, 0) + 1)
        return SparseTensor(sp_input.indices, sp_input.values, tight)
    new_shape = math_ops.cast(new_shape, dtypes.int64)
    new_shape.shape.assert_has_rank(1)
    new_shape.shape.merge_with(sp_input.dense_shape.shape)
    known, old = constant_value(new_shape), constant_value(
        sp_input.dense_shape)
    if known is None or old is None:
        new_shape = control_flow.with_dependencies([check_ops.assert_equal(
            array_ops.shape(sp_input.dense_shape),
            array_ops.shape(new_shape))], new_shape)
        new_shape = control_flow.with_dependencies(
            [check_ops.assert_less_equal(sp_input.dense_shape, new_shape)],
            new_shape)
    elif (known < old).any():
        raise ValueError(f"Requested new_shape should have dimension sizes >= "
                         f"sp_input.shape.  Found new_shape ({list(known)}), "
                         f"sp_input.shape ({list(old)}).")
    else:
        new_shape = constant(known)
    return SparseTensor(sp_input.indices, sp_input.values, new_shape)


def sparse_merge(sp_ids, sp_values, vocab_size, name=None,
                 already_sorted=False):
    """Uses ids as column indices for values.

    Ids and values in rows give a matrix [rows, vocab_size]. With several
    tensors of ids, each gives one dimension.
    """
    many = isinstance(sp_ids, (list, tuple)) and not isinstance(
        sp_ids, SparseTensorValue)
    ids = [_sparse(s) for s in (sp_ids if many else [sp_ids])]
    sizes = vocab_size if many else [vocab_size]
    sp_values = _sparse(sp_values)
    with graphs.name_scope(name, "SparseMerge"):
        columns = [array_ops.expand_dims(math_ops.cast(s.values, dtypes.int64),
                                         1) for s in ids]
        indices = array_ops.concat([ids[0].indices[:, :-1]] + columns, 1)
        dims = array_ops.concat([ids[0].dense_shape[:-1], math_ops.cast(
            array_ops.stack(list(sizes)), dtypes.int64)], 0)
        merged = SparseTensor(indices, sp_values.values, dims)
        if already_sorted:
            return merged
        # This sorts by coordinates, even if ids exceed the shape.
        ordered = sparse_reorder(merged)
        return SparseTensor(ordered.indices, ordered.values, dims)


def sparse_to_indicator(sp_input, vocab_size, name=None):
    """Returns a boolean matrix that is True at the columns given by values."""
    with graphs.name_scope(name, "SparseToIndicator", [sp_input]):
        sp_input = _sparse(sp_input)
        true = SparseTensor(sp_input.indices,
                            array_ops.ones_like(sp_input.values, dtypes.bool_),
                            sp_input.dense_shape)
        return sparse_to_dense(sparse_merge(sp_input, true, vocab_size),
                               False, validate_indices=False)


def sparse_softmax(sp_input, name=None):
    """Computes softmax over the present elements of each row."""
    sp_input = _sparse(sp_input)
    values = _op("SparseSoftmax")(*_parts(sp_input), name=name)
    return SparseTensor(sp_input.indices, values, sp_input.dense_shape)


def _pairwise(kind):
    def function(sp_a, sp_b, name=None):
        a = _sparse(sp_a)
        indices, values = _op(kind)(*_parts(a), *_parts(sp_b), name=name)
        return SparseTensor(indices, values, a.dense_shape)
    return function


sparse_maximum = _pairwise("SparseSparseMaximum")
sparse_maximum.__doc__ = "Returns the maximum; missing elements are 0."
sparse_minimum = _pairwise("SparseSparseMinimum")
sparse_minimum.__doc__ = "Returns the minimum; missing elements are 0."


def _reduction(kind, is_sparse, doc):
    def function(sp_input, axis=None, keepdims=None, reduction_axes=None,
                 keep_dims=None, name=None):
        parts = _parts(sp_input)
        axis = reduction_axes if axis is None else axis
        keep = bool(keep_dims if keepdims is None else keepdims)
        if axis is None:
            axis = math_ops.range(array_ops.shape(parts[2])[0])
        elif isinstance(axis, int):
            axis = [axis]
        result = _op(kind)(*parts, axis, keep_dims=keep, name=name)
        return SparseTensor(*result) if is_sparse else result
    function.__doc__ = doc
    return function


sparse_reduce_sum = _reduction("SparseReduceSum", False,
                               "Computes the sum over dimensions.")
sparse_reduce_max = _reduction("SparseReduceMax", False,
                               "Computes the maximum over dimensions.")
sparse_reduce_sum_sparse = _reduction("SparseReduceSumSparse", True,
                                      "Computes the sum, sparse.")
sparse_reduce_max_sparse = _reduction("SparseReduceMaxSparse", True,
                                      "Computes the maximum, sparse.")


def sparse_tensor_dense_matmul(sp_a, b, adjoint_a=False, adjoint_b=False,
                               name=None):
    """Multiplies a sparse and a dense matrix, in either order."""
    if isinstance(b, (SparseTensor, SparseTensorValue)) and not isinstance(
            sp_a, (SparseTensor, SparseTensorValue)):
        product = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b,
                                             not adjoint_a, name)
        return array_ops.matrix_transpose(product, conjugate=True)
    return _op("SparseTensorDenseMatMul")(
        *_parts(sp_a), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=name)


def sparse_mask(a, mask_indices, name=None):
    """Removes the rows in `mask_indices` from IndexedSlices."""
    with graphs.name_scope(name, "sparse_mask", [a, mask_indices]) as scope:
        indices, kept = array_ops.setdiff1d(a.indices, mask_indices)
        return IndexedSlices(array_ops.gather(a.values, kept, name=scope),
                             indices, a.dense_shape)


def _serializer(kind, doc):
    def function(sp_input, name=None, out_type=dtypes.string):
        return _op(kind)(*_parts(sp_input), out_type=out_type, name=name)
    function.__doc__ = doc
    return function


serialize_sparse = _serializer("SerializeSparse", "Serializes to 3 strings.")
serialize_many_sparse = _serializer("SerializeManySparse",
                                    "Serializes each row to three strings.")


def deserialize_many_sparse(serialized_sparse, dtype, rank=None, name=None):
    """Deserializes rows of strings into a sparse tensor."""
    indices, values, shape = _op("DeserializeManySparse")(
        serialized_sparse, dtype, name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def deserialize_sparse(serialized_sparse, dtype, rank=None, name=None):
    """Deserializes a sparse tensor."""
    indices, values, shape = _op("DeserializeSparse")(
        serialized_sparse, dtype, name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


# ---- Sparse tensors within queues --------------------------------------------


def _store_in_map(kind, sp_input, container, shared_name, name):
    if shared_name is None:  # The map is named after the operation.
        shared_name = ""
    return _op(kind)(*_parts(sp_input), container=container or "",
                     shared_name=shared_name, name=name)


def _add_sparse_to_tensors_map(sp_input, container=None, shared_name=None,
                               name=None):
    """Stores a sparse tensor in a map; returns its key, an int64 scalar.

    `_take_many_sparse_from_tensors_map` takes it out again.
    """
    return _store_in_map("AddSparseToTensorsMap", sp_input, container,
                         shared_name, name)


def _add_many_sparse_to_tensors_map(sp_input, container=None, shared_name=None,
                                    name=None):
    """Stores each row of a sparse tensor in a map; returns their keys."""
    return _store_in_map("AddManySparseToTensorsMap", sp_input, container,
                         shared_name, name)


def _take_many_sparse_from_tensors_map(sparse_map_op, sparse_handles, rank=None,
                                       name=None):
    """Takes sparse tensors out of a map and stacks them into one.

    Args:
      sparse_map_op: the operation that stored them.
      sparse_handles: their keys, a vector.
      rank: the rank of the result, if it is known.
      name: the name of the operation.

    Raises:
      TypeError: if `sparse_map_op` is another kind of operation.
    """
    if not isinstance(sparse_map_op, _core.Operation):
        raise TypeError("sparse_map_op be an Operation")
    if sparse_map_op.type not in ("AddSparseToTensorsMap",
                                  "AddManySparseToTensorsMap"):
        raise TypeError(
            f"sparse_map_op must be one of AddSparseToTensorsMap or "
            f"AddManySparseToTensorsMap. Instead, found "
            f"`{sparse_map_op.type}`.")
    with graphs.colocate_with(sparse_map_op):
        shared_name = sparse_map_op.get_attr("shared_name") or (
            sparse_map_op.name.encode())
        indices, values, shape = _op("TakeManySparseFromTensorsMap")(
            sparse_handles, dtype=sparse_map_op.inputs[1].dtype,
            shared_name=shared_name,
            container=sparse_map_op.get_attr("container"), name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


# ---- Set operations on the last dimension ------------------------------------


def _set_operation(kind, doc):
    def function(a, b, validate_indices=True, name=None):
        sparse = [isinstance(x, (SparseTensor, SparseTensorValue))
                  for x in (a, b)]
        flip = sparse == [True, False]
        if flip:
            if kind == "a-b":
                return _sets(b, a, "b-a", validate_indices)
            a, b = b, a
        return _sets(a, b, kind, validate_indices)
    function.__doc__ = doc
    return function


def _sets(a, b, kind, validate):
    sparse = [isinstance(x, (SparseTensor, SparseTensorValue)) for x in (a, b)]
    name = {(False, False): "DenseToDenseSetOperation",
            (False, True): "DenseToSparseSetOperation",
            (True, True): "SparseToSparseSetOperation"}[tuple(sparse)]
    parts = [p for x, s in zip((a, b), sparse)
             for p in (_parts(x) if s else [convert_to_tensor(x)])]
    return SparseTensor(*_op(name)(*parts, set_operation=kind,
                                   validate_indices=validate))


set_union = _set_operation("union", "Returns the union of each row.")
set_intersection = _set_operation("intersection",
                                  "Returns the intersection of each row.")


def set_difference(a, b, aminusb=True, validate_indices=True):
    """Returns the set difference a - b of each row, or else b - a."""
    if not aminusb:
        a, b = b, a
    return _set_operation("a-b", "")(a, b, validate_indices)


def set_size(a, validate_indices=True):
    """Returns the number of distinct values in each row."""
    return _op("SetSize")(*_parts(a), validate_indices=validate_indices)
