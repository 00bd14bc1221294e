"""The commands do what the library does, keep what is finished, and print JSON that machines can read."""

import html
import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from sitewise import GPClassifier, Method, load
from sitewise.app.commands import app
from sitewise.app.commands.compare import _positive


def test_a_saved_model_predicts_as_the_estimator_does(run, model, table, rows, tmp_path):
    out = tmp_path / "new" / "p.csv"
    found = run("predict", model, table, "--out", out, "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    numbers = np.array([[w, h] for w, h, _, _ in rows])
    X = np.column_stack([(numbers - numbers.mean(0)) / numbers.std(0), [float(s == "south") for _, _, s, _ in rows]])
    y = np.array([label for *_, label in rows])
    estimator = GPClassifier(random_state=0).fit(X, y)
    assert np.allclose(result["predictions"]["probability yes"], estimator.predict_proba(X)[:, 1], atol=1e-9)
    assert result["scores"]["accuracy"] == np.mean(estimator.predict(X) == y)
    assert np.isclose(result["scores"]["log_density"], estimator.log_predictive_density(X, y).mean())
    assert out.read_text().splitlines()[0] == "row,prediction,probability no,probability yes"
    assert load(model).table_["target"] == "label"


def test_predict_prints_csv_and_reads_any_dialect(run, model, rows, tmp_path):
    lines = [f"{str(w).replace('.', ',')};{s};{str(h).replace('.', ',')}" for w, h, s, _ in rows[:5]]
    other = tmp_path / "new.csv"
    other.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(["width;shop;height", *lines]).encode())
    found = run("predict", model, other)
    assert found.exit_code == 0 and len(found.stdout.splitlines()) == 6
    assert found.stdout.startswith("row,prediction,probability no,probability yes\n1,")


COMPARE = ("--target", "label", "--methods", "laplace,hybrid", "--folds", "3", "--json")


