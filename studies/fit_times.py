"""Measure the CPU time of fits by the number of rows and of joint classes, next to other libraries.

    python studies/fit_times.py [--label NAME] [--jobs N] [--seconds S] [--tree DIR]    results/fit-times/results.jsonl
    python studies/fit_times.py --peers gpboost sklearn catboost [--rows N]             the same tables, other libraries
    python studies/fit_times.py --table                                                 results/fit-times/README.md

A line of results.jsonl has the CPU seconds of the fits of one case in one process: one BLAS thread, one fit of 60 rows
before the clock starts, so that imports and compilation are not counted.  Finished cases of a label are not run again.
`--tree` is a checkout of another version of the library.  Run a peer with an interpreter that has it installed.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from pooled import Line, add, stored

OUT = Path(__file__).resolve().parents[1] / "results" / "fit-times"
LINES, PAGE = OUT / "results.jsonl", OUT / "README.md"
SIZES, COLUMNS = (105, 281, 600, 1_200, 2_000, 3_000), 10
AIMS = dict(zip(SIZES, (0.06, 0.4, 1.2, 5, 15, 45), strict=True))
LIKELIHOODS = ("probit", "poisson", "student_t")
CLASSES = {"waves": 6, "balance": 10, "shapes": 20, "charts": 30}  # tables of multiclass_sets.py, and the aims in s
WARM_ROWS = 60
REPEATS = {105: 9, 281: 7, 600: 5, 1_200: 3}
LARGEST_PEER = {"gpboost": 3_000, "sklearn": 1_200, "catboost": 3_000}

Case = tuple[str, str, str, int, str]  # label, library, likelihood or table, rows, tree


def table(kind: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ten columns, and labels, counts or numbers with outliers that depend on the first three columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS))
    f = 2 * np.sin(X[:, 0]) + X[:, 1] - 0.5 * X[:, 2]
    if kind == "probit":
        return X, (f + rng.normal(size=rows) > 0).astype(int)
    if kind == "poisson":
        return X, rng.poisson(np.exp(0.5 * f)).astype(float)
    return X, f + 0.3 * rng.standard_t(2.5, size=rows)


def sitewise_fit(kind: str, max_iter: int | None = None) -> Callable[[np.ndarray, np.ndarray], Any]:
    from sitewise import GPClassifier, GPRegressor, Method

    if kind in CLASSES:
        return lambda X, y: GPClassifier(multi_class="joint").fit(X, y)
    model = GPClassifier if kind == "probit" else functools.partial(GPRegressor, likelihood=kind)
    return lambda X, y: model(structure="full", integrate=False, method=Method(max_iter=max_iter)).fit(X, y)


def gpboost_fit(kind: str) -> Callable[[np.ndarray, np.ndarray], Any]:
    import gpboost

    likelihood = {"probit": "bernoulli_probit", "poisson": "poisson", "student_t": "t"}[kind]

    def fit(X: np.ndarray, y: np.ndarray) -> None:
        model = gpboost.GPModel(gp_coords=X, cov_function="matern", cov_fct_shape=2.5, likelihood=likelihood)
        model.fit(y=y.astype(float))

    return fit


def sklearn_fit(kind: str) -> Callable[[np.ndarray, np.ndarray], Any]:
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    return lambda X, y: GaussianProcessClassifier(ConstantKernel(4.0) * Matern(3.0, nu=2.5), random_state=0).fit(X, y)


def catboost_fit(kind: str) -> Callable[[np.ndarray, np.ndarray], Any]:
    from catboost import CatBoostClassifier, CatBoostRegressor

    if kind == "student_t":
        return lambda X, y: CatBoostRegressor(thread_count=1, verbose=0).fit(X, y)
    if kind == "poisson":
        return lambda X, y: CatBoostRegressor(loss_function="Poisson", thread_count=1, verbose=0).fit(X, y)
    return lambda X, y: CatBoostClassifier(thread_count=1, verbose=0).fit(X, y)


FITS = {"sitewise": sitewise_fit, "gpboost": gpboost_fit, "sklearn": sklearn_fit, "catboost": catboost_fit}


def measure(case: Case) -> Line:
    """Fit the tables of one case; the medians are over tables with other seeds."""
    label, library, kind, rows, tree = case
    if tree:
        sys.path.insert(0, f"{tree}/src")
    warnings.simplefilter("ignore")
    line: Line = {"label": label, "library": library, "case": kind, "rows": rows, "seconds": []}
    if kind in CLASSES:
        return _measure_classes(line, FITS[library](kind), kind)
    fit, converged = FITS[library](kind), []
    fit(*table(kind, WARM_ROWS, 100))
    if library == "sitewise" and kind != "probit":  # compiled programs have one of a few lengths
        sitewise_fit(kind, max_iter=1)(*table(kind, rows, 100))
    for seed in range(REPEATS.get(rows, 1)):
        X, y = table(kind, rows, seed)
        begun = time.process_time()
        model = fit(X, y)
        line["seconds"].append(round(time.process_time() - begun, 4))
        converged.append(bool(getattr(model, "converged_", True)))
    return line | {"converged": sum(converged)}


def _measure_classes(line: Line, fit: Callable[[np.ndarray, np.ndarray], Any], kind: str) -> Line:
    import multiclass_sets

    X, y, X_test, y_test = multiclass_sets.split(kind, 0)
    fit(X[:WARM_ROWS], y[:WARM_ROWS])
    begun = time.process_time()
    model = fit(X, y)
    line["seconds"].append(round(time.process_time() - begun, 4))
    p = np.asarray(model.predict_proba(X_test))[np.arange(len(y_test)), y_test]
    loss = -float(np.mean(np.log(np.maximum(p, 1e-15))))
    return line | {"converged": int(getattr(model, "converged_", True)), "log_loss": loss}


def cases(label: str, library: str, tree: str, rows: int) -> list[Case]:
    """Return the cases of a library, the longest first."""
    kinds = ("probit",) if library == "sklearn" else LIKELIHOODS
    limit = min(rows, LARGEST_PEER.get(library, rows))
    found = [(label, library, kind, n, tree) for n in reversed(SIZES) if n <= limit for kind in kinds]
    classes = () if library == "gpboost" else tuple(CLASSES)
    return found[:3] + [(label, library, kind, 0, tree) for kind in reversed(classes)] + found[3:]


def _number(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 0.1 else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"


def write_page() -> None:
    """Write README.md from results.jsonl."""
    lines = stored(LINES)
    by = {(line["label"], line["library"], line["case"], line["rows"]): line for line in lines}
    columns = list(dict.fromkeys((line["label"], line["library"]) for line in lines))
    heads = [f"{library}, {label}" if library == "sitewise" else library for label, library in columns]
    out = [
        "# Time of a fit by the number of rows, and of joint classes",
        "",
        "Made by `python studies/fit_times.py`, which describes tables and settings. CPU seconds on one thread without "
        "imports and compilation; median over several tables up to 1 200 rows. sitewise learns one lengthscale per "
        'column (`structure="full", integrate=False`), GPBoost and scikit-learn (both Laplace) one lengthscale for all '
        "columns, CatBoost its default of 1 000 trees. The exponent is of the largest two numbers of rows. "
        "Commit 3293294 is the version before coarse stages of full GPs. All columns were measured on one machine of "
        "16 cores; the last two columns while more processes than cores were running.",
    ]
    for kind in LIKELIHOODS:
        out += ["", f"## {kind}, {COLUMNS} columns", "", f"| rows | aim | {' | '.join(heads)} |"]
        out.append("|---" * (len(heads) + 2) + "|")
        times: dict[tuple[str, str], dict[int, float]] = {column: {} for column in columns}
        for n in SIZES:
            cells = []
            for column in columns:
                line = by.get((*column, kind, n))
                if line is None:
                    cells.append("")
                    continue
                times[column][n] = float(np.median(line["seconds"]))
                missed = len(line["seconds"]) - line["converged"]
                cells.append(_number(times[column][n]) + (f" ({missed} not converged)" if missed else ""))
            aim = f"{AIMS[n]:g}" if kind == "probit" else ""
            out.append(f"| {n} | {aim} | {' | '.join(cells)} |")
        exponents = [_exponent(times[column]) for column in columns]
        out.append(f"| exponent | | {' | '.join(exponents)} |")
    out += ["", "## Joint classes", "", "CPU seconds; log loss per test row in brackets.", ""]
    out += [f"| table | aim | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for kind, aim in CLASSES.items():
        cells = []
        for column in columns:
            line = by.get((*column, kind, 0))
            mark = "" if line is None or line["converged"] else ", not converged"
            cells.append("" if line is None else f"{_number(line['seconds'][0])} ({line['log_loss']:.3f}{mark})")
        out.append(f"| {kind} | {aim} | {' | '.join(cells)} |")
    PAGE.write_text("\n".join([*out, *_averages(), *_small_fits(), *_commands(), *_first_fits()]) + "\n")


def _averages() -> list[str]:
    """Return the table of average.jsonl, which `average_times.py` writes."""
    out = [
        "", "## Average of four kernels, the default", "",
        "probit, 10 columns (`average_times.py`). The machine had two cores and was busy, so that the seconds by the "
        "clock do not show what threads save. The column of runnable threads shows how many cores the fit would have "
        "kept busy. Equal digests are predictions that are equal to the last digit. "
        "\"blocks, threads\" is commit d052f4b with products of blocks and kernels in threads.",
        "", "| rows | commit | threads | CPU s | seconds by the clock | load | runnable threads | digest |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for line in sorted(stored(OUT / "average.jsonl"), key=lambda line: line["rows"]):
        names = ("rows", "label", "threads", "cpu_s", "clock_s", "load", "runnable", "digits")
        out.append(f"| {' | '.join(str(line[name]) for name in names)} |")
    return out


def _small_fits() -> list[str]:
    """Return the table of small.jsonl: lines of `small_fits.py times`, each with a label."""
    lines = stored(OUT / "small.jsonl")
    labels = list(dict.fromkeys(line["label"] for line in lines))
    by = {(line["fit"], line["label"]): float(np.median(line["ms"])) for line in lines}
    out = ["", "## 105 rows, 6 columns", "", "Milliseconds, median over 15 tables (`small_fits.py times`).", ""]
    out += [f"| fit | {' | '.join(labels)} |", "|---" * (len(labels) + 1) + "|"]
    for fit in dict.fromkeys(line["fit"] for line in lines):
        cells = (f"{by[fit, label]:.0f}" if (fit, label) in by else "" for label in labels)
        out.append(f"| {fit} | {' | '.join(cells)} |")
    return out


def _commands() -> list[str]:
    """Return the table of commands.jsonl, which `command_times.py` writes."""
    out = [
        "", "## Commands", "",
        "CPU seconds of processes with all imports, one BLAS thread (`command_times.py`). The machine had two cores "
        "and a load of 8 to 18, which makes CPU seconds longer. \"blocks, threads\" is commit d052f4b with products of "
        "blocks, \"NumPy responses\" also evaluates class probabilities of draws without JAX.",
        "", "| command | commit | CPU s | aim |", "|---|---|---|---|",
    ]  # fmt: skip
    for line in stored(OUT / "commands.jsonl"):
        failed = ", failed" if "error" in line else ""
        out.append(f"| {line['command']} | {line['label']} | {line['cpu_s']:.1f}{failed} | {line.get('aim_s', '')} |")
    return out


def _first_fits() -> list[str]:
    """Return the table of first-fits.jsonl, which `first_fit.py` writes."""
    out = [
        "", "## First fit of a process on a GPU", "",
        "Seconds by the clock on a machine with an H200 and slow imports, `GPClassifier()` of four columns "
        "(`first_fit.py`). The first process has empty caches, the next ones find the programs of the first. "
        "The aim for the second process on a GPU is 6 s.",
        "", "| device | process | rows | imports | with the first fit | second fit |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for line in stored(OUT / "first-fits.jsonl"):
        device = line["device"].partition(":")[0]
        cells = (f"{line[name]:.1f}" for name in ("import_clock", "first_fit_clock", "second_fit_in_process_clock"))
        out.append(f"| {device} | {line['case'].removeprefix('cpu-')} | {line['n']} | {' | '.join(cells)} |")
    return out


def _exponent(times: dict[int, float]) -> str:
    if len(times) < 2:
        return ""
    small, large = sorted(times)[-2:]
    return f"{np.log(times[large] / times[small]) / np.log(large / small):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="now")
    parser.add_argument("--tree", default="", help="a checkout of another version")
    parser.add_argument("--peers", nargs="*", choices=tuple(LARGEST_PEER))
    parser.add_argument("--rows", type=int, default=SIZES[-1], help="at most this many rows")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no case after this time")
    parser.add_argument("--out", type=Path, default=LINES)
    parser.add_argument("--table", action="store_true", help="only write the page")
    given = parser.parse_args()
    if not given.table:
        done = {(line["label"], line["library"], line["case"], line["rows"]) for line in stored(given.out)}
        libraries = ["sitewise"] if given.peers is None else given.peers
        tree = given.tree and str(Path(given.tree).resolve())
        todo = [case for library in libraries for case in cases(given.label, library, tree, given.rows)]
        add(given.out, measure, [case for case in todo if case[:4] not in done], given.jobs, given.seconds)
    if given.out == LINES:
        write_page()


if __name__ == "__main__":
    main()
