"""Fit every candidate of the average separately, so that rules for weights and pruning can be compared afterwards.

    python studies/average_candidates.py --jobs 16 --seconds 500 --data FOLDER --rows results/average/candidates.jsonl

One line per table, fold and candidate: log joint density at the optimum, Laplace evidence, evidence by a star of nodes
(few rows only), leave-one-out and test log densities per row (thousandths of a nat as int16 in base64), CPU seconds.
Resumable.  Tables: the 27 sets of `default_kernel.py` with seed 42, and simulated tables (average_tables.py).
"""

from __future__ import annotations

import argparse
import base64
import functools
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from scipy.special import logsumexp

from average_tables import KINDS, table
from pooled import add, stored

LABELS = 16.0
CANDIDATES = (
    "single", "iso", "shrunk 0.25", "shrunk 0.5", "shrunk 1", "pairs", "pairs rough", "l1", "l1 shrunk 0.5",
    "l1 shrunk 1", "scores shrunk 0.5", "scores pairs", "scores l1 shrunk 0.5", "linear", "scores linear",
)  # fmt: skip
KEYS = ("source", "set", "seed", "fold", "candidate")
STAR_ROWS = 250


def packed(values: np.ndarray) -> str:
    """Encode log densities, in thousandths of a nat."""
    return base64.b64encode(np.clip(np.round(-1000 * values), -32000, 32000).astype("<i2").tobytes()).decode()


def unpacked(text: str) -> np.ndarray:
    """Return the log densities that `packed` encoded."""
    return np.frombuffer(base64.b64decode(text), "<i2") / -1000.0


def rows_of(source: str, name: str, seed: int, fold: int, data: Path | None):
    """Return X, y, X_test, y_test and the likelihood."""
    from sitewise import likelihoods

    if source == "paper":
        from sitewise_icml2023 import protocols

        rows = protocols.fold(name, "clean", seed, fold, data)
        kept = np.std(rows.X, axis=0) > 1e-9
        return rows.X[:, kept], rows.y, rows.X_test[:, kept], rows.y_test, likelihoods.BernoulliProbit()
    kind, count = name.rsplit("-", 1)
    X, f, new, g = table(kind, int(count), seed)
    rng = np.random.default_rng(seed + 10_000)
    kept = np.std(X, axis=0) > 1e-9
    X, new = X[:, kept], new[:, kept]
    if source == "labels":
        signs = [np.where(2.5 * v + rng.logistic(size=len(v)) > 0, 1.0, -1.0) for v in (f, g)]
        return X, signs[0], new, signs[1], likelihoods.BernoulliProbit()
    y, y_test = (v + 0.5 * rng.normal(size=len(v)) for v in (f, g))
    if source == "student":
        y, y_test = (v + 0.3 * rng.standard_t(2.0, size=len(v)) for v in (f, g))
    centre, scale = np.mean(y), np.std(y)
    return X, (y - centre) / scale, new, (y_test - centre) / scale, likelihoods.Gaussian(0.5)


def candidate(name: str, X: np.ndarray, variance: float):
    """Return the kernel to start from and its weak priors."""
    from sitewise.estimators import candidates as known
    from sitewise.hyperpriors import LogNormal
    from sitewise.kernels import Additive, Constant, Laplacian, Linear, Matern12, Matern52, NormalScores, Shrunk
    from sitewise.kernels.lengthscale_start import sample, start_lengthscale
    from sitewise.kernels.per_column import with_shrunk

    if name.startswith("scores "):
        empty = NormalScores.of(X, Matern52())
        kernel, weak = candidate(name.removeprefix("scores "), np.asarray(empty.transform(X)), variance)
        weak = {key.replace("kernel.", "kernel.base.", 1): prior for key, prior in weak.items()}
        return NormalScores(kernel, empty.knots, empty.scores), weak
    if name == "iso":
        return Matern52(start_lengthscale(X)), known._weak(X, variance, "kernel.")
    if name.startswith("shrunk"):
        kernel = with_shrunk(Matern52(), X, start=True, spread=float(name.split()[1]))
        return kernel, known._weak_shrunk(X, variance)
    if name.startswith("pairs"):
        base = Matern12(2.0, 4.0 / X.shape[1]) if name.endswith("rough") else None
        return Additive.of(X, base=base), known._weak_additive(X.shape[1], variance)
    spread = np.std(X, axis=0)
    units = np.where(spread > 0, spread, 1.0)
    if name == "linear":
        scaled = Linear(variance / np.sum(np.square(sample(X)), axis=1).mean()) + Constant(1.0)
        priors = {
            "kernel.parts.0.variance": LogNormal(float(np.log(scaled.parts[0].variance)), 2.0),
            "kernel.parts.1.variance": LogNormal(0.0, 2.0),
        }
        return scaled, priors
    some = sample(X) / units
    apart = np.sum(np.abs(some[:, None, :] - some[None, :, :]), axis=2)
    typical = float(np.median(apart[apart > 0]))
    priors = {
        "kernel.base.lengthscale": LogNormal(float(np.log(2 * typical)), known.LOG_LENGTHSCALE_SD),
        "kernel.base.variance": LogNormal(float(np.log(variance)), known.LOG_VARIANCE_SD),
    }
    base = Laplacian(typical, min(variance, 4.0))
    if name == "l1":
        return Shrunk(base, np.zeros(X.shape[1]), 1e-6, units), priors
    return Shrunk(base, np.zeros(X.shape[1]), float(name.split()[-1]), units), priors


