"""Fit one competitor of `structure_peers.py` in its own environment and store the log probabilities of the test rows.

    python studies/structure_contestants.py NAME PROBLEM.npz RESULT.json

y is 0 or 1.  `X` are columns of numbers, `group` the group of each row, `first` and `second` the numbers of the items
of each pairwise comparison, `items` their columns; a problem has the arrays that it needs.  Imports of other libraries
are inside the functions, because each environment has its own.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

Problem = dict[str, Any]


def _scaled(p: Problem) -> tuple[np.ndarray, np.ndarray]:
    centre, scale = p["X"].mean(axis=0), p["X"].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (p["X"] - centre) / scale, (p["X_test"] - centre) / scale


def sitewise(p: Problem, **settings: Any) -> np.ndarray:
    from sitewise import GPClassifier

    X, X_test = _scaled(p)
    if settings.pop("grouped", False):
        X, X_test = np.column_stack([X, p["group"]]), np.column_stack([X_test, p["group_test"]])
        settings["groups"] = X.shape[1] - 1
    return GPClassifier(**settings).fit(X, p["y"]).predict_proba(X_test)[:, 1]


def sitewise_duels(p: Problem, per_column: bool = False) -> np.ndarray:
    from sitewise import GPClassifier, PerColumn, duels, kernels

    X, X_test = (duels.pairs(p["items"], p["first" + end], p["second" + end]) for end in ("", "_test"))
    kernel = kernels.Pairwise(kernels.Matern52())
    model = GPClassifier(PerColumn(kernel) if per_column else kernel)
    return model.fit(X, p["y"]).predict_proba(X_test)[:, 1]


def gpboost_linear(p: Problem) -> np.ndarray:
    """A mixed probit model: linear fixed effects, a random intercept."""
    import gpboost

    X, X_test = (np.column_stack([np.ones(len(a)), a]) for a in _scaled(p))
    model = gpboost.GPModel(group_data=p["group"], likelihood="bernoulli_probit")
    model.fit(y=p["y"].astype(float), X=X)
    return model.predict(group_data_pred=p["group_test"], X_pred=X_test, predict_response=True)["mu"]


def gpboost_trees(p: Problem) -> np.ndarray:
    """Boosted trees with a random intercept; the number of trees by four folds."""
    import gpboost

    model = gpboost.GPModel(group_data=p["group"], likelihood="bernoulli_probit")
    settings = {"learning_rate": 0.05, "max_depth": 3, "min_data_in_leaf": 10, "verbose": -1}
    data = gpboost.Dataset(p["X"], p["y"].astype(float))
    cross = {"num_boost_round": 300, "nfold": 4, "early_stopping_rounds": 10, "seed": 0, "verbose_eval": False}
    found = gpboost.cv(settings, data, gp_model=model, **cross)
    rounds = len(next(iter(found.values())))
    model = gpboost.GPModel(group_data=p["group"], likelihood="bernoulli_probit")
    fit = gpboost.train(settings, gpboost.Dataset(p["X"], p["y"].astype(float)), rounds, gp_model=model)
    return fit.predict(data=p["X_test"], group_data_pred=p["group_test"], pred_latent=False)["response_mean"]


def statsmodels(p: Problem) -> np.ndarray:
    """A mixed logit model by variational Bayes; a new group is integrated over."""
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    X, X_test = (np.column_stack([np.ones(len(a)), a]) for a in _scaled(p))
    levels = np.unique(p["group"])
    dummies = (p["group"][:, None] == levels).astype(float)
    found = BinomialBayesMixedGLM(p["y"].astype(float), X, dummies, np.zeros(len(levels), int)).fit_vb()
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    place = np.searchsorted(levels, p["group_test"]).clip(0, len(levels) - 1)
    old = levels[place] == p["group_test"]
    mean = X_test @ found.fe_mean + np.where(old, found.vc_mean[place], 0.0)
    var = (X_test**2) @ found.fe_sd**2 + np.where(old, found.vc_sd[place] ** 2, np.exp(2 * found.vcp_mean[0]))
    return special.expit(mean[:, None] + np.sqrt(var)[:, None] * nodes) @ (weights / weights.sum())


def ebm(p: Problem) -> np.ndarray:
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(random_state=0, n_jobs=1).fit(p["X"], p["y"]).predict_proba(p["X_test"])[:, 1]


def pygam(p: Problem) -> np.ndarray:
    """Smooth main effects; the penalty by generalised cross-validation, as its `gridsearch` does."""
    from pygam import LogisticGAM

    X, X_test = _scaled(p)
    return LogisticGAM().gridsearch(X, p["y"], progress=False).predict_proba(X_test)


def choix(p: Problem) -> np.ndarray:
    """Bradley-Terry, regularised; it does not use the columns of the items."""
    import choix as library

    won = [(a, b) if y else (b, a) for a, b, y in zip(p["first"], p["second"], p["y"], strict=True)]
    theta = library.ilsr_pairwise(len(p["items"]), won, alpha=0.1)
    return special.expit(theta[p["first_test"]] - theta[p["second_test"]])


def botorch(p: Problem) -> np.ndarray:
    """Its Laplace approximation of the utilities, with the hyperparameters of its own fit."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    torch.manual_seed(0)
    items = torch.tensor(p["items"], dtype=torch.double)
    won = torch.tensor(np.where(p["y"][:, None] == 1, np.c_[p["first"], p["second"]], np.c_[p["second"], p["first"]]))
    model = PairwiseGP(items, won)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        q = model.posterior(items)
        mean, cov = q.mean[:, 0].numpy(), q.covariance_matrix.numpy()
    a, b = p["first_test"], p["second_test"]
    return stats.norm.cdf((mean[a] - mean[b]) / np.sqrt(2 + cov[a, a] + cov[b, b] - 2 * cov[a, b]))


CONTESTANTS: dict[str, Callable[[Problem], np.ndarray]] = {
    "sitewise groups": lambda p: sitewise(p, grouped=True),
    "sitewise groups, additive": lambda p: sitewise(p, grouped=True, kernel="main_effects"),
    "sitewise additive": lambda p: sitewise(p, kernel="additive"),
    "sitewise": sitewise,
    "sitewise duels": sitewise_duels,
    "sitewise duels, ard": lambda p: sitewise_duels(p, per_column=True),
    "gpboost linear": gpboost_linear,
    "gpboost trees": gpboost_trees,
    "statsmodels": statsmodels,
    "ebm": ebm,
    "pygam": pygam,
    "choix": choix,
    "botorch": botorch,
}


def main() -> None:
    name, problem, result = sys.argv[1:]
    warnings.simplefilter("ignore")
    p = dict(np.load(problem))
    start = time.perf_counter()
    chance = np.asarray(CONTESTANTS[name](p), float)
    seconds = time.perf_counter() - start
    if chance.shape != p["y_test"].shape or not np.all((chance >= 0) & (chance <= 1)):
        raise SystemExit("the predictions are no probabilities")
    right = np.where(p["y_test"] == 1, chance, 1 - chance)
    with open(result, "w") as out:
        json.dump({"log": np.log(np.maximum(right, 1e-15)).tolist(), "seconds": seconds}, out)


if __name__ == "__main__":
    main()
