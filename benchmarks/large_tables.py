"""Compare sparse GPs with boosted trees on large simulated tables: log loss, accuracy, seconds and peak memory.

    python benchmarks/large_tables.py [--env .bench/env] [--rows 100000 1000000] [--only hist catboost] [--cap 600]
    python benchmarks/large_tables.py --table

The tables are those of `large_data.py`, with a test set of 20 000 further rows.  Every line is one model on one table,
in a separate process with one thread for BLAS, OpenMP and CatBoost, with default settings; sitewise is
`GPClassifier(structure=Sparse(m))`, m a number or "auto", on standardised columns.  Peak memory is of the whole
process, including the table; seconds are of the fit and of the prediction of the test rows.  Results are lines of
results/sparse-large/rows.jsonl, and are not measured again; a model that did not finish within the cap is measured
again only with a larger cap.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from environments import python_of
from large_data import TABLES, make

from process import ONE_THREAD

RESULTS = HERE.parent / "results" / "sparse-large"
CONTESTANTS = ("hist", "catboost", "sitewise auto", "sitewise 300", "sitewise 500")
TEST = 20_000
KEY = ("table", "rows", "seed", "contestant")


def classifier(name: str) -> Any:
    """The contestant with its defaults."""
    library, _, inducing = name.partition(" ")
    if library == "hist":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=0)
    if library == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(random_seed=0, thread_count=1, verbose=False, allow_writing_files=False)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sitewise import GPClassifier, Sparse

    count = inducing if inducing == "auto" else int(inducing)
    return make_pipeline(StandardScaler(copy=False), GPClassifier(random_state=0, structure=Sparse(count)))


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Fit and predict, in this process."""
    import resource
    import warnings

    model = classifier(name)
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    began = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    fitted = time.perf_counter(), time.process_time()
    p = model.predict_proba(np.load(folder / "X_test.npy"))[:, 1]
    ended = time.perf_counter(), time.process_time()
    truth = np.load(folder / "y_test.npy")
    p_true = np.clip(np.where(truth == 1, p, 1 - p), 1e-15, 1.0)
    return {
        "log_loss": float(-np.mean(np.log(p_true))), "accuracy": float(np.mean((p > 0.5) == truth)),
        "fit_wall": fitted[0] - began[0], "fit_cpu": fitted[1] - began[1],
        "predict_wall": ended[0] - fitted[0], "predict_cpu": ended[1] - fitted[1],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "warnings": [str(w.message)[:120] for w in said if w.category.__module__.startswith("sitewise")],
    }  # fmt: skip


def write(folder: Path, name: str, rows: int, seed: int) -> None:
    """The table as files; the test rows come from another seed."""
    for suffix, count, stream in (("", rows, seed), ("_test", TEST, seed + 1_000)):
        X, y = make(name, count, stream)
        np.save(folder / f"X{suffix}.npy", X)
        np.save(folder / f"y{suffix}.npy", y)


def run(name: str, folder: Path, environments: Path, cap: float) -> dict[str, Any]:
    python = sys.executable if name.startswith("sitewise") else str(python_of("trees", environments))
    command = [python, __file__, "--one", name, "--folder", str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=cap, env={**os.environ, **ONE_THREAD}
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {cap:.0f} s", "cap": cap}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["it ended"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def finished(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The last line of every case."""
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {tuple(row[k] for k in KEY): row for row in found}


def lines(rows: dict[tuple[Any, ...], dict[str, Any]]) -> Iterator[str]:
    yield "| table | rows | contestant | log loss | accuracy | fit, wall s | fit, CPU s | predict, CPU s | peak GiB |"
    yield "|" + "---|" * 9
    for name in TABLES:
        some = [row for row in rows.values() if row["table"] == name]
        for row in sorted(some, key=lambda r: (r["rows"], r["seed"], CONTESTANTS.index(r["contestant"]))):
            head = f"| {name} | {row['rows']} | {row['contestant']} "
            if "error" in row:
                yield head + f"| {row['error']} |" + " |" * 5
                continue
            yield (
                head + f"| {row['log_loss']:.4f} | {row['accuracy']:.4f} | {row['fit_wall']:.1f} "
                f"| {row['fit_cpu']:.1f} | {row['predict_cpu']:.2f} | {row['peak_gib']:.2f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, default=HERE.parent / ".bench" / "env")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--rows", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--seeds", nargs="*", type=int, default=[42])
    parser.add_argument("--only", nargs="*", default=list(CONTESTANTS), help="contestants, by name")
    parser.add_argument("--cap", type=float, default=600.0, help="seconds of one line")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.folder)))
        return
    path = options.out / "rows.jsonl"
    if options.table:
        print("\n".join(lines(finished(path))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for rows in options.rows:
        for name in options.tables:
            for seed in options.seeds:
                done = finished(path)
                cases = {who: (name, rows, seed, who) for who in options.only}
                left = [w for w, c in cases.items() if c not in done or done[c].get("cap", np.inf) < options.cap]
                if not left:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    write(Path(folder), name, rows, seed)
                    for who in left:
                        found = run(who, Path(folder), options.env, options.cap)
                        row = {**dict(zip(KEY, cases[who], strict=True)), **found}
                        with path.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                        print(row, flush=True)


if __name__ == "__main__":
    main()
