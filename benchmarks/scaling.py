"""Measure one site iteration, the evidence and its gradient against n, relative to the rate of NumPy's matrix product.

    python benchmarks/scaling.py --out results/benchmarks/scaling.json

The counted floating-point operations are those of the formulas in `numerics.dense.gaussian_sites`
(docs/explanation/performance.md has the table); the rate is their number per CPU second, and its share is relative to
NumPy's dgemm of the same size in the same process, in turn.  Peak memory is the memory of the compiled program:
arguments, results and temporaries, in units of n² doubles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from process import ONE_THREAD

os.environ.update(ONE_THREAD)

# In units of n³, as executed.  A conditioning: Cholesky, and H = L⁻¹W½ by halves, half of whose products are zeros.
_CONDITION = 1 / 3 + 2 / 3
# (one turn of the loop, one Newton direction, last conditioning + gradient).  Every site of this problem is
# well determined: Σ and Gᵀ follow from R = HᵀH (by halves) without another product (`gaussian_sites.Factors`).
FLOPS = {
    "laplace": (1 / 3, 0.0, _CONDITION + 1),
    "vi": (_CONDITION, 1.0, _CONDITION + 1),
    "ep": (_CONDITION, 1.0, _CONDITION + 1),
    "hybrid": (_CONDITION, 1.0, _CONDITION + 1 + 3 / 2),  # and Gᵀ diag G, three quarters of it
}


def measure(n: int, methods: list[str], repeats: int) -> list[dict]:
    import time
    import tracemalloc

    import jax
    import numpy as np

    from sitewise import Data, Model, kernels, likelihoods
    from sitewise.inference.start import first_sites
    from sitewise.learning.objective import Evaluation, Objective, profile
    from sitewise.methods import METHODS
    from sitewise.parameters import Trainable
    from sitewise.process.precision import working_precision
    from sitewise.sites import Sites

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = np.sign(np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n))
    model = Model.full(kernels.Matern52(2.0, 4.0), likelihoods.BernoulliProbit(), jitter=1e-6)
    trainable = Trainable.of(model)
    rows = []
    with working_precision():
        data = Data.of(X, y)
        vector, start = trainable.to_vector(model), first_sites(model.likelihood, data)
        for name in methods:
            pair = METHODS[name].pair
            gradient = "fixed" if pair.gradient == "auto" else pair.gradient
            objective = Objective(pair.inference, pair.evidence, gradient, trainable)

            def run(sites: Sites) -> Evaluation:
                return profile(objective, model, data, vector, sites)  # noqa: B023

            found = run(start)
            # Two turns of the loop: the first only conditions on the start, the second is a whole iteration.
            near = jax.tree.map(lambda a: a * (1 + 1e-6), found.solution.sites)
            seconds, dgemm = [], []
            A = rng.normal(size=(n, n))
            for _ in range(repeats):
                began = time.process_time()
                again = run(near)
                seconds.append(time.process_time() - began)
                began = time.process_time()
                A @ A
                dgemm.append(time.process_time() - began)
            steps = int(again.solution.stats.steps)
            turn, newton, last = FLOPS[name]
            # A Newton direction follows every turn but the last, whose point has converged.
            flops = (steps * turn + (steps - 1) * newton + last) * n**3
            rate, best = flops / np.median(seconds), 2 * n**3 / np.median(dgemm)
            tracemalloc.start()  # which counts NumPy's arrays
            run(near)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            rows.append(
                {
                    "method": name, "n": n, "iterations": steps, "cpu": float(np.median(seconds)),
                    "gflops": rate / 1e9, "dgemm_gflops": best / 1e9, "share": rate / best,
                    "peak_n2_doubles": peak / (8 * n**2),
                }
            )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", type=int, default=[800, 2000, 4000])
    parser.add_argument("--methods", nargs="*", default=["laplace", "vi", "hybrid"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        size, method = int(args.one[0]), args.one[1]
        print(json.dumps(measure(size, [method], 3)[0]))
        return
    import numpy as np
    from run import machine

    rows = []
    for n in args.sizes:
        for method in args.methods:
            done = subprocess.run(
                [sys.executable, __file__, "--out", str(args.out), "--one", str(n), method],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            r = rows[-1]
            print(
                f"{method:8s} n={n:5d} {r['cpu']:7.2f} s CPU, {r['iterations']} iterations, {r['gflops']:.1f} of "
                f"{r['dgemm_gflops']:.1f} Gflop/s ({100 * r['share']:.0f} %), peak {r['peak_n2_doubles']:.1f} n²",
                flush=True,
            )
    exponents = {}
    for method in args.methods:
        here = [r for r in rows if r["method"] == method]
        slope = np.polyfit(np.log([r["n"] for r in here]), np.log([r["cpu"] for r in here]), 1)[0]
        exponents[method] = float(slope)
    print("exponents of time in n:", {k: round(v, 2) for k, v in exponents.items()})
    record = {"job": "scaling", "machine": machine(), "rows": rows, "exponents": exponents}
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
