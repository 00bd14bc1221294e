"""Fit BYM2 to counts of areas, beside MCMC: sudden infant deaths in the counties of North Carolina, 1974–78.

    python studies/areas.py export FOLDER     (with libpysal, which ships the table sids2)
    python studies/areas.py fit FOLDER
    python studies/areas.py table

y ~ Poisson(E e^f), with E the births times the overall rate, f = intercept + slope · share of non-white births + BYM2
on counties with a common border.  The prior of the variance is log-normal (median 0.1, scale 1.5), of the share of the
structured effect uniform; coefficients have prior variance 10.  MCMC (`mcmc.sample`, four chains) is the reference: it
samples hyperparameters and f without an approximation of the posterior.  `fit` writes results/maps/areas.jsonl, `table`
writes results/maps/areas.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).resolve().parents[1] / "results" / "maps"
DRAWS = 1_000  # per chain
RISK = 1.5  # of the exceedance probabilities
PATHS = {"variance": "kernel.parts.0.variance", "share": "kernel.parts.0.share"}
FITS = {
    "MCMC": {"name": "mcmc", "draws": DRAWS},
    "EP, integrated": {"name": "ep"},
    "Laplace, integrated": {"name": "laplace"},
    "VI + EP evidence, integrated": {"name": "hybrid", "inference": "vi", "evidence": "ep"},
    "EP, one θ": {"name": "ep"},
    "Laplace, one θ": {"name": "laplace"},
    "MCMC, another seed": {"name": "mcmc", "draws": DRAWS},
}


def export(args: argparse.Namespace) -> None:
    import geopandas
    import libpysal

    table = geopandas.read_file(libpysal.examples.get_path("sids2.shp"))
    near = libpysal.weights.Queen.from_dataframe(table, use_index=False)
    columns = {name: table[name].to_numpy(float).tolist() for name in ("BIR74", "SID74", "NWBIR74")}
    neighbours = {str(k): [int(j) for j in v] for k, v in near.neighbors.items()}
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "sids.json").write_text(json.dumps(columns | {"neighbours": neighbours}))


def fit(args: argparse.Namespace) -> None:
    from sitewise import GPRegressor, Hyperparameters, Method, hyperpriors, kernels, parts

    table = json.loads((args.folder / "sids.json").read_text())
    births, deaths, other = (np.array(table[name]) for name in ("BIR74", "SID74", "NWBIR74"))
    graph = {int(k): v for k, v in table["neighbours"].items()}
    X = np.column_stack([np.arange(len(births)), other / births])
    expected = births * np.sum(deaths) / np.sum(births)
    each = (parts.Area(0, graph, variance=0.1), parts.Linear(1, variance=10.0), parts.Constant())
    rules = Hyperparameters(
        priors={PATHS["variance"]: hyperpriors.LogNormal(np.log(0.1), 1.5)}, fixed=["kernel.parts.1.variance"]
    )
    path = args.out / "areas.jsonl"
    done = {json.loads(line)["fit"] for line in path.read_text().splitlines()} if path.exists() else set()
    for name, method in FITS.items():
        if name in done:
            continue
        began = time.process_time()
        sampled = method["name"] == "mcmc"
        shape: dict[str, Any] = {"kernel": kernels.Sum(each), "structure": "full"} if sampled else {"structure": each}
        model = GPRegressor(
            likelihood="poisson", hyperparameters=rules, method=Method(**method),
            integrate="integrated" in name, random_state=int("seed" in name), **shape,
        ).fit(X, deaths, exposure=expected)  # fmt: skip
        line = {"fit": name, **summary(model, X), "seconds": time.process_time() - began}
        args.out.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print({k: v for k, v in line.items() if not isinstance(v, list)}, flush=True)


def summary(model: Any, X: np.ndarray) -> dict[str, Any]:
    """Posterior means and standard deviations of f, exceedance probabilities, the slope, and the hyperparameters."""
    from scipy.stats import norm

    mean, sd = model.predict_latent(X, return_std=True)
    q = model._at(X)[0]  # a mixture over hyperparameters
    above = norm.sf((np.log(RISK) - q.mean) / np.sqrt(q.var)) @ q._shared.weight
    ends = np.array([[0.0, 0.0], [0.0, 1.0]])
    terms = model.predict_terms(ends)
    where = next(k for k, name in enumerate(terms.names) if "1" in name)
    found = {
        "mean": mean.tolist(), "sd": sd.tolist(), "exceeds": above.tolist(),
        "slope": float(terms.mean[1, where]), "slope_sd": float(terms.sd[1, where]), "terms": list(terms.names),
    }  # fmt: skip
    return found | hyper(model)


def hyper(model: Any) -> dict[str, Any]:
    """Posterior mean and standard deviation of log √variance and of the share; of one θ only the value."""
    latent = model._latents[0]
    if hasattr(latent, "samples"):
        draws = latent.samples.parameters
        v, s = 0.5 * np.log(np.ravel(draws[PATHS["variance"]])), np.ravel(draws[PATHS["share"]])
        weight = np.full(len(v), 1 / len(v))
    else:
        models, weight = latent.posteriors()
        weight = np.asarray(weight)
        area = [one.latent.kernel.parts[0] for one in models]
        v = np.array([0.5 * np.log(float(a.variance)) for a in area])
        s = np.array([float(a.share) for a in area])
    moments = {}
    for name, values in (("log_sd", v), ("share", s)):
        centre = float(weight @ values)
        moments[name], moments[f"{name}_sd"] = centre, float(np.sqrt(max(weight @ (values - centre) ** 2, 0.0)))
    return moments


def table(args: argparse.Namespace) -> None:
    lines = [json.loads(line) for line in (args.out / "areas.jsonl").read_text().splitlines()]
    truth = next(line for line in lines if line["fit"] == "MCMC")
    mean, sd, exceeds = (np.array(truth[name]) for name in ("mean", "sd", "exceeds"))
    page = [
        "# Areas: BYM2 of sudden infant deaths in North Carolina, beside MCMC",
        "",
        "Written by `python studies/areas.py table`; the first lines of the script describe the model. Columns *mean*,"
        f" *sd* and *P(risk > {RISK:g})* compare the latent function of the 100 counties with MCMC: the largest"
        " difference of posterior means in standard deviations, the range of the ratio of standard deviations, and the"
        " largest difference of exceedance probabilities. A second run of MCMC, if listed, shows the error of sampling;"
        " without it, this error is not known.",
        "",
        "| fit | log sd | share structured | slope | mean | sd | P(risk > 1.5) | CPU s |",
        "|---|---|---|---|---:|---|---:|---:|",
    ]
    for line in lines:
        apart = np.max(np.abs(np.array(line["mean"]) - mean) / sd)
        ratio = np.array(line["sd"]) / sd
        cells = (
            line["fit"], f"{line['log_sd']:.3f} ± {line['log_sd_sd']:.3f}",
            f"{line['share']:.2f} ± {line['share_sd']:.2f}", f"{line['slope']:.3f} ± {line['slope_sd']:.3f}",
            f"{apart:.3f}", f"{ratio.min():.3f}–{ratio.max():.3f}",
            f"{np.max(np.abs(np.array(line['exceeds']) - exceeds)):.3f}", f"{line['seconds']:.1f}",
        )  # fmt: skip
        page.append("| " + " | ".join(cells) + " |")
    (args.out / "areas.md").write_text("\n".join(page) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    commands = parser.add_subparsers(required=True)
    for name, run in (("export", export), ("fit", fit)):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.set_defaults(run=run)
    commands.add_parser("table").set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
