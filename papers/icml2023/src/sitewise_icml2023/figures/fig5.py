"""Fig. 5: the conflict of E- and M-step.  Algorithm 1 without its stopping rule, on the surface it should climb.

The paper names neither the fold nor the scale of the steps.  Its curve starts at L_EP = −280 log 2, so 280 rows of
ionosphere were trained on: fold 0 of a seed.  Its first round moves log ℓ by 0.199 and log σ by 0.099, 20 Adam steps of
0.01 on (log ℓ, log σ²); the tables were made on the softplus scale, where the same fold falls after 804 rounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sitewise import VEM, evidence
from sitewise.data import Data
from sitewise.inference import VI
from sitewise.surface import evidence_surface
from sitewise_icml2023 import protocols, variants


def compute(
    directory: Path | None = None,
    rounds: int = 299,
    points: int = 21,
    done: Callable[[str], None] | None = None,
) -> dict[str, np.ndarray]:
    """The trajectory (θ, ELBO and EP evidence after each round) and the profile surface that it should climb."""
    fold = protocols.fold("ionosphere", "published", 42, 0, directory)
    data = Data.of(fold.X, fold.y)
    method = variants.parse("hybrid-vem")
    learner = variants.learner(method, "classification", "ionosphere")
    assert isinstance(learner, VEM)  # Algorithm 1
    learner = dataclasses.replace(learner, stop_on_fall=False, max_rounds=rounds, transform="log")
    report = None if done is None else (lambda entry: done(f"Algorithm 1: L_EP = {entry['ep']:.3f}"))
    trace = learner.fit(variants.model(method, "classification", fold.X), data, callback=report).trace
    axis = np.linspace(-1.0, 5.0, points)
    report_row = None if done is None else (lambda row: done("evidence surface"))
    surface = evidence_surface(VI(), evidence.ep, data, axis, axis, done=report_row)
    return {
        "log_lengthscale": np.log([e["kernel.lengthscale"] for e in trace]),
        "log_sigma": 0.5 * np.log([e["kernel.variance"] for e in trace]),
        "elbo": np.array([e["elbo"] for e in trace]),
        "ep": np.array([e["ep"] for e in trace]),
        "axis": axis,
        "surface": surface.evidence,
        "n": np.array(data.rows),
    }


def stop(ep: np.ndarray) -> int | None:
    """The last round before the learning objective fell: where Algorithm 1 stops; None if it never fell."""
    falls = np.flatnonzero(np.diff(ep) < 0)
    return int(falls[0]) if len(falls) else None


def draw(out: dict[str, np.ndarray]) -> Figure:
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = int(out["n"])
    left.contourf(out["axis"], out["axis"], np.clip(out["surface"] / n, -0.8, 0.0), 32, cmap="Blues_r")
    best = np.unravel_index(np.argmax(out["surface"]), out["surface"].shape)
    left.plot(out["axis"][best[1]], out["axis"][best[0]], "k.", markersize=10, label="best of the grid")
    path = (out["log_lengthscale"], out["log_sigma"])
    left.plot(*path, color="orange", linewidth=2)
    left.plot(path[0][0], path[1][0], "^", color="orange", markeredgecolor="k", label="after the first round")
    right.plot(out["elbo"], label="ELBO")
    right.plot(out["ep"], label="EP evidence (learning objective)")
    halt = stop(out["ep"])
    if halt is not None:
        left.plot(path[0][halt], path[1][halt], "rx", markersize=9, label="the objective falls: Algorithm 1 stops")
        right.axvline(halt, color="r", linestyle="--", label=f"falls after round {halt + 1}")
    left.set(xlabel="log ℓ", ylabel="log σ", xlim=(-1, 5), ylim=(-1, 5), title="profile EP evidence and the path of θ")
    high = float(out["ep"].max())
    span = 0.15 * n
    right.set(
        xlabel="round", ylabel="nats", ylim=(high - span, high + 0.1 * span), title="ionosphere, fold 0 of seed 42"
    )
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    return figure
