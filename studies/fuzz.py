"""Fuzz the library with ten thousand difficult cases: `make fuzz`, or python studies/fuzz.py [--cases N].

One worker process computes case after case, block after block.  This process measures time, kills a worker that takes
more than 60 s of CPU time for a case (compilation, once per block, has its own limit), and appends one row per case to
results/fuzz/cases.jsonl.  Rows of earlier runs are compressed in cases.jsonl.gz, and are read first.  A restarted run
continues with the first number that has no row.  --case SEED runs one case, to inspect it; --replay N runs N converged
cases of some finished blocks again, in a new process with two threads, and compares every number to 1e-12; --table
writes results/fuzz/README.md from the rows.
"""

from __future__ import annotations

import os
from importlib.metadata import version

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Thousands of programs that run for milliseconds: compile them fast.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from fuzzing.cases import PER_BLOCK, Block, drawn
from fuzzing.checks import check
from fuzzing.table import render
from fuzzing.worker import Worker, serve
from sitewise.errors import UserError
from sitewise_icml2023.archived_log import ArchivedLog

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "fuzz" / "cases.jsonl"
COMMAND = [sys.executable, __file__, "--worker"]


def rows_of(path: Path) -> ArchivedLog[dict[str, Any]]:
    """The rows in FILE.gz and FILE; new ones go to FILE."""

    def refuse(file: Path, number: int) -> None:
        raise UserError(f"Line {number} of {file} is not a row of the fuzz; repair it by hand.")

    return ArchivedLog(path, dict, refuse)


def finished(log: ArchivedLog[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The last row of every case by its number."""
    return {row["seed"]: row for row in log.read()[0]}


def replay(count: int, path: Path) -> int:
    """Cases in one more process, with more threads: the numbers that differ by more than 1e-12, relative to 1 + |x|."""
    rows = finished(rows_of(path)).values()
    done = [row for row in rows if row["status"] == "converged" and row["seed"] % PER_BLOCK < 5]
    blocks = sorted({row["seed"] // PER_BLOCK for row in done})
    chosen = [row for row in done if row["seed"] // PER_BLOCK in blocks[:: max(1, 5 * len(blocks) // count)]][:count]
    os.environ["OPENBLAS_NUM_THREADS"] = "2"
    worst, current = 0.0, Worker(COMMAND)
    for old in chosen:
        new = current.run(old["seed"])
        gaps = [_gap(old["values"][name], new.get("values", {}).get(name)) for name in old["values"]]
        worst = max([worst, *gaps])
        if max(gaps) > 1e-12:
            print(f"{old['seed']}: differs by {max(gaps):.1e} ({old['method']}, {old['likelihood']}, {old['status']})")
    current.end()
    print(f"{len(chosen)} cases again in another process with two threads: largest difference {worst:.1e}")
    return int(worst > 1e-12)


def _gap(old: float, new: float | None) -> float:
    if new is None:
        return float("inf")
    same = old == new or (old != old and new != new)
    return 0.0 if same else abs(old - new) / (1 + abs(old))


def run(cases: int, each: int, again: list[int], path: Path) -> None:
    """Append the rows of the cases that have none, or of those in `again`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = rows_of(path)
    done = finished(log)
    todo = [seed for seed in range(cases) if seed not in done and seed % PER_BLOCK < each]
    # Inference takes milliseconds and learning seconds: a run that is ended early has then seen the most.
    order = {"infer": 0, "bound": 1, "estimator": 2, "learn": 3}
    todo = again or sorted(todo, key=lambda seed: (order[Block.numbered(seed // PER_BLOCK).kind], seed))
    started, current = time.monotonic(), Worker(COMMAND)
    try:
        for count, seed in enumerate(todo, 1):
            row = current.run(seed)
            log.append(row)
            if row["status"] in ("hang", "crash"):
                current = Worker(COMMAND)
            if row["status"] in ("failed", "hang", "crash"):
                print(f"{seed}: {row['status']}: {row['law']}", flush=True)
            if count % 200 == 0:
                print(f"{count} of {len(todo)} cases, {time.monotonic() - started:.0f} s", flush=True)
    finally:
        current.end()
        log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=10**9, help="only the first so many cases of every block")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--case", type=int)
    parser.add_argument("--again", type=int, nargs="*", default=[], help="numbers to run anew, after a defect is fixed")
    parser.add_argument("--replay", type=int)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        serve()
    elif options.case is not None:
        print(json.dumps(check(drawn(options.case)), indent=1))
    elif options.replay is not None:
        sys.exit(replay(options.replay, options.out))
    elif options.table:
        rows = list(finished(rows_of(options.out)).values())
        (options.out.parent / "README.md").write_text(render(rows), encoding="utf-8")
    else:
        run(options.cases, options.each, options.again, options.out)


if __name__ == "__main__":
    main()
