"""Base class of likelihoods for counts: the mean count is exposure · rate(f)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.arrays.engine import namespace
from sitewise.likelihoods.base import Likelihood
from sitewise.types import module, static


@module
class Counts(Likelihood):
    """Counts with mean exposure · rate(f).

    Parameters
    ----------
    link : str, default="log"
        "log": rate = exp f; "softplus": rate = log(1 + exp f), which grows only linearly.
    exposure : bool, default=False
        False: y is one count per row.  True: y has the columns count and exposure (time observed, area, people at
        risk).
    """

    link: str = static(default="log", kw_only=True)
    exposure: bool = static(default=False, kw_only=True)

    support: ClassVar[str] = "counts"
    keywords: ClassVar[tuple[str, ...]] = ("exposure",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in ("log", "softplus"):
            raise ValueError(f"{type(self).__name__}: link must be 'log' or 'softplus', got {self.link!r}.")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("count", "exposure") if self.exposure else ("y",)

    def with_keywords(self, names: Collection[str]) -> Counts:
        super().with_keywords(names)
        return dataclasses.replace(self, exposure=bool(names))

    def split(self, y: Array) -> tuple[Array, Array | float]:
        """Return the counts and the logarithm of the exposure."""
        return (y[..., 0], jnp.log(y[..., 1])) if self.exposure else (y, 0.0)

    def log_rate(self, f: Array) -> Array:
        """Return the log rate: f, or log log(1 + eᶠ), which is f − eᶠ/2 + … for very negative f."""
        if self.link == "log":
            return f
        left = f < -30
        return jnp.where(left, f, jnp.log(jax.nn.softplus(jnp.where(left, 0.0, f))))

    def rate(self, f: Array) -> Array:
        return jnp.exp(f) if self.link == "log" else jax.nn.softplus(f)

    def _landmark_of_count(
        self, count: Array, log_exposure: Array | float, relative_width: Array
    ) -> tuple[Array, Array]:
        """Return the f whose mean equals the count, and its width; 0 and 1 for a softplus and rates up to 1000."""
        if self.link == "log":
            return namespace(count).log(count) - log_exposure, relative_width
        rate = count * jnp.exp(-log_exposure)
        far = rate > 1000
        return jnp.where(far, rate, 0.0), jnp.where(far, rate * relative_width, 1.0)

    @staticmethod
    def _inverse_rate(rate: Array) -> tuple[Array, Array]:
        """Return the f at which the softplus equals `rate`, and the slope of the softplus there."""
        f = rate + jnp.log(-jnp.expm1(-rate))
        return f, jax.nn.sigmoid(f)

    @staticmethod
    def _with_mode(centre: Array, width: Array, mode: Array) -> tuple[Array, Array]:
        """Stack a landmark and the mode; the mode gets infinite width, as it only marks a possible place of mass."""
        return jnp.stack([centre, mode]), jnp.stack([width, jnp.full_like(width, jnp.inf)])

    def row(self, value: Array, side: Array | None = None) -> Array:
        side = jnp.ones_like(value) if side is None else jnp.broadcast_to(side, value.shape)
        return jnp.stack([value, side], axis=-1) if self.exposure else value

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        count, exposure = (y[..., 0], y[..., 1]) if self.exposure else (y, np.ones_like(y))
        rate = float(np.sum(weight * count) / np.sum(weight * exposure))
        # Add a thousandth of a count at the mean exposure, such that the rate is positive if all counts are zero.
        rate += 1e-3 / float(np.average(exposure, weights=weight))
        return float(np.log(rate) if self.link == "log" else np.log(np.expm1(rate)) if rate < 30 else rate)

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        from scipy import stats

        return stats.poisson(max(float(np.mean(y)), 1e-12))

    def response_mean(self, f: Array, side: Array | float | None = None) -> Array:
        return self.rate(f) if side is None else side * self.rate(f)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        count = y[..., 0] if self.exposure else y
        if np.any(count < 0) or np.any(count != np.floor(count)) or not np.all(np.isfinite(count)):
            raise ValueError(f"{type(self).__name__}: y must hold counts 0, 1, 2, …; use Gamma for positive values.")
        if self.exposure and not np.all((y[..., 1] > 0) & np.isfinite(y[..., 1])):
            raise ValueError(f"{type(self).__name__}: the exposure of every row must be positive and finite.")
