"""Measure how often 90 % bands of effects cover the true effects.

    python studies/effect_coverage.py [--quick]

200 rows of four columns, three of them correlated (0.5), and an additive true function

    f(x) = 1.5 sin(1.5 x₁) + 0.8 x₂ + 0.5 (x₃² − 1) + 0·x₄

observed with Gaussian noise of standard deviation 0.5, or as labels by a probit.  GPRegressor(kernel="ard") and
GPClassifier(kernel="ard") learn all hyperparameters, with and without integrate=True.  The true effect of column j is
f_j(v) minus the average of f_j over the rows.  Coverage is the share of 20 values v per column at which the true effect
lies in the 90 % band of `effect(j, response=False)`, and, on the scale of the response, the same for the average of the
true mean of y or of the true probability.  20 repetitions; results/effects/coverage.json has one line per repetition,
README.md the means with standard errors over the repetitions.  Finished repetitions are kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

from sitewise import GPClassifier, GPRegressor

OUT = Path(__file__).resolve().parents[1] / "results" / "effects"
KINDS = ("gaussian", "probit")
ROWS, REPETITIONS, LEVEL, NOISE = 200, 20, 0.9, 0.5
PARTS = (lambda x: 1.5 * np.sin(1.5 * x), lambda x: 0.8 * x, lambda x: 0.5 * (x**2 - 1), lambda x: 0.0 * x)


def truth(X: np.ndarray) -> np.ndarray:
    """f, one number per row."""
    return np.sum([part(X[..., j]) for j, part in enumerate(PARTS)], axis=0)


def draw(kind: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    common = rng.normal(size=(rows, 1))
    X = rng.normal(size=(rows, len(PARTS)))
    X[:, :3] = np.sqrt(0.5) * (X[:, :3] + common)
    f = truth(X)
    return X, f + NOISE * rng.normal(size=rows) if kind == "gaussian" else f + rng.normal(size=rows) > 0


def covered(kind: str, seed: int, integrate: bool, rows: int = ROWS, points: int = 20) -> dict[str, Any]:
    """The shares of values at which the truth lies in the band, by column, and the mean half-width of the bands."""
    X, y = draw(kind, rows, seed)
    model = (GPRegressor if kind == "gaussian" else GPClassifier)("ard", integrate=integrate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the lengthscale of a column without effect ends at its bound
        model.fit(X, y)
    found: dict[str, Any] = {
        "kind": kind, "seed": seed, "integrate": integrate, "latent": [], "response": [], "width": [],
    }  # fmt: skip
    for j, part in enumerate(PARTS):
        for response in (False, True):
            one = model.effect(j, response=response, level=LEVEL, points=points, rows=rows)
            moved = np.repeat(X[None], points, axis=0)
            moved[:, :, j] = one.grid[:, None]
            if response:
                f = truth(moved)
                wanted = (f if kind == "gaussian" else stats.norm.cdf(f)).mean(axis=1)
            else:
                wanted = part(one.grid) - part(X[:, j]).mean()
                found["width"].append(round(float(np.mean(one.high - one.low) / 2), 4))
            inside = (one.low <= wanted) & (wanted <= one.high)
            found["response" if response else "latent"].append(round(float(np.mean(inside)), 4))
    return found


def summary(lines: list[dict[str, Any]]) -> str:
    """A table of means over the repetitions."""
    columns = " | ".join(f"x{j + 1}" for j in range(len(PARTS)))
    out = [
        f"| likelihood | hyperparameters | scale | repetitions | all columns | {columns} |",
        "|---|---|---|---|---|" + "---|" * len(PARTS),
    ]
    for kind, integrate in itertools.product(KINDS, (False, True)):
        mine = [line for line in lines if line["kind"] == kind and line["integrate"] == integrate]
        how = "integrated" if integrate else "at the optimum"
        for scale in ("latent", "response"):
            if not mine:
                continue
            table = np.array([line[scale] for line in mine])
            error = table.mean(axis=1).std(ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.nan
            each = " | ".join(f"{100 * share:.0f} %" for share in table.mean(axis=0))
            out.append(
                f"| {kind} | {how} | {scale} | {len(table)} | {100 * table.mean():.1f} ± {100 * error:.1f} % | {each} |"
            )
    return "\n".join(out)


HEAD = f"""# Coverage of {LEVEL:.0%} bands of effects

Written by `studies/effect_coverage.py`: {ROWS} rows, four columns, an additive true function, all hyperparameters
learned with `kernel="ard"`. Coverage is the share of 20 values per column at which the true curve lies in the
{LEVEL:.0%} band, with its standard error over the repetitions. *latent*: f_j(v) minus its average over the rows,
`effect(j, response=False)`; *response*: average true mean of y, or average true probability. x4 has no effect, and its
band is narrow around zero if its lengthscale became long. *at the optimum*: bands hold the hyperparameters at their
fitted values, and curved effects of labels (x1, x3) are covered in less than 90 %. *integrated*: `integrate=True`.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two repetitions of 60 rows, printed and not written")
    quick = parser.parse_args().quick
    if quick:
        print(
            summary([covered(*piece, rows=60, points=5) for piece in itertools.product(KINDS, range(2), (False, True))])
        )
        return
    OUT.mkdir(parents=True, exist_ok=True)
    store = OUT / "coverage.json"
    lines = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    done = {(line["kind"], line["seed"], line["integrate"]) for line in lines}
    with store.open("a") as file:
        for piece in itertools.product(KINDS, range(REPETITIONS), (False, True)):
            if piece not in done:
                lines.append(covered(*piece))
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
    (OUT / "README.md").write_text(HEAD.replace("90%", "90 %") + summary(lines) + "\n")
    print(summary(lines))


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
