"""Small fits before and after a change: held-out log density, evidence at the optimum, CPU time, cold start.

    git worktree add ../before 35c4832
    python studies/small_fits.py --before ../before --data DIR [--gpboost PYTHON]     results/small-fits

Both versions of the library fit the same twelve tables in processes of their own, with one BLAS thread.  Six tables are
folds of the paper (clean protocol, seed 42; DIR holds their files), six are simulated.  PYTHON is an interpreter with
GPBoost.  The README is written from results.json; `--table` only writes it again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "small-fits"
PAPER_SETS = (
    "acute-inflammation", "echocardiogram", "fertility", "haberman-survival", "hepatitis", "pittsburg-bridges-T-OR-D",
)  # fmt: skip
SIMULATED = ("linear", "products", "noise", "wave", "counts", "outliers")
FOLDS = 2
HEAD = """# Small fits: do faster fits of about 100 rows predict the same?

Yes: the mean held-out log density of twelve tables changes by less than 0.0005 (last line). "Before" is commit 35c4832;
[decision 028](../../docs/decisions/028-small-fits.md) lists the changes. Six tables are folds of the paper (clean
protocol, seed 42), six are simulated. The study is reproduced by

```
git worktree add ../before 35c4832
python studies/small_fits.py --before ../before --data DIR --gpboost PYTHON
```

