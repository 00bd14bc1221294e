"""get_params and set_params of the estimators, including fields of values; old arguments raise an error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

from sklearn.base import BaseEstimator

from sitewise.estimators import kernel_parameters, replaced
from sitewise.hyperparameters import Hyperparameters
from sitewise.methods import Method
from sitewise.setting import Setting
from sitewise.structures import structure_of

# Parameters whose values have fields, and the function that converts a given argument to the value.
_VALUES: dict[str, Callable[[Any], Setting]] = {
    "method": Method.of, "hyperparameters": Hyperparameters.of, "structure": structure_of,
}  # fmt: skip


class EstimatorParameters(BaseEstimator):
    """The parameters of an estimator; values are immutable, and setting one of their fields replaces the value."""

    kernel: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        names = list(inspect.signature(cls.__init__).parameters)[1:]
        replaced.refuse(cls.__name__, cls._get_param_names(), kwargs, dict(zip(names, args, strict=False)))
        return super().__new__(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, for scikit-learn's tools.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include fields of values, as in method__tol or kernel__lengthscale.
        """
        found = super().get_params(deep=False)
        if not deep:
            return found
        inner = kernel_parameters.read(self.kernel)
        for name, of in _VALUES.items():
            try:
                value = of(found[name])
            except ValueError:  # fit reports it
                continue
            inner |= {f"{name}__{field}": getattr(value, field) for field in value.fields()}
        return {**found, **inner}

    def set_params(self, **params: Any) -> Self:
        """Change parameters, for scikit-learn's tools such as GridSearchCV.

        kernel__lengthscale and the like change the kernel, which is a starting point unless held fixed by
        `hyperparameters`.

        Parameters
        ----------
        **params
            Names → values; method__tol, structure__m and the like replace the value by one with another field.

        Returns
        -------
        self
        """
        replaced.refuse(type(self).__name__, self._get_param_names(), params, super().get_params(deep=False))
        inner = {key: params.pop(key) for key in list(params) if key.partition("__")[0] in ("kernel", *_VALUES)
                 and "__" in key}  # fmt: skip
        super().set_params(**params)
        kernel = {key: inner.pop(key) for key in list(inner) if key.startswith(kernel_parameters.PREFIX)}
        if kernel:
            self.kernel = kernel_parameters.write(self.kernel, kernel)
        for name, of in _VALUES.items():
            fields = {key.removeprefix(f"{name}__"): value for key, value in inner.items() if key.startswith(name)}
            if fields:
                value = of(getattr(self, name))
                if not value.fields():
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} has no setting {next(iter(fields))!r}; set {name} to a value "
                        "that has it first, such as structure=Sparse(300)."
                    )
                setattr(self, name, value.with_fields(**fields))
        return self
