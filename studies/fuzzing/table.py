"""The rows of a fuzz run as a page."""

from __future__ import annotations

from collections import Counter
from typing import Any

BAD = ("failed", "hang", "crash")
NAMES = {"infer": "inference at given θ", "bound": "inference beside AIS", "learn": "learner", "estimator": "estimator"}


def render(rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["status"] for row in rows)
    bad = [row for row in rows if row["status"] in BAD]
    times = sorted(row["seconds"] for row in rows if "seconds" in row)
    lines = [
        "# Fuzz",
        "",
        "Written by `python studies/fuzz.py --table` from the rows of `make fuzz`. A case is one model, one data",
        "set, one method, with every law of `studies/fuzzing/` checked on it; its number is its seed, and",
        "`python studies/fuzz.py --case NUMBER` repeats it. Nothing is batched: a case is a run of its own.",
        "",
        f"{len(rows)} cases, numbers {min(r['seed'] for r in rows)} to {max(r['seed'] for r in rows)}: "
        f"{sum(row['status'] == 'failed' for row in rows)} broken laws or exceptions that are no ValueError, "
        f"{counts['hang']} hangs (limit 60 s), {counts['crash']} crashes. "
        f"Seconds of a case (one loaded core): median {times[len(times) // 2]:.2f}, longest {times[-1]:.1f}.",
        "",
        "converged: the method says so, and every law holds. capped: learning was ended after the few rounds that the",
        "fuzz allows, its inference converged. flagged: the method says that it did not converge, with advice.",
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
        lines += ["", "What broke:", ""] + [f"- {row['seed']}: {row['status']}: {row['law']}" for row in bad]
    return "\n".join(lines) + "\n"


def _shares(rows: list[dict[str, Any]]) -> str:
    counts = Counter("failed" if row["status"] in BAD else row["status"] for row in rows)
    cells = [str(len(rows))]
    for status in ("converged", "capped", "flagged", "refused", "failed"):
        cells.append(f"{100 * counts[status] / len(rows):.1f} %" if counts[status] else "0")
    return " | ".join(cells)
