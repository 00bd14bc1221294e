"""Draw six kinds of prediction with their uncertainty: front.png of the README, and one picture per card of the site.

    python docs/figures/front.py

The breast-cancer data are scikit-learn's; the other five tables are simulated.  Every model is fitted with its defaults
apart from the likelihood, the groups and the kernel of the series.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from sitewise import GPClassifier, GPRegressor, kernels
from sitewise.estimators import survival_curve

HERE = Path(__file__).parent
BAND = {"alpha": 0.25, "linewidth": 0}


def classes(ax: Axes) -> None:
    """Probability of a malignant tumour from two measurements, with 120 training rows and 200 other rows."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    X, malignant = table.data[:, :2], table.target == 0
    model = GPClassifier().fit(X[:120], malignant[:120])
    radius, texture = np.linspace(6, 26, 70), np.linspace(9, 33, 70)
    grid = np.stack(np.meshgrid(radius, texture), axis=-1).reshape(-1, 2)
    probability = model.predict_proba(grid)[:, 1].reshape(70, 70)
    ax.contourf(radius, texture, probability, levels=np.linspace(0, 1, 21), alpha=0.75)
    lines = ax.contour(radius, texture, probability, levels=[0.1, 0.5, 0.9], colors="black", linewidths=0.8)
    ax.clabel(lines, fmt=lambda p: f"{p:.0%}", fontsize=7)
    new = slice(120, 320)
    for label, colour in ((True, "C1"), (False, "C0")):
        rows = X[new][malignant[new] == label]
        ax.plot(*rows.T, "o", color=colour, markersize=2.5, markeredgecolor="white", markeredgewidth=0.3)
    ax.set(title="Is a tumour malignant?", xlabel="mean radius", ylabel="mean texture")
    ax.set(xlim=(6, 26), ylim=(9, 33))


def counts(ax: Axes) -> None:
    """Claims per year by age; policies were observed for different times."""
    rng = np.random.default_rng(1)
    age, years = rng.uniform(18, 85, (250, 1)), rng.uniform(0.2, 4.0, 250)
    claims = rng.poisson(years * np.exp(-2 + ((age[:, 0] - 50) / 25) ** 2))
    model = GPRegressor(likelihood="poisson").fit(age, claims, exposure=years)
    grid = np.linspace(18, 85, 80)[:, None]
    effect, std = model.predict_latent(grid, return_std=True)
    ax.scatter(age[:, 0], claims / years, s=3 * years, color="grey", alpha=0.6, linewidth=0)
    ax.fill_between(grid[:, 0], np.exp(effect - 1.645 * std), np.exp(effect + 1.645 * std), **BAND)
    ax.plot(grid[:, 0], np.exp(effect))
    ax.set(title="How many claims per year?", xlabel="age of the driver", ylabel="claims per year", ylim=(-0.05, 2.4))


def outliers(ax: Axes) -> None:
    """A sensor with wrong readings."""
    rng = np.random.default_rng(3)
    hour = np.arange(0, 24, 0.25)
    reading = 6.2 + 1.2 * np.sin(2 * np.pi * hour / 24) + rng.normal(0, 0.12, len(hour))
    reading[rng.choice(len(hour), 8, replace=False)] += rng.choice([-1, 1], 8) * rng.uniform(1, 2.5, 8)
    model = GPRegressor(likelihood="student_t").fit(hour[:, None], reading)
    mean, std = model.predict_latent(hour[:, None], return_std=True)
    wrong = model.outliers_.rows
    ax.plot(hour, reading, ".", color="grey", markersize=3)
    ax.plot(hour[wrong], reading[wrong], "x", color="C1", markersize=6, label="found as outlier")
    ax.fill_between(hour, mean - 1.645 * std, mean + 1.645 * std, **BAND)
    ax.plot(hour, mean)
    ax.set(title="Which readings are wrong?", xlabel="hour", ylabel="pressure (bar)", xticks=[0, 6, 12, 18, 24])
    ax.legend(loc="lower left", fontsize=7)


