"""The public calls with a model and data, each with the numbers that it gives and whether it says it converged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sitewise
from misusing.scenes import Scene
from sitewise import (
    EP,
    VEM,
    VI,
    Data,
    Full,
    GPClassifier,
    GPRegressor,
    Hyperparameters,
    Laplace,
    Method,
    Model,
    Nested,
    Sparse,
    evidence,
    mcmc,
)
from sitewise.surface import evidence_surface


class Result(NamedTuple):
    """What a call gave, and, where it says so, why the numbers are not to be trusted."""

    values: dict[str, np.ndarray]
    flagged: str = ""


def _model(scene: Scene) -> Any:
    jitter = {} if scene.jitter is None else {"jitter": scene.jitter}
    if scene.Z is None:
        model = Model.full(scene.kernel(), scene.likelihood(), scene.mean(), **jitter)
    else:
        model = Model.sparse(scene.kernel(), scene.likelihood(), scene.Z, scene.mean(), **jitter)
    return scene.change_model(model)


def _data(scene: Scene) -> Any:
    return scene.change_data(Data.of(scene.X, scene.y, scene.weight))


def _method(scene: Scene) -> Any:
    return scene.settings.get("inference", Laplace() if scene.likelihood_name == "softmax" else VI())


def _solved(scene: Scene) -> tuple[Any, Any, Any]:
    """Model and data as given, and the sites of the same problem as the scene changes them."""
    model, data = _model(scene), _data(scene)
    return model, data, scene.change_sites(_method(scene).solve(model, data))


def _flag(outcome: Any) -> str:
    return "" if outcome.ok else outcome.advice


def solve(scene: Scene) -> Result:
    found = _method(scene).solve(_model(scene), _data(scene))
    return Result({"nat1": found.sites.nat1, "prec": found.sites.prec}, _flag(found.outcome))


def resolve(scene: Scene) -> Result:
    """`solve`, from given sites."""
    model, data, sites = _solved(scene)
    found = _method(scene).solve(model, data, sites)
    return Result({"nat1": found.sites.nat1, "prec": found.sites.prec}, _flag(found.outcome))


def read(scene: Scene) -> Result:
    """An evidence of given sites."""
    chosen = scene.settings.get("evidence", evidence.laplace if scene.likelihood_name == "softmax" else evidence.ep)
    return Result({"evidence": np.asarray(chosen(*_solved(scene)))})


def predict(scene: Scene) -> Result:
    """The posterior of given sites, at new rows."""
    q = sitewise.posterior(*_solved(scene))
    X, y = scene.new
    mean, var = q.f(X)
    return Result({"mean": mean, "var": var, "log_density": np.asarray(q.log_density(X, y))})


def _of_fit(fit: Any) -> Result:
    said = "" if fit.converged else fit.reason
    if fit.at_bound:
        said = f"{', '.join(fit.at_bound)} ended at a bound: report() says what to do."
    return Result({"objective": np.asarray(fit.objective), **fit.parameters}, said)


def _nested(scene: Scene) -> Any:
    pair = (Laplace(), evidence.laplace) if scene.likelihood_name == "softmax" else (VI(), evidence.ep)
    given = {"inference": pair[0], "evidence": pair[1], "max_rounds": 3, **scene.settings}
    return Nested(**given)


def nested(scene: Scene) -> Result:
    return _of_fit(_nested(scene).fit(_model(scene), _data(scene)))


def vem(scene: Scene) -> Result:
    return _of_fit(VEM(**{"max_rounds": 2, **scene.settings}).fit(_model(scene), _data(scene)))


def sample(scene: Scene) -> Result:
    """A few draws; the summary of so few says that they have not converged."""
    draws = mcmc.sample(_model(scene), _data(scene), **{"chains": 2, "warmup": 0, "draws": 10, **scene.settings})
    return Result({"vectors": draws.vectors}, " ".join(draws.problems()))


def log_evidence(scene: Scene) -> Result:
    found = mcmc.log_evidence(_model(scene), _data(scene), **{"steps": 8, "max_steps": 8, **scene.settings})
    return Result({"log_z": np.asarray(found.log_z)}, "" if found.tight else found.reason)


def surface(scene: Scene) -> Result:
    settings = {"likelihood": scene.likelihood(), **scene.settings}
    found = evidence_surface(EP(), evidence.ep, _data(scene), np.array([0.0, 1.0]), np.array([0.0, 1.0]), **settings)
    return Result({"evidence": found.evidence}, "" if np.all(found.code == 0) else "some points did not converge")


def _estimator(scene: Scene) -> Any:
    """The estimator of this likelihood; its inference is that of the correct problem unless a mistake changes it."""
    settings = dict(scene.settings)
    of_method, of_hyperparameters, of_sparse = (
        {name: settings.pop(name) for name in kind.fields() if name in settings}
        for kind in (Method, Hyperparameters, Sparse)
    )
    given: dict[str, Any] = {
        "kernel": scene.kernel(),
        "mean": scene.mean(),
        "method": Method(settings.pop("method", "hybrid"), **{"max_iter": 3, **of_method}),
        "hyperparameters": Hyperparameters(**of_hyperparameters),
    }
    jitter = {} if scene.jitter is None else {"jitter": scene.jitter}
    if scene.Z is not None:
        of_sparse["inputs"] = scene.Z
    if of_sparse:
        given["structure"] = Sparse(**of_sparse, **jitter)
    elif jitter:
        given["structure"] = Full(**jitter)
    if scene.likelihood_name in ("probit", "logit", "softmax"):
        name = "softmax" if scene.likelihood_name == "softmax" else scene.likelihood_name
        return GPClassifier(**{**given, **({} if name == "softmax" else {"likelihood": name}), **settings})
    return GPRegressor(**{**given, "likelihood": scene.likelihood_name, **settings})


def _predicted(model: Any, scene: Scene) -> Result:
    X = scene.new[0]
    mean, sd = model.predict_latent(X, return_std=True)
    return Result({"mean": mean, "sd": sd}, "" if model.converged_ else "converged_ is False")


def estimator(scene: Scene) -> Result:
    return _predicted(_estimator(scene).fit(scene.X, scene.y, scene.weight), scene)


def file(scene: Scene) -> Result:
    """A fitted estimator, saved, its file damaged, loaded again."""
    model = _estimator(scene).fit(scene.X, scene.y, scene.weight)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sitewise"
        model.save(path)
        path.write_bytes(scene.damage(path.read_bytes()))
        return _predicted(sitewise.load(path), scene)


DOORS: dict[str, Callable[[Scene], Result]] = {
    "Inference.solve": solve,
    "Inference.solve from sites": resolve,
    "Evidence": read,
    "posterior": predict,
    "Nested.fit": nested,
    "VEM.fit": vem,
    "mcmc.sample": sample,
    "mcmc.log_evidence": log_evidence,
    "evidence_surface": surface,
    "estimator": estimator,
    "model file": file,
}
