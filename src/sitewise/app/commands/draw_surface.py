"""`sitewise surface`: draw each method's evidence over lengthscale and magnitude, with its optimum."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sitewise.app import options
from sitewise.app.process import (
    check_writable,
    ends_in_a_sentence,
    own_process,
    print_json,
    save,
    warnings_as_notes,
)
from sitewise.errors import UserError
from sitewise.likelihoods import BY_NAME
from sitewise.methods import METHODS

if TYPE_CHECKING:
    from sitewise.app.input.load_table import Loaded
    from sitewise.data import Data
    from sitewise.estimators.base import GPBase
    from sitewise.likelihoods import Likelihood
    from sitewise.process.journal import Journal
    from sitewise.process.progress import Bar

_MARGIN = 1.5  # of the axes beyond the optima, in log ℓ and log σ


@ends_in_a_sentence
def surface(
    context: typer.Context,
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file (HTML).")] = Path("out/surface.html"),
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ",".join(options.COMPARED),
    grid: Annotated[int, typer.Option(min=3, max=101, help="Points along each axis.")] = 15,
    mcmc: Annotated[bool, typer.Option("--mcmc", help="Add log Z by annealed importance sampling (slow).")] = False,
    likelihood: options.Likelihood = options.AUTO,
    drop: options.Drop = None,
    use: options.Use = None,
    categorical: options.Categorical = None,
    impute: options.Impute = False,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    dayfirst: options.DayFirst = None,
    skip_missing_target: options.SkipMissingTarget = False,
    max_rows: options.MaxRows = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Draw each method's evidence over the lengthscale ℓ and the magnitude σ, with its optimum.

    Example: sitewise surface data.csv --target diagnosis --mcmc
    """
    from sitewise import __version__
    from sitewise.app.input.load_table import load
    from sitewise.app.report import surface_report
    from sitewise.process.journal import Journal, key_of

    names = options.method_list(methods)
    if any(METHODS[name].samples for name in names):
        raise UserError("the option --mcmc adds the gold standard to a surface; leave mcmc out of --methods.")
    check_writable(out)
    loaded = load(
        data, target, likelihood=likelihood, drop=drop, use=use, categorical=categorical, impute=impute,
        missing=missing, decimal=decimal, dayfirst=dayfirst, skip_missing_target=skip_missing_target, context=context,
        max_rows=max_rows, seed=seed,
    )  # fmt: skip
    kind = BY_NAME[loaded.encoding.likelihood]
    drawn = [n for n, one in BY_NAME.items() if (one.location_scale and not one.keywords) or one.support == "classes"]
    if kind.name not in drawn:
        raise UserError(
            f"surface takes {', '.join(drawn)}; {kind.name} also learns a mean, which the two axes do not show."
        )
    classes = loaded.facts()["classes"]
    if classes is not None and len(classes) > 2:
        raise UserError(f"surface is for two classes, but {target!r} has {len(classes)}.")
    if kind.location_scale:
        loaded.notes.append(f"along the surfaces the noise is held at the value that {names[0]} learned.")
    own_process()
    journal = Journal.beside(out, key_of(__version__, loaded.digest(), loaded.encoding.to_plain(), grid, seed))
    result = run(loaded, names, grid, mcmc, seed, journal)
    save(out, surface_report(result).encode())
    journal.done()
    if as_json:
        print_json(result)
    else:
        for name, found in result["optima"].items():
            where = f"ℓ = {found['lengthscale']:.4g}, σ = {found['sigma']:.4g}"
            print(f"{name:10s} {where}, {found['evidence']:.4f} nats per row")


