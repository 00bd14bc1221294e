"""Exported models predict with NumPy alone as the library does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sitewise
from sitewise import GPClassifier, GPOrdinal, GPRegressor, Sparse, TableEncoder, UserError, kernels, means, parts
from sitewise.estimators import numpy_predictor
from sitewise.estimators.numpy_predictor import Predictor, _softmax
from sitewise.priors.markov import markov_prior
from sitewise.priors.precision import precision_posterior

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 3))
SCORE = X[:, 0] + np.sin(2 * X[:, 1])
LABELS = np.where(SCORE + 0.3 * RNG.normal(size=40) > 0, "yes", "no")
THREE = np.digitize(SCORE, [-0.5, 0.7])
VALUES = 10 + 3 * SCORE + 0.2 * RNG.normal(size=40)
COUNTS = RNG.poisson(np.exp(SCORE / 2))
NEW = RNG.normal(size=(7, 3))
FAST = {"integrate": False}

CLASSIFIERS: list[Any] = [
    GPClassifier(kernel="shrunk", **FAST),
    GPClassifier(kernel="shrunk", integrate="coarse"),
    GPClassifier(kernel="average"),
    GPClassifier(kernel=kernels.Matern32(), likelihood="logit", method="laplace", **FAST),
    GPClassifier(kernel=kernels.RBF(active_dims=(0, 1)) + 0.5 * kernels.Linear() + kernels.Constant(), **FAST),
    GPClassifier(kernel=kernels.RBF(), structure=Sparse(12), mean=means.Constant(), **FAST),
    GPClassifier(kernel=kernels.NormalScores.of(X, kernels.Laplacian()), **FAST),
]
SEVERAL: list[Any] = [
    GPClassifier(kernel=kernels.RBF(), multi_class="joint", **FAST),
    GPClassifier(kernel=kernels.RBF(), multi_class="joint", class_kernels="shared", structure=Sparse(12), **FAST),
    GPClassifier(kernel=kernels.Matern12(), multi_class="one_vs_rest", **FAST),
]
REGRESSORS: list[Any] = [
    GPRegressor(kernel="shrunk", **FAST),
    GPRegressor(kernel=kernels.RBF(), likelihood="student_t", method="laplace", **FAST),  # negative precisions
    GPRegressor(kernel=kernels.Additive.of(X, order=2), mean=means.Linear(np.zeros(3)), **FAST),
]


def exported(model: Any, folder: Path) -> Predictor:
    sitewise.export(model, folder / "model.npz")
    return Predictor(folder / "model.npz")


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_probabilities_of_two_classes(model: Any, tmp_path: Path) -> None:
    model.fit(X, LABELS)
    found = exported(model, tmp_path)
    np.testing.assert_allclose(found.predict_proba(NEW), model.predict_proba(NEW), rtol=0, atol=1e-10)
    assert found.predict(NEW).tolist() == model.predict(NEW).tolist()


@pytest.mark.parametrize("model", SEVERAL)
def test_probabilities_of_three_classes(model: Any, tmp_path: Path) -> None:
    model.fit(X, THREE)
    found = exported(model, tmp_path).predict_proba(NEW)
    # The library's quadrature over joint classes has an error of about 1e-6 where f is wide.
    np.testing.assert_allclose(found, model.predict_proba(NEW), rtol=0, atol=1e-5 if model._joint else 1e-10)


def test_expected_softmax_against_a_product_rule() -> None:
    mean, var = np.array([2.0, -3.0, 0.5]), np.array([4.0, 2.0, 9.0])
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    f = np.stack(np.meshgrid(*(m + s * z for m, s in zip(mean, np.sqrt(var), strict=True)), indexing="ij"))
    shares = np.exp(f) / np.exp(f).sum(axis=0)
    expected = np.einsum("kabc,a,b,c->k", shares, *[weight / weight.sum()] * 3)
    np.testing.assert_allclose(_softmax(mean[None], np.diag(var)[None])[0], expected, atol=1e-9)


@pytest.mark.parametrize("model", REGRESSORS)
def test_values(model: Any, tmp_path: Path) -> None:
    model.fit(X, VALUES)
    found, own = (one.predict(NEW, return_std=True) for one in (exported(model, tmp_path), model))
    np.testing.assert_allclose(found, own, rtol=1e-10)


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_counts(likelihood: str, tmp_path: Path) -> None:
    model = GPRegressor(kernel=kernels.RBF(), likelihood=likelihood, **FAST).fit(X, COUNTS)
    found, own = (one.predict(NEW, return_std=True) for one in (exported(model, tmp_path), model))
    np.testing.assert_allclose(found, own, rtol=1e-10)


RING = {i: [(i - 1) % 4, (i + 1) % 4] for i in range(4)}
SUMS: list[list[Any]] = [
    [parts.Constant(), parts.Spline(0), parts.Levels(1), parts.Area(2, graph=RING)],
    [parts.Constant(), parts.Spline(0, by=3), parts.Levels(1, slope=3), parts.Levels((1, 2))],
    [parts.Season(0, period=1.7), parts.Linear((0, 3)), parts.Area(2, graph=RING, model="icar")],
    [parts.Linear((0, 3), centre=(0.5, -2.0)), parts.SplineLevels(0, by=1), parts.Levels(2)],
    [parts.VaryingCoefficients(1, slopes=(0, 3)), parts.VaryingCoefficients(2, slopes=(0, 3), intercept=False)],
    [parts.Tensor((0, 3), count=4), parts.Levels(2)],
    [parts.Map((1, 2), neighbours=3), parts.Spline(0)],  # places on a grid: equally near neighbours
    [parts.Map((1, 2), kernels.Matern52(), neighbours=20), parts.Linear(0)],
    [parts.Map((0, 3), neighbours=4, sphere=True), parts.Levels(1)],
    [parts.Series(0), parts.Levels(1)],
    [parts.Series(0, kernels.Matern12() + kernels.Matern52(), by=1), parts.Series(3), parts.Map((1, 2), neighbours=3)],
]


@pytest.mark.parametrize("structure", SUMS)
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "probit"])
def test_sums_of_parts(likelihood: str, structure: list[Any], tmp_path: Path) -> None:
    """New rows have levels, areas, places and series without training rows, and lie beyond the knots and times."""
    rng = np.random.default_rng(5)
    draw = lambda n, levels: np.column_stack(  # noqa: E731
        [rng.normal(size=n), rng.integers(0, levels, n), rng.integers(0, levels, n), rng.normal(size=n)]
    )
    rows, new = draw(50, 4), draw(9, 6) * [1.5, 1, 1, 1]
    new = np.concatenate([new, rows[:3]])
    f = np.sin(rows[:, 0]) + 0.3 * rows[:, 1]
    if likelihood == "probit":
        model: Any = GPClassifier(structure=structure).fit(rows, f + rng.normal(size=50) > 0.4)
        found, own = exported(model, tmp_path).predict_proba(new), model.predict_proba(new)
    else:
        y = f + 0.3 * rng.normal(size=50) if likelihood == "gaussian" else rng.poisson(np.exp(f))
        model = GPRegressor(structure=structure, likelihood=likelihood).fit(rows, y)
        found, own = (one.predict(new, return_std=True) for one in (exported(model, tmp_path), model))
    np.testing.assert_allclose(found, own, rtol=1e-10)


@pytest.mark.parametrize(
    "model",
    [
        GPRegressor(structure="markov", kernel=kernels.Matern32(), **FAST),
        GPRegressor(structure=sitewise.Series(1), kernel=kernels.Matern52(), mean=means.Linear(np.zeros(1)), **FAST),
        GPRegressor(structure=sitewise.Series(1), kernel=kernels.Matern12(), likelihood="poisson", **FAST),
    ],
)
def test_markov_chains(model: Any, tmp_path: Path) -> None:
    """New rows are between and beyond the times, and of a new series."""
    several = model.structure != "markov"
    rows = np.column_stack([np.repeat(np.arange(20.0), 2), np.tile([0, 1], 20)])[:, : 1 + several]
    new = np.column_stack([[-1.0, 3.0, 3.4, 25.0, 7.0], [0, 1, 1, 0, 2]])[:, : 1 + several]
    model.fit(rows, COUNTS if model.likelihood == "poisson" else VALUES)
    found, own = (one.predict(new, return_std=True) for one in (exported(model, tmp_path), model))
    np.testing.assert_allclose(found, own, rtol=1e-10)


def test_the_predictor_has_at_most_200_lines() -> None:
    assert len(Path(numpy_predictor.__file__).read_text().splitlines()) <= 200


def test_a_table_of_categories_needs_numpy_alone(tmp_path: Path) -> None:
    rows = [
        {"x": float(x), "colour": c} for x, c in zip(X[:, 0], np.array(["red", "green", "blue"])[THREE], strict=True)
    ]
    model = make_pipeline(TableEncoder(), GPClassifier(kernel=kernels.RBF(), **FAST)).fit(rows, LABELS)
    sitewise.export(model, tmp_path / "model.npz")
    new = [{"x": 0.3, "colour": "red"}, {"x": -1.0, "colour": "blue"}]
    program = (
        "import sys; from numpy_predictor import Predictor\n"
        f"print(Predictor('model.npz').predict_proba({new!r}).tolist())\n"
        "assert not {'jax', 'scipy', 'sklearn', 'sitewise'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(eval(done.stdout), model.predict_proba(new), rtol=0, atol=1e-10)
    predictor = Predictor(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="missing value"):
        predictor.predict([{"x": None, "colour": "red"}])
    with pytest.raises(ValueError, match="no column 'colour'"):
        predictor.predict([{"x": 0.3}])
    with pytest.warns(UserWarning, match="'colour' has categories that the model does not know: {'pink'}"):
        predictor.predict([{"x": 0.3, "colour": "pink"}])
    np.testing.assert_array_equal(
        predictor.predict_proba(new[0]), predictor.predict_proba(new[:1])
    )  # one row as a dict
    columns = {"x": np.array([0.3, -1.0]), "colour": np.array(["red", "blue"])}
    np.testing.assert_array_equal(predictor.predict_proba(columns), predictor.predict_proba(new))
    frame = pytest.importorskip("pandas").DataFrame(new, index=[7, 3])
    np.testing.assert_array_equal(predictor.predict_proba(frame), predictor.predict_proba(new))
    with pytest.raises(ValueError, match="no column 'colour'"):
        predictor.predict(frame[["x"]])


def test_missing_cells_and_categories_that_are_numbers(tmp_path: Path) -> None:
    rows = [{"x": float(x), "code": code} for x, code in zip(X[:, 0], THREE, strict=True)]
    rows += [{"x": None, "code": 1.0}, {"x": "n/a", "code": None}, {"code": 2.0}]
    encoder = TableEncoder(impute=True, categorical=["code"])
    labels = [*LABELS, "yes", "no", "yes"]
    model = make_pipeline(encoder, GPClassifier(kernel=kernels.RBF(), **FAST)).fit(rows, labels)
    new = [{"x": 0.3, "code": 2.0}, {"x": float("nan"), "code": 1}, {"x": "NULL", "code": " 0 "}, {"x": 1, "code": "?"}]
    found = exported(model, tmp_path).predict_proba(new)
    np.testing.assert_allclose(found, model.predict_proba(new), rtol=0, atol=1e-10)


@pytest.mark.parametrize("choice", [{}, {"with_mean": False}, {"with_std": False}])
def test_scaled_columns(choice: dict[str, bool], tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(**choice), GPClassifier(kernel=kernels.Linear(), **FAST)).fit(X + 1, LABELS)
    found = exported(model, tmp_path).predict_proba(NEW)
    np.testing.assert_allclose(found, model.predict_proba(NEW), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="3 columns"):
        Predictor(tmp_path / "model.npz").predict_proba(NEW[:, :2])


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", model=np.array([Path()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        Predictor(tmp_path / "model.npz")


@pytest.mark.parametrize("scaled", [False, True])
def test_columns_with_names_are_read_by_name_and_arrays_by_position(scaled: bool, tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    model: Any = GPRegressor(kernel=kernels.RBF(), **FAST)
    model = (make_pipeline(StandardScaler(), model) if scaled else model).fit(frame, VALUES)
    found, new = exported(model, tmp_path), frame[:5]
    expected = model.predict(new)
    swapped = new[["c", "a", "b"]].assign(d=1.0)
    for rows in (swapped, swapped.to_dict("list"), swapped.to_dict("records"), new.to_numpy(), new.to_numpy().tolist()):
        np.testing.assert_allclose(found.predict(rows), expected, rtol=1e-10)
    with pytest.raises(ValueError, match="no column 'b'"):
        found.predict(new[["a", "c"]])


REFUSED: list[tuple[Any, Any, str]] = [
    (GPRegressor(likelihood="beta", **FAST), 1 / (1 + np.exp(-SCORE)), "the likelihood 'beta'"),
    (GPOrdinal(**FAST), THREE, "likelihood"),
    (GPClassifier(kernel=kernels.Cosine(), **FAST), LABELS, "kernel Cosine"),
    (GPRegressor(kernel=kernels.RBF(), varying="scale", **FAST), VALUES, "varying parameter"),
    (GPRegressor(structure=[parts.Product((parts.Map(0), parts.Linear(0)))]), VALUES, "the part Product"),
    (GPRegressor(structure=[parts.Map(0, kernels.Cosine())]), VALUES, "kernel Cosine"),
]


def test_a_search_is_refused_with_the_attribute_to_export(tmp_path: Path) -> None:
    search = GridSearchCV(GPClassifier(kernel=kernels.RBF(), **FAST), {"likelihood": ["probit"]}, cv=2).fit(X, LABELS)
    with pytest.raises(UserError, match=r"GridSearchCV; it holds .*; pass its best_estimator_\.$"):
        sitewise.export(search, tmp_path / "model.npz")


@pytest.mark.parametrize(("model", "y", "words"), REFUSED)
def test_what_cannot_be_exported_is_refused_in_one_sentence(model: Any, y: Any, words: str, tmp_path: Path) -> None:
    model.fit(X[:, :1], y)
    with pytest.raises(UserError, match=words):
        model.export(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_a_sum_of_too_many_variables_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_posterior, "MAX_EXPORTED_VARIABLES", 10)
    model = GPRegressor(structure=[parts.Spline(0)]).fit(X, VALUES)
    with pytest.raises(UserError, match="at most 10 variables, and there are 20"):
        model.export(tmp_path / "model.npz")


def test_too_many_rows_of_series_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_posterior, "MAX_EXPORTED_VARIABLES", 40)
    monkeypatch.setattr(markov_prior, "MAX_EXPORTED_ROWS", 39)
    model = GPRegressor(structure=[parts.Series(0)]).fit(X, VALUES)
    with pytest.raises(UserError, match="at most 40 variables, and there are 41"):
        model.export(tmp_path / "model.npz")
    model = GPRegressor(structure="markov", kernel=kernels.Matern32(), **FAST).fit(X[:, :1], VALUES)
    with pytest.raises(UserError, match="at most 39 rows, and there are 40"):
        model.export(tmp_path / "model.npz")


def test_points_that_components_share_are_stored_once(tmp_path: Path) -> None:
    model = GPClassifier(kernel=kernels.RBF(), multi_class="joint", **FAST).fit(X, THREE)
    sitewise.export(model, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        shapes = [file[name].shape for name in file]
    assert shapes.count((40, 3)) == 1
