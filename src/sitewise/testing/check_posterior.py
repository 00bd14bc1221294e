"""Checks that the posteriors of a prior structure satisfy the contract of `priors.posterior`.

The laws hold for structures of one latent function and for those of several: weighted sums have the moments that the
joint distribution gives them, a posterior does not depend on how it was made, and rows that are appended give the
posterior of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import to_host
from sitewise.priors import LatentPosterior, Prior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.testing.common import close, inputs, report, worst

_ROWS = 7


class _Case(NamedTuple):
    """The prior at some rows with sites; on NumPy arrays where the structure computes on them."""

    prior: Prior
    X: Any
    sites: Sites
    latents: int

    @property
    def posterior(self) -> LatentPosterior:
        return self.prior.posterior(self.X, self.sites)

    def taken(self, rows: Any) -> Sites:
        return Sites(*(a[..., rows] for a in self.sites))


def check_posterior(prior: Prior, X: Any = None, latents: int = 1) -> None:
    """Check the posteriors of a prior structure of your own.

    Parameters
    ----------
    prior : Prior
        The prior.
    X : array of shape (n_rows, n_columns), default=None
        The rows; None for seven rows of two columns.
    latents : int, default=1
        The number of latent functions per row.
    """
    with working_precision():
        rows = inputs(_ROWS) if X is None else np.asarray(X, float)
        rng, shape = np.random.default_rng(3), prior.site_shape(len(rows), latents)
        sites = Sites(rng.normal(size=shape), rng.uniform(0.3, 3.0, size=shape))
        if prior.host:
            case = _Case(*to_host((prior, rows, sites)), latents)
        else:
            case = _Case(prior, jnp.asarray(rows), Sites(*map(jnp.asarray, sites)), latents)
        checks: tuple[Callable[[_Case], Iterator[str]], ...] = (
            _sums, _uncorrelated, _from_factor, _appended, _inputs, _known_values,
        )  # fmt: skip
        report(type(prior).__name__, (check(case) for check in checks))


def _sums(case: _Case) -> Iterator[str]:
    rng, q = np.random.default_rng(6), case.posterior
    X = np.stack([inputs(3, case.X.shape[1], seed) for seed in (7, 8)])
    weight = rng.normal(size=(2, case.latents, 2, 3))
    found = q.sums(X, weight)
    want = LatentPosterior.sums(q, X, weight)
    for name, one, other in zip(("mean", "variance"), found, want, strict=True):
        if not close(one, other, 1e-8, 1e-8):
            yield f"the {name} of posterior.sums is not what posterior.joint gives, {worst(one, other)}."


def _uncorrelated(case: _Case) -> Iterator[str]:
    nothing = Sites(*(0.0 * a for a in case.sites))
    cov = np.asarray(case.prior.posterior(case.X, nothing).joint(case.X)[1])[: len(case.X), : len(case.X)]
    sd = np.sqrt(np.diagonal(cov))
    if np.max(np.abs(cov / np.outer(sd, sd) - np.eye(len(cov)))) > 0.01 and case.posterior.uncorrelated():
        yield "posterior.uncorrelated() is True, but the prior correlates some of the rows."


def _moments(q: LatentPosterior, new: Any) -> list[Any]:
    return [*q.marginals(new), *q.joint(new)]


def _from_factor(case: _Case) -> Iterator[str]:
    gram = case.prior.gram(case.X)
    factor = gram.condition_with_factor(case.sites, None)[1]
    new = inputs(5, case.X.shape[1], seed=9)
    found = case.prior.posterior_from(gram, factor, case.X, case.sites)
    if found is None:
        return
    for one, other in zip(_moments(found, new), _moments(case.posterior, new), strict=True):
        if not close(one, other, 1e-10, 1e-10):
            yield f"posterior_from(gram, factor, X, sites) is not posterior(X, sites), {worst(one, other)}."
            return


def _appended(case: _Case) -> Iterator[str]:
    """The posterior given all rows, from the posterior given the first rows."""
    order = case.prior.order(np.asarray(case.X))
    if sorted(order) != list(range(len(case.X))):
        yield "order(X) must hold the number of every row once."
        return
    X, sites, first = np.asarray(case.X)[order], case.taken(order), len(order) - 2
    q = case.prior.posterior(X[:first], Sites(*(a[..., :first] for a in sites)))
    if not q.appends(X[first:]):
        return
    whole = case.prior.posterior(X, sites)
    for cut in (0, 3):
        tail = q.tail(cut, X[first:])
        rest = Sites(*(a[..., cut:] for a in sites))
        factor = tail.gram.condition_with_factor(rest, None)[1]
        moved, after = tail.moved(factor), tail.joined(rest, factor)
        if not (np.isfinite(moved) and moved >= 0) or (cut == 0 and moved != 0):
            yield f"tail({cut}, X).moved must be a finite number of at least 0, and 0 without rows before; got {moved}."
        found, want = (q.marginals(X[cut:]) for q in (after, whole))
        if not all(close(one, other, 1e-9, 1e-9) for one, other in zip(found, want, strict=True)):
            yield f"tail({cut}, X).joined is not the posterior of all rows, {worst(found, want)}."


def _inputs(case: _Case) -> Iterator[str]:
    Z = case.prior.inputs
    if Z is None:
        return
    moved = case.prior.with_inputs(Z + 0.1).inputs
    if moved is None or not close(moved, Z + 0.1, 0.0, 1e-12):
        yield "with_inputs(Z).inputs must be Z."


def _known_values(case: _Case) -> Iterator[str]:
    prior = case.prior.as_full(len(case.X))
    if not prior.one_matrix:
        return
    gram: Any = prior.gram(case.X)
    K = np.asarray(gram.K)
    root = np.linalg.cholesky(K + 1e-9 * np.mean(np.diagonal(K)) * np.eye(len(K)))  # rows may be equal
    white = np.random.default_rng(5).normal(size=len(case.X))
    mean, var = prior.given_values(case.X, root, white, np.ones(len(case.X))).marginals(case.X)
    if not close(mean, gram.mean + root @ white, 1e-5, 1e-5) or np.any(np.asarray(var) > 1e-5 * np.diagonal(K)):
        yield "given_values must know f at the training rows, without variance."
