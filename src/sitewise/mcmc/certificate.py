"""Evidence certificate: log Z of one model with a standard error, and verdicts on the approximate evidences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sitewise import evidence
from sitewise.data import Data
from sitewise.inference import EP, VI, Laplace
from sitewise.inference.solve import solve
from sitewise.mcmc import points
from sitewise.mcmc.ais import Annealing
from sitewise.model import Model, check
from sitewise.parameters import Trainable
from sitewise.process.precision import WORKING_DTYPE, working_precision

WORDS = ("good", "rough", "poor")
LIMITS = (0.01, 0.05)  # nats per row: from good to rough, and from rough to poor
SE_PER_ROW = 0.002  # nats per row
_MAX_SE = 0.3  # nats: for thousands of rows, SE_PER_ROW alone would be too coarse to compare models
_SIGMAS = 2.0  # half the width of intervals, in standard errors
_MAX_STEP_FACTOR = 1000  # times the present steps, beyond which a longer run is not recommended


@dataclasses.dataclass(frozen=True)
class LogEvidence:
    """log Z with a standard error, and estimates from below and above.

    Attributes
    ----------
    log_z : float
        The estimate, in nats.
    se : float
        Its standard error.
    ess : float
        The effective number of forward chains.
    lower : float
        The estimate from the forward run, on average too low.
    lower_se : float
        Its standard error.
    upper : float
        The estimate from the reverse run, on average too high; NaN without a reverse run.
    upper_se : float
        Its standard error.
    steps : int
        The number of temperatures.
    tight : bool
        Whether the target of the standard error was reached.
    reason : str
        How the estimate ended.
    """

    log_z: float
    se: float
    ess: float
    lower: float
    lower_se: float
    upper: float
    upper_se: float
    steps: int
    tight: bool
    reason: str

    @property
    def interval(self) -> tuple[float, float]:
        """log Z ± 2 se, extended to lower + 2 lower_se and to upper − 2 upper_se if these lie outside.

        On average lower ≤ log Z ≤ upper, with differences that fall with the number of steps.  If lower and upper stay
        apart, the chains have not converged, which `se` does not show.
        """
        low, high = self.log_z - _SIGMAS * self.se, self.log_z + _SIGMAS * self.se
        low = np.fmin(low, self.lower + _SIGMAS * self.lower_se)
        high = np.fmax(high, self.upper - _SIGMAS * self.upper_se)
        return float(low), float(high)


def log_evidence(
    model: Model,
    data: Data,
    *,
    annealing: Annealing | None = None,
    steps: int = 256,
    max_steps: int = 8192,
    se_per_row: float = SE_PER_ROW,
    seed: int = 0,
    done: Callable[[str], None] | None = None,
) -> LogEvidence:
    """Estimate log Z (the exact log marginal likelihood) by annealed importance sampling.

    The steps are multiplied by four until the target or `max_steps` is reached.

    Parameters
    ----------
    model : Model
        The model, at given hyperparameters.
    data : Data
        The rows.
    annealing : Annealing, default=None
        The settings; None for the defaults.
    steps : int, default=256
        Temperatures of the first run.
    max_steps : int, default=8192
        The largest number of temperatures.
    se_per_row : float, default=0.002
        The target of the standard error: this number of nats times the number of rows (the sum of the weights), but at
        most 0.3 nats.
    seed : int, default=0
        Seed of the chains.
    done : function, default=None
        Called after every step with a short description of the step.

    Returns
    -------
    estimate : LogEvidence
        log Z with its standard error.
    """
    check(model, data)
    settings = Annealing() if annealing is None else annealing
    with working_precision():
        trainable = Trainable.of(model)
        vector = np.asarray(trainable.to_vector(model), WORKING_DTYPE)[None]
    target = min(se_per_row * float(np.sum(np.asarray(data.weight))), _MAX_SE)
    found = points.sample_points(
        model, data, vector, trainable=trainable, annealing=settings, steps=steps, max_steps=max_steps,
        target_se=target, draws=1, seed=seed, block=1, done=done,
    )  # fmt: skip
    tight, used = bool(found.tight[0]), int(found.steps[0])
    reason = f"target met with {used} steps" if tight else f"target not met with the maximum of {max_steps} steps"
    names = ("log_z", "se", "ess", "lower", "lower_se", "upper", "upper_se")
    numbers = {name: float(getattr(found, name)[0]) for name in names}
    return LogEvidence(**numbers, steps=used, tight=tight, reason=reason)


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Certificate: approximate evidences compared with log Z by MCMC, all in nats.

    `verdicts` and `remarks` are by name of the evidence.

    Attributes
    ----------
    mcmc : LogEvidence
        log Z with its standard error.
    evidences : dict
        Name → approximate evidence.
    converged : dict
        Name → whether its inference converged.
    rows : float
        The sum of the weights.
    """

    mcmc: LogEvidence
    evidences: dict[str, float]
    converged: dict[str, bool]
    rows: float

    @property
    def bound_holds(self) -> bool:
        """Whether ELBO ≤ log Z, up to three standard errors."""
        return self.evidences["vi (elbo)"] <= self.mcmc.log_z + 3 * self.mcmc.se + 1e-6

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of log Z: from annealing, and not below the ELBO, which is a lower bound."""
        low, high = self.mcmc.interval
        floor = self.evidences["vi (elbo)"]
        return (max(low, floor), max(high, floor)) if self.bound_holds else (floor, math.inf)

    def possible(self, name: str) -> tuple[str, ...]:
        """Return the verdicts that are possible for an evidence, over all log Z in the interval."""
        low, high = (self.evidences[name] - end for end in self.interval)
        nearest = 0.0 if high <= 0 <= low else min(abs(low), abs(high))
        farthest = max(abs(low), abs(high))
        first, last = (int(np.searchsorted(LIMITS, distance / self.rows)) for distance in (nearest, farthest))
        return WORDS[first : last + 1]

    @property
    def verdicts(self) -> dict[str, str]:
        """good: within 0.01 nats per row of log Z; rough: within 0.05; poor: beyond; undecided: several possible."""
        words = {name: self.possible(name) for name in self.evidences}
        return {name: found[0] if len(found) == 1 else "undecided" for name, found in words.items()}

    @property
    def remarks(self) -> dict[str, str]:
        """How to decide an undecided verdict, and whether the sites did not converge; "" if neither applies."""
        out = {}
        for name, word in self.verdicts.items():
            parts = [self._how_to_decide(name)] if word == "undecided" else []
            parts += [] if self.converged[name] else ["its sites did not converge"]
            parts += [] if math.isfinite(self.evidences[name]) else ["it is not finite at these sites"]
            out[name] = "; ".join(parts)
        return out

    def _how_to_decide(self, name: str) -> str:
        between = " and ".join(self.possible(name)[:: len(self.possible(name)) - 1])
        wanted = self._precision_to_decide(name)
        if wanted is None:
            return f"between {between}: annealing did not determine log Z"
        error, away, times = wanted
        text = f"between {between}: the error is ± {error:.2g} nats per row, and the limit is {away:.2g} away"
        if times > _MAX_STEP_FACTOR:
            return f"{text}, too close to decide"
        return f"{text}; about {math.ceil(times)} times the steps ({self._settings(away, times)}) would decide it"

    def _precision_to_decide(self, name: str) -> tuple[float, float, float] | None:
        """Return half the width of the interval and the distance to the nearest limit, in nats per row, and the factor
        of the steps that decides the verdict.

        se ∝ 1/√steps: (e/d)² times the steps reduce an error e to a distance d.
        """
        low, high = self.interval
        if not math.isfinite(high - low):
            return None
        middle = max(self.mcmc.log_z, low)
        error = max(high - middle, middle - low) / self.rows
        gap = abs(self.evidences[name] - middle) / self.rows
        away = min(abs(gap - limit) for limit in LIMITS)
        return error, away, max((error / max(away, 1e-12)) ** 2, 1.0)

    def _settings(self, away: float, times: float) -> str:
        steps = 2 ** math.ceil(math.log2(times * self.mcmc.steps))
        return f"se_per_row={0.95 * away / _SIGMAS:.2g}, max_steps={steps}"

    @property
    def conclusion(self) -> str:
        """Recommendation that follows from the verdicts."""

        def names_of(word: str) -> str:
            any_sites = word == "undecided"
            return ", ".join(n for n, v in self.verdicts.items() if v == word and (any_sites or self.converged[n]))

        good, rough, undecided = names_of("good"), names_of("rough"), names_of("undecided")
        rest = f" Undecided: {undecided}." if undecided else ""
        if good:
            return f"Trust {good} here.{rest}"
        if undecided:
            return f"No approximation is known to be good here: use mcmc, or decide with more steps.{rest}"
        what = "both good and converged" if "good" in self.verdicts.values() else "good"
        return f"None of the approximations is {what} here: use mcmc.{f' Rough: {rough}.' if rough else ''}"

    def to_plain(self) -> dict[str, Any]:
        """Return the certificate as plain numbers, strings and dictionaries, for reports and JSON."""
        return {
            "mcmc": dataclasses.asdict(self.mcmc),
            "evidences": self.evidences,
            "verdicts": self.verdicts,
            "remarks": self.remarks,
            "rows": self.rows,
            "bound_holds": self.bound_holds,
            "words": str(self),
        }

    def __str__(self) -> str:
        m = self.mcmc
        lines = [
            f"log Z = {m.log_z:.3f} ± {m.se:.3f} ({m.lower:.3f} ± {m.lower_se:.3f} from below, {m.upper:.3f} ± "
            f"{m.upper_se:.3f} from above; {m.reason})"
        ]
        for name, word in self.verdicts.items():
            gap, remark = self.evidences[name] - m.log_z, self.remarks[name]
            lines.append(
                f"  {name:12s} {self.evidences[name]:12.3f}  off by {gap:9.3f} ({gap / self.rows:8.5f} per row): {word}"
                f"{', ' if remark else ''}{remark}"
            )
        lines.append(
            "ELBO ≤ log Z holds."
            if self.bound_holds
            else "ELBO > log Z: the annealing missed part of the posterior. Increase chains or max_steps."
        )
        return "\n".join([*lines, self.conclusion])


def evidence_certificate(model: Model, data: Data, **settings: Any) -> Certificate:
    """Compare approximate evidences of a model and data with log Z by MCMC.

    Parameters
    ----------
    model : Model
        The model, at given hyperparameters.
    data : Data
        The rows.
    **settings
        Further arguments of `log_evidence`.

    Returns
    -------
    certificate : Certificate
        With `verdicts` and a `conclusion`.
    """
    check(model, data)
    pairs = {
        "vi (elbo)": (VI(), evidence.elbo),
        "hybrid": (VI(), evidence.ep),
        "ep": (EP(), evidence.ep),
        "laplace": (Laplace(), evidence.laplace),
    }
    if not model.likelihood.curved:
        del pairs["laplace"]
    if model.likelihood.latents > 1:
        del pairs["ep"]
    with working_precision():
        padded = data.to_bucket()
        values, converged = {}, {}
        for name, (method, read) in pairs.items():
            solution = solve(method, model, padded)
            values[name] = float(read(model, padded, solution.sites))
            converged[name] = solution.outcome.ok
    found = log_evidence(model, data, **settings)
    return Certificate(found, values, converged, float(np.sum(np.asarray(data.weight))))
