"""How far our means lie from the printed ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sitewise_icml2023 import paper, tables


def markdown(rows: Sequence[dict[str, Any]], table: str, limits: dict[str, float], seeds: Sequence[int]) -> str:
    """Our means under the published protocol minus the printed ones, and which lie within the limit."""
    printed = paper.printed(table, "loglik")
    chosen = tuple(limits)
    built = {m: tables.build(rows, table, "loglik", "published", [m], list(printed), seeds) for m in chosen}
    out = [
        "| set | " + " | ".join(f"{tables.label(m)} (≤ {limits[m]:g})" for m in chosen) + " |",
        "|---" * (1 + len(chosen)) + "|",
    ]
    within, counted = Counter[str](), Counter[str]()
    gaps: dict[str, dict[str, str]] = defaultdict(dict)
    for m in chosen:
        for line in built[m].lines:
            if line.missing:
                continue
            gap = line.cells[m].mean - printed[line.set][m].mean
            # The printed mean is rounded to three digits.
            ok = abs(gap) <= limits[m] + 5e-4
            within[m] += ok
            counted[m] += 1
            gaps[line.set][m] = f"{gap:+.4f}" + ("" if ok else " ✗")
    out += [
        f"| {name} | " + " | ".join(gaps[name].get(m, "–") for m in chosen) + " |" for name in printed if name in gaps
    ]
    out.append("| *within* | " + " | ".join(f"{within[m]} of {counted[m]}" for m in chosen) + " |")
    return "\n".join(out) + "\n"
