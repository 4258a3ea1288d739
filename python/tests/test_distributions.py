"""Probability distributions."""

import math

import numpy as np
import pytest

import sluice.compat.v1 as tf

d = tf.distributions


def near(got, expected, rtol=1e-4, atol=1e-5):
    np.testing.assert_allclose(got, expected, rtol, atol)


def _vectors(loc, scale):
    return tf.contrib.distributions.MultivariateNormalDiag(loc, scale)


CONTINUOUS = {
    "normal": (lambda: d.Normal(1.0, 2.0), (-19, 21), 1.0, 4.0),
    "laplace": (lambda: d.Laplace(1.0, 2.0), (-39, 41), 1.0, 8.0),
    "uniform": (lambda: d.Uniform(-1.0, 3.0), (-1, 3), 1.0, 16 / 12),
    "gamma": (lambda: d.Gamma(3.0, 2.0), (1e-6, 20), 1.5, 0.75),
    "exponential": (lambda: d.Exponential(0.5), (1e-6, 60), 2.0, 4.0),
    "beta": (lambda: d.Beta(2.0, 3.0), (1e-6, 1 - 1e-6), 0.4, 0.04),
    "student": (lambda: d.StudentT(7.0, 1.0, 2.0), (-150, 152), 1.0, 5.6)}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distributions_are_self_consistent(run, name):
    make, (low, high), mean, variance = CONTINUOUS[name]
    dist = make()
    x = np.linspace(low, high, 60001)[:-1].astype(np.float32)
    step = (high - low) / 60000
    density, log_density, cdf, log_cdf, survival = run([
        dist.prob(x), dist.log_prob(x), dist.cdf(x), dist.log_cdf(x),
        dist.survival_function(x)])
    near(density, np.exp(log_density))
    near(density.sum() * step, 1, 2e-3)
    near(cdf + survival, np.ones_like(x))
    near(np.cumsum(density) * step, cdf, 0, 2e-3)
    inside = cdf > 0.01
    near(np.log(cdf[inside]), log_cdf[inside], 1e-3, 1e-4)
    near(run([dist.mean(), dist.variance()]), [mean, variance])
    near(run(dist.stddev()), math.sqrt(variance))
    near((density * x).sum() * step, mean, 1e-2)
    some = density > 0
    near(run(dist.entropy()), -(density[some] * np.log(density[some])).sum() *
         step, 1e-2)
    drawn = run(dist.sample(20000, seed=3))
    assert drawn.shape == (20000,)
    near(drawn.mean(), mean, 0, 6 * math.sqrt(variance / 20000))
    near(drawn.var(), variance, 0.15)
    # The fraction of samples below a value matches its probability.
    for at in (10000, 30000, 40000):
        assert abs((drawn < x[at]).mean() - cdf[at]) < 0.02


@pytest.mark.parametrize("name", ["normal", "laplace", "uniform", "gamma",
                                  "exponential", "beta"])
def test_samples_are_differentiable_by_parameters(session, name):
    made = {"normal": d.Normal, "laplace": d.Laplace, "uniform": d.Uniform,
            "gamma": d.Gamma, "exponential": d.Exponential, "beta": d.Beta}
    parameters = [tf.constant(1.5), tf.constant(2.5)][
        :1 if name == "exponential" else 2]
    dist = made[name](*parameters)
    assert dist.reparameterization_type == d.FULLY_REPARAMETERIZED
    slopes = tf.gradients(tf.reduce_mean(dist.sample(20000, seed=5)),
                          parameters)
    of_mean = tf.gradients(dist.mean(), parameters)
    assert None not in slopes
    got, expected = session.run([slopes, [
        tf.zeros([]) if g is None else g for g in of_mean]])
    near(got, expected, 0.05, 0.02)


