"""Predictions averaged over log ℓ and log σ² by quadrature, under flat priors with different limits.

    python papers/icml2023/studies/flat_priors.py results/icml2023 --data DIR --sets trains balloons
    python papers/icml2023/studies/flat_priors.py results/icml2023 --data DIR --render > results/icml2023/flat-priors.md

The limits of the paper's flat priors are not printed.  EP's evidence and predictive probabilities are computed on a
grid of four points per decade, all points of a fold at once.  Every box of the grid gives the predictions under the
limits of its edges.  One JSON line per set, seed and fold, with all boxes of `BOXES` (those with an edge outside the
grid are left out); lines that are there are not made again.  EP's predictive probabilities are too moderate where a GP
separates the classes (acute-inflammation, acute-nephritis, parkinsons): such sets need the chains of `mcmc`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from sitewise_icml2023 import paper, protocols
from sitewise_icml2023.book.tables import FLAT_PRIORS
from sitewise_icml2023.protocols import FOLDS, SEEDS
from sitewise_icml2023.sampled import FLOOR

PER_DECADE = 4
LOWER, UPPER = (-5, -4, -3, -2, -1), (2, 3, 4, 5, 6)  # decades
BOXES = tuple(itertools.product(LOWER, UPPER))
WIDE = (-5, 6)
JITTER = 1e-6
EP_STEPS, EP_TOL, DAMPING_FROM, DAMPING = 60, 1e-5, 5, 0.7
CHUNK = 3_000_000  # numbers of the matrices that are computed at once
ROOT5 = np.sqrt(5.0)


def matern(d2: np.ndarray, lengthscale: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the kernel matrices of all grid points, from squared distances at ℓ = 1."""
    r2 = d2 / lengthscale[:, None, None] ** 2
    r = ROOT5 * np.sqrt(r2)
    return variance[:, None, None] * (1 + r + 5 / 3 * r2) * np.exp(-r)


