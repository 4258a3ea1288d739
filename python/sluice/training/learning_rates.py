"""Learning rates that depend on the global step."""

import math

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, control_flow, math_ops, random_ops


def _start(learning_rate, global_step, decay_steps, what):
    if global_step is None:
        raise ValueError(f"global_step is required for {what}.")
    rate = convert_to_tensor(learning_rate, name="learning_rate")
    dtype = rate.dtype.base_dtype
    return rate, math_ops.cast(global_step, dtype), math_ops.cast(decay_steps,
                                                                  dtype)


def _passed(step, steps, staircase):
    """Returns the number of periods; an integer if `staircase`."""
    passed = step / steps
    return math_ops.floor(passed) if staircase else passed


def exponential_decay(learning_rate, global_step, decay_steps, decay_rate,
                      staircase=False, name=None):
    """Returns learning_rate * decay_rate ** (global_step / decay_steps)."""
    with graphs.name_scope(name, "ExponentialDecay") as scope:
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "exponential_decay")
        return math_ops.multiply(rate, math_ops.pow(
            math_ops.cast(decay_rate, rate.dtype),
            _passed(step, steps, staircase)), name=scope)


def natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate,
                      staircase=False, name=None):
    """Returns learning_rate * exp(-decay_rate * global_step / decay_steps)."""
    with graphs.name_scope(name, "NaturalExpDecay") as scope:
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "natural_exp_decay")
        return math_ops.multiply(rate, math_ops.exp(
            -math_ops.cast(decay_rate, rate.dtype) *
            _passed(step, steps, staircase)), name=scope)


def inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate,
                       staircase=False, name=None):
    """Returns learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    with graphs.name_scope(name, "InverseTimeDecay") as scope:
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "inverse_time_decay")
        return math_ops.div(rate, 1 + math_ops.cast(
            decay_rate, rate.dtype) * _passed(step, steps, staircase),
                            name=scope)


def polynomial_decay(learning_rate, global_step, decay_steps,
                     end_learning_rate=0.0001, power=1.0, cycle=False,
                     name=None):
    """Decays polynomially from `learning_rate` to `end_learning_rate`.

    The difference is multiplied by (1 - global_step / decay_steps) ** power.
    With `cycle`, the decay restarts with longer periods.
    """
    with graphs.name_scope(name, "PolynomialDecay") as scope:
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "polynomial_decay")
        end = math_ops.cast(end_learning_rate, rate.dtype)
        if cycle:
            whole = math_ops.ceil(step / steps)
            steps = steps * array_ops.where(
                math_ops.equal(step, 0), array_ops.ones_like(whole), whole)
        else:
            step = math_ops.minimum(step, steps)
        left = math_ops.pow(1 - step / steps,
                            math_ops.cast(power, rate.dtype))
        return math_ops.add((rate - end) * left, end, name=scope)


def _cosine(part):
    return 0.5 * (1.0 + math_ops.cos(math.pi * part))


def cosine_decay(learning_rate, global_step, decay_steps, alpha=0.0, name=None):
    """Decays along half a cosine to alpha * learning_rate."""
    with graphs.name_scope(name, "CosineDecay"):
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "cosine_decay")
        falling = _cosine(math_ops.minimum(step, steps) / steps)
        return rate * ((1 - alpha) * falling + alpha)


def cosine_decay_restarts(learning_rate, global_step, first_decay_steps,
                          t_mul=2.0, m_mul=1.0, alpha=0.0, name=None):
    """Repeats half cosines.

    Each is longer than the previous one by the factor `t_mul`, and higher by
    `m_mul`.
    """
    with graphs.name_scope(name, "SGDRDecay"):
        rate, step, steps = _start(learning_rate, global_step,
                                   first_decay_steps, "cosine_decay_restarts")
        t_mul, m_mul = (math_ops.cast(v, rate.dtype) for v in (t_mul, m_mul))
        passed = step / steps

        def growing():
            i = math_ops.floor(math_ops.log(1.0 - passed * (1.0 - t_mul)) /
                               math_ops.log(t_mul))
            before = (1.0 - t_mul ** i) / (1.0 - t_mul)
            return i, (passed - before) / t_mul ** i

        def equal():
            i = math_ops.floor(passed)
            return i, passed - i

        i, part = control_flow.cond(math_ops.equal(t_mul, 1.0), equal, growing)
        return rate * ((1 - alpha) * m_mul ** i * _cosine(part) + alpha)


def linear_cosine_decay(learning_rate, global_step, decay_steps,
                        num_periods=0.5, alpha=0.0, beta=0.001, name=None):
    """Returns learning_rate * ((alpha + linear decay) * cosine + beta)."""
    with graphs.name_scope(name, "LinearCosineDecay"):
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "linear_cosine_decay")
        part = math_ops.minimum(step, steps) / steps
        return rate * ((alpha + 1 - part) * _cosine(2.0 * num_periods * part) +
                       beta)


def noisy_linear_cosine_decay(learning_rate, global_step, decay_steps,
                              initial_variance=1.0, variance_decay=0.55,
                              num_periods=0.5, alpha=0.0, beta=0.001,
                              name=None):
    """Adds noise to the linear part of `linear_cosine_decay`.

    Its variance is initial_variance / (1 + global_step) ** variance_decay.
    """
    with graphs.name_scope(name, "NoisyLinearCosineDecay"):
        rate, step, steps = _start(learning_rate, global_step, decay_steps,
                                   "noisy_linear_cosine_decay")
        step = math_ops.minimum(step, steps)
        part = step / steps
        spread = math_ops.sqrt(initial_variance / math_ops.pow(
            1.0 + step, variance_decay))
        noise = random_ops.random_normal(part.shape, dtype=part.dtype) * spread
        return rate * ((alpha + 1 - part + noise) * _cosine(
            2.0 * num_periods * part) + beta)


def piecewise_constant(x, boundaries, values, name=None):
    """Returns values[i] for boundaries[i - 1] < x <= boundaries[i]."""
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the "
                         "length of values")
    with graphs.name_scope(name, "PiecewiseConstant"):
        x = convert_to_tensor(x)
        for bound in map(convert_to_tensor, boundaries):
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
        result = values[-1]
        for bound, value in reversed(list(zip(boundaries, values))):
            below = x <= math_ops.cast(convert_to_tensor(bound), x.dtype)
            result = array_ops.where(below, value, result)
        return result
