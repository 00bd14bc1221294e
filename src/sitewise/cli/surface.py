"""L4. `sitewise surface`: each method's evidence over lengthscale and magnitude, and where each one's optimum lies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from sitewise.cli import options
from sitewise.cli.process import (
    Problem,
    check_writable,
    ends_in_a_sentence,
    own_process,
    print_json,
    save_or_exit,
    warnings_as_notes,
)

_MARGIN = 1.5  # of log ℓ and log σ, beyond the optima
_NOISE = ("gaussian", "student_t", "laplace_noise")


@ends_in_a_sentence
def surface(
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report (HTML) goes.")] = Path("out/surface.html"),
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "laplace,ep,vi,hybrid",
    grid: Annotated[int, typer.Option(min=3, max=101, help="Points along each axis.")] = 15,
    mcmc: Annotated[bool, typer.Option("--mcmc", help="Add log Z by annealed importance sampling (slow).")] = False,
    likelihood: options.Likelihood = "auto",
    drop: options.Drop = None,
    impute: options.Impute = False,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    max_rows: options.MaxRows = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Draw each method's evidence over the lengthscale ℓ and the magnitude σ, with its optimum.

    Example: sitewise surface data.csv --target diagnosis --mcmc
    """
    from sitewise import __version__
    from sitewise.cli.compare import chosen
    from sitewise.cli.encoding import CLASS_LIKELIHOODS
    from sitewise.cli.journal import Journal, key_of
    from sitewise.cli.loading import load
    from sitewise.report import surface_report

    names = chosen(methods)
    if "mcmc" in names:
        raise Problem("the gold standard of a surface is asked for by --mcmc; leave mcmc out of --methods.")
    check_writable(out)
    loaded = load(
        data, target, likelihood=likelihood, drop=drop, impute=impute, missing=missing, decimal=decimal,
        max_rows=max_rows, seed=seed,
    )  # fmt: skip
    likelihood_name = loaded.encoding.likelihood
    if likelihood_name not in (*CLASS_LIKELIHOODS, *_NOISE):
        raise Problem(
            f"surface takes {', '.join((*CLASS_LIKELIHOODS, *_NOISE))}; {likelihood_name} needs a mean of its own, "
            "which the two axes do not show."
        )
    classes = loaded.facts()["classes"]
    if classes is not None and len(classes) > 2:
        raise Problem(f"surface is for two classes, but {target!r} has {len(classes)}.")
    if likelihood_name in _NOISE:
        loaded.notes.append(f"along the surfaces the noise is held at what {names[0]} learned.")
    own_process()
    journal = Journal(out, key_of(__version__, loaded.digest(), loaded.encoding.to_plain(), grid, seed))
    result = run(loaded, names, grid, mcmc, seed, journal)
    save_or_exit(out, surface_report(result).encode())
    journal.done()
    shutil.rmtree(_parts(journal), ignore_errors=True)
    if as_json:
        print_json(result)
    else:
        for name, found in result["optima"].items():
            where = f"ℓ = {found['lengthscale']:.4g}, σ = {found['sigma']:.4g}"
            print(f"{name:10s} {where}, {found['evidence']:.4f} nats a row")


def _parts(journal: Any) -> Path:
    """Where the annealing keeps its finished rows."""
    return journal.path.with_name(journal.path.name + ".mcmc")


def run(loaded: Any, names: list[str], grid: int, mcmc: bool, seed: int, journal: Any) -> dict[str, Any]:
    """Fits first: they say where to look.  Then the surfaces, row by row."""
    import numpy as np

    from sitewise.cli.progress import bar
    from sitewise.comparison import LABELS, estimator, own_evidence
    from sitewise.methods import PAIRS
    from sitewise.surface import evidence_surface

    total = len(names) * (grid + 1) + mcmc * grid
    X, y = loaded.X, loaded.y
    models: dict[str, Any] = {}
    try:
        with bar("fitting", total) as progress, warnings_as_notes():
            for name in names:
                progress.say(f"fitting {LABELS[name]}")
                models[name] = estimator(name, loaded.encoding.likelihood, X.shape[1], seed=seed).fit(X, y)
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
            example, rows = first._merged()[0].data, float(len(X))
            shift = first._log_unit()
            surfaces: dict[str, list] = {}
            for name in names:
                inference, evidence = PAIRS[name]
                surfaces[name] = []
                for k, value in enumerate(log_s):
                    progress.say(f"surface of {LABELS[name]}")
                    piece = f"{name} {k} {log_l[0]:.9g} {value:.9g}"
                    if piece not in journal.pieces:
                        found = evidence_surface(
                            inference, evidence, example, log_l, np.array([value]), likelihood=first.likelihood_
                        )
                        journal.add(piece, (np.where(found.code == 0, found.evidence, np.nan)[0] / rows - shift))
                    surfaces[name].append(journal.pieces[piece])
                    progress.advance()
            if mcmc:
                progress.say("gold standard: annealed importance sampling")
                surfaces["mcmc"] = _gold(first, example, log_l, log_s, seed, _parts(journal), progress) / rows - shift
    except KeyboardInterrupt:
        raise journal.interrupted(total) from None
    return {
        "command": "surface", "data": loaded.facts(), "seed": seed, "log_lengthscale": log_l.tolist(),
        "log_sigma": log_s.tolist(), "optima": optima,
        "surfaces": {k: np.asarray(v, float).tolist() for k, v in surfaces.items()},
    }  # fmt: skip


def _axis(optima: list[float], points: int) -> Any:
    """Rounded, so that a second run of an interrupted job has the same axis."""
    import numpy as np

    logs = np.log(optima)
    return np.linspace(np.floor(2 * (logs.min() - _MARGIN)) / 2, np.ceil(2 * (logs.max() + _MARGIN)) / 2, points)


def _gold(model: Any, data: Any, log_l: Any, log_s: Any, seed: int, store: Path, progress: Any) -> Any:
    """log Z on the same grid; rows of the grid that are finished are kept in `store`."""
    import numpy as np

    from sitewise.kernels import Matern52
    from sitewise.mcmc import sample_points
    from sitewise.model import Model
    from sitewise.parameters import Trainable, walk

    start = Model.full(Matern52(), model.likelihood_)
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
