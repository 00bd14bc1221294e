"""Predictive distributions of f and y at new rows: moments, densities, quantiles and class probabilities.

f is a mixture of Gaussians, each with its likelihood and weight: one component for a Gaussian approximation, one per
node of integrated hyperparameters, one per draw of a sampled posterior.  Joint classes have several f per row.  Tables
of any length share compiled programs.  All results are NumPy arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike
from scipy.special import logsumexp as log_sum_exp
from scipy.special import ndtri

from sitewise import predict
from sitewise.arrays import programs
from sitewise.arrays.engine import on_host
from sitewise.likelihoods import Likelihood
from sitewise.process.precision import working_precision
from sitewise.rows import of_each_row

BLOCK_SIZES = (32, 256, 2048)  # rows per compiled program
MAX_INTEGRATED_COMPONENTS = 20  # with more components, a quantile uses quantiles of f instead of quadrature
MAX_QUANTILE_COMPONENTS = 250  # neighbours in a chain are alike
QUANTILES_OF_F = 500  # of all components together
_MIN_INTEGRATED_VARIANCE = 1e-16  # of f, as a share of 1 + mean²
QUANTILE_ROWS = 16  # rows per program: a quantile takes dozens of distribution functions


def _each(function: Callable[..., Any], likelihood: Likelihood, mean: jax.Array, var: jax.Array) -> Any:
    """Return function(likelihood, mean, var) per component; `mean` and `var` are (rows, components, …)."""
    parts = likelihood, jnp.swapaxes(mean, 0, 1), jnp.swapaxes(var, 0, 1)
    return lax.map(lambda part: function(*part), parts)


class Shared(NamedTuple):
    """Values common to all rows: likelihood per component, on a leading axis, and weight per component."""

    likelihood: Likelihood
    weight: Any


# Functions of the shared values, and of values per row: means, variances, and y.


def _y_moments(
    _: None, shared: Shared, mean: jax.Array, var: jax.Array, *side: jax.Array
) -> tuple[jax.Array, jax.Array]:
    each = _each(lambda one, m, v: predict.y_moments(one, m, v, *side), shared.likelihood, mean, var)
    return _moments(shared.weight, *each)


def _log_density(_: None, shared: Shared, mean: jax.Array, var: jax.Array, y: jax.Array) -> tuple[jax.Array]:
    each = _each(lambda one, m, v: predict.log_density(one, m, v, y), shared.likelihood, mean, var)
    return (_log_mean(shared.weight, each),)


def _log_mean(weight: jax.Array, logs: jax.Array) -> jax.Array:
    return logsumexp(logs, axis=0, b=_along(weight, logs))


def _along(weight: Any, values: Any) -> Any:
    """Reshape the weights for values with the components on the first axis."""
    return weight.reshape(-1, *(1,) * (values.ndim - 1))


def _cdf(_: None, shared: Shared, mean: jax.Array, var: jax.Array, y: jax.Array, *side: jax.Array) -> tuple[jax.Array]:
    each = _each(lambda one, m, v: one.expected_cdf(one.row(y, *side), m, v), shared.likelihood, mean, var)
    return (shared.weight @ each,)


def _quantile(
    _: None, shared: Shared, mean: jax.Array, var: jax.Array, level: jax.Array, *side: jax.Array
) -> tuple[jax.Array]:
    likelihood, weight = shared
    components = mean.shape[1]
    closed = type(likelihood).expected_cdf is not Likelihood.expected_cdf
    # Component i takes k quantiles of its Gaussian, at the levels (j + uᵢ)/k with uᵢ = ½ + i·golden ratio (mod 1):
    # together the levels are evenly spread over (0, 1), so that the mean over many components needs no finer quadrature
    # per component.
    each = -(-QUANTILES_OF_F // components)
    within = (0.5 + np.arange(components) * 0.6180339887498949) % 1.0
    places = ndtri((np.arange(each)[:, None] + within) / each)

    def cdf(y: jax.Array) -> jax.Array:
        if components > MAX_INTEGRATED_COMPONENTS and not closed:
            f = jnp.moveaxis(mean + jnp.sqrt(var) * places[:, None], -1, 0)  # (components, places, rows)
            return weight @ jnp.mean(jax.vmap(lambda one, f: one.cdf(one.row(y, *side), f))(likelihood, f), axis=1)
        return _cdf(None, shared, mean, var, y, *side)[0]

    of_f = predict.of_first_function(mean, var, mean.ndim > 2)
    return (predict.quantile_of(cdf, likelihood, *_moments(weight, of_f[0].T, of_f[1].T), level, *side),)


def _log_probabilities(_: None, shared: Shared, mean: jax.Array, var: jax.Array) -> tuple[jax.Array]:
    each = _each(lambda one, m, v: one.log_probabilities(m, v), shared.likelihood, mean, var)
    return (_log_mean(shared.weight, each),)


def _log_prob(_: None, likelihood: Likelihood, f: jax.Array, y: jax.Array) -> tuple[jax.Array]:
    """Return log p(y | f) per draw; f has the draws on its last axis."""
    each = jax.vmap(lambda one, f: one.log_prob(y, f), in_axes=(0, -1), out_axes=-1)
    return (each(likelihood, f),)


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return programs.jit(functools.partial(function, None))


def _moments(weight: Any, mean: Any, var: Any) -> tuple[Any, Any]:
    """Return mean and variance of a mixture, given the moments of its components (rows), as JAX or NumPy arrays."""
    share = _along(weight, mean)
    centre = (share * mean).sum(axis=0)
    return centre, (share * var).sum(axis=0) + (share * (mean - centre) ** 2).sum(axis=0)


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """Pad the array with copies of its first row, which are valid values."""
    return np.concatenate([array, np.repeat(array[:1], rows - len(array), axis=0)])


def by_block(function: Callable[..., Any], *tables: np.ndarray) -> tuple[np.ndarray, ...]:
    """Apply a function of rows to padded blocks."""
    rows = len(tables[0])
    # Up to four blocks of one size, because one block of the next size would be mostly padding.
    block = next((b for b in BLOCK_SIZES if rows <= 4 * b), BLOCK_SIZES[-1])
    pieces = []
    for at in range(0, rows, block):
        cut = [t[at : at + block] for t in tables]
        out = function(*(padded(c, block) for c in cut))
        pieces.append([np.asarray(o)[: len(cut[0])] for o in out])
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))


def repeated(likelihood: Likelihood, times: int = 1) -> Likelihood:
    """Repeat the likelihood for `times` components or draws."""
    return jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], times, axis=0), likelihood)


class Mixture(NamedTuple):
    """The distribution of f at some rows, a mixture of Gaussians.

    `mean` and `var` are (rows, components); with several f, (rows, components, f) and (rows, components, f, f).
    Parameters of `likelihood` have a leading axis of components.  `side` is the second column of y at these rows, if
    known.  Without `weight` the components have equal weights.
    """

    likelihood: Likelihood
    mean: np.ndarray
    var: np.ndarray
    side: tuple[np.ndarray, ...] = ()
    weight: np.ndarray | None = None

    @property
    def _shared(self) -> Shared:
        count = self.mean.shape[1]
        return Shared(self.likelihood, np.full(count, 1 / count) if self.weight is None else self.weight)

    @staticmethod
    def gaussian(likelihood: Likelihood, mean: np.ndarray, var: np.ndarray) -> Mixture:
        """Return a mixture of one component."""
        return Mixture(repeated(likelihood), np.asarray(mean)[:, None], np.asarray(var)[:, None])

    @staticmethod
    def combined(each: Sequence[Mixture], weight: np.ndarray) -> Mixture:
        """Return the mixture of mixtures of one component each."""
        mean, var = (np.concatenate([getattr(q, name) for q in each], axis=1) for name in ("mean", "var"))
        likelihood = jax.tree.map(lambda *a: np.concatenate(a), *(q.likelihood for q in each))
        return Mixture(likelihood, mean, var, weight=weight)

    def f_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of f per row; with several f, one column each."""
        var = self.var if self.mean.ndim == 2 else np.diagonal(self.var, axis1=-2, axis2=-1)
        return _moments(self._shared.weight, np.swapaxes(self.mean, 0, 1), np.swapaxes(var, 0, 1))

    def y_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return E[y] and Var[y] per row."""
        mean, var = self._read(_y_moments, *self.side)
        return mean, var

    def log_density(self, y: ArrayLike) -> np.ndarray:
        """Return log p(y) = log ∫ p(y|f) p(f) df per row.  With side information y is the likelihood's table."""
        found = self._log_density_on_host(np.asarray(y, float))
        return self._read(_log_density, y)[0] if found is None else found

    def _log_density_on_host(self, y: np.ndarray) -> np.ndarray | None:
        """Return `log_density` without a compiled program if the likelihood has its integral on NumPy arrays.

        Variances that are zero up to rounding are left to the compiled program.
        """
        if self.mean.ndim > 2 or not on_host(self):
            return None
        if y.ndim == 0 or np.any(self.var <= _MIN_INTEGRATED_VARIANCE * (1 + self.mean**2)):
            return None
        rows = np.repeat(y[:, None], self.mean.shape[1], axis=1)
        found = self.likelihood.log_expected_prob_slopes(rows, self.mean, self.var)
        return None if found is None else np.asarray(log_sum_exp(found[0], axis=1, b=self._shared.weight))

    def cdf(self, y: ArrayLike) -> np.ndarray:
        """Return P(Y ≤ y) per row, for one y or one y per row."""
        return self._read(_cdf, y, *self.side)[0]

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Return the smallest y with P(Y ≤ y) ≥ level, shape (levels, rows)."""
        # Each pair of a level and a row is one row of the program, which serves any number of levels.
        some = np.unique(np.linspace(0, self.mean.shape[1] - 1, MAX_QUANTILE_COMPONENTS).astype(int))
        tables = self.mean[:, some], self.var[:, some], *self.side
        mean, var, *side = (np.concatenate([t] * len(levels)) for t in tables)
        weight = self._shared.weight[some]
        likelihood = jax.tree.map(lambda a: np.asarray(a)[some], self.likelihood)
        pairs = Mixture(likelihood, mean, var, weight=weight / np.sum(weight))
        found = pairs._read(_quantile, np.repeat(levels, len(self.mean)), *side, piece=QUANTILE_ROWS)[0]
        return found.reshape(len(levels), -1)

    def log_probabilities(self) -> np.ndarray:
        """Return log P(class) per row, one column per class, for joint classes."""
        return self._read(_log_probabilities)[0]

    def _read(self, function: Callable[..., Any], *y: ArrayLike, piece: int = 0) -> tuple[np.ndarray, ...]:
        """Return a function of the rows and of `y`: one number for all rows, or a number or table row per row."""
        rows = [np.asarray(one, float) for one in y]
        rows = [np.broadcast_to(one, len(self.mean)) if one.ndim == 0 else one for one in rows]
        with working_precision():
            if on_host(self):
                return of_each_row(function, None, self._shared, self.mean, self.var, *rows, piece=piece)
            return by_block(functools.partial(_compiled(function), self._shared), self.mean, self.var, *rows)


class Functions(NamedTuple):
    """Joint draws of latent functions, each with its likelihood.

    `f` is (draws, rows); for joint classes, (draws, classes, rows).
    """

    likelihood: Likelihood
    f: np.ndarray
    side: tuple[np.ndarray, ...] = ()

    def log_prob(self, y: float) -> np.ndarray:
        """Return log p(y | f) per draw and row."""
        with working_precision():
            f = np.swapaxes(self.f, 0, -1)
            found = of_each_row(_log_prob, None, self.likelihood, f, np.full(len(f), float(y)))[0]
            return np.swapaxes(np.asarray(found), 0, -1)

    def residuals(self, y: np.ndarray) -> np.ndarray:
        """Return (y − E[y | f]) / sd[y | f] per draw and row."""

        def moments(one: Likelihood, f: Any) -> tuple[jax.Array, jax.Array]:
            return one.response_mean(f, *self.side), one.response_var(f, *self.side)

        with working_precision():
            mean, var = jax.vmap(moments)(self.likelihood, self.f)
            return (y - np.asarray(mean)) / np.sqrt(np.maximum(np.asarray(var), np.finfo(float).tiny))

    def observe(self, seed: int) -> np.ndarray:
        """Draw one observation per draw of f and row."""
        with working_precision():
            keys = jax.random.split(jax.random.key(seed), len(self.f))
            draw = jax.vmap(lambda key, one, f: one.sample(key, f, *self.side))
            return np.asarray(draw(keys, self.likelihood, self.f))
