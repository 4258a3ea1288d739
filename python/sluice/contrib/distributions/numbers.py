"""Distributions over scalars."""

import inspect
import math

import numpy as np

from sluice import _core
from sluice.contrib.distributions import special_math, util
from sluice.contrib.distributions.distribution import (
    FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution)
from sluice.contrib.distributions.kullback_leibler import RegisterKL
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.ops import array_ops, check_ops, math_ops, nn, random_ops
from sluice.ops.control_flow import with_dependencies

_xlogy = _core.op("Xlogy")
_betainc, _igamma = _core.op("Betainc"), _core.op("Igamma")


def _parameter(name, doc):
    return property(lambda self: getattr(self, "_" + name), doc=doc)


class _OfNumbers(Distribution):
    """The base class of scalar distributions; their parameters broadcast."""

    _names = ()

    def _start(self, arguments, scope, dtype=None,
               reparameterization_type=FULLY_REPARAMETERIZED, **parameters):
        """Initializes the base class; `parameters` are tensors."""
        for name, value in parameters.items():
            setattr(self, "_" + name, value)
        super().__init__(
            dtype or next(iter(parameters.values())).dtype,
            reparameterization_type, arguments["validate_args"],
            arguments["allow_nan_stats"], arguments,
            list(parameters.values()), scope)

    @classmethod
    def _param_shapes(cls, sample_shape):
        return {name: convert_to_tensor(sample_shape, dtypes.int32)
                for name in cls._names}

    def _shapes(self):
        return [getattr(self, "_" + name) for name in self._names]

    def _batch_shape(self):
        shape = tensor_shape.TensorShape([])
        for t in self._shapes():
            shape = array_ops.broadcast_static_shape(shape, t.shape)
        return shape

    def _batch_shape_tensor(self):
        first, *others = (array_ops.shape(t) for t in self._shapes())
        for other in others:
            first = array_ops.broadcast_dynamic_shape(first, other)
        return first

    def _event_shape(self):
        return tensor_shape.TensorShape([])

    def _event_shape_tensor(self):
        return constant([], dtypes.int32)

    # ---- For subclasses.

    def _log_prob(self, x):
        return self._log_unnormalized_prob(x) - self._log_normalization()

    def _log_unnormalized_prob(self, x):
        raise NotImplementedError("log_prob is not implemented: "
                                  f"{type(self).__name__}")

    def _wide(self, n):
        """Returns the shape of n samples."""
        return array_ops.concat([[n], self.batch_shape_tensor()], 0)

    def _everywhere(self, x):
        """Broadcasts x to the batch shape."""
        return x * array_ops.ones(self.batch_shape_tensor(), self.dtype)

    def _where(self, defined, value, otherwise=np.nan):
        """Returns the value where it is defined, else a constant."""
        return array_ops.where_v2(defined, value, array_ops.fill(
            self.batch_shape_tensor(),
            np.array(otherwise, self.dtype.as_numpy_dtype)))

    def _defined(self, value, *needs):
        """Returns a statistic that is undefined for some parameters.

        `needs` are (parameter, exclusive lower bound, message). Where a
        parameter is not above its bound, the result is NaN or an error.
        """
        if self.allow_nan_stats:
            defined = needs[0][0] > needs[0][1]
            for parameter, bound, _ in needs[1:]:
                defined = math_ops.logical_and(defined, parameter > bound)
            return self._where(defined, value)
        return with_dependencies([
            check_ops.assert_less(math_ops.cast(bound, self.dtype), parameter,
                                  message=words)
            for parameter, bound, words in needs], value)

    def _valid(self, x, *checks):
        return with_dependencies([check() for check in checks], x) if (
            self.validate_args) else x


def _taken(checks, validate_args, **parameters):
    """Converts parameters to tensors of the same float dtype.

    With `validate_args`, checks them in each step.
    """
    with graphs.control_dependencies(checks() if validate_args else []):
        made = {name: array_ops.identity(value, name=name)
                for name, value in parameters.items()}
    check_ops.assert_same_float_dtype(list(made.values()))
    return made


