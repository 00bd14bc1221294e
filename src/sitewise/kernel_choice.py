"""The kernels that an estimator makes by name, `PerColumn` (one lengthscale per column), and `Varying` parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from sitewise.kernels import Kernel
from sitewise.means import Mean
from sitewise.parts import Part
from sitewise.setting import Setting

__all__ = ["PerColumn", "Varying"]

# The kernels behind the names that an estimator takes as `kernel`.
NAMED_KERNELS = {
    "isotropic": "Matérn 5/2 with one lengthscale for all columns",
    "shrunk": "one lengthscale per column, shrunk towards a common one",
    "ard": "one free lengthscale per column",
    "additive": "a sum of effects of single columns and of pairs of columns",
    "main_effects": "a sum of effects of single columns",
    "laplacian": "exponential of the L1 distance, with shrunk lengthscales, for thresholds and rules",
    "average": "three to five kernels, whose predictions are weighted by evidence^0.25",
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PerColumn(Setting):
    """A kernel with one lengthscale per column of X (ARD), each starting from the lengthscale of the given kernel.

    Parameters
    ----------
    kernel : Kernel
        A kernel of `sitewise.kernels` with a lengthscale.
    shrunk : bool, default=False
        Whether the lengthscales are shrunk towards a common one (`kernels.Shrunk`) instead of being free.

    Examples
    --------
    >>> from sitewise import GPRegressor, PerColumn, kernels
    >>> model = GPRegressor(PerColumn(kernels.RBF(2.0), shrunk=True))
    """

    POSITIONAL: ClassVar[str] = "kernel"

    kernel: Kernel
    shrunk: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"PerColumn takes a kernel of sitewise.kernels, such as Matern52(); got {self.kernel!r}.")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Varying(Setting):
    """A parameter of the likelihood that depends on x through a second latent function.

    Parameters
    ----------
    parameter : str
        The parameter, such as "scale" of Gaussian noise or "inflation" of zero-inflated counts.
    kernel : Kernel, default=None
        The kernel of the second function; `active_dims` chooses its columns.  None is a Matérn 5/2 kernel of all
        columns with one lengthscale.
    structure : Part or sequence of Part, default=None
        The parts of the second function, if the structure of the estimator is a sum of parts, too.
    mean : Mean, default=None
        The mean of the second function; None is a learned constant.

    Examples
    --------
    >>> from sitewise import GPRegressor, Varying, kernels
    >>> model = GPRegressor(varying=Varying("scale", kernel=kernels.Matern52(active_dims=(1,))))
    """

    POSITIONAL: ClassVar[str] = "parameter"

    parameter: str
    kernel: Kernel | None = None
    structure: Part | Sequence[Part] | None = None
    mean: Mean | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parameter, str):
            raise ValueError(f"varying names a parameter of the likelihood, such as 'scale'; got {self.parameter!r}.")
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise ValueError(f"Varying takes a kernel of sitewise.kernels, such as Matern52(); got {self.kernel!r}.")
        if self.structure is not None and not isinstance(self.structure, Part | list | tuple):
            raise ValueError(f"The structure of Varying is a list of parts such as Linear(0); got {self.structure!r}.")
        if self.mean is not None and not isinstance(self.mean, Mean):
            raise ValueError(f"Varying takes a mean of sitewise.means, such as Constant(); got {self.mean!r}.")
        if self.kernel is not None and self.structure is not None:
            raise ValueError("The parts of structure replace the kernel of Varying; leave the kernel out.")

    @staticmethod
    def of(value: Any) -> Varying | None:
        """Return the value of an estimator's `varying`, which may be a name or None."""
        return value if value is None or isinstance(value, Varying) else Varying(value)


def averages(kernel: Any) -> bool:
    """Return whether an estimator's `kernel` is an average over several kernels."""
    return isinstance(kernel, list | tuple) or (isinstance(kernel, str) and kernel == "average")
