"""L4. `sitewise demo`: four methods on one small data set, a table and a picture."""

from __future__ import annotations

import io
import time
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sitewise.data import Data
from sitewise.kernels import Matern52
from sitewise.learning.fit import Fit
from sitewise.likelihoods import BernoulliProbit
from sitewise.methods import PAIRS, resolve
from sitewise.metrics import accuracy
from sitewise.model import Model
from sitewise.precision import working_precision
from sitewise.predict import posterior
from sitewise.surface import evidence_surface

_METHODS = {"laplace": "Laplace", "ep": "EP", "vi": "VI", "hybrid": "VI + EP evidence (hybrid)"}


class Split(NamedTuple):
    train: Data
    X_test: np.ndarray
    y_test: np.ndarray


def breast_cancer() -> Split:
    """The Wisconsin diagnostic data as shipped in scikit-learn, scaled by its training rows."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    y = np.where(y == 1, 1.0, -1.0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    scale = StandardScaler().fit(X_train)
    return Split(Data.of(scale.transform(X_train), y_train), scale.transform(X_test), y_test)


class Score(NamedTuple):
    fit: Fit
    log_density: float
    accuracy: float
    seconds: float


def fit_and_score(name: str, split: Split) -> Score:
    model = Model.full(Matern52(), BernoulliProbit())
    began = time.perf_counter()
    fit = resolve(name).fit(model, split.train)
    seconds = time.perf_counter() - began
    with working_precision():
        q = posterior(fit.model, fit.data, fit.sites)
        density = float(np.mean(q.log_density(split.X_test, split.y_test)))
        hits = accuracy(q.probability(split.X_test), split.y_test)
    return Score(fit, density, hits, seconds)


def table(scores: dict[str, Score]) -> Table:
    out = Table(title="Breast cancer (scikit-learn), half for training, half for testing")
    for column in ("method", "evidence / row", "ℓ", "σ", "test log density", "accuracy", "seconds"):
        out.add_column(column, justify="left" if column == "method" else "right")
    for name, s in scores.items():
        found = s.fit.parameters
        out.add_row(
            _METHODS[name] + ("" if s.fit.converged else " (!)"),
            f"{s.fit.objective / s.fit.data.rows:.4f}",
            f"{float(found['kernel.lengthscale']):.2f}",
            f"{float(found['kernel.variance']) ** 0.5:.2f}",
            f"{s.log_density:.4f}",
            f"{s.accuracy:.3f}",
            f"{s.seconds:.1f}",
        )
    return out


def run(suffix: str, grid: int = 9) -> bytes:
    """Print the table; give the picture as the bytes of an image file."""
    console = Console()
    split = breast_cancer()
    log_l, log_s = np.linspace(0.5, 5.0, grid), np.linspace(-0.5, 4.0, grid)
    scores: dict[str, Score] = {}
    surfaces: dict[str, np.ndarray] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        fits = progress.add_task("fitting", total=len(_METHODS))
        points = progress.add_task("evidence surfaces", total=len(_METHODS) * grid)
        for name in _METHODS:
            progress.update(fits, description=f"fitting {_METHODS[name]}")
            scores[name] = fit_and_score(name, split)
            progress.advance(fits)
        for name in _METHODS:
            inference, evidence = PAIRS[name]
            surfaces[name] = evidence_surface(
                inference, evidence, split.train, log_l, log_s, done=lambda: progress.advance(points)
            ).evidence
    console.print(table(scores))
    console.print(
        "EP evidence on the same VI sites is what the hybrid learns from; the ELBO (VI) is lower and its maximum lies "
        "elsewhere. One split of one data set decides nothing: see results/icml2023 for 27 sets."
    )
    for name, s in scores.items():
        if not s.fit.converged:
            console.print(f"(!) {_METHODS[name]}: {s.fit.report()}")
    return picture(scores, surfaces, log_l, log_s, suffix)


def picture(scores, surfaces, log_l, log_s, suffix: str) -> bytes:
    """Evidence surfaces with each method's optimum marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, len(surfaces), sharey=True)
    rows = next(iter(scores.values())).fit.data.rows
    levels = np.linspace(-0.6, 0.0, 25)
    for axis, (name, values) in zip(axes, surfaces.items(), strict=True):
        shade = axis.contourf(log_l, log_s, np.clip(values / rows, -0.6, 0.0), levels, cmap="viridis")
        found = scores[name].fit.parameters
        axis.plot(
            np.log(found["kernel.lengthscale"]), 0.5 * np.log(found["kernel.variance"]), "*",
            color="black", markeredgecolor="white", markersize=14,
        )  # fmt: skip
        axis.set_title(f"{_METHODS[name]}\ntest log density {scores[name].log_density:.4f}", fontsize=10)
        axis.set_xlabel("log ℓ")
    axes[0].set_ylabel("log σ")
    figure.colorbar(shade, ax=axes, label="evidence per row")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix.lstrip(".") or "png", dpi=130)
    return buffer.getvalue()
