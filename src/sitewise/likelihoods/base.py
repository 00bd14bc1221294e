"""Base class of likelihoods: a subclass defines `log_prob(y, f)`, elementwise, and everything else has a default.

Inference and evidence need three expectations:

    expected_log_prob  E_{N(m,v)}[log p(y|f)]                 (variational)
    log_expected_prob  log E_{N(m,v)}[p(y|f)^power]           (EP, prediction)
    log_expected_smoothed_prob  log E_{N(m,v)}[exp(power · E_{N(f; s, r)}[log p(y|f)])]   (collapsed, sparse GPs)

By default they are computed by quadrature that is accurate for every width of the Gaussian (`numerics.quadrature`).
Subclasses override them where a closed form exists.  `quadrature=GaussHermite(20)` uses that rule everywhere, also in
place of closed forms, as in the published experiments.

y is one number per row.  If `columns` has several names, y is a table with one row per f: the observation and its side
information (exposure, trials, variance, bounds).  Then log_prob(y, f) reads the columns y[..., 0], y[..., 1], …, and
each column broadcasts with f (decision 005).
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

from sitewise.checks import numbers_of, one_number, outline, undefined_method
from sitewise.likelihoods.landmarks import find_landmarks
from sitewise.numerics.quadrature.gaussian_rules import (
    GaussHermite,
    Landmark,
    Rule,
    expect,
    log_expect_exp,
    tilted_moments,
)
from sitewise.types import Module, module, precedes, static

_DEFAULT_RULE = Landmark()
_SEARCHED_RULE = Landmark(points=120, reach=12.0)  # for likelihoods whose landmarks are found by search
Power = float | Array  # exponent of the likelihood: one for all rows, or one per row


def derivatives(function: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    """Return the first and second derivative of an elementwise function."""
    ones = jnp.ones_like(x)
    return jax.jvp(lambda x: jax.jvp(function, (x,), (ones,))[1], (x,), (ones,))


# Nested quadrature: over f given s, over s, and a cheap inner rule to locate the mass of the outer integrand.
_INNER_RULE = Landmark(points=32, reach=7.0)
_OUTER_RULE = Landmark(points=32, reach=8.0)
_GUIDE_RULE = GaussHermite(points=5)

# amounts: zero or positive; shares: between 0 and 1; ranks: ordered classes
SUPPORTS = ("real", "positive", "amounts", "shares", "counts", "ranks", "classes")


@module
class Likelihood(Module):
    """Base class of likelihoods p(y | f); a subclass defines `log_prob` and its class attributes.

    Parameters
    ----------
    quadrature : Rule, default=None
        A quadrature rule such as `GaussHermite(20)` for every expectation.  None uses closed forms where they exist,
        and otherwise a rule that is accurate for every width of the Gaussian.

    Attributes
    ----------
    name : str
        The name in estimators and commands; "" if the likelihood can only be given as an object.
    about : str
        A short description of y.
    support : str
        The set of possible y: "real", "positive", "amounts", "shares", "counts", "ranks" or "classes".
    columns : tuple of str
        The columns of y: the observation, then side information.
    keywords : tuple of str
        Side information as arguments of the estimators: "exposure", "trials", …
    log_concave : bool
        Whether log p is concave in f for every y.
    robust : bool
        Whether outliers have little influence.
    """

    quadrature: Rule | None = static(default=None, kw_only=True)

    # Estimators, commands, comparison, reports and documents derive their lists of likelihoods from these attributes.
    name: ClassVar[str] = ""  # name in estimators and commands; "" if the likelihood can only be given as an object
    about: ClassVar[str] = ""  # short description of y
    support: ClassVar[str] = "real"  # set of possible y: one of `SUPPORTS`
    columns: ClassVar[tuple[str, ...]] = ("y",)  # columns of y: the observation, then side information
    keywords: ClassVar[tuple[str, ...]] = ()  # side information as arguments of the estimators: exposure, trials, …
    latents: ClassVar[int] = 1  # number of latent functions per row
    functions: ClassVar[tuple[str, ...]] = ()  # names of two latent functions (`TwoFunctions`); () for one, or classes
    varying: ClassVar[tuple[str, ...]] = ()  # parameters that may depend on x (`VaryingParameter`)
    log_concave: ClassVar[bool] = False  # log p is concave in f for every y
    curved: ClassVar[bool] = True  # log p has a second derivative in f, as Laplace's method requires
    conjugate: ClassVar[bool] = False  # p is a Gaussian in f up to a factor: every method is exact
    location_scale: ClassVar[bool] = False  # y = f + noise: centring and scaling y is a change of units
    rule: ClassVar[Rule] = _DEFAULT_RULE  # default quadrature rule
    period: ClassVar[float | None] = None  # period of log p in f and y, for angles
    robust: ClassVar[bool] = False  # outliers have little influence

    @property
    def absorbs_row_effects(self) -> bool:
        """Whether an effect per row is not identified: classes and ranks have no scale, learned noise absorbs it."""
        return self.support in ("classes", "ranks") or bool(jax.tree.leaves(self))

    def log_prob(self, y: Array, f: Array) -> Array:
        """Return log p(y | f), elementwise with broadcasting."""
        raise NotImplementedError(f"{type(self).__name__} must define log_prob(y, f).")

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """Return the point of the f axis around which log p(y|f) bends, and the scale on which it bends.

        Both set the grid of the quadrature.  If a subclass does not define `landmark`, two landmarks are found by
        search (`landmarks`) and the quadrature rule has twice as many points; `testing.check_likelihood` reports
        likelihoods for which the search is not accurate enough.
        """
        centre, width = self._search_landmarks(y)
        return centre[0], width[0]

    def _search_landmarks(self, y: Array) -> tuple[Array, Array]:
        like = jnp.zeros_like(y if len(self.columns) == 1 else y[..., 0])
        return find_landmarks(lambda f: self.log_prob(y, f), like)

    def _defines_no_landmark(self) -> bool:
        return type(self).landmark is Likelihood.landmark

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """Landmarks of log p for `expected_log_prob`: one per row, or several per row on a leading axis."""
        return self._search_landmarks(y) if self._defines_no_landmark() else self.landmark(y)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """Landmarks of p for `log_expected_prob`: one per row, or several per row on a leading axis."""
        return self._search_landmarks(y) if self._defines_no_landmark() else self.landmark(y)

    # -- starting values and baseline, from the observations alone ----------------------------------

    @classmethod
    def for_targets(cls, y: np.ndarray, weight: np.ndarray) -> Likelihood:
        """Return the likelihood with which learning starts, given the observations y and the weight of each row."""
        return cls()

    def level(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        """Return the constant f at which y has about its observed mean; None if the mean does not determine f."""
        return None

    def one_function(self) -> Likelihood:
        """Return the likelihood with its varying parameter held at its starting value; itself if it has none."""
        return self

    def missing_information(self, y: np.ndarray) -> str:
        """Say why the observations do not determine the model, as one sentence; empty if they do."""
        values = y if len(self.columns) == 1 else y[..., 0]
        if self.support in ("counts", "amounts") and not np.any(values):
            return (
                f"All {self.support} are 0: the data contain no event and only limit the rate from above, so that "
                "predictions are determined by the prior."
            )
        if "trials" in self.keywords and np.all(values == y[..., 1]):
            return (
                "All trials succeeded: the data contain no failure and only limit the probability from below, so that "
                "predictions are determined by the prior."
            )
        if self.support in ("positive", "amounts", "shares") and len(values) > 1 and np.all(values == values[0]):
            return f"All values of y are equal to {values[0]:g}, so that the noise cannot be learned."
        return ""

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        """Return a baseline: one SciPy distribution for all rows, estimated from the observations alone."""
        from scipy import stats

        return stats.norm(np.mean(y), max(float(np.std(y)), 1e-12))

    @classmethod
    def discrete(cls) -> bool:
        """Return whether y is a whole number."""
        return cls.support in ("counts", "ranks", "classes")

    # -- expectations under a Gaussian -----------------------------------------------------------------

    def _rule(self) -> Rule:
        if self.quadrature is not None:
            return self.quadrature
        return _SEARCHED_RULE if self._defines_no_landmark() else self.rule

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Return E_{N(mean, var)}[log p(y|f)]."""
        centre, width = self._log_prob_landmarks(y)
        return expect(lambda f: self.log_prob(y, f), mean, var, rule=self._rule(), centre=centre, width=width)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Return log E_{N(mean, var)}[p(y|f)^power]; `power` is one number, or an array with one number per row."""
        centre, width = self._prob_landmarks(y)
        return log_expect_exp(
            lambda f: power * self.log_prob(y, f),
            mean,
            var,
            rule=self._rule(),
            centre=centre,
            width=width,
        )

    def log_expected_factor(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Return `log_expected_prob` of the factor of each site; with one latent value per row, of p itself."""
        return self.log_expected_prob(y, mean, var, power)

    def tilted_moments(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        """Return the moments of the tilted density ∝ N(mean, var)·p(y|f)^power: mean − `mean`, and variance/`var`.

        EP uses these moments.  They equal v·ℓ' and 1 + v·ℓ'' of ℓ = log_expected_prob; computed directly by
        quadrature, they lose no digits.
        """
        if type(self).log_expected_prob is Likelihood.log_expected_prob and not isinstance(self._rule(), GaussHermite):
            centre, width = self._prob_landmarks(y)
            return tilted_moments(
                lambda f: power * self.log_prob(y, f), mean, var, rule=self._rule(), centre=centre, width=width
            )
        slope, bend = derivatives(lambda m: self.log_expected_prob(y, m, var, power), mean)
        return var * slope, 1 + var * bend

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        """Return log E_{N(s; mean, var)}[p̃(y|s)^power],  log p̃(y|s) = E_{N(f; s, resid)}[log p(y|f)].

        `start` is a guess of where the mass of N·p̃ lies.  The quadrature is nested.  The outer rule may be coarse,
        because p̃ varies on the scale √(width² + resid).
        """
        inner = _INNER_RULE if self.quadrature is None else self.quadrature
        # For a residual of zero, p̃ = p.  This negligible lower bound gives the inner rule a positive width.
        resid = jnp.maximum(resid, 1e-12 * var)
        centre, width = self._prob_landmarks(y)
        return log_expect_exp(
            lambda s: power * self._smoothed(y, s, resid, inner), mean, var,
            rule=_OUTER_RULE if self.quadrature is None else self.quadrature, centre=centre,
            width=jnp.sqrt(width**2 + resid),
            guide=lambda s: power * self._smoothed(y, s, resid, _GUIDE_RULE), start=start,
        )  # fmt: skip

    def _smoothed(self, y: Array, mean: Array, var: Array, rule: Rule) -> Array:
        """Return `expected_log_prob`, by its closed form or else by the given quadrature rule."""
        if type(self).expected_log_prob is not Likelihood.expected_log_prob and self.quadrature is None:
            return self.expected_log_prob(y, mean, var)
        centre, width = self._log_prob_landmarks(y)
        if centre.ndim > var.ndim:  # axes: several landmarks, nodes of the outer rule, rows
            between = (len(centre),) + (1,) * (mean.ndim - var.ndim) + var.shape
            centre, width = centre.reshape(between), width.reshape(between)
        return expect(lambda f: self.log_prob(y, f), mean, var, rule=rule, centre=centre, width=width)

    def expected_log_prob_of_both(self, parameter: str, y: Array, mean: Array, cov: Array) -> Array | None:
        """Return E[log p] in closed form for a parameter that varies with x (`VaryingParameter`), or None.

        `mean` (2, n) and `cov` (n, 2, 2) are the moments of f and of the unconstrained parameter.
        """
        return None

    # -- derivatives on NumPy arrays: optional, for one latent function ---------------------------------------
    # Without them the row-wise functions run in compiled programs.

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """Return log p(y|f) and its first three derivatives in f, on a leading axis."""
        return None

    def expected_log_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return `expected_log_prob` and its first four derivatives in the mean, on a leading axis."""
        return None

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return ℓ = `log_expected_prob`, its first three derivatives in the mean, and ∂ℓ'/∂var and ∂ℓ''/∂var.

        Then one derivative of ℓ per parameter follows, in the order of the fields.
        """
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A class that overrides a function must not inherit the derivatives of the old one.
        for slopes in ("log_prob_slopes", "expected_log_prob_slopes", "log_expected_prob_slopes"):
            if any(precedes(cls, name, slopes) for name in ("log_prob", slopes.removesuffix("_slopes"))):
                setattr(cls, slopes, getattr(Likelihood, slopes))

    # -- prediction of y: optional, a likelihood without these methods can still be trained ----------
    # For likelihoods with side information, these methods describe a row with the default side information (`row`):
    # exposure 1, one trial, not censored.  If the second column of new rows is known, `row`, `response_mean`,
    # `response_var` and `sample` take it as the last argument `side`.

    def with_keywords(self, names: Collection[str]) -> Likelihood:
        """Return the likelihood for rows with side information under these `keywords`, as given to an estimator."""
        if len(self.columns) == 1 or names:
            return self
        what = self.name or type(self).__name__
        if not self.keywords:
            raise ValueError(f"{what} needs the columns {', '.join(self.columns)} in y; use Model and Data.of(X, y).")
        raise ValueError(f"{what} needs {' or '.join(self.keywords)}, as in fit(X, y, {self.keywords[-1]}=…).")

    def row(self, value: Array) -> Array:
        """Return the row of y for an observed value and default side information; without columns, the value itself."""
        if len(self.columns) == 1:
            return value
        raise undefined_method(self, "row(value)")

    def response_mean(self, f: Array) -> Array:
        """Return E[y | f]."""
        raise undefined_method(self, "response_mean(f)")

    def response_mean_values(self, f: np.ndarray) -> np.ndarray:
        """Return E[y | f] at NumPy numbers; override it if that needs no program per shape of f."""
        return np.asarray(self.response_mean(jnp.asarray(f)))

    def response_var(self, f: Array) -> Array:
        """Return Var[y | f]."""
        raise undefined_method(self, "response_var(f)")

    def cdf(self, y: Array, f: Array) -> Array:
        """Return P(Y ≤ y | f)."""
        raise undefined_method(self, "cdf(y, f)")

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Return E_{N(mean, var)}[P(Y ≤ y | f)].

        As a function of f, cdf falls from 1 to 0 near the maximum of p(y|f), on the scale of the width of p(y|f).
        """
        centre, width = self.landmark(y)
        good = jnp.isfinite(centre) & jnp.isfinite(width)  # may be false for y outside the support
        centre, width = jnp.where(good, centre, 0.0), jnp.where(good, width, 1.0)
        return expect(lambda f: self.cdf(y, f), mean, var, rule=_DEFAULT_RULE, centre=centre, width=width)

    def sample(self, key: Array, f: Array) -> Array:
        """Draw y given f."""
        raise undefined_method(self, "sample(key, f)")

    def check(self, y: ArrayLike) -> None:
        """Raise ValueError if y has the wrong columns or is outside the support.  Overrides call `super().check(y)`."""
        self.check_shape(np.shape(y))
        if np.any(np.isnan(y)) or (len(self.columns) == 1 and np.any(np.isinf(y))):
            raise ValueError(
                f"{type(self).__name__}: y contains NaN or infinity; remove these rows or impute their values."
            )

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError for a wrong shape of y, of a parameter or of the result of `log_prob`.

        A parameter whose default is one number must be one number: an array would be read as one value per row.
        `log_prob` must return one value per row.
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
        if found[-1:] != (_SHAPE_CHECK_ROWS,):
            raise ValueError(
                f"{type(self).__name__}: log_prob gave the shape {found} for {_SHAPE_CHECK_ROWS} rows; it must be "
                "elementwise."
            )


_SHAPE_CHECK_ROWS = 3  # rows of the abstract table with which the shape of log_prob is checked


@functools.lru_cache(maxsize=256)
def _shape_of_log_prob(form: Any, leaves: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of log_prob for `_SHAPE_CHECK_ROWS` rows, by abstract evaluation."""
    likelihood = jax.tree.unflatten(form, leaves)
    columns, latents = len(likelihood.columns), likelihood.latents
    rows = _SHAPE_CHECK_ROWS
    y = numbers_of(rows) if columns == 1 else numbers_of(rows, columns)
    f = numbers_of(rows) if latents == 1 else numbers_of(latents, rows)
    return jax.eval_shape(lambda likelihood, y, f: likelihood.log_prob(y, f), likelihood, y, f).shape


def is_one(power: Power) -> bool:
    """Return whether `power` is known to be 1 at compile time, such that a closed form may be used."""
    return isinstance(power, float | int) and float(power) == 1.0


def positive_baseline(y: np.ndarray) -> Any:
    """Return SciPy's log-normal distribution with the mean and variance of log y."""
    from scipy import stats

    logs = np.log(y)
    return stats.lognorm(max(float(np.std(logs)), 1e-12), scale=np.exp(np.mean(logs)))
