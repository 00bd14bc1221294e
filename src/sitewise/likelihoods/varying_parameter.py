"""A likelihood of the library in which one parameter is a function of x: p(y | f, θ(g)), with a second function g.

In the one-function likelihoods, the scale of Gaussian or Student-t noise, the shape of gamma, log-logistic or negative
binomial observations, the precision of shares, and the probability of an excess zero are numbers.  Here g(x) is a
Gaussian process on the unconstrained scale of the parameter: θ = eᵍ for a positive parameter, θ = 1/(1 + e⁻ᵍ) for a
probability (`supports`).  With a constant g the likelihood equals that of the one-function model with θ = θ(g).

Given g, expectations over f are those of the one-function likelihood, with its closed forms.  For Gaussian noise with a
varying scale, all of E[log p] is a closed form:

    E[log N(y; f, e²ᵍ)] = −½ log 2π − m_2 − ½ e^(2 v_2 − 2 m_2) [(y − m_1 + 2c)² + v_1]

The shape of Weibull lifetimes cannot vary: exp(−(t/eᶠ)^eᵍ) has E[log p] = −∞ under every Gaussian in (f, g).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.likelihoods.two_functions import Conditional, TwoFunctions
from sitewise.numerics.dense.directions import blocks_of_variances
from sitewise.supports import Bounded, Positive, Support
from sitewise.types import fixed, module, replace, static

_MAX_LOG_ODDS = 30.0  # of a varying probability: beyond it, 1 − θ has too few digits


@module
class VaryingParameter(TwoFunctions):
    """A likelihood with one parameter that depends on x through a second latent function.

    Parameters
    ----------
    base : Likelihood
        The likelihood, such as `Gaussian(0.3)`.  The value of the parameter is where learning starts.
    parameter : str, default="scale"
        The parameter that varies: one of `base.varying`, such as "scale" or "inflation".
    start : float, default=None
        The value of the second function where learning starts; None takes that of the base.

    Attributes
    ----------
    functions : tuple of str
        "f", and the second function in words, such as "log scale".

    Examples
    --------
    >>> from sitewise import VI, Data, Model, evidence, kernels, likelihoods
    >>> noise = likelihoods.VaryingParameter(likelihoods.Gaussian(0.3), "scale")
    >>> model = Model.full([kernels.RBF(), kernels.RBF(2.0, 0.5)], noise)
    >>> data = Data.of([[0.0], [1.0], [2.0]], [0.1, 0.9, -0.4])
    >>> print(f"{evidence.elbo(model, data, VI().solve(model, data).sites):.3f}")
    -4.376
    """

    base: Likelihood = fixed()
    parameter: str = static(default="scale")
    start: Array | None = fixed(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.base, Likelihood):
            raise ValueError(f"The base must be a likelihood such as Gaussian(), got {self.base!r}.")
        if self.parameter not in self.base.varying:
            known = ", ".join(map(repr, self.base.varying))
            raise ValueError(
                f"{type(self.base).__name__} has no parameter {self.parameter!r} that may depend on x; "
                + (f"choose {known}." if known else "use a likelihood with one, such as Gaussian.")
            )
        if self.quadrature is not None:
            raise ValueError("Give quadrature to the base likelihood, not to VaryingParameter.")
        value = getattr(self.base, self.parameter)
        if value is not None:
            # The parameter of the base is not trained: without a value it is no parameter of the model.
            object.__setattr__(self, "start", np.asarray(self.link.forward(np.asarray(value, float))))
            object.__setattr__(self, "base", replace(self.base, **{self.parameter: None}))
        elif self.start is None:
            raise ValueError(f"The base has no {self.parameter} to start from; give one, as in Gaussian(0.3).")

    @property
    def link(self) -> Support:
        """The support of the parameter, whose `backward` maps g to θ."""
        (found,) = (f.metadata["support"] for f in dataclasses.fields(self.base) if f.name == self.parameter)
        return found

    def at(self, second: Array) -> Any:
        """Return the one-function likelihood with the parameter θ(second), one value per row."""
        if isinstance(self.link, Bounded):
            second = jnp.clip(second, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        return replace(self.base, **{self.parameter: self.link.backward(second)})

    def one_function(self) -> Any:
        return replace(self.base, **{self.parameter: np.asarray(self.link.backward(np.asarray(self.start)))})

    # -- facts: those of the base --------------------------------------------------------------------------------

    @property
    def functions(self) -> tuple[str, ...]:  # type: ignore[override]
        kind = {Positive: "log ", Bounded: "log odds of "}.get(type(self.link), "")
        return "f", f"{kind}{self.parameter}"

    @property
    def support(self) -> str:  # type: ignore[override]
        return self.base.support

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.base.columns

    @property
    def keywords(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.base.keywords

    @property
    def curved(self) -> bool:  # type: ignore[override]
        return self.base.curved

    @property
    def location_scale(self) -> bool:  # type: ignore[override]
        return self.base.location_scale

    def discrete(self) -> bool:  # type: ignore[override]
        return self.base.discrete()

    def with_keywords(self, names: Collection[str]) -> VaryingParameter:
        return replace(self, base=self.base.with_keywords(names))

    def level(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        return self.one_function().level(y, weight)

    def missing_information(self, y: np.ndarray) -> str:
        return self.one_function().missing_information(y)

    def start_level(self) -> float:
        return float(np.asarray(self.start))

    def check(self, y: ArrayLike) -> None:
        self.one_function().check(y)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        self.one_function().check_shape(shape)

    # -- functions of both latent values ---------------------------------------------------------------------------

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.at(f[1]).log_prob(y, f[0])

    def landmark(self, y: Array) -> tuple[Array, Array]:
        like = y if len(self.columns) == 1 else y[..., 0]
        second = jnp.broadcast_to(jnp.asarray(self.start, like.dtype), like.shape)
        centre, width = self.at(second).landmark(y)
        return jnp.stack([centre, second]), jnp.stack([width, jnp.ones_like(second)])

    def _of_first(self, y: Array, mean: Array, var: Array, second: Array) -> Array:
        return self.at(second).expected_log_prob(y, mean, var)

    def _log_of_first(self, y: Array, mean: Array, var: Array, second: Array, power: Power) -> Array:
        return self.at(second).log_expected_prob(y, mean, var, power)

    def _tilted_of_first(self, y: Array, mean: Array, var: Array, second: Array, power: Power) -> tuple[Array, Array]:
        return self.at(second).tilted_moments(y, mean, var, power)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        cov = blocks_of_variances(var)
        closed = self.base.expected_log_prob_of_both(self.parameter, y, mean[:2], cov)
        return super().expected_log_prob(y, mean, var) if closed is None else closed

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        of = Conditional.of(mean, var)
        return of.average(lambda m, v, second: self.at(second).expected_cdf(y, m, v))

    # -- predictions -------------------------------------------------------------------------------------------------

    def row(self, value: Array, *side: Array) -> Array:
        return self.base.row(value, *side)

    def response_mean(self, f: Array, *side: Array) -> Array:
        return self.at(f[1]).response_mean(f[0], *side)

    def response_var(self, f: Array, *side: Array) -> Array:
        return self.at(f[1]).response_var(f[0], *side)

    def cdf(self, y: Array, f: Array) -> Array:
        return self.at(f[1]).cdf(y, f[0])

    def sample(self, key: Array, f: Array, *side: Array) -> Array:
        return self.at(f[1]).sample(key, f[0], *side)
