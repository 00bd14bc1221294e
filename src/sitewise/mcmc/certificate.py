"""log Z with an error bar for one model, and a verdict on the approximations beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sitewise import evidence
from sitewise.data import Data
from sitewise.inference import EP, VI, Laplace
from sitewise.inference.loop import solve
from sitewise.mcmc import points
from sitewise.mcmc.ais import Annealing
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.runtime.precision import WORKING_DTYPE, working_precision

_GOOD, _ROUGH = 0.01, 0.05  # nats a row


@dataclasses.dataclass(frozen=True)
class LogEvidence:
    """log Z ± se; lower ± lower_se from below and upper ± upper_se from above (NaN without a reverse run).

    `ess` is the effective number of forward chains.
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


def log_evidence(
    model: Model,
    data: Data,
    *,
    annealing: Annealing | None = None,
    steps: int = 256,
    max_steps: int = 8192,
    target_se: float = 0.1,
    seed: int = 0,
    done: Callable[[str], None] | None = None,
) -> LogEvidence:
    """log Z by annealing, with four times the steps until the target is met or `max_steps` is spent.

    `done` is called after every step with a few words that say what was done.
    """
    settings = Annealing() if annealing is None else annealing
    with working_precision():
        trainable = Trainable.of(model)
        vector = np.asarray(trainable.to_vector(model), WORKING_DTYPE)[None]
    found = points.sample_points(
        model, data, vector, trainable=trainable, annealing=settings, steps=steps, max_steps=max_steps,
        target_se=target_se, draws=1, seed=seed, block=1, done=done,
    )  # fmt: skip
    tight, used = bool(found.tight[0]), int(found.steps[0])
    reason = f"target met with {used} steps" if tight else f"budget of {max_steps} steps spent above the target"
    names = ("log_z", "se", "ess", "lower", "lower_se", "upper", "upper_se")
    numbers = {name: float(getattr(found, name)[0]) for name in names}
    return LogEvidence(**numbers, steps=used, tight=tight, reason=reason)


@dataclasses.dataclass(frozen=True)
class Certificate:
    """The approximations' evidences beside log Z, all in nats; `verdicts` by name of the evidence."""

    mcmc: LogEvidence
    evidences: dict[str, float]
    converged: dict[str, bool]
    rows: float

    @property
    def bound_holds(self) -> bool:
        """ELBO ≤ log Z, up to three standard errors."""
        return self.evidences["vi (elbo)"] <= self.mcmc.log_z + 3 * self.mcmc.se + 1e-6

    @property
    def verdicts(self) -> dict[str, str]:
        """good: within 0.01 nats a row of log Z; rough: within 0.05; else poor.  unclear: the error crosses a limit."""
        error = 2 * self.mcmc.se / self.rows
        out = {}
        for name, value in self.evidences.items():
            gap = abs(value - self.mcmc.log_z) / self.rows
            word = "good" if gap <= _GOOD else "rough" if gap <= _ROUGH else "poor"
            if any(abs(gap - edge) < error for edge in (_GOOD, _ROUGH)):
                word = "unclear"
            out[name] = word if self.converged[name] else f"{word}, not converged"
        return out

    def to_plain(self) -> dict[str, Any]:
        """The same as numbers, text and maps, for reports and JSON."""
        return {
            "mcmc": dataclasses.asdict(self.mcmc),
            "evidences": self.evidences,
            "verdicts": self.verdicts,
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
            gap = self.evidences[name] - m.log_z
            lines.append(
                f"  {name:12s} {self.evidences[name]:12.3f}  off by {gap:9.3f} ({gap / self.rows:8.5f} a row): {word}"
            )
        lines.append(
            "ELBO ≤ log Z holds."
            if self.bound_holds
            else "ELBO > log Z: the annealing missed part of the posterior. Raise chains or max_steps."
        )
        good = [name for name, word in self.verdicts.items() if word == "good"]
        if not m.tight:
            lines.append("The error bar is wider than requested, so that verdicts are uncertain: raise max_steps.")
        lines.append(f"Trust {', '.join(good)} here." if good else "None of the approximations is good here: use mcmc.")
        return "\n".join(lines)


def evidence_certificate(model: Model, data: Data, **settings: Any) -> Certificate:
    """Which evidences can be trusted for this model and these data; `settings` go to `log_evidence`."""
    pairs = {
        "vi (elbo)": (VI(), evidence.elbo),
        "hybrid": (VI(), evidence.ep),
        "ep": (EP(), evidence.ep),
        "laplace": (Laplace(), evidence.laplace),
    }
    found = log_evidence(model, data, **settings)
    with working_precision():
        padded = data.to_bucket()
        values, converged = {}, {}
        for name, (method, read) in pairs.items():
            solution = solve(method, model, padded)
            values[name] = float(read(model, padded, solution.sites))
            converged[name] = solution.outcome.ok
    return Certificate(found, values, converged, float(np.sum(np.asarray(data.weight))))
