"""What the two estimators share: settings, fitting, diagnostics, adding and removing rows, saving."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sitewise import evidence, means
from sitewise.data import Data, check_size
from sitewise.estimators import kernel_parameters, structured
from sitewise.estimators.averaging import learn_average
from sitewise.estimators.candidates import Candidate, candidates, effects, start_kernel
from sitewise.estimators.distinct_rows import Merged, merge, refuse_dates
from sitewise.estimators.explaining import Explaining
from sitewise.estimators.inducing_settings import REFRESHED, TRAINED, check_choice, count_of, seconds_of
from sitewise.estimators.model_file import to_bytes
from sitewise.estimators.settings import method_of
from sitewise.estimators.side_information import Side
from sitewise.estimators.training import Approximate, Sampling, warn_of
from sitewise.fitted.latent import Latent, same_form
from sitewise.fitted.mixture import Mixture
from sitewise.fitted.sampled import Sampled
from sitewise.kernels import Kernel
from sitewise.learning.nested import Nested
from sitewise.learning.running import goes_on
from sitewise.likelihoods import Likelihood
from sitewise.mcmc import HyperSamples
from sitewise.methods import method_named
from sitewise.model import SPARSE_JITTER, Model
from sitewise.priors import MarkovPrior, SparsePrior
from sitewise.priors.inducing import select
from sitewise.process import files
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report, shown
from sitewise.sites import Sites
from sitewise.types import Outcome

_STRUCTURES = ("auto", "full", "markov")
_SERIES_ROWS = 2_000  # above this a time series is a Markov chain where that is possible
_MANY_ROWS = 10_000  # above this the full GP takes too long on most machines

RandomState = int | np.random.RandomState | None  # as in scikit-learn


class GPBase(Explaining, BaseEstimator):
    """One fitted problem per `_targets` entry: one for regression, two classes or joint classes, else one per class."""

    kernel: Kernel | Sequence[Kernel] | str | None
    ard: bool | str
    groups: str | int | Sequence[str | int] | None
    additive: bool | int
    mean: means.Mean | None
    method: str
    structure: str
    series: int | str | None
    n_inducing: int | str | None
    inducing: str | ArrayLike
    jitter: float
    random_state: RandomState
    warm_start: bool
    verbose: bool | int | Report

    # Set by fit, update, forget and load: the training rows as given, and one latent function per problem.
    _X: np.ndarray
    _y: np.ndarray
    _weight: np.ndarray
    _side: Side = {}  # what is known about each row besides y; see side_information
    _latents: list[Latent | Sampled]
    _indices: list[np.ndarray]
    _typical_variance = 1.0  # of the latent function, for weak priors
    _report: Any  # the text of `fit_report_`, or the function that makes it

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; if `deep`, also the values of the kernel, as in kernel__lengthscale."""
        found = super().get_params(deep=False)
        inner = deep and (self.kernel is None or isinstance(self.kernel, Kernel))
        return {**found, **kernel_parameters.read(start_kernel(self.kernel, self.ard, None))} if inner else found

    def set_params(self, **params: Any) -> Self:
        """Change settings; kernel__lengthscale and the like change the kernel, which is a starting point unless held
        by `fixed`."""
        inner = {key: params.pop(key) for key in list(params) if key.startswith(kernel_parameters.PREFIX)}
        super().set_params(**params)
        if inner:
            self.kernel = kernel_parameters.write(start_kernel(self.kernel, self.ard, None), inner)
        return self

    # -- what each of the two estimators defines ---------------------------------------------------------

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        """Training targets (as stored) and side information, as each latent function's likelihood takes them."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> np.ndarray:
        """Targets as given by the user, checked, in the form in which they are stored."""
        raise NotImplementedError

    def _kernels(self, kernel: Kernel, likelihood: Likelihood) -> Kernel | list[Kernel]:
        """The kernel to start from, or one for each latent function of a row where they have kernels of their own."""
        return kernel

    def _log_unit(self, y: np.ndarray, side: Side) -> float | np.ndarray:
        """log of the factor between the model's units of y and the user's, for the density of each row."""
        return 0.0

    # -- fitting -----------------------------------------------------------------------------------------

    def _candidates(self, data: Data) -> list[Candidate]:
        """The kernel to start from, or those to average over."""
        method = method_named(self.method)
        plain = self.ard == "auto" and (method.samples or method.learner is not Nested)  # many draws, or no priors
        groups, order = structured.group_columns(self), structured.additive_order(self)
        X = self._kernel_columns(np.asarray(data.X))
        rest = [j for j in range(X.shape[1]) if j not in groups]
        if not rest:
            if self.kernel is not None or order:
                raise ValueError("groups names every column of X, so that no column is left for kernel or additive.")
            return [Candidate("groups", structured.with_groups(None, rest, groups))]
        inputs = X[:, rest] if groups else X
        if order:
            found = [effects(inputs, order, np.asarray(data.weight), self._typical_variance)]
        else:
            found = candidates(self.kernel, False if plain else self.ard, inputs, self._typical_variance)
        return [structured.beside_groups(one, rest, groups) for one in found] if groups else found

    def _series_column(self) -> int | None:
        """The number of the column that names the series; None if there is none."""
        if self.series is None:
            return None
        names = list(getattr(self, "feature_names_in_", ()))
        column = names.index(self.series) if self.series in names else self.series
        if isinstance(column, bool) or column not in (0, 1) or self.n_features_in_ != 2:
            raise ValueError(
                f"series must be the number or the name of one of the two columns of X, the other one the time; "
                f"got {self.series!r} for {self.n_features_in_} columns."
            )
        return int(column)

    def _kernel_columns(self, X: np.ndarray) -> np.ndarray:
        """The columns of which the kernel is a function: not that of the series."""
        column = self._series_column()
        return X if column is None else X[:, [1 - column]]

    def _start_mean(self, likelihood: Likelihood, data: Data) -> means.Mean:
        if self.mean is not None and not isinstance(self.mean, means.Mean):
            raise ValueError(f"mean must come from sitewise.means, such as Constant(); got {self.mean!r}.")
        return means.Zero() if self.mean is None else self.mean

    def _fit(self, likelihood: Likelihood) -> None:
        """Learn one latent function per target from the rows in `_X`, `_y`, `_weight`."""
        method = method_of(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        old = self._latents if self.warm_start and hasattr(self, "_latents") else []
        merged = self._merged()
        averaged = self.kernel is not None and not isinstance(self.kernel, Kernel)
        found = []
        for k, m in enumerate(merged):
            likelihood.check(m.data.y)
            chosen, columns = self._candidates(m.data), m.data.X.shape[1] - (self.series is not None)
            models = [self._start_model(likelihood, m.data, seed, one.kernel, len(merged)) for one in chosen]
            if columns == 1 and isinstance(method, Approximate) and (self.kernel is None or self.kernel == "average"):
                models = [method.start(model, m.data) for model in models]
            with shown(self.verbose, f"{type(self).__name__} {k + 1}/{len(merged)}") as progress:
                part = progress and _part(progress, k, len(merged))
                if averaged:
                    found.append(learn_average(method, chosen, models, m.data, seed, part))
                    continue
                model, own = models[0], dataclasses.replace(method, weak=chosen[0].weak)
                if len(old) == len(merged) and same_form(old[k].model, model):
                    model = old[k].model
                found.append(own.learn(model, m.data, seed, part))
        self._store(merged, [one.latent for one in found])
        self.n_iter_ = max([1, *(one.rounds for one in found)])
        self.converged_ = all(one.converged for one in found)
        self._report = functools.partial(_joined, [one.report for one in found], self._about_inducing())
        if averaged:
            weights = [dict(one.kernels) for one in found]
            self.kernel_weights_: Any = weights[0] if len(weights) == 1 else weights
        warn_of(type(self).__name__, found, stacklevel=3)

    @property
    def fit_report_(self) -> str:
        """What happened in plain words, made when it is first asked for: it computes every evidence."""
        if not hasattr(self, "_report"):
            raise AttributeError(f"{type(self).__name__} has no report before fit.")
        if not isinstance(self._report, str):
            self._report = self._report()
        return self._report

    @fit_report_.setter
    def fit_report_(self, text: str) -> None:
        self._report = text

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "_report": self.fit_report_} if "_report" in state else state

    def _start_model(self, likelihood: Likelihood, data: Data, seed: int, kernel: Kernel, fits: int) -> Model:
        """A sparse model if inducing inputs are requested by number or given; else a full or a Markov one."""
        if not (isinstance(self.jitter, numbers.Real) and 0 <= self.jitter < np.inf):
            raise ValueError(f"jitter must be a finite number of at least 0, got {self.jitter!r}.")
        mean = self._start_mean(likelihood, data)
        given = check_choice(self.inducing)
        if self.structure not in _STRUCTURES:
            raise ValueError(f"structure must be one of {', '.join(_STRUCTURES)}, got {self.structure!r}.")
        if given and self.n_inducing is not None:
            raise ValueError("inducing is a table of inputs and says how many there are; leave n_inducing at None.")
        teaching = getattr(getattr(method_of(self), "learner", None), "learning_rows", None)
        count = count_of(self.n_inducing, data.rows, fits, likelihood.latents, teaching)
        if count is None and not given:
            if self._is_series(kernel, likelihood, data):
                return Model.markov(kernel, likelihood, mean, series=self._series_column())
            if data.rows > _MANY_ROWS:
                warnings.warn(
                    f"A full GP of {data.rows} rows takes hours and {8e-9 * data.rows**2:.0f} GB for each matrix; "
                    "n_inducing=500 makes it sparse.",
                    UserWarning,
                    stacklevel=4,
                )
            return Model.full(self._kernels(kernel, likelihood), likelihood, mean, float(self.jitter))
        if self.structure != "auto" or self.series is not None:
            what = f"structure={self.structure!r}" if self.structure != "auto" else f"series={self.series!r}"
            raise ValueError(f"{what} has no inducing inputs; leave one of the two out.")
        learned = isinstance(self.inducing, str) and self.inducing in (REFRESHED, TRAINED)
        chosen = "kmeans" if learned else self.inducing
        Z = select(data.X, chosen, count or 0, kernel=kernel, seed=seed)
        jitter = max(float(self.jitter), SPARSE_JITTER)
        return Model.sparse(self._kernels(kernel, likelihood), likelihood, Z, mean, jitter)

    def _about_inducing(self) -> str:
        """Why there are so many inducing inputs, where that was not asked for by number."""
        latent = self._latents[0]
        if not isinstance(self.n_inducing, str):
            return ""
        asked, rows = f"n_inducing={self.n_inducing!r}", latent.data.rows
        if not isinstance(latent.model.prior, SparsePrior):
            return f"{asked}: {rows} rows take no longer by the full GP, which was used."
        return (
            f"{asked}: {len(np.asarray(latent.model.prior.inducing))} inducing inputs for {rows} rows, by the rule "
            f"(priors.inducing.how_many) for about {seconds_of(self.n_inducing):g} s on two cores."
        )

    def _is_series(self, kernel: Kernel, likelihood: Likelihood, data: Data) -> bool:
        """Whether the prior is to be a Markov chain in time."""
        if self.series is not None and self.structure == "full":
            raise ValueError("series are Markov chains; leave structure at 'auto'.")
        if self.structure == "markov" or self.series is not None:
            if self.jitter:
                raise ValueError("structure='markov' has no matrix to which jitter could be added; leave jitter at 0.")
            return True
        if self.structure == "full" or self.jitter or method_named(self.method).samples or data.rows <= _SERIES_ROWS:
            return False
        return MarkovPrior(kernel).suits(data.X.shape[1], likelihood.latents)

    def _merged(self) -> list[Merged]:
        return [merge(self._X, y, self._weight) for y in self._targets(self._y, self._side)]

    def _store(self, merged: list[Merged], latents: Sequence[Latent | Sampled]) -> None:
        self._latents, self._indices = list(latents), [m.place for m in merged]
        models = [latent.model for latent in latents]
        one = len(models) == 1
        self.kernel_: Any = models[0].kernels if one else [m.kernels for m in models]
        self.mean_: Any = models[0].prior.mean if one else [m.prior.mean for m in models]
        self.likelihood_: Any = models[0].likelihood if one else [m.likelihood for m in models]

    def _weights(self, sample_weight: ArrayLike | None, X: np.ndarray) -> np.ndarray:
        weight = _check_sample_weight(sample_weight, X, dtype=WORKING_DTYPE, ensure_non_negative=True)
        return np.array(weight)

    # -- predictions of the latent function ----------------------------------------------------------------

    def _new_rows(self, X: Any) -> np.ndarray:
        """Inputs as given by the user, checked."""
        check_is_fitted(self)
        refuse_dates(X)
        X = validate_data(self, X, dtype=WORKING_DTYPE, reset=False)
        check_size(X)
        return X

    def _at(self, X: Any) -> list[Mixture]:
        """The latent functions at new rows."""
        X = self._new_rows(X)
        return [latent.at(X) for latent in self._latents]

    def _plain(self, q: Mixture) -> Mixture:
        """The same rows, with the side information of rows about which nothing is said."""
        return q

    def _latent_units(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance in the user's units, from those in the model's."""
        return mean, var

    def predict_latent(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean of the latent function at each row, with its standard deviation or covariance matrix if asked.

        With more than two classes there is one latent function per class: means and deviations have one column, and
        the covariance one leading entry, per class.
        """
        if return_std and return_cov:
            raise ValueError("Set return_std or return_cov, not both: the deviations are the roots of the diagonal.")
        if return_cov:
            X = self._new_rows(X)
            pairs = [self._latent_units(*latent.joint(X)) for latent in self._latents]
            if len(pairs) == 1:
                return pairs[0][0].T, pairs[0][1]
            return np.stack([p[0] for p in pairs], -1), np.stack([p[1] for p in pairs])
        pairs = [self._latent_units(*q.f_moments()) for q in self._at(X)]
        mean, var = pairs[0] if len(pairs) == 1 else (np.stack([p[i] for p in pairs], -1) for i in range(2))
        return (mean, np.sqrt(var)) if return_std else mean

    # -- diagnostics: computed on request, never stored ---------------------------------------------------

    def _with_sites(self, what: str) -> list[Latent]:
        """The latent functions, if they have the sites that `what` needs."""
        check_is_fitted(self)
        found = [latent for latent in self._latents if isinstance(latent, Latent)]
        if len(found) < len(self._latents):
            # An AttributeError, so that hasattr is False.
            raise AttributeError(f"{what} needs Gaussian sites, and mcmc has none; use method='ep' for it.")
        return found

    @property
    def models_(self) -> list[tuple[Model, Data]]:
        """The library's objects behind this estimator: a trained model and its rows for each latent function."""
        check_is_fitted(self)
        return [(latent.model, latent.data) for latent in self._latents]

    @property
    def samples_(self) -> HyperSamples | list[HyperSamples]:
        """The draws behind method="mcmc" (one per class if there are more than two); `to_arviz()` converts them."""
        check_is_fitted(self)
        found = [latent.samples for latent in self._latents if isinstance(latent, Sampled)]
        if not found:
            raise AttributeError(f"samples_ is for method='mcmc', but this model was fitted by {self.method!r}.")
        return found[0] if len(found) == 1 else found

    @property
    def evidence_(self) -> Mapping[str, float]:
        """laplace, elbo, ep and loo on the fitted sites, in nats of the training rows (summed over the classes).

        With inducing inputs also `tight`, a bound, and `collapsed` if that was learned from: it takes long, and can be
        asked for by `sitewise.evidence.collapsed`.
        """
        found = self._with_sites("evidence_")
        learned = method_named(self.method).objective_on(found[0].model.prior.structure)
        asked = (*evidence.QUICK, learned, getattr(self, "evidence", None))
        names = tuple(name for name in evidence.ALL if name in asked)
        parts = [latent.evidences(names) for latent in found]
        units = float(np.sum(self._weight * self._log_unit(self._y, self._side)))
        return {name: sum(p[name] for p in parts) - units for name in evidence.ALL if name in parts[0]}

    def _by_row(self, values: np.ndarray, k: int, otherwise: Any) -> np.ndarray:
        """Values of the distinct rows, repeated for every row as given; `otherwise` for rows of weight 0."""
        index = self._indices[k]
        out = np.array(values[index])
        out[index < 0] = otherwise
        return out

    @property
    def sites_(self) -> Sites | list[Sites]:
        """nat1 and prec of one copy of each training row, in the model's units; 0 for a row of weight 0."""
        parts = [
            (k, *pair)
            for k, lat in enumerate(self._with_sites("sites_"))
            for pair in zip(*map(np.atleast_2d, lat.sites), strict=True)
        ]
        found = [Sites(self._by_row(nat1, k, 0.0), self._by_row(prec, k, 0.0)) for k, nat1, prec in parts]
        return found[0] if len(found) == 1 else found

    @property
    def influence_(self) -> np.ndarray:
        """How far one copy of each row moves the posterior: KL(posterior ‖ posterior without its site), in nats.

        The two differ by a factor that depends on f at that row only, so that the divergence of the whole processes
        is the divergence of the marginals N(m, v) and N(m₋, v₋) there: ½ [(m − m₋)²/v₋ + v/v₋ − 1 − log(v/v₋)].
        It is 0 for a row of weight 0; with more than two classes the classes' divergences are added.
        """
        left = [latent.leave_out() for latent in self._with_sites("influence_")]
        return np.sum([self._by_row(one.influence, k, 0.0) for k, one in enumerate(left)], axis=0)

    def _cavities(self) -> list[Mixture]:
        """The cavity of every training row; that of a row of weight 0, which was never in, is the posterior itself."""
        found = []
        for k, latent in enumerate(self._with_sites("loo_")):
            left, out = latent.leave_out(), self._indices[k] < 0
            rest = latent.at(self._X[out]) if np.any(out) else None
            mean, var = (0.0, 0.0) if rest is None else (rest.mean[:, 0], rest.var[:, 0])
            found.append(
                Mixture.gaussian(
                    latent.model.likelihood, self._by_row(left.mean, k, mean), self._by_row(left.var, k, var)
                )
            )
        return found

    # -- adding and removing rows -------------------------------------------------------------------------

    def update(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows, keep the hyperparameters, and re-converge from the present sites.

        The result is that of inference on all rows at these hyperparameters.  Call fit to learn them again.  Where the
        prior is a Markov chain, rows that all come after the last one cost as much as they are, and not as much as all
        rows: the sites of rows so far back that they would not change are held (`learning.running`, which says how far
        that is).  Rows before or between the others cost as much as inference on all rows.
        """
        return self._extend(X_new, y_new, sample_weight, {})

    def _extend(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None, side: Side) -> Self:
        """`update`, with the side information of the new rows."""
        X_new = self._new_rows(X_new)
        y_new = self._check_y(y_new)
        if len(y_new) != len(X_new):
            raise ValueError(f"X_new has {len(X_new)} rows but y_new has {len(y_new)}; give one y per row.")
        new_weight = self._weights(sample_weight, X_new)
        method = method_of(self)
        old = np.arange(len(self._X))
        X = np.concatenate([self._X, X_new])
        y = np.concatenate([self._y, y_new])
        both = {name: np.concatenate([before, side[name]]) for name, before in self._side.items()}
        weight = np.concatenate([self._weight, new_weight])
        if isinstance(method, Approximate) and np.any(new_weight > 0):
            more = [merge(X_new, target, new_weight) for target in self._targets(y_new, side)]
            if all(goes_on(one.posterior, m.data.X) for one, m in zip(self._with_sites("update"), more, strict=True)):
                return self._append(method, X, y, both, weight, more)
        return self._change(X, y, both, weight, old, old)

    def _append(
        self, method: Approximate, X: np.ndarray, y: np.ndarray, side: Side, weight: np.ndarray, more: list[Merged]
    ) -> Self:
        """Infer with rows that come after the present ones in time; `more` are the new ones of each latent function."""
        latents, outcomes, merged = [], [], []
        for latent, before, m in zip(self._with_sites("update"), self._indices, more, strict=True):
            latent.model.likelihood.check(m.data.y)
            found, outcome = method.append(latent, m.data)
            latents.append(found)
            outcomes.append(outcome)
            behind = np.where(m.place < 0, m.place, m.place + latent.data.rows)
            merged.append(Merged(found.data, np.concatenate([before, behind])))
        return self._changed(X, y, side, weight, merged, latents, outcomes)

    def forget(self, rows: ArrayLike) -> Self:
        """Remove training rows, given by their numbers or by a mask, and re-converge from the sites of the others."""
        check_is_fitted(self)
        rows, count = np.asarray(rows), len(self._X)
        if rows.dtype == bool and rows.shape != (count,):
            raise ValueError(f"A mask of rows must have one entry for each of the {count} training rows.")
        if rows.dtype != bool and (
            rows.dtype.kind not in "iu" or (rows.size and (rows.min() < -count or rows.max() >= count))
        ):
            raise ValueError(f"rows must be whole numbers below {count}, the number of training rows, or a mask.")
        kept = np.ones(count, bool)
        kept[rows] = False
        if not np.any(kept & (self._weight > 0)):
            raise ValueError("There would be no row left to predict from; keep at least one.")
        old = np.flatnonzero(kept)
        side = {name: column[kept] for name, column in self._side.items()}
        return self._change(self._X[kept], self._y[kept], side, self._weight[kept], np.arange(len(old)), old)

    def _change(
        self, X: np.ndarray, y: np.ndarray, side: Side, weight: np.ndarray, new_rows: np.ndarray, old_rows: np.ndarray
    ) -> Self:
        """Infer again with other rows; row new_rows[i] is what row old_rows[i] was."""
        method = method_of(self)
        if isinstance(method, Sampling):
            raise ValueError("mcmc cannot continue from the present draws when rows change; call fit with all rows.")
        old = list(zip(self._with_sites("update"), self._indices, strict=True))
        targets = self._targets(y, side)
        merged = [merge(X, t, weight) for t in targets]
        latents, outcomes = [], []
        for (latent, before), m in zip(old, merged, strict=True):
            latent.model.likelihood.check(m.data.y)
            both = (before[old_rows] >= 0) & (m.place[new_rows] >= 0)
            found, solution = method.infer(latent, m.data, before[old_rows][both], m.place[new_rows][both])
            latents.append(found)
            outcomes.append(solution.outcome)
        return self._changed(X, y, side, weight, merged, latents, outcomes)

    def _changed(
        self, X: np.ndarray, y: np.ndarray, side: Side, weight: np.ndarray, merged: list[Merged],
        latents: Sequence[Latent], outcomes: Sequence[Outcome],
    ) -> Self:  # fmt: skip
        """Keep what was inferred with other rows, and warn where it did not converge."""
        self._X, self._y, self._side, self._weight = X, y, side, weight
        self._store(merged, latents)
        self.converged_ = all(o.ok for o in outcomes)
        worst = max(outcomes)
        advice = worst.advice_for("estimator")
        self.fit_report_ = f"Inference again with {len(X)} rows, hyperparameters kept: {worst.name.lower()}. {advice}"
        if not self.converged_:
            warnings.warn(f"Inference did not converge. {advice}", ConvergenceWarning, stacklevel=4)
        return self

    # -- saving -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file that `sitewise.load` reads; see docs/reference/model-file.md."""
        check_is_fitted(self)
        files.write_whole(Path(path), to_bytes(self))


def _joined(reports: Sequence[Callable[[], str]], first: str = "") -> str:
    return "\n\n".join([*filter(None, [first]), *(report() for report in reports)])


def _part(progress: Report, k: int, parts: int) -> Report:
    """A function that is called with the progress of part k, and reports that of all parts."""
    return lambda doing, share: progress(f"{doing} ({k + 1} of {parts})" if parts > 1 else doing, (k + share) / parts)
