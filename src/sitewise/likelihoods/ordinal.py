"""Ordinal likelihood for ordered classes 0, 1, …, C−1: y is the number of learned cut points below f + N(0, 1)."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy import special

from sitewise.likelihoods.base import Likelihood, Power, is_one
from sitewise.likelihoods.landmarks import limit_landmarks, middle_landmark
from sitewise.numerics.quadrature.gaussian_cdf import log_interval
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive, real


@module
class Ordinal(Likelihood):
    """Ordinal regression (ordered probit) for ordered classes 0, 1, …, C−1, such as ratings.

        p(y = c | f) = Φ(b_{c+1} − f) − Φ(b_c − f),   −∞ = b_0 < … < b_C = ∞   (Chu & Ghahramani 2005)

    The noise has standard deviation 1; the kernel's variance sets the scale.

    Parameters
    ----------
    first : float, default=-0.5
        The first cut point b_1; learned.
    gaps : sequence of C − 2 numbers, default=(1.0,)
        The differences between neighbouring cut points; learned.
    """

    first: ArrayField = real(default=-0.5)
    gaps: ArrayField = positive(default=(1.0,))

    name: ClassVar[str] = "ordinal"
    about: ClassVar[str] = "ordered classes 0, 1, 2, …"
    support: ClassVar[str] = "ranks"
    log_concave: ClassVar[bool] = True
    rule: ClassVar[Rule] = Landmark(points=72)  # more than the default, for the two ends of an interval

    @staticmethod
    def of(classes: int) -> Ordinal:
        """Return `classes` ordered classes, equally likely if the latent function has mean 0 and variance 1."""
        if classes < 3:
            raise ValueError(f"Ordinal needs at least three classes, got {classes}; use BernoulliProbit for two.")
        cuts = np.sqrt(2) * special.ndtri(np.arange(1, classes) / classes)
        return Ordinal(cuts[0], np.diff(cuts))

    @classmethod
    def for_targets(cls, y: np.ndarray, weight: np.ndarray) -> Ordinal:
        found = np.unique(y)
        if not np.array_equal(found, np.arange(len(found))):
            raise ValueError(
                f"ordinal: classes must be numbered 0, 1, 2, … without gaps, but y holds {found[:5].tolist()}"
                f"{' and more' if len(found) > 5 else ''}; GPOrdinal takes any labels in order."
            )
        return cls.of(len(found))

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        from scipy import stats

        values, counts = np.unique(y, return_counts=True)
        return stats.rv_discrete(values=(values, counts / len(y)))

    @property
    def classes(self) -> int:
        return np.shape(self.gaps)[0] + 2

    def cuts(self) -> Array:
        """Return the cut points b_1, …, b_{C−1}."""
        return self.first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.asarray(self.gaps))])

    def _ends(self, y: Array) -> tuple[Array, Array]:
        ends = jnp.concatenate([jnp.array([-jnp.inf]), self.cuts(), jnp.array([jnp.inf])]).astype(y.dtype)
        c = jnp.clip(y, 0, self.classes - 1).astype(int)
        return ends[c], ends[c + 1]

    def log_prob(self, y: Array, f: Array) -> Array:
        low, high = self._ends(y)
        return log_interval(low, high, f, 1.0)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The middle of the class, or its only cut point; log p bends at both ends on the scale of the noise."""
        return middle_landmark(*self._ends(y), 1.0)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return limit_landmarks(*self._ends(y), 1.0)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return self._prob_landmarks(y)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Closed form for power 1: `log_prob` with noise of variance 1 + v."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        low, high = self._ends(y)
        return log_interval(low, high, mean, jnp.sqrt(1 + var))

    def _probabilities(self, f: Array) -> tuple[Array, Array]:
        """Return the class numbers and their probabilities, classes on the leading axis."""
        labels = jnp.arange(self.classes, dtype=f.dtype).reshape((-1,) + (1,) * f.ndim)
        return labels, jnp.exp(self.log_prob(labels + 0 * f, f))

    def response_mean(self, f: Array) -> Array:
        labels, p = self._probabilities(f)
        return jnp.sum(labels * p, axis=0)

    def response_var(self, f: Array) -> Array:
        labels, p = self._probabilities(f)
        return jnp.sum((labels - jnp.sum(labels * p, axis=0)) ** 2 * p, axis=0)

    def cdf(self, y: Array, f: Array) -> Array:
        _, high = self._ends(jnp.maximum(y, 0.0))
        inside = jnp.exp(log_interval(-jnp.inf, high, f, 1.0))
        return jnp.where(y < 0, 0.0, inside)

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form: `cdf` with noise of variance 1 + v."""
        _, high = self._ends(jnp.maximum(y, 0.0))
        return jnp.where(y < 0, 0.0, jnp.exp(log_interval(-jnp.inf, high, mean, jnp.sqrt(1 + var))))

    def sample(self, key: Array, f: Array) -> Array:
        noisy = f + jax.random.normal(key, f.shape, f.dtype)
        cuts = self.cuts().reshape((-1,) + (1,) * f.ndim)
        return jnp.sum(noisy > cuts, axis=0).astype(f.dtype)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if np.any(y != np.floor(y)) or np.any(y < 0) or np.any(y >= self.classes):
            raise ValueError(
                f"Ordinal: y must hold class numbers 0 to {self.classes - 1}; for other numbers of classes use "
                "Ordinal.of(classes)."
            )
