"""Convergence diagnostics of Markov chains: rank-normalised split R-hat, bulk and tail effective sample size (ESS).

Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021).  Arrays are (chains, draws).
"""

from __future__ import annotations

import numpy as np
from scipy import special


def _split(x: np.ndarray) -> np.ndarray:
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, x.shape[1] - half :]])


def _rank_normal(x: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # slow to import

    return special.ndtri((rankdata(x, axis=None).reshape(x.shape) - 0.375) / (x.size + 0.25))


def _variances(x: np.ndarray) -> tuple[float, float]:
    """Return the within-chain variance and the pooled estimate of the marginal variance."""
    draws = x.shape[1]
    within = float(np.mean(np.var(x, axis=1, ddof=1)))
    between = float(np.var(np.mean(x, axis=1), ddof=1)) if len(x) > 1 else 0.0
    return within, (draws - 1) / draws * within + between


def _plain_rhat(x: np.ndarray) -> float:
    within, pooled = _variances(x)
    return float(np.sqrt(pooled / within)) if within > 0 else np.inf


def rhat(x: np.ndarray) -> float:
    """Return the larger of the R-hats of the ranks and of the folded ranks; 1 if the chains agree."""
    x = _split(np.asarray(x, float))
    if np.ptp(x) == 0:
        return np.inf
    return max(_plain_rhat(_rank_normal(x)), _plain_rhat(_rank_normal(np.abs(x - np.median(x)))))


def _plain_ess(x: np.ndarray) -> float:
    """Effective sample size by Geyer's initial monotone sequence, from autocorrelations pooled over chains."""
    chains, draws = x.shape
    within, pooled = _variances(x)
    if not within > 0:
        return 0.0
    centred = x - x.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * draws, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :draws].mean(axis=0) / draws
    rho = 1 - (within - covariance * draws / (draws - 1)) / pooled
    pairs = rho[0 : draws - draws % 2 : 2] + rho[1:draws:2][: draws // 2]
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    tau = max(-1 + 2 * float(np.sum(pairs)), 1 / np.log10(chains * draws))
    return chains * draws / tau


def bulk_ess(x: np.ndarray) -> float:
    """Return the effective sample size of the bulk of the distribution."""
    x = _split(np.asarray(x, float))
    return _plain_ess(_rank_normal(x)) if np.ptp(x) > 0 else 0.0


def tail_ess(x: np.ndarray) -> float:
    """Return the smaller of the effective sample sizes of the 5 % and 95 % quantiles."""
    x = _split(np.asarray(x, float))
    return min(_plain_ess((x <= np.quantile(x, q)).astype(float)) for q in (0.05, 0.95))
