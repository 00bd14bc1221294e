"""Measure how long a fit takes and how much memory it needs, by number of rows and structure of the data.

    python benchmarks/how_much_data.py              # all cases, into results/how-much-data/rows.json, then the table
    python benchmarks/how_much_data.py --only series    # cases whose name contains a word
    python benchmarks/how_much_data.py --table      # only write the stored rows into docs/how-much-data.md

Every case is a new process on one core.  Fits of less than REPEAT_BELOW CPU seconds are repeated in further processes,
and the run with the fewest CPU seconds counts: programs compiled by the first run are kept for the later ones.  All
tables are simulated and all estimators have their defaults, except for the setting in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from process import ONE_THREAD, on_one_core

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "results" / "how-much-data" / "rows.json"
PAGE = ROOT / "docs" / "how-much-data.md"
BEGIN, END = "<!-- table: python benchmarks/how_much_data.py --table -->", "<!-- end of table -->"
COLUMNS = 10
NEW_ROWS = 1_000
REPEATS = 3
REPEAT_BELOW = 20.0  # CPU seconds
ONE_KERNEL = 'kernel="shrunk"'  # the default of these tables is an average of kernels


class Case(NamedTuple):
    """One simulated table: what y is, the number of rows, and the arguments of the estimator."""

    target: str
    rows: int
    structure: str
    setting: str = ""

    @property
    def name(self) -> str:
        return f"{self.target}, {self.rows} rows, {self.structure} {self.setting}".strip()


CASES = (
    *(Case("two classes", rows, "full", ONE_KERNEL) for rows in (100, 300, 1_000, 2_000)),
    Case("two classes", 20_000, "sparse"),
    Case("two classes", 100_000, "sparse"),
    Case("three classes", 300, "full, joint classes", ONE_KERNEL),
    Case("counts", 1_000, "full", ONE_KERNEL),
    Case("counts", 20_000, "sparse"),
    Case("amounts", 1_000, "full", ONE_KERNEL),
    Case("amounts", 20_000, "sparse"),
    *(Case("series of two classes", rows, "Markov") for rows in (10_000, 100_000)),
    *(Case("series of amounts", rows, "Markov") for rows in (10_000, 100_000)),
    Case("two classes", 300, "full", 'kernel="average"'),
    Case("two classes", 1_000, "full", 'method="laplace"'),
)


def table(case: Case, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate rows: ten normal columns of which three matter, or irregular times with fifty rows per wave."""
    rng = np.random.default_rng(case.rows + rows)
    if case.structure == "Markov":
        X = np.sort(rng.uniform(0, case.rows / 8, size=(rows, 1)), axis=0)
        f = 2 * np.sin(X[:, 0]) + np.sin(0.37 * X[:, 0])
    else:
        X = rng.normal(size=(rows, COLUMNS))
        f = 1.5 * np.sin(X[:, 0]) + 0.7 * X[:, 1] + 0.5 * X[:, 1] * X[:, 2]
    noisy = f + 0.5 * rng.normal(size=rows)
    if case.target == "counts":
        return X, rng.poisson(np.exp(0.5 * f)).astype(float)
    if case.target.endswith("amounts"):
        return X, noisy
    return X, np.digitize(noisy, [-0.7, 0.7] if case.target == "three classes" else [0.0])


def estimator(case: Case) -> Any:
    """Return the unfitted estimator."""
    from sitewise import GPClassifier, GPRegressor

    settings = dict([case.setting.replace('"', "").split("=")]) if case.setting else {}
    if case.target.endswith("classes"):
        return GPClassifier(**settings)
    return GPRegressor(likelihood="poisson" if case.target == "counts" else "gaussian", **settings)


def measure(case: Case) -> dict[str, Any]:
    """Fit and predict in this process."""
    import resource

    import sitewise

    warnings.simplefilter("ignore")  # that the default is sparse, and how long the fit is expected to take
    X, y = table(case, case.rows)
    new, _ = table(case, NEW_ROWS)
    model = estimator(case)
    began = time.perf_counter(), time.process_time()
    model.fit(X, y)
    fitted = time.perf_counter(), time.process_time()
    (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(new)
    predicted = time.process_time()
    prior = model.models_[0][0].prior
    if prior.structure not in case.structure.lower():
        raise ValueError(f"{case.name}: the estimator chose the structure {prior.structure!r}.")
    return {
        **case._asdict(),
        "columns": int(X.shape[1]),
        "inducing": None if prior.inputs is None else len(np.asarray(prior.inputs)),
        "cpu": round(fitted[1] - began[1], 3),
        "wall": round(fitted[0] - began[0], 3),
        "predict_cpu": round(predicted - fitted[1], 4),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "version": sitewise.__version__,
    }


def in_new_process(number: int) -> dict[str, Any]:
    """Measure one case in a process of its own."""
    environment = {**os.environ, **ONE_THREAD, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(number)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=on_one_core,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run(only: str) -> None:
    """Measure cases and store each as soon as it is known."""
    from run import machine

    stored = json.loads(STORE.read_text()) if STORE.exists() else {"rows": []}
    STORE.parent.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(CASES):
        if only not in case.name:
            continue
        runs = [in_new_process(number)]
        while runs[0]["cpu"] < REPEAT_BELOW and len(runs) < REPEATS:
            runs.append(in_new_process(number))
        best = min(runs, key=lambda one: one["cpu"])
        print(f"{case.name}: {best['cpu']:.1f} CPU s, {best['peak_gib']:.2f} GiB", flush=True)
        kept = [row for row in stored["rows"] if Case(*(row[key] for key in Case._fields)) in set(CASES) - {case}]
        kept.append({**best, "load": round(os.getloadavg()[0], 1), "machine": machine()})
        kept.sort(key=lambda row: CASES.index(Case(*(row[key] for key in Case._fields))))
        stored = {"rows": kept}
        STORE.write_text(json.dumps(stored, indent=1) + "\n")


def seconds(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def lines(rows: list[dict[str, Any]]) -> str:
    """Return the stored rows as a table in Markdown."""
    head = (
        "| y | rows × columns | structure | setting | fit, CPU s | 1 000 predictions, CPU s | memory, GiB |",
        "|---|---:|---|---|---:|---:|---:|",
    )
    body = [
        f"| {row['target']} | {row['rows']:,} × {row['columns']} ".replace(",", " ")
        + f"| {row['structure']}{' (m = ' + str(row['inducing']) + ')' if row['inducing'] else ''} "
        + f"| {'`' + row['setting'] + '`' if row['setting'] else 'default'} "
        + f"| {seconds(row['cpu'])} | {seconds(row['predict_cpu'])} | {row['peak_gib']:.2f} |"
        for row in rows
    ]
    return "\n".join([*head, *body])


def write_table() -> None:
    """Replace the table of the page by the stored rows."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = json.loads(STORE.read_text())["rows"]
    PAGE.write_text(f"{before}{BEGIN}\n\n{lines(rows)}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word in the names of the cases to measure")
    parser.add_argument("--table", action="store_true", help="only write the stored rows into the page")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(measure(CASES[args.one])))
        return
    if not args.table:
        run(args.only)
    write_table()


if __name__ == "__main__":
    main()
