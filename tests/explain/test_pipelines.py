"""Pipelines: explanations have the names, levels and units of the table, without set_output."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sitewise
from sitewise import EffectDisplay, GPClassifier, GPOrdinal, GPRegressor, TableEncoder, kernels
from sitewise.estimators import (
    calibration,
    effect,
    importance,
    interaction,
    lengthscales,
    plot_cost,
    plot_loo,
    predict_terms,
    survival_curve,
    term_shares,
)

pandas = pytest.importorskip("pandas")
ROWS = 60
RNG = np.random.default_rng(0)
AGE = RNG.uniform(20, 60, ROWS).round(1)
SHOP = np.array(["north", "south", "west"])[np.arange(ROWS) % 3]
SEX = np.where(np.arange(ROWS) % 4 < 2, "f", "m")
JUDGE = np.array(["Ann", "Bob", "Cid", "Dan", "Eve"])[RNG.integers(0, 5, ROWS)]
TABLE = pandas.DataFrame({"age": AGE, "shop": SHOP, "sex": SEX})
SIGNAL = (AGE - 40) / 10 + 2.0 * (SHOP == "south") + 0.7 * (SEX == "m")
VALUES = SIGNAL + 0.1 * RNG.normal(size=ROWS)
TARGETS = {
    GPRegressor: VALUES,
    GPClassifier: np.where(VALUES > 1, "yes", "no"),
    GPOrdinal: np.digitize(VALUES, [-0.5, 1.0, 2.0]),
}


@pytest.fixture(scope="module")
def regression():
    return make_pipeline(TableEncoder(), GPRegressor()).fit(TABLE, VALUES)


@pytest.fixture(scope="module")
def scaled():
    return make_pipeline(TableEncoder(), StandardScaler(), GPRegressor()).fit(TABLE, VALUES)


@pytest.fixture(scope="module")
def judged():
    table = TABLE[["age"]].assign(judge=JUDGE)
    levels = dict(zip("ABCDE", [-2, -1, 0, 1, 2], strict=True))
    score = VALUES + np.array([levels[name[0]] for name in JUDGE])
    model = make_pipeline(TableEncoder(groups="judge"), GPRegressor(groups="judge"))
    return model.fit(table, score), table, score


def replaced(table, **columns):
    return table.assign(**columns)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
def test_importance_is_of_the_columns_of_the_table(kind) -> None:
    model = make_pipeline(TableEncoder(), kind()).fit(TABLE, TARGETS[kind])
    found = importance(model)
    assert found.names == ("age", "shop", "sex") and "x0" not in str(found)
    shops = [name for name in model[0].get_feature_names_out() if name.startswith("shop")]
    by_hand = model[-1].importance(groups={"shop": shops})
    np.testing.assert_allclose(found.total, by_hand.total, rtol=1e-12)
    assert model[-1]._column_names() == list(model[0].get_feature_names_out())
    both = importance(model, TABLE[:30], groups={"who": ["age", "sex"]})
    assert both.names == ("who", "shop")


@pytest.mark.parametrize("which", ["regression", "scaled"])
@pytest.mark.parametrize("column", ["shop", "sex"])
def test_a_category_has_an_effect_per_level_by_name(which, column, request) -> None:
    model = request.getfixturevalue(which)
    found = effect(model, column)
    assert found.name == column and found.listed
    assert found.grid.tolist() == sorted(TABLE[column].unique())
    for level, mean in zip(found.grid, found.mean, strict=True):
        assert mean == pytest.approx(model.predict(replaced(TABLE, **{column: level})).mean(), rel=1e-6)
    assert np.all((found.low < found.mean) & (found.mean < found.high))
    lines = str(found).splitlines()
    assert lines[0].split() == [column, "mean", "low", "high"] and lines[1].split()[0] == found.grid[0]
    assert effect(model, column, TABLE[:20], grid=[found.grid[1]]).grid.tolist() == [found.grid[1]]
    with pytest.raises(ValueError, match=rf"'{column}' has no level 'moon'; give levels such as '"):
        effect(model, column, grid=["moon"])


@pytest.mark.parametrize("which", ["regression", "scaled"])
def test_a_number_has_an_effect_in_the_units_of_the_table(which, request) -> None:
    model = request.getfixturevalue(which)
    found = effect(model, "age", TABLE, grid=[30.0, 50.0])
    for value, mean in zip(found.grid, found.mean, strict=True):
        assert mean == pytest.approx(model.predict(replaced(TABLE, age=value)).mean(), rel=1e-6)
    whole = effect(model, "age", points=4)
    np.testing.assert_allclose(whole.grid, np.linspace(*np.quantile(AGE, [0.02, 0.98]), 4))


def test_an_interaction_has_the_levels_of_the_table(regression) -> None:
    found = interaction(regression, "age", "shop", points=3)
    assert found.names == ("age", "shop") and found.grids[1].tolist() == ["north", "south", "west"]
    f = regression.predict
    for i, age in enumerate(found.grids[0]):
        for k, shop in enumerate(found.grids[1]):
            both, one, other = (
                f(replaced(TABLE, **given)).mean()
                for given in ({"age": age, "shop": shop}, {"age": age}, {"shop": shop})
            )
            assert found.mean[i, k] == pytest.approx(both - one - other + f(TABLE).mean(), abs=1e-6)
    assert set(interaction(regression, points=3).names) == {"age", "shop"}


TABLES = {
    "frame": lambda frame: frame,
    "records": lambda frame: frame.to_dict("records"),
    "dict": lambda frame: {name: frame[name].tolist() for name in frame},
}


@pytest.mark.parametrize("form", TABLES)
def test_groups_by_name_need_no_set_output(form, judged, tmp_path) -> None:
    _, table, score = judged
    model = make_pipeline(TableEncoder(groups="judge"), GPRegressor(groups="judge"))
    model.fit(TABLES[form](table), score)
    assert any(isinstance(part, kernels.Index) for part in model[-1].kernel_.parts)
    sitewise.save(model, tmp_path / "model")
    again = sitewise.load(tmp_path / "model")
    assert again[-1]._column_names() == ["age", "judge"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one in (model, again):
            for other in TABLES.values():
                np.testing.assert_allclose(one.predict(other(table)), model.predict(table))
    np.testing.assert_allclose(effect(again, "judge").mean, effect(model, "judge").mean)


def test_a_group_has_an_effect_per_level_by_name(judged) -> None:
    model, table, _ = judged
    found = effect(model, "judge", response=False)
    assert found.grid.tolist() == ["Ann", "Bob", "Cid", "Dan", "Eve"]
    assert np.all(np.diff(found.mean) > 0.5) and np.all(found.sd < 0.5)
    level = [model.predict(replaced(table, judge=name)).mean() for name in found.grid]
    np.testing.assert_allclose(found.mean, np.array(level) - model.predict(table).mean(), rtol=1e-6, atol=1e-8)


def test_a_refit_on_an_array_forgets_the_names(judged) -> None:
    _, table, score = judged
    gp = GPRegressor().fit(TableEncoder().fit_transform(TABLE), VALUES)
    assert gp._column_names()[0] == "age"
    assert gp.fit(table[["age"]].to_numpy(), score)._column_names() == ["x0"]


@pytest.mark.parametrize(
    ("encoder", "scaler", "words"),
    [
        (TableEncoder(groups="judge"), [StandardScaler()], "X has no column names; give a data frame, call set_output"),
        (TableEncoder(), [], r"encode it with TableEncoder\(groups='judge'\)"),
    ],
)
def test_a_group_that_has_no_column_is_explained(encoder, scaler, words, judged) -> None:
    _, table, score = judged
    with pytest.raises(ValueError, match=words):
        make_pipeline(encoder, *scaler, GPRegressor(groups="judge")).fit(table, score)


def test_columns_of_a_column_transformer_keep_their_names() -> None:
    steps = ColumnTransformer([("scale", StandardScaler(), ["age"])], remainder="passthrough")
    model = make_pipeline(TableEncoder().set_output(transform="pandas"), steps, GPRegressor("shrunk")).fit(
        TABLE, VALUES
    )
    wanted = ["scale__age", *(f"remainder__{name}" for name in model[0].get_feature_names_out()[1:])]
    assert list(importance(model).names) == wanted
    assert effect(model, "scale__age", points=3).name == "scale__age"
    assert [one.names for one in lengthscales(model)] == [(name,) for name in wanted]


def test_columns_that_a_step_mixes_are_those_of_the_step() -> None:
    model = make_pipeline(TableEncoder(), PCA(2), GPRegressor()).fit(TABLE, VALUES)
    assert importance(model).names == ("pca0", "pca1")


def test_terms_have_the_names_of_the_table() -> None:
    model = make_pipeline(TableEncoder(), GPRegressor("additive")).fit(TABLE[["age", "sex"]], VALUES)
    assert predict_terms(model, TABLE[["age", "sex"]][:3]).names[2:4] == ("age", "sex=m")
    assert set(term_shares(model).names) >= {"age", "sex=m"}
    np.testing.assert_allclose(
        predict_terms(model, TABLE[:3]).mean.sum(axis=1), model.predict(TABLE[:3]), rtol=1e-6
    )  # fmt: skip


def test_displays_have_the_names_of_the_table(regression, judged) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    shown = EffectDisplay.from_estimator(regression, points=4)
    panel = next(a for a in shown.axes_ if a.get_xlabel() == "shop")
    assert [label.get_text() for label in panel.get_xticklabels()] == ["north", "south", "west"]
    one = next(e for e in shown.effects if e.name == "shop")
    np.testing.assert_allclose(panel.get_lines()[0].get_ydata(), one.mean)
    shown = EffectDisplay.from_estimator(judged[0], features="judge")
    assert [label.get_text() for label in shown.axes_[0].get_xticklabels()] == ["Ann", "Bob", "Cid", "Dan", "Eve"]
    pyplot.close("all")


def test_calibration_and_plots_take_a_pipeline() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    labels = TARGETS[GPClassifier]
    model = make_pipeline(TableEncoder(), GPClassifier()).fit(TABLE, labels)
    assert calibration(model).rows == calibration(model, TABLE, labels).rows == ROWS
    assert plot_cost(model, 1, 5).get_xlabel() == "threshold"
    assert "influence" in plot_loo(model).get_ylabel()
    other = make_pipeline(TableEncoder(), LogisticRegression()).fit(TABLE, labels)
    for call in (calibration, lambda m: plot_cost(m, 1, 5), plot_loo, importance, lambda m: effect(m, 0)):
        with pytest.raises(ValueError, match="a Pipeline that ends in one; got LogisticRegression"):
            call(other)
    pyplot.close("all")


def test_a_survival_curve_of_a_pipeline_is_that_of_its_estimator() -> None:
    time = np.exp(0.5 * SIGNAL) * np.random.default_rng(1).weibull(2.0, ROWS)
    model = make_pipeline(TableEncoder(), GPRegressor(likelihood="weibull")).fit(TABLE, time)
    found = survival_curve(model, TABLE[:3], [0.5, 1.0])
    inside = survival_curve(model[-1], model[0].transform(TABLE[:3]), [0.5, 1.0])
    np.testing.assert_array_equal(found.mean, inside.mean)
    wanted = 1 - np.column_stack([model[-1].predict_cdf(model[0].transform(TABLE[:3]), t) for t in (0.5, 1.0)])
    np.testing.assert_allclose(found.mean, wanted, atol=0.02)
