"""Test the integral over the hyperparameters against exact densities on ten tables, and on data from the prior.

    python studies/integration.py --jobs 16    all parts (resumable; --part names one of them)
    python studies/integration.py --table      results/integration/README.md from the stored lines

tables      eight tables of two classes (first fold of the clean protocol, seed 42), simulated counts and robust
            regression: mean test log density of `integrate`, with the pairs of "hybrid" and of "ep", minus the exact
            density by importance sampling (importance.py) with the same kernel and priors
chains      the same, minus the density of `sitewise.mcmc.sample`, whose error is larger: about 0.003 with 4 000 draws
simulated   200 sets of two classes: log ℓ and log σ from the weak priors of the estimators, 60 rows of two columns and
            60 new rows.  Coverage of 90 % intervals from the moments of the nodes, and gain of the integral over the
            maximum of the evidence.  Sets with one class only are kept: without them θ would have another prior
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from scipy.special import logsumexp, ndtr

from importance import judge
from pooled import Line, add, stored
from sitewise import Data, Model, likelihoods, means
from sitewise.estimators.candidates import Candidate, candidates
from sitewise.estimators.training import Approximate, weak_priors
from sitewise.fitted.mixture import Mixture
from sitewise.hyperpriors import HyperPrior, LogNormal
from sitewise.kernels import Matern52
from sitewise.learning import designs
from sitewise.learning.fit import Fit
from sitewise.learning.integration import Integrated, integrate
from sitewise.mcmc import HyperSamples, new_rows, sample
from sitewise.methods import resolve
from sitewise.parameters import Trainable, values
from sitewise.predict import posterior
from sitewise.process.precision import working_precision

ROOT = Path(__file__).resolve().parents[1] / "results" / "integration"
CLASSES = ("fertility", "pittsburg-bridges-T-OR-D", "echocardiogram", "hepatitis", "parkinsons", "spect",
           "statlog-heart", "haberman-survival")  # fmt: skip
TABLES = (*CLASSES, "counts", "robust")
DESIGNS = ("auto", "ccd", "laplace")
LABELS = 16.0  # the estimators' typical variance of the latent function of two classes
SETS, ROWS, NEW = 200, 60, 60
CHAINS, WARMUP, DRAWS, LONGEST, RHAT = 4, 25, 500, 8000, 1.05
JUDGED = 0.001


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    truth: np.ndarray


def table(name: str) -> tuple[Rows, Model, Candidate]:
    """Training and test rows, the model to start from, and the kernel with its weak priors."""
    if name in CLASSES:
        from sitewise_icml2023 import protocols

        fold = protocols.fold(name, "clean", 42, 0)
        kept = np.std(fold.X, axis=0) > 1e-9
        rows = Rows(fold.X[:, kept], fold.y, fold.X_test[:, kept], fold.y_test)
        chosen = candidates("isotropic", rows.X, LABELS)[0]
        return rows, Model.full(chosen.kernel, likelihoods.BernoulliProbit()), chosen
    rng = np.random.default_rng(7)
    X = rng.normal(size=(160, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    y = rng.poisson(np.exp(0.5 + f)).astype(float) if name == "counts" else f + 0.3 * rng.standard_t(2, size=len(f))
    rows = Rows(X[:80], y[:80], X[80:], y[80:])
    chosen = candidates("isotropic", rows.X, 1.0)[0]
    if name == "counts":
        start = means.Constant(float(np.log(np.mean(rows.y))))
        return rows, Model.full(chosen.kernel, likelihoods.Poisson(), start), chosen
    return rows, Model.full(chosen.kernel, likelihoods.StudentT()), chosen


def fitted(method: str, model: Model, data: Data, chosen: Candidate, priors: bool = True) -> Fit:
    """The optimum, with the weak priors or by evidence alone."""
    design = "coarse" if priors else None
    return Approximate(resolve(method), design, weak=chosen.weak).fit(model, data, 0, None)


def at_optimum(fit: Fit, rows: Rows) -> np.ndarray:
    return np.asarray(posterior(fit.model, fit.data, fit.sites).log_density(rows.new, rows.truth))


def of_nodes(found: Integrated, data: Data, rows: Rows) -> np.ndarray:
    """The log density of every test row, as the mixture of the nodes."""
    kept = [node for node in found.nodes if node.weight > 0]
    each = [np.asarray(posterior(n.model, data, n.sites).log_density(rows.new, rows.truth)) for n in kept]
    return logsumexp(each, axis=0, b=np.array([n.weight for n in kept])[:, None])


def with_rule_weights(found: Integrated) -> Integrated:
    """What integrate(fit, "laplace") gives, from the nodes of "ccd", which are the same: the Gaussian's weights."""
    _, weight = designs.central_composite(found.directions[0])
    share = np.where(np.isfinite([node.log_density for node in found.nodes]), weight, 0.0)
    nodes = [node._replace(weight=float(w)) for node, w in zip(found.nodes, share / np.sum(share), strict=True)]
    return dataclasses.replace(found, nodes=nodes, design="laplace", outside=0.0)


