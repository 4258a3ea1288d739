"""Helpers of distributions: checks of values, logits and probabilities."""

import hashlib
import math

import numpy as np

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, check_ops, math_ops, nn
from sluice.ops.control_flow import no_op, with_dependencies


def gen_new_seed(seed, salt):
    """Derives a seed from a seed and a string."""
    if seed is None:
        return None
    digest = hashlib.md5((str(seed) + salt).encode()).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def assert_integer_form(x, data=None, summarize=None, message=None,
                        int_dtype=None, name="assert_integer_form"):
    """Returns an operation that fails unless all values are integers."""
    with graphs.name_scope(name, values=[x, data]):
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_integer:
            return no_op()
        whole = math_ops.cast(x, int_dtype or {
            dtypes.float16: dtypes.int16, dtypes.float32: dtypes.int32,
            dtypes.float64: dtypes.int64}[x.dtype.base_dtype])
        return check_ops.assert_equal(
            x, math_ops.cast(whole, x.dtype), data=data, summarize=summarize,
            message=message or f"{x} has non-integer components", name=name)


def _largest_integer(dtype):
    """Returns the largest n with all integers up to n exact in a dtype."""
    if dtype.is_floating:
        return 2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1)
    return dtype.max


def embed_check_nonnegative_integer_form(
        x, name="embed_check_nonnegative_integer_form"):
    """Returns x with a check that all values are nonnegative integers."""
    with graphs.name_scope(name, values=[x]):
        x = convert_to_tensor(x, name="x")
        checks = [check_ops.assert_non_negative(
            x, message=f"'{x.op.name}' must be non-negative.")]
        if not x.dtype.is_integer:
            checks.append(assert_integer_form(
                x, message=f"'{x.op.name}' cannot contain fractional "
                f"components."))
        return with_dependencies(checks, x)


def embed_check_integer_casting_closed(
        x, target_dtype, assert_nonnegative=True,
        name="embed_check_casting_closed"):
    """Returns x with a check that another dtype represents all its values.

    The values must be integers; for bool 0 or 1.
    """
    with graphs.name_scope(name, values=[x]):
        x = convert_to_tensor(x, name="x")
        kind, target = x.dtype.base_dtype, dtypes.as_dtype(target_dtype)
        for what, given in (("x.dtype", kind), ("target_dtype", target)):
            if not (given.is_integer or given.is_floating or
                    given == dtypes.bool_):
                raise TypeError(f"{what} {given.name} is neither floating- nor "
                                f"integer-type.")
        if kind.is_floating and target.is_floating:
            raise TypeError(f"At least one of x.dtype {kind.name} and "
                            f"target_dtype {target.name} must be integer-type.")
        checks = []
        if assert_nonnegative:
            checks.append(check_ops.assert_non_negative(
                x, message="Elements must be non-negative."))
        if kind.is_floating:
            checks.append(assert_integer_form(
                x, int_dtype=None if target == dtypes.bool_ else target,
                message=f"Elements must be {target.name}-equivalent."))
        limit = 1 if target == dtypes.bool_ else _largest_integer(target)
        if kind != dtypes.bool_ and _largest_integer(kind) > limit:
            checks.append(check_ops.assert_less_equal(
                x, math_ops.cast(limit, kind),
                message=f"Elements cannot exceed {limit}."))
        if (not assert_nonnegative and target.is_integer and kind.is_integer
                and kind.min < target.min):
            checks.append(check_ops.assert_greater_equal(
                x, math_ops.cast(target.min, kind),
                message=f"Elements cannot be smaller than {target.min}."))
        return with_dependencies(checks, x) if checks else x


