"""The numbers that the paper prints, from paper.json, and its public results fold by fold."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.sources import DataError, data_directory

# The paper's "Ours" is Algorithm 1; our `hybrid` climbs the same evidence by its exact gradient.
FOLD_NAME = {"laplace": "la", "ep": "ep", "vi": "vgp", "hybrid-vem": "epcvi", "hybrid": "epcvi", "mcmc": "mcmc"}


FIG1_ROWS = 281  # training rows of ionosphere, fold 3 of seed 42


class Printed(NamedTuple):
    mean: float
    sd: float
    bold: bool


@functools.cache
def _paper() -> dict[str, Any]:
    return json.loads((files(__package__) / "paper.json").read_text())


def tables() -> tuple[str, ...]:
    return tuple(_paper()["tables"])


def caption(table: str) -> str:
    return _paper()["tables"][table]["caption"]


def saw_test_rows(table: str) -> tuple[str, ...]:
    """Methods whose printed numbers in this table are of fits to all rows, those of the test folds included."""
    return tuple(_paper()["tables"].get(table, {}).get("saw_test_rows", ()))


def printed(table: str, metric: str) -> dict[str, dict[str, Printed]]:
    """{set: {method: (mean, sd, bold)}} of a table; metric "loglik" or "accuracy"; empty if it is not in the paper."""
    entry = _paper()["tables"].get(table, {}).get(metric)
    if entry is None:
        return {}
    return {
        name: {m: Printed(mean, sd, bool(bold)) for m, (mean, sd, bold) in zip(entry["methods"], row, strict=True)}
        for name, row in entry["rows"].items()
    }


def bold_count(table: str, metric: str) -> dict[str, int]:
    return _paper()["tables"][table][metric]["bold_count"]


def robust_mcmc() -> dict[str, Printed]:
    """MCMC's means beside Table 2, from the text."""
    return {name: Printed(mean, sd, False) for name, (mean, sd) in _paper()["tables"]["table2"]["mcmc"].items()}


@functools.cache
def figures() -> dict[str, Any]:
    """Points of the printed figures (made by studies/read_paper.py)."""
    return json.loads((files(__package__) / "printed_figures.json").read_text())


def sizes() -> dict[str, list[int]]:
    """(n, d) of every set, as printed."""
    return figures()["sizes"]


def fig1() -> dict[str, Any]:
    """Curves of Fig. 1 (ionosphere, fold 3 of seed 42, log σ = 2.3), per row; its hybrid carries quadrature error."""
    return _paper()["fig1"]


def fig4() -> dict[str, list[float]]:
    """Mean and standard deviation of the relative accuracy, from the legend of Fig. 4."""
    return _paper()["fig4"]


def published_folds(directory: Path | None = None) -> dict[str, Any]:
    """Public results by data set, method and metric: 50 numbers each, folds within seeds (`published_fold`)."""
    folder = data_directory(directory)
    path = None if folder is None else folder / "published" / "10seed_result.json"
    if path is None or not path.is_file():
        raise DataError("The public fold-by-fold results are not here; name their folder with --data or SITEWISE_DATA.")
    return json.loads(path.read_text())


def published_fold(results: dict[str, Any], name: str, method: str, metric: str, seed: int, fold: int) -> float:
    """Return the public number of one fold.

    The seeds are in the order of `SEEDS`; of MCMC the first comes last, since only so do its numbers of single folds
    follow those of the other methods.
    """
    seeds = (*SEEDS[1:], SEEDS[0]) if method == "mcmc" else SEEDS
    return results[name][FOLD_NAME[method]][metric][5 * seeds.index(seed) + fold]
