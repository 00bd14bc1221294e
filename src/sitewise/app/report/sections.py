"""The content of each report, from the plain data of each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise.app.comparison import LABELS
from sitewise.app.report import charts
from sitewise.app.report.page import number, page, paragraph, section, short, table, tabs, text
from sitewise.methods import DEFAULT

Plain = Mapping[str, Any]

_DARKEST = 20  # per cent of all values of the surfaces have the darkest colour


def comparison_report(result: Plain) -> str:
    """The report of `sitewise compare`."""
    data = result["data"]
    parts = [
        f"<p class=lead>{text(result['recommendation'])}</p>",
        section("The methods", _methods(result), paragraph(_METHODS_NOTE, "soft small")),
        section("Are the probabilities right?", _reliability(result)),
        section("Learned lengthscales", *_lengthscales(result["fit"], data["features"])),
        section("Least expected rows", _outliers(result["outliers"])),
        _fit(result["fit"]["report"], LABELS[result["fit"]["method"]]),
    ]
    return page(
        f"{data['file']}: which method?",
        _subtitle(data, f"{result['folds']} folds, seed {result['seed']}"),
        [*parts, *_notes(data)],
    )


def surface_report(result: Plain) -> str:
    """The report of `sitewise surface`."""
    data = result["data"]
    return page(
        f"{data['file']}: evidence surfaces",
        _subtitle(data, f"seed {result['seed']}"),
        [section("Evidence over lengthscale and magnitude", *_surfaces(result)), *_notes(data)],
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
        _figure(
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
            f"<figure>{charts.reliability(curves, 'predicted probability', 'observed share')}</figure>",
        ),
        section("Least expected test rows", _outliers(result["outliers"])),
        _fit(result["report"], LABELS[DEFAULT]),
    ]
    return page(result["title"], result["subtitle"], parts)


_METHODS_NOTE = (
    "Log density: mean log probability (density) of the held-out targets, in nats a row; higher is better. p: "
    "corrected resampled t-test of the difference to the best method over the folds. Calibration error: mean distance "
    "between predicted and observed shares. Evidence: the method's own, of the training rows. Seconds: one fit, "
    "median over the folds."
)


def _methods(result: Plain) -> str:
    accuracy = "accuracy" if "accuracy" in result["methods"][0] else "rmse"
    rows = [
        (
            LABELS[row["name"]] + ("" if row["converged"] == result["folds"] else f" (converged: {row['converged']})"),
            number(row["log_density"]), "best" if row["p_value"] is None else short(row["p_value"], 2),
            number(row[accuracy], 3), number(row["calibration_error"], 3), number(row["evidence_per_row"]),
            number(row["seconds"], 1),
        )
        for row in result["methods"]
    ]  # fmt: skip
    best = [row["name"] for row in result["methods"]].index(result["best"])
    columns = (
        "method",
        "log density",
        "p",
        accuracy if accuracy == "accuracy" else "RMSE",
        "calibration error",
        "evidence / row",
        "seconds",
    )
    return table(columns, rows, best)


def _reliability(result: Plain) -> str:
    classes = result["data"]["classes"]
    curves = {LABELS[k]: v for k, v in result["reliability"].items() if k != "baseline"}
    if classes is None:
        axes, words = (
            ("predicted level", "share of rows below it"),
            "Share of the targets below each predicted quantile.",
        )
    elif len(classes) == 2:
        axes, words = (
            ("predicted probability", "observed share"),
            f"Probability of {classes[1]!r} against how often it was right.",
        )
    else:
        axes, words = (
            ("predicted probability", "observed share"),
            "Probability of the predicted class against how often it was right.",
        )
    chart = charts.reliability(curves, *axes)
    return _figure(chart, f"{words} On the dashed line the predictions are calibrated.")


def _lengthscales(fit: Plain, features: list[str]) -> list[str]:
    sigma = ", ".join(short(m) for m in fit["magnitudes"])
    if fit["one_lengthscale"]:
        found = ", ".join(short(lengths[0]) for lengths in fit["lengthscales"])
        return [
            paragraph(
                f"One lengthscale for all {len(features)} columns: {found}; magnitude σ {sigma}. With --ard every "
                "column has its own."
            )
        ]
    parts = [
        paragraph(
            f"In units of each column's standard deviation; short means that the column matters. Magnitude σ {sigma}."
        )
    ]
    for lengths in fit["lengthscales"]:
        order = np.argsort(lengths)[:20]
        parts.append(f"<figure>{charts.bars({features[i]: 1 / lengths[i] for i in order}, '1/ℓ (relevance)')}</figure>")
    return parts


def _outliers(outliers: list[Plain]) -> str:
    rows = [
        (str(o["row"]), _value(o["target"]), _value(o["prediction"]), number(o["log_density"], 3)) for o in outliers
    ]
    return table(("row", "observed", "predicted", "log density"), rows)


def _value(value: Any) -> str:
    return short(value, 4) if isinstance(value, float) else str(value)


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
        panels[LABELS[name]] = _figure(charts.heat(values, x, y, marks, span, LABELS[name]))
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


def _figure(chart: str, caption: str = "") -> str:
    return f"<figure>{chart}{f'<figcaption>{text(caption)}</figcaption>' if caption else ''}</figure>"


def _notes(data: Plain) -> list[str]:
    if not data["notes"]:
        return []
    return [section("Notes on the data", "<ul>" + "".join(f"<li>{text(n)}</li>" for n in data["notes"]) + "</ul>")]
