"""Fig. 1: evidence and predictive density along the lengthscale (ionosphere, fold 3 of seed 42, log σ = 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sitewise_icml2023 import paper
from sitewise_icml2023.figures import surfaces

LOG_SIGMA = 2.3


def compute(
    directory: Path | None = None,
    points: int = 21,
    mcmc: bool = True,
    store: Path | None = None,
    done: Callable[[str], None] | None = None,
) -> dict[str, np.ndarray]:
    """Evidences and mean test log densities per row, VI's and the hybrid's also by the published 20-point rule
    (`…_20_…`); MCMC with standard errors if asked for."""
    fold = surfaces.rows("ionosphere", directory)
    grid = surfaces.Grid(np.linspace(-1.0, 5.0, points), np.array([LOG_SIGMA]))
    found = surfaces.approximate(fold, grid.vectors, done=done)
    n = len(fold.y)
    out = {"log_lengthscale": grid.log_lengthscale, "n": np.array(n)}
    out |= {f"{m}_evidence": found[f"{m}_evidence"] / n for m in surfaces.METHODS}
    published = surfaces.approximate(fold, grid.vectors, done=done, start=surfaces.model(20), methods=("vi",))
    out["hybrid_20_evidence"] = published["hybrid_evidence"] / n
    out["vi_20_log_density"] = surfaces.mean_density(published["vi_log_density"])
    out |= {f"{m}_log_density": surfaces.mean_density(found[f"{m}_log_density"]) for m in ("laplace", "ep", "vi")}
    if mcmc:
        gold = surfaces.gold(fold, grid.vectors, store=store, done=done)
        out |= {"mcmc_evidence": gold.log_z / n, "mcmc_se": gold.se / n}
        out["mcmc_log_density"] = surfaces.mean_density(gold.log_density)
    return out


def draw(out: dict[str, np.ndarray]) -> Figure:
    printed = paper.fig1()
    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    x = out["log_lengthscale"]
    if "mcmc_evidence" in out:
        above.errorbar(x, out["mcmc_evidence"], 2 * out["mcmc_se"], color="0.6", linewidth=4, label="MCMC (±2 s.e.)")
        below.plot(x, out["mcmc_log_density"], color="0.6", linewidth=4)
    else:
        curve = printed["evidence"]["mcmc"]
        above.plot(printed["log_lengthscale"], curve, color="0.6", linewidth=4, label="MCMC (printed in the paper)")
    styles = {"laplace": ("LA", "C2"), "ep": ("EP", "C3"), "vi": ("VI (ELBO)", "C1"), "hybrid": ("hybrid", "C0")}
    for method, (title, colour) in styles.items():
        evidence = out[f"{method}_evidence"]
        above.plot(x, evidence, color=colour, label=title)
        best = int(np.argmax(evidence))
        # The hybrid predicts with VI's posterior, at its own θ.
        density = out[f"{'vi' if method == 'hybrid' else method}_log_density"]
        if method != "hybrid":
            below.plot(x, density, color=colour)
        for axis in (above, below):
            axis.axvline(x[best], color=colour, linestyle=":", linewidth=1)
        below.plot(x[best], density[best], "o", color=colour)
    above.plot(printed["log_lengthscale"], printed["evidence"]["vi"], "C1+", label="paper: VI")
    above.plot(printed["log_lengthscale"], printed["evidence"]["hybrid"], "C0x", label="paper: Ours (20-point rule)")
    below.plot(printed["log_lengthscale"], printed["log_density"]["vi"], "C1+")
    above.set(ylabel="evidence per row", title="ionosphere, fold 3 of seed 42, log σ = 2.3", ylim=(-0.7, -0.24))
    below.set(ylabel="test log density", xlabel="log ℓ", xlim=(-1, 5), ylim=(-0.5, -0.05))
    above.legend(fontsize=8, ncols=2)
    return figure
