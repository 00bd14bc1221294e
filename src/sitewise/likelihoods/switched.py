"""Multi-output likelihood: a different likelihood per output, for one latent function of x and the output.

y has the columns y and output (0, 1, 2, …), and a column `side` if one of the likelihoods needs a second column.
Likelihoods without a second column ignore `side`.  Each row is an observation of one output:

    log p(y | f) = log p_k(y | f),   k = output

Every expectation is computed with the likelihood of the row's output (decision 016).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.types import fixed, module

# A valid observation for each support.  It stands in for the rows of other outputs, whose result is discarded.
_STAND_IN = {"real": 0.0, "positive": 1.0, "amounts": 1.0, "shares": 0.5, "counts": 1.0, "ranks": 0.0, "classes": 1.0}


@module
class Switched(Likelihood):
    """Multi-output (multi-task) models: one likelihood per output, for one latent function of x and the output.

    Parameters
    ----------
    parts : tuple of Likelihood
        The likelihoods of output 0, 1, 2, …
    """

    parts: tuple[Likelihood, ...] = fixed()

    about: ClassVar[str] = "several outputs with one likelihood per output"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.parts, Sequence) or not self.parts:
            raise ValueError("Switched needs a list of likelihoods, as in Switched([Gaussian(), Poisson()]).")
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            if not isinstance(part, Likelihood) or part.latents != 1 or len(part.columns) > 2 or part.period:
                raise ValueError(
                    f"Switched: {part!r} cannot be a part; use likelihoods with one latent function, at most two "
                    "columns of y and no period."
                )

    @property
    def absorbs_row_effects(self) -> bool:
        return any(part.absorbs_row_effects for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("y", "output", "side") if self._has_side() else ("y", "output")

    @property
    def keywords(self) -> tuple[str, ...]:  # type: ignore[override]
        more = (name for part in self.parts for name in part.keywords if len(part.columns) == 2)
        return ("output", *dict.fromkeys(name for name in more if name in ("exposure", "trials", "noise")))

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        return all(part.log_concave for part in self.parts)

    @property
    def curved(self) -> bool:  # type: ignore[override]
        return all(part.curved for part in self.parts)

    @property
    def conjugate(self) -> bool:  # type: ignore[override]
        return all(part.conjugate for part in self.parts)

    def _has_side(self) -> bool:
        return any(len(part.columns) == 2 for part in self.parts)

    def with_keywords(self, names: Collection[str]) -> Switched:
        wanted = "output and one of " + ", ".join(self.keywords[1:]) if self._has_side() else "output"
        if "output" not in names or (self._has_side() and len(names) != 2):
            raise ValueError(f"Switched needs {wanted} for every row, as in fit(X, y, output=…).")
        return self

    # -- the likelihood of each row ------------------------------------------------------------------

    def _select(self, output: Array, values: Sequence[Array]) -> Array:
        """Select, from one value per part, the value of the row's output."""
        out = values[0]
        for k, value in enumerate(values[1:], start=1):
            out = jnp.where(output == k, value, out)
        return out

    def _rows_of_part(self, k: int, y: Array) -> Array:
        """Return y with the columns of part k; rows of other outputs are replaced by a valid observation."""
        part, own = self.parts[k], y[..., 1] == k
        value = jnp.where(own, y[..., 0], _STAND_IN[part.support])
        if len(part.columns) == 1:
            return value
        return jnp.stack([value, jnp.where(own, y[..., 2], 1.0)], axis=-1)

    def _by_output(self, y: Array, function: Callable[[Likelihood, Array], Array]) -> Array:
        values = [function(part, self._rows_of_part(k, y)) for k, part in enumerate(self.parts)]
        return self._select(y[..., 1], values)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self._by_output(y, lambda part, own: part.log_prob(own, f))

    def landmark(self, y: Array) -> tuple[Array, Array]:
        centre = self._by_output(y, lambda part, own: part.landmark(own)[0])
        return centre, self._by_output(y, lambda part, own: part.landmark(own)[1])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        return self._by_output(y, lambda part, own: part.expected_log_prob(own, mean, var))

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        return self._by_output(y, lambda part, own: part.log_expected_prob(own, mean, var, power))

    def tilted_moments(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        found = [part.tilted_moments(self._rows_of_part(k, y), mean, var, power) for k, part in enumerate(self.parts)]
        first, second = zip(*found, strict=True)
        return self._select(y[..., 1], first), self._select(y[..., 1], second)

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        return self._by_output(
            y, lambda part, own: part.log_expected_smoothed_prob(own, mean, var, resid, power, start)
        )

    # -- predictions: `side` is the output of the new rows, and the second column of their likelihood, if any ----

    def row(self, value: Array, *side: Array) -> Array:
        given = self._side_columns(side, value)
        return jnp.stack([value, *given], axis=-1)

    def _side_columns(self, side: tuple[Array, ...], like: Array) -> list[Array]:
        if not side:
            raise NotImplementedError("Switched: give the output of the new rows, as in predict(output=…).")
        columns = [jnp.broadcast_to(column, like.shape).astype(like.dtype) for column in side]
        return columns + [jnp.ones_like(like)] * (len(self.columns) - 1 - len(columns))

    def _predict_by_output(self, f: Array, side: tuple[Array, ...], function: Callable[..., Array]) -> Array:
        output, *more = self._side_columns(side, f)
        values = [function(part, *(more if len(part.columns) == 2 else ())) for part in self.parts]
        return self._select(output, values)

    def response_mean(self, f: Array, *side: Array) -> Array:
        return self._predict_by_output(f, side, lambda part, *more: part.response_mean(f, *more))

    def response_var(self, f: Array, *side: Array) -> Array:
        return self._predict_by_output(f, side, lambda part, *more: part.response_var(f, *more))

    def cdf(self, y: Array, f: Array) -> Array:
        return self._by_output(y, lambda part, own: part.cdf(own, f))

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        return self._by_output(y, lambda part, own: part.expected_cdf(own, mean, var))

    def sample(self, key: Array, f: Array, *side: Array) -> Array:
        keys = iter(jax.random.split(key, len(self.parts)))
        return self._predict_by_output(f, side, lambda part, *more: part.sample(next(keys), f, *more))

    def quantile_by_output(self, find: Callable[[Likelihood], Array], *side: Array) -> Array:
        """Return quantiles per row, searched by `find` in the support of the likelihood of the row's output."""
        output, *_ = side
        return self._select(output, [find(part) for part in self.parts])

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        output = y[..., 1]
        if np.any(~np.isin(output, np.arange(len(self.parts)))):
            raise ValueError(
                f"Switched: output must be 0 to {len(self.parts) - 1}, the position of the row's likelihood."
            )
        for k, part in enumerate(self.parts):
            rows = y[output == k]
            if len(rows):
                part.check(rows[:, 0] if len(part.columns) == 1 else rows[:, [0, 2]])
