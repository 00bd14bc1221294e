"""Model files: exact, safe, and clear about what is wrong."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

import sitewise
from sitewise import (
    EP,
    Full,
    GPClassifier,
    GPRegressor,
    Hyperparameters,
    Inference,
    Markov,
    Method,
    Model,
    PerColumn,
    Series,
    Sparse,
    Varying,
    hyperpriors,
    kernels,
    likelihoods,
    means,
    parts,
    priors,
)
from sitewise.estimators import ModelFileError, model_file
from sitewise.estimators.model_file import to_bytes
from sitewise.estimators.saving import KINDS
from sitewise.estimators.serialise import CLASSES, decode, encode
from sitewise.fitted.latent import Latent
from sitewise.inference import SiteUpdate
from sitewise.numerics.quadrature import gaussian_rules


def from_bytes(content):
    return model_file.from_bytes(content, KINDS)


EVERY_OBJECT = [
    kernels.RBF(2.0, 3.0),
    kernels.Matern12([1.0, 2.0, 3.0], 0.1),
    kernels.Matern32(active_dims=(0, 2)),
    kernels.Matern52(),
    kernels.RationalQuadratic(1.0, 2.0, 0.3),
    kernels.Periodic(1.0, 2.0, 3.0),
    kernels.Cosine(2.0, 3.0),
    kernels.Shrunk(kernels.Matern52(0.8), np.array([0.3, -0.2, 0.5]), 0.4, np.array([1.0, 2.0, 1.0])),
    kernels.Linear(0.7),
    kernels.Constant(0.2),
    0.5 * kernels.RBF() + kernels.Linear() * kernels.Matern32(active_dims=(1,)),
    kernels.Index(1, kappa=0.7),
    kernels.Pairwise(kernels.RBF(0.7), active_dims=(0, 2)),
    kernels.Centred(kernels.RBF(0.7), np.array([[0.1], [0.4]]), np.array([0.3, 0.7]), active_dims=(1,)),
    kernels.Slopes(kernels.RBF(0.7), 5.0, active_dims=(0, 2)),
    kernels.Additive.of(np.eye(3), order=2, columns=(0, 2)),
    kernels.Laplacian(0.6, 1.5),
    kernels.NormalScores.of(np.arange(27.0).reshape(9, 3) ** 2, kernels.RBF(0.7)),
    likelihoods.BernoulliProbit(),
    likelihoods.BernoulliLogit(quadrature=gaussian_rules.GaussHermite(20)),
    likelihoods.Gaussian(0.3),
    likelihoods.StudentT(0.3, 4.0),
    likelihoods.Poisson(),
    likelihoods.NegativeBinomial(3.0, link="softplus", exposure=True),
    likelihoods.Binomial(link="probit"),
    likelihoods.Beta(20.0),
    likelihoods.Gamma(3.0),
    likelihoods.LogNormal(0.3),
    likelihoods.LaplaceNoise(0.3),
    likelihoods.Ordinal(-1.0, [0.5, 1.5]),
    likelihoods.Softmax(4),
    likelihoods.CensoredGaussian(0.3),
    likelihoods.HeteroscedasticGaussian(),
    likelihoods.Weibull(),
    likelihoods.LogLogistic(),
    likelihoods.ZeroInflatedPoisson(),
    likelihoods.ZeroInflatedNegativeBinomial(),
    likelihoods.HurdleGamma(),
    likelihoods.Tweedie(),
    likelihoods.BetaBinomial(),
    likelihoods.AsymmetricLaplace(quantile=0.3),
    likelihoods.VonMises(),
    likelihoods.Switched((likelihoods.Gaussian(0.3), likelihoods.Poisson())),
    likelihoods.Softmax(4),
    means.Zero(),
    means.Constant(1.5),
    means.Linear([1.0, 2.0, 3.0], 0.1),
    hyperpriors.LogNormal(1.0, 2.0),
    hyperpriors.Normal(),
    hyperpriors.Gamma(),
    hyperpriors.LogUniform(),
    gaussian_rules.GaussHermite(20),
    gaussian_rules.Landmark(40, 8.0),
    EP(tol=1e-6, power=0.5),
    sitewise.VI(),
    sitewise.Laplace(),
    priors.FullPrior(kernels.RBF(2.0), means.Constant(0.5), 1e-6),
    priors.SparsePrior(kernels.RBF(2.0), [[0.0, 1.0], [2.0, 3.0]], block=64),
    priors.SparseClassPrior(kernels.RBF(2.0), [[0.0, 1.0], [2.0, 3.0]]),
    priors.ClassPrior.of([kernels.RBF(1.0), kernels.RBF(2.0)], 2),
    priors.FunctionPrior(kernels.RBF(2.0), means.Constant(0.5)),
    priors.TwoFunctionPrior.of([kernels.RBF(1.0), kernels.RBF(2.0)], means.Constant(0.5), -1.0),
    priors.SparseTwoFunctionPrior(
        kernels.RBF(1.0), priors.FunctionPrior(kernels.RBF(2.0), means.Constant(-1.0)), inducing=[[0.0, 1.0]]
    ),
    likelihoods.VaryingParameter(likelihoods.StudentT(0.5, 4.0), "scale"),
    priors.MarkovPrior(kernels.Cosine(2.0), means.Constant(0.5), harmonics=4, series=1),
    parts.Map((0, 1), kernels.Matern32(0.3), neighbours=8),
    parts.Levels(2, slope=1),
    parts.Graph(3, ((0, 1), (1, 2))),
    parts.Area(2, parts.Graph(3, ((0, 1), (1, 2)))),
    parts.Series(0, kernels.Matern52(2.0), by=1),
    parts.Product((parts.Map((0, 1), kernels.Matern32(0.3)), parts.Linear(2, centre=2010))),
    parts.Season(0, period=12.0, harmonics=3),
    parts.Linear((0, 1), 2.0),
    parts.Constant(),
    parts.Spline(0, by=1, knots=(-2, -0.5, 0.7, 2)),
    parts.SplineLevels(1, by=2, knots=(-2, -0.5, 0.7, 2)),
    parts.Tensor((0, 1), knots=((-1, 0, 0.4, 1), (-2, -1, 0, 1, 2))),
    parts.VaryingCoefficients(2, slopes=(0, 1), variance=(0.4, 0.2, 0.3), coupling=(0.5, -0.3, 0.8)),
    priors.PrecisionPrior(parts.Map((0, 1), kernels.Matern32(0.3)) + parts.Levels(2), means.Constant(0.5)),
    Method("ep", tol=1e-4, restarts=3, inference=EP(tol=1e-6)),
    Hyperparameters(fixed="kernel.*", priors={"*": hyperpriors.Normal()}, bounds={"*": (0.1, 2.0)}, tied=[("a", "b")]),
    PerColumn(kernels.RBF(2.0), shrunk=True),
    priors.PrecisionTwoFunctionPrior(
        kernels.Sum((parts.Levels(0), parts.Linear(1))),
        priors.FunctionPrior(kernels.Sum((parts.Linear(1),)), means.Constant(-1.0)),
    ),
    Varying("scale", kernel=kernels.RBF(2.0)),
    Varying("scale", structure=[parts.Linear("x")], mean=means.Constant(-1.0)),
    Full(jitter=1e-6),
    Markov(),
    Series("sensor"),
    Sparse(inputs=np.eye(3)),
    Sparse("60s", inputs="greedy"),
]
# Slopes takes rows whose last column says what they are about, which these are not.
# Parts of a latent function have priors of their own (tests/estimators/test_parts_structure.py).
KERNELS = [o for o in EVERY_OBJECT if isinstance(o, kernels.Kernel) and not isinstance(o, kernels.Slopes | parts.Part)]
# All that have a mean and a variance to predict; a few of each shape of parameters, as each is a program to compile.
LIKELIHOODS = [
    *(o for o in EVERY_OBJECT
      if type(o) in (likelihoods.BernoulliProbit, likelihoods.BernoulliLogit, likelihoods.Gaussian,
                     likelihoods.StudentT, likelihoods.Poisson, likelihoods.Ordinal)),
    likelihoods.NegativeBinomial(3.0, link="softplus"),
]  # fmt: skip


def name(value):
    return type(value).__name__


def with_part(model, kernel=None, likelihood=None, mean=None):
    """The same sites under another prior or likelihood: a fitted estimator of any kind, without fitting."""
    (old,) = model._latents
    new = Model.full(kernel or old.model.prior.kernel, likelihood or old.model.likelihood, mean)
    other = pickle.loads(pickle.dumps(model))
    if likelihood is not None:  # an observation of 1 is one for each of them
        other._y, other.y_mean_, other.y_scale_ = np.ones(len(other._y)), 0.0, 1.0
    merged = other._merged()
    other._store(merged, [Latent.of(new, merged[0].data, old.sites)])
    return other


@pytest.mark.parametrize("value", EVERY_OBJECT, ids=name)
def test_every_object_comes_back_as_it_was(value):
    arrays = []
    text = json.loads(json.dumps(encode(value, arrays)))
    again = decode(text, arrays)
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    new_arrays = []
    assert encode(again, new_arrays) == text
    assert all(np.array_equal(a, b) and a.shape == b.shape for a, b in zip(arrays, new_arrays, strict=True))


def test_the_list_of_classes_is_complete():
    tried = {type(o) for o in EVERY_OBJECT} | {kernels.Sum, kernels.Product, kernels.Scaled}
    abstract = {kernels.Kernel, kernels.Stationary, likelihoods.Likelihood, means.Mean, Inference, SiteUpdate}
    abstract |= {likelihoods.TwoFunctions, parts.Part}
    assert set(CLASSES.values()) == tried | abstract


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_every_kernel_predicts_the_same_after_loading(kernel, classifier, X, tmp_path):
    model = with_part(classifier, kernel=kernel, mean=means.Constant(0.5))
    model.save(tmp_path / "model")
    assert np.array_equal(sitewise.load(tmp_path / "model").predict_latent(X), model.predict_latent(X))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=name)
def test_every_likelihood_predicts_the_same_after_loading(likelihood, regressor, X, tmp_path):
    model = with_part(regressor, likelihood=likelihood)
    model.save(tmp_path / "model")
    loaded = sitewise.load(tmp_path / "model")
    for one, other in zip(loaded.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
        assert np.array_equal(one, other)


def test_all_that_was_fitted_comes_back(classifier, regressor, X, labels, values, tmp_path):
    for model, y in ((classifier, labels), (regressor, values)):
        model.save(tmp_path / "model")
        loaded = sitewise.load(tmp_path / "model")
        assert type(loaded) is type(model)
        assert loaded.get_params() == model.get_params()
        assert np.array_equal(loaded.predict(X), model.predict(X))
        assert np.array_equal(loaded.log_predictive_density(X, y), model.log_predictive_density(X, y))
        assert np.array_equal(loaded.loo_.log_density, model.loo_.log_density)
        assert loaded.evidence_ == model.evidence_
        for attribute in ("n_iter_", "converged_", "fit_report_", "n_features_in_"):
            assert getattr(loaded, attribute) == getattr(model, attribute)
        assert np.array_equal(
            loaded.update(X[:2], y[:2]).predict(X), pickle_copy(model).update(X[:2], y[:2]).predict(X)
        )


def pickle_copy(model):
    return pickle.loads(pickle.dumps(model))


def test_pickle(classifier, X):
    assert np.array_equal(pickle_copy(classifier).predict_proba(X), classifier.predict_proba(X))


def test_settings_that_are_objects_are_saved(X, labels, tmp_path):
    model = GPClassifier(
        kernels.Matern52(2.0),
        method=Method("hybrid", inference=sitewise.VI(), evidence=sitewise.evidence.power_ep(0.5)),
        hyperparameters=Hyperparameters(
            priors={"kernel.lengthscale": hyperpriors.LogNormal()}, bounds={"kernel.*": (1e-3, 1e3)}
        ),
        class_weight={"no": 1, "yes": 2},
        random_state=3,
    )
    model.fit(X, labels).save(tmp_path / "model")
    loaded = sitewise.load(tmp_path / "model")
    assert loaded.hyperparameters == model.hyperparameters
    assert loaded.class_weight == model.class_weight
    evidence = loaded.method.evidence
    assert evidence == sitewise.evidence.power_ep(0.5) and evidence.name == "ep(0.5)"
    assert np.array_equal(loaded.fit(X, labels).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("classes", [[3, 7], [False, True], [0.5, 1.5]])
def test_labels_keep_their_type(classes, X, labels, tmp_path):
    y = np.where(labels == "yes", classes[1], classes[0]).astype(type(classes[0]))
    if isinstance(classes[0], float):
        y = y.astype(str).astype(object)
    model = GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(X, y)
    model.save(tmp_path / "model")
    loaded = sitewise.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_a_new_process_predicts_the_same_bits(classifier, regressor, X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    classifier.save(tmp_path / "classifier")
    regressor.save(tmp_path / "regressor")
    program = (
        "import sys, numpy as np, sitewise\n"
        "X = np.load('X.npy')\n"
        "np.save('p.npy', sitewise.load('classifier').predict_proba(X))\n"
        "np.save('m.npy', np.stack(sitewise.load('regressor').predict(X, return_std=True)))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=300, env=dict(os.environ))
    assert np.array_equal(np.load(tmp_path / "p.npy"), classifier.predict_proba(X))
    assert np.array_equal(np.load(tmp_path / "m.npy"), np.stack(regressor.predict(X, return_std=True)))


def damaged(content: bytes, rng) -> bytes:
    kind = rng.integers(4)
    at = int(rng.integers(len(content)))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + rng.bytes(int(rng.integers(1, 40))) + content[at:]
    if kind == 2:
        return content[:at] + content[at + int(rng.integers(1, 40)) :]
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        out[int(rng.integers(len(out)))] ^= int(rng.integers(1, 256))
    return bytes(out)


def test_a_thousand_random_corruptions_are_all_refused(classifier, tmp_path):
    content, rng = to_bytes(classifier), np.random.default_rng(0)
    path = tmp_path / "model"
    for _ in range(1000):
        path.write_bytes(damaged(content, rng))
        with pytest.raises(ModelFileError, match=r"damaged|not a sitewise model|does not describe"):
            sitewise.load(path)


def signed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def test_corruptions_with_a_right_checksum_never_do_more_than_fail(classifier, X):
    """As a forger would write them: the checksum fits, so that every check behind it is reached."""
    content, rng = to_bytes(classifier), np.random.default_rng(1)
    (length,) = struct.unpack_from("<Q", content, 12)
    for _ in range(300):
        body = bytearray(content[:-32])
        for _ in range(int(rng.integers(1, 4))):
            body[int(rng.integers(12, 20 + length))] = int(rng.integers(32, 127))
        with contextlib.suppress(ModelFileError):
            assert isinstance(from_bytes(signed(bytes(body))), GPClassifier)


def test_a_forged_header_cannot_name_code_or_ask_for_memory(classifier):
    content = to_bytes(classifier)
    (length,) = struct.unpack_from("<Q", content, 12)
    header, rest = json.loads(content[20 : 20 + length]), content[20 + length : -32]

    def forged(change):
        new = json.loads(json.dumps(header))
        change(new)
        text = json.dumps(new).encode()
        return signed(content[:12] + struct.pack("<Q", len(text)) + text + rest)

    def kernel(new):
        new["latents"][0]["prior"] = {"class": "os.system", "fields": {"command": "true"}}

    def estimator(new):
        new["estimator"] = "__import__"

    def memory(new):
        new["arrays"][0]["shape"] = [2**60]

    def attribute(new):
        new["fitted"]["map"].append(["predict", 1])

    def likelihood(new):
        new["latents"][0]["likelihood"] = new["latents"][0]["prior"]["fields"]["kernel"]

    def objects(new):
        new["latents"][0]["nat1"]["as"] = "|O"

    for change in (kernel, estimator, memory, attribute, likelihood, objects):
        with pytest.raises(ModelFileError, match="does not describe a model"):
            from_bytes(forged(change))
    deep = b"[" * 100_000
    with pytest.raises(ModelFileError, match="does not describe a model"):
        from_bytes(signed(content[:12] + struct.pack("<Q", len(deep)) + deep))
    with pytest.raises(ModelFileError, match="longer than the file"):
        from_bytes(signed(content[:12] + struct.pack("<Q", 2**63) + content[20:-32]))


def test_a_newer_format_is_named(classifier):
    content = to_bytes(classifier)
    with pytest.raises(ModelFileError, match="format 4, but this sitewise reads formats up to 3; install"):
        from_bytes(signed(content[:8] + struct.pack("<I", 4) + content[12:-32]))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model"
    for content in (b"", b"hello", pickle.dumps({"a": 1}), b"PK\x03\x04" + b"0" * 100):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="not a sitewise model file"):
            sitewise.load(path)
    with pytest.raises(FileNotFoundError):
        sitewise.load(tmp_path / "nowhere")


class OwnKernel(kernels.RBF):
    pass


def test_own_classes_are_refused_in_words(classifier, X, tmp_path):
    model = with_part(classifier)
    model.kernel = OwnKernel()
    path = tmp_path / "model"
    classifier.save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Use pickle for your own classes"):
        model.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_an_evidence_of_ones_own_is_not_saved_as_that_of_the_library(classifier, tmp_path):
    ep = sitewise.evidence.ep
    for own in (sitewise.evidence.Evidence("ep", lambda *_: 0.0), dataclasses.replace(ep, name="mine")):
        model = with_part(classifier)
        model.method = Method(evidence=own)
        with pytest.raises(ValueError, match="Use pickle for your own classes"):
            model.save(tmp_path / "model")


def test_an_estimator_that_is_not_fitted_has_nothing_to_save(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        GPRegressor().save(tmp_path / "model")


@pytest.mark.parametrize("settings", [{}, {"with_mean": False}, {"with_std": False}])
def test_a_pipeline_with_a_scaler(tmp_path, X, labels, settings) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    pipeline = make_pipeline(StandardScaler(**settings), GPClassifier(method="laplace")).fit(X, labels)
    sitewise.save(pipeline, tmp_path / "p.sitewise")
    again = sitewise.load(tmp_path / "p.sitewise")
    assert np.array_equal(again.predict_proba(X), pipeline.predict_proba(X))
    assert again[0].get_params() == pipeline[0].get_params()
    other = make_pipeline(MinMaxScaler(), GPClassifier(method="laplace")).fit(X, labels)
    with pytest.raises(ValueError, match="cannot hold MinMaxScaler"):
        sitewise.save(other, tmp_path / "q.sitewise")


def test_a_file_without_room_for_a_header_is_refused_even_with_a_right_checksum(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(signed(model_file.MAGIC))
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        sitewise.load(path)
