"""Right-censored lifetimes: sitewise compared with lifelines' Weibull AFT and Cox models on the same rows.

    python studies/survival_peers.py --lifelines PYTHON [--splits 5] [--sets NAME ...]
    python studies/survival_peers.py --table

PYTHON is the interpreter of an environment with lifelines (benchmarks/peers.toml), which runs this script with --peer.
The data sets of lifelines are read there from the installed package and are not kept.  Simulated sets have 300 training
and 300 test rows of five columns, Weibull lifetimes of shape 1.5 and random ends of observation that censor about 40 %:

    linear       log T = 0.7 x₀ − 0.5 x₁ + noise
    nonlinear    log T = 1.2 sin(2 x₀) + 0.8 x₁² + 0.6 x₀ x₂ + noise

The other sets are halved at random, with at most 300 training rows.  Columns are standardised by the training rows.

Score: only S(t | x) is used, since Cox's model has no density.  With the deciles c_j of the events of the training rows
as cut points, an event in (c_j, c_{j+1}] scores log(S(c_j) − S(c_{j+1})), where the last piece is open, and a censored
row scores log S(t).  Larger is better.  A probability of 0 counts as 1e-6.  Seconds include compilation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).resolve().parents[1] / "results" / "survival"
SIMULATED = ("linear", "nonlinear")
OF_LIFELINES = {"rossi": ("load_rossi", "week", "arrest"), "gbsg2": ("load_gbsg2", "time", "cens"),
                "lung": ("load_lung", "time", "status")}  # fmt: skip
GPS = {"GP, weibull": "weibull", "GP, log_logistic": "log_logistic"}
PEERS = ("Weibull AFT", "Cox PH", "no inputs")
MOST = 300
LEAST = 1e-6

Rows = dict[str, Any]  # X, time, event as lists


def simulate(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([SIMULATED.index(name), seed])
    X = rng.normal(size=(2 * MOST, 5))
    f = 0.7 * X[:, 0] - 0.5 * X[:, 1]
    if name == "nonlinear":
        f = 1.2 * np.sin(2 * X[:, 0]) + 0.8 * X[:, 1] ** 2 + 0.6 * X[:, 0] * X[:, 2]
    life = np.exp(f) * rng.weibull(1.5, len(X))
    stop = rng.exponential(2.2 * np.median(life), len(X))
    return X, np.minimum(life, stop), (life <= stop).astype(float)


def halves(X: np.ndarray, when: np.ndarray, event: np.ndarray, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows, with columns standardised by the former."""
    order = np.random.default_rng(seed).permutation(len(X))
    first = order[: min(len(X) // 2, MOST)]
    second = order[len(first) :]
    centre, scale = X[first].mean(axis=0), X[first].std(axis=0)
    Z = (X - centre) / np.where(scale > 0, scale, 1.0)
    train, test = (
        {"X": Z[rows].tolist(), "time": when[rows].tolist(), "event": event[rows].tolist()} for rows in (first, second)
    )
    return train, test


def cut_points(train: Rows) -> np.ndarray:
    when, event = np.asarray(train["time"]), np.asarray(train["event"])
    return np.unique(np.quantile(when[event == 1], np.linspace(0, 1, 11)[1:-1]))


def scores(survival: np.ndarray, own: np.ndarray, test: Rows, cuts: np.ndarray) -> np.ndarray:
    """Of each row; `survival` has a row for each subject and a column for each cut, `own` is S at the row's time."""
    when, event = np.asarray(test["time"]), np.asarray(test["event"])
    S = np.column_stack([np.ones(len(when)), survival, np.zeros(len(when))])
    piece = np.searchsorted(cuts, when, side="left")
    rows = np.arange(len(when))
    share = np.where(event == 1, S[rows, piece] - S[rows, piece + 1], own)
    return np.log(np.maximum(share, LEAST))


# -- sitewise ------------------------------------------------------------------------------------------------


def by_gp(likelihood: str, train: Rows, test: Rows, cuts: np.ndarray) -> dict[str, Any]:
    from sitewise import GPRegressor

    began = time.perf_counter()
    X, when = np.asarray(test["X"]), np.asarray(test["time"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPRegressor("ard", likelihood=likelihood)
        model.fit(np.asarray(train["X"]), np.asarray(train["time"]), event=np.asarray(train["event"]))
    at = [1 - model.predict_cdf(X, np.full(len(X), t)) for t in cuts]
    found = scores(np.column_stack(at), 1 - model.predict_cdf(X, when), test, cuts)
    return {"score": float(found.mean()), "error": float(found.std() / np.sqrt(len(found))),
            "seconds": time.perf_counter() - began, "converged": bool(model.converged_)}  # fmt: skip


# -- lifelines, in its own environment -----------------------------------------------------------------------


def peer() -> None:
    """Read a task from stdin, write the answer to stdout: the table of a data set, or the scores of all peers."""
    task = json.load(sys.stdin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = _table_of(task["load"]) if "load" in task else _of_peers(task)
    json.dump(answer, sys.stdout)


def _table_of(name: str) -> Rows:
    import lifelines.datasets
    import pandas as pd

    loader, when, event = OF_LIFELINES[name]
    table = getattr(lifelines.datasets, loader)().dropna()
    inputs = pd.get_dummies(table.drop(columns=[when, event]), drop_first=True).astype(float)
    seen = table[event].astype(float)
    return {"X": inputs.to_numpy().tolist(), "time": table[when].astype(float).tolist(),
            "event": (seen == seen.max()).astype(float).tolist()}  # fmt: skip


def _of_peers(task: dict[str, Any]) -> dict[str, Any]:
    import lifelines
    import pandas as pd

    train, test, cuts = task["train"], task["test"], np.asarray(task["cuts"])
    names = [f"x{i}" for i in range(len(train["X"][0]))]
    tables = [pd.DataFrame(t["X"], columns=names).assign(time=t["time"], event=t["event"]) for t in (train, test)]
    out: dict[str, Any] = {}
    for name in PEERS:
        began = time.perf_counter()
        try:
            if name == "no inputs":
                curve = lifelines.KaplanMeierFitter().fit(train["time"], train["event"])
                survival = np.tile(curve.survival_function_at_times(cuts).to_numpy(), (len(test["X"]), 1))
                own = curve.survival_function_at_times(test["time"]).to_numpy()
            else:
                kind = lifelines.WeibullAFTFitter if name == "Weibull AFT" else lifelines.CoxPHFitter
                # The penalty of lifelines' examples, as some columns are constant or nearly so in a half.
                model = kind(penalizer=0.01).fit(tables[0], "time", "event")
                survival = model.predict_survival_function(tables[1], times=cuts).to_numpy().T
                times = np.unique(test["time"])
                each = model.predict_survival_function(tables[1], times=times).to_numpy()
                own = each[np.searchsorted(times, test["time"]), np.arange(len(test["time"]))]
            found = scores(survival, own, test, cuts)
            out[name] = {"score": float(found.mean()), "error": float(found.std() / np.sqrt(len(found))),
                         "seconds": time.perf_counter() - began, "converged": True}  # fmt: skip
        except Exception as problem:
            out[name] = {"failure": f"{type(problem).__name__}: {problem}"[:200]}
    return out


def ask(python: str, task: dict[str, Any]) -> Any:
    done = subprocess.run(
        [python, __file__, "--peer"], input=json.dumps(task), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


# -- all -----------------------------------------------------------------------------------------------------


def measure(python: str, name: str, split: int) -> dict[str, Any]:
    if name in SIMULATED:
        X, when, event = simulate(name, split)
    else:
        table = ask(python, {"load": name})
        X, when, event = (np.asarray(table[key], float) for key in ("X", "time", "event"))
    train, test = halves(X, when, event, split)
    cuts = cut_points(train)
    found = ask(python, {"train": train, "test": test, "cuts": cuts.tolist()})
    for label, likelihood in GPS.items():
        try:
            found[label] = by_gp(likelihood, train, test, cuts)
        except Exception as problem:
            found[label] = {"failure": f"{type(problem).__name__}: {problem}"[:200]}
    hidden = 1 - float(np.mean(event))
    return {"set": name, "split": split, "train": len(train["X"]), "test": len(test["X"]), "censored": round(hidden, 3),
            "columns": len(train["X"][0]), "found": found}  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """Mean score over the splits; differences to the Weibull AFT with the standard error over splits."""
    names = [*GPS, *PEERS]
    out = [
        "| set | rows, columns, censored | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for name in (*SIMULATED, *OF_LIFELINES):
        mine = [line for line in lines if line["set"] == name]
        if not mine:
            continue
        cells = []
        for label in names:
            pairs = [
                (line["found"][label]["score"], line["found"]["Weibull AFT"].get("score", np.nan))
                for line in mine
                if "score" in line["found"][label]
            ]
            failed = len(mine) - len(pairs)
            if not pairs:
                cells.append("failed")
                continue
            score, base = np.array(pairs).T
            gap = score - base
            error = np.std(gap, ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            cell = f"{score.mean():.3f}"
            if label != "Weibull AFT":
                cell += f" ({gap.mean():+.3f} ± {error:.3f})"
            seconds = np.median([line["found"][label].get("seconds", np.nan) for line in mine])
            open_ones = sum(not line["found"][label].get("converged", True) for line in mine)
            notes = [f"{seconds:.1f} s", *([f"{failed} failed"] if failed else [])]
            notes += [f"{open_ones} not converged"] if open_ones else []
            cells.append(f"{cell}, {', '.join(notes)}")
        first = mine[0]
        out.append(
            f"| {name}, {len(mine)} splits | {first['train']} + {first['test']}, {first['columns']}, "
            f"{100 * np.mean([line['censored'] for line in mine]):.0f} % | " + " | ".join(cells) + " |"
        )
    return "\n".join(out)


def finished() -> list[dict[str, Any]]:
    path = OUT / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lifelines", metavar="PYTHON", help="an interpreter that has lifelines")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=[*SIMULATED, *OF_LIFELINES], choices=[*SIMULATED, *OF_LIFELINES])
    parser.add_argument("--peer", action="store_true", help="answer one task, within the other environment")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if options.peer:
        peer()
        return
    OUT.mkdir(parents=True, exist_ok=True)
    if options.table:
        words = (__doc__ or "").split("\n\n", 1)
        text = f"# {words[0]}\n\n{table(finished())}\n\nIn brackets the difference to the Weibull AFT, with its "
        text += (
            "standard error over the splits; then the median time of a fit with its predictions, which was measured "
        )
        text += "on a busy machine: only times in the same row are comparable.\n\n"
        (OUT / "README.md").write_text(text + words[1].strip("\n") + "\n")
        return
    if options.lifelines is None:
        parser.error("say --lifelines PYTHON, an interpreter that has lifelines")
    done = {(line["set"], line["split"]) for line in finished()}
    for split in range(options.splits):
        for name in options.sets:
            if (name, split) in done:
                continue
            line = measure(options.lifelines, name, split)
            with (OUT / "results.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, split, {k: v.get("score", v.get("failure")) for k, v in line["found"].items()}, flush=True)


if __name__ == "__main__":
    main()
