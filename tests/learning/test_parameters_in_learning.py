"""Learning with parameters of every kind, with tied ones, with priors of patterns, and of inducing inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import sitewise
from cases import problem
from sitewise import (
    VI,
    Data,
    GPRegressor,
    Hyperparameters,
    Method,
    Model,
    Nested,
    Sparse,
    evidence,
    kernels,
    likelihoods,
    means,
    resolve,
)
from sitewise.estimators.settings import method_of
from sitewise.hyperpriors import LogNormal, Normal
from sitewise.inference.start import first_sites
from sitewise.kernels import Kernel
from sitewise.learning.objective import Objective, profile
from sitewise.learning.vem import VEM
from sitewise.mcmc import sample
from sitewise.parameters import Trainable
from sitewise.types import ArrayField, bounded, module, ordered, positive, simplex

X, Y = problem("probit", 24, seed=3)
DATA = Data.of(X, Y)
PROBIT = likelihoods.BernoulliProbit()
LENGTHSCALES = ("kernel.parts.0.lengthscale", "kernel.parts.1.lengthscale")


@module
class Both(Kernel):
    """The sum of an RBF and a Matérn kernel with one lengthscale."""

    lengthscale: ArrayField = positive(default=1.0)
    first: ArrayField = positive(default=1.0)
    second: ArrayField = positive(default=1.0)

    def pairs(self, A, B):
        return kernels.RBF(self.lengthscale, self.first).pairs(A, B) + kernels.Matern52(
            self.lengthscale, self.second
        ).pairs(A, B)

    def diag(self, A):
        return (self.first + self.second) * jnp.ones(A.shape[0])


PAIR = Model.full(kernels.RBF(0.8, 1.2) + kernels.Matern52(1.9, 0.7), PROBIT)
ONE = Model.full(Both(0.8, 1.2, 0.7), PROBIT)


@pytest.mark.parametrize("arrays", [np, pytest.param(jnp, marks=pytest.mark.slow)])
def test_a_tied_model_is_the_same_model_written_with_one_parameter(arrays):
    found = {}
    with jax.enable_x64(True):
        for name, model, tied in (("tied", PAIR, (LENGTHSCALES,)), ("one", ONE, ())):
            trainable = Trainable.of(model, tied=tied)
            objective = Objective(VI(tol=1e-11), evidence.ep, "implicit", trainable)
            start, vector = first_sites(PROBIT, DATA), trainable.to_vector(model)
            out = profile(objective, *jax.tree.map(arrays.asarray, (model, DATA, vector, start)))
            found[name] = out.value, dict(zip(trainable.labels, np.asarray(out.gradient), strict=True))
    (value, slope), (wanted, slope_wanted) = found["tied"], found["one"]
    assert float(value) == pytest.approx(float(wanted), rel=1e-10)
    pairs = [("kernel.parts.0.lengthscale", "lengthscale"), ("kernel.parts.0.variance", "first")]
    for ours, theirs in [*pairs, ("kernel.parts.1.variance", "second")]:
        assert slope[ours] == pytest.approx(slope_wanted[f"kernel.{theirs}"], rel=1e-10)
    assert abs(slope["kernel.parts.0.lengthscale"]) > 1e-3


def test_tied_parameters_are_learned_as_one():
    tied = resolve("vi", tied=(LENGTHSCALES,)).fit(PAIR, DATA)
    one = resolve("vi").fit(ONE, DATA)
    assert tied.objective == pytest.approx(one.objective, abs=1e-6)
    assert tied.parameters[LENGTHSCALES[0]] == tied.parameters[LENGTHSCALES[1]]
    assert tied.parameters[LENGTHSCALES[0]] == pytest.approx(one.parameters["kernel.lengthscale"], rel=1e-2)
    assert tied.trace[0][LENGTHSCALES[1]] == pytest.approx(0.8)


def test_the_other_learner_ties_too():
    """The sampler is tested with the estimators."""
    tied = (LENGTHSCALES,)
    assert VEM(tied=tied).trainable(PAIR) == Trainable.of(PAIR, transform="softplus", tied=tied)


@module
class Within(kernels.RBF):
    lengthscale: ArrayField = bounded(0.05, 20.0, default=1.0)


def test_a_bounded_parameter_learns_the_optimum_of_a_positive_one():
    free = resolve("vi").fit(Model.full(kernels.RBF(), PROBIT), DATA)
    kept = resolve("vi").fit(Model.full(Within(), PROBIT), DATA)
    assert kept.converged and kept.at_bound == ()
    assert kept.objective == pytest.approx(free.objective, abs=1e-5)
    assert kept.parameters["kernel.lengthscale"] == pytest.approx(free.parameters["kernel.lengthscale"], rel=1e-2)


def test_a_bounded_parameter_that_ends_at_an_end_is_named():
    """The optimum is above the interval; the bounds of a user narrow it."""
    best = float(resolve("vi").fit(Model.full(kernels.RBF(), PROBIT), DATA).parameters["kernel.lengthscale"])

    @module
    class Below(kernels.RBF):
        lengthscale: ArrayField = bounded(0.0, 0.7 * best, default=0.3 * best)

    model = Model.full(Below(), PROBIT)
    found = resolve("vi").fit(model, DATA)
    assert found.at_bound == ("kernel.lengthscale",)
    assert found.parameters["kernel.lengthscale"] == pytest.approx(0.7 * best, rel=1e-3)
    narrowed = resolve("vi", bounds={"kernel.lengthscale": (0.0, 0.5 * best)}).fit(model, DATA)
    assert narrowed.at_bound == ("kernel.lengthscale",)
    assert narrowed.parameters["kernel.lengthscale"] == pytest.approx(0.5 * best, rel=1e-6)


@module
class Steps(means.Mean):
    """Shares of three columns times a difference of two levels."""

    shares: ArrayField = simplex(default=(0.3, 0.3, 0.4))
    levels: ArrayField = ordered(default=(0.0, 1.0))

    def __call__(self, X):
        return self.levels[0] + (self.levels[1] - self.levels[0]) * (X * self.shares).sum(axis=1)


def test_shares_and_levels_are_learned():
    """Little noise and a weak kernel: the truth comes back."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(40, 3))
    truth = Steps([0.6, 0.1, 0.3], [-1.0, 1.5])
    data = Data.of(table, truth(table) + 0.01 * rng.normal(size=40))
    model = Model.full(kernels.RBF(1.0, 1e-4), likelihoods.Gaussian(0.02), Steps())
    fit = resolve("vi", fixed=("kernel.*", "likelihood.*")).fit(model, data)
    np.testing.assert_allclose(fit.parameters["mean.shares"], truth.shares, atol=0.02)
    np.testing.assert_allclose(fit.parameters["mean.levels"], truth.levels, atol=0.05)
    assert fit.parameters["mean.shares"].sum() == pytest.approx(1.0, abs=1e-12)


