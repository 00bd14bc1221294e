"""Measure the largest error of every likelihood's expectations against 24-digit arithmetic (`quadrature_reference`).

    python studies/quadrature_table.py            # all rows; stored references are not computed again
    python studies/quadrature_table.py --quick    # a few rows, printed and not stored

The error of a value is |value − reference| / max(1, |reference|).  Variances are 1e-6 … 1e6, and means lie up to 50
standard deviations √variance to either side of the place where the observation is natural.  `before` are the values of
version 0.1.0, which were measured with `--as before` and are kept; later likelihoods have none.  `CASES` has every
likelihood of one latent function (a test checks it); Softmax has integrals of its own (`numerics.quadrature.
softmax_integral`).  Results: results/quadrature/.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import quadrature_reference as exact
from sitewise import likelihoods as lik
from sitewise.likelihoods import Likelihood
from sitewise.types import module

jax.config.update("jax_enable_x64", True)
RESULTS = Path(__file__).resolve().parents[1] / "results" / "quadrature"
VARIANCES = (1e-6, 1e-2, 1.0, 500.0, 1e4, 1e6)
PLACES = (0.3, -2.0, 6.0, 50.0, -50.0)
FUNCTIONS = ("expected_log_prob", "log_expected_prob", "log_expected_prob, power 0.5")
INF = float("inf")


@module
class ZeroInflated(Likelihood):
    """A user's likelihood that has nothing but log_prob; for y = 0 it has a plateau on either side."""

    def log_prob(self, y: Any, f: Any) -> Any:
        count = lik.Poisson().log_prob(y, f)
        return jnp.where(y == 0, jnp.log(0.2 + 0.8 * jnp.exp(-jnp.exp(f))), jnp.log(0.8) + count)


@module
class Square(Likelihood):
    """A user's likelihood with two modes: y = f² + N(0, 0.5²)."""

    def log_prob(self, y: Any, f: Any) -> Any:
        return lik.Gaussian(0.5).log_prob(y, f * f)


