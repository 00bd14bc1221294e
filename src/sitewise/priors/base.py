"""The contract of a prior structure: what inference, evidences, learners and predictions require of it.

A prior over functions is four small classes, each a value that JAX can trace (`types.module`):

    Prior             the structure with its hyperparameters         gram(X), posterior(X, sites)
    Gram              what depends on θ and X but not on the sites   condition(sites) → Marginals
    Covariance        how the marginals change with the sites        times(x), squared_times(x)
    LatentPosterior   q(f) at new inputs (`priors.posterior`)        marginals(X), joint(X)

A new structure has to define `Prior.gram`, `Prior.posterior`, `Gram.condition`, `LatentPosterior.marginals` and
`LatentPosterior.joint`, and to have the attributes `kernel` and `mean`.  All else has a correct default, which
differentiates `condition`, and may be replaced by something faster.  `testing.check_prior` checks a structure against
the laws below.  No code outside of `priors` asks which structure a prior has: it asks these methods.

Sites that are passed here are weighted: they stand for all copies of a row.  A row whose site is zero must drop out
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
from sitewise.priors.posterior import LatentPosterior
from sitewise.sites import Cavity, Sites, cavity
from sitewise.types import precedes

# What `condition_with_factor` keeps for derivatives.  Each structure has its own; only its own Gram looks inside.
Factor = Any


class Marginals(NamedTuple):
    """q at the training rows.  f_i has the mean `mean` and the variance `var` + `resid`; its site acts on `var`.

    log_z       log ∫ p(f) Π t_i df
    prior_mean  of each row
    jitter      a share of the diagonal, 0 unless rounding required it (`numerics.dense.cholesky`)
    """

    mean: Array
    var: Array
    resid: Array
    log_z: ArrayLike
    prior_mean: Array
    jitter: ArrayLike

    def cavity(self, sites: Sites, share: ArrayLike) -> Cavity:
        """Each row's marginal without the share `share` of one copy of its site."""
        return cavity(self.mean, self.var, self.resid, sites, share)

    def rows(self) -> tuple[Array, ...]:
        """What belongs to the rows, with the rows on the last axis."""
        return self.mean, self.var, self.resid, self.prior_mean

    @classmethod
    def of_rows(cls, rows: tuple[Array, ...], log_z: ArrayLike, jitter: ArrayLike = 0.0) -> Marginals:
        """The inverse of `rows`."""
        mean, var, resid, prior_mean = rows
        return cls(mean, var, resid, log_z, prior_mean, jitter)

    def influence(self, sites: Sites, share: ArrayLike) -> Array:
        """KL(q ‖ q without the share of row i's site), in nats, for each row i.

        The two differ by a factor that depends on f at that row only, so the divergence of the whole processes is that
        of N(m, v) and the cavity N(m₋, v₋): ½ [(m − m₋)²/v₋ + v/v₋ − 1 − log(v/v₋)].
        """
        left = self.cavity(sites, share)
        ratio = self.var / left.var
        return 0.5 * ((self.mean - left.mean) ** 2 / left.var + ratio - 1 - jnp.log(ratio))


class Moments(Protocol):
    """What the defaults below use of the marginals, which have further fields where rows have several latent values."""

    @property
    def mean(self) -> Array: ...

    @property
    def var(self) -> Array: ...

    @property
    def log_z(self) -> Array: ...


Q = TypeVar("Q", bound=Moments)  # the marginals of a structure, usually `Marginals`


class Covariance(abc.ABC, Generic[Q]):
    """How the marginals change with the sites, with Σ the covariance of the variables on which the sites act:

    ∂mean = Σ (∂nat1 − mean ∘ ∂prec),    ∂var = −(Σ∘Σ) ∂prec,    ∂log_z = meanᵀ ∂nat1 − ½ (var + mean²)ᵀ ∂prec
    """

    @abc.abstractmethod
    def times(self, x: Array) -> Array:
        """Σ x."""

    @abc.abstractmethod
    def squared_times(self, x: Array) -> Array:
        """(Σ ∘ Σ) x."""

    def times_once(self, x: Array) -> Array:
        """Σ x for a few vectors, where computing Σ itself would cost more than the products."""
        return self.times(x)

    def pull_to_sites(self, q: Q, by_q: Q) -> Sites:
        """The derivative in the sites of a function of q, given its derivatives in q: the transpose of the above."""
        xp = namespace(by_q.mean)
        moved = self.times_once(by_q.mean)
        # Laplace's evidence does not depend on the variances, and a product with Σ∘Σ is expensive.
        by_var = cond(xp.any(by_q.var != 0), self.squared_times, xp.zeros_like, by_q.var)
        return Sites(
            moved + by_q.log_z * q.mean,
            -(q.mean * moved + by_var + 0.5 * by_q.log_z * (q.var + q.mean**2)),
        )


