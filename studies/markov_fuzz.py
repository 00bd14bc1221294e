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

import argparse
import json
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.inference import Broken
from fuzzing.series import check, drawn

OUT = Path(__file__).resolve().parents[1] / "results" / "fuzz"


def run(seed: int) -> dict[str, Any]:
    began = time.process_time()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            row = check(drawn(seed))
    except Broken as law:
        row = {"seed": seed, "status": "broken", "words": str(law)}
    except Exception as problem:  # anything that is no refusal in words is a finding
        row = {"seed": seed, "status": "failed", "words": f"{type(problem).__name__}: {problem}"[:300]}
        traceback.print_exc()
    return {**row, "seconds": time.process_time() - began}


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
        "| method | cases | converged | flagged | refused | broken or failed |",
        "|---|---|---|---|---|---|",
    ]
    known = [row for row in rows if "method" in row]
    for method in sorted({row["method"] for row in known}):
        some = Counter(row["status"] for row in known if row["method"] == method)
        lines.append(
            f"| {method} | {some.total()} | {some['converged']} | {some['flagged']} | {some['refused']} "
            f"| {some['broken'] + some['failed']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--case", type=int, help="run one number and print it")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only write the page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "markov.jsonl"
    if options.case is not None:
        print(json.dumps(run(options.case), indent=1))
        return
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if options.table:
        (options.out / "markov.md").write_text(render(rows))
        return
    done = {row["seed"] for row in rows}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for job in as_completed([pool.submit(run, seed) for seed in range(options.cases) if seed not in done]):
            row = job.result()
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            if row["status"] in ("broken", "failed"):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