def expectation_propagation(
    K: np.ndarray, y: np.ndarray, K_new: np.ndarray, prior_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return EP's log Z and the probability of class +1 at new rows, for a stack of kernel matrices; y is ±1."""
    points, rows, _ = K.shape
    prec, nat1 = np.zeros((points, rows)), np.zeros((points, rows))
    eye, prior = np.eye(rows), np.einsum("bii->bi", K)
    for step in range(EP_STEPS):
        root = np.sqrt(prec)
        B = eye + root[:, :, None] * K * root[:, None, :]
        V = np.linalg.solve(B, root[:, :, None] * K)
        var = np.maximum(prior - np.sum(root[:, :, None] * K * V, axis=1), np.finfo(float).eps * prior)
        pull = np.einsum("bij,bj->bi", K, nat1)
        mean = pull - np.einsum("bji,bj->bi", V, root * pull)
        cavity_prec = np.maximum(1 / var - prec, np.finfo(float).eps / var)
        cavity_mean, cavity_var = (mean / var - nat1) / cavity_prec, 1 / cavity_prec
        scale = np.sqrt(1 + cavity_var)
        z = y * cavity_mean / scale
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
        new_mean = cavity_mean + y * cavity_var * ratio / scale
        new_var = cavity_var * (1 - cavity_var * ratio * (z + ratio) / scale**2)
        new_prec, new_nat1 = np.maximum(1 / new_var - cavity_prec, 0.0), new_mean / new_var - cavity_mean * cavity_prec
        shift = float(np.max(np.abs(new_prec - prec) * var))
        if shift < EP_TOL:
            break
        share = 1.0 if step < DAMPING_FROM else DAMPING
        prec, nat1 = prec + share * (new_prec - prec), nat1 + share * (new_nat1 - nat1)
    joined = 1 + prec * cavity_var
    log_z = np.sum(log_ndtr(z) + 0.5 * np.log(joined), axis=1) - 0.5 * np.linalg.slogdet(B)[1]
    log_z += 0.5 * np.sum(nat1 * mean, axis=1)
    log_z += 0.5 * np.sum((cavity_mean * (prec * cavity_mean - 2 * nat1) - nat1**2 * cavity_var) / joined, axis=1)
    alpha = nat1 - root * np.linalg.solve(B, (root * pull)[:, :, None])[:, :, 0]
    W = root[:, :, None] * np.swapaxes(K_new, 1, 2)
    var_new = prior_new[:, None] - np.sum(W * np.linalg.solve(B, W), axis=1)
    return log_z, ndtr(np.einsum("btn,bn->bt", K_new, alpha) / np.sqrt(1 + np.maximum(var_new, 0.0)))


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.sum((A[:, None] - B) ** 2, axis=-1)


def fold_row(name: str, seed: int, index: int, data: Path | None, boxes: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Return the results of a fold under the limits of every box."""
    fold = protocols.fold(name, "published", seed, index, data)
    low, high = min(a for a, _ in boxes), max(b for _, b in boxes)
    decades = np.linspace(low, high, PER_DECADE * (high - low) + 1)
    log_l, log_v = (a.ravel() for a in np.meshgrid(decades, decades, indexing="ij"))
    d2, d2_new = squared_distances(fold.X, fold.X), squared_distances(fold.X_test, fold.X)
    each = max(1, CHUNK // len(fold.y) ** 2)
    found = []
    for first in range(0, len(log_l), each):
        lengthscale, variance = 10 ** log_l[first : first + each], 10 ** log_v[first : first + each]
        K = matern(d2, lengthscale, variance) + JITTER * np.eye(len(fold.y))
        found.append(expectation_propagation(K, fold.y, matern(d2_new, lengthscale, variance), variance))
    log_z, p = (np.concatenate(parts) for parts in zip(*found, strict=True))
    out: dict[str, Any] = {"set": name, "seed": seed, "fold": index, "boxes": []}
    for a, b in boxes:
        weight = np.exp(log_z - log_z.max())
        for at in (log_l, log_v):  # trapezoids: half of the weight at the edges
            inside = (at > a - 1e-9) & (at < b + 1e-9)
            weight = weight * inside * np.where((np.abs(at - a) < 1e-9) | (np.abs(at - b) < 1e-9), 0.5, 1.0)
        probability = weight @ p / np.sum(weight)
        right = np.clip(np.where(fold.y_test > 0, probability, 1 - probability), FLOOR, 1 - FLOOR)
        hits = float(np.mean((probability > 0.5) == (fold.y_test > 0)))
        out["boxes"].append({"low": a, "high": b, "test_loglik": float(np.mean(np.log(right))), "test_acc": hits})
    return out


def markdown(rows: list[dict[str, Any]], data: Path | None) -> str:
    """Return the root mean square differences from the public folds for every box, set by set."""
    public = paper.published_folds(data)
    names = [name for name in dict.fromkeys(row["set"] for row in rows) if name in public]
    out = [
        "# Limits of the flat priors of MCMC",
        "",
        "Made by `python papers/icml2023/studies/flat_priors.py results/icml2023 --data DIR --render`: root mean "
        "square difference of the mean test log density from the public folds of MCMC (number of folds), by the limits "
        "of ℓ and σ². Predictions are averaged over a grid of (log ℓ, log σ²) with the weights of EP's evidence.",
        "",
        "| limits | " + " | ".join(names) + " |",
        "|---" * (1 + len(names)) + "|",
    ]
    for box in BOXES:
        cells = []
        for name in names:
            gaps = [
                found["test_loglik"]
                - paper.published_fold(public, name, "mcmc", "test_loglik", row["seed"], row["fold"])
                for row in rows
                if row["set"] == name
                for found in row["boxes"]
                if (found["low"], found["high"]) == box
            ]
            cells.append(f"{np.sqrt(np.mean(np.square(gaps))):.4f} ({len(gaps)})" if gaps else "")
        if any(cells):
            out.append(f"| 1e{box[0]} to 1e{box[1]} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=())
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="the first of the ten seeds")
    parser.add_argument("--low", type=int, default=WIDE[0], help="the lowest decade of the grid")
    parser.add_argument("--high", type=int, default=WIDE[1], help="the highest decade of the grid")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args()
    path = options.out / FLAT_PRIORS
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    if options.render:
        print(markdown(rows, options.data), end="")
        return
    boxes = tuple((a, b) for a, b in BOXES if options.low <= a and b <= options.high)
    done = {(row["set"], row["seed"], row["fold"]) for row in rows}
    for name, seed, index in itertools.product(options.sets, SEEDS[: options.seeds], range(FOLDS)):
        if (name, seed, index) not in done:
            row = fold_row(name, seed, index, options.data, boxes)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(name, seed, index, flush=True)


if __name__ == "__main__":
    main()
