"""A log whose older lines lie in a compressed file: FILE.gz is read first, and new lines go to FILE."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from sitewise.errors import UserError
from sitewise.process.log import Log

T = TypeVar("T")

MAX_LINE_BYTES = 1 << 28  # a longer line of an archive is not unpacked


def archive_of(path: Path) -> Path:
    """Return the path of the compressed file with the older lines of a log."""
    return path.with_name(path.name + ".gz")


class ArchivedLog(Log[T]):
    """The lines of FILE.gz, then those of FILE; either file may be absent."""

    def read(self) -> tuple[list[T], bool]:
        before = self._at
        entries, afresh = super().read()
        if not afresh:
            return entries, False
        archive = archive_of(self.path)
        try:
            return self._entries(archive, _unpacked(archive), 0) + entries, True
        except UserError:
            self._at = before  # the next reading refuses the archive again
            raise


def _unpacked(archive: Path) -> Iterator[bytes]:
    """Yield the whole lines of a compressed file, one at a time."""
    try:
        with gzip.open(archive, "rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    if len(line) == MAX_LINE_BYTES:
                        raise UserError(
                            f"{archive} has a line of more than {MAX_LINE_BYTES >> 20} MB; it is not a log."
                        )
                    # No writer is killed in the middle of an archive: an unfinished line has lost its end.
                    raise EOFError("its last line is cut short")
                yield line
    except FileNotFoundError:
        return
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(f"{archive} cannot be unpacked ({problem}); fetch it again.") from None
