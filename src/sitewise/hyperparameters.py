"""Settings of the hyperparameters: learned or held fixed, bounds, priors, ties."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sitewise.hyperpriors import HyperPrior
from sitewise.parameters import Groups
from sitewise.setting import Setting

__all__ = ["Hyperparameters"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Hyperparameters(Setting):
    """Which hyperparameters of kernel, likelihood and mean are learned or held fixed; their bounds, priors and ties.

    Names are those of `sitewise.parameters`, such as "kernel.lengthscale", or patterns such as "kernel.*".

    Parameters
    ----------
    bounds : dict, default=None
        Name or pattern → (low, high).
    priors : dict, default=None
        Name or pattern → a prior of `sitewise.hyperpriors`.  With method="mcmc" a positive hyperparameter without a
        prior gets a wide one, log θ ~ N(log of its starting value, 2²).
    fixed : str or sequence of str, default=None
        Hyperparameters that are held fixed; "*" holds all of them.
    train : str or sequence of str, default=None
        Hyperparameters that are learned although they are held fixed by default, such as "likelihood.df".
    tied : sequence, default=None
        Groups of hyperparameters that share one value, as in [("kernel.parts.0.lengthscale",
        "kernel.parts.1.lengthscale")] or ["kernel.parts.*.lengthscale"].

    Examples
    --------
    >>> from sitewise import Hyperparameters
    >>> Hyperparameters(fixed="kernel.variance", bounds={"kernel.lengthscale": (0.1, 10.0)})
    Hyperparameters(bounds={'kernel.lengthscale': (0.1, 10.0)}, fixed="kernel.variance")

    See Also
    --------
    hyperpriors : the priors.
    parameters : names and values of the hyperparameters of a model.
    """

    bounds: Mapping[str, tuple[float, float]] | None = None
    priors: Mapping[str, HyperPrior] | None = None
    fixed: str | Sequence[str] | None = None
    train: str | Sequence[str] | None = None
    tied: Groups | None = None

    def __post_init__(self) -> None:
        for name in ("bounds", "priors"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, Mapping):
                raise ValueError(f"{name} must be a dict by the names of hyperparameters; got {given!r}.")
        for name in ("fixed", "train", "tied"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, Iterable):
                raise ValueError(f"{name} must be a name or a list of names of hyperparameters; got {given!r}.")

    @staticmethod
    def of(value: Hyperparameters | None) -> Hyperparameters:
        """Return the value of an estimator's `hyperparameters`; None stands for the defaults."""
        if value is None:
            return Hyperparameters()
        if not isinstance(value, Hyperparameters):
            raise ValueError(f'hyperparameters must be a value such as Hyperparameters(fixed="*"); got {value!r}.')
        return value

    def learned(self) -> dict[str, Any]:
        """Return `fixed`, `train` and `tied` as tuples, which are hashable: they are part of a compilation key."""
        tied = tuple(group if isinstance(group, str) else tuple(group) for group in _names(self.tied))
        return {"fixed": _names(self.fixed), "train": _names(self.train), "tied": tied}

    def limits(self) -> dict[str, Any]:
        """Return `bounds` and `priors` as dicts."""
        return {"bounds": dict(self.bounds or {}), "priors": dict(self.priors or {})}


def _names(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)
