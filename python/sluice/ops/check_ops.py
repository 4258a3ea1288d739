"""Assertions on tensors: at once where values are known, else in the step."""

from sluice import _core
from sluice.framework import dtypes, errors, graph as graphs
from sluice.framework.conversion import (
    SparseTensor, SparseTensorValue, constant_value, convert_to_tensor)
from sluice.ops import array_ops, control_flow, math_ops

_op = _core.op


def _static(x, y, numpy_name):
    """Whether a relation of two known tensors holds; None if they are not, or
    their shapes do not fit (which is for the op to tell)."""
    a, b = constant_value(x), constant_value(y)
    if a is None or b is None:
        return None
    import numpy as np
    try:
        return bool(np.all(getattr(np, numpy_name)(a, b)))
    except ValueError:
        return None


def _relation(name, op, symbol, numpy_name):
    def check(x, y, data=None, summarize=None, message=None, name=None):
        with graphs.name_scope(name, label, [x, y, data]):
            x = convert_to_tensor(x, name="x")
            y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
            text = (f"{message or ''} Condition x {symbol} y did not hold "
                    f"element-wise:").strip()
            if data is None:
                data = [text, f"x ({x.name}) = ", x, f"y ({y.name}) = ", y]
            elif message:
                data = [message, *data]
            known = _static(x, y, numpy_name)
            if known is False:
                raise errors.InvalidArgumentError(
                    x.op, x.op, f"{text} x ({x.name}) = {constant_value(x)} "
                    f"y ({y.name}) = {constant_value(y)}")
            if known:
                return control_flow.no_op(name="static_checks_determined_all_"
                                          "ok")
            return control_flow.Assert(math_ops.reduce_all(op(x, y)), data,
                                       summarize)

    label = name
    check.__name__ = name
    check.__doc__ = (f"An operation whose step fails unless x {symbol} y, "
                     f"elementwise.")
    return check


assert_equal = _relation("assert_equal", math_ops.equal, "==", "equal")
assert_none_equal = _relation("assert_none_equal", math_ops.not_equal, "!=",
                              "not_equal")
assert_less = _relation("assert_less", math_ops.less, "<", "less")
assert_less_equal = _relation("assert_less_equal", math_ops.less_equal, "<=",
                              "less_equal")
assert_greater = _relation("assert_greater", math_ops.greater, ">", "greater")
assert_greater_equal = _relation("assert_greater_equal", math_ops.greater_equal,
                                 ">=", "greater_equal")


def _of_zero(name, relation, what):
    def check(x, data=None, summarize=None, message=None, name=None):
        with graphs.name_scope(name, label, [x, data]):
            x = convert_to_tensor(x, name="x")
            if data is None:
                data = [f"x ({x.name}) = ", x]
            zero = convert_to_tensor(0, x.dtype.base_dtype)
            return relation(x, zero, data, summarize,
                            f"{message or ''} Condition x {what} did not "
                            f"hold element-wise:".strip())

    label = name
    check.__name__ = name
    check.__doc__ = f"An operation whose step fails unless x {what}."
    return check


assert_negative = _of_zero("assert_negative", assert_less, "< 0")
assert_positive = _of_zero("assert_positive", assert_greater, "> 0")
assert_non_negative = _of_zero("assert_non_negative", assert_greater_equal,
                               ">= 0")
assert_non_positive = _of_zero("assert_non_positive", assert_less_equal, "<= 0")


def assert_near(x, y, rtol=None, atol=None, data=None, summarize=None,
                message=None, name=None):
    """An operation whose step fails unless |x - y| <= atol + rtol |y|."""
    with graphs.name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        import numpy as np
        ten = 10 * np.finfo(x.dtype.as_numpy_dtype).eps
        rtol = math_ops.cast(ten if rtol is None else rtol, x.dtype)
        atol = math_ops.cast(ten if atol is None else atol, x.dtype)
        if data is None:
            data = [message or "", "x and y not equal to tolerance rtol = ",
                    rtol, "atol = ", atol, f"x ({x.name}) = ", x,
                    f"y ({y.name}) = ", y]
        near = math_ops.abs(x - y) <= atol + rtol * math_ops.abs(y)
        return control_flow.Assert(math_ops.reduce_all(near), data, summarize)


# ---- Ranks and types ---------------------------------------------------------


def _rank_argument(rank):
    """A rank to compare with: an int32 scalar."""
    rank = convert_to_tensor(rank, name="rank")
    assert_type(rank, dtypes.int32)
    if rank.shape.ndims:
        raise ValueError("Rank must be a scalar.")
    if rank.shape.ndims == 0:
        return rank
    is_scalar = control_flow.Assert(math_ops.equal(array_ops.rank(rank), 0),
                                    ["Rank must be a scalar."])
    with graphs.control_dependencies([is_scalar]):
        return array_ops.reshape(rank, [])


def _rank_check(label, fits, rule):
    def check(x, rank, data=None, summarize=None, message=None, name=None):
        with graphs.name_scope(name, label, [x, rank]):
            x = convert_to_tensor(x, name="x")
            rank = _rank_argument(rank)
            known = constant_value(rank)
            have = x.shape.ndims
            if None not in (known, have):
                if not fits(have, int(known)):
                    raise ValueError(
                        f"{message or ''} Tensor {x.name} must have rank "
                        f"{rule}{int(known)}.  Received rank {have}, shape "
                        f"{x.shape}".strip())
                return control_flow.no_op(name="static_checks_determined_all_"
                                          "ok")
            if data is None:
                data = [message or "", f"Tensor {x.name} must have rank "
                        f"{rule}", rank, "Received shape: ",
                        array_ops.shape(x)]
            return control_flow.Assert(fits(array_ops.rank(x), rank), data,
                                       summarize)

    check.__name__ = label
    check.__doc__ = (f"An operation whose step fails unless the rank is "
                     f"{rule}so.")
    return check


