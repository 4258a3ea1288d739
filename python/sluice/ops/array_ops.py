"""Shapes, slicing, joining and splitting of tensors."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.arguments import deprecated_argument_lookup as _either
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, SparseTensorValue, constant, constant_value,
    convert_to_tensor, parts)

_op = _core.op

reshape = _op("Reshape")
identity_n = _op("IdentityN")
_stop_gradient = _op("StopGradient")
tile = _op("Tile")
_gather_nd = _op("GatherNd")
scatter_nd = _op("ScatterNd")
invert_permutation = _op("InvertPermutation")
unique = _op("Unique")
unique_with_counts = _op("UniqueWithCounts")
broadcast_to = _op("BroadcastTo")
fill = _op("Fill")
_slice = _op("Slice")
diag = _op("Diag")
diag_part = _op("DiagPart")
bitcast = _op("Bitcast")
check_numerics = _op("CheckNumerics")
dynamic_partition = _op("DynamicPartition")
dynamic_stitch = _op("DynamicStitch")
space_to_batch_nd = _op("SpaceToBatchND")
batch_to_space_nd = _op("BatchToSpaceND")
matrix_band_part = _op("MatrixBandPart")
_identity = _op("Identity")
_placeholder = _op("Placeholder")
_shape_op = _op("Shape")
_concat = _op("ConcatV2", "concat")
_pack = _op("Pack", "stack")
_unpack = _op("Unpack", "unstack")
_zeros_like = _op("ZerosLike", "zeros_like")
_transpose = _op("Transpose", "transpose")


def identity(input, name=None):
    """Returns a copy of a tensor, IndexedSlices or SparseTensor."""
    if isinstance(input, (IndexedSlices, SparseTensor)):
        return type(input)(*(_identity(part, name=name)
                             for part in parts(input)))
    return _identity(input, name=name)


def stop_gradient(input, name=None):
    """Returns its input, but propagates no gradient to it.

    The input is a tensor, IndexedSlices or a SparseTensor.
    """
    if isinstance(input, (IndexedSlices, SparseTensor)):
        return type(input)(*(_stop_gradient(part, name=name)
                             for part in parts(input)))
    return _stop_gradient(input, name=name)


def placeholder(dtype, shape=None, name=None):
    """Returns a tensor whose value must be fed in each step (`feed_dict`).

    Args:
      dtype: the type of the elements.
      shape: the static shape; None, or None for a dimension, is unknown.
      name: the name of the operation; defaults to "Placeholder".
    """
    return _placeholder(dtype, shape, name=name)


def placeholder_with_default(input, shape, name=None):
    """Returns a tensor that is `input` unless a step feeds its value."""
    return _op("PlaceholderWithDefault")(input, shape, name=name)


_SPARSE = (SparseTensor, SparseTensorValue)


def shape(input, name=None, out_type=dtypes.int32):
    """Returns the shape of a tensor as a vector.

    `Tensor.shape` is the static shape, which may be partially unknown.

    Args:
      input: a tensor or a SparseTensor.
      name: the name of the operation.
      out_type: int32 or int64.
    """
    if isinstance(input, _SPARSE):
        return _op("Cast")(input.dense_shape, out_type, name=name)
    input = convert_to_tensor(input)
    if input.shape.is_fully_defined():
        return constant(input.shape.as_list(), out_type, name=name or "Shape")
    return _shape_op(input, out_type=out_type, name=name)


def shape_n(input, out_type=dtypes.int32, name=None):
    """Returns the shapes of several tensors."""
    return _op("ShapeN")(input, out_type=out_type, name=name)


def size(input, name=None, out_type=dtypes.int32):
    """Returns the number of elements of a tensor."""
    if isinstance(input, _SPARSE):
        return _op("Prod")(_op("Cast")(input.dense_shape, out_type), [0],
                           name=name)
    input = convert_to_tensor(input)
    count = input.shape.num_elements()
    if count is not None:
        return constant(count, out_type, name=name or "Size")
    return _op("Size")(input, out_type=out_type, name=name)


def rank(input, name=None):
    """Returns the number of dimensions of a tensor."""
    if isinstance(input, _SPARSE):
        input = input.dense_shape
        return size(input, name=name or "Rank")
    input = convert_to_tensor(input)
    if input.shape.ndims is not None:
        return constant(input.shape.ndims, dtypes.int32, name=name or "Rank")
    return _op("Rank")(input, name=name)


def zeros(shape, dtype=dtypes.float32, name=None):
    """Returns a tensor of zeros (or False, or "").

    Args:
      shape: a list of ints, a TensorShape, or a vector of int32 or int64.
      dtype: the dtype.
      name: the name of the operation.
    """
    return _filled(shape, dtypes.as_dtype(dtype).base_dtype, 0, name or "zeros")


def ones(shape, dtype=dtypes.float32, name=None):
    """Returns a tensor of ones (or True).

    Args:
      shape: a list of ints, a TensorShape, or a vector of int32 or int64.
      dtype: the dtype.
      name: the name of the operation.
    """
    return _filled(shape, dtypes.as_dtype(dtype).base_dtype, 1, name or "ones")


def _filled(dims, dtype, value, name):
    value = {dtypes.bool_: bool(value), dtypes.string: ""}.get(dtype, value)
    if not isinstance(dims, _core.Tensor):
        try:
            known = tensor_shape.as_shape(dims).as_list()
            if None not in known:
                count = tensor_shape.TensorShape(known).num_elements()
                if count < 1000:
                    return constant(value, dtype, known, name)
                dims = known
        except (TypeError, ValueError):
            pass
    with graphs.name_scope(name) as scope:
        if not isinstance(dims, _core.Tensor):
            dims = convert_to_tensor(dims, dtypes.int32,
                                     name="shape_as_tensor")
        elif dims.shape.ndims == 0:
            dims = reshape(dims, [-1])
        return fill(dims, constant(value, dtype), name=scope)


def zeros_like(tensor, dtype=None, name=None, optimize=True):
    """Returns zeros with a tensor's shape and, unless given, its dtype."""
    tensor = convert_to_tensor(tensor, name="tensor")
    dtype = dtypes.as_dtype(dtype or tensor.dtype).base_dtype
    if optimize and tensor.shape.is_fully_defined() and (
            dtype is not dtypes.variant):
        return zeros(tensor.shape, dtype, name or "zeros_like")
    if dtype is tensor.dtype.base_dtype:
        return _zeros_like(tensor, name=name)
    with graphs.name_scope(name, "zeros_like", [tensor]) as scope:
        return zeros(shape(tensor), dtype, scope)


