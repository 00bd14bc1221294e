"""Read a table from a CSV or Parquet file; separator, encoding, header and decimal mark are detected.

Lines above the header and below the last row are skipped, with a note.  A column that can be parsed in two ways becomes
a problem of the table.
"""

from __future__ import annotations

import codecs
import collections
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sitewise.errors import UserError
from sitewise.process.memory import budget
from sitewise.tables import Reading, Table, table_of, understand
from sitewise.tables.cells import parse_number
from sitewise.tables.dates import ORDERS, parse_date
from sitewise.tables.table import MISSING, refuse_duplicates

_SEPARATORS = ",;\t|"
_BOMS = (("utf-8-sig", codecs.BOM_UTF8), ("utf-16", codecs.BOM_UTF16_LE), ("utf-16", codecs.BOM_UTF16_BE))
BYTES_PER_CELL = 100  # memory for one cell of a table during reading
SEPARATOR_SAMPLE_LINES = 50  # lines from which the separator is detected


def read_table(
    path: Path,
    *,
    decimal: str | None = None,
    dayfirst: bool | None = None,
    missing: Sequence[str] = (),
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    known: Mapping[str, Reading] | None = None,
) -> Table:
    """Read a table; `missing` lists additional codes for a missing value, `drop` lists columns to leave out.

    `categorical` lists columns whose values are categories.
    `known` holds the readings of a model's columns, for a table that is predicted by this model.
    """
    if decimal not in (None, ".", ","):
        raise UserError(f"--decimal must be '.' or ',', got {decimal!r}.")
    if not path.exists():
        raise UserError(f"there is no file {path}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give a CSV or Parquet file.")
    typed = path.suffix.lower() in (".parquet", ".pq")
    if typed:
        table, likely = _parquet(path, missing), None
    else:
        table, likely = _csv(path, missing)
    table = table.drop(table.named(drop))
    return understand(
        table, decimal=decimal, dayfirst=dayfirst, categorical=table.named(categorical), typed=typed, known=known,
        likely=likely,
    )  # fmt: skip


def _csv(path: Path, missing: Sequence[str]) -> tuple[Table, str | None]:
    """Return the table, with strings in all columns, and the decimal mark that its separator suggests."""
    text, notes = _decode(path)
    separator = _separator(text)
    try:
        records = _records(text, separator)
    except csv.Error as problem:
        raise UserError(f"{path} cannot be read as CSV: {problem}.") from None
    if separator != ",":
        notes.append(f"columns are separated by {'tabs' if separator == chr(9) else repr(separator)}.")
    header, body = _header(path, _without_titles(records, notes))
    absent = MISSING | {m.strip().lower() for m in missing}
    columns = {}
    for name, cells in zip(header, zip(*body, strict=True), strict=True):
        stripped = [c.strip() for c in cells]
        columns[name] = np.array([None if c.lower() in absent else c for c in stripped], object)
    table = Table(path.name, columns, np.arange(1, len(body) + 1), tuple(notes))
    return table, "," if separator == ";" else None


def _decode(path: Path) -> tuple[str, list[str]]:
    """Return the content of a text file and notes on its encoding."""
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
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes  # also the line ends of old Macs


def _separator(text: str) -> str:
    """Return the separator that splits most lines into the same number of fields; ties go to the most fields."""
    sample = text.splitlines()[: 2 * SEPARATOR_SAMPLE_LINES]
    lines = [line for line in sample if line.strip()][:SEPARATOR_SAMPLE_LINES]
    best, most = "", (0, 1)
    for separator in _SEPARATORS:
        widths = [len(record) for record in csv.reader(lines[:-1] or lines, delimiter=separator)]
        width, count = collections.Counter(widths).most_common(1)[0]
        if width > 1 and (count, width) > most:
            best, most = separator, (count, width)
    if best:
        return best
    # The lines differ in their number of fields, or all have one field: the header decides; `_header` reports errors.
    return max(_SEPARATORS, key=lambda separator: len(next(csv.reader(lines, delimiter=separator))))


def _records(text: str, separator: str) -> list[list[str]]:
    """Return the fields per line, without blank lines; in a table of one column a blank line is a missing value."""
    records = list(csv.reader(io.StringIO(text), delimiter=separator))
    full = [k for k, record in enumerate(records) if any(c.strip() for c in record)]
    if all(len(records[k]) == 1 for k in full):
        return [record or [""] for record in records[full[0] : full[-1] + 1]]
    return [records[k] for k in full]


