"""Properties of inference at given hyperparameters, and of its bound against annealed importance sampling."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fuzzing.cases import METHODS, Case
from fuzzing.draws import CLASSES, ORDERED
from sitewise import VI, Data, Model, Outcome, Sites, evidence, mcmc, posterior
from sitewise.arrays.engine import to_host
from sitewise.inference import Inference
from sitewise.inference.loop import iterate
from sitewise.inference.start import first_sites
from sitewise.predict import log_density
from sitewise.process.precision import working_precision

READ = {name: e for name, e in evidence.ALL.items() if name not in evidence.FOR_RESIDUALS}
OWN = {"laplace": "laplace", "vi": "elbo", "ep": "ep", "ep-half": "power"}
SHORT_VI = VI(max_steps=4)


class Broken(Exception):
    """A law does not hold; the message says which."""


class Inferred(NamedTuple):
    """Of one run: its solution, evidences by name, posterior marginals (mean, var) at the rows and at new inputs,
    log probabilities of the classes there, and the prior's variances at both."""

    solution: Any
    evidences: dict[str, Any]
    marginals: Any
    new: Any
    class_logs: list[Any]
    prior_var: Any
    prior_var_new: Any


def need(holds: Any, law: str) -> None:
    if not bool(np.all(holds)):
        raise Broken(law)


def infer(method: Inference, model: Model, data: Data, X_new: np.ndarray, classes: int) -> Inferred:
    """On the host engine; what is in single precision, in a traced program.  The numbers are NumPy's."""
    if data.X.dtype == np.float32:
        return jax.tree.map(np.asarray, _traced(method, model, data, X_new, classes))
    with working_precision():
        return _inferred(method, *to_host((model, data, X_new)), classes)


def _inferred(method: Inference, model: Model, data: Data, X_new: jax.Array, classes: int) -> Inferred:
    solution = method.solve(model, data)
    sites = solution.sites
    q = model.prior.gram(data.X).condition(sites.scaled(data.weight))
    read = {**READ, "power": evidence.power_ep(0.5)} if getattr(method, "power", 1.0) != 1.0 else READ
    found = {name: e.on_marginals(model.likelihood, data, q, sites) for name, e in read.items()}
    new = posterior(model, data, sites).f(X_new)
    labels = {2: (-1.0, 1.0), ORDERED: tuple(range(ORDERED))}.get(classes, ())
    logs = [log_density(model.likelihood, *new, c) for c in labels]
    kernel = model.prior.kernel
    return Inferred(solution, found, q, new, logs, kernel.variances(data.X), kernel.variances(X_new))


_traced = jax.jit(_inferred, static_argnums=(0, 4))


def _classes(likelihood: str) -> int:
    return 2 if likelihood in CLASSES else ORDERED if likelihood == "ordinal" else 0


def new_inputs(data: Data) -> np.ndarray:
    """Near the training rows, at one of them, and far away."""
    X = np.asarray(data.X[:8])
    # Columns of padding stay as they are.  "Far" is in the table's own numbers: 10⁶ beside 10⁷⁹ is no distance.
    largest = np.max(np.abs(X), initial=1.0)
    far = X[:1] + np.where(np.any(X != 0, axis=0), 1e6 * largest if largest < 1e10 else largest, 0.0)
    return np.concatenate([X * 1.01, X[:1], far]).astype(X.dtype)


def infer_case(case: Case, row: dict[str, Any]) -> str:
    single = case.block.dtype == "float32"
    with jax.enable_x64(not single):
        model, data = case.model, case.data
        model.likelihood.check(data.y)
        if single:
            model = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), model)
        method, X_new = METHODS[case.block.method], new_inputs(data)
        run = functools.partial(infer, method, model, X_new=X_new, classes=_classes(case.block.likelihood))
        out = run(data=data)
        outcome = _note(row, out)
        if outcome is not Outcome.NON_FINITE:
            _check_numbers(case, out, single, outcome.ok)
        if not outcome.ok:
            return "flagged"
        _check_invariance(case, data, run, out, single)
        if case.block.method == "vi" and not single:
            _check_climb(model, data)
        return "converged"


