"""Regularizers: functions that compute a loss from weights."""

import numbers

from sluice.framework import graph as graphs
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops import math_ops, nn


def _checked(scale, name="scale"):
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"{name} cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"Setting a {name} less than 0 on a regularizer: "
                         f"{scale}.")
    return isinstance(scale, numbers.Real) and scale == 0.0


def _scaled(scale, scope, default, measure):
    if _checked(scale):
        return lambda _: None

    def regularizer(weights):
        with graphs.name_scope(scope, default, [weights]) as name:
            weights = convert_to_tensor(weights)
            return math_ops.multiply(
                convert_to_tensor(scale, weights.dtype.base_dtype,
                                  name="scale"), measure(weights), name=name)
    return regularizer


def l1_regularizer(scale, scope=None):
    """Makes a regularizer that computes scale * sum(|weights|)."""
    return _scaled(scale, scope, "l1_regularizer",
                   lambda w: math_ops.reduce_sum(math_ops.abs(w)))


def l2_regularizer(scale, scope=None):
    """Makes a regularizer that computes scale * sum(weights^2) / 2."""
    return _scaled(scale, scope, "l2_regularizer", nn.l2_loss)


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    """Makes the sum of `l1_regularizer` and `l2_regularizer`."""
    scope = scope or "l1_l2_regularizer"
    _checked(scale_l1, "scale_l1")
    _checked(scale_l2, "scale_l2")
    return sum_regularizer([l1_regularizer(scale_l1),
                            l2_regularizer(scale_l2)], scope)


def sum_regularizer(regularizer_list, scope=None):
    """Makes the sum of several regularizers."""
    regularizers = [r for r in regularizer_list if r is not None]
    if not regularizers:
        return None

    def regularizer(weights):
        with graphs.name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [r(weights) for r in regularizers]
            losses = [x for x in losses if x is not None]
            return math_ops.add_n(losses, name=name) if losses else None
    return regularizer


def apply_regularization(regularizer, weights_list=None):
    """Adds the total loss of a regularizer to REGULARIZATION_LOSSES.

    The weights default to the collection WEIGHTS. Returns the total.
    """
    if not weights_list:
        weights_list = graphs.get_collection(GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with graphs.name_scope("get_regularization_penalty",
                           values=weights_list) as scope:
        losses = [regularizer(w) for w in weights_list]
        losses = [constant(0.0) if x is None else x for x in losses]
        total = math_ops.add_n(losses, name=scope)
        graphs.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
        return total