def _without_titles(records: list[list[str]], notes: list[str]) -> list[list[str]]:
    """Return the records from the header to the last row, without titles above and remarks below the table.

    Titles and remarks differ from the rows in the number of fields.  Spreadsheets pad them with empty fields; in a
    table of more than two columns, a line with a single entry is therefore a title too.  A first line with more fields
    than the rows, or with one field fewer (an unnamed index), is the header if the next line holds values.
    """
    width = collections.Counter(map(len, records)).most_common(1)[0][0]

    def is_title(record: list[str]) -> bool:
        return len(record) != width or (width > 2 and sum(bool(c.strip()) for c in record) == 1)

    first = next((k for k, record in enumerate(records) if not is_title(record)), 0)
    values = _values(records[first])
    uneven = len(records[0]) > width or (len(records[0]) == width - 1 and all(c.strip() for c in records[0]))
    if width == 1 or len(values) == width or (uneven and values):
        first = 0
    last = len(records)
    while last > first + 2 and len(records[last - 1]) == 1 != width and not _values(records[last - 1]):
        last -= 1
    if first:
        notes.append(f"skipped {_lines(first)} above the header: {_shown(records[0])}.")
    if last < len(records):
        notes.append(f"skipped {_lines(len(records) - last)} below the table: {_shown(records[last])}.")
    return records[first:last]


def _lines(count: int) -> str:
    return "one line" if count == 1 else f"{count} lines"


def _shown(record: list[str]) -> str:
    text = " ".join(c.strip() for c in record if c.strip())
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _values(record: list[str]) -> list[str]:
    """Return the cells that are numbers or dates and therefore hardly column names."""
    read = (*((parse_number, mark) for mark in ".,"), *((parse_date, order) for order in ORDERS))
    return [c for c in record if any(parse(c.strip(), way) is not None for parse, way in read)]


def _header(path: Path, records: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the column names, which must differ, and the rows."""
    header, body = [name.strip() for name in records[0]], records[1:]
    if not body:
        raise UserError(f"{path} has column names but no rows.")
    if len(header) > 1 and header[-1] == "" and all(len(r) == len(header) and r[-1].strip() == "" for r in body):
        header, body = header[:-1], [r[:-1] for r in body]  # a separator at the end of every line
    if all(parse_number(name, ".") is not None or parse_number(name, ",") is not None for name in header):
        raise UserError(f"{path} begins with numbers; its first line must name the columns.")
    if all(len(r) == len(header) + 1 for r in body):
        if len(header) == 1:
            raise UserError(
                f"{path} names one column, but its rows have two fields; name both, or quote fields that contain the "
                'separator, as in "1,5".'
            )
        header = ["", *header]  # row names, as R writes them
    for number, record in enumerate(body, 1):
        if len(record) != len(header):
            raise UserError(
                f"{path}: row {number} has {len(record)} fields, but the header names {len(header)} columns; "
                "correct that row, or quote fields that contain the separator."
            )
    names = [name or f"unnamed {place}" for place, name in enumerate(header, 1)]
    refuse_duplicates(names, path.name)
    return names, body


def _parquet(path: Path, missing: Sequence[str]) -> Table:
    """Read a Parquet file, if its size fits into the memory budget."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"reading {path} needs pyarrow: run `pip install pyarrow`, or save the table as CSV.") from None
    try:
        announced = pyarrow.parquet.read_metadata(path)
        cells = announced.num_rows * announced.num_columns
        size = sum(announced.row_group(i).total_byte_size for i in range(announced.num_row_groups))
        if BYTES_PER_CELL * cells > budget() or size > budget():
            raise UserError(
                f"{path} has {announced.num_rows} rows of {announced.num_columns} columns, which do not fit into the "
                f"memory limit of {budget() / 1e9:.3g} GB; save fewer rows, or raise SITEWISE_MEMORY."
            )
        found = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as problem:
        raise UserError(f"{path} is not a Parquet file that can be read ({str(problem).splitlines()[0]}).") from None
    if found.num_rows == 0 or found.num_columns == 0:
        raise UserError(f"{path} has no rows.")
    refuse_duplicates(found.column_names, path.name)
    columns = {field.name: found.column(field.name).to_pylist() for field in found.schema}
    return table_of(columns, path.name, missing)
