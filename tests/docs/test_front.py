"""The README, the front pages of the site and their numbers are those of the sources and of the stored results."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np

import sitewise
from sitewise import likelihoods
from sitewise.kernel_choice import NAMED_KERNELS as KERNELS
from sitewise.methods import METHODS
from sitewise.structures import NAMED as STRUCTURES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
CHOICES = DOCS / "how-to" / "which-model.md"
SMALL = ("trains", "balloons")  # sets with fewer than 75 training rows


def means(model: str) -> dict[str, float]:
    """Mean log density per set of the scoreboard on the seeds of confirmation."""
    found: dict[str, list[float]] = {}
    for text in (ROOT / "results" / "scoreboard" / "paper.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["model"] == model and line["seed"] in (1, 2, 3) and line["table"] not in SMALL:
            found.setdefault(line["table"], []).append(line["density"])
    return {table: float(np.mean(each)) for table, each in found.items()}


def test_the_readme_fits_on_a_screen_and_a_half() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 75
    assert [line for line in lines if len(line) > 115 and not line.startswith("|")] == []


def test_the_scores_beside_catboost_are_the_stored_ones() -> None:
    text = " ".join(README.read_text().split())
    trees = means("CatBoost")
    for contestant in ("shrunk", "average"):
        ours = means(contestant)
        ahead = sum(ours[name] > trees[name] for name in trees)
        assert ours.keys() == trees.keys()
        assert f"| {-np.mean(list(ours.values())):.3f} | {ahead} of {len(trees)} |" in text
    assert f"| {-np.mean(list(trees.values())):.3f} |" in text
    default = means("average")
    losses = sorted(trees, key=lambda name: default[name] - trees[name])[:2]
    for name in losses:
        assert f"{name} ({-default[name]:.3f} against {-trees[name]:.3f})" in text


def test_the_verdicts_on_the_paper_are_the_stored_ones() -> None:
    stored = (ROOT / "results" / "icml2023" / "every-number.md").read_text()
    found = re.search(
        r"(\d+) printed numbers and curves: (\d+) met, (\d+) explained by a named erratum, "
        r"(\d+) not met, (\d+) not run",
        stored,
    )
    assert found
    text = " ".join(README.read_text().split())
    every, met, explained, missed, skipped = found.groups()
    assert f"Of the {every} numbers" in text
    assert f"{met} are met, {explained} explained by a named erratum, {missed} not met and {skipped} not run" in text


def test_the_table_of_the_hybrid_is_the_stored_one() -> None:
    text = (DOCS / "explanation" / "choosing.md").read_text()
    script = runpy.run_path(str(DOCS / "figures" / "why_hybrid.py"))
    stored = script["table1_fits"]()
    for protocol in ("published", "clean"):
        found = [script["summary"](stored[protocol, method]) for method in ("laplace", "ep", "vi", "hybrid")]
        densities, bounds = zip(*(line.split("; σ² at its bound in ") for line in found), strict=True)
        assert f"| {' | '.join(densities)} |" in text
        assert protocol == "clean" or f"| {' | '.join(bounds).replace(' fits', '')} |" in text


def test_the_chart_is_what_its_script_draws() -> None:
    script = runpy.run_path(str(DOCS / "figures" / "choose_model.py"))
    assert (DOCS / "figures" / "choose-a-model.svg").read_text() == script["draw"]()


def test_every_likelihood_and_method_is_on_the_page_that_helps_to_choose() -> None:
    text = CHOICES.read_text() + (DOCS / "explanation" / "choosing.md").read_text()
    absent = [
        name
        for name, kind in likelihoods.BY_NAME.items()
        if f'"{name}"' not in text and f"likelihoods.{kind.__name__}" not in text and name != "ordinal"  # GPOrdinal
    ]
    absent += [name for name in METHODS if f'"{name}"' not in text]
    assert not absent, absent


def test_names_in_quotes_are_values_of_arguments() -> None:
    chart = (DOCS / "figures" / "choose-a-model.svg").read_text().replace("&quot;", '"')
    pages = {page: (DOCS / page).read_text() for page in ("how-to/which-model.md", "faq.md", "glossary.md")}
    known = {
        "likelihood": set(likelihoods.BY_NAME),
        "kernel": set(KERNELS),
        "method": set(METHODS) | {"mcmc"},
        "structure": set(STRUCTURES),
    }
    wrong = [
        f"{page}: {argument}={value}"
        for page, text in {**pages, "chart": chart}.items()
        for argument, value in re.findall(r'\b(likelihood|kernel|method|structure)="([^"]*)"', text)
        if value not in known[argument]
    ]
    anything = set.union(*known.values()) | {"shop", "sensor", "joint", "one_vs_rest", "balanced"}
    wrong += [value for value in re.findall(r'(?<![=\w(])"([a-z_]+)"', chart) if value not in anything]
    wrong += [
        f"{page}: {value}"
        for page, text in pages.items()
        for value in re.findall(r'`"([^"`]+)"`', text)
        if value not in anything
    ]
    assert not wrong, wrong


def test_the_table_of_how_much_data_is_the_stored_one() -> None:
    script = ROOT / "benchmarks" / "how_much_data.py"
    program = f"import sys; sys.path.insert(0, {str(script.parent)!r}); import how_much_data as m, json; " + (
        "print(json.dumps([m.BEGIN, m.END, m.lines(json.loads(m.STORE.read_text())['rows']), len(m.CASES)]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    begin, end, table, cases = json.loads(done.stdout)
    page = (DOCS / "how-much-data.md").read_text()
    assert page.partition(begin)[2].partition(end)[0].strip() == table
    assert len(table.splitlines()) == 2 + cases, "a case has not been measured"


def test_newcomers_find_their_answers() -> None:
    """Thirty questions: every link and answer is where results/first-look says, within two minutes."""
    study = runpy.run_path(str(ROOT / "studies" / "first_look.py"))
    readers = json.loads((ROOT / "results" / "first-look" / "questions.json").read_text())["readers"]
    assert [len(questions) for questions in readers.values()] == [10, 10, 10]
    for questions in readers.values():
        for question, _, path, answer in questions:
            clicks, words, _ = study["walk"](path, answer)
            assert study["minutes_of"](clicks, words) < 2, question


def test_the_calibration_in_the_faq_is_the_stored_one() -> None:
    stored = (ROOT / "results" / "calibration" / "README.md").read_text()
    found = re.search(r"^\| `GPClassifier\(\)` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", stored, re.MULTILINE)
    assert found
    pooled, pooled_expected, single, single_expected = found.groups()
    text = " ".join((DOCS / "faq.md").read_text().split())
    assert f"is {pooled} for all rows together, and {single} per table" in text
    assert f"would have {pooled_expected} and {single_expected}, because of sampling error" in text


def fields(text: str) -> dict[str, str]:
    """The scalars at the top level of a file in YAML's block style."""
    found = {}
    for line in text.splitlines():
        assert not line.startswith("\t") and line == line.rstrip()
        if line and not line.startswith((" ", "#", "-")):
            key, colon, value = line.partition(":")
            assert colon and re.fullmatch(r"[a-z-]+", key), line
            assert key not in found
            found[key] = value.strip().strip('"')
    return found


def test_the_citation_names_this_version_and_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    citation = fields(text)
    assert {"cff-version", "message", "title", "authors", "version", "license", "references"} <= citation.keys()
    assert citation["version"] == sitewise.__version__
    bibtex = (DOCS / "cite.md").read_text()
    assert f"version = {{{sitewise.__version__}}}" in bibtex
    title = "Improving Hyperparameter Learning under Approximate Inference in Gaussian Process Models"
    assert title in text and title in bibtex.replace("{G}", "G")
