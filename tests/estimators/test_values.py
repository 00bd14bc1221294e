"""Settings as values: short, equal by value, reached by set_params and grids; old arguments say what replaces them."""

import inspect
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sitewise import (
    EP,
    Full,
    GPClassifier,
    GPOrdinal,
    GPRegressor,
    Hyperparameters,
    Markov,
    Method,
    PerColumn,
    Series,
    Sparse,
    hyperpriors,
    kernels,
)
from sitewise.estimators.candidates import candidates
from sitewise.estimators.replaced import REPLACED, translate
from sitewise.estimators.shared_parameters import ENTRIES
from sitewise.kernel_choice import NAMED_KERNELS

KINDS = pytest.mark.parametrize("kind", [GPClassifier, GPRegressor, GPOrdinal], ids=lambda kind: kind.__name__)
# A value, an equal one, one that differs, and its repr.
VALUES = [
    (Method("ep", tol=1e-4), Method("ep", tol=1e-4), Method("ep", tol=1e-3), 'Method("ep", tol=0.0001)'),
    (Method(), Method("hybrid"), Method("vi"), 'Method("hybrid")'),
    (Method(inference=EP()), Method(inference=EP()), Method(inference=EP(power=0.5)), None),
    (Hyperparameters(fixed="*"), Hyperparameters(fixed="*"), Hyperparameters(), 'Hyperparameters(fixed="*")'),
    (
        Hyperparameters(priors={"*": hyperpriors.Normal()}),
        Hyperparameters(priors={"*": hyperpriors.Normal()}),
        Hyperparameters(priors={"*": hyperpriors.Normal(1.0)}),
        None,
    ),
    (PerColumn(kernels.RBF(2.0)), PerColumn(kernels.RBF(2.0)), PerColumn(kernels.RBF(3.0)), None),
    (PerColumn(kernels.RBF()), PerColumn(kernels.RBF()), PerColumn(kernels.Matern52()), None),
    (Sparse(30), Sparse(30), Sparse("30s"), "Sparse(30)"),
    (Sparse(inputs=np.eye(2)), Sparse(inputs=np.eye(2)), Sparse(inputs=np.ones((2, 2))), None),
    (Full(jitter=1e-6), Full(1e-6), Full(), "Full(jitter=1e-06)"),
    (Markov(), Markov(), Full(), "Markov()"),
    (Series("sensor"), Series("sensor"), Series(0), 'Series("sensor")'),
]


@pytest.mark.parametrize(("value", "equal", "other", "text"), VALUES)
def test_values_are_equal_by_value_and_print_changed_fields(value, equal, other, text):
    assert value == equal and hash(value) == hash(equal) and value != other and value != "text"
    assert text is None or repr(value) == text
    assert pickle.loads(pickle.dumps(value)) == value


