"""Stored results: rows by set, method, seed and fold, and the files of the studies."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitewise_icml2023 import store
from sitewise_icml2023.archived_log import archive_of
from sitewise_icml2023.protocols import FOLDS

Row = dict[str, Any]


class Stored:
    """The store in `folder`; other files are looked for there, then in the folder named after them beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "results.jsonl"
        self.rows = store.read(path) if path.is_file() or archive_of(path).is_file() else []
        self._by: dict[tuple[str, str, str], dict[tuple[int, int], Row]] = {}
        for row in self.rows:
            self._by.setdefault((row["protocol"], row["set"], row["method"]), {})[row["seed"], row["fold"]] = row

    def folds(self, name: str, method: str, seeds: Sequence[int], protocol: str = "published") -> list[Row] | None:
        """The rows of all folds of these seeds, in order; None if one is missing."""
        found = self._by.get((protocol, name, method), {})
        keys = [(seed, fold) for seed in seeds for fold in range(FOLDS)]
        return [found[key] for key in keys] if all(key in found for key in keys) else None

    def values(
        self, name: str, method: str, key: str, seeds: Sequence[int], protocol: str = "published"
    ) -> np.ndarray | None:
        rows = self.folds(name, method, seeds, protocol)
        if rows is None or any(row.get(key) is None for row in rows):
            return None
        return np.array([row[key] for row in rows])

    def path(self, name: str, beside: str = "") -> Path | None:
        places = (self.folder / name, self.folder.parent / beside / name)
        return next((place for place in places if place.is_file()), None)

    def lines(self, name: str, beside: str = "") -> list[Row]:
        """A file of JSON lines; empty if it is not here."""
        path = self.path(name, beside)
        return [] if path is None else [json.loads(line) for line in path.read_text().splitlines()]

    def arrays(self, name: str, beside: str = "") -> dict[str, np.ndarray] | None:
        path = self.path(name, beside)
        if path is None:
            return None
        with np.load(path, allow_pickle=False) as saved:
            return dict(saved)

    def surface(self, name: str) -> dict[str, np.ndarray] | None:
        """The columns of a surface, as in results/surfaces; None if it is not here in full, with MCMC."""
        path = self.path(f"{name}.csv", "surfaces")
        if path is None:
            return None
        with path.open() as file:
            points = list(csv.DictReader(file))
        if len(points) != 441 or "mcmc_log_z" not in points[0]:
            return None
        return {key: np.array([float(point[key]) for point in points]) for key in points[0]}
