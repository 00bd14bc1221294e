"""The data sets of the paper: shapes, checksums, origins, licences and known defects, from registry.json."""

from __future__ import annotations

import dataclasses
import functools
import json
from importlib.resources import files
from typing import Any

from sitewise.errors import UserError


@dataclasses.dataclass(frozen=True)
class DataSet:
    """`features` does not count the row number that the classification files carry as their first column.

    `suite` is the part of the paper that uses the set; `addresses` are the files at the origin, `format` how they
    become ours (see `sources`).  `scaled` and `shuffled` say what the protocols do to it.  Simulated sets have
    no checksum.
    """

    name: str
    kind: str
    suite: str
    file: str
    rows: int
    features: int
    row_column: bool
    sha256: str
    collection: str = ""
    repository: str = ""
    commit: str = ""
    addresses: tuple[str, ...] = ()
    format: str = ""
    licence: str = ""
    defects: tuple[str, ...] = ()
    classes: tuple[int, ...] = ()
    scaled: bool = True
    shuffled: bool = True


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@functools.cache
def registry() -> dict[str, DataSet]:
    """Every known set by name, in the order of the paper."""
    entries = json.loads((files(__package__) / "registry.json").read_text())
    return {e["name"]: DataSet(**{key: _frozen(value) for key, value in e.items()}) for e in entries}


def get(name: str) -> DataSet:
    known = registry()
    if name not in known:
        raise UserError(f"Unknown data set {name!r}; `sitewise data list` shows the known ones.")
    return known[name]


def suite(name: str) -> tuple[str, ...]:
    """Names of the sets that a table uses, in its order."""
    return tuple(s.name for s in registry().values() if s.suite == name)
