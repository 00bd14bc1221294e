"""What a comparison shows, in words for somebody who has to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sitewise.app.comparison import BASELINE
from sitewise.app.rivals import LABELS as RIVALS
from sitewise.methods import METHODS

_SURE = 0.05
Row = Mapping[str, Any]


def verdict(result: Mapping[str, Any], folds: int) -> list[str]:
    """Sentences: which contestant to use, how good its predictions are, and whether they can be taken at their word."""
    by_name = {row["name"]: row for row in result["methods"]}
    winner, best, base = by_name[result["winner"]], by_name[result["best"]], by_name[BASELINE]
    surely_worse = base["difference_to_best"] < 0 and base["p_value"] < _SURE
    if base["folds_lost"] < folds and not surely_worse:
        return [
            "Nothing here predicts better than ignoring the inputs does, in every fold or significantly "
            f"({_loss(base)} against {-winner['log_density']:.4f} for {named(winner)}): check that the columns "
            "say something about the target before choosing a method."
        ]
    return [
        *_choice(winner, best, result["methods"], folds),
        _quality(winner, base, result.get("positive")),
        _calibration(result["reliability"][winner["name"]], winner),
    ]


def named(row: Row) -> str:
    """What a contestant is called in a sentence."""
    if row["name"] in METHODS:
        return f"the Gaussian process ({row['name']})"
    return {"linear": "the linear model", "trees": "boosted trees"}[row["name"]]


def _loss(row: Row) -> str:
    """Log loss of the left-out rows: minus the mean log probability, or density, of what was observed."""
    return f"log loss {-row['log_density']:.4f}"


def _choice(winner: Row, best: Row, rows: Sequence[Row], folds: int) -> list[str]:
    rest = [row for row in rows if row["name"] not in (winner["name"], BASELINE)]
    behind = [row for row in rest if row["p_value"] < _SURE]
    level = [row for row in rest if row["p_value"] >= _SURE]
    if winner["name"] in METHODS:
        words = [f"Use {named(winner)}, --method {winner['name']}: it predicts best ({_loss(winner)})."]
    else:
        sure = best in behind
        much = "significantly better" if sure else "better, if not significantly,"
        words = [
            f"{_upper(named(winner))} of scikit-learn predict{'' if winner['name'] == 'trees' else 's'} {much} than "
            f"the best Gaussian process ({_loss(winner)} against {-best['log_density']:.4f} for {best['name']})."
        ]
        if sure:
            words.append("If predictions are all that you need, use that; what follows describes the Gaussian process.")
        else:
            words.append(f"Of the Gaussian processes use --method {best['name']}.")
    if behind:
        listed = ", ".join(f"{_short(row)} (by {-row['difference_to_best']:.4f}, p = {row['p_value']:.2g})"
                           for row in behind)  # fmt: skip
        words.append(f"{_upper(named(winner))} {_is(winner)} significantly better than {listed}.")
    if level:
        listed = ", ".join(map(_short, level))
        words.append(f"{folds} folds show no significant difference from {listed}.")
    if winner["converged"] < folds:
        words.append(f"The fit converged in {winner['converged']} of {folds} folds only: look at the fit report.")
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
        return words + (
            f" Of two rows, one of them {positive!r} and one not, the {positive!r} gets the higher probability in "
            f"{100 * row['auc']:.0f} of 100 cases (AUC {row['auc']:.3f})."
        )
    return (
        f"Predictions by {by} are off by {row['mae']:.3g} on average ({base['mae']:.3g} if the inputs are ignored), "
        f"and their 90 % intervals hold {100 * row['coverage']:.0f} of 100 values."
    )


def _calibration(curve: Mapping[str, list[float]], row: Row) -> str:
    """Whether the observed shares lie within two standard errors of the predictions, nearly everywhere."""
    p, o, e = (np.asarray(curve[k]) for k in ("predicted", "observed", "error"))
    off = np.abs(o - p) > 2 * np.maximum(e, 1e-9)
    what = "probabilities" if "accuracy" in row else "intervals and quantiles"
    # Of as many groups one may be off by chance; levels of values hang together.
    if np.sum(off) <= (1 if "accuracy" in row else 2):
        return f"The {what} can be taken at their word: they agree with what was observed, within the error bars."
    if "accuracy" in row:
        outward = np.average((o - p) * np.sign(p - 0.5), weights=curve["count"])
        how = "too cautious" if outward > 0 else "too sure of themselves"
    else:
        how = "too wide" if row["coverage"] > 0.9 else "too narrow"
    share = (
        f"{np.sum(off)} of {len(off)} groups of rows" if "accuracy" in row else f"{np.sum(off)} of {len(off)} levels"
    )
    return f"Do not take the {what} at their word: they are {how} (outside of the error bars in {share})."
