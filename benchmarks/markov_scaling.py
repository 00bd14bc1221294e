"""Measure the Markov prior against the number of rows: its parts, a value with its exact gradient, a hybrid fit.

    python benchmarks/markov_scaling.py --out results/markov/scaling.json

Binary time series, eight rows per lengthscale of a Matérn-3/2 process.  Every size runs in a separate process with one
thread, and its peak memory is its own.  `fit` is learned from half the lengthscale and half the variance, up to
`--largest-fit` rows.  Memory: the peak of the process, and the peak of the arrays per row that a chain, its
conditioning and its pullback allocate (XLA allocates memory for one block of rows at a time).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from process import ONE_THREAD

PARTS = ("chain", "condition", "product", "squared", "pull", "value_and_grad", "fit")
LEAST = 0.5  # CPU seconds for which a part is repeated
COMPILED = 3_000  # rows for which everything is compiled that more rows need


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


def jobs_on(rows: int, fitted: bool) -> dict[str, Callable[[], Any]]:
    from sitewise import VI, Data, Model, Sites, evidence, kernels, likelihoods, resolve, value_and_grad

    X, y = series(rows)
    model = Model.markov(kernels.Matern32(0.5, 1.0), likelihoods.BernoulliLogit())
    sites = Sites(0.3 * y, np.full(rows, 0.2))
    gram, pull = model.prior.gram_with_pull(X)
    q, factor = gram.condition_with_factor(sites, None)
    cov = gram.covariance(sites, factor)
    value = value_and_grad(VI(), evidence.ep, has_aux=True)
    jobs: dict[str, Callable[[], Any]] = {
        "chain": lambda: model.prior.gram(X),
        "condition": lambda: gram.condition(sites),
        "product": lambda: cov.times(y),
        "squared": lambda: cov.squared_times(y),
        "pull": lambda: pull(gram.pull(sites, factor, q, q)),
        "value_and_grad": lambda: value(model, Data.of(X, y)),
    }
    if fitted:
        jobs["fit"] = lambda: resolve("hybrid").fit(model, Data.of(X, y))
    return jobs


def measure(rows: int, fitted: bool) -> dict:
    for job in jobs_on(min(rows, COMPILED), fitted).values():
        job()  # blocks of rows are of one length: the same programs serve any number of rows from here on
    jobs, seconds, found = jobs_on(rows, fitted), {}, {}
    for name, job in jobs.items():
        began, repeats = time.process_time(), 0
        while time.process_time() - began < LEAST:
            found[name] = job()
            repeats += 1
        seconds[name] = (time.process_time() - began) / repeats
    extra = {}
    if fitted:
        fit = found["fit"]
        extra = {"objective": fit.objective, **{k: float(v) for k, v in fit.parameters.items()}}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for name in ("chain", "condition", "pull"):
        jobs[name]()
    arrays = (tracemalloc.get_traced_memory()[1] - before) / rows
    return {"rows": rows, "cpu": seconds, "peak_gib": peak, "bytes_a_row": arrays, **extra}


def exponent(pairs: list[tuple[int, float]]) -> float:
    """The slope of log–log pairs."""
    return float(np.polyfit(*np.log(np.array(pairs)).T, 1)[0])


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
        print(
            f"n={n:8d} CPU seconds: {shown}; peak {rows[-1]['peak_gib']:.2f} GiB, "
            f"{rows[-1]['bytes_a_row']:.0f} bytes a row",
            flush=True,
        )
    record = {"job": "markov_scaling", "machine": machine(), "rows": rows, "exponents": {}}
    for name in PARTS:
        # Below, most of the time is calls of programs, and most of the memory one block of rows.
        some = [(r["rows"], r["cpu"][name]) for r in rows if name in r["cpu"] and r["rows"] >= 10_000]
        if len(some) > 1:
            record["exponents"][name] = exponent(some)
    record["exponents"]["arrays"] = exponent(
        [(r["rows"], r["rows"] * r["bytes_a_row"]) for r in rows if r["rows"] >= 10_000]
    )
    print("exponents in n from 10⁴ on, of time and of arrays:", record["exponents"])
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