def ones_like(tensor, dtype=None, name=None, optimize=True):
    """Returns ones with a tensor's shape and, unless given, its dtype."""
    with graphs.name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        dims = shape(tensor, "Shape") if optimize else _shape_op(tensor)
        made = ones(dims, dtype or tensor.dtype.base_dtype, scope)
        made.set_shape(tensor.shape)
        return made


def expand_dims(input, axis=None, name=None, dim=None):
    """Inserts a dimension of size 1 into a tensor's shape.

    Args:
      input: a tensor.
      axis: the position of the new dimension, in [-(rank + 1), rank].
      name: the name of the operation.
      dim: the old name of `axis`.

    Raises:
      ValueError: if `axis` is missing, given twice, or out of range.
    """
    axis = _either("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return _op("ExpandDims")(input, axis, name=name)


def squeeze(input, axis=None, name=None, squeeze_dims=None):
    """Removes dimensions of size 1 from a tensor's shape.

    Args:
      input: a tensor.
      axis: the dimension or dimensions to remove; None for all of size 1.
      name: the name of the operation.
      squeeze_dims: the old name of `axis`.

    Raises:
      ValueError: if a dimension of `axis` does not have size 1.
    """
    axis = _either("axis", axis, "squeeze_dims", squeeze_dims)
    if axis is None:
        axis = []
    elif not isinstance(axis, (list, tuple)):
        axis = [axis]
    return _op("Squeeze")(input, axis, name=name)


def concat(values, axis, name="concat"):
    """Concatenates tensors along a dimension.

        tf.concat([[[1, 2]], [[3, 4]]], 0)  # [[1, 2], [3, 4]]
        tf.concat([[[1, 2]], [[3, 4]]], 1)  # [[1, 2, 3, 4]]

    Args:
      values: tensors of the same dtype and rank, whose shapes are equal except
        along `axis`.
      axis: the dimension, in [-rank, rank): an int or a scalar tensor.
      name: the name of the operation.

    Raises:
      ValueError: if ranks or other dimensions differ, or `axis` is out of
        range.
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with graphs.name_scope(name) as scope:
            # Checks for the argument order of TensorFlow before 1.0.
            convert_to_tensor(axis, dtypes.int32,
                              name="concat_dim").shape.assert_has_rank(0)
            return identity(values[0], name=scope)
    return _concat(list(values), axis, name=name)


def stack(values, axis=0, name="stack"):
    """Stacks tensors along a new dimension. The inverse of `unstack`.

        tf.stack([[1, 2], [3, 4]])          # [[1, 2], [3, 4]]
        tf.stack([[1, 2], [3, 4]], axis=1)  # [[1, 3], [2, 4]]

    Args:
      values: tensors of the same dtype and shape.
      axis: the position of the new dimension, in [-(rank + 1), rank + 1).
      name: the name of the operation.

    Raises:
      ValueError: if the shapes differ or `axis` is out of range.
    """
    if axis == 0 and (
            type(values).__module__ == "numpy" or
            isinstance(values, (list, tuple)) and all(
                isinstance(v, (int, float)) for v in values)):
        return constant(values, name=name)
    if axis == 0 and isinstance(values, _core.Tensor):
        return values  # A tensor is the stack of its slices.
    return _pack(values, axis=axis, name=name)


def parallel_stack(values, name="parallel_stack"):
    """Stacks tensors along a new first dimension."""
    return stack(values, name=name)


def unstack(value, num=None, axis=0, name="unstack"):
    """Returns the list of a tensor's slices. The inverse of `stack`.

    Args:
      value: a tensor of rank 1 or more.
      num: the number of slices; defaults to the size of the dimension.
      axis: the dimension to remove, in [-rank, rank).
      name: the name of the operation.

    Raises:
      ValueError: if `num` is not given and the static size is unknown.
    """
    value = convert_to_tensor(value)
    if num is None:
        dims = value.shape
        if dims.ndims is None:
            raise ValueError(f"Cannot infer num from shape {dims}")
        if not -dims.ndims <= axis < dims.ndims:
            raise ValueError(f"axis = {axis} not in [{-dims.ndims}, "
                             f"{dims.ndims})")
        num = dims.as_list()[axis]
        if num is None:
            raise ValueError(f"Cannot infer num from shape {dims}")
    return _unpack(value, num=num, axis=axis, name=name)


def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    """Splits a tensor along a dimension into a list. The inverse of `concat`.

        a, b = tf.split(tf.zeros([4, 6]), 2, axis=1)      # [4, 3] twice
        a, b = tf.split(tf.zeros([4, 6]), [1, 5], axis=1)  # [4, 1] and [4, 5]

    Args:
      value: a tensor of rank 1 or more.
      num_or_size_splits: the number of equal parts, or the sizes of the parts,
        one of which may be -1 for the remainder.
      axis: the dimension to split.
      num: the number of parts, if the sizes are a tensor of unknown shape.
      name: the name of the operation.

    Raises:
      ValueError: if the dimension cannot be split in this way.
    """
    if isinstance(num_or_size_splits, tensor_shape.Dimension):
        num_or_size_splits = num_or_size_splits.value
    if isinstance(num_or_size_splits, int) and not isinstance(
            num_or_size_splits, bool):
        return _op("Split")(axis, value, num_split=num_or_size_splits,
                            name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    if sizes.shape.ndims == 0:
        raise ValueError("Rank-0 tensors are not supported as the "
                         "num_or_size_splits argument to split.")
    if num is None:
        num = sizes.shape.as_list()[0] if sizes.shape.ndims else None
        if num is None:
            raise ValueError(f"Cannot infer num from shape "
                             f"{sizes.shape}")
    return _op("SplitV")(value, sizes, axis, num_split=num, name=name)


def transpose(a, perm=None, name="transpose", conjugate=False):
    """Permutes the dimensions of a tensor.

    Args:
      a: a tensor.
      perm: the dimension of `a` for each dimension of the result; None
        reverses the dimensions.
      name: the name of the operation.
      conjugate: whether to conjugate complex numbers.

    Raises:
      ValueError: if `perm` is not a permutation of the dimensions.
    """
    a = convert_to_tensor(a, name="a")
    op = _op("ConjugateTranspose", "transpose") if (
        conjugate and a.dtype.is_complex) else _transpose
    with graphs.name_scope(name) as scope:
        if perm is None:
            if a.shape.ndims is not None:
                perm = list(range(a.shape.ndims))[::-1]
            else:
                rank_ = _op("Rank")(a)
                perm = (rank_ - 1) - _op("Range")(0, rank_, 1)
        return op(a, perm, name=scope)


def matrix_transpose(a, name="matrix_transpose", conjugate=False):
    """Transposes the last two dimensions of a tensor."""
    a = convert_to_tensor(a, name="a")
    n = a.shape.ndims
    if n is None:
        n = rank(a)
        order = concat([_op("Range")(0, n - 2, 1), [n - 1, n - 2]], 0)
    elif n < 2:
        raise ValueError(f"Argument 'a' should be a (batch) matrix, with rank "
                         f">= 2.  Found: {a.shape}")
    else:
        order = [*range(n - 2), n - 1, n - 2]
    return transpose(a, order, name, conjugate)


def gather(params, indices, validate_indices=None, name=None, axis=None,
           batch_dims=0):
    """Gathers slices of `params` along a dimension.

        tf.gather([[1, 2], [3, 4], [5, 6]], [2, 0])  # [[5, 6], [1, 2]]

    Args:
      params: a tensor of rank `axis` + 1 or more.
      indices: int32 or int64, of any shape. In the shape of the result,
        `indices.shape` replaces the dimension `axis`.
      validate_indices: ignored; invalid indices always raise an error.
      name: the name of the operation.
      axis: the dimension; defaults to the first after the batch dimensions.
      batch_dims: the number of leading batch dimensions that `params` and
        `indices` share.

    Raises:
      errors.InvalidArgumentError: in a step, if an index is out of range.
    """
    if axis is None:
        axis = batch_dims
    if batch_dims:
        params, indices = convert_to_tensor(params), convert_to_tensor(indices)
        if indices.shape.ndims is None:
            raise ValueError("tf.gather does not allow indices with unknown "
                             "rank when batch_dims is specified.")
        for x, what in ((indices, "indices"), (params, "params")):
            if x.shape.ndims is not None and batch_dims >= x.shape.ndims:
                raise ValueError(f"batch_dims = {batch_dims} must be less than "
                                 f"rank({what}) = {x.shape.ndims}")
    read = getattr(params, "sparse_read", None)
    if read is not None and axis == 0 and not batch_dims:
        return read(indices, name=name)
    return _op("GatherV2", "GatherV2")(params, indices, axis,
                                       batch_dims=batch_dims, name=name)


def gather_nd(params, indices, name=None, batch_dims=0):
    """Gathers elements or slices of `params` by their coordinates.

    The first `batch_dims` dimensions of both arguments are batch dimensions.
    """
    if isinstance(batch_dims, _core.Tensor):
        known = constant_value(batch_dims)
        if known is None or known.size != 1:
            raise ValueError(f"batch_dims: expected a number that is known "
                             f"when the graph is built, got {batch_dims}")
        batch_dims = int(known.item())
    if not batch_dims:
        return _gather_nd(params, indices, name=name)
    with graphs.name_scope(name, "gather_nd", [params, indices]) as scope:
        indices = convert_to_tensor(indices)
        dims, n = shape(indices), indices.shape.ndims
        kind = indices.dtype.base_dtype
        own = [_op("Cast")(_op("Range")(0, dims[i], 1), kind)
               for i in range(batch_dims)]
        places = stack(meshgrid(*own, indexing="ij"), -1)
        ones = (fill([rank(indices) - 1 - batch_dims], 1) if n is None
                else [1] * (n - 1 - batch_dims))
        places = reshape(places, concat(
            [dims[:batch_dims], ones, [batch_dims]], 0))
        places = broadcast_to(places, concat([dims[:-1], [batch_dims]], 0))
        return _gather_nd(params, concat([places, indices], -1), name=scope)


def slice(input_, begin, size, name=None):
    """Extracts a slice given its start and size; -1 extends to the end."""
    return _slice(input_, begin, size, name=name)


def ensure_shape(x, shape, name=None):
    """Returns `x`; the step fails unless `x` has the given shape."""
    return _op("EnsureShape")(x, shape, name=name)


def space_to_depth(input, block_size, name=None, data_format="NHWC"):
    """Moves blocks of pixels into the channel dimension."""
    return _op("SpaceToDepth")(input, block_size, data_format=data_format,
                               name=name)


def depth_to_space(input, block_size, name=None, data_format="NHWC"):
    """Inverts `space_to_depth`."""
    return _op("DepthToSpace")(input, block_size, data_format=data_format,
                               name=name)


def where(condition, x=None, y=None, name=None):
    """Selects elements of `x` where `condition` is true, else of `y`.

    Without `x` and `y`, returns the coordinates of the true elements: int64
    [count, rank].

    Args:
      condition: a boolean tensor of the shape of `x`, or a vector that selects
        rows.
      x, y: two tensors of the same dtype and shape, or None.
      name: the name of the operation.

    Raises:
      ValueError: if only one of `x` and `y` is given, or shapes differ.
    """
    if x is None and y is None:
        return _op("Where")(convert_to_tensor(condition), name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return _op("Select")(condition, x, y, name=name)


def where_v2(condition, x=None, y=None, name=None):
    """Implements `where` with broadcasting."""
    if x is None and y is None:
        return _op("Where")(convert_to_tensor(condition), name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return _op("SelectV2")(condition, x, y, name=name)


def pad(tensor, paddings, mode="CONSTANT", name=None, constant_values=0):
    """Pads a tensor along each dimension.

    Args:
      tensor: of rank n.
      paddings: [n, 2], the padding before and after each dimension.
      mode: "CONSTANT", "REFLECT" (excludes the edge) or "SYMMETRIC" (includes
        it).
      name: the name of the operation.
      constant_values: the value of the padding in mode "CONSTANT".

    Raises:
      ValueError: if `mode` or the shape of `paddings` is invalid.
    """
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, _core.Tensor) and (
                constant_values == 0):
            return _op("Pad")(tensor, paddings, name=name)
        return _op("PadV2")(tensor, paddings, constant_values, name=name)
    if mode in ("REFLECT", "SYMMETRIC"):
        return _op("MirrorPad")(tensor, paddings, mode=mode, name=name)
    raise ValueError(f"Unknown padding mode: {mode}; expected 'CONSTANT', "
                     f"'REFLECT' or 'SYMMETRIC'")


def reverse(tensor, axis, name=None):
    """Reverses a tensor along the given dimensions."""
    return _op("ReverseV2")(tensor, axis, name=name)


reverse_v2 = reverse


def reverse_sequence(input, seq_lengths, seq_axis=None, batch_axis=None,
                     name=None, seq_dim=None, batch_dim=None):
    """Reverses the first `seq_lengths` elements of each sequence."""
    batch = _either("batch_axis", batch_axis, "batch_dim", batch_dim)
    return _op("ReverseSequence")(
        input, seq_lengths, batch_dim=batch or 0, name=name,
        seq_dim=_either("seq_axis", seq_axis, "seq_dim", seq_dim))


def one_hot(indices, depth, on_value=None, off_value=None, axis=None,
            dtype=None, name=None):
    """Returns one-hot vectors for indices.

        tf.one_hot([0, 2], 3)  # [[1, 0, 0], [0, 0, 1]]

    Args:
      indices: integers of any shape. An index outside [0, depth) gives zeros.
      depth: the size of the new dimension, an int32 scalar.
      on_value, off_value: the values; default to 1 and 0.
      axis: the position of the new dimension; defaults to the last.
      dtype: defaults to the dtype of the values, or float32.
      name: the name of the operation.
    """
    with graphs.name_scope(name, "one_hot", [indices, depth, on_value,
                                             off_value]) as scope:
        values = [None if v is None else convert_to_tensor(v, dtype, name=n)
                  for v, n in ((on_value, "on_value"),
                               (off_value, "off_value"))]
        kinds = [v.dtype.base_dtype for v in values if v is not None]
        if len(set(kinds)) > 1:
            raise TypeError(f"dtype {kinds[0]} of on_value does not match "
                            f"dtype {kinds[1]} of off_value")
        dtype = kinds[0] if kinds else dtypes.as_dtype(dtype or dtypes.float32)
        on, off = (v if v is not None else constant(n, dtype, name=label)
                   for v, n, label in zip(values, (1, 0),
                                          ("on_value", "off_value")))
        return _op("OneHot")(indices, depth, on, off,
                             axis=-1 if axis is None else axis, name=scope)


def boolean_mask(tensor, mask, name="boolean_mask", axis=None):
    """Selects the slices of a tensor where a mask is true.

        tf.boolean_mask([[1, 2], [3, 4], [5, 6]], [True, False, True])
        # [[1, 2], [5, 6]]

    Args:
      tensor: a tensor.
      mask: a boolean tensor of known rank, whose shape matches the dimensions
        of `tensor` starting at `axis`.
      name: the name scope of the operations.
      axis: the first of these dimensions; defaults to 0.

    Raises:
      ValueError: if the rank of the mask is unknown, or the shapes differ.
    """
    with graphs.name_scope(name):
        tensor = convert_to_tensor(tensor, name="tensor")
        mask = convert_to_tensor(mask, name="mask")
        axis, n = axis or 0, mask.shape.ndims
        if not n:
            raise ValueError("mask cannot be scalar." if n == 0 else
                             "Number of mask dimensions must be specified")
        tensor.shape[axis:axis + n].assert_is_compatible_with(mask.shape)
        dims = shape(tensor)
        size_ = _op("Prod")(dims[axis:axis + n], [0])
        flat = reshape(tensor, concat(
            [dims[:axis], [size_], dims[axis + n:]], 0))
        rows = squeeze(_op("Where")(reshape(mask, [-1])), [1])
        return gather(flat, rows, axis=axis)


def sequence_mask(lengths, maxlen=None, dtype=dtypes.bool_, name=None):
    """Returns rows of booleans in which the first `lengths` are True."""
    with graphs.name_scope(name, "SequenceMask", [lengths]):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            maxlen = _op("Max")(reshape(lengths, [-1]), [0])
        maxlen = convert_to_tensor(maxlen)
        if maxlen.shape.ndims not in (0, None):
            raise ValueError("maxlen must be scalar for sequence_mask")
        if maxlen.dtype.base_dtype is not lengths.dtype.base_dtype:
            lengths = _op("Cast")(lengths, maxlen.dtype.base_dtype)
        zero, one = constant(0, maxlen.dtype), constant(1, maxlen.dtype)
        row = _op("Range")(zero, maxlen, one)
        mask = row < expand_dims(lengths, -1)
        dtype = dtypes.as_dtype(dtype)
        return mask if dtype is dtypes.bool_ else _op("Cast")(mask, dtype)


def sparse_to_dense(sparse_indices, output_shape, sparse_values,
                    default_value=0, validate_indices=True, name=None):
    """Returns a tensor of `default_value` with some elements replaced."""
    return _op("SparseToDense")(sparse_indices, output_shape, sparse_values,
                                default_value,
                                validate_indices=validate_indices, name=name)


def strided_slice(input_, begin, end, strides=None, begin_mask=0, end_mask=0,
                  ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0,
                  var=None, name=None):
    """Returns x[begin:end:strides], with the masks of the StridedSlice op."""
    if strides is None:
        strides = _op("OnesLike")(convert_to_tensor(begin))
    return _op("StridedSlice")(
        input_, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
        ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask, name=name)


def meshgrid(*args, **kwargs):
    """Returns the coordinates of a grid, one tensor per argument.

    The keyword argument `indexing` is "xy" or "ij".
    """
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name",
                                                              "meshgrid")
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword "
                        f"argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    n = len(args)
    with graphs.name_scope(name, "meshgrid", args):
        along = list(range(n))
        if indexing == "xy" and n > 1:
            along[:2] = 1, 0
        lines = [convert_to_tensor(x) for x in args]
        sizes = [None] * n
        for x, i in zip(lines, along):
            sizes[i] = size(x)
        dims = stack(sizes) if sizes else []
        return [broadcast_to(reshape(x, [1] * i + [-1] + [1] * (n - i - 1)),
                             dims) for x, i in zip(lines, along)]


def setdiff1d(x, y, index_dtype=dtypes.int32, name=None):
    """Returns (the elements of `x` that are not in `y`, their indices)."""
    return _op("ListDiff")(x, y, out_idx=index_dtype, name=name)


def edit_distance(hypothesis, truth, normalize=True, name="edit_distance"):
    """Computes the Levenshtein distances between sparse sequences."""
    return _op("EditDistance")(
        hypothesis.indices, hypothesis.values, hypothesis.dense_shape,
        truth.indices, truth.values, truth.dense_shape, normalize=normalize,
        name=name)


def space_to_batch(input, paddings, block_size=None, name=None,
                   block_shape=None):
    """Moves the pixels of blocks into the batch dimension."""
    block = block_shape if block_size is None else block_size
    return space_to_batch_nd(input, [block, block] if isinstance(block, int)
                             else block, paddings, name=name)


def batch_to_space(input, crops, block_size, name=None, block_shape=None):
    """Inverts `space_to_batch`."""
    block = block_shape if block_size is None else block_size
    return batch_to_space_nd(input, [block, block] if isinstance(block, int)
                             else block, crops, name=name)


def required_space_to_batch_paddings(input_shape, block_shape,
                                     base_paddings=None, name=None):
    """Returns (paddings, crops) for `space_to_batch` and `batch_to_space`.

    The paddings make the sizes multiples of the block sizes, and the crops
    remove them again.
    """
    with graphs.name_scope(name, "required_space_to_batch_paddings",
                           [input_shape, block_shape]):
        dims = convert_to_tensor(input_shape, dtypes.int32)
        block = convert_to_tensor(block_shape, dtypes.int32)
        rank_ = block.shape.as_list()[0]
        if base_paddings is None:
            base_paddings = constant([[0, 0]] * rank_, dtypes.int32, [rank_, 2])
        base = convert_to_tensor(base_paddings, dtypes.int32)
        known = [constant_value(x) for x in (dims, block, base)]
        if all(x is not None for x in known):
            crops = 0 * known[2]
            crops[:, 1] = -(known[0] + known[2].sum(1)) % known[1]
            return (constant(known[2] + crops, name="paddings"),
                    constant(crops, name="crops"))
        before, after = base[:, 0], base[:, 1]
        more = _op("FloorMod")(-(dims + before + after), block)
        zeros_ = constant([0] * rank_, dtypes.int32)
        return (stack([before, after + more], axis=1, name="paddings"),
                stack([zeros_, more], axis=1, name="crops"))


def batch_gather(params, indices, name=None):
    """Gathers along the last dimension of the indices in each batch."""
    with graphs.name_scope(name, "BatchGather", [params, indices]):
        at = convert_to_tensor(indices, name="indices")
        if at.shape.ndims is None:
            raise ValueError("batch_gather does not allow indices with unknown "
                             "shape.")
        n = at.shape.ndims - 1
        return gather(params, at, axis=n, batch_dims=n)


def fingerprint(data, method="farmhash64", name=None):
    """Returns an 8-byte hash of each slice along the first dimension."""
    return _op("Fingerprint")(data, method, name=name)


def broadcast_dynamic_shape(shape_x, shape_y):
    """Returns the broadcast shape of two shapes as a tensor."""
    return _op("BroadcastArgs")(shape_x, shape_y)


def broadcast_static_shape(shape_x, shape_y):
    """Returns the broadcast shape of two static shapes."""
    return tensor_shape.broadcast_shape(*map(tensor_shape.as_shape,
                                             (shape_x, shape_y)))


def extract_image_patches(images, ksizes=None, strides=None, rates=None,
                          padding=None, name=None, sizes=None):
    """Extracts patches of images and flattens each into the channels."""
    return _op("ExtractImagePatches")(
        images, ksizes=list(sizes if ksizes is None else ksizes),
        strides=list(strides), rates=list(rates), padding=padding, name=name)


def extract_patches(images, sizes, strides, rates, padding, name=None):
    """Calls `extract_image_patches`.

    Args:
      images: a batch of images.
      sizes: the sizes of patches, [1, height, width, 1].
      strides: the distances of their starts, [1, rows, columns, 1].
      rates: the distances of their pixels, [1, rows, columns, 1].
      padding: "VALID" or "SAME".
      name: the name of the operation.
    """
    return extract_image_patches(images, sizes, strides, rates, padding, name)


newaxis = None
