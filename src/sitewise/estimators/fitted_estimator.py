"""What a fitted estimator has: latent functions and their predictions, and diagnostics of the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sitewise import evidence, means
from sitewise.data import Data, check_size
from sitewise.estimators.distinct_rows import Merged, merge, refuse_dates
from sitewise.estimators.estimator_parameters import EstimatorParameters
from sitewise.estimators.explaining import Explaining
from sitewise.estimators.side_information import Side
from sitewise.fitted.latent import Latent
from sitewise.fitted.mixture import Mixture
from sitewise.fitted.sampled import Sampled
from sitewise.hyperparameters import Hyperparameters
from sitewise.kernel_choice import PerColumn
from sitewise.kernels import Kernel
from sitewise.mcmc import HyperSamples
from sitewise.methods import Method
from sitewise.model import Model
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report
from sitewise.sites import Sites
from sitewise.structures import Structure

RandomState = int | np.random.RandomState | None  # as in scikit-learn
KernelChoice = Kernel | PerColumn | Sequence[Kernel | PerColumn] | str | None


class FittedEstimator(Explaining, EstimatorParameters):
    """One fitted problem per `_targets` entry: one for regression, two classes or joint classes, else one per class."""

    kernel: KernelChoice
    groups: str | int | Sequence[str | int] | None
    mean: means.Mean | None
    method: str | Method
    integrate: bool | str
    hyperparameters: Hyperparameters | None
    structure: str | Structure
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
    _report: Any  # the text of `fit_report_`, or the function that makes it

    # -- defined by each estimator -------------------------------------------------------------------------

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        """Training targets (as stored) and side information, as each latent function's likelihood takes them."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> np.ndarray:
        """Targets as given by the user, checked, in the form in which they are stored."""
        raise NotImplementedError

    def _log_unit(self, y: np.ndarray, side: Side) -> float | np.ndarray:
        """log of the factor between the model's units of y and the user's, for the density of each row."""
        return 0.0

    # -- the fitted state ----------------------------------------------------------------------------------

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
            raise AttributeError(
                f"samples_ is for method='mcmc', but this model was fitted by {Method.of(self.method).name!r}."
            )
        return found[0] if len(found) == 1 else found

    @property
    def evidence_(self) -> Mapping[str, float]:
        """laplace, elbo, ep and loo on the fitted sites, in nats of the training rows (summed over the classes).

        With inducing inputs also `tight`, a bound, and `collapsed` if that was learned from: it takes long, and can be
        asked for by `sitewise.evidence.collapsed`.
        """
        found = self._with_sites("evidence_")
        method = Method.of(self.method)
        learned = method.definition.objective_on(found[0].model.prior.structure)
        asked = (*evidence.QUICK, learned, method.evidence)
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