@KINDS
def test_at_most_seventeen_arguments_all_documented_once(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert len(names) <= 17 and list(inspect.signature(kind).parameters) == names
    head, _, rest = kind.__doc__.partition("Parameters\n----------\n")
    parameters = rest.partition("Attributes\n----------\n")[0]
    assert head and "{" not in head
    for name in names:
        assert parameters.count(f"\n{name} : ") + parameters.startswith(f"{name} : ") == 1
    shared = [entry.strip() for name, entry in ENTRIES.items() if name in names]
    assert all(entry in parameters for entry in shared)
    attributes = rest.partition("Attributes\n----------\n")[2]
    assert all(attributes.count(f"\n{name} : ") == 1 for name in ("kernel_", "mean_", "likelihood_"))


@KINDS
@pytest.mark.parametrize(
    ("old", "instead"),
    [
        ({"n_restarts": 3}, "has no argument 'n_restarts' since 0.3; write method=Method(\"hybrid\", restarts=3)."),
        ({"method": "ep", "tol": 1e-3}, 'write method=Method("ep", tol=0.001).'),
        ({"sampling": {"draws": 9}}, 'write method=Method("mcmc", draws=9).'),
        ({"ard": True}, 'write kernel="ard".'),
        ({"ard": False}, 'write kernel="isotropic".'),
        ({"ard": "auto"}, "leave it out, it has no effect here."),
        ({"kernel": kernels.Linear(), "ard": "shrunk"}, "write kernel=PerColumn(Linear(variance=1.), shrunk=True)."),
        ({"additive": True}, 'write kernel="additive".'),
        ({"additive": 1}, 'write kernel="main_effects".'),
        ({"fixed": "*", "train": "mean.*"}, 'write hyperparameters=Hyperparameters(fixed="*", train="mean.*").'),
        ({"n_inducing": 300}, "write structure=Sparse(300)."),
        ({"n_inducing": 30, "inducing": "greedy"}, 'write structure=Sparse(30, inputs="greedy").'),
        ({"n_inducing": 30, "inducing": "refreshed"}, "write structure=Sparse(30) without 'refreshed'"),
        ({"inducing": "greedy"}, 'write structure=Sparse(inputs="greedy").'),
        ({"series": "sensor"}, 'write structure=Series("sensor").'),
        ({"jitter": 1e-6}, "write structure=Full(jitter=1e-06)."),
    ],
)
def test_an_old_argument_says_what_replaces_it(kind, old, instead):
    with pytest.raises(TypeError) as raised:
        kind(**old)
    assert instead in str(raised.value) and str(raised.value).startswith(kind.__name__)
    with pytest.raises(TypeError) as raised:
        kind().set_params(**old)
    assert instead in str(raised.value)


def test_old_arguments_in_a_pipeline_and_beside_values():
    pipeline = make_pipeline(StandardScaler(), GPClassifier(method=Method("ep", tol=1e-4), structure=Sparse(20)))
    with pytest.raises(TypeError, match=r'write method=Method\("ep", tol=0.0001, restarts=3\)'):
        pipeline.set_params(gpclassifier__n_restarts=3)
    with pytest.raises(TypeError, match=r"write structure=Full\(jitter=1e-06\)"):
        GPClassifier(structure="full", jitter=1e-6)
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpha'"):
        GPClassifier(alpha=1.0)


def test_a_subclass_may_have_an_argument_of_an_old_name():
    class Own(GPClassifier):
        def __init__(self, kernel=None, *, tol=1e-3):
            super().__init__(kernel)
            self.tol = tol

    assert clone(Own(tol=2.0)).tol == 2.0


def test_all_parameters_of_an_old_file_are_translated():
    """As 0.2.0 wrote them: every parameter, most of them at their defaults."""
    old = {"kernel": None, "method": "hybrid", "structure": "auto", "random_state": 3, **REPLACED}
    assert translate(old) == {"kernel": None, "method": "hybrid", "structure": "auto", "random_state": 3}
    old |= {"ard": True, "tol": 1e-3, "fixed": ["a"], "n_inducing": 7, "inducing": "refreshed", "jitter": 1e-5}
    assert GPRegressor(**translate(old)).get_params(deep=False) == GPRegressor(
        "ard",
        method=Method(tol=1e-3),
        hyperparameters=Hyperparameters(fixed=["a"]),
        structure=Sparse(7, jitter=1e-5),
        random_state=3,
    ).get_params(deep=False)
    new = GPRegressor(structure=Sparse(3)).get_params(deep=False)
    assert translate(new) == new


def test_fields_are_parameters():
    model = GPClassifier().set_params(method__tol=1e-4, method__restarts=2, hyperparameters__fixed="*")
    assert model.method == Method("hybrid", tol=1e-4, restarts=2)
    assert model.hyperparameters == Hyperparameters(fixed="*")
    assert repr(model) == (
        'GPClassifier(hyperparameters=Hyperparameters(fixed="*"),\n'
        '             method=Method("hybrid", tol=0.0001, restarts=2))'
    )
    model.set_params(method="ep", method__power=0.5, structure="sparse", structure__m=9)
    assert model.method == Method("ep", power=0.5) and model.structure == Sparse(9)
    found = model.get_params()
    assert found["method__power"] == 0.5 and found["structure__m"] == 9 and found["hyperparameters__fixed"] == "*"
    same = clone(model)
    assert same.get_params() == found and same.method is not model.method
    for wrong, words in (
        (
            {"structure": "auto", "structure__m": 5},
            "structure='auto' has no setting 'm'; set structure to a value",
        ),
        ({"method__steps": 5}, "Method has no setting 'steps'; it has name, inference"),
        ({"method__tol": -1.0}, "tol must be a positive number"),
        ({"kernel": "average", "kernel__lengthscale": 1.0}, "kernel='average' has no parameter"),
    ):
        with pytest.raises(ValueError, match=words):
            clone(model).set_params(**wrong)


def test_parameters_inside_of_a_named_kernel_and_of_one_per_column():
    assert GPClassifier("ard").set_params(kernel__lengthscale=2.0).kernel == PerColumn(kernels.Matern52(2.0))
    model = GPClassifier(PerColumn(kernels.RBF(), shrunk=True)).set_params(kernel__variance=3.0)
    assert model.kernel == PerColumn(kernels.RBF(variance=3.0), shrunk=True)
    assert model.get_params()["kernel__variance"] == 3.0


def test_every_named_kernel_is_made():
    X = np.random.default_rng(0).normal(size=(12, 3))
    assert all(candidates(name, X, 1.0) for name in NAMED_KERNELS)


def test_a_grid_over_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 1))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=24) > 0, "a", "b")
    model = GPClassifier(kernels.RBF(), hyperparameters=Hyperparameters(fixed="*"), structure=Sparse(), random_state=0)
    grid = {"structure__m": [2, 4], "method": ["vi", Method("ep", tol=1e-3)], "method__max_iter": [5]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    best = search.best_estimator_
    assert len(search.cv_results_["params"]) == 4 and best.structure in (Sparse(2), Sparse(4))
    assert best.method in (Method("vi", max_iter=5), Method("ep", tol=1e-3, max_iter=5))
    assert best.models_[0][0].prior.inducing.shape == (best.structure.m, 1)
    assert model.structure == Sparse() and json.dumps(search.cv_results_["mean_test_score"].tolist())


def test_a_positional_kernel_is_kept_in_the_advice():
    with pytest.raises(TypeError, match=r"write kernel=PerColumn\(RBF"):
        GPRegressor(kernels.RBF(), ard=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Method(tol="a"), "tol must be a positive number, got 'a'"),
        (lambda: Method(power=True), "power must be a positive number, got True"),
        (lambda: Hyperparameters(fixed=3), "fixed must be a name or a list of names of hyperparameters; got 3"),
        (lambda: Sparse(inputs=5), "or a table with one inducing input per row; got 5"),
        (lambda: Sparse(np.ones((3, 2))), r"a table of inducing inputs is Sparse\(inputs=Z\)"),
    ],
)
def test_wrong_types_are_refused_in_a_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()
