"""HTML report of `sitewise compare`: conclusions first, then scores, calibration, effects; technical details folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise.app.compare.comparison import LABELS, NO_INPUTS
from sitewise.app.compare.score_table import cells, columns_of, explained, has_classes, number, short, value
from sitewise.app.report import charts, effect_charts
from sitewise.app.report.page import figure, folded, notes, page, panels, paragraph, section, table, text
from sitewise.methods import METHODS

Plain = Mapping[str, Any]
MAX_BARS = 15  # in one chart
_UNITS = {"exposure": "Counts are per unit of exposure.", "trials": "Predictions are the share of successes per trial."}


def comparison_report(result: Plain) -> str:
    """Return the report, from the data that `--json` prints."""
    data = result["data"]
    winner = [row["name"] for row in result["methods"]].index(result["winner"])
    rows = [cells(row, result) for row in result["methods"]]
    calibrated = "Are the probabilities calibrated?" if has_classes(result) else "Are the intervals calibrated?"
    parts = [
        "<div class=lead>" + "".join(map(paragraph, result["verdict"])) + "</div>",
        section(
            "Scores of all models", table(columns_of(result), rows, winner),
            paragraph(explained(result), "soft small"),
        ),
        section(calibrated, *_reliability(result)),
        *_decisions(result),
        *(_columns(result) if "effects" in result else ()),
        section("Outliers: the most surprising rows", _outliers(result)),
        *notes(data),
        folded("Technical details", _methods(result), *_lengthscales(result["fit"], data["features"]), _fit(result)),
    ]  # fmt: skip
    subtitle = f"{data['rows']} rows, {len(data['features'])} inputs, target {data['target']}; {result['made']['date']}"
    return page(f"Model comparison: {data['target']} in {data['file']}", subtitle, parts, _made(result))


def _reliability(result: Plain) -> list[str]:
    """Return the calibration curves of the best Gaussian process and the best baseline model."""
    if has_classes(result):
        axes = "predicted probability", "observed share"
        of = (
            f"Rows are grouped by their predicted probability of {result['positive']!r}; the vertical axis shows the "
            f"share of {result['positive']!r} rows per group"
            if result["positive"] is not None
            else "Rows are grouped by the probability of the predicted class; the vertical axis shows the share of "
            "correct predictions per group"
        )
    else:
        axes, of = ("quantile level", "share of rows below it"), "Share of the values below each predicted quantile"
    baselines = [row["name"] for row in result["methods"] if row["name"] not in METHODS and row["name"] != NO_INPUTS]
    score = {row["name"]: row["log_density"] for row in result["methods"]}
    shown = [result["best_gp"], *sorted(baselines, key=lambda name: -score[name])[:1]]
    drawn = [
        figure(charts.reliability({LABELS[name]: result["reliability"][name]}, *axes), title=LABELS[name])
        for name in shown
    ]
    words = (
        f"{of}. Calibrated predictions lie on the dashed line. Bars are ± two standard errors: about one bar in twenty "
        "misses the line by chance."
    )
    return [panels(*drawn), paragraph(words, "soft small")]


def _decisions(result: Plain) -> list[str]:
    """Return a table of decision thresholds for a positive class, or a confusion matrix for several classes."""
    if "thresholds" in result:
        what, data = result["positive"], result["data"]
        rows = [
            (
                f"{t['threshold']:.0%}", f"{100 * t['acted_on']:.1f}",
                "–" if t["precision"] is None else f"{t['precision']:.0%}", f"{t['found']:.0%}",
                f"{100 * t['false_alarms']:.1f}", f"{100 * t['missed']:.1f}", short(t["miss_costs"], 2),
                f"{t['saved']:.0%}".replace("-", "\N{MINUS SIGN}"),
            )
            for t in result["thresholds"]
        ]  # fmt: skip
        columns = (
            "threshold", "acted on, per 100 rows", "precision", "recall",
            "false alarms, per 100 rows", f"{what} missed, per 100 rows",
            "optimal if a miss costs … false alarms", "cost saved",
        )  # fmt: skip
        words = (
            f"Acting on every row whose probability of {what!r} reaches the threshold would have had these results on "
            f"the {data['rows']} rows, predicted by {LABELS[result['best_gp']]} in cross-validation. Choose the "
            f"threshold by cost: how many false alarms are as bad as one missed {what!r}? Precision: share of {what!r} "
            f"among the rows acted on. Recall: share of all {what!r} rows that are acted on. Cost saved: compared with "
            "the cheaper of acting on all rows and acting on none, at this cost ratio."
        )
        return [section(f"Decision thresholds: when to act on {what}", paragraph(words), table(columns, rows))]
    if "confusion" in result:
        classes, counts = result["confusion"]["classes"], result["confusion"]["counts"]
        rows = [
            (name, *(short(n) for n in row), f"{row[k] / max(sum(row), 1):.0%}")
            for k, (name, row) in enumerate(zip(classes, counts, strict=True))
        ]
        words = (
            f"Numbers of rows. Lines: observed class; columns: class predicted by {LABELS[result['best_gp']]} in "
            "cross-validation. --positive CLASS adds a table of decision thresholds for this class."
        )
        shown = table(("observed", *classes, "correct"), rows)
        return [section("Confusion matrix: which classes are confused", shown, paragraph(words, "soft small"))]
    return []


def _columns(result: Plain) -> list[str]:
    """Return importance, effects and interactions of the columns in the best Gaussian process."""
    return [
        section("Which columns matter", *_importance(result)),
        section("Effects: how the prediction changes with each column", *_effects(result)),
        *_together(result),
        *_terms(result),
        *_varying(result),
    ]


def _varying(result: Plain) -> list[str]:
    """Return where the parameter that varies with x is large: along the columns, and in which rows."""
    if not result.get("varying"):
        return []
    found, name = result["varying"], result["varying"]["parameter"]
    effects = found["effects"]
    span = (min(min(e["low"]) for e in effects), max(max(e["high"]) for e in effects))
    shares = {row["column"]: row["total"] for row in found["importance"]}
    drawn = [
        figure(effect_charts.effect(e, name, span), title=f"{e['column']} (share {shares[e['column']]:.0%})")
        for e in effects
    ]
    words = (
        f"The {name} of the observations as one column is varied, averaged over {effects[0]['rows']} rows on the scale "
        f"of its second latent function ({found['function']}). Shares are of the variance of this function. "
        "Bands are 90 % credible intervals. The table lists the rows with the largest values."
    )
    rows = [(str(r["row"]), value(r["median"]), f"{value(r['low'])} to {value(r['high'])}") for r in found["largest"]]
    largest = table(("row", name, "90 % interval"), rows)
    return [section(f"Where the {name} is large", panels(*drawn), paragraph(words, "soft small"), largest)]


def _terms(result: Plain) -> list[str]:
    """Return the shares of variance of the terms of an additive model."""
    if not result.get("terms"):
        return []
    shown = result["terms"][:MAX_BARS]
    drawn = charts.bars(
        {t["term"]: t["share"] for t in shown}, "of the variance", {t["term"]: t["error"] for t in shown}
    )
    left = len(result["terms"]) - len(shown)
    more = f" {left} smaller terms are not shown." if left else ""
    words = (
        "The fitted function is a sum of terms. Bars are the share of its variance per term: the main effect of a "
        f"column, or the interaction a × b of two columns. Thin lines are two standard errors.{more}"
    )
    return [section("Terms of the additive model", figure(drawn, words))]


def _importance(result: Plain) -> list[str]:
    shares = result["importance"][:MAX_BARS]
    total, alone = ({r["column"]: r[key] for r in shares} for key in ("total", "alone"))
    error = {r["column"]: r["total_error"] for r in shares if r["total_error"] is not None}
    drawn = charts.bars(total, "of the variance", error, alone)
    left = len(result["importance"]) - len(shares)
    more = f" {left} less important columns are not shown." if left else ""
    return [figure(
        drawn,
        f"Share of the variance of the fitted function ({LABELS[result['best_gp']]}) per column. The filled part is "
        "the main effect of the column, the open part is its share in interactions. Thin lines are two standard "
        "errors. Importance describes the model; it does not predict what would happen if a column were changed."
        + more,
    )]  # fmt: skip


def _predicted(result: Plain, of: str) -> str:
    if of:
        return f"probability of {of}"
    ranks = result["effects"][0]["ranks"]
    return f"{result['data']['target']}: {ranks}" if ranks else f"predicted {result['data']['target']}"


def _effects(result: Plain) -> list[str]:
    found = result["effects"]
    span = (min(min(e["low"]) for e in found), max(max(e["high"]) for e in found))
    label = _predicted(result, found[0]["of"])
    shares = {row["column"]: row["total"] for row in result["importance"]}
    drawn = [
        figure(effect_charts.effect(e, label, span), title=f"{e['column']} (share {shares[e['column']]:.0%})")
        for e in found
    ]
    one = [words for key, words in _UNITS.items() if key in result["data"]["side"]]
    side = f" {one[0]}" if one else ""
    words = (
        f"Average {label} over {found[0]['rows']} rows if one column is varied and all other columns keep their values "
        "(partial dependence). All charts have the same scale. Band or bar: 90 % credible interval. Small strokes on "
        f"the lower axis are the deciles of the column: outside them the model extrapolates from few rows.{side}"
    )
    return [panels(*drawn), paragraph(words, "soft small")]


def _together(result: Plain) -> list[str]:
    found = result["together"]
    if found is None:
        return []
    first, second = found["columns"]
    words = (
        f"Average {_predicted(result, found['of'])} along {first}, one line "
        + ("per category" if isinstance(found["lines"][0]["at"], str) else "each for a low, a middle and a high value")
        + f" of {second}. Parallel lines mean no interaction. "
        "Near the ends of a scale, such as 0 and 1 for probabilities, lines approach each other without an interaction."
    )
    chart = effect_charts.together(found, _predicted(result, found["of"]))
    return [section("Joint effect of the two most important columns", panels(figure(chart, words)))]


def _outliers(result: Plain) -> str:
    rows = [
        (str(o["row"]), value(o["target"]), value(o["prediction"]), _per_cent(o["chance"])) for o in result["outliers"]
    ]
    if not rows:
        return paragraph("No row is surprising under the best Gaussian process.")
    chance = "probability of the observed class" if has_classes(result) else "probability of a value as extreme"
    words = (
        "Held-out rows whose observed target is improbable under the best Gaussian process: check them for errors in "
        "the data."
    )
    return table(("row", "observed", "predicted", chance), rows) + paragraph(words, "soft small")


def _per_cent(chance: float) -> str:
    return f"{100 * chance:.2g} %" if chance >= 1e-4 else "below 0.01 %"


def _methods(result: Plain) -> str:
    rows = [
        (
            LABELS[row["name"]], number(row["log_density"]), number(row["difference_to_winner"]),
            number(row["evidence_per_row"]),
            f"{row['converged']} of {result['folds']}" if row["name"] in METHODS else "–",
        )
        for row in result["methods"]
    ]  # fmt: skip
    columns = ("method", "log density", "difference to best", "evidence / row", "converged")
    words = (
        "Log density: mean log probability (density) of held-out rows, in nats. Evidence: the objective that the "
        "method maximised on the training set; it differs between methods. "
    )
    if result["rivals"]:
        listed = ", ".join(f"{LABELS[name]} is {model}" for name, model in result["rivals"].items())
        words += f"Baseline models of scikit-learn: {listed}, tuned within the training set of each fold."
    return table(columns, rows) + paragraph(words, "soft small")


def _lengthscales(fit: Plain, features: list[str]) -> list[str]:
    if fit["lengthscales"] is None:
        return []
    sigma = ", ".join(short(m) for m in fit["magnitudes"])
    if fit["one_lengthscale"]:
        found = ", ".join(short(lengths[0]) for lengths in fit["lengthscales"])
        words = (
            f"One lengthscale for all {len(features)} inputs: {found}; magnitude σ {sigma}. "
            "--kernel ard learns one per input."
        )
        return [paragraph(words)]
    parts = [paragraph(f"Lengthscales in standard deviations of each input, the shortest first; magnitude σ {sigma}.")]
    for lengths in fit["lengthscales"]:
        order = np.argsort(lengths)[:20]
        parts.append(table(("input", "lengthscale"), [(features[i], short(lengths[i])) for i in order]))
    return parts


def _fit(result: Plain) -> str:
    fit = result["fit"]
    return f"<h3>Fit report ({text(LABELS[fit['method']])}, all rows)</h3><pre>{text(fit['report'])}</pre>"


def _made(result: Plain) -> str:
    made = result["made"]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return (
        f"{made['date']}, {made['seconds']:.0f} seconds in total, {result['folds']} folds, seed {result['seed']}, "
        f"{result['data']['likelihood']} likelihood; {versions}. Command: {made['typed']}"
    )
