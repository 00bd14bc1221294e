"""Every method with every structure: each public call works, or refuses in one sentence of this library.

The settings of every estimator are made by `estimator`, so that a change of constructor arguments is a change in one
place.
"""

import traceback
import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

from sitewise import GPClassifier, GPRegressor, Hyperparameters, Method, Series, Sparse, kernels, load
from sitewise.estimators import EffectDisplay, ReliabilityDisplay, SurfaceDisplay
from sitewise.explain import decomposition, importance, responses

matplotlib.use("Agg")
ROWS = 30
METHODS = ("laplace", "ep", "vi", "hybrid", "hybrid-vem", "mcmc")
RNG = np.random.default_rng(0)
TIME = np.sort(RNG.uniform(0, 6, ROWS))
TABLES = {
    "columns": RNG.normal(size=(ROWS, 2)),
    "time": TIME[:, None],
    "series": np.column_stack([TIME, np.arange(ROWS) % 2]),
    "groups": np.column_stack([RNG.normal(size=ROWS), np.arange(ROWS) % 3]),
}
SIGNAL = {name: np.sin(2 * X[:, 0]) + 0.3 * X[:, -1] for name, X in TABLES.items()}
TARGETS = {
    "two": lambda f: np.where(f > 0, "yes", "no"),
    "three": lambda f: np.digitize(f, [-0.5, 0.5]),
    "counts": lambda f: np.round(np.exp(f)),
    "values": lambda f: f + 0.1 * np.cos(9 * np.arange(len(f))),
}
# The table, the target, and the settings besides the method.
STRUCTURES = {
    "full": ("columns", "two", {}),
    "sparse": ("columns", "counts", {"structure": Sparse(8)}),
    "markov": ("time", "counts", {"structure": "markov"}),
    "series": ("series", "values", {"structure": Series(1)}),
    "joint classes": ("columns", "three", {}),
    "sparse joint classes": ("columns", "three", {"structure": Sparse(6)}),
    "groups": ("groups", "two", {"groups": 1}),
    "additive": ("columns", "values", {"kernel": "additive"}),
    "average": ("columns", "values", {"kernel": "average", "hyperparameters": None}),
    "integrate": ("columns", "two", {"integrate": "ccd", "hyperparameters": None}),
}


def estimator(method, structure):
    """An estimator that is not fitted; hyperparameters are fixed where nothing has to be learned."""
    _, target, settings = STRUCTURES[structure]
    settings = {
        "kernel": kernels.Matern32(0.8, 1.5),
        "method": Method("mcmc", draws=3, warmup=0, chains=2) if method == "mcmc" else method,
        "hyperparameters": Hyperparameters(fixed="*"),
        "random_state": 0,
        **settings,
    }
    if target in ("two", "three"):
        return GPClassifier(**settings)
    return GPRegressor(likelihood="poisson" if target == "counts" else "gaussian", **settings)


def fitted(method, structure):
    table, target, _ = STRUCTURES[structure]
    return estimator(method, structure).fit(TABLES[table], TARGETS[target](SIGNAL[table]))


def new_rows(structure):
    table, target, _ = STRUCTURES[structure]
    X = TABLES[table][-2:].copy()
    X[:, 0] += 7.0 if table in ("time", "series") else 0.1
    return X, TARGETS[target](SIGNAL[table])[-2:]


def _interval(model, X):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return model.predict_interval(X)


def _saved(model, X, folder):
    model.save(folder / "model")
    again = load(folder / "model")
    np.testing.assert_allclose(again.predict_latent(X), model.predict_latent(X), rtol=1e-6, atol=1e-8)
    return again.predict_latent(X)


def _importance(model):
    found = model.importance()
    return found.alone, found.total, found.total_error, model.feature_importances_


def _update(model, X, y):
    model.update(X, y)
    return model.predict_latent(X)


def _forget(model, X):
    return model.forget([0, 3]).predict_latent(X)


