"""Write the conclusions of a comparison in sentences: best model, quality of its predictions, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from sitewise.app.compare.baselines import LABELS as BASELINE_LABELS
from sitewise.app.compare.comparison import NO_INPUTS
from sitewise.methods import METHODS

SIGNIFICANCE_LEVEL = 0.05
MIN_GAIN_STANDARD_ERRORS = 2.5  # gain over ignoring the inputs; above 1.96 because the best of several models is tested
KOLMOGOROV_95 = 1.36  # 95 % quantile of √n times the largest difference of empirical and true distribution function
MIN_AUC = 0.55  # a class with a lower AUC is not predicted
Row = Mapping[str, Any]


def verdict(result: Mapping[str, Any], folds: int) -> list[str]:
    """Return sentences on which model to use, how good its predictions are, and whether they are calibrated."""
    by_name = {row["name"]: row for row in result["methods"]}
    winner, best_gp, base = by_name[result["winner"]], by_name[result["best_gp"]], by_name[NO_INPUTS]
    if not is_predictable(result):
        return [
            f"No model predicts reliably better than ignoring the inputs ({_loss(winner)} for {named(winner)}, "
            f"{-base['log_density']:.4f} without inputs, gain {winner['gain']:.4f} ± {winner['gain_error']:.4f}): "
            "check that the columns carry information on the target before choosing a method."
        ]
    sentences = [
        *_choice(winner, best_gp, result["methods"], folds),
        _quality(winner, base, result.get("positive")),
        _calibration(result["reliability"][winner["name"]], winner, result.get("positive")),
    ]
    if winner is not best_gp:
        what = "The thresholds, importances and effects" if result.get("positive") else "Importances and effects"
        less = ", which predicts significantly worse" if best_gp["p_value"] < SIGNIFICANCE_LEVEL else ""
        sentences.append(f"{what} below describe {named(best_gp)}{less}.")
    return sentences


def is_predictable(result: Mapping[str, Any]) -> bool:
    """Whether the best model is significantly better than ignoring the inputs."""
    winner = next(row for row in result["methods"] if row["name"] == result["winner"])
    return bool(winner["gain"] > MIN_GAIN_STANDARD_ERRORS * winner["gain_error"])


def named(row: Row) -> str:
    """Return the name of a model for a sentence."""
    if row["name"] in METHODS:
        return f"the Gaussian process ({row['name']})"
    return {"linear": "the linear model", "trees": "boosted trees"}[row["name"]]


def _loss(row: Row) -> str:
    """Return the log loss of held-out rows: minus the mean log probability, or density, of the observed target."""
    return f"log loss {-row['log_density']:.4f}"


def _choice(winner: Row, best_gp: Row, rows: Sequence[Row], folds: int) -> list[str]:
    """Return sentences on which model to use and which models are significantly worse."""
    rest = [row for row in rows if row["name"] not in (winner["name"], NO_INPUTS)]
    behind = [row for row in rest if row["p_value"] < SIGNIFICANCE_LEVEL]
    level = [row for row in rest if row["p_value"] >= SIGNIFICANCE_LEVEL]
    if winner["name"] in METHODS:
        words = [f"Use {named(winner)}, --method {winner['name']}: it predicts best ({_loss(winner)})."]
    else:
        significant = best_gp in behind
        predicts = "predict" if winner["name"] == "trees" else "predicts"
        better, but = ("significantly better", "") if significant else ("better", ", but not significantly")
        words = [
            f"{_upper(named(winner))} of scikit-learn {predicts} {better} than the best Gaussian process{but} "
            f"({_loss(winner)}, {-best_gp['log_density']:.4f} for {best_gp['name']})."
        ]
        if significant:
            words.append(f"If you only need predictions, use {named(winner)}.")
        else:
            words.append(f"Among the Gaussian processes, use --method {best_gp['name']}.")
    if behind:
        listed = ", ".join(f"{_short(row)} (by {-row['difference_to_winner']:.4f}, p = {row['p_value']:.2g})"
                           for row in behind)  # fmt: skip
        words.append(f"{_upper(named(winner))} {_is(winner)} significantly better than {listed}.")
    if level:
        listed = ", ".join(map(_short, level))
        words.append(f"Over {folds} folds there is no significant difference from {listed}.")
    if winner["converged"] < folds:
        words.append(f"The fit converged in only {winner['converged']} of {folds} folds: see the fit report.")
    if winner["warning"]:
        words.append(f"Warning from its fits: {winner['warning']}")
    return words


def _is(row: Row) -> str:
    return "are" if row["name"] == "trees" else "is"


def _short(row: Row) -> str:
    return str(row["name"]) if row["name"] in METHODS else BASELINE_LABELS[row["name"]]


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
        how = "too wide" if row["coverage"] > 0.9 else "too narrow"
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
