"""Fig. 3: ionosphere evidence surfaces as inducing inputs are taken away (fold 3 of seed 42, n = 281).

Inducing inputs are random, nested subsets of the training rows.  At every grid point VI is solved once and three
evidences are read off its sites: the ELBO, the EP-like evidence (the paper's hybrid) and `collapsed` (our hybrid).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from matplotlib.figure import Figure

from sitewise import evidence
from sitewise.data import Data, bucket
from sitewise.inference import VI
from sitewise.inference.loop import iterate
from sitewise.inference.start import initial_sites
from sitewise.kernels import Matern52
from sitewise.likelihoods import BernoulliProbit
from sitewise.priors import FullPrior, SparsePrior
from sitewise.process.precision import working_precision
from sitewise_icml2023 import protocols

SHARES = (100, 75, 50, 25, 10)
READ = {"elbo": evidence.elbo, "ep": evidence.ep, "collapsed": evidence.collapsed}
TITLES = {"elbo": "VI", "ep": "hybrid, EP-like (paper)", "collapsed": "hybrid, collapsed (ours)"}


@jax.jit
def row(data: Data, Z: jax.Array | None, log_lengthscale: jax.Array, log_sigma: jax.Array) -> dict[str, jax.Array]:
    """The evidences, and whether VI converged, along a row of the grid; Z = None is the full GP."""
    likelihood = BernoulliProbit()

    def point(log_l: jax.Array) -> dict[str, jax.Array]:
        kernel = Matern52(lengthscale=jnp.exp(log_l), variance=jnp.exp(2 * log_sigma))
        prior = FullPrior(kernel) if Z is None else SparsePrior(kernel, Z)  # type: ignore[call-arg]
        found, solution, *_ = iterate(VI(), likelihood, prior.gram(data.X), data, initial_sites(likelihood, data))
        chosen = {k: e for k, e in READ.items() if not (Z is None and k == "collapsed")}
        values = {k: e.read(likelihood, data, found.q, solution.sites) for k, e in chosen.items()}
        return {"collapsed": values["ep"], **values, "code": solution.code}  # without residual they are the same

    return lax.map(point, log_lengthscale)


def compute(
    directory: Path | None = None, points: int = 21, done: Callable[[str], None] | None = None
) -> dict[str, np.ndarray]:
    """Evidences per row and outcomes for every share of inducing inputs, each over (log σ, log ℓ)."""
    fold = protocols.fold("ionosphere", "published", 42, 3, directory)
    X, grid = fold.X, np.linspace(-1, 5, points)
    order = np.random.default_rng(0).permutation(len(X))
    out = {"grid": grid}
    with working_precision():
        data = jax.tree.map(jnp.asarray, Data.of(X, fold.y).pad(bucket(len(X))))
        for share in SHARES:
            Z = None if share == 100 else jnp.asarray(X[order[: round(share / 100 * len(X))]])
            rows = []
            for s in grid:
                rows.append(row(data, Z, jnp.asarray(grid), float(s)))
                if done is not None:
                    done(f"m/n = {share} %: {len(rows)} of {points} rows")
            for key in rows[0]:
                scale = 1 if key == "code" else len(X)
                out[f"{key}_{share}"] = np.stack([np.asarray(r[key]) for r in rows]) / scale
    return out


def draw(numbers: dict[str, np.ndarray]) -> Figure:
    grid = numbers["grid"]
    figure = Figure(figsize=(13, 8), layout="constrained")
    axes = figure.subplots(3, len(SHARES), sharex=True, sharey=True)
    levels = np.linspace(-0.8, 0.0, 33)
    for line, key in zip(axes, READ, strict=True):
        for axis, share in zip(line, SHARES, strict=True):
            values = numbers[f"{key}_{share}"]
            drawn = axis.contourf(grid, grid, np.maximum(values, -0.8), levels, cmap="Blues_r")
            best = np.unravel_index(np.nanargmax(values), values.shape)
            axis.plot(grid[best[1]], grid[best[0]], "r+", markersize=9)
            axis.set_title(f"m/n = {share} %, max {np.nanmax(values):.3f}", fontsize=9)
        line[0].set_ylabel(f"{TITLES[key]}\nlog σ")
    for axis in axes[-1]:
        axis.set_xlabel("log ℓ")
    figure.colorbar(drawn, ax=axes, shrink=0.6, label="evidence per row")
    return figure
