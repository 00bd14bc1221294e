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

import dataclasses
import functools
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.checks import numbers_of, one_number, outline
from sitewise.likelihoods.landmarks import find
from sitewise.numerics.quadrature.gaussian_rules import (
    GaussHermite,
    Landmark,
    Rule,
    expect,
    log_expect_exp,
    tilted_moments,
)
from sitewise.types import Module, module, static

_DEFAULT_RULE = Landmark()
_SEARCHED_RULE = Landmark(points=120, reach=12.0)  # where the landmarks are found by search
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


SUPPORTS = ("real", "positive", "amounts", "shares", "counts", "ranks", "classes")  # amounts: positive, or zero


@module
class Likelihood(Module):
    quadrature: Rule | None = static(default=None, kw_only=True)

    # Estimators, commands, comparison, reports and documents derive their lists from these facts.
    name: ClassVar[str] = ""  # its name there; "" for a likelihood that is only given as an object
    about: ClassVar[str] = ""  # what y is, in a few words
    support: ClassVar[str] = "real"  # of y: one of `SUPPORTS`
    columns: ClassVar[tuple[str, ...]] = ("y",)  # what a row of y holds: the observation, then side information
    keywords: ClassVar[tuple[str, ...]] = ()  # by which the estimators take side information: exposure, trials, …
    latents: ClassVar[int] = 1  # latent functions that a row depends on
    log_concave: ClassVar[bool] = False  # in f, for every y
    curved: ClassVar[bool] = True  # log p has a second derivative in f, which Laplace's method needs
    conjugate: ClassVar[bool] = False  # a Gaussian in f up to a factor, so that every method is exact
    location_scale: ClassVar[bool] = False  # y = f + noise: centring and scaling y is a change of units
    rule: ClassVar[Rule] = _DEFAULT_RULE  # of quadrature, where none is given
    period: ClassVar[float | None] = None  # of log p in f and y, for angles
    robust: ClassVar[bool] = False  # rows far from their neighbours have little influence

    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y | f), elementwise with broadcasting."""
        raise NotImplementedError(f"{type(self).__name__} must define log_prob(y, f).")

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The point of the f axis around which log p(y|f) bends, and the scale on which it bends.

        They set the grid of the quadrature.  Without it, two landmarks are searched for (`search`), and the rule has
        twice as many points; `testing.check_likelihood` says where that is not enough.
        """
        centre, width = self._search(y)
        return centre[0], width[0]

    def _search(self, y: Array) -> tuple[Array, Array]:
        return find(lambda f: self.log_prob(y, f), jnp.zeros_like(y if len(self.columns) == 1 else y[..., 0]))

    def _searched(self) -> bool:
        return type(self).landmark is Likelihood.landmark

    def _bend(self, y: Array) -> tuple[Array, Array]:
        """The landmark of log p, for `expected_log_prob`: one per row, or several on a leading axis."""
        return self._search(y) if self._searched() else self.landmark(y)

    def _mass(self, y: Array) -> tuple[Array, Array]:
        """The landmark of p, for `log_expected_prob`: one per row, or several on a leading axis."""
        return self._search(y) if self._searched() else self.landmark(y)

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
        if self.quadrature is not None:
            return self.quadrature
        return _SEARCHED_RULE if self._searched() else self.rule

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """E_{N(mean, var)}[log p(y|f)]."""
        centre, width = self._bend(y)
        return expect(lambda f: self.log_prob(y, f), mean, var, rule=self._rule(), centre=centre, width=width)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """log E_{N(mean, var)}[p(y|f)^power]; power is a number, or an array of one per row."""
        centre, width = self._mass(y)
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
            centre, width = self._mass(y)
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
        centre, width = self._mass(y)
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
        centre, width = self._bend(y)
        if centre.ndim > var.ndim:  # several landmarks: the nodes of the outer rule are between them and the rows
            between = (len(centre),) + (1,) * (mean.ndim - var.ndim) + var.shape
            centre, width = centre.reshape(between), width.reshape(between)
        return expect(lambda f: self.log_prob(y, f), mean, var, rule=rule, centre=centre, width=width)

    # -- what prediction of y needs; a likelihood without them can still be trained ----------------
    # With side information these describe a plain row (`row`): exposure 1, one trial, nothing censored.  Where the
    # second column of new rows is known, `row`, `response_mean`, `response_var` and `sample` take it as a last argument
    # `side`.

    def with_keywords(self, names: Collection[str]) -> Likelihood:
        """The likelihood of rows for which an estimator was given side information by these of its `keywords`."""
        if len(self.columns) == 1 or names:
            return self
        what = self.name or type(self).__name__
        if not self.keywords:
            raise ValueError(
                f"{what} wants the columns {', '.join(self.columns)}; use Model and Data for it, as in the README."
            )
        raise ValueError(f"{what} needs {' or '.join(self.keywords)}, as in fit(X, y, {self.keywords[-1]}=…).")

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

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """E_{N(mean, var)}[P(Y ≤ y | f)].

        As a function of f, cdf falls from 1 to 0 about where p(y|f) is largest, as steeply as p(y|f) is narrow.
        """
        centre, width = self.landmark(y)
        good = jnp.isfinite(centre) & jnp.isfinite(width)  # of a y outside of the support it may be neither
        centre, width = jnp.where(good, centre, 0.0), jnp.where(good, width, 1.0)
        return expect(lambda f: self.cdf(y, f), mean, var, rule=_DEFAULT_RULE, centre=centre, width=width)

    def sample(self, key: Array, f: Array) -> Array:
        """Draw y given f."""
        raise NotImplementedError(f"{type(self).__name__} does not define sample(key, f).")

    def check(self, y: ArrayLike) -> None:
        """Raise ValueError if y has the wrong columns or is outside the support; extend with `super().check(y)`."""
        self.check_shape(np.shape(y))
        if np.any(np.isnan(y)) or (len(self.columns) == 1 and np.any(np.isinf(y))):
            raise ValueError(f"{type(self).__name__}: y contains NaN or infinity; remove or impute those rows first.")

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if y of this shape has the wrong columns, or a parameter is not the one number it must be.

        A parameter whose default is one number is one number: another would be taken for one per row.  `log_prob` must
        have one value per row.
        """
        for f in dataclasses.fields(self):
            if "support" in f.metadata and f.default is not dataclasses.MISSING and np.ndim(f.default) == 0:
                one_number(self, f.name)
        if self.quadrature is not None and not hasattr(self.quadrature, "nodes"):
            raise ValueError(
                f"{type(self).__name__}: quadrature must be a rule such as GaussHermite(20), got {self.quadrature!r}."
            )
        k = len(self.columns)
        if (k == 1 and len(shape) > 1) or (k > 1 and (len(shape) < 2 or shape[-1] != k)):
            wanted = "one number per row" if k == 1 else f"the columns {', '.join(self.columns)}"
            raise ValueError(f"{type(self).__name__}: y must hold {wanted}, got shape {shape}.")
        found = _shape_of_log_prob(*outline(self))
        if found[-1:] != (_ROWS,):
            raise ValueError(
                f"{type(self).__name__}: log_prob gave the shape {found} for {_ROWS} rows; it must be elementwise."
            )


_ROWS = 3  # of the table at which shapes are looked at


@functools.lru_cache(maxsize=256)
def _shape_of_log_prob(form: Any, leaves: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of log_prob for a few rows, found without computing."""
    likelihood = jax.tree.unflatten(form, leaves)
    columns, latents = len(likelihood.columns), likelihood.latents
    y = numbers_of(_ROWS) if columns == 1 else numbers_of(_ROWS, columns)
    f = numbers_of(_ROWS) if latents == 1 else numbers_of(latents, _ROWS)
    return jax.eval_shape(lambda likelihood, y, f: likelihood.log_prob(y, f), likelihood, y, f).shape


def is_one(power: Power) -> bool:
    """True if `power` is known to be 1 while compiling, so that a closed form may be used."""
    return isinstance(power, float | int) and float(power) == 1.0


def positive_baseline(y: np.ndarray) -> Any:
    """The log-normal distribution of SciPy with the mean and variance of log y."""
    from scipy import stats

    logs = np.log(y)
    return stats.lognorm(max(float(np.std(logs)), 1e-12), scale=np.exp(np.mean(logs)))
