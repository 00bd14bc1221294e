"""Measure the bias of hyperparameters that Laplace, VI, EP and the hybrid learn from long time series.

    python studies/markov_recovery.py [--rows 10000] [--sets 20] [--jobs 1] [--table]

The series are those of benchmarks/markov_data.py, eight rows per lengthscale; a fit starts from half the true
lengthscale and half the true standard deviation.  The hold-out set has a fifth as many rows, at random times between
the training rows; its log density is compared with the density of EP at the true hyperparameters.  Every series is one
line of results/markov/recovery.jsonl and is not run again; --table writes results/markov/recovery.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sitewise import EP, Data, Model, kernels, likelihoods, posterior, resolve

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from markov_data import REGIMES, simulate

RESULTS = ROOT / "results" / "markov"
METHODS = ("laplace", "vi", "ep", "hybrid")
NAMES = [name for name in REGIMES if REGIMES[name].likelihood != "gaussian"]
KERNELS = {3: kernels.Matern32, 5: kernels.Matern52}
LIKELIHOODS = {
    "binary": likelihoods.BernoulliLogit, "probit": likelihoods.BernoulliProbit, "counts": likelihoods.Poisson,
}  # fmt: skip


def run(name: str, seed: int, rows: int) -> dict:
    """The four fits of one series."""
    regime = REGIMES[name]
    series = simulate(regime, rows, seed)
    data, kernel, likelihood = Data.of(series.X, series.y), KERNELS[regime.order], LIKELIHOODS[regime.likelihood]()
    found = {"regime": name, "seed": seed, "rows": rows, "fits": {}}
    with threadpool_limits(1):
        true = Model.markov(kernel(1.0, regime.deviation**2), likelihood)
        sites = EP().solve(true, data).sites
        found["truth"] = float(np.mean(posterior(true, data, sites).log_density(series.X_held, series.y_held)))
        start = Model.markov(kernel(0.5, regime.deviation**2 / 4), likelihood)
        for method in METHODS:
            began = time.process_time()
            fit = resolve(method).fit(start, data)
            learned = fit.parameters
            found["fits"][method] = {
                "log_lengthscale": float(np.log(learned["kernel.lengthscale"])),
                "log_deviation": float(0.5 * np.log(learned["kernel.variance"]) - np.log(regime.deviation)),
                "held_out": float(np.mean(fit.posterior().log_density(series.X_held, series.y_held))),
                "objective": float(fit.objective),
                "converged": bool(fit.converged),
                "cpu": time.process_time() - began,
            }
    return found


def finished(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _mean(values: list[float]) -> str:
    """The mean and its standard error."""
    return f"{np.mean(values):+.4f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"


def lines(rows: list[dict]) -> Iterator[str]:
    groups: dict[tuple[str, int], list[dict]] = defaultdict(list)
    for row in rows:
        groups[row["regime"], row["rows"]].append(row)
    yield (
        "| series | rows | sets | method | bias of log ℓ | bias of log σ | hold-out log density per row "
        "minus EP at the truth | minus Laplace | CPU s per fit | converged |"
    )
    yield "|" + "---|" * 10
    for (name, count), found in sorted(groups.items(), key=lambda item: (list(REGIMES).index(item[0][0]), item[0][1])):
        for method in METHODS:
            fits = [row["fits"][method] for row in found]
            truth = [row["fits"][method]["held_out"] - row["truth"] for row in found]
            ahead = [row["fits"][method]["held_out"] - row["fits"]["laplace"]["held_out"] for row in found]
            yield (
                f"| {name} | {count} | {len(found)} | {method} | {_mean([f['log_lengthscale'] for f in fits])} "
                f"| {_mean([f['log_deviation'] for f in fits])} | {_mean(truth)} "
                f"| {'' if method == 'laplace' else _mean(ahead)} | {np.median([f['cpu'] for f in fits]):.1f} "
                f"| {sum(f['converged'] for f in fits)} of {len(fits)} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first set")
    parser.add_argument("--regimes", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    path = options.out / "recovery.jsonl"
    if options.table:
        words = "\n\n".join((__doc__ or "").split("\n\n")[0::2])
        text = "\n".join(lines(finished(path)))
        (options.out / "recovery.md").write_text(f"# Hyperparameters of long series, recovered\n\n{words}\n\n{text}\n")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    done = {(row["regime"], row["seed"], row["rows"]) for row in finished(path)}
    seeds = range(options.first, options.first + options.sets)
    wanted = [(name, seed, options.rows) for seed in seeds for name in options.regimes]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for job in as_completed([pool.submit(run, *one) for one in wanted if one not in done]):
            row = job.result()
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            ahead = row["fits"]["hybrid"]["held_out"] - row["fits"]["laplace"]["held_out"]
            print(f"{row['regime']} {row['seed']}: hybrid ahead of Laplace by {ahead:.4f} nats per row", flush=True)


if __name__ == "__main__":
    main()
