"""MCMC samples of hyperparameters and latent values: chain diagnostics, and predictions averaged over the draws."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from sitewise.arrays import programs
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.mcmc import diagnostics, new_rows
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.process.precision import WORKING_DTYPE, working_precision

_MIN_ACCEPTED = 0.05  # share of proposals below which a chain is reported
PREDICT_FROM = 1000  # draws; more are hardly better, as neighbouring draws are similar, and each costs a Cholesky


@programs.jit
def _log_density(likelihood: Likelihood, mean: jax.Array, var: jax.Array, y: jax.Array) -> jax.Array:
    """Return the log of the mean of p(y) over the components."""

    def component(total: jax.Array, part: tuple[Likelihood, jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        likelihood, mean, var = part
        return jnp.logaddexp(total, likelihood.log_expected_prob(y, mean, var)), None

    total, _ = lax.scan(component, jnp.full(y.shape, -jnp.inf), (likelihood, mean, var))
    return total - jnp.log(mean.shape[0])


@dataclasses.dataclass(frozen=True, repr=False)
class HyperSamples:
    """MCMC draws of hyperparameters and latent values, with R-hat, effective sample sizes and averaged predictions.

    Attributes
    ----------
    model : Model
        The model with its starting values.
    data : Data
        The rows.
    trainable : Trainable
        The sampled hyperparameters.
    vectors : array of shape (n_chains, n_draws, n_entries)
        Draws of the unconstrained hyperparameters.
    z : array of shape (n_chains, n_draws, n_rows)
        Draws of the whitened latent values.
    limits : array of shape (n_entries, 2)
        The bounds of the vector.
    accepted : array of shape (n_chains,)
        The share of accepted proposals per chain.
    """

    model: Model
    data: Data
    trainable: Trainable
    vectors: np.ndarray
    z: np.ndarray
    limits: np.ndarray
    accepted: np.ndarray

    def __repr__(self) -> str:
        chains, draws = self.vectors.shape[:2]
        return f"HyperSamples({chains} chains of {draws} draws of {', '.join(self.trainable.labels)})"

    @property
    def flat(self) -> np.ndarray:
        """`vectors` of all chains, one chain after the other."""
        chains, draws, size = self.vectors.shape
        return self.vectors.reshape(chains * draws, size)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Constrained values by name, each (chains, draws, ...)."""
        with working_precision():
            named = jax.vmap(self.trainable.constrained)(jnp.asarray(self.flat))
        return {k: np.asarray(v).reshape(*self.vectors.shape[:2], *v.shape[1:]) for k, v in named.items()}

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """Return mean and standard deviation (of the unconstrained value), R-hat, bulk and tail ESS per parameter."""
        out = {}
        for label, x in zip(self.trainable.labels, np.moveaxis(self.vectors, -1, 0), strict=True):
            out[label] = {
                "mean": float(x.mean()), "sd": float(x.std()), "rhat": diagnostics.rhat(x),
                "bulk_ess": diagnostics.bulk_ess(x), "tail_ess": diagnostics.tail_ess(x),
            }  # fmt: skip
        return out

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Parameters with more than 1 % of the draws within 1 % of the range from a bound."""
        flat = self.flat
        low, high = self.limits.T
        share = np.mean(np.minimum(flat - low, high - flat) < 0.01 * (high - low), axis=0)
        return tuple(label for label, s in zip(self.trainable.labels, share, strict=True) if s > 0.01)

    def problems(self, rhat: float = 1.01, ess: float = 100) -> list[str]:
        """Return the problems of the chains, each with its remedy; empty if there are none.

        The default limits of R-hat and of the effective draws per chain follow Vehtari et al. (2021).
        """
        found = []
        for label, d in self.diagnostics().items():
            least = min(d["bulk_ess"], d["tail_ess"])
            if not d["rhat"] <= rhat:
                found.append(
                    f"{label}: the chains disagree, R-hat {d['rhat']:.3f} is above {rhat}. Draw longer chains."
                )
            if least < ess * self.vectors.shape[0]:
                found.append(f"{label}: {least:.0f} effective draws are below {ess} per chain. Draw longer chains.")
        for label in self.at_bound:
            found.append(
                f"{label}: draws accumulate at a bound, which determines the result. Give the parameter a prior."
            )
        for chain in np.flatnonzero(self.accepted < _MIN_ACCEPTED):
            share = self.accepted[chain]
            found.append(
                f"Chain {chain} accepted {share:.1%} of its proposals: EP's evidence is inaccurate here. Draw longer "
                "chains."
            )
        return found

    def summary(self) -> str:
        """Return `diagnostics` as a table, followed by `problems`."""
        lines = [f"{'':28s} {'mean':>9s} {'sd':>8s} {'R-hat':>7s} {'bulk':>7s} {'tail':>7s}   (log scale if positive)"]
        for label, d in self.diagnostics().items():
            moments = f"{d['mean']:9.3f} {d['sd']:8.3f} {d['rhat']:7.3f}"
            lines.append(f"{label:28s} {moments} {d['bulk_ess']:7.0f} {d['tail_ess']:7.0f}")
        return "\n".join(lines + (self.problems() or ["No problems found."]))

    def given(self, pick: np.ndarray) -> tuple[Trainable, Model, Data, np.ndarray, np.ndarray]:
        """Return the first arguments of the functions in `new_rows`, for the rows `pick` of `flat`."""
        z = self.z.reshape(len(self.flat), -1)
        return self.trainable, self.model, self.data, self.flat[pick], z[pick]

    def spaced(self, draws: int = PREDICT_FROM) -> np.ndarray:
        """Return the row numbers of at most `draws` draws, evenly spaced over all chains."""
        total = len(self.flat)
        return np.unique(np.linspace(0, total - 1, min(draws, total)).astype(int))

    def log_density(self, X: ArrayLike, y: ArrayLike, draws: int = PREDICT_FROM) -> np.ndarray:
        """Return log p(y|X) per row, averaged over at most `draws` draws of hyperparameters and latent values."""
        with working_precision():
            new = jnp.asarray(X, WORKING_DTYPE)
            parts = new_rows.marginals(*self.given(self.spaced(draws)), new)
            return np.asarray(_log_density(*parts, jnp.asarray(y, WORKING_DTYPE)))

    def probability(self, X: ArrayLike, draws: int = PREDICT_FROM) -> np.ndarray:
        """Return P(y = 1 | X) per row for a two-class likelihood."""
        return np.exp(self.log_density(X, np.ones(np.shape(X)[0]), draws))

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ InferenceData (needs arviz)."""
        try:
            import arviz
        except ImportError as problem:
            raise ImportError("to_arviz needs the package arviz; install it with pip install arviz.") from problem
        if int(arviz.__version__.split(".")[0]) >= 1:  # groups became one dictionary in ArviZ 1.0
            return arviz.from_dict({"posterior": self.parameters})
        return arviz.from_dict(posterior=self.parameters)
