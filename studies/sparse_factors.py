"""Factorise a stored posterior precision of a map by libraries besides our own, in an environment that has them.

    python studies/map_scale.py factor --rows 20000 --out matrix.npz
    PYTHON_OF_PEERS studies/sparse_factors.py matrix.npz [LINES.jsonl]

SciPy's SuperLU (symmetric mode, COLAMD and MMD orderings), CHOLMOD as cvxopt ships it (AMD ordering), qdldl, and
scikit-sparse's CHOLMOD, whichever can be imported.  `all_variances_s` is the time for the diagonal of the inverse
by solves with all columns of the identity, estimated from 200 columns.  CPU seconds, one BLAS thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
import scipy.sparse as sp
from scipy.sparse import linalg

COLUMNS = 200  # of the identity, from which the time of all variances is estimated


def superlu(A: sp.csc_matrix, order: str) -> tuple[Callable[[np.ndarray], np.ndarray], float, int]:
    found = linalg.splu(A, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return found.solve, float(np.sum(np.log(np.abs(found.U.diagonal())))), found.L.nnz


def cvxopt_cholmod(A: sp.csc_matrix) -> tuple[Callable[[np.ndarray], np.ndarray], float, int]:
    from cvxopt import cholmod, matrix, spmatrix

    low = sp.tril(A).tocoo()
    lower = spmatrix(low.data.tolist(), low.row.tolist(), low.col.tolist(), A.shape)
    cholmod.options["supernodal"] = 2
    symbolic = cholmod.symbolic(lower)
    begin = time.process_time()
    cholmod.numeric(lower, symbolic)
    numeric = time.process_time() - begin

    def solve(b: np.ndarray) -> np.ndarray:
        right = matrix(b)
        cholmod.solve(symbolic, right)
        return np.asarray(right)

    solve.numeric_s = numeric  # type: ignore[attr-defined]
    log_det = 2 * float(np.sum(np.log(np.asarray(cholmod.diag(symbolic)))))
    return solve, log_det, -1


def qdldl_factor(A: sp.csc_matrix) -> tuple[Callable[[np.ndarray], np.ndarray], float, int]:
    import qdldl

    found = qdldl.Solver(A)
    L, D, _ = found.factors()
    return (lambda b: np.stack([found.solve(c) for c in b.T], axis=1)), float(np.sum(np.log(D))), L.nnz


def scikit_sparse(A: sp.csc_matrix) -> tuple[Callable[[np.ndarray], np.ndarray], float, int]:
    from sksparse.cholmod import cholesky

    found = cholesky(A)
    return found, float(found.logdet()), found.L().nnz


LIBRARIES: dict[str, tuple[str, Callable[..., Any], tuple[Any, ...]]] = {
    "SuperLU, COLAMD": ("scipy", superlu, ("COLAMD",)),
    "SuperLU, MMD": ("scipy", superlu, ("MMD_AT_PLUS_A",)),
    "CHOLMOD by cvxopt": ("cvxopt", cvxopt_cholmod, ()),
    "qdldl": ("qdldl", qdldl_factor, ()),
    "CHOLMOD by scikit-sparse": ("scikit-sparse", scikit_sparse, ()),
}


def main() -> None:
    with np.load(sys.argv[1]) as file:
        size, i, j, values = int(file["size"]), file["i"], file["j"], file["values"]
        known = float(file["log_det"])
    off = i != j
    rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    A = sp.csc_matrix((np.concatenate([values, values[off]]), (rows, columns)), (size, size))
    for name, (package, factorise, settings) in LIBRARIES.items():
        try:
            version = metadata.version(package)
            begin = time.process_time()
            solve, log_det, entries = factorise(A, *settings)
            end = time.process_time()
        except (ImportError, metadata.PackageNotFoundError) as error:
            print(f"{name}: not here ({error})", file=sys.stderr)
            continue
        right = np.zeros((size, COLUMNS))
        right[:COLUMNS, :COLUMNS] = np.eye(COLUMNS)
        solve(right)
        solved = time.process_time()
        line = {
            "what": "factor", "library": name, "version": version, "variables": size, "factor_s": end - begin,
            "numeric_s": getattr(solve, "numeric_s", None), "factor_entries_per_row": entries / size,
            "log_det_error": abs(log_det - known), "all_variances_s": (solved - end) * size / COLUMNS,
        }  # fmt: skip
        print(json.dumps(line), flush=True)
        if len(sys.argv) > 2:
            with open(sys.argv[2], "a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
