"""One list of every kernel, likelihood, prior, inference method and evidence: new ones go here, and under every law."""

import numpy as np

from sitewise import EP, VI, Laplace, evidence, kernels, likelihoods, means, parts, priors

KERNELS = {
    "rbf": kernels.RBF(0.8, 1.3),
    "matern12": kernels.Matern12(0.8, 1.3),
    "matern32": kernels.Matern32([0.7, 1.1], 1.3),
    "matern52": kernels.Matern52([0.7, 1.1], 1.3),
    "laplacian": kernels.Laplacian([0.7, 1.1], 1.3),
    "laplacian-shared": kernels.Laplacian(0.8, 1.3),
    "normal scores": kernels.NormalScores.of(
        np.stack([np.linspace(-1.9, 2.1, 7) ** 3, [0, 1, 0, 1, 1, 0, 1]], axis=1), kernels.Matern52([0.7, 1.1], 1.3)
    ),
    "rational-quadratic": kernels.RationalQuadratic(0.8, 1.3, 0.7),
    "cosine": kernels.Cosine([1.7, 2.9], 1.3),
    "periodic": kernels.Periodic(0.9, 2.3, 1.3),
    "linear": kernels.Linear(0.7),
    "constant": kernels.Constant(0.9),
    "sum": kernels.RBF(0.8) + kernels.Linear(0.4) + kernels.Constant(0.2),
    "product": kernels.Matern32(1.2) * kernels.Periodic(1.0, 3.0),
    "shrunk": kernels.Shrunk(kernels.Matern52(0.8, 1.3), [0.6, -1.1], 0.4, np.array([1.0, 1.7])),
    "additive": kernels.Additive.of([[0.1, -0.4], [0.9, 0.3], [-1.0, 0.3]], base=kernels.Matern52(0.8, 1.3)),
    "main effects": kernels.Additive.of(
        [[0.1, -0.4], [0.9, 0.3], [-1.0, 0.3]], order=1, base=kernels.RBF([0.8, 1.1], 1.3)
    ),
    "scaled": 0.6 * kernels.Matern52(0.9),
    "centred": kernels.Centred(
        kernels.RBF(0.8, 1.3), np.array([[-0.6], [0.4], [1.0]]), np.array([0.5, 0.2, 0.3]), active_dims=(1,)
    ),
    "index": kernels.RBF(0.8) * kernels.Index(1, rank=2, levels=3),
    "intercept": kernels.Index(0),
    "pairwise": kernels.Pairwise(kernels.Matern52(0.7, 1.3)),
    "active": kernels.Matern52(0.9, active_dims=(1,)) + kernels.RBF(0.5, active_dims=(0,)),
}

LIKELIHOODS = {
    "gaussian": likelihoods.Gaussian(0.4),
    "probit": likelihoods.BernoulliProbit(),
    "logit": likelihoods.BernoulliLogit(),
    "student-t": likelihoods.StudentT(0.5, 3.0),
    "poisson": likelihoods.Poisson(),
}

# Under the laws of tests/likelihoods: the likelihood, observations to try it at, and some that it must refuse.
INF = float("inf")
MORE_LIKELIHOODS = {
    "poisson-softplus": (
        likelihoods.Poisson(link="softplus", exposure=True), [[0, 2], [3, 0.5], [40, 7]], [[1, 0], [-1, 1], [0.5, 1]]),
    "negative-binomial": (
        likelihoods.NegativeBinomial(2.0, exposure=True), [[0, 2], [3, 0.5], [40, 7]], [[1, 0], [-1, 1], [0.5, 1]]),
    "binomial": (likelihoods.Binomial(), [[0, 1], [3, 10], [100, 100]], [[2, 1], [0, 0]]),
    "beta": (likelihoods.Beta(8.0), [0.01, 0.4, 0.97], [0.0, 1.0]),
    "gamma": (likelihoods.Gamma(2.5), [0.01, 1.0, 300.0], [0.0, -1.0]),
    "log-normal": (likelihoods.LogNormal(0.6), [0.01, 1.0, 300.0], [0.0, -1.0]),
    "laplace-noise": (likelihoods.LaplaceNoise(0.7), [0.7, -2.0], []),
    "ordinal": (likelihoods.Ordinal(-0.5, [1.0, 0.3]), [0.0, 1.0, 2.0, 3.0], [4.0, -1.0, 0.5]),
    "censored-gaussian": (
        likelihoods.CensoredGaussian(0.4), [[0.3, 0.3], [-INF, 1], [0.5, INF], [0, 0.2]], [[1, 0], [-INF, INF]]),
    "weibull": (
        likelihoods.Weibull(1.7, censored=True), [[1, 1.5], [1, 1], [0.5, INF], [0, 2]], [[2, 1], [0, INF], [-1, 0]]),
    "log-logistic": (likelihoods.LogLogistic(2.5), [0.02, 1.0, 30.0], [0.0, -1.0]),
    "zero-inflated-poisson": (
        likelihoods.ZeroInflatedPoisson(0.3, exposure=True), [[0, 2], [3, 0.5], [40, 7]], [[1, 0], [-1, 1], [0.5, 1]]),
    "zero-inflated-negative-binomial": (
        likelihoods.ZeroInflatedNegativeBinomial(0.3, 2.0), [0.0, 3.0, 40.0], [-1.0, 0.5]),
    "hurdle-gamma": (likelihoods.HurdleGamma(2.0, 0.3, 0.7), [0.0, 0.1, 1.0, 300.0], [-1.0]),
    "tweedie": (likelihoods.Tweedie(0.8, 1.4), [0.0, 0.1, 1.0, 300.0], [-1.0]),
    "beta-binomial": (likelihoods.BetaBinomial(8.0), [[0, 1], [3, 10], [100, 100]], [[2, 1], [0, 0]]),
    "asymmetric-laplace": (likelihoods.AsymmetricLaplace(0.7, quantile=0.9), [0.7, -2.0], []),
    "von-mises": (likelihoods.VonMises(2.0), [0.3, -1.4], [100.0]),
    "switched": (
        likelihoods.Switched([likelihoods.Gaussian(0.4), likelihoods.Poisson(exposure=True)]),
        [[0.3, 0, 1], [4, 1, 2], [-1, 0, 1]], [[-1, 1, 2], [0, 2, 1]]),
    "heteroscedastic-gaussian": (likelihoods.HeteroscedasticGaussian(), [[0.3, 0.04], [2, 3]], [[1, 0]]),
}  # fmt: skip

