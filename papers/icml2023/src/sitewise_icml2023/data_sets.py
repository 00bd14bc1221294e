"""`sitewise data`: which data sets there are, where they lie, and whether they are sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sitewise.process.files import user_cache
from sitewise_icml2023 import generate, sources
from sitewise_icml2023.fits import find_shown
from sitewise_icml2023.registry import get, registry
from sitewise_icml2023.sources import DataError


def place(name: str, data: Path | None) -> str:
    """Where the set is, in a word or two."""
    try:
        found = sources.lookup(name, data)
    except DataError:
        return "wrong checksum"
    if found is not None:
        return "cache" if user_cache("data") in found.parents else "folder"
    if name in generate.OFFLINE:
        return "made on demand"
    return "to download" if get(name).addresses else "not here"


def show_list(names: Sequence[str], data: Path | None) -> None:
    """All sets in a table, or everything that is known of those named."""
    for name in names:
        for key, value in dataclasses.asdict(get(name)).items():
            print(f"{key:12s} {'; '.join(value) if key in ('addresses', 'defects') else value}")
        print(f"{'where':12s} {place(name, data)}\n")
    if names:
        return
    out = Table(title="Data sets (`sitewise data list NAME` says more)")
    for column in ("set", "used in", "rows", "features", "where", "known defects"):
        out.add_column(column, overflow="fold", justify="right" if column in ("rows", "features") else "left")
    for r in registry().values():
        out.add_row(r.name, r.suite, str(r.rows), str(r.features), place(r.name, data), str(len(r.defects) or ""))
    Console().print(out)


def show_path(name: str, data: Path | None) -> None:
    print(sources.find(name, data))


def fetch(names: Sequence[str], data: Path | None) -> None:
    """Bring sets onto this machine; a set that cannot be had does not stop the others."""
    wanted = [get(name).name for name in names] or list(registry())
    failures = []
    for name in wanted:
        try:
            print(f"{name}: {find_shown(name, data)}")
        except DataError as problem:
            failures.append(str(problem))
    if failures:
        raise DataError("\n".join(failures))


def check(names: Sequence[str], data: Path | None) -> None:
    """Checksums of the sets named, or of all, that are here."""
    if data is not None and not data.is_dir():
        raise DataError(f"There is no folder {data}; name the one that holds the data sets.")
    wrong, found = [], 0
    wanted = [get(name).name for name in names] or list(registry())
    for name in wanted:
        try:
            found += sources.lookup(name, data) is not None
        except DataError as problem:
            wrong.append(str(problem))
    if wrong:
        raise DataError("\n".join(wrong))
    if not found:
        raise DataError("None of the sets is here; name their folder with --data or SITEWISE_DATA, or fetch them.")
    print(f"{found} of {len(wanted)} sets are here, all with the registered checksums.")
