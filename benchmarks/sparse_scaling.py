"""A sparse GP as rows grow: one sweep of the E-step, then the ELBO and its gradient.

    python benchmarks/sparse_scaling.py --out results/benchmarks/sparse_scaling.json

Every size runs in a process of its own, with one thread, so that its peak memory is its own.  Features that would take
more than the prior's `keep` are recomputed block by block.
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

COLUMNS = 10


def table(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes with a curved border."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS))
    y = np.sign(np.sin(X[:, 0]) + X[:, 1] + 0.5 * X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=rows))
    return X, y


def measure(rows: int, inducing: int) -> dict:
    import resource
    import time

    from sitewise import VI, Data, Model, evidence, kernels, likelihoods
    from sitewise.arrays.engine import to_host
    from sitewise.inference.start import first_sites
    from sitewise.learning.objective import Objective, profile
    from sitewise.parameters import Trainable
    from sitewise.process.precision import working_precision

    X, y = table(rows)
    with working_precision():
        model = to_host(Model.sparse(kernels.Matern52(3.0, 2.0), likelihoods.BernoulliProbit(), X[:inducing]))
        data = to_host(Data.of(X, y))
        sites = to_host(first_sites(model.likelihood, data))
        trainable = Trainable.of(model)
        # Two conditionings: at the start, and after one update.
        objective = Objective(VI(max_steps=2), evidence.elbo, "fixed", trainable)
        vector = np.asarray(trainable.to_vector(model))
        some = to_host(Data.of(X[:1000], y[:1000]))
        profile(objective, model, some, vector, to_host(first_sites(model.likelihood, some)))  # compiles the programs
        seconds = []
        for _ in range(3 if rows <= 100_000 else 1):
            began = time.process_time()
            value = profile(objective, model, data, vector, sites).value
            seconds.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    middle = sorted(seconds)[len(seconds) // 2]
    return {"rows": rows, "inducing": inducing, "cpu": middle, "peak_gib": peak, "elbo_per_row": float(value) / rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", type=int, default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        os.environ.update(ONE_THREAD)
        print(json.dumps(measure(args.one, args.inducing)))
        return
    from run import machine

    record = json.loads(args.out.read_text()) if args.out.exists() else {"job": "sparse_scaling"}
    record["machine"] = machine()
    rows = []
    for n in args.sizes:
        command = [
            sys.executable,
            __file__,
            "--out",
            str(args.out),
            "--one",
            str(n),
            "--inducing",
            str(args.inducing),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"n={n:8d} {rows[-1]['cpu']:8.2f} s CPU, peak {rows[-1]['peak_gib']:.2f} GiB", flush=True)
        if len(rows) > 1:
            slope = np.polyfit(np.log([r["rows"] for r in rows]), np.log([r["cpu"] for r in rows]), 1)[0]
            record.update(rows=rows, exponent=float(slope))
            args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"exponent of time in n: {record['exponent']:.2f}")
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
