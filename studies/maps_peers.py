"""Compare sitewise with GPBoost (Vecchia–Laplace) on simulated and real maps: predictions, CPU seconds, memory.

    python studies/maps_peers.py simulate CASE SEED --data FOLDER      cases of maps_data.CASES
    python studies/maps_peers.py fit FOLDER/CASE-SEED.npz sitewise hybrid
    python studies/maps_peers.py fit FOLDER/CASE-SEED.npz gpboost iterative      (with gpboost, numpy and scipy)
    … and the files that studies/maps_real.py writes, with "default" as GPBoost's method for crossed groups
    python studies/maps_peers.py tasks [--seeds 5] | xargs -P 4 -L 1 …     the lines "CASE SEED LIBRARY METHOD"
    python studies/maps_peers.py pairs --data FOLDER
    python studies/maps_peers.py table

Both libraries learn range, variance and intercept of a Matérn-3/2 map with 20 neighbours (for crossed groups: variances
and intercept) in one process and one thread, and return mean and variance of f at the held-out rows, from which
`maps_data.scores` computes all scores.  A fit appends one line to results/maps/peers.jsonl and keeps the log density
per held-out row in FOLDER; `pairs` computes differences per row from them and appends these to
results/maps/pairs.jsonl; `table` writes results/maps/peers.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from maps_data import CASES, scores, simulate, standard_error

OUT = Path(__file__).resolve().parents[1] / "results" / "maps"
NEIGHBOURS = 20
REFERENCE = ("sitewise", "hybrid")
MAX_CHOLESKY = 5_000  # rows up to which GPBoost is also run with exact factors
Fitted = tuple[float, float, np.ndarray, np.ndarray, dict[str, Any]]


def with_sitewise(method: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, table: Any) -> Fitted:
    from sitewise import GPClassifier, GPRegressor, Method, likelihoods, parts

    target, exposure = str(table["target"]), table.get("exposure")
    groups = [parts.Levels(k) for k in range(X.shape[1])]
    structure: Any = groups if "groups" in table else parts.Map((0, 1), neighbours=NEIGHBOURS)
    chosen = Method("hybrid", inference="vi", evidence="ep") if method == "vi-ep" else Method(method)
    links = {"logit": likelihoods.BernoulliLogit, "probit": likelihoods.BernoulliProbit}
    model: Any
    given: dict[str, Any] = {}
    began = time.process_time()
    if target == "poisson":
        model = GPRegressor(likelihood="poisson", structure=structure, method=chosen)
        given = {} if exposure is None else {"exposure": exposure[: len(X)]}
    else:
        model, y = GPClassifier(likelihood=links[target](), structure=structure, method=chosen), y > 0
    model.fit(X, y, **given)
    fitted = time.process_time()
    mean, std = model.predict_latent(new, return_std=True)
    seconds = time.process_time() - fitted
    found = model.models_[0][0].prior.kernel.parts
    if "groups" in table:
        learned = [float(part.variance) for part in found[: len(groups)]]
    else:
        kernel = found[0].kernel
        learned = [float(np.ravel(kernel.lengthscale)[0] / np.sqrt(3)), float(kernel.variance)]
    return fitted - began, seconds, mean, std**2, {"learned": learned, "converged": bool(model.converged_)}


def with_gpboost(inversion: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, table: Any) -> Fitted:
    import gpboost as gpb

    target, exposure = str(table["target"]), table.get("exposure")
    names = {"logit": "bernoulli_logit", "probit": "bernoulli_probit", "poisson": "poisson"}
    began = time.process_time()
    places = {
        "gp_coords": X, "cov_function": "matern", "cov_fct_shape": 1.5, "gp_approx": "vecchia",
        "num_neighbors": NEIGHBOURS, "matrix_inversion_method": inversion,
    }  # fmt: skip
    grouped = "groups" in table
    structure = {"group_data": X} if grouped else places
    model = gpb.GPModel(likelihood=names[target], num_parallel_threads=1, **structure)
    offset = {} if exposure is None else {"offset": np.log(exposure[: len(X)])}
    model.fit(y=y, X=np.ones((len(X), 1)), **offset)
    fitted = time.process_time()
    more = {} if exposure is None else {"offset_pred": np.zeros(len(new))}
    more["group_data_pred" if grouped else "gp_coords_pred"] = new
    found = model.predict(X_pred=np.ones((len(new), 1)), predict_response=False, predict_var=True, **more)
    seconds = time.process_time() - fitted
    pars = [float(value) for value in np.ravel(np.asarray(model.get_cov_pars()))]
    learned = pars if grouped else [pars[-1] / np.sqrt(3), pars[-2]]  # GPBoost's range is the lengthscale
    return fitted - began, seconds, np.asarray(found["mu"]), np.asarray(found["var"]), {"learned": learned}


def fit(args: argparse.Namespace) -> None:
    if _done(args.out / "peers.jsonl", args.file.stem, args.library, args.method):
        return
    with np.load(args.file) as file:
        table = {name: file[name] for name in file.files}
    X, y, n, target = table["X"], table["y"], int(table["rows"]), str(table["target"])
    library = with_sitewise if args.library == "sitewise" else with_gpboost
    fit_s, predict_s, mean, var, more = library(args.method, X[:n], y[:n], X[n:], table)
    f, exposure = table.get("f"), table.get("exposure")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found, density = scores(
        target, y[n:], mean, var, None if f is None else f[n:], 1.0 if exposure is None else exposure[n:]
    )
    np.save(args.file.with_name(f"{args.file.stem}+{args.library}+{args.method}.npy"), density.astype(np.float32))
    line = {
        "map": args.file.stem, "library": args.library, "method": args.method, "rows": n, "held_out": len(y) - n,
        **found, "fit_s": fit_s, "predict_s": predict_s, "memory_gb": memory, **more,
    }  # fmt: skip
    _append(args.out / "peers.jsonl", line)


def _done(path: Path, name: str, library: str, method: str) -> bool:
    return any((line["map"], line["library"], line["method"]) == (name, library, method) for line in read(path))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _append(path: Path, line: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(line, flush=True)


def pairs(args: argparse.Namespace) -> None:
    """Differences of log densities per held-out row: the reference minus every other fit of the same map."""
    known = {(line["map"], line["library"], line["method"]) for line in read(args.out / "pairs.jsonl")}
    for path in sorted(args.data.glob("*+*+*.npy")):
        name, library, method = path.stem.split("+")
        base = args.data / f"{name}+{'+'.join(REFERENCE)}.npy"
        if (name, library, method) in known or not base.exists() or path == base:
            continue
        gap = np.load(base).astype(float) - np.load(path)
        line = {"map": name, "library": library, "method": method, "difference": float(np.mean(gap))}
        _append(args.out / "pairs.jsonl", line | {"error": standard_error(gap), "held_out": len(gap)})


def prepare(args: argparse.Namespace) -> None:
    case = CASES[args.case]
    path = args.data / f"{case.name}-{args.seed}.npz"
    if path.exists():
        return
    args.data.mkdir(parents=True, exist_ok=True)
    X, y, f = simulate(case, args.seed)
    half = path.with_suffix(f".{os.getpid()}.npz")
    np.savez(half, X=X, y=y, f=f, rows=case.rows, target=case.target)
    half.rename(path)


def tasks(args: argparse.Namespace) -> None:
    """Print the fits, those of few rows first."""
    cases = [case for case in CASES.values() if not case.name.startswith("tiny")]
    for seed in range(args.seeds):
        for case in sorted(cases, key=lambda case: case.rows):
            print(case.name, seed, "sitewise hybrid")
            print(case.name, seed, "gpboost iterative")
            print(case.name, seed, "sitewise laplace")
            if case.rows <= MAX_CHOLESKY:
                print(case.name, seed, "gpboost cholesky")


def table(args: argparse.Namespace) -> None:
    fits, gaps = read(args.out / "peers.jsonl"), read(args.out / "pairs.jsonl")
    page = [
        "# Maps: sitewise and GPBoost",
        "",
        "Written by `python studies/maps_peers.py table`; the first lines of the script describe the fits. Means over"
        " maps. *Ahead* is the held-out log density of sitewise's default minus that of the row, in nats per held-out"
        " row, paired by row: the mean over maps, ± its standard error (from the rows where there is one map), and the"
        " number of maps on which the default is ahead. CPU seconds and memory are of one process with one thread;"
        " compilation is included. InstEval has variances of students, lecturers and departments in place of range and"
        " variance. *Counts in 90 %* and *f in 90 %* are shares in central intervals and bands. CRPS is"
        " the Brier score for two classes. Where GPBoost has no row, its run had not ended when the page was written.",
        "",
        "| map | method | maps | log density | default ahead | CRPS | counts in 90 % | f in 90 % | range, variance |"
        " fit, s | prediction, s | memory, GB |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|",
    ]
    names = list(dict.fromkeys(line["map"].rsplit("-", 1)[0] for line in fits))
    for name in [*(n for n in CASES if n in names), *(n for n in names if n not in CASES)]:
        own = [line for line in fits if line["map"].rsplit("-", 1)[0] == name]
        for key in sorted({(line["library"], line["method"]) for line in own}, key=lambda k: (k[0] != "sitewise", k)):
            some = [line for line in own if (line["library"], line["method"]) == key]
            apart = [
                gap for gap in gaps if gap["map"].rsplit("-", 1)[0] == name and (gap["library"], gap["method"]) == key
            ]
            page.append(_row(name, key, some, apart))
    (args.out / "peers.md").write_text("\n".join(page) + "\n")


def _row(name: str, key: tuple[str, str], fits: list[dict[str, Any]], gaps: list[dict[str, Any]]) -> str:
    def mean(field: str, digits: int) -> str:
        values = [line[field] for line in fits if field in line]
        return f"{np.mean(values):.{digits}f}" if values else "–"

    ahead = "–"
    if gaps:
        values = [gap["difference"] for gap in gaps]
        error = standard_error(values) if len(values) > 1 else gaps[0]["error"]
        ahead = f"{np.mean(values):+.4f} ± {error:.4f} ({sum(v > 0 for v in values)} of {len(values)})"
    learned = ", ".join(f"{value:.3g}" for value in np.mean([line["learned"] for line in fits], axis=0))
    cells = (
        name, ", ".join(key), len(fits), mean("log_density", 4), ahead, mean("crps", 4), mean("coverage", 3),
        mean("latent", 3), learned, mean("fit_s", 1), mean("predict_s", 1),
        mean("memory_gb", 2),
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    made = commands.add_parser("simulate")
    made.add_argument("case", choices=CASES)
    made.add_argument("seed", type=int)
    one = commands.add_parser("fit")
    one.add_argument("file", type=Path)
    one.add_argument("library", choices=("sitewise", "gpboost"))
    one.add_argument("method")
    listed = commands.add_parser("tasks")
    listed.add_argument("--seeds", type=int, default=5)
    others = {"pairs": (commands.add_parser("pairs"), pairs), "table": (commands.add_parser("table"), table)}
    for command, run in ((made, prepare), (one, fit), (listed, tasks), *others.values()):
        command.add_argument("--out", type=Path, default=OUT)
        command.add_argument("--data", type=Path, default=Path("local/maps"))
        command.set_defaults(run=run)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
