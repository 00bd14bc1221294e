"""Compare mixed models of sitewise with lme4 and glmmTMB: estimates and standard errors side by side.

    Rscript studies/mixed_models.R FOLDER             (R with lme4, glmmTMB, mlmRev and numDeriv)
    python studies/mixed_models.py fit FOLDER
    python studies/mixed_models.py table

`fit` reads the tables and the estimates of R from FOLDER, fits every model by Laplace, EP and VI's sites with EP's
evidence, and writes results/maps/mixed-models.jsonl; `table` writes results/maps/mixed-models.md.  Fixed effects are a
`Linear` part with prior variance FLAT, which is not learned; they are integrated out, as REML does.  Random effects are
`Levels`.  Standard errors of fixed effects are posterior standard deviations given the variances; those of standard
deviations are of their logarithm, from the curvature of the evidence.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sitewise import Data, Model, likelihoods, parts, resolve

OUT = Path(__file__).resolve().parents[1] / "results" / "maps"
FLAT = 1e6  # prior variance of fixed effects; 1e9 for reaction times in milliseconds
METHODS: dict[str, dict[str, Any]] = {
    "sitewise Laplace": {"method": "laplace"},
    "sitewise EP": {"method": "ep"},
    "sitewise VI + EP evidence": {"method": "hybrid", "inference": "vi", "evidence": "ep"},
}


class Mixed(NamedTuple):
    """Columns of fixed effects by R's names, columns of groups by R's terms (with a slope or not), y and likelihood."""

    fixed: dict[str, np.ndarray]
    groups: dict[str, tuple[np.ndarray, np.ndarray | None]]
    y: np.ndarray
    likelihood: Any
    flat: float = FLAT


def codes(values: Any) -> np.ndarray:
    return pd.Series(values).astype("category").cat.codes.to_numpy(float)


def dummies(name: str, values: pd.Series) -> dict[str, np.ndarray]:
    levels = sorted(values.unique())
    return {f"{name}{level}": np.asarray(values == level, float) for level in levels[1:]}


def sleepstudy(table: pd.DataFrame) -> Mixed:
    days, who = table["Days"].to_numpy(float), codes(table["Subject"])
    groups = {"Subject (Intercept)": (who, None), "Subject Days": (who, days)}
    return Mixed({"Days": days}, groups, table["Reaction"].to_numpy(float), likelihoods.Gaussian(30.0), 1e9)


def cbpp(table: pd.DataFrame) -> Mixed:
    y = table[["incidence", "size"]].to_numpy(float)
    groups = {"herd (Intercept)": (codes(table["herd"]), None)}
    return Mixed(dummies("period", table["period"]), groups, y, likelihoods.Binomial())


def grouseticks(table: pd.DataFrame) -> Mixed:
    fixed = {**dummies("YEAR", table["YEAR"]), "cHEIGHT": table["cHEIGHT"].to_numpy(float)}
    groups: dict[str, Any] = {f"{g} (Intercept)": (codes(table[g]), None) for g in ("BROOD", "INDEX", "LOCATION")}
    return Mixed(fixed, groups, table["TICKS"].to_numpy(float), likelihoods.Poisson())


def contraception(table: pd.DataFrame) -> Mixed:
    fixed = {"age": table["age"].to_numpy(float), "age2": table["age2"].to_numpy(float)}
    fixed |= dummies("urban", table["urban"]) | dummies("livch", table["livch"])
    y = np.where(table["use"] == "Y", 1.0, -1.0)
    groups = {"district (Intercept)": (codes(table["district"]), None)}
    return Mixed(fixed, groups, y, likelihoods.BernoulliLogit())


TABLES: dict[str, Callable[[pd.DataFrame], Mixed]] = {
    "sleepstudy": sleepstudy,
    "cbpp": cbpp,
    "grouseticks": grouseticks,
    "Contraception": contraception,
}


def estimated(mixed: Mixed, settings: dict[str, Any]) -> tuple[dict[str, tuple[float, float | None]], float, bool]:
    """Return estimate and standard error per term, CPU seconds of the fit, and whether it converged."""
    names = list(mixed.fixed)
    columns = [*mixed.fixed.values()]
    each: list[parts.Part] = [parts.Linear(tuple(range(len(names))), variance=mixed.flat)]
    for level, slope in mixed.groups.values():
        columns.append(level)
        where = len(columns) - 1
        if slope is not None:
            columns.append(slope)
        spread = float(np.var(mixed.y)) if isinstance(mixed.likelihood, likelihoods.Gaussian) else 1.0
        start = spread if slope is None else spread / float(np.var(slope))
        each.append(parts.Levels(where, slope=None if slope is None else where + 1, variance=start))
    each.append(parts.Constant(variance=mixed.flat))
    data = Data.of(np.column_stack(columns), mixed.y)
    learner = resolve(**settings, fixed=("kernel.parts.0.variance",))
    began = time.process_time()
    fit = learner.fit(Model.latent(each, mixed.likelihood), data)
    seconds = time.process_time() - began
    found: dict[str, tuple[float, float | None]] = {}
    posterior = fit.posterior()
    unit = np.zeros((len(names) + 1, data.X.shape[1]))
    unit[np.arange(len(names)), np.arange(len(names))] = 1.0
    for part, rows, labels in ((0, unit[:-1], names), (len(each) - 1, unit[-1:], ["(Intercept)"])):
        mean, var = posterior.part(part).f(rows)
        found |= {k: (float(m), float(np.sqrt(v))) for k, m, v in zip(labels, mean, var, strict=True)}
    curvature = fit.curvature
    errors = dict(zip(curvature.trainable.labels, np.sqrt(np.diag(curvature.covariance)), strict=True))
    for k, name in enumerate(mixed.groups, 1):
        path = f"kernel.parts.{k}.variance"
        found[f"sd {name}"] = float(np.sqrt(fit.parameters[path])), float(0.5 * errors[path])
    if "likelihood.scale" in fit.parameters:
        found["sd residual"] = float(fit.parameters["likelihood.scale"]), float(errors["likelihood.scale"])
    return found, seconds, bool(fit.converged)


def fit(args: argparse.Namespace) -> None:
    lines = []
    with (args.folder / "estimates.csv").open() as file:
        for row in csv.DictReader(file):
            error = None if row["error"] == "NA" else float(row["error"])
            term = row["term"].replace(".1 ", " ")
            line = {"table": row["table"], "program": row["program"], "term": term, "error": error}
            lines.append(line | {"estimate": float(row["estimate"]), "seconds": float(row["seconds"])})
    for name, read in TABLES.items():
        mixed = read(pd.read_csv(args.folder / f"{name}.csv"))
        for program, settings in METHODS.items():
            found, seconds, converged = estimated(mixed, settings)
            print(name, program, found, seconds, converged, flush=True)
            for term, (estimate, error) in found.items():
                lines.append({"table": name, "program": program, "term": term, "estimate": estimate, "error": error,
                              "seconds": seconds, "converged": converged})  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "mixed-models.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def table(args: argparse.Namespace) -> None:
    lines = [json.loads(line) for line in (args.out / "mixed-models.jsonl").read_text().splitlines()]
    page = [
        "# Mixed models: sitewise, lme4 and glmmTMB",
        "",
        "Written by `python studies/mixed_models.py table`; the first lines of the script and of `mixed_models.R` say"
        " what is computed. A cell is the estimate with its standard error in parentheses; for standard deviations of"
        " random effects it is the standard error of the logarithm. Why numbers differ:",
        "",
        "- lme4's ML and Laplace fits maximise over fixed effects; REML and sitewise integrate over them, which gives"
        " larger standard deviations of random effects.",
        "- Laplace's approximation reports the mode of all effects jointly, EP and VI their posterior means. Where the"
        " posterior is skewed (few events per group) the mode lies closer to zero.",
        "- glmmTMB's standard errors of fixed effects include the uncertainty of the variances; lme4's (here) and"
        " sitewise's are for given variances.",
        "",
    ]
    for name in TABLES:
        own = [line for line in lines if line["table"] == name]
        programs = list(dict.fromkeys(line["program"] for line in own))
        terms = list(dict.fromkeys(line["term"] for line in own))
        page += [f"## {name}", "", "| term | " + " | ".join(programs) + " |", "|---|" + "---|" * len(programs)]
        for term in terms:
            cells = []
            for program in programs:
                found = [line for line in own if (line["program"], line["term"]) == (program, term)]
                cells.append(_cell(found[0]) if found else "–")
            page.append(f"| {term} | " + " | ".join(cells) + " |")
        page += ["", _apart(own), ""]
    (args.out / "mixed-models.md").write_text("\n".join(page))


def _cell(line: dict[str, Any]) -> str:
    error = "" if line["error"] is None else f" ({line['error']:.4g})"
    return f"{line['estimate']:.4g}{error}"


def _apart(lines: list[dict[str, Any]]) -> str:
    """The largest difference between our Laplace fit and glmmTMB's, which integrate over the same effects."""
    both: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        both.setdefault(line["program"], {})[line["term"]] = line
    own, other = both["sitewise Laplace"], both["glmmTMB REML"]
    shared = [term for term in own if term in other]
    estimates = []
    for term in shared:
        one, two = own[term], other[term]
        if term.startswith("sd"):
            estimates.append(abs(np.log(one["estimate"] / two["estimate"])) / (own[term]["error"] or 1.0))
        else:
            estimates.append(abs(one["estimate"] - two["estimate"]) / two["error"])
    errors = [
        abs(own[t]["error"] / other[t]["error"] - 1) for t in shared if other[t]["error"] and not t.startswith("sd")
    ]
    return (
        f"Laplace by sitewise and REML by glmmTMB: estimates differ by at most {max(estimates):.1e} standard errors, "
        f"standard errors of fixed effects by at most {100 * max(errors):.2f} %."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("fit")
    one.add_argument("folder", type=Path)
    one.set_defaults(run=fit)
    commands.add_parser("table").set_defaults(run=table)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
