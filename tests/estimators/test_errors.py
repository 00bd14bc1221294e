"""What a user gets wrong, and the words that come back."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from sitewise import (
    Full,
    GPClassifier,
    GPOrdinal,
    GPRegressor,
    Hyperparameters,
    Method,
    PerColumn,
    Sparse,
    Varying,
    kernels,
)

BOTH = pytest.mark.parametrize("estimator", [GPClassifier(), GPRegressor()], ids=["classifier", "regressor"])


def target(estimator, labels, values):
    return labels if isinstance(estimator, GPClassifier) else values


@BOTH
@pytest.mark.parametrize(("bad", "words"), [(np.nan, "contains NaN"), (np.inf, "infinity")])
def test_numbers_that_are_not_finite(estimator, bad, words, X, labels, values):
    broken = X.copy()
    broken[3, 1] = bad
    with pytest.raises(ValueError, match=words):
        estimator.fit(broken, target(estimator, labels, values))
    y = values.copy()
    y[2] = bad
    with pytest.raises(ValueError, match=words):
        estimator.fit(X, y)


@BOTH
def test_lengths_that_do_not_match(estimator, X, labels, values):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.fit(X, target(estimator, labels, values)[:-1])
    with pytest.raises(ValueError, match="sample_weight"):
        estimator.fit(X, target(estimator, labels, values), np.ones(7))


def test_one_class(X):
    with pytest.raises(ValueError, match="at least two classes, but y holds only one class, 'a'"):
        GPClassifier().fit(X, ["a"] * 50)
    with pytest.raises(ValueError, match="at least two classes"):
        GPClassifier().fit(X, [0, 1] * 25, np.tile([1, 0], 25))
    with pytest.raises(ValueError, match="All rows of class 'c' have weight 0"):
        GPClassifier().fit(X, np.tile(["a", "b", "c", "a", "b"], 10), np.tile([1, 1, 0, 1, 1], 10))


def test_one_row(X):
    with pytest.raises(ValueError, match="at least two classes"):
        GPClassifier().fit(X[:1], ["a"])
    with pytest.raises(ValueError, match="1 sample"):
        GPRegressor().fit(X[:1], [0.5])


def test_wrong_number_of_features_at_prediction(classifier, regressor, X):
    for model in (classifier, regressor):
        with pytest.raises(ValueError, match=r"2 features, but GP.* is expecting 3"):
            model.predict(X[:, :2])


@BOTH
def test_text_and_sparse_inputs(estimator, X, labels, values):
    y = target(estimator, labels, values)
    words = rf"X holds strings such as 'a'; use make_pipeline\(TableEncoder\(\), {type(estimator).__name__}\(\)\)"
    for strings in (np.array([["a", 1.0, 2.0]] * 50, dtype=object), [["a", 1.0, 2.0]] * 50, np.full((50, 2), "a")):
        with pytest.raises(ValueError, match=words):
            estimator.fit(strings, y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        estimator.fit(scipy.sparse.csr_array(X), y)


@pytest.mark.parametrize("estimator", [GPClassifier(), GPRegressor(), GPOrdinal()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("gap", [None, np.nan, "NA"])
def test_missing_targets_are_named_by_row(estimator, gap, X):
    y = [0, 1, 2] * 16 + [0, 1]
    y[3] = y[7] = gap
    if gap == "NA":
        pandas = pytest.importorskip("pandas")
        y = pandas.Series([pandas.NA if v == "NA" else v for v in y], dtype="Int64")
    with pytest.raises(ValueError, match="y contains NaN or None in rows 3, 7, counted from 0; leave these rows out"):
        estimator.fit(X, y)


@BOTH
def test_missing_inputs_are_named_by_column(estimator, X, labels, values, classifier):
    pandas = pytest.importorskip("pandas")
    gaps = X.copy()
    gaps[[3, 7], 1] = np.nan
    y, table = target(estimator, labels, values), pandas.DataFrame(gaps, columns=["a", "b", "c"])
    words = rf"in 2 of {len(X)} rows; use make_pipeline\(TableEncoder\(impute=True\), {type(estimator).__name__}\(\)\)"
    for given, column in ((gaps, "1"), (gaps.astype(object), "1"), (table, "'b'"), (table.astype("Float64"), "'b'")):
        with pytest.raises(ValueError, match=f"X contains NaN or None in column {column}, {words}"):
            estimator.fit(given, y)
    with pytest.raises(ValueError, match="X contains NaN or None in column 1, "):
        classifier.predict(gaps)


def test_object_arrays_of_numbers_are_numbers(X, labels, classifier):
    model = GPClassifier(integrate=False).fit(X.astype(object), labels.astype(object))
    assert np.array_equal(model.predict_proba(X), classifier.predict_proba(X))


def test_classification_with_a_continuous_target(X, values):
    with pytest.raises(ValueError, match=r"[Uu]nknown label type|continuous"):
        GPClassifier().fit(X, values)


def test_counts_that_are_no_counts(X, values):
    with pytest.raises(ValueError, match="counts"):
        GPRegressor(likelihood="poisson").fit(X, values)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "rbf"}, "sitewise.kernels"),
        ({"likelihood": "cauchy"}, "likelihood must be"),
        ({"method": "magic"}, "Unknown method"),
        ({"method": 3}, "Unknown method 3"),
        ({"structure": 3}, "structure must be one of"),
        ({"hyperparameters": "*"}, "a value such as Hyperparameters"),
        ({"hyperparameters": Hyperparameters(fixed="kernel.size")}, "no parameter 'kernel.size'"),
        ({"hyperparameters": Hyperparameters(bounds={"kernel.size": (1, 2)})}, "kernel.size"),
        ({"method": "hybrid-vem", "hyperparameters": Hyperparameters(bounds={"*": (1, 2)})}, "no setting bounds"),
        ({"method": "hybrid-vem", "integrate": True}, "no setting integrate"),
        ({"method": "hybrid-vem", "structure": Sparse(3, inputs="trained")}, "does not train inducing inputs"),
        ({"integrate": "always"}, "integrate must be"),
        ({"mean": 3.0}, "mean must come from"),
    ],
)
def test_settings(settings, words, X, labels, values):
    for estimator, y in ((GPClassifier, labels), (GPRegressor, values)):
        with pytest.raises(ValueError, match=words):
            estimator(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Method("magic"), "Unknown method 'magic'; choose one of laplace"),
        (lambda: Method(max_iter=0), "max_iter must be a whole number of at least 1"),
        (lambda: Method(restarts=-1), "restarts must be a whole number of at least 0"),
        (lambda: Method(tol=-1.0), "tol must be a positive number"),
        (lambda: Method(inference="magic"), "Unknown inference 'magic'"),
        (lambda: Method("vi", power=0.5), "power belongs to the ep evidence"),
        (lambda: Method("hybrid-vem", tol=1e-3), "hybrid-vem has no setting tol; use 'hybrid'"),
        (lambda: Method("mcmc", gradient="implicit", tol=1e-3), "mcmc has no setting gradient, tol; leave it out"),
        (lambda: Method("mcmc", draws=0), "draws must be a whole number of at least 1, got 0"),
        (lambda: Method("ep", draws=10), r"ep has no setting draws; .* are for Method\('mcmc'\)"),
        (lambda: Hyperparameters(bounds=[(0.1, 1.0)]), "bounds must be a dict by the names"),
        (lambda: Full(jitter=-1.0), "jitter must be a finite number of at least 0"),
        (lambda: Sparse(jitter="small"), "jitter must be a finite number"),
        (lambda: Sparse(0), "m must be a whole number of at least 1"),
        (lambda: Sparse(2.5), "m must be a whole number of at least 1"),
        (lambda: Sparse("60"), "a time such as '60s'"),
        (lambda: Sparse("-1s"), "a time such as '60s'"),
        (lambda: Sparse("nans"), "a time such as '60s'"),
        (lambda: Sparse(5, inputs="best"), "inputs must be one of 'kmeans', 'greedy', 'trained', or a table"),
        (lambda: Sparse(5, inputs=np.zeros((5, 3))), "says how many there are; leave m out"),
        (lambda: PerColumn("rbf"), "PerColumn takes a kernel of sitewise.kernels"),
        (lambda: Varying("scale", structure=5), "The structure of Varying is a list of parts"),
    ],
)
def test_values_are_checked_when_they_are_made(made, words):
    with pytest.raises(ValueError, match=words):
        made()


def test_inputs_on_a_scale_that_the_kernel_cannot_see(X, labels, values):
    for estimator, y in ((GPClassifier(kernels.Matern52()), labels), (GPRegressor(kernels.Matern52()), values)):
        with pytest.warns(UserWarning, match="Scale the inputs"):
            estimator.fit(1e8 * X, y)


def test_a_column_that_is_left_out_by_its_own_lengthscale_is_no_reason_to_warn(X, values):
    def fit(longest):
        start = kernels.Matern52(lengthscale=[1.0, 1.0, longest])
        return GPRegressor(start, hyperparameters=Hyperparameters(bounds={"kernel.lengthscale": (0.1, longest)})).fit(
            X, values
        )

    with pytest.warns(UserWarning, match=r"kernel.lengthscale\[2\] ended at a bound"):
        fit(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(1e5)
    assert model.kernel_.lengthscale[2] == pytest.approx(1e5) and "[2] ended at its bound" in model.fit_report_


def test_all_weights_zero(X, values):
    with pytest.raises(ValueError, match="zero"):
        GPRegressor().fit(X, values, np.zeros(50))


def test_negative_weight(X, labels):
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        GPClassifier().fit(X, labels, np.full(50, -1.0))


@pytest.mark.parametrize("name", ["loo_", "influence_", "evidence_", "sites_"])
def test_diagnostics_before_fit(name):
    with pytest.raises(NotFittedError):
        getattr(GPClassifier(), name)


@BOTH
def test_a_likelihood_that_is_none(estimator, X, labels, values):
    wrong = type(estimator)(likelihood=3)
    with pytest.raises(ValueError, match=r"likelihood must be one of .* or a likelihood object, got 3"):
        wrong.fit(X, target(estimator, labels, values))


@pytest.mark.parametrize("estimator", [GPClassifier(), GPRegressor(), GPOrdinal()])
def test_columns_of_type_category_are_refused(estimator, X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ward": pandas.Categorical(np.arange(50) % 3), "x": X[:50, 0]})
    with pytest.raises(ValueError, match=r"1 columns of type category.*use make_pipeline\(TableEncoder\(\), GP"):
        estimator.fit(frame, np.arange(50) % 3)


def test_labels_among_numbers_are_refused_by_a_regressor(X):
    for y in (["1", "2", "3+"] * 10, np.array([0, 1, "3+"] * 10, object)):
        with pytest.raises(
            ValueError, match=r"y holds the label '3\+', but GPRegressor needs numbers; use GPClassifier"
        ):
            GPRegressor().fit(X[:30], y)
    GPRegressor(hyperparameters=Hyperparameters(fixed="*")).fit(X[:30], np.array(["1", "2.5"] * 15))


@pytest.mark.parametrize("estimator", [GPClassifier(), GPOrdinal()])
def test_missing_labels_that_became_strings_are_refused(estimator, X):
    labels = np.array(["low", "mid", "high", *["low", "high"] * 13, np.nan])
    assert labels[-1] == "nan"
    with pytest.raises(ValueError, match="NaN or None in row 29"):
        estimator.fit(X[:30], labels)


def test_a_constant_target_is_warned_of(X):
    with pytest.warns(UserWarning, match="All values of y are equal to 3: neither the noise nor the effect"):
        GPRegressor(hyperparameters=Hyperparameters(fixed="*")).fit(X[:30], np.full(30, 3.0))


def test_dates_and_durations_are_no_numbers():
    """As nanoseconds they were fitted without a word."""
    pandas = pytest.importorskip("pandas")
    days = pandas.Series(pandas.date_range("2024-01-01", periods=20))
    X = np.arange(20.0)[:, None]
    for y in (days, days.to_numpy(), days.dt.tz_localize("Europe/Berlin"), days - days.min()):
        with pytest.raises(ValueError, match="y holds dates or durations, but GPRegressor needs numbers"):
            GPRegressor().fit(X, y)
    with pytest.raises(ValueError, match="X holds durations; give numbers"):
        GPRegressor().fit(pandas.DataFrame({"d": days - days.min(), "x": X[:, 0]}), X[:, 0])


def test_frames_without_columns_or_with_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "a"])
    for kind in (GPClassifier, GPRegressor):
        with pytest.raises(ValueError, match=r"several columns of X are named 'a'; give every column its own name"):
            kind().fit(X, np.arange(20) % 2)
        with pytest.raises(ValueError, match="X has no columns; give at least one"):
            kind().fit(X.iloc[:, :0], np.arange(20) % 2)