The times were measured on two busy cores: compare the columns of a table only.
"""
SETTINGS: dict[str, dict[str, Any]] = {
    "optimum": {"integrate": False}, "default": {}, "average": {"kernel": "average"},
}  # fmt: skip
TIMED: dict[str, dict[str, Any]] = {
    "laplace, one lengthscale": {"method": "laplace", "kernel": "isotropic", "integrate": False},
    "ep, one lengthscale": {"method": "ep", "kernel": "isotropic", "integrate": False},
    "hybrid, one lengthscale": {"kernel": "isotropic", "integrate": False},
    "shrunk kernel at the optimum": {"kernel": "shrunk", "integrate": False},
    "shrunk kernel with integral": {"kernel": "shrunk"},
    'kernel="average"': {"kernel": "average"},
}
TIMED_ROWS, TIMED_COLUMNS, TIMED_FITS = 105, 6, 15


def timed_table(seed: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(TIMED_ROWS, TIMED_COLUMNS))
    f = 2 * np.sin(X[:, 0]) + X[:, 1] - 0.5 * X[:, 2]
    return X, (f + rng.normal(size=TIMED_ROWS) > 0).astype(int)


def simulated(name: str, fold: int) -> tuple[Any, ...]:
    """Return training and test rows of a simulated table, and the likelihood (None for classes)."""
    import numpy as np

    rng = np.random.default_rng(1000 * SIMULATED.index(name) + fold)
    columns = {"linear": 6, "products": 4, "noise": 5, "wave": 1, "counts": 3, "outliers": 4}[name]
    X = rng.normal(size=(500, columns))
    f = {
        "linear": lambda: X[:, 0] + X[:, 1] - X[:, 2],
        "products": lambda: 2 * X[:, 0] * X[:, 1] + X[:, 2],
        "noise": lambda: 0 * X[:, 0],
        "wave": lambda: 2 * np.sin(3 * X[:, 0]),
        "counts": lambda: 1 + np.sin(X[:, 0]) + 0.5 * X[:, 1],
        "outliers": lambda: 2 * np.sin(X[:, 0]) + X[:, 1],
    }[name]()
    if name == "counts":
        return X[:100], (y := rng.poisson(np.exp(f)).astype(float))[:100], X[100:], y[100:], "poisson"
    if name == "outliers":
        y = f + 0.3 * rng.standard_t(2.5, size=500)
        return X[:100], y[:100], X[100:], y[100:], "student_t"
    y = (f + rng.normal(size=500) > 0).astype(int)
    return X[:100], y[:100], X[100:], y[100:], None


def rows_of(name: str, fold: int, data: Path) -> tuple[Any, ...]:
    if name in SIMULATED:
        return simulated(name, fold)
    from sitewise_icml2023 import protocols

    found = protocols.fold(name, "clean", 42, fold, data)
    return found.X, found.y, found.X_test, found.y_test, None


def fits(data: Path) -> None:
    """Print one line of JSON per fit of the library on the path."""
    import numpy as np

    from sitewise import GPClassifier, GPRegressor

    warnings.simplefilter("ignore")
    for name in (*PAPER_SETS, *SIMULATED):
        for fold in range(FOLDS):
            X, y, X_test, y_test, likelihood = rows_of(name, fold, data)
            for setting, arguments in SETTINGS.items():
                model = (
                    GPClassifier(**arguments) if likelihood is None else GPRegressor(likelihood=likelihood, **arguments)
                )
                began = time.process_time()
                model.fit(X, y)
                seconds = time.process_time() - began
                line = {
                    "set": name, "fold": fold, "setting": setting, "seconds": seconds,
                    "density": float(np.mean(model.log_predictive_density(X_test, y_test))),
                }  # fmt: skip
                if setting == "optimum":
                    line["objective"] = float(re.search(r"ended at (-?[\d.]+) nats", model.fit_report_)[1])
                print(json.dumps(line), flush=True)


def times() -> None:
    """Print the CPU milliseconds of fits of the library on the path."""
    from sitewise import GPClassifier

    warnings.simplefilter("ignore")
    for name, arguments in TIMED.items():
        GPClassifier(**arguments).fit(*timed_table(0))
        found = []
        for seed in range(TIMED_FITS):
            table, began = timed_table(seed), time.process_time()
            GPClassifier(**arguments).fit(*table)
            found.append(1e3 * (time.process_time() - began))
        print(json.dumps({"fit": name, "ms": found}), flush=True)


def gpboost_times() -> None:
    import gpboost

    found = []
    for seed in (0, *range(TIMED_FITS)):
        (X, y), began = timed_table(seed), time.process_time()
        model = gpboost.GPModel(gp_coords=X, cov_function="matern", cov_fct_shape=2.5, likelihood="bernoulli_probit")
        model.fit(y=y.astype(float))
        found.append(1e3 * (time.process_time() - began))
    print(json.dumps({"fit": "GPBoost, Laplace, one lengthscale", "ms": found[1:]}))


COLD = """
import time, numpy as np
from sitewise import GPClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 4))
GPClassifier().fit(X, X[:, 0] + rng.normal(size=100) > 0)
print(time.process_time())
"""
IMPORTS = "import time, jax, sklearn.base; print(time.process_time())"


def cold(python: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Return CPU seconds of a process up to its first fit, and of the imports of JAX and scikit-learn alone."""
    with tempfile.TemporaryDirectory() as folder:
        here = environment | {"PYTHONPYCACHEPREFIX": folder, "SITEWISE_CACHE": folder}
        here.pop("PYTHONDONTWRITEBYTECODE", None)

        def seconds(code: str, more: dict[str, str]) -> float:
            done = subprocess.run([*python, "-c", code], env=here | more, capture_output=True, text=True, check=True)
            return float(done.stdout)

        seconds(COLD, {})  # writes the bytecode, as an installation does
        filled = [seconds(COLD, {}) for _ in range(3)]
        empty = [seconds(COLD, {"SITEWISE_CACHE": f"{folder}/{k}"}) for k in range(3)]
        imports = [seconds(IMPORTS, {}) for _ in range(3)]
    return {"empty cache": min(empty), "filled cache": min(filled), "imports of JAX and scikit-learn": min(imports)}


def measure(before: Path, data: Path, gpboost: str | None) -> None:
    found: dict[str, Any] = {"fits": {}, "times": {}, "cold": {}}
    trees = {"before": before.resolve(), "after": ROOT}
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

    def lines(command: list[str], environment: dict[str, str]) -> list[Any]:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    environments = {
        version: os.environ | single | {"PYTHONPATH": f"{tree}/src:{tree}/papers/icml2023/src", "JAX_PLATFORMS": "cpu"}
        for version, tree in trees.items()
    }
    for version, environment in environments.items():
        found["times"][version] = lines([sys.executable, __file__, "times"], environment)
        found["cold"][version] = cold([sys.executable], environment)
        print(version, json.dumps(found["cold"][version]), flush=True)
    if gpboost:
        found["times"]["GPBoost"] = lines([gpboost, __file__, "gpboost"], os.environ | single)
    for version, environment in environments.items():
        found["fits"][version] = lines([sys.executable, __file__, "fits", "--data", str(data)], environment)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "results.json").write_text(json.dumps(found, indent=1))


