"""Mistakes in names of parameters, bounds, hyperpriors, settings of learners and estimators, and model files."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as other_kernels

from misusing.kinds import LEARNERS, Change, add
from misusing.scenes import SCALAR, TWO_CLASSES, Scene
from sitewise import VI, evidence, hyperpriors, kernels, likelihoods, resolve

RANDOM = np.random.Generator
NAMED = (*LEARNERS, "estimator", "mcmc.sample")
REGRESSIONS = ("gaussian", "student_t", "poisson")


def _set(**settings: Any) -> Change:
    return lambda scene, rng: scene.setting(**settings)


def _simple(**settings: Any) -> Change:
    """With a kernel whose parameters are kernel.lengthscale and kernel.variance."""
    return lambda scene, rng: scene.but(kernel=kernels.RBF).setting(**settings)


add(
    "names of parameters",
    {
        "an unknown name to hold": _simple(fixed=("kernel.size",)),
        "a misspelt name to hold": _simple(fixed=("kernel.lenghtscale",)),
        "a name without its owner": _simple(fixed=("lengthscale",)),
        "an unknown name to train": _simple(train=("kernel.size",)),
        "a pattern that fits nothing": _simple(fixed=("mean.*x",)),
        "a number for a name": _simple(fixed=(1,)),
    },
    NAMED,
    SCALAR,
)


def _bounds(value: Any, name: str = "kernel.lengthscale") -> Change:
    return _simple(bounds={name: value})


add(
    "bounds",
    {
        "bounds of an unknown name": _bounds((0.1, 1.0), "kernel.size"),
        "bounds the wrong way round": _bounds((2.0, 0.5)),
        "equal bounds": _bounds((1.0, 1.0)),
        "one bound": _bounds(0.5),
        "three bounds": _bounds((0.1, 1.0, 2.0)),
        "bounds on a log scale": _bounds((-3.0, 3.0)),
        "negative bounds": _bounds((-3.0, -1.0)),
        "bounds of NaN": _bounds((np.nan, 1.0)),
        "bounds as text": _bounds(("low", "high")),
        "None for a bound": _bounds((None, 1.0)),
        "bounds of a held parameter": _simple(bounds={"kernel.lengthscale": (0.1, 2.0)}, fixed=("kernel.*",)),
        "a list of bounds without names": _simple(bounds=[(0.1, 1.0)]),
    },
    NAMED,
    SCALAR,
)


def _prior(value: Any, name: str = "kernel.lengthscale") -> Change:
    return _simple(priors={name: value})


add(
    "hyperpriors",
    {
        "a prior of an unknown name": _prior(hyperpriors.LogNormal(), "kernel.size"),
        "a number for a prior": _prior(1.0),
        "a pair of numbers for a prior": _prior((0.0, 1.0)),
        "the class of a prior": _prior(hyperpriors.LogNormal),
        "the name of a prior": _prior("lognormal"),
        "a likelihood for a prior": _prior(likelihoods.Gamma()),
        "a prior of scale 0": lambda scene, rng: scene.but(kernel=kernels.RBF).setting(
            priors={"kernel.lengthscale": hyperpriors.LogNormal(0.0, 0.0)}
        ),
        "a prior of negative scale": lambda scene, rng: scene.but(kernel=kernels.RBF).setting(
            priors={"kernel.lengthscale": hyperpriors.Normal(0.0, -1.0)}
        ),
        "a prior with a text": lambda scene, rng: scene.but(kernel=kernels.RBF).setting(
            priors={"kernel.lengthscale": hyperpriors.Normal("0", 1.0)}
        ),
        "a prior of negative shape": lambda scene, rng: scene.but(kernel=kernels.RBF).setting(
            priors={"kernel.lengthscale": hyperpriors.Gamma(-1.0, 1.0)}
        ),
        "a prior of a held parameter": _simple(
            priors={"kernel.lengthscale": hyperpriors.LogNormal()}, fixed=("kernel.*",)
        ),
        "a list of priors without names": _simple(priors=[hyperpriors.LogNormal()]),
    },
    NAMED,
    SCALAR,
)
add(
    "hyperpriors",
    {
        "a prior of positive values for a mean below zero": lambda scene, rng: _below_zero(scene).setting(
            priors={"mean.value": hyperpriors.LogNormal()}
        ),
    },
    LEARNERS,
    SCALAR,
)


def _below_zero(scene: Scene) -> Scene:
    from sitewise import means

    return scene.but(mean=lambda: means.Constant(-0.5))


add(
    "settings of a learner",
    {
        "an unknown gradient": _set(gradient="exact"),
        "the class of the inference": _set(inference=VI),
        "the name of the inference": _set(inference="vi"),
        "the name of the evidence": _set(evidence="ep"),
        "a function for the evidence": _set(evidence=lambda model, data, sites: 0.0),
        "no rounds": _set(max_rounds=0),
        "negative restarts": _set(restarts=-1),
        "half a restart": _set(restarts=0.5),
        "a negative tolerance of learning": _set(tol=-1.0),
        "a tolerance of NaN": _set(tol=np.nan),
        "a misspelt setting of a learner": _set(rounds=3),
    },
    ("Nested.fit",),
    SCALAR,
)
add(
    "settings of a learner",
    {
        "an unknown method": lambda scene, rng: scene.setting(inference=resolve("magic")),
        "an unknown evidence": lambda scene, rng: scene.setting(evidence=resolve("ep", evidence="magic").evidence),
        "a power above 1": lambda scene, rng: scene.setting(evidence=evidence.power_ep(2.0)),
    },
    ("Nested.fit",),
    SCALAR,
)
add(
    "settings of a sampler",
    {
        "no chains": _set(chains=0),
        "no draws": _set(draws=0),
        "a negative number of draws": _set(draws=-25),
        "a negative warm-up": _set(warmup=-25),
        "half a chain": _set(chains=1.5),
        "thinning by 0": _set(thin=0),
        "a misspelt setting of a sampler": _set(n_chains=2),
    },
    ("mcmc.sample",),
    ("gaussian", "probit"),
    sparse=False,
)
add(
    "settings of a surface",
    {
        "an object for the class of the kernel": _set(kernel=kernels.RBF()),
        "the name of the kernel of a surface": _set(kernel="rbf"),
        "a kernel that is not stationary": _set(kernel=kernels.Linear),
    },
    ("evidence_surface",),
    ("gaussian", "probit"),
    sparse=False,
)
add(
    "settings of an estimator",
    {
        "an unknown method of an estimator": _set(method="magic"),
        "an unknown likelihood of an estimator": _set(likelihood="cauchy"),
        "the class of a likelihood in an estimator": _set(likelihood=likelihoods.Poisson),
        "no iterations": _set(max_iter=0),
        "half an iteration": _set(max_iter=2.5),
        "negative restarts of an estimator": _set(restarts=-1),
        "a negative tolerance of an estimator": _set(tol=-1.0),
        "sampling settings without mcmc": _set(draws=10),
        "an unknown evidence of an estimator": _set(evidence="magic"),
        "an unknown inference of an estimator": _set(inference="magic"),
        "a power without the ep evidence": _set(evidence="elbo", power=0.5),
        "no inducing inputs by number": _set(m=0),
        "half an inducing input": _set(m=2.5),
        "an unknown selection of inducing inputs": _set(inputs="random", m=3),
        "an unknown setting of an estimator": _set(alpha=1.0),
        "a random state that is none": _set(random_state="today"),
        "a mean that is a number": _set(mean=3.0),
        "mcmc with inducing inputs": _set(method="mcmc", max_iter=None, m=3),
        "bounds for Algorithm 1": _set(method="hybrid-vem", bounds={"kernel.*": (0.1, 2.0)}),
        "a kernel of scikit-learn in an estimator": lambda scene, rng: scene.setting(kernel=other_kernels.RBF()),
        "greedy inducing inputs of a missing column": lambda scene, rng: scene.setting(
            kernel=kernels.RBF(active_dims=[5]), inputs="greedy", m=3
        ),
    },
    ("estimator",),
    REGRESSIONS + TWO_CLASSES,
    sparse=False,
)
add(
    "settings of an estimator",
    {
        "one class": lambda scene, rng: scene.but(y=np.full(len(scene.X), "a")),
        "values for classes": lambda scene, rng: scene.but(y=np.asarray(scene.X)[:, 0]),
        "a class of weight 0": lambda scene, rng: scene.but(weight=(np.asarray(scene.y) > 0).astype(float)),
        "a class weight of a missing class": _set(class_weight={"x": 2.0}),
        "an unknown multi_class": _set(multi_class="some"),
    },
    ("estimator",),
    TWO_CLASSES,
    sparse=False,
)


def _damage(change: Any) -> Change:
    def changed(scene: Scene, rng: RANDOM) -> Scene:
        place = float(rng.random())
        return scene.but(damage=lambda content: change(content, int(place * len(content))))

    return changed


add(
    "model files",
    {
        "a model file cut short": _damage(lambda content, at: content[:at]),
        "a model file with a changed byte": _damage(
            lambda content, at: content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        ),
        "an empty model file": _damage(lambda content, at: b""),
        "a text for a model file": _damage(lambda content, at: b"x,y\n1,2\n"),
        "two model files in one": _damage(lambda content, at: content + content),
    },
    ("model file",),
    ("gaussian", "probit", "poisson"),
    sparse=False,
)
