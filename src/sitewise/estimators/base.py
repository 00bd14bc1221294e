"""GPBase: fitting and saving, shared by GPClassifier, GPRegressor and GPOrdinal."""

from __future__ import annotations

import dataclasses
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sitewise import means
from sitewise.data import Data
from sitewise.estimators.averaging import learn_average
from sitewise.estimators.candidates import Candidate, candidates
from sitewise.estimators.changing_rows import ChangingRows
from sitewise.estimators.default_kernel import DefaultKernel, default_kernel
from sitewise.estimators.duration import announced
from sitewise.estimators.exporting import export
from sitewise.estimators.group_offsets import beside_groups, group_columns, with_groups
from sitewise.estimators.model_file import to_bytes
from sitewise.estimators.settings import method_of
from sitewise.estimators.training import Approximate, FitWarning, Sampling, warn_of
from sitewise.fitted.latent import same_form
from sitewise.kernels import Kernel
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.process import files
from sitewise.process.progress import Report, shown
from sitewise.sites import Sites
from sitewise.structures import Start, structure_of

PARTS, GROUPS = "parts", "groups"  # names of candidates without a kernel of columns


class GPBase(ChangingRows):
    """An estimator that learns one latent function per entry of `_targets`."""

    _typical_variance = 1.0  # of the latent function, for weak priors

    def _kernels(self, kernel: Kernel, likelihood: Likelihood) -> Kernel | list[Kernel]:
        """Return the kernel to start from, or a list with one kernel per latent function of a row."""
        return kernel

    def _series_column(self) -> int | None:
        """Return the number of the column that names the series, or None."""
        return structure_of(self.structure).series_column(self.n_features_in_, self._given_names())

    def _kernel_columns(self) -> list[int]:
        series = self._series_column()
        return [j for j in range(self.n_features_in_) if j != series]

    def _learning(self) -> Approximate | Sampling:
        """Return the method of learning with the settings of this estimator."""
        return method_of(self)

    def _candidates(self, likelihood: Likelihood, data: Data) -> list[Candidate]:
        """Return the kernel to start from, or the kernels to average over."""
        own = structure_of(self.structure).own_kernel(np.asarray(data.X), self._given_names(), self._typical_variance)
        if own is not None:
            given = [name for name in ("kernel", "groups") if getattr(self, name) is not None]
            if given:
                raise ValueError(f"The parts of structure replace {given[0]}; leave it out, or use Levels for groups.")
            return [Candidate(PARTS, own)]
        groups, series, X = group_columns(self), self._series_column(), np.asarray(data.X)
        X = X if series is None else X[:, [1 - series]]
        rest = [j for j in range(X.shape[1]) if j not in groups]
        if not rest:
            if self.kernel is not None:
                raise ValueError("groups names every column of X, so that no column is left for kernel.")
            return [Candidate(GROUPS, with_groups(None, rest, groups))]
        inputs = X[:, rest] if groups else X
        kernel = self._default_kernel(likelihood, data).name if self.kernel is None else self.kernel
        found = candidates(kernel, inputs, self._typical_variance, np.asarray(data.weight))
        return [beside_groups(one, rest, groups) for one in found] if groups else found

    def _default_kernel(self, likelihood: Likelihood, data: Data) -> DefaultKernel:
        columns = len(self._kernel_columns()) - len(group_columns(self))
        return default_kernel(self, likelihood, data.rows, columns, self._functions())

    def _functions(self) -> int:
        """Return the number of latent functions of a fit, each of which takes its own time."""
        return 1

    def _start_means(self, likelihood: Likelihood, data: Data) -> means.Mean | list[means.Mean | None]:
        """Return the mean to start from, or a list with one mean per latent function of a row."""
        return self._start_mean(likelihood, data)

    def _start_mean(self, likelihood: Likelihood, data: Data) -> means.Mean:
        if self.mean is not None and not isinstance(self.mean, means.Mean):
            raise ValueError(f"mean must come from sitewise.means, such as Constant(); got {self.mean!r}.")
        return means.Zero() if self.mean is None else self.mean

    def _start_model(
        self, method: Approximate | Sampling, kernel: Kernel, likelihood: Likelihood, data: Data, seed: int, fits: int
    ) -> Model:
        """Return the model from which a fit starts."""
        start = Start(
            kernel, self._kernels(kernel, likelihood), likelihood, self._start_means(likelihood, data), data, seed,
            self._given_names(), fits, method.learning_rows, isinstance(method, Sampling),
        )  # fmt: skip
        return structure_of(self.structure).chosen(start).model(start)

    def _fit(self, likelihood: Likelihood) -> None:
        """Learn one latent function per target from the rows in `_X`, `_y`, `_weight`."""
        method = method_of(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        old = self._latents if self.warm_start and hasattr(self, "_latents") else []
        merged = self._merged()
        averaged = False
        found = []
        for k, m in enumerate(merged):
            likelihood.check(m.data.y)
            with shown(self.verbose, f"{type(self).__name__} {k + 1}/{len(merged)}") as progress:
                chosen = self._candidates(likelihood, m.data)
                averaged = len(chosen) > 1
                models = []
                for one in chosen:  # a comprehension would add a level between a warning and its caller
                    models.append(self._start_model(method, one.kernel, likelihood, m.data, seed, len(merged)))
                own_kernel = self.kernel is None or isinstance(self.kernel, str)
                sites: list[Sites | None] = [None] * len(models)
                if isinstance(method, Approximate) and own_kernel and not averaged:
                    starts = [method.start(model, m.data) for model in models]
                    models, sites = [model for model, _ in starts], [known for _, known in starts]
                if k == 0:
                    self._warn_of_structure(models[0], m.data.rows)
                    faster = "structure=Sparse() is faster" if models[0].prior.dense else ""
                    faster = "kernel='shrunk' is faster" if averaged else faster
                    progress = announced(progress or _silent, faster)
                part = progress and _part(progress, k, len(merged))
                if averaged:
                    found.append(learn_average(method, chosen, models, m.data, seed, part, own_kernel))
                    continue
                model, own = models[0], dataclasses.replace(method, weak=chosen[0].weak)
                if len(old) == len(merged) and same_form(old[k].model, model):
                    model, sites = old[k].model, [None]
                own = own.for_rows(model, m.data) if isinstance(own, Approximate) else own
                found.append(own.learn(model, m.data, seed, part, sites[0]))
        self._store(merged, [one.latent for one in found])
        self.n_iter_ = max([1, *(one.rounds for one in found)])
        self.converged_ = all(one.converged for one in found)
        first = [self._about_structure(), self._about_kernel(likelihood, merged[0].data, chosen)]
        self._report = functools.partial(_joined, [one.report for one in found], " ".join(filter(None, first)))
        if averaged:
            weights = [dict(one.kernels) for one in found]
            self.kernel_weights_: Any = weights[0] if len(weights) == 1 else weights
        elif hasattr(self, "kernel_weights_"):  # of an earlier fit
            del self.kernel_weights_
        missing = [likelihood.missing_information(np.asarray(m.data.y)) for m in merged]
        warn_of(type(self).__name__, found, missing, stacklevel=3)

    def _warn_of_structure(self, model: Model, rows: int) -> None:
        """Warn before a fit that is sparse because of its size."""
        if fact := structure_of(self.structure).replaced_full(model, rows):
            advice = "structure=Full() fits the full GP; structure=Sparse() fits this sparse GP without a warning."
            warnings.warn(FitWarning(fact, advice), stacklevel=4)

    def _about_structure(self) -> str:
        """Return the sentence of the report about the chosen structure."""
        latent = self._latents[0]
        return structure_of(self.structure).sentence(latent.model, latent.data.rows)

    def _about_kernel(self, likelihood: Likelihood, data: Data, chosen: Sequence[Candidate]) -> str:
        """Return the sentence of the report about the default kernel."""
        if self.kernel is not None or chosen[0].name in (PARTS, GROUPS):
            return ""
        return self._default_kernel(likelihood, data).sentence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file that `sitewise.load` reads (docs/reference/model-file.md).

        Parameters
        ----------
        path : str or path
            The file; an existing file is replaced as a whole.
        """
        check_is_fitted(self)
        files.write_whole(Path(path), to_bytes(self))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model for predictions with NumPy alone, and `numpy_predictor.py` in the same folder.

        Parameters
        ----------
        path : str or path
            The model file, such as "model.npz".

        See Also
        --------
        sitewise.export : does the same for pipelines and formulas.
        """
        export(self, path)


def _joined(reports: Sequence[Callable[[], str]], first: str = "") -> str:
    return "\n\n".join([*filter(None, [first]), *(report() for report in reports)])


def _silent(doing: str, share: float) -> None:
    """Report nothing."""


def _part(progress: Report, k: int, parts: int) -> Report:
    """Return a progress function for part k that reports the progress of all parts."""
    return lambda doing, share: progress(f"{doing} ({k + 1} of {parts})" if parts > 1 else doing, (k + share) / parts)
