"""Fuzz sums of parts with a thousand difficult models: python studies/parts_fuzz.py [--cases 1000] [--jobs N].

Sparse precisions are compared with dense algebra, under the properties of `fuzzing/sums.py`; every fifth case fits an
estimator under the properties of `fuzzing/part_fits.py`.  Every case is one line of results/fuzz/parts.jsonl and is
not run again; --case NUMBER runs one case and prints it; --table writes results/fuzz/parts.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Hundreds of programs that run for milliseconds: compile them fast.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

from collections import Counter
from typing import Any

from fuzzing import part_fits, sums
from fuzzing.many import by_method, main

KINDS = ("converged", "flagged", "refused", "broken", "failed")
FIT_EVERY = 5


def drawn(seed: int) -> Any:
    return part_fits.drawn(seed) if seed % FIT_EVERY == 0 else sums.drawn(seed)


def check(case: Any) -> dict[str, Any]:
    return (part_fits if isinstance(case, part_fits.Case) else sums).check(case)


def render(rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["status"] for row in rows)
    good = [row for row in rows if row["status"] == "converged" and "gap" in row]
    decided = [row for row in good if row["decided"]]
    slopes = [row["gradient"] for row in good if "gradient" in row]
    lines = [
        "# Fuzz of sums of parts",
        "",
        "Written by `python studies/parts_fuzz.py --table`. A case is a table of at most 30 rows with awkward places,"
        " levels, areas, times and regressors, one to five parts, a likelihood and a method; its number is its seed. At"
        " the same sites the sparse precision must have the marginals, log Z and joint predictions of dense algebra, to"
        " 1e-6 or 50 times the estimated rounding error; otherwise arithmetic with 50 digits decides. Every second case"
        " compares the gradient with differences. Every fifth case is a fit of an estimator: finite predictions, terms"
        " that sum to the latent function, leave-one-out, the same numbers from a file, new levels and areas.",
        "",
        f"{len(rows)} cases: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS) + ".",
        "",
        f"- {len(decided)} cases were decided by 50 digits; the sparse precision was wrong by up to "
        f"{max((row['digits'] for row in decided), default=0):.1e}.",
        f"- In the other {len(good) - len(decided)} cases of algebra marginals differ by at most "
        f"{max((row['gap'] for row in good if not row['decided']), default=0):.1e}; "
        f"{sum(row['gap'] > 1e-8 for row in good)} of them differ by more than 1e-8.",
        f"- Gradients, {len(slopes)} cases: they differ from differences by at most {max(slopes, default=0):.1e}, "
        "relative to 1 + the slope.",
        "",
        *by_method(rows),
    ]
    lines += ["", "| part | cases | broken or failed |", "|---|---|---|"]
    for name in ("Map", "Levels", "Area", "Series", "Season", "Linear", "Product", "Constant"):
        some = [row for row in rows if name in row.get("parts", ())]
        lines.append(f"| `{name}` | {len(some)} | {sum(row['status'] in KINDS[3:] for row in some)} |")
    words = Counter(row["words"] for row in rows if row["status"] in ("refused", "flagged"))
    lines += ["", "Refusals and flags, by their words:", ""]
    lines += [f"- {count} × {text}" for text, count in words.most_common(12)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(__doc__, "parts", drawn, check, render)
