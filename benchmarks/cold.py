"""A process that imports sitewise and fits 281 rows once: with an empty cache of compiled programs, and a warm one.

    python benchmarks/cold.py --out results/benchmarks/cold.json

Wall and CPU seconds of the whole process, as its parent sees them, and of each part, as the process measures them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from jobs import SETS
from run import machine

PROGRAM = """
import sys, time
def now(): return {"wall": time.perf_counter() - began[0], "cpu": time.process_time()}
began = (time.perf_counter(),)
import jax
jax_imported = now()
import numpy as np
import sitewise
from sitewise import Data, Model, kernels, likelihoods, resolve
imported = now()
with np.load(sys.argv[1]) as saved:
    data = Data.of(saved["X"], saved["y"])
fit = resolve(sys.argv[2]).fit(Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), data)
first = now()
resolve(sys.argv[2]).fit(Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), data)
import json
print(json.dumps({"import_jax": jax_imported, "import_sitewise": imported, "first_fit": first, "second_fit": now()}))
"""


def start(method: str, rows: Path, cache: Path) -> dict:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(rows), method], env=environment, capture_output=True, text=True, check=True
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = json.loads(done.stdout.splitlines()[-1])
    ends = ("import_jax", "import_sitewise", "first_fit", "second_fit")
    parts, last = {}, {"wall": 0.0, "cpu": 0.0}
    for end in ends:
        parts[end] = {key: ended[end][key] - last[key] for key in last}
        last = ended[end]
    second = parts.pop("second_fit")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    parts["first_fit_beyond_second"] = {key: parts["first_fit"][key] - second[key] for key in second}
    # The second fit is there to separate compiling from fitting; it is not part of a cold start.
    return {"wall": wall - second["wall"], "cpu": cpu - second["cpu"], "parts": parts, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="*", default=["laplace", "hybrid"])
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        np.savez(rows, **SETS[281][1]())
        for method in args.methods:
            cache = Path(folder) / method
            found[method] = {name: start(method, rows, cache) for name in ("empty cache", "warm cache")}
            for name, row in found[method].items():
                print(f"{method}, {name}: {row['wall']:.1f} s wall, {row['cpu']:.1f} s CPU", flush=True)
    args.out.write_text(json.dumps({"job": "cold", "n": 281, "machine": machine(), "methods": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
