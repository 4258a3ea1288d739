"""Arithmetic, comparisons, reductions and products."""

import builtins
import math

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.arguments import deprecated_argument_lookup as _either
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, constant, convert_to_tensor, quotient_type)

_op = _core.op
_builtin_range = builtins.range


def _of_elements(kind, doc):
    """Makes an op function that also accepts SparseTensors."""
    op = _op(kind)

    def apply(x, name=None):
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, op(x.values, name=name),
                                x.dense_shape)
        return op(x, name=name)

    apply.__name__ = kind.lower()
    apply.__doc__ = doc + ", elementwise. Accepts a SparseTensor, too."
    # Stubs use the signature of the op.
    apply._parameters, apply._outputs = op._parameters, op._outputs
    return apply


def _are_strings(x):
    """Returns whether a value converts to a tensor of strings."""
    while isinstance(x, (list, tuple)) and x:
        x = x[0]
    if isinstance(x, (str, bytes)):
        return True
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, dtypes.DType):
        return dtype.base_dtype is dtypes.string
    return getattr(dtype, "kind", None) in ("S", "U", "O")


def adder(name, any_order=False):
    """Makes an addition that uses the right op for numbers and strings."""
    numbers = _op("AddV2", name, any_order)
    strings = _op("Add", name, any_order)

    def add(x, y, name=None):
        """Returns x + y, elementwise; concatenates strings."""
        return (strings if _are_strings(x) else numbers)(x, y, name=name)

    # Stubs use the signature of the op.
    add._parameters, add._outputs = numbers._parameters, numbers._outputs
    return add


add = adder("Add")
subtract = _op("Sub")
multiply = _op("Mul")
floordiv = floor_div = _op("FloorDiv", "floordiv")
floormod = mod = _op("FloorMod")
truncatediv = _op("TruncateDiv")
truncatemod = _op("TruncateMod")
realdiv = _op("RealDiv")
divide_no_nan = _op("DivNoNan", "div_no_nan")
maximum = _op("Maximum")
minimum = _op("Minimum")
squared_difference = _op("SquaredDifference")
negative = neg = _of_elements("Neg", "Returns -x")
reciprocal = _op("Reciprocal")
square = _of_elements("Square", "Returns x * x")
sqrt = _of_elements("Sqrt", "Computes the square root")
rsqrt = _op("Rsqrt")
exp = _op("Exp")
expm1 = _op("Expm1")
log = _op("Log")
log1p = _op("Log1p")
sin = _op("Sin")
cos = _op("Cos")
tan = _op("Tan")
asin = _op("Asin")
acos = _op("Acos")
atan = _op("Atan")
atan2 = _op("Atan2")
sinh = _op("Sinh")
cosh = _op("Cosh")
tanh = _of_elements("Tanh", "Computes the hyperbolic tangent")
asinh = _op("Asinh")
acosh = _op("Acosh")
atanh = _op("Atanh")
sigmoid = _op("Sigmoid")
erf = _of_elements("Erf", "Computes the error function")
erfc = _op("Erfc")
bessel_i0e = _of_elements(
    "BesselI0e", "Computes exp(-|x|) times the Bessel function I0")
bessel_i1e = _of_elements(
    "BesselI1e", "Computes exp(-|x|) times the Bessel function I1")
lgamma = _op("Lgamma")
digamma = _op("Digamma")
sign = _of_elements("Sign", "Returns the sign of x: -1, 0 or 1")
floor = _op("Floor")
ceil = _op("Ceil")
rint = _op("Rint")
is_nan = _op("IsNan")
is_inf = _op("IsInf")
is_finite = _op("IsFinite")
less = _op("Less")
less_equal = _op("LessEqual")
greater = _op("Greater")
greater_equal = _op("GreaterEqual")
logical_and = _op("LogicalAnd")
logical_or = _op("LogicalOr")
logical_not = _op("LogicalNot")
segment_sum = _op("SegmentSum")
segment_mean = _op("SegmentMean")
segment_max = _op("SegmentMax")
segment_min = _op("SegmentMin")
segment_prod = _op("SegmentProd")
unsorted_segment_sum = _op("UnsortedSegmentSum")
unsorted_segment_max = _op("UnsortedSegmentMax")
cholesky = _op("Cholesky")

