"""Fit the baselines, boosted trees and a linear model with default settings, on the folds of default_kernel.py.

    python studies/default_kernel.py --export FOLDER
    PYTHON studies/default_kernel_rivals.py FOLDER results/default-kernel/rivals.jsonl

PYTHON is an environment with catboost 1.2.10 and scikit-learn 1.9.1.  Resumable; one thread per fit.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from catboost import CatBoostClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV

RIVALS = {
    "CatBoost": lambda: CatBoostClassifier(verbose=False, thread_count=1, allow_writing_files=False, random_seed=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "random forest": lambda: RandomForestClassifier(random_state=0),
    "logistic": lambda: LogisticRegressionCV(scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False),
}


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    warnings.simplefilter("ignore")
    known = {tuple(json.loads(line)[k] for k in ("set", "seed", "fold", "rival")) for line in _lines(out)}
    with out.open("a") as file:
        for path in sorted(folder.glob("*.npz")):
            name, seed, fold = path.stem.rsplit(".", 2)
            rows = np.load(path)
            for rival, make in RIVALS.items():
                key = (name, int(seed), int(fold), rival)
                if key in known:
                    continue
                row = dict(zip(("set", "seed", "fold", "rival"), key, strict=True))
                begun = time.process_time()
                try:
                    model = make().fit(rows["X"], rows["y"] > 0)
                    p = np.clip(model.predict_proba(rows["X_test"])[:, 1], 1e-15, 1 - 1e-15)
                    yes = rows["y_test"] > 0
                    row["loglik"] = float(np.mean(np.where(yes, np.log(p), np.log1p(-p))))
                    row["accuracy"] = float(np.mean((p > 0.5) == yes))
                except ValueError as problem:
                    row["problem"] = str(problem)[:200]
                row["seconds"] = time.process_time() - begun
                file.write(json.dumps(row) + "\n")
                file.flush()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
