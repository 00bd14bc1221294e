"""Every number of the paper: verdicts, what is counted, and that nothing is met by default."""

import json

import numpy as np
import pytest

from sitewise_icml2023 import paper
from sitewise_icml2023.book import errata, items, page, tables
from sitewise_icml2023.book.items import ERRATUM, MET, MISSED, NOT_RUN, Item
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.tasks import KEY


def spread(mean, sd, count):
    """Numbers with exactly this mean and population sd."""
    values = np.resize([1.0, -1.0], count) if count % 2 == 0 else np.array([-2.0, -1, 0, 1, 2])
    return mean + sd * (values - values.mean()) / values.std()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Table 1 of the paper for Laplace and the printed EP, met exactly but for one cell that is off."""
    out = tmp_path_factory.mktemp("results") / "icml2023"
    out.mkdir()
    with open(out / "results.jsonl", "w") as file:
        for name, line in paper.printed("table1", "loglik").items():
            for method, ours in (("laplace", "laplace"), ("ep", "ep-frozen")):
                shift = 0.05 if (name, method) == ("pima", "laplace") else 0.0
                for i, value in enumerate(spread(line[method].mean + shift, line[method].sd, 50)):
                    key = dict(zip(KEY, (name, "published", SEEDS[i // 5], i % 5, ours), strict=True))
                    file.write(json.dumps({**key, "test_loglik": value, "test_acc": 0.5}) + "\n")
    return out


def test_a_verdict_follows_from_the_numbers():
    def verdict(ours, **more):
        return Item("", "", "", -0.5, ours, 0.01, **more).verdict

    assert verdict(-0.509) == MET and verdict(-0.511) == verdict(float("nan")) == MISSED and verdict(None) == NOT_RUN
    assert verdict(-0.509, erratum="E1") == ERRATUM and verdict(-0.511, erratum="E1") == MISSED
    assert items.statement("", "", "a", "b", None).verdict == NOT_RUN
    assert items.statement("", "", "a", "b", False, "E6").verdict == MISSED


def test_cells_of_a_table(folder):
    found = tables.cells(Stored(folder), "table1", "loglik")
    counted = items.counts(found)
    assert counted == {MET: 2 * 27 - 1, ERRATUM: 2 * 27, MISSED: 1, NOT_RUN: 2 * 3 * 27}
    missed = next(item for item in found if item.verdict == MISSED)
    assert (missed.line, missed.column) == ("pima", "laplace mean") and missed.difference == pytest.approx(0.05)


def test_one_missing_fold_is_not_run(folder, tmp_path):
    lines = (folder / "results.jsonl").read_text().splitlines()
    (tmp_path / "results.jsonl").write_text("\n".join(lines[1:]) + "\n")
    first = json.loads(lines[0])
    found = tables.cells(Stored(tmp_path), "table1", "loglik")
    gone = [item for item in found if item.line == first["set"] and item.column.startswith("laplace")]
    assert [item.verdict for item in gone] == [NOT_RUN, NOT_RUN]


def test_a_metric_that_one_fold_lacks_is_not_run(folder, tmp_path):
    lines = (folder / "results.jsonl").read_text().splitlines()
    last = json.loads(lines[49])  # the last fold of the first set by Laplace
    (tmp_path / "results.jsonl").write_text("\n".join([*lines, json.dumps({**last, "test_acc": None})]) + "\n")
    stored = Stored(tmp_path)
    assert stored.values(last["set"], "laplace", "test_acc", SEEDS) is None
    assert len(stored.values(last["set"], "laplace", "test_loglik", SEEDS)) == 50


def test_an_empty_store_meets_nothing_that_is_computed(tmp_path):
    every = page.items(Stored(tmp_path))
    done = [item for item in every if item.verdict != NOT_RUN]
    # What is left is read off the paper or the registry alone.
    assert {item.where for item in done} <= {
        "Text", "Caption of Table 1", "Sizes of the data sets", tables.where("table3", "loglik")
    }  # fmt: skip
    text = page.markdown(Stored(tmp_path))
    assert f"{len(every)} printed numbers and curves" in text and f"{len(every) - len(done)} not run" in text


def test_the_page(folder):
    text = page.markdown(Stored(folder))
    assert "| pima | -0.474 ± 0.033 → -0.424 ± 0.033 ✗ |" in text and "-0.476 ± 0.038 → -0.476 ± 0.038 E1" in text
    assert text.count("\n## ") > 15 and all(f"**{name}**" in text for name in errata.EVERY)


def test_sampled_means_of_one_seed_are_moved_to_ten(tmp_path):
    """The hybrid is 0.09 better on seed 42 than over ten seeds, and so is MCMC: the printed mean is met."""
    cell = paper.printed("table1", "loglik")["pima"]["mcmc"]
    with open(tmp_path / "results.jsonl", "w") as file:
        for seed in SEEDS:
            for fold, value in enumerate(spread(cell.mean, 0.01, 5)):
                for method in ("hybrid", "mcmc"):
                    if method == "hybrid" or seed == 42:
                        key = dict(zip(KEY, ("pima", "published", seed, fold, method), strict=True))
                        up = -0.01 if seed != 42 else 0.09
                        file.write(json.dumps({**key, "test_loglik": value + up, "rhat": 1.0, "ess": 900}) + "\n")
    found = {
        item.line: item for item in tables.cells(Stored(tmp_path), "table1", "loglik") if item.column == "mcmc mean"
    }
    assert found["pima"].ours == pytest.approx(cell.mean) and found["pima"].verdict == MET
    assert found["trains"].verdict == NOT_RUN


@pytest.mark.parametrize("met_by", ["chains", "narrow", "wide", ""])
def test_narrow_limits_explain_a_cell_of_mcmc_that_wide_ones_miss(met_by, tmp_path):
    cell = paper.printed("table1", "loglik")["trains"]["mcmc"]
    keys = [(seed, fold) for seed in SEEDS for fold in range(5)]
    values = {w: spread(cell.mean, cell.sd if w == met_by else 2 * cell.sd, 50) for w in ("wide", "narrow", "chains")}
    with open(tmp_path / "results.jsonl", "w") as rows, open(tmp_path / tables.FLAT_PRIORS, "w") as grids:
        for (seed, fold), wide, narrow, chains in zip(keys, *values.values(), strict=True):
            key = dict(zip(KEY, ("trains", "published", seed, fold, "mcmc"), strict=True))
            rows.write(json.dumps({**key, "test_loglik": wide, "rhat": 1.0, "ess": 900}) + "\n")
            if met_by == "chains":
                rows.write(json.dumps({**key, "method": "mcmc-narrow", "test_loglik": chains}) + "\n")
            low, high = tables.NARROW_LIMITS
            boxes = [
                {"low": low, "high": high, "test_loglik": narrow},
                {"low": -1, "high": 2, "test_loglik": cell.mean},
            ]
            grids.write(json.dumps({"set": "trains", "seed": seed, "fold": fold, "boxes": boxes}) + "\n")
    items = tables.cells(Stored(tmp_path), "table1", "loglik")
    found = [item for item in items if item.line == "trains" and item.column.startswith("mcmc")]
    wanted = {"chains": (ERRATUM, ERRATUM), "narrow": (ERRATUM, ERRATUM), "wide": (MET, MET), "": (MET, MISSED)}
    assert tuple(item.verdict for item in found) == wanted[met_by]
    assert {item.erratum for item in found} == ({tables.NARROW} if met_by in ("chains", "narrow") else {""})


def chances(folder, ends):
    """The cells of VI on acute-inflammation (−1.668 ± 2.754 is printed) where every fold may end at each of these."""
    with open(folder / tables.REPEATS, "w") as file:
        for fold in range(5):
            for nudge, value in enumerate(ends):
                search = {"set": "acute-inflammation", "method": "vi-joint@ard", "fold": fold, "nudge": nudge}
                ends_at = {"objective": value, "test_loglik": value, "test_acc": 1.0}
                file.write(json.dumps({**search, **ends_at}) + "\n")
    with open(folder / "results.jsonl", "w") as file:
        for fold in range(5):
            key = dict(zip(KEY, ("acute-inflammation", "published", 42, fold, "vi-joint@ard"), strict=True))
            file.write(json.dumps({**key, "test_loglik": -0.01, "test_acc": 1.0, "objective": -0.01}) + "\n")
    found = [i for metric in ("loglik", "accuracy") for i in tables.cells(Stored(folder), "table-ard", metric)]
    return [item.verdict for item in found if item.line == "acute-inflammation" and item.column.startswith("vi")]


def test_a_cell_is_explained_by_chance_only_if_mean_and_sd_are(tmp_path):
    # One fold of five at −7.4 and the others at −0.2 have nearly the printed mean and spread.
    often = chances(tmp_path, [-0.2] * 8 + [-7.4, -7.4])
    assert often == [ERRATUM, ERRATUM, MISSED, MISSED]  # all accuracies are 1; 0.833 is printed
    assert chances(tmp_path, [-0.01] * 5 + [-4.2] * 5) == [MISSED] * 4  # no such mean with such a spread
    assert chances(tmp_path, [-0.2] * 3 + [-7.4]) == [MISSED] * 4  # too few to tell


def test_a_search_that_ended_early_explains_what_the_maximum_misses(tmp_path):
    """−0.172 ± 0.033 is printed; the search as it was made counts only where it meets both."""
    cell = paper.printed("table1-seed42", "loglik")["acute-inflammation"]["laplace"]
    for searched, verdict in ((cell.mean, ERRATUM), (cell.mean - 0.1, MISSED)):
        with open(tmp_path / "results.jsonl", "w") as file:
            for method, mean in (("laplace", cell.mean - 0.05), (tables.AS_SEARCHED, searched)):
                for fold, value in enumerate(spread(mean, cell.sd, 5)):
                    key = dict(zip(KEY, ("acute-inflammation", "published", 42, fold, method), strict=True))
                    file.write(json.dumps({**key, "test_loglik": value, "test_acc": 1.0}) + "\n")
        found = [
            item
            for item in tables.cells(Stored(tmp_path), "table1-seed42", "loglik")
            if item.line == "acute-inflammation" and item.column.startswith("laplace")
        ]
        assert found[0].verdict == verdict and (found[0].erratum == tables.STOPPED) == (verdict == ERRATUM)
        assert "On acute-inflammation 5 of 5 folds differ" in errata.EVERY[tables.STOPPED](Stored(tmp_path), None)


def test_bold_counts_say_which_method_stands_for_another(tmp_path):
    with open(tmp_path / "results.jsonl", "w") as file:
        for seed in SEEDS:
            for fold in range(5):
                key = dict(zip(KEY, ("pima", "published", seed, fold, "hybrid"), strict=True))
                file.write(json.dumps({**key, "test_loglik": -0.5}) + "\n")
    values, stands = tables.for_counts(Stored(tmp_path), "table1", "pima", "hybrid-vem", "loglik")
    assert stands == "hybrid" and len(values) == 50
    assert tables.for_counts(Stored(tmp_path), "table1", "pima", "vi", "loglik") == (None, "")


def test_two_folds_at_one_half_explain_the_printed_spread():
    told, explained = errata.half()
    assert [item.verdict for item in explained] == [ERRATUM] * 3 and "log ½" in told


def test_printed_figures_belong_to_the_tables():
    """The points of Fig. 4 are ratios of the printed accuracies of one seed."""
    points = paper.figures()["fig4"]["points"]
    lines = paper.printed("table1-seed42", "accuracy").values()
    for at, line in enumerate(lines):
        best = max(cell.mean for cell in line.values())
        for method, cell in line.items():
            assert points[method][at] == pytest.approx(cell.mean / best, abs=4e-3)
    assert len(paper.figures()["fig5"]["ep"]) == 300 and paper.sizes()["magic"] == [19020, 11]


def test_the_points_of_the_ard_figure_are_ratios_of_the_printed_accuracies():
    """So a miss of the figure is a miss of the table."""
    points = paper.figures()["fig-ard"]["points"]
    lines = paper.printed("table-ard", "accuracy").values()
    means = {m: np.array([line[m].mean for line in lines]) for m in points}
    best = np.max(list(means.values()), axis=0)
    for m in points:
        np.testing.assert_allclose(points[m], means[m] / best, atol=1e-3)