_equal = _op("Equal")
_not_equal = _op("NotEqual")
_pow = _op("Pow")
_abs = _op("Abs")
_complex_abs = _op("ComplexAbs", "Abs")
_cast = _op("Cast")
_round = _op("Round")
_real_div = _op("RealDiv", "truediv")
_mat_mul = _op("MatMul")
_sparse_mat_mul = _op("SparseMatMul")
_SPARSE_MAT_MUL_TYPES = {dtypes.float32, dtypes.bfloat16}
_batch_mat_mul = _op("BatchMatMulV2", "MatMul")
_range = _op("Range", "range")
_shape = _op("Shape")
_cumsum = _op("Cumsum")
_cumprod = _op("Cumprod")
_add_n = _op("AddN")


def equal(x, y, name=None):
    """Returns x == y, elementwise."""
    return _equal(x, y, name=name)


def not_equal(x, y, name=None):
    """Returns x != y, elementwise."""
    return _not_equal(x, y, name=name)


def abs(x, name=None):
    """Returns the absolute value (for complex, the modulus), elementwise."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, _abs(x.values, name=name),
                            x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return _complex_abs(x, Tout=x.dtype.real_dtype, name=name)
    return _abs(x, name=name)


def pow(x, y, name=None):
    """Returns x to the power of y, elementwise."""
    return _pow(x, y, name=name)


def round(x, name=None):
    """Rounds to the nearest integer, elementwise; halves to even."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else _round(x, name=name)


def cast(x, dtype, name=None):
    """Casts a tensor to another dtype.

    Conversion to integers truncates. Nonzero numbers become True.

    Args:
      x: a tensor, SparseTensor or IndexedSlices of numbers or booleans.
      dtype: the new dtype.
      name: the name of the operation.

    Raises:
      errors.UnimplementedError: in a step, for strings (use `as_string` and
        `string_to_number`).
    """
    base = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, _core.Tensor) and x.dtype is base:
        return x
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, base, name),
                            x.dense_shape)
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, base, name), x.indices,
                             x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex and base.is_floating:
        x = real(x)
    return x if x.dtype.base_dtype is base else _cast(x, base, name=name)


def saturate_cast(value, dtype, name=None):
    """Casts a tensor, clipping values to the range of the new dtype."""
    with graphs.name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        dtype = dtypes.as_dtype(dtype).base_dtype
        low, high = value.dtype.limits
        if low < dtype.min:
            value = maximum(value, convert_to_tensor(dtype.min, value.dtype))
        if high > dtype.max:
            value = minimum(value, convert_to_tensor(dtype.max, value.dtype))
        return cast(value, dtype, name=scope)


def _caster(dtype, python_name):
    def to_dtype(x, name="To" + python_name):
        return cast(x, dtype, name)
    to_dtype.__doc__ = f"Casts to {dtype.name}."
    to_dtype.__name__ = "to_" + python_name.lower()
    return to_dtype


to_float = _caster(dtypes.float32, "Float")
to_double = _caster(dtypes.float64, "Double")
to_int32 = _caster(dtypes.int32, "Int32")
to_int64 = _caster(dtypes.int64, "Int64")
to_bfloat16 = _caster(dtypes.bfloat16, "BFloat16")
to_complex64 = _caster(dtypes.complex64, "Complex64")
to_complex128 = _caster(dtypes.complex128, "Complex128")


def real(input, name=None):
    """Returns the real part, elementwise."""
    x = convert_to_tensor(input, name="input")
    if not x.dtype.is_complex:
        return x
    return _op("Real")(x, Tout=x.dtype.real_dtype, name=name)


def imag(input, name=None):
    """Returns the imaginary part, elementwise."""
    x = convert_to_tensor(input, name="input")
    if x.dtype.is_complex:
        return _op("Imag")(x, Tout=x.dtype.real_dtype, name=name)
    return _op("ZerosLike")(x, name=name)


def conj(x, name=None):
    """Returns the complex conjugate, elementwise."""
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return _op("Conj")(x, name=name)
    if not (x.dtype.is_floating or x.dtype.is_integer or
            x.dtype == dtypes.variant):
        raise TypeError(f"Expected numeric or variant tensor, got dtype "
                        f"{x.dtype!r}")
    return x


def angle(x, name=None):
    """Returns the argument of complex numbers; for reals, 0 or pi."""
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return _op("Angle")(x, Tout=x.dtype.real_dtype, name=name)
    with graphs.name_scope(name, "Angle", [x]) as scope:
        zeros = _op("ZerosLike")(x)
        return _op("Select")(x < 0, zeros + math.pi, zeros, name=scope)


