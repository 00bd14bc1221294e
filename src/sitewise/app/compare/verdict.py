"""Write the conclusions of a comparison in sentences: best model, quality of its predictions, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from sitewise.app.compare.baselines import LABELS as BASELINE_LABELS
from sitewise.app.compare.comparison import (
    MIN_DIFFERENCE,
    NO_INPUTS,
    SIGNIFICANCE_LEVEL,
    matters,
)
from sitewise.methods import DEFAULT, METHODS

MIN_GAIN_STANDARD_ERRORS = 2.5  # gain over ignoring the inputs; above 1.96 because the best of several models is tested
KOLMOGOROV_95 = 1.36  # 95 % quantile of √n times the largest difference of empirical and true distribution function
MIN_AUC = 0.55  # a class with a lower AUC is not predicted
Row = Mapping[str, Any]


def verdict(result: Mapping[str, Any], folds: int, groups: str | None = None) -> list[str]:
    """Return sentences on which model to use, how good its predictions are, and whether they are calibrated.

    `groups` is the name of the column whose groups were held out as a whole.
    """
    by_name = {row["name"]: row for row in result["methods"]}
    winner, best_gp, base = by_name[result["winner"]], by_name[result["best_gp"]], by_name[NO_INPUTS]
    held_out = [] if groups is None else [_held_out(groups)]
    if not is_predictable(result):
        return [
            f"No model predicts reliably better than ignoring the inputs ({_loss(winner)} for {named(winner)}, "
            f"{-base['log_density']:.4f} without inputs, gain {winner['gain']:.4f} ± {winner['gain_error']:.4f}): "
            "check that the columns carry information on the target before choosing a method.",
            *held_out,
        ]
    worse = _is_worse(best_gp)
    chosen = winner if worse else best_gp
    sentences = [
        *_choice(winner, best_gp, result["methods"], folds),
        *held_out,
        _quality(chosen, base, result.get("positive")),
        _calibration(result["reliability"][chosen["name"]], chosen, result.get("positive")),
    ]
    if winner["name"] not in METHODS:
        what = "The thresholds, importances and effects" if result.get("positive") else "Importances and effects"
        but = ", which predicts significantly worse" if worse else ""
        sentences.append(f"{what} below describe {named(best_gp)}{but}.")
    return sentences


def _held_out(groups: str) -> str:
    return f"Whole groups of {groups!r} were held out: the scores describe predictions for new groups."


def _is_worse(row: Row) -> bool:
    """Return whether a model is worse than the best one by a difference that matters."""
    return matters(row["difference_to_winner"], row["p_value"])


def is_predictable(result: Mapping[str, Any]) -> bool:
    """Whether the best model is significantly better than ignoring the inputs."""
    winner = next(row for row in result["methods"] if row["name"] == result["winner"])
    return bool(winner["gain"] > MIN_GAIN_STANDARD_ERRORS * winner["gain_error"])


def named(row: Row) -> str:
    """Return the name of a model for a sentence."""
    names = {
        DEFAULT: "the default Gaussian process", "linear": "the linear model", "trees": "boosted trees",
    }  # fmt: skip
    return names.get(row["name"], f"the Gaussian process ({row['name']})")


def _option(row: Row) -> str:
    """Return the option of `sitewise fit` that fits this Gaussian process; empty for the default."""
    return "" if row["name"] == DEFAULT else f", --method {row['name']}"


def _loss(row: Row) -> str:
    """Return the log loss of held-out rows: minus the mean log probability, or density, of the observed target."""
    return f"log loss {-row['log_density']:.4f}"


def _choice(winner: Row, best_gp: Row, rows: Sequence[Row], folds: int) -> list[str]:
    """Return sentences on which model to use, which models are worse and which are tied with the best."""
    rest = [row for row in rows if row["name"] not in (winner["name"], NO_INPUTS)]
    behind = [row for row in rest if _is_worse(row)]
    level = [row for row in rest if row not in behind and row is not best_gp]
    if best_gp in behind:
        lower = -best_gp["difference_to_winner"]
        words = [
            f"{_upper(named(winner))}{_source(winner)} {_predict(winner)} significantly better than the best Gaussian "
            f"process: {_loss(winner)}, lower by {lower:.4f} nats per row (p = {best_gp['p_value']:.2g}).",
            f"If you only need predictions, use {named(winner)}.",
        ]
        behind.remove(best_gp)
    elif winner is best_gp:
        words = [f"Use {named(best_gp)}{_option(best_gp)}: it predicts best ({_loss(best_gp)})."]
    elif winner["name"] not in METHODS:
        verb = "have" if winner["name"] == "trees" else "has"
        words = [
            f"{_upper(named(winner))}{_source(winner)} {verb} the lowest log loss ({-winner['log_density']:.4f}), "
            f"lower than {named(best_gp)} ({-best_gp['log_density']:.4f}) by {-best_gp['difference_to_winner']:.4f} "
            f"nats per row, which is {_negligible(best_gp)}.",
            f"Use either: {named(winner)} for predictions alone, {named(best_gp)}{_option(best_gp)} for predictive "
            "distributions and effects with intervals.",
        ]
    else:
        words = [f"Use {named(best_gp)}{_option(best_gp)} ({_loss(best_gp)}): {_tie(winner, best_gp)}"]
    if behind:
        listed = ", ".join(
            f"{_short(row)} (by {-row['difference_to_winner']:.4f}, p = {row['p_value']:.2g})" for row in behind
        )
        words.append(f"{_upper(named(winner))} {_is(winner)} significantly better than {listed}.")
    if level:
        listed = ", ".join(map(_short, level))
        words.append(
            f"Over {folds} folds the difference from {named(winner)} is not significant (p ≥ {SIGNIFICANCE_LEVEL:g}), "
            f"or below {MIN_DIFFERENCE:g} nats per row, for {listed}."
        )
    chosen = best_gp if winner["name"] in METHODS or not _is_worse(best_gp) else winner
    if chosen["converged"] < folds:
        words.append(f"The fit converged in only {chosen['converged']} of {folds} folds: see the fit report.")
    if chosen["warning"]:
        words.append(f"Warning from its fits: {chosen['warning']}")
    return words


def _tie(winner: Row, best_gp: Row) -> str:
    """Say why another Gaussian process of lower log loss is not recommended instead."""
    lower = -best_gp["difference_to_winner"]
    return f"{named(winner)} has a lower log loss by {lower:.4f} nats per row, which is {_negligible(best_gp)}."


def _negligible(row: Row) -> str:
    """Say why the difference between a model and the best one does not decide."""
    if -row["difference_to_winner"] < MIN_DIFFERENCE:
        return f"too small to matter (below {MIN_DIFFERENCE:g})"
    return f"not significant (p = {row['p_value']:.2g}; --repeats 5 would estimate it more precisely)"


def _source(row: Row) -> str:
    return "" if row["name"] in METHODS else " of scikit-learn"


def _predict(row: Row) -> str:
    return "predict" if row["name"] == "trees" else "predicts"


def _is(row: Row) -> str:
    return "are" if row["name"] == "trees" else "is"


def _short(row: Row) -> str:
    short = {DEFAULT: "the default GP", **BASELINE_LABELS}
    return short.get(row["name"], str(row["name"]))


def _upper(words: str) -> str:
    return words[0].upper() + words[1:]


def _quality(row: Row, base: Row, positive: str | None) -> str:
    """Return sentences on the quality of a model's predictions, compared with ignoring the inputs."""
    if "accuracy" in row:
        words = (
            f"Accuracy on held-out rows: {100 * row['accuracy']:.0f} % for {named(row)}, "
            f"{100 * base['accuracy']:.0f} % for always predicting the most frequent class."
        )
        if positive is None:
            return words
        if row["auc"] < MIN_AUC or row["brier"] >= base["brier"]:
            return words + (
                f" But for {positive!r} alone the model is no better than ignoring the inputs (AUC {row['auc']:.3f}): "
                "do not rank rows by this probability."
            )
        return words + (
            f" The model ranks a random {positive!r} row above a random other row in {100 * row['auc']:.0f} % of cases "
            f"(AUC {row['auc']:.3f})."
        )
    return (
        f"Mean absolute error on held-out rows: {row['mae']:.3g} for {named(row)}, {base['mae']:.3g} without inputs. "
        f"The 90 % intervals contain {100 * row['coverage']:.0f} % of the values."
    )


