"""Softmax likelihood for unordered classes 0, 1, …, C−1: p(y = k | f) = e^{f_k} / Σ_c e^{f_c}, one f_c per class.

log Σ_c e^{f_c} ≤ s + Σ_c e^{f_c − s} − 1 for every s, with equality at s = log Σ e^f.  So, class by class in g = f − s,

    log p(y = k | f) ≥ Σ_c [1(c = k)(g_c + 1) − e^{g_c}].

The prior of these models (`priors.classes`) uses the linear s(f) that maximises the sites.
- Laplace's method is the same as for softmax itself: the bound is tight at the mode, and once s is eliminated its
  curvature at the mode equals the curvature of softmax (R&W section 3.5).
- VI maximises the tilted bound of Knowles & Minka (2011), with expectations in closed form, E e^g = e^{m + v/2}.
- EP integrates over s instead: ∫ Π_c exp(1(c = k) g_c − e^{g_c}) ds = softmax_k(f) exactly, with a flat prior of s.
  Each factor has one argument, f_c − s, and one Gaussian site; tilted moments are one-dimensional.  (Nested EP for the
  multinomial probit has the same structure: Riihimäki, Jylänki & Vehtari 2013.)
- The EP-like evidence integrates softmax over each row's cavity (`numerics.quadrature.softmax_integral`).
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.likelihoods.base import Likelihood, Power
from sitewise.numerics.quadrature import log_expect_exp, softmax_integral, tilted_moments
from sitewise.numerics.quadrature.rate_factor import tilted_by_rate
from sitewise.types import module, static


@module
class Softmax(Likelihood):
    """Multi-class classification: softmax of one latent value per class.

    Arrays of latent values have the classes on their first axis.

    Parameters
    ----------
    classes : int, default=3
        The number of classes.
    """

    classes: int = static(default=3)

    support: ClassVar[str] = "classes"
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.classes, int) or self.classes < 2:
            raise ValueError(f"Softmax: classes must be a whole number of at least 2, got {self.classes!r}.")
        if self.quadrature is not None:
            raise ValueError("Softmax has closed forms and its own quadrature; leave quadrature at None.")

    @property
    def latents(self) -> int:  # type: ignore[override]
        return self.classes

    def _observed(self, y: Array) -> Array:
        """Return the indicators 1(c = y), classes on the first axis."""
        xp = namespace(y)
        return (y == xp.arange(self.classes, dtype=y.dtype).reshape((-1,) + (1,) * y.ndim)).astype(y.dtype)

    def log_prob(self, y: Array, f: Array) -> Array:
        """Return the terms of the bound, one per class; their sum is log softmax where Σ_c e^{g_c} = 1."""
        return self._observed(y) * (f + 1) - jnp.exp(f)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form by E e^g = exp(m + v/2)."""
        return self._observed(y) * (mean + 1) - jnp.exp(mean + 0.5 * var)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """The middle of the edge exp(−e^g), or the mode of exp(g − e^g)."""
        count = self._observed(y)
        return jnp.log(count + 1.5), 1 / jnp.sqrt(count + 1.0)

    def tilted_moments(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        """Return the moments of every N(mean_c, var_c)·exp(1(c = y) g − e^g)^power, as in `Likelihood`."""
        if is_host(y, mean, var):
            return self._tilted(y, mean, var, power)[1:]
        centre, width = self._prob_landmarks(y)
        return tilted_moments(
            lambda g: power * self.log_prob(y, g), mean, var, rule=self._rule(), centre=centre, width=width
        )

    def log_expected_factor(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Return log E_{N(mean_c, var_c)}[exp(1(c = y) g − e^g)^power] per class."""
        if is_host(y, mean, var):
            return self._tilted(y, mean, var, power)[0]
        centre, width = self._prob_landmarks(y)
        observed = self._observed(y)
        return log_expect_exp(
            lambda g: power * (observed * g - jnp.exp(g)), mean, var, rule=self._rule(), centre=centre, width=width
        )

    def _tilted(self, y: Array, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        """Return logarithm of the normaliser, shift and ratio on NumPy arrays, without a compiled program.

        N(m, v)·e^{ag} is e^{am + a²v/2} times N(m + av, v), and a·e^g = e^{g + log a}: what remains is one function of
        mean and variance (`rate_factor`).
        """
        pulled = power * self._observed(y)
        found = tilted_by_rate(mean + pulled * var + np.log(power), var)
        return found.log_value + pulled * (mean + 0.5 * pulled * var), found.shift + pulled * var, found.ratio

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The f at which all classes are equally likely, with width 1, a narrow start for q."""
        level = jnp.zeros((self.classes, *jnp.shape(y)), y.dtype)
        return level - jnp.log(float(self.classes)), level + 1.0

    # -- softmax without the bound, for correlated latent values per row: means (n, C), covariances (n, C, C) ----

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Return log E[p(y | f)^power] per row for f ~ N(mean_i, var_i), where var_i is a matrix."""
        return softmax_integral.log_win(self._observed(y).T, mean, softmax_integral.independent_variances(var), power)

    def log_probabilities(self, mean: Array, cov: Array) -> Array:
        """Return log P(y = c) for every class, normalised to probabilities that sum to one."""
        d = softmax_integral.independent_variances(cov)
        each = jnp.eye(self.classes, dtype=mean.dtype)
        logs = jax.lax.map(lambda k: softmax_integral.log_win(jnp.broadcast_to(k, mean.shape), mean, d), each).T
        return jax.nn.log_softmax(logs, axis=-1)

    def sample(self, key: Array, f: Array) -> Array:
        """Draw labels, given latent values with the classes on the first axis."""
        return jax.random.categorical(key, f, axis=0).astype(f.dtype)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if np.any(y != np.floor(y)) or np.any(y < 0) or np.any(y >= self.classes):
            raise ValueError(f"Softmax: y must hold class numbers 0 to {self.classes - 1}; renumber the classes.")