def _same(a, b):
    return math_ops.equal(a, b) if isinstance(a, _core.Tensor) or isinstance(
        b, _core.Tensor) else a == b


assert_rank = _rank_check("assert_rank", _same, "")
assert_rank_at_least = _rank_check("assert_rank_at_least",
                                   lambda a, b: a >= b, "at least ")


def assert_rank_in(x, ranks, data=None, summarize=None, message=None,
                   name=None):
    """An operation whose step fails unless the rank is one of these."""
    with graphs.name_scope(name, "assert_rank_in", [x]):
        x = convert_to_tensor(x, name="x")
        ranks = [_rank_argument(r) for r in ranks]
        known = [constant_value(r) for r in ranks]
        if x.shape.ndims is not None and None not in known:
            allowed = sorted(int(k) for k in known)
            if x.shape.ndims not in allowed:
                raise ValueError(
                    f"{message or ''} Tensor {x.name} must have rank in "
                    f"{tuple(allowed)}.  Received rank {x.shape.ndims}, shape "
                    f"{x.shape}".strip())
            return control_flow.no_op(name="static_checks_determined_all_ok")
        if data is None:
            data = [message or "", f"Tensor {x.name} must have rank in", *ranks,
                    "Received shape: ", array_ops.shape(x)]
        rank = array_ops.rank(x)
        fits = math_ops.reduce_any(array_ops.stack(
            [math_ops.equal(rank, r) for r in ranks]))
        return control_flow.Assert(fits, data, summarize)


def assert_scalar(tensor, name=None, message=None):
    """The tensor; ValueError if its rank is known and not 0."""
    with graphs.name_scope(name, "assert_scalar", [tensor]):
        tensor = convert_to_tensor(tensor)
        if tensor.shape.ndims != 0:
            raise ValueError(f"{message or ''}Expected scalar shape for "
                             f"{tensor.name}, saw shape: {tensor.shape}.")
        return tensor


def assert_type(tensor, tf_type, message=None, name=None):
    """An operation that does nothing; TypeError if the type is another."""
    with graphs.name_scope(name, "assert_type", [tensor]):
        if not isinstance(tensor, SparseTensor):
            tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.dtype != tf_type:
            raise TypeError(f"{message or ''}  {tensor} must be of type "
                            f"{tf_type}".strip())
        return control_flow.no_op(name="statically_determined_correct_type")


def assert_integer(x, message=None, name=None):
    """An operation that does nothing; TypeError if x is not of integers."""
    with graphs.name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f'{message or ""}  Expected "x" to be integer type.'
                            f"  Found: {x.name} of dtype {x.dtype}".strip())
        return control_flow.no_op(name="statically_determined_was_integer")


def assert_proper_iterable(values):
    """TypeError if values are no list: strings, tensors and arrays are none."""
    import numpy as np
    wrong = (graphs.Tensor, SparseTensor, SparseTensorValue, np.ndarray, str,
             bytes)
    if isinstance(values, wrong) or not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable, a '
                        f'"proper" one.  Found: {type(values)}')


def assert_same_float_dtype(tensors=None, dtype=None):
    """The type of the tensors; ValueError if it is not one of floats."""
    for t in tensors or ():
        if t is None:
            continue
        if dtype is not None and t.dtype.base_dtype != dtype:
            raise ValueError(f"Expected {dtype}, got {t.dtype} of tensor {t}.")
        dtype = t.dtype.base_dtype
    dtype = dtypes.as_dtype(dtype or dtypes.float32)
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


def is_numeric_tensor(tensor):
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, _core.Tensor) and (
        tensor.dtype.is_floating or tensor.dtype.is_integer or
        tensor.dtype.is_complex)


def _steps(x, relation, name, label):
    with graphs.name_scope(name, label, [x]):
        x = array_ops.reshape(convert_to_tensor(x), [-1])
        return math_ops.reduce_all(relation(x[:-1], x[1:]))


def is_non_decreasing(x, name=None):
    """Whether no element is less than the one before."""
    return _steps(x, math_ops.less_equal, name, "is_non_decreasing")


def is_strictly_increasing(x, name=None):
    """Whether each element is greater than the one before."""
    return _steps(x, math_ops.less, name, "is_strictly_increasing")


def assert_all_finite(t=None, msg=None, name=None, x=None, message=None):
    """The tensor; the step fails if an element is not finite."""
    with graphs.name_scope(name, "VerifyFinite", [t, x]):
        t = convert_to_tensor(x if t is None else t, name="t")
        return _op("CheckNumerics")(t, message=message if msg is None else msg)


def add_check_numerics_ops():
    """An operation that checks all floating-point tensors of the graph, one
    after the other: the step fails at the first that is not finite."""
    checks = []
    for op in graphs.get_default_graph().get_operations():
        for output in op.outputs:
            if output.dtype not in (dtypes.float16, dtypes.float32,
                                    dtypes.float64):
                continue
            if op._control_flow_context:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with "
                    "TensorFlow control flow operations such as `tf.cond()` or "
                    "`tf.while_loop()`.")
            with graphs.control_dependencies(checks[-1:]):
                checks.append(_op("CheckNumerics")(
                    output, message=f"{op.name}:{output.value_index}"))
    return control_flow.group(*checks)
