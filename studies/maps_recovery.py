"""Recover the range and variance of simulated binary maps by Laplace, VI, EP and VI's sites with EP's evidence.

    python studies/maps_recovery.py [--maps 50] [--rows 2000] [--variance 4] [--method NAME] [--out FOLDER]
    python studies/maps_recovery.py --table

A map has the given number of training places and half as many, at least 500, held-out places on the unit square, y by
the probit link and f ~ Matérn-3/2 of the given variance, with 5 rows per squared range: the range is 1/20 for 2 000
rows.  Every method learns range, variance and intercept; then the same inference is run with the true hyperparameters,
which separates errors of learning from errors of the posterior.  Every fit is one line of results/maps/recovery.jsonl
and is not run again; --table writes results/maps/recovery.md.  Differences between methods are paired by map.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from maps_data import Case, scores, simulate, standard_error
from sitewise import EP, VI, Data, GPClassifier, Laplace, Method, Model, kernels, likelihoods, parts, posterior
from sitewise.process.precision import working_precision

OUT = Path(__file__).resolve().parents[1] / "results" / "maps"
METHODS = {
    "laplace": Method("laplace"),
    "vi": Method("vi"),
    "ep": Method("ep"),
    "vi + ep evidence": Method("hybrid", inference="vi", evidence="ep"),
}
INFERENCES: dict[str, Any] = {"laplace": Laplace(), "vi": VI(), "ep": EP()}


def case_of(variance: float, rows: int) -> Case:
    return Case(f"probit-{rows}", "probit", rows, max(rows // 2, 500), variance, density=5.0)


def fitted(case: Case, seed: int, method: str) -> dict[str, Any]:
    X, y, f = simulate(case, seed)
    n = case.rows
    began = time.process_time()
    model = GPClassifier(
        likelihood=likelihoods.BernoulliProbit(), structure=parts.Map((0, 1)), method=METHODS[method]
    ).fit(X[:n], y[:n] > 0)
    seconds = time.process_time() - began
    mean, std = model.predict_latent(X, return_std=True)
    map_part, intercept = model.models_[0][0].prior.kernel.parts
    return {
        "range": float(np.ravel(map_part.kernel.lengthscale)[0] / np.sqrt(3)),
        "learned_variance": float(map_part.kernel.variance), "intercept_variance": float(intercept.variance),
        "seconds": seconds, "converged": bool(model.converged_), **measured(case, y, f, mean, std**2),
    }  # fmt: skip


def at_truth(case: Case, seed: int, method: str) -> dict[str, Any]:
    """The posterior of one inference with the true range and variance."""
    X, y, f = simulate(case, seed)
    n = case.rows
    kernel = kernels.Matern32(np.sqrt(3) * case.range, case.variance)
    model = Model.latent([parts.Map((0, 1), kernel), parts.Constant()], likelihoods.BernoulliProbit())
    data = Data.of(X[:n], np.where(y[:n] > 0, 1.0, -1.0))
    began = time.process_time()
    with working_precision():
        solution = INFERENCES[method].solve(model, data)
        mean, var = posterior(model, data, solution.sites).f(X)
    seconds = time.process_time() - began
    return {"seconds": seconds, "converged": bool(solution.outcome.ok), **measured(case, y, f, mean, var)}


def measured(case: Case, y: np.ndarray, f: np.ndarray, mean: np.ndarray, var: np.ndarray) -> dict[str, Any]:
    n = case.rows
    found, _ = scores("probit", y[n:], mean[n:], var[n:], f[n:])
    z = (f - mean) / np.sqrt(var)
    inside = np.abs(z[:n]) < 1.6449
    return found | {"latent_training": float(np.mean(inside)), "spread": float(np.sqrt(np.mean(z[n:] ** 2)))}


def render(lines: list[dict[str, Any]]) -> str:
    page = [
        "# Recovery of the hyperparameters of binary maps, and coverage of bands",
        "",
        "Written by `python studies/maps_recovery.py --table`; its first lines describe the maps. ± is the standard"
        " error over maps. *Bias* is the mean of log(estimate / truth), *runaways* are fits whose variance is more than"
        " ten times the truth. *Bands* are the shares of the true f at"
        " held-out places in 90 % bands. *Difference* is the held-out log density minus that of EP on the same map, in"
        " nats per row.",
        "",
    ]
    for rows, variance in sorted({(line["rows"], line["variance"]) for line in lines}, reverse=True):
        some = [line for line in lines if (line["rows"], line["variance"]) == (rows, variance)]
        page += [
            f"## {rows} rows, variance {variance:g}",
            "",
            "| sites, evidence | hyperparameters | maps | bias of log range | bias of log variance | runaways | bands |"
            " log density | difference × 10³ | CPU s per fit | converged |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for theta in ("learned", "true"):
            for method in METHODS:
                page += _row(some, theta, method, case_of(variance, rows))
        page.append("")
    return "\n".join(page)


def _row(lines: list[dict[str, Any]], theta: str, method: str, case: Case) -> list[str]:
    own = {line["seed"]: line for line in lines if (line["theta"], line["method"]) == (theta, method)}
    base = {line["seed"]: line for line in lines if (line["theta"], line["method"]) == (theta, "ep")}
    if not own:
        return []
    bias, runaways = ["–", "–"], "–"
    if theta == "learned":
        runaways = str(sum(line["learned_variance"] > 10 * case.variance for line in own.values()))
        truth = {"range": case.range, "learned_variance": case.variance}
        bias = [_mean([np.log(line[name] / true) for line in own.values()]) for name, true in truth.items()]
    both = sorted(own.keys() & base.keys())
    gap = [1e3 * (own[seed]["log_density"] - base[seed]["log_density"]) for seed in both]
    cells = [
        method, theta, len(own), *bias, runaways, _mean([line["latent"] for line in own.values()]),
        f"{np.mean([line['log_density'] for line in own.values()]):.4f}",
        "0" if method == "ep" else _mean(gap, 2), f"{np.mean([line['seconds'] for line in own.values()]):.1f}",
        f"{sum(line['converged'] for line in own.values())} of {len(own)}",
    ]  # fmt: skip
    return ["| " + " | ".join(map(str, cells)) + " |"]


def _mean(values: Any, digits: int = 3) -> str:
    return f"{np.mean(values):.{digits}f} ± {standard_error(values):.{digits}f}" if len(values) > 1 else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first map")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--variance", type=float, default=4.0)
    parser.add_argument("--method", choices=METHODS, help="only this method")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only write the page")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "recovery.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if args.table:
        (args.out / "recovery.md").write_text(render(lines))
        return
    done = {(line["rows"], line["variance"], line["seed"], line["method"], line["theta"]) for line in lines}
    case = case_of(args.variance, args.rows)
    for seed in range(args.first, args.first + args.maps):
        for method in METHODS if args.method is None else [args.method]:
            for theta, run in (("learned", fitted), ("true", at_truth)):
                key = (args.rows, args.variance, seed, method, theta)
                if key in done or (theta == "true" and method not in INFERENCES):
                    continue
                line = {"variance": args.variance, "seed": seed, "method": method, "theta": theta, "rows": args.rows}
                line |= run(case, seed, method)
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)


if __name__ == "__main__":
    main()
