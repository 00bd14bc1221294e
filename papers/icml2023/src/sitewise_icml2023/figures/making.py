"""Compute a figure, draw it, and save the picture with the arrays behind it."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sitewise.app.process import note, save
from sitewise.process.device import on_accelerator
from sitewise.process.journal import Journal
from sitewise.process.progress import bar
from sitewise_icml2023 import paper, suites
from sitewise_icml2023.figures import fig1, fig3, fig4, fig5, surface_plots, surfaces
from sitewise_icml2023.options import Options

Numbers = dict[str, np.ndarray]


def make(name: str, options: Options, keep: bool = False) -> None:
    """Any figure but the fourth, which is made with Table 1; with `keep` one that is there is not made again."""
    if name in ("fig2", "figs-surfaces"):
        make_surfaces(name, options, keep)
        return
    if keep and _there(options.out / name):
        return
    began = time.perf_counter()
    figure, numbers = {"fig1": _fig1, "fig3": _fig3, "fig5": _fig5}[name](options)
    spent = {"seconds": np.array(time.perf_counter() - began), "gpu": np.array(on_accelerator())}
    save_figure(figure, options.out / name, {**numbers, **spent})
    Journal.remove(_unfinished(options.out / name))


def _fig1(options: Options) -> tuple[Figure, Numbers]:
    with _saying("fig1") as say:
        numbers = fig1.compute(options.data, mcmc=not options.quick, store=_unfinished(options.out / "fig1"), done=say)
    report_fig1(numbers)
    return fig1.draw(numbers), numbers


def _fig3(options: Options) -> tuple[Figure, Numbers]:
    with _saying("fig3") as say:
        numbers = fig3.compute(options.data, 7 if options.quick else 21, done=say)
    return fig3.draw(numbers), numbers


def _fig5(options: Options) -> tuple[Figure, Numbers]:
    rounds, points = (60, 9) if options.quick else (299, 21)  # the objective falls after 44
    with _saying("fig5") as say:
        numbers = fig5.compute(options.data, rounds, points, done=say)
    return fig5.draw(numbers), numbers


def _there(stem: Path) -> bool:
    path = stem.with_name(f"{stem.name}.npz")  # saved last
    if path.is_file():
        note(f"{path} is there already; delete it to make the figure again.")
    return path.is_file()


def make_surfaces(name: str, options: Options, keep: bool = False) -> None:
    """Figs. 2 and 6–9; a quick run leaves MCMC out."""
    chosen = options.sets or (("ionosphere",) if name == "fig2" or options.quick else surfaces.SETS)
    grid = surfaces.square(9 if options.quick else 21)
    for data_set in chosen:
        stem = options.out / f"surface-{data_set}"
        if keep and _there(stem):
            continue
        fold = surfaces.rows(data_set, options.data)
        with _saying(stem.name) as say:
            out = surfaces.approximate(fold, grid.vectors, done=say)
            if not options.quick:
                gold = surfaces.gold(fold, grid.vectors, store=_unfinished(stem), done=say)
                out |= {f"mcmc_{key}": value for key, value in gold._asdict().items()}
        picture = surface_plots.draw(data_set, out, grid, len(fold.y))
        save_figure(picture, stem, {**out, **grid._asdict(), "rows": np.array(len(fold.y))})
        save(options.out / f"{data_set}.csv", surface_plots.as_csv(out, grid).encode())
        Journal.remove(_unfinished(stem))


def _unfinished(stem: Path) -> Path:
    """Where MCMC keeps its finished points until the figure is saved."""
    return stem.with_name(f"{stem.name}.unfinished")


@contextlib.contextmanager
def _saying(name: str) -> Iterator[Callable[[str], None]]:
    """The function that a figure's `compute` reports its progress to."""
    with bar(name, None) as shown:
        yield lambda text: shown.say(f"{name}: {text}")


def draw_fig4(options: Options, suite: suites.Suite, rows: Sequence[dict[str, Any]]) -> None:
    for rules in options.protocol:
        numbers = fig4.compute(rows, rules, suite.methods, suite.sets, suite.seeds)
        title = f"protocol {rules}, seeds {', '.join(map(str, suite.seeds))}"
        stem = "fig4-seed42" if suite.seeds == (42,) else "fig4"
        save_figure(fig4.draw(numbers, title), options.out / f"{stem}-{rules}", numbers)


def save_figure(figure: Figure, stem: Path, numbers: Numbers) -> None:
    """PNG, PDF and the arrays behind them."""
    for suffix in (".png", ".pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], dpi=130)
        save(stem.with_name(stem.name + suffix), buffer.getvalue())
    buffer = io.BytesIO()
    np.savez(buffer, **numbers)  # type: ignore[arg-type]
    save(stem.with_name(stem.name + ".npz"), buffer.getvalue())


def report_fig1(numbers: Numbers) -> None:
    """Say how far our curves lie from the printed ones."""
    printed = paper.fig1()["evidence"]
    if len(numbers["log_lengthscale"]) != len(printed["vi"]):
        return
    for method in [m for m in ("vi", "hybrid", "mcmc") if f"{m}_evidence" in numbers]:
        gap = np.max(np.abs(numbers[f"{method}_evidence"] - np.array(printed[method])))
        print(f"{method}: largest difference from the printed curve {gap:.4f} per row")
    best = {m: numbers["log_lengthscale"][np.argmax(numbers[f"{m}_evidence"])] for m in suites.FOUR}
    print("best log ℓ: " + ", ".join(f"{m} {x:.1f}" for m, x in best.items()) + "; MCMC in the paper 2.6")
