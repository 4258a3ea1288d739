"""Random numbers, which are drawn in each step."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops

_op = _core.op
_uniform = _op("RandomUniform")
_uniform_int = _op("RandomUniformInt")
_normal = _op("RandomStandardNormal")
_truncated = _op("TruncatedNormal")
_shuffle = _op("RandomShuffle")


def _seeds(seed):
    one, two = graphs.get_seed(seed)
    return dict(seed=one or 0, seed2=two or 0)


def _shape(shape):
    return convert_to_tensor(shape, dtypes.int32, name="shape") if not (
        isinstance(shape, _core.Tensor)) else shape


def random_uniform(shape, minval=0, maxval=None, dtype=dtypes.float32,
                   seed=None, name=None):
    """Draws numbers from the uniform distribution on [minval, maxval).

    Args:
      shape: a list of ints, or a vector of int32 or int64.
      minval: the lower bound; defaults to 0.
      maxval: the upper bound, which is excluded. Defaults to 1 for floats and
        is required for integers.
      dtype: float16, bfloat16, float32, float64, int32 or int64.
      seed: makes the numbers the same in each session (see `set_random_seed`).
      name: the name scope of the operations.

    Raises:
      ValueError: if `dtype` is unsupported, or for integers without `maxval`.
    """
    dtype = dtypes.as_dtype(dtype)
    if dtype not in _UNIFORM:
        raise ValueError(f"Invalid dtype {dtype!r}")
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype "
                             f"{dtype!r}")
        maxval = 1
    with graphs.name_scope(name, "random_uniform",
                           [shape, minval, maxval]) as scope:
        shape = _shape(shape)
        low = convert_to_tensor(minval, dtype, name="min")
        high = convert_to_tensor(maxval, dtype, name="max")
        if dtype.is_integer:
            return _uniform_int(shape, low, high, name=scope, **_seeds(seed))
        drawn = _uniform(shape, dtype, **_seeds(seed))
        return _op("AddV2")(drawn * (high - low), low, name=scope)


_UNIFORM = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
            dtypes.int32, dtypes.int64)


def _normal_like(op, default, doc):
    def draw(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None,
             name=None):
        with graphs.name_scope(name, default, [shape, mean, stddev]) as scope:
            shape = _shape(shape)
            mean = convert_to_tensor(mean, dtype, name="mean")
            stddev = convert_to_tensor(stddev, dtype, name="stddev")
            drawn = op(shape, dtypes.as_dtype(dtype), **_seeds(seed))
            return _op("AddV2")(drawn * stddev, mean, name=scope)
    draw.__doc__ = doc + """

    Args:
      shape: a list of ints, or a vector of int32 or int64.
      mean, stddev: numbers, or tensors that broadcast to `shape`.
      dtype: a float dtype.
      seed: makes the numbers the same in each session (see `set_random_seed`).
      name: the name scope of the operations.
    """
    return draw


random_normal = _normal_like(_normal, "random_normal",
                             "Draws normally distributed numbers.")
truncated_normal = _normal_like(
    _truncated, "truncated_normal",
    "Draws normally distributed numbers within two standard deviations.")


def random_shuffle(value, seed=None, name=None):
    """Shuffles a tensor along its first dimension."""
    return _shuffle(value, name=name, **_seeds(seed))


def multinomial(logits, num_samples, seed=None, name=None,
                output_dtype=dtypes.int64):
    """Draws classes with probabilities softmax(logits) in each row."""
    return _op("Multinomial")(logits, num_samples, output_dtype=output_dtype,
                              name=name, **_seeds(seed))


def random_gamma(shape, alpha, beta=None, dtype=dtypes.float32, seed=None,
                 name=None):
    """Draws `shape` numbers from a gamma distribution per alpha and beta."""
    with graphs.name_scope(name, "random_gamma", [shape, alpha, beta]):
        alpha = convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, dtype,
                                 name="beta")
        alpha = alpha + array_ops.zeros_like(beta)  # Broadcasts alpha.
        drawn = _op("RandomGamma")(_shape(shape), alpha, **_seeds(seed))
        return drawn / beta


def random_poisson(lam, shape, dtype=dtypes.float32, seed=None, name=None):
    """Draws `shape` counts from a Poisson distribution for each rate."""
    return _op("RandomPoissonV2")(_shape(shape), lam,
                                  dtype=dtypes.as_dtype(dtype), name=name,
                                  **_seeds(seed))


def categorical(logits, num_samples, dtype=dtypes.int64, seed=None, name=None):
    """Draws classes with probabilities softmax(logits) in each row."""
    return multinomial(logits, num_samples, seed, name,
                       dtype or dtypes.int64)


def stateless_random_uniform(shape, seed, minval=0, maxval=None,
                             dtype=dtypes.float32, name=None):
    """Works like `random_uniform`, but determined by two integer seeds."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.is_integer and maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
    with graphs.name_scope(name, "stateless_random_uniform",
                           [shape, seed, minval, maxval]) as scope:
        low = convert_to_tensor(minval, dtype, name="min")
        high = convert_to_tensor(1 if maxval is None else maxval, dtype,
                                 name="max")
        if dtype.is_integer:
            return _op("StatelessRandomUniformInt")(_shape(shape), seed, low,
                                                    high, name=scope)
        drawn = _op("StatelessRandomUniform")(_shape(shape), seed, dtype=dtype)
        return _op("AddV2")(drawn * (high - low), low, name=scope)


def _stateless_normal(kind, default, doc):
    def draw(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32,
             name=None):
        with graphs.name_scope(name, default,
                               [shape, seed, mean, stddev]) as scope:
            drawn = _op(kind)(_shape(shape), seed, dtype=dtypes.as_dtype(dtype))
            return _op("AddV2")(
                drawn * convert_to_tensor(stddev, dtype, name="stddev"),
                convert_to_tensor(mean, dtype, name="mean"), name=scope)
    draw.__doc__ = doc
    return draw


stateless_random_normal = _stateless_normal(
    "StatelessRandomNormal", "stateless_random_normal",
    "Works like `random_normal`, but determined by two integer seeds.")
stateless_truncated_normal = _stateless_normal(
    "StatelessTruncatedNormal", "stateless_truncated_normal",
    "Works like `truncated_normal`, but determined by two integer seeds.")


def stateless_multinomial(logits, num_samples, seed, output_dtype=dtypes.int64,
                          name=None):
    """Works like `multinomial`, but determined by two integer seeds."""
    return _op("StatelessMultinomial")(logits, num_samples, seed,
                                       output_dtype=output_dtype, name=name)


def parameterized_truncated_normal(shape, means=0.0, stddevs=1.0, minvals=-2.0,
                                   maxvals=2.0, dtype=dtypes.float32, seed=None,
                                   name=None):
    """Draws normal numbers between `minvals` and `maxvals`.

    Each parameter is one number, or one for each row of the result.
    """
    with graphs.name_scope(name, "parameterized_truncated_normal"):
        return _op("ParameterizedTruncatedNormal")(
            _shape(shape), *[convert_to_tensor(x, dtype) for x in (
                means, stddevs, minvals, maxvals)], **_seeds(seed))
