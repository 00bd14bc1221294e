"""`--groups` and `--kernel additive`: splits, reports, and a saved model on new groups."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sitewise import kernels
from sitewise.app.commands import app
from sitewise.app.compare.comparison import split
from sitewise.app.fitting import _scales


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    group, dose, age = rng.integers(0, 6, 80), rng.normal(size=80), rng.normal(size=80)
    cured = dose + 0.4 * (group % 2) + 0.1 * rng.normal(size=80)
    path = tmp_path_factory.mktemp("groups") / "t.csv"
    lines = [f"{d:.3f},{a:.3f},clinic {g},{c:.3f}" for d, a, g, c in zip(dose, age, group, cured, strict=True)]
    path.write_text("\n".join(["dose,age,clinic,cured", *lines]) + "\n")
    return path


def test_folds_keep_groups_together():
    groups = np.repeat(np.arange(8), 5)
    for classes in (False, True):
        parts = split(np.tile([0, 1], 20), 4, 0, classes, groups=groups)
        assert all(not set(groups[train]) & set(groups[test]) for train, test in parts)
        assert sorted(np.concatenate([test for _, test in parts])) == list(range(40))
    with pytest.raises(ValueError, match="fewer than the 9 folds"):
        split(np.zeros(40), 9, 0, False, groups=groups)


def test_compare_and_predict_with_groups(table, tmp_path):
    out = tmp_path / "r.html"
    call = ["compare", str(table), "-t", "cured", "--groups", "clinic", "--kernel", "additive", "--methods", "hybrid"]
    found = CliRunner().invoke(app, [*call, "--folds", "2", "--no-baselines", "-o", str(out), "--json"])
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout[found.stdout.index("{") :])
    assert {"dose", "age", "dose × age", "clinic"} >= {t["term"] for t in result["terms"]} and result["terms"]
    page = out.read_text()
    assert "Terms of the additive model" in page and "clinic 3" in page
    assert any("Whole groups of 'clinic' were held out" in sentence for sentence in result["verdict"])
    model = tmp_path / "m.sitewise"
    assert (
        CliRunner().invoke(app, ["fit", str(table), "-t", "cured", "--groups", "clinic", "-o", str(model)]).exit_code
        == 0
    )
    new = tmp_path / "new.csv"
    new.write_text("dose,age,clinic\n0.1,0.2,clinic 1\n0.1,0.2,elsewhere\n")
    shown = CliRunner().invoke(app, ["predict", str(model), str(new)])
    assert shown.exit_code == 0 and "a new group" in shown.output


def test_a_column_that_names_no_groups(table, tmp_path):
    found = CliRunner().invoke(app, ["fit", str(table), "-t", "cured", "--groups", "dose", "-o", str(tmp_path / "m")])
    assert found.exit_code != 0 and "groups of rows" in found.output


def test_an_additive_kernel_has_no_single_magnitude():
    X = np.random.default_rng(0).normal(size=(9, 2))
    assert _scales([kernels.Additive.of(X, base=kernels.Matern52([1.0, 2.0], [0.3, 0.4]))], 2) == {"lengthscales": None}
