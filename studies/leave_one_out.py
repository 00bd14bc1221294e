"""Compare leave-one-out densities with the densities of models that were fitted without the row.

    python studies/leave_one_out.py [--table]

x uniform on [0, 10], f drawn from a Matern 5/2 GP of lengthscale 1.5 and variance 4, y drawn by NumPy; three sets of 20
rows and one of 60, of which every third row is left out.  "claimed" is log ∫ cavity × likelihood on the sites of the
fit (`evidence.loo`); "without" solves for the sites without the row at the same hyperparameters; "anew" learns the
hyperparameters too.  All are means in nats per row; "worst" is the largest difference of a single row from "without".
"labels without noise" are the signs of f.  results/leave-one-out/results.jsonl has one line per set and method; --table
writes README.md in the same folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sitewise import Data, Model, evidence, kernels, likelihoods, posterior, resolve
from sitewise.process.precision import working_precision

OUT = Path(__file__).resolve().parents[1] / "results" / "leave-one-out"
METHODS = ("ep", "hybrid", "laplace")
COMPARED = 20  # rows of each set
SETS = [(20, seed) for seed in range(3)] + [(60, 3)]
LIKELIHOODS = {
    "gaussian": likelihoods.Gaussian(0.4),
    "student-t": likelihoods.StudentT(0.3, 3.0),
    "poisson": likelihoods.Poisson(),
    "probit": likelihoods.BernoulliProbit(),
    "labels without noise": likelihoods.BernoulliProbit(),
}


def draw(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and observations of one set."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 10, (rows, 1)), axis=0)
    covariance = np.asarray(kernels.Matern52(1.5, 4.0).matrix(X))
    f = np.linalg.cholesky(covariance + 1e-8 * np.eye(rows)) @ rng.normal(size=rows)
    if name == "gaussian":
        return X, f + 0.4 * rng.normal(size=rows)
    if name == "student-t":
        return X, f + 0.3 * rng.standard_t(3, rows)
    if name == "poisson":
        return X, rng.poisson(np.exp(f)).astype(float)
    return X, np.where(f + (rng.normal(size=rows) if name == "probit" else 0.0) > 0, 1.0, -1.0)


def compare(name: str, rows: int, seed: int, method: str) -> dict[str, object]:
    """The claimed densities and those of refits, of one set by one method."""
    X, y = draw(name, rows, seed)
    learner, data = resolve(method), Data.of(X, y)
    start = Model.full(kernels.Matern52(1.5, 1.0), LIKELIHOODS[name])
    fit = learner.fit(start, data)
    with working_precision():
        likelihood, _, q, sites = evidence.conditioned(fit.model, data, fit.sites)
        claimed = np.asarray(evidence.loo.rows(likelihood, data, q, sites))
    left = np.arange(0, rows, rows // COMPARED)
    claimed, without, anew = claimed[left], np.empty(COMPARED), np.empty(COMPARED)
    for k, i in enumerate(left):
        rest = np.arange(rows) != i
        others, row = Data.of(X[rest], y[rest]), (X[[i]], y[[i]])
        kept = learner.final_inference(fit.model).solve(fit.model, others).sites
        without[k] = np.asarray(posterior(fit.model, others, kept).log_density(*row))[0]
        anew[k] = np.asarray(learner.fit(start, others).posterior().log_density(*row))[0]
    means = {"claimed": claimed.mean(), "without": without.mean(), "anew": anew.mean()}
    return {
        "likelihood": name, "rows": rows, "seed": seed, "method": method, "converged": fit.converged,
        **{key: round(float(value), 6) for key, value in means.items()},
        "worst": round(float(np.abs(claimed - without).max()), 6),
    }  # fmt: skip


def table(lines: list[dict[str, object]]) -> str:
    """Means over the sets of one size; the worst row of them all."""
    out = ["| likelihood | rows | method | claimed | without | anew | worst row |", "|---|---|---|---|---|---|---|"]
    for name in LIKELIHOODS:
        for rows in sorted({rows for rows, _ in SETS}):
            for method in METHODS:
                key = {"likelihood": name, "rows": rows, "method": method}
                found = [line for line in lines if key.items() <= line.items()]
                means = " | ".join(f"{np.mean([r[k] for r in found]):.3f}" for k in ("claimed", "without", "anew"))
                out.append(f"| {name} | {rows} | {method} | {means} | {max(r['worst'] for r in found):.1g} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    wanted = parser.parse_args()
    stored = OUT / "results.jsonl"
    lines = [json.loads(line) for line in stored.read_text().splitlines()] if stored.exists() else []
    if wanted.table:
        about = str(__doc__).strip()
        (OUT / "README.md").write_text(f"# Accuracy of leave-one-out densities\n\n{about}\n\n{table(lines)}\n")
        return
    OUT.mkdir(parents=True, exist_ok=True)
    done = {(r["likelihood"], r["rows"], r["seed"], r["method"]) for r in lines}
    with threadpool_limits(1), stored.open("a") as file:
        for name in LIKELIHOODS:
            for rows, seed in SETS:
                for method in METHODS:
                    if (name, rows, seed, method) not in done:
                        print(json.dumps(compare(name, rows, seed, method)), file=file, flush=True)


if __name__ == "__main__":
    main()
