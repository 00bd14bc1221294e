"""Predictions of f and of y: moments, densities, quantiles, samples, and parts of f.

The functions depend only on the likelihood and on mean and variance of f at each row.  These moments may come from a
posterior, a cavity or a component of a mixture.  `Posterior` applies the functions to q(f), which is computed from
(model, data, sites) when needed and is never stored.
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
from sitewise.likelihoods.two_functions import average_of_both
from sitewise.means import Mean, Zero
from sitewise.model import Model, check
from sitewise.numerics.quadrature.crossing import crossing
from sitewise.numerics.quadrature.gaussian_rules import Landmark, expect
from sitewise.priors.posterior import Certain, LatentPosterior, gaussian_draws
from sitewise.process.precision import working_precision
from sitewise.rows import of_each_row
from sitewise.sites import Sites
from sitewise.types import fixed, module

_MOMENT_RULE = Landmark(points=112, reach=16.0)  # wide, because the mass of E[e^{2f}] lies 2 sd² beyond the mean
_MIN_RELATIVE_VARIANCE = 1e-30  # smallest variance of f in quadrature, as a share of mean²
_MIN_VARIANCE = 1e-100  # smallest variance of f in quadrature, for a mean of 0
_QUANTILE_TOL = 1e-10  # relative to the width of the distribution
MEAN = "mean"  # name of the mean function among the parts of f
_QUANTILE_ROWS = 16  # per program for quantiles; few, because each row costs dozens of quadratures, as does padding


def _positive_variance(mean: Array, var: Array) -> Array:
    """Return the variance with a positive lower limit for quadrature; some kernels have variance 0 at some rows."""
    if var.ndim > mean.ndim:
        return var
    return jnp.maximum(var, _MIN_RELATIVE_VARIANCE * mean * mean + _MIN_VARIANCE)


def _expectation(function: Callable[[Array], Array], mean: Array, var: Array) -> Array:
    if var.ndim > mean.ndim:
        return average_of_both(function, mean, var)
    var = _positive_variance(mean, var)
    return expect(function, mean, var, rule=_MOMENT_RULE, centre=jnp.zeros_like(mean), width=jnp.ones_like(mean))


def y_mean(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """Return E[y] for f ~ N(mean, var)."""
    return of_each_row(_y_mean, None, likelihood, mean, var)[0]


def _y_mean(_: None, likelihood: Likelihood, mean: Array, var: Array) -> tuple[Array]:
    return (_expectation(likelihood.response_mean, mean, var),)


def y_moments(likelihood: Likelihood, mean: Array, var: Array, *side: Array) -> tuple[Array, Array]:
    """Return E[y], and Var[y] = E[Var[y|f]] + Var[E[y|f]].

    `side` is the second column of y per row (exposure, trials or variance), if the likelihood has a second column and
    it is known.  The default is the side information of `Likelihood.row`.
    """
    centre, spread = of_each_row(_y_moments, None, likelihood, mean, var, *side)
    return centre, spread


def _y_moments(_: None, likelihood: Likelihood, mean: Array, var: Array, *side: Array) -> tuple[Array, Array]:
    centre = _expectation(lambda f: likelihood.response_mean(f, *side), mean, var)
    spread = _expectation(lambda f: (likelihood.response_mean(f, *side) - centre) ** 2, mean, var)
    return centre, _expectation(lambda f: likelihood.response_var(f, *side), mean, var) + spread


def log_density(likelihood: Likelihood, mean: Array, var: Array, y: ArrayLike) -> Array:
    """Return log p(y) = log ∫ p(y|f) N(f; mean, var) df."""
    return of_each_row(_log_density, None, likelihood, mean, var, _as_rows(y, mean))[0]


def _log_density(_: None, likelihood: Likelihood, mean: Array, var: Array, y: Array) -> tuple[Array]:
    if likelihood.latents == 1:
        centre, width = likelihood.landmark(y)
        var = jnp.maximum(var, _MIN_RELATIVE_VARIANCE * (mean**2 + centre**2 + width**2))
    return (likelihood.log_expected_prob(y, mean, var),)


def probability(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """Return P(y = 1) for a two-class likelihood."""
    xp = namespace(mean, var)
    return xp.exp(log_density(likelihood, mean, var, xp.ones_like(mean)))


def y_cdf(likelihood: Likelihood, mean: Array, var: Array, y: ArrayLike) -> Array:
    """Return P(Y ≤ y) for f ~ N(mean, var)."""
    return of_each_row(_y_cdf, None, likelihood, mean, var, _as_rows(y, mean))[0]


def _y_cdf(_: None, likelihood: Likelihood, mean: Array, var: Array, y: Array) -> tuple[Array]:
    return (likelihood.expected_cdf(y, mean, _positive_variance(mean, var)),)


def _as_rows(y: ArrayLike, mean: Array) -> Array:
    """Return y as an array of the kind of `mean`; one number is repeated for every row."""
    xp = namespace(mean)
    values = xp.asarray(y, mean.dtype)
    return xp.broadcast_to(values, mean.shape[:1]) if values.ndim == 0 else values


def y_quantile(likelihood: Likelihood, mean: Array, var: Array, level: ArrayLike, *side: Array) -> Array:
    """Return the `level` quantile of y per row: the smallest y with P(Y ≤ y) ≥ level.

    `level` is one number or an array of numbers, whose axes come first in the result, before the rows.  `side` as in
    `y_moments`.
    """
    if not isinstance(level, jax.core.Tracer) and not np.all((np.asarray(level) > 0) & (np.asarray(level) < 1)):
        raise ValueError(f"a quantile needs levels between 0 and 1 (both excluded), got {level}.")
    xp = namespace(mean, var)
    levels = xp.asarray(level, mean.dtype)
    shape = (*levels.shape, mean.shape[0])
    # Each pair of a level and a row is one row of the program: one program serves any number of levels.
    tables = [xp.broadcast_to(a, (*levels.shape, *a.shape)).reshape(-1, *a.shape[1:]) for a in (mean, var, *side)]
    rows = [*tables[:2], xp.broadcast_to(levels[..., None], shape).reshape(-1), *tables[2:]]
    return of_each_row(_y_quantile, None, likelihood, *rows, piece=_QUANTILE_ROWS)[0].reshape(shape)


def _y_quantile(_: None, likelihood: Likelihood, mean: Array, var: Array, level: Array, *side: Array) -> tuple[Array]:
    var = _positive_variance(mean, var)

    def cdf(y: Array) -> Array:
        return likelihood.expected_cdf(likelihood.row(y, *side), mean, var)

    return (quantile_of(cdf, likelihood, *of_first_function(mean, var, mean.ndim > 1), level, *side),)


def of_first_function(mean: Array, var: Array, several: bool) -> tuple[Array, Array]:
    """Return mean and variance of the first of several latent functions, whose scale is the scale of y."""
    return (mean[..., 0], var[..., 0, 0]) if several else (mean, var)


def quantile_of(
    cdf: Callable[[Array], Array], likelihood: Likelihood, mean: Array, var: Array, level: Array, *side: Array
) -> Array:
    """Return the quantile y(t) at the root in t of cdf(y(t)) − level, where y(t) covers the support at every scale:

    mean + sd·sinh t for real values, eᵗ for positive values and amounts, e^min(t, 0) for shares, ⌊eᵗ − 1⌋ for whole
    numbers.  `cdf` is P(Y ≤ y) per row; `mean` and `var` are the moments of f, or approximations of them.
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
        # The distribution function of a likelihood may be undefined outside the support.
        inside = y if support == "real" else jnp.maximum(y, 0.0)
        share = cdf(inside)
        share = jnp.where(y >= 1, 1.0, share) if support == "shares" else share
        return jnp.where(y < inside, 0.0, share) - level

    start = jnp.zeros_like(mean) if support == "real" else jnp.clip(mean, -30.0, 30.0)

    def closed(low: Array, high: Array) -> Array:
        return value(high) - value(low) <= 1 if whole else high - low <= _QUANTILE_TOL * (1 + jnp.abs(high))

    return value(crossing(excess, start, closed))


