"""The kernel that kernel=None stands for: an average of kernels where that takes seconds, otherwise a single kernel."""

from __future__ import annotations

from typing import NamedTuple

from sitewise.estimators.candidates import MAX_COLUMNS
from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.learning.nested import Nested
from sitewise.likelihoods import Likelihood
from sitewise.methods import Method
from sitewise.structures import Auto, Full, structure_of

MAX_AVERAGED_ROWS = 2_000  # rows times latent functions up to which the default is an average


class DefaultKernel(NamedTuple):
    """The name of the default kernel, an entry of `NAMED_KERNELS`, and why it is a single one; "" for an average."""

    name: str
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The sentence of the fit report."""
        if not self.reason:
            return "Default kernel: an average; kernel='shrunk' fits a single kernel in a fifth to a half of the time."
        return f"Default kernel: {self.name!r} instead of an average, because {self.reason}."


def default_kernel(
    estimator: FittedEstimator, likelihood: Likelihood, rows: int, columns: int, functions: int = 1
) -> DefaultKernel:
    """Return the kernel that kernel=None stands for.

    The average is for full GPs up to `MAX_AVERAGED_ROWS` rows, and where no other setting is about one kernel.  MCMC
    has one shared lengthscale, because sampling is slow with many hyperparameters, and so has Algorithm 1, which has no
    priors.

    Parameters
    ----------
    estimator : GPClassifier, GPRegressor or GPOrdinal
        The estimator with its settings.
    likelihood : Likelihood
        The likelihood of a row.
    rows, columns : int
        The numbers of distinct rows, and of columns of the kernel.
    functions : int, default=1
        The number of latent functions, each of which takes its own time.
    """
    method, structure = Method.of(estimator.method), structure_of(estimator.structure)
    if method.definition.samples or method.definition.learner is not Nested:
        return DefaultKernel("isotropic", f"method={method.name!r} learns a single kernel with few hyperparameters")
    name = "shrunk" if 1 < columns <= MAX_COLUMNS else "isotropic"
    given = [
        key for key in ("groups", "hyperparameters", "varying") if getattr(estimator, key, None) is not None
    ]  # fmt: skip
    given += ["integrate"] * (estimator.integrate != "auto") + ["warm_start"] * bool(estimator.warm_start)
    given += ["class_kernels"] * (getattr(estimator, "class_kernels", "shared") == "own")
    if columns == 1:
        return DefaultKernel(name, "there is one column")
    if given:
        return DefaultKernel(name, f"{given[0]} is a setting of a single kernel")
    if likelihood.functions:
        return DefaultKernel(name, "the likelihood has two latent functions")
    if not isinstance(structure, Auto | Full):
        return DefaultKernel(name, f"the structure is {structure!r}")
    if rows * functions > MAX_AVERAGED_ROWS:
        many = f"{rows} rows" + (f" of {functions} classes" if functions > 1 else "")
        return DefaultKernel(name, f"{many} are more than {MAX_AVERAGED_ROWS}")
    return DefaultKernel("average")
