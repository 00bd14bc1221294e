"""Evidence surfaces: an evidence at every point of a (lengthscale, magnitude) grid.

Every point has its own outcome, and its value does not depend on the grid.

If the likelihood is log-concave, Laplace and VI have one solution for every θ (and EP is not known to have others).
Each point then starts from sites extrapolated from the three rows before it: log prec and nat1/√prec continue along a
parabola in log σ.  (For large σ, where the posterior only grows with the prior, they are straight lines.)  If this does
not converge, the point starts again from the starting sites of the likelihood.  Points of likelihoods that are not
log-concave always start from the starting sites.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, is_host, namespace, on_host, to_host
from sitewise.data import Data
from sitewise.evidence import Evidence, elbo, ep, laplace
from sitewise.inference import EP, VI, Inference
from sitewise.inference.loop import iterate
from sitewise.inference.start import first_sites
from sitewise.kernels import Matern52, Stationary
from sitewise.kernels.distances import same_rows
from sitewise.likelihoods import BernoulliProbit, Likelihood
from sitewise.means import Mean, Zero
from sitewise.model import Model, check
from sitewise.priors import FullPrior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import Outcome


class Surface(NamedTuple):
    """Evidence, outcome code, steps and residual, of shape (len(log_sigma), len(log_lengthscale))."""

    evidence: np.ndarray
    code: np.ndarray
    steps: np.ndarray
    residual: np.ndarray


# The ELBO at VI's sites and EP's evidence at EP's sites are stationary in the sites.  An error of 5e-4 in the sites, in
# units of the marginal, causes an error of 1e-9 per row in the evidence at most points, and of 1e-6 at the worst point
# (ionosphere's grid).
_STATIONARY_TOL = 5e-4
_MAX_LOG_PREC_CHANGE = 3.0  # by extrapolation
_EXTRAPOLATED_ROWS = 3  # previous rows of the grid from which sites are extrapolated

_Row = tuple[Any, Any, Any, Any]  # the fields of `Surface` for one σ


def _with_tolerance(method: Inference, evidence: Evidence) -> Inference:
    """Return the method with the tolerance that this evidence requires, unless the caller has set a tolerance."""
    if isinstance(method, EP):
        stationary = evidence.terms is ep.terms and evidence.power == method.power
    else:
        stationary = isinstance(method, VI) and evidence.name == "elbo"
    return dataclasses.replace(method, tol=_STATIONARY_TOL) if stationary and method.tol is None else method


def _point(
    method: Inference,
    evidence: Evidence,
    kernel: type[Stationary],
    likelihood: Likelihood,
    mean: Mean,
    data: Data,
    log_sigma: ArrayLike,
    log_l: Array,
    start: Sites,
) -> tuple[_Row, Sites]:
    """Return the fields of `Surface` at one point, and its sites."""
    xp = namespace(log_l, log_sigma)
    prior = FullPrior(kernel(lengthscale=xp.exp(log_l), variance=xp.exp(2 * log_sigma)), mean)
    found, solution, *_ = iterate(method, likelihood, prior.gram(data.X), data, start, evidence is laplace)
    # VI has already computed the ELBO.
    known = isinstance(method, VI) and evidence is elbo
    value = found.merit if known else evidence.on_marginals(likelihood, data, found.q, solution.sites)
    return (value, solution.code, solution.stats.steps, solution.stats.residual), solution.sites


@functools.partial(programs.jit, static_argnums=(0, 1, 2))
def _traced_row(
    method: Inference,
    evidence: Evidence,
    kernel: type[Stationary],
    likelihood: Likelihood,
    mean: Mean,
    data: Data,
    log_sigma: ArrayLike,
    log_ls: Array,
    starts: Sites,
) -> tuple[_Row, Sites]:
    point = functools.partial(_point, method, evidence, kernel, likelihood, mean, data, log_sigma)
    return lax.map(lambda each: point(*each), (log_ls, starts))


def _row(
    method: Inference,
    evidence: Evidence,
    kernel: type[Stationary],
    likelihood: Likelihood,
    mean: Mean,
    data: Data,
    log_sigma: float,
    log_ls: np.ndarray,
    starts: Sites,
) -> tuple[_Row, Sites]:
    """Return the fields of `Surface` for one row of the grid, and its sites."""
    if not is_host(*jax.tree.leaves((likelihood, mean, data))):
        return _traced_row(method, evidence, kernel, likelihood, mean, data, log_sigma, jnp.asarray(log_ls), starts)
    point = functools.partial(_point, method, evidence, kernel, likelihood, mean, data, np.float64(log_sigma))
    points = [point(log_l, Sites(*(a[i] for a in starts))) for i, log_l in enumerate(log_ls)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *points)


def _lagrange_weights(known: np.ndarray, value: float) -> np.ndarray:
    """Return the weights of the values at `known` in their interpolating polynomial at `value`."""
    gaps = known[:, None] - known[None, :] + np.eye(len(known))
    return np.prod(np.where(np.eye(len(known), dtype=bool), 1.0, value - known[None, :]) / gaps, axis=1)


def _extrapolated(previous: list[Sites], weights: np.ndarray) -> Sites:
    """Return sites for the next row of the grid, extrapolated from the sites of the previous rows."""
    last = previous[-1]
    seen = np.all(np.stack([s.prec > 0 for s in previous]), axis=0)
    logs = [np.log(np.where(seen, s.prec, 1.0)) for s in previous]
    change = sum(w * log for w, log in zip(weights, logs, strict=True)) - logs[-1]
    log_prec = logs[-1] + np.clip(change, -_MAX_LOG_PREC_CHANGE, _MAX_LOG_PREC_CHANGE)
    ratio = sum(w * s.nat1 * np.exp(-0.5 * log) for w, s, log in zip(weights, previous, logs, strict=True))
    return Sites(np.where(seen, ratio * np.exp(0.5 * log_prec), last.nat1), np.where(seen, np.exp(log_prec), last.prec))


def evidence_surface(
    method: Inference,
    evidence: Evidence,
    data: Data,
    log_lengthscale: np.ndarray,
    log_sigma: np.ndarray,
    *,
    likelihood: Likelihood | None = None,
    kernel: type[Stationary] = Matern52,
    mean: Mean | None = None,
    done: Callable[[Surface], None] | None = None,
) -> Surface:
    """Compute evidence(θ, λ*(θ)) on the grid; `done` is called with each finished row of constant σ.

    `mean` is the mean function of the prior, which is held fixed; None means zero.
    """
    likelihood, mean = BernoulliProbit() if likelihood is None else likelihood, Zero() if mean is None else mean
    if not (isinstance(kernel, type) and issubclass(kernel, Stationary)):
        raise ValueError(f"kernel must be the class of a stationary kernel, such as Matern52, got {kernel!r}.")
    check(Model.full(kernel(), likelihood, mean), data)
    method = _with_tolerance(method, evidence)
    log_ls = np.asarray(log_lengthscale, float)
    rows: list[Sequence[np.ndarray]] = []
    previous: list[Sites] = []
    with working_precision():
        host = on_host(likelihood, mean, data)
        likelihood, mean = to_host((likelihood, mean)) if host else (likelihood, mean)
        rows_of = to_host(data) if host else data.to_bucket()
        default_starts = jax.tree.map(lambda a: np.tile(a, (len(log_ls), 1)), first_sites(likelihood, rows_of))

        def solve(value: float, starts: Sites) -> tuple[_Row, Sites]:
            found = _row(method, evidence, kernel, likelihood, mean, rows_of, float(value), log_ls, starts)
            return jax.tree.map(np.asarray, found)

        with same_rows(rows_of.X):
            for i, value in enumerate(log_sigma):
                known = np.asarray(log_sigma[i - len(previous) : i], float)
                if len(previous) < 2 or len(set(known)) < len(known):
                    starts = previous[-1] if previous else default_starts
                else:
                    starts = _extrapolated(previous, _lagrange_weights(known, value))
                row, sites = solve(value, starts)
                failed = np.asarray(row[1]) != Outcome.CONVERGED
                if previous and np.any(failed):
                    pick = functools.partial(_where_first, failed)
                    row, sites = jax.tree.map(pick, solve(value, default_starts), (row, sites))
                rows.append(row)
                if likelihood.log_concave:
                    previous = [*previous[1 - _EXTRAPOLATED_ROWS :], sites]
                if done is not None:
                    done(Surface(*rows[-1]))
    return Surface(*(np.stack(column) for column in zip(*rows, strict=True)))


def _where_first(flags: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a where the flag of the first axis is set, else b."""
    return np.where(flags.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)
