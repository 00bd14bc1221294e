"""Every way to fail: one sentence, a non-zero exit code, no traceback, and nothing half-written."""

import errno
import os

import numpy as np
import pytest

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fails(found, *words, code=1):
    assert found.exit_code == code, (found.exit_code, found.output)
    assert found.stdout == ""
    sentence, *ready = found.stderr.split("\nTo continue:\n")
    assert not ready or ready[0].startswith("  sitewise ")
    errors = [line for line in sentence.splitlines() if not line.startswith("note: ")]
    assert len(errors) == 1 and errors[0].startswith("error: ") and errors[0].endswith((".", "?")), found.stderr
    assert "Traceback" not in found.output and "defect" not in found.output
    for word in words:
        assert word in errors[0]


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_parameter_that_cannot_vary(run, table, tmp_path, command):
    ask = command, table, "-t", "label", "-o", tmp_path / "out.x", "--varying"
    fails(run(*ask, "scale"), "--varying scale: probit has no such parameter", "gaussian")


ON_A_TABLE = ("fit", "compare", "surface")


@pytest.mark.parametrize("command", ON_A_TABLE)
def test_tables_that_cannot_be_used(run, table, rows, write, tmp_path, command):
    out = tmp_path / "sub" / "out.x"
    one_class = write(tmp_path / "one.csv", [(*row[:3], "yes") for row in rows])
    with_holes = write(tmp_path / "holes.csv", [("", *row[1:]) if k == 3 else row for k, row in enumerate(rows)])
    no_target = write(tmp_path / "untold.csv", [(*row[:3], "") if k == 3 else row for k, row in enumerate(rows)])
    before = files(tmp_path)
    fails(run(command, tmp_path / "none.csv", "-t", "label", "-o", out), "there is no file", "none.csv")
    fails(run(command, tmp_path, "-t", "label", "-o", out), "is a folder")
    fails(run(command, table, "-t", "labl", "-o", out), "no column 'labl'", "'label'")
    fails(run(command, table, "-t", "label", "--drop", "colour", "-o", out), "no column 'colour'")
    fails(run(command, table, "-t", "label", "--drop", "label", "-o", out), "is the target")
    fails(run(command, one_class, "-t", "label", "-o", out), "only one class")
    fails(run(command, with_holes, "-t", "label", "-o", out), "'width' (1 of 64 rows)", "--impute")
    fails(run(command, no_target, "-t", "label", "-o", out), "'label' is missing in one row of", "row 4")
    fails(run(command, table, "-t", "width", "-l", "poisson", "-o", out))
    found = run(command, table, "-t", "label", "-l", "gaussian", "-o", out)
    fails(found, "holds 'no' (row 1), but gaussian needs numbers")
    fails(run(command, table, "-t", "label", "--decimal", ";", "-o", out), "--decimal")
    assert [f for f in files(tmp_path) if f != "sub"] == before


def test_settings_that_are_wrong(run, table, rows, write, tmp_path):
    out = tmp_path / "c.html"
    fails(run("compare", table, "-t", "label", "--methods", "laplace,bayes", "-o", out), "--methods takes")
    fails(run("compare", table, "-t", "label", "--folds", "40", "-o", out), "fewer than the 40 folds")
    fails(run("compare", table, "-t", "label", "--positive", "Yes", "-o", out), "--positive", "'no', 'yes'")
    fails(run("compare", table, "-t", "width", "--positive", "yes", "-o", out), "holds values")
    fails(
        run("compare", table, "-t", "label", "--kernel", "average", "--inducing", "5", "-o", out),
        "combined with --inducing",
    )
    fails(
        run("fit", table, "-t", "label", "--kernel", "average", "--method", "mcmc", "-o", out),
        "which mcmc does not have",
    )
    three = write(tmp_path / "three.csv", [(*row[:3], "abc"[k % 3]) for k, row in enumerate(rows)])
    fails(run("surface", three, "-t", "label", "-o", out), "two classes")
    for arguments in (("fit", table), ("fit", table, "-t", "label", "--method", "magic"), ("fly",)):
        found = run(*arguments)
        assert found.exit_code == 2 and "Traceback" not in found.output
    assert not out.exists()


@pytest.mark.parametrize("command", ["predict", "certificate"])
def test_models_that_cannot_be_read(run, model, table, tmp_path, command):
    rest = (table,) if command == "predict" else ()
    out = ("-o", tmp_path / "out.x")
    damaged = tmp_path / "damaged.sitewise"
    damaged.write_bytes(model.read_bytes()[:-40] + b"x" * 40)
    before = files(tmp_path)
    fails(run(command, tmp_path / "none", *rest, *out), "there is no file")
    fails(run(command, tmp_path, *rest, *out), "is a folder")
    fails(run(command, table, *rest, *out), "is not a sitewise model file")
    fails(run(command, damaged, *rest, *out), "damaged")
    assert files(tmp_path) == before