def test_restarts_stay_inside():
    search = Nested(VI(), evidence.elbo, restarts=2, max_rounds=2)
    fit = search.fit(Model.full(Within(), PROBIT, Steps([0.5, 0.5], [0.0, 1.0])), DATA, seed=1)
    for entry in fit.trace:
        assert 0.05 < entry["kernel.lengthscale"] < 20 and np.all(np.diff(entry["mean.levels"]) > 0)
        assert np.all(entry["mean.shares"] > 0) and entry["mean.shares"].sum() == pytest.approx(1.0)


@module
class Ignored(means.Mean):
    """A mean with parameters on which nothing depends."""

    share: ArrayField = bounded(-1.0, 3.0, default=0.0)
    weights: ArrayField = simplex(default=(0.3, 0.3, 0.4))

    def __call__(self, X):
        return jnp.zeros(X.shape[0]) + 0 * self.share


@pytest.mark.slow
def test_without_a_prior_draws_are_uniform():
    """Nearly all proposals are accepted here: draws are almost independent, as a Kolmogorov test needs."""
    model = Model.full(kernels.RBF(), likelihoods.Gaussian(), Ignored())
    data = Data.of(X[:2], Y[:2])
    drawn = sample(model, data, fixed=("kernel.*", "likelihood.*"), warmup=5, draws=200)
    share = (drawn.parameters["mean.share"].ravel() + 1) / 4
    weight = drawn.parameters["mean.weights"].reshape(-1, 3)[:, 2]
    assert min(d["bulk_ess"] for d in drawn.diagnostics().values()) > 600
    # One share in three of a uniform distribution on the simplex is Beta(1, 2).
    for values, law in ((share, stats.uniform()), (weight, stats.beta(1, 2))):
        assert stats.kstest(values, law.cdf).pvalue > 1e-3


