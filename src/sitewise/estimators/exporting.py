"""Export a fitted model for predictions with NumPy alone: one npz file, and the file that reads it."""

from __future__ import annotations

import inspect
import io
import json
import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import expit, ndtr
from sklearn.utils.validation import check_is_fitted

from sitewise import means
from sitewise.errors import UserError
from sitewise.estimators import numpy_predictor
from sitewise.estimators.kernel_description import described
from sitewise.estimators.parts_description import described_parts
from sitewise.likelihoods import Likelihood, Softmax
from sitewise.predict import Posterior
from sitewise.process import files
from sitewise.process.precision import working_precision

FORMAT = 1
PROBES = np.array([-1.7, -0.4, 0.0, 0.9, 2.2])  # values of f at which the form of a likelihood is recognised


def export(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model for predictions with NumPy alone.

    Two files are written: the model, and `numpy_predictor.py` in the same folder, whose `Predictor(path)` predicts
    class probabilities, or mean and standard deviation of values and counts, as this library does.

    Parameters
    ----------
    model : GPClassifier, GPRegressor or Pipeline
        The fitted model, or a pipeline of TableEncoder or StandardScaler and a model.
    path : str or path
        The model file, such as "model.npz".
    """
    if not hasattr(model, "fit"):
        raise UserError("export takes a GPClassifier, GPRegressor or Pipeline; write other models by sitewise.save.")
    check_is_fitted(model)
    arrays: dict[str, np.ndarray] = {}
    *steps, estimator = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    plain = {"format": FORMAT, "steps": [_step(step) for step in steps], **_estimator(estimator)}
    arrays["model"] = np.array(json.dumps(_without_arrays(plain, arrays)))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type] # no array is named allow_pickle
    path = Path(path)
    files.write_whole(path, buffer.getvalue())
    files.write_whole(path.parent / "numpy_predictor.py", inspect.getsource(numpy_predictor).encode())


def _without_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return plain JSON values, with arrays replaced by their names."""
    if isinstance(value, np.ndarray):
        if not value.ndim:
            return value.item()
        name = next((name for name, one in arrays.items() if one is value), f"a{len(arrays)}")
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {key: _without_arrays(one, arrays) for key, one in value.items()}
    return [_without_arrays(one, arrays) for one in value] if isinstance(value, list | tuple) else value


def _step(step: Any) -> dict[str, Any]:
    """Return an encoder or a scaler as plain values."""
    if hasattr(step, "recipe_"):
        columns = step.recipe_.to_plain()["columns"]
        if odd := [c["name"] for c in columns if c["kind"] not in ("number", "levels") or c.get("unit")]:
            raise UserError(
                f"export cannot encode the columns {', '.join(map(repr, odd))}: it takes plain numbers and categories; "
                "encode dates, groups and numbers with units yourself, or use sitewise.save."
            )
        return {"columns": columns}
    if type(step).__name__ == "StandardScaler":
        return {name[:-1]: np.asarray(getattr(step, name)) for name in ("mean_", "scale_")}
    raise UserError(f"export cannot hold {type(step).__name__}; it holds TableEncoder and StandardScaler.")


def _estimator(estimator: Any) -> dict[str, Any]:
    """Return the latent functions of an estimator and what turns them into predictions."""
    if not hasattr(estimator, "_latents"):
        raise UserError(f"export cannot hold {type(estimator).__name__}; it holds GPClassifier and GPRegressor.")
    if estimator._side:
        raise UserError(f"export holds no models with {', '.join(estimator._side)}; use model.save.")
    functions, links = [], set()
    for latent in estimator._latents:
        if not latent.has_sites:
            raise UserError("export holds Gaussian approximations, not draws of method='mcmc'; use model.save.")
        posteriors, weight = latent.posteriors()
        found = [_component(one, int(estimator.n_features_in_)) for one in posteriors]
        links |= {link for link, _ in found}
        functions.append({"weight": [float(w) for w in weight], "components": [one for _, one in found]})
    (link,) = links
    classes = getattr(estimator, "classes_", None)
    if (classes is not None) != (link in ("probit", "logit", "softmax")):
        raise UserError(f"export does not support the likelihood of {type(estimator).__name__}; use model.save.")
    if classes is not None and classes.dtype.kind == "O":
        classes = classes.astype(str)
    return {
        "link": link, "functions": functions, "classes": classes, "n_columns": int(estimator.n_features_in_),
        "y_mean": float(getattr(estimator, "y_mean_", 0.0)), "y_scale": float(getattr(estimator, "y_scale_", 1.0)),
    }  # fmt: skip


def _component(posterior: Posterior, columns: int) -> tuple[str, dict[str, Any]]:
    """Return the link and the description of one Gaussian approximation."""
    link, response = _link(posterior.likelihood)
    try:
        found = posterior.latent.expansion()
    except ValueError as problem:
        raise UserError(str(problem)) from None
    slope = np.zeros(columns)
    if isinstance(found.mean, means.Linear):
        slope = np.broadcast_to(np.asarray(found.mean.slope, float), slope.shape)
        constant = float(found.mean.offset)
    elif isinstance(found.mean, means.Zero | means.Constant):
        constant = float(getattr(found.mean, "value", 0.0))
    else:
        raise UserError(f"export does not support the mean {type(found.mean).__name__}; use model.save.")
    arrays = {name: np.asarray(getattr(found, name), float) for name in ("alpha", "P", "sign", "Q")}
    if found.parts:
        each, kernel, root = described_parts(found.parts, columns)
        kernels, loads = [kernel], [each]
        arrays |= {"P": root[None], "sign": np.ones(len(root))}
    else:
        kernels = [described(kernel) for kernel in found.kernels]
        loads = [[{"kernel": kernel, "Z": found.Z}] for kernel in kernels]
    return link, {
        "kernels": kernels, "loads": loads, "constant": constant, "slope": np.array(slope), "response": response,
        **arrays,
    }  # fmt: skip


def _link(likelihood: Likelihood) -> tuple[str, dict[str, float]]:
    """Return the form of E[y | f] and Var[y | f], recognised by their values, and its constants."""
    if likelihood.latents > 1:
        if isinstance(likelihood, Softmax):
            return "softmax", {}
        raise UserError("export holds no models with a varying parameter; use model.save.")
    with working_precision():
        try:
            mean, var = (
                np.asarray(r(jnp.asarray(PROBES))) for r in (likelihood.response_mean, likelihood.response_var)
            )
        except (NotImplementedError, TypeError):
            raise _unsupported(likelihood) from None
    for name, success in (("probit", ndtr), ("logit", expit)):
        if np.allclose(mean, success(PROBES), rtol=0, atol=1e-12):
            return name, {}
    if np.allclose(mean, PROBES, rtol=0, atol=1e-12) and np.all(var == var[0]):
        return "identity", {"noise": float(var[0])}
    rate = np.exp(PROBES)
    a, at = mean[2], rate[3]
    d = (var[3] - var[2] * at) / (at**2 - at)  # Var[y | f] = b e^f + d e^{2f} at f = 0 and at the next probe
    b = var[2] - d
    if np.allclose(mean, a * rate, rtol=1e-12) and np.allclose(var, b * rate + d * rate**2, rtol=1e-9):
        return "log", {"a": float(a), "b": float(b), "d": float(d)}
    raise _unsupported(likelihood)


def _unsupported(likelihood: Likelihood) -> UserError:
    return UserError(f"export does not support the likelihood {type(likelihood).__name__}; use model.save.")
