"""Model files: arrays and JSON with a checksum, no code.  docs/reference/model-file.md describes the format.

    "SITEWISE" | version u4 | header length u8 | header (JSON) | arrays, one after the other | SHA-256 of all before

Nothing is compressed, and every length is checked against the length of the file before use: reading needs no more
memory than the size of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sitewise.data import Data, bucket
from sitewise.errors import UserError
from sitewise.estimators.replaced import translate
from sitewise.estimators.serialise import DTYPES, decode, encode
from sitewise.estimators.side_information import KEYWORDS
from sitewise.fitted.function import FittedFunction
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent
from sitewise.fitted.sampled import Sampled
from sitewise.kernels import Kernel
from sitewise.likelihoods import Likelihood
from sitewise.mcmc import HyperSamples
from sitewise.means import Mean
from sitewise.model import Model, check
from sitewise.parameters import Trainable, walk
from sitewise.priors import Prior
from sitewise.sites import Sites

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

MAGIC = b"SITEWISE"
VERSION = 3
READABLE = (1, 2, 3)
_FRONT = struct.Struct("<8sIQ")
_CHECK = hashlib.sha256().digest_size

# Attributes set by fit, besides the latent functions; absent attributes are left out.  `table_` is plain data of the
# application, which the library stores without reading it.
_FITTED = (
    "n_features_in_", "feature_names_in_", "_names", "classes_", "class_weight_", "multi_class_", "y_mean_", "y_scale_",
    "n_iter_", "converged_", "fit_report_", "kernel_weights_", "_X", "_y", "_weight", "_side", "table_",
)  # fmt: skip


# Fitted attributes of a StandardScaler of scikit-learn.
_SCALER = ("mean_", "var_", "scale_", "n_features_in_", "n_samples_seen_", "feature_names_in_")


class ModelFileError(UserError):
    """The file is not a model that this version of sitewise can read; the message says why."""


def load(path: str | os.PathLike[str], kinds: Mapping[str, type]) -> Any:
    """Read a model written by `save`.  The file contains no code, and loading runs none."""
    with open(path, "rb") as file:
        front = file.read(len(MAGIC))
        if front != MAGIC:
            raise ModelFileError(f"{path} is not a sitewise model file; load reads files written by model.save(path).")
        content = front + file.read()
    try:
        return from_bytes(content, kinds)
    except ModelFileError as problem:
        raise ModelFileError(f"{path}: {problem}") from problem


def to_bytes(estimator: Any) -> bytes:
    """Return a fitted model as the content of a file."""
    arrays: list[np.ndarray] = []
    header = _encode_model(estimator, arrays)
    header["arrays"] = [{"dtype": a.dtype.str.lstrip("<"), "shape": list(a.shape)} for a in arrays]
    text = json.dumps(header, ensure_ascii=True).encode()
    body = _FRONT.pack(MAGIC, VERSION, len(text)) + text + b"".join(a.tobytes() for a in arrays)
    return body + hashlib.sha256(body).digest()


def _encode_model(model: Any, arrays: list[np.ndarray]) -> dict[str, Any]:
    """Encode a fitted estimator, a table encoder, or a pipeline of them."""
    from sklearn.pipeline import Pipeline  # slow to import, and a fit does not need it
    from sklearn.preprocessing import StandardScaler

    if isinstance(model, Pipeline):
        return {"estimator": "Pipeline", "steps": [[name, _encode_model(step, arrays)] for name, step in model.steps]}
    if type(model) is StandardScaler:
        state = {name: getattr(model, name) for name in _SCALER if hasattr(model, name)}
        parameters = {name: value for name, value in model.get_params().items() if name != "copy"}
        return {"estimator": "StandardScaler", "parameters": encode(parameters, arrays), "state": encode(state, arrays)}
    if hasattr(model, "restored"):  # an estimator with plain data around it
        inner = _encode_model(model.inner, arrays)
        return {"estimator": type(model).__name__, "state": encode(model.state, arrays), "inner": inner}
    if not hasattr(model, "_latents") and not hasattr(model, "_state"):
        raise UserError(
            f"A model file cannot hold {type(model).__name__}: it holds fitted estimators of sitewise, and pipelines "
            "of StandardScaler or TableEncoder and an estimator; use pickle for other steps."
        )
    header = {"estimator": type(model).__name__, "parameters": encode(model.get_params(deep=False), arrays)}
    if hasattr(model, "_state"):
        return {**header, "state": encode(model._state(), arrays)}
    fitted = {k: getattr(model, k) for k in _FITTED if hasattr(model, k)}
    latents = [{name: encode(value, arrays) for name, value in latent.stored().items()} for latent in model._latents]
    return {**header, "fitted": encode(fitted, arrays), "latents": latents}


def from_bytes(content: bytes, kinds: Mapping[str, type]) -> Any:
    """Build the model from the content of a file; `kinds` are the allowed estimators, by name."""
    whole = len(content) >= _FRONT.size + _CHECK
    if not whole or hashlib.sha256(content[:-_CHECK]).digest() != content[-_CHECK:]:
        raise ModelFileError("the file is damaged or cut short (its checksum does not match); restore it from a copy.")
    _, version, length = _FRONT.unpack_from(content)
    if version not in READABLE:
        raise ModelFileError(
            f"the file has format {version}, but this sitewise reads formats up to {VERSION}; install a newer sitewise."
        )
    try:
        return _build(*_split(memoryview(content)[_FRONT.size : -_CHECK], length), kinds)
    except Exception as problem:  # the checksum is right, but the content is not a model: any error may follow
        raise ModelFileError(f"the file does not describe a model ({type(problem).__name__}: {problem}).") from problem


def _split(body: memoryview, length: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Split into the header and its arrays, which must fill the rest exactly."""
    if length > len(body):
        raise ValueError("the header is longer than the file")
    header = json.loads(bytes(body[:length]))
    arrays, at = [], length
    for entry in header["arrays"]:
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), entry["shape"]
        if not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError("a shape is not a list of whole numbers")
        size = dtype.itemsize
        for n in shape:
            size *= n
        if at + size > len(body):
            raise ValueError("an array is longer than the file")
        arrays.append(np.frombuffer(body[at : at + size], dtype).reshape(shape))
        at += size
    if at != len(body):
        raise ValueError("there are bytes that belong to no array")
    return header, arrays


