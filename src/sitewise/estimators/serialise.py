"""Serialisation to JSON without code: numbers, strings, arrays, and objects of a fixed list of classes.

Classes are looked up in `CLASSES` only; nothing is imported or evaluated by name.  Arrays of numbers are stored outside
of the JSON, which refers to them by {"array": number}.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from sitewise import (
    evidence,
    hyperparameters,
    hyperpriors,
    inference,
    kernel_choice,
    kernels,
    likelihoods,
    means,
    methods,
    parts,
    priors,
    structures,
)
from sitewise.numerics import quadrature

_MODULES = {
    "kernels": kernels,
    "likelihoods": likelihoods,
    "means": means,
    "parts": parts,
    "priors": priors,
    "hyperpriors": hyperpriors,
    "inference": inference,
    "quadrature": quadrature,
    "hyperparameters": hyperparameters,
    "kernel_choice": kernel_choice,
    "structures": structures,
}
# The public dataclasses of these modules.
CLASSES: dict[str, type] = {
    f"{package}.{name}": kind
    for package, module in _MODULES.items()
    for name in module.__all__
    if isinstance(kind := getattr(module, name), type) and dataclasses.is_dataclass(kind)
}
CLASSES["methods.Method"] = methods.Method
_NAMES = {cls: name for name, cls in CLASSES.items()}
DTYPES = {"f8": "<f8", "i8": "<i8"}


def _library_evidence(value: evidence.Evidence) -> str | None:
    """Return the name of an evidence of the library, at any power; None for an evidence defined by a user."""
    for name in evidence.ALL:
        if value in (_evidence(name, value.power), dataclasses.replace(evidence.ALL[name], power=value.power)):
            return name
    return None


def _evidence(name: str, power: float) -> evidence.Evidence:
    known = evidence.ALL[name]
    return evidence.power_ep(power) if known is evidence.ep else dataclasses.replace(known, power=power)


def encode(value: Any, arrays: list[np.ndarray]) -> Any:
    """Encode `value` as JSON; arrays of numbers are appended to `arrays`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), arrays)
    if isinstance(value, jax.Array):
        value = np.asarray(value)
    if isinstance(value, evidence.Evidence) and (name := _library_evidence(value)) is not None:
        return {"evidence": name, "power": value.power}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        arrays.append(np.array(value, "<f8" if value.dtype.kind == "f" else "<i8", order="C"))
        return {"array": len(arrays) - 1, "as": value.dtype.str}
    if isinstance(value, np.ndarray) and all(isinstance(v, str) for v in value.flat) and value.ndim == 1:
        return {"text": [str(v) for v in value], "object": value.dtype.kind == "O"}
    if isinstance(value, tuple):
        return {"tuple": [encode(v, arrays) for v in value]}
    if isinstance(value, list):
        return [encode(v, arrays) for v in value]
    if isinstance(value, dict):
        return {"map": [[encode(k, arrays), encode(v, arrays)] for k, v in value.items()]}
    if type(value) in _NAMES:
        fields = {f.name: encode(getattr(value, f.name), arrays) for f in dataclasses.fields(value) if f.init}
        return {"class": _NAMES[type(value)], "fields": fields}
    raise ValueError(
        f"A model file cannot hold {type(value).__name__} ({value!r}); it holds numbers, text, arrays and the kernels, "
        "means, likelihoods and priors of sitewise. Use pickle for your own classes."
    )


def decode(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return the value that `encode` encoded."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [decode(v, arrays) for v in value]
    if not isinstance(value, dict):
        raise ValueError(f"unexpected {type(value).__name__}")
    if "array" in value:
        dtype = np.dtype(str(value["as"]))
        if dtype.kind not in "fiub":
            raise ValueError(f"unexpected type of numbers {value['as']!r}")
        return arrays[value["array"]].astype(dtype)
    if "text" in value:
        if not all(isinstance(v, str) for v in value["text"]):
            raise ValueError("unexpected entry in a list of text")
        return np.array(value["text"], dtype=object if value["object"] else str)
    if "tuple" in value:
        return tuple(decode(v, arrays) for v in value["tuple"])
    if "map" in value:
        return {decode(k, arrays): decode(v, arrays) for k, v in value["map"]}
    if "evidence" in value:
        return _evidence(value["evidence"], float(value["power"]))
    if value.get("class") in CLASSES:
        return CLASSES[value["class"]](**{k: decode(v, arrays) for k, v in value["fields"].items()})
    raise ValueError(f"unknown class {value.get('class')!r}")