@module
class Process:
    """Posterior process given sites: f, a part of f, or the utility of items.  Methods take a table of new inputs."""

    latent: LatentPosterior = fixed()

    def f(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return mean and variance of f per row; for several latent functions, their means and covariances per row."""
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
        """Return the joint mean and covariance matrix of f."""
        with self._computing(X):
            return self.latent.joint(self._inputs(X))

    def f_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Draw joint samples of f, one per row of the result; several latent functions are on the first axis."""
        with self._computing(X):
            draws = self.latent.draw(key, self._inputs(X), samples)
            latents = draws.shape[1] // self._inputs(X).shape[0]
            return draws if latents == 1 else jnp.moveaxis(draws.reshape(samples, latents, -1), 1, 0)


@module
class Posterior(Process):
    """Posterior predictions of f and y from q(f) and the likelihood; methods take a table of new inputs.

    Parameters
    ----------
    latent : LatentPosterior
        The posterior of the latent function, conditioned on the sites.
    likelihood : Likelihood
        The likelihood of y.
    mean : Mean, default=means.Zero()
        The mean function of the prior.

    See Also
    --------
    posterior : makes it from a model, data and sites.
    """

    latent: LatentPosterior = fixed()
    likelihood: Likelihood = fixed()
    mean: Mean = fixed(default=Zero())

    def __repr__(self) -> str:
        return f"Posterior({type(self.latent).__name__}, {self.likelihood!r})"

    # -- parts of f ------------------------------------------------------------------------------------------

    def terms(self, names: Sequence[str] | None = None) -> list[str]:
        """Return the names of the parts of f: "mean" if there is a mean function, then the terms of the kernel.

        `names` are the names of the columns of X.
        """
        mean = [] if isinstance(self.mean, Zero) else [MEAN]
        return [*mean, *(term.name for term in terms(self.latent.kernel, names))]

    def _parts_named(
        self, which: int | str | Sequence[int | str], names: Sequence[str] | None
    ) -> tuple[bool, list[int]]:
        """Return whether the parts include the mean, and the numbers of the terms of the kernel."""
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
                    f"There is no part {one!r}; choose from {', '.join(map(repr, known_names))}, or the number of a "
                    f"term of the kernel, from 0 to {len(known_names) - first - 1}."
                )
        if not found or len(set(found)) < len(found):
            raise ValueError(f"Name at least one part, and no part twice; got {which!r}.")
        return -1 in found, [i for i in found if i >= 0]

    def part(self, which: int | str | Sequence[int | str], names: Sequence[str] | None = None) -> Process:
        """Return the posterior of a part of f, or of a sum of parts: mean, variance, covariances and draws.

        `which` is the number of a term of the kernel, a name from `terms()`, or a list of numbers and names.  It works
        for every likelihood and inference method, because f and its parts are jointly Gaussian given the sites.  "mean"
        is the mean function, which has no uncertainty.
        """
        with_mean, chosen = self._parts_named(which, names)
        mean = self.mean if with_mean else Zero()
        if not chosen:
            return Process(Certain(mean))
        return Process(self.latent.part(tuple(chosen), mean))

    def parts_joint(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means (P, n) and covariances (P, n, P, n) of all P terms of the kernel at the n rows of X.

        Their sums over the parts are the moments of f minus the mean function.  For a softmax, n counts rows × classes.
        """
        with self._computing(X):
            count = len(terms(self.latent.kernel))
            return self.latent.parts_joint(self._inputs(X), [(i,) for i in range(count)])

    def parts_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Draw joint samples of all terms of the kernel, of shape (samples, P, n)."""
        with self._computing(X):
            mean, cov = self.parts_joint(X)
            return gaussian_draws(key, mean.ravel(), cov.reshape(mean.size, -1), samples).reshape(samples, *mean.shape)

    def utility(self) -> Process:
        """Return the utility of single items, for pairwise comparisons (`kernels.Pairwise`).

        Rows are items and have half of the columns.  Only differences of utility are determined by the data: adding a
        constant to the utility changes no comparison.
        """
        kernel = self.latent.kernel
        if not isinstance(kernel, Pairwise):
            raise ValueError(f"utility() is for a kernel Pairwise(...), but this model has {type(kernel).__name__}.")
        return Process(self.latent.through(Items(kernel), Zero()))

    # -- y ---------------------------------------------------------------------------------------------------

    def _values(self, y: ArrayLike, rows: int) -> Array:
        """Return y as numbers after checking its length: one value per row, or one value for all `rows` rows."""
        values = as_numbers(y, "y")
        if values.ndim and values.shape[0] != rows:
            raise ValueError(f"X has {rows} rows but y has shape {values.shape}; give one y per row, or one number.")
        return values

    def y_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Draw joint samples of y."""
        first, second = jax.random.split(key)
        with self._computing(X):
            return self.likelihood.sample(second, self.f_samples(first, X, samples))

    def y_mean(self, X: ArrayLike) -> Array:
        """Return E[y | X] per row."""
        return y_mean(self.likelihood, *self.f(X))

    def y_var(self, X: ArrayLike) -> Array:
        """Return Var[y | X] per row."""
        return y_moments(self.likelihood, *self.f(X))[1]

    def probability(self, X: ArrayLike) -> Array:
        """Return P(y = 1 | X) per row for a two-class likelihood."""
        return probability(self.likelihood, *self.f(X))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Return log p(y | X) per row."""
        mean, var = self.f(X)
        values = self._values(y, len(mean))
        if known(values):
            self.likelihood.check(values)
        return log_density(self.likelihood, mean, var, values)

    def y_cdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Return P(Y ≤ y | X) per row."""
        mean, var = self.f(X)
        return y_cdf(self.likelihood, mean, var, self._values(y, len(mean)))

    def quantile(self, X: ArrayLike, level: ArrayLike) -> Array:
        """Return the `level` quantile of y per row; for counts, the smallest whole number that reaches the level.

        For an array of levels, the result has one row per level and one column per row of X.  The likelihood must
        define `cdf`.
        """
        return y_quantile(self.likelihood, *self.f(X), level)


def posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    """Return the posterior q(f) ∝ prior × sites for prediction; on the CPU it holds NumPy arrays in double precision.

    Parameters
    ----------
    model : Model
        Prior and likelihood.
    data : Data
        The training rows.
    sites : Sites
        The sites of the training rows, from an inference or a fit.

    Returns
    -------
    posterior : Posterior
        With methods such as `y_mean`, `quantile` and `log_density`.
    """
    check(model, data, sites, needs_sites=True)
    if model.prior.host and on_host(model, data, sites):
        with working_precision():
            return _posterior(*to_host((model, data, sites)))
    if is_spread(data):
        with working_precision():
            # The posterior is small: every process holds a copy and predicts by itself.
            return whole(_traced_posterior(model, data, sites))
    return _posterior(model, jax.tree.map(jnp.asarray, data), sites)


def _posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    latent = model.prior.posterior(data.X, sites.scaled(data.weight))
    return Posterior(latent, model.likelihood, model.prior.mean)


_traced_posterior = programs.jit(_posterior)
