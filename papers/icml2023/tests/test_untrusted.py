"""Files that others sent: what is not the registered file is not kept, and nothing lands outside its folder."""

import dataclasses
import http.server
import threading
from pathlib import Path

import pytest

from sitewise_icml2023 import sources
from sitewise_icml2023.registry import get, registry
from sitewise_icml2023.sources import DataError


def test_what_cannot_be_checked_is_not_downloaded() -> None:
    for record in registry().values():
        assert record.sha256 or not record.addresses
        assert all(address.startswith("https://") for address in record.addresses)
    unchecked = dataclasses.replace(get("balloons"), sha256="")
    with pytest.raises(DataError, match="no registered checksum"):
        sources.fetch(unchecked, Path("nowhere"))


def test_an_endless_download_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(1 << 16))
            except OSError:
                return

        def log_message(self, *words: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setattr(sources, "_LARGEST", 1 << 20)
        record = dataclasses.replace(get("balloons"), addresses=(f"http://127.0.0.1:{server.server_port}/x",))
        with pytest.raises(DataError, match="sends more than 1 MB"):
            sources.fetch(record, tmp_path / "x.csv")
        assert not (tmp_path / "x.csv").exists()
    finally:
        server.shutdown()
        server.server_close()


def test_registered_files_stay_in_their_folder() -> None:
    for record in registry().values():
        place = Path(record.file)
        assert not place.is_absolute() and ".." not in place.parts
