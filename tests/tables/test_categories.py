"""Categorical columns: which columns are categorical, and the encoding of unseen categories."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from sitewise import GPClassifier, Hyperparameters, TableEncoder, UserError
from sitewise.tables import Recipe, describe, table_of, understand

RNG = np.random.default_rng(4)
ROWS = 60
X = RNG.normal(size=ROWS)
SEX = np.where(RNG.uniform(size=ROWS) < 0.5, "f", "m")
PORT = RNG.choice(["C", "Q", "S"], ROWS)


def encoded(encoder, **columns):
    """The inputs of a table and the messages of all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return encoder.transform(columns), [str(w.message) for w in caught]


@pytest.mark.parametrize(("column", "known"), [(SEX, ["f", "m"]), (PORT, ["C", "Q", "S"])])
def test_an_unseen_category_equals_no_known_one_and_is_equally_far_from_all(column, known):
    encoder = TableEncoder().fit({"c": column, "x": X})
    found, said = encoded(encoder, c=[*known, "Z", "new"], x=np.zeros(len(known) + 2))
    seen, unseen = found[: len(known)], found[len(known) :]
    apart = np.linalg.norm(seen - unseen[0], axis=1)
    np.testing.assert_allclose(apart, apart[0])
    assert apart[0] > 0 and np.array_equal(unseen[0], unseen[1])
    assert len(said) == 1 and "column 'c' has the unseen categories 'Z', 'new' (first in row" in said[0]


def test_one_warning_names_all_columns_and_known_categories_give_none():
    encoder = TableEncoder(groups=["school"]).fit(
        {"sex": SEX, "port": PORT, "school": RNG.choice(["a", "b", "c"], ROWS), "x": X}
    )
    _, said = encoded(encoder, sex=["f", "?!"], port=["C", "D"], school=["a", "d"], x=[0, 0])
    assert said == [
        "column 'sex' has the unseen category '?!' (in row 2); the model treats it as halfway between 'f' and 'm'. "
        "column 'port' has the unseen category 'D' (in row 2); the model treats it as none of the known categories."
    ]
    assert not encoded(encoder, sex=["f"], port=["C"], school=["d"], x=[0])[1]


def test_the_prediction_of_an_unseen_category_lies_between_the_two_known_ones():
    labels = np.where((SEX == "m") + 0.3 * RNG.normal(size=ROWS) > 0.5, "yes", "no")
    model = make_pipeline(TableEncoder(), GPClassifier(method="laplace", hyperparameters=Hyperparameters(fixed="*")))
    model.fit({"sex": SEX, "x": X}, labels)
    with pytest.warns(UserWarning, match="halfway between 'f' and 'm'"):
        f, m, unknown = model.predict_proba({"sex": ["f", "m", "unknown"], "x": [0, 0, 0]})[:, 1]
    assert f + 0.1 < unknown < m - 0.1


def test_a_recipe_of_an_earlier_version_treats_an_unseen_category_in_the_same_way():
    plain = {"columns": [{"kind": "levels", "name": "sex", "fill": None, "levels": ["f", "m"]}], "impute": False}
    recipe = Recipe.from_plain(plain)
    assert recipe.inputs(table_of({"sex": ["f", "m", "unknown"]})).tolist() == [[0], [1], [0.5]]
    assert recipe.to_plain()["columns"] == plain["columns"]


def features(frame, **settings):
    return TableEncoder(**settings).fit(frame).get_feature_names_out().tolist()


def test_the_type_of_a_column_says_that_it_is_categorical():
    pandas = pytest.importorskip("pandas")
    codes = RNG.integers(1, 4, ROWS)
    frame = pandas.DataFrame({
        "a": pandas.Categorical(codes),
        "b": pandas.Series(codes.astype(str), dtype="string"),
        "c": pandas.Series(codes.astype(str), dtype=object),
        "d": pandas.cut(X, [-9, 0, 9]),
        "e": codes,
    })  # fmt: skip
    levels = ["1", "2", "3"]
    expected = [f"{name}={level}" for name in "abc" for level in levels]
    assert features(frame) == [*expected, "d=(0, 9]", "e"]
    encoder = TableEncoder().fit(frame)
    assert any("'c' holds whole numbers as strings and is categorical" in note for note in encoder.notes_)
    later = frame.assign(a=codes, b=codes.astype(float), c=codes)  # numbers are the same labels
    assert np.array_equal(encoder.transform(later), encoder.transform(frame))


def test_whole_numbers_as_strings_are_asked_about_if_there_are_many():
    frame = {"zip": [str(10000 + k % 40) for k in range(100)], "x": RNG.normal(size=100)}
    with pytest.raises(UserError, match=r"(?s)40 whole numbers as strings.*convert them to numbers, or choose one"):
        TableEncoder().fit(frame)
    assert len(features(frame, categorical=["zip"])) == 41 and features(frame, drop=["zip"]) == ["x"]
    assert features({**frame, "zip": [float(z) for z in frame["zip"]]}) == ["zip", "x"]
    assert features({"price": [f"{k}.50" for k in range(ROWS)], "x": X}) == ["price", "x"]  # decimals are numbers