class Normal(_OfNumbers):
    """The normal distribution."""

    _names = ("loc", "scale")
    loc = _parameter("loc", "The mean.")
    scale = _parameter("scale", "The standard deviation.")

    def __init__(self, loc, scale, validate_args=False, allow_nan_stats=True,
                 name="Normal"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[loc, scale]) as name:
            made = _taken(lambda: [check_ops.assert_positive(scale)],
                          validate_args, loc=loc, scale=scale)
        self._start(arguments, name, **made)

    def _sample_n(self, n, seed=None):
        return random_ops.random_normal(
            self._wide(n), dtype=self.dtype, seed=seed) * self.scale + self.loc

    def _z(self, x):
        return (x - self.loc) / self.scale

    def _log_unnormalized_prob(self, x):
        return -0.5 * math_ops.square(self._z(x))

    def _log_normalization(self):
        return 0.5 * math.log(2 * math.pi) + math_ops.log(self.scale)

    def _log_cdf(self, x):
        return special_math.log_ndtr(self._z(x))

    def _cdf(self, x):
        return special_math.ndtr(self._z(x))

    def _log_survival_function(self, x):
        return special_math.log_ndtr(-self._z(x))

    def _survival_function(self, x):
        return special_math.ndtr(-self._z(x))

    def _quantile(self, p):
        return special_math.ndtri(p) * self.scale + self.loc

    def _entropy(self):
        return 0.5 * math.log(2 * math.pi * math.e) + math_ops.log(
            self._everywhere(self.scale))

    def _mean(self):
        return self._everywhere(self.loc)

    _mode = _mean

    def _stddev(self):
        return self._everywhere(self.scale)


@RegisterKL(Normal, Normal)
def _kl_normal(a, b, name=None):
    with graphs.name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        ratio = math_ops.square(a.scale) / math_ops.square(b.scale)
        return (math_ops.squared_difference(a.loc, b.loc) /
                (2 * math_ops.square(b.scale)) +
                0.5 * (ratio - 1 - math_ops.log(ratio)))


class Laplace(_OfNumbers):
    """The Laplace distribution."""

    _names = ("loc", "scale")
    loc = _parameter("loc", "The mean.")
    scale = _parameter("scale", "The mean absolute deviation.")

    def __init__(self, loc, scale, validate_args=False, allow_nan_stats=True,
                 name="Laplace"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[loc, scale]) as name:
            made = _taken(lambda: [check_ops.assert_positive(scale)],
                          validate_args, loc=loc, scale=scale)
        self._start(arguments, name, **made)

    def _sample_n(self, n, seed=None):
        kind = self.dtype.as_numpy_dtype
        # The interval is open, to avoid the logarithm of 0.
        u = random_ops.random_uniform(
            self._wide(n), np.nextafter(kind(-1), kind(0)), 1.0,
            dtype=self.dtype, seed=seed)
        return self.loc - self.scale * math_ops.sign(u) * math_ops.log1p(
            -math_ops.abs(u))

    def _z(self, x):
        return (x - self.loc) / self.scale

    def _log_unnormalized_prob(self, x):
        return -math_ops.abs(self._z(x))

    def _log_normalization(self):
        return math.log(2) + math_ops.log(self.scale)

    def _log_cdf(self, x):
        return special_math.log_cdf_laplace(self._z(x))

    def _log_survival_function(self, x):
        return special_math.log_cdf_laplace(-self._z(x))

    def _cdf(self, x):
        z = self._z(x)
        return 0.5 - 0.5 * math_ops.sign(z) * math_ops.expm1(-math_ops.abs(z))

    def _entropy(self):
        return math.log(2) + 1 + math_ops.log(self._everywhere(self.scale))

    def _mean(self):
        return self._everywhere(self.loc)

    _mode = _median = _mean

    def _stddev(self):
        return math.sqrt(2) * self._everywhere(self.scale)