def _as_indexed_slices(x, optimize=True):
    """Converts a tensor to IndexedSlices with all its rows."""
    if isinstance(x, IndexedSlices):
        return x
    if not isinstance(x, _core.Tensor):
        raise TypeError(f"Not a Tensor or IndexedSlices: {type(x)}.")
    dims = _op("Shape")(x)
    return IndexedSlices(x, range(0, dims[0]), dims)


def _as_indexed_slices_list(inputs, optimize=True):
    """Converts tensors to IndexedSlices with the same dtype of indices."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Expected a list or tuple, not a {type(inputs)}.")
    slices = [_as_indexed_slices(x) for x in inputs]
    if len({s.indices.dtype for s in slices}) == 1:
        return slices
    return [IndexedSlices(s.values, cast(s.indices, dtypes.int64),
                          s.dense_shape) for s in slices]


def complex(real, imag, name=None):
    """Makes complex numbers from their real and imaginary parts."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, name="imag")
    out = dtypes.COMPLEX.get(real.dtype.base_dtype)
    if out is None or real.dtype.base_dtype != imag.dtype.base_dtype:
        raise TypeError(f"real and imag have incorrect types: "
                        f"{real.dtype.name} {imag.dtype.name}")
    return _op("Complex")(real, imag, Tout=out, name=name)


def truediv(x, y, name=None):
    """Returns x / y, elementwise; integers are converted to floats."""
    if isinstance(x, _core.Tensor) and x.dtype.is_floating:
        return _real_div(x, y, name=name)
    if not (isinstance(x, _core.Tensor) and isinstance(y, _core.Tensor)):
        with graphs.name_scope(name, "truediv", [x, y]) as scope:
            return truediv(*_pair(x, y), name=scope)
    if x.dtype.base_dtype != y.dtype.base_dtype:
        raise TypeError(f"`x` and `y` must have the same dtype, got "
                        f"{x.dtype!r} "
                        f"!= {y.dtype!r}.")
    if not x.dtype.is_integer:
        return _real_div(x, y, name=name)
    wide = quotient_type(x.dtype)
    with graphs.name_scope(name, "truediv", [x, y]) as scope:
        return _real_div(cast(x, wide), cast(y, wide), name=scope)


def _pair(x, y):
    x = convert_to_tensor(x, name="x")
    return x, convert_to_tensor(y, x.dtype.base_dtype, name="y")


def divide(x, y, name=None):
    """Returns x / y with Python 3 semantics."""
    return truediv(x, y, name)


def div(x, y, name=None):
    """Returns x / y with Python 2 semantics: floor division for integers."""
    with graphs.name_scope(name, "div", [x, y]) as scope:
        x, y = _pair(x, y)
        if x.dtype.is_floating or x.dtype.is_complex:
            return _real_div(x, y, name=scope)
        return floordiv(x, y, name=scope)


def div_no_nan(x, y, name=None):
    """Returns x / y, or 0 where y is 0."""
    return divide_no_nan(x, y, name=name)


def scalar_mul(scalar, x, name=None):
    """Multiplies a tensor or IndexedSlices by a scalar."""
    scalar = convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if scalar.shape.ndims not in (0, None):
        raise ValueError("The input scalar must be a 0-D value.")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(multiply(scalar, x.values, name=name), x.indices,
                             x.dense_shape)
    return multiply(scalar, x, name=name)


def add_n(inputs, name=None):
    """Returns the sum of tensors of the same shape."""
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("Inputs must be an iterable of at least one "
                         "Tensor/IndexedSlices with the same dtype and shape.")
    inputs = [convert_to_tensor(x) for x in inputs]
    if len(inputs) == 1:
        if name:
            return _op("Identity")(inputs[0], name=name)
        return inputs[0]
    return _add_n(inputs, name=name)


def accumulate_n(inputs, shape=None, tensor_dtype=None, name=None):
    """Returns the sum of tensors of the same shape."""
    if not inputs:
        raise ValueError("inputs must be a list of at least one Tensor")
    inputs = [convert_to_tensor(x) for x in inputs]
    if any(x.dtype.base_dtype is not inputs[0].dtype.base_dtype
           for x in inputs):
        raise ValueError("inputs must be a list of at least one Tensor with "
                         "the same dtype and shape")
    for x in inputs:
        if tensor_dtype is not None and x.dtype.base_dtype is not (
                dtypes.as_dtype(tensor_dtype).base_dtype):
            raise TypeError(f"tensor_dtype is {tensor_dtype}, but input is of "
                            f"type {x.dtype}")
        if shape is not None:
            x.shape.assert_is_compatible_with(shape)
    return add_n(inputs, name or "AccumulateNV2")