def test_the_setting_categorical_holds_for_numbers_and_later_tables():
    ward = RNG.integers(1, 5, ROWS)
    encoder = TableEncoder(categorical="ward").fit({"ward": ward, "x": X})
    assert encoder.get_feature_names_out().tolist() == ["ward=1", "ward=2", "ward=3", "ward=4", "x"]
    assert encoder.transform({"ward": [3, "3", 3.0], "x": [0, 0, 0]})[:, :4].tolist() == [[0, 0, 1, 0]] * 3
    with pytest.raises(UserError, match="has no column 'yard'"):
        TableEncoder(categorical=["yard"]).fit({"ward": ward, "x": X})


@pytest.mark.parametrize("label", ["3+", "3 or more", ">3", "≥ 3", "3-5", "3 to 5", "under 3"])
def test_labels_of_classes_of_numbers_survive(label):
    cells = [["0", "1", "2", label][k % 4] for k in range(40)]
    table = understand(table_of({"kids": cells}))
    recipe, _, problems = describe(table)
    assert not problems and not table.problems and f"kids={label}" in recipe.features
    assert f"column 'kids' holds {label!r} beside numbers and is categorical." in table.notes


def test_a_label_among_many_numbers_is_asked_about_and_never_erased():
    (problem,) = understand(table_of({"age": [str(k) for k in range(20, 60)] + ["90+"]})).problems
    assert problem.fix == {} and [list(settings) for settings, _ in problem.ways] == [["missing", "impute"], ["drop"]]
    (problem,) = understand(table_of({"n": ["1", "2", "2", "1", "unsure"] * 9})).problems
    assert {"categorical": ["n"]} in [settings for settings, _ in problem.ways] and problem.fix == {}
    table = understand(table_of({"n": ["1", "2", "2", "1", "unsure"] * 9}), categorical=["n"])
    assert not table.problems and describe(table)[0].features == ["n=1", "n=2", "n=unsure"]


def test_none_is_a_category_and_no_missing_value():
    columns = {"alcohol": ["none", "some", "much"] * 20, "x": X}
    assert features(columns) == ["alcohol=much", "alcohol=none", "alcohol=some", "x"]
    with pytest.raises(UserError, match=r"missing values .* in 'alcohol' \(1 of 60 rows\)"):
        TableEncoder().fit({**columns, "alcohol": [None, *columns["alcohol"][1:]]})


def test_groups_of_many_whole_numbers_as_strings_are_no_question():
    school = [str(100 + k // 3) for k in range(120)]
    encoder = TableEncoder(groups="school").fit({"school": school, "x": RNG.normal(size=120)})
    assert encoder.transform({"school": ["100", 101, "999"], "x": [0, 0, 0]})[:, 0].tolist() == [0, 1, 40]


def test_long_numbers_remain_different_categories():
    codes = 4006381333930 + np.arange(ROWS) % 3
    assert len(features({"ean": codes, "x": X}, categorical="ean")) == 4


LONG = [1234567890123456000 + 7 * (k % 3) for k in range(ROWS)]  # equal as floats


@pytest.mark.parametrize("option", ["categorical", "groups"])
@pytest.mark.parametrize("kind", ["int64", "Int64", "object", "category", "list"])
def test_identifiers_with_19_digits_remain_different(option, kind):
    pandas = pytest.importorskip("pandas")
    ids = LONG if kind == "list" else pandas.Series(LONG).astype(kind)
    encoder = TableEncoder(**{option: "id"}).fit({"id": ids, "x": X})
    assert [c.levels for c in encoder.recipe_.columns if c.name == "id"] == [tuple(map(str, LONG[:3]))]
    again = encoder.transform({"id": list(map(str, LONG[:3])), "x": X[:3]})
    np.testing.assert_array_equal(again, encoder.transform({"id": LONG[:3], "x": X[:3]}))


def test_a_column_of_large_numbers_remains_numeric():
    table = table_of({"ns": LONG, "x": X})
    assert table.numbers("ns") is not None
    assert table.take(np.array([1, 4])).text("ns").tolist() == [str(LONG[1]), str(LONG[4])]
    assert table_of({"big": [1e20, -0.0, 2.0**60, 0.1 + 0.2]}).text("big").tolist() == ["1e+20", "0", str(2**60), "0.3"]


def test_duplicate_names_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.ones((4, 3)), columns=["a", "b", "a"])
    with pytest.raises(UserError, match="several columns of X are named 'a'; give every column its own name"):
        TableEncoder().fit(frame)
    with pytest.raises(UserError, match="are named '1'"):
        TableEncoder().fit({1: X, "1": X[::-1]})
    encoder = TableEncoder().fit({"a": X, "b": X**2})
    with pytest.raises(UserError, match="are named 'a'"):
        encoder.transform(frame)
