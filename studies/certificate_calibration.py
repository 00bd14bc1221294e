"""Test the verdicts of evidence certificates on 200 random models of two to four rows, with log Z by brute force.

    python studies/certificate_calibration.py --seed 42
    python studies/certificate_calibration.py --seed 7

Eight likelihoods, four kernels, lengthscales 0.1 to 10, prior variances 0.1 to 1000, and observations that are likely
or unlikely under the prior.  A case is written to results/certificate/calibration.jsonl when it is finished, and is not
run again.  calibration.json and calibration.md are computed from the cases by the current rules of the library.  Each
model is also annealed with few temperatures, where the error bar is harder to estimate.
"""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from brute_force import BruteForce
from sitewise import Data, Model, kernels, likelihoods
from sitewise.mcmc import Certificate, LogEvidence, evidence_certificate, log_evidence
from sitewise.mcmc.certificate import LIMITS, WORDS
from sitewise.process.precision import working_precision

HURRIED = 16  # temperatures
RUNS = {"mcmc": "default", "hurried": "hurried"}
KERNELS = (kernels.RBF, kernels.Matern32, kernels.Matern52, kernels.Matern12)
AGREEMENT = 1e-6  # nats between the two grids; a model that needs a finer one is drawn again


def draw_likelihood(kind: int, f: np.ndarray, rng: np.random.Generator) -> tuple[likelihoods.Likelihood, np.ndarray]:
    """One of eight likelihoods, and observations given f."""
    n, odd = len(f), rng.random(len(f)) < 0.3  # rows that contradict f
    f = np.where(odd, -f, f)
    size = float(np.exp(rng.uniform(-1.0, 3.0)))
    if kind == 0:
        return likelihoods.BernoulliProbit(), np.where(f + rng.normal(size=n) > 0, 1.0, -1.0)
    if kind == 1:
        return likelihoods.BernoulliLogit(), np.where(f + rng.logistic(size=n) > 0, 1.0, -1.0)
    if kind == 2:
        return likelihoods.Poisson(), rng.poisson(np.exp(f)).astype(float)
    if kind == 3:
        return likelihoods.NegativeBinomial(size), rng.poisson(np.exp(f) * rng.gamma(size, 1 / size, n)).astype(float)
    if kind == 4:
        p = 1 / (1 + np.exp(-f))
        return likelihoods.Beta(2 + size), np.clip(rng.beta((2 + size) * p, (2 + size) * (1 - p)), 1e-6, 1 - 1e-6)
    if kind == 5:
        scale = float(np.exp(rng.uniform(-1.5, 0.5)))
        return likelihoods.StudentT(scale, rng.uniform(2.0, 8.0)), f + scale * rng.standard_t(3, n) + 8 * scale * odd
    if kind == 6:
        return likelihoods.Gamma(size), np.exp(f) * rng.gamma(size, 1 / size, n)
    likelihood = likelihoods.Ordinal(-1.0, [0.8, 1.2])
    return likelihood, np.sum(f + rng.normal(size=n) > np.array([[-1.0], [-0.2], [1.0]]), axis=0).astype(float)


def draw_model(number: int, rng: np.random.Generator) -> tuple[str, Model, Data]:
    """A likelihood by turns, each with one kernel (a program is compiled for every pair); the rest at random."""
    kind = number % 8
    lengthscale, variance = (
        np.exp(rng.uniform(np.log(0.1), np.log(10.0))),
        np.exp(rng.uniform(np.log(0.1), np.log(1e3))),
    )
    kernel = KERNELS[kind % 4](lengthscale, variance)
    X = rng.normal(size=(int(rng.choice([2, 3, 4], p=[0.4, 0.4, 0.2])), 2))
    with working_precision():
        root = np.linalg.cholesky(np.asarray(kernel.matrix(jnp.asarray(X))) + 1e-10 * variance * np.eye(len(X)))
    f = np.clip(root @ rng.normal(size=len(X)), -4.0, 4.0)
    likelihood, y = draw_likelihood(kind, f, rng)
    return type(likelihood).__name__, Model.full(kernel, likelihood), Data.of(X, y)


def run_case(seed: int, number: int) -> dict[str, Any]:
    """One model, its log Z and its certificate; models whose log Z the grids do not agree on are drawn again."""
    for attempt in range(20):
        name, model, data = draw_model(number, np.random.default_rng([seed, number, attempt]))
        with working_precision():
            exact, moved = BruteForce(model, data).value()
        if moved <= AGREEMENT:
            break
    else:
        raise RuntimeError(f"no model of number {number} has a log Z by brute force.")
    found = evidence_certificate(model, data, seed=number)
    hurried = log_evidence(model, data, seed=number, steps=HURRIED, max_steps=HURRIED)
    kernel = model.prior.kernel
    return {
        "seed": seed, "number": number, "likelihood": name, "kernel": type(kernel).__name__, "rows": data.rows,
        "variance": float(kernel.variance), "lengthscale": float(kernel.lengthscale), "redrawn": attempt,
        "exact": exact, "doubling": moved, "mcmc": vars(found.mcmc), "hurried": vars(hurried),
        "evidences": found.evidences, "converged": found.converged,
    }  # fmt: skip