def _sparse_product(a, b, narrow, name, **attributes):
    """Runs SparseMatMul, whose result is float32 even for bfloat16."""
    if not narrow:
        return _sparse_mat_mul(a, b, name=name, **attributes)
    with graphs.name_scope(name, "MatMul", [a, b]) as scope:
        return cast(_sparse_mat_mul(a, b, **attributes), dtypes.bfloat16,
                    name=scope)


def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False,
           adjoint_b=False, a_is_sparse=False, b_is_sparse=False, name=None):
    """Multiplies matrices: [..., m, k] times [..., k, n] gives [..., m, n].

    The leading dimensions are batch dimensions, which broadcast.

    Args:
      a, b: tensors of the same dtype and of rank 2 or more; or one bfloat16
        and one float32 matrix, whose product is float32.
      transpose_a, transpose_b: whether to transpose the last two dimensions.
      adjoint_a, adjoint_b: whether to transpose and conjugate them.
      a_is_sparse, b_is_sparse: a hint that most elements are zero. It selects
        SparseMatMul, which accumulates in float32, for float32 and bfloat16
        matrices.
      name: the name of the operation.

    Raises:
      ValueError: if the inner dimensions differ.
    """
    if transpose_a and adjoint_a:
        raise ValueError("Only one of `transpose_a` and `adjoint_a` can be "
                         "True.")
    if transpose_b and adjoint_b:
        raise ValueError("Only one of `transpose_b` and `adjoint_b` can be "
                         "True.")
    if not isinstance(a, _core.Tensor):
        a = convert_to_tensor(a, name="a")
    if not isinstance(b, _core.Tensor):
        b = convert_to_tensor(b, dtype_hint=a.dtype.base_dtype, name="b")
    dims_a, dims_b = a._dims, b._dims
    # Tensors of unknown rank may be batches.
    if dims_a is None or dims_b is None or len(dims_a) > 2 or len(dims_b) > 2:
        if transpose_a:
            a, adjoint_a = conj(a), True
        if transpose_b:
            b, adjoint_b = conj(b), True
        return _batch_mat_mul(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=name)
    if adjoint_a:
        a, transpose_a = conj(a), True
    if adjoint_b:
        b, transpose_b = conj(b), True
    if a_is_sparse or b_is_sparse or a.dtype is not b.dtype:
        types = {a.dtype.base_dtype, b.dtype.base_dtype}
        if types <= _SPARSE_MAT_MUL_TYPES and (
                a_is_sparse or b_is_sparse or len(types) == 2):
            return _sparse_product(
                a, b, types == {dtypes.bfloat16}, name, transpose_a=transpose_a,
                transpose_b=transpose_b, a_is_sparse=a_is_sparse,
                b_is_sparse=b_is_sparse)
    return _mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b,
                    name=name)


def _is_number(x):
    """Returns whether a value is a Python or numpy number or array."""
    return isinstance(x, (int, float)) or hasattr(x, "__array_interface__")


def _type_of(x):
    """Returns the dtype of a tensor or a number."""
    if isinstance(x, _core.Tensor):
        return x.dtype.base_dtype
    return dtypes.as_dtype(_core.as_array(x, None).dtype)


def range(start, limit=None, delta=1, dtype=None, name="range"):
    """Returns the vector of numbers from `start` (inclusive) to `limit`.

        tf.range(3)         # [0, 1, 2]
        tf.range(1, 6, 2)   # [1, 3, 5]

    Args:
      start: the first number. If it is the only argument, it is the limit and
        the range starts at 0.
      limit: the end, which is excluded.
      delta: the difference between consecutive numbers; may be negative.
      dtype: defaults to the widest dtype of the arguments.
      name: the name of the operation.
    """
    if limit is None:
        start, limit = 0, start
    with graphs.name_scope(name, "Range", [start, limit, delta]) as scope:
        names = ("start", "limit", "delta")
        values = [v if _is_number(v) else convert_to_tensor(v, name=n)
                  for v, n in zip((start, limit, delta), names)]
        if dtype is None:
            order = [dtypes.int32, dtypes.int64, dtypes.float32,
                     dtypes.float64]
            dtype = max(map(_type_of, values), key=order.index)
        # A cast would hide the static length, so numbers are not cast.
        return _range(*[convert_to_tensor(v, dtype, name=n) if _is_number(v)
                        else cast(v, dtype) for v, n in zip(values, names)],
                      name=scope)


