"""Distributions over classes, class counts and class probabilities."""

import numpy as np

from sluice import _core
from sluice.contrib.distributions import util
from sluice.contrib.distributions.distribution import (
    FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution)
from sluice.contrib.distributions.kullback_leibler import RegisterKL
from sluice.contrib.distributions.numbers import _parameter
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.ops import (
    array_ops, check_ops, diagonals, functional, math_ops, nn, random_ops)
from sluice.ops.control_flow import with_dependencies

_xlogy = _core.op("Xlogy")


class Categorical(Distribution):
    """A distribution over classes, given by logits or probabilities."""

    logits = _parameter("logits", "The unnormalized log-probabilities.")
    probs = _parameter("probs", "The probability of each class.")
    event_size = _parameter("event_size", "The number of classes.")

    def __init__(self, logits=None, probs=None, dtype=dtypes.int32,
                 validate_args=False, allow_nan_stats=True,
                 name="Categorical"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[logits, probs]) as name:
            self._logits, self._probs = util.get_logits_and_probs(
                logits, probs, multidimensional=True,
                validate_args=validate_args, name=name)
            dims = self._logits.shape.with_rank_at_least(1)
            classes = None if dims.ndims is None else dims.as_list()[-1]
            self._event_size = array_ops.shape(self._logits)[-1] if (
                classes is None) else convert_to_tensor(
                    classes, dtypes.int32, name="event_size")
        super().__init__(dtypes.as_dtype(dtype), NOT_REPARAMETERIZED,
                         validate_args, allow_nan_stats, arguments,
                         [self._logits, self._probs], name)

    def _batch_shape(self):
        return self.logits.shape[:-1]

    def _batch_shape_tensor(self):
        return array_ops.shape(self.logits)[:-1]

    def _event_shape(self):
        return tensor_shape.TensorShape([])

    def _event_shape_tensor(self):
        return constant([], dtypes.int32)

    def _sample_n(self, n, seed=None):
        drawn = random_ops.multinomial(
            array_ops.reshape(self.logits, [-1, self.event_size]), n, seed,
            output_dtype=dtypes.int64 if self.dtype.size > 4 else dtypes.int32)
        return math_ops.cast(array_ops.reshape(
            array_ops.transpose(drawn),
            array_ops.concat([[n], self.batch_shape_tensor()], 0)), self.dtype)

    def _with_classes(self, k, parameters):
        """Broadcasts classes and parameters to the same batch shape."""
        if self.validate_args:
            k = util.embed_check_integer_casting_closed(k, dtypes.int32)
        if k.dtype.is_floating:
            k = math_ops.cast(k, dtypes.int32)
        elif not k.dtype.is_integer:
            raise TypeError(f"`value` should have integer `dtype` or "
                            f"`self.dtype` ({self.dtype.name})")
        if not (k.shape.is_fully_defined() and
                k.shape == parameters.shape[:-1]):
            wide = parameters.shape[:-1]
            parameters = parameters * array_ops.ones_like(
                k[..., None], dtype=parameters.dtype)
            k = k * array_ops.ones(array_ops.shape(parameters)[:-1], k.dtype)
            if wide.ndims is not None and parameters.shape.ndims is not None:
                k.set_shape(parameters.shape[:-1])
        return k, parameters

    def _log_prob(self, k):
        k, logits = self._with_classes(k, self.logits)
        return -nn.sparse_softmax_cross_entropy_with_logits(labels=k,
                                                            logits=logits)

    def _cdf(self, k):
        k, probs = self._with_classes(k, self.probs)
        before = array_ops.sequence_mask(k, self.event_size, probs.dtype)
        return math_ops.reduce_sum(before * probs, -1)

    def _entropy(self):
        return -math_ops.reduce_sum(
            nn.log_softmax(self.logits) * self.probs, -1)

    def _mode(self):
        mode = math_ops.cast(math_ops.argmax(self.logits, -1), self.dtype)
        mode.set_shape(self.batch_shape)
        return mode


@RegisterKL(Categorical, Categorical)
def _kl_categorical(a, b, name=None):
    with graphs.name_scope(name, "kl_categorical_categorical",
                           [a.logits, b.logits]):
        return math_ops.reduce_sum(
            nn.softmax(a.logits) * (nn.log_softmax(a.logits) -
                                    nn.log_softmax(b.logits)), -1)


