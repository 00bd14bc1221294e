"""Everything that takes a model and data looks at them first: every door refuses the same mistakes."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import (
    EP,
    VEM,
    VI,
    Data,
    Model,
    Nested,
    Sites,
    evidence,
    kernels,
    likelihoods,
    mcmc,
    means,
    posterior,
    priors,
)
from sitewise.learning.gradient import value_and_grad
from sitewise.model import check
from sitewise.parameters import Trainable, with_values
from sitewise.surface import evidence_surface
from sitewise.types import module

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
SITES = Sites(np.zeros(8), np.ones(8))
GRID = np.array([0.0])

DOORS = {
    "solve": lambda model, data: VI().solve(model, data),
    "solve from sites": lambda model, data: EP().solve(model, data, SITES),
    "evidence": lambda model, data: evidence.ep(model, data, SITES),
    "posterior": lambda model, data: posterior(model, data, SITES),
    "nested": lambda model, data: Nested().fit(model, data),
    "vem": lambda model, data: VEM().fit(model, data),
    "sample": lambda model, data: mcmc.sample(model, data),
    "log_evidence": lambda model, data: mcmc.log_evidence(model, data),
    "sample_points": lambda model, data: mcmc.sample_points(model, data, np.zeros((1, 2))),
    "certificate": lambda model, data: mcmc.evidence_certificate(model, data),
    "value and gradient": lambda model, data: value_and_grad(VI(), evidence.ep)(model, data),
}


def classes(kernel=None):
    return Model.full(kernels.RBF() if kernel is None else kernel, likelihoods.BernoulliProbit())


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_every_door_refuses(door):
    data = Data.of(X, Y)
    with pytest.raises(ValueError, match=r"active_dims names column 7, .* counted from 0 to 1"):
        door(classes(kernels.Linear() + kernels.RBF(active_dims=[7])), data)
    with pytest.raises(ValueError, match=r"labels −1 and 1, or 0 and 1, but holds 1, 2; code"):
        door(classes(), Data.of(X, np.where(Y > 0, 2, 1)))
    with pytest.raises(ValueError, match=r"kernel.lengthscale must be positive and finite, got"):
        door(with_values(classes(), {"kernel.lengthscale": np.float64(np.nan)}), data)
    with pytest.raises(ValueError, match=r"The data must be an object such as Data.of"):
        door(classes(), (X, Y))
    with pytest.raises(ValueError, match=r"The model must be an object such as Model.full"):
        door(None, data)


def test_the_door_of_surfaces_refuses():
    labels = np.where(Y > 0, 2, 1)
    with pytest.raises(ValueError, match="code the two classes"):
        evidence_surface(EP(), evidence.ep, Data.of(X, labels), GRID, GRID)


def refuses(words, model=None, data=None, *sites):
    with pytest.raises(ValueError, match=words):
        check(classes() if model is None else model, Data.of(X, Y) if data is None else data, *sites)


def test_observations_outside_of_the_support():
    for likelihood, y, words in (
        (likelihoods.Ordinal.of(3), 7.0, "class numbers 0 to 2"),
        (likelihoods.Beta(), 1.3, "strictly between 0 and 1"),
        (likelihoods.Poisson(), 0.5, "counts"),
        (likelihoods.Gamma(), -1.0, "positive"),
        (likelihoods.BernoulliLogit(), 0.5, "code the two classes"),
    ):
        refuses(words, Model.full(kernels.RBF(), likelihood), Data.of(X, np.full(8, y)))
    refuses("y must hold one number per row", data=Data.of(X, Y[:, None]))


@pytest.mark.parametrize("coded", [Y, Y > 0, np.where(Y > 0, 1, 0), np.ones(8), np.zeros(8)])
def test_two_classes_are_coded_in_two_ways(coded):
    check(classes(), Data.of(X, coded))


def test_kernels():
    for kernel, words in (
        (kernels.RBF([1.0, 1.0, 1.0]), r"lengthscale has the shape \(3,\) but there are 2 columns"),
        (kernels.RBF([1.0, 1.0], active_dims=[1]), "there are 1 columns"),
        (kernels.RBF(1.0, np.ones(8)), "variance must be one number"),
        (np.ones(2) * kernels.RBF(), "variance must be one number"),
        (kernels.Sum((kernels.RBF(), 1.0)), "A part of Sum must be an object"),
        (kernels.Sum((kernels.RBF(active_dims=[1]),), active_dims=[0]), "active_dims names column 1"),
        (kernels.Sum(), "has no parts"),
    ):
        refuses(words, Model(priors.FullPrior(kernel), likelihoods.BernoulliProbit()))
    for kernel, words in (
        (kernels.RBF, r"the class RBF; make an object of it: RBF\(\)"),
        ("rbf", "must be an object such as RBF"),
    ):
        with pytest.raises(ValueError, match=words):
            classes(kernel)
    with pytest.raises(ValueError, match=r"must be an object such as Constant\(0.5\)"):
        kernels.RBF() + 1.0


@pytest.mark.parametrize("dims", [[-1], [1, 1], [0.5], [True, False], ["a"], "01", []])
def test_active_dims_that_are_no_column_numbers(dims):
    with pytest.raises(ValueError, match="active_dims must list"):
        kernels.RBF(active_dims=dims)


def test_a_kernel_of_scikit_learn_and_one_without_module():
    from sklearn.gaussian_process.kernels import RBF

    class Plain(kernels.RBF):
        pass

    for wrong, words in ((RBF(), "comes from scikit-learn"), (Plain(), "Plain is not a module; decorate")):
        with pytest.raises(ValueError, match=words):
            classes(wrong)


@module
class _Column(means.Mean):
    def __call__(self, X):
        return X[:, :1]


@module
class _Total(likelihoods.Likelihood):
    def log_prob(self, y, f):
        return -jnp.sum((y - f) ** 2)


@module
class _Vector(kernels.Kernel):
    def pairs(self, A, B):
        return jnp.ones(A.shape[0])

    def diag(self, A):
        return jnp.ones(A.shape[0])


def test_shapes_of_what_a_user_defines():
    with pytest.raises(ValueError, match="one number per row"):
        VI().solve(Model.full(kernels.RBF(), likelihoods.BernoulliProbit(), _Column()), Data.of(X, Y))
    refuses("it must be elementwise", Model.full(kernels.RBF(), _Total()))
    refuses("pairs must have the shape", classes(_Vector()))


def test_likelihoods_and_priors_that_do_not_belong_together():
    refuses("make the model with Model.full", Model(priors.FullPrior(kernels.RBF()), likelihoods.Softmax(3)))
    refuses("belongs to the Softmax", Model(priors.ClassPrior(kernels.RBF()), likelihoods.BernoulliProbit()))
    refuses("scale must be one number", Model.full(kernels.RBF(), likelihoods.Gaussian(np.ones(8))))
    refuses("jitter must be", Model.full(kernels.RBF(), likelihoods.Gaussian(), jitter=-1.0))
    refuses("a table with 2 columns", Model.sparse(kernels.RBF(), likelihoods.Gaussian(), np.ones(3)))


def test_data_that_were_changed():
    data = Data.of(X, Y)
    refuses("Some weights are fractions", data=dataclasses.replace(data, weight=np.full(8, 0.5)))
    refuses(r"have the shapes \(8, 2\), \(7,\) and \(8,\)", data=dataclasses.replace(data, y=Y[1:]))
    refuses("X contains NaN", data=dataclasses.replace(data, X=np.nan * X))


def test_sites_of_other_rows():
    refuses(r"nat1 of the sites has the shape \(7,\), not \(8,\)", None, None, Sites(np.zeros(7), np.ones(7)))
    solution = VI().solve(classes(), Data.of(X, Y))
    refuses("give its .sites", None, None, solution)
    with pytest.raises(ValueError, match="sites of the rows are needed"):
        evidence.ep(classes(), Data.of(X, Y), None)


def test_under_jit_shapes_are_checked_and_values_are_not():
    data = jax.tree.map(jnp.asarray, Data.of(X, Y))
    read = jax.jit(lambda model, data: evidence.ep(model, data, SITES))
    with pytest.raises(ValueError, match="active_dims names column 7"):
        read(classes(kernels.RBF(active_dims=[7])), data)
    assert np.isnan(read(with_values(classes(), {"kernel.lengthscale": np.float64(np.nan)}), data))
    with pytest.raises(ValueError, match=r"not \(8,\)"):
        jax.grad(lambda s: evidence.ep(classes(), data, Sites(s, s)))(jnp.ones(7))
    with pytest.raises(ValueError, match="lengthscale has the shape"):
        jax.vmap(lambda scale: evidence.ep(classes(kernels.RBF(scale)), data, SITES))(jnp.ones((2, 3)))


def test_data_are_made_under_jit():
    def value(X, y, weight):
        return evidence.ep(classes(), Data.of(X, y, weight), SITES)

    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 0.2, 1.0])
    for weight in (np.ones(8), weights):
        assert jax.jit(value)(X, Y, weight) == pytest.approx(value(X, Y, weight), rel=1e-10)
    with pytest.raises(ValueError, match="give one y per row"):
        jax.jit(value)(X, Y[1:], weights)
    assert Data.of(X, Y).fractional is False
    assert jax.eval_shape(Data.of, X, Y, weights).fractional is True
    assert jax.eval_shape(lambda X, y: Data.of(X, y), X, Y).fractional is False


def test_a_program_in_single_precision_prints_no_warning():
    with jax.enable_x64(False), warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(lambda y: Data.of(X, y))(jnp.asarray(Y, jnp.float32))
        jax.jit(Data.of)(X.astype(np.float32), Y)
        data = jax.tree.map(jnp.asarray, Data.of(X.astype(np.float32), Y))
        jax.jit(lambda data: evidence.elbo(classes(), data, VI().solve(classes(), data).sites))(data)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.full((8, 2), "a"), r"X must hold numbers, .* but has the entry 'a'"),
        (np.full((8, 2), np.datetime64("2020-01-01")), "encode text and dates"),
        ([[1.0, 2.0], [1.0]], "in rows of the same length"),
        (X + 1j, "X must hold numbers"),
        (np.ma.MaskedArray(X, X > 0), "masked"),
    ],
)
def test_inputs_that_are_no_numbers(wrong, words):
    with pytest.raises(ValueError, match=words):
        Data.of(wrong, Y)


def test_new_rows_and_observations():
    q = posterior(classes(), Data.of(X, Y), SITES)
    for bad, words in ((X[:, :1], "same columns"), (X[0], "same columns"), (np.nan * X, "X contains NaN")):
        with pytest.raises(ValueError, match=words):
            q.f(bad)
    with pytest.raises(ValueError, match="code the two classes"):
        q.log_density(X, np.where(Y > 0, 2, 1))
    with pytest.raises(ValueError, match="give one y per row"):
        q.log_density(X, Y[1:])
    assert np.allclose(q.log_density(X, Y), q.log_density(X, Y > 0))


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match=r"no parameter 'kernel.lenghtscale'"):
        with_values(classes(), {"kernel.lenghtscale": 2.0})


def test_one_name_needs_no_tuple():
    assert Trainable.of(classes(), fixed="kernel.variance") == Trainable.of(classes(), fixed=("kernel.variance",))


def test_a_posterior_needs_sites():
    with pytest.raises(ValueError, match="sites"):
        posterior(classes(), Data.of(X, Y), None)
