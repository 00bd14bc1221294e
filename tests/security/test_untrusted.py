"""Files of unknown origin: no code is run, and nothing is unpacked beyond its size."""

import ast
import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sitewise.app.input.table_file import read_table
from sitewise.errors import UserError
from sitewise.process import journal
from sitewise.process.journal import Journal

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src", ROOT / "papers" / "icml2023" / "src")
# Modules that make objects, and so code, of bytes; shells; and what fetches.
# A stored program is machine code, and whoever can write to the folder of programs, which is the user's alone, can have
# it run: pickle adds nothing to that (arrays/program_store.py refuses a folder that others may write to).
PROGRAMS = ROOT / "src" / "sitewise" / "arrays" / "programs.py"
# The pickled form of a program's parts is digested to a name and never read back.
NAMES = ROOT / "src" / "sitewise" / "arrays" / "program_names.py"
DANGEROUS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "tarfile", "requests"}


def test_nothing_in_the_source_runs_what_a_file_says() -> None:
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                found = DANGEROUS & {name.split(".")[0] for name in names}
                assert not found or (path in (PROGRAMS, NAMES) and found == {"pickle"}), path
            if path == NAMES and isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle":
                assert node.attr == "Pickler", path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "compile", "__import__", "os.system"), path
                for keyword in node.keywords:
                    value = getattr(keyword.value, "value", None)
                    assert not (keyword.arg in ("allow_pickle", "shell") and value is not False), path


def test_arrays_of_a_journal_take_no_more_memory_than_their_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path, "key").add("block", np.arange(3.0))
    entry = json.loads(path.read_text())
    for dtype, shape in (("<f8", [10**15]), ("<f8", [10**9, 10**9]), ("|O", [3]), ("|V24", [1])):
        value = {"__array__": [dtype, shape, entry["value"]["__array__"][2]]}
        forged = {**entry, "value": value, "crc32": journal._checksum("key", "block", value)}
        path.write_text(json.dumps(forged) + "\n")
        read = Journal(path, "key")
        assert read.pieces == {} and read.damaged == 1


def test_a_compressed_table_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000))
    with pytest.raises(UserError, match="is not a text table"):
        read_table(path)


def test_a_parquet_table_says_how_large_it_is_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": np.zeros(200_000)}), path, compression="zstd")
    assert path.stat().st_size < 10_000
    monkeypatch.setenv("SITEWISE_MEMORY", "0.01")
    with pytest.raises(UserError, match="has 200000 rows of 1 columns, which do not fit"):
        read_table(path)


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_audit_finds_what_is_not_pinned(audit: ModuleType) -> None:
    pins = audit.pinned()
    assert len(pins) > 20 and all(pins.values())
    good = dict(list(pins.items())[:5])
    assert audit.strays({**good, "sitewise": "1"}, pins) == []
    name = next(iter(good))
    assert audit.strays({name: "0.0.1"}, pins) == [f"{name} 0.0.1 is installed, but constraints.txt has {pins[name]}"]


def test_a_distribution_that_was_not_looked_up_does_not_count_as_safe(audit: ModuleType) -> None:
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}
    report = {
        "dependencies": [
            {"name": "a", "version": "1.0", "vulns": [flaw]},
            {"name": "b", "version": "1.0", "vulns": []},
            {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (1.0)"},
        ],
        "fixes": [],
    }
    assert audit.findings(json.dumps(report)) == (["a 1.0: PYSEC-1, fixed in 2.0"], 2, 1)