def test_log_probabilities_are_exact_in_the_tails(run):
    x = tf.constant([-30.0, -11, -5, 0, 6, 12])
    normal = d.Normal(0.0, 1.0)
    got, slope = run([normal.log_cdf(x), tf.gradients(normal.log_cdf(x), x)[0]])
    near(got, [-454.32124, -63.82493, -15.064998, -math.log(2), -9.866e-10, 0])
    assert np.isfinite(slope).all()
    near(slope[:2], [30.03, 11.09], 1e-2)
    p = tf.constant([0.0, 0.5, 0.975, 1.0])
    got, slope = run([normal.quantile(p), tf.gradients(normal.quantile(p),
                                                       p)[0]])
    near(got, [-np.inf, 0, 1.959964, np.inf])
    assert np.isfinite(slope).all()
    got = run(d.Laplace(0.0, 1.0).log_cdf([-50.0, 0, 50]))
    near(got, [-50 - math.log(2), -math.log(2), 0])


def test_bernoulli_samples_follow_probabilities(run):
    dist = d.Bernoulli(probs=[0.2, 0.7])
    drawn = run(dist.sample(20000, seed=1))
    assert drawn.dtype == np.int32 and drawn.shape == (20000, 2)
    near(drawn.mean(0), [0.2, 0.7], 0, 0.02)
    near(run(dist.prob([1, 0])), [0.2, 0.3])
    near(run(dist.prob([[1], [0]])), [[0.2, 0.7], [0.8, 0.3]])
    near(run(dist.variance()), [0.16, 0.21])
    assert run(dist.mode()).tolist() == [0, 1]
    near(run(dist.entropy()), [-0.2 * math.log(0.2) - 0.8 * math.log(0.8),
                               -0.7 * math.log(0.7) - 0.3 * math.log(0.3)])
    same = d.Bernoulli(logits=[math.log(0.25), 0.0])
    near(run(same.probs), [0.2, 0.5])
    with pytest.raises(ValueError, match="but not both"):
        d.Bernoulli(logits=[0.0], probs=[0.5])


def test_categorical_samples_follow_probabilities(run):
    p = np.array([[0.1, 0.3, 0.6], [0.5, 0.25, 0.25]], np.float32)
    dist = d.Categorical(probs=p)
    assert dist.batch_shape == [2] and dist.event_shape == []
    drawn = run(dist.sample([100, 200], seed=2))
    assert drawn.shape == (100, 200, 2)
    near([(drawn[..., 0] == k).mean() for k in range(3)], p[0], 0, 0.02)
    near(run(dist.log_prob([2, 0])), np.log([0.6, 0.5]))
    near(run(dist.prob([[0], [1]])), p[:, :2].T)
    near(run(dist.cdf([2, 1])), [0.4, 0.5])
    assert run(dist.mode()).tolist() == [2, 0]
    near(run(dist.entropy()), -(p * np.log(p)).sum(1))
    other = d.Categorical(logits=tf.zeros([3]))
    near(run(dist.kl_divergence(other)), (p * np.log(p * 3)).sum(1))


def test_counts_of_categories(run):
    p = np.array([0.2, 0.3, 0.5], np.float32)
    dist = d.Multinomial(total_count=4.0, probs=p)
    drawn = run(dist.sample(5000, seed=4))
    assert (drawn.sum(1) == 4).all()
    near(drawn.mean(0), 4 * p, 0, 0.06)
    near(run(dist.covariance()), 4 * (np.diag(p) - np.outer(p, p)))
    near(np.cov(drawn.T), run(dist.covariance()), 0, 0.08)
    near(run(dist.prob([1.0, 1, 2])), 12 * 0.2 * 0.3 * 0.25)
    several = d.Multinomial(total_count=[2.0, 5], logits=np.zeros([2, 3], "f"))
    drawn = run(several.sample(7, seed=4))
    assert drawn.shape == (7, 2, 3)
    assert (drawn.sum(2) == [2, 5]).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="must sum"):
        run(d.Multinomial(4.0, probs=p, validate_args=True).prob([1.0, 1, 1]))


