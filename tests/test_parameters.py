import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sitewise import Model, kernels, likelihoods, means
from sitewise.arrays.engine import is_host
from sitewise.hyperpriors import Gamma, LogNormal, Normal
from sitewise.parameters import Trainable, values, walk, with_values
from sitewise.process.precision import working_precision
from sitewise.types import ArrayField, bounded, module, ordered, simplex

MODEL = Model.full(
    kernels.Matern52([0.5, 2.0], 3.0) + kernels.Linear(0.7), likelihoods.StudentT(0.2, 4.0), means.Constant(-1.0)
)


@module
class Odd(means.Mean):
    """A mean with one parameter of every new kind."""

    share: ArrayField = bounded(0.0, 1.0, default=0.2)
    weights: ArrayField = simplex(default=(0.2, 0.5, 0.3))
    cuts: ArrayField = ordered(default=(-1.0, 0.5))

    def __call__(self, X):
        return X[:, 0] * (self.share + self.weights[0] * self.cuts[1])


ODD = Model.full(kernels.RBF(), likelihoods.Gaussian(0.3), Odd())
PAIR = kernels.RBF(0.5, 2.0) + kernels.Matern52(0.9, 1.5)
TIED = Model.full(PAIR, likelihoods.StudentT(0.2, 4.0), means.Constant(-1.0))
LENGTHSCALES = ("kernel.parts.0.lengthscale", "kernel.parts.1.lengthscale")


def test_names_are_paths():
    assert set(values(MODEL)) == {
        "kernel.parts.0.lengthscale", "kernel.parts.0.variance", "kernel.parts.1.variance",
        "mean.value", "likelihood.scale", "likelihood.df",
    }  # fmt: skip


@pytest.mark.parametrize("transform", ["log", "softplus"])
def test_vector_round_trip(transform):
    trainable = Trainable.of(MODEL, train=("likelihood.df",), transform=transform)
    vector = trainable.to_vector(MODEL)
    assert vector.shape == (7,) == (len(trainable.labels),)
    back = values(trainable.from_vector(MODEL, vector))
    for name, value in values(MODEL).items():
        np.testing.assert_allclose(back[name], value, rtol=1e-12)


def test_held_by_default_by_name_and_by_pattern():
    assert "likelihood.df" not in Trainable.of(MODEL).labels
    assert Trainable.of(MODEL, fixed=("kernel.*",)).labels == ["mean.value", "likelihood.scale"]


def test_values_can_be_replaced_and_models_are_pytrees():
    other = with_values(MODEL, {"likelihood.scale": 9.0})
    assert values(other)["likelihood.scale"] == 9.0 and values(MODEL)["likelihood.scale"] == 0.2
    assert len(jax.tree.leaves(MODEL)) == 6


def test_a_parameter_shows_itself_in_a_few_words():
    shown = {p.name: repr(p) for p, _ in walk(MODEL)}
    assert shown["kernel.parts.0.lengthscale"] == "<kernel.parts.0.lengthscale: positive, shape (2,)>"
    assert shown["likelihood.df"] == "<likelihood.df: positive, held fixed>"
    assert "weights: simplex, shape (3,)" in repr(Trainable.of(ODD))


# -- parameters of every kind ------------------------------------------------------------------------------


