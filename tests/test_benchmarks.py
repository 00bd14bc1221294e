"""The harness in benchmarks/, with a contestant that needs no library."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

SCRIPT = """
import sys
import time
sys.path.insert(0, {folder!r})
import protocol

def fit(task, data):
    if task["method"] == "broken":
        raise ValueError("no")
    if task["method"] == "slow":
        time.sleep(600)
    print("noise on stdout")
    return {{"objective": float(data["X"].sum())}}

protocol.serve({{"fit": fit}}, {{"library": "none 1.0"}})
"""


@pytest.fixture()
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {name: importlib.import_module(name) for name in ("process", "summary", "environments")}


def test_a_contestant_answers_skips_fails_and_is_given_up(modules, tmp_path):
    import numpy as np

    script, rows = tmp_path / "contestant.py", tmp_path / "rows.npz"
    script.write_text(SCRIPT.format(folder=str(BENCHMARKS / "contestants")))
    np.savez(rows, X=np.ones((3, 2)), y=np.ones(3), X0=np.ones((2, 2)), y0=np.ones(2))
    contestant = modules["process"].Contestant([sys.executable, str(script)], tmp_path / "log.txt")
    try:
        assert contestant.about["library"] == "none 1.0"
        task = {"verb": "fit", "method": "any", "data": str(rows)}
        assert contestant.ask(task, 30)["objective"] == 6.0
        assert contestant.ask({**task, "verb": "suite", "folds": 1}, 30)["objective"] == 4.0
        assert "no grid" in contestant.ask({**task, "verb": "grid"}, 30)["skip"]
        assert contestant.ask({**task, "method": "broken"}, 30)["error"] == "ValueError: no"
        with pytest.raises(modules["process"].Lost):
            contestant.ask({**task, "method": "slow"}, 0.1)
    finally:
        contestant.close()


def test_ratios_are_of_medians_and_the_first_answer_is_apart(modules):
    def row(contestant, round_, cpu):
        return {"case": "c", "contestant": contestant, "round": round_, "n": 5, "cpu": cpu, "wall": 2 * cpu}

    rows = [row("sitewise", 0, 9.0), *(row("sitewise", i, cpu) for i, cpu in enumerate((1.0, 2.0, 6.0), 1))]
    rows += [
        row("peer", 0, 9.0),
        row("peer", 1, 20.0),
        {"case": "c", "contestant": "other", "round": 0, "n": 5, "skip": "x"},
    ]
    own, peer, other = modules["summary"].summarise(rows)
    assert (own["cpu"], own["first_cpu"], peer["cpu_ratio"]) == (2.0, 9.0, 10.0)
    assert other["problem"] == "x" and "cpu" not in other
    assert "10.00×" in modules["summary"].table([own, peer, other])


def test_every_contestant_has_a_script_and_every_peer_is_pinned(modules):
    wanted = modules["environments"].requirements()
    scripts = modules["environments"].SCRIPTS
    series = {file.stem.removeprefix("markov_") for file in (BENCHMARKS / "contestants").glob("markov_*.py")}
    of_studies = {"lifelines", "structures", "botorch", "trees"}
    assert {*wanted, "sitewise"} == {*scripts, *(series - {"protocol"}), *of_studies}
    for script in modules["environments"].SCRIPTS.values():
        assert (BENCHMARKS / "contestants" / f"{script}.py").is_file()
    assert all("==" in requirement for requires in wanted.values() for requirement in requires), json.dumps(wanted)