def test_probabilities_of_categories(run):
    c = np.array([2, 3, 5], np.float32)
    dist = d.Dirichlet(c)
    drawn = run(dist.sample(20000, seed=6))
    near(drawn.sum(1), np.ones(20000))
    near(drawn.mean(0), c / 10, 0, 0.01)
    near(np.cov(drawn.T), run(dist.covariance()), 0, 1e-3)
    near(run(dist.mode()), (c - 1) / 7)
    near(run(dist.prob([0.2, 0.3, 0.5])), math.gamma(10) / (
        math.gamma(2) * math.gamma(3) * math.gamma(5)) *
        0.2 * 0.3 ** 2 * 0.5 ** 4)
    near(run(dist.entropy()), -np.log(run(dist.prob(drawn))).mean(), 0.05)
    assert np.isnan(run(d.Dirichlet([0.5, 2]).mode())).all()
    counts = d.DirichletMultinomial(6.0, c)
    drawn = run(counts.sample(20000, seed=7))
    assert (drawn.sum(1) == 6).all()
    near(drawn.mean(0), run(counts.mean()), 0, 0.05)
    near(np.cov(drawn.T), run(counts.covariance()), 0.1, 0.05)
    ways = [[i, j, 6.0 - i - j] for i in range(7) for j in range(7 - i)]
    near(run(counts.prob(np.array(ways, "f"))).sum(), 1)


@pytest.mark.parametrize("make", [
    lambda: (d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)),
    lambda: (d.Gamma(3.0, 2.0), d.Gamma(2.0, 1.0)),
    lambda: (d.Exponential(2.0), d.Exponential(1.0)),
    lambda: (d.Beta(2.0, 3.0), d.Beta(4.0, 2.0)),
    lambda: (d.Bernoulli(probs=0.3), d.Bernoulli(probs=0.6)),
    lambda: (d.Dirichlet([2.0, 3, 4]), d.Dirichlet([1.0, 2, 2])),
    lambda: (_vectors([0.0, 1], [1.0, 2]), _vectors([1.0, 1], [2.0, 1]))])
def test_kl_divergences_match_samples(run, make):
    one, two = make()
    drawn = one.sample(40000, seed=8)
    mean = tf.reduce_mean(one.log_prob(drawn) - two.log_prob(drawn))
    got, sampled, cross, entropy = run([
        d.kl_divergence(one, two), mean, one.cross_entropy(two),
        one.entropy()])
    near(got, sampled, 0.05, 0.01)
    near(cross, got + entropy)
    near(run(one.kl_divergence(one)), 0)


def test_user_distributions_define_their_methods(run):
    class Steps(d.Distribution):
        def __init__(self, n, validate_args=False, name="Steps"):
            arguments = dict(locals())
            super().__init__(tf.float32, d.NOT_REPARAMETERIZED, validate_args,
                             True, arguments, [tf.constant(n)], name)
            self._n = n

        def _batch_shape(self):
            return tf.TensorShape([])

        _event_shape = _batch_shape

        def _prob(self, x):
            return tf.ones_like(x) / self._n

        def _sample_n(self, n, seed=None):
            return tf.floor(tf.random_uniform([n], 0, self._n, seed=seed))

        def _stddev(self):
            return tf.constant(3.0)

    dist = Steps(4.0)
    assert dist.name == "Steps/" and dist.parameters["n"] == 4.0
    near(run(dist.log_prob(1.0)), -math.log(4))
    near(run(dist.variance()), 9)
    sample = dist.sample([2, 3])
    assert sample.shape == [2, 3] and sample.name.startswith("Steps")
    assert run(dist.is_scalar_event()) and run(dist.is_scalar_batch())
    assert dist.copy(n=5.0)._n == 5.0
    for method in (lambda: dist.cdf(1.0), dist.mean, dist.entropy,
                   lambda: dist.kl_divergence(dist)):
        with pytest.raises(NotImplementedError):
            method()
    assert "batch_shape=()" in str(dist)

    @d.RegisterKL(Steps, Steps)
    def _divergence(a, b, name=None):
        return tf.constant(0.5)

    class Others(Steps):
        pass

    assert run(d.kl_divergence(Others(3.0), dist)) == 0.5
    with pytest.raises(ValueError, match="already been registered"):
        d.RegisterKL(Steps, Steps)(_divergence)