def embed_check_categorical_event_shape(
        categorical_param, name="embed_check_categorical_event_shape"):
    """Returns a parameter over classes with a check of their number.

    There must be at least two classes, and not more than the dtype can count.
    """
    with graphs.name_scope(name, values=[categorical_param]):
        x = convert_to_tensor(categorical_param, name="categorical_param")
        limit = 2 ** 11 if x.dtype.base_dtype == dtypes.float16 else (
            int(_largest_integer(x.dtype.base_dtype))
            if x.dtype.base_dtype.is_floating else 0)
        if limit == 0:
            raise TypeError(f"Unable to validate size of unrecognized dtype "
                            f"({x.dtype.name}).")
        limit = min(limit, 2 ** 31 - 1)
        classes = x.shape.with_rank_at_least(1).as_list()[-1] if (
            x.shape.ndims is not None) else None
        if classes is not None:
            if classes < 2:
                raise ValueError("A categorical-distribution parameter must "
                                 "have at least 2 events.")
            if classes > limit:
                raise ValueError(f"Number of classes exceeds `dtype` "
                                 f"precision, i.e., {x.dtype.name} implies "
                                 f"shape ({classes}) cannot exceed {limit}.")
            return x
        classes = array_ops.shape(x)[-1]
        return with_dependencies([
            check_ops.assert_rank_at_least(
                x, 1, message="A categorical-distribution parameter must have "
                "at least 1 dimension."),
            check_ops.assert_greater_equal(
                classes, 2, message="A categorical-distribution parameter must "
                "have at least 2 events."),
            check_ops.assert_less_equal(
                classes, limit, message=f"Number of classes exceeds `dtype` "
                f"precision, i.e., {x.dtype.name} dtype cannot exceed {limit} "
                f"shape.")], x)


def get_logits_and_probs(logits=None, probs=None, multidimensional=False,
                         validate_args=False, name="get_logits_and_probs",
                         dtype=None):
    """Returns (logits, probabilities), given one of them.

    Args:
      multidimensional: whether the last dimension contains classes. Otherwise
        each element is the probability of 1.
      validate_args: whether to check probabilities.
    """
    with graphs.name_scope(name, values=[probs, logits]):
        if (probs is None) == (logits is None):
            raise ValueError("Must pass probs or logits, but not both.")
        if probs is None:
            logits = convert_to_tensor(logits, dtype, name="logits")
            if not logits.dtype.is_floating:
                raise TypeError("logits must having floating type.")
            if multidimensional:
                if validate_args:
                    logits = embed_check_categorical_event_shape(logits)
                return logits, nn.softmax(logits, name="probs")
            return logits, math_ops.sigmoid(logits, name="probs")
        probs = convert_to_tensor(probs, dtype, name="probs")
        if not probs.dtype.is_floating:
            raise TypeError("probs must having floating type.")
        if validate_args:
            with graphs.name_scope("validate_probs"):
                one = math_ops.cast(1, probs.dtype)
                checks = [check_ops.assert_non_negative(probs)]
                if multidimensional:
                    probs = embed_check_categorical_event_shape(probs)
                    checks.append(assert_close(
                        math_ops.reduce_sum(probs, -1), one,
                        message="probs does not sum to 1."))
                else:
                    checks.append(check_ops.assert_less_equal(
                        probs, one, message="probs has components greater than "
                        "1."))
                probs = with_dependencies(checks, probs)
        with graphs.name_scope("logits"):
            if multidimensional:
                return math_ops.log(probs), probs
            return math_ops.log(probs) - math_ops.log1p(-probs), probs


def assert_close(x, y, data=None, summarize=None, message=None,
                 name="assert_close"):
    """Returns an operation that fails unless values are nearly equal."""
    with graphs.name_scope(name, values=[x, y]):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y")
        if x.dtype.is_integer:
            return check_ops.assert_equal(x, y, data=data, summarize=summarize,
                                          message=message)
        return check_ops.assert_less_equal(
            math_ops.abs(x - y), math_ops.cast(
                10 * np.finfo(x.dtype.as_numpy_dtype).eps, x.dtype),
            data=data, summarize=summarize, message=message or "")


def log_combinations(n, counts, name="log_combinations"):
    """Returns the log of the multinomial coefficient of n and counts."""
    with graphs.name_scope(name, values=[n, counts]):
        n = convert_to_tensor(n, name="n")
        counts = convert_to_tensor(counts, name="counts")
        return math_ops.lgamma(n + 1) - math_ops.reduce_sum(
            math_ops.lgamma(counts + 1), axis=[-1])


def softplus_inverse(x, name=None):
    """Returns the inverse of softplus."""
    with graphs.name_scope(name, "softplus_inverse", values=[x]):
        x = convert_to_tensor(x, name="x")
        threshold = math.log(np.finfo(x.dtype.as_numpy_dtype).eps) + 2.0
        small, large = x < math.exp(threshold), x > -threshold
        # Avoids an infinite gradient in the branch that is not selected.
        middle = array_ops.where_v2(math_ops.logical_or(small, large),
                                    array_ops.ones_like(x), x)
        return array_ops.where_v2(
            small, math_ops.log(x), array_ops.where_v2(
                large, x, middle + math_ops.log(-math_ops.expm1(-middle))))
