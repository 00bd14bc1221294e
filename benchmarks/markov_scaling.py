"""A binary time series as rows grow: the Markov prior's parts, one value with its exact gradient, and a hybrid fit.

    python benchmarks/markov_scaling.py --out results/benchmarks/markov_scaling.json

Every size runs in a process of its own, with one thread, so that its peak memory is its own.  Eight rows a lengthscale
of a Matérn-3/2 process; `fit` is learned from half the lengthscale and half the variance, up to `--largest-fit` rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from process import ONE_THREAD

PARTS = ("chain", "condition", "product", "squared", "pull", "value_and_grad", "fit")


def series(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Irregular times, and labels of a path with lengthscale 1 and variance 2."""
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, rows / 8, rows))
    r = np.sqrt(3.0) * np.diff(time, prepend=time[0])
    A = np.exp(-r)[:, None, None] * np.stack([1 + r, r, -r, 1 - r], axis=-1).reshape(-1, 2, 2)
    values, axes = np.linalg.eigh(2 * (np.eye(2) - A @ A.swapaxes(1, 2)))
    noise = np.einsum("kij,kj->ki", axes, np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=(rows, 2)))
    states = np.empty((rows, 2))
    state = np.sqrt(2.0) * rng.normal(size=2)
    for k in range(rows):
        states[k] = state = A[k] @ state + noise[k]
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-states[:, 0])), 1.0, -1.0)
    return time[:, None], y


def measure(rows: int, fitted: bool) -> dict:
    import resource
    import time

    from sitewise import VI, Data, Model, Sites, evidence, kernels, likelihoods, resolve, value_and_grad

    X, y = series(rows)
    model = Model.markov(kernels.Matern32(0.5, 1.0), likelihoods.BernoulliLogit())
    sites = Sites(0.3 * y, np.full(rows, 0.2))
    gram, pull = model.prior.gram_with_pull(X)
    q, factor = gram.condition_with_factor(sites, None)
    cov = gram.covariance(sites, factor)
    value = value_and_grad(VI(), evidence.ep, has_aux=True)
    jobs = {
        "chain": lambda: model.prior.gram(X),
        "condition": lambda: gram.condition(sites),
        "product": lambda: cov.times(y),
        "squared": lambda: cov.squared_times(y),
        "pull": lambda: pull(gram.pull(sites, factor, q, q)),
        "value_and_grad": lambda: value(model, Data.of(X, y)),
    }
    if fitted:
        jobs["fit"] = lambda: resolve("hybrid").fit(model, Data.of(X, y))
    seconds = {}
    for name, job in jobs.items():
        job()  # the first one may compile
        began = time.process_time()
        found = job()
        seconds[name] = time.process_time() - began
    extra = {"objective": found.objective, **{k: float(v) for k, v in found.parameters.items()}} if fitted else {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"rows": rows, "cpu": seconds, "peak_gib": peak, **extra}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--largest-fit", type=int, default=100_000)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        os.environ.update(ONE_THREAD)
        print(json.dumps(measure(args.one, args.one <= args.largest_fit)))
        return
    from run import machine

    rows: list[dict] = []
    for n in args.sizes:
        command = [sys.executable, __file__, "--out", str(args.out), "--one", str(n), "--largest-fit",
                   str(args.largest_fit)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        shown = ", ".join(f"{name} {rows[-1]['cpu'][name]:.3g}" for name in PARTS if name in rows[-1]["cpu"])
        print(f"n={n:8d} CPU seconds: {shown}; peak {rows[-1]['peak_gib']:.2f} GiB", flush=True)
    record = {"job": "markov_scaling", "machine": machine(), "rows": rows, "exponents": {}}
    for name in PARTS:
        some = [(r["rows"], r["cpu"][name]) for r in rows if name in r["cpu"] and r["rows"] >= 10_000]
        if len(some) > 1:
            record["exponents"][name] = float(np.polyfit(*np.log(np.array(some)).T, 1)[0])
    print("exponents of time in n from 10⁴ on:", record["exponents"])
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
