"""Compute predictive densities with f and θ integrated out by importance sampling, as an exact reference.

θ lies on a lattice of four standard deviations to each side in the principal axes of its posterior, moved at random;
the trapezoidal rule is exact there except for the mass outside.  f given θ is drawn from EP's Gaussian q(f) = N(f; μ,
K) Π t_i(f_i)/Z_q with t_i = exp(nat1_i f_i − ½ prec_i f_i²), and has the weight

    log w = Σ_i [log p(y_i | f_i) − log t_i(f_i)] + log Z_q + log p(θ)

which contains no inverse of K.  The weighted means converge to the exact ones for any Gaussian; EP's is close, and few
draws are needed.  Several lattices with independent draws give a standard error.  The standard deviations come from
draws around the nodes of `integrate` that are twice as wide.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, stats
from scipy.special import log_ndtr, logsumexp

from sitewise import Data, Model
from sitewise.arrays.engine import to_host
from sitewise.inference import EP
from sitewise.inference.solve import solve
from sitewise.kernels import Kernel
from sitewise.learning.integration import Integrated, Node
from sitewise.learning.objective import Objective
from sitewise.likelihoods import BernoulliProbit
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

COPIES, PILOT = 4, 64  # independent lattices; θ of the pilot
PATHS = 400  # draws of f in a batch; there is one batch where θ has no weight
SIDE = {2: 11, 3: 6}  # places of a lattice along each of so many axes
_PILOT, _FREEDOM, _REACH, _JITTER = 2.0, 6, 4.0, 1e-9
_NO_WEIGHT = 8.0


class Judged(NamedTuple):
    """`density` is (copies, rows); `effective` is the share of the draws of f at a typical θ."""

    density: np.ndarray
    effective: float
    failed: int
    draws: int


class _Place(NamedTuple):
    """At one θ: log of evidence times prior, log p of the test rows, effective share of f."""

    log_weight: float
    density: np.ndarray
    effective: float


def judge(
    found: Integrated,
    problem: Objective,
    data: Data,
    new: np.ndarray,
    truth: np.ndarray,
    batches: int = 1,
    seed: int = 0,
) -> Judged:
    """Exact log densities of the rows `truth` at `new`; the nodes say where θ lies."""
    best = max(found.nodes, key=lambda node: node.weight)
    vectors = np.array([node.vector for node in found.nodes])
    centre, scatter = _moments(vectors, np.log([max(node.weight, 1e-300) for node in found.nodes]))
    pilot = stats.multivariate_t(centre, _PILOT**2 * scatter, df=_FREEDOM)
    rng = np.random.default_rng(0)
    at = pilot.rvs(PILOT, random_state=rng)
    kept, places = _places(at, -pilot.logpdf(at), best, problem, data, new, truth, 1, rng)
    centre, scatter = _moments(kept, np.array([p.log_weight for p in places]))
    root = linalg.cholesky(scatter, lower=True)
    side = SIDE[len(centre)]
    step = 2 * _REACH / side
    densities, shares, failed = [], [], 0
    for _ in range(COPIES):
        shift = rng.uniform(size=len(centre))
        lattice = np.array(list(itertools.product(range(side), repeat=len(centre)))) + shift
        at = centre + (step * lattice - _REACH) @ root.T
        kept, places = _places(at, np.zeros(len(at)), best, problem, data, new, truth, batches, rng)
        logs = np.array([p.log_weight for p in places])
        failed += len(at) - len(kept)
        densities.append(logsumexp([p.density + p.log_weight for p in places], axis=0) - logsumexp(logs))
        shares.append(float(np.median([p.effective for p in places if p.log_weight > np.max(logs) - 3])))
    return Judged(np.array(densities), float(np.mean(shares)), failed, batches * PATHS)


def _places(
    at: np.ndarray, extra: np.ndarray, best: Node, problem: Objective, data: Data, new: np.ndarray, truth: np.ndarray,
    batches: int, rng: np.random.Generator,
) -> tuple[np.ndarray, list[_Place]]:  # fmt: skip
    """What every θ contributes, and those θ where q is a density; `extra` is added to the logarithms of the weights."""
    kept, places, top = [], [], -np.inf
    for v, more in zip(at, extra, strict=True):
        model = to_host(problem.trainable.from_vector(best.model, v))
        prior = float(problem.trainable.log_prior(v, problem.priors)) + float(more)
        try:
            places.append(_place(model, data, best.sites, prior, top - _NO_WEIGHT, new, truth, batches, rng))
            kept.append(v)
            top = max(top, places[-1].log_weight)
        except linalg.LinAlgError:
            continue
    return np.array(kept), places


def _moments(vectors: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weight = np.exp(logs - logsumexp(logs))
    centre = weight @ vectors
    return centre, (vectors - centre).T @ (weight[:, None] * (vectors - centre))


def _place(
    model: Model,
    data: Data,
    sites: Sites,
    prior: float,
    least: float,
    new: np.ndarray,
    truth: np.ndarray,
    batches: int,
    rng: np.random.Generator,
) -> _Place:
    X, y = np.asarray(data.X), np.asarray(data.y)
    with working_precision():
        nat1, prec = (np.asarray(a) for a in solve(EP(), model, data, sites).sites)
        K, cross, own = (np.asarray(a) for a in _covariances(model, X, new))
        mean, mean_new = (np.asarray(model.prior.mean.at(a)) for a in (X, new))
    n = len(y)
    B = np.eye(n) + K * prec  # I + KΠ
    sign, volume = np.linalg.slogdet(B)
    cov = np.linalg.solve(B, K)
    root = linalg.cholesky(0.5 * (cov + cov.T) + _JITTER * np.mean(np.diag(K)) * np.eye(n), lower=True)
    if sign <= 0:
        raise linalg.LinAlgError("q is not a density.")
    shifted = nat1 - prec * mean
    log_zq = float(np.sum(nat1 * mean - 0.5 * prec * mean**2) - 0.5 * volume + 0.5 * shifted @ cov @ shifted)
    factor = linalg.cho_factor(K + _JITTER * np.mean(np.diag(K)) * np.eye(n))
    solved = linalg.cho_solve(factor, cross)
    var = np.maximum(own - np.sum(cross * solved, axis=0), 0.0)
    weights, densities = [], []
    for _ in range(batches):
        half = rng.normal(size=(PATHS // 2, n))
        f = mean + cov @ shifted + np.concatenate([half, -half]) @ root.T
        weights.append(np.sum(_log_prob(model, y, f) - (nat1 * f - 0.5 * prec * f**2), axis=1))
        densities.append(_expected(model, truth, mean_new + (f - mean) @ solved, var, rng))
        if float(logsumexp(weights[0])) - np.log(PATHS) + log_zq + prior < least:
            break
    logs = np.concatenate(weights)
    total = float(logsumexp(logs))
    share = float(np.exp(2 * total - logsumexp(2 * logs)) / len(logs))
    density = logsumexp(np.concatenate(densities) + logs[:, None], axis=0) - total
    return _Place(total - np.log(len(logs)) + log_zq + prior, density, share)


def _covariances(model: Model, X: np.ndarray, new: np.ndarray) -> tuple[jax.Array, jax.Array, jax.Array]:
    kernel = model.kernels
    assert isinstance(kernel, Kernel)
    return kernel.matrix(X), kernel.matrix(X, new), kernel.variances(new)


def _log_prob(model: Model, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    if isinstance(model.likelihood, BernoulliProbit):
        return np.asarray(log_ndtr(y * f))
    with working_precision():
        return np.asarray(model.likelihood.log_prob(jnp.asarray(y), jnp.asarray(f)))


def _expected(model: Model, y: np.ndarray, mean: np.ndarray, var: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """log p(y | f at the training rows) of every path: in closed form for a probit, else with one draw of f there."""
    if isinstance(model.likelihood, BernoulliProbit):
        return np.asarray(log_ndtr(y * mean / np.sqrt(1 + var)))
    return _log_prob(model, y, mean + np.sqrt(var) * rng.normal(size=mean.shape))
