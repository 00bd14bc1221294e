"""L4. One fitted latent function: prior × sites at the training rows, and all that is read off it.

Rows are padded, training rows to a `bucket` and new rows to a few block sizes, so that folds and tables of any length
share compiled programs.  Everything that comes out is NumPy.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.data import Data, bucket
from sitewise.inference import Inference, Solution
from sitewise.inference.driver import first_sites, solve
from sitewise.learning.fit import all_evidences
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.precision import working_precision
from sitewise.predict import Posterior, posterior
from sitewise.sites import Sites, cavity
from sitewise.types import fixed, module

_BLOCKS = (32, 256, 2048)


@module
class Given:
    """A latent function known only by its marginals, so that `Posterior` can be asked about cavities too."""

    mean: jax.Array = fixed()
    var: jax.Array = fixed()

    def marginals(self, X: Any) -> tuple[jax.Array, jax.Array]:
        return self.mean, self.var


class Marginal(NamedTuple):
    """Mean and variance of the latent function, one per row."""

    mean: np.ndarray
    var: np.ndarray


class Left(NamedTuple):
    """Each row left out: the latent function there without it, and what the row did to the posterior."""

    cavity: Marginal
    influence: np.ndarray


_posterior = jax.jit(posterior)
_marginals = jax.jit(lambda q, X: q.f(X))
_joint = jax.jit(lambda q, X: q.f_joint(X))
_draw = jax.jit(lambda q, key, X, samples: q.f_samples(key, X, samples), static_argnums=3)


@functools.partial(jax.jit, static_argnums=0)
def _read(name: str, likelihood: Likelihood, mean, var, y):
    q = Posterior(Given(mean, var), likelihood)  # the same answer for any X
    if name == "moments":
        return q.y_mean(mean), q.y_var(mean)
    if name == "distribution":
        return (q.y_cdf(mean, y),)
    return (q.log_density(mean, y),)


@jax.jit
def _leave_out(model: Model, data: Data, sites: Sites):
    q = model.prior.gram(data.X).condition(sites.scaled(data.weight))
    cav = cavity(q.mean, q.var, sites, jnp.minimum(data.weight, 1.0))
    shift = (q.mean - cav.mean) ** 2 / cav.var
    ratio = q.var / cav.var
    return cav.mean, cav.var + q.resid, 0.5 * (shift + ratio - 1 - jnp.log(ratio))


def _padded(array: np.ndarray, rows: int) -> np.ndarray:
    """Copies of the first row appended, so that every value is a valid one."""
    return np.concatenate([array, np.repeat(array[:1], rows - len(array), axis=0)])


def _by_block(function, *tables: np.ndarray) -> tuple[np.ndarray, ...]:
    """A function of rows, applied to padded blocks; its results joined again."""
    rows = len(tables[0])
    block = next((b for b in _BLOCKS if rows <= b), _BLOCKS[-1])
    pieces = []
    for at in range(0, rows, block):
        cut = [t[at : at + block] for t in tables]
        out = function(*(_padded(c, block) for c in cut))
        pieces.append([np.asarray(o)[: len(cut[0])] for o in out])
    return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))


def moments(likelihood: Likelihood, q: Marginal) -> tuple[np.ndarray, np.ndarray]:
    """E[y] and Var[y] where the latent function has the marginals `q`."""
    with working_precision():
        mean, var = _by_block(lambda m, v: _read("moments", likelihood, m, v, m), *q)
    return mean, var


def log_density(likelihood: Likelihood, q: Marginal, y) -> np.ndarray:
    """log ∫ p(y|f) q(f) df of each row."""
    return _at_y("log_density", likelihood, q, y)


def distribution(likelihood: Likelihood, q: Marginal, y) -> np.ndarray:
    """P(Y ≤ y) of each row."""
    return _at_y("distribution", likelihood, q, y)


def _at_y(name: str, likelihood: Likelihood, q: Marginal, y) -> np.ndarray:
    y = np.broadcast_to(np.asarray(y, float), q.mean.shape)
    with working_precision():
        (out,) = _by_block(lambda m, v, y: _read(name, likelihood, m, v, y), *q, y)
    return out


@dataclasses.dataclass(frozen=True)
class Latent:
    """`data` and `sites` are padded; the posterior is derived from them, and derived again after unpickling."""

    model: Model
    data: Data
    sites: Sites
    posterior: Posterior

    @staticmethod
    def of(model: Model, data: Data, sites: Sites) -> Latent:
        rows = bucket(data.rows)
        data = data.pad(rows)
        sites = Sites(*(np.pad(np.asarray(a), (0, rows - len(a))) for a in sites))
        with working_precision():
            q = jax.tree.map(np.asarray, _posterior(model, data, sites))
        return Latent(model, data, sites, q)

    def __reduce__(self):
        return Latent.of, (self.model, self.data, self.sites)

    def rows_are_strangers(self) -> bool:
        """True if no row tells anything about another: B = I + W½KW½ is diagonal, for all that can be seen."""
        if not self.model.prior.exact:
            return False
        L = np.asarray(self.posterior.latent.L)
        own = np.max(np.diag(L) ** 2 - 1)
        return bool(np.sum(self.data.weight > 0) > 1 and np.max(np.abs(np.tril(L, -1))) < 1e-6 * own)

    def evidences(self) -> dict[str, float]:
        with working_precision():
            return all_evidences(self.model, self.data, self.sites)

    def marginals(self, X: np.ndarray) -> Marginal:
        with working_precision():
            return Marginal(*_by_block(lambda X: _marginals(self.posterior, X), X))

    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = len(X)
        with working_precision():
            mean, cov = _joint(self.posterior, _padded(X, bucket(rows)))
        return np.asarray(mean)[:rows], np.asarray(cov)[:rows, :rows]

    def draw(self, seed: int, X: np.ndarray, samples: int) -> np.ndarray:
        """Joint draws of the latent function, one per row of the result."""
        with working_precision():
            f = _draw(self.posterior, jax.random.key(seed), _padded(X, bucket(len(X))), samples)
        return np.asarray(f)[:, : len(X)]

    def draw_y(self, seed: int, f: np.ndarray) -> np.ndarray:
        """Observations given the latent function."""
        with working_precision():
            return np.asarray(self.model.likelihood.sample(jax.random.key(seed), jnp.asarray(f)))

    def leave_out(self) -> Left:
        """For the distinct training rows, padding included."""
        with working_precision():
            mean, var, influence = (np.asarray(a) for a in _leave_out(self.model, self.data, self.sites))
        return Left(Marginal(mean, var), influence)


def infer(method: Inference, model: Model, data: Data, known: Sites, at: np.ndarray) -> tuple[Latent, Solution]:
    """Sites of `data` at the hyperparameters of `model`; rows `at` start from the sites `known`."""
    padded = data.pad(bucket(data.rows))
    with working_precision():
        fresh = Sites(*(np.array(a) for a in first_sites(model.likelihood, padded)))
        start = Sites(*(a.copy() for a in fresh))
        start.nat1[at], start.prec[at] = known
        solution = solve(method, model, padded, start)
        if not solution.outcome.ok:
            # The old sites may be a bad start for what remains; the likelihood's own start is never far off.
            solution = solve(method, model, padded, fresh)
    return Latent.of(model, data, Sites(*(np.asarray(a)[: data.rows] for a in solution.sites))), solution