def of_chains(samples: HyperSamples, rows: Rows) -> np.ndarray:
    """The log density of every test row from the draws of each chain: (chains, rows)."""
    chains, draws = samples.vectors.shape[:2]
    out = []
    with working_precision():
        for chain in range(chains):
            pick = chain * draws + np.unique(np.linspace(0, draws - 1, 250).astype(int))
            likelihood, mean, var = new_rows.marginals(*samples.given(pick), rows.new)
            mixture = Mixture(*jax.tree.map(np.asarray, (likelihood, mean.T, var.T)))
            out.append(mixture.log_density(rows.truth))
    return np.array(out)


def by_sampling(fit: Fit, rows: Rows, priors: Mapping[str, HyperPrior]) -> tuple[np.ndarray, Line]:
    """Densities of every chain; chains are four times as long for as long as they disagree."""
    draws = DRAWS
    while True:
        found = sample(fit.model, fit.data, priors=priors, chains=CHAINS, warmup=WARMUP, draws=draws)
        each = found.diagnostics().values()
        worst = max(d["rhat"] for d in each)
        if worst <= RHAT or 4 * draws > LONGEST:
            return of_chains(found, rows), {"rhat": worst, "ess": min(d["bulk_ess"] for d in each), "draws": draws}
        draws *= 4


def by_importance(fit: Fit, rows: Rows) -> tuple[np.ndarray, Line]:
    """Densities of every lattice, with ten times as many draws of f where the error is too large to judge by."""
    assert fit.problem is not None
    nodes = integrate(fit, "coarse")
    for batches in (1, 10):
        found = judge(nodes, fit.problem, fit.data, rows.new, rows.truth, batches)
        if error_of(found.density) <= JUDGED:
            break
    return found.density, {"effective": found.effective, "failed": found.failed, "draws": found.draws}


def error_of(each: np.ndarray) -> float:
    """Standard error of the mean density, from independent copies of it (copies, rows)."""
    return float(np.std(each.mean(axis=1), ddof=1) / np.sqrt(len(each)))