class Uniform(_OfNumbers):
    """The uniform distribution on [low, high)."""

    _names = ("low", "high")
    low = _parameter("low", "The lower bound.")
    high = _parameter("high", "The upper bound, which is excluded.")

    def __init__(self, low=0.0, high=1.0, validate_args=False,
                 allow_nan_stats=True, name="Uniform"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[low, high]) as name:
            made = _taken(lambda: [check_ops.assert_less(
                low, high, message="uniform not defined when low >= high.")],
                validate_args, low=low, high=high)
        self._start(arguments, name, **made)

    def range(self, name="range"):
        """Returns high - low."""
        with self._name_scope(name):
            return self.high - self.low

    def _sample_n(self, n, seed=None):
        return self.low + self.range() * random_ops.random_uniform(
            self._wide(n), dtype=self.dtype, seed=seed)

    def _prob(self, x):
        x = self._everywhere(x)
        outside = math_ops.logical_or(x < self.low, x >= self.high)
        return array_ops.where_v2(
            math_ops.is_nan(x), x, array_ops.where_v2(
                outside, array_ops.zeros_like(x),
                array_ops.ones_like(x) / self.range()))

    def _cdf(self, x):
        x = self._everywhere(x)
        return array_ops.where_v2(
            x >= self.high, array_ops.ones_like(x), array_ops.where_v2(
                x < self.low, array_ops.zeros_like(x),
                (x - self.low) / self.range()))

    def _quantile(self, p):
        return (1 - p) * self.low + p * self.high

    def _entropy(self):
        return math_ops.log(self.range())

    def _mean(self):
        return (self.low + self.high) / 2

    def _variance(self):
        return math_ops.square(self.range()) / 12

    def _stddev(self):
        return self.range() / math.sqrt(12)


class Gamma(_OfNumbers):
    """The gamma distribution, given by concentration (shape) and rate."""

    _names = ("concentration", "rate")
    concentration = _parameter("concentration", "The shape parameter.")
    rate = _parameter("rate", "The inverse of the scale.")

    def __init__(self, concentration, rate, validate_args=False,
                 allow_nan_stats=True, name="Gamma"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[concentration, rate]) as name:
            made = _taken(lambda: [check_ops.assert_positive(concentration),
                                   check_ops.assert_positive(rate)],
                          validate_args, concentration=concentration,
                          rate=rate)
        self._start(arguments, name, **made)

    def _sample_n(self, n, seed=None):
        return random_ops.random_gamma([n], self.concentration, self.rate,
                                       self.dtype, seed)

    def _positive(self, x):
        check_ops.assert_same_float_dtype([x], self.dtype)
        return self._valid(x, lambda: check_ops.assert_positive(x))

    def _log_unnormalized_prob(self, x):
        x = self._positive(x)
        return _xlogy(self.concentration - 1, x) - self.rate * x

    def _log_normalization(self):
        return (math_ops.lgamma(self.concentration) -
                self.concentration * math_ops.log(self.rate))

    def _cdf(self, x):
        x = self.rate * self._positive(x)
        nothing = array_ops.zeros_like(self.concentration + x)
        return _igamma(self.concentration + nothing, x + nothing)

    def _entropy(self):
        c = self.concentration
        return (c - math_ops.log(self.rate) + math_ops.lgamma(c) +
                (1 - c) * math_ops.digamma(c))

    def _mean(self):
        return self.concentration / self.rate

    def _variance(self):
        return self.concentration / math_ops.square(self.rate)

    def _stddev(self):
        return math_ops.sqrt(self.concentration) / self.rate

    def _mode(self):
        return self._defined(
            (self.concentration - 1) / self.rate,
            (self.concentration, 1,
             "mode not defined when any concentration <= 1"))


