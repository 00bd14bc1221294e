"""Estimate the time of a run from the seconds of stored fits (costs.json, written by studies/costs.py)."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitewise_icml2023 import tasks

PATH = Path(__file__).with_name("costs.json")


@functools.cache
def _costs() -> dict[str, Any]:
    return json.loads(PATH.read_text())


def seconds(method: str, rows: int, kind: str) -> float | None:
    """Seconds of a fit: between measured sizes a straight line of logarithms, below them rows², beyond them rows³; None
    if the method was never run on such a device."""
    known = _costs()["fits"][kind].get(method)
    if known is None:
        return None
    sizes, spent = np.array(known).T
    inside = float(np.exp(np.interp(np.log(rows), np.log(sizes), np.log(spent))))
    return float(inside * min(rows / sizes[0], 1.0) ** 2 * max(rows / sizes[-1], 1.0) ** 3)


def fits(todo: Iterable[tasks.Task], kind: str, workers: int) -> tuple[float, Counter[str]]:
    """Seconds of these tasks on so many workers, and how many of each method were never measured on the device."""
    total, unknown = 0.0, Counter[str]()
    for task in todo:
        one = seconds(task.method, tasks.shape(task)[0], kind)
        if one is None:
            unknown[task.method] += 1
        else:
            total += one
    return total / workers, unknown


def figure(name: str, kind: str) -> float | None:
    return _costs()["figures"][kind].get(name)


def line(name: str, todo: Sequence[tasks.Task], missing: Sequence[tasks.Task], kind: str, workers: int) -> str:
    """One line of the estimate that is shown before a run starts."""
    spent, unknown = fits(missing, kind, workers)
    text = f"{name}: {len(missing)} of {len(todo)} fits to run, about {clock(spent)}"
    if unknown:
        text += "; never measured here: " + ", ".join(f"{m} ({n})" for m, n in unknown.items())
    return text


def clock(spent: float) -> str:
    """Seconds in words."""
    if spent < 90:
        return f"{spent:.0f} s"
    return f"{spent / 60:.0f} min" if spent < 5400 else f"{spent / 3600:.1f} h"