def run(task: tuple, data: Path | None = None) -> dict:
    """Fit one candidate to one fold."""
    import dataclasses

    from sitewise import Data, GPClassifier, GPRegressor, Model
    from sitewise.estimators.settings import method_of
    from sitewise.fitted.latent import Latent
    from sitewise.fitted.mixture import Mixture, repeated
    from sitewise.hyperparameters import Hyperparameters
    from sitewise.learning.integration import integrate
    from sitewise.predict import posterior

    warnings.simplefilter("ignore")
    source, name, seed, fold, which = task
    out = dict(zip(KEYS, task, strict=True))
    X, y, new, y_new, likelihood = rows_of(source, name, seed, fold, data)
    labels = source in ("paper", "labels")
    out |= {"n": len(X), "d": X.shape[1]}
    begun = time.process_time()
    try:
        if which == "single":
            kernel = "shrunk" if 1 < X.shape[1] <= 100 else "isotropic"
            model = (GPClassifier if labels else GPRegressor)(kernel=kernel).fit(X, y)
            out["cpu"] = time.process_time() - begun
            if labels:
                logs = model.predict_log_proba(new)[np.arange(len(new)), (y_new > 0).astype(int)]
            else:
                logs = model.log_predictive_density(new, y_new)
            out |= {"test": packed(logs), "converged": bool(model.converged_), "rounds": int(model.n_iter_)}
            return out
        kernel, weak = candidate(which, X, LABELS if labels else 1.0)
        held = Hyperparameters(fixed=["kernel.deviations"]) if which == "l1" else None
        method = method_of((GPClassifier if labels else GPRegressor)(kernel="average", hyperparameters=held))
        method = dataclasses.replace(method, integrate="coarse", weak=weak, automatic=False)
        rows, start = Data.of(X, y), Model.full(kernel, likelihood)
        start, sites = method.start(start, rows)
        fit = method.fit(start, rows, 0, None, sites)
        out |= {"cpu": time.process_time() - begun, "objective": float(fit.objective)}
        out |= {"converged": bool(fit.converged), "rounds": int(fit.rounds), "size": int(fit.problem.trainable.size)}
        q = Latent.of_fit(fit)
        out["test"] = packed(q.at(new).log_density(y_new))
        left = q.leave_out()
        mixture = Mixture(repeated(fit.model.likelihood), left.mean[:, None], left.var[:, None])
        out["loo"] = packed(mixture.log_density(np.asarray(fit.data.y)))
        begun = time.process_time()
        out["laplace"] = laplace_evidence(fit)
        out["cpu_curvature"] = time.process_time() - begun
        if len(X) <= STAR_ROWS:
            begun = time.process_time()
            found = integrate(fit, "star", method.learner.final_inference(fit.model))
            out["cpu_star"] = time.process_time() - begun
            out |= {"evidence": float(found.log_evidence), "effective": float(found.effective)}
            nodes = [node for node in found.nodes if node.weight > 1e-4]
            each = [
                np.log(k.weight) + np.asarray(posterior(k.model, rows, k.sites).log_density(new, y_new)) for k in nodes
            ]
            out["test_star"] = packed(logsumexp(each, axis=0))
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as problem:
        out["problem"] = f"{type(problem).__name__}: {problem}"[:300]
    return out


def laplace_evidence(fit: Any) -> float:
    """Return the log of the integral over the hyperparameters by a Gaussian at the optimum."""
    from sitewise.learning.integration import MAX_SD
    from sitewise.numerics.dense.cholesky import eigen

    curvature = fit.quick_curvature
    free = np.flatnonzero(curvature.free)
    values = np.maximum(eigen(-curvature.hessian[np.ix_(free, free)])[0], MAX_SD**-2)
    return fit.objective + 0.5 * len(free) * np.log(2 * np.pi) - 0.5 * float(np.sum(np.log(values)))


def tasks(sources: list[str], sets: list[str] | None, seeds: list[int], chosen: list[str]) -> list[tuple]:
    """Return the tasks, cheap tables first; the simulated tables are spread among the others."""
    from default_kernel import table1
    from sitewise_icml2023.registry import get

    found: list[tuple[float, tuple]] = []
    if "paper" in sources:
        found += [
            (get(name).rows * 0.8, ("paper", name, s, k)) for name in sets or table1() for s in seeds for k in range(5)
        ]
    for source in ("labels", "values", "student"):
        if source in sources:
            for kind in KINDS:
                counts = (30, 60) if kind.startswith("wide") else (40, 120, 400)
                reps = 3 if source == "labels" else 2
                found += [(c, (source, f"{kind}-{c}", rep, 0)) for c in counts for rep in range(reps)]
    found.sort(key=lambda one: one[0])
    return [(*key, which) for _, key in found for which in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--sources", nargs="*", default=["paper", "labels", "values"])
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--seeds", nargs="*", type=int, default=[42])
    parser.add_argument("--candidates", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--most", type=int, default=None)
    parser.add_argument("--rows", type=Path, default=Path("results/average/candidates.jsonl"))
    given = parser.parse_args()
    known = {tuple(row[k] for k in KEYS) for row in stored(given.rows)}
    todo = [t for t in tasks(given.sources, given.sets, given.seeds, given.candidates) if t not in known][: given.most]
    print(f"{len(todo)} fits to do, {len(known)} done", flush=True)
    add(given.rows, functools.partial(run, data=given.data), todo, given.jobs, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
