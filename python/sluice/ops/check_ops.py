"""Assertions about tensors, evaluated statically if their values are known."""

from sluice import _core
from sluice.framework import dtypes, errors, graph as graphs
from sluice.framework.conversion import (
    SparseTensor, SparseTensorValue, constant_value, convert_to_tensor)
from sluice.ops import array_ops, control_flow, math_ops

_op = _core.op


def _static(x, y, numpy_name):
    """Returns whether a relation of two constants holds.

    Returns None if the values are unknown, or if their shapes do not
    broadcast, which the op reports.
    """
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
    check.__doc__ = (f"Returns an operation that checks x {symbol} y, "
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
    check.__doc__ = f"Returns an operation that checks x {what}."
    return check


assert_negative = _of_zero("assert_negative", assert_less, "< 0")
assert_positive = _of_zero("assert_positive", assert_greater, "> 0")
assert_non_negative = _of_zero("assert_non_negative", assert_greater_equal,
                               ">= 0")
assert_non_positive = _of_zero("assert_non_positive", assert_less_equal, "<= 0")


def assert_near(x, y, rtol=None, atol=None, data=None, summarize=None,
                message=None, name=None):
    """Returns an operation that checks |x - y| <= atol + rtol |y|."""
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


# ---- Ranks and dtypes --------------------------------------------------------


def _checked(x):
    """Converts a value to a tensor, unless it is a SparseTensor."""
    return x if isinstance(x, SparseTensor) else convert_to_tensor(x, name="x")


def _said(x):
    """Returns the description of a tensor for messages."""
    if isinstance(x, SparseTensor):
        return f"shape={x.shape} dtype={x.dtype.name}"
    return x.name


def _rank_argument(rank):
    """Converts an expected rank to an int32 scalar."""
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
            x = _checked(x)
            rank = _rank_argument(rank)
            known = constant_value(rank)
            have = x.shape.ndims
            if None not in (known, have):
                if not fits(have, int(known)):
                    raise ValueError(
                        f"{message or ''} Tensor {_said(x)} must have rank "
                        f"{rule}{int(known)}.  Received rank {have}, shape "
                        f"{x.shape}".strip())
                return control_flow.no_op(name="static_checks_determined_all_"
                                          "ok")
            if data is None:
                data = [message or "", f"Tensor {_said(x)} must have rank "
                        f"{rule}", rank, "Received shape: ",
                        array_ops.shape(x)]
            return control_flow.Assert(fits(array_ops.rank(x), rank), data,
                                       summarize)

    check.__name__ = label
    check.__doc__ = f"Returns an operation that checks for a rank {rule}`rank`."
    return check


def _same(a, b):
    return math_ops.equal(a, b) if isinstance(a, _core.Tensor) or isinstance(
        b, _core.Tensor) else a == b


assert_rank = _rank_check("assert_rank", _same, "")
assert_rank_at_least = _rank_check("assert_rank_at_least",
                                   lambda a, b: a >= b, "at least ")


def assert_rank_in(x, ranks, data=None, summarize=None, message=None,
                   name=None):
    """Returns an operation that checks that the rank is one of `ranks`."""
    with graphs.name_scope(name, "assert_rank_in", [x]):
        x = _checked(x)
        ranks = [_rank_argument(r) for r in ranks]
        known = [constant_value(r) for r in ranks]
        if x.shape.ndims is not None and None not in known:
            allowed = sorted(int(k) for k in known)
            if x.shape.ndims not in allowed:
                raise ValueError(
                    f"{message or ''} Tensor {_said(x)} must have rank in "
                    f"{tuple(allowed)}.  Received rank {x.shape.ndims}, shape "
                    f"{x.shape}".strip())
            return control_flow.no_op(name="static_checks_determined_all_ok")
        if data is None:
            data = [message or "", f"Tensor {_said(x)} must have rank in", *ranks,
                    "Received shape: ", array_ops.shape(x)]
        rank = array_ops.rank(x)
        fits = math_ops.reduce_any(array_ops.stack(
            [math_ops.equal(rank, r) for r in ranks]))
        return control_flow.Assert(fits, data, summarize)


def _sizes(x):
    """Returns the sizes of the dimensions; a scalar counts as a vector of 1.

    Known sizes are ints, others are tensors.
    """
    known = x.shape
    if known.ndims is None:
        return control_flow.cond(
            math_ops.equal(array_ops.rank(x), 0),
            lambda: convert_to_tensor([1], dtypes.int32),
            lambda: math_ops.cast(array_ops.shape(x), dtypes.int32))
    if known.ndims == 0:
        return [1]
    sizes = array_ops.shape(x)
    return [sizes[i] if size is None else size
            for i, size in enumerate(known.as_list())]


def _number(size):
    """Returns a size as an int, or None for tensors and symbols."""
    try:
        return None if isinstance(size, _core.Tensor) else int(size)
    except (TypeError, ValueError):
        return None


def _symbols(x, shape, prefix):
    """Returns (symbols of the last dimensions, whether others may precede)."""
    if not hasattr(shape, "__iter__"):
        raise ValueError(f"{prefix}Tensor {_said(x)}.  Specified shape must be "
                         f"an iterable.  An iterable has the attribute "
                         f"`__iter__` or `__getitem__`.  Received specified "
                         f"shape: {shape}")
    symbols = [getattr(s, "value", s) for s in shape]  # Unpacks Dimensions.
    more = [i for i, s in enumerate(symbols) if s is Ellipsis or
            isinstance(s, str) and s == "*"]
    if more and more[-1] != 0:
        raise ValueError(f"{prefix}Tensor {_said(x)} specified shape index "
                         f"{more[-1]}.  Symbol `...` or `*` for a variable "
                         f"number of unspecified dimensions is only allowed as "
                         f"the first entry")
    return (symbols[1:] if more else symbols) or [1], bool(more)


def assert_shapes(shapes, data=None, summarize=None, message=None, name=None):
    """Returns an operation that checks the shapes of tensors.

        with tf.control_dependencies([tf.debugging.assert_shapes([
                (x, ("N", "Q")), (y, (..., "N", 3)), (scalar, ())])]):
            z = tf.matmul(x, y)

    Args:
      shapes: pairs of a (sparse) tensor and its expected shape, or a dict. A
        shape has an entry for each dimension: a number, a symbol that stands
        for the same size everywhere, or None or "." for any size. A leading
        `...` or "*" stands for any number of dimensions. A scalar counts as a
        vector of one element. A shape of None is not checked.
      data, summarize: arguments of `Assert`; default to a description of the
        error.
      message: a prefix for messages.
      name: the name scope of the operations.

    Raises:
      ValueError: if the static shapes do not match.
    """
    if isinstance(shapes, dict):
        shapes = shapes.items()
    prefix = f"{message}.  " if message else ""
    with graphs.name_scope(name, "assert_shapes",
                           [data, *(x for x, _ in shapes)]):
        checked = [(_checked(x), shape) for x, shape in shapes
                   if shape is not None]
        checked = [(x, *_symbols(x, shape, prefix)) for x, shape in checked]
        ranks = []
        for x, symbols, more in checked:
            options = dict(data=data, summarize=summarize, message=message)
            if len(symbols) > 1:
                check = assert_rank_at_least if more else assert_rank
                ranks.append(check(x, len(symbols), **options))
            elif not more:
                ranks.append(assert_rank_in(x, [0, 1], **options))
        assertions, first = [], {}
        for x, symbols, more in checked:
            with graphs.control_dependencies(ranks):
                sizes = _sizes(x)
            for i, symbol in enumerate(symbols):
                if symbol is None or isinstance(symbol, str) and symbol == ".":
                    continue
                place = i - len(symbols) if more else i
                # Sizes are read only after the check of the rank.
                with graphs.control_dependencies(ranks):
                    size = sizes[place]
                wanted, by = _number(symbol), "Specified explicitly"
                if wanted is None:
                    if symbol not in first:
                        first[symbol] = size, x, place
                        continue
                    wanted, other, there = first[symbol]
                    by = (f"Specified by tensor {_said(other)} dimension "
                          f"{there}")
                if None not in (_number(size), _number(wanted)):
                    if int(size) != int(wanted):
                        raise ValueError(
                            f"{prefix}{by}.  Tensor {_said(x)} dimension "
                            f"{place} must have size {wanted}.  Received size "
                            f"{size}, shape {x.shape}")
                    continue
                assertions.append(control_flow.Assert(
                    math_ops.equal(size, wanted), [
                        prefix, by, f"Tensor {_said(x)} dimension", place,
                        "must have size", wanted, "Received shape: ",
                        array_ops.shape(x)] if data is None else data,
                    summarize))
        with graphs.control_dependencies(ranks):
            return control_flow.group(*assertions)


def assert_scalar(tensor, name=None, message=None):
    """Returns the tensor; ValueError unless it is known to be a scalar."""
    with graphs.name_scope(name, "assert_scalar", [tensor]):
        tensor = convert_to_tensor(tensor)
        if tensor.shape.ndims != 0:
            raise ValueError(f"{message or ''}Expected scalar shape for "
                             f"{tensor.name}, saw shape: {tensor.shape}.")
        return tensor


def assert_type(tensor, tf_type, message=None, name=None):
    """Raises TypeError unless a tensor has the dtype; returns a no-op."""
    with graphs.name_scope(name, "assert_type", [tensor]):
        if not isinstance(tensor, SparseTensor):
            tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.dtype != tf_type:
            raise TypeError(f"{message or ''}  {tensor} must be of type "
                            f"{tf_type}".strip())
        return control_flow.no_op(name="statically_determined_correct_type")


def assert_integer(x, message=None, name=None):
    """Raises TypeError unless a tensor is of integers; returns a no-op."""
    with graphs.name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f'{message or ""}  Expected "x" to be integer type.'
                            f"  Found: {x.name} of dtype {x.dtype}".strip())
        return control_flow.no_op(name="statically_determined_was_integer")


