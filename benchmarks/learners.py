"""Cost of a whole fit, learners of this package side by side: ionosphere, fold 3 of seed 42 (n = 281).

    python benchmarks/learners.py --out results/benchmarks/learners.json

CPU seconds in one process, one BLAS thread, compile time apart (each learner runs once before it is timed;
Algorithm 1 runs two rounds before, then to its own stop).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import argparse
import json
import platform
import time
from pathlib import Path

import jax

import sitewise
from sitewise import Data, Model, kernels, likelihoods, resolve
from sitewise.bench.protocols import fold


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/learners.json"))
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rows = fold("ionosphere", "published", 42, 3)
    data = Data.of(rows.X, rows.y)
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6)
    names = ["laplace", "ep", "vi", "hybrid"]
    compile_seconds, cpu = {}, {name: [] for name in names}
    for name in names:
        began = time.process_time()
        resolve(name, max_rounds=1).fit(model, data)
        compile_seconds[name] = time.process_time() - began
    fits = {}
    for _ in range(args.repeats):
        for name in names:
            began = time.process_time()
            fits[name] = resolve(name).fit(model, data)
            cpu[name].append(time.process_time() - began)
    began = time.process_time()
    resolve("hybrid-vem", max_rounds=2).fit(model, data)
    compile_seconds["hybrid-vem"] = time.process_time() - began
    began = time.process_time()
    fits["hybrid-vem"] = resolve("hybrid-vem").fit(model, data)
    cpu["hybrid-vem"] = [time.process_time() - began]
    best = {name: min(values) for name, values in cpu.items()}
    record = {
        "n": len(rows.y),
        "cpu_seconds": best,
        "first_fit_cpu_seconds": compile_seconds,
        "ratio_to_hybrid": {name: value / best["hybrid"] for name, value in best.items()},
        "hybrid_over_vi": best["hybrid"] / best["vi"],
        "rounds": {name: fit.rounds for name, fit in fits.items()},
        "objective_per_row": {name: fit.objective / len(rows.y) for name, fit in fits.items()},
        "versions": {"sitewise": sitewise.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()},
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
