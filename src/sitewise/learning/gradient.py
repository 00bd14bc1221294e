"""Value and gradient of an evidence at a model, for a caller's own optimiser."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, on_host, to_host, under_trace
from sitewise.data import Data
from sitewise.evidence import Evidence
from sitewise.inference import Inference, Solution
from sitewise.inference.start import start_of
from sitewise.learning.objective import GRADIENTS, INPUTS, pulls_on_host, with_slopes
from sitewise.model import Model, check
from sitewise.parameters import walk
from sitewise.process.precision import WORKING_DTYPE, working_precision
from sitewise.sites import Sites

Evaluated = tuple[Array, Model, Solution]  # the value, its derivatives, the sites with their outcome


@dataclasses.dataclass(frozen=True)
class ValueAndGrad:
    """θ ↦ evidence(θ, λ*(θ)) and its gradient; see `value_and_grad`."""

    inference: Inference
    evidence: Evidence
    gradient: str = "implicit"
    has_aux: bool = False

    def __post_init__(self) -> None:
        if self.gradient not in GRADIENTS:
            raise ValueError(f"gradient must be one of {', '.join(GRADIENTS)}, got {self.gradient!r}.")

    def __call__(self, model: Model, data: Data, sites: Sites | None = None) -> Any:
        """(value, gradient), or with `has_aux` ((value, solution), gradient).  Inference starts from `sites`."""
        check(model, data, sites)
        if under_trace(model, data, sites):
            value, slopes, solution = _traced(self, model, data, sites)
        else:
            with working_precision():
                value, slopes, solution = self._concrete(model, data, sites)
        return ((value, solution), slopes) if self.has_aux else (value, slopes)

    def _concrete(self, model: Model, data: Data, sites: Sites | None) -> Evaluated:
        if on_host(model, data, sites) and pulls_on_host(model, (p.name for p, _ in walk(model))):
            return self.evaluate(*to_host((model, data, sites)))
        return _traced(self, *jax.tree.map(lambda a: jnp.asarray(a, WORKING_DTYPE), (model, data, sites)))

    def evaluate(self, model: Model, data: Data, sites: Sites | None) -> Evaluated:
        """Value, derivatives and solution, for either kind of arrays."""
        start = start_of(self.inference, model, data, sites)
        inputs = any(p.name == INPUTS for p, _ in walk(model))
        return with_slopes(self.inference, self.evidence, self.gradient, model, data, start, inputs=inputs)[:3]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _evaluate(setting: ValueAndGrad, model: Model, data: Data, sites: Sites | None) -> Evaluated:
    return setting.evaluate(model, data, sites)


def _refuse(*_: Any) -> Any:
    raise TypeError(
        "value_and_grad is itself the gradient and cannot be differentiated; differentiate "
        "evidence(model, data, inference.solve(model, data).sites) instead."
    )


_evaluate.defvjp(lambda *args: (_evaluate(*args), None), _refuse)
_traced = functools.partial(programs.jit, static_argnums=0)(_evaluate)


def value_and_grad(
    inference: Inference, evidence: Evidence, gradient: str = "implicit", *, has_aux: bool = False
) -> ValueAndGrad:
    """Return the function (model, data) → (value, gradient) of θ ↦ evidence(θ, λ*(θ)), for an optimiser of your own.

    λ* are the sites of `inference`.  The gradient has the form of the model: a derivative in place of every number of
    kernel, mean, likelihood and inducing inputs.

    The function may be called inside a caller's `jax.jit` and `jax.vmap`.  There the numbers are of the caller's
    precision; outside they are computed in double precision.

    Parameters
    ----------
    inference : Inference
        Finds the sites at θ.
    evidence : Evidence
        The value.
    gradient : str, default="implicit"
        "implicit" is exact for every pair; `learning.objective` describes "one_step" and "fixed".
    has_aux : bool, default=False
        Whether the result is ((value, solution), gradient), as in JAX: look at `solution.outcome`, and pass
        `solution.sites` as a third argument to start from them at the next θ.

    Returns
    -------
    function : ValueAndGrad
        Called with a model and data.
    """
    return ValueAndGrad(inference, evidence, gradient, has_aux)
