"""Measure one evaluation and whole fits of maps by the number of places, and sparse factors beside other libraries.

    python studies/map_scale.py evaluation --rows 100000
    python studies/map_scale.py evaluation --rows 500 --times 20
    python studies/map_scale.py fit --rows 20000 --method hybrid
    python studies/map_scale.py groups InstEval.npz --method hybrid
    python studies/map_scale.py factor --rows 20000 --out matrix.npz
    PYTHON_OF_PEERS studies/sparse_factors.py matrix.npz

Places are uniform on the unit square, with a Matérn-3/2 kernel of range 1/20 and 20 neighbours, the logit link, and as
many new places as training places (at most 20 000).  `evaluation` measures neighbours and analysis, the entries of Q,
conditioning (factor, mean, all variances), gradient, and prediction; with --times the map times a series (Matérn-½,
lengthscale 5) at every place and time, with 8 neighbours.  `groups` fits y ≥ 4 of lme4's InstEval (arrays
X of codes and y) by student, lecturer and department, with 60 000 rows for training.  `factor` stores the posterior
precision of an evaluation, for other libraries.  One BLAS thread; seconds are CPU seconds of the process, compilation
included.  Every call prints one line of JSON and appends it to the file of --results.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np

from maps_data import drawn
from sitewise import GPClassifier, Method, Model, kernels, likelihoods, parts
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

RANGE, NEIGHBOURS, VARIANCE = 1 / 20, 20, 4.0
TIMES_NEIGHBOURS = 8  # of a map that is multiplied by a series
MAX_NEW = 20_000


def _part(neighbours: int = NEIGHBOURS) -> parts.Part:
    return parts.Map((0, 1), kernels.Matern32(np.sqrt(3) * RANGE, VARIANCE), neighbours=neighbours)


def _conditioned(places: int, times: int = 0) -> tuple[Any, Any, np.ndarray, Sites]:
    rng = np.random.default_rng(0)
    X, part = rng.uniform(size=(places, 2)), _part()
    if times:
        X = np.column_stack([np.repeat(X, times, axis=0), np.tile(np.arange(float(times)), places)])
        part = parts.Product((_part(TIMES_NEIGHBOURS), parts.Series(2, kernels.Matern12(5.0))))
    prior = Model.latent([part, parts.Constant()], likelihoods.BernoulliLogit()).prior
    return prior, rng, X, Sites(rng.normal(size=len(X)), rng.uniform(0.05, 0.25, len(X)))


def evaluation(args: argparse.Namespace) -> dict[str, Any]:
    prior, rng, X, sites = _conditioned(args.rows, args.times)
    found: dict[str, Any] = {"times": args.times} if args.times else {}
    begin = time.process_time()

    def took(name: str) -> None:
        """Store the seconds since the last call, and print them in case the process is stopped."""
        nonlocal begin
        begin, found[name] = time.process_time(), time.process_time() - begin
        print(f"{args.rows} places: {name} {found[name]:.2f}", flush=True)

    with working_precision():
        prior.gram(X)
        took("first_s")
        gram, pull = prior.gram_with_pull(X)
        took("precision_s")
        q, factor = gram.condition_with_factor(sites, None)
        took("condition_s")
        by_q = q._replace(mean=0 * q.mean, var=0 * q.var, log_z=np.ones(()), prior_mean=0 * q.mean)
        pull(gram.pull(sites, factor, q, by_q))
        took("gradient_s")
        new = rng.uniform(size=(min(MAX_NEW, args.rows), 2))
        if args.times:
            new = np.column_stack([new, rng.uniform(0, args.times, len(new))])
        prior.posterior_from(gram, factor, X, sites).marginals(new)
        took("predict_s")
    entries = gram.assembly.analysis.factor_entries / len(X)
    return {**found, "new_places": len(new), "factor_entries_per_row": entries}


def _simulated(rows: int, held: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows + held, 2))
    f = drawn(_part(30), X, rng)
    return X, rng.uniform(size=len(X)) < 1 / (1 + np.exp(-f))


def _fitted(structure: Any, method: str, X: np.ndarray, y: np.ndarray, rows: int) -> tuple[dict[str, Any], Any]:
    start = time.process_time()
    model = GPClassifier(likelihood=likelihoods.BernoulliLogit(), structure=structure, method=Method(method))
    model.fit(X[:rows], y[:rows])
    fitted = time.process_time()
    p = model.predict_proba(X[rows:])
    seconds = {"fit_s": fitted - start, "predict_s": time.process_time() - fitted}
    density = np.log(p[np.arange(len(p)), y[rows:].astype(int)])
    found = {"log_density": float(np.mean(density)), "new_rows": len(p), "converged": bool(model.converged_)}
    return {**seconds, **found}, model


def fit(args: argparse.Namespace) -> dict[str, Any]:
    X, y = _simulated(args.rows, MAX_NEW)
    found, model = _fitted(parts.Map((0, 1), neighbours=NEIGHBOURS), args.method, X, y, args.rows)
    kernel = model.models_[0][0].prior.kernel.parts[0].kernel
    learned = float(np.ravel(kernel.lengthscale)[0] / np.sqrt(3)), float(kernel.variance)
    return {**found, "range": learned[0], "variance": learned[1]}


def groups(args: argparse.Namespace) -> dict[str, Any]:
    with np.load(args.file) as file:
        X, y = file["X"].astype(float), file["y"] >= 4
    order = np.random.default_rng(0).permutation(len(y))
    found, model = _fitted([parts.Levels(k) for k in range(3)], args.method, X[order], y[order], 60_000)
    return {**found, "variances": [float(part.variance) for part in model.models_[0][0].prior.kernel.parts[:3]]}


def factor(args: argparse.Namespace) -> dict[str, Any]:
    from sitewise.numerics.sparse.factor import factorise
    from sitewise.numerics.sparse.selected import inverse_on_pattern

    prior, _, X, sites = _conditioned(args.rows)
    with working_precision():
        gram = prior.gram(X)
    at = gram.assembly
    values = gram.entries + at.site_entries(sites.prec)
    begin = time.process_time()
    found = factorise(at.analysis, values)
    end = time.process_time()
    inverse_on_pattern(found)
    inverted = time.process_time()
    np.savez(args.out, i=at.analysis.i, j=at.analysis.j, values=values, size=at.analysis.size, log_det=found.log_det)
    entries = at.analysis.factor_entries / args.rows
    return {"factor_s": end - begin, "inverse_on_pattern_s": inverted - end, "factor_entries_per_row": entries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    for name, run in (("evaluation", evaluation), ("fit", fit), ("groups", groups), ("factor", factor)):
        command = commands.add_parser(name)
        if name == "groups":
            command.add_argument("file")
        else:
            command.add_argument("--rows", type=int, default=20_000)
        if name == "factor":
            command.add_argument("--out", required=True)
        if name == "evaluation":
            command.add_argument("--times", type=int, default=0)
        command.add_argument("--method", default="hybrid")
        command.add_argument("--results", type=Path, default=None)
        command.set_defaults(run=run)
    args = parser.parse_args()
    line = {"what": args.what, "rows": getattr(args, "rows", 60_000), "method": args.method, **args.run(args)}
    line["memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps(line), flush=True)
    if args.results is not None:
        args.results.parent.mkdir(parents=True, exist_ok=True)
        with args.results.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
