"""Methods of tasks by name: a learner, and modifiers of its starting model.

hybrid              the learner of that name (sitewise.resolve) on the set's model, from ℓ = σ² = 1; with inducing
                    inputs VI's sites with the collapsed evidence (in the library: EP)
hybrid@ard          one lengthscale per feature
vi@m500             sparse, with 500 inducing inputs by k-means
ep@from-hybrid      started at the hyperparameters that the hybrid found (those of the store, if it has them)
hybrid-ep, hybrid-0.5   VI's sites with EP's evidence, of power 1 and 0.5, on any prior
laplace-softplus    Laplace's method as computed and searched for the printed tables (`laplace`)
ep-frozen           EP as in the printed tables, with sites held fixed during learning (`frozen`)
vi-joint            VI as in the printed tables: q and the hyperparameters in one search (`joint`)
dense-ep, dense-elbo    Algorithm 1 and VI as in the printed sparse table, with one dense site (`dense_sites`)
mcmc                hyperparameters sampled (`sampled`)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from sitewise import METHODS, VEM, Data, Inference, Model, Nested, evidence, inducing, kernels, likelihoods, resolve
from sitewise.errors import UserError
from sitewise.learning.fit import Fit
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite
from sitewise.parameters import with_values
from sitewise_icml2023 import many_fits, vem_batches

# VI's sites with EP's evidence of this power; on a sparse prior the library's `hybrid` reads another evidence.
EXTRA = {"hybrid-ep": 1.0, "hybrid-0.5": 0.5}
KNOWN = (*(name for name, method in METHODS.items() if not method.samples), *EXTRA)
# Computed as for the printed tables, on full models of two classes, without a learner of the library.
FROZEN, SEARCHED, JOINT = "ep-frozen", "laplace-softplus", "vi-joint"
SAMPLED, NARROW = "mcmc", "mcmc-narrow"  # the second with narrow limits of the flat priors
DENSE = ("dense-ep", "dense-elbo")  # with inducing inputs only
ALGORITHM_1 = "hybrid-vem"
# Beyond these bounds sparse evidences are flat; without them a search does not end.
SPARSE_BOUNDS = {"kernel.lengthscale": (0.05, 500.0), "kernel.variance": (1e-3, 1e5)}
# Algorithm 1 on robust regression: published numbers of rounds.
STUDENT_T_ROUNDS = {"neal": 2000, "boston": 5000, "boston_uci": 5000, "stock": 5000}


Theta = Mapping[str, Any]  # values of hyperparameters by name


@dataclasses.dataclass(frozen=True)
class Method:
    """A learner and the modifiers of its start; `start` names the method whose hyperparameters it starts from."""

    learner: str
    ard: bool = False
    inducing: int = 0
    start: str = ""


def parse(text: str) -> Method:
    """Return the method of a name such as vi@m500."""
    name, *modifiers = text.split("@")
    every = (*KNOWN, FROZEN, SEARCHED, JOINT, SAMPLED, NARROW, *DENSE)
    if name not in every:
        raise UserError(f"Unknown method {name!r}; choose one of {', '.join(every)}.")
    method = Method(name)
    for modifier in modifiers:
        if modifier == "ard":
            method = dataclasses.replace(method, ard=True)
        elif re.fullmatch(r"m[1-9]\d*", modifier):
            method = dataclasses.replace(method, inducing=int(modifier[1:]))
        elif modifier.startswith("from-") and modifier[5:] in KNOWN:
            method = dataclasses.replace(method, start=modifier[5:])
        else:
            raise UserError(f"Unknown modifier @{modifier} in {text!r}; use @ard, @m500 or @from-hybrid.")
    if method.learner in (FROZEN, SEARCHED, JOINT) and method.inducing:
        raise UserError(f"{name} is for full models; leave out @m{method.inducing}.")
    if method.learner in DENSE and (not method.inducing or method.ard or method.start):
        raise UserError(f"{name} needs inducing inputs and takes nothing else; use {name}@m500.")
    if method.learner == JOINT and method.start:
        raise UserError(f"{JOINT} has one start; leave out @from-{method.start}.")
    return method


def model(method: Method, kind: str, X: np.ndarray) -> Model:
    """Return the starting model."""
    rule: Any = {"quadrature": GaussHermite(20)} if method.learner in ("hybrid-vem", JOINT) else {}  # the published one
    likelihood = likelihoods.StudentT(**rule) if kind == "regression" else likelihoods.BernoulliProbit(**rule)
    start = np.sqrt(X.shape[1]) if method.inducing else 1.0
    lengthscale: Any = np.full(X.shape[1], start) if method.ard else start
    kernel = kernels.Matern52(lengthscale=lengthscale)
    if method.inducing:
        return Model.sparse(kernel, likelihood, inducing.select(X, "kmeans", method.inducing, seed=0))
    return Model.full(kernel, likelihood, jitter=1e-6)


def learner(method: Method, kind: str, name: str) -> Nested | VEM:
    """Return the learner, with settings for a full or a sparse prior."""
    if method.learner == "hybrid-vem" and kind == "regression":
        return VEM.published_student_t(STUDENT_T_ROUNDS.get(name, 5000), name="hybrid-vem")
    if method.learner in EXTRA:
        chosen = resolve("hybrid", evidence=evidence.power_ep(EXTRA[method.learner]))
    elif method.learner == "hybrid" and method.inducing:
        chosen = resolve("hybrid", evidence="collapsed")
    else:
        chosen = resolve(method.learner)
    if method.inducing and isinstance(chosen, Nested):
        pairs = {k: dataclasses.replace(pair, inference=_loose(pair.inference)) for k, pair in chosen.variants.items()}
        chosen = dataclasses.replace(
            chosen, inference=_loose(chosen.inference), variants=pairs, bounds=SPARSE_BOUNDS, tol=3e-5, max_rounds=60
        )
    return chosen


def _loose(inference: Inference) -> Inference:
    """Return the inference with the tolerance that the learner needs on a sparse prior."""
    return dataclasses.replace(inference, tol=1e-6)


def start_name(text: str) -> str:
    """Return the name of the method whose hyperparameters this method starts from; empty if there is none."""
    method = parse(text)
    return f"{method.start}@ard" if method.start and method.ard else method.start


def start(method: Method, kind: str, name: str, data: Data, theta: Theta) -> Model:
    """Return the starting model: at θ if it is known, else after learning by `start` if the method has one."""
    first = model(method, kind, np.asarray(data.X))
    if not method.start:
        return first
    if theta:
        return with_values(first, {key: np.asarray(value) for key, value in theta.items()})
    return _fit(dataclasses.replace(method, learner=method.start, start=""), kind, name, first, data).model


def fit(text: str, kind: str, name: str, X: np.ndarray, y: np.ndarray, theta: Theta) -> Fit:
    """Train the method on these rows."""
    method, data = parse(text), Data.of(X, y)
    return _fit(method, kind, name, start(method, kind, name, data, theta), data)


def _fit(method: Method, kind: str, name: str, start: Model, data: Data) -> Fit:
    chosen = learner(method, kind, name)
    if isinstance(chosen, VEM) and not method.inducing:
        return vem_batches.fit_many(chosen, start, [data])[0]
    return chosen.fit(start, data)


def shares_programs(text: str) -> bool:
    """Return whether the method's programs depend only on the number of rows: full prior, and one lengthscale or
    Algorithm 1, whose steps leave the lengthscales of columns of zeros where they are."""
    method = parse(text)
    same = not method.ard or method.learner == ALGORITHM_1
    return same and not (method.inducing or method.start) and method.learner in KNOWN


def is_batched_vem(text: str) -> bool:
    """Return whether the method is trained by `vem_batches`."""
    method = parse(text)
    return method.learner == ALGORITHM_1 and not (method.inducing or method.start)


def fit_many(text: str, kind: str, name: str, parts: list[tuple[np.ndarray, np.ndarray]]) -> list[Fit] | None:
    """Train the method on many (X, y) in one program; None if the method trains them one by one."""
    method = parse(text)
    if method.start or method.learner not in KNOWN:
        return None
    models = [model(method, kind, X) for X, _ in parts]
    if len({tuple(map(np.shape, jax.tree.leaves(m))) for m in models}) > 1:  # fewer distinct inputs than asked for
        return None
    chosen, data = learner(method, kind, name), [Data.of(X, y) for X, y in parts]
    return many_fits.fit_many(chosen, models, data)
