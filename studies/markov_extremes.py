"""Test the Markov prior with extreme steps and sites on a million rows: python studies/markov_extremes.py.

Marginals and log Z_q given sites are compared with closed forms: all rows at one time; all rows 10⁹ lengthscales apart;
steps of 10⁻⁹ lengthscales with weak sites, where all rows together are equivalent to one site, up to the 10⁻³
lengthscales that they cover.  Errors of variances and of log Z_q are relative; errors of means are relative or in
standard deviations.  `estimate` is the prior's own estimate of its rounding error (`Gram.rounding_error`); above 1e-3
inference reports IMPRECISE.  The table goes to results/markov/extremes.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sitewise import Sites, kernels
from sitewise.priors import MarkovPrior
from sitewise.process.precision import working_precision

OUT = Path(__file__).resolve().parents[1] / "results" / "markov"
KERNELS = {"Matérn-1/2": kernels.Matern12, "Matérn-3/2": kernels.Matern32, "Matérn-5/2": kernels.Matern52}
VARIANCE = 1.3


def exact(name: str, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """One variable for all rows, or one for each."""
    total = (b, w) if name == "10⁹ lengthscales apart" else (np.sum(b), np.sum(w))
    var = 1 / (1 / VARIANCE + total[1])
    log_z = 0.5 * np.sum(total[0] ** 2 * var - np.log1p(VARIANCE * total[1]))
    return np.broadcast_to(total[0] * var, b.shape), np.broadcast_to(var, b.shape), float(log_z)


def rows(count: int) -> Iterator[str]:
    steps = {"one time": 0.0, "10⁹ lengthscales apart": 1e9, "10⁻⁹ lengthscales apart": 1e-9}
    for name, step in steps.items():
        for precise in (1e-6, 1.0, 1e6):
            for kind, make in KERNELS.items():
                if step == 1e-9 and (kind == "Matérn-1/2" or precise > 1e-6):
                    continue  # there the process moves by more than the sites leave open: no closed form
                rng = np.random.default_rng(0)
                b, w = precise * rng.normal(size=count), precise * rng.gamma(1.0, 1.0, count)
                if step == 1e-9:
                    b, w = b / count, w / count
                gram = MarkovPrior(make(1.0, VARIANCE)).gram(step * np.arange(float(count))[:, None])
                q, factor = gram.condition_with_factor(Sites(b, w), None)
                mean, var, log_z = exact(name, b, w)
                off = np.max(np.abs(q.mean - mean) / (np.sqrt(var) + np.abs(mean))), np.max(np.abs(q.var / var - 1))
                estimate = float(gram.rounding_error(Sites(b, w), q, factor))
                yield (
                    f"| {name} | {kind} | {precise:.0e} | {off[0]:.1e} | {off[1]:.1e} "
                    f"| {abs(float(q.log_z) / log_z - 1):.1e} | {estimate:.1e} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    lines = ["| rows | kernel | precision of a site | mean | variance | log Z_q | estimate |", "|" + "---|" * 7]
    with working_precision():
        for line in rows(options.rows):
            print(line, flush=True)
            lines.append(line)
    words = "\n\n".join((__doc__ or "").split("\n\n")[1:]).strip()
    text = "\n".join(lines)
    (options.out / "extremes.md").write_text(
        f"# Markov prior with extreme steps and sites, {options.rows} rows\n\n{words}\n\n{text}\n"
    )


if __name__ == "__main__":
    main()
