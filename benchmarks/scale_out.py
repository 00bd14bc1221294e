"""Measure one evaluation of the sparse default, with its gradient, on one or several devices and processes.

    python benchmarks/scale_out.py [--rows 100000] [--inducing 200] [--count 2 4] [--cap 300]

Every line is one or several separate processes, whose devices have one thread each: virtual devices of the CPU, or
accelerators if JAX finds them.  The time is of an evaluation after the first, which compiles; the value must be the
same in all lines.  Results are lines of results/sparse-large/scale_out.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "sparse-large"


def measure(rows: int, inducing: int, way: str) -> dict[str, Any]:
    import jax

    from sitewise import Data, Model, kernels, likelihoods
    from sitewise.arrays.engine import traced
    from sitewise.learning.nested import Nested
    from sitewise.learning.problem import Problem
    from sitewise.methods import resolve
    from sitewise.process.precision import working_precision

    sys.path.insert(0, str(HERE))
    from sparse_scaling import table

    X, y = table(rows)
    data = Data.of(X, y)
    if way in ("devices", "processes"):
        data = data.shard()
    learner = resolve("hybrid")
    assert isinstance(learner, Nested)
    with working_precision():
        model = Model.sparse(kernels.Matern52(3.0, 2.0), likelihoods.BernoulliProbit(), X[:inducing])
        if way == "traced":
            with traced():
                problem = Problem.of(learner, model, data, size=rows)
        else:
            problem = Problem.of(learner, model, data, size=rows)
        seconds = []
        for _ in range(3):
            wall, cpu = time.perf_counter(), time.process_time()
            found = problem.evaluate(problem.start, problem.first_sites)
            value = float(found.value)
            seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        "value": value, "steps": int(found.solution.stats.steps), "first": seconds[0][0],
        "wall": min(s[0] for s in seconds[1:]), "cpu": min(s[1] for s in seconds[1:]),
        "devices": len(jax.devices()), "platform": jax.default_backend(),
    }  # fmt: skip


def run(rows: int, inducing: int, way: str, count: int, cap: float) -> dict[str, Any]:
    devices = f"--xla_force_host_platform_device_count={count if way == 'devices' else 1}"
    one = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    env = {
        **os.environ,
        "XLA_FLAGS": f"{devices} {one}",
        "OPENBLAS_NUM_THREADS": "1",
        "PJRT_NPROC": str(count if way == "devices" else 1),
    }
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    numbers = range(count if way == "processes" else 1)
    begun = [
        subprocess.Popen(
            [sys.executable, __file__, "--rows", str(rows), "--inducing", str(inducing), "--one", way]
            + (["--member", str(i), str(count), address] if way == "processes" else []),
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in numbers
    ]  # fmt: skip
    try:
        ended = [process.communicate(timeout=cap) for process in begun]
    except subprocess.TimeoutExpired:
        for process in begun:
            process.kill()
        return {"error": f"no answer within {cap:.0f} s"}
    if any(process.returncode for process in begun):
        return {"error": (ended[0][1].strip().splitlines() or ["it ended"])[-1][:200]}
    return json.loads(ended[0][0].splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--count", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--cap", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "scale_out.jsonl")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--member", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if options.member:
            import jax

            index, count, address = options.member
            jax.distributed.initialize(address, int(count), int(index))
        print(json.dumps(measure(options.rows, options.inducing, options.one)))
        return
    cases = [("host", 1), ("traced", 1), *((way, k) for way in ("devices", "processes") for k in options.count)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    values = []
    for way, count in cases:
        found = run(options.rows, options.inducing, way, count, options.cap)
        row = {"rows": options.rows, "inducing": options.inducing, "way": way, "count": count, **found}
        row["cores"] = os.cpu_count()
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)
        values += [row["value"]] if "value" in row else []
    print(f"largest relative difference of the values: {np.ptp(values) / abs(values[0]):.1e}")


if __name__ == "__main__":
    main()