def test_a_model_saved_from_python_has_no_table(run, model, table, tmp_path):
    from sitewise import load

    found = load(model)
    del found.table_
    found.save(tmp_path / "bare.sitewise")
    fails(run("predict", tmp_path / "bare.sitewise", table), "saved from Python")


def test_tables_that_do_not_fit_the_model(run, model, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("width,height\n1,2\n3,4\n")
    fails(run("predict", model, new), "lacks the column 'shop'")
    new.write_text("width,height,shop\n1,,north\n")
    fails(run("predict", model, new), "'height' (1 of 1 rows)")
    new.write_text("width,height,shop\n1,tall,north\n")
    fails(run("predict", model, new), "'tall'")
    new.write_text("width,height,shop,label\n1,2,north,perhaps\n")
    found = run("predict", model, new)
    assert found.exit_code == 0 and "not scored" in found.stderr and "perhaps" in found.stderr


def _arguments(command, table, model):
    return {
        "fit": ("fit", table, "-t", "label"),
        "predict": ("predict", model, table),
        "compare": ("compare", table, "-t", "label"),
        "surface": ("surface", table, "-t", "label"),
        "certificate": ("certificate", model),
        "demo": ("demo",),
    }[command]


def _file(command):
    return "x.png" if command == "demo" else "x.html"


@pytest.mark.parametrize("command", ["fit", "predict", "compare", "surface", "certificate", "demo"])
def test_places_that_cannot_be_written_are_told_before_the_work(run, table, model, tmp_path, command):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    before = files(tmp_path)
    fails(run(*_arguments(command, table, model), "--out", blocked / _file(command)), "cannot write", "--out")
    fails(run(*_arguments(command, table, model), "--out", tmp_path), "it is a folder")
    if os.geteuid() != 0:  # root may write anywhere
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        fails(run(*_arguments(command, table, model), "--out", locked / _file(command)), "Permission denied")
        locked.rmdir()
    assert files(tmp_path) == before


def test_a_folder_in_the_place_of_a_file(run, table):
    fails(run("fit", table, "-t", "label", "--out", "."), "it is a folder", "--out")


def test_a_full_disk(run, table, model, tmp_path, monkeypatch):
    def full(descriptor):
        raise FULL

    before = files(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    fails(run("predict", model, table, "--out", tmp_path / "p.csv"), "No space left", "--out")
    fails(run("fit", table, "-t", "label", "--out", tmp_path / "m.sitewise"), "No space left", "--out")
    # The first finished fit of a comparison cannot be kept: its line is taken away again.
    monkeypatch.setattr("sitewise.app.compare.scoring.score", lambda *a: {"log_density": [0.0]})
    fails(run("compare", table, "-t", "label", "--out", tmp_path / "c.html"), "No space left", "free some space")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("fit", "sitewise.estimators.gp_classifier.GPClassifier.fit"),
        ("predict", "sitewise.app.commands.predict_rows.predictions"),
        ("compare", "sitewise.app.compare.scoring.score"),
        ("surface", "sitewise.estimators.gp_classifier.GPClassifier.fit"),
        ("certificate", "sitewise.mcmc.evidence_certificate"),
        ("demo", "sitewise.app.commands.demo.own_process"),
    ],
)
def test_ctrl_c(run, table, model, tmp_path, monkeypatch, command, where):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    fails(run(*_arguments(command, table, model), "--out", tmp_path / _file(command)), "interrupted", code=130)
    assert files(tmp_path) == ["table.csv"]


def test_a_defect_is_called_one(run, table, tmp_path, monkeypatch):
    def broken(*arguments, **settings):
        raise TypeError("what is this")

    monkeypatch.setattr("sitewise.app.compare.scoring.score", broken)
    found = run("compare", table, "-t", "label", "--out", tmp_path / "x.html")
    assert found.exit_code == 1 and "defect in sitewise (TypeError: what is this)" in found.stderr
    monkeypatch.setenv("SITEWISE_TRACEBACK", "1")
    found = run("compare", table, "-t", "label", "--out", tmp_path / "x.html")
    assert isinstance(found.exception, TypeError)


def test_json_has_no_nan():
    from sitewise.app.process import finite

    found = finite({"a": [np.nan, np.float64(1), np.arange(2)], 3: (float("inf"),)})
    assert found == {"a": [None, 1.0, [0, 1]], "3": [None]}
