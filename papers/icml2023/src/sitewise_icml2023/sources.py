"""Where a data set comes from: a folder, the user's cache, this package, or its origin.

    find(name)  →  a file whose checksum is the registered one, or one sentence that says what to do

A file appears in the cache whole or not at all: it is written beside its place, checked, and renamed.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

from sitewise.errors import UserError
from sitewise.process import files
from sitewise.process.files import user_cache
from sitewise_icml2023 import generate
from sitewise_icml2023.registry import DataSet, get

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known
_CHUNK = 1 << 16
_LARGEST = 1 << 28  # bytes of a download; the registered sets have less than a tenth of it


class DataError(UserError):
    """A data set could not be found, fetched or trusted."""


def data_directory(directory: Path | None = None) -> Path | None:
    """The folder given, or else that of SITEWISE_DATA."""
    given = directory or os.environ.get("SITEWISE_DATA")
    return Path(given) if given else None


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lookup(name: str, directory: Path | None = None) -> Path | None:
    """The set's file if it is on this machine: in the folder (both `DIR/classification/x.csv` and `DIR/x.csv` are
    tried) or in the cache.  A file with another checksum is refused."""
    record = get(name)
    folder = data_directory(directory)
    if folder is not None and not folder.is_dir():
        raise DataError(f"The data folder {folder} does not exist; give another with --data or SITEWISE_DATA.")
    places = [] if folder is None else [folder / record.file, folder / Path(record.file).name]
    for path in [*places, user_cache("data") / record.file]:
        if path.is_file():
            if record.sha256 and checksum(path) != record.sha256:
                raise DataError(f"{path} is not the registered file of {name} (wrong checksum); remove it.")
            return path
    return None


def find(name: str, directory: Path | None = None, progress: Progress | None = None) -> Path:
    """The set's file, made or downloaded into the cache if need be."""
    found = lookup(name, directory)
    if found is not None:
        return found
    record = get(name)
    place = user_cache("data") / record.file
    if name in generate.OFFLINE:
        return _save(record, place, generate.OFFLINE[name]())
    return fetch(record, place, progress)


def fetch(record: DataSet, place: Path, progress: Progress | None = None) -> Path:
    """Download from the origin, convert, check, and only then let the file appear."""
    if not record.addresses:
        raise DataError(
            f"{record.name} has no single file at its origin ({record.repository}); put {record.file} into a folder "
            "and name that folder with --data or SITEWISE_DATA."
        )
    if not record.sha256:
        raise DataError(
            f"{record.name} has no registered checksum, so what is downloaded could not be checked; put {record.file} "
            "into a folder and name that folder with --data or SITEWISE_DATA."
        )
    parts = [_download(record.name, address, progress) for address in record.addresses]
    try:
        content = _convert(record, parts)
    except (ValueError, UnicodeDecodeError):
        raise DataError(f"What came from {record.addresses[0]} is not a table; nothing was kept. Try later.") from None
    return _save(record, place, content)


def _download(name: str, address: str, progress: Progress | None) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            size = answer.headers.get("Content-Length")
            total, chunks, got = int(size) if size else None, [], 0
            while chunk := answer.read(_CHUNK):
                chunks.append(chunk)
                got += len(chunk)
                if got > _LARGEST:
                    raise DataError(
                        f"{address} sends more than {_LARGEST >> 20} MB, which no set has; nothing was kept."
                    )
                if progress is not None:
                    progress(got, total)
    except (OSError, http.client.HTTPException, ValueError) as problem:  # OSError: also URLError
        reason = getattr(problem, "reason", None) or problem
        raise DataError(
            f"{name} could not be downloaded from {address} ({reason}); put its file into a folder and name that "
            "folder with --data or SITEWISE_DATA."
        ) from None
    if total is not None and got != total:
        raise DataError(f"The download of {name} broke off after {got} of {total} bytes; nothing was kept. Try again.")
    return b"".join(chunks)


def _convert(record: DataSet, parts: list[bytes]) -> bytes:
    """Files at the origin → ours.  `jmlr`: tab-separated with an empty first header cell, one or two parts;
    `columns:a,b`: numbers between blanks; `boston`: the same, with the tens digits lost as in the paper's run."""
    tables = [part.decode().splitlines() for part in parts]
    if record.format == "jmlr":
        header = tables[0][0].split("\t")
        if header[0].strip('" ') or header[-1].strip('" ') != "clase":
            raise ValueError("header")
        lines = [",".join(["row", *(h.strip('" ') for h in header[1:-1]), "label"])]
        for table in tables:
            lines += [",".join(cell.strip('" ') for cell in line.split("\t")) for line in table[1:] if line.strip()]
    else:
        boston = record.format == "boston"
        names = get("boston_uci").format if boston else record.format
        lines = [names.removeprefix("columns:")]
        for line in tables[0]:
            cells = line.split()
            if boston and cells:
                for j in (0, 7, 8):  # CRIM, DIS, RAD modulo 10
                    whole, dot, rest = cells[j].partition(".")
                    cells[j] = whole[-1] + dot + rest
            if cells:
                lines.append(",".join(cells))
    return ("\n".join(lines) + "\n").encode()


def _save(record: DataSet, place: Path, content: bytes) -> Path:
    if record.sha256 and hashlib.sha256(content).hexdigest() != record.sha256:
        raise DataError(f"What came for {record.name} has the wrong checksum; nothing was kept. Its origin changed.")
    return _write(place, content)


def _write(place: Path, content: bytes) -> Path:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(place, content)
    except OSError as problem:
        raise DataError(
            f"{place} could not be written ({problem.strerror}); make room or set SITEWISE_CACHE to another folder."
        ) from None
    return place