class _OfVectors(Distribution):
    """The base class of distributions over vectors with an entry per class."""

    def _start(self, arguments, scope, whole, reparameterization_type, parents):
        """Initializes the base class; `whole` has the shape of a sample."""
        self._whole = whole
        super().__init__(
            whole.dtype.base_dtype, reparameterization_type,
            arguments["validate_args"], arguments["allow_nan_stats"],
            arguments, parents, scope)

    def _batch_shape(self):
        return self._whole.shape.with_rank_at_least(1)[:-1]

    def _batch_shape_tensor(self):
        return array_ops.shape(self._whole)[:-1]

    def _event_shape(self):
        return self._whole.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self):
        return array_ops.shape(self._whole)[-1:]

    def _outer(self, a, b):
        """Returns the covariance with off-diagonal elements -a b."""
        return diagonals.matrix_set_diag(
            -math_ops.matmul(a[..., None], b[..., None, :]), self._variance())

    def _counted(self, counts, what):
        """Returns counts, which are checked if `validate_args`."""
        if not self.validate_args:
            return counts
        counts = util.embed_check_nonnegative_integer_form(counts)
        return with_dependencies([check_ops.assert_equal(
            self.total_count, math_ops.reduce_sum(counts, -1),
            message=f"{what} must sum to `self.total_count`")], counts)


class Multinomial(_OfVectors):
    """The multinomial distribution: counts of classes in several draws."""

    total_count = _parameter("total_count", "The number of draws.")
    logits = _parameter("logits", "The unnormalized log-probabilities.")
    probs = _parameter("probs", "The probability of each class.")

    def __init__(self, total_count, logits=None, probs=None,
                 validate_args=False, allow_nan_stats=True,
                 name="Multinomial"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[total_count, logits,
                                             probs]) as name:
            count = convert_to_tensor(total_count, name="total_count")
            if validate_args:
                count = util.embed_check_nonnegative_integer_form(count)
            self._logits, self._probs = util.get_logits_and_probs(
                logits, probs, multidimensional=True,
                validate_args=validate_args, name=name)
            self._total_count = count
            mean = count[..., None] * self._probs
        self._start(arguments, name, mean, NOT_REPARAMETERIZED,
                    [count, self._logits, self._probs])

    def _sample_n(self, n, seed=None):
        k = self.event_shape_tensor()[0]
        counts = math_ops.cast(self.total_count, dtypes.int32)
        counts = counts + array_ops.zeros_like(self.logits[..., 0],
                                               dtype=dtypes.int32)
        logits = self.logits + array_ops.zeros_like(
            counts[..., None], dtype=self.logits.dtype)

        # The number of draws differs between distributions of the batch.
        def draw(one):
            logits, count = one
            drawn = array_ops.reshape(random_ops.multinomial(
                logits[None], n * count, seed), [n, -1])
            return math_ops.reduce_sum(array_ops.one_hot(
                drawn, k, dtype=self.dtype), -2)

        drawn = functional.map_fn(
            draw, [array_ops.reshape(logits, [-1, k]),
                   array_ops.reshape(counts, [-1])], dtype=self.dtype)
        return array_ops.reshape(
            array_ops.transpose(drawn, [1, 0, 2]),
            array_ops.concat([[n], self.batch_shape_tensor(), [k]], 0))

    def _log_prob(self, counts):
        counts = self._counted(counts, "counts")
        return math_ops.reduce_sum(
            counts * nn.log_softmax(self.logits), -1) + util.log_combinations(
                self.total_count, counts)

    def _mean(self):
        return array_ops.identity(self._whole)

    def _variance(self):
        return self._whole - self._whole * self.probs

    def _covariance(self):
        return self._outer(self._whole, self.probs + array_ops.zeros_like(
            self._whole))


def _concentrations(concentration, validate_args, *checks):
    concentration = convert_to_tensor(concentration, name="concentration")
    if not validate_args:
        return concentration
    return with_dependencies([check_ops.assert_positive(
        concentration, message="Concentration parameter must be positive."),
        *(check(concentration) for check in checks)], concentration)


