"""The page on deployment: its blocks run one after the other, the HTTP service answers a real request."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "deploy.md"


def ask(port: int, rows: Any) -> tuple[int, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}", json.dumps(rows).encode())
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.loads(refusal.read())
        except urllib.error.URLError:
            time.sleep(0.1)  # the service is starting
    raise TimeoutError("the service did not answer")


@pytest.mark.slow
def test_the_blocks_of_the_page(tmp_path: Path) -> None:
    fit, predict, formula, serve = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    compare = """
from numpy_predictor import Predictor
new = [{"age": 31, "sex": "f"}, {"age": 40, "sex": "new"}]
np.testing.assert_allclose(Predictor("formula.npz").predict(new), model.predict(new), rtol=1e-10)"""
    subprocess.run([sys.executable, "-c", fit + formula + compare], cwd=tmp_path, check=True)
    shown = subprocess.run([sys.executable, "-c", predict], cwd=tmp_path, check=True, capture_output=True, text=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", serve.replace("8000", str(port))], cwd=tmp_path) as service:
        try:
            status, answer = ask(port, [{"age": 31, "sex": "f"}])
            first = float(shown.stdout.strip(" []\n").split()[0])
            assert status == 200 and np.isclose(answer["probabilities"][0][0], first, atol=1e-6)
            status, answer = ask(port, [{"age": None, "sex": "f"}])
            assert status == 400 and "missing value" in answer["error"]
        finally:
            service.terminate()
