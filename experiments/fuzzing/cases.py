"""What a fuzz case is, and how one is drawn from its number.

A *block* fixes all that decides which programs are compiled (likelihood, kernel, method, padded shape, precision);
its cases differ in data, weights and hyperparameters.  Columns are padded with zeros, which no kernel here sees, and
rows with rows of weight 0, so that cases of 1–300 rows and 1–40 columns share a program.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from sitewise import EP, VI, Data, Laplace, Model, kernels, likelihoods, means

PER_BLOCK = 125
COLUMNS = 40

METHODS = {"laplace": Laplace(), "vi": VI(), "ep": EP(), "ep-half": EP(power=0.5)}
LEARNERS = ("laplace", "ep", "vi", "hybrid", "hybrid-vem", "vi+laplace", "ep+elbo", "laplace+ep", "hybrid+loo")
LIKELIHOODS = (
    "probit", "logit", "gaussian", "student-t", "laplace-noise", "poisson", "poisson-softplus", "negative-binomial",
    "binomial", "beta", "gamma", "log-normal", "ordinal", "censored-gaussian", "heteroscedastic-gaussian",
)  # fmt: skip
KERNELS = ("matern52", "rbf", "matern12", "matern32", "rational-quadratic", "sum", "periodic")
# What the estimators take.
REGRESSIONS = {
    "gaussian": "gaussian", "student-t": "student_t", "laplace-noise": "laplace_noise", "poisson": "poisson",
    "negative-binomial": "negative_binomial", "beta": "beta", "gamma": "gamma", "log-normal": "log_normal",
    "ordinal": "ordinal",
}  # fmt: skip
CLASSES = ("probit", "logit")
ORDERED = 4  # classes of the ordinal likelihood


@dataclasses.dataclass(frozen=True)
class Block:
    """kind       "infer": inference at given θ; "bound": the same beside annealed importance sampling;
               "learn": a learner; "estimator": GPClassifier or GPRegressor on a raw table
    method     a name of METHODS for the first two kinds, of LEARNERS for the others
    rows       the padded number of rows
    weights    "one", "counts" (0, 1, 2, …) or "fractions"
    """

    kind: str
    likelihood: str
    kernel: str
    method: str
    rows: int
    dtype: str
    weights: str
    constant_mean: bool

    @staticmethod
    def numbered(number: int) -> Block:
        """Every likelihood meets every method before any pair comes again; the rest is drawn."""
        turn, place = divmod(number, len(_TURNS))
        kind = _TURNS[place]
        pairs = _pairs(kind)
        likelihood, method = pairs[(turn * _TURNS.count(kind) + _TURNS[:place].count(kind)) % len(pairs)]
        rng = np.random.default_rng([11, number])
        sizes = {"infer": ((32, 96, 320), (0.75, 0.2, 0.05)), "learn": ((32,), (1.0,))}
        rows, shares = sizes.get(kind, ((32,), (1.0,)))
        return Block(
            kind,
            likelihood,
            str(rng.choice(KERNELS)),
            method,
            int(rng.choice(rows, p=shares)),
            str(rng.choice(["float64", "float32"], p=[0.85, 0.15])) if kind == "infer" else "float64",
            str(rng.choice(["one", "counts", "fractions"], p=[0.6, 0.25, 0.15])),
            bool(rng.random() < 0.3),
        )


# Of sixteen blocks: nine of inference, four of learners, two of estimators, one beside annealed importance sampling.
_TURNS = (
    "infer", "learn", "infer", "infer", "estimator", "infer", "learn", "infer", "bound", "infer", "learn", "infer",
    "estimator", "infer", "learn", "infer",
)  # fmt: skip


@functools.cache
def _pairs(kind: str) -> list[tuple[str, str]]:
    """All pairs of likelihood and method, shuffled; without Laplace's method where it has no curvature to work with."""
    methods = {"infer": tuple(METHODS), "bound": ("vi",), "learn": LEARNERS, "estimator": LEARNERS[:4]}[kind]
    served = (*CLASSES, *REGRESSIONS) if kind == "estimator" else LIKELIHOODS
    pairs = [(p, m) for p in served for m in methods if not (p == "laplace-noise" and m.startswith("laplace"))]
    order = np.random.default_rng(len(pairs)).permutation(len(pairs))
    return [pairs[i] for i in order]


