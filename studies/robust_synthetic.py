"""Test Student-t regression on 100 synthetic sets with gross outliers: convergence, errors, outliers found.

    python studies/robust_synthetic.py --out results/robust/synthetic.jsonl

Each set: n = 100 rows, x uniform on [0, 10], a function drawn from a Matérn-5/2 process (ℓ = 1.5, σ = 1), noise of
standard deviation 0.1, and 20 rows moved by 5 to 15 in either direction.  The estimator is GPRegressor with Student-t
noise (ν = 3), one fit per method, and Gaussian noise for comparison; the error is that of the latent mean against the
true function at the rows.  One JSON line per (set, method); resumable.  Ends with a summary.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

from sitewise import GPRegressor

METHODS = ("gaussian", "laplace", "ep", "vi", "hybrid")
ROWS, OUTLIERS, NOISE = 100, 20, 0.1


def make(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, y, the true function, and which rows are outliers."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, ROWS))
    r = np.sqrt(5) * np.abs(x[:, None] - x) / 1.5
    cov = (1 + r + r**2 / 3) * np.exp(-r) + 1e-9 * np.eye(ROWS)
    f = np.linalg.cholesky(cov) @ rng.normal(size=ROWS)
    y = f + NOISE * rng.normal(size=ROWS)
    wrong = np.zeros(ROWS, bool)
    wrong[rng.choice(ROWS, OUTLIERS, replace=False)] = True
    y[wrong] += rng.choice([-1, 1], OUTLIERS) * rng.uniform(5, 15, OUTLIERS)
    return x[:, None], y, f, wrong


def fit(seed: int, method: str) -> dict:
    X, y, f, wrong = make(seed)
    model = GPRegressor() if method == "gaussian" else GPRegressor(likelihood="student_t", method=method)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    mean, std = model.predict_latent(X, return_std=True)
    prec = np.asarray(model.sites_.prec)
    return {
        "rmse": float(np.sqrt(np.mean((mean - f) ** 2))), "finite": bool(np.all(np.isfinite([mean, std]))),
        "converged": bool(model.converged_), "warned": [str(w.message) for w in caught],
        "lengthscale": float(model.kernel_.lengthscale), "scale": float(model.likelihood_.scale * model.y_scale_),
        "evidence": {k: float(v) for k, v in model.evidence_.items()},
        "outliers_held": int(np.sum(prec[wrong] < 0.1 * np.median(prec))),
        "others_held": int(np.sum(prec[~wrong] < 0.1 * np.median(prec))),
        "seconds": round(time.perf_counter() - start, 2),
    }  # fmt: skip


def summary(rows: list[dict]) -> str:
    gaussian = {r["seed"]: r["rmse"] for r in rows if r["method"] == "gaussian"}
    lines = [
        "| method | sets | converged | warned | not finite | median rmse | ratio to Gaussian noise: median, largest | "
        "outliers found | false alarms | s a fit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for method in METHODS:
        mine = [r for r in rows if r["method"] == method]
        if not mine:
            continue
        ratio = [r["rmse"] / gaussian[r["seed"]] for r in mine if r["seed"] in gaussian]
        lines.append(
            f"| {method} | {len(mine)} | {sum(r['converged'] for r in mine)} | "
            f"{sum(bool(r['warned']) for r in mine)} | {sum(not r['finite'] for r in mine)} | "
            f"{np.median([r['rmse'] for r in mine]):.4f} | {np.median(ratio):.3f}, {np.max(ratio):.3f} | "
            f"{np.mean([r['outliers_held'] for r in mine]):.1f} of {OUTLIERS} | "
            f"{np.mean([r['others_held'] for r in mine]):.2f} | {np.median([r['seconds'] for r in mine]):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--out", type=Path, default=Path("results/robust/synthetic.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {(r["seed"], r["method"]) for r in rows}
    for seed in range(args.sets):
        for method in args.methods:
            if (seed, method) in done:
                continue
            row = {"seed": seed, "method": method, **fit(seed, method)}
            rows.append(row)
            with args.out.open("a") as store:
                store.write(json.dumps(row) + "\n")
            print(seed, method, round(row["rmse"], 4), row["converged"], row["seconds"], flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