def _build(header: dict[str, Any], arrays: list[np.ndarray], kinds: Mapping[str, type]) -> Any:
    if header["estimator"] == "Pipeline":
        from sklearn.pipeline import Pipeline

        return Pipeline([(str(name), _build(step, arrays, kinds)) for name, step in header["steps"]])
    if header["estimator"] == "StandardScaler":
        return _build_scaler(decode(header["parameters"], arrays), decode(header["state"], arrays))
    if "inner" in header:
        wrapper: Any = kinds[header["estimator"]]
        return wrapper.restored(decode(header["state"], arrays), _build(header["inner"], arrays, kinds))
    estimator = kinds[header["estimator"]](**translate(decode(header["parameters"], arrays)))
    if "state" in header:
        return estimator._restore(decode(header["state"], arrays))
    fitted = decode(header["fitted"], arrays)
    if set(fitted) - set(_FITTED):
        raise ValueError(f"unknown attributes {sorted(set(fitted) - set(_FITTED))}")
    for name, value in fitted.items():
        setattr(estimator, name, value)
    rows = len(estimator._X)
    _check(estimator._X, (rows, estimator.n_features_in_))
    _check(estimator._y, (rows,))
    _check(estimator._weight, (rows,))
    for name, column in estimator._side.items():
        if name not in KEYWORDS or column.shape != (rows,) or np.any(np.isnan(column)):
            raise ValueError(f"{name!r} is not one number per row")
    merged = estimator._merged()
    latents = [
        _build_latent({name: decode(value, arrays) for name, value in part.items()}, m.data)
        for part, m in zip(header["latents"], merged, strict=True)
    ]
    estimator._store(merged, latents)
    return estimator