def assert_proper_iterable(values):
    """Raises TypeError for non-iterables, strings, tensors and arrays."""
    import numpy as np
    wrong = (graphs.Tensor, SparseTensor, SparseTensorValue, np.ndarray, str,
             bytes)
    if isinstance(values, wrong) or not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable, a '
                        f'"proper" one.  Found: {type(values)}')


def assert_same_float_dtype(tensors=None, dtype=None):
    """Returns the common dtype; ValueError unless it is a float dtype."""
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
    """Returns whether a value is a numeric tensor."""
    return isinstance(tensor, _core.Tensor) and (
        tensor.dtype.is_floating or tensor.dtype.is_integer or
        tensor.dtype.is_complex)


def _steps(x, relation, name, label):
    with graphs.name_scope(name, label, [x]):
        x = array_ops.reshape(convert_to_tensor(x), [-1])
        return math_ops.reduce_all(relation(x[:-1], x[1:]))


def is_non_decreasing(x, name=None):
    """Returns a scalar tensor: whether no element is less than the previous."""
    return _steps(x, math_ops.less_equal, name, "is_non_decreasing")


def is_strictly_increasing(x, name=None):
    """Returns a scalar tensor: whether each element exceeds the previous."""
    return _steps(x, math_ops.less, name, "is_strictly_increasing")


def assert_all_finite(t=None, msg=None, name=None, x=None, message=None):
    """Returns the tensor; the step fails if an element is not finite."""
    with graphs.name_scope(name, "VerifyFinite", [t, x]):
        t = convert_to_tensor(x if t is None else t, name="t")
        return _op("CheckNumerics")(t, message=message if msg is None else msg)


def add_check_numerics_ops():
    """Returns an operation that checks all float tensors of the graph.

    The step fails at the first tensor that has a non-finite element.
    """
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
