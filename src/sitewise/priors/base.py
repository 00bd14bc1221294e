"""The contract of a prior structure: what inference, evidences, learners and predictions require of it.

A prior over functions is four small classes, each a value that JAX can trace (`types.module`):

    Prior             the structure with its hyperparameters         gram(X), posterior(X, sites)
    Gram              depends on θ and X but not on the sites        condition(sites) → Marginals
    Covariance        how the marginals change with the sites        times(x), squared_times(x)
    LatentPosterior   q(f) at new inputs (`priors.posterior`)        marginals(X), joint(X)

A new structure has to define `Prior.gram`, `Prior.posterior`, `Gram.condition`, `LatentPosterior.marginals` and
`LatentPosterior.joint`, and to have the attributes `kernel` and `mean`.  Everything else has a correct default, which
differentiates `condition`, and may be replaced by faster code.  `testing.check_prior` checks a structure against
the laws below.  Code outside of `priors` uses these methods and never the type of a prior.

Sites that are passed here are weighted: they stand for all copies of a row.  A row with a zero site must drop out
exactly, so that padding changes no result.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sitewise import means
from sitewise.arrays.engine import Array, cond, namespace
from sitewise.checks import known, must_be
from sitewise.kernels import Kernel
from sitewise.kernels.base import check_matrix
from sitewise.kernels.units import Units, input_units
from sitewise.priors.posterior import LatentPosterior
from sitewise.sites import Cavity, Sites, cavity
from sitewise.types import precedes

# Kept by `condition_with_factor` for derivatives.  Each structure has its own type, used only by its own Gram.
Factor = Any


class Marginals(NamedTuple):
    """q at the training rows.  f_i has the mean `mean` and the variance `var` + `resid`; its site acts on `var`.

    log_z       log ∫ p(f) Π t_i df
    prior_mean  prior mean per row
    jitter      relative to the diagonal, 0 unless rounding required it (`numerics.dense.cholesky`)
    """

    mean: Array
    var: Array
    resid: Array
    log_z: ArrayLike
    prior_mean: Array
    jitter: ArrayLike

    def cavity(self, sites: Sites, share: ArrayLike) -> Cavity:
        """Return the marginal per row without the share `share` of one copy of its site."""
        return cavity(self.mean, self.var, self.resid, sites, share)

    @property
    def site_var(self) -> Array:
        """The variance of what a single site acts on."""
        return self.var

    def site_cavity(self, sites: Sites, share: ArrayLike, weight: ArrayLike) -> Cavity:
        """Return the marginal of what a single site acts on, without the share `share` of that site.

        `weight` is the number of copies per row.  A row with one latent value has one site.
        """
        return self.cavity(sites, share)

    def log_shift_width(self, weight: Array) -> ArrayLike:
        """Return log ∫ ds of the site of one copy of a row over its largest value; 0 without a shift s."""
        return 0.0

    def rows(self) -> tuple[Array, ...]:
        """Return the fields with one entry per row, the rows on the last axis."""
        return self.mean, self.var, self.resid, self.prior_mean

    @classmethod
    def of_rows(cls, rows: tuple[Array, ...], log_z: ArrayLike, jitter: ArrayLike = 0.0) -> Marginals:
        """Return the marginals with these fields; the inverse of `rows`."""
        mean, var, resid, prior_mean = rows
        return cls(mean, var, resid, log_z, prior_mean, jitter)

    def influence(self, sites: Sites, share: ArrayLike) -> Array:
        """Return KL(q ‖ q without the share `share` of the row's site) per row, in nats.

        The two differ by a factor that depends on f at this row only.  The divergence of the processes is therefore
        the divergence of N(m, v) and the cavity N(m₋, v₋): ½ [(m − m₋)²/v₋ + v/v₋ − 1 − log(v/v₋)].
        """
        left = self.cavity(sites, share)
        ratio = self.var / left.var
        return 0.5 * ((self.mean - left.mean) ** 2 / left.var + ratio - 1 - jnp.log(ratio))


class Moments(Protocol):
    """The fields of the marginals that the defaults below use."""

    @property
    def mean(self) -> Array: ...

    @property
    def var(self) -> Array: ...

    @property
    def log_z(self) -> Array: ...


Q = TypeVar("Q", bound=Moments)  # the marginals of a structure, usually `Marginals`


class Covariance(abc.ABC, Generic[Q]):
    """Derivatives of the marginals in the sites, with Σ the covariance of the variables on which the sites act:

    ∂mean = Σ (∂nat1 − mean ∘ ∂prec),    ∂var = −(Σ∘Σ) ∂prec,    ∂log_z = meanᵀ ∂nat1 − ½ (var + mean²)ᵀ ∂prec
    """

    @abc.abstractmethod
    def times(self, x: Array) -> Array:
        """Return Σ x."""

    @abc.abstractmethod
    def squared_times(self, x: Array) -> Array:
        """Return (Σ ∘ Σ) x."""

    def site_squared_times(self, x: Array, weight: Array) -> Array:
        """Return minus the change of the variances of `Marginals.site_cavity`, with the site kept, for ∂prec = x."""
        return self.squared_times(x)

    def times_once(self, x: Array) -> Array:
        """Return Σ x for a few vectors, if computing Σ itself would cost more than the products."""
        return self.times(x)

    def pull_to_sites(self, q: Q, by_q: Q) -> Sites:
        """Return the derivative of a function of q in the sites, given its derivative in q."""
        xp = namespace(by_q.mean)
        moved = self.times_once(by_q.mean)
        # Laplace's evidence does not depend on the variances, and a product with Σ∘Σ is expensive.
        by_var = cond(xp.any(by_q.var != 0), self.squared_times, xp.zeros_like, by_q.var)
        return Sites(
            moved + by_q.log_z * q.mean,
            -(q.mean * moved + by_var + 0.5 * by_q.log_z * (q.var + q.mean**2)),
        )


class DifferentiatedCovariance(Covariance[Q]):
    """Products with Σ and Σ∘Σ, which are symmetric, as derivatives of `Gram.condition`: the default."""

    def __init__(self, gram: Gram[Q], sites: Sites) -> None:
        self._gram, self._sites = gram, sites

    def times(self, x: Array) -> Array:
        return jax.vjp(lambda b: self._gram.condition(Sites(b, self._sites.prec)).mean, self._sites.nat1)[1](x)[0]

    def squared_times(self, x: Array) -> Array:
        return -jax.vjp(lambda w: self._gram.condition(Sites(self._sites.nat1, w)).var, self._sites.prec)[1](x)[0]


class Gram(abc.ABC, Generic[Q]):
    """The quantities that depend on θ and X but not on the sites.  Gradients in θ pass through its arrays."""

    # Whether a Newton direction always costs less than it saves; if not, it is used only if the plain update converges
    # slowly.
    newton_is_cheap: ClassVar[bool] = False

    @abc.abstractmethod
    def condition(self, sites: Sites) -> Q:
        """Return the marginals of prior × sites; differentiable in reverse mode, in this Gram and in the sites."""

    def signed(self) -> Gram[Q]:
        """Return the Gram for programs compiled for sites whose precisions may be negative.

        Laplace sites have negative precisions where log p is not concave.  If prior × sites is not a Gaussian, the
        results are NaN.  A structure whose algebra does not depend on the signs keeps this default.
        """
        return self

    def condition_mean(self, sites: Sites) -> tuple[Q, Factor]:
        """Condition for a method that uses the mean only: `var` may be any upper bound.

        The factor is used by `rounding_error` only.
        """
        return self.condition_with_factor(sites, None)

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[Q, Factor]:
        """Condition, and return a factor that `covariance` and `pull` reuse; not for differentiation.

        Only the rows of the mask need correct variances; None means all rows.
        """
        return self.condition(sites), None

    def covariance(self, sites: Sites, factor: Factor) -> Covariance[Q]:
        """Return the covariance of q at these sites."""
        return DifferentiatedCovariance(self, sites)

    def pull(self, sites: Sites, factor: Factor, q: Q, by_q: Q) -> Self:
        """Return the cotangent of this Gram, given the cotangent of q, with the sites held constant."""
        return jax.vjp(lambda gram: gram.condition(sites), self)[1](by_q)[0]

    def rounding_error(self, sites: Sites, q: Q, factor: Factor) -> Array:
        """Estimate the rounding error of log_z, absolute (nats) or relative; inference compares it with 1e-3."""
        return jnp.zeros((), q.log_z.dtype)


class Prior(abc.ABC):
    """A prior over functions.

    structure  name by which a method may choose another inference and evidence (`methods.Definition.variants`)
    about      a sentence for reports, or empty
    exact      the sites act on f itself: there is no residual variance
    dense      keeps matrices of rows × rows; learners check the memory before they start
    staged     is neither dense nor inexact, but is also searched on subsets of the rows first
    one_matrix for samplers: `gram(X)` is N(mean, K) of one latent value per row with attributes `mean` and `K`, and
               the prior has `given_values`
    informs    `gram(X)` has attributes `mean` and `K`, and its factor `alpha` and `R_times`, for guesses of a Hessian
    host       `gram`, `gram_with_pull`, `posterior` and their results also compute on NumPy arrays
    """

    structure: ClassVar[str] = ""
    about: ClassVar[str] = ""
    exact: ClassVar[bool] = True
    dense: ClassVar[bool] = False
    staged: ClassVar[bool] = False
    one_matrix: ClassVar[bool] = False
    informs: ClassVar[bool] = False
    host: ClassVar[bool] = False

    kernel: Kernel
    mean: means.Mean

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A subclass that overrides gram alone is traced: its base class's NumPy code does not belong to the new gram.
        if precedes(cls, "gram", "gram_with_pull"):
            cls.gram_with_pull = Prior.gram_with_pull  # type: ignore[method-assign]
            cls.host = False
        # A new gram has a new factor, and a new posterior differs from the one that the base class builds.
        if precedes(cls, "gram", "posterior_from") or precedes(cls, "posterior", "posterior_from"):
            cls.posterior_from = Prior.posterior_from  # type: ignore[method-assign]

    @property
    def kernels(self) -> Kernel | list[Kernel]:
        """Return the kernel, or the list of kernels if each latent function has its own."""
        return self.kernel

    def check(self, columns: int, latents: int) -> None:
        """Raise ValueError if the prior does not suit this number of input columns or of latent values per row.

        Extend with `super().check(columns, latents)`.
        """
        for kernel in self.kernels if isinstance(self.kernels, list) else [self.kernels]:
            must_be(kernel, Kernel, "The kernel", "RBF(), a kernel of sitewise.kernels")
            kernel.check(columns)
            check_matrix(kernel, columns)
        must_be(self.mean, means.Mean, "The mean", "Constant(), a mean of sitewise.means")
        self.mean.check(columns)
        jitter = getattr(self, "jitter", 0.0)
        if known(jitter) and not (isinstance(jitter, int | float) and 0 <= jitter < float("inf")):
            raise ValueError(f"jitter must be a finite number of at least 0, got {jitter!r}.")

    def site_shape(self, rows: int, latents: int) -> tuple[int, ...]:
        """Return the shape of the sites of this number of rows: with several latent values per row, one site each."""
        return (rows,) if latents == 1 else (latents, rows)

    def suits(self, columns: int, latents: int) -> bool:
        """Return whether `check` raises no error."""
        try:
            self.check(columns, latents)
        except ValueError:
            return False
        return True

    def check_rows(self, X: np.ndarray) -> None:
        """Raise ValueError if these cannot be training rows; extend with `super().check_rows(X)`."""
        for kernel in self.kernels if isinstance(self.kernels, list) else [self.kernels]:
            kernel.check_rows(X)

    @abc.abstractmethod
    def gram(self, X: Array) -> Gram:
        """Return the quantities that depend on θ and X but not on the sites."""

    def gram_with_pull(self, X: Array) -> tuple[Any, Callable[[Any], Any]]:
        """Return the Gram, and the function from its cotangent to the cotangent of this prior."""

        def pull(bar: Gram) -> Prior:
            # The kernel's derivative needs several n×n matrices.  This dependence on `bar` makes XLA recompute them
            # here instead of keeping them.  (XLA for CPUs drops its barriers too early.)
            first = jax.tree.leaves(bar)[0].ravel()[0]
            later = jax.tree.map(lambda leaf: jnp.where(jnp.isnan(first), jnp.nan, leaf), self)
            return jax.vjp(lambda prior: prior.gram(X), later)[1](bar)[0]

        return self.gram(X), pull

    @property
    def inputs(self) -> np.ndarray | None:
        """Return the inducing inputs, one per row; None for a structure without inducing inputs."""
        return None

    def with_inputs(self, Z: np.ndarray) -> Self:
        """Return the prior with other inducing inputs."""
        raise ValueError(f"{type(self).__name__} has no inducing inputs to choose; use Model.sparse.")

    def kernel_columns(self, X: Array) -> Array:
        """Return the columns of X that are inputs of the kernel."""
        return X

    def count_series(self, X: Array) -> int:
        """Return the number of independent series among the rows; 1 if all rows may be correlated."""
        return 1

    def order(self, X: np.ndarray) -> np.ndarray:
        """Return the row numbers in the order in which `LatentPosterior.tail` appends rows; default: as given."""
        return np.arange(len(X))

    def input_units(self, ranges: np.ndarray) -> Units:
        """Return the units of the kernel's parameters, given max − min of every column of the inputs."""
        return input_units(self.kernel, self.kernel_columns(ranges[None])[0])

    def least(self) -> dict[str, float]:
        """Return lower limits of hyperparameters in this structure, by name; learners stay above."""
        return {}

    def start(self, X: Array, sites: Sites) -> Sites:
        """Adapt the likelihood's initial sites to this structure."""
        return sites

    def one_function(self) -> Prior:
        """Return the prior of the first function of two; this prior if it has one, or one per class."""
        return self

    def rows_of(self, mean: Array, var: Array) -> Marginals | None:
        """Return `LatentPosterior.marginals` of new rows as a site update takes them; None for several classes."""
        if mean.ndim > 1:
            return None
        none = namespace(var).zeros_like(var)
        return Marginals(mean, var, none, none[0], none, none[0])

    @property
    def predicts_sites(self) -> bool:
        """Whether a search on more rows starts faster from sites that a smaller search predicts."""
        return True

    def as_full(self, rows: float = np.inf) -> Prior:
        """Return the equivalent prior with `one_matrix` for this number of rows, or this prior if there is none."""
        return self

    def given_values(self, X: Array, root: Array, white: Array, counted: Array) -> LatentPosterior:
        """Return f at new inputs, given f(X) = mean + root·white at the rows where `counted` is 1, else 0.

        `root` is the root of the covariance of `gram`.
        """
        raise ValueError(f"{type(self).__name__} has no covariance matrix of all rows; use Model.full.")

    @abc.abstractmethod
    def posterior(self, X: Array, sites: Sites) -> LatentPosterior:
        """Return q(f), given the training inputs and their sites."""

    def posterior_from(self, gram: Any, factor: Factor, X: Array, sites: Sites) -> LatentPosterior | None:
        """Return `posterior(X, sites)` from gram = gram(X) and the factor of gram.condition_with_factor(sites, …).

        Factorises nothing; on a dense prior it is called at every evaluation of a search.  Not for differentiation.
        None, the default, where a structure has no such form: `posterior` is then called at the end.
        """
        return None


def one_latent(prior: Prior, latents: int) -> None:
    """Raise ValueError if the likelihood has several latent values per row."""
    if latents > 1:
        raise ValueError(
            f"{type(prior).__name__} has one latent function and the likelihood {latents}; make the model with "
            "Model.full(kernel, likelihood)."
        )
