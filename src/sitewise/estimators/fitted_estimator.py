"""Fitted state of an estimator: latent functions, their predictions, and diagnostics of the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sitewise import evidence, means
from sitewise.data import Data, check_size
from sitewise.estimators.distinct_rows import Merged, merge
from sitewise.estimators.estimator_parameters import EstimatorParameters
from sitewise.estimators.explaining import Explaining
from sitewise.estimators.refusals import refuse_missing_inputs, refuse_unusable_columns
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
from sitewise.parts import Part
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report
from sitewise.sites import Sites
from sitewise.structures import Structure
from sitewise.tables.named_array import names_of

RandomState = int | np.random.RandomState | None  # as in scikit-learn
KernelChoice = Kernel | PerColumn | Sequence[Kernel | PerColumn] | str | None


class FittedEstimator(Explaining, EstimatorParameters):
    """Base class with one latent function per `_targets` entry: one, or for one against the rest one per class."""

    kernel: KernelChoice
    groups: str | int | Sequence[str | int] | None
    mean: means.Mean | None
    method: str | Method
    integrate: bool | str
    hyperparameters: Hyperparameters | None
    structure: str | Structure | Part | Sequence[Part]
    random_state: RandomState
    warm_start: bool
    verbose: bool | int | Report

    # Set by fit, update, forget and load: the training rows as given, and one latent function per problem.
    _X: np.ndarray
    _y: np.ndarray
    _weight: np.ndarray
    _side: Side = {}  # see side_information
    _latents: list[Latent | Sampled]
    _indices: list[np.ndarray]
    _report: Any  # the text of `fit_report_`, or the function that makes it

    # -- defined by each estimator -------------------------------------------------------------------------

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        """Return targets, with side information, as the likelihood of each latent function takes them."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> np.ndarray:
        """Check targets given by the user and return them as stored."""
        raise NotImplementedError

    def _log_unit(self, y: np.ndarray, side: Side) -> float | np.ndarray:
        """Return the log of the factor between the user's and the model's units of y, per row, for densities."""
        return 0.0

    # -- the fitted state ----------------------------------------------------------------------------------

    def _keep_names(self, X: Any) -> None:
        """Keep the column names of a `NamedArray`, which scikit-learn does not read."""
        if hasattr(self, "_names"):
            del self._names
        if names := names_of(X):
            self._names = names

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
        """A description of the fit in plain words; computed at first access, because it computes every evidence."""
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
        """Check inputs given by the user."""
        check_is_fitted(self)
        refuse_unusable_columns(X, type(self).__name__)
        refuse_missing_inputs(X, type(self).__name__)
        X = validate_data(self, X, dtype=WORKING_DTYPE, reset=False)
        check_size(X)
        return X

    def _at(self, X: Any) -> list[Mixture]:
        """Return the latent functions at new rows."""
        X = self._new_rows(X)
        return [latent.at(X) for latent in self._latents]

    def _plain(self, q: Mixture) -> Mixture:
        """Return the mixture with default side information."""
        return q

    def _latent_units(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert mean and variance from the model's units to the user's."""
        return mean, var

    def predict_latent(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of the latent function per row, with standard deviations or a covariance matrix on request.

        With more than two classes there is one latent function per class: means and standard deviations have one
        column per class, and the covariance has one leading entry per class.  With `varying`, the columns are f and the
        second function on its unconstrained scale, such as the log scale of the noise.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        return_std : bool, default=False
            Whether to return standard deviations as well.
        return_cov : bool, default=False
            Whether to return the covariance matrix of the rows as well.

        Returns
        -------
        mean : array of shape (n_rows,)
            The means, alone or followed by the standard deviations or the covariance matrix.
        """
        if return_std and return_cov:
            raise ValueError("Set return_std or return_cov, not both: standard deviations are roots of the diagonal.")
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
        """Return the latent functions; raise AttributeError if they do not have the sites that `what` needs."""
        check_is_fitted(self)
        found = [latent for latent in self._latents if isinstance(latent, Latent)]
        if len(found) < len(self._latents):
            # An AttributeError, so that hasattr is False.
            raise AttributeError(f"{what} needs Gaussian sites, which mcmc does not have; use method='ep'.")
        return found

    @property
    def models_(self) -> list[tuple[Model, Data]]:
        """The trained model and its rows per latent function, as objects of the library."""
        check_is_fitted(self)
        return [(latent.model, latent.data) for latent in self._latents]

    @property
    def samples_(self) -> HyperSamples | list[HyperSamples]:
        """The draws of method="mcmc" (a list per class for more than two classes); `to_arviz()` converts them."""
        check_is_fitted(self)
        found = [latent.samples for latent in self._latents if isinstance(latent, Sampled)]
        if not found:
            raise AttributeError(
                f"samples_ is for method='mcmc', but this model was fitted by {Method.of(self.method).name!r}."
            )
        return found[0] if len(found) == 1 else found

    @property
    def evidence_(self) -> Mapping[str, float]:
        """Evidences laplace, elbo, ep and loo at the fitted sites, in nats, summed over rows and classes.

        With inducing inputs also `tight`, a bound, and `collapsed` if it was the learning objective.  Otherwise
        `sitewise.evidence.collapsed` computes it, which takes long.
        """
        return self._evidences((*evidence.QUICK, self._learned_evidence(), Method.of(self.method).evidence))

    def _learned_evidence(self) -> Any:
        """Return the name of the evidence from which the hyperparameters were learned."""
        prior = self._with_sites("evidence_")[0].model.prior
        return Method.of(self.method).definition.objective_on(prior.structure)

    def _evidences(self, asked: Collection[Any]) -> dict[str, float]:
        """Return evidences by name, summed over rows and classes, in the units of y."""
        names = tuple(name for name in evidence.ALL if name in asked)
        parts = [latent.evidences(names) for latent in self._with_sites("evidence_")]
        units = float(np.sum(self._weight * self._log_unit(self._y, self._side)))
        return {name: sum(p[name] for p in parts) - units for name in names if name in parts[0]}

    def _by_row(self, values: np.ndarray, k: int, otherwise: Any) -> np.ndarray:
        """Return the values of distinct rows per given row; `otherwise` for rows of weight 0."""
        index = self._indices[k]
        out = np.array(values[index])
        out[index < 0] = otherwise
        return out

    @property
    def sites_(self) -> Sites | list[Sites]:
        """Site parameters nat1 and prec per training row (one copy), in the model's units; 0 for a row of weight 0.

        Joint classes have one entry per class.  Two latent functions f and g have three: along f, g and f + g.
        """
        parts = [
            (k, *pair)
            for k, lat in enumerate(self._with_sites("sites_"))
            for pair in zip(*map(np.atleast_2d, lat.sites), strict=True)
        ]
        found = [Sites(self._by_row(nat1, k, 0.0), self._by_row(prec, k, 0.0)) for k, nat1, prec in parts]
        return found[0] if len(found) == 1 else found

    @property
    def influence_(self) -> np.ndarray:
        """Influence per training row: KL(posterior ‖ posterior without one copy of the row's site), in nats.

        The two differ by a factor that depends on f at this row only, so that the divergence of the processes is the
        divergence of the marginals N(m, v) and N(m₋, v₋): ½ [(m − m₋)²/v₋ + v/v₋ − 1 − log(v/v₋)].  The influence of a
        row of weight 0 is 0; with more than two classes the divergences are added.
        """
        left = [latent.leave_out() for latent in self._with_sites("influence_")]
        return np.sum([self._by_row(one.influence, k, 0.0) for k, one in enumerate(left)], axis=0)

    def _loo_log_density(self) -> np.ndarray:
        """Return `loo_.log_density`; a subclass may compute it without the other quantities of `loo_`."""
        return self.loo_.log_density

    def _cavities(self) -> list[Mixture]:
        """Return the cavity per training row; for a row of weight 0 it is the posterior itself.

        Warns of rows without a cavity: where other rows have negative precisions (Laplace with robust noise), the
        posterior without a row's site need not be a Gaussian.
        """
        found = []
        for k, latent in enumerate(self._with_sites("loo_")):
            each = latent.by_kernel()
            found.append(Mixture.combined([self._cavity(k, one) for _, one in each], np.array([w for w, _ in each])))
        unknown = int(np.sum(np.any([np.isnan(q.mean.reshape(len(q.mean), -1)).any(axis=1) for q in found], axis=0)))
        if unknown:
            warnings.warn(
                f"Leave-one-out is NaN for {unknown} of {len(self._y)} rows, because without the row's site the "
                "posterior is not a Gaussian; a larger max_iter or another method may help.",
                UserWarning,
                stacklevel=3,
            )
        return found

    def _cavity(self, k: int, latent: Latent) -> Mixture:
        left, out = latent.leave_out(), self._indices[k] < 0
        rest = latent.at(self._X[out]) if np.any(out) else None
        mean, var = (0.0, 0.0) if rest is None else (rest.mean[:, 0], rest.var[:, 0])
        return Mixture.gaussian(
            latent.model.likelihood, self._by_row(left.mean, k, mean), self._by_row(left.var, k, var)
        )
