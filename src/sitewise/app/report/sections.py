"""The reports of surface, certificate and demo, from the plain data of each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise.app.compare.comparison import LABELS
from sitewise.app.compare.score_table import number, short, value
from sitewise.app.report import charts
from sitewise.app.report.page import figure, notes, page, paragraph, section, table, tabs, text
from sitewise.methods import DEFAULT

Plain = Mapping[str, Any]

_DARKEST = 20  # per cent of all values of the surfaces have the darkest colour


def surface_report(result: Plain) -> str:
    """The report of `sitewise surface`."""
    data = result["data"]
    return page(
        f"{data['file']}: evidence surfaces",
        _subtitle(data, f"seed {result['seed']}"),
        [section("Evidence over lengthscale and magnitude", *_surfaces(result)), *notes(data)],
    )


def certificate_report(result: Plain) -> str:
    """The report of `sitewise certificate`."""
    parts = [_certificate(part, part["which"] or "Against the gold standard") for part in result["certificates"]]
    title = f"{result['model']}: which evidence can be trusted?"
    subtitle = f"Target {result['target']}, {result['likelihood']} likelihood, fitted by {result['method']}"
    return page(title, subtitle, [*parts, _fit(result["report"], LABELS[result["method"]])])


def _certificate(part: Plain, title: str) -> str:
    m = part["mcmc"]
    gaps = {name: (value - m["log_z"]) / part["rows"] for name, value in part["evidences"].items()}
    rows = [
        (name, number(value, 3), number(gaps[name], 5), part["verdicts"][name])
        for name, value in part["evidences"].items()
    ]
    truth = (
        f"log Z = {number(m['log_z'], 3)} ± {number(m['se'], 3)} ({number(m['lower'], 3)} ± {number(m['lower_se'], 3)} "
        f"from below, {number(m['upper'], 3)} ± {number(m['upper_se'], 3)} from above; {m['reason']})."
    )
    return section(
        title,
        f"<p class=lead>{text(part['words'].splitlines()[-1])}</p>",
        paragraph(truth),
        table(("evidence", "nats", "off by, a row", "verdict"), rows),
        *(
            paragraph(f"{name}: {part['verdicts'][name]}, {remark}.")
            for name, remark in part["remarks"].items()
            if remark
        ),
        figure(
            charts.bars(gaps, "nats a row off log Z", dict.fromkeys(gaps, m["se"] / part["rows"])),
            "Distance to log Z, in nats a row; the thin line is two standard errors of log Z to either side. "
            "good: within 0.01 a row; rough: within 0.05; poor: beyond; undecided: the error bar crosses a limit.",
        ),
    )


def demo_report(result: Plain) -> str:
    """The report of `sitewise demo`: the comparison on one split, with its surfaces."""
    rows = [
        (
            LABELS[name], number(row["evidence_per_row"]), short(row["lengthscale"]), short(row["sigma"]),
            number(row["log_density"]), number(row["accuracy"], 3), number(row["seconds"], 1),
        )
        for name, row in result["methods"].items()
    ]  # fmt: skip
    columns = ("method", "evidence / row", "ℓ", "σ", "test log density", "accuracy", "seconds")
    best = max(range(len(rows)), key=lambda k: list(result["methods"].values())[k]["log_density"])
    curves = {LABELS[k]: v for k, v in result["reliability"].items()}
    parts = [
        f"<p class=lead>{text(result['words'])}</p>",
        section("The methods", table(columns, rows, best)),
        section("Evidence over lengthscale and magnitude", *_surfaces(result)[:-1]),
        _certificate(result["certificate"], "The gold standard at the hybrid's optimum"),
        section(
            "Are the probabilities right?",
            figure(charts.reliability(curves, "predicted probability", "observed share") + charts.legend(list(curves))),
        ),
        section("Least expected test rows", _outliers(result["outliers"])),
        _fit(result["report"], LABELS[DEFAULT]),
    ]
    return page(result["title"], result["subtitle"], parts)


def _outliers(outliers: list[Plain]) -> str:
    rows = [(str(o["row"]), value(o["target"]), value(o["prediction"]), number(o["log_density"], 3)) for o in outliers]
    return table(("row", "observed", "predicted", "log density"), rows)


def _surfaces(result: Plain) -> list[str]:
    """One panel per method, all on one colour scale, each with its own optimum as a star and the others as dots."""
    x, y = np.array(result["log_lengthscale"]), np.array(result["log_sigma"])
    surfaces = {k: np.array(v, float) for k, v in result["surfaces"].items()}
    everything = np.concatenate([v[np.isfinite(v)] for v in surfaces.values()])
    span = float(np.percentile(everything, _DARKEST)), float(np.max(everything))
    panels = {}
    for name, values in surfaces.items():
        marks = [
            charts.Mark(LABELS[k], float(np.log(o["lengthscale"])), float(np.log(o["sigma"])), k == name)
            for k, o in result["optima"].items()
        ]
        panels[LABELS[name]] = figure(charts.heat(values, x, y, marks, span, LABELS[name]))
    rows = [
        (
            LABELS[k] + ("" if o["converged"] else " (not converged)"),
            short(o["lengthscale"]),
            short(o["sigma"]),
            number(o["evidence"]),
        )
        for k, o in result["optima"].items()
    ]
    words = (
        "Evidence in nats a row; colours are the same in every panel, and values far below the top have the darkest. "
        "The star is the optimum of the method shown; dots are the optima of the others. Blank cells did not converge."
    )
    return [
        paragraph(words, "soft small"),
        tabs("surface", panels),
        table(("optimum of", "ℓ", "σ", "evidence / row"), rows),
    ]


def _fit(report: str, method: str) -> str:
    return section(f"Fit report ({method}, all training rows)", f"<pre>{text(report)}</pre>")


def _subtitle(data: Plain, more: str) -> str:
    inputs = f"{data['rows']} rows, {len(data['features'])} inputs"
    return f"{inputs}, target {data['target']}, {data['likelihood']} likelihood, {more}"