def linspace(start, stop, num, name=None):
    """Returns `num` evenly spaced numbers from `start` to `stop`."""
    return _op("LinSpace")(start, stop, num, name=name)


# ---- Reductions --------------------------------------------------------------


def _axis(axis, reduction_indices):
    """Returns the dimensions to reduce, given under either name."""
    return _either("axis", axis, "reduction_indices", reduction_indices)


def _keep(keepdims, keep_dims):
    return bool(_either("keepdims", keepdims, "keep_dims", keep_dims))


def _axes(x, axis, keepdims, keep_dims, dtype):
    keep = _keep(keepdims, keep_dims)
    if not isinstance(x, _core.Tensor):  # The op checks the dtype of a Tensor.
        x = convert_to_tensor(x, dtype, name="input_tensor")
    if axis is None:
        dims = x._dims
        if dims is not None:
            axis = _core.constant(list(_builtin_range(len(dims))),
                                  dtypes.int32, "Const")
        else:
            axis = _range(0, _op("Rank")(x), 1)
    return x, axis, keep


def _reduction(kind, doc):
    op, dtype = _op(kind), dtypes.bool_ if kind in ("All", "Any") else None

    def reduce(input_tensor, axis=None, keepdims=None, name=None,
               reduction_indices=None, keep_dims=None):
        axis = _axis(axis, reduction_indices)
        x, axes, keep = _axes(input_tensor, axis, keepdims, keep_dims, dtype)
        reduced = op(x, axes, keep_dims=keep, name=name)
        if axis is None and not keep and x._dims is None:
            reduced.set_shape(())  # For any rank.
        return reduced

    reduce.__doc__ = doc + """

    Args:
      input_tensor: the tensor to reduce.
      axis: one or several dimensions; None for all.
      keepdims: whether to keep the reduced dimensions with size 1.
      name: the name of the operation.
      reduction_indices, keep_dims: the old names of axis and keepdims.
    """
    return reduce


reduce_sum = _reduction("Sum", "Computes the sum over dimensions.")
reduce_mean = _reduction("Mean", "Computes the mean over dimensions.")
reduce_prod = _reduction("Prod", "Computes the product over dimensions.")
reduce_max = _reduction("Max", "Computes the maximum over dimensions.")
reduce_min = _reduction("Min", "Computes the minimum over dimensions.")
reduce_euclidean_norm = _reduction(
    "EuclideanNorm", "Computes the Euclidean norm over dimensions.")
reduce_all = _reduction("All", "Computes the logical and over dimensions.")
reduce_any = _reduction("Any", "Computes the logical or over dimensions.")


def reduce_logsumexp(input_tensor, axis=None, keepdims=None, name=None,
                     reduction_indices=None, keep_dims=None):
    """Computes log(sum(exp(x))) over dimensions without overflow."""
    keep = _keep(keepdims, keep_dims)
    axis = _axis(axis, reduction_indices)
    with graphs.name_scope(name, "ReduceLogSumExp", [input_tensor]):
        x = convert_to_tensor(input_tensor)
        top = reduce_max(x, axis, True)
        top = _op("StopGradient")(_op("SelectV2")(is_finite(top), top,
                                                  _op("ZerosLike")(top)))
        result = log(reduce_sum(exp(x - top), axis, keep))
        if not keep:
            top = _op("Reshape")(top, _shape(result))
        return add(result, top)