def test_validate_args_checks_arguments(run):
    scale = tf.placeholder_with_default(-1.0, [])
    assert np.isfinite(run(d.Normal(0.0, scale).sample()))
    with pytest.raises(tf.errors.InvalidArgumentError, match="x > 0"):
        run(d.Normal(0.0, scale, validate_args=True).sample())
    with pytest.raises(tf.errors.InvalidArgumentError, match="sum to 1"):
        run(d.Categorical(probs=tf.placeholder_with_default(
            [0.5, 0.1], [2]), validate_args=True).sample())
    undefined = d.Beta(0.5, 2.0, allow_nan_stats=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Mode undefined"):
        run(undefined.mode())
    assert np.isnan(run(d.StudentT([1.0, 3.0], 0.0, 1.0).mean())).tolist() == [
        True, False]
    assert run(d.StudentT([2.0, 4.0], 0.0, 1.0).variance()).tolist() == [
        np.inf, 2]


def test_parameters_broadcast(run):
    dist = d.Normal(loc=tf.zeros([3, 1]), scale=[1.0, 2.0])
    assert dist.batch_shape == [3, 2] and dist.sample(5).shape == [5, 3, 2]
    assert run(dist.mean()).shape == run(dist.entropy()).shape == (3, 2)
    rows = tf.placeholder(tf.float32, [None])
    dist = d.Normal(rows, 1.0)
    assert run(dist.batch_shape_tensor(), {rows: [0, 0]}).tolist() == [2]
    assert run(dist.sample([4]), {rows: [0, 0]}).shape == (4, 2)
    assert {k: v.as_list() for k, v in d.Normal.param_static_shapes(
        [2, 3]).items()} == {"loc": [2, 3], "scale": [2, 3]}


def test_softplus_parameters_may_be_any_numbers(run):
    contrib = tf.contrib.distributions
    dist = contrib.NormalWithSoftplusScale(1.0, scale=-2.0)
    near(run(dist.stddev()), math.log1p(math.exp(-2)))
    assert dist.parameters["scale"] == -2.0
    assert isinstance(dist, d.Normal) and isinstance(
        dist.copy(loc=2.0), contrib.NormalWithSoftplusScale)
    y = np.array([1e-6, 0.5, 3, 40], np.float32)
    near(run(tf.nn.softplus(contrib.softplus_inverse(y))), y)


def test_vectors_of_independent_normal_numbers(run):
    make = tf.contrib.distributions.MultivariateNormalDiag
    loc, scale = np.array([[1.0, 2], [3, 4]], "f"), np.array([0.5, 2], "f")
    dist = make(loc, scale)
    assert dist.batch_shape == [2] and dist.event_shape == [2]
    x = np.array([0.0, 1], "f")
    near(run(dist.log_prob(x)), run(tf.reduce_sum(
        d.Normal(loc, scale).log_prob(x), -1)))
    near(run(dist.entropy()), run(tf.reduce_sum(
        d.Normal(loc, scale).entropy(), -1)))
    drawn = run(dist.sample(20000, seed=2))
    assert drawn.shape == (20000, 2, 2)
    near(drawn.mean(0), loc, 0, 0.06)
    near(np.cov(drawn[:, 0].T), run(dist.covariance())[0], 0.05, 0.05)
    near(run(make(loc, scale_identity_multiplier=3.0).stddev()),
         np.full([2, 2], 3))
    near(run(make(scale_diag=scale).mean()), [0, 0])
    near(run(make(loc, scale, 1.0).variance())[0], [2.25, 9])
    with pytest.raises(tf.errors.InvalidArgumentError, match="no zeros"):
        run(make(loc, [0.0, 1], validate_args=True).sample())
    with pytest.raises(ValueError, match="expected one of them at least"):
        make()
