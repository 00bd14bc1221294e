"""Posteriors of coefficients and terms of a fitted formula, on the scale of the latent function in the units of y.

All are linear in the parts of f, which are jointly Gaussian given the sites.  The linear part is Σ b_j (x_j − c_j) with
the means c of the columns, and Σ b_j x_j is reported.  A smooth function is identified up to a constant, so that it is
reported minus its average over the training rows.  The intercept is f without groups at zeros of the linear columns,
averaged over the smooth functions.  With several Gaussians (hyperparameters averaged over), means
and variances are those of the mixture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from sitewise import means
from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.formula.design import INTERCEPT, LINEAR, Design, FormulaTerm
from sitewise.model import Model
from sitewise.process.precision import working_precision

MAX_CENTRE_ROWS = 1000  # training rows over which a smooth term is averaged
BLOCK_ROWS = 500  # new rows whose covariances with the average are computed at a time


def parts_of_function(model: Model, function: int) -> tuple[Any, ...]:
    """Return the parts of the first (0) or second (1) latent function of a model."""
    kernels: Any = model.kernels
    return (kernels[function] if isinstance(kernels, list) else kernels).parts


class TermPosteriors:
    """Moments of the terms of one latent function of a fitted formula; the second is a parameter of the likelihood."""

    def __init__(self, estimator: FittedEstimator, design: Design, function: int = 0) -> None:
        self.estimator, self.design, self.function = estimator, design, function
        self.terms = design.terms_of(function)
        self.level, self.scale = estimator._y_units()
        if function:  # the logarithm of a scale, or a number without units
            self.level, self.scale = float(np.log(self.scale)), 1.0
        (latent,) = estimator._latents
        qs, self.weight = latent.posteriors()
        several = bool(latent.model.likelihood.functions)
        self.functions: list[Any] = [q.latent.function(function) if several else q.latent for q in qs]

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts of the function, with their hyperparameters."""
        return parts_of_function(self.estimator._latents[0].model, self.function)

    def reach(self, level: float) -> float:
        """Return the half width of an interval in standard deviations."""
        return float(ndtri(0.5 + level / 2))

    def _mixed(self, moments: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of a mixture, given means and variances, in the units of y."""
        mean = np.einsum("k,k...->...", self.weight, [m for m, _ in moments])
        second = np.einsum("k,k...->...", self.weight, [v + m**2 for m, v in moments])
        return self.scale * mean, self.scale * np.sqrt(np.maximum(second - mean**2, 0.0))

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the coefficients of the linear columns."""
        term = next(one for one in self.terms if one.kind == LINEAR)
        with working_precision():
            each = [self._coefficients(f, term) for f in self.functions]
        return self._mixed([(mean, np.diag(cov)) for mean, cov in each])

    def _coefficients(self, f: Any, term: FormulaTerm) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of the coefficients b: the linear part is b_j where x − c is 1 in column j."""
        rows = np.zeros((len(term.columns), self.estimator.n_features_in_))
        rows[:, self._places(term)] = self.parts[term.parts[0]].centre + np.eye(len(rows))
        mean, cov = f.part(term.parts, means.Zero()).joint(rows)
        return np.asarray(mean), np.asarray(cov)

    def _places(self, term: FormulaTerm) -> list[int]:
        """Return the numbers of the columns of a term among the inputs."""
        names = self.estimator._given_names()
        return [names.index(column) for column in term.columns]

    def background(self) -> tuple[np.ndarray, np.ndarray]:
        """Return training rows over which smooth terms are averaged, and their shares in the average."""
        weight = self.estimator._weight
        rows = np.flatnonzero(weight > 0)
        if len(rows) > MAX_CENTRE_ROWS:
            rows = rows[np.random.default_rng(0).choice(len(rows), MAX_CENTRE_ROWS, replace=False)]
        return self.estimator._X[rows], weight[rows] / np.sum(weight[rows])

    def intercept(self) -> tuple[float, float]:
        """Return moments of the intercept: f without groups, at zeros of linear columns, averaged over smooth terms."""
        linear = [term for term in self.terms if term.kind == LINEAR]
        chosen = tuple(part for term in self.terms if term.centred or term.kind == INTERCEPT for part in term.parts)
        X, share = self.background()
        with working_precision():
            found = [self._average(f, chosen, linear, X, share) for f in self.functions]
            shift = np.average([float(np.asarray(f.mean.at(np.zeros_like(X[:1])))[0]) for f in self.functions])
        mean, sd = self._mixed([(np.asarray(m), np.asarray(v)) for m, v in found])
        return float(mean) + self.level + self.scale * float(shift), float(sd)

    def _average(
        self, f: Any, chosen: tuple[int, ...], linear: list[FormulaTerm], X: np.ndarray, share: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of the average of the chosen parts over X, plus the linear part at zeros of its columns."""
        places = [place for term in linear for place in self._places(term)]
        used = {place for term in self.terms if term.centred for place in self._places(term)}
        if not used.isdisjoint(places):  # the linear part and a smooth one are taken at different rows
            mean, cov = f.parts_joint(np.concatenate([X, np.zeros_like(X[:1])]), [chosen, linear[0].parts])
            weight = np.zeros(mean.shape)
            weight[0, : len(X)], weight[1, -1] = share, 1.0
            return np.sum(weight * mean), np.einsum("pn,pnqm,qm->", weight, cov, weight, optimize=True)
        rows = X.copy()
        rows[:, places] = 0.0
        every = chosen + tuple(part for term in linear for part in term.parts)
        mean, var = f.part(every, means.Zero()).sums(rows[None], share[None, None, None])
        return mean[0, 0], var[0, 0]

    def effective_parameters(self) -> dict[str, float]:
        """Return the effective number of parameters per term."""
        latent: Any = self.estimator._latents[0]  # with sites: sums of parts are not sampled
        sites = latent.sites.scaled(latent.data.weight)
        sets, prec = [term.parts for term in self.terms], np.asarray(sites.prec)
        with working_precision():
            each = [f.effective_parameters(latent.data.X, prec, sets) for f in self.functions]
        used = np.average(each, axis=0, weights=self.weight)
        return {term.name: float(one) for term, one in zip(self.terms, used, strict=True)}

    def term(self, term: FormulaTerm, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of a term at rows of inputs."""
        if term.kind == INTERCEPT:
            mean, sd = self.intercept()
            return np.full(len(X), mean), np.full(len(X), sd)
        with working_precision():
            if term.kind == LINEAR:
                return self._mixed(self._linear(term, X[:, self._places(term)]))
            parts = [f.part(term.parts, means.Zero()) for f in self.functions]
            each = [self._centred(part, X) if term.centred else _marginals(part, X) for part in parts]
        return self._mixed(each)

    def spread(self, term: FormulaTerm) -> float:
        """Return the posterior mean of the variance of a term over the training rows: E Σ_i (f_i − f̄)² / n.

        Every term is taken minus its average: the variance of a level that is common to all rows, such as a slope times
        the distance of a column from zero, is none of it.
        """
        X, share = self.background()
        with working_precision():
            if term.kind == LINEAR:
                own = X[:, self._places(term)]
                each = self._linear(term, own - share @ own)
            else:
                each = [self._centred(f.part(term.parts, means.Zero()), X) for f in self.functions]
        mean, sd = self._mixed(each)
        return float(share @ (mean**2 + sd**2))

    def _linear(self, term: FormulaTerm, own: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return moments of Σ b_j x_j at rows x of the linear columns, per function."""
        found = [self._coefficients(f, term) for f in self.functions]
        return [(own @ m, np.einsum("ni,ij,nj->n", own, C, own)) for m, C in found]

    def _centred(self, part: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of f_p(x) minus its average over the background."""
        rows, share = self.background()
        distinct, place = np.unique(X, axis=0, return_inverse=True)
        found = []
        for at in range(0, len(distinct), BLOCK_ROWS):
            block = distinct[at : at + BLOCK_ROWS]
            weight = np.concatenate([np.eye(len(block)), np.tile(-share, (len(block), 1))], axis=1)
            mean, var = part.sums(np.concatenate([block, rows])[None], weight[:, None, None, :])
            found.append((mean[:, 0], var[:, 0]))
        mean, var = (np.concatenate(column) for column in zip(*found, strict=True))
        place = place.reshape(-1)
        return mean[place], var[place]


def _marginals(part: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    blocks = [part.marginals(X[at : at + BLOCK_ROWS]) for at in range(0, len(X), BLOCK_ROWS)]
    mean, var = (np.concatenate([np.asarray(block[i]) for block in blocks]) for i in (0, 1))
    return mean, var
