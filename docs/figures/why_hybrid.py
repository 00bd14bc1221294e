"""Draw why-hybrid.png of docs/explanation/choosing.md, and print the numbers of its table, all from stored results.

python docs/figures/why_hybrid.py
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes

ROOT = Path(__file__).parents[2]
SURFACE = ROOT / "results" / "surfaces" / "sonar"
STORE = ROOT / "results" / "icml2023" / "results.jsonl.gz"

# Name on the figure: columns of the surface with its evidence and with the test density of the posterior that it uses.
CURVES = {
    "log Z by MCMC": ("mcmc_log_z", "mcmc_test_log_density", "black"),
    "EP": ("ep_evidence", "ep_test_log_density", "C0"),
    "hybrid": ("hybrid_evidence", "vi_test_log_density", "C1"),
    "VI": ("vi_evidence", "vi_test_log_density", "C2"),
    "Laplace": ("laplace_evidence", "laplace_test_log_density", "C3"),
}


def best_lengthscales(path: Path) -> dict[str, list[dict[str, float]]]:
    """For each curve and each σ of the surface, the point whose lengthscale has the highest evidence."""
    with path.open() as file:
        points = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    found = {}
    for name, (evidence, _, _) in CURVES.items():
        best: dict[float, dict[str, float]] = {}
        for point in points:
            kept = best.setdefault(point["log_sigma"], point)
            if point[evidence] > kept[evidence]:
                best[point["log_sigma"]] = point
        found[name] = [best[sigma] for sigma in sorted(best)]
    return found


def draw_panel(ax: Axes, curves: dict[str, list[dict[str, float]]], column: int, scale: float) -> None:
    """One line per curve, with a dot where its evidence has its maximum."""
    for name, points in curves.items():
        evidence, colour = CURVES[name][0], CURVES[name][2]
        sigma = np.array([point["log_sigma"] for point in points])
        value = np.array([point[CURVES[name][column]] for point in points]) / scale
        best = int(np.argmax([point[evidence] for point in points]))
        ax.plot(sigma, value, color=colour, linestyle="--" if colour == "black" else "-", label=name)
        ax.plot(sigma[best], value[best], "o", color=colour)
    ax.set(xlabel="log σ (at each σ: the best ℓ)", xlim=(0, 5.1))


def draw() -> None:
    """Saves the figure beside this file."""
    matplotlib.use("agg")
    matplotlib.rc_file(str(Path(__file__).parents[1] / "matplotlibrc"))
    from matplotlib import pyplot as plt

    curves = best_lengthscales(SURFACE.with_suffix(".csv"))
    rows = json.loads(SURFACE.with_suffix(".json").read_text())["rows"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0))
    draw_panel(left, curves, 0, rows)
    draw_panel(right, curves, 1, 1.0)
    left.set(ylabel="nats per row", title="evidence", ylim=(-0.56, -0.43))
    right.set(ylabel="nats per row", title="test log density", ylim=(-0.46, -0.27))
    right.legend(loc="lower right", fontsize="small", ncols=2)
    figure.savefig(Path(__file__).with_name("why-hybrid.png"), dpi=130)


def table1_fits() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Stored fits of Table 1's 27 sets by protocol and method; those of Table 3 have more than 1000 rows."""
    fits: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with gzip.open(STORE, "rt") as lines:
        for fit in map(json.loads, lines):
            if fit["n"] < 1000:
                fits.setdefault((fit["protocol"], fit["method"]), []).append(fit)
    return fits


def summary(fits: list[dict[str, Any]]) -> str:
    """Mean test log density, and how many fits ended with σ² at its upper bound."""
    density = np.mean([fit["test_loglik"] for fit in fits])
    bound = sum("kernel.variance" in fit["at_bound"] for fit in fits)
    return f"{density:.4f}; σ² at its bound in {bound} of {len(fits)} fits".replace("-", "−")


if __name__ == "__main__":
    draw()
    stored = table1_fits()
    for protocol in ("published", "clean"):
        for method in ("laplace", "ep", "vi", "hybrid"):
            print(f"{protocol}, {method}: {summary(stored[protocol, method])}")
