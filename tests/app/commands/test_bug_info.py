"""`sitewise info` prints what a bug report needs."""

import json
import re

import jax
import pytest
from typer.testing import CliRunner

from sitewise import __version__
from sitewise.app.commands import app, bug_info


def test_the_block_has_one_line_per_fact():
    found = dict(re.split(r":\s+", line, maxsplit=1) for line in CliRunner().invoke(app, ["info"]).stdout.splitlines())
    assert list(found) == ["sitewise", "platform", "BLAS", "threads", "device", "cache"]
    assert found["sitewise"].startswith(f"{__version__}, Python 3.") and f"jax {jax.__version__}," in found["sitewise"]
    assert re.match(r"\w+ \d+\.\d+.*\(\d+ threads\)", found["BLAS"]) and found["device"].startswith("cpu")


def test_json_has_the_same_facts():
    found = json.loads(CliRunner().invoke(app, ["info", "--json"]).stdout)
    assert found["sitewise"] == bug_info.versions() and found["device"] == bug_info.device()


def test_an_absent_library_is_said_to_be_absent(monkeypatch):
    monkeypatch.setattr(bug_info, "LIBRARIES", ("numpy", "not-a-library"))
    assert bug_info.versions().endswith(", no not-a-library")


def test_threads_name_the_settings_of_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert re.match(r"\d+ cores, OMP_NUM_THREADS=7", bug_info.threads()) and "OPENBLAS" not in bug_info.threads()


@pytest.mark.parametrize(("setting", "words"), [("off", "turned off by SITEWISE_PROGRAM_CACHE"), ("on", "2 programs")])
def test_the_cache_with_its_size(setting, words, monkeypatch, tmp_path):
    monkeypatch.setenv("SITEWISE_PROGRAM_CACHE", setting)
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path))
    folder = tmp_path / "programs"
    folder.mkdir(mode=0o700)
    for name in ("a", "b"):
        (folder / name).write_bytes(bytes(2**20))
    assert words in bug_info.cache()
    if setting == "on":
        assert bug_info.cache().endswith("2.0 MiB")


def test_the_home_folder_is_not_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SITEWISE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert bug_info.cache().startswith("~/.cache/sitewise/programs") and str(tmp_path) not in bug_info.cache()


def test_a_folder_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path / "file"))
    assert "cannot be written" in bug_info.cache()