class Dirichlet(_OfVectors):
    """The Dirichlet distribution, given by concentrations."""

    concentration = _parameter("concentration", "The concentrations.")
    total_concentration = _parameter("total_concentration", "Their sum.")

    def __init__(self, concentration, validate_args=False,
                 allow_nan_stats=True, name="Dirichlet"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[concentration]) as name:
            c = self._concentration = _concentrations(
                concentration, validate_args,
                lambda c: check_ops.assert_rank_at_least(
                    c, 1, message="Concentration parameter must have >=1 "
                    "dimensions."),
                lambda c: check_ops.assert_less(
                    1, array_ops.shape(c)[-1], message="Concentration "
                    "parameter must have event_size >= 2."))
            self._total_concentration = math_ops.reduce_sum(c, -1)
        self._start(arguments, name, c, FULLY_REPARAMETERIZED,
                    [c, self._total_concentration])

    def _sample_n(self, n, seed=None):
        drawn = random_ops.random_gamma([n], self.concentration,
                                        dtype=self.dtype, seed=seed)
        return drawn / math_ops.reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, x):
        if self.validate_args:
            x = with_dependencies([
                check_ops.assert_positive(x,
                                          message="samples must be positive"),
                check_ops.assert_near(
                    array_ops.ones([], self.dtype), math_ops.reduce_sum(x, -1),
                    message="sample last-dimension must sum to `1`")], x)
        return math_ops.reduce_sum(
            _xlogy(*_broadcast(self.concentration - 1, x)),
            -1) - math_ops.lbeta(self.concentration)

    def _classes(self):
        return math_ops.cast(self.event_shape_tensor()[0], self.dtype)

    def _entropy(self):
        c, total = self.concentration, self.total_concentration
        return (math_ops.lbeta(c) +
                (total - self._classes()) * math_ops.digamma(total) -
                math_ops.reduce_sum((c - 1) * math_ops.digamma(c), -1))

    def _mean(self):
        return self.concentration / self.total_concentration[..., None]

    def _share(self):
        return math_ops.rsqrt(1 + self.total_concentration[..., None])

    def _variance(self):
        share = self._share()
        x = share * self._mean()
        return x * (share - x)

    def _covariance(self):
        x = self._share() * self._mean()
        return self._outer(x, x)

    def _mode(self):
        c = self.concentration
        mode = (c - 1) / (self.total_concentration[..., None] -
                          self._classes())
        if self.allow_nan_stats:
            return array_ops.where_v2(
                math_ops.reduce_all(c > 1, -1, keepdims=True), mode,
                array_ops.fill(array_ops.shape(mode),
                               np.array(np.nan, self.dtype.as_numpy_dtype)))
        return with_dependencies([check_ops.assert_less(
            array_ops.ones([], self.dtype), c,
            message="Mode undefined when any concentration <= 1")], mode)


def _broadcast(a, b):
    nothing = array_ops.zeros_like(a + b)
    return a + nothing, b + nothing


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlet(a, b, name=None):
    with graphs.name_scope(name, "kl_dirichlet_dirichlet",
                           [a.concentration, b.concentration]):
        one, two = a.concentration, b.concentration
        surplus = math_ops.digamma(one) - math_ops.digamma(
            math_ops.reduce_sum(one, -1, keepdims=True))
        return (math_ops.reduce_sum((one - two) * surplus, -1) -
                math_ops.lbeta(one) + math_ops.lbeta(two))


class DirichletMultinomial(_OfVectors):
    """The Dirichlet-multinomial distribution.

    It is a multinomial distribution whose class probabilities have a Dirichlet
    distribution.
    """

    total_count = _parameter("total_count", "The number of draws.")
    concentration = _parameter("concentration", "The concentrations.")
    total_concentration = _parameter("total_concentration", "Their sum.")

    def __init__(self, total_count, concentration, validate_args=False,
                 allow_nan_stats=True, name="DirichletMultinomial"):
        arguments = dict(locals())
        with graphs.name_scope(name, values=[total_count,
                                             concentration]) as name:
            count = convert_to_tensor(total_count, name="total_count")
            if validate_args:
                count = util.embed_check_nonnegative_integer_form(count)
                concentration = util.embed_check_categorical_event_shape(
                    concentration)
            self._total_count = count
            self._concentration = _concentrations(concentration, validate_args)
            self._total_concentration = math_ops.reduce_sum(
                self._concentration, -1)
        self._start(arguments, name, self._concentration, NOT_REPARAMETERIZED,
                    [count, self._concentration])

    def _sample_n(self, n, seed=None):
        k = self.event_shape_tensor()[0]
        logits = array_ops.reshape(math_ops.log(random_ops.random_gamma(
            [n], self.concentration, dtype=self.dtype, seed=seed)), [-1, k])
        drawn = random_ops.multinomial(
            logits, math_ops.cast(self.total_count, dtypes.int32),
            util.gen_new_seed(seed, "dirichlet_multinomial"))
        counts = math_ops.reduce_sum(
            array_ops.one_hot(drawn, k, dtype=self.dtype), -2)
        return array_ops.reshape(counts, array_ops.concat(
            [[n], self.batch_shape_tensor(), [k]], 0))

    def _log_prob(self, counts):
        counts = self._counted(counts, "counts last-dimension")
        return (math_ops.lbeta(self.concentration + counts) -
                math_ops.lbeta(self.concentration) +
                util.log_combinations(self.total_count, counts))

    def _mean(self):
        # As in TensorFlow, counts broadcast against classes, too.
        return self.total_count * (
            self.concentration / self.total_concentration[..., None])

    def _share(self):
        total = self.total_concentration[..., None]
        return math_ops.sqrt((1 + total / self.total_count) / (1 + total))

    def _variance(self):
        share = self._share()
        x = share * self._mean()
        return x * (self.total_count * share - x)

    def _covariance(self):
        x = self._share() * self._mean()
        return self._outer(x, x)
