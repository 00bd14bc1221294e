"""Tables from files: CSV in the dialects that other tools write, and Parquet.

The dialect is detected from the file; where a file can be read in two ways, reading stops with a sentence that names
the option which decides.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from sitewise.errors import UserError
from sitewise.runtime.memory import budget

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})
_SEPARATORS = ",;\t|"
_BOMS = (("utf-8-sig", codecs.BOM_UTF8), ("utf-16", codecs.BOM_UTF16_LE), ("utf-16", codecs.BOM_UTF16_BE))
_CELL = 100  # bytes of memory for an entry of a table while it is read
_SAMPLE = 50  # lines that decide how columns are separated


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns by name: numbers (NaN is missing), or text (None is missing) if any entry is not a number.

    `lines` are the places of the rows in the file, counted from 1 without the header.
    """

    name: str
    columns: dict[str, np.ndarray]
    decimal: str = "."
    lines: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, int))
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> np.ndarray:
        """The column of this name; raises if there is none."""
        if name not in self.columns:
            raise UserError(f"{self.name} has no column {name!r}; it has {_listed(self.columns)}.")
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray | None:
        """The column as numbers, or None if it also holds other text."""
        values = self.column(name)
        return values if values.dtype.kind == "f" else None

    def text(self, name: str) -> np.ndarray:
        """The column as text; equal numbers become equal text, however the file writes them."""
        numbers = self.numbers(name)
        if numbers is None:
            return self.column(name)
        return np.array([None if np.isnan(v) else f"{v:.12g}" for v in numbers], object)

    def missing(self, name: str) -> np.ndarray:
        """Which entries of the column are missing."""
        values = self.column(name)
        return np.isnan(values) if values.dtype.kind == "f" else np.array([v is None for v in values])

    def take(self, index: np.ndarray) -> Table:
        """The rows with these numbers."""
        cut = {name: values[index] for name, values in self.columns.items()}
        return dataclasses.replace(self, columns=cut, lines=self.lines[index])

    def drop(self, names: Iterable[str]) -> Table:
        """The table without these columns."""
        for name in names:
            self.column(name)
        return dataclasses.replace(self, columns={k: v for k, v in self.columns.items() if k not in set(names)})


def _listed(names: Iterable[str], most: int = 12) -> str:
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(n) for n in names[:most]) + more


def read_table(path: Path, *, decimal: str | None = None, missing: Sequence[str] = ()) -> Table:
    """The table in a file; `missing` are further texts that stand for a missing value."""
    if decimal not in (None, ".", ","):
        raise UserError(f"--decimal must be '.' or ',', got {decimal!r}.")
    if not path.exists():
        raise UserError(f"there is no file {path}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give a CSV or Parquet file.")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path)
    text, notes = _decode(path)
    separator = _separator(path, text)
    header, body = _records(path, text, separator)
    absent = MISSING | {m.strip().lower() for m in missing}
    columns = {}
    for name, cells in zip(header, zip(*body, strict=True), strict=True):
        stripped = [c.strip() for c in cells]
        columns[name] = np.array([None if c.lower() in absent else c for c in stripped], object)
    if decimal is None:
        decimal = _decimal(path, columns, separator)
    if separator != ",":
        notes.append(f"columns are separated by {'tabs' if separator == chr(9) else repr(separator)}.")
    if decimal == ",":
        notes.append("numbers have decimal commas.")
    columns = {name: _as_numbers(cells, decimal) for name, cells in columns.items()}
    return Table(path.name, columns, decimal, np.arange(1, len(body) + 1), tuple(notes))


def _as_numbers(cells: np.ndarray, decimal: str) -> np.ndarray:
    """The cells as numbers if all of them are numbers, and unchanged otherwise."""
    parsed = [np.nan if c is None else parse_number(c, decimal) for c in cells]
    return cells if None in parsed else np.array(parsed, float)


def _decode(path: Path) -> tuple[str, list[str]]:
    content = path.read_bytes()
    encoding = next((name for name, bom in _BOMS if content.startswith(bom)), "utf-8")
    try:
        text, notes = content.decode(encoding), []
    except UnicodeDecodeError:
        text, notes = content.decode("cp1252", "replace"), ["the file is not UTF-8; it was read as Windows-1252."]
    if "\0" in text or content.startswith((b"\x1f\x8b", b"PK\x03\x04", b"SITEWISE")):
        raise UserError(f"{path} is not a text table; give a CSV or Parquet file.")
    if not text.strip():
        raise UserError(f"{path} is empty.")
    return text, notes


def _separator(path: Path, text: str) -> str:
    """The separator that cuts every line into the same number of fields; of several, the one with most fields."""
    lines = [line for line in text.splitlines()[: 2 * _SAMPLE] if line.strip()][:_SAMPLE]
    best, most = "", 1
    for separator in _SEPARATORS:
        widths = {len(record) for record in csv.reader(lines[:-1] or lines, delimiter=separator)}
        if len(widths) == 1 and max(widths) > most:
            best, most = separator, max(widths)
    if best:
        return best
    present = [s for s in _SEPARATORS if s in lines[0]]
    if not present:
        raise UserError(f"{path} has one column only; a table needs a target and at least one other column.")
    # The lines have different lengths: the header decides, and `_records` names the wrong line.
    return max(present, key=lines[0].count)


