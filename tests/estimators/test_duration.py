"""The time of a fit is announced, and the default structure ends: a sparse GP where the full GP takes over a minute."""

from types import SimpleNamespace

import numpy as np
import pytest

from sitewise import Full, GPClassifier, GPRegressor, Hyperparameters, Method, Sparse
from sitewise.estimators import duration
from sitewise.estimators.duration import LongFitWarning, in_words
from sitewise.learning import clock as work
from sitewise.learning.problem import Problem
from sitewise.structures import MAX_AUTO_FULL_ROWS

FIXED = Hyperparameters(fixed="*")


def table(rows: int, columns: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=rows)


def test_the_default_of_many_rows_is_sparse_and_says_so():
    X, y = table(MAX_AUTO_FULL_ROWS + 1)
    with pytest.warns(UserWarning, match=r"400 inducing inputs .* 2001 rows, .* cube .* structure=Full\(\) fits the"):
        model = GPClassifier(hyperparameters=FIXED, random_state=0).fit(X, y > 0)
    assert model.models_[0][0].prior.structure == "sparse"
    assert "A sparse GP with 400 inducing inputs is fitted" in model.fit_report_
    same = GPClassifier(hyperparameters=FIXED, random_state=0, structure=Sparse()).fit(X, y > 0)
    np.testing.assert_array_equal(model.predict_proba(X[:9]), same.predict_proba(X[:9]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("structure", ["exact", "full", Full()])
def test_the_full_gp_is_fitted_if_it_is_asked_for(structure):
    X, y = table(MAX_AUTO_FULL_ROWS + 1)
    model = GPRegressor(hyperparameters=FIXED, structure=structure).fit(X, y)
    assert model.models_[0][0].prior.structure == "full" and "sparse" not in model.fit_report_
    assert GPRegressor(hyperparameters=FIXED).fit(X[:-1], y[:-1]).models_[0][0].prior.structure == "full"


def test_several_fits_share_the_minute():
    X, y = table(1_500)
    classes = np.digitize(y, [-1, 0, 1])
    with pytest.warns(UserWarning, match="A sparse GP"):
        model = GPClassifier(hyperparameters=FIXED, random_state=0).fit(X, classes)
    assert [m.prior.structure for m, _ in model.models_] == ["sparse"] * 4


@pytest.fixture
def clock(monkeypatch):
    """A clock that only evaluations advance, by their work in microseconds; every fit is announced."""
    now = SimpleNamespace(seconds=0.0)
    evaluate = Problem.evaluate

    def counted(self: Problem, vector, sites):
        now.seconds += 1e-6 * work.evaluation_work(self.model, self.data.rows)
        return evaluate(self, vector, sites)

    monkeypatch.setattr(Problem, "evaluate", counted)
    for module in (duration, work):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


@pytest.mark.parametrize(
    ("kind", "settings", "rows"),
    [
        (GPClassifier, {}, 640),
        (GPRegressor, {"likelihood": "student_t"}, 150),
        (GPClassifier, {"multi_class": "one_vs_rest"}, 150),
        (GPRegressor, {"structure": Sparse(60)}, 900),
    ],
)
def test_the_estimate_is_right_within_a_factor_of_two(clock, kind, settings, rows):
    X, y = table(rows)
    y = np.digitize(y, [-1, 1] if "multi_class" in settings else [0]) if kind is GPClassifier else y
    with pytest.warns(LongFitWarning, match=r"This fit takes about .*verbose=True shows the progress\.") as caught:
        kind(random_state=0, integrate=False, **settings).fit(X, y)
    (warning,) = (w for w in caught if isinstance(w.message, LongFitWarning))
    assert 0.5 < warning.message.seconds / clock.seconds < 2.0
    assert ("structure=Sparse() is faster" in str(warning.message)) == ("structure" not in settings)
    assert warning.filename == __file__  # the line that called fit


def test_a_long_average_advises_a_single_kernel(monkeypatch):
    monkeypatch.setattr(duration, "MIN_ELAPSED_SECONDS", 0.0)
    monkeypatch.setattr(duration, "ANNOUNCED_SECONDS", 1e-6)
    X, y = table(30)
    with pytest.warns(LongFitWarning, match="takes about .* kernel='shrunk' is faster; verbose=True shows"):
        GPClassifier("average", method="laplace").fit(np.hstack([X, X**2]), y > 0)


def test_a_short_fit_is_not_announced(recwarn):
    X, y = table(60)
    GPClassifier().fit(X, y > 0)
    assert not [w for w in recwarn if issubclass(w.category, LongFitWarning)]


@pytest.mark.slow
@pytest.mark.slow  # compiles Algorithm 1
def test_the_unknown_number_of_rounds_of_algorithm_1_announces_nothing(monkeypatch, recwarn):
    monkeypatch.setattr(duration, "MIN_ELAPSED_SECONDS", 0.0)
    X, y = table(12)
    GPClassifier(method="hybrid-vem").fit(X, y > 0)
    assert not [w for w in recwarn if issubclass(w.category, LongFitWarning)]


def test_sampling_is_announced_by_its_first_draws(monkeypatch):
    monkeypatch.setattr(duration, "MIN_ELAPSED_SECONDS", 0.0)
    monkeypatch.setattr(duration, "ANNOUNCED_SECONDS", 1e-6)
    X, y = table(20)
    with pytest.warns(LongFitWarning, match="takes about") as caught:
        GPClassifier(method=Method("mcmc", draws=4, warmup=2, chains=2), random_state=0).fit(X, y > 0)
    assert len([w for w in caught if issubclass(w.category, LongFitWarning)]) == 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (4.26, "4.3 s"),
        (61, "61 s"),
        (100, "1.7 minutes"),
        (754, "13 minutes"),
        (20_000, "5.6 hours"),
        (3e5, "83 hours"),
    ],
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words
