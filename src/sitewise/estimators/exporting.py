"""Export a fitted model for predictions with NumPy alone: one npz file, and the file that reads it."""

from __future__ import annotations

import inspect
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import expit, ndtr
from sklearn.utils.validation import check_is_fitted

from sitewise import means
from sitewise.errors import UserError
from sitewise.estimators import numpy_predictor
from sitewise.estimators.kernel_description import described, total
from sitewise.estimators.parts_description import DescribedSum, described_parts
from sitewise.likelihoods import Likelihood, Softmax
from sitewise.numerics.dense.cholesky import difference_of_roots
from sitewise.predict import Posterior
from sitewise.process import files
from sitewise.process.precision import working_precision
from sitewise.tables.columns import Levels, Number
from sitewise.tables.recipe import Recipe
from sitewise.tables.table import MISSING

FORMAT = 2
PROBES = np.array([-1.7, -0.4, 0.0, 0.9, 2.2])  # values of f at which the form of a likelihood is recognised

Tree = Any  # an expression: the number of a column (int), a constant, or a list of a function and expressions


def export(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator or pipeline for predictions with NumPy alone; see `formula.saved_models.export`."""
    if not hasattr(model, "fit"):
        raise UserError(
            "export takes a fitted formula, GPClassifier, GPRegressor or Pipeline; write other models by sitewise.save."
        )
    check_is_fitted(model)
    *steps, estimator = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    write(path, [_step(step) for step in steps], estimator)


def write(
    path: str | os.PathLike[str], steps: list[dict[str, Any]], estimator: Any, *, predicts_class: bool = True
) -> None:
    """Write the steps from a table to the inputs of an estimator, the estimator, and the predictor.

    Without `predicts_class`, `predict` of a classifier returns the probability of the second class.
    """
    arrays: dict[str, np.ndarray] = {}
    found = _estimator(estimator)
    found["predicts_class"] = predicts_class and found["classes"] is not None
    steps = steps or [_of_arrays(estimator, list(range(estimator.n_features_in_)))]
    plain = {"format": FORMAT, "steps": steps, **found}
    arrays["model"] = np.array(json.dumps(_without_arrays(plain, arrays)))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type] # no array is named allow_pickle
    path = Path(path)
    files.write_whole(path, buffer.getvalue())
    files.write_whole(path.parent / "numpy_predictor.py", inspect.getsource(numpy_predictor).encode())


def step(columns: list[dict[str, Any]], trees: list[Tree], by_position: int = 0) -> dict[str, Any]:
    """Return a step: expressions of the columns of a table, or of an array with `by_position` columns."""
    width = by_position or len(columns)
    return {"inputs": columns, "trees": trees, "width": width, "by_position": bool(by_position)}


def _of_arrays(trained: Any, trees: list[Tree]) -> dict[str, Any]:
    """Return a step that reads columns by position, or, if they had names in training, by name from a table."""
    names = [str(name) for name in getattr(trained, "feature_names_in_", [])]
    return step([numbers(name) for name in names], trees, int(trained.n_features_in_))


def numbers(name: str, fill: float | None = None, missing: Iterable[str] = (), dates: bool = False) -> dict[str, Any]:
    """Return how a column of numbers is read, or of dates as days since 1970."""
    more = {"type": "datetime64[s]", "unit": 86400.0} if dates else {"type": "float64", "unit": 1.0}
    return {"names": [name], "levels": None, "fill": fill, "missing": _codes(missing, dates), **more}


def categories(
    names: Sequence[str],
    levels: Sequence[Sequence[str]],
    unseen: float | None,
    checked: bool,
    fill: str | None = None,
    missing: Iterable[str] = (),
) -> dict[str, Any]:
    """Return how columns of categories are read: the number of the combination, and `unseen` for other ones.

    With `checked`, other combinations cause a warning, or an error if `unseen` is None.
    """
    return {
        "names": list(names), "levels": np.array([list(level) for level in levels], str), "unseen": unseen,
        "checked": checked, "fill": fill, "missing": _codes(missing, False),
    }  # fmt: skip


def _codes(missing: Iterable[str], dates: bool) -> list[str]:
    """Return the texts that stand for a missing value, in small letters."""
    return sorted({*MISSING, "<na>", *(["nat"] if dates else []), *(code.strip().lower() for code in missing)})


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


def _step(given: Any) -> dict[str, Any]:
    """Return an encoder or a scaler as a step."""
    if hasattr(given, "recipe_"):
        return _encoder(given.recipe_)
    if type(given).__name__ == "StandardScaler":
        width = int(given.n_features_in_)
        centre = given.mean_ if given.with_mean else np.zeros(width)
        scale = given.scale_ if given.with_std else np.ones(width)
        return _of_arrays(given, [_scaled(j, centre[j], scale[j]) for j in range(width)])
    raise UserError(f"export cannot hold {type(given).__name__}; it holds TableEncoder and StandardScaler.")


def _encoder(recipe: Recipe) -> dict[str, Any]:
    """Return the encoding of a table: standardised numbers, and 0 and 1 per category; an unseen one is between two."""
    if odd := [c.name for c in recipe.columns if not isinstance(c, Number | Levels) or c.reading.unit]:
        raise UserError(
            f"export cannot encode the columns {', '.join(map(repr, odd))}: it takes plain numbers and categories; "
            "encode dates, groups and numbers with units yourself, or use sitewise.save."
        )
    columns, trees = list[dict[str, Any]](), list[Tree]()
    for c in recipe.columns:
        at = len(columns)
        if isinstance(c, Number):
            columns.append(numbers(c.name, c.fill, recipe.missing))
            trees.append(_scaled(at, c.centre, c.scale))
        elif isinstance(c, Levels):
            two = len(c.levels) == 2
            columns.append(
                categories([c.name], [[one] for one in c.levels], 0.5 if two else -1.0, True, c.fill, recipe.missing)
            )
            trees += [at] if two else [["equal", at, float(k)] for k in range(len(c.levels))]
    return step(columns, trees)


def _scaled(column: int, centre: float, scale: float) -> Tree:
    return ["divide", ["add", column, -float(centre)], float(scale)]


def _estimator(estimator: Any) -> dict[str, Any]:
    """Return the latent functions of an estimator and what turns them into predictions."""
    if not hasattr(estimator, "_latents"):
        hint = "; pass its best_estimator_" if hasattr(estimator, "best_estimator_") else ""
        raise UserError(f"export cannot hold {type(estimator).__name__}; it holds GPClassifier and GPRegressor{hint}.")
    if estimator._side:
        hint = "write offset(log(…)) in a formula, or " if "exposure" in estimator._side else ""
        raise UserError(f"export holds no models with {', '.join(estimator._side)}; {hint}use model.save.")
    functions, links = [], set()
    units = {"centre": float(getattr(estimator, "y_mean_", 0.0)), "scale": float(getattr(estimator, "y_scale_", 1.0))}
    for latent in estimator._latents:
        if not latent.has_sites:
            raise UserError("export holds Gaussian approximations, not draws of method='mcmc'; use model.save.")
        posteriors, weight = latent.posteriors()
        found = [_component(one, int(estimator.n_features_in_)) for one in posteriors]
        links |= {link for link, _ in found}
        for link, one in found:
            one["response"] |= units if link == "identity" else {}
        functions.append(([float(w) for w in weight], [one for _, one in found]))
    (link,) = links
    classes = getattr(estimator, "classes_", None)
    in_units = link == "identity" or units == {"centre": 0.0, "scale": 1.0}
    if (classes is not None) != (link in ("probit", "logit", "softmax")) or not in_units:
        raise UserError(f"export does not support the likelihood {estimator.likelihood!r}; use model.save.")
    if classes is not None and classes.dtype.kind == "O":
        classes = classes.astype(str)
    return {"link": link, "functions": functions, "classes": classes}


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
    kernels = [described(kernel, columns) for kernel in found.kernels]
    loads = [[{"kernel": kernel, "Z": found.Z}] for kernel in kernels]
    if found.parts:
        of_parts = described_parts(found.parts, columns)
        kernels = [total([of_parts.kernel, *kernels])]
        loads = [[*of_parts.loads, *(load for each in loads for load in each)]]
        arrays = _with_parts(arrays, of_parts)
    return link, {
        "kernels": kernels, "loads": loads, "constant": constant, "slope": np.array(slope), "response": response,
        **arrays,
    }  # fmt: skip


def _with_parts(arrays: dict[str, np.ndarray], of_parts: DescribedSum) -> dict[str, np.ndarray]:
    """Return the arrays for the variables of parts in the order of their loads, and the roots of their residuals.

    Without further points, the posterior covariances are part of P: one matrix in place of two.
    """
    variables, root = of_parts.order, of_parts.root[:, of_parts.order]
    order = np.concatenate([variables, np.arange(len(variables), arrays["alpha"].shape[1])])
    alpha, Q = arrays["alpha"][:, order], arrays["Q"][:, :, order]
    for where, W in of_parts.whitened:
        alpha[..., where], Q[..., where] = alpha[..., where] @ W.T, Q[..., where] @ W.T
    if not arrays["sign"].size:
        P, sign = difference_of_roots(root, Q[0])
        return {"alpha": alpha, "P": P[None], "sign": sign, "Q": np.empty((1, 0, len(variables)))}
    P = np.zeros((len(root) + len(arrays["sign"]), alpha.shape[1]))
    P[: len(root), : len(variables)], P[len(root) :, len(variables) :] = root, arrays["P"][0]
    return {"alpha": alpha, "P": P[None], "sign": np.concatenate([np.ones(len(root)), arrays["sign"]]), "Q": Q}


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
