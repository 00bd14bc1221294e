"""Surfaces as tables and pictures: Figs. 2 and 6–9."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sitewise_icml2023.figures.surfaces import METHODS, Grid, mean_density

# The paper's colour scale for each set, (low, high) of evidence per row and test log density.
SCALES = {"sonar": (-1.0, -0.2), "usps": (-1.0, 0.0), "monks-2": (-0.9, -0.3)}
_SCALE = (-0.8, 0.0)


def panels(out: dict[str, np.ndarray], grid: Grid, n: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Tables (log σ × log ℓ) of evidences per row and of mean test log densities; with MCMC where `out` has it."""
    evidences = {m: out[f"{m}_evidence"] / n for m in METHODS}
    if "mcmc_log_z" in out:
        evidences = {"mcmc": out["mcmc_log_z"] / n, **evidences}
    densities = {m: mean_density(out[f"{m}_log_density"]) for m in evidences if m != "hybrid"}
    shaped = ({m: values.reshape(grid.shape) for m, values in part.items()} for part in (evidences, densities))
    return next(shaped), next(shaped)


def as_csv(out: dict[str, np.ndarray], grid: Grid) -> str:
    """Return one line per grid point: log Z with its errors, evidences in nats, mean test log densities."""
    log_l, log_s = np.meshgrid(*grid)
    columns = {"log_lengthscale": log_l.ravel(), "log_sigma": log_s.ravel()}
    columns |= {f"{m}_evidence": out[f"{m}_evidence"] for m in METHODS}
    measured = [m for m in ("mcmc", *METHODS) if f"{m}_log_density" in out]
    columns |= {f"{m}_test_log_density": mean_density(out[f"{m}_log_density"]) for m in measured}
    if "mcmc_log_z" in out:
        shown = ("log_z", "se", "lower", "lower_se", "upper", "upper_se", "ess", "steps", "tight")
        columns |= {f"mcmc_{k}": out[f"mcmc_{k}"] for k in shown}
    lines = [",".join(columns)]
    lines += [",".join(f"{float(x):.6g}" for x in line) for line in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def draw(name: str, out: dict[str, np.ndarray], grid: Grid, n: int) -> Figure:
    """Evidences above, predictive densities below, on the paper's colour scale; dots are the maxima of the evidences,
    and in VI's density the cross is the hybrid's, which predicts with the same posterior."""
    evidences, densities = panels(out, grid, n)
    best = {m: np.unravel_index(np.nanargmax(table), table.shape) for m, table in evidences.items()}
    gold_standard = "mcmc" in evidences
    wide = len(evidences) + gold_standard
    figure = Figure(figsize=(3.2 * wide, 6.4), layout="constrained")
    axes = figure.subplots(2, wide, sharex=True, sharey=True)
    low, high = SCALES.get(name, _SCALE)
    levels = np.linspace(low, high, 33)
    for line, tables, title in ((axes[0], evidences, "evidence / n"), (axes[1], densities, "test log density")):
        for axis, (method, table) in zip(line, tables.items(), strict=False):
            image = axis.contourf(*grid, np.clip(table, low, high), levels, cmap="Blues_r")
            marks = [(method, "k.")] + ([("hybrid", "kx")] if tables is densities and method == "vi" else [])
            for which, style in marks:
                row, column = best[which]
                axis.plot(grid.log_lengthscale[column], grid.log_sigma[row], style, markersize=9)
            axis.set_title(f"{method}: {title}", fontsize=10)
    if gold_standard:
        extra = (
            (axes[0, -1], out["mcmc_se"], "MCMC standard error (nats)"),
            (axes[1, -2], out["ep_evidence"] - out["mcmc_log_z"], "EP − MCMC (nats)"),
            (axes[1, -1], out["hybrid_evidence"] - out["mcmc_log_z"], "hybrid − MCMC (nats)"),
        )
        for axis, numbers, caption in extra:
            figure.colorbar(axis.pcolormesh(*grid, numbers.reshape(grid.shape)), ax=axis)
            axis.set_title(caption, fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.6, label="evidence per row, test log density")
    for axis in axes.ravel():
        if not axis.has_data():
            axis.set_axis_off()
    for axis in axes[1]:
        axis.set_xlabel("log ℓ")
    for axis in axes[:, 0]:
        axis.set_ylabel("log σ")
    figure.suptitle(f"{name}, n = {n}")
    return figure
