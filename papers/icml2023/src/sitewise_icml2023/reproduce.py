"""`sitewise reproduce`: the paper's tables and figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sitewise.app.process import note, save
from sitewise_icml2023 import agreement, contrast, objective, suites, tables
from sitewise_icml2023.book import page
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.figures import making
from sitewise_icml2023.fits import estimates, fetch_sets, stored_rows
from sitewise_icml2023.options import Options

TABLES = tuple(suites.suites())
FIGURES = ("fig1", "fig2", "fig3", "fig4", "fig5", "figs-surfaces")
WHAT = (*TABLES, *FIGURES, "protocols", "objective", "numbers")
# How near the means of our log densities should come to the printed ones.
LIMITS = {"laplace": 0.003, "vi": 0.005, "hybrid-vem": 0.01}


def run(what: Sequence[str], options: Options) -> None:
    """Make these, with an estimate first; what is finished and stored is not made again."""
    if not options.stored and len(what) > 1:
        for sentence in estimates(what, options):
            note(sentence)
    for name in what:
        if name in TABLES:
            make_table(name, options)
        elif name == "fig4":
            make_table("table1", options)
        elif name == "protocols":
            compare_protocols(options)
        elif name == "objective":
            suite = options.suite("table1")
            text = objective.markdown(Stored(options.out), options.protocol, suite.seeds, suite.sets)
            save(options.out / "objective-matters.md", text.encode())
        elif name == "numbers":
            save(options.out / "every-number.md", page.markdown(Stored(options.out), options.data).encode())
        else:
            making.make(name, options, keep=len(what) > 1)


def make_table(name: str, options: Options) -> None:
    """The table as .md, .tex and .csv, once per protocol and metric; that of one seed has a name of its own."""
    suite = options.suite(name)
    if not suite.methods:
        note(f"{name} has no method that is quick: left out.")
        return
    rows = stored_rows(suite, options)
    reference = suite.reference(suite.seeds)
    for rules in options.protocol:
        for metric in suite.metrics:
            built = tables.build(rows, name, metric, rules, suite.methods, suite.sets, suite.seeds, reference)
            stem = f"{reference or name}-{rules}-{metric}"
            for suffix, render in ((".md", tables.markdown), (".tex", tables.latex), (".csv", tables.as_csv)):
                save(options.out / (stem + suffix), render(built).encode())
            print(tables.markdown(built))
    if name == "table1":
        making.draw_fig4(options, suite, rows)
        if "published" in options.protocol:
            text = agreement.markdown(rows, reference or name, LIMITS, suite.seeds)
            save(options.out / f"{reference or name}-agreement.md", text.encode())


def compare_protocols(options: Options) -> None:
    """Table 1 under both protocols, side by side, with what the row number alone achieves."""
    both = dataclasses.replace(options, protocol=("published", "clean"), seeds=options.seeds or (42,))
    suite = both.suite("table1")
    rows = stored_rows(suite, both)
    sets = suite.sets if options.quick or options.sets else (*suite.sets, *suites.suites()["table3"].sets)
    fetch_sets(sets, both)  # the row number is read off the files
    text = contrast.markdown(rows, suite.methods, sets, suite.seeds, options.data)
    save(options.out / "protocols.md", text.encode())
    print(text)
