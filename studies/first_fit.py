"""Measure the first fit of a process by the clock: imports, the fit, and a second fit in the same process.

    for case in first second third; do                      of one folder of caches
        SITEWISE_CACHE=FOLDER python studies/first_fit.py $case 100 >> results/fit-times/first-fits.jsonl
    done
    JAX_PLATFORMS=cpu SITEWISE_CACHE=OTHER python studies/first_fit.py cpu-first 100 >> …

One line of JSON.  The fit runs on JAX's default device.
"""

import time

_CLOCK, _CPU = time.time(), time.process_time()

import json
import sys

import jax
import numpy as np

from sitewise import GPClassifier


def main() -> None:
    case, rows = sys.argv[1], int(sys.argv[2])
    made = {"case": case, "n": rows, "device": str(jax.devices()[0]), "import_clock": time.time() - _CLOCK}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 4))
    y = X[:, 0] + rng.normal(size=rows) > 0
    GPClassifier().fit(X, y)
    made |= {"first_fit_clock": time.time() - _CLOCK, "first_fit_cpu": time.process_time() - _CPU}
    GPClassifier().fit(X, y)
    made["second_fit_in_process_clock"] = time.time() - _CLOCK - made["first_fit_clock"]
    GPClassifier().fit(X, y).predict_proba(X[:5])
    made["all_clock"] = time.time() - _CLOCK
    print(json.dumps(made))


if __name__ == "__main__":
    main()
