"""Files from strangers: no code is run, nothing is unpacked beyond its size, nothing lands outside its folder."""

import ast
import dataclasses
import http.server
import importlib.util
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sitewise
from sitewise.bench import csvfile, sources
from sitewise.bench.problems import DataError, Problem
from sitewise.bench.registry import get, registry
from sitewise.mcmc import surface

SOURCE = Path(sitewise.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
# Modules that make objects, and so code, of bytes; shells; and what fetches.
DANGEROUS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "tarfile", "requests"}


def test_nothing_in_the_source_runs_what_a_file_says():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not DANGEROUS & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "compile", "__import__", "os.system"), path
                for keyword in node.keywords:
                    value = getattr(keyword.value, "value", None)
                    assert not (keyword.arg in ("allow_pickle", "shell") and value is not False), path


def _archive(path, name, content, compression):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(name, content)


def test_blocks_of_a_surface_are_not_unpacked_beyond_their_size(tmp_path):
    path = tmp_path / "block.npz"
    surface._write(path, {"a": np.arange(3.0)})
    assert np.array_equal(surface._read(path)["a"], np.arange(3.0))
    _archive(path, "a.npy", bytes(10**7), zipfile.ZIP_DEFLATED)  # a bomb of 10 kB
    assert path.stat().st_size < 20_000
    with pytest.raises(ValueError, match="is not one of ours"):
        surface._read(path)
    _archive(path, "../../a.npy", b"", zipfile.ZIP_STORED)
    with pytest.raises(ValueError, match="is not one of ours"):
        surface._read(path)
    np.savez(path, a=np.array([{"code": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        surface._read(path)


def test_a_compressed_table_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    import gzip

    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000))
    with pytest.raises(DataError, match="could not be read as a CSV file"):
        csvfile._read(csvfile.source(path, "b"))


def test_a_parquet_table_says_how_large_it_is_before_it_is_read(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")

    from sitewise.cli.table import read_table

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": np.zeros(200_000)}), path, compression="zstd")
    assert path.stat().st_size < 10_000
    monkeypatch.setenv("SITEWISE_MEMORY", "0.01")
    with pytest.raises(Problem, match="unpacks to 200000 rows of 1 columns, which do not fit"):
        read_table(path)


def test_what_cannot_be_checked_is_not_downloaded():
    for record in registry().values():
        assert record.sha256 or not record.addresses
        assert all(address.startswith("https://") for address in record.addresses)
    unchecked = dataclasses.replace(get("balloons"), sha256="")
    with pytest.raises(DataError, match="no registered checksum"):
        sources.fetch(unchecked, Path("nowhere"))


def test_an_endless_download_is_ended(tmp_path, monkeypatch):
    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(1 << 16))
            except OSError:
                return

        def log_message(self, *words):
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


def test_registered_files_stay_in_their_folder():
    for record in registry().values():
        place = Path(record.file)
        assert not place.is_absolute() and ".." not in place.parts


def test_the_audit_finds_what_is_not_pinned():
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    pins = audit.pinned()
    assert len(pins) > 20 and all(pins.values())
    good = dict(list(pins.items())[:5])
    assert audit.strays({**good, "sitewise": "1"}, pins) == []
    name = next(iter(good))
    assert audit.strays({name: "0.0.1"}, pins) == [f"{name} 0.0.1 is installed, but constraints.txt has {pins[name]}"]
