"""Compute medians and ratios from stored answers; pure functions."""

from __future__ import annotations

from statistics import median

_KEPT = (
    "library", "objective", "best", "failed", "parameters", "rounds", "site_iterations", "converged", "reached",
    "peak_mib", "note", "mean_probability",
)  # fmt: skip


def summarise(rows: list[dict]) -> list[dict]:
    """One entry per case and contestant: median seconds, and their ratio to sitewise's of the same case."""
    entries = []
    for case in dict.fromkeys(row["case"] for row in rows):
        here = [row for row in rows if row["case"] == case]
        for name in dict.fromkeys(row["contestant"] for row in here):
            entries.append(_entry(case, name, [row for row in here if row["contestant"] == name]))
    own = {e["case"]: e for e in entries if e["contestant"] == "sitewise" and "cpu" in e}
    for e in entries:
        if "cpu" in e and e["case"] in own:
            e["cpu_ratio"] = e["cpu"] / own[e["case"]]["cpu"]
            e["wall_ratio"] = e["wall"] / own[e["case"]]["wall"]
    return entries


def _entry(case: str, name: str, rows: list[dict]) -> dict:
    timed = [row for row in rows if row["round"] > 0 and "cpu" in row]
    first = [row for row in rows if row["round"] == 0 and "cpu" in row]
    problem = next((row.get("skip") or row.get("error") for row in rows if "cpu" not in row), None)
    entry = {"case": case, "contestant": name, "n": rows[0]["n"], "repeats": len(timed)}
    if problem:
        entry["problem"] = problem
    if first:
        entry["first_cpu"], entry["first_wall"] = first[0]["cpu"], first[0]["wall"]
    if timed or first:
        # A contestant of a long job that did not answer twice is represented by its first answer.
        used = timed or first
        entry["cpu"], entry["wall"] = (median(row[key] for row in used) for key in ("cpu", "wall"))
        entry.update({key: used[-1][key] for key in _KEPT if key in used[-1]})
    return entry


def table(entries: list[dict]) -> str:
    lines = [
        f"{'case':32s}{'contestant':14s}{'CPU s':>10s}{'wall s':>10s}{'first':>9s}{'ratio':>9s}{'wall':>8s}  reached"
    ]
    for e in entries:
        if "cpu" not in e:
            lines.append(f"{e['case']:32s}{e['contestant']:14s}  {e.get('problem', 'no answer')}")
            continue
        reached = e.get("objective", e.get("best"))
        number = "" if reached is None else f"{reached:.5f}"
        lines.append(
            f"{e['case']:32s}{e['contestant']:14s}{e['cpu']:10.3f}{e['wall']:10.3f}{e.get('first_cpu', 0):9.2f}"
            f"{e.get('cpu_ratio', 0):8.2f}×{e.get('wall_ratio', 0):7.2f}×  {number} {e.get('note', '')}"
        )
    return "\n".join(lines)
