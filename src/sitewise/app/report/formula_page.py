"""HTML report of a fitted formula: summary, terms with bands, maps with exceedance probabilities."""

from __future__ import annotations

from sitewise.app.report.page import date_and_versions, page, paragraph, section, text
from sitewise.app.report.term_charts import term_figures
from sitewise.explain.term_effects import term_effects
from sitewise.explain.terms_display import effect_label
from sitewise.formula import FormulaModel

REPORT_MAP_POINTS = 25  # per axis


def formula_report(model: FormulaModel, source: str = "") -> str:
    """Return the HTML report of a fitted formula; `source` names its table."""
    made = date_and_versions()
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    words = (
        "Curves and groups average to zero over the training rows; coefficients are per unit of their column. Band or "
        "bar: 90 % credible interval per value, on the scale of the linear predictor."
    )
    parts = [section("Summary", f"<pre>{text(model.summary())}</pre>")]
    if any(term.columns for term in model.terms):
        drawn = term_figures(term_effects(model, map_points=REPORT_MAP_POINTS), effect_label(model))
        parts.append(section("Terms", drawn, paragraph(words, "soft small")))
    if model.warnings:
        parts.append(section("Warnings", *(paragraph(one) for one in model.warnings)))
    subtitle = f"{model.rows} rows{f' of {source}' if source else ''}, likelihood {model.likelihood}"
    return page(model.formula, subtitle, parts, f"{made['date']}; {versions}.")
