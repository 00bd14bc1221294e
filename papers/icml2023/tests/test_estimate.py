"""The estimate that is shown before a run."""

import pytest

from sitewise_icml2023 import estimate
from sitewise_icml2023.fits import estimates
from sitewise_icml2023.options import Options
from sitewise_icml2023.store import Store
from sitewise_icml2023.tasks import KEY, Task


@pytest.fixture(autouse=True)
def known(monkeypatch):
    costs = {
        "fits": {"cpu": {"vi": [[128, 2.0], [512, 8.0]]}, "gpu": {}},
        "figures": {"cpu": {"fig5": 30.0}, "gpu": {}},
    }
    monkeypatch.setattr(estimate, "_costs", lambda: costs)


def test_seconds_between_and_beyond_measured_sizes():
    assert estimate.seconds("vi", 256, "cpu") == pytest.approx(4.0)  # halfway on the scale of logarithms
    assert estimate.seconds("vi", 64, "cpu") == pytest.approx(0.5)
    assert estimate.seconds("vi", 1024, "cpu") == pytest.approx(64.0)
    assert estimate.seconds("vi", 128, "gpu") is None and estimate.seconds("ep", 128, "cpu") is None


def test_what_is_stored_costs_nothing(tmp_path):
    options = Options(("clean",), (42,), ("vi", "ep"), ("trains",), tmp_path, False, None, 1, None)
    before = estimates(["table1", "fig5"], options)
    assert before[0].startswith("table1: 10 of 10 fits") and "never measured here: ep (5)" in before[0]
    assert before[1] == "fig5: about 30 s" and "on 1 core" in before[-1]
    box = Store(options.store)
    for fold in range(5):
        for method in ("vi", "ep"):
            box.append(dict(zip(KEY, Task("trains", "clean", 42, fold, method).key, strict=True)))
    box.close()
    assert estimates(["table1"], options)[0] == "table1: 0 of 10 fits to run, about 0 s"


def test_fits_that_two_tables_share_count_once(tmp_path):
    options = Options(("clean",), (42,), ("vi",), ("trains",), tmp_path, False, None, 1, None)
    assert [line.split(" fits")[0] for line in estimates(["table1", "table-ep-init"], options)[:2]] == [
        "table1: 5 of 5", "table-ep-init: 0 of 5",
    ]  # fmt: skip
