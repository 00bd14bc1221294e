"""Make kernels and likelihoods of a fuzz block by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draws import ORDERED
from sitewise import kernels, likelihoods


def kernel(name: str, theta: dict[str, Any]) -> kernels.Kernel:
    scale, variance = theta["lengthscale"], theta["variance"]
    if name == "sum":
        return kernels.Matern52(scale, variance) + kernels.Linear(0.1 * variance) + kernels.Constant(variance)
    if name == "periodic":
        return kernels.Periodic(scale, float(np.exp(np.mean(np.log(scale)))), variance)
    kinds = {
        "matern52": kernels.Matern52,
        "rbf": kernels.RBF,
        "matern12": kernels.Matern12,
        "matern32": kernels.Matern32,
        "rational-quadratic": kernels.RationalQuadratic,
    }
    return kinds[name](scale, variance)


def likelihood(name: str, theta: dict[str, Any]) -> likelihoods.Likelihood:
    noise = theta["noise"]
    makers = {
        "probit": likelihoods.BernoulliProbit,
        "logit": likelihoods.BernoulliLogit,
        "gaussian": lambda: likelihoods.Gaussian(noise),
        "student-t": lambda: likelihoods.StudentT(noise, 3.0),
        "laplace-noise": lambda: likelihoods.LaplaceNoise(noise),
        "poisson": likelihoods.Poisson,
        "poisson-softplus": lambda: likelihoods.Poisson(link="softplus"),
        "negative-binomial": lambda: likelihoods.NegativeBinomial(noise),
        "binomial": likelihoods.Binomial,
        "beta": lambda: likelihoods.Beta(1 + noise),
        "gamma": lambda: likelihoods.Gamma(noise),
        "log-normal": lambda: likelihoods.LogNormal(noise),
        "ordinal": lambda: likelihoods.Ordinal(-noise, noise * np.ones(ORDERED - 2)),
        "censored-gaussian": lambda: likelihoods.CensoredGaussian(noise),
        "heteroscedastic-gaussian": likelihoods.HeteroscedasticGaussian,
    }
    return makers[name]()
