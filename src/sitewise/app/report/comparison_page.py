"""The report of `sitewise compare`: plain words first, then what they rest on, and the technical part folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise.app.compare.comparison import BASELINE, LABELS
from sitewise.app.compare.score_table import cells, columns_of, explained, has_classes, number, short, value
from sitewise.app.report import charts, effect_charts
from sitewise.app.report.page import figure, folded, notes, page, panels, paragraph, section, table, text
from sitewise.methods import METHODS

Plain = Mapping[str, Any]
_MOST_BARS = 15
_UNITS = {"exposure": "Counts are those of one unit of exposure.", "trials": "Shares are those of one trial."}


def comparison_report(result: Plain) -> str:
    """The page, from the data that `--json` prints."""
    data = result["data"]
    winner = [row["name"] for row in result["methods"]].index(result["winner"])
    rows = [cells(row, result) for row in result["methods"]]
    parts = [
        "<div class=lead>" + "".join(map(paragraph, result["verdict"])) + "</div>",
        section(
            "How well each predicts", table(columns_of(result), rows, winner),
            paragraph(explained(result), "soft small"),
        ),
        section("Can the numbers be taken at their word?", *_reliability(result)),
        *_decisions(result),
        *(_columns(result) if "effects" in result else ()),
        section("Least expected rows", _outliers(result)),
        *notes(data),
        folded("Technical details", _methods(result), *_lengthscales(result["fit"], data["features"]), _fit(result)),
    ]  # fmt: skip
    subtitle = f"{data['rows']} rows, {len(data['features'])} inputs, target {data['target']}; {result['made']['date']}"
    return page(f"{data['target']} in {data['file']}: what can be predicted?", subtitle, parts, _made(result))


def _reliability(result: Plain) -> list[str]:
    """The best Gaussian process, and beside it the best rival."""
    if has_classes(result):
        axes = "predicted probability", "observed share"
        of = (
            f"Rows in groups by the predicted probability of {result['positive']!r}, against how many of them were"
            if result["positive"] is not None
            else "Rows in groups by the probability of the predicted class, against how often it was right"
        )
    else:
        axes, of = ("predicted level", "share of rows below it"), "Share of the values below each predicted quantile"
    rivals = [row["name"] for row in result["methods"] if row["name"] not in METHODS and row["name"] != BASELINE]
    score = {row["name"]: row["log_density"] for row in result["methods"]}
    shown = [result["best_gp"], *sorted(rivals, key=lambda name: -score[name])[:1]]
    drawn = [
        figure(charts.reliability({LABELS[name]: result["reliability"][name]}, *axes), title=LABELS[name])
        for name in shown
    ]
    words = (
        f"{of}. On the dashed line predictions are calibrated; bars are two standard errors to either side, so that "
        "about one bar in twenty misses the line by chance."
    )
    return [panels(*drawn), paragraph(words, "soft small")]


def _decisions(result: Plain) -> list[str]:
    """For one class, a table of thresholds; for several, how often each was taken for each other."""
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
            "act from", "acted on, of 100 rows", f"of these {what}", f"of all {what} found",
            "false alarms, of 100 rows", f"{what} missed, of 100 rows",
            "right if a miss costs … false alarms", "cost saved",
        )  # fmt: skip
        words = (
            f"What would have happened on the {data['rows']} rows, each predicted by {result['best_gp']} without "
            f"having seen it, if you act on every row whose probability of {what!r} is at least that of the first "
            f"column. Choose the line by cost: how many false alarms are as bad as one missed {what!r}? Cost saved: "
            "compared with the cheaper of acting on all rows and on none, at that price."
        )
        return [section(f"When to act on {what}", paragraph(words), table(columns, rows))]
    if "confusion" in result:
        classes, counts = result["confusion"]["classes"], result["confusion"]["counts"]
        rows = [
            (name, *(short(n) for n in row), f"{row[k] / max(sum(row), 1):.0%}")
            for k, (name, row) in enumerate(zip(classes, counts, strict=True))
        ]
        words = (
            f"Rows by their class, columns by the class that {result['best_gp']} predicts. --positive CLASS adds a "
            "table of thresholds."
        )
        return [
            section("Which classes are confused", table(("", *classes, "right"), rows), paragraph(words, "soft small"))
        ]
    return []


def _columns(result: Plain) -> list[str]:
    """What the best Gaussian process says about the columns; nothing is said of columns that predict nothing."""
    return [
        section("Which columns matter", *_importance(result)),
        section("How the prediction changes with each column", *_effects(result)),
        *_together(result),
        *_terms(result),
    ]


def _terms(result: Plain) -> list[str]:
    """The parts of a model that is a sum: their shares of the variation."""
    if not result.get("terms"):
        return []
    shown = result["terms"][:_MOST_BARS]
    drawn = charts.bars(
        {t["term"]: t["share"] for t in shown}, "of the variation", {t["term"]: t["error"] for t in shown}
    )
    left = len(result["terms"]) - len(shown)
    more = f" {left} smaller ones are not shown." if left else ""
    words = (
        "The fitted function is a sum. Share of its variation that each part makes: a column is what it does alone, "
        f"a × b what two columns do together beyond that. Thin lines are two standard errors.{more}"
    )
    return [section("What the function is made of", figure(drawn, words))]


def _importance(result: Plain) -> list[str]:
    shares = result["importance"][:_MOST_BARS]
    total, alone = ({r["column"]: r[key] for r in shares} for key in ("total", "alone"))
    error = {r["column"]: r["total_error"] for r in shares if r["total_error"] is not None}
    drawn = charts.bars(total, "of the variation", error, alone)
    left = len(result["importance"]) - len(shares)
    more = f" {left} weaker columns are not shown." if left else ""
    return [figure(
        drawn,
        f"Share of the variation of the fitted function ({LABELS[result['best_gp']]}) in which a column takes part; "
        "the filled part is what it explains alone, the open part is its share in interactions with others. Thin lines "
        "are two standard errors. They describe the model; they do not say what would happen if a column were changed."
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
        f"Average {label} as one column moves and the others stay as they are in {found[0]['rows']} rows; all charts "
        "have the same scale. Band or bar: 90 % of the functions that fit the data. "
        f"Small strokes on the lower axis are the deciles of the rows: where there are none, the model guesses.{side}"
    )
    return [panels(*drawn), paragraph(words, "soft small")]


def _together(result: Plain) -> list[str]:
    found = result["together"]
    if found is None:
        return []
    first, second = found["columns"]
    words = (
        f"Average {_predicted(result, found['of'])} along {first}, one line for each "
        + ("text" if isinstance(found["lines"][0]["at"], str) else "of a low, a middle and a high value")
        + f" of {second}. Parallel lines show no interaction; "
        "near the ends of a scale, as 0 and 1 for probabilities, lines come together without one."
    )
    chart = effect_charts.together(found, _predicted(result, found["of"]))
    return [section("The two strongest columns together", panels(figure(chart, words)))]


def _outliers(result: Plain) -> str:
    rows = [
        (str(o["row"]), value(o["target"]), value(o["prediction"]), _per_cent(o["chance"])) for o in result["outliers"]
    ]
    if not rows:
        return paragraph("No row is surprising.")
    chance = "probability of what was observed" if has_classes(result) else "chance of a value as extreme"
    words = "Rows that the best Gaussian process did not expect, without having seen them: errors in the data, or news."
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
    columns = ("method", "log density", "to the best", "evidence / row", "converged")
    words = (
        "Log density: mean log probability (density) of left-out rows, in nats. Evidence: what the method maximised on "
        "the training rows, which differs from method to method. "
    )
    if result["rivals"]:
        listed = ", ".join(f"{LABELS[name]} is {model}" for name, model in result["rivals"].items())
        words += f"Rivals: {listed}, tuned within the training rows of each fold."
    return table(columns, rows) + paragraph(words, "soft small")


def _lengthscales(fit: Plain, features: list[str]) -> list[str]:
    if fit["lengthscales"] is None:
        return []
    sigma = ", ".join(short(m) for m in fit["magnitudes"])
    if fit["one_lengthscale"]:
        found = ", ".join(short(lengths[0]) for lengths in fit["lengthscales"])
        words = (
            f"One lengthscale for all {len(features)} inputs: {found}; magnitude σ {sigma}. --kernel ard gives each "
            "its own."
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
        f"{made['date']}, {made['seconds']:.0f} seconds in all, {result['folds']} folds, seed {result['seed']}, "
        f"{result['data']['likelihood']} likelihood; {versions}. Command: {made['typed']}"
    )
