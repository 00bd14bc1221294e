"""One small table for all commands: 64 rows, three inputs, so that fits of all rows and of two thirds share shapes."""

import numpy as np
import pytest
from typer.testing import CliRunner

from sitewise.app.commands import app


@pytest.fixture(autouse=True)
def not_our_process(monkeypatch):
    """The commands own their process; here it belongs to the tests."""
    for module in ("certify", "compare", "fit_model", "predict_rows", "draw_surface"):
        monkeypatch.setattr(f"sitewise.app.commands.{module}.own_process", lambda: None)


@pytest.fixture
def run():
    """Runs `sitewise ...` in this process."""

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return invoke


@pytest.fixture(scope="session")
def rows():
    """(width, height, shop, label) of 64 rows; the label follows the width, with noise."""
    rng = np.random.default_rng(5)
    width, height = rng.normal(size=(2, 64)).round(3)
    shop = np.where(rng.uniform(size=64) < 0.5, "north", "south")
    label = np.where(width + 0.4 * rng.normal(size=64) > 0, "yes", "no")
    return list(zip(width, height, shop, label, strict=True))


def written(path, rows, header="width,height,shop,label"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture(scope="session")
def write():
    return written


@pytest.fixture
def table(tmp_path, rows):
    return written(tmp_path / "table.csv", rows)


@pytest.fixture(scope="session")
def model(tmp_path_factory, rows):
    """A model that `sitewise fit` wrote; fitted once for all tests."""
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sitewise.app.commands.fit_model.own_process", lambda: None)
        patch.setattr("sitewise.estimators.training.MAX_INTEGRATED_ROWS", 0)
        source, target = written(folder / "t.csv", rows), folder / "m.sitewise"
        found = CliRunner().invoke(app, ["fit", str(source), "-t", "label", "-o", str(target), "--json"])
    assert found.exit_code == 0, found.output
    return target


@pytest.fixture(autouse=True)
def predictions_at_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are tested without the integral over hyperparameters, which the tests of estimators cover.

    The tests compile without optimisation, which makes quadrature over many nodes twenty times as slow.
    """
    monkeypatch.setattr("sitewise.estimators.training.MAX_INTEGRATED_ROWS", 0)