def table() -> None:
    """Write README.md from results.json."""
    found = json.loads((OUT / "results.json").read_text())
    text = [
        HEAD,
        "## CPU time",
        "",
        *_times_table(found),
        "",
        *_cold_table(found),
    ]
    text += ["", "## Held-out log density per row, before → after", "", *_density_table(found), ""]
    (OUT / "README.md").write_text("\n".join(text))


def _median(numbers: list[float]) -> float:
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


def _times_table(found: Any) -> list[str]:
    each = {
        version: {one["fit"]: (_median(one["ms"]), min(one["ms"])) for one in rows}
        for version, rows in found["times"].items()
    }
    out = [
        f"{TIMED_ROWS} rows, {TIMED_COLUMNS} columns, probit, {TIMED_FITS} tables; milliseconds: median (least).", "",
        "| fit | before | after |", "|---|---|---|",
    ]  # fmt: skip
    for name in TIMED:
        cells = ("{:.0f} ({:.0f})".format(*each[version][name]) for version in ("before", "after"))
        out.append(f"| {name} | {' | '.join(cells)} |")
    for name, pair in each.get("GPBoost", {}).items():
        out.append(f"| {name} | | {pair[0]:.0f} ({pair[1]:.0f}) |")
    return out


def _cold_table(found: Any) -> list[str]:
    out = [
        "First fit of a process with all imports, CPU seconds; before: least of three, after: one process each, in "
        "other minutes:",
        "",
        "| | before | after |",
        "|---|---|---|",
    ]
    for name in found["cold"]["after"]:
        cells = (f"{found['cold'][version][name]:.2f}" for version in ("before", "after"))
        out.append(f"| {name} | {' | '.join(cells)} |")
    return out


def _density_table(found: Any) -> list[str]:
    def mean(version: str, name: str, setting: str, key: str) -> float:
        rows = [r[key] for r in found["fits"][version] if r["set"] == name and r["setting"] == setting]
        return sum(rows) / len(rows)

    def pair(name: str, setting: str) -> tuple[float, float]:
        return mean("before", name, setting, "density"), mean("after", name, setting, "density")

    names = (*PAPER_SETS, *SIMULATED)
    out = [
        "Means over two folds. The last column: the largest loss of the objective at the optimum in a fold, in nats.",
        "",
        "| set | at the optimum | default | average | CPU s of the default | loss of the objective |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in names:
        cells = ["{:.4f} → {:.4f}".format(*pair(name, setting)) for setting in SETTINGS]
        seconds = (mean(version, name, "default", "seconds") for version in ("before", "after"))
        ends = {
            version: {r["fold"]: r for r in rows if r["set"] == name and r["setting"] == "optimum"}
            for version, rows in found["fits"].items()
        }
        loss = max(ends["before"][fold]["objective"] - ends["after"][fold]["objective"] for fold in range(FOLDS))
        out.append(f"| {name} | {' | '.join(cells)} | {' → '.join(f'{s:.2f}' for s in seconds)} | {loss:.4f} |")
    totals = [[pair(name, setting) for name in names] for setting in SETTINGS]
    cells = [f"{sum(a for a, _ in one) / len(one):.4f} → {sum(b for _, b in one) / len(one):.4f}" for one in totals]
    return [*out, f"| mean | {' | '.join(cells)} | | |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("fits", "times", "gpboost"), help="of one version; for processes")
    parser.add_argument("--before", type=Path, help="a checkout of the other version")
    parser.add_argument("--data", type=Path, help="folder with the classification sets of the paper")
    parser.add_argument("--gpboost", help="a Python interpreter with GPBoost")
    parser.add_argument("--table", action="store_true", help="only write the README again")
    args = parser.parse_args()
    if args.part:
        {"fits": lambda: fits(args.data), "times": times, "gpboost": gpboost_times}[args.part]()
        return
    if not args.table:
        if args.before is None or args.data is None:
            parser.error("--before and --data are needed")
        measure(args.before, args.data, args.gpboost)
    table()


if __name__ == "__main__":
    main()