@dataclasses.dataclass(frozen=True)
class Case:
    """`X` has its true columns; `theta` are the values that `model` puts into kernel, likelihood and mean."""

    seed: int
    block: Block
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    theta: dict[str, Any]
    tags: tuple[str, ...]

    @property
    def model(self) -> Model:
        mean = means.Constant(self.theta["mean"]) if self.block.constant_mean else None
        return Model.full(_kernel(self.block.kernel, self.theta), _likelihood(self.block.likelihood, self.theta), mean)

    @property
    def data(self) -> Data:
        """Padded, in the block's precision."""
        dtype = np.dtype(self.block.dtype)
        X = np.zeros((len(self.X), COLUMNS))
        X[:, : self.X.shape[1]] = self.X
        data = Data.of(X.astype(dtype), self.y, self.weight).pad(self.block.rows)
        # One program for the block, whether or not this case happens to have a fraction.
        return dataclasses.replace(data, fractional=self.block.weights == "fractions")


def drawn(seed: int) -> Case:
    """The case of this number."""
    block = Block.numbered(seed // PER_BLOCK)
    rng = np.random.default_rng([7, seed])
    return build(block, rng, seed)


def build(block: Block, rng: np.random.Generator, seed: int = -1) -> Case:
    rows = int(rng.integers(1, min(block.rows, 300) + 1)) if rng.random() < 0.8 else int(rng.integers(1, 4))
    columns = int(rng.choice([1, 3, COLUMNS]) if block.kind == "estimator" else np.ceil(COLUMNS ** rng.random()))
    X, tags = inputs(rng, rows, columns)
    y, more = observations(block.likelihood, rng, X)
    return Case(seed, block, X, y, weights(block.weights, rng, rows), theta(block, rng), (*tags, *more))


def inputs(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, list[str]]:
    tags = []
    X = rng.normal(size=(rows, columns))
    if rng.random() < 0.15:
        X, tags = rng.integers(0, 3, size=(rows, columns)).astype(float), ["ties"]

    def sometimes(name: str, chance: float) -> bool:
        if rng.random() < chance:
            tags.append(name)
            return True
        return False

    if columns > 1 and sometimes("duplicated column", 0.15):
        X[:, -1] = X[:, 0]
    if sometimes("constant column", 0.15):
        X[:, int(rng.integers(columns))] = rng.normal() * 10.0 ** rng.integers(-3, 9)
    if columns > 2 and sometimes("collinear", 0.15):
        X[:, 1] = 2 * X[:, 0] - X[:, 2]
    if rows > 1 and sometimes("duplicated rows", 0.2):
        X = X[rng.integers(0, max(1, rows // 3), size=rows)]
    if sometimes("scales of columns", 0.15):
        X = X * 10.0 ** rng.uniform(-8, 8, size=columns)
    if sometimes("huge", 0.08):
        X = X * 10.0 ** rng.uniform(4, 150)
    if sometimes("tiny", 0.08):
        X = X * 10.0 ** -rng.uniform(4, 150)
    if sometimes("outlier in X", 0.1):
        X[int(rng.integers(rows)), int(rng.integers(columns))] = 1e8
    if sometimes("far from zero", 0.08):
        X = X + 1e6
    return X, tags


def observations(likelihood: str, rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    rows = len(X)
    f = np.sin(3 * rng.normal(size=rows)) + rng.normal(size=rows)
    kinds = ("usual", "constant", "ties", "outlier", "wide", "separable")
    tag = str(rng.choice(kinds, p=[0.4, 0.12, 0.12, 0.12, 0.12, 0.12]))
    if tag == "constant":
        f = np.full(rows, f[0])
    elif tag == "ties":
        f = np.round(f)
    elif tag == "wide":
        f = f * 10.0 ** rng.uniform(-4, 4)
    elif tag == "separable":
        f = np.where(X[:, 0] > np.median(X[:, 0]), 1.0, -1.0) * (1 + np.abs(f))
    out = int(rng.integers(rows))
    level = np.exp(np.clip(f, -18, 14))
    shares = 1 / (1 + np.exp(-np.clip(f, -27, 27)))
    if likelihood in CLASSES:
        y = np.where(f > 0, 1.0, -1.0)
    elif likelihood == "ordinal":
        y = np.clip(np.floor(f + ORDERED / 2), 0, ORDERED - 1)
    elif likelihood in ("poisson", "poisson-softplus", "negative-binomial"):
        y = np.floor(level)
        if tag == "outlier":
            y[out] = 1e8
    elif likelihood == "binomial":
        trials = np.floor(10.0 ** rng.uniform(0, 4, size=rows))
        y = np.stack([np.floor(trials * shares), trials], axis=-1)
    elif likelihood == "beta":
        y = np.clip(shares, 1e-12, 1 - 1e-12)
    elif likelihood in ("gamma", "log-normal"):
        y = level
        if tag == "outlier":
            y[out] = rng.choice([1e8, 1e-8])
    else:
        y = f.copy()
        if tag == "outlier":
            y[out] = rng.choice([1e8, -1e8])
        if likelihood == "heteroscedastic-gaussian":
            y = np.stack([y, 10.0 ** rng.uniform(-6, 6, size=rows)], axis=-1)
        if likelihood == "censored-gaussian":
            which = rng.integers(0, 4, size=rows)
            low = np.where(which == 1, -np.inf, y)
            high = np.where(which == 2, np.inf, np.where(which == 3, y + rng.random(rows), y))
            y = np.stack([low, high], axis=-1)
    return y, [] if tag == "usual" else [f"y {tag}"]


def weights(kind: str, rng: np.random.Generator, rows: int) -> np.ndarray:
    if kind == "one":
        return np.ones(rows)
    if kind == "counts":
        w = rng.integers(0, 4, size=rows).astype(float)
    else:
        w = np.where(rng.random(rows) < 0.3, 0.0, rng.uniform(0.01, 3, size=rows))
    w[int(rng.integers(rows))] = 1.0
    return w


def theta(block: Block, rng: np.random.Generator) -> dict[str, Any]:
    """log ℓ and log σ in [−10, 10], half of the time within a plausible ±2."""
    wide = rng.random() < 0.5
    reach = 10.0 if wide else 2.0
    ard = rng.random() < 0.5
    log_scales = rng.uniform(-reach, reach, size=COLUMNS) if ard else np.full(COLUMNS, rng.uniform(-reach, reach))
    return {
        "lengthscale": np.exp(log_scales),
        "variance": float(np.exp(2 * rng.uniform(-reach, reach))),
        "noise": float(np.exp(rng.uniform(-reach, reach) / 2)),
        "mean": float(rng.normal() * (10 if wide else 1)),
    }


def _kernel(name: str, theta: dict[str, Any]) -> kernels.Kernel:
    scale, variance = theta["lengthscale"], theta["variance"]
    if name == "sum":
        return kernels.Matern52(scale, variance) + kernels.Linear(0.1 * variance) + kernels.Constant(variance)
    if name == "periodic":
        return kernels.Periodic(scale, float(np.exp(np.mean(np.log(scale)))), variance)
    kinds = {
        "matern52": kernels.Matern52,
        "rbf": kernels.RBF,
        "matern12": kernels.Matern12,
        "matern32": kernels.Matern32,
        "rational-quadratic": kernels.RationalQuadratic,
    }
    return kinds[name](scale, variance)


def _likelihood(name: str, theta: dict[str, Any]) -> likelihoods.Likelihood:
    noise = theta["noise"]
    makers = {
        "probit": likelihoods.BernoulliProbit,
        "logit": likelihoods.BernoulliLogit,
        "gaussian": lambda: likelihoods.Gaussian(noise),
        "student-t": lambda: likelihoods.StudentT(noise, 3.0),
        "laplace-noise": lambda: likelihoods.LaplaceNoise(noise),
        "poisson": likelihoods.Poisson,
        "poisson-softplus": lambda: likelihoods.Poisson(link="softplus"),
        "negative-binomial": lambda: likelihoods.NegativeBinomial(noise),
        "binomial": likelihoods.Binomial,
        "beta": lambda: likelihoods.Beta(1 + noise),
        "gamma": lambda: likelihoods.Gamma(noise),
        "log-normal": lambda: likelihoods.LogNormal(noise),
        "ordinal": lambda: likelihoods.Ordinal(-noise, noise * np.ones(ORDERED - 2)),
        "censored-gaussian": lambda: likelihoods.CensoredGaussian(noise),
        "heteroscedastic-gaussian": likelihoods.HeteroscedasticGaussian,
    }
    return makers[name]()
