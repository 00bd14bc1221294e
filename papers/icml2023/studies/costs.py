"""What the tables and figures cost: seconds by method, rows and device, from the stored rows.

    python papers/icml2023/studies/costs.py results/icml2023

Writes costs.json of the package, from which `sitewise reproduce` estimates before it starts, and FOLDER/costs.md, the
seconds spent on every table and figure.  Seconds of a fit on a CPU are CPU seconds, where they are recorded; seconds of
a GPU are the share of a fit in the program that trained many, compilation included.  The rows are of several machines
and versions.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from sitewise_icml2023 import estimate, tasks
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.protocols import FOLDS
from sitewise_icml2023.suites import suites

Row = dict[str, Any]


def device(row: Row) -> str:
    """Rows of early versions do not say; Algorithm 1 was run on a GPU then."""
    machine = row.get("machine")
    if machine is None:
        return "gpu" if row["method"] == "hybrid-vem" else "cpu"
    return "cpu" if machine["device"] == "cpu" else "gpu"


def seconds_of(row: Row) -> float:
    """CPU seconds on a CPU, because some of the machines were busy; seconds by the clock on a GPU."""
    return row.get("cpu_seconds", row["seconds"]) if device(row) == "cpu" else row["seconds"]


def by_size(rows: list[Row]) -> dict[str, dict[str, list[list[float]]]]:
    """device → method → [rows, mean seconds], by size in powers of two."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for row in rows:
        size = max(tasks.SIZES[0], 2 ** math.ceil(math.log2(row["n"])))
        found[device(row), row["method"], size].append(seconds_of(row))
    out: dict[str, dict[str, list[list[float]]]] = {"cpu": {}, "gpu": {}}
    for (kind, method, size), seconds in sorted(found.items()):
        out[kind].setdefault(method, []).append([size, round(float(np.mean(seconds)), 3)])
    return out


def figures(stored: Stored) -> dict[str, dict[str, float]]:
    """device → figure → seconds, of figures that say it, and of the surfaces."""
    out: dict[str, dict[str, float]] = {"cpu": {}, "gpu": {}}
    for name in ("fig1", "fig3", "fig5"):
        found = stored.arrays(f"{name}.npz", "figures")
        if found is not None and "seconds" in found:
            out["gpu" if bool(found["gpu"]) else "cpu"][name] = float(found["seconds"])
    surfaces = stored.folder.parent / "surfaces"
    reports = [json.loads(path.read_text()) for path in sorted(surfaces.glob("*.json"))]
    if reports:
        out["gpu"]["figs-surfaces"] = round(sum(sum(report["seconds"].values()) for report in reports), 1)
    return out


def table(stored: Stored, spent: dict[str, dict[str, float]]) -> str:
    lines = [
        "# What it cost",
        "",
        "Made by `python papers/icml2023/studies/costs.py results/icml2023`: seconds of the stored fits, both "
        "protocols. CPU seconds are of one core. A fit that serves two tables is counted in both.",
        "",
        "| | fits stored | of both protocols | CPU seconds | GPU seconds |",
        "|---|---|---|---|---|",
    ]
    for name, suite in suites().items():
        keys = {(s, m) for s in suite.sets for m in suite.methods}
        mine = [r for r in stored.rows if (r["set"], r["method"]) in keys and r["seed"] in suite.seeds]
        seconds = {kind: sum(seconds_of(r) for r in mine if device(r) == kind) for kind in ("cpu", "gpu")}
        whole = 2 * len(keys) * len(suite.seeds) * FOLDS
        lines.append(f"| {name} | {len(mine)} | {whole} | {seconds['cpu']:.0f} | {seconds['gpu']:.0f} |")
    for title, rows in (
        ("Table 2 (study)", stored.lines("table2.jsonl")),
        ("Fig. 5 on all sets (study)", stored.lines("conflict.jsonl")),
    ):
        if rows:
            total = sum(r["seconds"] for r in rows)
            lines.append(f"| {title} | {len(rows)} | | {total:.0f} (device not recorded) | |")
    for name in dict.fromkeys([*spent["cpu"], *spent["gpu"]]):
        cells = [f"{spent[kind][name]:.0f}" if name in spent[kind] else "" for kind in ("cpu", "gpu")]
        lines.append(f"| {name} | | | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    stored = Stored(Path(sys.argv[1]))
    spent = figures(stored)
    costs = {"fits": by_size([r for r in stored.rows if r.get("seconds")]), "figures": spent}
    text = json.dumps(costs, indent=1)
    estimate.PATH.write_text(_compact(text) + "\n")
    (stored.folder / "costs.md").write_text(table(stored, spent))
    print(table(stored, spent))


def _compact(text: str) -> str:
    """Pairs on one line."""
    text = re.sub(r"\[\s+([\d.]+),\s+([\d.]+)\s+\]", r"[\1, \2]", text)
    return re.sub(r"\],\s+\[", "], [", text)


if __name__ == "__main__":
    main()