class DifferentiatedCovariance(Covariance[Q]):
    """The default: products with Σ and Σ∘Σ, which are symmetric, as derivatives of `Gram.condition`."""

    def __init__(self, gram: Gram[Q], sites: Sites) -> None:
        self._gram, self._sites = gram, sites

    def times(self, x: Array) -> Array:
        return jax.vjp(lambda b: self._gram.condition(Sites(b, self._sites.prec)).mean, self._sites.nat1)[1](x)[0]

    def squared_times(self, x: Array) -> Array:
        return -jax.vjp(lambda w: self._gram.condition(Sites(self._sites.nat1, w)).var, self._sites.prec)[1](x)[0]


class Gram(abc.ABC, Generic[Q]):
    """Everything that depends on θ and X but not on the sites.  Gradients in θ pass through its arrays."""

    # Whether a Newton direction always costs less than it saves; otherwise it is used only where the plain update
    # converges slowly.
    newton_is_cheap: ClassVar[bool] = False

    @abc.abstractmethod
    def condition(self, sites: Sites) -> Q:
        """prior × sites; differentiable in reverse mode, in this Gram and in the sites."""

    def signed(self) -> Gram[Q]:
        """The same, where a program is compiled for sites whose precisions may be negative.

        Laplace's are, where log p is not concave.  Prior × sites need not be a Gaussian then; where it is none, the
        results are NaN.  A structure whose algebra does not depend on the signs leaves this as it is.
        """
        return self

    def condition_mean(self, sites: Sites) -> tuple[Q, Factor]:
        """As `condition_with_factor`, for a method that uses the mean only: `var` may be any upper bound.

        The factor is for `rounding_error` alone.
        """
        return self.condition_with_factor(sites, None)

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[Q, Factor]:
        """As `condition`, with what `covariance` and `pull` can reuse; not for differentiation.

        Only the rows of the mask need correct variances; None stands for all rows.
        """
        return self.condition(sites), None

    def covariance(self, sites: Sites, factor: Factor) -> Covariance[Q]:
        """The covariance of q at these sites."""
        return DifferentiatedCovariance(self, sites)

    def pull(self, sites: Sites, factor: Factor, q: Q, by_q: Q) -> Self:
        """The cotangent of this Gram, given that of q, with the sites held constant."""
        return jax.vjp(lambda gram: gram.condition(sites), self)[1](by_q)[0]

    def rounding_error(self, sites: Sites, q: Q, factor: Factor) -> Array:
        """An estimate of the rounding error of log_z, in nats or as a share; the loop compares it with 1e-3."""
        return jnp.zeros((), q.log_z.dtype)


