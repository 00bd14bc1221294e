"""The posterior of two hyperparameters without a chain: importance sampling squared (Tran et al. 2013).

A chain over (ℓ, σ) drifts along the ridge of large σ that log-uniform priors leave open.  Here θ is not walked to:

1   EP's evidence on a grid over the whole box of the prior; between its points log Z_EP is interpolated
2   θ_k, k = 1 … K, from that density q(θ) by a scrambled Sobol net: even in q, over the whole ridge
3   at each θ_k the latent values by annealed importance sampling from EP's Gaussian: Ẑ(θ_k) is unbiased
4   weights w_k = Ẑ(θ_k)/q(θ_k); predictions are averages with these weights

As K grows this is the posterior of θ and f, whatever EP's error; that error is below a nat or so, so the weights are
nearly even and almost every draw counts.  For a probit and one lengthscale; all in NumPy, one core a fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, logsumexp
from scipy.stats import qmc

from sitewise import Data, Model, evidence, kernels, likelihoods
from sitewise.inference import EP
from sitewise.inference.solve import solve
from sitewise.surface import evidence_surface
from sitewise_icml2023.protocols import Fold

BOX = (np.log(1e-5), np.log(1e6))  # of log ℓ and of log σ², the default bounds
_FINE = 12  # cells between two points of the grid, within which q is constant
_JITTER = 1e-6
_POWER = 4  # τ = (t/T)⁴: where σ is large, log p/t falls without limit, and the first steps decide


def effective(log_weight: np.ndarray) -> float:
    """The number of draws that weights are worth, (Σw)²/Σw²."""
    return float(np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight)))


class Draws(NamedTuple):
    """log ℓ and log σ² of every draw, its log weight, log Ẑ, and log P(y = 1) at the test rows."""

    vectors: np.ndarray
    log_weight: np.ndarray
    log_z: np.ndarray
    log_positive: np.ndarray

    @property
    def ess(self) -> float:
        return effective(self.log_weight)

    def log_density(self, y: np.ndarray, pick: slice = slice(None)) -> np.ndarray:
        """log p(y) of every test row, averaged over the draws."""
        each = np.where(y > 0, self.log_positive[pick], np.log1p(-np.exp(self.log_positive[pick])))
        weight = self.log_weight[pick]
        return logsumexp(weight[:, None] + each, axis=0) - logsumexp(weight)


def matern52(distance: np.ndarray, vector: np.ndarray) -> np.ndarray:
    r = np.sqrt(5) * distance / np.exp(vector[0])
    return np.exp(vector[1]) * (1 + r + r**2 / 3) * np.exp(-r)


def proposals(data: Data, points: int, grid: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """θ_k, and log q there up to a constant."""
    log_l, log_s = np.linspace(*BOX, grid), np.linspace(*BOX, grid) / 2
    found = evidence_surface(EP(), evidence.ep, data, log_l, log_s).evidence
    between = RegularGridInterpolator(
        (log_s, log_l), np.where(np.isfinite(found), found, found[np.isfinite(found)].min())
    )
    edges = [np.linspace(axis[0], axis[-1], (grid - 1) * _FINE + 1) for axis in (log_s, log_l)]
    middle = np.stack(np.meshgrid(*((e[1:] + e[:-1]) / 2 for e in edges), indexing="ij"), axis=-1)
    log_q = between(middle)
    share = np.exp(log_q - log_q.max())
    # σ from its margin, ℓ given σ, by a net of points that is even in both.
    net = qmc.Sobol(2, seed=rng).random(points)
    by_s = np.cumsum(share.sum(axis=1))
    row = np.searchsorted(by_s / by_s[-1], net[:, 0])
    by_l = np.cumsum(share[row], axis=1)
    column = np.sum(by_l / by_l[:, -1:] < net[:, 1:], axis=1)
    width = [edge[1] - edge[0] for edge in edges]
    inside = middle[row, column] + (rng.uniform(size=(points, 2)) - 0.5) * width
    return np.stack([inside[:, 1], 2 * inside[:, 0]], axis=1), log_q[row, column]


class Gaussian(NamedTuple):
    """EP's approximation at one θ: prior × sites, and log of its mass."""

    mean: np.ndarray
    root: np.ndarray
    nat1: np.ndarray
    prec: np.ndarray
    log_z: float