# name: the likelihood, its density in the reference, observations with their natural place on the f axis
CASES: dict[str, tuple[Likelihood, exact.LogProb, list[tuple[list[float], float]]]] = {
    "Gaussian": (lik.Gaussian(0.4), exact.gaussian(0.4), [([0.7], 0.7)]),
    "HeteroscedasticGaussian": (lik.HeteroscedasticGaussian(), exact.heteroscedastic(), [([0.3, 0.04], 0.3)]),
    "LogNormal": (lik.LogNormal(0.6), exact.log_normal(0.6), [([300.0], 5.7)]),
    "CensoredGaussian": (lik.CensoredGaussian(0.4), exact.censored(0.4), [
        ([0.3, 0.3], 0.3), ([-INF, 1.0], 1.0), ([0.5, INF], 0.5), ([0.0, 0.2], 0.1), ([-5.0, 5.0], 0.0)]),
    "LaplaceNoise": (lik.LaplaceNoise(0.7), exact.laplace_noise(0.7), [([0.7], 0.7)]),
    "StudentT(1, 3)": (lik.StudentT(1.0, 3.0), exact.student_t(1.0, 3.0), [([0.7], 0.7)]),
    "StudentT(0.1, 1)": (lik.StudentT(0.1, 1.0), exact.student_t(0.1, 1.0), [([0.7], 0.7)]),
    "BernoulliProbit": (lik.BernoulliProbit(), exact.bernoulli("probit"), [([1.0], 0.0)]),
    "BernoulliLogit": (lik.BernoulliLogit(), exact.bernoulli("logit"), [([1.0], 0.0)]),
    "Binomial": (lik.Binomial(), exact.binomial("logit"), [
        ([0.0, 5.0], -2.4), ([3.0, 10.0], -0.8), ([990.0, 1000.0], 4.6)]),
    "Binomial, probit": (lik.Binomial(link="probit"), exact.binomial("probit"), [
        ([0.0, 5.0], -1.4), ([3.0, 10.0], -0.5)]),
    "Poisson": (lik.Poisson(), exact.poisson("log"), [([0.0], -0.7), ([3.0], 1.1), ([1000.0], 6.9)]),
    "Poisson, exposure": (lik.Poisson(exposure=True), exact.poisson("log"), [([3.0, 40.0], -2.6)]),
    "Poisson, softplus": (lik.Poisson(link="softplus"), exact.poisson("softplus"), [
        ([0.0], 0.0), ([3.0], 3.0), ([200.0], 200.0), ([5000.0], 5000.0)]),
    "NegativeBinomial(1)": (lik.NegativeBinomial(1.0), exact.negative_binomial(1.0, "log"), [
        ([0.0], -0.7), ([3.0], 1.1)]),
    "NegativeBinomial(0.3)": (lik.NegativeBinomial(0.3), exact.negative_binomial(0.3, "log"), [
        ([0.0], -0.7), ([1000.0], 6.9)]),
    "NegativeBinomial(2), exposure": (lik.NegativeBinomial(2.0, exposure=True), exact.negative_binomial(2.0, "log"), [
        ([40.0, 7.0], 1.7)]),
    "NegativeBinomial(1), softplus": (
        lik.NegativeBinomial(1.0, link="softplus"), exact.negative_binomial(1.0, "softplus"), [
        ([0.0], 0.0), ([3.0], 3.0), ([200.0], 200.0)]),
    "Gamma(1)": (lik.Gamma(1.0), exact.gamma(1.0), [([0.01], -4.6), ([300.0], 5.7)]),
    "Gamma(5)": (lik.Gamma(5.0), exact.gamma(5.0), [([1.0], 0.0)]),
    "Beta(10)": (lik.Beta(10.0), exact.beta(10.0), [([0.3], -0.8), ([0.01], -4.6)]),
    "Beta(1)": (lik.Beta(1.0), exact.beta(1.0), [([0.97], 3.5)]),
    "Beta(100)": (lik.Beta(100.0), exact.beta(100.0), [([0.3], -0.8)]),
    "Ordinal": (lik.Ordinal(-0.5, [1.0, 0.3]), exact.ordinal([-0.5, 0.5, 0.8]), [
        ([0.0], -0.5), ([1.0], 0.0), ([2.0], 0.65), ([3.0], 0.8)]),
    "AsymmetricLaplace(0.7, 0.9)": (
        lik.AsymmetricLaplace(0.7, quantile=0.9), exact.asymmetric_laplace(0.7, 0.9), [([0.7], 0.7)]),
    "Weibull(1.7)": (lik.Weibull(1.7), exact.weibull(1.7), [([3.0], 1.1)]),
    "Weibull(0.6), censored": (lik.Weibull(0.6, censored=True), exact.weibull(0.6), [
        ([1.0, 1.5], 0.2), ([0.5, INF], -0.7), ([0.0, 2.0], 0.7)]),
    "LogLogistic(2.5), censored": (
        lik.LogLogistic(2.5, censored=True), exact.log_logistic(2.5), [([1.0, 1.5], 0.2)]),
    "ZeroInflatedPoisson(0.3)": (
        lik.ZeroInflatedPoisson(0.3), exact.zero_inflated(0.3, exact.poisson("log")), [([0.0], 0.0)]),
    "ZeroInflatedNegativeBinomial(0.3, 2)": (
        lik.ZeroInflatedNegativeBinomial(0.3, 2.0), exact.zero_inflated(0.3, exact.negative_binomial(2.0, "log")), [
        ([0.0], 0.0)]),
    "HurdleGamma(2, 0.3, 0.7)": (lik.HurdleGamma(2.0, 0.3, 0.7), exact.hurdle_gamma(2.0, 0.3, 0.7), [([3.0], 1.1)]),
    "Tweedie(0.8, 1.4)": (lik.Tweedie(0.8, 1.4), exact.tweedie(0.8, 1.4), [([3.0], 1.1)]),
    "BetaBinomial(8)": (lik.BetaBinomial(8.0), exact.beta_binomial(8.0), [([3.0, 10.0], -0.8)]),
    "VonMises(2)": (lik.VonMises(2.0), exact.VonMises(2.0), [([0.7], 0.7)]),
    "VonMises(1000)": (lik.VonMises(1000.0), exact.VonMises(1000.0), [([0.7], 0.7)]),
    "Switched": (
        lik.Switched([lik.Gaussian(0.4), lik.Poisson(exposure=True)]),
        exact.switched([exact.gaussian(0.4), exact.poisson("log")]), [([3.0, 1.0, 2.0], 0.4)]),
    "zero-inflated Poisson (only log_prob)": (
        ZeroInflated(), exact.zero_inflated(0.2, exact.poisson("log")), [([0.0], 0.0), ([3.0], 1.1)]),
    "two modes (only log_prob)": (Square(), exact.square(0.5), [([4.0], 2.0)]),
}  # fmt: skip

Row = dict[str, Any]  # case, y, mean, var, want: three values, before and after: three values each


def rows_of(name: str, variances: Sequence[float], places: Sequence[float]) -> list[Row]:
    return [
        {"case": name, "y": y, "centre": centre, "mean": centre + place * float(np.sqrt(var)), "var": var}
        for y, centre in CASES[name][2]
        for var in variances
        for place in places
    ]


def _batch(likelihood: Likelihood, rows: list[list[float]]) -> jax.Array:
    y = jnp.asarray(rows, jnp.float64)
    return y if len(likelihood.columns) > 1 else y[:, 0]


def refer(rows: list[Row]) -> None:
    """Fill in the references that are missing."""
    for row in rows:
        if "want" not in row:
            density = CASES[row["case"]][1]
            if isinstance(density, exact.VonMises) and row["var"] >= density.SERIES_VARIANCE:
                row["want"] = density.by_series(row["y"][0], row["mean"], row["var"])
            else:
                row["want"] = exact.Reference(density, row["y"], row["centre"], 0.3)(row["mean"], row["var"])


