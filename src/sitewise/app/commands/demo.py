"""`sitewise demo`: compare the methods on one small data set; print a table, write a picture and a report."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from sitewise import metrics
from sitewise.app.options import COMPARED
from sitewise.app.process import check_writable, ends_in_a_sentence, own_process, save
from sitewise.data import Data
from sitewise.errors import UserError
from sitewise.kernels import Matern52
from sitewise.learning.fit import Fit
from sitewise.likelihoods import BernoulliProbit
from sitewise.methods import DEFAULT, METHODS, resolve
from sitewise.model import Model
from sitewise.process.precision import working_precision
from sitewise.process.progress import bar

if TYPE_CHECKING:
    from rich.table import Table

    from sitewise.mcmc import Certificate

_PICTURES = (".png", ".svg", ".pdf")
_LABELS = {name: METHODS[name].label for name in COMPARED}


@ends_in_a_sentence
def demo(
    out: Annotated[Path, typer.Option(help="Output file of the picture; the report is written beside it.")] = Path(
        "out/demo.png"
    ),
    cache: Annotated[bool, typer.Option(help="Keep compiled programs for the next run.")] = True,
) -> None:
    """Fit the methods on scikit-learn's breast-cancer data; print a table, and write a picture and a report."""
    check_writable(out)
    if out.suffix not in _PICTURES:
        raise UserError(
            f"--out must end in {' or '.join(_PICTURES)}: it names the picture, and the report is written beside it."
        )
    own_process(cache)
    shown = run(out.suffix)
    save(out, shown.picture)
    save(out.with_suffix(".html"), shown.report)


class Split(NamedTuple):
    """Training set and test set."""

    train: Data
    X_test: np.ndarray
    y_test: np.ndarray