@pytest.fixture(scope="module")
def compared(tmp_path_factory, rows, write):
    """The folder and the result of a comparison that nothing interrupted."""
    folder = tmp_path_factory.mktemp("compared")
    table = write(folder / "table.csv", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sitewise.app.commands.compare.own_process", lambda: None)
        patch.setattr("sitewise.estimators.training.MAX_INTEGRATED_ROWS", 0)
        found = CliRunner().invoke(app, ["compare", str(table), *COMPARE, "--out", str(folder / "c.html")])
    assert found.exit_code == 0, found.stderr
    return folder, json.loads(found.stdout)


def test_compare_reports_and_recommends(compared):
    folder, result = compared
    by_name = {row["name"]: row for row in result["methods"]}
    assert set(by_name) == {"laplace", "hybrid", "linear", "trees", "baseline"}
    assert by_name[result["best_gp"]]["log_density"] > by_name["baseline"]["log_density"]
    assert "default Gaussian process" in result["verdict"][0] and result["best_gp"] == "hybrid"
    assert "folds" in " ".join(result["verdict"]) and result["rivals"]["linear"] == "LogisticRegression"
    page = (folder / "c.html").read_text()
    assert all(html.escape(sentence) in page for sentence in result["verdict"]) and len(page) < 1_500_000
    (note,) = (one for one in result["data"]["notes"] if "effects refer to the class 'yes'" in one)
    assert result["positive"] == "yes" and html.escape(note) in page
    # The label follows the width, and the effect shows it in the units of the table.
    assert result["importance"][0]["column"] == "width" and len(result["importance"]) == 3
    effects = {e["column"]: e for e in result["effects"]}
    assert effects["width"]["mean"][0] < 0.1 < 0.9 < effects["width"]["mean"][-1]
    assert -3 < effects["width"]["x"][0] < -1 and effects["shop"]["x"] == ["north", "south"]
    assert result["together"]["columns"][0] == "width"
    middle = next(t for t in result["thresholds"] if t["threshold"] == 0.5)
    assert middle["found"] > 0.7 and middle["precision"] > 0.7
    assert result["made"]["seconds"] > 0 and "scikit-learn" in result["made"]["versions"]
    assert sorted(p.name for p in folder.iterdir()) == ["c.html", "table.csv"]


@pytest.mark.parametrize(
    ("labels", "asked", "positive", "note"),
    [
        (["left", "stayed", "stayed"], None, "left", "the rarer class (1 of 3 rows); --positive stayed chooses"),
        (["no way", "yes", "no way"], None, "yes", "the rarer class (1 of 3 rows); --positive 'no way' chooses"),
        (["left", "stayed", "stayed"], "stayed", "stayed", None),
        (["a", "b", "c"], None, None, None),
    ],
)
def test_the_positive_class_is_named(labels, asked, positive, note):
    loaded = SimpleNamespace(encoding=SimpleNamespace(classifies=True, target="y"), y=np.array(labels), notes=[])
    assert _positive(asked, loaded) == positive
    assert [note in found for found in loaded.notes] == ([] if note is None else [True])


def test_an_interrupted_comparison_goes_on_where_it_stopped(run, table, tmp_path, monkeypatch, compared):
    import sitewise.app.compare.scoring

    calls, score = [], sitewise.app.compare.scoring.score

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 4:  # after two methods and two baseline models of the first fold, and one method of the second
            raise KeyboardInterrupt
        return score(*arguments)

    monkeypatch.setattr(sitewise.app.compare.scoring, "score", interrupted)
    out = tmp_path / "c.html"
    found = run("compare", table, *COMPARE, "--out", out)
    assert found.exit_code == 130 and found.stdout == ""
    assert "5 of 12 pieces are kept" in found.stderr and found.stderr.count("error:") == 1
    assert not out.exists() and (tmp_path / "c.html.unfinished").exists()
    with open(tmp_path / "c.html.unfinished", "a") as journal:
        journal.write('{"key": "cut sho')  # a line that a crash cut short
    found = run("compare", table, *COMPARE, "--out", out)
    assert found.exit_code == 0 and len(calls) == 4 + 3
    assert not (tmp_path / "c.html.unfinished").exists()
    result = json.loads(found.stdout)
    for a, b in zip(result["methods"], compared[1]["methods"], strict=True):
        assert np.isclose(a["log_density"], b["log_density"], rtol=1e-12)


def test_gaussian_noise_has_nothing_to_compare(run, table, tmp_path):
    out = tmp_path / "g.html"
    methods = ("--methods", "laplace,ep,vi,hybrid")
    found = run("compare", table, "-t", "height", "--folds", "3", *methods, "--out", out, "--json")
    assert found.exit_code == 0, found.stderr
    assert "exact and equal" in found.stderr
    assert [row["name"] for row in json.loads(found.stdout)["methods"]] == ["hybrid", "linear", "trees", "baseline"]


def test_the_default_gp_is_compared_with_baselines(run, table, tmp_path):
    """The four approximations are fitted only if --methods names them."""
    out = tmp_path / "d.html"
    found = run("compare", table, "-t", "label", "--folds", "2", "--out", out, "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    assert [row["name"] for row in result["methods"]] == ["hybrid", "linear", "trees", "baseline"]
    assert "default GP" in out.read_text() and "Default kernel: an average" in out.read_text()


def test_a_long_comparison_is_announced_after_its_second_fit(run, table, tmp_path, monkeypatch):
    monkeypatch.setattr("sitewise.app.compare.cross_validation.ANNOUNCED_SECONDS", 0.0)
    more = ("--methods", "laplace,hybrid", "--no-baselines", "--folds", "3", "--out", tmp_path / "c.html")
    found = run("compare", table, "-t", "label", *more)
    assert found.exit_code == 0 and "note: 4 more fits take about" in found.stderr


SHORT = ("--draws", "10", "--warmup", "2", "--chains", "2")


@pytest.mark.slow
def test_mcmc_is_fitted_and_compared_on_request(run, table, tmp_path):
    out = tmp_path / "m.sitewise"
    found = run("fit", table, "-t", "label", "--method", "mcmc", *SHORT, "--out", out, "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    assert "2 chains of 10 draws" in result["report"] and result["loo_log_density"] is None
    assert "have not converged" in found.stderr
    assert load(out).method == Method("mcmc", draws=10, warmup=2, chains=2)
    assert run("predict", out, table).exit_code == 0
    methods = ("--methods", "mcmc,laplace", "--folds", "3", "--no-baselines")
    found = run("compare", table, "-t", "label", *methods, *SHORT, "--out", tmp_path / "c.html", "--json")
    assert found.exit_code == 0, found.stderr
    rows = {row["name"]: row for row in json.loads(found.stdout)["methods"]}
    assert list(rows) == ["laplace", "mcmc", "baseline"]
    assert rows["mcmc"]["evidence_per_row"] is None and rows["mcmc"]["log_density"] > rows["baseline"]["log_density"]
    found = run("compare", table, "-t", "label", *methods, "--inducing", "5", "--out", tmp_path / "c.html")
    assert found.exit_code == 1 and "mcmc samples the full GP" in found.stderr


def test_nothing_but_the_words_is_printed(run, model, table):
    """No bar where nobody looks, and no blank lines in its place."""
    found = run("predict", model, table)
    assert found.exit_code == 0
    found = run("fit", table, "-t", "label", "--out", model.with_name("again.sitewise"))
    assert found.exit_code == 0 and all(line.strip() for line in found.stderr.splitlines())


def test_the_longest_time_left_is_told_after_every_round(monkeypatch):
    from sitewise.app.commands import certify

    clock, said = iter([0.0, 1.0, 5.0, 13.0]), []
    monkeypatch.setattr(certify.time, "monotonic", lambda: next(clock))
    tell = certify._TimeLeft(2048, "annealing", said.append)
    for doing in ("sites", "T=256", "T=1024"):
        tell(doing)
    # Rounds of 1024 and 2048 after one of 256 that took 4 s; one of 2048 after one of 1024 that took 8 s.
    assert said[1:] == ["annealing: T=256 done, at most 0:00:48 left", "annealing: T=1024 done, at most 0:00:16 left"]


def test_the_choices_of_the_command_line_are_those_of_the_library():
    from sitewise import METHODS, likelihoods
    from sitewise.app import options
    from sitewise.estimators import gp_classifier, gp_regressor

    assert [m.value for m in options.MethodNames] == list(METHODS)
    assert {m.value for m in options.LikelihoodName} == {"auto", *likelihoods.BY_NAME}
    assert set(gp_classifier._LIKELIHOODS) | set(gp_regressor._LIKELIHOODS) == set(likelihoods.BY_NAME)


def test_a_repeated_comparison_has_other_folds_and_says_so(run, table, tmp_path):
    arguments = (
        "compare",
        table,
        "-t",
        "label",
        "--methods",
        "laplace",
        "--folds",
        "2",
        "--repeats",
        "2",
        "--positive",
        "yes",
    )
    found = run(*arguments, "--out", tmp_path / "c.html", "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["folds"] == 4 and result["repeats"] == 2 and result["methods"][0]["converged"] == 4
    rows = [o["row"] for o in result["outliers"]]
    assert len(rows) == len(set(rows))


def test_ordered_classes_are_asked_about(run, rows, write, tmp_path):
    ranked = [(*row[:3], int(np.clip(np.round(row[0] + 1), 0, 2))) for row in rows]
    table = write(tmp_path / "ranks.csv", ranked)
    found = run("compare", table, "-t", "label", "--out", tmp_path / "c.html")
    assert found.exit_code == 1 and "--likelihood ordinal   ordered classes" in found.stderr


def test_an_interrupted_surface_keeps_its_finished_rows(run, table, tmp_path, monkeypatch):
    import sitewise.surface

    out = tmp_path / "s.html"
    arguments = ("surface", table, "-t", "label", "--methods", "laplace", "--grid", "4", "--out", out, "--json")
    real, solved = sitewise.surface._row, []

    def stop_at_the_third(*args):
        if len(solved) == 2:
            raise KeyboardInterrupt
        solved.append(args)
        return real(*args)

    monkeypatch.setattr(sitewise.surface, "_row", stop_at_the_third)
    found = run(*arguments)
    assert found.exit_code == 130 and "2 of 5 pieces are kept" in found.stderr
    monkeypatch.setattr(sitewise.surface, "_row", lambda *args: solved.append(args) or real(*args))
    again = run(*arguments)
    assert again.exit_code == 0 and len(solved) == 4, again.stderr
    monkeypatch.setattr(sitewise.surface, "_row", real)
    whole = run(*arguments[:-2], tmp_path / "other.html", "--json")
    resumed, at_once = (json.loads(r.stdout)["surfaces"]["laplace"] for r in (again, whole))
    np.testing.assert_allclose(resumed, at_once, rtol=1e-8)  # rows start from other sites


def test_surfaces_have_their_optimum_inside(run, table, tmp_path):
    out = tmp_path / "s.html"
    found = run("surface", table, "-t", "label", "--methods", "laplace", "--grid", "3", "--out", out, "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    for name, optimum in result["optima"].items():
        log_l, log_s = np.log(optimum["lengthscale"]), np.log(optimum["sigma"])
        assert result["log_lengthscale"][0] < log_l < result["log_lengthscale"][-1]
        assert result["log_sigma"][0] < log_s < result["log_sigma"][-1]
        assert np.max(np.array(result["surfaces"][name], float)) <= optimum["evidence"] + 1e-9
    assert "role=tab" in out.read_text()


def test_certificate_says_which_evidence_to_trust(run, model, tmp_path, monkeypatch):
    """The annealing has tests of its own; here it is replaced by what it found."""
    from sitewise.mcmc import Certificate, LogEvidence

    def found_before(model, data, *, steps, se_per_row, max_steps, seed, done):
        done("ep sites of 1 points")
        done(f"T={steps}: 1 of 1 points")
        log_z = LogEvidence(
            log_z=-20.0, se=25 * se_per_row, ess=12.0, lower=-20.05, lower_se=0.07, upper=-19.9, upper_se=0.05,
            steps=steps, tight=True, reason="target met with 256 steps",
        )  # fmt: skip
        values = {"vi (elbo)": -23.0, "hybrid": -20.1, "ep": -20.1, "laplace": -20.2}
        return Certificate(log_z, values, dict.fromkeys(values, True), float(np.sum(data.weight)))

    monkeypatch.setattr("sitewise.mcmc.evidence_certificate", found_before)
    out = tmp_path / "z.html"
    found = run("certificate", model, "--out", out, "--se-per-row", "0.002", "--json")
    assert found.exit_code == 0, found.stderr
    (part,) = json.loads(found.stdout)["certificates"]
    assert part["rows"] == 64 and part["bound_holds"] and part["mcmc"]["se"] == 0.05
    assert part["verdicts"] == {"vi (elbo)": "rough", "hybrid": "good", "ep": "good", "laplace": "good"}
    assert "Trust hybrid, ep, laplace here." in out.read_text()
    found = run("certificate", model, "--out", out)
    assert found.exit_code == 0 and found.stdout.endswith("Trust hybrid, ep, laplace here.\n")


def test_a_subsample_is_taken_only_when_asked_for(run, rows, write, tmp_path):
    big = write(tmp_path / "big.csv", 32 * rows)
    found = run("compare", big, "-t", "label", "--out", tmp_path / "c.html")
    assert found.exit_code == 1 and "--max-rows 2000" in found.stderr and "--inducing auto" in found.stderr
    found = run("fit", big, "-t", "label", "--max-rows", "64", "--out", tmp_path / "m.sitewise", "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["data"]["rows"] == 64 and "64 of 2048 rows were chosen" in found.stderr