# Areas of two components and two islands, of which the rows below leave some out.
_GRAPH = {0: [1, 2], 1: [2], 2: [3], 3: [], 4: [5], 5: [], 6: [], 7: []}

# Of one latent function per row, under `testing.check_prior`.
PRIORS = {
    "full": priors.FullPrior(kernels.Matern52(0.8, 1.3), means.Constant(0.4)),
    "full-jitter": priors.FullPrior(kernels.RBF(0.8, 1.3) + kernels.Linear(0.3), means.Linear([0.2, -0.1], 0.3), 1e-9),
    "sparse": priors.SparsePrior(
        kernels.Matern52(0.8, 1.3), [[0.1, -0.4], [0.9, 0.3], [-1.0, 0.2]], means.Constant(0.4)
    ),
    "sparse-blocks": priors.SparsePrior(kernels.RBF(0.9), [[0.1, -0.4], [0.9, 0.3]], keep=0, block=6),
    "markov": priors.MarkovPrior(kernels.Matern32(0.8, 1.3) + kernels.Constant(0.2), means.Constant(0.4)),
    "markov-product": priors.MarkovPrior(kernels.Cosine(1.9) * kernels.Matern52(1.1, 0.9), means.Linear(0.2, 0.3)),
    "markov-series": priors.MarkovPrior(kernels.Matern12(0.9, 1.2), series=1),
    "precision": priors.PrecisionPrior(
        kernels.Sum((parts.Map((0, 1)), parts.Series(1), parts.Linear(0), parts.Constant(), parts.Season(1, 3.0))),
        means.Constant(0.4),
    ),
    "precision-groups": priors.PrecisionPrior(
        kernels.Sum((parts.Area(0, _GRAPH), parts.Levels(1), parts.Levels(0, slope=2)))
    ),
}
# Of three latent functions per row, under `testing.check_posterior`.
CLASS_PRIORS = {
    "classes": priors.ClassPrior(kernels.Matern52(0.8, 1.3)),
    "classes-own": priors.ClassPrior.of([kernels.RBF(0.8, 1.3), kernels.RBF(0.5, 0.7), kernels.RBF(1.2, 2.0)], 3),
    "sparse-classes": priors.SparseClassPrior(kernels.Matern52(0.8, 1.3), [[0.1, -0.4], [0.9, 0.3], [-1.0, 0.2]]),
}
# The rows for those whose inputs are not two columns of any numbers: equal times, and two series.
_TIMES = np.array([0.9, -1.2, 0.3, 0.3, 2.0, -0.4, 1.1])[:, None]
INPUTS = {
    "markov": _TIMES,
    "markov-product": _TIMES,
    "markov-series": np.concatenate([_TIMES, [[1.0], [0], [1], [0], [1], [1], [1]]], axis=1),
    "precision-groups": np.stack([[0.0, 1, 2, 4, 6, 7, 0], [0, 1, 2, 3, 4, 5, 6], _TIMES[:, 0]], axis=1),
}

METHODS = {"laplace": Laplace(), "vi": VI(), "ep": EP()}
# Those for sparse priors are in tests/laws/test_sparse_laws.py.
# With one latent value per row, the others equal one of these.
EVIDENCES = {name: evidence.ALL[name] for name in evidence.QUICK if name not in evidence.FOR_RESIDUALS}


def observations(likelihood: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw y given f."""
    if likelihood in ("probit", "logit"):
        return np.where(f + rng.logistic(size=f.shape) * 0.5 > 0, 1.0, -1.0)
    if likelihood == "poisson":
        return rng.poisson(np.exp(np.clip(f, -3, 3))).astype(float)
    if likelihood == "student-t":
        return f + 0.5 * rng.standard_t(3, size=f.shape)
    return f + 0.4 * rng.normal(size=f.shape)


def problem(likelihood: str, rows: int, seed: int = 0):
    """Inputs and observations of a small two-column problem."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, observations(likelihood, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], rng)
