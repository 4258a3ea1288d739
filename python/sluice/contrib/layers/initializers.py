"""The initializers of `contrib.layers`."""

from sluice.framework import dtypes
from sluice.ops.init_ops import VarianceScaling


def xavier_initializer(uniform=True, seed=None, dtype=dtypes.float32):
    """Makes the initializer of Glorot and Bengio (2010).

    The variance is 2 / (inputs + outputs).
    """
    return VarianceScaling(1.0, "fan_avg", "uniform" if uniform
                           else "truncated_normal", seed, dtype)


def variance_scaling(factor=2.0, mode="FAN_IN", uniform=False, seed=None,
                     dtype=dtypes.float32):
    """Makes an initializer of variance factor / n.

    n is the number of inputs or of outputs, or their mean.
    """
    return VarianceScaling(factor, mode.lower(), "uniform" if uniform
                           else "truncated_normal", seed, dtype)
