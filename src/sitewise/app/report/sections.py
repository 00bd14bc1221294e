"""HTML reports of the commands surface, certificate and demo, from the plain data of each command."""

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

DARKEST_PERCENT = 20  # percentile of all surface values below which cells have the darkest colour


def surface_report(result: Plain) -> str:
    """Return the report of `sitewise surface`."""
    data = result["data"]
    return page(
        f"{data['file']}: evidence surfaces",
        _subtitle(data, f"seed {result['seed']}"),
        [section("Evidence over lengthscale and magnitude", *_surfaces(result)), *notes(data)],
    )


def certificate_report(result: Plain) -> str:
    """Return the report of `sitewise certificate`."""
    parts = [_certificate(part, part["which"] or "Comparison with MCMC") for part in result["certificates"]]
    title = f"{result['model']}: accuracy of the evidence approximations"
    subtitle = f"Target {result['target']}, {result['likelihood']} likelihood, fitted by {result['method']}"
    return page(title, subtitle, [*parts, _fit(result["report"], LABELS[result["method"]])])


def _certificate(part: Plain, title: str) -> str:
    """Return a section that compares evidence approximations with log Z from MCMC."""
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
        table(("evidence", "nats", "error per row (nats)", "verdict"), rows),
        *(
            paragraph(f"{name}: {part['verdicts'][name]}, {remark}.")
            for name, remark in part["remarks"].items()
            if remark
        ),
        figure(
            charts.bars(gaps, "nats per row above log Z", dict.fromkeys(gaps, m["se"] / part["rows"])),
            "Error of each evidence approximation: its difference from log Z, in nats per row. The thin line is ± two "
            "standard errors of log Z. good: error at most 0.01 per row; rough: at most 0.05; poor: above 0.05; "
            "undecided: the error bar crosses a limit.",
        ),
    )


def demo_report(result: Plain) -> str:
    """Return the report of `sitewise demo`: a comparison of methods on one hold-out set, with evidence surfaces."""
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
        section("Scores of the methods on the test set", table(columns, rows, best)),
        section("Evidence over lengthscale and magnitude", *_surfaces(result)[:-1]),
        _certificate(result["certificate"], "Comparison with MCMC at the hybrid's optimum"),
        section(
            "Are the probabilities calibrated?",
            figure(charts.reliability(curves, "predicted probability", "observed share") + charts.legend(list(curves))),
        ),
        section("Outliers: test rows with the lowest predictive density", _outliers(result["outliers"])),
        _fit(result["report"], LABELS[DEFAULT]),
    ]
    return page(result["title"], result["subtitle"], parts)


def _outliers(outliers: list[Plain]) -> str:
    rows = [(str(o["row"]), value(o["target"]), value(o["prediction"]), number(o["log_density"], 3)) for o in outliers]
    return table(("row", "observed", "predicted", "log density"), rows)


def _surfaces(result: Plain) -> list[str]:
    """Return one panel per method on a common colour scale: the method's optimum is a star, other optima are dots."""
    x, y = np.array(result["log_lengthscale"]), np.array(result["log_sigma"])
    surfaces = {k: np.array(v, float) for k, v in result["surfaces"].items()}
    everything = np.concatenate([v[np.isfinite(v)] for v in surfaces.values()])
    span = float(np.percentile(everything, DARKEST_PERCENT)), float(np.max(everything))
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
        "Evidence in nats per row. All panels have the same colour scale; the lowest fifth of all values has the "
        "darkest colour. The star is the optimum of the method shown; dots are the optima of the other methods. Blank "
        "cells did not converge."
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
