"""Append rows to a fitted time series: inference continues at constant hyperparameters.

New rows change the posterior at earlier rows, and so the sites of all rows; in a series the change dies out with the
distance.  `Running.append` solves for the sites of the new rows and of some rows before them, given the posterior of
all earlier rows (`LatentPosterior.tail`).  It takes more and more of the rows before, until the joint posterior of the
rows whose sites are held fixed moves by less than a tenth of the tolerance of inference, in standard deviations; that
bound is computed.  The result is then equal to inference on all rows, to that tolerance, at a cost that depends on the
new rows and the memory of the process, not on the number of earlier rows.  (Arrays are copied.)  For a process that
never forgets (a constant, an undamped oscillation) all rows are solved for.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sitewise.arrays.engine import on_host, to_host
from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.loop import iterate
from sitewise.inference.solve import solve
from sitewise.inference.start import first_sites
from sitewise.model import Model, check
from sitewise.predict import Posterior, posterior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import Outcome

FIRST_ROWS_BEFORE = 128  # rows before the new rows that are solved for at first
GROWTH = 4  # factor of their number if they do not suffice
SHARE_OF_TOLERANCE = 0.1  # by which the rows before may move


@dataclasses.dataclass(frozen=True)
class Running:
    """Online inference for time series: a model with the rows so far, in the order of time; start with `Running.of`.

    Attributes
    ----------
    inference : Inference
        Finds the sites of new rows.
    posterior : Posterior
        Predictions, given the rows so far.
    data : Data
        The rows so far.
    sites : Sites
        The sites of the rows so far.
    outcome : Outcome
        The outcome of inference at the last step.
    solved : int
        The number of rows whose sites were solved for at the last step.
    moved : float
        The bound on how far the other sites moved, in standard deviations.
    """

    inference: Inference
    posterior: Posterior
    data: Data
    sites: Sites
    outcome: Outcome
    solved: int
    moved: float = 0.0

    @staticmethod
    def of(inference: Inference, model: Model, data: Data, sites: Sites | None = None) -> Running:
        """Inference on the first rows, from `sites` if given."""
        check(model, data, sites)
        data = to_host(data)
        order = model.prior.order(data.X)
        start = first_sites(model.likelihood, data) if sites is None else to_host(sites)
        return _all_rows(inference, model, _taken(data, order), Sites(*(a[..., order] for a in start)))

    @property
    def model(self) -> Model:
        latent: Any = self.posterior.latent
        return Model(latent.prior, self.posterior.likelihood)

    def append(self, more: Data) -> Running:
        """With further rows.  Rows that are not all after the last one make inference run on all rows once more, from
        the present sites; so do priors without `LatentPosterior.tail`, and an accelerator."""
        model = self.model
        check(model, more)
        more = to_host(more)
        if goes_on(self.posterior, more.X):
            found = self._tail(_taken(more, model.prior.order(more.X)))
            if found is not None:
                return found
        data = _both(self.data, more)
        start = Sites(*(np.concatenate(pair, axis=-1) for pair in zip(self.sites, _first(model, more), strict=True)))
        return Running.of(self.inference, model, data, start)

    def _tail(self, more: Data) -> Running | None:
        """The series that goes on; None where inference did not converge."""
        q = self.posterior.latent
        likelihood, count = self.posterior.likelihood, self.data.rows
        tol = self.inference.tolerance(np.float64)
        with working_precision():
            new = _first(self.model, more)
            before = FIRST_ROWS_BEFORE
            while True:
                cut = count - before if before < count else 0
                of = q.tail(cut, more.X)
                data = _both(_taken(self.data, slice(cut, None)), more)
                start = Sites(*(np.concatenate([a[cut:], b]) for a, b in zip(self.sites, new, strict=True)))
                solution = iterate(self.inference, likelihood, of.gram, data, start, True).solution
                if not solution.outcome.settled:
                    return None
                weighted = solution.sites.scaled(data.weight)
                out = of.gram.condition_with_factor(weighted, None)[1]
                moved = of.moved(out)
                if moved <= SHARE_OF_TOLERANCE * tol or cut == 0:
                    break
                before *= GROWTH
            latent = of.joined(weighted, out)
        sites = Sites(*(np.concatenate([a[:cut], b]) for a, b in zip(self.sites, solution.sites, strict=True)))
        return Running(
            self.inference,
            Posterior(latent, likelihood),
            _both(self.data, more),
            sites,
            solution.outcome,
            data.rows,
            moved,
        )


def goes_on(q: Posterior, X: np.ndarray) -> bool:
    """Whether `Running.append` can add these rows without inference on all rows."""
    return on_host() and q.latent.appends(X)


def _all_rows(inference: Inference, model: Model, data: Data, start: Sites) -> Running:
    with working_precision():
        solution = solve(inference, model, data, start)
        sites = Sites(*(np.asarray(a) for a in solution.sites))
        return Running(inference, posterior(model, data, sites), data, sites, solution.outcome, data.rows)


def _first(model: Model, data: Data) -> Sites:
    with working_precision():
        return Sites(*(np.asarray(a) for a in first_sites(to_host(model).likelihood, data)))


def _taken(data: Data, rows: Any) -> Data:
    return Data(data.X[rows], data.y[rows], data.weight[rows], fractional=data.fractional)


def _both(one: Data, other: Data) -> Data:
    X, y, weight = (np.concatenate([getattr(d, name) for d in (one, other)]) for name in ("X", "y", "weight"))
    return Data(X, y, weight, fractional=one.fractional or other.fractional)
