"""Rows spread over devices and over processes give the numbers of one device; each job is a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

JOBS = Path(__file__).with_name("spread_jobs.py")
LONGEST = 240  # seconds of a job, on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spread")


def begin(job: str, folder: Path, *member: str, devices: int = 1) -> subprocess.Popen[str]:
    """Programs that one of the jobs has compiled serve the next ones."""
    settings = {
        "JAX_PLATFORMS": "cpu",
        "PJRT_NPROC": "1",
        # Level 0 compiles in half of the time.
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    command = [sys.executable, str(JOBS), job, str(folder), *member]
    return subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def begin_two(job: str, folder: Path) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    return [begin(job, folder, str(i), address) for i in range(2)]


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    found = result(begin("one", folder))
    assert found["converged"] and found["theta"][1] < 1e3  # not at its bound, where everything would be equal
    return found


@pytest.mark.slow
def test_four_devices_give_what_one_gives(folder: Path, alone: dict[str, Any]) -> None:
    found = result(begin("devices", folder, devices=4))
    for words, refusal in zip(("one axis", "use Model.sparse"), found.pop("refused"), strict=True):
        assert words in refusal
    assert_same(found, alone)


@pytest.mark.slow
def test_two_processes_with_rows_of_their_own_give_what_one_gives(folder: Path, alone: dict[str, Any]) -> None:
    for process in begin_two("processes", folder):
        found = result(process)
        assert_same(found, {name: alone[name] for name in found})
    assert not (folder / "unused").exists()


@pytest.mark.slow
def test_a_killed_process_is_missed_and_the_fit_goes_on_to_the_same_end(folder: Path, alone: dict[str, Any]) -> None:
    first, second = begin_two("killed", folder)
    second.communicate(timeout=LONGEST)
    began = time.monotonic()
    _, errors = first.communicate(timeout=60)
    assert time.monotonic() - began < 40  # JAX waits for the other one, for 10 s, before it ends this one
    assert first.returncode != 0 and "UserError: Another process of this fit has ended" in errors

    found = result(begin("resumed", folder))  # on one device
    assert 0 < found["new"] < found["all"]
    assert_same(found, {name: alone[name] for name in ("theta", "learned")})
    assert not (folder / "fit").exists()
