"""Errata of the paper: explanations of printed numbers, with the stored numbers as evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sitewise_icml2023 import paper
from sitewise_icml2023.book import tables as cells
from sitewise_icml2023.book.items import Item
from sitewise_icml2023.book.stored import Row, Stored
from sitewise_icml2023.protocols import FOLDS, SEEDS
from sitewise_icml2023.registry import suite
from sitewise_icml2023.sampled import NARROW_LIMITS
from sitewise_icml2023.sources import DataError

HALF = "E7"


def folds(stored: Stored, data: Path | None) -> list[tuple[str, int, dict[float, float], float]]:
    """Return per method: the number of public folds in the store, the share within 1e-5 … 1e-2, the median gap."""
    public, out = _public(data), []
    printed = {
        "laplace": "laplace", "laplace-softplus": "laplace", "ep-frozen": "ep", "vi": "vi", "vi-joint": "vi",
        "hybrid-vem": "hybrid-vem", "mcmc": "mcmc",
    }  # fmt: skip
    for ours, method in printed.items():
        mine = [r for r in stored.rows if (r["method"], r["protocol"]) == (ours, "published") and r["seed"] in SEEDS]
        gaps = [
            abs(r["test_loglik"] - paper.published_fold(public, r["set"], method, "test_loglik", r["seed"], r["fold"]))
            for r in mine
            if r["set"] in public
        ]
        if gaps:
            shares = {limit: float(np.mean(np.array(gaps) <= limit)) for limit in (1e-5, 1e-4, 1e-3, 1e-2)}
            out.append((ours, len(gaps), shares, float(np.median(gaps))))
    return out


def _frozen(stored: Stored, data: Path | None) -> str:
    text = (
        "The printed EP is not converged: EP ran once, at ℓ = σ² = 1 (or at its starting θ); its sites were then held "
        "fixed while θ was learned, and used for the predictions. `ep-frozen` does the same (`frozen.py`)."
    )
    known = [row for row in folds(stored, data) if row[0] == "ep-frozen"]
    if known:
        text += f" It reproduces {known[0][2][1e-5]:.1%} of {known[0][1]} public folds to 1e-5."
    gaps = {}
    for name in suite("table1"):
        both = [stored.values(name, m, "test_loglik", (42,)) for m in ("ep", "ep-frozen")]
        if both[0] is not None and both[1] is not None:
            gaps[name] = float(both[0].mean() - both[1].mean())
    if gaps:
        most = max(gaps, key=lambda name: gaps[name])
        text += (
            f" EP converged at every θ (`ep`) is better by {np.mean(list(gaps.values())):.4f} in the mean of "
            f"{len(gaps)} "
            f"sets, seed 42, and by {gaps[most]:.3f} on {most}."
        )
    return text


def _quadrature(stored: Stored, data: Path | None) -> str:
    text = "The curve of Ours in Fig. 1 was computed with 20 Gauss–Hermite points, too few where the cavity is wide."
    fine, surface = stored.arrays("fig1.npz", "figures"), stored.surface("ionosphere")
    if fine is None or surface is None:
        return text
    printed = paper.figures()["fig1"]
    far = {name: float(np.max(np.abs(fine[f"{key}_evidence"] - np.array(printed["hybrid"]))))
           for name, key in (("20 points", "hybrid_20"), ("exact", "hybrid"))}  # fmt: skip
    sampled = surface["mcmc_log_z"][np.isclose(surface["log_sigma"], 2.3)] / paper.FIG1_ROWS
    return text + (
        f" With 20 points our curve is within {far['20 points']:.4f} per row of it, and with exact integrals within "
        f"{far['exact']:.4f}; at log ℓ = −1 MCMC has {sampled[0]:.4f}, exact {fine['hybrid_evidence'][0]:.4f}, printed "
        f"{printed['hybrid'][0]:.4f}."
    )


def _row_number(stored: Stored, data: Path | None) -> str:
    return (
        "The printed d counts a column that holds the row number, and the models were trained on it: "
        "[what the data hid](../../docs/explanation/what-the-data-hid.md), [protocols.md](protocols.md)."
    )


def _one_seed(stored: Stored, data: Path | None) -> str:
    """Compare the printed points with the printed accuracies of one seed and of ten."""
    points, far = paper.figures()["fig4"]["points"], {}
    for table in ("table1-seed42", "table1"):
        lines = paper.printed(table, "accuracy").values()
        means = {m: np.array([line[m].mean for line in lines]) for m in points}
        best = np.max(list(means.values()), axis=0)
        far[table] = max(float(np.max(np.abs(means[m] / best - np.array(points[m])))) for m in points)
    return (
        "The caption of Fig. 4 says ten seeds; its points are from seed 42 alone. Ratios of the printed accuracies of "
        f"seed 42 are within {far['table1-seed42']:.4f} of all 108 points (rounding), those of ten seeds only within "
        f"{far['table1']:.2f}."
    )


def _log_steps(stored: Stored, data: Path | None) -> str:
    path, found = paper.figures()["fig5"]["path"], stored.arrays("fig5.npz", "figures")
    text = (
        "Fig. 5 was made with steps on log ℓ and log σ², the tables with steps on the softplus scale: its "
        "first round moves "
        f"log ℓ by {path[1][0]:.3f} and log σ by {path[1][1]:.3f}, which is 20 Adam steps of 0.01 on the "
        "former; the latter "
        "would allow 0.12 at most."
    )
    if found is not None:
        far = float(np.max(np.abs(found["ep"][:100] - np.array(paper.figures()["fig5"]["ep"][1:101]))))
        text += f" With steps on log ℓ and log σ² the first hundred rounds agree to {far:.0e} nats (fold 0 of seed 42)."
    rows = stored.folds("ionosphere", "hybrid-vem", (42,))
    if rows is not None:
        text += f" On the softplus scale the objective falls after {rows[0]['rounds'] - 1} rounds, not 44."
    return text


def _captions(stored: Stored, data: Path | None) -> str:
    return "Sentences that the printed tables contradict: see Text below."


def _chance(stored: Stored, data: Path | None) -> str:
    """Report how far apart searches ended that started within 1e-10 of each other, with ARD."""
    text = (
        "With one lengthscale per feature, the end of a printed search is partly due to chance. Distances were "
        "computed as |a|² + |b|² − 2aᵀb; the modes of Laplace's method were sought to 1e-4; VI was searched for over θ "
        "and all numbers of q together. `laplace-softplus`, `ep-frozen` and `vi-joint` do the same (`laplace.py`, "
        "`frozen.py`, `joint.py`)."
    )
    known = {row[0]: row for row in folds(stored, data)}
    searches = [m for m in ("laplace-softplus", "ep-frozen", "vi-joint") if m in known]
    near = [f"{known[m][3]:.0e} ({m}, {known[m][1]} folds)" for m in searches]
    if near:
        text += f" With one lengthscale the median difference from public folds is {', '.join(near)}."
    text += (
        " With one per feature, a search may come near a lengthscale of zero, where such distances have no correct "
        "digit, or creep along a ridge, and a start moved by 1e-10 ends elsewhere. The largest differences between "
        "ends of one fold, in nats of the objective and of the mean test log density:"
    )
    rows, told = stored.lines(cells.REPEATS), []
    for search, name in dict.fromkeys((row["method"], row["set"]) for row in rows):
        mine = [row for row in rows if (row["method"], row["set"]) == (search, name)]
        fine = [row for row in mine if np.isfinite(row["objective"] + row["test_loglik"])]
        apart = [_largest_range(fine, key) for key in ("objective", "test_loglik")]
        lost = f", {len(mine) - len(fine)} without a number" if len(fine) < len(mine) else ""
        told.append(f"{search} on {name} {apart[0]:.2g} and {apart[1]:.2g} ({len(mine)} searches{lost})")
    return text + (
        f" {'; '.join(told) or 'not computed here'}. A cell that the search itself misses counts as explained if "
        "one in twenty of the tables made from such ends (without ends that are not numbers) meets mean and standard "
        "deviation together; the nearest of these tables is shown."
    )


def _largest_range(rows: list[Row], key: str) -> float:
    ends = [[row[key] for row in rows if row["fold"] == fold] for fold in {row["fold"] for row in rows}]
    return max(max(values) - min(values) for values in ends)


def _given_up(stored: Stored, data: Path | None) -> str:
    """Report the folds on which the printed search and the library's search end at different points."""
    text = (
        "The search for Laplace's hyperparameters may end early. Where a trial step leads to a lengthscale below "
        "1e-154, squared distances overflow, and the failure ends the search at the step before. "
        f"`{cells.AS_SEARCHED}` does the same; it is used if the maximum misses a printed cell."
    )
    public = _public(data)
    mine = [r for r in stored.rows if (r["method"], r["protocol"]) == (cells.AS_SEARCHED, "published")]
    for name in dict.fromkeys(r["set"] for r in mine):
        seeds = SEEDS if stored.values(name, cells.AS_SEARCHED, "test_loglik", SEEDS) is not None else (42,)
        both = [stored.values(name, m, "test_loglik", seeds) for m in ("laplace", cells.AS_SEARCHED)]
        if both[0] is None or both[1] is None or np.max(np.abs(both[0] - both[1])) <= 0.01:
            continue
        apart = np.abs(both[0] - both[1])
        at = int(np.argmax(apart))
        seed, fold = seeds[at // FOLDS], at % FOLDS
        text += (
            f" On {name} {int(np.sum(apart > 0.01))} of {len(apart)} folds differ by more than 0.01, most that of seed "
            f"{seed}, fold {fold}: {both[1][at]:.6f}, and {both[0][at]:.6f} at the maximum"
        )
        if name in public:
            found = paper.published_fold(public, name, "laplace", "test_loglik", seed, fold)
            text += f"; {found:.6f} was published"
        text += "."
    return text


def _dense(stored: Stored, data: Path | None) -> str:
    """Report how the printed sparse Algorithm 1 ends."""
    text = (
        "Algorithm 1 of Table 3 kept one dense site on all inducing inputs. Its M-step computed a site of every row "
        "from q at the current θ, so that these sites moved with θ; the text holds them fixed. `dense-ep` does the "
        "same (`dense_sites.py`)."
    )
    rows = [r for r in stored.rows if r["method"] == "dense-ep@m500" and r["protocol"] == "published"]
    if rows:
        fell = sum(row["reason"] == "the evidence fell" for row in rows)
        text += (
            f" It ended after {min(row['rounds'] for row in rows)} to {max(row['rounds'] for row in rows)} rounds, on "
            f"{fell} of {len(rows)} folds because its objective fell."
        )
    return text


def _narrow(stored: Stored, data: Path | None) -> str:
    """Report how closely the public folds are followed with wide and with narrow limits of the flat priors."""
    low, high = (f"1e{decade}" for decade in NARROW_LIMITS)
    text = (
        "The limits of the flat priors of log ℓ and log σ² are not printed, and there is no posterior without limits: "
        "the evidence tends to 2⁻ⁿ as σ² → 0. They matter where few rows, or classes that a GP separates, do not "
        f"determine θ. MCMC here takes 1e-5 and 1e6. {low} and {high} were chosen on public folds of trains and "
        "balloons, and are used for cells that MCMC misses: chains within these limits (`mcmc-narrow`), or averages "
        "over a grid of θ with the weights of EP's evidence ([limits](flat-priors.md), `flat_priors.py`)."
    )
    public, told = _public(data), []
    for name in public:
        theirs = [paper.published_fold(public, name, "mcmc", "test_loglik", s, f) for s in SEEDS for f in range(FOLDS)]
        both = (
            stored.values(name, "mcmc", "test_loglik", SEEDS),
            cells.with_narrow_limits(stored, name, "test_loglik"),
        )
        if both[0] is not None and both[1] is not None:
            told.append(f"{name} {_rms(both[0] - theirs):.4f} → {_rms(both[1] - theirs):.4f}")
    if told:
        text += f" Root mean square differences from 50 public folds, MCMC → narrow limits: {', '.join(told)}."
    return text


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _public(data: Path | None) -> dict[str, Any]:
    """Return the public folds; empty if their files are missing."""
    try:
        return paper.published_folds(data)
    except DataError:
        return {}


def half() -> tuple[str, list[Item]]:
    """Explain two columns of magic in Table 3: log ½ on all folds, and on two of five."""
    line, chance = paper.printed("table3", "loglik")["magic"], math.log(0.5)
    mean = line["laplace"].mean
    other = (5 * mean - 2 * chance) / 3
    sd = abs(other - chance) * math.sqrt(6) / 5
    where = cells.where("table3", "loglik")
    items = [
        Item(where, "magic", "ep mean", line["ep"].mean, chance, cells.DIGIT, HALF),
        Item(where, "magic", "ep sd", line["ep"].sd, 0.0, cells.DIGIT, HALF),
        Item(where, "magic", "laplace sd", line["laplace"].sd, sd, cells.DIGIT, HALF),
    ]
    text = (
        f"In Table 3 EP on magic is {line['ep'].mean} ± {line['ep'].sd:.3f}, log ½ on every fold: the model "
        f"learned nothing. If LA's {mean} is log ½ on two folds of five and {other:.4f} on the others, its "
        f"standard deviation is {sd:.3f}; {line['laplace'].sd} is printed."
    )
    return text, items


EVERY: dict[str, Callable[[Stored, Path | None], str]] = {
    "E1": _frozen, "E2": _quadrature, "E3": _row_number, "E4": _one_seed, "E5": _log_steps, "E6": _captions,
    HALF: lambda stored, data: half()[0], cells.CHANCE: _chance, cells.STOPPED: _given_up, cells.DENSE: _dense,
    cells.NARROW: _narrow,
}  # fmt: skip
