"""L4. What the two estimators share: settings, fitting, diagnostics, adding and removing rows, saving."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sitewise import evidence, means
from sitewise.data import Data
from sitewise.estimators.latent import Latent, Left, Marginal, infer, log_density
from sitewise.estimators.progress import progress
from sitewise.estimators.rows import Merged, merge
from sitewise.estimators.settings import learner_of
from sitewise.kernels import Kernel, Matern52
from sitewise.learning.fit import Fit
from sitewise.learning.nested import Nested
from sitewise.likelihoods import Likelihood
from sitewise.model import SPARSE_JITTER, Model
from sitewise.priors.inducing import SELECTIONS, select
from sitewise.sites import Sites

_MANY_ROWS = 10_000  # beyond, the full GP is a bad idea on most machines


class GPBase(BaseEstimator):
    """One fitted problem per `_targets` entry: one for regression, two classes or joint classes, else one per class."""

    kernel: Any
    mean: Any
    n_inducing: int | None
    inducing: Any
    jitter: float
    random_state: Any
    warm_start: bool
    verbose: bool | int

    # Set by fit, update, forget and load: the training rows as they came, and one latent function per problem.
    _X: np.ndarray
    _y: np.ndarray
    _weight: np.ndarray
    _latents: list[Latent]
    _indices: list[np.ndarray]

    # -- what the two estimators say about themselves ----------------------------------------------------

    def _targets(self, y: np.ndarray) -> list[np.ndarray]:
        """Training targets (as stored) in the units of each latent function's likelihood."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> np.ndarray:
        """Targets as given by the user, checked, in the form in which they are stored."""
        raise NotImplementedError

    def _log_unit(self) -> float:
        """log of the factor between the model's units of y and the user's."""
        return 0.0

    # -- fitting -----------------------------------------------------------------------------------------

    def _start_kernel(self) -> Kernel:
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise ValueError(f"kernel must come from sitewise.kernels, such as Matern52(); got {self.kernel!r}.")
        return Matern52() if self.kernel is None else self.kernel

    def _start_mean(self, likelihood: Likelihood, data: Data) -> means.Mean:
        if self.mean is not None and not isinstance(self.mean, means.Mean):
            raise ValueError(f"mean must come from sitewise.means, such as Constant(); got {self.mean!r}.")
        return means.Zero() if self.mean is None else self.mean

    def _fit(self, likelihood: Likelihood) -> None:
        """Learn one latent function per target from the rows in `_X`, `_y`, `_weight`."""
        learner = learner_of(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        old = self._latents if self.warm_start and hasattr(self, "_latents") else []
        merged = self._merged()
        fits = []
        for k, m in enumerate(merged):
            warm = old[k] if len(old) == len(merged) else None
            fits.append(
                self._fit_one(learner, likelihood, m, seed, f"{type(self).__name__} {k + 1}/{len(merged)}", warm)
            )
        self._store(merged, [Latent.of(f.model, f.data, f.sites) for f in fits])
        self.n_iter_ = max([1, *(f.rounds for f in fits)])
        self.converged_ = all(f.converged for f in fits)
        self.fit_report_ = "\n\n".join(f.report() for f in fits)
        if any(latent.rows_are_strangers() for latent in self._latents):
            warnings.warn(
                "The kernel takes every row to be unrelated to every other, so that nothing can be learned. Scale the "
                "inputs, with StandardScaler for example, or start from a longer lengthscale.",
                UserWarning,
                stacklevel=3,
            )
        held = sorted({name for f in fits for name in f.at_bound})
        if held:
            warnings.warn(
                f"{', '.join(held)} ended at a bound: the evidence keeps rising beyond it. Scale the inputs, or set "
                "bounds or priors; fit_report_ says more.",
                UserWarning,
                stacklevel=3,
            )
        if not self.converged_:
            first = next(f for f in fits if not f.converged)
            why = first.reason if first.solution.outcome.ok else first.solution.outcome.advice
            warnings.warn(
                f"{type(self).__name__} did not converge: {why.rstrip('.')}. fit_report_ says more; raising max_iter, "
                "scaling the inputs or adding priors may help.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _fit_one(self, learner, likelihood, merged: Merged, seed: int, label: str, warm: Latent | None) -> Fit:
        data = merged.data
        likelihood.check(data.y)
        if not np.isfinite(self.jitter) or self.jitter < 0:
            raise ValueError(f"jitter must be a finite number of at least 0, got {self.jitter!r}.")
        model = self._start_model(likelihood, data, seed)
        options: dict[str, Any] = {}
        if isinstance(learner, Nested):
            options["seed"] = seed
        if warm is not None and _same_form(warm.model, model):
            model = warm.model
        with progress(bool(self.verbose), label) as callback:
            try:
                return learner.fit(model, data, callback=callback, **options)
            except FloatingPointError as problem:
                raise ValueError(str(problem)) from problem

    def _start_model(self, likelihood: Likelihood, data: Data, seed: int) -> Model:
        """Full, or sparse if inducing inputs are asked for by number or given."""
        kernel, mean = self._start_kernel(), self._start_mean(likelihood, data)
        given = not isinstance(self.inducing, str)
        if not given and self.inducing not in SELECTIONS:
            raise ValueError(
                f"inducing must be {' or '.join(map(repr, SELECTIONS))}, or a table; got {self.inducing!r}."
            )
        if self.n_inducing is None and not given:
            if data.rows > _MANY_ROWS:
                warnings.warn(
                    f"A full GP of {data.rows} rows takes hours and {8e-9 * data.rows**2:.0f} GB for each matrix; "
                    "n_inducing=500 makes it sparse.",
                    UserWarning,
                    stacklevel=5,
                )
            return Model.full(kernel, likelihood, mean, float(self.jitter))
        if given and self.n_inducing is not None:
            raise ValueError("inducing is a table of inputs and says how many there are; leave n_inducing at None.")
        if not given and (not isinstance(self.n_inducing, numbers.Integral) or self.n_inducing < 1):
            raise ValueError(f"n_inducing must be None or a whole number of at least 1, got {self.n_inducing!r}.")
        Z = select(data.X, self.inducing, 0 if given else int(self.n_inducing), kernel=kernel, seed=seed)
        return Model.sparse(kernel, likelihood, Z, mean, max(float(self.jitter), SPARSE_JITTER))

    def _merged(self) -> list[Merged]:
        return [merge(self._X, y, self._weight) for y in self._targets(self._y)]

    def _store(self, merged: list[Merged], latents: list[Latent]) -> None:
        self._latents, self._indices = latents, [m.place for m in merged]
        priors = [latent.model.prior for latent in latents]
        one = len(latents) == 1
        self.kernel_: Any = priors[0].kernel if one else [p.kernel for p in priors]
        self.mean_: Any = priors[0].mean if one else [p.mean for p in priors]
        self.likelihood_: Any = latents[0].model.likelihood if one else [lat.model.likelihood for lat in latents]

    def _weights(self, sample_weight, X: np.ndarray) -> np.ndarray:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return np.array(weight)

    # -- predictions of the latent function ----------------------------------------------------------------

    def _new_rows(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _marginals(self, X) -> list[Marginal]:
        X = self._new_rows(X)
        return [latent.marginals(X) for latent in self._latents]

    def _latent_units(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return mean, var

    def predict_latent(self, X, return_std: bool = False, return_cov: bool = False):
        """Mean of the latent function at each row, with its standard deviation or covariance matrix if asked.

        With more than two classes there is one latent function per class: means and deviations have one column, and
        the covariance one leading entry, per class.
        """
        if return_std and return_cov:
            raise ValueError("Ask for return_std or return_cov, not both: the deviations are the diagonal's roots.")
        if return_cov:
            X = self._new_rows(X)
            pairs = [self._latent_units(*latent.joint(X)) for latent in self._latents]
            if len(pairs) == 1:
                return pairs[0][0].T, pairs[0][1]
            return np.stack([p[0] for p in pairs], -1), np.stack([p[1] for p in pairs])
        pairs = [self._latent_units(q.mean, _variances(q)) for q in self._marginals(X)]
        mean, var = pairs[0] if len(pairs) == 1 else (np.stack([p[i] for p in pairs], -1) for i in range(2))
        return (mean, np.sqrt(var)) if return_std else mean

    # -- diagnostics: derived when asked for, never stored ------------------------------------------------

    @property
    def evidence_(self) -> Mapping[str, float]:
        """laplace, elbo, ep and loo on the fitted sites, in nats of the training rows (summed over the classes).

        With inducing inputs also `collapsed`, which the hybrid learns from there.
        """
        check_is_fitted(self)
        parts = [latent.evidences() for latent in self._latents]
        rows = float(np.sum(self._weight))
        return {
            name: sum(p[name] for p in parts) - rows * self._log_unit() for name in evidence.ALL if name in parts[0]
        }

    def _by_row(self, values: np.ndarray, k: int, otherwise: Any) -> np.ndarray:
        """Values of the distinct rows, given to every row as it came; `otherwise` for rows of weight 0."""
        index = self._indices[k]
        out = np.array(values[index])
        out[index < 0] = otherwise
        return out

    @property
    def sites_(self) -> Sites | list[Sites]:
        """nat1 and prec of one copy of each training row, in the model's units; 0 for a row of weight 0."""
        check_is_fitted(self)
        parts = [
            (k, *pair)
            for k, lat in enumerate(self._latents)
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
        check_is_fitted(self)
        return np.sum([self._by_row(left.influence, k, 0.0) for k, left in enumerate(self._left_out())], axis=0)

    def _left_out(self) -> list[Left]:
        return [latent.leave_out() for latent in self._latents]

    def _cavities(self) -> list[Marginal]:
        """Of every training row; a row of weight 0 was never in, and its cavity is the posterior itself."""
        found = []
        for k, left in enumerate(self._left_out()):
            out = self._indices[k] < 0
            rest = self._latents[k].marginals(self._X[out]) if np.any(out) else Marginal(np.zeros(()), np.zeros(()))
            found.append(
                Marginal(self._by_row(left.cavity.mean, k, rest.mean), self._by_row(left.cavity.var, k, rest.var))
            )
        return found

    def _log_densities(self, k: int, q: Marginal, y: np.ndarray | float) -> np.ndarray:
        return log_density(self._latents[k].model.likelihood, q, y)

    # -- adding and removing rows -------------------------------------------------------------------------

    def update(self, X_new, y_new, sample_weight=None):
        """Add rows, keep the hyperparameters, and re-converge from the present sites.

        The result is what inference on all rows gives at these hyperparameters.  Call fit to learn them anew.
        """
        X_new = self._new_rows(X_new)
        y_new = self._check_y(y_new)
        if len(y_new) != len(X_new):
            raise ValueError(f"X_new has {len(X_new)} rows but y_new has {len(y_new)}; give one y per row.")
        old = np.arange(len(self._X))
        X = np.concatenate([self._X, X_new])
        y = np.concatenate([self._y, y_new])
        return self._change(X, y, np.concatenate([self._weight, self._weights(sample_weight, X_new)]), old, old)

    def forget(self, rows):
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
        return self._change(self._X[kept], self._y[kept], self._weight[kept], np.arange(len(old)), old)

    def _change(self, X, y, weight, new_rows: np.ndarray, old_rows: np.ndarray):
        """Infer again with other rows; row new_rows[i] is what row old_rows[i] was."""
        method = learner_of(self).inference
        old = list(zip(self._latents, self._indices, strict=True))
        targets = self._targets(y)
        merged = [merge(X, t, weight) for t in targets]
        latents, outcomes = [], []
        for (latent, before), m in zip(old, merged, strict=True):
            latent.model.likelihood.check(m.data.y)
            both = (before[old_rows] >= 0) & (m.place[new_rows] >= 0)
            known = Sites(*(a[..., before[old_rows][both]] for a in latent.sites))
            found, solution = infer(method, latent.model, m.data, known, m.place[new_rows][both])
            latents.append(found)
            outcomes.append(solution.outcome)
        self._X, self._y, self._weight = X, y, weight
        self._store(merged, latents)
        self.converged_ = all(o.ok for o in outcomes)
        worst = max(outcomes)
        self.fit_report_ = (
            f"Inference again with {len(X)} rows, hyperparameters kept: {worst.name.lower()}. {worst.advice}"
        )
        if not self.converged_:
            warnings.warn(f"Inference did not converge. {worst.advice}", ConvergenceWarning, stacklevel=3)
        return self

    # -- saving -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file that `sitewise.load` reads; see docs/reference/model-file.md."""
        from sitewise.estimators.persistence import save

        save(self, path)


def _variances(q: Marginal) -> np.ndarray:
    return q.var if q.var.ndim == 1 else np.diagonal(q.var, axis1=1, axis2=2)


def _same_form(one: Model, other: Model) -> bool:
    """The same classes, settings and shapes of parameters: the values of one can start the other."""
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(model)] for model in (one, other)]
    kinds: list[Any] = [jax.tree.structure(model) for model in (one, other)]
    return kinds[0] == kinds[1] and shapes[0] == shapes[1]
