"""Measure the coverage of latent 90 % bands at 60 rows: true hyperparameters, optimum, integral, default.

    python studies/integration_bands.py [--sets 200] [--jobs 1] [--likelihood NAME …] [--modes MODE …] [--seconds S]
    python studies/integration_bands.py --table      results/intervals/bands.md from the stored lines

Every set: 60 training rows and 60 new rows of one column (even sets) or two columns (odd sets), standard normal; f is
drawn from a Matérn 5/2 GP with

    log ℓ_j ~ N(log √columns, 0.7²) + N(0, 0.4²) per column,   log σ² ~ N(log v, 1),   level ~ N(b, 0.5²),

v = 4 for labels and 1 otherwise; b = 1 for counts and 0 otherwise, and labels have level 0.  Scales of noise are 0.3,
with 4 degrees of freedom for Student's t.  Sets of labels have at least three rows of each class.

true         the hyperparameters of the simulation held fixed: the error of the approximation of q(f) alone
optimum      integrate=False
integrated   integrate=True
default      the estimator without arguments except the likelihood

A band is mean ± 1.645 standard deviations of `predict_latent`; the line of a set stores the share of new rows whose
true f lies in its band, the mean half-width, the mean log density of the new y, and CPU seconds of the fit.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from scipy import stats

from pooled import Line, add, stored
from sitewise import GPClassifier, GPRegressor, Hyperparameters, kernels, likelihoods, means

OUT = Path(__file__).resolve().parents[1] / "results" / "intervals"
ROWS, NEW, LEVEL = 60, 60, 0.9
KINDS = ("poisson", "probit", "student_t", "gaussian")
MODES = ("true", "optimum", "integrated", "default")
FORMER = "integrated (0.2.0)"  # stored lines of integrate=True with the designs of 0.2.0
NOISE, DF = 0.3, 4.0
TRUE_LIKELIHOODS = {
    "poisson": likelihoods.Poisson(),
    "probit": likelihoods.BernoulliProbit(),
    "student_t": likelihoods.StudentT(NOISE, DF),
    "gaussian": likelihoods.Gaussian(NOISE),
}


class Drawn(NamedTuple):
    """One simulated set with its hyperparameters; the first ROWS rows are for training."""

    X: np.ndarray
    y: np.ndarray
    f: np.ndarray
    kernel: kernels.Kernel
    level: float


def draw(kind: str, number: int) -> Drawn:
    rng = np.random.default_rng([90, KINDS.index(kind), number])
    columns, size = 1 + number % 2, ROWS + NEW
    while True:
        X = rng.normal(size=(size, columns))
        lengths = np.exp(0.5 * np.log(columns) + 0.7 * rng.normal() + 0.4 * rng.normal(size=columns))
        variance = float(np.exp(np.log(4.0 if kind == "probit" else 1.0) + rng.normal()))
        level = 0.0 if kind == "probit" else float((kind == "poisson") + 0.5 * rng.normal())
        kernel = kernels.Matern52(lengths if columns > 1 else lengths[0], variance)
        K = np.asarray(kernel.matrix(X)) + 1e-9 * variance * np.eye(size)
        f = level + np.linalg.cholesky(K) @ rng.normal(size=size)
        y = _observed(kind, f, rng)
        if kind != "probit" or 3 <= np.sum(y[:ROWS]) <= ROWS - 3:
            return Drawn(X, y, f, kernel, level)


def _observed(kind: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if kind == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    if kind == "probit":
        return (rng.uniform(size=f.shape) < stats.norm.cdf(f)).astype(float)
    return f + NOISE * (rng.standard_t(DF, f.shape) if kind == "student_t" else rng.normal(size=f.shape))


def model_of(kind: str, mode: str, drawn: Drawn) -> Any:
    settings: dict[str, Any] = {} if mode == "default" else {"integrate": mode == "integrated"}
    if mode == "true":
        settings |= {"kernel": drawn.kernel, "hyperparameters": Hyperparameters(fixed="*")}
    if kind == "probit":
        return GPClassifier(**settings)
    if mode == "true":
        settings |= {"mean": means.Constant(drawn.level), "normalize_y": False}
        return GPRegressor(likelihood=TRUE_LIKELIHOODS[kind], **settings)
    return GPRegressor(likelihood=kind, **settings)


def measure(piece: tuple[str, str, int]) -> Line:
    """Coverage of the bands at the new rows of one set."""
    kind, mode, number = piece
    drawn = draw(kind, number)
    model = model_of(kind, mode, drawn)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(drawn.X[:ROWS], drawn.y[:ROWS])
    seconds = time.process_time() - begun
    mean, sd = model.predict_latent(drawn.X[ROWS:], return_std=True)
    reach = stats.norm.ppf(0.5 + LEVEL / 2) * sd
    density = model.log_predictive_density(drawn.X[ROWS:], drawn.y[ROWS:])
    return {
        "likelihood": kind, "mode": mode, "set": number, "columns": drawn.X.shape[1],
        "covered": round(float(np.mean(np.abs(drawn.f[ROWS:] - mean) <= reach)), 4),
        "width": round(float(np.mean(reach)), 4), "density": round(float(np.mean(density)), 5),
        "seconds": round(seconds, 3),
    }  # fmt: skip


def summary(lines: list[Line]) -> str:
    """Means over the sets, with standard errors; seconds are medians."""
    out = [
        "| likelihood | hyperparameters | sets | coverage | one column | two columns | half-width | "
        "log density of new y | minus optimum | CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        optimum = {one["set"]: one["density"] for one in lines if (one["likelihood"], one["mode"]) == (kind, "optimum")}
        for mode in ("true", "optimum", FORMER, "integrated", "default"):
            mine = [line for line in lines if (line["likelihood"], line["mode"]) == (kind, mode)]
            if not mine:
                continue
            covered = [
                _with_error([one["covered"] for one in mine if one["columns"] in which])
                for which in ((1, 2), (1,), (2,))
            ]
            gain = [one["density"] - optimum[one["set"]] for one in mine if one["set"] in optimum]
            cells = [
                kind, mode, str(len(mine)), *covered, f"{np.mean([one['width'] for one in mine]):.3f}",
                f"{np.mean([one['density'] for one in mine]):.4f}", _with_error(gain, 4) if gain else "",
                f"{np.median([one['seconds'] for one in mine]):.2f}",
            ]  # fmt: skip
            out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def _with_error(values: list[float], digits: int = 3) -> str:
    if not values:
        return ""
    error = np.std(values) / np.sqrt(len(values))
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}".replace("-", "−")


HEAD = """# Coverage of latent 90 % bands at 60 rows

Written by `python studies/integration_bands.py` and then `--table`, from `bands.jsonl`. The head of the script
describes the simulated sets. Coverage is the share of 60 new rows per set whose true f lies in the band, with its
standard error over the sets. *optimum* is the default of 0.2.0, *integrated (0.2.0)* was its `integrate=True`, and
*default* is the present default (`integrate="auto"`). CPU seconds were measured on a busy machine.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no set after this time")
    parser.add_argument("--likelihood", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--quick", action="store_true", help="two sets of each, printed and not written")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    path = OUT / "bands.jsonl"
    if given.quick:
        print(summary([measure((kind, mode, k)) for kind in given.likelihood for mode in given.modes for k in (0, 1)]))
        return
    if not given.table:
        done = {(line["likelihood"], line["mode"], line["set"]) for line in stored(path)}
        every = [(kind, mode, k) for k in range(given.sets) for kind in given.likelihood for mode in given.modes]
        add(path, measure, [piece for piece in every if piece not in done], given.jobs, given.seconds)
    text = summary(stored(path))
    if given.table:
        (OUT / "bands.md").write_text(HEAD + text + "\n")
    print(text)


if __name__ == "__main__":
    main()
