"""`sitewise reproduce` and `data`: what they make, and how they fail."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sitewise.app.commands import app
from sitewise_icml2023 import suites
from sitewise_icml2023.commands import main
from sitewise_icml2023.figures import fig1, fig4, fig5, surface_plots, surfaces
from sitewise_icml2023.fits import run_tasks
from sitewise_icml2023.options import Options, seed_list
from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.tasks import KEY


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def stored(folder, sets, methods, protocols=("published",)):
    """A store that holds a table already, so that nothing has to be fitted."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    with open(folder / "results.jsonl", "w") as file:
        for s in sets:
            for p in protocols:
                for m in methods:
                    for f in range(5):
                        row = dict(zip(KEY, (s, p, 42, f, m), strict=True))
                        file.write(json.dumps({**row, "test_loglik": -rng.uniform(), "test_acc": rng.uniform()}) + "\n")


@pytest.fixture(autouse=True)
def not_our_process(monkeypatch):
    """The commands own their process; here it belongs to the tests."""
    monkeypatch.setattr("sitewise.app.process.own_process", lambda: None)


@pytest.fixture
def offline(tmp_path, monkeypatch):
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SITEWISE_DATA", raising=False)


def test_a_finished_table_is_written_without_a_fit(tmp_path, offline):
    sets = ("titanic", "breast-cancer-wisc-diag")
    stored(tmp_path / "out", sets, suites.FOUR, ("published", "clean"))
    options = ("--sets", ",".join(sets), "--seeds", 42, "--protocol", "published,clean", "--out", tmp_path / "out")
    result = invoke("reproduce", "table1", *options)
    assert result.exit_code == 0, result.output
    assert "80 tasks, 80 of them" in result.output
    made = {p.name for p in (tmp_path / "out").iterdir()}
    for rules in ("published", "clean"):
        for metric in ("loglik", "accuracy"):
            assert {f"table1-seed42-{rules}-{metric}{suffix}" for suffix in (".md", ".tex", ".csv")} <= made
        assert {f"fig4-seed42-{rules}.png", f"fig4-seed42-{rules}.pdf"} <= made
    text = (tmp_path / "out" / "table1-seed42-published-loglik.md").read_text()
    assert "protocol published" in text and "paper: Ours" in text and "-0.071 ± 0.045" in text
    (tmp_path / "out" / "table1-seed42-clean-loglik.md").unlink()
    more = invoke("reproduce", "table1", *options, "--methods", "laplace,hybrid-vem", "--stored")  # runs nothing
    assert more.exit_code == 0 and "Alg. 1" in (tmp_path / "out" / "table1-seed42-clean-loglik.md").read_text()
    result = invoke("reproduce", "protocols", *options[:2], "--seeds", 42, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "| titanic | 68% | 99% |" in (tmp_path / "out" / "protocols.md").read_text()


def test_a_table_end_to_end(tmp_path, offline):
    """One fold of a simulated set, fitted in a worker process; the second run finds it in the store."""
    options = ("--sets", "neal-simulated", "--methods", "laplace", "--protocol", "clean", "--quick", "--workers", 1)
    first = invoke("reproduce", "table2", *options, "--out", tmp_path)
    assert first.exit_code == 0, first.output
    assert "1 tasks, 0 of them" in first.stderr
    row = json.loads((tmp_path / "results.jsonl").read_text())
    assert (row["set"], row["fold"], row["n"], row["converged"]) == ("neal-simulated", 0, 80, True)
    assert row["cpu_seconds"] > 0 and set(row["machine"]) == {"processor", "cores", "device", "python", "jax"}
    again = invoke("reproduce", "table2", *options, "--out", tmp_path)
    assert "1 tasks, 1 of them" in again.stderr
    assert f"{row['test_loglik']:.3f}" in again.stdout
    assert f"{row['test_loglik']:.3f}" in (tmp_path / "table2-clean-loglik.tex").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "table9"), "choose from table1"),
        (("reproduce", "table1", "--seeds", "x"), "--seeds takes numbers"),
        (("reproduce", "table1", "--methods", "magic"), "Unknown method"),
        (("reproduce", "table1", "--protocol", "dirty"), "Unknown protocol"),
        (("reproduce", "fig1", "--data", "/nowhere"), "does not exist"),
        (("data", "path", "nope"), "Unknown data set"),
        (("data", "paint"), "takes list"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr and result.stderr.startswith("error:") and result.stderr.count("\n") == 1


def test_data_commands(tmp_path, offline):
    assert invoke("data", "list").exit_code == 0
    assert "row number alone separates" in invoke("data", "list", "trains").output
    path = invoke("data", "path", "titanic").output.strip()
    assert path.startswith(str(tmp_path)) and Path(path).read_text().startswith("row,f1,f2,f3,label\n")
    assert "1 of 40 sets" in invoke("data", "check").output
    with open(path, "a") as file:
        file.write("1,2,3,4,0\n")
    assert "wrong checksum" in invoke("data", "check").stderr


def test_seeds_and_quick_suites(tmp_path):
    assert seed_list("42,1-3") == (42, 1, 2, 3)
    options = Options(("clean",), None, None, None, tmp_path, True, None, 1, None)
    quick = options.suite("table1")
    assert quick.sets == ("trains", "balloons", "fertility") and quick.seeds == (42,) and quick.folds == (0,)
    assert options.suite("table3").methods[0] == "laplace@m50"
    assert suites.suites()["table1"].reference((42,)) == "table1-seed42"
    assert suites.suites()["table1"].reference(SEEDS) == "table1"
    assert suites.suites()["table-ard"].methods[0] == "laplace@ard"


def test_nothing_runs_when_nothing_is_missing(tmp_path, capsys):
    run_tasks([], tmp_path / "r.jsonl", 1)
    assert "0 tasks, 0 of them" in capsys.readouterr().err


def test_the_package_has_a_command_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sitewise-icml2023", "data", "list", "trains"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0 and "sha256" in capsys.readouterr().out


def test_figures_draw_what_they_are_given():
    x = np.linspace(-1, 5, 21)
    numbers = {"log_lengthscale": x, **{f"{m}_evidence": -0.3 - (x - 2) ** 2 for m in surfaces.METHODS}}
    numbers |= {f"{m}_log_density": -0.1 - (x - 2) ** 2 for m in ("laplace", "ep", "vi")}
    above, below = fig1.draw(numbers).axes
    assert len(above.get_legend().get_texts()) == 7 and below.get_xlim() == (-1, 5)
    grid = surfaces.square(3)
    flat = np.linspace(-80, -20, 9)
    out = {f"{m}_evidence": flat for m in surfaces.METHODS}
    out |= {f"{m}_log_density": flat[:, None] / 100 for m in ("laplace", "ep", "vi")}
    evidences, densities = surface_plots.panels(out, grid, 100)
    assert evidences["hybrid"].shape == (3, 3) and evidences["vi"][0, 0] == -0.8 and "hybrid" not in densities
    titles = [axis.get_title() for axis in surface_plots.draw("x", out, grid, 100).axes]
    assert "hybrid: evidence / n" in titles and "vi: test log density" in titles
    ep = np.array([-5.0, -3.0, -2.0, -2.5, -1.0])
    assert fig5.stop(ep) == 2 and fig5.stop(ep[:3]) is None
    rows = [
        {**dict(zip(KEY, ("a", "clean", 42, f, m), strict=True)), "test_acc": v}
        for f in range(5)
        for m, v in (("vi", 0.9), ("ep", 0.45))
    ]
    relative = fig4.compute(rows, "clean", ("vi", "ep"), ["a", "b"], (42,))
    assert relative["vi"] == [1.0] and relative["ep"] == [0.5] and list(relative["sets"]) == ["a"]
    with pytest.raises(ValueError, match="run table1 first"):
        fig4.compute(rows, "published", ("vi", "ep"), ["a"], (42,))