class Prior(abc.ABC):
    """A prior over functions.

    structure  a method may pair another inference and evidence with it (`methods.Definition.variants`)
    about      a sentence for reports; empty for what needs no mention
    exact      the sites act on f itself: there is no residual variance
    dense      keeps matrices of rows × rows, for which learners check the memory before they start
    one_matrix `gram(X)` is N(mean, K) of one latent value per row, K a matrix, which samplers need; it has the
               attributes `mean` and `K`, and the prior has `given_values`
    host       `gram`, `gram_with_pull`, `posterior` and what they return also compute on NumPy arrays
    """

    structure: ClassVar[str] = ""
    about: ClassVar[str] = ""
    exact: ClassVar[bool] = True
    dense: ClassVar[bool] = False
    one_matrix: ClassVar[bool] = False
    host: ClassVar[bool] = False

    kernel: Kernel
    mean: means.Mean

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A class with another gram is traced, unless it says how that gram computes on NumPy arrays.
        if precedes(cls, "gram", "gram_with_pull"):
            cls.gram_with_pull = Prior.gram_with_pull  # type: ignore[method-assign]
            cls.host = False
        # Another gram has another factor, and another posterior is not the one of the base class.
        if precedes(cls, "gram", "posterior_from") or precedes(cls, "posterior", "posterior_from"):
            cls.posterior_from = Prior.posterior_from  # type: ignore[method-assign]

    @property
    def kernels(self) -> Kernel | list[Kernel]:
        """The kernel, or the list of kernels where each latent function has its own."""
        return self.kernel

    def check(self, columns: int, latents: int) -> None:
        """Raise ValueError if its inputs cannot have so many columns, or its rows so many latent values.

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

    def suits(self, columns: int, latents: int) -> bool:
        """Whether `check` has nothing to refuse."""
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
        """What depends on θ and X but not on the sites."""

    def gram_with_pull(self, X: Array) -> tuple[Any, Callable[[Any], Any]]:
        """`gram`, and the function from its cotangent to the cotangent of this prior."""

        def pull(bar: Gram) -> Prior:
            # The kernel's derivative needs several n×n matrices.  This dependence on `bar` makes XLA compute them again
            # here and not keep them from the start.  (XLA for CPUs drops its barriers too early.)
            first = jax.tree.leaves(bar)[0].ravel()[0]
            later = jax.tree.map(lambda leaf: jnp.where(jnp.isnan(first), jnp.nan, leaf), self)
            return jax.vjp(lambda prior: prior.gram(X), later)[1](bar)[0]

        return self.gram(X), pull

    @property
    def inputs(self) -> np.ndarray | None:
        """The inducing inputs, one per row; None for a structure without them."""
        return None

    def with_inputs(self, Z: np.ndarray) -> Self:
        """The same prior with other inducing inputs."""
        raise ValueError(f"{type(self).__name__} has no inducing inputs to choose; use Model.sparse.")

    def kernel_columns(self, X: Array) -> Array:
        """The columns of X of which the kernel is a function."""
        return X

    def count_series(self, X: Array) -> int:
        """The number of independent series that the rows belong to; 1 where all rows may be correlated."""
        return 1

    def order(self, X: np.ndarray) -> np.ndarray:
        """Numbers of the rows in the order in which rows are appended (`LatentPosterior.tail`); by default as given."""
        return np.arange(len(X))

    def least(self) -> dict[str, float]:
        """By name, the values below which a hyperparameter has no meaning in this structure: learners stay above."""
        return {}

    def start(self, X: Array, sites: Sites) -> Sites:
        """The likelihood's own first sites, as they are best for this structure, where variances count."""
        return sites

    def as_full(self) -> Prior:
        """The same prior as one that has `one_matrix`; itself where there is no such prior."""
        return self

    def given_values(self, X: Array, root: Array, white: Array, counted: Array) -> LatentPosterior:
        """f at new inputs where f(X) = mean + root·white is known at the rows that count; `root` is that of `gram`.

        `counted` is 1 for those rows, else 0.
        """
        raise ValueError(f"{type(self).__name__} has no covariance matrix of all rows; use Model.full.")

    @abc.abstractmethod
    def posterior(self, X: Array, sites: Sites) -> LatentPosterior:
        """q(f), given the training inputs and their sites."""

    def posterior_from(self, gram: Any, factor: Factor, X: Array, sites: Sites) -> LatentPosterior | None:
        """Return `posterior(X, sites)` from gram = gram(X) and the factor of gram.condition_with_factor(sites, …).

        It factorises nothing, and on a dense prior it is called at every evaluation of a search; not for
        differentiation.  None, the default, where a structure has no such form: `posterior` is then called at the end.
        """
        return None


def one_latent(prior: Prior, latents: int) -> None:
    """Raise ValueError if rows have several latent values, where the structure has one per row."""
    if latents > 1:
        raise ValueError(
            f"{type(prior).__name__} has one latent function and the likelihood {latents}; make the model with "
            "Model.full(kernel, likelihood)."
        )