def against(name: str, sampling: bool) -> Line:
    """Differences of log densities to those of sampling, or of importance sampling."""
    warnings.simplefilter("ignore")
    rows, model, chosen = table(name)
    data = Data.of(rows.X, rows.y)
    fits = {method: fitted(method, model, data, chosen) for method in ("hybrid", "ep")}
    begun = time.process_time()
    priors = weak_priors(model, Trainable.of(model), {}, chosen.weak)
    each, words = by_sampling(fits["ep"], rows, priors) if sampling else by_importance(fits["ep"], rows)
    truth = logsumexp(each, axis=0) - np.log(len(each))
    error = error_of(each)
    seconds = time.process_time() - begun
    out: Line = {
        "table": name, "rows": len(rows.y), "new": len(rows.truth), "columns": rows.X.shape[1],
        "judge": {"density": float(np.mean(truth)), "error": error, "seconds": seconds, **words},
    }  # fmt: skip

    def line(density: np.ndarray, **more: Any) -> Line:
        gap = density - truth
        return {"gap": float(np.mean(gap)), "error": float(np.std(gap, ddof=1) / np.sqrt(len(gap))), **more}

    for method, fit in fits.items():
        plug_in = fitted(method, model, data, chosen, priors=False)
        out[f"{method} plug-in"] = line(at_optimum(plug_in, rows))
        integral = integrate(fit, "coarse")
        out[method] = line(
            of_nodes(integral, data, rows), design=integral.design, effective=integral.effective,
            outside=integral.outside, failed=integral.failed, problems=integral.problems,
        )  # fmt: skip
    return out


def simulated(number: int) -> Line:
    """One set from the prior: intervals of log ℓ and log σ, and log densities, of every design."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([2023, number])
    both = rng.normal(size=(ROWS + NEW, 2))
    chosen = candidates("isotropic", both[:ROWS], LABELS)[0]
    drawn = []
    for name in ("lengthscale", "variance"):
        prior = chosen.weak[f"kernel.{name}"]
        assert isinstance(prior, LogNormal)
        drawn.append(rng.normal(prior.location, prior.scale))
    with working_precision():
        K = np.asarray(Matern52(np.exp(drawn[0]), np.exp(drawn[1])).matrix(both))
    size = len(both)
    f = np.linalg.cholesky(K + 1e-9 * np.exp(drawn[1]) * np.eye(size)) @ rng.normal(size=size)
    y = np.where(rng.uniform(size=size) < ndtr(f), 1.0, -1.0)
    rows = Rows(both[:ROWS], y[:ROWS], both[ROWS:], y[ROWS:])
    data, model = Data.of(rows.X, rows.y), Model.full(chosen.kernel, likelihoods.BernoulliProbit())
    out: Line = {
        "set": number, "lengthscale": drawn[0], "deviation": 0.5 * drawn[1], "positive": int(np.sum(rows.y > 0))
    }  # fmt: skip
    plug_in = fitted("hybrid", model, data, chosen, priors=False)
    out["plug-in"] = {"density": float(np.mean(at_optimum(plug_in, rows)))}
    fit = fitted("hybrid", model, data, chosen)
    integrals = {"auto": integrate(fit, "coarse"), "ccd": integrate(fit, "ccd")}
    integrals["laplace"] = with_rule_weights(integrals["ccd"])
    for design, found in integrals.items():
        weight = np.array([node.weight for node in found.nodes])
        each = [values(node.model) for node in found.nodes]
        logs = {
            "lengthscale": np.log([float(v["kernel.lengthscale"]) for v in each]),
            "deviation": 0.5 * np.log([float(v["kernel.variance"]) for v in each]),
        }
        moments = {k: (m := float(weight @ v), float(np.sqrt(weight @ (v - m) ** 2))) for k, v in logs.items()}
        density = float(np.mean(of_nodes(found, data, rows)))
        out[design] = {"density": density, "good": not found.problems, "effective": found.effective, **moments}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("tables", "chains", "simulated"), default=None)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start nothing after so many")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        import integration_table

        return integration_table.write(ROOT)
    parts: dict[str, tuple[str, Iterable[Any], Callable[[Any], Line]]] = {
        "simulated": ("set", range(SETS), simulated),
        "tables": ("table", TABLES, functools.partial(against, sampling=False)),
        "chains": ("table", TABLES, functools.partial(against, sampling=True)),
    }
    for part, (key, every, work) in parts.items():
        if given.part in (None, part):
            path = ROOT / f"{part}.jsonl"
            known = {line[key] for line in stored(path)}
            add(path, work, [one for one in every if one not in known], given.jobs, given.seconds)


if __name__ == "__main__":
    main()
