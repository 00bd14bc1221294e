"""Named methods: which inference and which evidence a name stands for, on every structure of prior.

Everything that lists methods (estimators, commands, comparison, reports, documents) reads `METHODS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sitewise import evidence as ev
from sitewise.evidence import Evidence
from sitewise.inference import EP, VI, Inference, Laplace
from sitewise.learning.nested import Nested
from sitewise.learning.problem import Pair
from sitewise.learning.vem import VEM


@dataclasses.dataclass(frozen=True)
class Method:
    """How to infer and to learn.

    label     for tables and reports
    about     one sentence for documents and command-line help
    pair      inference, evidence and gradient; None for a method that samples
    variants  structure of a prior ("sparse", "classes") → the pair used there instead
    learner   Nested maximises the profile objective; VEM is the paper's Algorithm 1
    """

    name: str
    label: str
    about: str
    pair: Pair | None
    variants: Mapping[str, Pair] = dataclasses.field(default_factory=dict)
    learner: type[Nested] | type[VEM] = Nested

    @property
    def samples(self) -> bool:
        return self.pair is None

    def pair_on(self, structure: str) -> Pair | None:
        """The pair on a prior of this structure; None for a method that samples."""
        return self.variants.get(structure, self.pair)

    def objective_on(self, structure: str) -> str | None:
        """The name of the evidence that was maximised, if it can be computed on the final sites; else None."""
        pair = self.pair_on(structure)
        return None if pair is None or pair.final is not None else pair.evidence.name


# Where the evidence is stationary in the sites, the gradient with constant sites is exact and needs no adjoint solve;
# the setting is "auto" because the evidence is stationary only where no site is at its limit (see `Nested`).
_STATIONARY = "auto"

# On a sparse prior the evidence has to say what becomes of the residual variance.  Averaged inside the logarithm it
# needs sites that were fitted to the averaged likelihood, which are EP's; the bounds (`elbo`, `tight`, `collapsed`)
# underfit where inducing inputs are few (decision 018).
# For joint classes EP's evidence on VI's sites falls where the true one rises, so that hyperparameters come from
# Laplace's evidence on Laplace's sites (decision 008).  That evidence is not stationary in the sites: with an error of
# 1e-8 in them the ascent would not find the optimum.  With inducing inputs Laplace's evidence does not see the residual
# variance, and prefers short lengthscales that leave much of it; the ELBO does (decision 019).
_HYBRID_VARIANTS = {
    "sparse": Pair(EP(), ev.ep, _STATIONARY),
    "classes": Pair(Laplace(tol=1e-10), ev.laplace, final=VI()),
    "sparse classes": Pair(VI(tol=1e-6), ev.elbo, _STATIONARY),
}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("laplace", "Laplace", "Laplace's sites and evidence.", Pair(Laplace(), ev.laplace)),
        Method("ep", "EP", "EP's sites and evidence.", Pair(EP(), ev.ep, _STATIONARY)),
        Method("vi", "VI", "Variational sites; learns from the ELBO.", Pair(VI(), ev.elbo, _STATIONARY)),
        Method(
            "hybrid",
            "hybrid (VI + EP evidence)",
            "Variational sites; learns from EP's evidence of the same sites by its exact gradient.  With inducing "
            "inputs EP's sites and evidence, and for joint classes the ELBO.  The default.",
            Pair(VI(), ev.ep),
            _HYBRID_VARIANTS,
        ),
        Method(
            "hybrid-vem",
            "hybrid, Algorithm 1",
            "The hybrid trained by Algorithm 1 of the paper, which holds the sites constant while it learns.",
            Pair(VI(), ev.ep, "fixed"),
            {"sparse": Pair(VI(), ev.collapsed, "fixed")},
            learner=VEM,
        ),
        Method("mcmc", "MCMC", "Averages over draws of hyperparameters and latent function.", None),
    )
}
DEFAULT = "hybrid"


def method_named(name: str) -> Method:
    if name not in METHODS:
        raise ValueError(f"Unknown method {name!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


def resolve(
    method: str = DEFAULT,
    *,
    inference: str | Inference | None = None,
    evidence: str | Evidence | None = None,
    gradient: str | None = None,
    power: float | None = None,
    **settings: Any,
) -> Nested | VEM:
    """The learner that a name stands for; `inference`, `evidence`, `gradient` and `power` replace its parts.

    A variant of the method for a structure of prior keeps its own evidence unless that is replaced.
    """
    chosen = method_named(method)
    if chosen.pair is None:
        raise ValueError(f"{method} samples and has no learner; use sitewise.mcmc.sample, or an estimator.")
    own = inference is None and evidence is None and power is None
    sites = _inference(inference) or chosen.pair.inference
    read = _evidence(evidence) or chosen.pair.evidence
    if power is not None:
        if read.terms is not ev.ep.terms:
            raise ValueError(f"power belongs to the ep evidence, but the evidence here is {read.name!r}.")
        read = ev.power_ep(power)
    variants = {} if evidence is not None or power is not None else _changed(chosen.variants, inference, gradient)
    if chosen.learner is VEM:
        if gradient is not None:
            raise ValueError(
                "hybrid-vem holds the sites constant while it learns and has no gradient setting; leave gradient out."
            )
        there = tuple((structure, pair.evidence) for structure, pair in variants.items())
        return VEM(sites, read, name=method, variants=there, **settings)
    slope = gradient or (chosen.pair.gradient if own else "implicit")
    return Nested(sites, read, slope, name=method, variants=variants, **settings)


def _changed(variants: Mapping[str, Pair], inference: str | Inference | None, gradient: str | None) -> dict[str, Pair]:
    """The variants with another inference or gradient.

    A variant that ends with other sites than it learns from needs its own inference; where that is replaced, the
    variant is left out.
    """
    kept = {k: v for k, v in variants.items() if inference is None or v.final is None}
    return {
        k: dataclasses.replace(v, inference=_inference(inference) or v.inference, gradient=gradient or v.gradient)
        for k, v in kept.items()
    }


def _inference(value: str | Inference | None) -> Inference | None:
    if not isinstance(value, str):
        return value
    known = {pair.inference.name: pair.inference for m in METHODS.values() if (pair := m.pair) is not None}
    if value not in known:
        raise ValueError(f"Unknown inference {value!r}; choose one of {', '.join(known)}.")
    return known[value]


def _evidence(value: str | Evidence | None) -> Evidence | None:
    if not isinstance(value, str):
        return value
    if value not in ev.ALL:
        raise ValueError(f"Unknown evidence {value!r}; choose one of {', '.join(ev.ALL)}.")
    return ev.ALL[value]
