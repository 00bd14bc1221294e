"""Named methods: the inference and the evidence of each name, for every structure of prior.

All lists of methods (estimators, commands, reports, documents) come from `METHODS`.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sitewise import evidence as ev
from sitewise.checks import at_least
from sitewise.evidence import Evidence
from sitewise.inference import EP, VI, Inference, Laplace
from sitewise.learning.nested import Nested
from sitewise.learning.problem import Pair
from sitewise.learning.vem import VEM
from sitewise.setting import Setting

_SAMPLING = {"draws": 1, "warmup": 0, "chains": 1, "thin": 1, "min_ess": 1}  # the least value of each
_PARTS = ("inference", "evidence", "gradient", "power")


@dataclasses.dataclass(frozen=True)
class Definition:
    """The inference, evidence and learner behind the name of a method.

    label     for tables and reports
    about     one sentence for documents and command-line help
    pair      inference, evidence and gradient; None for a method that samples
    variants  structure of a prior ("sparse", "classes") → the pair used there instead
    learner   Nested maximises the profile objective; VEM is the paper's Algorithm 1, which holds the sites constant
              while it learns and takes no gradient, tolerance or restarts
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

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the fields of `Method` that this method takes, besides its name."""
        if self.samples:
            return tuple(_SAMPLING)
        if self.learner is VEM:
            return "inference", "evidence", "power", "max_iter"
        return *_PARTS, "max_iter", "tol", "restarts"

    def pair_on(self, structure: str) -> Pair | None:
        """Return the pair for a prior of this structure; None for a method that samples."""
        return self.variants.get(structure, self.pair)

    def objective_on(self, structure: str) -> str | None:
        """Return the name of the evidence that is maximised; None if the final sites cannot give its value."""
        pair = self.pair_on(structure)
        return None if pair is None or pair.final is not None else pair.evidence.name


# Where the evidence is stationary in the sites, the gradient with constant sites is exact and needs no adjoint solve;
# the setting is "auto" because the evidence is stationary only where no site is at its limit (see `Nested`).
_STATIONARY = "auto"

# On a sparse prior the evidence must account for the residual variance.  EP averages it inside the logarithm, which
# needs sites fitted to the averaged likelihood; the bounds (`elbo`, `tight`, `collapsed`) underfit with few inducing
# inputs (decision 018).
# Joint classes learn from power EP at 0.5, whose evidence is stationary in its own sites and prefers smaller σ² than
# that of EP.  The final sites are those of a small power, which predict better and settle at any σ², unlike
# VI's own iteration (decision 008).  With inducing inputs the sites are VI's (decision 019).
# Two latent functions per row learn from the ELBO of VI's sites (decision 030).
_HYBRID_VARIANTS = {
    "sparse": Pair(EP(), ev.ep, _STATIONARY),
    "precision": Pair(EP(), ev.ep, _STATIONARY),
    "classes": Pair(EP(tol=1e-3, power=0.5), ev.half_nested, _STATIONARY, final=EP(tol=1e-5, power=0.02)),
    "sparse classes": Pair(VI(tol=1e-6), ev.elbo, _STATIONARY),
    "two functions": Pair(VI(tol=1e-5), ev.elbo, _STATIONARY),
    "sparse two functions": Pair(VI(tol=1e-5), ev.elbo, _STATIONARY),
    "precision two functions": Pair(VI(tol=1e-5), ev.elbo, _STATIONARY),
}

# The evidence that is stationary on EP's sites of several classes is `nested`.
_EP_VARIANTS = {name: Pair(EP(), ev.nested, _STATIONARY) for name in ("classes", "sparse classes")}
# The rounding of two coupled sums of parts leaves residuals of 1e-7.
_EP_VARIANTS["precision two functions"] = Pair(EP(tol=1e-6), ev.ep, _STATIONARY)

METHODS: dict[str, Definition] = {
    method.name: method
    for method in (
        Definition("laplace", "Laplace", "Laplace's sites and evidence.", Pair(Laplace(), ev.laplace)),
        Definition("ep", "EP", "EP's sites and evidence.", Pair(EP(), ev.ep, _STATIONARY), _EP_VARIANTS),
        Definition("vi", "VI", "Variational sites; learns from the ELBO.", Pair(VI(), ev.elbo, _STATIONARY)),
        Definition(
            "hybrid",
            "hybrid (VI + EP evidence)",
            "Variational sites; learns from EP's evidence of the same sites by its exact gradient.  With inducing "
            "inputs EP's sites and evidence; for joint classes power EP, and with inducing inputs or two functions the "
            "ELBO.  "
            "The default.",
            Pair(VI(), ev.ep),
            _HYBRID_VARIANTS,
        ),
        Definition(
            "hybrid-vem",
            "hybrid, Algorithm 1",
            "The hybrid trained by Algorithm 1 of the paper, which holds the sites constant while it learns.",
            Pair(VI(), ev.ep, "fixed"),
            {"sparse": Pair(VI(), ev.collapsed, "fixed")},
            learner=VEM,
        ),
        Definition("mcmc", "MCMC", "Averages over draws of hyperparameters and latent function.", None),
    )
}
DEFAULT = "hybrid"


def method_named(name: str) -> Definition:
    """Return the definition of a named method."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"Unknown method {name!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Method(Setting):
    """The method of inference and learning by name, with settings that replace its own.

    Parameters
    ----------
    name : str, default="hybrid"
        The names of `METHODS`:

        - "hybrid": variational sites; learns from EP's evidence of the same sites.  With inducing inputs it uses EP's
          sites and evidence.  For joint classes it is power EP, and with inducing inputs VI, which learns from the
          ELBO
        - "ep": expectation propagation, sites and evidence
        - "vi": variational inference; learns from the ELBO
        - "laplace": Laplace's approximation, sites and evidence
        - "hybrid-vem": the hybrid trained by Algorithm 1 of the paper
        - "mcmc": averages over draws of the hyperparameters and the latent function
    inference : str or Inference, default=None
        Another inference: "vi", "ep", "laplace", or an object such as `EP(tol=1e-6)`.
    evidence : str or Evidence, default=None
        Another evidence to learn from: "laplace", "elbo", "ep", "collapsed", "tight" or "loo", or the evidence itself.
    gradient : str, default=None
        How the evidence is differentiated with respect to the hyperparameters: "implicit", "one_step", "fixed" or
        "auto", as in `Nested`.
    power : float, default=None
        The power of the ep evidence (power EP).
    max_iter : int, default=None
        The largest number of rounds of learning.  None is the default of the learner: 200, or 10 000 for "hybrid-vem".
    tol : float, default=None
        The gradient per row below which learning stops.  None is the default of the learner.
    restarts : int, default=0
        Further random starts of learning.
    draws : int, default=None
        For "mcmc": the draws per chain.  None means 250.
    warmup : int, default=None
        For "mcmc": the draws dropped before the first draw that is kept.  None means 25.
    chains : int, default=None
        For "mcmc": the number of chains.  None means 4.
    thin : int, default=None
        For "mcmc": the number of moves per draw.  None means 1.
    min_ess : int, default=None
        For "mcmc": continue the chains, `draws` draws at a time, until every hyperparameter has this many effective
        draws in all chains together and an R-hat of at most 1.05, with at most 5 000 draws per chain.  None draws once.

    Examples
    --------
    >>> from sitewise import GPClassifier, Method
    >>> GPClassifier(method=Method("ep", restarts=3))
    GPClassifier(method=Method("ep", restarts=3))

    See Also
    --------
    Nested : the learner behind every name except "hybrid-vem" and "mcmc".
    VEM : the learner behind "hybrid-vem".
    mcmc.sample : the sampler behind "mcmc".
    """

    POSITIONAL: ClassVar[str] = "name"

    name: str = DEFAULT
    inference: str | Inference | None = None
    evidence: str | Evidence | None = None
    gradient: str | None = None
    power: float | None = None
    max_iter: int | None = None
    tol: float | None = None
    restarts: int = 0
    draws: int | None = None
    warmup: int | None = None
    chains: int | None = None
    thin: int | None = None
    min_ess: int | None = None

    def __post_init__(self) -> None:
        definition = self.definition
        foreign = [name for name in self.changed() if name not in ("name", *definition.settings)]
        if foreign:
            instead = (
                f"{', '.join(list(_SAMPLING)[:-1])} and {list(_SAMPLING)[-1]} are for Method('mcmc')"
                if foreign[0] in _SAMPLING
                else ""
            )
            instead = instead or ("leave it out" if definition.samples else "use 'hybrid', or leave it out")
            raise ValueError(f"{self.name} has no setting {', '.join(foreign)}; {instead}.")
        if self.max_iter is not None:
            at_least("max_iter", self.max_iter, 1)
        at_least("restarts", self.restarts, 0)
        for name in ("tol", "power"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if self.tol is not None and not 0 < self.tol < np.inf:
            raise ValueError(f"tol must be a positive number, got {self.tol!r}.")
        for name, least in _SAMPLING.items():
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least)
        if not definition.samples:
            self.resolve()  # refuses an unknown inference or evidence, and a power without the ep evidence

    @staticmethod
    def of(value: str | Method) -> Method:
        """Return the value of an estimator's `method`, which may be a name."""
        return value if isinstance(value, Method) else Method(value)

    @property
    def definition(self) -> Definition:
        """Return the definition of the method."""
        return method_named(self.name)

    @property
    def sampling(self) -> dict[str, int]:
        """Return the arguments of `mcmc.sample` that were given."""
        return {name: int(value) for name in _SAMPLING if (value := getattr(self, name)) is not None}

    def changed(self) -> dict[str, Any]:
        return {"name": self.name, **super().changed()}

    def resolve(self, **settings: Any) -> Nested | VEM:
        """Return the learner; `settings` are further arguments of it."""
        if self.max_iter is not None:
            settings["max_rounds"] = int(self.max_iter)
        if self.tol is not None:
            settings["tol"] = float(self.tol)
        if self.restarts:
            settings["restarts"] = int(self.restarts)
        return resolve(self.name, **{name: getattr(self, name) for name in _PARTS}, **settings)


def resolve(
    method: str = DEFAULT,
    *,
    inference: str | Inference | None = None,
    evidence: str | Evidence | None = None,
    gradient: str | None = None,
    power: float | None = None,
    **settings: Any,
) -> Nested | VEM:
    """Return the learner that a method's name stands for.

    A variant of the method for a structure of prior keeps its evidence unless `evidence` or `power` is given.

    Parameters
    ----------
    method : str, default="hybrid"
        A name of `METHODS` that does not sample.
    inference, evidence, gradient, power : as in Method
        They replace the parts of the method.
    **settings
        Further arguments of `Nested` or `VEM`.

    Returns
    -------
    learner : Nested or VEM
        Call `learner.fit(model, data)`.

    Examples
    --------
    >>> from sitewise import resolve
    >>> resolve("vi").evidence.name
    'elbo'
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
    """Return the variants with another inference or gradient.

    A variant with `final` sites needs its own inference, and is left out if the inference is replaced.
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
