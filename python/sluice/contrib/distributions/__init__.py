"""Probability distributions: `tf.distributions`."""

from sluice.contrib.distributions.classes import (
    Categorical, Dirichlet, DirichletMultinomial, Multinomial)
from sluice.contrib.distributions.distribution import (
    FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution,
    ReparameterizationType)
from sluice.contrib.distributions.kullback_leibler import (
    RegisterKL, kl_divergence)
from sluice.contrib.distributions.numbers import (
    Bernoulli, Beta, BetaWithSoftplusConcentration, Exponential,
    ExponentialWithSoftplusRate, Gamma, GammaWithSoftplusConcentrationRate,
    Laplace, LaplaceWithSoftplusScale, Normal, NormalWithSoftplusScale,
    StudentT, StudentTWithAbsDfSoftplusScale, Uniform)

__all__ = [
    "Bernoulli", "Beta", "BetaWithSoftplusConcentration", "Categorical",
    "Dirichlet", "DirichletMultinomial", "Distribution", "Exponential",
    "ExponentialWithSoftplusRate", "FULLY_REPARAMETERIZED", "Gamma",
    "GammaWithSoftplusConcentrationRate", "Laplace",
    "LaplaceWithSoftplusScale", "Multinomial", "NOT_REPARAMETERIZED", "Normal",
    "NormalWithSoftplusScale", "RegisterKL", "ReparameterizationType",
    "StudentT", "StudentTWithAbsDfSoftplusScale", "Uniform", "kl_divergence"]
