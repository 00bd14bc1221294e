"""Where data sets come from: folders, the cache, this package, an origin that misbehaves."""

import dataclasses
import errno
import functools
import hashlib
import http.server
import threading

import numpy as np
import pytest

from sitewise.errors import UserError
from sitewise_icml2023 import registry, sources
from sitewise_icml2023.registry import get
from sitewise_icml2023.sources import DataError

JMLR = "\tf1\tf2\tclase\n1\t0.5\t-1.25\t0\n2\t1e-05\t3\t1\n"
OURS = b"row,f1,f2,label\n1,0.5,-1.25,0\n2,1e-05,3,1\n"


class Origin(http.server.BaseHTTPRequestHandler):
    """/good is a file at its origin, /half breaks off, /other is another file, /page is no table."""

    def do_GET(self):
        body = {"/other": JMLR.replace("3", "4"), "/page": "<html>gone</html>"}.get(self.path, JMLR).encode()
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/half" else body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def origin():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no data folder, and one small set whose origin tests choose."""
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SITEWISE_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def at(monkeypatch):
    def register(*addresses, content=OURS):
        record = dataclasses.replace(
            get("balloons"), addresses=addresses, sha256=hashlib.sha256(content).hexdigest(), file="small/balloons.csv"
        )
        known = {**registry.registry(), "balloons": record}
        monkeypatch.setattr(registry, "registry", functools.cache(lambda: known))

    return register


def left_behind(cache):
    return [path for path in cache.rglob("*") if path.is_file()] if cache.exists() else []


def test_registry_holds_the_papers_sets():
    known = registry.registry()
    kinds = {name: len(registry.suite(name)) for name in ("table1", "table2", "table3", "surfaces")}
    assert kinds == {"table1": 27, "table2": 4, "table3": 5, "surfaces": 2}
    for record in known.values():
        assert record.licence and (record.sha256 or record.suite == "simulated")
        assert record.classes == () or sum(record.classes) == record.rows
    with pytest.raises(UserError, match="Unknown data set"):
        get("nope")


def test_every_registered_file_is_the_one_in_the_folder(paper_data):
    for name, record in registry.registry().items():
        if record.suite != "simulated":
            assert sources.lookup(name, paper_data) is not None


def test_a_download_is_converted_checked_and_kept(cache, origin, at):
    at(f"{origin}/good")
    seen = []
    path = sources.find("balloons", progress=lambda got, total: seen.append((got, total)))
    assert path.read_bytes() == OURS and cache in path.parents
    assert seen[-1] == (len(JMLR), len(JMLR))
    at("http://127.0.0.1:9/never-asked")
    assert sources.find("balloons") == path


def test_two_parts_become_one_table(cache, origin, at):
    both = OURS + OURS.split(b"\n", 1)[1]
    at(f"{origin}/good", f"{origin}/good", content=both)
    assert sources.find("balloons").read_bytes() == both


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("half", "broke off|could not be downloaded"),
        ("other", "wrong checksum"),
        ("page", "not a table"),
        ("gone", "Not Found"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_leaves_nothing(cache, origin, at, path, message):
    at(f"{origin}/{path}")
    with pytest.raises(DataError, match=message) as problem:
        sources.find("balloons")
    assert "\n" not in str(problem.value)
    assert not left_behind(cache)


def test_no_network_is_said_plainly(cache, at):
    at("http://127.0.0.1:9/nobody-listens")
    with pytest.raises(DataError, match="--data or SITEWISE_DATA"):
        sources.find("balloons")
    with pytest.raises(DataError, match="no single file at its origin"):
        sources.find("sonar")


def test_a_full_disk_leaves_nothing(cache, origin, at, monkeypatch):
    at(f"{origin}/good")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sources.os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        sources.find("balloons")
    assert not left_behind(cache)


def test_a_file_with_another_checksum_is_refused(cache, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "balloons.csv").write_text("row,f1,label\n1,2,0\n")
    with pytest.raises(DataError, match="wrong checksum"):
        sources.find("balloons", folder)
    with pytest.raises(DataError, match="does not exist"):
        sources.find("balloons", tmp_path / "nowhere")


def test_shipped_sets_need_no_network(cache):
    for name in ("breast-cancer-wisc-diag", "titanic"):
        assert sources.checksum(sources.find(name)) == get(name).sha256
    for name in ("twonorm-simulated", "neal-simulated"):
        table = np.loadtxt(sources.find(name), delimiter=",", skiprows=1)
        assert table.shape == (get(name).rows, get(name).features + get(name).row_column + 1)


def test_boston_loses_its_tens_digits_as_in_the_paper(paper_data):
    lines = (paper_data / "regression" / "boston_uci.csv").read_text().splitlines()[1:]
    blanks = "\n".join(line.replace(",", " ") for line in lines).encode()
    for name in ("boston", "boston_uci"):
        made = sources._convert(get(name), [blanks])
        assert hashlib.sha256(made).hexdigest() == get(name).sha256