def reduce_variance(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the variance over dimensions."""
    with graphs.name_scope(name or "reduce_variance"):
        mean = reduce_mean(input_tensor, axis, True)
        return reduce_mean(square(input_tensor - mean), axis, keepdims)


def reduce_std(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the standard deviation over dimensions."""
    with graphs.name_scope(name or "reduce_std"):
        return sqrt(reduce_variance(input_tensor, axis, keepdims))


def count_nonzero(input_tensor=None, axis=None, keepdims=None,
                  dtype=dtypes.int64, name=None, reduction_indices=None,
                  keep_dims=None, input=None):
    """Counts the nonzero elements over dimensions."""
    input_tensor = input if input_tensor is None else input_tensor
    with graphs.name_scope(name, "count_nonzero", [input_tensor]):
        x = convert_to_tensor(input_tensor)
        zero = _op("ZerosLike")(x)
        return cast(reduce_sum(cast(not_equal(x, zero), dtypes.int64), axis,
                               keepdims, None, reduction_indices, keep_dims),
                    dtype)


def trace(x, name=None):
    """Computes the trace of the matrices in the last two dimensions."""
    with graphs.name_scope(name, "Trace", [x]) as scope:
        return reduce_sum(_op("MatrixDiagPart")(x), [-1], name=scope)


def cumsum(x, axis=0, exclusive=False, reverse=False, name=None):
    """Computes the cumulative sum along a dimension."""
    return _cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumulative_logsumexp(x, axis=0, exclusive=False, reverse=False, name=None):
    """Computes the cumulative log(sum(exp)) along a dimension."""
    return _op("CumulativeLogsumexp")(x, axis, exclusive=exclusive,
                                      reverse=reverse, name=name)


def cumprod(x, axis=0, exclusive=False, reverse=False, name=None):
    """Computes the cumulative product along a dimension."""
    return _cumprod(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def argmax(input, axis=None, name=None, dimension=None,
           output_type=dtypes.int64):
    """Returns the index of the first maximum along a dimension.

    Args:
      input: a tensor of numbers.
      axis: the dimension to reduce; defaults to the first.
      name: the name of the operation.
      dimension: the old name of `axis`.
      output_type: int64 or int32.
    """
    axis = _either("axis", axis, "dimension", dimension)
    return _op("ArgMax")(input, 0 if axis is None else axis,
                         output_type=output_type, name=name)


def argmin(input, axis=None, name=None, dimension=None,
           output_type=dtypes.int64):
    """Returns the index of the minimum along a dimension.

    The default dimension is the first.
    """
    axis = _either("axis", axis, "dimension", dimension)
    return _op("ArgMin")(input, 0 if axis is None else axis,
                         output_type=output_type, name=name)


def arg_max(input, dimension, output_type=dtypes.int64, name=None):
    """Returns the index of the maximum along a dimension."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(input, dimension, output_type=dtypes.int64, name=None):
    """Returns the index of the minimum along a dimension."""
    return argmin(input, dimension, name, output_type=output_type)


def multiply_no_nan(x, y, name=None):
    """Returns x * y, or 0 where y is 0, even if x is not finite."""
    return _op("MulNoNan")(x, y, name=name)


def bessel_i0(x, name=None):
    """Computes the modified Bessel function of order 0."""
    with graphs.name_scope(name, "bessel_i0", [x]):
        x = convert_to_tensor(x)
        return exp(abs(x)) * bessel_i0e(x)


def bessel_i1(x, name=None):
    """Computes the modified Bessel function of order 1."""
    with graphs.name_scope(name, "bessel_i1", [x]):
        x = convert_to_tensor(x)
        return exp(abs(x)) * bessel_i1e(x)


def xlog1py(x, y, name=None):
    """Returns x log(1 + y), or 0 where x is 0."""
    return _op("Xlog1py")(x, y, name=name)


def reciprocal_no_nan(x, name=None):
    """Returns 1 / x, or 0 where x is 0."""
    with graphs.name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert_to_tensor(x)
        return divide_no_nan(constant(1, x.dtype.base_dtype), x, name=scope)


def erfcinv(x, name=None):
    """Computes the inverse of the function `erfc`."""
    with graphs.name_scope(name, "erfcinv", [x]):
        x = convert_to_tensor(x)
        # ndtri avoids computing 1 - x, which loses precision for small x.
        return -_op("Ndtri")(0.5 * x) * 0.5 ** 0.5


def polyval(coeffs, x, name=None):
    """Evaluates a polynomial; the highest power's coefficient is first."""
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received "
                         f"type {type(coeffs)}.")
    with graphs.name_scope(name, "polyval", [x, *coeffs]):
        x = convert_to_tensor(x, name="x")
        if not coeffs:
            return _op("ZerosLike")(x)
        total = convert_to_tensor(coeffs[0], x.dtype.base_dtype)
        for c in coeffs[1:]:
            total = convert_to_tensor(c, x.dtype.base_dtype) + total * x
        return total


def lbeta(x, name=None):
    """Computes the log of the beta function over the last dimension."""
    with graphs.name_scope(name, "lbeta", [x]):
        x = convert_to_tensor(x)
        return reduce_sum(lgamma(x), [-1]) - lgamma(reduce_sum(x, [-1]))


def log_sigmoid(x, name=None):
    """Returns log(sigmoid(x)), elementwise."""
    with graphs.name_scope(name, "LogSigmoid", [x]) as scope:
        return negative(_op("Softplus")(-convert_to_tensor(x)), name=scope)


def logical_xor(x, y, name="LogicalXor"):
    """Returns the exclusive or, elementwise."""
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)),
                       name=name)