def test_a_simplex_has_one_number_less_than_values():
    trainable = Trainable.of(ODD, fixed=("kernel.*", "likelihood.*"))
    weights = next(p for p in trainable.parameters if p.name == "mean.weights")
    assert (weights.size, weights.raw_size, weights.raw_shape) == (3, 2, (2,))
    assert trainable.size == 5 == len(trainable.to_vector(ODD)) == len(trainable.labels) == len(trainable.limits({}))
    for name, value in trainable.constrained(trainable.to_vector(ODD)).items():
        np.testing.assert_allclose(value, values(ODD)[name], rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "trainable"),
    [
        (ODD, Trainable.of(ODD)),
        (MODEL, Trainable.of(MODEL, transform="softplus")),
        (TIED, Trainable.of(TIED, tied=(LENGTHSCALES, ("kernel.parts.*.variance", "likelihood.scale")))),
    ],
    ids=["odd", "softplus", "tied"],
)
def test_pull_is_the_vector_jacobian_product_of_from_vector(model, trainable):
    with working_precision():
        rng = np.random.default_rng(0)
        vector = trainable.to_vector(model) + 0.1 * rng.normal(size=trainable.size)
        bar = jax.tree.map(lambda leaf: rng.normal(size=np.shape(leaf)), model)
        at, pull = jax.vjp(lambda v: trainable.from_vector(jax.tree.map(jnp.asarray, model), v), jnp.asarray(vector))
        wanted = pull(jax.tree.map(jnp.asarray, bar))[0]
        found = trainable.pull(vector, bar)
    assert is_host(found)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    for name, value in values(trainable.from_vector(model, vector)).items():
        np.testing.assert_allclose(value, values(at)[name], rtol=1e-12)


def test_the_density_of_the_vector_has_the_jacobian_of_every_kind():
    """log p(vector) = log p(θ) + log |∂θ/∂vector|, the determinant by JAX; the last share is given by the others."""
    trainable = Trainable.of(ODD, fixed=("mean.cuts",))
    priors = trainable.priors({"mean.*": Gamma(2.0, 1.0), "kernel.variance": LogNormal(), "likelihood.*": LogNormal()})

    def free(vector):
        named = dict(trainable.constrained(vector))
        named["mean.weights"] = named["mean.weights"][:-1]
        return jnp.concatenate([jnp.ravel(v) for v in named.values()])

    with working_precision():
        vector = jnp.asarray(trainable.to_vector(ODD))
        named = trainable.constrained(vector)
        wanted = np.linalg.slogdet(jax.jacobian(free)(vector))[1] - jnp.log(named["kernel.lengthscale"])
        wanted += sum(jnp.sum(prior.log_prob(named[name])) for name, prior in priors)
        np.testing.assert_allclose(trainable.log_prior(vector, priors), wanted, rtol=1e-12)


def test_the_ends_of_an_interval_count_as_bounds():
    trainable = Trainable.of(ODD, fixed=("kernel.*", "likelihood.*"))
    limits = trainable.limits({"mean.share": (0.1, 0.9)})
    vector = trainable.to_vector(ODD)
    assert trainable.at_bound(vector, limits) == ()
    at = trainable.labels.index("mean.share")
    vector[at] = np.log(9.0)
    assert trainable.at_bound(vector, limits) == ("mean.share",)
    vector[at] = 10.0  # σ(10) = 0.99995
    assert trainable.at_bound(vector, trainable.limits({})) == ("mean.share",)
    vector[at], vector[trainable.labels.index("mean.weights[0]/mean.weights[2]")] = 0.0, -np.log(1e6)
    assert trainable.at_bound(vector, trainable.limits({})) == ("mean.weights[0]/mean.weights[2]",)


def test_nothing_to_train():
    trainable = Trainable.of(MODEL, fixed=("*",))
    assert trainable.limits({}).shape == (0, 2) and trainable.at_bound(np.zeros(0), np.zeros((0, 2))) == ()


# -- tied parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [LENGTHSCALES, "kernel.parts.*.lengthscale", ["kernel.parts.?.lengthscale"]])
def test_tied_parameters_are_one_entry_and_start_from_the_first(group):
    trainable = Trainable.of(TIED, fixed=("*.variance", "likelihood.*", "mean.*"), tied=(group,))
    assert trainable.labels == [LENGTHSCALES[0]] and trainable.names == list(LENGTHSCALES)
    assert hash(trainable) == hash(Trainable.of(TIED, ("*.variance", "likelihood.*", "mean.*"), tied=(group,)))
    found = values(trainable.from_vector(TIED, trainable.to_vector(TIED)))
    assert found[LENGTHSCALES[0]] == found[LENGTHSCALES[1]] == pytest.approx(0.5)


