"""Multivariate normal distributions."""

import math

from sluice.contrib.distributions.distribution import (
    FULLY_REPARAMETERIZED, Distribution)
from sluice.contrib.distributions.kullback_leibler import RegisterKL
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import (
    array_ops, check_ops, diagonals, math_ops, nn, random_ops)
from sluice.ops.control_flow import with_dependencies


class MultivariateNormalDiag(Distribution):
    """A multivariate normal distribution with a diagonal covariance.

    Args:
      loc: the means; default to 0.
      scale_diag: the standard deviations; default to 1.
      scale_identity_multiplier: a number that is added to `scale_diag`, or
        replaces it.
    """

    loc = property(lambda self: self._loc, doc="The means.")

    def __init__(self, loc=None, scale_diag=None,
                 scale_identity_multiplier=None, validate_args=False,
                 allow_nan_stats=True, name="MultivariateNormalDiag"):
        arguments = dict(locals())
        if loc is None and scale_diag is None:
            raise ValueError("loc, scale_diag: expected one of them at least, "
                             "got neither")
        with graphs.name_scope(name, values=[
                loc, scale_diag, scale_identity_multiplier]) as name:
            if loc is not None:
                loc = convert_to_tensor(loc, name="loc")
            diag = None if scale_diag is None else convert_to_tensor(
                scale_diag, name="scale_diag")
            dtype = (diag if loc is None else loc).dtype.base_dtype
            if scale_identity_multiplier is not None:
                more = convert_to_tensor(scale_identity_multiplier, dtype,
                                         name="scale_identity_multiplier")
                more = more[..., None]
                diag = more + array_ops.zeros_like(loc) if (
                    diag is None) else diag + more
            if diag is None:
                diag = array_ops.ones_like(loc)
            if loc is None:
                loc = array_ops.zeros_like(diag)
            check_ops.assert_same_float_dtype([loc, diag])
            if validate_args:
                diag = with_dependencies([check_ops.assert_none_equal(
                    diag, array_ops.zeros([], dtype),
                    message="scale_diag: expected no zeros")], diag)
            self._loc = loc + array_ops.zeros_like(diag)
            self._diag = diag + array_ops.zeros_like(loc)
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args,
                         allow_nan_stats, arguments, [loc, diag], name)

    def _batch_shape(self):
        return self._loc.shape[:-1]

    def _batch_shape_tensor(self):
        return array_ops.shape(self._loc)[:-1]

    def _event_shape(self):
        return self._loc.shape[-1:]

    def _event_shape_tensor(self):
        return array_ops.shape(self._loc)[-1:]

    def _sample_n(self, n, seed=None):
        return self._loc + self._diag * random_ops.random_normal(
            array_ops.concat([[n], array_ops.shape(self._loc)], 0),
            dtype=self.dtype, seed=seed)

    def _log_size(self):
        """Returns the logarithm of the product of the scales."""
        return math_ops.reduce_sum(math_ops.log(math_ops.abs(self._diag)), -1)

    def _log_prob(self, x):
        z = (x - self._loc) / self._diag
        return -0.5 * math_ops.reduce_sum(
            math_ops.square(z) + math.log(2 * math.pi),
            -1) - self._log_size()

    def _entropy(self):
        k = math_ops.cast(array_ops.shape(self._loc)[-1], self.dtype)
        return 0.5 * k * math.log(2 * math.pi * math.e) + self._log_size()

    def _mean(self):
        return array_ops.identity(self._loc)

    _mode = _mean

    def _stddev(self):
        return math_ops.abs(self._diag)

    def _variance(self):
        return math_ops.square(self._diag)

    def _covariance(self):
        return diagonals.matrix_diag(self._variance())


class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """A MultivariateNormalDiag whose scales are softplus(scale_diag)."""

    def __init__(self, loc, scale_diag, validate_args=False,
                 allow_nan_stats=True,
                 name="MultivariateNormalDiagWithSoftplusScale"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[scale_diag]) as name:
            super().__init__(loc, nn.softplus(scale_diag), None, validate_args,
                             allow_nan_stats, name)
        self._parameters = arguments


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _kl_diag(a, b, name=None):
    with graphs.name_scope(name, "kl_mvn", [a.loc, b.loc]):
        ratio = math_ops.square(a._diag / b._diag)
        return 0.5 * math_ops.reduce_sum(
            math_ops.square((a.loc - b.loc) / b._diag) + ratio - 1 -
            math_ops.log(ratio), -1)
