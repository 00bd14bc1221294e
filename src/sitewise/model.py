"""Model: a Gaussian process prior and a likelihood; and the check that a model, data and sites fit together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitewise import means
from sitewise.arrays.spread import is_spread
from sitewise.checks import known, must_be, shown
from sitewise.data import Data, table
from sitewise.kernels import Kernel, Sum
from sitewise.likelihoods import Likelihood, TwoFunctions
from sitewise.parameters import walk
from sitewise.parts import Part
from sitewise.priors import (
    ClassPrior,
    FullPrior,
    MarkovPrior,
    PrecisionPrior,
    PrecisionTwoFunctionPrior,
    Prior,
    SparseClassPrior,
    SparsePrior,
    SparseTwoFunctionPrior,
    TwoFunctionPrior,
)
from sitewise.sites import Sites
from sitewise.types import fixed, module

SPARSE_JITTER = 1e-9  # as a share of the mean variance of the inducing variables


@module
class Model:
    """A Gaussian process prior with a likelihood; make it by `Model.full`, `sparse`, `markov` or `latent`.

    Parameters
    ----------
    prior : Prior
        Kernel and mean, and how the prior is computed: one of `sitewise.priors`.
    likelihood : Likelihood
        One of `sitewise.likelihoods`.

    Examples
    --------
    >>> from sitewise import Data, Model, VI, evidence, kernels, likelihoods
    >>> model = Model.full(kernels.RBF(2.0), likelihoods.Poisson())
    >>> data = Data.of([[0.0], [1.0], [2.0]], [1, 0, 3])
    >>> sites = VI().solve(model, data).sites
    >>> print(f"{evidence.ep(model, data, sites):.3f}")
    -5.333

    See Also
    --------
    resolve : learners of hyperparameters.
    posterior : predictions.
    """

    prior: Prior = fixed()
    likelihood: Likelihood = fixed()

    def one_function(self) -> Model:
        """Return the model with a varying parameter held at its starting value; itself if no parameter varies."""
        return Model(self.prior.one_function(), self.likelihood.one_function())

    @property
    def kernels(self) -> Kernel | list[Kernel]:
        """The kernel, or a list with one kernel per class."""
        return self.prior.kernels

    @staticmethod
    def full(
        kernel: Kernel | Sequence[Kernel],
        likelihood: Likelihood,
        mean: means.Mean | Sequence[means.Mean | None] | None = None,
        jitter: float = 0.0,
    ) -> Model:
        """Return a full GP: exact covariance between all rows, O(n³).

        Parameters
        ----------
        kernel : Kernel or sequence of Kernel
            The covariance function.  A softmax has one latent function per class, and takes one kernel for all
            classes or a list with one kernel per class.  A likelihood of two latent functions
            (`likelihoods.VaryingParameter`) takes one kernel for both functions or a list of two, whose parameters are
            learned separately.
        likelihood : Likelihood
            One of `sitewise.likelihoods`.
        mean : Mean or sequence of Mean, default=None
            One of `sitewise.means`; None is zero.  A likelihood of two latent functions takes a list of two, and None
            for the second function is a learned constant.
        jitter : float, default=0.0
            Added to the diagonal of the covariance matrix of the rows.
        """
        _check_likelihood(likelihood)
        if isinstance(likelihood, TwoFunctions):
            return Model(TwoFunctionPrior.of(kernel, mean, likelihood.start_level(), jitter), likelihood)
        if isinstance(mean, list | tuple):
            raise ValueError("Only a likelihood of two latent functions takes a list of means; give one mean.")
        if likelihood.latents > 1:
            if mean is not None and not isinstance(mean, means.Zero):
                raise ValueError("A common mean of all classes has no effect in a softmax; leave mean at None.")
            return Model(ClassPrior.of(kernel, likelihood.latents, jitter), likelihood)
        if isinstance(kernel, list | tuple):
            raise ValueError(
                "Only a Softmax takes a list of kernels, one per class, and VaryingParameter a list of two; give one "
                "kernel."
            )
        return Model(FullPrior(_kernel(kernel), _mean(mean), jitter), likelihood)

    @staticmethod
    def sparse(
        kernel: Kernel | Sequence[Kernel],
        likelihood: Likelihood,
        Z: ArrayLike,
        mean: means.Mean | Sequence[means.Mean | None] | None = None,
        jitter: float = SPARSE_JITTER,
        **storage: int,
    ) -> Model:
        """Return a sparse GP with inducing inputs, O(nm²).

        The C classes of a Softmax share the kernel and Z, at a cost of O(n(Cm)²).  Two latent functions per row share
        Z, and each has its own kernel and mean, as in `Model.full`.

        Parameters
        ----------
        kernel : Kernel or sequence of Kernel
            The covariance function, or a list of two for a likelihood of two latent functions.
        likelihood : Likelihood
            One of `sitewise.likelihoods`.
        Z : array of shape (m, n_columns)
            The inducing inputs, such as `inducing.select(X, count=300)`.
        mean : Mean or sequence of Mean, default=None
            One of `sitewise.means`; None is zero.  A list of two as in `Model.full`.
        jitter : float, default=1e-09
            Added to the diagonal of the covariance matrix of Z, as a share of its mean.
        **storage
            `keep` and `block` of `priors.SparsePrior`: how much of the n × m matrix is kept in memory.
        """
        _check_likelihood(likelihood)
        if isinstance(likelihood, TwoFunctions):
            if storage:
                raise ValueError(
                    f"With two latent functions all features are stored; leave {' and '.join(storage)} out."
                )
            pair = TwoFunctionPrior.of(kernel, mean, likelihood.start_level())
            Z = table(Z, "Z")
            return Model(SparseTwoFunctionPrior(pair.kernel, pair.second, pair.mean, jitter, Z), likelihood)
        if isinstance(mean, list | tuple):
            raise ValueError("Only a likelihood of two latent functions takes a list of means; give one mean.")
        if isinstance(kernel, list | tuple):
            raise ValueError("In a sparse GP the classes of a Softmax share one kernel; give no list.")
        kind = SparsePrior if likelihood.latents == 1 else SparseClassPrior
        return Model(kind(_kernel(kernel), table(Z, "Z"), _mean(mean), jitter, **storage), likelihood)

    @staticmethod
    def markov(
        kernel: Kernel,
        likelihood: Likelihood,
        mean: means.Mean | None = None,
        harmonics: int = 7,
        series: int | None = None,
    ) -> Model:
        """Return a full GP of one input column, time, as a state-space model (Markov chain): O(n) instead of O(n³).

        Parameters
        ----------
        kernel : Kernel
            A Matérn kernel, Periodic, Cosine, Constant or Linear, or a sum or product of these kernels.
        likelihood : Likelihood
            One of `sitewise.likelihoods`.
        mean : Mean, default=None
            One of `sitewise.means`; None is zero.
        harmonics : int, default=7
            The number of cosines by which a Periodic kernel is approximated.
        series : int, default=None
            The number of the column that names the series, if the rows belong to several; None for one series.
        """
        _check_likelihood(likelihood)
        _refuse_two_functions(likelihood)
        return Model(MarkovPrior(_kernel(kernel), _mean(mean), harmonics, series), likelihood)

    @staticmethod
    def latent(
        parts: Part | Sequence[Part] | Sequence[Sequence[Part]],
        likelihood: Likelihood,
        mean: means.Mean | Sequence[means.Mean | None] | None = None,
    ) -> Model:
        """Return a latent Gaussian model: a sum of maps, groups, areas, trends and regressors by a sparse precision.

        All inferences, evidences and gradients are exact for this prior.  The cost depends on the fill of a sparse
        Cholesky factor: about O(n^1.5) for a map of n places, O(n) for a trend.

        Parameters
        ----------
        parts : Part, sequence of Part, or two sequences
            The parts of `sitewise.parts`, such as `[Map((0, 1)), Levels(2), Linear((3, 4)), Constant()]`.  A likelihood
            of two latent functions (`likelihoods.VaryingParameter`) takes two lists, one per function, such as
            `[[Series(0), Levels(1)], [Series(0)]]`.
        likelihood : Likelihood
            One of `sitewise.likelihoods`.
        mean : Mean or sequence of Mean, default=None
            One of `sitewise.means`; None is zero.  A `Constant` part is an intercept with a prior.  A likelihood of two
            latent functions takes a list of two, and None for the second function is a learned constant.
        """
        _check_likelihood(likelihood)
        if isinstance(likelihood, TwoFunctions):
            if not isinstance(parts, list | tuple) or len(parts) != 2 or any(isinstance(one, Part) for one in parts):
                raise ValueError(
                    "The likelihood has two latent functions; give two lists of parts, one per function, as in "
                    "Model.latent([[Series(0)], [Levels(1)]], likelihood)."
                )
            both = [_sum_of_parts(one) for one in parts]
            pair = TwoFunctionPrior.of(both, mean, likelihood.start_level())
            return Model(PrecisionTwoFunctionPrior(pair.kernel, pair.second, pair.mean), likelihood)
        if isinstance(mean, list | tuple):
            raise ValueError("Only a likelihood of two latent functions takes a list of means; give one mean.")
        return Model(PrecisionPrior(_sum_of_parts(parts), _mean(mean)), likelihood)


def _sum_of_parts(value: Any) -> Sum:
    """Return the sum of one part, or of a sequence of parts."""
    each = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not each:
        raise ValueError("Model.latent needs at least one part, such as Map((0, 1)) of sitewise.parts.")
    if any(isinstance(one, list | tuple) for one in each):
        raise ValueError("Only a likelihood of two latent functions takes two lists of parts; give one list.")
    for part in each:
        must_be(part, Part, "A part of a latent function", "Map((0, 1)), a part of sitewise.parts")
    return Sum(each)


def _check_likelihood(value: Any) -> None:
    must_be(value, Likelihood, "The likelihood", "Gaussian(), a likelihood of sitewise.likelihoods")


def _refuse_two_functions(likelihood: Likelihood) -> None:
    if likelihood.functions:
        raise ValueError(
            "A likelihood of two latent functions needs a full or sparse GP or a sum of parts; use Model.full, "
            "Model.sparse or Model.latent."
        )


def _kernel(value: Any) -> Kernel:
    return must_be(value, Kernel, "The kernel", "RBF(), a kernel of sitewise.kernels")


def _mean(value: Any) -> means.Mean:
    given = means.Zero() if value is None else value
    return must_be(given, means.Mean, "The mean", "Constant(), a mean of sitewise.means")


def check(model: Model, data: Data, sites: Sites | None = None, needs_sites: bool = False) -> None:
    """Raise ValueError if a model, data and sites do not fit together; the message says what to do.

    Every public function of a model and data calls `check` once, before computing.  Shapes are always checked; values
    are checked if they are known, which excludes calls inside `jit`, `grad` or `vmap`.
    """
    must_be(model, Model, "The model", "Model.full(RBF(), Gaussian())")
    must_be(data, Data, "The data", "Data.of(X, y)")
    must_be(model.prior, Prior, "The prior", "FullPrior(RBF()), which Model.full makes")
    _check_likelihood(model.likelihood)
    data.check()
    if model.prior.dense and is_spread(data):
        raise ValueError(
            "The data are spread over several devices, but a full GP needs all rows on one device; use Model.sparse, "
            "or do not shard the data."
        )
    for parameter, value in walk(model):
        if known(value):
            numbers = np.asarray(value)
            problem = parameter.support.problem(numbers) if numbers.dtype.kind in "biuf" else "must hold numbers"
            if problem:
                raise ValueError(f"{parameter.name} {problem}, got {shown(value)}.")
    latents = model.likelihood.latents
    model.prior.check(data.X.shape[1], latents)
    if known(data.X):
        model.prior.check_rows(np.asarray(data.X))
    model.likelihood.check_shape(np.shape(data.y))
    if known(data.y):
        model.likelihood.check(data.y)
    if sites is not None or needs_sites:
        _check_sites(sites, model.prior.site_shape(data.rows, latents))


def _check_sites(sites: Any, wanted: tuple[int, ...]) -> None:
    if not isinstance(sites, Sites):
        hint = "give its .sites" if isinstance(getattr(sites, "sites", None), Sites) else "give Sites(nat1, prec)"
        raise ValueError(f"The sites of the rows are needed, got {shown(sites)}; {hint} instead.")
    for name, shape in (("nat1", np.shape(sites.nat1)), ("prec", np.shape(sites.prec))):
        if shape != wanted:
            raise ValueError(f"{name} of the sites has the shape {shape}, not {wanted}; give the sites of these data.")