def measure(rows: list[Row], label: str) -> None:
    """The library's values, under the name `label`."""
    for name in {row["case"]: None for row in rows}:
        likelihood, *_ = CASES[name]
        mine = [row for row in rows if row["case"] == name]
        y = _batch(likelihood, [row["y"] for row in mine])
        mean, var = jnp.asarray([row["mean"] for row in mine]), jnp.asarray([row["var"] for row in mine])
        values = _values(likelihood, y, mean, var)
        for row, *value in zip(mine, *(np.asarray(v) for v in values), strict=True):
            row[label] = [float(v) for v in value]


@jax.jit
def _values(likelihood: Likelihood, y: jax.Array, mean: jax.Array, var: jax.Array) -> tuple[jax.Array, ...]:
    return (
        likelihood.expected_log_prob(y, mean, var),
        likelihood.log_expected_prob(y, mean, var),
        likelihood.log_expected_prob(y, mean, var, 0.5),
    )


def errors(row: Row, label: str) -> list[float]:
    """Of the three functions; 0 where the value itself is not a double."""
    pairs = zip(row[label], row["want"], strict=True)
    return [
        0.0 if abs(want) > 1e300 else INF if not np.isfinite(got) else abs(got - want) / max(1.0, abs(want))
        for got, want in pairs
    ]


def worst(rows: list[Row], label: str) -> dict[str, dict[str, Any]]:
    """For each function: the largest error, and where it is."""
    out: dict[str, dict[str, Any]] = {}
    for k, function in enumerate(FUNCTIONS):
        row = max(rows, key=lambda row: errors(row, label)[k])
        out[function] = {"error": errors(row, label)[k]} | {key: row[key] for key in ("y", "mean", "var")}
    return out


def table(summary: dict[str, Any]) -> str:
    lines = [
        "| likelihood | function | 0.1.0 | now | worst now at |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, labels in summary.items():
        for function in FUNCTIONS:
            before, after = (labels.get(label, {}).get(function) for label in ("before", "after"))
            cells = [f"{part['error']:.1e}" if part else "" for part in (before, after)]
            place = f"y = {after['y']}, N({after['mean']:.6g}, {after['var']:g})" if after else ""
            lines.append(f"| {name} | {function} | {cells[0]} | {cells[1]} | {place} |")
    note = (
        "The error is |value − reference| / max(1, |reference|), at its worst over variances 1e-6 … 1e6 and means up "
        "to 50 standard deviations from the observation.\n`studies/quadrature_table.py` makes this table.\n\n"
        "E[eᶠ] under a Gaussian of variance 500 has its mass 22 standard deviations from the mean, beyond the "
        "range of the "
        "rule.\nThe library uses a closed form; a likelihood that has only log_prob (zero-inflated, y = 3) is wrong "
        "there,\nwhere the value is −10⁸⁹ nats and less."
    )
    return "\n".join([*lines, "", note]) + "\n"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few rows, not stored")
    parser.add_argument("--as", dest="label", choices=("before", "after"), default="after")
    parser.add_argument("--only", choices=CASES, action="append", help="this likelihood, not stored")
    options = parser.parse_args(arguments)
    names = options.only or list(CASES)
    if options.quick:
        names = [n for n in names if n in ("StudentT(1, 3)", "BernoulliLogit", "Poisson, exposure")]
    rows = [row for name in names for row in rows_of(name, VARIANCES[2:5:2] if options.quick else VARIANCES, PLACES)]
    store = RESULTS / "values.jsonl.gz"
    if not options.quick and store.exists():
        with gzip.open(store, "rt") as file:
            known = {_key(row): row for row in map(json.loads, file)}
        rows = [row | known.get(_key(row), {}) for row in rows]
    for name in names:
        mine = [row for row in rows if row["case"] == name]
        refer(mine)
        measure(mine, options.label)
        part = worst(mine, options.label)
        print(f"{name:40s}", *(f"{part[f]['error']:9.1e}" for f in FUNCTIONS), flush=True)
        if not (options.quick or options.only):
            _write(store, rows)
    summary = {}
    for name in names:
        mine = [row for row in rows if row["case"] == name]
        labels = [label for label in ("before", "after") if all(label in row for row in mine)]
        summary[name] = {label: worst(mine, label) for label in labels}
    if not (options.quick or options.only):
        (RESULTS / "table.json").write_text(json.dumps(summary, indent=1) + "\n")
        (RESULTS / "table.md").write_text(table(summary))
    return summary


def _key(row: Row) -> str:
    return json.dumps([row[k] for k in ("case", "y", "mean", "var")])


def _write(store: Path, rows: list[Row]) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())


if __name__ == "__main__":
    main()