def bound_case(case: Case, row: dict[str, Any]) -> str:
    """ELBO ≤ log Z, by annealed importance sampling with an error bar from both sides."""
    with jax.enable_x64(True):
        model, data = case.model, case.data
        model.likelihood.check(data.y)
        out = infer(METHODS["vi"], model, data, new_inputs(data), _classes(case.block.likelihood))
        if not _note(row, out).ok:
            return "flagged"
        _check_numbers(case, out, False, True)
        truth = mcmc.log_evidence(model, data, steps=64, max_steps=256, se_per_row=0.3, seed=case.seed)
        row["values"] |= {"log_z": truth.log_z, "se": truth.se, "upper": truth.upper}
        if not truth.tight:  # the estimate says so itself; an error bar that is not met cannot refute a bound
            row["note"] = truth.reason
            return "converged"
        elbo = row["values"]["elbo"]
        need(
            elbo <= truth.log_z + 4 * truth.se + 1e-6 * (1 + abs(elbo)),
            f"ELBO {elbo} ≤ AIS {truth.log_z} + 4 · {truth.se}",
        )
        return "converged"


def _note(row: dict[str, Any], out: Inferred) -> Outcome:
    """Put steps, outcome and evidences into the row."""
    outcome = out.solution.outcome
    row["steps"], row["outcome"] = int(out.solution.stats.steps), outcome.name
    row["values"] = {k: float(v) for k, v in out.evidences.items()}
    return outcome


def _check_numbers(case: Case, out: Inferred, single: bool, converged: bool) -> None:
    sites, q, (mean, var), found = out.solution.sites, out.marginals, out.new, out.evidences
    need(np.isfinite(sites.nat1) & np.isfinite(sites.prec), "sites are finite")
    need(np.isfinite(q.mean) & np.isfinite(q.var), "marginals are finite")
    need(np.isfinite(mean) & np.isfinite(var), "predictions are finite")
    if not converged:
        return
    own = OWN[case.block.method]
    need(np.isfinite(found[own]), f"the {own} evidence is finite")
    need([~np.isnan(v) & (v < np.inf) for v in found.values()], f"no evidence is NaN: {found}")
    slack = 1e-3 if single else 1e-9
    counts = np.asarray(case.data.mask)
    within = q.var <= out.prior_var * (1 + slack)
    need((q.var > 0)[counts] & within[counts], "0 < posterior variance ≤ prior variance")
    need((var > 0) & (var <= out.prior_var_new * (1 + slack)), "0 < predictive variance ≤ prior variance")
    if out.class_logs:
        p = np.exp(np.stack(out.class_logs))
        need((p >= 0) & (p <= 1 + slack), "probabilities lie in [0, 1]")
        # By quadrature, right to 1e-6 up to a latent deviation of e¹⁰ (measured); a linear kernel can go far beyond.
        wide = np.sqrt(np.asarray(var)) > np.exp(10)
        need(np.abs(p.sum(axis=0) - 1) <= (1e-2 if single else np.where(wide, 1e-2, 1e-5)), "probabilities sum to 1")


def _check_invariance(case: Case, data: Data, run: Callable[..., Inferred], out: Inferred, single: bool) -> None:
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
        if not again.solution.outcome.ok:
            continue
        for key in out.evidences:
            a, b = float(out.evidences[key]), float(again.evidences[key])
            # An evidence of another method may magnify rounding in the sites.
            slack = tol if key == OWN[case.block.method] else 100 * tol
            same = a == b or abs(a - b) <= slack * (1 + abs(a))
            need(same, f"the {name} does not change the {key} evidence: {a!r}, {b!r}")
        spread = np.sqrt(np.asarray(out.prior_var_new)) + 1e-300
        gap = np.abs(out.new[0] - again.new[0])
        need(gap <= 10 * tol * (spread + np.abs(out.new[0])), f"the {name} does not change the mean")


def _short(model: Model, data: Data, sites: Sites | None) -> tuple[Any, Any]:
    """Without the fallbacks that `solve` would use after so few steps."""
    with working_precision():
        model, data = to_host((model, data))
        sites = first_sites(model.likelihood, data) if sites is None else sites
        solution = iterate(SHORT_VI, model.likelihood, model.prior.gram(data.X), data, sites).solution
        return solution, evidence.elbo(model, data, solution.sites)


def _check_climb(model: Model, data: Data) -> None:
    """A few steps of VI at a time: the ELBO never falls, but for rounding and where a precision is held at zero."""
    sites, before = None, -np.inf
    for _ in range(5):
        solution, value = _short(model, data, sites)
        sites, bound = solution.sites, float(value)
        if int(solution.stats.clipped) == 0:
            need(bound >= before - 1e-7 * (1 + abs(before)), f"the ELBO rises along VI: {before!r} then {bound!r}")
        before = bound
        if solution.outcome.ok:
            return
