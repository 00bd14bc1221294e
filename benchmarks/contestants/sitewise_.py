"""sitewise, every method."""

import functools

import jax
import numpy as np
import protocol

import sitewise
from sitewise import VI, Data, GPClassifier, Hyperparameters, Model, Sites, evidence, kernels, likelihoods, resolve
from sitewise.arrays.engine import to_host
from sitewise.inference.loop import evaluate
from sitewise.inference.start import first_sites
from sitewise.kernels.lengthscale_start import start_lengthscale  # where the estimators start
from sitewise.learning.objective import evidence_slopes
from sitewise.methods import METHODS
from sitewise.priors import Gram
from sitewise.process.precision import working_precision
from sitewise.rows import on_rows
from sitewise.surface import evidence_surface
from sitewise.types import Outcome

_KEPT = {}


def fit(task: dict, data: dict) -> dict:
    start = {"lengthscale": start_lengthscale(data["X"])} if task.get("own_start") else protocol.start(data)
    kernel = kernels.Matern52(**start)
    model = Model.full(kernel, likelihoods.BernoulliProbit(), jitter=1e-6)
    found = resolve(task["method"], **task.get("settings", {})).fit(model, Data.of(data["X"], data["y"]))
    return {
        "objective": found.objective / len(data["y"]),
        "parameters": {name.split(".")[-1]: float(value) for name, value in found.parameters.items()},
        "rounds": found.rounds,
        "site_iterations": sum(entry.get("steps", 0) for entry in found.trace),
        "converged": found.converged,
    }


def classifier(task: dict, data: dict) -> dict:
    model = GPClassifier(**task["settings"]).fit(data["X"], data["y"] > 0)
    return {"rounds": model.n_iter_, "converged": bool(model.converged_)}


def grid(task: dict, data: dict) -> dict:
    pair = METHODS[task["method"]].pair
    axes = np.array(task["log_lengthscale"]), np.array(task["log_sigma"])
    surface = evidence_surface(pair.inference, pair.evidence, Data.of(data["X"], data["y"]), *axes)
    failed = int(np.sum(surface.code != Outcome.CONVERGED))
    best = float(surface.evidence.max()) / len(data["y"])
    return {"points": surface.code.size, "failed": failed, "best": best}


def predict(task: dict, data: dict) -> dict:
    if "classifier" not in _KEPT:
        kernel = kernels.Matern52(10.0, 10.0)
        _KEPT["classifier"] = GPClassifier(kernel=kernel, hyperparameters=Hyperparameters(fixed=("*",))).fit(
            data["X"], data["y"] > 0
        )
    return {"mean_probability": float(_KEPT["classifier"].predict_proba(data["X_new"])[:, 1].mean())}


def _sparse_model(data: dict) -> Model:
    return Model.sparse(kernels.Matern52(**protocol.start(data)), likelihoods.BernoulliProbit(), data["Z"])


def _sparse(data: dict) -> tuple[Model, Data, Gram, Sites]:
    """On NumPy arrays, as a fit on a processor has them; sites after five sweeps."""
    if "sparse" not in _KEPT:
        model, rows = to_host((_sparse_model(data), Data.of(data["X"], data["y"])))
        gram, sites = model.prior.gram(rows.X), first_sites(model.likelihood, rows)
        for _ in range(5):
            sites = evaluate(VI(), model.likelihood, gram, rows, sites).target
        _KEPT["sparse"] = model, rows, gram, sites
    return _KEPT["sparse"]


def _settled(data: dict) -> Sites:
    if "settled" not in _KEPT:
        model, rows, _, sites = _sparse(data)
        _KEPT["settled"] = VI().solve(model, rows, sites).sites
    return _KEPT["settled"]


def _in_double(verb: protocol.Verb) -> protocol.Verb:
    @functools.wraps(verb)
    def run(task: dict, data: dict) -> dict:
        with working_precision():
            return {"objective": float(verb(task, data)) / len(data["y"])}

    return run


@_in_double
def sparse_step(task: dict, data: dict) -> float:
    """One turn of the loop of VI, the features of the rows at hand as they are within an E-step."""
    model, rows, gram, sites = _sparse(data)
    return evaluate(VI(), model.likelihood, gram, rows, sites).merit


@_in_double
def sparse_first_step(task: dict, data: dict) -> float:
    """The same with the features computed first."""
    model, rows, _, sites = _sparse(data)
    return evaluate(VI(), model.likelihood, model.prior.gram(rows.X), rows, sites).merit


def _value_and_gradient(read: evidence.Evidence, model: Model, rows: Data, sites: Sites) -> float:
    """What a fit computes once its sites are there, features included (`learning.objective.with_slopes`)."""
    gram, pull = model.prior.gram_with_pull(rows.X)
    q, factor = gram.condition_with_factor(sites, rows.mask)
    slopes, (value, *_) = on_rows(evidence_slopes, (read, None), model.likelihood, rows, q, sites, piece=read.piece)
    by_q = type(q).of_rows(slopes[2 : 2 + len(q.rows())], float(read.with_log_z))
    pull(gram.pull(sites, factor, q, by_q))
    return value


@_in_double
def sparse_elbo(task: dict, data: dict) -> float:
    """Value and gradient at sites that have settled, as learning asks for it, or on the way there."""
    model, rows, _, sites = _sparse(data)
    if task.get("settled", True):
        sites = _settled(data)
    return _value_and_gradient(evidence.elbo, model, rows, sites)


@_in_double
def sparse_ep(task: dict, data: dict) -> float:
    """At VI's sites: the objective of the published sparse hybrid."""
    model, rows, *_ = _sparse(data)
    return _value_and_gradient(evidence.ep, model, rows, _settled(data))


def sparse_train(task: dict, data: dict) -> dict:
    found = resolve(task["method"]).fit(_sparse_model(data), Data.of(data["X"], data["y"]))
    return {
        "objective": found.objective / len(data["y"]),
        "rounds": found.rounds,
        "site_iterations": sum(entry["steps"] for entry in found.trace),
        "converged": found.converged,
    }


if __name__ == "__main__":
    verbs = (fit, classifier, grid, predict, sparse_step, sparse_first_step, sparse_elbo, sparse_ep, sparse_train)
    versions = {"library": f"sitewise {sitewise.__version__}, JAX {jax.__version__}"}
    protocol.serve({verb.__name__: verb for verb in verbs}, versions)
