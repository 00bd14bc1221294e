"""What must hold on every case.  `check` gives a row: how the case ended, and every law that it broke.

    converged   the method says that it converged, and every law holds
    capped      learning ended where this file told it to, after a few rounds; its inference converged
    flagged     the method says that it did not converge, and the row has its words
    refused     a ValueError that says what to do
    failed      a broken law, another exception, or a number that is not finite and that nobody spoke of

An evidence read off the sites of *another* method may be −∞: the ELBO of Laplace's sites with counts can lie below
−10³⁰⁸.  The method's own evidence may not, nor may any be NaN or +∞.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sitewise
from fuzzing.cases import CLASSES, METHODS, ORDERED, REGRESSIONS, Case
from sitewise import VI, Data, GPClassifier, GPRegressor, Outcome, evidence, mcmc, posterior, resolve

READ = {name: e for name, e in evidence.ALL.items() if name != "collapsed"}  # on a full GP, `collapsed` is `ep`
OWN = {"laplace": "laplace", "vi": "elbo", "ep": "ep", "ep-half": "power"}
CAPPED = "stopped early: the cap on rounds was reached"
ROUNDS = {"hybrid-vem": 3}  # of a learner; others have 5
SHORT_VI = VI(max_steps=4)


class Broken(Exception):
    """A law does not hold; the message says which."""


def need(holds: Any, law: str) -> None:
    if not bool(np.all(holds)):
        raise Broken(law)


# -- inference at given hyperparameters ----------------------------------------------------------------------


def _infer(method, model, data: Data, X_new, classes: int):
    """In NumPy, so that looking at the numbers compiles nothing."""
    return jax.tree.map(np.asarray, _inferred(method, model, data, X_new, classes))


@functools.partial(jax.jit, static_argnums=(0, 4))
def _inferred(method, model, data: Data, X_new, classes: int):
    solution = method.solve(model, data)
    sites = solution.sites
    q = model.prior.gram(data.X).condition(sites.scaled(data.weight))
    read = {**READ, "power": evidence.power_ep(0.5)} if getattr(method, "power", 1.0) != 1.0 else READ
    found = {name: e.read(model.likelihood, data, q, sites) for name, e in read.items()}
    new = posterior(model, data, sites).f(X_new)
    labels = {2: (-1.0, 1.0), ORDERED: tuple(range(ORDERED))}.get(classes, ())
    logs = [model.likelihood.log_expected_prob(jnp.full_like(new[0], c), *new) for c in labels]
    kernel = model.prior.kernel
    return solution, found, q, new, logs, (kernel.variances(data.X), kernel.variances(X_new))


def _classes(likelihood: str) -> int:
    return 2 if likelihood in CLASSES else ORDERED if likelihood == "ordinal" else 0


def _new_inputs(data: Data) -> np.ndarray:
    """Near the training rows, at one of them, and far away."""
    X = np.asarray(data.X[:8])
    # Columns of padding stay as they are.  "Far" is in the table's own numbers: 10⁶ beside 10⁷⁹ is no distance.
    largest = np.max(np.abs(X), initial=1.0)
    far = X[:1] + np.where(np.any(X != 0, axis=0), 1e6 * largest if largest < 1e10 else largest, 0.0)
    return np.concatenate([X * 1.01, X[:1], far]).astype(X.dtype)


def _infer_case(case: Case, row: dict) -> str:
    single = case.block.dtype == "float32"
    with jax.enable_x64(not single):
        model, data = case.model, case.data
        model.likelihood.check(data.y)
        if single:
            model = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), model)
        method, X_new = METHODS[case.block.method], _new_inputs(data)
        run = functools.partial(_infer, method, model, X_new=X_new, classes=_classes(case.block.likelihood))
        out = run(data=data)
        outcome = out[0].outcome
        row["steps"], row["outcome"] = int(out[0].stats.steps), outcome.name
        row["values"] = {k: float(v) for k, v in out[1].items()}
        if outcome is not Outcome.NON_FINITE:
            _check_numbers(case, out, single, outcome.ok)
        if not outcome.ok:
            return "flagged"
        _check_invariance(case, data, run, out, single)
        if case.block.method == "vi" and not single:
            _check_climb(model, data)
        return "converged"


def _check_numbers(case: Case, out, single: bool, converged: bool) -> None:
    solution, found, q, (mean, var), logs, (prior_var, prior_var_new) = out
    need(np.isfinite(solution.sites.nat1) & np.isfinite(solution.sites.prec), "sites are finite")
    need(np.isfinite(q.mean) & np.isfinite(q.var), "marginals are finite")
    need(np.isfinite(mean) & np.isfinite(var), "predictions are finite")
    own = OWN[case.block.method]
    if converged:
        need(np.isfinite(found[own]), f"the {own} evidence is finite")
        need([~np.isnan(v) & (v < np.inf) for v in found.values()], f"no evidence is NaN: {found}")
    slack = 1e-3 if single else 1e-9
    counts = np.asarray(case.data.mask)
    if not converged:
        return
    need((q.var > 0)[counts] & (q.var <= prior_var * (1 + slack))[counts], "0 < posterior variance ≤ prior variance")
    need((var > 0) & (var <= prior_var_new * (1 + slack)), "0 < predictive variance ≤ prior variance")
    if logs:
        p = np.exp(np.stack(logs))
        need((p >= 0) & (p <= 1 + slack), "probabilities lie in [0, 1]")
        # By quadrature, right to 1e-6 up to a latent deviation of e¹⁰ (measured); a linear kernel can go far beyond.
        wide = np.sqrt(np.asarray(var)) > np.exp(10)
        need(np.abs(p.sum(axis=0) - 1) <= (1e-2 if single else np.where(wide, 1e-2, 1e-5)), "probabilities sum to 1")


def _check_invariance(case: Case, data: Data, run, out, single: bool) -> None:
    """Other order of rows, other content of the padding: the same answer where both converge."""
    rng = np.random.default_rng([13, case.seed + 1])
    order = rng.permutation(data.rows)
    X, y, weight = (np.asarray(a) for a in (data.X, data.y, data.weight))
    moved = Data(X[order], y[order], weight[order], fractional=data.fractional)
    last = int(np.flatnonzero(weight > 0)[-1])
    blank = weight == 0
    filled = Data(
        np.where(blank[:, None], X[last], X),
        np.where(blank.reshape((-1,) + (1,) * (y.ndim - 1)), y[last], y),
        weight,
        fractional=data.fractional,
    )
    tol = 5e-2 if single else 1e-5
    for name, other in (("order of rows", moved), ("content of padding", filled)):
        again = run(data=other)
        if not again[0].outcome.ok:
            continue
        for key in out[1]:
            a, b = float(out[1][key]), float(again[1][key])
            # Read off sites that another method's evidence makes little of, rounding is seen enlarged.
            slack = tol if key == OWN[case.block.method] else 100 * tol
            need(
                a == b or abs(a - b) <= slack * (1 + abs(a)),
                f"the {name} does not change the {key} evidence: {a!r}, {b!r}",
            )
        spread = np.sqrt(np.asarray(out[5][1])) + 1e-300
        need(
            np.abs(out[3][0] - again[3][0]) <= 10 * tol * (spread + np.abs(out[3][0])),
            f"the {name} does not change the mean",
        )


@jax.jit
def _short(model, data, sites):
    solution = SHORT_VI.solve(model, data, sites)
    return solution, evidence.elbo(model, data, solution.sites)


def _check_climb(model, data) -> None:
    """A few steps of VI at a time: the ELBO never falls, but for rounding and where a precision is held at zero."""
    sites, before = None, -np.inf
    for _ in range(5):
        solution, bound = _short(model, data, sites)
        sites, bound = solution.sites, float(bound)
        if int(solution.stats.clipped) == 0:
            need(bound >= before - 1e-7 * (1 + abs(before)), f"the ELBO rises along VI: {before!r} then {bound!r}")
        before = bound
        if solution.outcome.ok:
            return


def _bound_case(case: Case, row: dict) -> str:
    """ELBO ≤ log Z, by annealed importance sampling with an error bar from both sides."""
    with jax.enable_x64(True):
        model, data = case.model, case.data
        model.likelihood.check(data.y)
        out = _infer(METHODS["vi"], model, data, _new_inputs(data), _classes(case.block.likelihood))
        outcome = out[0].outcome
        row["steps"], row["outcome"] = int(out[0].stats.steps), outcome.name
        row["values"] = {k: float(v) for k, v in out[1].items()}
        if not outcome.ok:
            return "flagged"
        _check_numbers(case, out, False, True)
        truth = mcmc.log_evidence(model, data, steps=64, max_steps=256, target_se=0.3, seed=case.seed)
        row["values"] |= {"log_z": truth.log_z, "se": truth.se, "upper": truth.upper}
        if not truth.tight:  # it says so itself; an error bar that is not met cannot refute a bound
            row["note"] = truth.reason
            return "converged"
        elbo = row["values"]["elbo"]
        need(
            elbo <= truth.log_z + 4 * truth.se + 1e-6 * (1 + abs(elbo)),
            f"ELBO {elbo} ≤ AIS {truth.log_z} + 4 · {truth.se}",
        )
        return "converged"


# -- learners and estimators ---------------------------------------------------------------------------------


def _learner(name: str):
    rounds = {"max_rounds": ROUNDS.get(name, 5)}
    if "+" in name:
        method, read = name.split("+")
        return resolve(method, evidence=read, gradient="implicit", **rounds)
    return resolve(name, **rounds)


@jax.jit
def _predicted(model, data, sites, X_new):
    return posterior(model, data, sites).f(X_new)


def _learn_case(case: Case, row: dict) -> str:
    fit = _learner(case.block.method).fit(case.model, case.data)
    row["outcome"], row["reason"], row["rounds"] = fit.solution.outcome.name, fit.reason, fit.rounds
    row["values"] = {"objective": fit.objective, **fit.evidences}
    need(np.isfinite(fit.objective), "the objective is finite")
    need([np.isfinite(v).all() for v in fit.parameters.values()], "the hyperparameters are finite")
    need(np.isfinite(fit.sites.nat1) & np.isfinite(fit.sites.prec), "sites are finite")
    if fit.solution.outcome.ok:
        need([~np.isnan(v) & (v < np.inf) for v in fit.evidences.values()], f"no evidence is NaN: {fit.evidences}")
    with jax.enable_x64(True):
        mean, var = map(np.asarray, _predicted(fit.model, fit.data, fit.sites, _new_inputs(fit.data)))
    need(np.isfinite(mean) & np.isfinite(var) & (var > 0), "predictions are finite")
    need(len(fit.report()) > 100, "the report says what happened")
    values = [entry["objective"] for entry in fit.trace if np.isfinite(entry["objective"])]
    if case.block.method != "hybrid-vem" and fit.solution.outcome.ok:
        need(fit.objective >= values[0] - 1e-9 * (1 + abs(values[0])), "learning ends no lower than it began")
    capped = fit.reason == CAPPED and fit.solution.outcome.ok
    return "converged" if fit.converged else "capped" if capped else "flagged"


def _estimator_case(case: Case, row: dict) -> str:
    X, y, weight = case.X, case.y, case.weight
    classes = case.block.likelihood in CLASSES
    settings: dict[str, Any] = {"method": case.block.method, "max_iter": 5, "random_state": case.seed}
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


_KINDS = {"infer": _infer_case, "bound": _bound_case, "learn": _learn_case, "estimator": _estimator_case}


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
