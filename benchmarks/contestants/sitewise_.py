"""sitewise, every method."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import protocol

import sitewise
from sitewise import VI, Data, GPClassifier, Model, Sites, evidence, kernels, likelihoods, resolve
from sitewise.estimators.rows import start_lengthscale  # where the estimators start
from sitewise.inference.loop import evaluate
from sitewise.inference.start import initial_sites
from sitewise.methods import METHODS
from sitewise.priors import Gram
from sitewise.runtime.precision import working_precision
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
        _KEPT["classifier"] = GPClassifier(kernel=kernel, fixed=("*",)).fit(data["X"], data["y"] > 0)
    return {"mean_probability": float(_KEPT["classifier"].predict_proba(data["X_new"])[:, 1].mean())}


def _sparse_model(data: dict) -> Model:
    return Model.sparse(kernels.Matern52(**protocol.start(data)), likelihoods.BernoulliProbit(), data["Z"])


@jax.jit
def _features(model: Model, data: Data) -> Gram:
    return model.prior.gram(data.X)


@jax.jit
def _sweep(likelihood: likelihoods.Likelihood, gram: Gram, data: Data, sites: Sites) -> tuple[Sites, jax.Array]:
    """Condition on the sites, and propose the next: what one turn of the loop of `VI` does."""
    point = evaluate(VI(), likelihood, gram, data, sites)
    return point.target, point.merit


@functools.partial(jax.jit, static_argnums=0)
def _value_and_gradient(
    read: evidence.Evidence, model: Model, data: Data, sites: Sites
) -> tuple[jax.Array, kernels.Kernel]:
    def value(kernel: kernels.Kernel) -> jax.Array:
        prior = sitewise.types.replace(model.prior, kernel=kernel)
        return read(sitewise.types.replace(model, prior=prior), data, sites)

    return jax.value_and_grad(value)(model.prior.kernel)


def _sparse(data: dict) -> tuple[Model, Data, Gram, Sites]:
    if "sparse" not in _KEPT:
        model, rows = _sparse_model(data), jax.tree.map(jnp.asarray, Data.of(data["X"], data["y"]))
        gram = _features(model, rows)
        sites = initial_sites(model.likelihood, rows)
        for _ in range(5):
            sites, _ = _sweep(model.likelihood, gram, rows, sites)
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
            return verb(task, data)

    return run


@_in_double
def sparse_step(task: dict, data: dict) -> dict:
    """One sweep of the E-step, the features of the rows at hand as they are within an E-step."""
    model, rows, gram, sites = _sparse(data)
    _, value = jax.block_until_ready(_sweep(model.likelihood, gram, rows, sites))
    return {"objective": float(value) / len(data["y"])}


@_in_double
def sparse_first_step(task: dict, data: dict) -> dict:
    """The same with the features computed first."""
    model, rows, _, sites = _sparse(data)
    _, value = jax.block_until_ready(_sweep(model.likelihood, _features(model, rows), rows, sites))
    return {"objective": float(value) / len(data["y"])}


@_in_double
def sparse_elbo(task: dict, data: dict) -> dict:
    """At sites that have settled, as learning asks for it, or on the way there."""
    model, rows, _, sites = _sparse(data)
    if task.get("settled", True):
        sites = _settled(data)
    value, _ = jax.block_until_ready(_value_and_gradient(evidence.elbo, model, rows, sites))
    return {"objective": float(value) / len(data["y"])}


@_in_double
def sparse_ep(task: dict, data: dict) -> dict:
    """At VI's sites: the objective of the published sparse hybrid."""
    model, rows, *_ = _sparse(data)
    sites = _settled(data)
    value, _ = jax.block_until_ready(_value_and_gradient(evidence.ep, model, rows, sites))
    return {"objective": float(value) / len(data["y"])}


def sparse_train(task: dict, data: dict) -> dict:
    found = resolve(task["method"]).fit(_sparse_model(data), Data.of(data["X"], data["y"]))
    return {
        "objective": found.objective / len(data["y"]),
        "rounds": found.rounds,
        "site_iterations": sum(entry["steps"] for entry in found.trace),
        "converged": found.converged,
    }


if __name__ == "__main__":
    verbs = (fit, grid, predict, sparse_step, sparse_first_step, sparse_elbo, sparse_ep, sparse_train)
    versions = {"library": f"sitewise {sitewise.__version__}, JAX {jax.__version__}"}
    protocol.serve({verb.__name__: verb for verb in verbs}, versions)
