"""A small correct problem, described by what a user would write, so that a mistake can change any part of it.

Parts that are made by a call (kernel, likelihood, mean) are functions: a mistake may already be refused there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sitewise import kernels, likelihoods, means

COLUMNS = 2
CLASSES = 3

# Observations of each likelihood from a latent value, in the form in which a user holds them.
Observe = Callable[[np.ndarray], np.ndarray]
LIKELIHOODS: dict[str, tuple[Callable[[], Any], Observe]] = {
    "probit": (likelihoods.BernoulliProbit, lambda f: np.where(f > 0, 1.0, -1.0)),
    "logit": (likelihoods.BernoulliLogit, lambda f: np.where(f > 0, 1.0, -1.0)),
    "gaussian": (lambda: likelihoods.Gaussian(0.4), lambda f: f),
    "student_t": (lambda: likelihoods.StudentT(0.4, 4.0), lambda f: f),
    "poisson": (likelihoods.Poisson, lambda f: np.floor(np.exp(f))),
    "beta": (lambda: likelihoods.Beta(5.0), lambda f: 1 / (1 + np.exp(-f))),
    "gamma": (lambda: likelihoods.Gamma(2.0), np.exp),
    "ordinal": (lambda: likelihoods.Ordinal.of(CLASSES), lambda f: np.clip(np.round(f) + 1, 0, CLASSES - 1)),
    "binomial": (
        likelihoods.Binomial,
        lambda f: np.stack([np.floor(5 / (1 + np.exp(-f))), np.full(len(f), 5.0)], axis=-1),
    ),
    "softmax": (lambda: likelihoods.Softmax(CLASSES), lambda f: np.clip(np.round(f) + 1, 0, CLASSES - 1)),
}
TWO_CLASSES = ("probit", "logit")
SCALAR = tuple(name for name in LIKELIHOODS if name not in ("binomial", "softmax"))
ALL = tuple(LIKELIHOODS)


@dataclasses.dataclass(frozen=True)
class Scene:
    """door      which public call is made, a name of `doors.DOORS`
    change_*  what happens to the model, the data or the sites before the call
    settings  of the learner, the sampler or the estimator, by name
    new       inputs and observations of the predictions
    damage    what happens to the bytes of a saved model
    """

    door: str
    likelihood_name: str
    X: Any
    y: Any
    new: tuple[Any, Any]
    kernel: Callable[[], Any]
    likelihood: Callable[[], Any]
    mean: Callable[[], Any] = lambda: None
    weight: Any = None
    Z: Any = None
    jitter: Any = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    change_model: Callable[[Any], Any] = lambda model: model
    change_data: Callable[[Any], Any] = lambda data: data
    change_sites: Callable[[Any], Any] = lambda solution: solution.sites
    damage: Callable[[bytes], bytes] = lambda content: content

    def but(self, **changes: Any) -> Scene:
        return dataclasses.replace(self, **changes)

    def setting(self, **more: Any) -> Scene:
        return self.but(settings={**self.settings, **more})


def correct(door: str, likelihood: str, rng: np.random.Generator, sparse: bool, one_column: bool = False) -> Scene:
    """A problem without a mistake."""
    rows = int(rng.integers(6, 13))
    X = rng.normal(size=(rows + 3, 1 if one_column else COLUMNS))
    f = 1.5 * np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=rows + 3)
    f[:3] = -1.2, 0.1, 1.2  # every class occurs
    make, observe = LIKELIHOODS[likelihood]
    y = observe(f)
    constant = likelihood != "softmax" and rng.random() < 0.3
    return Scene(
        door=door,
        likelihood_name=likelihood,
        X=X[:rows],
        y=y[:rows],
        new=(X[rows:], y[rows:]),
        kernel=_KERNELS[int(rng.integers(len(_KERNELS)))],
        likelihood=make,
        mean=(lambda: means.Constant(0.2)) if constant else (lambda: None),
        weight=np.arange(rows) % 2 + 1.0 if rng.random() < 0.3 else None,
        Z=X[:4] + 0.1 if sparse else None,
    )


_KERNELS: list[Callable[[], Any]] = [
    kernels.RBF,
    lambda: kernels.Matern52(0.8, 1.5),
    lambda: kernels.RBF(0.7) + kernels.Constant(0.3),
    lambda: 0.6 * kernels.Matern32(1.1),
]
