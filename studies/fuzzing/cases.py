"""Define a fuzz case, and draw it from its number.

A *block* fixes everything that determines which programs are compiled (likelihood, kernel, method, padded shape,
precision); its cases differ in data, weights and hyperparameters.  Columns are padded with zeros, which the kernels do
not use, and rows with rows of weight 0, so that cases of 1–300 rows and 1–40 columns share a program.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from fuzzing.draws import CLASSES, COLUMNS, inputs, observations, theta, weights
from fuzzing.models import kernel, likelihood
from sitewise import EP, VI, Data, Laplace, Model, means

PER_BLOCK = 125

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
        return Model.full(kernel(self.block.kernel, self.theta), likelihood(self.block.likelihood, self.theta), mean)

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
    return Case(seed, block, X, y, weights(block.weights, rng, rows), theta(rng), (*tags, *more))
