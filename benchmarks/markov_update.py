"""Measure an update of a time series with ten later rows: seconds, and the difference from inference on all rows.

    python benchmarks/markov_update.py --out results/markov/update.json

Binary rows, eight per lengthscale of a Matérn-5/2 process with σ = 3, at the true hyperparameters, VI.  `append` is
`Running.append`, `again` is inference on all rows from the likelihood's own start; `apart`, the largest difference of a
site, is in units of the marginal, like the tolerance of inference (1e-8).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from markov_data import REGIMES, simulate

from sitewise import VI, Data, Model, kernels, likelihoods, posterior
from sitewise.learning.running import Running

ADDED = 10


def measure(rows: int) -> dict:
    series = simulate(REGIMES["binary, Matérn-5/2"], rows + ADDED, 0, 0)
    model = Model.markov(kernels.Matern52(1.0, 9.0), likelihoods.BernoulliLogit())
    first, more = (Data.of(series.X[part], series.y[part]) for part in (slice(rows), slice(rows, None)))
    run = Running.of(VI(), model, first)
    run.append(more)  # the first one may compile
    began = time.process_time()
    run = run.append(more)
    append = time.process_time() - began
    whole = Data.of(series.X, series.y)
    began = time.process_time()
    sites = VI().solve(model, whole).sites
    again = time.process_time() - began
    var = posterior(model, whole, sites).f(series.X)[1]
    apart = [np.abs(a - b) * unit for a, b, unit in zip(run.sites, sites, (np.sqrt(var), var), strict=True)]
    return {
        "rows": rows, "append": append, "again": again, "solved": run.solved, "moved": run.moved,
        "apart": float(np.max(apart)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    found: list[dict] = []
    for rows in options.sizes:
        found.append(measure(rows))
        print(found[-1], flush=True)
        options.out.write_text(json.dumps({"added": ADDED, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
