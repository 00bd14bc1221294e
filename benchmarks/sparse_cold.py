"""Measure a sparse fit of 20 000 rows in a new process, including imports and compilation.

    python benchmarks/sparse_cold.py [--inducing 300] [--threads 1 2]

The table is scikit-learn's `make_classification(25000, 15, n_informative=8, random_state=0)`: the last 5 000 rows are
the test set.  Seconds count from the start of the process, including imports; the folders of compiled programs are
empty.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

FIT = """
import sys, time
import numpy as np
from sklearn.datasets import make_classification
from sitewise import GPClassifier, Sparse
X, y = make_classification(25_000, 15, n_informative=8, random_state=0)
model = GPClassifier(structure=Sparse(int(sys.argv[2])), random_state=0).fit(X[:20_000], y[:20_000])
wall, cpu = time.time() - float(sys.argv[1]), time.process_time()
p = model.predict_proba(X[20_000:])[np.arange(5_000), y[20_000:]]
import json
print(json.dumps({"wall": wall, "cpu": cpu, "log_loss": float(-np.mean(np.log(p))), "rounds": int(model.n_iter_)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inducing", type=int, default=300)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options = parser.parse_args()
    for threads in options.threads:
        with tempfile.TemporaryDirectory() as folder:
            empty = {"SITEWISE_CACHE": folder, "XDG_CACHE_HOME": folder, "JAX_PLATFORMS": "cpu"}
            number = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
            done = subprocess.run(
                [sys.executable, "-c", FIT, str(time.time()), str(options.inducing)],
                env={**os.environ, **empty, **number}, capture_output=True, text=True, check=True,
            )  # fmt: skip
        found = {"threads": threads, "load": os.getloadavg()[0], **json.loads(done.stdout.splitlines()[-1])}
        print(found, flush=True)


if __name__ == "__main__":
    main()
