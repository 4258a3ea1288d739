"""Kullback-Leibler divergences, registered for pairs of classes."""

from sluice.framework import graph as graphs
from sluice.ops import array_ops, math_ops
from sluice.ops.control_flow import Assert

_DIVERGENCES = {}  # Functions by the classes of both distributions.


def _registered_kl(type_a, type_b):
    """Returns the function for the nearest pair of base classes, or None.

    Among equally near pairs, the one with the nearer first class wins.
    """
    found = [(a, b) for a in type_a.__mro__ for b in type_b.__mro__
             if (a, b) in _DIVERGENCES]
    nearest = min(found, default=None, key=lambda ab: (
        type_a.__mro__.index(ab[0]) + type_b.__mro__.index(ab[1])))
    return _DIVERGENCES.get(nearest)


def kl_divergence(distribution_a, distribution_b, allow_nan_stats=True,
                  name=None):
    """Returns KL(distribution_a || distribution_b) in nats.

    Args:
      allow_nan_stats: whether an undefined divergence is NaN, not an error.
    """
    function = _registered_kl(type(distribution_a), type(distribution_b))
    if function is None:
        raise NotImplementedError(
            f"No KL(distribution_a || distribution_b) registered for "
            f"distribution_a type {type(distribution_a).__name__} and "
            f"distribution_b type {type(distribution_b).__name__}")
    with graphs.name_scope("KullbackLeibler"):
        divergence = function(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return divergence
        divergence = array_ops.identity(divergence, name="kl")
        with graphs.control_dependencies([Assert(
                math_ops.logical_not(math_ops.reduce_any(
                    math_ops.is_nan(divergence))),
                [f"KL calculation between {distribution_a.name} and "
                 f"{distribution_b.name} returned NaN values (and was called "
                 f"with allow_nan_stats=False). Values:", divergence])]):
            return array_ops.identity(divergence, name="checked_kl")


def cross_entropy(ref, other, allow_nan_stats=True, name=None):
    """Returns the cross-entropy of `ref` and `other` in nats."""
    with graphs.name_scope(name, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats)


class RegisterKL:
    """Decorates a function to register it as a divergence of two classes."""

    def __init__(self, dist_cls_a, dist_cls_b):
        self._key = dist_cls_a, dist_cls_b

    def __call__(self, kl_fn):
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _DIVERGENCES:
            raise ValueError(f"KL({self._key[0].__name__} || "
                             f"{self._key[1].__name__}) has already been "
                             f"registered to: {_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn
