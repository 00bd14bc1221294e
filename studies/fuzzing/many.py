"""Run numbered fuzz cases in several processes; finished cases are lines of a file and are not run again."""

from __future__ import annotations

import argparse
import functools
import json
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.inference import Broken

OUT = Path(__file__).resolve().parents[2] / "results" / "fuzz"
Row = dict[str, Any]


def run(drawn: Callable[[int], Any], check: Callable[[Any], Row], seed: int) -> Row:
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


def by_method(rows: list[Row]) -> list[str]:
    """Return the lines of the table of outcomes per method."""
    lines = ["| method | cases | converged | flagged | refused | broken or failed |", "|---|---|---|---|---|---|"]
    known = [row for row in rows if "method" in row]
    for method in sorted({row["method"] for row in known}):
        some = Counter(row["status"] for row in known if row["method"] == method)
        lines.append(
            f"| {method} | {some.total()} | {some['converged']} | {some['flagged']} | {some['refused']} "
            f"| {some['broken'] + some['failed']} |"
        )
    return lines


def main(
    about: str, name: str, drawn: Callable[[int], Any], check: Callable[[Any], Row], render: Callable[[list[Row]], str]
) -> None:
    """Parse the command line; results/fuzz/NAME.jsonl holds the cases, NAME.md is the page."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--case", type=int, help="run one number and print it")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only write the page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{name}.jsonl"
    one = functools.partial(run, drawn, check)
    if options.case is not None:
        print(json.dumps(one(options.case), indent=1))
        return
    lines = path.read_text().splitlines() if path.exists() else []
    rows = list({row["seed"]: row for row in map(json.loads, lines)}.values())
    if options.table:
        (options.out / f"{name}.md").write_text(render(rows))
        return
    done = {row["seed"] for row in rows}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for job in as_completed([pool.submit(one, seed) for seed in range(options.cases) if seed not in done]):
            row = job.result()
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            if row["status"] in ("broken", "failed"):
                print(json.dumps(row), flush=True)
