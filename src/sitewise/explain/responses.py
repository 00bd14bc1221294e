"""Average predicted responses with credible bands: class probabilities, means of y, or ordered labels.

Bands are quantiles of Σ_r w_r h(f(x_r)) over joint draws of f at the rows; see `effects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np
from scipy import special

from sitewise.explain.fitted_model import Fitted
from sitewise.likelihoods import Likelihood
from sitewise.numerics.dense.cholesky import semidefinite_root
from sitewise.predict import Posterior

DRAWS = 1000  # per band


def responses(
    model: Fitted, blocks: np.ndarray, share: np.ndarray, ends: list[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, standard deviation and quantiles of the average predicted response, shape (values, outputs)."""
    mixtures = [latent.posteriors() for latent in model._latents]
    labels = model._label_values()
    found = []
    for rows in blocks:
        # The same noise for all values of the column, so that the band is smooth along it.
        values = _drawn(mixtures, rows, np.random.default_rng(0), labels)
        average = np.einsum("srk,r->sk", values, share)
        found.append((average.mean(axis=0), average.std(axis=0), *np.quantile(average, ends, axis=0)))
    mean, sd, low, high = (np.stack(part) for part in zip(*found, strict=True))
    if model._latents[0].has_sites and model._latents[0].model.likelihood.latents == 1:  # takes minutes otherwise
        mean = np.einsum("grk,r->gk", _predicted(model, blocks), share)
    return mean, sd, low, high


def _predicted(model: Fitted, blocks: np.ndarray) -> np.ndarray:
    """Return the predictions at the rows, class probabilities or E[y]: (values, rows, K)."""
    qs = [latent.at(blocks.reshape(-1, blocks.shape[2])) for latent in model._latents]
    return model._mean_response(qs).reshape(*blocks.shape[:2], -1)


def _drawn(
    mixtures: Sequence[tuple[list[Posterior], np.ndarray]],
    rows: np.ndarray,
    rng: np.random.Generator,
    labels: np.ndarray | None,
) -> np.ndarray:
    """Return responses for joint draws of every latent function: (draws, rows, K).

    `labels` are the numeric values of ordered labels.
    """
    if len(mixtures) == 1:
        draws = joint_draws(*mixtures[0], rows, rng, DRAWS)
        return np.concatenate([_responses_of(q.likelihood, f, len(rows), labels) for q, f in draws])
    # One class against the rest, divided by the sum: in logarithms, because all may be tiny.
    logs = []
    for mixture in mixtures:
        parts = [
            np.asarray(q.likelihood.log_prob(jnp.ones_like(f), jnp.asarray(f)))
            for q, f in joint_draws(*mixture, rows, rng, DRAWS)
        ]
        logs.append(rng.permutation(np.concatenate(parts)))  # nodes of different classes are independent
    return special.softmax(np.stack(logs, axis=-1), axis=-1)


def _responses_of(likelihood: Likelihood, f: np.ndarray, rows: int, labels: np.ndarray | None) -> np.ndarray:
    if labels is not None:
        each = (likelihood.log_prob(jnp.full(f.shape, float(k)), jnp.asarray(f)) for k in range(len(labels)))
        return sum(value * np.exp(np.asarray(log)) for value, log in zip(labels, each, strict=True))[:, :, None]
    if likelihood.functions:
        both = jnp.moveaxis(jnp.asarray(f.reshape(len(f), -1, rows)), 1, 0)
        return np.asarray(likelihood.response_mean(both))[:, :, None]
    if likelihood.latents > 1:
        return np.swapaxes(special.softmax(f.reshape(len(f), -1, rows), axis=1), 1, 2)
    return likelihood.response_mean_values(f)[:, :, None]


def joint_draws(
    qs: list[Posterior], weight: np.ndarray, rows: np.ndarray, rng: np.random.Generator, draws: int
) -> Iterator[tuple[Posterior, np.ndarray]]:
    """Draw f at the rows from a mixture; the number of draws per Gaussian is proportional to its weight."""
    ends = np.round(draws * np.cumsum(weight)).astype(int)
    for q, count in zip(qs, np.diff(ends, prepend=0), strict=True):
        if count:
            mean, cov = (np.asarray(a) for a in q.f_joint(rows))
            yield q, mean + rng.standard_normal((count, len(mean))) @ semidefinite_root(cov).T