@RegisterKL(Gamma, Gamma)
def _kl_gamma(a, b, name=None):
    with graphs.name_scope(name, "kl_gamma_gamma",
                           [a.concentration, a.rate, b.concentration, b.rate]):
        return ((a.concentration - b.concentration) *
                math_ops.digamma(a.concentration) +
                math_ops.lgamma(b.concentration) -
                math_ops.lgamma(a.concentration) +
                b.concentration * (math_ops.log(a.rate) -
                                   math_ops.log(b.rate)) +
                a.concentration * (b.rate / a.rate - 1))


class Exponential(Gamma):
    """The exponential distribution."""

    def __init__(self, rate, validate_args=False, allow_nan_stats=True,
                 name="Exponential"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[rate]) as name:
            rate = convert_to_tensor(rate, name="rate")
            super().__init__(array_ops.ones([], rate.dtype.base_dtype), rate,
                             validate_args, allow_nan_stats, name)
        self._parameters = arguments

    @classmethod
    def _param_shapes(cls, sample_shape):
        return {"rate": convert_to_tensor(sample_shape, dtypes.int32)}

    def _sample_n(self, n, seed=None):
        # The smallest normal number as the bound avoids the logarithm of 0.
        u = random_ops.random_uniform(
            self._wide(n), np.finfo(self.dtype.as_numpy_dtype).tiny, 1.0,
            dtype=self.dtype, seed=seed)
        return -math_ops.log(u) / self.rate

    def _cdf(self, x):
        return -math_ops.expm1(-self.rate * self._positive(x))

    def _log_survival_function(self, x):
        return -self.rate * self._positive(x)

    def _quantile(self, p):
        return -math_ops.log1p(-p) / self.rate


class Beta(_OfNumbers):
    """The beta distribution on (0, 1)."""

    _names = ("concentration1", "concentration0")
    concentration1 = _parameter("concentration1", "The concentration of 1.")
    concentration0 = _parameter("concentration0", "The concentration of 0.")
    total_concentration = _parameter("total_concentration", "The sum of both.")

    def __init__(self, concentration1=None, concentration0=None,
                 validate_args=False, allow_nan_stats=True, name="Beta"):
        arguments = dict(locals())
        with graphs.name_scope(
                name, values=[concentration1, concentration0]) as name:
            given = [convert_to_tensor(c, name=f"concentration{i}")
                     for c, i in ((concentration1, 1), (concentration0, 0))]
            made = _taken(lambda: [check_ops.assert_positive(
                c, message="Concentration parameter must be positive.")
                for c in given], validate_args, concentration1=given[0],
                concentration0=given[1])
            total = made["concentration1"] + made["concentration0"]
        self._start(arguments, name, **made, total_concentration=total)

    def _sample_n(self, n, seed=None):
        a, b = (random_ops.random_gamma(
            [n], self._everywhere(c), dtype=self.dtype, seed=s)
                for c, s in ((self.concentration1, seed),
                             (self.concentration0,
                              util.gen_new_seed(seed, "beta"))))
        return a / (a + b)

    def _within(self, x):
        return self._valid(
            x, lambda: check_ops.assert_positive(
                x, message="sample must be positive"),
            lambda: check_ops.assert_less(
                x, array_ops.ones([], self.dtype),
                message="sample must be less than `1`."))

    def _log_unnormalized_prob(self, x):
        x = self._within(x)
        return (_xlogy(self.concentration1 - 1, x) +
                (self.concentration0 - 1) * math_ops.log1p(-x))

    def _log_normalization(self):
        return (math_ops.lgamma(self.concentration1) +
                math_ops.lgamma(self.concentration0) -
                math_ops.lgamma(self.total_concentration))

    def _cdf(self, x):
        nothing = array_ops.zeros_like(self.total_concentration + x)
        return _betainc(self.concentration1 + nothing,
                        self.concentration0 + nothing, x + nothing)

    def _entropy(self):
        a, b, both = (self.concentration1, self.concentration0,
                      self.total_concentration)
        return (self._log_normalization() - (a - 1) * math_ops.digamma(a) -
                (b - 1) * math_ops.digamma(b) +
                (both - 2) * math_ops.digamma(both))

    def _mean(self):
        return self.concentration1 / self.total_concentration

    def _variance(self):
        mean = self._mean()
        return mean * (1 - mean) / (1 + self.total_concentration)

    def _mode(self):
        return self._defined(
            (self.concentration1 - 1) / (self.total_concentration - 2),
            (self.concentration1, 1,
             "Mode undefined for concentration1 <= 1."),
            (self.concentration0, 1,
             "Mode undefined for concentration0 <= 1."))


