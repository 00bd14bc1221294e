"""Fuzz the Markov prior with a thousand difficult time series: python studies/markov_fuzz.py [--cases 1000] [--jobs N].

The Markov prior is compared with the full prior, under the properties of `fuzzing/series.py`.  Every case is one line
of results/fuzz/markov.jsonl and is not run again; --case NUMBER runs one case and prints it; --table writes
results/fuzz/markov.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Hundreds of programs that run for milliseconds: compile them fast.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

from collections import Counter
from typing import Any

import numpy as np

from fuzzing.many import by_method, main
from fuzzing.series import check, drawn


def render(rows: list[dict[str, Any]]) -> str:
    kinds = ("converged", "flagged", "refused", "broken", "failed")
    counts = Counter(row["status"] for row in rows)
    good = [row for row in rows if row["status"] == "converged"]
    decided = [row for row in good if row["decided"]]
    slopes = [row["gradient"] for row in good if isinstance(row.get("gradient"), float)]
    ahead = sorted(row["goes_on"] for row in good if "goes_on" in row)
    lines = [
        "# Fuzz of the Markov prior",
        "",
        "Written by `python studies/markov_fuzz.py --table`. A case is a series of at most 39 rows (random, equal,"
        " nearly equal, far apart, in any order), a kernel, a likelihood and a method; its number is its seed. At the"
        " same sites the Markov prior must have the marginals, evidences and predictions of the full GP, to 1e-6 or 50"
        " times the estimated rounding error; otherwise arithmetic with 50 digits decides whether the Markov "
        "prior is right.",
        "",
        f"{len(rows)} cases: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds) + ".",
        "",
        f"- {len(decided)} cases were decided by 50 digits: the full GP was wrong by up to "
        f"{max((row['gap'] for row in decided), default=0):.1e}, the Markov prior by up to "
        f"{max((row['exact'] for row in decided), default=0):.1e}.",
        f"- In the other {len(good) - len(decided)} cases marginals differ by at most "
        f"{max((row['gap'] for row in good if not row['decided']), default=0):.1e}.",
        f"- Exact gradients of EP's evidence, {len(slopes)} cases: they differ by at most "
        f"{max(slopes, default=0):.1e} of the largest entry.",
        f"- The last third of a series appended to the rest, {len(ahead)} cases: the posterior differs from "
        f"inference on all rows by {np.median(ahead):.1e} standard deviations (median), {ahead[-1]:.1e} at most.",
        "",
        *by_method(rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(__doc__, "markov", drawn, check, render)
