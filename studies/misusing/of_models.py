"""Mistakes in kernels, means, likelihoods, priors and sites."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.gaussian_process import kernels as other_kernels

from misusing.kinds import LOW_LEVEL, QUICK, Change, add
from misusing.scenes import ALL, COLUMNS, SCALAR, Scene
from sitewise import EP, VI, Laplace, Sites, kernels, likelihoods, means, priors
from sitewise.parameters import values, with_values
from sitewise.types import module

DOORS = (*LOW_LEVEL, "estimator")
ONE_LATENT = tuple(name for name in ALL if name != "softmax")
RANDOM = np.random.Generator


class PlainKernel(kernels.Kernel):
    """Without @module."""

    def pairs(self, A: Any, B: Any) -> Any:
        return jnp.ones((A.shape[0], B.shape[0]))

    def diag(self, A: Any) -> Any:
        return jnp.ones(A.shape[0])


class PlainLikelihood(likelihoods.Likelihood):
    """Without @module."""

    def log_prob(self, y: Any, f: Any) -> Any:
        return -((y - f) ** 2)


class DuckKernel:
    """Has the methods of a kernel, and is none."""

    def pairs(self, A: Any, B: Any) -> Any:
        return jnp.ones((A.shape[0], B.shape[0]))

    diag = pairs


@module
class ColumnMean(means.Mean):
    """A table of one column, where one number per row is needed."""

    def __call__(self, X: Any) -> Any:
        return X[:, :1]


@module
class TotalMean(means.Mean):
    """One number, where one per row is needed."""

    def __call__(self, X: Any) -> Any:
        return X.sum()


@module
class RowKernel(kernels.Kernel):
    """One number per row, where a matrix is needed."""

    def pairs(self, A: Any, B: Any) -> Any:
        return jnp.ones(A.shape[0])

    def diag(self, A: Any) -> Any:
        return jnp.ones(A.shape[0])


@module
class TotalLikelihood(likelihoods.Likelihood):
    """The sum over rows, where one number per row is needed."""

    def log_prob(self, y: Any, f: Any) -> Any:
        return -jnp.sum((y - f) ** 2)


def _kernel(make: Any) -> Change:
    return lambda scene, rng: scene.but(kernel=make)


def _kernel_by_rows(make: Any) -> Change:
    return lambda scene, rng: scene.but(kernel=lambda: make(len(scene.X)))


add(
    "kernels",
    {
        "the class of a kernel": _kernel(lambda: kernels.RBF),
        "the name of a kernel": _kernel(lambda: "RBF"),
        "a number for the kernel": _kernel(lambda: 1.0),
        "a function for the kernel": _kernel(lambda: lambda A, B: A @ B.T),
        "a kernel of scikit-learn": _kernel(other_kernels.RBF),
        "a class without @module": _kernel(PlainKernel),
        "an object that only looks like a kernel": _kernel(DuckKernel),
        "a kernel whose matrix is a vector": _kernel(RowKernel),
        "a kernel without pairs": _kernel(kernels.Kernel),
        "a likelihood for the kernel": _kernel(likelihoods.Gaussian),
        "a kernel plus a number": _kernel(lambda: kernels.RBF() + 1.0),
        "a number plus a kernel": _kernel(lambda: 1.0 + kernels.RBF()),
        "a kernel plus the class of one": _kernel(lambda: kernels.RBF() + kernels.Linear),
        "a kernel plus one of scikit-learn": _kernel(lambda: kernels.RBF() + other_kernels.RBF()),
        "a kernel times a text": _kernel(lambda: kernels.RBF() * "2"),
        "a kernel times −1": _kernel(lambda: kernels.RBF() * -1.0),
        "a kernel times two numbers": _kernel(lambda: kernels.RBF() * np.array([1.0, 2.0])),
        "a sum with no kernels": _kernel(kernels.Sum),
        "a sum with a number among its parts": _kernel(lambda: kernels.Sum((kernels.RBF(), 1.0))),
        "a scaled kernel without a base": _kernel(lambda: kernels.Scaled(None, 2.0)),
        "a misspelt setting of a kernel": _kernel(lambda: kernels.RBF(lengthscales=1.0)),
        "a lengthscale of zero": _kernel(lambda: kernels.RBF(0.0)),
        "a negative lengthscale": _kernel(lambda: kernels.RBF(-1.0)),
        "a lengthscale of NaN": _kernel(lambda: kernels.RBF(np.nan)),
        "a text for the lengthscale": _kernel(lambda: kernels.RBF("long")),
        "None for the lengthscale": _kernel(lambda: kernels.RBF(None)),
        "a lengthscale too many": _kernel(lambda: kernels.Matern52([1.0, 1.0, 1.0])),
        "no lengthscales": _kernel(lambda: kernels.Matern52([])),
        "a table of lengthscales": _kernel(lambda: kernels.Matern52(np.ones((2, 2)))),
        "lengthscales of active columns for all": _kernel(lambda: kernels.RBF([1.0, 1.0], active_dims=(1,))),
        "a variance for each column": _kernel(lambda: kernels.RBF(1.0, [1.0, 2.0])),
        "a variance for each row": _kernel_by_rows(lambda rows: kernels.RBF(1.0, np.linspace(1, 2, rows))),
        "a lengthscale for each row": _kernel_by_rows(lambda rows: kernels.RBF(np.linspace(1, 2, rows))),
        "a period too many": _kernel(lambda: kernels.Periodic(1.0, [1.0, 2.0, 3.0])),
        "an offset for each row": _kernel_by_rows(lambda rows: kernels.Constant(np.linspace(1, 2, rows))),
        "a linear variance too many": _kernel(lambda: kernels.Linear([1.0, 1.0, 1.0])),
    },
    DOORS,
)
add(
    "columns of a kernel",
    {
        "active_dims beyond the columns": _kernel(lambda: kernels.RBF(active_dims=[COLUMNS])),
        "active_dims far beyond the columns": _kernel(lambda: kernels.RBF(active_dims=[0, 7])),
        "active_dims beyond the columns, in a sum": _kernel(lambda: kernels.Linear() + kernels.RBF(active_dims=[2])),
        "active_dims beyond the columns, in a product": _kernel(
            lambda: kernels.RBF(active_dims=[2]) * kernels.Linear()
        ),
        "active_dims beyond the columns, scaled": _kernel(lambda: 2.0 * kernels.RBF(active_dims=[2])),
        "active_dims of active_dims": _kernel(lambda: kernels.Sum((kernels.RBF(active_dims=[1]),), active_dims=[1])),
        "negative active_dims": _kernel(lambda: kernels.RBF(active_dims=[-1])),
        "repeated active_dims": _kernel(lambda: kernels.RBF(active_dims=[1, 1])),
        "active_dims of fractions": _kernel(lambda: kernels.RBF(active_dims=[0.5])),
        "active_dims as a mask": _kernel(lambda: kernels.RBF(active_dims=[True, False])),
        "active_dims as names": _kernel(lambda: kernels.RBF(active_dims=["age"])),
        "active_dims as a text": _kernel(lambda: kernels.RBF(active_dims="01")),
        "empty active_dims": _kernel(lambda: kernels.RBF(active_dims=[])),
    },
    DOORS,
)


def _model(change: Any) -> Change:
    return lambda scene, rng: scene.but(change_model=change)


def _first_kernel(model: Any, **changes: Any) -> Any:
    """The model with another lengthscale in every kernel that has one, put in without the checks of a constructor."""
    names = [name for name in values(model) if name.endswith("lengthscale")]
    return with_values(model, {name: value for name in names for value in changes.values()})


add(
    "values put in",
    {
        "a lengthscale of NaN put in": _model(lambda m: _first_kernel(m, value=np.float64(np.nan))),
        "a negative lengthscale put in": _model(lambda m: _first_kernel(m, value=np.float64(-1.0))),
        "an infinite lengthscale put in": _model(lambda m: _first_kernel(m, value=np.float64(np.inf))),
        "a misspelt name put in": _model(lambda m: with_values(m, {"kernel.lenghtscale": 2.0})),
        "three lengthscales put in": _model(lambda m: _first_kernel(m, value=np.ones(3))),
        "a likelihood replaced by its class": _model(lambda m: dataclasses.replace(m, likelihood=type(m.likelihood))),
        "a prior replaced by a kernel": _model(lambda m: dataclasses.replace(m, prior=kernels.RBF())),
        "a kernel replaced by None": _model(
            lambda m: dataclasses.replace(m, prior=dataclasses.replace(m.prior, kernel=None))
        ),
        "the class Model": _model(type),
        "the prior where the model is needed": _model(lambda m: m.prior),
        "None for the model": _model(lambda m: None),
    },
    LOW_LEVEL,
)
add(
    "likelihoods",
    {
        "several latent functions for one": _model(lambda m: dataclasses.replace(m, likelihood=likelihoods.Softmax(3))),
        "kernels of classes for one latent function": _model(
            lambda m: dataclasses.replace(m, prior=priors.ClassPrior(kernels.RBF()))
        ),
    },
    LOW_LEVEL,
    ONE_LATENT,
)
add(
    "likelihoods",
    {
        "one latent function for several": _model(
            lambda m: dataclasses.replace(m, prior=priors.FullPrior(kernels.RBF()))
        ),
        "a kernel too few for the classes": _kernel(lambda: [kernels.RBF(), kernels.RBF()]),
        "kernels of different forms for the classes": _kernel(lambda: [kernels.RBF(), kernels.RBF(), kernels.Linear()]),
        "more classes in y than in the likelihood": lambda scene, rng: scene.but(
            likelihood=lambda: likelihoods.Softmax(2)
        ),
        "a mean common to all classes": lambda scene, rng: scene.but(mean=lambda: means.Constant(1.0)),
    },
    QUICK,
    ("softmax",),
    sparse=False,
)
add("kernels", {"a list of kernels": _kernel(lambda: [kernels.RBF(), kernels.RBF()])}, LOW_LEVEL, ONE_LATENT)


def _likelihood(make: Any) -> Change:
    return lambda scene, rng: scene.but(likelihood=make)


def _noise_by_rows(scene: Scene, rng: RANDOM) -> Scene:
    return scene.but(likelihood=lambda: likelihoods.Gaussian(np.linspace(0.1, 1, len(scene.X))))


class _NoLikelihood:
    """Has nothing of one."""


add(
    "likelihoods",
    {
        "the class of a likelihood": _likelihood(lambda: likelihoods.Gaussian),
        "the name of a likelihood": _likelihood(lambda: "gaussian"),
        "None for the likelihood": _likelihood(lambda: None),
        "a kernel for the likelihood": _likelihood(kernels.RBF),
        "a likelihood without @module": _likelihood(PlainLikelihood),
        "a likelihood that adds up its rows": _likelihood(TotalLikelihood),
        "a likelihood without log_prob": _likelihood(likelihoods.Likelihood),
        "an object that is no likelihood": _likelihood(_NoLikelihood),
        "a negative scale of the noise": _likelihood(lambda: likelihoods.Gaussian(-0.1)),
        "a scale of the noise for each row": _noise_by_rows,
        "two scales of the noise": _likelihood(lambda: likelihoods.StudentT([0.1, 0.2])),
        "a number of points for the quadrature": _likelihood(lambda: likelihoods.StudentT(quadrature=20)),
        "an unknown link": _likelihood(lambda: likelihoods.Poisson(link="identity")),
        "an exposure that y does not have": _likelihood(lambda: likelihoods.Poisson(exposure=True)),
        "half a class": _likelihood(lambda: likelihoods.Softmax(2.5)),
        "two ordered classes": _likelihood(lambda: likelihoods.Ordinal.of(2)),
        "a misspelt setting of a likelihood": _likelihood(lambda: likelihoods.Gaussian(variance=1.0)),
    },
    LOW_LEVEL,
    ("gaussian", "student_t"),
)
add(
    "likelihoods",
    {
        "Laplace's method without curvature": lambda scene, rng: scene.but(
            likelihood=lambda: likelihoods.LaplaceNoise(0.3)
        ).setting(inference=Laplace()),
    },
    QUICK,
    ("gaussian", "student_t"),
)


def _mean(make: Any) -> Change:
    return lambda scene, rng: scene.but(mean=make)


def _mean_by_rows(make: Any) -> Change:
    return lambda scene, rng: scene.but(mean=lambda: make(len(scene.X)))


add(
    "means",
    {
        "a number for the mean": _mean(lambda: 3.0),
        "the class of a mean": _mean(lambda: means.Constant),
        "a function for the mean": _mean(lambda: lambda X: X[:, 0]),
        "a kernel for the mean": _mean(kernels.RBF),
        "an infinite mean": _mean(lambda: means.Constant(np.inf)),
        "a mean for each row": _mean_by_rows(lambda rows: means.Constant(np.linspace(0, 1, rows))),
        "two means": _mean(lambda: means.Constant([0.0, 1.0])),
        "a slope too many": _mean(lambda: means.Linear([1.0, 2.0, 3.0])),
        "an offset for each row of a linear mean": _mean_by_rows(lambda rows: means.Linear(0.0, np.ones(rows))),
        "a mean without __call__": _mean(means.Mean),
        "a mean that returns a column": _mean(ColumnMean),
        "a mean that returns one number": _mean(TotalMean),
    },
    (*LOW_LEVEL, "estimator"),
    ONE_LATENT,
)


def _Z(make: Any) -> Change:
    return lambda scene, rng: scene.but(Z=make(scene.Z))


add(
    "inducing inputs",
    {
        "inducing inputs with a column too few": _Z(lambda Z: Z[:, :1]),
        "inducing inputs with a column too many": _Z(lambda Z: np.column_stack([Z, Z])),
        "inducing inputs as a vector": _Z(lambda Z: Z[0]),
        "no inducing inputs": _Z(lambda Z: Z[:0]),
        "a missing inducing input": _Z(lambda Z: np.where(Z.min() < Z, Z, np.nan)),
        "an infinite inducing input": _Z(lambda Z: np.where(Z.min() < Z, Z, np.inf)),
        "text for the inducing inputs": _Z(lambda Z: np.full(Z.shape, "a")),
        "inducing inputs with three axes": _Z(lambda Z: Z[:, :, None]),
        "a number for the inducing inputs": _Z(lambda Z: 20),
    },
    DOORS,
    ONE_LATENT,
    full=False,
)
add(
    "inducing inputs",
    {"inducing inputs as JAX arrays with NaN": _Z(lambda Z: jnp.asarray(np.where(Z.min() < Z, Z, np.nan)))},
    LOW_LEVEL,
    ONE_LATENT,
    full=False,
)


def _jitter(value: Any) -> Change:
    return lambda scene, rng: scene.but(jitter=value)


add(
    "jitter",
    {
        "a negative jitter": _jitter(-1.0),
        "a jitter of NaN": _jitter(np.nan),
        "an infinite jitter": _jitter(np.inf),
        "a text for the jitter": _jitter("small"),
        "a jitter for each row": lambda scene, rng: scene.but(jitter=np.full(len(scene.X), 1e-6)),
    },
    (*LOW_LEVEL, "estimator"),
)


def _sites(change: Any) -> Change:
    return lambda scene, rng: scene.but(change_sites=change)


def _each(change: Any) -> Change:
    """Both arrays of the sites of a solution, changed."""
    return _sites(lambda solution: Sites(*(change(np.asarray(a)) for a in solution.sites)))


_FROM = ("Inference.solve from sites", "Evidence", "posterior")
add(
    "sites",
    {
        "the solution where its sites are needed": _sites(lambda solution: solution),
        "a pair of arrays for the sites": _sites(lambda solution: tuple(solution.sites)),
        "the precisions alone": _sites(lambda solution: solution.sites.prec),
        "sites of fewer rows": _each(lambda a: a[..., 1:]),
        "sites of more rows": _each(lambda a: np.concatenate([a, a], axis=-1)),
        "sites as columns": _each(lambda a: a[..., None]),
        "one site for all rows": _each(lambda a: a[..., :1]),
        "a number for the sites": _each(lambda a: 1.0),
        "precisions of fewer rows": _sites(lambda s: Sites(s.sites.nat1, s.sites.prec[..., 1:])),
    },
    _FROM,
)
add("sites", {"sites of NaN to start from": _each(lambda a: np.nan * a)}, ("Inference.solve from sites",))
add(
    "sites",
    {"no sites": _sites(lambda solution: None), "the class Sites": _sites(lambda solution: Sites)},
    ("Evidence", "posterior"),
)
add(
    "settings of inference",
    {
        "the class of a method": lambda scene, rng: scene.setting(inference=VI),
        "no steps": lambda scene, rng: scene.setting(inference=VI(max_steps=0)),
        "a negative tolerance": lambda scene, rng: scene.setting(inference=VI(tol=-1.0)),
        "damping of 2": lambda scene, rng: scene.setting(inference=VI(damping=2.0)),
        "no damping factor": lambda scene, rng: scene.setting(inference=VI(damping=0.0)),
    },
    ("Inference.solve", "Nested.fit"),
    SCALAR,
)
add(
    "settings of inference",
    {
        "a power of 2": lambda scene, rng: scene.setting(inference=EP(power=2.0)),
        "a power of 0": lambda scene, rng: scene.setting(inference=EP(power=0.0)),
    },
    ("Inference.solve", "Nested.fit"),
    ("gaussian", "probit", "poisson"),
)