def breast_cancer() -> Split:
    """Return scikit-learn's Wisconsin diagnostic data, standardised by the training set."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    y = np.where(y == 1, 1.0, -1.0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    scale = StandardScaler().fit(X_train)
    return Split(Data.of(scale.transform(X_train), y_train), scale.transform(X_test), y_test)


class Score(NamedTuple):
    """A fit and its predictions of the test set: log density of the label, probability of a benign tumour."""

    fit: Fit
    density: np.ndarray
    probability: np.ndarray
    accuracy: float
    seconds: float

    @property
    def log_density(self) -> float:
        return float(np.mean(self.density))


def fit_and_score(name: str, split: Split) -> Score:
    """Fit one method to the training set, and predict the test set."""
    model = Model.full(Matern52(), BernoulliProbit())
    began = time.perf_counter()
    fit = resolve(name).fit(model, split.train)
    seconds = time.perf_counter() - began
    with working_precision():
        q = fit.posterior()
        density = np.asarray(q.log_density(split.X_test, split.y_test))
        probability = np.asarray(q.probability(split.X_test))
    return Score(fit, density, probability, metrics.accuracy(probability, split.y_test), seconds)


def table(scores: dict[str, Score]) -> Table:
    """Return the scores, one row per method."""
    from rich.table import Table

    out = Table(title="Breast cancer (scikit-learn), half for training, half for testing")
    for column in ("method", "evidence / row", "ℓ", "σ", "test log density", "accuracy", "seconds"):
        out.add_column(column, justify="left" if column == "method" else "right")
    for name, s in scores.items():
        found = s.fit.parameters
        out.add_row(
            _LABELS[name] + ("" if s.fit.converged else " (!)"),
            f"{s.fit.objective / s.fit.data.rows:.4f}",
            f"{float(found['kernel.lengthscale']):.2f}",
            f"{float(found['kernel.variance']) ** 0.5:.2f}",
            f"{s.log_density:.4f}",
            f"{s.accuracy:.3f}",
            f"{s.seconds:.1f}",
        )
    return out


_WORDS = (
    "The hybrid learns from EP's evidence on the same VI sites; the ELBO (VI) is lower, and its maximum is elsewhere. "
    "One split of one data set proves nothing: see results/icml2023 for 27 sets."
)


class Shown(NamedTuple):
    """The bytes of an image file, and of an HTML report."""

    picture: bytes
    report: bytes


def run(suffix: str, grid: int = 9) -> Shown:
    """Print the table; return the picture and the report."""
    from rich.console import Console

    from sitewise.app.report import demo_report
    from sitewise.surface import evidence_surface

    console = Console()
    split = breast_cancer()
    log_l, log_s = np.linspace(0.5, 5.0, grid), np.linspace(-0.5, 4.0, grid)
    scores: dict[str, Score] = {}
    surfaces: dict[str, np.ndarray] = {}
    with bar("fitting", len(_LABELS) * (grid + 1) + 1) as progress, ThreadPoolExecutor(1) as beside:
        # The hybrid first: the gold standard at its optimum takes as long as everything else, and runs in parallel.
        for name in sorted(_LABELS, key=lambda name: name != DEFAULT):
            progress.say(f"fitting {_LABELS[name]}")
            scores[name] = fit_and_score(name, split)
            if name == DEFAULT:
                gold = beside.submit(gold_standard, scores[name].fit)
            progress.advance()
        scores = {name: scores[name] for name in _LABELS}
        for name, label in _LABELS.items():
            progress.say(f"evidence surface of {label}")
            pair = METHODS[name].pair
            assert pair is not None
            surfaces[name] = evidence_surface(
                pair.inference, pair.evidence, split.train, log_l, log_s, done=lambda row: progress.advance()
            ).evidence
        progress.say("gold standard: log Z at the hybrid's optimum")
        certificate = gold.result()
        progress.advance()
    console.print(table(scores))
    console.print(_WORDS)
    for name, s in scores.items():
        if not s.fit.converged:
            console.print(f"(!) {_LABELS[name]}: {s.fit.report()}")
    console.print("\n".join(str(certificate).splitlines()[:1]) + ", at the hybrid's optimum.", soft_wrap=True)
    report = demo_report({**facts(split, scores, surfaces, log_l, log_s), "certificate": certificate.to_plain()})
    return Shown(picture(scores, surfaces, log_l, log_s, suffix), report.encode())


def gold_standard(fit: Fit) -> Certificate:
    """Return log Z by annealing and the evidences on the fitted sites; a short run has a small error bar here."""
    from sitewise.mcmc import Certificate, log_evidence

    found = log_evidence(fit.model, fit.data, steps=64, max_steps=256)
    evidences = {"vi (elbo)": fit.evidences["elbo"], "hybrid": fit.evidences["ep"]}
    return Certificate(found, evidences, dict.fromkeys(evidences, fit.solution.outcome.ok), float(fit.data.rows))


def facts(
    split: Split, scores: dict[str, Score], surfaces: dict[str, np.ndarray], log_l: np.ndarray, log_s: np.ndarray
) -> dict[str, Any]:
    """Return the contents of the report as plain data."""
    rows = split.train.rows
    names = {1.0: "benign", -1.0: "malignant"}
    methods, optima = {}, {}
    for name, s in scores.items():
        found = s.fit.parameters
        point = {
            "lengthscale": float(found["kernel.lengthscale"]), "sigma": float(found["kernel.variance"]) ** 0.5,
        }  # fmt: skip
        optima[name] = {**point, "evidence": s.fit.objective / rows, "converged": s.fit.converged}
        methods[name] = {
            **point, "evidence_per_row": s.fit.objective / rows, "log_density": s.log_density, "accuracy": s.accuracy,
            "seconds": s.seconds,
        }  # fmt: skip
    hybrid = scores[DEFAULT]
    worst = np.argsort(hybrid.density)[:10]
    return {
        "title": "sitewise demo: breast cancer",
        "subtitle": f"scikit-learn's breast-cancer data, {rows} rows for training, {len(split.y_test)} for testing",
        "words": _WORDS,
        "methods": methods,
        "optima": optima,
        "log_lengthscale": log_l.tolist(),
        "log_sigma": log_s.tolist(),
        "surfaces": {name: (values / rows).tolist() for name, values in surfaces.items()},
        "reliability": {name: metrics.reliability(s.probability, split.y_test) for name, s in scores.items()},
        "outliers": [
            {
                "row": int(i) + 1, "target": names[float(split.y_test[i])], "log_density": float(hybrid.density[i]),
                "prediction": names[1.0 if hybrid.probability[i] > 0.5 else -1.0],
            }
            for i in worst
        ],
        "report": hybrid.fit.report(),
    }  # fmt: skip


def picture(
    scores: dict[str, Score], surfaces: dict[str, np.ndarray], log_l: np.ndarray, log_s: np.ndarray, suffix: str
) -> bytes:
    """Draw the evidence surfaces with the optimum of each method."""
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
        axis.set_title(f"{_LABELS[name]}\ntest log density {scores[name].log_density:.4f}", fontsize=10)
        axis.set_xlabel("log ℓ")
    axes[0].set_ylabel("log σ")
    figure.colorbar(shade, ax=axes, label="evidence per row")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix.lstrip(".") or "png", dpi=130)
    return buffer.getvalue()
