"""L4. What a fitted latent function says at some rows, and all that is read off it.

f is a mixture of Gaussians, each with a likelihood on top: one component for a Gaussian approximation, one for every
draw of a sampled posterior.  Joint classes have several f at each row.  Rows are padded to a few block sizes, so that
tables of any length share compiled programs.  Everything that comes out is NumPy.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from sitewise.likelihoods import Likelihood
from sitewise.precision import working_precision
from sitewise.predict import Posterior
from sitewise.types import fixed, module

_BLOCKS = (32, 256, 2048)


@module
class _Given:
    """A latent function known only by its marginals, so that `Posterior` can be asked about it."""

    mean: jax.Array = fixed()
    var: jax.Array = fixed()

    def marginals(self, X: Any) -> tuple[jax.Array, jax.Array]:
        return self.mean, self.var


@functools.partial(jax.jit, static_argnums=0)
def _read(name: str, likelihood: Likelihood, mean, var, y) -> tuple[jax.Array, ...]:
    """`mean` and `var` are (rows, components, …)."""

    def component(part):
        likelihood, mean, var = part
        q = Posterior(_Given(mean, var), likelihood)  # the same answer for any X
        if name == "moments":
            return q.y_mean(mean), q.y_var(mean)
        if name == "log_probabilities":
            return likelihood.log_probabilities(mean, var)
        return q.y_cdf(mean, y) if name == "distribution" else q.log_density(mean, y)

    found = lax.map(component, (likelihood, jnp.swapaxes(mean, 0, 1), jnp.swapaxes(var, 0, 1)))
    if name == "moments":
        return _moments(*found)
    if name == "distribution":
        return (jnp.mean(found, axis=0),)
    return (logsumexp(found, axis=0) - jnp.log(float(mean.shape[1])),)


def _moments(mean, var) -> tuple:
    """Of a mixture, from those of its components (rows of the arguments)."""
    centre = mean.mean(axis=0)
    return centre, var.mean(axis=0) + ((mean - centre) ** 2).mean(axis=0)


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """Copies of the first row appended, so that every value is a valid one."""
    return np.concatenate([array, np.repeat(array[:1], rows - len(array), axis=0)])


def by_block(function, *tables: np.ndarray) -> tuple[np.ndarray, ...]:
    """A function of rows, applied to padded blocks; its results joined again."""
    rows = len(tables[0])
    block = next((b for b in _BLOCKS if rows <= b), _BLOCKS[-1])
    pieces = []
    for at in range(0, rows, block):
        cut = [t[at : at + block] for t in tables]
        out = function(*(padded(c, block) for c in cut))
        pieces.append([np.asarray(o)[: len(cut[0])] for o in out])
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))


def repeated(likelihood: Likelihood, times: int = 1) -> Likelihood:
    """The same likelihood for each of `times` components or draws."""
    return jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], times, axis=0), likelihood)


class Predictive(NamedTuple):
    """`mean` and `var` of f are (rows, components); of several f, (rows, components, f) and (rows, components, f, f).

    Parameters of `likelihood` have a leading axis of components.
    """

    likelihood: Likelihood
    mean: np.ndarray
    var: np.ndarray

    @staticmethod
    def gaussian(likelihood: Likelihood, mean: np.ndarray, var: np.ndarray) -> Predictive:
        """One component."""
        return Predictive(repeated(likelihood), np.asarray(mean)[:, None], np.asarray(var)[:, None])

    def f_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f, one per row; of several f, one column each."""
        var = self.var if self.mean.ndim == 2 else np.diagonal(self.var, axis1=-2, axis2=-1)
        return _moments(np.swapaxes(self.mean, 0, 1), np.swapaxes(var, 0, 1))

    def y_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """E[y] and Var[y] of each row."""
        with working_precision():
            mean, var = by_block(lambda m, v: _read("moments", self.likelihood, m, v, m[:, 0]), self.mean, self.var)
        return mean, var

    def log_density(self, y) -> np.ndarray:
        """log p(y) of each row: log ∫ p(y|f) p(f) df."""
        return self._at("log_density", y)

    def distribution(self, y) -> np.ndarray:
        """P(Y ≤ y) of each row."""
        return self._at("distribution", y)

    def log_probabilities(self) -> np.ndarray:
        """log P(class) of each row, one column per class of joint ones."""
        return self._at("log_probabilities", 0.0)

    def _at(self, name: str, y) -> np.ndarray:
        y = np.broadcast_to(np.asarray(y, float), len(self.mean))
        with working_precision():
            (out,) = by_block(lambda m, v, y: _read(name, self.likelihood, m, v, y), self.mean, self.var, y)
        return out


class Functions(NamedTuple):
    """Latent functions drawn jointly at some rows, each with its likelihood: `f` is (draws, rows), of joint classes
    (draws, classes, rows)."""

    likelihood: Likelihood
    f: np.ndarray

    def log_prob(self, y: float) -> np.ndarray:
        """log p(y | f) of every draw and row."""
        with working_precision():
            return np.asarray(jax.vmap(lambda one, f: one.log_prob(jnp.full_like(f, y), f))(self.likelihood, self.f))

    def observe(self, seed: int) -> np.ndarray:
        """One observation for every draw and row."""
        with working_precision():
            keys = jax.random.split(jax.random.key(seed), len(self.f))
            return np.asarray(jax.vmap(lambda key, one, f: one.sample(key, f))(keys, self.likelihood, self.f))
