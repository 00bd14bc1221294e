"""Imports go downwards only."""

import ast
import re
from pathlib import Path

LAYERS = [
    {
        "types",
        "gaussian_cdf",
        "race",
        "quadrature",
        "linalg",
        "gmres",
        "raced",
        "precision",
        "cache",
        "files",
        "memory",
    },
    {"data", "sites", "means", "kernels", "likelihoods", "priors", "model", "parameters", "hyperpriors", "stream"},
    {"evidence", "inference"},
    {"learning", "methods", "predict", "metrics", "surface"},
    {"mcmc"},
    {"estimators", "testing"},
    {"bench", "comparison", "report"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SOURCE = Path(__file__).resolve().parents[1] / "src" / "sitewise"


def test_no_module_imports_from_a_layer_above():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        assert here in LEVEL, f"{here} has no layer: add it to LAYERS"
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sitewise"):
                parts = node.module.split(".")
                names = [parts[1]] if len(parts) > 1 else [a.name for a in node.names]
            wrong += [f"{path.name} imports {n}" for n in names if LEVEL.get(n, -1) > LEVEL[here]]
    assert not wrong, wrong


def test_only_linalg_factorises():
    for path in SOURCE.rglob("*.py"):
        if path.name != "linalg.py":
            # `linalg.jittered_cholesky(…)` is a call to it; anything else factorises on its own.
            assert not re.search(r"(?<![\w.])(?!linalg\.)[\w.]*cholesky\(", path.read_text()), path
