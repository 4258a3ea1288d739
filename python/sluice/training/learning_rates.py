"""Learning rates that depend on the global step."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import math_ops, random_ops


def _build(function, default, what, name, learning_rate, global_step,
           decay_steps, of_its_type, *more):
    """Calls a schedule of the library in its name scope.

    Numbers in the tuple `of_its_type` are cast to the dtype of the rate: as in
    TensorFlow, they are rounded to float32 first.
    """
    with graphs.name_scope(name, default) as scope:
        if global_step is None:
            raise ValueError(f"global_step is required for {what}.")
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        dtype = rate.dtype.base_dtype
        cast = [math_ops.cast(x, dtype)
                for x in (global_step, decay_steps, *of_its_type)]
        return function(scope, rate, *cast, *more)


def exponential_decay(learning_rate, global_step, decay_steps, decay_rate,
                      staircase=False, name=None):
    """Returns learning_rate * decay_rate ** (global_step / decay_steps)."""
    return _build(_core.exponential_decay, "ExponentialDecay",
                  "exponential_decay", name, learning_rate, global_step,
                  decay_steps, (decay_rate,), bool(staircase))


def natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate,
                      staircase=False, name=None):
    """Returns learning_rate * exp(-decay_rate * global_step / decay_steps)."""
    return _build(_core.natural_exp_decay, "NaturalExpDecay",
                  "natural_exp_decay", name, learning_rate, global_step,
                  decay_steps, (decay_rate,), bool(staircase))


def inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate,
                       staircase=False, name=None):
    """Returns learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    return _build(_core.inverse_time_decay, "InverseTimeDecay",
                  "inverse_time_decay", name, learning_rate, global_step,
                  decay_steps, (decay_rate,), bool(staircase))


def polynomial_decay(learning_rate, global_step, decay_steps,
                     end_learning_rate=0.0001, power=1.0, cycle=False,
                     name=None):
    """Decays polynomially from `learning_rate` to `end_learning_rate`.

    The difference is multiplied by (1 - global_step / decay_steps) ** power.
    With `cycle`, the decay restarts with longer periods.
    """
    return _build(_core.polynomial_decay, "PolynomialDecay",
                  "polynomial_decay", name, learning_rate, global_step,
                  decay_steps, (end_learning_rate, power), bool(cycle))


def cosine_decay(learning_rate, global_step, decay_steps, alpha=0.0, name=None):
    """Decays along half a cosine to alpha * learning_rate."""
    return _build(_core.cosine_decay, "CosineDecay", "cosine_decay", name,
                  learning_rate, global_step, decay_steps, (), alpha)


def cosine_decay_restarts(learning_rate, global_step, first_decay_steps,
                          t_mul=2.0, m_mul=1.0, alpha=0.0, name=None):
    """Repeats half cosines.

    Each is longer than the previous one by the factor `t_mul`, and higher by
    `m_mul`.
    """
    return _build(_core.cosine_decay_restarts, "SGDRDecay",
                  "cosine_decay_restarts", name, learning_rate, global_step,
                  first_decay_steps, (t_mul, m_mul), alpha)


def linear_cosine_decay(learning_rate, global_step, decay_steps,
                        num_periods=0.5, alpha=0.0, beta=0.001, name=None):
    """Returns learning_rate * ((alpha + linear decay) * cosine + beta)."""
    return _build(_core.linear_cosine_decay, "LinearCosineDecay",
                  "linear_cosine_decay", name, learning_rate, global_step,
                  decay_steps, (), num_periods, alpha, beta, 0.0, 0.0, None)


def noisy_linear_cosine_decay(learning_rate, global_step, decay_steps,
                              initial_variance=1.0, variance_decay=0.55,
                              num_periods=0.5, alpha=0.0, beta=0.001,
                              name=None):
    """Adds noise to the linear part of `linear_cosine_decay`.

    Its variance is initial_variance / (1 + global_step) ** variance_decay.
    """
    return _build(_core.linear_cosine_decay, "NoisyLinearCosineDecay",
                  "noisy_linear_cosine_decay", name, learning_rate, global_step,
                  decay_steps, (), num_periods, alpha, beta, initial_variance,
                  variance_decay,
                  lambda dtype: random_ops.random_normal([], dtype=dtype))


def piecewise_constant(x, boundaries, values, name=None):
    """Returns values[i] for boundaries[i - 1] < x <= boundaries[i]."""
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the "
                         "length of values")
    with graphs.name_scope(name, "PiecewiseConstant") as scope:
        x = convert_to_tensor(x)
        boundaries = [convert_to_tensor(b) for b in boundaries]
        for bound in boundaries:
            # int32 boundaries can be compared with an int64 x.
            if bound.dtype.base_dtype != x.dtype.base_dtype and not (
                    x.dtype == dtypes.int64 and bound.dtype == dtypes.int32):
                raise ValueError(f"Boundaries ({bound.dtype}) must have the "
                                 f"same dtype as x ({x.dtype}).")
        values = [convert_to_tensor(v) for v in values]
        for value in values[1:]:
            if value.dtype.base_dtype != values[0].dtype.base_dtype:
                raise ValueError(f"Values must have elements all with the same "
                                 f"dtype ({values[0].dtype} vs "
                                 f"{value.dtype}).")
        return _core.piecewise_constant(
            scope, x, boundaries, values)
