"""Arguments of the estimators before 0.3, and the values that replace them.

`translate` serves the TypeError for an old argument and model files of 0.1.0 and 0.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sitewise.hyperparameters import Hyperparameters
from sitewise.kernel_choice import PerColumn
from sitewise.kernels import Kernel
from sitewise.methods import DEFAULT, Method
from sitewise.setting import same
from sitewise.structures import Full, Series, Sparse, structure_of

# Old argument of an estimator → field of `Method`.
_METHOD = {
    "inference": "inference", "evidence": "evidence", "gradient": "gradient", "power": "power",
    "max_iter": "max_iter", "tol": "tol", "n_restarts": "restarts",
}  # fmt: skip
_HYPERPARAMETERS = ("bounds", "priors", "fixed", "train", "tied")
_REFRESHED = "refreshed"
# The old arguments with their defaults.
REPLACED: dict[str, Any] = {
    "ard": "auto", "additive": False, **dict.fromkeys(_METHOD), "n_restarts": 0, "sampling": None,
    **dict.fromkeys(_HYPERPARAMETERS), "series": None, "n_inducing": None, "inducing": "kmeans", "jitter": 0.0,
}  # fmt: skip


def translate(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator with old arguments replaced by the equivalent values."""
    old = {name: parameters.get(name, default) for name, default in REPLACED.items()}
    new = {name: value for name, value in parameters.items() if name not in REPLACED}
    if len(new) == len(parameters):
        return new
    found = {
        "kernel": _kernel(new.get("kernel"), old),
        "method": _method(new.get("method", DEFAULT), old),
        "hyperparameters": _hyperparameters(new.get("hyperparameters"), old),
        "structure": _structure(new.get("structure", "auto"), old),
    }
    return {**new, **{name: value for name, value in found.items() if name in new or value is not None}}


def refuse(estimator: str, known: Collection[str], given: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Raise TypeError with the replacement if an argument is from an earlier version.

    `known` are the estimator's arguments, and `present` the values of arguments that are not given.
    """
    old = [name for name in given if name in REPLACED and name not in known]
    if not old:
        return
    names = ", ".join(map(repr, old))
    try:
        sentence = _instead({**present, **{name: value for name, value in given.items() if "__" not in name}})
    except (TypeError, ValueError) as problem:  # the value was wrong before, too
        sentence = f"the table of 0.3.0 in the CHANGELOG names its replacement ({str(problem).rstrip('.')})"
    raise TypeError(f"{estimator} has no argument {names} since 0.3; {sentence}.")


def _instead(parameters: Mapping[str, Any]) -> str:
    """Return the text that replaces the old arguments among these parameters."""
    asked = dict(parameters)
    if "inducing" in asked and isinstance(asked["inducing"], str) and asked.get("n_inducing") is None:
        asked["n_inducing"] = "auto"  # without the number, the choice of inducing inputs had no effect
    new = translate(asked)
    plain = {"method": DEFAULT, "structure": "auto"}
    changed = {
        name: value
        for name, value in new.items()
        if name in ("kernel", "method", "hyperparameters", "structure")
        and not same(value, parameters.get(name, plain.get(name)))
    }
    if not changed:
        return "leave it out, it has no effect here"
    words = "write " + ", ".join(f"{name}={_text(value)}" for name, value in changed.items())
    chosen = parameters.get("inducing")
    dropped = isinstance(chosen, str) and chosen == _REFRESHED
    return f"{words} without {_REFRESHED!r}, which improved no fit and was removed" if dropped else words


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _kernel(kernel: Any, old: Mapping[str, Any]) -> Any:
    ard, additive = old["ard"], old["additive"]
    if additive:
        return "main_effects" if additive is not True and additive == 1 else "additive"
    if isinstance(ard, str) and ard == "auto":
        return kernel
    if kernel is None:
        return "shrunk" if isinstance(ard, str) else "ard" if ard else "isotropic"
    if isinstance(kernel, Kernel) and ard is not False:
        return PerColumn(kernel, shrunk=isinstance(ard, str))
    return kernel


def _method(method: Any, old: Mapping[str, Any]) -> Any:
    fields = {new: old[name] for name, new in _METHOD.items() if not same(old[name], REPLACED[name])}
    fields |= dict(old["sampling"] or {})
    if not fields:
        return method
    name = "mcmc" if old["sampling"] and method == DEFAULT else method
    return Method.of(name).with_fields(**fields)


def _hyperparameters(value: Any, old: Mapping[str, Any]) -> Any:
    fields = {name: old[name] for name in _HYPERPARAMETERS if old[name] is not None}
    return Hyperparameters.of(value).with_fields(**fields) if fields else value


def _structure(structure: Any, old: Mapping[str, Any]) -> Any:
    count, inputs, jitter = old["n_inducing"], old["inducing"], old["jitter"]
    if old["series"] is not None:
        return Series(old["series"])
    given = not isinstance(inputs, str)
    if given or count is not None:
        choice = "kmeans" if isinstance(inputs, str) and inputs == _REFRESHED else inputs
        return Sparse(**({} if given else {"m": count}), inputs=choice, jitter=jitter)
    if not jitter:
        return structure
    found = structure_of(structure)
    return found.with_fields(jitter=jitter) if "jitter" in found.fields() else Full(jitter)
