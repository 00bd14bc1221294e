"""Render the rows of a fuzz run as results/fuzz/README.md."""

from __future__ import annotations

from collections import Counter
from typing import Any

BAD = ("failed", "hang", "crash")
NAMES = {
    "infer": "inference at given θ",
    "bound": "inference against AIS",
    "learn": "learner",
    "estimator": "estimator",
}


def render(rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["status"] for row in rows)
    bad = [row for row in rows if row["status"] in BAD]
    times = sorted(row["seconds"] for row in rows if "seconds" in row)
    lines = [
        "# Fuzz",
        "",
        "Written by `python studies/fuzz.py --table` from the rows of `make fuzz`. A case is one model, one data",
        "set, one method, with every property of `studies/fuzzing/` checked on it; its number is its seed, and",
        "`python studies/fuzz.py --case NUMBER` repeats it. Nothing is batched: each case is a separate run.",
        "",
        f"{len(rows)} cases, numbers {min(r['seed'] for r in rows)} to {max(r['seed'] for r in rows)}: "
        f"{sum(row['status'] == 'failed' for row in rows)} violated properties or exceptions other than ValueError, "
        f"{counts['hang']} hangs (limit 60 s), {counts['crash']} crashes. "
        f"Seconds per case (one busy core): median {times[len(times) // 2]:.2f}, longest {times[-1]:.1f}.",
        "",
        "converged: the method reports convergence, and every property holds. capped: learning was ended "
        "after the few rounds",
        "that the fuzz allows; its inference converged. flagged: the method reports that it did not converge, "
        "with advice.",
        "refused: a ValueError that says what to do.",
        "",
        "| | method | cases | converged | capped | flagged | refused | failed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, name in NAMES.items():
        methods = sorted({row["method"] for row in rows if row.get("kind") == kind})
        for method in methods:
            some = [row for row in rows if row.get("kind") == kind and row["method"] == method]
            lines.append(f"| {name} | {method} | {_shares(some)} |")
    lines += [
        "",
        "By likelihood, inference at given θ:",
        "",
        "| likelihood | cases | converged | flagged | refused | failed |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for likelihood in sorted({row["likelihood"] for row in rows if row.get("kind") == "infer"}):
        some = [row for row in rows if row.get("kind") == "infer" and row["likelihood"] == likelihood]
        parts = _shares(some).split(" | ")
        lines.append(f"| {likelihood} | {' | '.join(parts[:2] + parts[3:])} |")
    if bad:
        lines += ["", "Failures:", ""] + [f"- {row['seed']}: {row['status']}: {row['law']}" for row in bad]
    return "\n".join(lines) + "\n"


def _shares(rows: list[dict[str, Any]]) -> str:
    counts = Counter("failed" if row["status"] in BAD else row["status"] for row in rows)
    cells = [str(len(rows))]
    for status in ("converged", "capped", "flagged", "refused", "failed"):
        cells.append(f"{100 * counts[status] / len(rows):.1f} %" if counts[status] else "0")
    return " | ".join(cells)