def test_a_prior_of_a_pattern_is_that_of_the_names():
    prior = LogNormal(0.0, 0.2)
    by_pattern = resolve("vi", priors={"kernel.parts.*.variance": prior}).fit(PAIR, DATA)
    names = {f"kernel.parts.{i}.variance": prior for i in range(2)}
    by_name = resolve("vi", priors=names).fit(PAIR, DATA)
    assert by_pattern.objective == by_name.objective
    plain = resolve("vi").fit(PAIR, DATA)
    assert by_pattern.objective != plain.objective
    for name in names:  # the mode of the prior is exp(−0.04)
        assert abs(np.log(by_pattern.parameters[name])) < abs(np.log(plain.parameters[name]))


# -- inducing inputs ----------------------------------------------------------------------------------------


def test_trained_inducing_inputs_raise_the_bound():
    model = Model.sparse(kernels.RBF(0.8), PROBIT, X[:3])
    held = resolve("vi").fit(model, DATA)
    moved = resolve("vi", train=("inducing",)).fit(model, DATA)
    assert moved.objective > held.objective + 0.1
    assert moved.objective <= resolve("vi").fit(Model.full(kernels.RBF(0.8), PROBIT), DATA).objective + 1e-6


def test_the_gradient_in_the_inducing_inputs_matches_differences():
    model = Model.sparse(kernels.RBF(0.8), PROBIT, X[:3])
    trainable = Trainable.of(model, fixed=("kernel.*",), train=("inducing",))
    objective = Objective(VI(tol=1e-11), evidence.elbo, "fixed", trainable)
    start, vector = first_sites(PROBIT, DATA), trainable.to_vector(model)
    step = 1e-5 * np.eye(len(vector))
    slope = np.asarray(profile(objective, model, DATA, vector, start).gradient)
    ends = [[float(profile(objective, model, DATA, vector + s * e, start).value) for s in (1, -1)] for e in step]
    np.testing.assert_allclose(slope, [(up - down) / 2e-5 for up, down in ends], rtol=1e-5, atol=1e-6)


def test_an_estimator_trains_and_saves_inducing_inputs(tmp_path):
    rng = np.random.default_rng(0)
    table = np.sort(rng.uniform(-3, 3, size=(40, 1)), axis=0)
    y = np.sin(3 * table[:, 0]) + 0.1 * rng.normal(size=40)
    held = GPRegressor(random_state=0, method="vi", structure=Sparse(5)).fit(table, y)
    moved = GPRegressor(
        random_state=0, method="vi", hyperparameters=Hyperparameters(train="inducing"), structure=Sparse(5)
    ).fit(table, y)
    assert moved.evidence_["elbo"] > held.evidence_["elbo"] + 0.1
    moved.save(tmp_path / "model")
    again = sitewise.load(tmp_path / "model")
    assert again.hyperparameters.train == "inducing"
    np.testing.assert_array_equal(again.predict(table), moved.predict(table))
    assert not np.allclose(moved.models_[0][0].prior.inducing, held.models_[0][0].prior.inducing)


# -- estimators ---------------------------------------------------------------------------------------------


def _regressor(**settings):
    return GPRegressor(
        kernels.RBF(0.5) + kernels.Matern52(2.0),
        random_state=0,
        **settings,
        hyperparameters=Hyperparameters(tied=[LENGTHSCALES]),
    )


