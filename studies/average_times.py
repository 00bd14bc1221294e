"""Measure fits of the default, an average of four kernels, with one and with two threads.

    git worktree add ../before d052f4b2
    python studies/average_times.py --label before --tree ../before --threads 1
    python studies/average_times.py [--label now] [--rows N …] [--threads 1 2]     results/fit-times/average.jsonl

Every fit of a table of `fit_times.py` (probit, 10 columns) runs in a process of its own, after a fit of 60 rows.  A
line has seconds by the clock, CPU seconds, and the mean number of threads that were running or ready to run during the
fit (Linux): on a busy machine it says what the clock cannot, how many cores the fit would have kept busy.  `digits` is
a digest of 200 predicted probabilities: equal digests are equal to the last digit.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import select
import subprocess
import sys
import time
import warnings
from pathlib import Path

from pooled import Line, stored

OUT = Path(__file__).resolve().parents[1] / "results" / "fit-times" / "average.jsonl"
SIZES, WARM_ROWS, PREDICTED_ROWS = (600, 1_200, 2_000), 60, 200
SAMPLE_SECONDS = 0.005


def fit(rows: int) -> None:
    """Fit one table, between the line "begin" and a line of JSON on stdout."""
    import numpy as np

    from fit_times import table
    from sitewise import GPClassifier

    warnings.simplefilter("ignore")
    GPClassifier().fit(*table("probit", WARM_ROWS, 100))
    X, y = table("probit", rows, 0)
    print("begin", flush=True)
    clock, cpu = time.perf_counter(), time.process_time()
    model = GPClassifier().fit(X, y)
    line: Line = {"clock_s": time.perf_counter() - clock, "cpu_s": time.process_time() - cpu}
    digest = hashlib.sha256(np.ascontiguousarray(model.predict_proba(X[:PREDICTED_ROWS])).tobytes()).hexdigest()
    print(json.dumps({name: round(value, 2) for name, value in line.items()} | {"digits": digest[:12]}), flush=True)


def runnable(process: int) -> int:
    """Return the number of threads of a process that are running or ready to run."""
    count = 0
    for thread in os.listdir(f"/proc/{process}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            state = Path(f"/proc/{process}/task/{thread}/stat").read_text()
            count += state.rpartition(")")[2].split()[0] == "R"
    return count


def measure(rows: int, threads: int, tree: Path) -> Line:
    """Run one fit in a process with this number of BLAS threads, and watch its threads."""
    numbers = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    here = os.environ | numbers | {"PYTHONPATH": str(tree / "src"), "JAX_PLATFORMS": "cpu"}
    command, counts = [sys.executable, __file__, "--fit", str(rows)], list[int]()
    with subprocess.Popen(command, env=here, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdout is not None
        while child.stdout.readline().strip() not in ("begin", ""):
            continue
        while not select.select([child.stdout], [], [], SAMPLE_SECONDS)[0]:
            if Path("/proc").exists():
                counts.append(runnable(child.pid))
        found: Line = json.loads(child.stdout.readline())
    mean = round(sum(counts) / len(counts), 2) if counts else None
    return found | {"runnable": mean, "load": round(os.getloadavg()[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=int, help="fit a table of this number of rows; for processes")
    parser.add_argument("--label", default="now")
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1], help="a checkout")
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES)
    parser.add_argument("--threads", type=int, nargs="*", default=(1, 2))
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if given.fit:
        fit(given.fit)
        return
    for rows in given.rows:
        for threads in given.threads:
            case = {"label": given.label, "rows": rows, "threads": threads}
            if any(case.items() <= line.items() for line in stored(given.out)):
                continue
            line = case | measure(rows, threads, given.tree.resolve())
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
