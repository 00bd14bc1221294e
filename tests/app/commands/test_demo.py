"""`sitewise demo`, its parts and its ways to fail."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from sitewise.app.commands.demo import Score, breast_cancer, fit_and_score, table

COMMAND = Path(sys.executable).with_name("sitewise")


def test_a_method_is_fitted_and_scored():
    split = breast_cancer()
    assert split.train.rows == 284
    score = fit_and_score("hybrid", split)
    assert score.fit.converged
    assert score.accuracy > 0.95 and -0.12 < score.log_density < 0
    rendered = table({"hybrid": score})
    assert rendered.row_count == 1 and len(rendered.columns) == 7


def test_help_is_fast_and_lists_the_commands():
    out = subprocess.run([COMMAND, "demo", "--help"], capture_output=True, text=True, check=True)
    assert "breast-cancer" in out.stdout


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    import pytest

    from sitewise.app.process import save
    from sitewise.errors import UserError

    save(tmp_path / "new" / "a.bin", b"abc")
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"abc"
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(UserError, match=r"cannot write .* Choose another place with --out"):
        save(blocked / "a.bin", b"abc")
    assert np.all([p.suffix != ".partial" for p in tmp_path.rglob("*")])


def test_a_place_for_the_picture_that_is_none_is_refused_before_any_work():
    out = subprocess.run([sys.executable, "-m", "sitewise", "demo", "--out", "x.html"], capture_output=True, text=True)
    assert out.returncode != 0 and "--out must end in" in " ".join(out.stderr.split())


def test_the_table_shows_the_evidence_per_row():
    found = {"kernel.lengthscale": 1.0, "kernel.variance": 4.0}
    fit = SimpleNamespace(parameters=found, converged=True, objective=-50.0, data=SimpleNamespace(rows=200))
    shown = table({"vi": Score(fit, np.array([-0.1]), np.array([0.9]), 1.0, 2.0)})
    cells = {str(column.header): next(iter(column.cells)) for column in shown.columns}
    assert cells["evidence / row"] == "-0.2500" and cells["σ"] == "2.00"