def lifetimes(ax: Axes) -> None:
    """Pumps by load; about half still ran at the end of the record."""
    rng = np.random.default_rng(8)
    load = rng.uniform(0.2, 1.4, (160, 1))
    life = 9 * np.exp(-2.9 * np.maximum(load[:, 0] - 0.7, 0) ** 1.5) * rng.weibull(2.2, 160)
    stop = rng.uniform(2, 9, 160)
    model = GPRegressor(likelihood="weibull").fit(load, np.minimum(life, stop), event=life <= stop)
    loads, times = np.array([0.5, 1.0, 1.3]), np.linspace(0.1, 12, 80)
    curve = survival_curve(model, loads[:, None], times, level=0.9)
    for k, value in enumerate(loads):
        (line,) = ax.plot(times, curve.mean[k], label=f"load {value}")
        ax.fill_between(times, curve.low[k], curve.high[k], color=line.get_color(), **BAND)
    ax.set(title="How long do pumps last?", xlabel="years", ylabel="share still running", ylim=(0, 1.02))
    ax.legend(loc="upper right", fontsize=7)


def groups(ax: Axes) -> None:
    """Fifteen shops, some with few customers: estimates of small shops are shrunk towards the common level."""
    rng = np.random.default_rng(5)
    sizes = np.array([4, 5, 5, 6, 8, 8, 10, 12, 14, 16, 20, 25, 30, 35, 40])
    shop = np.repeat(np.arange(len(sizes)), sizes)
    price = rng.uniform(0, 1, len(shop))
    level = rng.normal(0, 0.8, len(sizes))
    bought = rng.uniform(size=len(shop)) < 1 / (1 + np.exp(-(0.8 - 2 * price + level[shop])))
    model = GPClassifier(groups=1).fit(np.column_stack([price, shop]), bought)
    effect = model.effect(1)
    share = np.array([bought[shop == k].mean() for k in range(len(sizes))])
    order = np.argsort(effect.mean)
    place = np.arange(len(sizes))
    spread = np.stack([effect.mean - effect.low, effect.high - effect.mean])[:, order]
    ax.scatter(place, share[order], s=2.5 * sizes[order], color="grey", alpha=0.6, linewidth=0, label="observed share")
    ax.errorbar(place, effect.mean[order], spread, fmt="o", markersize=3, linewidth=1.2, label="estimate, 90 %")
    ax.set(
        title="Which shops sell better?", xlabel="shop (size: customers)", ylabel="share that buys", ylim=(-0.03, 1.03)
    )
    ax.set_xticks([])
    ax.legend(loc="upper left", fontsize=7)


def series(ax: Axes) -> None:
    """Monthly counts with a trend, a season and a gap, and the next year."""
    rng = np.random.default_rng(2)
    month = np.arange(84.0)
    count = rng.poisson(np.exp(2.3 + 0.008 * month + 0.5 * np.sin(2 * np.pi * month / 12)))
    known = (month < 72) & ~((month > 30) & (month < 38))
    season = kernels.Periodic(period=12.0) * kernels.Matern52(100.0)
    model = GPRegressor(season + kernels.Matern52(40.0), likelihood="poisson").fit(month[known, None], count[known])
    low, high = model.predict_interval(month[:, None], 0.9)
    ax.fill_between(month, low, high, step="mid", **BAND)
    ax.plot(month, model.predict(month[:, None]))
    ax.plot(month[known], count[known], ".", color="grey", markersize=4)
    ax.plot(month[~known], count[~known], "o", color="C1", markersize=3, fillstyle="none", label="not in the fit")
    ax.axvline(71.5, color="black", linewidth=0.8, linestyle="--")
    ax.set(title="What comes next?", xlabel="month", ylabel="orders", xticks=range(0, 85, 12))
    ax.legend(loc="upper left", fontsize=7)


PANELS = (classes, counts, outliers, lifetimes, groups, series)


def main() -> None:
    """Save the pictures beside this file."""
    matplotlib.use("agg")
    matplotlib.rc_file(str(HERE.parent / "matplotlibrc"))
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 8, "axes.titleweight": "bold"})
    figure, axes = plt.subplots(2, 3, figsize=(9.0, 4.9))
    for panel, ax in zip(PANELS, axes.flat, strict=True):
        panel(ax)
        one, alone = plt.subplots(figsize=(2.7, 2.05))
        panel(alone)
        one.savefig(HERE / f"front-{panel.__name__}.png", dpi=190, pil_kwargs={"optimize": True})
    figure.savefig(HERE / "front.png", dpi=190, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
