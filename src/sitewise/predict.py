"""Predictions of f and of y.

The functions here depend on (likelihood, mean, variance) of f at some rows only, whatever the source of those moments
is: a posterior, a cavity, a component of a mixture.  `Posterior` applies them to q(f), which is derived from
(model, data, sites) whenever it is needed and is never stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, is_host, namespace, on_host, to_host
from sitewise.arrays.spread import is_spread, whole
from sitewise.checks import known
from sitewise.data import Data, as_numbers, refuse_nan, table
from sitewise.kernels import Pairwise, terms
from sitewise.kernels.pairwise import Items
from sitewise.likelihoods import Likelihood, Switched
from sitewise.means import Mean, Zero
from sitewise.model import Model, check
from sitewise.numerics.quadrature.crossing import crossing
from sitewise.numerics.quadrature.gaussian_rules import Landmark, expect
from sitewise.priors.posterior import Certain, LatentPosterior, gaussian_draws
from sitewise.process.precision import working_precision
from sitewise.rows import of_each_row
from sitewise.sites import Sites
from sitewise.types import fixed, module

_MOMENTS = Landmark(points=112, reach=16.0)  # the mass of E[e^{2f}] lies 2 sd² beyond the mean
_LEAST, _TINY = 1e-30, 1e-100  # variance of f, as a share of mean² and beyond it
_NARROW = 1e-10  # of a quantile, in units of the width of the distribution
MEAN = "mean"  # the name of the mean function among the parts of f
_QUANTILES = 16  # rows of a program for quantiles: each takes dozens of quadratures, and so would a row of padding


def _positive(mean: Array, var: Array) -> Array:
    """The variance, which at some rows of some kernels is 0; the quadrature needs a width."""
    if var.ndim > mean.ndim:  # the covariance of several latent values
        return var
    return jnp.maximum(var, _LEAST * mean * mean + _TINY)


def _expectation(function: Callable[[Array], Array], mean: Array, var: Array) -> Array:
    var = _positive(mean, var)
    return expect(function, mean, var, rule=_MOMENTS, centre=jnp.zeros_like(mean), width=jnp.ones_like(mean))


def y_mean(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """E[y] for f ~ N(mean, var)."""
    return of_each_row(_y_mean, None, likelihood, mean, var)[0]


def _y_mean(_: None, likelihood: Likelihood, mean: Array, var: Array) -> tuple[Array]:
    return (_expectation(likelihood.response_mean, mean, var),)


def y_moments(likelihood: Likelihood, mean: Array, var: Array, *side: Array) -> tuple[Array, Array]:
    """E[y], and Var[y] = E[Var[y|f]] + Var[E[y|f]].

    `side` is the second column of y at each row (its exposure, trials or variance), where the likelihood has one and it
    is known; without it rows are plain, as `Likelihood.row` says.
    """
    centre, spread = of_each_row(_y_moments, None, likelihood, mean, var, *side)
    return centre, spread


def _y_moments(_: None, likelihood: Likelihood, mean: Array, var: Array, *side: Array) -> tuple[Array, Array]:
    centre = _expectation(lambda f: likelihood.response_mean(f, *side), mean, var)
    spread = _expectation(lambda f: (likelihood.response_mean(f, *side) - centre) ** 2, mean, var)
    return centre, _expectation(lambda f: likelihood.response_var(f, *side), mean, var) + spread


def log_density(likelihood: Likelihood, mean: Array, var: Array, y: ArrayLike) -> Array:
    """log p(y) = log ∫ p(y|f) N(f; mean, var) df."""
    return of_each_row(_log_density, None, likelihood, mean, var, _like(y, mean))[0]


def _log_density(_: None, likelihood: Likelihood, mean: Array, var: Array, y: Array) -> tuple[Array]:
    if likelihood.latents == 1:
        centre, width = likelihood.landmark(y)
        var = jnp.maximum(var, _LEAST * (mean**2 + centre**2 + width**2))
    return (likelihood.log_expected_prob(y, mean, var),)


def probability(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """P(y = 1) for a two-class likelihood."""
    xp = namespace(mean, var)
    return xp.exp(log_density(likelihood, mean, var, xp.ones_like(mean)))


def y_cdf(likelihood: Likelihood, mean: Array, var: Array, y: ArrayLike) -> Array:
    """P(Y ≤ y)."""
    return of_each_row(_y_cdf, None, likelihood, mean, var, _like(y, mean))[0]


def _y_cdf(_: None, likelihood: Likelihood, mean: Array, var: Array, y: Array) -> tuple[Array]:
    return (likelihood.expected_cdf(y, mean, _positive(mean, var)),)


def _like(y: ArrayLike, mean: Array) -> Array:
    """y as an array of the kind of `mean`; one number stands for every row."""
    xp = namespace(mean)
    values = xp.asarray(y, mean.dtype)
    return xp.broadcast_to(values, mean.shape) if values.ndim == 0 else values


def y_quantile(likelihood: Likelihood, mean: Array, var: Array, level: ArrayLike, *side: Array) -> Array:
    """The `level` quantile of y at each row: the smallest y with P(Y ≤ y) ≥ level.

    `level` is one number, or an array of them: its axes then come first in the result, before the rows.  `side` is
    as for `y_moments`.
    """
    if not isinstance(level, jax.core.Tracer) and not np.all((np.asarray(level) > 0) & (np.asarray(level) < 1)):
        raise ValueError(f"a quantile needs levels between 0 and 1 (both excluded), got {level}.")
    xp = namespace(mean, var)
    levels = xp.asarray(level, mean.dtype)
    shape = (*levels.shape, *mean.shape)
    # Each pair of a level and a row is a row to the program, which serves any number of levels.
    pairs = (mean, var, levels.reshape(*levels.shape, *[1] * mean.ndim), *side)
    rows = [xp.broadcast_to(a, shape).reshape(-1) for a in pairs]
    return of_each_row(_y_quantile, None, likelihood, *rows, piece=_QUANTILES)[0].reshape(shape)


def _y_quantile(_: None, likelihood: Likelihood, mean: Array, var: Array, level: Array, *side: Array) -> tuple[Array]:
    var = _positive(mean, var)

    def cdf(y: Array) -> Array:
        return likelihood.expected_cdf(likelihood.row(y, *side), mean, var)

    return (quantile_of(cdf, likelihood, mean, var, level, *side),)


def quantile_of(
    cdf: Callable[[Array], Array], likelihood: Likelihood, mean: Array, var: Array, level: Array, *side: Array
) -> Array:
    """The root in t of cdf(y(t)) − level, where y(t) covers the support of the likelihood at every scale:

    mean + sd·sinh t on the line, eᵗ for positive values and amounts, e^min(t, 0) for shares, ⌊eᵗ − 1⌋ for whole
    numbers.  `cdf` is P(Y ≤ y) of each row; mean and var are those of f, or only near.
    """
    if isinstance(likelihood, Switched):
        return likelihood.quantile_by_output(lambda part: quantile_of(cdf, part, mean, var, level), *side)
    whole, support, sd = likelihood.discrete(), likelihood.support, jnp.sqrt(var)

    def value(t: Array) -> Array:
        if support == "real":
            return mean + sd * jnp.sinh(t)
        return jnp.floor(jnp.expm1(t)) if whole else jnp.exp(jnp.minimum(t, 0.0) if support == "shares" else t)

    def excess(t: Array) -> Array:
        y = value(t)
        # A likelihood need not define its distribution function outside of the support.
        inside = y if support == "real" else jnp.maximum(y, 0.0)
        share = cdf(inside)
        share = jnp.where(y >= 1, 1.0, share) if support == "shares" else share
        return jnp.where(y < inside, 0.0, share) - level

    start = jnp.zeros_like(mean) if support == "real" else jnp.clip(mean, -30.0, 30.0)

    def closed(low: Array, high: Array) -> Array:
        return value(high) - value(low) <= 1 if whole else high - low <= _NARROW * (1 + jnp.abs(high))

    return value(crossing(excess, start, closed))


@module
class Process:
    """A Gaussian process given sites: f, a part of it, or the utility of items.  Methods take a table of new inputs."""

    latent: LatentPosterior = fixed()

    def f(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the latent function at each row; for several functions, their means and covariances."""
        with self._computing(X):
            return self.latent.marginals(self._inputs(X))

    def _on_host(self, *more: Any) -> bool:
        return is_host(*jax.tree.leaves(self)) and on_host(more)

    def _inputs(self, X: ArrayLike) -> Array:
        rows = table(X, "X")
        if known(rows):
            refuse_nan("X", rows, infinity=True)
        return rows.astype(np.float64) if self._on_host(X) else jnp.asarray(rows)

    def _computing(self, X: ArrayLike) -> AbstractContextManager[None]:
        return working_precision() if self._on_host(X) else contextlib.nullcontext()

    def f_joint(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and covariance matrix of the latent function."""
        with self._computing(X):
            return self.latent.joint(self._inputs(X))

    def f_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Joint draws of the latent function, one per row of the result; the functions of a softmax come first."""
        with self._computing(X):
            draws = self.latent.draw(key, self._inputs(X), samples)
            latents = draws.shape[1] // self._inputs(X).shape[0]
            return draws if latents == 1 else jnp.moveaxis(draws.reshape(samples, latents, -1), 1, 0)


@module
class Posterior(Process):
    """q(f) and the likelihood; every method takes a table of new inputs."""

    latent: LatentPosterior = fixed()
    likelihood: Likelihood = fixed()
    mean: Mean = fixed(default=Zero())

    def __repr__(self) -> str:
        return f"Posterior({type(self.latent).__name__}, {self.likelihood!r})"

    # -- parts of f ------------------------------------------------------------------------------------------

    def terms(self, names: Sequence[str] | None = None) -> list[str]:
        """The names of the parts of f: "mean" where there is a mean function, then the terms of the kernel.

        `names` are those of the columns of X.
        """
        mean = [] if isinstance(self.mean, Zero) else [MEAN]
        return [*mean, *(term.name for term in terms(self.latent.kernel, names))]

    def _chosen(self, which: int | str | Sequence[int | str], names: Sequence[str] | None) -> tuple[bool, list[int]]:
        """Whether the mean is among the parts, and the numbers of the terms of the kernel."""
        known_names = self.terms(names)
        first = len(known_names) - len(terms(self.latent.kernel))
        given = [which] if isinstance(which, int | np.integer | str) else list(which)
        found = []
        for one in given:
            if isinstance(one, str) and one in known_names:
                found.append(known_names.index(one) - first)
            elif (
                isinstance(one, int | np.integer) and not isinstance(one, bool) and 0 <= one < len(known_names) - first
            ):
                found.append(int(one))
            else:
                raise ValueError(
                    f"There is no part {one!r}; give one of {', '.join(map(repr, known_names))}, or the number of a "
                    f"term of the kernel, from 0 to {len(known_names) - first - 1}."
                )
        if not found or len(set(found)) < len(found):
            raise ValueError(f"Name at least one part, and each of them once; got {which!r}.")
        return -1 in found, [i for i in found if i >= 0]

    def part(self, which: int | str | Sequence[int | str], names: Sequence[str] | None = None) -> Process:
        """The posterior of a part of f, or of the sum of several: its mean, variance, covariances and draws.

        `which` is the number of a term of the kernel, one of `terms()`, or a list of them.  Given the sites, f and its
        parts are jointly Gaussian, so that this holds for every likelihood and inference.  "mean" is the mean function,
        which is not uncertain.
        """
        with_mean, chosen = self._chosen(which, names)
        mean = self.mean if with_mean else Zero()
        if not chosen:
            return Process(Certain(mean))
        return Process(self.latent.part(tuple(chosen), mean))

    def parts_joint(self, X: ArrayLike) -> tuple[Array, Array]:
        """Means (P, n) and covariances (P, n, P, n) of all terms of the kernel at the rows of X.

        Summed over the parts they are those of f, less the mean function.  With a softmax n counts rows and classes.
        """
        with self._computing(X):
            count = len(terms(self.latent.kernel))
            return self.latent.parts_joint(self._inputs(X), [(i,) for i in range(count)])

    def parts_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Joint draws of all terms of the kernel: shape (samples, P, n)."""
        with self._computing(X):
            mean, cov = self.parts_joint(X)
            return gaussian_draws(key, mean.ravel(), cov.reshape(mean.size, -1), samples).reshape(samples, *mean.shape)

    def utility(self) -> Process:
        """f at single items, for a model of duels (`kernels.Pairwise`): rows are items, with half of the columns.

        A constant that is added to f changes no duel, so that only differences between items are known from data.
        """
        kernel = self.latent.kernel
        if not isinstance(kernel, Pairwise):
            raise ValueError(f"utility() is for a kernel Pairwise(...), but this model has {type(kernel).__name__}.")
        return Process(self.latent.through(Items(kernel), Zero()))

    # -- y ---------------------------------------------------------------------------------------------------

    def _values(self, y: ArrayLike, rows: int) -> Array:
        """Values of y for so many rows: one for each, or one for all."""
        values = as_numbers(y, "y")
        if values.ndim and values.shape[0] != rows:
            raise ValueError(f"X has {rows} rows but y has shape {values.shape}; give one y per row, or one number.")
        return values

    def y_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Joint draws of observations."""
        first, second = jax.random.split(key)
        with self._computing(X):
            return self.likelihood.sample(second, self.f_samples(first, X, samples))

    def y_mean(self, X: ArrayLike) -> Array:
        """E[y | X]."""
        return y_mean(self.likelihood, *self.f(X))

    def y_var(self, X: ArrayLike) -> Array:
        """Var[y | X]."""
        return y_moments(self.likelihood, *self.f(X))[1]

    def probability(self, X: ArrayLike) -> Array:
        """P(y = 1 | X) for a two-class likelihood."""
        return probability(self.likelihood, *self.f(X))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """log p(y | X) of each row."""
        mean, var = self.f(X)
        values = self._values(y, len(mean))
        if known(values):
            self.likelihood.check(values)
        return log_density(self.likelihood, mean, var, values)

    def y_cdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """P(Y ≤ y | X) of each row."""
        mean, var = self.f(X)
        return y_cdf(self.likelihood, mean, var, self._values(y, len(mean)))

    def quantile(self, X: ArrayLike, level: ArrayLike) -> Array:
        """The `level` quantile of y at each row; for counts it is the smallest whole number that reaches the level.

        For an array of levels the result has one row per level and one column per row of X.  The likelihood needs
        `cdf`, and no more.
        """
        return y_quantile(self.likelihood, *self.f(X), level)


def posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    """q(f) = prior × sites, ready for prediction.  On a processor it holds NumPy arrays, in double precision."""
    check(model, data, sites, needs_sites=True)
    if model.prior.host and on_host(model, data, sites):
        with working_precision():
            return _posterior(*to_host((model, data, sites)))
    if is_spread(data):
        with working_precision():
            return whole(_traced_posterior(model, data, sites))  # it is small: every process predicts by itself
    return _posterior(model, jax.tree.map(jnp.asarray, data), sites)


def _posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    latent = model.prior.posterior(data.X, sites.scaled(data.weight))
    return Posterior(latent, model.likelihood, model.prior.mean)


_traced_posterior = programs.jit(_posterior)
