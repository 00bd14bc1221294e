"""Measure cold starts: the first fit of a process, the next fit with other rows, the first with a new likelihood.

    python benchmarks/cold.py --out results/benchmarks/cold.json

Every row is a separate process, with an empty cache of compiled programs and then with a filled one.  Wall-clock and
CPU seconds; "first" counts from the start of the process, with all imports.  Low-level calls are warm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import machine

FITS = """
import json, sys, time
def tick(name, last=[0.0, 0.0]):
    now = [time.time() - float(sys.argv[1]), time.process_time()]
    out[name] = {"wall": now[0] - last[0], "cpu": now[1] - last[1]}
    last[:] = now
out = {}
import numpy as np
from sitewise import GPClassifier, GPRegressor
def rows(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4))
    f = 2 * np.sin(2 * X[:, 0]) + X[:, 1]
    return X, f + 0.4 * rng.normal(size=n)
tick("imports")
X, f = rows(100)
GPClassifier().fit(X, f > 0)
tick("first fit, n = 100")
out["first"] = {key: out["imports"][key] + out["first fit, n = 100"][key] for key in ("wall", "cpu")}
X, f = rows(130)
model = GPClassifier().fit(X, f > 0)
tick("second fit, n = 130")
model.predict_proba(X)
tick("first prediction")
X, f = rows(100)
for name, y in (("student_t", f), ("poisson", np.round(np.exp(f.clip(-2, 3))))):
    GPRegressor(likelihood=name).fit(X, y)
    tick(f"new likelihood, {name}")
print(json.dumps(out))
"""

CALLS = """
import json, time
import numpy as np
from sitewise import VI, Data, Model, evidence, kernels, likelihoods, posterior
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
data = Data.of(X, np.where(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=200) > 0, 1.0, -1.0))
model = Model.full(kernels.Matern52(1.5, 4.0), likelihoods.BernoulliProbit())
sites = VI().solve(model, data).sites
q = posterior(model, data, sites)
calls = {
    "evidence.ep": lambda: evidence.ep(model, data, sites),
    "posterior": lambda: posterior(model, data, sites),
    "log_density": lambda: q.log_density(X, data.y),
    "solve": lambda: VI().solve(model, data),
}
out = {}
for name, call in calls.items():
    call()
    seconds = []
    for _ in range(20):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    out[name] = sorted(seconds)[10]
print(json.dumps(out))
"""


def run(program: str, cache: Path, *arguments: str) -> Any:
    environment = {**os.environ, "SITEWISE_CACHE": str(cache), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    found: dict[str, list[Any]] = {"empty cache": [], "filled cache": []}
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            for kind in found:
                found[kind].append({**run(FITS, Path(folder), str(time.time())), "load": os.getloadavg()[0]})
            calls = run(CALLS, Path(folder))
    args.out.write_text(
        json.dumps({"job": "cold", "machine": machine(), **found, "calls, n = 200": calls}, indent=1) + "\n"
    )
    for kind, rows in found.items():
        print(f"\n{kind}: seconds by the clock (CPU), each of {args.repeats} runs")
        for name in rows[0]:
            if name != "load":
                print(f"  {name:32s}", *(f"{row[name]['wall']:7.2f} ({row[name]['cpu']:.2f})" for row in rows))
    print("\nlow-level calls, n = 200, milliseconds:", {name: round(1e3 * value, 1) for name, value in calls.items()})


if __name__ == "__main__":
    main()