@RegisterKL(Beta, Beta)
def _kl_beta(a, b, name=None):
    with graphs.name_scope(name, "kl_beta_beta", [
            a.concentration1, a.concentration0, b.concentration1,
            b.concentration0]):
        def weighted(which):
            one, two = (getattr(d, which) for d in (a, b))
            return math_ops.digamma(one) * (two - one)

        return (b._log_normalization() - a._log_normalization() -
                weighted("concentration1") - weighted("concentration0") +
                weighted("total_concentration"))


class StudentT(_OfNumbers):
    """Student's t distribution with location and scale."""

    _names = ("df", "loc", "scale")
    df = _parameter("df", "The degrees of freedom.")
    loc = _parameter("loc", "The location.")
    scale = _parameter("scale", "The scale.")

    def __init__(self, df, loc, scale, validate_args=False,
                 allow_nan_stats=True, name="StudentT"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[df, loc, scale]) as name:
            made = _taken(lambda: [check_ops.assert_positive(df)],
                          validate_args, df=df, loc=loc, scale=scale)
        self._start(arguments, name, **made)

    def _sample_n(self, n, seed=None):
        df = self._everywhere(self.df)
        normal = random_ops.random_normal(self._wide(n), dtype=self.dtype,
                                          seed=seed)
        gamma = random_ops.random_gamma(
            [n], 0.5 * df, 0.5, self.dtype,
            util.gen_new_seed(seed, "student_t"))
        return normal * math_ops.rsqrt(gamma / df) * self.scale + self.loc

    def _log_unnormalized_prob(self, x):
        y = (x - self.loc) / self.scale
        return -0.5 * (self.df + 1) * math_ops.log1p(
            math_ops.square(y) / self.df)

    def _log_normalization(self):
        return (math_ops.log(math_ops.abs(self.scale)) +
                0.5 * math_ops.log(self.df) + 0.5 * math.log(math.pi) +
                math_ops.lgamma(0.5 * self.df) -
                math_ops.lgamma(0.5 * (self.df + 1)))

    def _cdf(self, x):
        y = (x - self.loc) / math_ops.abs(self.scale)
        df = self.df + array_ops.zeros_like(y)
        below = 0.5 * _betainc(0.5 * df, array_ops.fill(
            array_ops.shape(df), math_ops.cast(0.5, self.dtype)),
            df / (math_ops.square(y) + df))
        return array_ops.where_v2(y < 0, below, 1 - below)

    def _entropy(self):
        half = 0.5 * self._everywhere(self.df)
        return (math_ops.log(math_ops.abs(self.scale)) +
                math_ops.log(2 * half) / 2 + math_ops.lgamma(half) +
                0.5 * math.log(math.pi) - math_ops.lgamma(half + 0.5) +
                (half + 0.5) * (math_ops.digamma(half + 0.5) -
                                math_ops.digamma(half)))

    def _mean(self):
        return self._defined(
            self._everywhere(self.loc),
            (self._everywhere(self.df), 1,
             "mean not defined for components of df <= 1"))

    def _variance(self):
        df = self._everywhere(self.df)
        # Avoids a division by 0 in the branch that is not selected.
        least = array_ops.where_v2(df > 2, df - 2, array_ops.ones_like(df))
        return self._defined(
            self._where(df > 2, math_ops.square(self.scale) * df / least,
                        np.inf),
            (df, 1, "variance not defined for components of df <= 1"))

    def _mode(self):
        return self._everywhere(self.loc)