def _records(path: Path, text: str, separator: str) -> tuple[list[str], list[list[str]]]:
    try:
        records = [r for r in csv.reader(io.StringIO(text), delimiter=separator) if any(c.strip() for c in r)]
    except csv.Error as problem:
        raise UserError(f"{path} cannot be read as CSV: {problem}.") from None
    header, body = [name.strip() for name in records[0]], records[1:]
    if len(header) > 1 and header[-1] == "" and all(len(r) == len(header) and r[-1].strip() == "" for r in body):
        header, body = header[:-1], [r[:-1] for r in body]  # a separator at the end of every line
    for number, record in enumerate(body, 1):
        if len(record) != len(header):
            raise UserError(
                f"{path}: row {number} has {len(record)} fields where the first line names {len(header)} columns; "
                "correct that row, or quote fields that contain the separator."
            )
    twice = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    if twice:
        raise UserError(f"{path} has more than one column named {twice[0]!r}; give each its own name.")
    if all(parse_number(name, ".") is not None or parse_number(name, ",") is not None for name in header):
        raise UserError(f"{path} begins with numbers; its first line must name the columns.")
    if not body:
        raise UserError(f"{path} has column names but no rows.")
    return header, body


_PLAIN = {d: re.compile(rf"[+-]?(\d+({re.escape(d)}\d*)?|{re.escape(d)}\d+)([eE][+-]?\d+)?") for d in ".,"}
_GROUPED = {
    d: re.compile(rf"[+-]?\d{{1,3}}({re.escape(o)}\d{{3}})+({re.escape(d)}\d*)?") for d, o in ((".", ","), (",", "."))
}
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


def parse_number(text: str, decimal: str) -> float | None:
    """The number, or None; the mark that is not the decimal one may group thousands."""
    if _PLAIN[decimal].fullmatch(text):
        return float(text.replace(decimal, "."))
    if _GROUPED[decimal].fullmatch(text):
        return float(text.replace("," if decimal == "." else ".", "").replace(decimal, "."))
    return float(text) if _INFINITE.fullmatch(text) else None


def _decimal(path: Path, columns: dict[str, np.ndarray], separator: str) -> str:
    """The decimal mark of the file; an error where both marks are possible."""
    votes: dict[str, list[str]] = {".": [], ",": []}
    either = []  # columns such as "1,234", which may be a fraction or a thousand
    for name, cells in columns.items():
        texts = [c for c in cells if c is not None]
        if not any(mark in t for t in texts for mark in votes):
            continue
        reads = [mark for mark in votes if all(parse_number(t, mark) is not None for t in texts)]
        if len(reads) == 1:
            votes[reads[0]].append(name)
        elif reads and any("," in t for t in texts):
            either.append(name)
    if votes["."] and votes[","]:
        raise UserError(
            f"{path} has numbers with decimal commas in column {votes[','][0]!r} and with decimal points in "
            f"{votes['.'][0]!r}: say --decimal ',' or --decimal '.'; the other mark then groups thousands."
        )
    if either and not votes["."] and not votes[","] and separator != ";":
        raise UserError(
            f"{path} has numbers with commas in column {either[0]!r}, which may group thousands: say --decimal ',' if "
            "the comma is the decimal mark, or --decimal '.' if it groups thousands."
        )
    return "," if votes[","] or (either and not votes["."]) else "."


def _parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"reading {path} needs pyarrow: run `pip install pyarrow`, or save the table as CSV.") from None
    try:
        announced = pyarrow.parquet.read_metadata(path)
        cells = announced.num_rows * announced.num_columns
        size = sum(announced.row_group(i).total_byte_size for i in range(announced.num_row_groups))
        if _CELL * cells > budget() or size > budget():
            raise UserError(
                f"{path} unpacks to {announced.num_rows} rows of {announced.num_columns} columns, which do not fit "
                f"into the {budget() / 1e9:.3g} GB that may be used; save fewer rows, or raise SITEWISE_MEMORY."
            )
        found = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as problem:
        raise UserError(f"{path} is not a Parquet file that can be read ({str(problem).splitlines()[0]}).") from None
    if found.num_rows == 0 or found.num_columns == 0:
        raise UserError(f"{path} has no rows.")
    columns = {}
    for field in found.schema:
        values = found.column(field.name).to_pylist()
        present = [v for v in values if v is not None]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in present):
            columns[field.name] = np.array([np.nan if v is None else v for v in values], float)
        elif all(isinstance(v, str | bool) for v in present):
            columns[field.name] = np.array([None if v is None else str(v) for v in values], object)
        else:
            raise UserError(
                f"column {field.name!r} of {path} holds {field.type}; turn it into numbers or text, or leave it out."
            )
    return Table(path.name, columns, ".", np.arange(1, found.num_rows + 1))