# Each call returns numbers that must be finite; the last two change the model.
CALLS = {
    "predict_latent": lambda m, X, y, folder: m.predict_latent(X, return_std=True),
    "predict_latent(cov)": lambda m, X, y, folder: m.predict_latent(X, return_cov=True),
    "predict_proba or predict_interval": lambda m, X, y, folder: _interval(m, X),
    "effect": lambda m, X, y, folder: [getattr(m.effect(0, points=2, rows=4), k) for k in ("mean", "sd", "low")],
    "effect(latent)": lambda m, X, y, folder: m.effect(0, response=False, points=2, rows=4).sd,
    "interaction": lambda m, X, y, folder: m.interaction(0, 1, points=2, rows=3).sd,
    "importance": lambda m, X, y, folder: _importance(m),
    "lengthscales": lambda m, X, y, folder: [one.value for one in m.lengthscales()],
    "predict_terms": lambda m, X, y, folder: m.predict_terms(X).sd,
    "term_shares": lambda m, X, y, folder: m.term_shares().share,
    "loo_": lambda m, X, y, folder: m.loo_.log_density,
    "influence_": lambda m, X, y, folder: m.influence_,
    "evidence_": lambda m, X, y, folder: list(m.evidence_.values()),
    "sites_": lambda m, X, y, folder: [one.prec for one in (m.sites_ if isinstance(m.sites_, list) else [m.sites_])],
    "save and load": lambda m, X, y, folder: _saved(m, X, folder),
    "EffectDisplay": lambda m, X, y, folder: [
        e.mean for e in EffectDisplay.from_estimator(m, features=[0], points=2, rows=3).effects
    ],
    "ReliabilityDisplay": lambda m, X, y, folder: ReliabilityDisplay.from_estimator(m).observed,
    "SurfaceDisplay": lambda m, X, y, folder: SurfaceDisplay.from_estimator(m, points=3).fitted,
    "update": lambda m, X, y, folder: _update(m, X, y),
    "forget": lambda m, X, y, folder: _forget(m, X),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fewer draws and rows than explanations usually take."""
    monkeypatch.setattr(importance, "LOG2_SAMPLES", 4)
    monkeypatch.setattr(importance, "MAX_JOINT_VALUES", 64)
    monkeypatch.setattr(decomposition, "MAX_JOINT_VALUES", 64)
    monkeypatch.setattr(decomposition, "DRAWS", 20)
    monkeypatch.setattr(responses, "DRAWS", 20)
    yield
    pyplot.close("all")


def outcome(call):
    """ "works", or the sentence with which the library refuses; anything else is an error of this test."""
    try:
        values = call()
    except (ValueError, AttributeError) as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1].filename
        assert "/sitewise/" in where, f"raised by {where}: {problem}"
        assert str(problem).endswith("."), f"not a sentence: {problem}"
        return str(problem)
    for one in values if isinstance(values, list | tuple) else [values]:
        assert np.all(np.isfinite(np.asarray(one, float)))
    return "works"


def outcomes(method, structure, folder):
    """The outcome of fit and of every call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = []
        found = {"fit": outcome(lambda: made.append(fitted(method, structure)) or 0.0)}
        if not made:
            return found
        X, y = new_rows(structure)
        for name, call in CALLS.items():
            found[name] = outcome(lambda call=call: call(made[0], X, y, folder))
    return found


# Calls that are refused, by structure and by method; every other call works.
_VALUES = {"ReliabilityDisplay", "SurfaceDisplay"}
BY_STRUCTURE = {
    "full": set(),
    "sparse": _VALUES,
    "markov": _VALUES | {"interaction"},
    "series": _VALUES,
    "joint classes": {"SurfaceDisplay"},
    "sparse joint classes": {"SurfaceDisplay"},
    "groups": {"SurfaceDisplay"},
    "additive": _VALUES,
    "average": _VALUES | {"predict_terms", "term_shares", "lengthscales"},
    "integrate": set(),
}
BY_METHOD = {
    "hybrid-vem": {"lengthscales"},
    "mcmc": {"loo_", "influence_", "evidence_", "sites_", "update", "forget", "ReliabilityDisplay", "SurfaceDisplay"},
}
NOT_FITTED = {
    ("mcmc", "sparse"), ("mcmc", "markov"), ("mcmc", "series"), ("mcmc", "sparse joint classes"),
    ("mcmc", "average"), ("mcmc", "integrate"), ("hybrid-vem", "average"), ("hybrid-vem", "integrate"),
}  # fmt: skip
PAIRS = [(method, structure) for structure in STRUCTURES for method in METHODS]


def expected(method, structure):
    """The names of the calls that are refused."""
    if (method, structure) in NOT_FITTED:
        return {"fit"}
    return BY_STRUCTURE[structure] | BY_METHOD.get(method, set())


@pytest.mark.parametrize(
    ("method", "structure"),
    [pytest.param(*pair, marks=[pytest.mark.slow] if pair[0] in ("hybrid-vem", "mcmc") else []) for pair in PAIRS],
)
def test_every_call_works_or_refuses_in_a_sentence(method, structure, tmp_path):
    found = outcomes(method, structure, tmp_path)
    assert {name for name, said in found.items() if said != "works"} == expected(method, structure), found


def test_how_many_combinations_work():
    """The numbers of combinations of method, structure and call that work and that are refused, fit included."""
    refused = sum(len(expected(*pair)) for pair in PAIRS)
    works = sum((1 + len(CALLS)) * (pair not in NOT_FITTED) for pair in PAIRS) - refused + len(NOT_FITTED)
    assert (works, refused) == (972, 128)
