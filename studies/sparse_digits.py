"""Compare joint classes with one class against the rest and with the full model, for ten classes with inducing inputs.

    python studies/sparse_digits.py [--sizes 50 200] [--ways joint one_vs_rest full] [--rows 1347 60000] [--seconds 300]
    python studies/sparse_digits.py --table

scikit-learn's digits (1 797 rows of 64 pixels; a quarter is the test set, seed 42).  Larger tables are made from the
training rows: each row is drawn again, moved by at most one pixel and blurred by noise of one grey level in sixteen;
the test rows are unchanged.  One line of results/sparse-digits/results.jsonl per fit, in a separate process; stored
fits are not run again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parents[1] / "results" / "sparse-digits"
ROWS = RESULTS / "results.jsonl"
KEYS = ("rows", "way", "m")


def table_of(rows: int) -> tuple[np.ndarray, ...]:
    """Training inputs and labels, and those kept back."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=0.25, random_state=42, stratify=y)
    if rows > len(X):
        rng = np.random.default_rng(42)
        drawn = rng.integers(len(X), size=rows - len(X))
        images = X[drawn].reshape(-1, 8, 8)
        moves = rng.integers(-1, 2, size=(len(drawn), 2))
        for move in {tuple(pair) for pair in moves.tolist()}:
            which = np.all(moves == move, axis=1)
            images[which] = np.roll(images[which], move, axis=(1, 2))
        more = np.clip(images.reshape(len(drawn), -1) + rng.normal(size=(len(drawn), 64)) / 16, 0.0, 1.0)
        X, y = np.concatenate([X, more]), np.concatenate([y, y[drawn]])
    return X, y, X_test, y_test


def run(rows: int, way: str, m: int) -> dict[str, Any]:
    import jax

    from sitewise import GPClassifier, Method, Sparse, kernels

    X, y, X_test, y_test = table_of(rows)
    model = GPClassifier(
        kernels.Matern52(3.0, 4.0),
        multi_class="joint" if way == "full" else way,
        random_state=0,
        method=Method("hybrid", tol=1e-4),
        structure="auto" if way == "full" else Sparse(m),
    )
    began, wall = time.process_time(), time.perf_counter()
    model.fit(X, y)
    cpu, wall = time.process_time() - began, time.perf_counter() - wall
    logs = model.predict_log_proba(X_test)
    return {
        "rows": rows,
        "way": way,
        "m": m,
        "accuracy": float(np.mean(model.classes_[np.argmax(logs, axis=1)] == y_test)),
        "log_loss": float(-np.mean(logs[np.arange(len(y_test)), y_test])),
        "cpu": round(cpu, 1),
        "wall": round(wall, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "converged": bool(model.converged_),
        "device": jax.devices()[0].device_kind,
    }


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Ten classes with inducing inputs: joint, or one class against the rest",
        "",
        "Made by `python studies/sparse_digits.py`, whose first lines describe the tables. One kernel, Matern 5/2 "
        "with one lengthscale; search until the gradient is below 1e-4.",
        "",
        "| training rows | classes | m | on | accuracy | log loss | CPU s | wall s | peak GiB | converged |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: tuple(r[k] for k in KEYS)):
        m = "all" if row["way"] == "full" else row["m"]
        way = {"one_vs_rest": "one against the rest", "joint": "joint", "full": "joint, full GP"}[row["way"]]
        if "accuracy" not in row:
            lines.append(
                f"| {row['rows']} | {way} | {m} | {row['device']} | | | | | | not after {row['seconds']:g} s |"
            )
            continue
        numbers = f"{row['accuracy']:.3f} | {row['log_loss']:.3f} | {row['cpu']:.0f} | {row['wall']:.0f}"
        where, end = f"{row['rows']} | {way} | {m} | {row['device']}", f"{row['peak_gib']:.2f} | {row['converged']}"
        lines.append(f"| {where} | {numbers} | {end} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 200])
    parser.add_argument("--ways", nargs="+", choices=("joint", "one_vs_rest", "full"), default=["one_vs_rest", "joint"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1347])
    parser.add_argument("--seconds", type=float, default=300.0, help="for one fit")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(int(given.one[0]), given.one[1], int(given.one[2]))))
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = {tuple(row[k] for k in KEYS) for row in read()}
    work = [(n, way, 0 if way == "full" else m) for n in given.rows for m in given.sizes for way in given.ways]
    for task in [] if given.table else dict.fromkeys(work):
        if task in done:
            continue
        command = [sys.executable, __file__, "--one", *map(str, task)]
        try:
            out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=given.seconds)
            row = json.loads(out.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            row = {**dict(zip(KEYS, task, strict=True)), "seconds": given.seconds, "device": "?"}
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)
    (RESULTS / "README.md").write_text(table(read()))


if __name__ == "__main__":
    main()