def _build_scaler(parameters: dict[str, Any], state: dict[str, Any]) -> StandardScaler:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(**{name: bool(parameters[name]) for name in ("with_mean", "with_std")})
    if set(state) - set(_SCALER):
        raise ValueError(f"unknown attributes {sorted(set(state) - set(_SCALER))}")
    for name, value in state.items():
        if name in _SCALER[:3] and value is not None:
            _check(value, (int(state["n_features_in_"]),))
        setattr(scaler, name, value)
    return scaler


def _build_latent(part: dict[str, Any], data: Data) -> FittedFunction:
    likelihood = part["likelihood"]
    _require(likelihood, Likelihood)
    prior = part["prior"] if "prior" in part else _prior_of_format_1(part, likelihood)
    _require(prior, Prior)
    _require(prior.kernel, Kernel)
    _require(prior.mean, Mean)
    model = Model(prior, likelihood)
    check(model, data)
    if "sampled" in part:
        return _build_sampled(part, model, data)
    padded = Sites(part["nat1"], part["prec"])
    for a in padded:
        _check(a, padded.nat1.shape)
    sites = Sites(*(a[..., : data.rows] for a in padded))
    check(model, data, sites)
    main = Latent.of(model, data, sites)
    return _build_integrated(part, main, data) if "weight" in part else main


def _build_integrated(part: dict[str, Any], main: Latent, data: Data) -> IntegratedLatent:
    nodes = zip(part["priors"], part["likelihoods"], part["sites"], strict=True)
    parts = [
        _build_latent({"prior": prior, "likelihood": likelihood, "nat1": nat1, "prec": prec}, data)
        for prior, likelihood, (nat1, prec) in nodes
    ]
    _check(part["weight"], (len(parts),))
    if not parts or np.any(part["weight"] < 0) or not np.isclose(np.sum(part["weight"]), 1):
        raise ValueError("the weights of the nodes are not shares")
    return IntegratedLatent.made(main, tuple(p for p in parts if isinstance(p, Latent)), part["weight"])


def _prior_of_format_1(part: dict[str, Any], likelihood: Likelihood) -> Prior:
    """Build the prior from its parts, as written by version 0.1.0; joint classes have a list of kernels."""
    kernel, mean, jitter, Z = part["kernel"], part["mean"], float(part["jitter"]), part.get("inducing")
    for one in kernel if isinstance(kernel, list) else [kernel]:
        _require(one, Kernel)
    if Z is None:
        return Model.full(kernel, likelihood, mean, jitter).prior
    return Model.sparse(kernel, likelihood, Z, mean, jitter).prior


def _require(value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"found {type(value).__name__} where a {kind.__name__.lower()} must be")


def _build_sampled(part: dict[str, Any], model: Model, data: Data) -> Sampled:
    tied = part.get("tied", ())
    names = [*part["sampled"], *(name for group in tied for name in group)]
    trainable = Trainable.of(model, [p.name for p, _ in walk(model) if p.name not in names], names, tied=tied)
    chains, draws = part["vectors"].shape[:2]
    rows = bucket(data.rows)
    _check(part["vectors"], (chains, draws, trainable.size))
    _check(part["z"], (chains, draws, rows))
    # Old files of the slice sampler hold the share of rejected moves.
    accepted = part["accepted"] if "accepted" in part else 1 - part["stuck"]
    _check(accepted, (chains,))
    if part["limits"].shape != (trainable.size, 2) or chains * draws == 0:
        raise ValueError("there are no draws, or not one pair of limits per hyperparameter")
    return Sampled(
        HyperSamples(
            model=model, data=data.pad(rows), trainable=trainable, vectors=part["vectors"], z=part["z"],
            limits=part["limits"], accepted=accepted,
        )
    )  # fmt: skip


def _check(array: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"an array is not finite or does not have the shape {shape}")