def gaussian(K: np.ndarray, nat1: np.ndarray, prec: np.ndarray) -> Gaussian:
    """log ∫ N(f; 0, K) Π t_i df = −½ log|B| + ½ nat1ᵀ mean,  B = I + prec½ K prec½."""
    half = np.sqrt(prec)
    L = np.linalg.cholesky(np.eye(len(K)) + half[:, None] * K * half)
    V = solve_triangular(L, half[:, None] * K, lower=True)
    cov = K - V.T @ V
    mean = cov @ nat1
    root = np.linalg.cholesky(cov + 1e-9 * np.mean(np.diag(cov)) * np.eye(len(K)))
    return Gaussian(mean, root, nat1, prec, float(0.5 * nat1 @ mean - np.sum(np.log(np.diag(L)))))


def anneal(
    q: Gaussian, y: np.ndarray, chains: int, steps: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Latent values and log weights of chains from q to the posterior, through q · Π (p_i/t_i)^τ, τ = 0 … 1.

    Every temperature has one elliptical slice move about q's mean; mean exp(log weight) is Z/Z_q without bias.
    """

    def gain(deviation: np.ndarray) -> np.ndarray:
        f = q.mean + deviation
        return np.sum(log_ndtr(y * f) - q.nat1 * f + 0.5 * q.prec * f**2, axis=1)

    shape = (chains, len(y))
    state = rng.standard_normal(shape) @ q.root.T
    here, log_weight = gain(state), np.zeros(chains)
    for step, tau in enumerate(heat := (np.arange(1, steps + 1) / steps) ** _POWER):
        log_weight += (tau - (heat[step - 1] if step else 0.0)) * here
        if step == steps - 1:
            break
        other, height = rng.standard_normal(shape) @ q.root.T, tau * here + np.log(rng.uniform(size=chains))
        angle = rng.uniform(0, 2 * np.pi, chains)
        low, high, left = angle - 2 * np.pi, angle.copy(), np.arange(chains)
        moved, there = state.copy(), here.copy()
        while len(left):
            at = np.cos(angle[left])[:, None] * state[left] + np.sin(angle[left])[:, None] * other[left]
            value = gain(at)
            # An angle of zero is the state itself: brackets that have shrunk to it end there.
            ends = (tau * value > height[left]) | (high[left] - low[left] < 1e-9)
            moved[left[ends]], there[left[ends]] = at[ends], value[ends]
            left = left[~ends]
            below = angle[left] < 0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = rng.uniform(low[left], high[left])
        state, here = moved, there
    return q.mean + state, log_weight


def sample(
    fold: Fold, points: int = 256, grid: int = 41, chains: int = 64, steps: Sequence[int] = (192, 768), seed: int = 0
) -> Draws:
    """Draws of θ and f for the training rows, and what they predict at the test rows.

    A θ at which fewer than an eighth of the chains count is annealed afresh, with the next number of steps.
    """
    rng, data = np.random.default_rng(seed), Data.of(fold.X, fold.y)
    vectors, log_q = proposals(data, points, grid, rng)
    among, across = cdist(fold.X, fold.X), cdist(fold.X_test, fold.X)
    log_z, log_positive = np.empty(points), np.empty((points, len(fold.X_test)))
    for k, vector in enumerate(vectors):
        model = Model.full(kernels.Matern52(*np.exp(vector)), likelihoods.BernoulliProbit(), jitter=_JITTER)
        sites = solve(EP(), model, data).sites
        K = matern52(among, vector) + _JITTER * np.eye(len(fold.y))
        q = gaussian(K, np.asarray(sites.nat1), np.asarray(sites.prec))
        for length in steps:
            f, log_weight = anneal(q, fold.y, chains, length, rng)
            if effective(log_weight) >= chains / 8:
                break
        cross = matern52(across, vector)
        weights = cho_solve(cho_factor(K), cross.T)
        rest = np.maximum(np.exp(vector[1]) - np.sum(cross * weights.T, axis=1), 0.0)
        positive = log_ndtr(f @ weights / np.sqrt(1 + rest))
        log_z[k] = q.log_z + logsumexp(log_weight) - np.log(chains)
        log_positive[k] = logsumexp(log_weight[:, None] + positive, axis=0) - logsumexp(log_weight)
    return Draws(vectors, log_z - log_q, log_z, np.minimum(log_positive, -1e-15))