@pytest.mark.filterwarnings("ignore")  # twenty draws are too few
@pytest.mark.parametrize(
    "settings", [{}, pytest.param({"method": Method("mcmc", draws=10, warmup=0, chains=2)}, marks=pytest.mark.slow)]
)
def test_an_estimator_ties_and_saves_what_is_tied(settings, tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(15, 2))
    model = _regressor(**settings).fit(table, np.sin(table[:, 0]))
    first, second = (float(part.lengthscale) for part in model.kernel_.parts)
    assert first == second
    model.save(tmp_path / "model")
    again = sitewise.load(tmp_path / "model")
    assert again.hyperparameters.tied == [LENGTHSCALES]
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_with_mcmc_a_prior_of_a_pattern_replaces_the_default():
    prior = LogNormal(3.0, 0.1)
    method = method_of(
        GPRegressor(method="mcmc", hyperparameters=Hyperparameters(priors={"*.parts.*": prior}, tied=[LENGTHSCALES]))
    )
    found = method._priors(Model.full(PAIR.prior.kernel, likelihoods.Gaussian(0.5)))
    assert found.pop("likelihood.scale") == LogNormal(np.log(0.5), 2.0)
    assert found == dict.fromkeys([LENGTHSCALES[0], "kernel.parts.0.variance", "kernel.parts.1.variance"], prior)


def test_with_mcmc_every_lengthscale_has_its_own_prior():
    """Columns in other units: the prior moves with them, entry by entry."""
    method = method_of(GPRegressor(method="mcmc"))
    units = np.array([1e-3, 1.0, 1e4])
    model = Model.full(kernels.RBF(2.0 * units), likelihoods.Gaussian(0.5))
    found = method._priors(model)
    assert found["kernel.variance"].location == 0.0 and found["likelihood.scale"].location == np.log(0.5)
    trainable = Trainable.of(model)
    plain = method._priors(Model.full(kernels.RBF(np.full(3, 2.0)), likelihoods.Gaussian(0.5)))
    assert plain["kernel.lengthscale"] == LogNormal(np.log(2.0), 2.0)
    at = np.array([0.5, 3.0, 4.0])
    value = found["kernel.lengthscale"].log_prob(at * units) + np.log(units)  # the density in each column's own unit
    np.testing.assert_allclose(value, plain["kernel.lengthscale"].log_prob(at), rtol=1e-10)
    assert np.isfinite(trainable.log_prior(trainable.to_vector(model), trainable.priors(found)))
    with pytest.raises(ValueError, match="2 locations, but the parameter has 3 entries"):
        LogNormal((0.0, 1.0)).log_prob(at)
    with pytest.raises(ValueError, match="location must be a number"):
        LogNormal((0.0, np.nan))


# -- the linear mean ------------------------------------------------------------------------------------------


def test_a_linear_mean_has_one_slope_a_column_or_one_for_all():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(30, 2))
    data = Data.of(table, table @ [2.0, -1.0] + 0.5)
    held = {"fixed": ("kernel.*", "likelihood.*")}
    for slope, design in (
        (np.zeros(2), np.column_stack([table, np.ones(30)])),
        (0.0, np.column_stack([table.sum(axis=1), np.ones(30)])),
    ):
        model = Model.full(kernels.RBF(1e-3, 1e-6), likelihoods.Gaussian(1.0), means.Linear(slope))
        fit = resolve("vi", **held).fit(model, data)
        wanted = np.linalg.lstsq(design, np.asarray(data.y), rcond=None)[0]  # all rows have the same variance
        assert fit.parameters["mean.slope"].shape == np.shape(slope)
        np.testing.assert_allclose(fit.parameters["mean.slope"], wanted[:-1].reshape(np.shape(slope)), atol=1e-4)
        np.testing.assert_allclose(fit.parameters["mean.offset"], wanted[-1], atol=1e-4)


def test_a_parameter_with_a_prior_of_its_own_is_learned_with_it():
    """At the maximum the slope of the evidence in z is that of the prior, z; another prior replaces it."""
    from sitewise.learning.gradient import value_and_grad

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    data = Data.of(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40))
    start = Model.full(kernels.Shrunk(kernels.RBF(), np.zeros(2), 0.5), likelihoods.Gaussian(0.2))
    fit = resolve("vi").fit(start, data)
    z = fit.parameters["kernel.deviations"]
    _, slope = value_and_grad(VI(), evidence.elbo)(fit.model, data)
    np.testing.assert_allclose(slope.prior.kernel.deviations, z, atol=1e-2)
    assert z[0] < 0 < z[1] and "MAP with priors on kernel.deviations" in fit.climbed
    tight = resolve("vi", priors={"kernel.deviations": Normal(0.0, 0.1)}).fit(start, data)
    assert np.all(np.abs(tight.parameters["kernel.deviations"]) < np.abs(z))
