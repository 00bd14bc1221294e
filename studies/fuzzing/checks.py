"""Check the properties that must hold on every fuzz case.  `check` returns the status and every violated property.

    converged   the method reports convergence, and every property holds
    capped      learning reached the few rounds that this file allows; its inference converged
    flagged     the method reports that it did not converge, and the row has its reason
    refused     a ValueError that says what to do
    failed      a violated property, another exception, or a number that is not finite without a warning

An evidence on the sites of *another* method may be −∞: the ELBO of Laplace's sites with counts can lie below −10³⁰⁸.
The method's own evidence may not, and no evidence may be NaN or +∞.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
import warnings
from typing import Any

import numpy as np

import sitewise
from fuzzing.cases import REGRESSIONS, Case
from fuzzing.draws import CLASSES
from fuzzing.inference import Broken, bound_case, infer_case, need, new_inputs
from sitewise import VEM, GPClassifier, GPRegressor, Method, Nested, resolve

CAPPED = "stopped early: the cap on rounds was reached"
ROUNDS = {"hybrid-vem": 3}  # of a learner; others have 5


def _learner(name: str) -> Nested | VEM:
    rounds = {"max_rounds": ROUNDS.get(name, 5)}
    if "+" in name:
        method, read = name.split("+")
        return resolve(method, evidence=read, gradient="implicit", **rounds)
    return resolve(name, **rounds)


def _learn_case(case: Case, row: dict[str, Any]) -> str:
    fit = _learner(case.block.method).fit(case.model, case.data)
    row["outcome"], row["reason"], row["rounds"] = fit.solution.outcome.name, fit.reason, fit.rounds
    row["values"] = {"objective": fit.objective, **fit.evidences}
    need(np.isfinite(fit.objective), "the objective is finite")
    need([np.isfinite(v).all() for v in fit.parameters.values()], "the hyperparameters are finite")
    need(np.isfinite(fit.sites.nat1) & np.isfinite(fit.sites.prec), "sites are finite")
    if fit.solution.outcome.ok:
        need([~np.isnan(v) & (v < np.inf) for v in fit.evidences.values()], f"no evidence is NaN: {fit.evidences}")
    mean, var = fit.posterior().f(new_inputs(fit.data))
    need(np.isfinite(mean) & np.isfinite(var) & (var > 0), "predictions are finite")
    need(len(fit.report()) > 100, "the report says what happened")
    values = [entry["objective"] for entry in fit.trace if np.isfinite(entry["objective"])]
    if case.block.method != "hybrid-vem" and fit.solution.outcome.ok:
        need(fit.objective >= values[0] - 1e-9 * (1 + abs(values[0])), "learning ends no lower than it began")
    capped = fit.reason == CAPPED and fit.solution.outcome.ok
    return "converged" if fit.converged else "capped" if capped else "flagged"


def _estimator_case(case: Case, row: dict[str, Any]) -> str:
    X, y, weight = case.X, case.y, case.weight
    classes = case.block.likelihood in CLASSES
    settings: dict[str, Any] = {"method": Method(case.block.method, max_iter=5), "random_state": case.seed}
    if classes:
        model: Any = GPClassifier(likelihood=case.block.likelihood, **settings)
    else:
        model = GPRegressor(likelihood=REGRESSIONS[case.block.likelihood], **settings)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, weight)
    spoken = [str(w.message) for w in said]
    row["warnings"] = [s[:200] for s in spoken]
    X_new = np.concatenate([X[:4] * 1.01, X[:1] + 1e6])
    row["values"] = dict(model.evidence_)
    if model.converged_:
        need([not np.isnan(v) and v < np.inf for v in row["values"].values()], f"no evidence is NaN: {row['values']}")
    mean, deviation = model.predict_latent(X_new, return_std=True)
    need(np.isfinite(mean) & np.isfinite(deviation), "predictions are finite")
    if classes:
        p = model.predict_proba(X_new)
        need((p >= 0) & (p <= 1), "probabilities lie in [0, 1]")
        need(np.abs(p.sum(axis=1) - 1) < 1e-9, "probabilities sum to 1")
    else:
        predicted, spread = model.predict(X_new, return_std=True)
        unbounded = bool(np.any(~np.isfinite(predicted)) or np.any(~np.isfinite(spread)))
        need(~np.isnan(predicted) & ~np.isnan(spread), "predictions of y are numbers")
        row["unbounded"] = unbounded  # E[exp f] beyond 1e308 is infinite, and is said to be
    need(~np.isnan(model.loo_.log_density), "leave-one-out densities are numbers")
    need(np.isfinite(model.influence_), "influences are finite")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model"
        model.save(path)
        again = sitewise.load(path)
    need(np.array_equal(again.predict_latent(X_new), model.predict_latent(X_new)), "a saved model predicts the same")
    if not model.converged_:
        need(spoken, "a fit that did not converge warns")
        return "capped" if any(CAPPED in s for s in spoken) else "flagged"
    return "converged"


_KINDS = {"infer": infer_case, "bound": bound_case, "learn": _learn_case, "estimator": _estimator_case}


def check(case: Case) -> dict[str, Any]:
    """Run the case; never raises."""
    b = case.block
    row: dict[str, Any] = {
        "seed": case.seed, "kind": b.kind, "method": b.method, "likelihood": b.likelihood, "kernel": b.kernel,
        "rows": len(case.X), "columns": case.X.shape[1], "padded": b.rows, "dtype": b.dtype, "weights": b.weights,
        "tags": list(case.tags),
    }  # fmt: skip
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row["status"] = _KINDS[b.kind](case, row)
    except Broken as law:
        row["status"], row["law"] = "failed", str(law)
    except ValueError as problem:
        row["status"], row["words"] = "refused", str(problem)[:300]
        if len(str(problem)) < 20:
            row["status"], row["law"] = "failed", f"a refusal says what to do: {problem}"
    except Exception as problem:
        row["status"], row["law"] = "failed", f"{type(problem).__name__}: {str(problem)[:300]}"
    row["seconds"] = round(time.perf_counter() - start, 3)
    return row
