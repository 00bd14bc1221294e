"""A fitted latent function: prior × sites at the training rows.

Traced programs pad the training rows to a `bucket`, so that cross-validation folds share compiled programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs
from sitewise.arrays.engine import on_host, to_host
from sitewise.data import Data, bucket
from sitewise.evidence import conditioned
from sitewise.fitted.function import FittedFunction
from sitewise.fitted.mixture import Functions, Mixture, by_block, padded, repeated
from sitewise.inference import Inference, Solution
from sitewise.inference.solve import solve
from sitewise.inference.start import first_sites, pad_rows
from sitewise.kernels.distances import same_rows
from sitewise.learning.fit import Fit, all_evidences
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.predict import Posterior, posterior
from sitewise.priors import Marginals
from sitewise.process.precision import working_precision
from sitewise.rows import Values, on_rows
from sitewise.sites import Sites

Result = TypeVar("Result")


class LeftOut(NamedTuple):
    """Leave-one-out results per row: mean and (co)variance of f without the row, and its influence on the posterior."""

    mean: np.ndarray
    var: np.ndarray
    influence: np.ndarray


_traced_posterior = programs.jit(posterior)
_traced_marginals = programs.jit(lambda q, X: q.f(X))
_traced_joint = programs.jit(lambda q, X: q.f_joint(X))
_traced_draw = programs.jit(lambda q, key, X, samples: q.f_samples(key, X, samples), static_argnums=3)


def _left_out(model: Model, data: Data, sites: Sites) -> Values:
    likelihood, data, q, sites = conditioned(model, data, sites)
    return on_rows(_left_rows, None, likelihood, data, q, sites)[0]


def _left_rows(_: None, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> tuple[Values, Values]:
    share = jnp.minimum(data.weight, 1.0)
    left = q.cavity(sites, share)
    # The cavity of several latent values has the rows on its first axis.
    return tuple(jnp.moveaxis(a, 0, -1) for a in (left.mean, left.f_var, q.influence(sites, share))), ()


_traced_left_out = programs.jit(_left_out)


class Pickled(NamedTuple):
    """The content of the pickle of a latent function by Gaussian sites."""

    model: Model
    data: Data
    sites: Sites


@dataclasses.dataclass(frozen=True)
class Latent(FittedFunction):
    """A latent function by Gaussian sites; the posterior is computed from data and sites.

    A pickle contains model, data and sites.  After unpickling the posterior is computed at the first use, so that
    unpickling succeeds in a process where JAX cannot compute (`process.forks`) and the first use raises the error.
    """

    has_sites: ClassVar[bool] = True

    model: Model
    data: Data
    sites: Sites
    posterior: Posterior

    @staticmethod
    def of(model: Model, data: Data, sites: Sites) -> Latent:
        with working_precision():
            if model.prior.host and on_host():
                model, sites = to_host((model, sites))
                with same_rows(data.X):  # as in a fit, so that a loaded model predicts the same bits
                    return Latent(model, data, sites, posterior(model, data, sites))
            rows = bucket(data.rows)
            data = data.pad(rows)
            sites = Sites(*(np.asarray(pad_rows(a, rows)) for a in sites))
            return Latent(model, data, sites, jax.tree.map(np.asarray, _traced_posterior(model, data, sites)))

    @staticmethod
    def of_fit(fit: Fit) -> Latent:
        """Return the result of a fit, with the posterior of its last factorisation if there is one."""
        if fit.latent is None or not (fit.model.prior.host and on_host()):
            return Latent.of(fit.model, fit.data, fit.sites)
        model, sites = to_host((fit.model, fit.sites))
        return Latent(model, fit.data, sites, fit.posterior())

    @property
    def _on_host(self) -> bool:
        return self.model.prior.host and on_host()

    @classmethod
    def unpickled(cls, own: Pickled, /, **more: Any) -> Self:
        """Return the function of a pickle, for which nothing is computed yet; `more` are fields of a subclass."""
        found = object.__new__(cls)
        found.__dict__.update(more, _pickled=own)
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Compute the fields at the first use after unpickling.

            Threads that come at once compute equal values, and each stores all fields in one step.
            """
            if name not in Pickled._fields and name != "posterior":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__dict__.update(vars(Latent.of(*self._pickled)))
            return self.__dict__[name]

    def to_pickle(self) -> Pickled:
        """Return model, data and sites, without computing the posterior."""
        return self.__dict__.get("_pickled") or Pickled(self.model, self.data, self.sites)

    def __reduce__(self) -> tuple[Any, ...]:
        return Latent.unpickled, (self.to_pickle(),)

    def stored(self) -> dict[str, Any]:
        return {"prior": self.model.prior, "likelihood": self.model.likelihood, **self.sites._asdict()}

    def posteriors(self) -> tuple[list[Posterior], np.ndarray]:
        return [self.posterior], np.ones(1)

    def changed(self, change: Callable[[Latent], tuple[Latent, Result]]) -> tuple[Latent, list[Result]]:
        """Apply a change of the rows; return the new function and the result per Gaussian approximation."""
        found, result = change(self)
        return found, [result]

    def by_kernel(self) -> list[tuple[float, Latent]]:
        """Return one function per averaged kernel, with its weight, for leave-one-out predictions."""
        return [(1.0, self)]

    def rows_uncorrelated(self) -> bool:
        return bool(np.sum(self.data.weight > 0) > 1) and self.posterior.latent.uncorrelated()

    def evidences(self, names: tuple[str, ...]) -> dict[str, float]:
        with working_precision():
            return all_evidences(self.model, self.data, self.sites, names)

    def at(self, X: np.ndarray) -> Mixture:
        with working_precision():
            if self._on_host:
                rows = self.posterior.latent.block_rows
                parts = [self.posterior.f(X[at : at + rows]) for at in range(0, len(X), rows)]
                mean, var = (np.concatenate(column) for column in zip(*parts, strict=True))
            else:
                mean, var = by_block(lambda X: _traced_marginals(self.posterior, X), X)
            return Mixture.gaussian(self.model.likelihood, mean, var)

    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, latents = len(X), self.model.likelihood.latents
        with working_precision():
            if self._on_host:
                mean, cov = self.posterior.f_joint(X)
            else:
                mean, cov = (np.asarray(a) for a in _traced_joint(self.posterior, padded(X, bucket(rows))))
        if latents > 1:
            every = np.arange(latents)
            mean, cov = (
                mean.reshape(latents, -1),
                cov.reshape(latents, -1, latents, len(mean) // latents)[every, :, every],
            )
        return mean[..., :rows], cov[..., :rows, :rows]

    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        with working_precision():
            if self._on_host:
                f = np.asarray(self.posterior.f_samples(jax.random.key(seed), X, samples))
            else:
                f = np.asarray(_traced_draw(self.posterior, jax.random.key(seed), padded(X, bucket(len(X))), samples))
        if self.model.likelihood.latents > 1:
            f = np.moveaxis(f, 0, 1)
        return Functions(repeated(self.model.likelihood, samples), f[..., : len(X)])

    def leave_out(self) -> LeftOut:
        """Return leave-one-out results of the distinct training rows and of padding."""
        with working_precision():
            if self._on_host:
                found = _left_out(*to_host((self.model, self.data, self.sites)))
            else:
                found = _traced_left_out(self.model, self.data, self.sites)
            return LeftOut(*(np.moveaxis(np.asarray(a), -1, 0) for a in found))


def infer(method: Inference, model: Model, data: Data, known: Sites, at: np.ndarray) -> tuple[Latent, Solution]:
    """Infer the sites of `data` at the hyperparameters of `model`; rows `at` start from the sites `known`."""
    host = model.prior.host and on_host()
    filled = to_host(data) if host else data.pad(bucket(data.rows))
    with working_precision():
        start = Sites(*(np.array(a) for a in first_sites(model.likelihood, filled)))
        start.nat1[..., at], start.prec[..., at] = known
        solution = solve(method, model, filled, start)
    return Latent.of(model, data, Sites(*(np.asarray(a)[..., : data.rows] for a in solution.sites))), solution


def same_form(one: Model, other: Model) -> bool:
    """Return whether two models have the same classes, settings and parameter shapes."""
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(model)] for model in (one, other)]
    kinds: list[Any] = [jax.tree.structure(model) for model in (one, other)]
    return kinds[0] == kinds[1] and shapes[0] == shapes[1]