def run(loaded: Loaded, names: list[str], grid: int, mcmc: bool, seed: int, journal: Journal) -> dict[str, Any]:
    """Fit the methods, whose optima determine the axes, and compute the surfaces."""
    from sitewise.app.compare.comparison import LABELS
    from sitewise.app.compare.scoring import own_evidence
    from sitewise.app.fitting import estimator
    from sitewise.process.progress import bar
    from sitewise.surface import Surface, evidence_surface

    total = len(names) * (grid + 1) + mcmc * grid
    X, y = loaded.X, loaded.y
    models: dict[str, GPBase] = {}
    try:
        with warnings_as_notes(), bar("fitting", total) as progress:
            for name in names:
                progress.say(f"fitting {LABELS[name]}")
                models[name] = estimator(name, loaded.encoding.likelihood, kernel="isotropic", seed=seed).fit(X, y)
                progress.advance()
            optima = {
                name: {
                    "lengthscale": float(m.kernel_.lengthscale), "sigma": float(np.sqrt(m.kernel_.variance)),
                    "evidence": (own_evidence(m) or np.nan) / len(X), "converged": bool(m.converged_),
                }
                for name, m in models.items()
            }  # fmt: skip
            log_l = _axis([o["lengthscale"] for o in optima.values()], grid)
            log_s = _axis([o["sigma"] for o in optima.values()], grid)
            first = next(iter(models.values()))
            (model, rows), weight = first.models_[0], float(len(X))
            shift = float(np.log(getattr(first, "y_scale_", 1.0)))  # from the model's units of y to the user's
            surfaces: dict[str, np.ndarray] = {}
            for name in names:
                progress.say(f"surface of {LABELS[name]}")
                pair = METHODS[name].pair_on(model.prior.structure)
                assert pair is not None  # methods that sample were refused
                pieces = [f"{name} {log_l[0]:.9g} {log_l[-1]:.9g} {value:.9g}" for value in log_s]
                left = [piece for piece in pieces if piece not in journal.pieces]
                for _ in range(len(pieces) - len(left)):
                    progress.advance()
                unfinished = iter(left)

                def keep(row: Surface, unfinished: Iterator[str] = unfinished) -> None:
                    values = np.where(row.code == 0, row.evidence, np.nan) / weight - shift
                    journal.add(next(unfinished), values)
                    progress.advance()

                # Rows of the grid are finished in order, so that the unfinished rows are the last.
                if left:
                    evidence_surface(
                        pair.inference, pair.evidence, rows, log_l, log_s[-len(left) :],
                        likelihood=model.likelihood, done=keep,
                    )  # fmt: skip
                surfaces[name] = np.stack([journal.pieces[piece] for piece in pieces])
            if mcmc:
                progress.say("gold standard: annealed importance sampling")
                surfaces["mcmc"] = (
                    _annealed_surface(model.likelihood, rows, log_l, log_s, seed, journal.path, progress) / weight
                    - shift
                )
    except KeyboardInterrupt:
        raise journal.interrupted(total) from None
    return {
        "command": "surface", "data": loaded.facts(), "seed": seed, "log_lengthscale": log_l.tolist(),
        "log_sigma": log_s.tolist(), "optima": optima,
        "surfaces": {k: np.asarray(v, float).tolist() for k, v in surfaces.items()},
    }  # fmt: skip


def _axis(optima: list[float], points: int) -> np.ndarray:
    """Return an axis around the optima; its rounded ends are the same when an interrupted job is run again."""
    logs = np.log(optima)
    return np.linspace(np.floor(2 * (logs.min() - _MARGIN)) / 2, np.ceil(2 * (logs.max() + _MARGIN)) / 2, points)


def _annealed_surface(
    likelihood: Likelihood, data: Data, log_l: np.ndarray, log_s: np.ndarray, seed: int, store: Path, progress: Bar
) -> np.ndarray:
    """Return log Z on the same grid; `store` keeps finished rows of the grid."""
    from sitewise.kernels import Matern52
    from sitewise.mcmc import sample_points
    from sitewise.model import Model
    from sitewise.parameters import Trainable, walk

    start = Model.full(Matern52(), likelihood)
    held = [p.name for p, _ in walk(start) if p.name.startswith("likelihood.")]
    trainable = Trainable.of(start, fixed=held)
    order = {"kernel.lengthscale": 0, "kernel.variance": 1}
    rows = []
    for k, value in enumerate(log_s):
        pair = np.column_stack([log_l, np.full(len(log_l), 2 * value)])
        vectors = pair[:, [order[label] for label in trainable.labels]]
        found = sample_points(
            start, data, vectors, trainable=trainable, seed=seed + k, draws=1, max_steps=1024, store=store
        )
        rows.append(np.where(found.tight, found.log_z, np.nan))
        progress.advance()
    return np.stack(rows)