def test_the_order_of_a_group_decides_who_is_first():
    trainable = Trainable.of(TIED, tied=(LENGTHSCALES[::-1],))
    assert LENGTHSCALES[1] in trainable.labels and LENGTHSCALES[0] not in trainable.labels
    found = values(trainable.from_vector(TIED, trainable.to_vector(TIED)))
    assert found[LENGTHSCALES[0]] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tied": (("kernel.parts.0.lengthscale", "mean.value"),)}, "the same shape and take the same values"),
        ({"tied": (LENGTHSCALES, ("kernel.parts.1.lengthscale", "likelihood.scale"))}, "in two groups"),
        ({"tied": (LENGTHSCALES,), "fixed": ("kernel.parts.1.*",)}, "is held fixed"),
        ({"tied": (("likelihood.scale", "likelihood.df"),)}, "likelihood.df is held fixed"),
        ({"tied": LENGTHSCALES}, "at least two"),
        ({"tied": (("kernel.parts.0.lengthscale", "kernel.width"),)}, "There is no parameter 'kernel.width'"),
    ],
)
def test_groups_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Trainable.of(TIED, **settings)


def test_different_shapes_cannot_be_tied():
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        Trainable.of(MODEL, tied=(("kernel.parts.0.lengthscale", "kernel.parts.0.variance"),))


# -- what is given by name or pattern ----------------------------------------------------------------------------


def test_priors_by_pattern_and_by_name():
    wide, narrow = LogNormal(0.0, 1.0), LogNormal(0.0, 0.1)
    trainable = Trainable.of(MODEL)
    found = dict(trainable.priors({"kernel.*.variance": wide, "kernel.parts.1.variance": narrow, "mean.*": Normal()}))
    assert found == {"kernel.parts.0.variance": wide, "kernel.parts.1.variance": narrow, "mean.value": Normal()}


@pytest.mark.parametrize("name", LENGTHSCALES)
def test_what_is_given_for_one_of_a_tied_group_is_given_for_all(name):
    trainable = Trainable.of(TIED, tied=(LENGTHSCALES,))
    assert trainable.priors({name: LogNormal()}) == ((LENGTHSCALES[0], LogNormal()),)
    at = trainable.labels.index(LENGTHSCALES[0])
    np.testing.assert_allclose(trainable.limits({name: (0.1, 3.0)})[at], np.log([0.1, 3.0]))


@pytest.mark.parametrize("settings", ["priors", "limits"])
def test_two_patterns_for_one_parameter_are_an_error(settings):
    value = LogNormal() if settings == "priors" else (0.1, 1.0)
    with pytest.raises(ValueError, match=r"kernel.parts.0.lengthscale gets a .* from each of 'kernel.\*' and"):
        getattr(Trainable.of(MODEL), settings)({"kernel.*": value, "*.lengthscale": value})
    with pytest.raises(ValueError, match=r"no trained parameter 'kernel\.width' for this .*; the trained"):
        getattr(Trainable.of(MODEL), settings)({"kernel.width": value})


@pytest.mark.parametrize("prior", [LogNormal, (0.0, 1.0)])
def test_a_prior_is_an_object(prior):
    with pytest.raises(ValueError, match=r"must be an object such as LogNormal\(0, 1\)"):
        Trainable.of(MODEL).priors({"kernel.*.variance": prior})


@pytest.mark.parametrize(("prior", "law"), [(Normal(), stats.norm()), (Normal(1.0, 3.0), stats.norm(1.0, 3.0))])
def test_a_normal_prior_is_the_standard_one_by_default(prior, law):
    at = np.array([-2.0, 0.0, 1.5])
    np.testing.assert_allclose(prior.log_prob(at), law.logpdf(at))
