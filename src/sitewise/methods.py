"""L3. Named methods, resolved in one place.

laplace     Laplace sites, Laplace evidence
ep          EP sites, EP evidence
vi          VI sites, ELBO
hybrid      VI sites, EP evidence (collapsed on a sparse prior), profile gradient   (the default everywhere)
hybrid-vem  the same pair trained by the paper's Algorithm 1

Of joint classes, `hybrid` gives VI sites at the hyperparameters of Laplace's evidence on Laplace's sites: as the prior
widens, EP's evidence on VI's sites of a softmax falls where the true one rises (decision 008).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sitewise import evidence as ev
from sitewise.evidence import Evidence
from sitewise.inference import EP, VI, Inference, Laplace
from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM

# On a sparse prior EP's evidence rewards residual variance; `collapsed` equals it at Z = X and does not
# (docs/explanation/sparse.md).
HYBRID = dataclasses.replace(ev.ep, on_sparse=ev.collapsed)

PAIRS: dict[str, tuple[Inference, Evidence]] = {
    "laplace": (Laplace(), ev.laplace),
    "ep": (EP(), ev.ep),
    "vi": (VI(), ev.elbo),
    "hybrid": (VI(), HYBRID),
    "hybrid-vem": (VI(), ev.ep),
}
METHODS = tuple(PAIRS)
# Laplace's evidence is not stationary in the sites: an error of 1e-8 in them would hide the optimum from the ascent.
_SHARP = Laplace(tol=1e-10)

# Where the evidence is stationary in the sites, holding them gives the exact gradient and saves the adjoint solve;
# "auto", because they are stationary only where no site is held at its limit (see Nested).
STATIONARY = {"vi", "ep"}


def _choose(kind: str, value: Any, known: dict[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    if value not in known:
        raise ValueError(f"Unknown {kind} {value!r}; choose one of {', '.join(known)}.")
    return known[value]


def resolve(
    method: str = "hybrid",
    *,
    inference: str | Inference | None = None,
    evidence: str | Evidence | None = None,
    gradient: str | None = None,
    power: float | None = None,
    joint: bool = False,
    **settings: Any,
) -> Nested | VEM:
    """The learner that a name stands for; `inference`, `evidence`, `gradient` and `power` override its parts.

    `joint` says that the likelihood is a softmax, with several latent functions for each row.
    """
    plain = inference is None and evidence is None and power is None
    if joint and plain and method == "hybrid":
        return Nested(_SHARP, ev.laplace, gradient or "implicit", name=method, final=VI(), **settings)
    sites, read = _choose("method", method, PAIRS)
    sites = sites if inference is None else _choose("inference", inference, {k: v[0] for k, v in PAIRS.items()})
    read = read if evidence is None else _choose("evidence", evidence, ev.ALL)
    if power is not None:
        if read.name != "ep":
            raise ValueError(f"power belongs to the ep evidence, but the evidence here is {read.name!r}.")
        read = ev.power_ep(power)
    if method == "hybrid-vem":
        if gradient is not None:
            raise ValueError("hybrid-vem holds the sites while it learns; it has no gradient setting.")
        return VEM(sites, read, name=method, **settings)
    stationary = method in STATIONARY and plain
    return Nested(sites, read, gradient or ("auto" if stationary else "implicit"), name=method, **settings)
