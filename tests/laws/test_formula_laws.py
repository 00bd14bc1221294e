"""A formula equals dense algebra: coefficients, terms, offsets, predictions of new levels."""

from __future__ import annotations

import numpy as np
import pytest

import sitewise
from sitewise.formula import FormulaModel
from sitewise.priors.posterior import LatentPosterior
from sitewise.process.precision import working_precision

ROWS = 40


def table(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {"x": rng.normal(2.0, 3.0, ROWS), "g": np.array(list("abcde"))[rng.integers(0, 5, ROWS)]}
    levels = dict(zip("abcde", rng.normal(size=5), strict=True))
    found["y"] = 10 + 0.7 * found["x"] + np.array([levels[g] for g in found["g"]]) + 0.5 * rng.normal(size=ROWS)
    return found


@pytest.fixture(scope="module")
def model() -> FormulaModel:
    return sitewise.fit("y ~ x + (1 | g)", table(), integrate=False)


def dense(model: FormulaModel, data: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Mean and covariance of (intercept, slope, effects of groups of new rows), by the formulas of a linear model.

    The priors are independent for the column minus its mean; the intercept is the one at zero.
    """
    levels, scale = sorted(set(data["g"])), np.std(data["y"])
    rest = [one for one in dict.fromkeys(new["g"]) if one not in levels]
    kernel = model.estimator.kernel_
    by_name = {part.name: part for part in kernel.parts}
    group_var = float(by_name["(1 | g)"].variance) * scale**2
    noise = float(model.estimator.likelihood_.scale) * scale
    average = data["x"].mean()
    design = np.column_stack(
        [np.ones(ROWS), data["x"] - average, *((data["g"] == level).astype(float) for level in [*levels, *rest])]
    )
    prior = np.diag(
        [(10 * scale) ** 2, (10 * scale / np.std(data["x"])) ** 2, *[group_var] * (len(levels) + len(rest))]
    )
    covariance = np.linalg.inv(design.T @ design / noise**2 + np.linalg.inv(prior))
    mean = covariance @ design.T @ (data["y"] - data["y"].mean()) / noise**2
    at_zero = np.eye(len(mean))
    at_zero[0, 1] = -average
    mean, covariance = at_zero @ mean, at_zero @ covariance @ at_zero.T
    rows = np.column_stack([
        np.ones(len(new["x"])), new["x"], *((new["g"] == level).astype(float) for level in [*levels, *rest])
    ])  # fmt: skip
    return mean, covariance, data["y"].mean() + rows @ mean, np.einsum("ij,jk,ik->i", rows, covariance, rows)


def test_a_mixed_model_equals_dense_algebra(model: FormulaModel) -> None:
    data = table()
    new = {"x": np.array([0.0, 1.0, 5.0]), "g": np.array(["a", "new", "e"])}
    mean, covariance, fitted, var = dense(model, data, new)
    found, sd = model.posteriors.coefficients()
    np.testing.assert_allclose([found[0], sd[0]], [mean[1], np.sqrt(covariance[1, 1])], rtol=1e-6)
    found, sd = model.posteriors.intercept()
    np.testing.assert_allclose([found, sd], [mean[0] + data["y"].mean(), np.sqrt(covariance[0, 0])], rtol=1e-6)
    np.testing.assert_allclose(model.predict(new), fitted, rtol=1e-7)
    X = model._inputs(new)[0]
    np.testing.assert_allclose(model.estimator.predict_latent(X, return_std=True)[1], np.sqrt(var), rtol=1e-6)


def test_terms_add_up_to_the_latent_function(model: FormulaModel) -> None:
    found = model.predict(terms=True)
    whole = model.posteriors.intercept()[0] + found.mean.sum(axis=1)
    np.testing.assert_allclose(whole, model.estimator.predict_latent(model.estimator._X), rtol=1e-9)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_an_offset_shifts_the_latent_function(likelihood: str) -> None:
    data = table(1)
    rng = np.random.default_rng(0)
    data["y"] = data["y"] if likelihood == "gaussian" else rng.poisson(np.exp(0.2 * data["x"])).astype(float)
    data["w"] = rng.uniform(0.5, 3.0, ROWS)
    shifted = sitewise.fit("y ~ s(x) + offset(w)", data, likelihood, integrate=False)
    if likelihood == "gaussian":
        other = sitewise.fit("z ~ s(x)", {**data, "z": data["y"] - data["w"]}, integrate=False)
        want = other.predict() + data["w"]
    else:
        other = sitewise.fit("y ~ s(x)", data, likelihood, exposure=np.exp(data["w"]), integrate=False)
        want = other.predict()
    np.testing.assert_allclose(shifted.predict(), want, rtol=2e-3)
    moved = {**data, "w": data["w"] + 1.0}
    expected = shifted.predict() + 1 if likelihood == "gaussian" else shifted.predict() * np.e
    np.testing.assert_allclose(shifted.predict(moved), expected, rtol=1e-9)


def test_a_smooth_term_equals_the_gaussian_process_of_its_kernel() -> None:
    data = table(2)
    data["y"] = np.sin(0.5 * data["x"]) + 0.3 * np.random.default_rng(2).normal(size=ROWS)
    fitted = sitewise.fit("y ~ s(x, k=40)", data, integrate=False)
    kernel, scale = fitted.estimator.kernel_, np.std(data["y"])
    new = {"x": np.linspace(-6, 10, 9)}
    X, rows = fitted._inputs(new)[0], fitted.estimator._X
    with working_precision():
        K, cross = np.asarray(kernel.matrix(rows)), np.asarray(kernel.matrix(X, rows))
    noise = float(fitted.estimator.likelihood_.scale)
    want = cross @ np.linalg.solve(K + noise**2 * np.eye(ROWS), (data["y"] - data["y"].mean()) / scale)
    np.testing.assert_allclose(fitted.predict(new), data["y"].mean() + scale * want, rtol=1e-6, atol=1e-8)


def test_the_effective_number_of_parameters_is_a_trace(model: FormulaModel) -> None:
    data = table()
    _, covariance, *_ = dense(model, data, {"x": np.zeros(1), "g": np.array(["a"])})
    design = np.column_stack([np.ones(ROWS), data["x"], *((data["g"] == g).astype(float) for g in "abcde")])
    noise = float(model.estimator.likelihood_.scale) * np.std(data["y"])
    centring = np.eye(len(covariance))
    centring[0, 1] = data["x"].mean()  # the intercept at the mean of the column
    share = np.diag(centring @ covariance @ design.T @ design @ np.linalg.inv(centring)) / noise**2
    found = model.posteriors.effective_parameters()
    want = {"intercept": share[0], "linear": share[1], "(1 | g)": share[2:].sum()}
    assert found.keys() == want.keys()
    np.testing.assert_allclose([found[name] for name in want], list(want.values()), rtol=1e-6)
    latent = model.estimator._latents[0].posterior.latent
    precisions = np.full(ROWS, (np.std(data["y"]) / noise) ** 2)
    sets = [(0,), (1,), (2,)]
    by_rows = LatentPosterior.effective_parameters(latent, model.estimator._X, precisions, sets)
    np.testing.assert_allclose(by_rows, [want["linear"], want["(1 | g)"], want["intercept"]], rtol=1e-6)


@pytest.mark.parametrize("origin", [0.0, 2000.0])
def test_a_share_is_the_expected_variance_over_the_rows(origin: float) -> None:
    """E Σ (f_i − f̄)² / n = trace of (posterior second moment, rows centred) / n, wherever the column has its zero."""
    data = table()
    data["x"] = data["x"] + origin
    fitted = sitewise.fit("y ~ x + (1 | g)", data, integrate=False)
    mean, covariance, *_ = dense(fitted, data, {"x": np.zeros(1), "g": np.array(["a"])})
    second = covariance + np.outer(mean, mean)
    groups = np.column_stack([(data["g"] == g).astype(float) for g in "abcde"])
    centred = groups - groups.mean(axis=0)
    spread = [np.var(data["x"]) * second[1, 1], np.trace(centred @ second[2:, 2:] @ centred.T) / ROWS]
    summary = fitted.summary().terms
    assert [row[0] for row in summary] == ["(1 | g)"]
    np.testing.assert_allclose(summary[0][-2], spread[1] / sum(spread), rtol=1e-6)


def test_leave_one_out_equals_refits_at_the_same_hyperparameters() -> None:
    data = {name: values[:12] for name, values in table().items()}
    fitted = sitewise.fit("y ~ x + (1 | g)", data, integrate=False)
    estimator = fitted.estimator
    kernel, scale = estimator.kernel_, estimator.y_scale_
    with working_precision():
        K = np.asarray(kernel.matrix(estimator._X)) + float(estimator.likelihood_.scale) ** 2 * np.eye(12)
    y = (data["y"] - estimator.y_mean_) / scale
    want = []
    for i in range(12):
        rest = np.arange(12) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        mean, var = weights @ y[rest], K[i, i] - weights @ K[rest, i]
        want.append(-0.5 * np.log(2 * np.pi * var) - 0.5 * (y[i] - mean) ** 2 / var - np.log(scale))
    np.testing.assert_allclose(fitted.loo.log_density, want, rtol=1e-6)
    assert np.isclose(fitted.summary().loo, np.sum(want))


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "ordinal"])
def test_estimates_do_not_depend_on_the_origin_of_a_column(likelihood: str) -> None:
    rng = np.random.default_rng(3)
    year = rng.integers(2000, 2021, 80).astype(float)
    f = 0.1 * (year - 2010)
    y = {
        "gaussian": f + 0.4 * rng.normal(size=80),
        "poisson": rng.poisson(np.exp(1 + 0.5 * f)).astype(float),
        "ordinal": np.digitize(f + 0.4 * rng.normal(size=80), [-0.5, 0.5]),
    }[likelihood]
    data = {"year": year, "y": y}
    far, near = (sitewise.fit(f"y ~ {x}", data, likelihood, integrate=False) for x in ("year", "I(year - 2010)"))
    np.testing.assert_allclose(far.log_evidence, near.log_evidence, rtol=1e-7)
    np.testing.assert_allclose(far.loo.log_density, near.loo.log_density, rtol=1e-5)
    np.testing.assert_allclose(far.posteriors.coefficients(), near.posteriors.coefficients(), rtol=1e-5)
    if likelihood == "ordinal":
        return
    (slope,), _ = near.posteriors.coefficients()
    np.testing.assert_allclose(far.posteriors.intercept()[0], near.posteriors.intercept()[0] - 2010 * slope, rtol=1e-6)
    whole = far.posteriors.intercept()[0] + far.predict(terms=True).mean.sum(axis=1)
    np.testing.assert_allclose(whole, near.estimator.predict_latent(near.estimator._X), rtol=1e-5, atol=1e-6)


def test_the_intercept_beside_a_smooth_term_of_the_same_column() -> None:
    data = table()
    data["z"] = np.random.default_rng(5).normal(5.0, 1.0, ROWS)
    model = sitewise.fit("y ~ x + z + s(x)", data, integrate=False)
    whole = model.posteriors.intercept()[0] + model.predict(terms=True).mean.sum(axis=1)
    np.testing.assert_allclose(whole, model.estimator.predict_latent(model.estimator._X), rtol=1e-7)
    apart = sitewise.fit("y ~ w + z + s(x)", {**data, "w": data["x"]}, integrate=False)
    np.testing.assert_allclose(model.posteriors.intercept(), apart.posteriors.intercept(), rtol=1e-3)


@pytest.mark.parametrize("right", ["0 + x", "0 + g + x", "0 + x + offset(w)"])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_without_an_intercept_estimates_are_least_squares_in_any_unit(right: str, unit: float) -> None:
    """y was neither centred nor scaled, and the prior shrank the coefficients of large responses to zero."""
    data = table()
    data["w"] = np.random.default_rng(1).normal(10.0, 2.0, ROWS)
    found = sitewise.fit(f"y ~ {right}", {**data, "y": unit * data["y"], "w": unit * data["w"]}, integrate=False)
    y = data["y"] - (data["w"] if "offset" in right else 0.0)
    groups = [(data["g"] == g).astype(float) for g in "abcde"] if "g" in right else []
    design = np.column_stack([*groups, data["x"]])
    want = np.linalg.lstsq(design, y, rcond=None)[0]
    residual = y - design @ want
    assert found.design.coefficients[-1] == "x"
    np.testing.assert_allclose(found.posteriors.coefficients()[0] / unit, want, rtol=2e-3, atol=2e-3)
    scale = found.summary().parameters[0][1] / unit
    np.testing.assert_allclose(scale, np.sqrt(np.sum(residual**2) / (ROWS - len(want))), rtol=2e-2)


@pytest.mark.parametrize("unit", [1e-5, 1e5])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_varying_coefficient_does_not_depend_on_the_unit_of_its_column(likelihood: str, unit: float) -> None:
    """The function that multiplies a column has priors in units of f; the column was taken in its own unit."""
    data, rng = table(4), np.random.default_rng(4)
    data["z"] = rng.uniform(0.5, 2.0, ROWS)
    f = data["z"] * np.sin(0.5 * data["x"])
    data["y"] = f + 0.2 * rng.normal(size=ROWS) if likelihood == "gaussian" else rng.poisson(np.exp(f)).astype(float)
    found, other = (
        sitewise.fit("y ~ s(x, by=z)", {**data, "z": scale * data["z"]}, likelihood, integrate=False)
        for scale in (1.0, unit)
    )
    np.testing.assert_allclose(other.predict(), found.predict(), rtol=1e-6)
    np.testing.assert_allclose(other.log_evidence, found.log_evidence, rtol=1e-8)
    (row,), (same,) = found.summary().terms, other.summary().terms
    np.testing.assert_allclose(np.array(same[1:4]) * unit, row[1:4], rtol=1e-4)
    assert found.design.columns["z of s(x, by=z)"].about_zero


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
@pytest.mark.parametrize(
    ("right", "near"),
    [
        ("year * g", "t * C(g, ref='c')"),
        ("year + I(year^2)", "t + I(t^2)"),
        ("year * x", "I(10 - t) * I(100 * x + 1e4)"),
    ],
)
def test_products_and_powers_do_not_depend_on_origins_units_and_reference_levels(
    right: str, near: str, likelihood: str
) -> None:
    """Independent priors of year and year:g shrank the differences of slopes: year:g varies mostly with g."""
    rng = np.random.default_rng(6)
    t, x = rng.integers(-10, 11, 90).astype(float), rng.normal(size=90)
    g = np.array(list("abc"))[rng.integers(0, 3, 90)]
    f = 0.1 * t * (g == "b") + 0.02 * t**2 + 0.1 * t * x
    y = f + 0.5 * rng.normal(size=90) if likelihood == "gaussian" else rng.poisson(np.exp(0.5 * f)).astype(float)
    data = {"t": t, "year": t + 2010, "x": x, "g": g, "y": y}
    far, close = (sitewise.fit(f"y ~ {one}", data, likelihood, integrate=False) for one in (right, near))
    np.testing.assert_allclose(far.log_evidence, close.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(far.loo.log_density, close.loo.log_density, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(far.predict(), close.predict(), rtol=1e-6, atol=1e-8)
    assert np.isclose(far.summary().effective, close.summary().effective)
    if likelihood == "gaussian":
        inputs = [t, x, t * x] if "x" in right else [t, t**2] if "^" in right else []
        inputs = inputs or [t, g == "b", g == "c", t * (g == "b"), t * (g == "c")]
        design = np.column_stack([np.ones(90), *inputs]).astype(float)
        want = np.linalg.lstsq(design, y, rcond=None)[0]
        np.testing.assert_allclose(far.posteriors.coefficients()[0][-1], want[-1], rtol=5e-3)


def test_the_prior_of_uncorrelated_columns_is_independent() -> None:
    """10 standard deviations of y per standard deviation of a column."""
    t = np.arange(40.0)
    data = {"a": 1e3 * np.cos(2 * np.pi * t / 40), "b": np.sin(2 * np.pi * t / 40) + 7, "y": t % 7}
    kernel = sitewise.fit("y ~ a + b", data, integrate=False).estimator.kernel_
    rows = np.array([[1.0, 7.0], [0.0, 8.0]])  # the means are 0 and 7
    found = np.asarray(kernel.parts[0].matrix(rows, rows))
    np.testing.assert_allclose(found, np.diag([100 / np.var(data["a"]), 100 / np.var(data["b"])]), atol=1e-10)