def _calibration(curve: Mapping[str, list[float]], row: Row, positive: str | None) -> str:
    """Return a sentence on whether observed and predicted shares agree within sampling error, and how they differ."""
    p, o, n = (np.asarray(curve[k]) for k in ("predicted", "observed", "count"))
    if "accuracy" in row:
        p, o, n = _large_groups(p, o, n)
        square = float(np.sum(n * (o - p) ** 2 / (p * (1 - p))))
        what, agrees = "probabilities", square <= stats.chi2.ppf(1 - SIGNIFICANCE_LEVEL, len(p))
        side = np.sign(p - 0.5) if positive is not None else np.ones(len(p))
        outward = np.sum(n * (o - p) * side) > 0
        how = "underconfident" if outward else "overconfident"
        if positive is not None and len(p) > 1 and (np.all(o >= p) or np.all(o <= p)):
            how = "too low" if np.all(o >= p) else "too high"
    else:
        what, agrees = "intervals and quantiles", np.max(np.abs(o - p)) * np.sqrt(n[0]) <= KOLMOGOROV_95
        level, inside = ((c[::-1] - c)[: len(c) // 2] for c in (p, o))  # of central intervals
        k = np.argmax(np.abs(inside - level))
        how = "too wide" if inside[k] > level[k] else "too narrow"
        how += f" (the {100 * level[k]:.0f} % intervals contain {100 * inside[k]:.0f} % of the values)"
        if abs(np.mean(o - p)) > 0.5 * np.max(np.abs(o - p)):
            how = "too high" if np.mean(o - p) > 0 else "too low"
    if agrees:
        return f"The {what} are calibrated: they agree with the observed shares within sampling error."
    return f"The {what} are not calibrated: they are {how}, by more than sampling error."


def _large_groups(p: np.ndarray, o: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge neighbouring bins until Σ p (1 − p) of each is at least 2, as the χ² test requires."""
    groups: list[list[int]] = [[]]
    for k in np.argsort(p):
        groups[-1].append(int(k))
        if np.sum((n * p * (1 - p))[groups[-1]]) >= 2:
            groups.append([])
    if len(groups) > 1:
        rest = groups.pop()
        groups[-1] += rest
    total = np.array([np.sum(n[g]) for g in groups])
    means = (np.array([np.sum((n * a)[g]) for g in groups]) / total for a in (p, o))
    predicted, observed = means
    return np.clip(predicted, 1e-6, 1 - 1e-6), observed, total
