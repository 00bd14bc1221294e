"""What a likelihood is: `log_prob(y, f)`, elementwise.  Everything else has a default.

The expectations that inference and evidence need are

    expected_log_prob  E_{N(m,v)}[log p(y|f)]                 (variational)
    log_expected_prob  log E_{N(m,v)}[p(y|f)^power]           (EP, prediction)
    log_expected_smoothed_prob  log E_{N(m,v)}[exp(power · E_{N(f; s, r)}[log p(y|f)])]   (collapsed, sparse GPs)

All default to quadrature that is accurate for every width of the Gaussian (see `quadrature`);
subclasses override them where a closed form exists.  `quadrature=GaussHermite(20)` uses that
rule everywhere, also in place of closed forms, as in the published experiments.

y is one number per row, or, where `columns` names more than one, a table with one row per f: the observation and what
is known about it (exposure, trials, variance, bounds).  Then log_prob(y, f) reads y[..., 0], y[..., 1], …, and each of
those broadcasts with f (decision 005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from sitewise.numerics.quadrature import GaussHermite, Landmark, Rule, expect, log_expect_exp, tilted_moments
from sitewise.types import Module, module, static

_DEFAULT_RULE = Landmark()
Power = float | Array  # to which a likelihood is raised: one for all rows, or one per row


def derivatives(function: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    """First and second derivative of an elementwise function."""
    ones = jnp.ones_like(x)

    def first(x: Array) -> Array:
        return jax.jvp(function, (x,), (ones,))[1]

    return jax.jvp(first, (x,), (ones,))


# For nested quadrature.
_INNER = Landmark(points=32, reach=7.0)
_OUTER = Landmark(points=32, reach=8.0)
_GUIDE = GaussHermite(points=5)


SUPPORTS = ("real", "positive", "shares", "counts", "ranks", "classes")


@module
class Likelihood(Module):
    quadrature: Rule | None = static(default=None, kw_only=True)

    # Estimators, commands, comparison, reports and documents derive their lists from these facts.
    name: ClassVar[str] = ""  # its name there; "" for a likelihood that is only given as an object
    about: ClassVar[str] = ""  # what y is, in a few words
    support: ClassVar[str] = "real"  # of y: one of `SUPPORTS`
    columns: ClassVar[tuple[str, ...]] = ("y",)  # what a row of y holds: the observation, then side information
    latents: ClassVar[int] = 1  # latent functions that a row depends on
    log_concave: ClassVar[bool] = False  # in f, for every y
    curved: ClassVar[bool] = True  # log p has a second derivative in f, which Laplace's method needs
    conjugate: ClassVar[bool] = False  # a Gaussian in f up to a factor, so that every method is exact
    location_scale: ClassVar[bool] = False  # y = f + noise: centring and scaling y is a change of units
    robust: ClassVar[bool] = False  # rows far from their neighbours have little influence

    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y | f), elementwise with broadcasting."""
        raise NotImplementedError(f"{type(self).__name__} must define log_prob(y, f).")

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The point of the f axis around which log p(y|f) bends, and the scale on which it bends.

        They set the grid of the quadrature.  The default is the mode of log p(y|f) − f²/200 and its width there, found
        on a grid of |f| ≤ 400.
        """
        start = jnp.zeros_like(y if len(self.columns) == 1 else y[..., 0])
        grid, _ = Landmark(points=129, reach=40.0).nodes(start, start + 10.0, start, start + 0.1)
        heights = self.log_prob(y, grid) - grid**2 / 200
        best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf), axis=0)
        mode = jnp.take_along_axis(grid, best[None], axis=0)[0]

        def slope(f: Array) -> Array:
            return jax.jvp(lambda f: self.log_prob(y, f) - f**2 / 200, (f,), (jnp.ones_like(f),))[1]

        curvature = -jax.jvp(slope, (mode,), (jnp.ones_like(mode),))[1]
        return lax.stop_gradient((mode, 1 / jnp.sqrt(jnp.clip(curvature, 0.01, 1e12))))

    # -- what follows from the observations alone ---------------------------------------------------

    @classmethod
    def for_targets(cls, y: np.ndarray) -> Likelihood:
        """The likelihood that learning starts from, for these observations."""
        return cls()

    def level(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        """The constant f at which y has about its observed mean; None where that mean does not determine f."""
        return None

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        """One distribution of SciPy for all rows, estimated from the observations alone."""
        from scipy import stats

        return stats.norm(np.mean(y), max(float(np.std(y)), 1e-12))

    @classmethod
    def discrete(cls) -> bool:
        """Whether y is a whole number."""
        return cls.support in ("counts", "ranks", "classes")

    # -- expectations under a Gaussian -----------------------------------------------------------------

    def _rule(self) -> Rule:
        return _DEFAULT_RULE if self.quadrature is None else self.quadrature

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """E_{N(mean, var)}[log p(y|f)]."""
        centre, width = self.landmark(y)
        return expect(lambda f: self.log_prob(y, f), mean, var, rule=self._rule(), centre=centre, width=width)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """log E_{N(mean, var)}[p(y|f)^power]; power is a number, or an array of one per row."""
        centre, width = self.landmark(y)
        return log_expect_exp(
            lambda f: power * self.log_prob(y, f),
            mean,
            var,
            rule=self._rule(),
            centre=centre,
            width=width,
        )

    def tilted_moments(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        """Of the normalised density ∝ N(mean, var)·p(y|f)^power: its mean minus `mean`, and its variance over `var`.

        EP uses these.  They are v·ℓ' and 1 + v·ℓ'' of ℓ = log_expected_prob; from the quadrature directly, they are
        computed without loss of digits.
        """
        if type(self).log_expected_prob is Likelihood.log_expected_prob and not isinstance(self._rule(), GaussHermite):
            centre, width = self.landmark(y)
            return tilted_moments(
                lambda f: power * self.log_prob(y, f), mean, var, rule=self._rule(), centre=centre, width=width
            )
        slope, bend = derivatives(lambda m: self.log_expected_prob(y, m, var, power), mean)
        return var * slope, 1 + var * bend

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        """log E_{N(s; mean, var)}[p̃(y|s)^power],  log p̃(y|s) = E_{N(f; s, resid)}[log p(y|f)].

        `start` is a guess of where the mass of N·p̃ lies.  The quadrature is nested; p̃ varies on the scale
        √(width² + resid), so that the outer rule may be coarse.
        """
        inner = _INNER if self.quadrature is None else self.quadrature
        # With a residual of zero p̃ = p; this lower bound is negligible and gives the inner rule a positive width.
        resid = jnp.maximum(resid, 1e-12 * var)
        centre, width = self.landmark(y)
        return log_expect_exp(
            lambda s: power * self._smoothed(y, s, resid, inner),
            mean,
            var,
            rule=_OUTER if self.quadrature is None else self.quadrature,
            centre=centre,
            width=jnp.sqrt(width**2 + resid),
            guide=lambda s: power * self._smoothed(y, s, resid, _GUIDE),
            start=start,
        )

    def _smoothed(self, y: Array, mean: Array, var: Array, rule: Rule) -> Array:
        """`expected_log_prob` with a given rule where it has no closed form."""
        if type(self).expected_log_prob is not Likelihood.expected_log_prob and self.quadrature is None:
            return self.expected_log_prob(y, mean, var)
        centre, width = self.landmark(y)
        return expect(lambda f: self.log_prob(y, f), mean, var, rule=rule, centre=centre, width=width)

    # -- what prediction of y needs; a likelihood without them can still be trained ----------------
    # With side information these describe a plain row (`row`): exposure 1, one trial, nothing censored.

    def row(self, value: Array) -> Array:
        """The row of y for an observed value with plain side information; without columns, the value itself."""
        if len(self.columns) == 1:
            return value
        raise NotImplementedError(f"{type(self).__name__} does not define row(value).")

    def response_mean(self, f: Array) -> Array:
        """E[y | f]."""
        raise NotImplementedError(f"{type(self).__name__} does not define response_mean(f).")

    def response_var(self, f: Array) -> Array:
        """Var[y | f]."""
        raise NotImplementedError(f"{type(self).__name__} does not define response_var(f).")

    def cdf(self, y: Array, f: Array) -> Array:
        """P(Y ≤ y | f)."""
        raise NotImplementedError(f"{type(self).__name__} does not define cdf(y, f).")

    def sample(self, key: Array, f: Array) -> Array:
        """Draw y given f."""
        raise NotImplementedError(f"{type(self).__name__} does not define sample(key, f).")

    def check(self, y: ArrayLike) -> None:
        """Raise ValueError if y has the wrong columns or is outside the support; extend with `super().check(y)`."""
        shape, k = np.shape(y), len(self.columns)
        if (k == 1 and len(shape) > 1) or (k > 1 and (len(shape) < 2 or shape[-1] != k)):
            wanted = "one number per row" if k == 1 else f"the columns {', '.join(self.columns)}"
            raise ValueError(f"{type(self).__name__}: y must hold {wanted}, got shape {shape}.")
        if k > 1 and np.any(np.isnan(y)):
            raise ValueError(f"{type(self).__name__}: y contains NaN; remove or impute those rows first.")


def is_one(power: Power) -> bool:
    """True if `power` is known to be 1 while compiling, so that a closed form may be used."""
    return isinstance(power, float | int) and float(power) == 1.0


def positive_baseline(y: np.ndarray) -> Any:
    """The log-normal distribution of SciPy with the mean and variance of log y."""
    from scipy import stats

    logs = np.log(y)
    return stats.lognorm(max(float(np.std(logs)), 1e-12), scale=np.exp(np.mean(logs)))
