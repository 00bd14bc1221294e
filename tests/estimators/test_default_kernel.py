"""The kernel that kernel=None stands for, and what works on a default fit."""

import numpy as np
import pytest

from sitewise import GPClassifier, GPOrdinal, GPRegressor, Hyperparameters, Method, Sparse, likelihoods, load
from sitewise.app.commands.certify import _kernel
from sitewise.estimators.default_kernel import default_kernel

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 3))
PAIR = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
NEW = RNG.normal(size=(20, 3))


def test_a_single_default_kernel_of_several_columns_is_shrunk_and_of_one_isotropic():
    probit = likelihoods.BernoulliProbit()
    names = [default_kernel(GPClassifier(integrate=False), probit, 10, d).name for d in (1, 2, 100, 101)]
    assert names == ["isotropic", "shrunk", "shrunk", "isotropic"]


def test_the_average_ends_at_its_limit_of_rows_times_functions():
    probit = likelihoods.BernoulliProbit()
    found = [default_kernel(GPClassifier(), probit, rows, 3, functions) for rows, functions in ((2000, 1), (667, 3))]
    assert [one.name for one in found] == ["average", "shrunk"]
    assert "667 rows of 3 classes are more than 2000" in found[1].sentence


def test_two_latent_functions_have_a_single_kernel():
    both = likelihoods.VaryingParameter(likelihoods.Gaussian(), "scale")
    assert "two latent functions" in default_kernel(GPRegressor(both), both, 10, 3).reason


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"method": "laplace", "structure": "full"}, ""),
        ({"structure": "exact"}, ""),
        ({"method": Method("hybrid-vem", max_iter=3)}, "method='hybrid-vem' learns"),
        ({"groups": [2]}, "groups is a setting of a single kernel"),
        ({"structure": Sparse(10)}, "the structure is Sparse(10)"),
        ({"integrate": False}, "integrate is a setting"),
        ({"warm_start": True}, "warm_start is a setting"),
        ({"hyperparameters": Hyperparameters(bounds={"kernel.*": (0.1, 10.0)})}, "hyperparameters is a setting"),
    ],
)
def test_the_default_is_an_average_where_no_setting_is_about_one_kernel(settings, reason):
    rows = np.column_stack([X[:30, :2], np.arange(30) % 3])
    model = GPClassifier(**settings).fit(rows, PAIR[:30])
    assert hasattr(model, "kernel_weights_") is (reason == "")
    single = f"'{'isotropic' if 'vem' in reason else 'shrunk'}' instead of an average, because {reason}"
    assert f"Default kernel: {single if reason else 'an average'}" in model.fit_report_


def test_the_report_explains_only_a_default_kernel():
    assert "Default kernel" not in GPClassifier("shrunk", method="laplace").fit(X, PAIR).fit_report_
    assert "because there is one column" in GPRegressor().fit(X[:, :1], X[:, 0]).fit_report_
    only_groups = GPRegressor(groups=[0]).fit(np.arange(30)[:, None] % 5, X[:30, 0])
    assert "Default kernel" not in only_groups.fit_report_


def test_the_default_is_one_kernel_for_many_rows_and_classes(monkeypatch):
    monkeypatch.setattr("sitewise.estimators.default_kernel.MAX_AVERAGED_ROWS", 60)
    rows = X[:24]
    assert hasattr(GPClassifier().fit(rows, PAIR[:24]), "kernel_weights_")
    assert not hasattr(GPClassifier(multi_class="one_vs_rest").fit(rows, np.arange(24) % 3), "kernel_weights_")
    assert not hasattr(GPRegressor().fit(X, X[:, 0]), "kernel_weights_")


KINDS = {
    "classes": (GPClassifier(method="laplace"), np.digitize(X[:, 0], [-0.5, 0.5]), {}),
    "one_vs_rest": (GPClassifier(method="laplace", multi_class="one_vs_rest"), np.digitize(X[:, 0], [-0.5, 0.5]), {}),
    "ordinal": (GPOrdinal(method="laplace"), np.digitize(X[:, 0], [-0.5, 0.5]), {}),
    "counts": (GPRegressor(likelihood="poisson", method="laplace"), RNG.poisson(np.exp(X[:, 0])), {}),
    "exposure": (GPRegressor(likelihood="poisson", method="laplace"), RNG.poisson(2.0, 80), {"exposure": np.ones(80)}),
    "robust": (GPRegressor(likelihood="student_t", method="laplace"), X[:, 0] + 0.1 * RNG.standard_t(3, 80), {}),
    "angles": (GPRegressor(likelihood="von_mises", method="laplace"), np.tanh(X[:, 0]), {}),
    "lifetimes": (
        GPRegressor(likelihood="weibull", method="laplace"), RNG.exponential(np.exp(0.3 * X[:, 0])),
        {"event": RNG.uniform(size=80) < 0.7},
    ),
}  # fmt: skip


FAST = ("counts", "robust")


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[] if k in FAST else pytest.mark.slow) for k in KINDS])
def test_a_default_fit_of_any_kind_predicts_saves_and_updates(kind, tmp_path):
    model, y, side = KINDS[kind]
    rows = slice(0, 40)
    weight = np.where(np.arange(40) % 7 == 0, 2.0, 1.0)
    model = type(model)(**model.get_params(deep=False)).fit(
        X[rows], y[rows], sample_weight=weight, **{name: column[rows] for name, column in side.items()}
    )
    assert hasattr(model, "kernel_weights_") and "Kernels averaged with weights" in model.fit_report_
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(NEW), model.predict(NEW))
    assert model.importance().total.shape[0] == 3 and np.all(np.isfinite(model.effect(0, points=3).mean))
    assert np.all(np.isfinite(model.loo_.log_density)) and model.influence_.shape == (40,)
    assert np.isfinite(list(model.evidence_.values())).any()
    drawn = model.sample_y(NEW, 3, random_state=0)
    assert drawn.shape[:2] == (20, 3)
    if isinstance(model, GPRegressor) and kind != "angles":
        low, high = model.predict_interval(NEW)
        assert np.all(low <= high) and np.all(np.isfinite(model.predict_quantiles(NEW, [0.1, 0.9])))
    more = {name: column[40:44] for name, column in side.items()}
    before = model.predict(NEW)
    assert model.update(X[40:44], y[40:44], **more).forget(np.arange(40, 44)).influence_.shape == (40,)
    again = model.predict(NEW)
    assert np.all(before == again) if before.dtype.kind in "iU" else np.allclose(before, again, rtol=1e-3)


def test_few_rows_have_a_default_fit():
    for n in (4, 8):
        model = GPRegressor().fit(X[:n], np.sin(X[:n, 0]))
        assert np.all(np.isfinite(model.predict(NEW, return_std=True)))
        labels = GPClassifier().fit(X[:n], np.arange(n) % 2)
        assert np.all(np.isfinite(labels.predict_log_proba(NEW)))


def test_a_certificate_names_the_kernel_of_the_average():
    model = GPClassifier(method="laplace").fit(X[:40], PAIR[:40])
    weights = model.kernel_weights_
    assert _kernel(model, 0) == f"kernel {max(weights, key=weights.get)!r} of the average"
    assert _kernel(GPClassifier("shrunk", method="laplace").fit(X[:40], PAIR[:40]), 0) == ""