def _of_any_numbers(base, name, **functions):
    """Makes a subclass with unconstrained parameters.

    The functions map its parameters to those of the base class.
    """
    signature = inspect.signature(base.__init__)
    signature = signature.replace(parameters=[
        p.replace(default=name) if p.name == "name" else p
        for p in signature.parameters.values()])

    def __init__(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        arguments = dict(given.arguments)
        with graphs.name_scope(arguments["name"]) as scope:
            base.__init__(**{**arguments, "name": scope, **{
                key: function(arguments[key])
                for key, function in functions.items()}})
        self._parameters = arguments

    __init__.__signature__ = signature
    return type(name, (base,), {
        "__init__": __init__, "__module__": __name__,
        "__doc__": f"{base.__name__} with unconstrained parameters."})


NormalWithSoftplusScale = _of_any_numbers(
    Normal, "NormalWithSoftplusScale", scale=nn.softplus)
LaplaceWithSoftplusScale = _of_any_numbers(
    Laplace, "LaplaceWithSoftplusScale", scale=nn.softplus)
GammaWithSoftplusConcentrationRate = _of_any_numbers(
    Gamma, "GammaWithSoftplusConcentrationRate", concentration=nn.softplus,
    rate=nn.softplus)
ExponentialWithSoftplusRate = _of_any_numbers(
    Exponential, "ExponentialWithSoftplusRate", rate=nn.softplus)
BetaWithSoftplusConcentration = _of_any_numbers(
    Beta, "BetaWithSoftplusConcentration", concentration1=nn.softplus,
    concentration0=nn.softplus)
StudentTWithAbsDfSoftplusScale = _of_any_numbers(
    StudentT, "StudentTWithAbsDfSoftplusScale",
    df=lambda df: math_ops.floor(math_ops.abs(df)), scale=nn.softplus)


class Bernoulli(_OfNumbers):
    """The Bernoulli distribution on {0, 1}."""

    _names = ("logits",)
    logits = _parameter("logits", "log(p / (1 - p)).")
    probs = _parameter("probs", "The probability of 1.")

    def __init__(self, logits=None, probs=None, dtype=dtypes.int32,
                 validate_args=False, allow_nan_stats=True, name="Bernoulli"):
        arguments = dict(locals())
        with graphs.name_scope(name) as name:
            logits, probs = util.get_logits_and_probs(
                logits, probs, validate_args=validate_args, name=name)
        self._start(arguments, name, dtypes.as_dtype(dtype),
                    NOT_REPARAMETERIZED, logits=logits, probs=probs)

    def _sample_n(self, n, seed=None):
        u = random_ops.random_uniform(self._wide(n), seed=seed,
                                      dtype=self.probs.dtype)
        return math_ops.cast(u < self.probs, self.dtype)

    def _log_prob(self, event):
        if self.validate_args:
            event = util.embed_check_integer_casting_closed(event,
                                                            dtypes.bool_)
        event = math_ops.cast(event, self.logits.dtype)
        return -nn.sigmoid_cross_entropy_with_logits(
            labels=event + array_ops.zeros_like(self.logits),
            logits=self.logits + array_ops.zeros_like(event))

    def _entropy(self):
        return (self.logits * math_ops.sigmoid(-self.logits) +
                nn.softplus(-self.logits))

    def _mean(self):
        return array_ops.identity(self.probs)

    def _variance(self):
        return self.probs * (1 - self.probs)

    def _mode(self):
        return math_ops.cast(self.probs > 0.5, self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoulli(a, b, name=None):
    with graphs.name_scope(name, "kl_bernoulli_bernoulli",
                           [a.logits, b.logits]):
        return (math_ops.sigmoid(a.logits) *
                (nn.softplus(-b.logits) - nn.softplus(-a.logits)) +
                math_ops.sigmoid(-a.logits) *
                (nn.softplus(b.logits) - nn.softplus(a.logits)))