def word_of(gap: float) -> str:
    """The right verdict for a known distance to log Z, in nats a row."""
    return WORDS[int(np.searchsorted(LIMITS, abs(gap)))]


def judged(case: dict[str, Any], run: str = "mcmc") -> list[tuple[str, str, str]]:
    """(method, verdict, what is true) of every evidence of a case."""
    found = Certificate(LogEvidence(**case[run]), case["evidences"], case["converged"], float(case["rows"]))
    truth = {name: word_of((value - case["exact"]) / case["rows"]) for name, value in case["evidences"].items()}
    return [(name, word, truth[name]) for name, word in found.verdicts.items()]


def summary(cases: list[dict[str, Any]], run: str) -> dict[str, Any]:
    """Verdicts against the truth: how many are undecided and how many wrong, of all and by groups."""
    groups: dict[str, dict[str, collections.Counter[str]]] = collections.defaultdict(
        lambda: collections.defaultdict(collections.Counter)
    )
    for case in cases:
        for method, said, true in judged(case, run):
            kinds = {"all": "all", "method": method, "verdict": said, "likelihood": case["likelihood"]}
            for kind, name in kinds.items():
                groups[kind][name] += collections.Counter(
                    verdicts=1, undecided=said == "undecided", wrong=said not in ("undecided", true)
                )
    miss = np.array([abs(case[run]["log_z"] - case["exact"]) / case[run]["se"] for case in cases])
    return {
        "log_z_within_2_se": float(np.mean(miss <= 2)),
        "log_z_within_3_se": float(np.mean(miss <= 3)),
        "tight": float(np.mean([case[run]["tight"] for case in cases])),
        "by": {
            kind: {name: {k: int(v) for k, v in part[name].items()} for name in sorted(part)}
            for kind, part in groups.items()
        },
    }


def page(seeds: dict[int, dict[str, Any]]) -> str:
    """The summaries as tables."""
    lines = [
        "# Accuracy of certificate verdicts", "",
        "`python studies/certificate_calibration.py --seed 42` (used to choose the rules) and `--seed 7` (not used for "
        "any choice): random models of two to four rows, log Z by brute force. *default*: default settings; *hurried*: "
        f"{HURRIED} temperatures, chains that have not converged. Wrong: share of the decided verdicts.", "",
    ]  # fmt: skip
    for seed, found in seeds.items():
        lines += [
            f"## Seed {seed}", "",
            f"{found['models']} models ({found['redrawn']} were drawn again because the grids did not agree to "
            f"{AGREEMENT:g}); doubling the grid moves log Z by at most {found['doubling']:.0e} nats.", "",
            "| run | group | | verdicts | undecided | wrong |", "|---|---|---|---|---|---|",
        ]  # fmt: skip
        for run in RUNS.values():
            for kind, part in found[run]["by"].items():
                for name, n in part.items():
                    decided = n["verdicts"] - n.get("undecided", 0)
                    wrong = f"{n.get('wrong', 0)} ({n.get('wrong', 0) / decided:.1%})" if decided else "–"
                    undecided = f"{n.get('undecided', 0)} ({n.get('undecided', 0) / n['verdicts']:.1%})"
                    lines.append(f"| {run} | {kind} | {name} | {n['verdicts']} | {undecided} | {wrong} |")
        for run in RUNS.values():
            two, three, tight = (found[run][key] for key in ("log_z_within_2_se", "log_z_within_3_se", "tight"))
            lines += [
                "",
                f"log Z, {run}: {two:.1%} within 2 standard errors, {three:.1%} within 3; target met: {tight:.0%}.",
            ]
        lines.append("")
    return "\n".join(lines)


def write_tables(folder: Path) -> None:
    """calibration.json and calibration.md, from the cases, by the rules of the library as it is now."""
    cases = [json.loads(line) for line in (folder / "calibration.jsonl").read_text().splitlines()]
    seeds = {}
    for seed in dict.fromkeys(case["seed"] for case in cases):
        own = [case for case in cases if case["seed"] == seed]
        seeds[seed] = {
            "models": len(own), "redrawn": sum(case["redrawn"] for case in own),
            "doubling": max(case["doubling"] for case in own),
            **{name: summary(own, run) for run, name in RUNS.items()},
        }  # fmt: skip
    (folder / "calibration.json").write_text(json.dumps(seeds, indent=1) + "\n")
    (folder / "calibration.md").write_text(page(seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument(
        "--quick", type=int, default=200, metavar="N", help="the first N models only; 0: only the tables"
    )
    parser.add_argument("--out", type=Path, default=Path("results/certificate"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    store = args.out / "calibration.jsonl"
    store.touch()
    kept = [json.loads(line) for line in store.read_text().splitlines()]
    done = {case["number"] for case in kept if case["seed"] == args.seed}
    for number in range(args.quick):
        if number not in done:
            case = run_case(args.seed, number)
            with store.open("a") as file:
                file.write(json.dumps(case) + "\n")
            print(number, case["likelihood"], case["rows"], f"{case['mcmc']['log_z'] - case['exact']:.4f}", flush=True)
    write_tables(args.out)


if __name__ == "__main__":
    main()
