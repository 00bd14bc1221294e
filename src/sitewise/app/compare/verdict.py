"""What a comparison shows, in words for somebody who has to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from sitewise.app.compare.baselines import LABELS as RIVALS
from sitewise.app.compare.comparison import BASELINE
from sitewise.methods import METHODS

_SURE = 0.05
_CLEAR = 2.5  # standard errors
_KOLMOGOROV = 1.36  # √n times the largest gap of a distribution function that 95 % of samples stay below
Row = Mapping[str, Any]


def verdict(result: Mapping[str, Any], folds: int) -> list[str]:
    """Sentences: which contestant to use, how good its predictions are, and whether they can be taken at their word."""
    by_name = {row["name"]: row for row in result["methods"]}
    winner, best_gp, base = by_name[result["winner"]], by_name[result["best_gp"]], by_name[BASELINE]
    if not is_predictable(result):
        return [
            f"Nothing here surely predicts better than ignoring the inputs does ({_loss(base)} against "
            f"{-winner['log_density']:.4f} for {named(winner)}, a gain of {winner['gain']:.4f} ± "
            f"{winner['gain_error']:.4f}): check that the columns say something about the target before choosing a "
            "method."
        ]
    sentences = [
        *_choice(winner, best_gp, result["methods"], folds),
        _quality(winner, base, result.get("positive")),
        _calibration(result["reliability"][winner["name"]], winner, result.get("positive")),
    ]
    if winner is not best_gp:
        what = "The thresholds, importances and effects" if result.get("positive") else "Importances and effects"
        less = ", which misses some of what the winner finds" if best_gp["p_value"] < _SURE else ""
        sentences.append(f"{what} below are those of {named(best_gp)}{less}.")
    return sentences


def is_predictable(result: Mapping[str, Any]) -> bool:
    """Whether the best contestant is better than ignoring the inputs, by more than chance among several explains."""
    winner = next(row for row in result["methods"] if row["name"] == result["winner"])
    return bool(winner["gain"] > _CLEAR * winner["gain_error"])


def named(row: Row) -> str:
    """What a contestant is called in a sentence."""
    if row["name"] in METHODS:
        return f"the Gaussian process ({row['name']})"
    return {"linear": "the linear model", "trees": "boosted trees"}[row["name"]]


def _loss(row: Row) -> str:
    """Log loss of the left-out rows: minus the mean log probability, or density, of what was observed."""
    return f"log loss {-row['log_density']:.4f}"


def _choice(winner: Row, best_gp: Row, rows: Sequence[Row], folds: int) -> list[str]:
    rest = [row for row in rows if row["name"] not in (winner["name"], BASELINE)]
    behind = [row for row in rest if row["p_value"] < _SURE]
    level = [row for row in rest if row["p_value"] >= _SURE]
    if winner["name"] in METHODS:
        words = [f"Use {named(winner)}, --method {winner['name']}: it predicts best ({_loss(winner)})."]
    else:
        sure = best_gp in behind
        much = "significantly better" if sure else "better, if not significantly,"
        words = [
            f"{_upper(named(winner))} of scikit-learn predict{'' if winner['name'] == 'trees' else 's'} {much} than "
            f"the best Gaussian process ({_loss(winner)} against {-best_gp['log_density']:.4f} for {best_gp['name']})."
        ]
        if sure:
            words.append("If predictions are all that you need, use that.")
        else:
            words.append(f"Of the Gaussian processes use --method {best_gp['name']}.")
    if behind:
        listed = ", ".join(f"{_short(row)} (by {-row['difference_to_winner']:.4f}, p = {row['p_value']:.2g})"
                           for row in behind)  # fmt: skip
        words.append(f"{_upper(named(winner))} {_is(winner)} significantly better than {listed}.")
    if level:
        listed = ", ".join(map(_short, level))
        words.append(f"{folds} folds show no significant difference from {listed}.")
    if winner["converged"] < folds:
        words.append(f"The fit converged in {winner['converged']} of {folds} folds only: look at the fit report.")
    if winner["warning"]:
        words.append(f"But its fits warned: {winner['warning']}")
    return words


def _is(row: Row) -> str:
    return "are" if row["name"] == "trees" else "is"


def _short(row: Row) -> str:
    return str(row["name"]) if row["name"] in METHODS else RIVALS[row["name"]]


def _upper(words: str) -> str:
    return words[0].upper() + words[1:]


def _quality(row: Row, base: Row, positive: str | None) -> str:
    by = named(row)
    if "accuracy" in row:
        words = (
            f"Of 100 rows not seen before, {100 * row['accuracy']:.0f} are classified rightly by {by}, and "
            f"{100 * base['accuracy']:.0f} by always naming the most frequent class."
        )
        if positive is None:
            return words
        if row["auc"] < 0.55 or row["brier"] >= base["brier"]:
            return words + (
                f" But for {positive!r} alone nothing is gained over ignoring the inputs (AUC {row['auc']:.3f}): its "
                "probabilities tell no row from another."
            )
        return words + (
            f" Of two rows, one of them {positive!r} and one not, the {positive!r} gets the higher probability in "
            f"{100 * row['auc']:.0f} of 100 cases (AUC {row['auc']:.3f})."
        )
    return (
        f"Predictions by {by} are off by {row['mae']:.3g} on average ({base['mae']:.3g} if the inputs are ignored), "
        f"and their 90 % intervals hold {100 * row['coverage']:.0f} of 100 values."
    )


def _calibration(curve: Mapping[str, list[float]], row: Row, positive: str | None) -> str:
    """Whether what was observed agrees with the predictions as far as chance allows, and how not."""
    p, o, n = (np.asarray(curve[k]) for k in ("predicted", "observed", "count"))
    if "accuracy" in row:
        p, o, n = _large_groups(p, o, n)
        square = float(np.sum(n * (o - p) ** 2 / (p * (1 - p))))
        what, agrees = "probabilities", square <= stats.chi2.ppf(1 - _SURE, len(p))
        side = np.sign(p - 0.5) if positive is not None else np.ones(len(p))
        outward = np.sum(n * (o - p) * side) > 0
        how = "too cautious" if outward else "too sure of themselves"
        if positive is not None and len(p) > 1 and (np.all(o >= p) or np.all(o <= p)):
            how = "too low" if np.all(o >= p) else "too high"
    else:
        what, agrees = "intervals and quantiles", np.max(np.abs(o - p)) * np.sqrt(n[0]) <= _KOLMOGOROV
        how = "too wide" if row["coverage"] > 0.9 else "too narrow"
        if abs(np.mean(o - p)) > 0.5 * np.max(np.abs(o - p)):
            how = "too high" if np.mean(o - p) > 0 else "too low"
    if agrees:
        return f"The {what} can be taken at their word: they agree with what was observed, as far as chance allows."
    return f"Do not take the {what} at their word: they are {how}, by more than chance explains."


def _large_groups(p: np.ndarray, o: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbouring groups joined until Σ p (1 − p) of each is at least 2, as χ² needs; the rest joins the last."""
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
